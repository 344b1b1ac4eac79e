"""What a `FocusedHierarchicalEncoder` puts out, in order.

First the states, in one of three forms; then, each if asked for, the final
states and the dict of decisions. The functions read the `return_...` options
of the encoder they are given.
"""

from typing import Any

import keras
from keras import ops

from keras_seqmech.ops import masking


def assemble(
    encoder: keras.Layer,
    upper: Any,
    lower_states: tuple,
    decisions: dict,
    mask: Any | None,
) -> Any:
    """Puts together what a call returns.

    Args:
        encoder: The encoder.
        upper: `UpperOutputs` of its upper network.
        lower_states: Final h and c of its lower network.
        decisions: What its gate put out.
        mask: Boolean tensor `(batch, time)` or None.

    Returns:
        A tensor, or a tuple of all that is asked for.
    """
    if encoder.return_focused:
        returned = [upper.focused, upper.focused_mask]
        decisions = {**decisions, "indices": upper.focused_indices}
    elif encoder.return_sequences:
        started = None
        if mask is not None:
            started = ops.cumsum(ops.cast(mask, "int32"), axis=1)
        returned = [masking.zero_masked(upper.sequence, started)]
    else:
        output = upper.states[0]
        if mask is not None:
            real = ops.any(mask, axis=1, keepdims=True)
            output = ops.where(real, output, ops.zeros_like(output))
        returned = [output]
    if encoder.return_state:
        returned += [*lower_states, *upper.states]
    if encoder.return_gates:
        returned.append(decisions)
    return _one_or_all(returned)


def shapes(encoder: keras.Layer, sequence_shape: tuple) -> Any:
    """Shapes of what `assemble` returns."""
    return keras.tree.map_structure(
        lambda spec: spec.shape, specs(encoder, sequence_shape)
    )


def specs(encoder: keras.Layer, sequence_shape: tuple) -> Any:
    """Shapes and dtypes of what `assemble` returns, as `KerasTensor`s."""
    batch_size, length, _ = sequence_shape
    units, dtype = encoder.units, encoder.compute_dtype

    def spec(*shape, dtype=dtype):
        return keras.KerasTensor((batch_size, *shape), dtype=dtype)

    if encoder.return_focused:
        returned = [spec(None, units), spec(None, dtype="bool")]
    elif encoder.return_sequences:
        returned = [spec(length, units)]
    else:
        returned = [spec(units)]
    if encoder.return_state:
        returned += [spec(size) for size in encoder.state_size]
    if encoder.return_gates:
        _, decisions = encoder.gate.decision_shapes((batch_size, length))
        decisions = {
            name: spec(length, dtype=encoder.gate.score_dtype)
            for name in decisions
        }
        if encoder.return_focused:
            decisions["indices"] = spec(None, dtype="int32")
        returned.append(decisions)
    return _one_or_all(returned)


def _one_or_all(returned):
    return returned[0] if len(returned) == 1 else tuple(returned)
