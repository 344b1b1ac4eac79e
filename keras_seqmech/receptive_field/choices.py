"""The sizes of the fields of a call, computed once for all uses.

The dict that users see, the statistics, the log-probabilities of drawn sizes
and what sizes cost are all made from one `FieldChoices`.
"""

from typing import NamedTuple

from keras import ops

from keras_seqmech.core.decisions import categorical
from keras_seqmech.receptive_field import fields
from keras_seqmech.receptive_field.cell import RFCell
from keras_seqmech.receptive_field.inputs import FieldInputs
from keras_seqmech.receptive_field.loop import FieldRun
from keras_seqmech.typing import Tensor


class FieldChoices(NamedTuple):
    """The sizes of a call, float32 or wider, 0 at masked steps.

    Attributes:
        logits: Logits of the sizes, `(batch, time, S)`.
        probabilities: Their probabilities, `(batch, time, S)`.
        size: Number of positions read, `(batch, time)`; with soft sizes, the
            sum of the weights with which positions are read.
        expected_size: Number of positions read, in expectation over the
            probabilities, `(batch, time)`.
        entropy: Entropy of the probabilities in nats, `(batch, time)`.
        log_probability: Log-probability of drawn sizes in nats, `(batch,
            time)`; None unless the estimator is `"reinforce"`.
    """

    logits: Tensor
    probabilities: Tensor
    size: Tensor
    expected_size: Tensor
    entropy: Tensor
    log_probability: Tensor | None

    def field(self) -> dict[str, Tensor]:
        """What `return_field=True` returns."""
        field = {"size": self.size, "probabilities": self.probabilities}
        if self.log_probability is not None:
            field["log_probability"] = self.log_probability
        return field


def compute_choices(
    cell: RFCell, run: FieldRun, field_inputs: FieldInputs
) -> FieldChoices:
    """Sizes, probabilities, entropies and log-probabilities of a run.

    Args:
        cell: The `RFCell` that ran.
        run: What the loop returned, with its choices.
        field_inputs: The `FieldInputs` that its fields read.

    Returns:
        `FieldChoices`, batch first.
    """
    logits, selection = run.logits, run.selection
    if logits is None:
        # There is one size only.
        steps = ops.shape(field_inputs.current)[:-1]
        selection = ops.ones((*steps, 1), cell.score_dtype)
        logits = ops.zeros_like(selection)
    validity = ops.cast(field_inputs.validity, cell.score_dtype)

    def positions_read(selection: Tensor) -> Tensor:
        keep = fields.keep_weights(selection, validity)
        return ops.sum(keep, axis=-1)

    # Not ops.softmax, which warns of an axis of size 1.
    probabilities = ops.exp(ops.log_softmax(logits, axis=-1))
    log_probability = None
    if cell.options.estimator == "reinforce":
        log_probability = categorical.log_probability(logits, selection)
    by_step = FieldChoices(
        logits,
        probabilities,
        positions_read(selection),
        positions_read(probabilities),
        categorical.entropy(logits),
        log_probability,
    )
    return FieldChoices(
        *(None if x is None else field_inputs.restore(x) for x in by_step)
    )


def field_shapes(
    cell: RFCell, batch_size: int | None, length: int | None
) -> dict[str, tuple[int | None, ...]]:
    """Shapes of what `return_field=True` returns, by name."""
    shapes: dict[str, tuple[int | None, ...]] = {
        "size": (batch_size, length),
        "probabilities": (batch_size, length, cell.max_size),
    }
    if cell.options.estimator == "reinforce":
        shapes["log_probability"] = (batch_size, length)
    return shapes
