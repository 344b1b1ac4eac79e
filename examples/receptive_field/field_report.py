"""What the sizes of a trained model's fields are like."""

from collections.abc import Sequence
from typing import NamedTuple

import keras
import numpy as np

from keras_seqmech import ReceptiveFieldRNN
from keras_seqmech import analysis

# Fewer steps of a token tell little of how its sizes are spread.
MIN_COUNT = 10
# Of a report, beside what the rows of runs have had.
FIELDS = ("information", "certain")
OLDER = dict.fromkeys(FIELDS, "")


class FieldReport(NamedTuple):
    """Means over real steps.

    Attributes:
        mean_size: Positions read.
        information: Mutual information of size and token, in nats, over
            tokens that occur `MIN_COUNT` times; None if none does.
        certain: Share of sizes chosen with a probability above 0.9.
    """

    mean_size: float
    information: float | None
    certain: float

    def row(self) -> dict[str, str]:
        """The `FIELDS` of a row."""
        known = self.information is not None
        return {
            "information": f"{self.information:.3f}" if known else "",
            "certain": f"{self.certain:.3f}",
        }


def field_of(layer: ReceptiveFieldRNN) -> dict[str, keras.KerasTensor]:
    """The dict of a layer with `return_field=True`, in its model."""
    # Keras keeps the outputs of a layer in a flat list.
    sequences, *_ = keras.tree.flatten(layer.input)
    form = layer.compute_output_spec(sequences)
    *_, field = keras.tree.pack_sequence_as(form, layer.output)
    return field


def report(
    size: np.ndarray, probabilities: np.ndarray, ids: np.ndarray
) -> FieldReport:
    """Describes fields.

    Args:
        size: `(batch, time)`, as `ReceptiveFieldRNN` returns it.
        probabilities: `(batch, time, S)`, likewise.
        ids: Of tokens, `(batch, time)`, 0 at padding.
    """
    real = ids != 0
    information = None
    if (np.bincount(ids[real]) >= MIN_COUNT).any():
        information = analysis.decision_information(
            probabilities.argmax(axis=-1), ids, real, MIN_COUNT
        )
    return FieldReport(
        float(size[real].mean()),
        information,
        analysis.decided_share(probabilities, real),
    )


def average(reports: Sequence[FieldReport]) -> FieldReport:
    """The mean of several layers' reports of the same texts."""
    known = [x.information for x in reports if x.information is not None]
    return FieldReport(
        float(np.mean([x.mean_size for x in reports])),
        float(np.mean(known)) if known else None,
        float(np.mean([x.certain for x in reports])),
    )
