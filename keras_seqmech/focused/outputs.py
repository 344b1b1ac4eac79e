"""What a `FocusedHierarchicalEncoder` returns, in order.

First the states, in one of three forms; then, each if asked for, the final
states and the dict of decisions.
"""

from typing import Any
from typing import NamedTuple

import keras
from keras import ops

from keras_seqmech.core import masks
from keras_seqmech.typing import Tensor


class UpperOutputs(NamedTuple):
    """Results of the upper network; those not asked for are None.

    Attributes:
        states: Final states h and c, `(batch, units)` each; h alone where the
            loop was not asked for c.
        sequence: States after every step, `(batch, time, units)`.
        focused: States after the open steps, `(batch, K, units)`, 0 where the
            mask is False.
        focused_mask: Boolean `(batch, K)`.
        focused_indices: The open steps, int32 `(batch, K)`, 0 where the mask
            is False.
    """

    states: tuple[Tensor, ...]
    sequence: Tensor | None = None
    focused: Tensor | None = None
    focused_mask: Tensor | None = None
    focused_indices: Tensor | None = None


class ReturnOptions(NamedTuple):
    """The `return_...` arguments of the encoder."""

    sequences: bool = False
    state: bool = False
    focused: bool = False
    gates: bool = False

    def assemble(
        self,
        upper: UpperOutputs,
        lower_states: tuple[Tensor, ...],
        decisions: dict[str, Tensor],
        mask: Tensor | None,
    ) -> Any:
        """Puts together what a call returns.

        Args:
            upper: Results of the upper network.
            lower_states: Final h and c of the lower network.
            decisions: The gate's decisions, by name.
            mask: Boolean tensor `(batch, time)` or None.

        Returns:
            A tensor, or a tuple of all that is asked for.
        """
        if self.focused:
            returned = [upper.focused, upper.focused_mask]
            decisions = {**decisions, "indices": upper.focused_indices}
        elif self.sequences:
            started = None
            if mask is not None:
                started = ops.cumsum(ops.cast(mask, "int32"), axis=1)
            returned = [masks.zero_masked(upper.sequence, started)]
        else:
            output = upper.states[0]
            if mask is not None:
                real = ops.any(mask, axis=1, keepdims=True)
                output = ops.where(real, output, ops.zeros_like(output))
            returned = [output]
        if self.state:
            returned += [*lower_states, *upper.states]
        if self.gates:
            returned.append(decisions)
        return _one_or_all(returned)

    def specs(
        self,
        sequence_shape: tuple,
        state_sizes: list[int],
        dtype: str,
        decisions: dict[str, keras.KerasTensor],
    ) -> Any:
        """Shapes and dtypes of what `assemble` returns, as `KerasTensor`s.

        Args:
            sequence_shape: `(batch, time, features)`.
            state_sizes: Sizes of lower h, lower c, upper h, upper c.
            dtype: Dtype of the states.
            decisions: Specs of the gate's decisions, by name.
        """
        batch_size, length, _ = sequence_shape
        units = state_sizes[-1]

        def spec(*shape: Any, dtype: Any = dtype) -> keras.KerasTensor:
            return keras.KerasTensor((batch_size, *shape), dtype=dtype)

        if self.focused:
            returned = [spec(None, units), spec(None, dtype="bool")]
            indices = spec(None, dtype="int32")
            decisions = {**decisions, "indices": indices}
        elif self.sequences:
            returned = [spec(length, units)]
        else:
            returned = [spec(units)]
        if self.state:
            returned += [spec(size) for size in state_sizes]
        if self.gates:
            returned.append(decisions)
        return _one_or_all(returned)


def _one_or_all(returned: list[Any]) -> Any:
    return returned[0] if len(returned) == 1 else tuple(returned)
