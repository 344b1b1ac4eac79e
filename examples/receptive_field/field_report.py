"""What the sizes of a trained model's fields are like."""

from typing import NamedTuple

import numpy as np

from keras_seqmech import analysis
from keras_seqmech.analysis.by_step import free_steps

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
    free = free_steps(real, probabilities.shape[-1])
    information = None
    if (np.bincount(ids[free]) >= MIN_COUNT).any():
        information = analysis.decision_information(
            probabilities.argmax(axis=-1), ids, free, MIN_COUNT
        )
    return FieldReport(
        float(size[real].mean()),
        information,
        _certain(probabilities[free]) if free.any() else None,
    )


def _certain(probabilities: np.ndarray) -> float:
    return float((probabilities.max(axis=-1) > 0.9).mean())
