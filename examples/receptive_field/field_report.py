"""What the sizes of a trained model's fields are like."""

from typing import NamedTuple

import numpy as np
import pandas as pd
import scipy.stats

# Fewer steps of a token tell little of how its sizes are spread.
MIN_COUNT = 10
# Columns of a report.
FIELDS = ("information", "certain")


class FieldReport(NamedTuple):
    """Means over real steps.

    `information` is the mutual information of size and token, in nats, over
    tokens that occur `MIN_COUNT` times; None if none does. `certain` is the
    share of sizes chosen with a probability above 0.9, of steps that can choose
    every size; None if none can.
    """

    mean_size: float
    information: float | None
    certain: float | None

    def row(self) -> dict[str, str]:
        """The `FIELDS` of a row."""
        return {
            name: "" if value is None else f"{value:.3f}"
            for name, value in zip(FIELDS, (self.information, self.certain))
        }


def report(
    size: np.ndarray, probabilities: np.ndarray, ids: np.ndarray
) -> FieldReport:
    """Describes fields as `analysis.decisions` has them; id 0 is padding."""
    real = ids != 0
    # The end of a text cuts sizes, which then depend on the position. Without
    # those steps alone whose own size is cut, small sizes would weigh more.
    ahead = np.pad(real, ((0, 0), (0, probabilities.shape[-1] - 1)))
    windows = np.lib.stride_tricks.sliding_window_view(
        ahead, probabilities.shape[-1], axis=1
    )
    free = windows.all(axis=-1)
    chosen = probabilities[free]
    return FieldReport(
        float(size[real].mean()),
        information(chosen.argmax(axis=-1), ids[free]),
        float((chosen.max(axis=-1) > 0.9).mean()) if free.any() else None,
    )


def information(sizes: np.ndarray, ids: np.ndarray) -> float | None:
    """Mutual information of size and token: $H(D) + H(X) - H(D, X)$.

    Tokens that occur less than `MIN_COUNT` times are left out. None if all are.
    """
    counts = pd.crosstab(sizes, ids)
    counts = counts.loc[:, counts.sum() >= MIN_COUNT].to_numpy()
    if not counts.size:
        return None
    by_size, by_token = counts.sum(axis=1), counts.sum(axis=0)
    return _entropy(by_size) + _entropy(by_token) - _entropy(counts.ravel())


def _entropy(counts: np.ndarray) -> float:
    """Entropy in nats, with Miller and Madow's correction of its bias.

    Without the correction, tokens of few steps would look informative.
    """
    counts = counts[counts > 0]
    correction = (len(counts) - 1) / (2 * counts.sum())
    return float(scipy.stats.entropy(counts)) + correction
