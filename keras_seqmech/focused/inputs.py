"""Checks of a sequence, its mask and the context that it is read for."""

from typing import Any

from keras_seqmech.core import checks
from keras_seqmech.core import masks
from keras_seqmech.typing import Tensor


def check_shapes(sequence_shape: Any, context_shape: Any) -> None:
    """Refuses, before a layer is built, shapes that it cannot be built for."""
    checks.check_sequences("sequence.shape", sequence_shape)
    checks.check_context("context.shape", context_shape, sequence_shape)


def check_inputs(
    layer: Any, sequence: Tensor, context: Tensor, sequence_mask: Any, mask: Any
) -> None:
    """Refuses inputs whose static shapes or dtypes do not fit.

    `mask` must be None. The `layer` has the features of sequence and context
    that it was built for, `size` and `context_size`, None before.
    """
    check_shapes(sequence.shape, context.shape)
    checks.check_features("sequence.shape", sequence.shape, layer.size)
    checks.check_features("context.shape", context.shape, layer.context_size)
    checks.check_mask("sequence_mask", sequence_mask, sequence.shape)
    checks.check_no_mask(mask, "sequence_mask")


def assert_sizes(
    sequence: Tensor, context: Tensor, sequence_mask: Any
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Refuses, when it runs, sizes that static shapes left open."""
    sequence = checks.assert_length("sequence.shape", sequence)
    context = checks.assert_rows("context", context, sequence)
    real = masks.as_booleans(sequence_mask)
    return (
        sequence,
        context,
        checks.assert_by_step("sequence_mask", real, sequence),
    )
