"""What the fields of an `RFCell` were, in the form users see."""

from typing import Any

from keras import ops

from keras_seqmech.ops import receptive_field
from keras_seqmech.ops.decisions import categorical


def describe(cell, result, mask: Any | None) -> tuple[dict[str, Any], Any]:
    """Turns the selections of a run into sizes and probabilities.

    Args:
        cell: The `RFCell` that ran.
        result: The `FieldOutputs` of the run, time first.
        mask: Boolean tensor `(batch, time)` or None.

    Returns:
        A dict, zeros at masked steps: `"size"`, the number of positions read,
        `(batch, time)`; `"probabilities"`, `(batch, time, max_size)`; for
        `"reinforce"` also `"log_probability"`, `(batch, time)`. And the
        entropy of the probabilities in nats, `(batch, time)`.
    """
    selection, logits = _choices(cell, result)
    keep = receptive_field.keep_weights(
        selection, ops.cast(result.validity, cell.score_dtype)
    )
    # Not ops.softmax, which warns of an axis of size 1.
    probabilities = ops.exp(ops.log_softmax(logits, axis=-1))
    field = {"size": ops.sum(keep, axis=-1), "probabilities": probabilities}
    if cell.estimator == "reinforce":
        field["log_probability"] = categorical.log_probability(
            logits, selection
        )
    if mask is not None:
        real = ops.transpose(mask)
        field = {name: _zero(value, real) for name, value in field.items()}
    field = {name: ops.swapaxes(value, 0, 1) for name, value in field.items()}
    return field, ops.transpose(categorical.entropy(logits))


def log_probability(cell, result, mask: Any | None) -> Any:
    """Log-probability of all sizes drawn for a row, in nats, `(batch,)`."""
    selection, logits = _choices(cell, result)
    values = categorical.log_probability(logits, selection)
    if mask is not None:
        values = _zero(values, ops.transpose(mask))
    return ops.sum(values, axis=0)


def shapes(cell, batch_size: int | None, length: int | None) -> dict:
    """Shapes of what `describe` returns, by name."""
    result = {
        "size": (batch_size, length),
        "probabilities": (batch_size, length, cell.max_size),
    }
    if cell.estimator == "reinforce":
        result["log_probability"] = (batch_size, length)
    return result


def _choices(cell, result):
    """Selection and logits, also where there is but one size."""
    if cell.max_size > 1:
        return result.selection, result.logits
    batch_and_time = ops.shape(result.outputs)[:2]
    selection = ops.ones((*batch_and_time, 1), cell.score_dtype)
    return selection, ops.zeros_like(selection)


def _zero(values, real):
    """Zeros where not `real`; a product would keep NaN."""
    real = real if len(values.shape) == 2 else real[..., None]
    return ops.where(real, values, ops.zeros_like(values))
