"""The two loops behind `FocusedHierarchicalEncoder`.

The lower network reads every step. The upper one has two implementations with
the same results: `run_open` shortens each row to the steps whose gates are
open, runs over those, and brings the states back; `run_every` computes a
candidate at every step and blends it in by the gate, as soft gates and the
gradients of closed gates need it.

They take a built `LSTMCell`, a finite sequence `(batch, time, features)`, which
for the upper network holds the lower states, and the initial h and c, `(batch,
units)` each.
"""

from typing import Any
from typing import NamedTuple

import keras
import tensorflow as tf
from keras import ops

from keras_seqmech._keras_compat import in_xla
from keras_seqmech.core import cells
from keras_seqmech.core import masks
from keras_seqmech.core.kept_steps import Packing
from keras_seqmech.core.kept_steps import compact
from keras_seqmech.core.kept_steps import entries
from keras_seqmech.core.kept_steps import longest
from keras_seqmech.core.kept_steps import pack
from keras_seqmech.core.scan.loop import scan
from keras_seqmech.core.scan.packed_loop import can_pack
from keras_seqmech.core.scan.protocol import Constant
from keras_seqmech.core.scan.protocol import Named
from keras_seqmech.core.scan.protocol import Product
from keras_seqmech.core.scan.protocol import ScanOptions
from keras_seqmech.core.scan.protocol import States
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
        """Puts together what a call returns, a tensor or a tuple of all.

        Args:
            upper: Results of the upper network.
            lower_states: Final h and c of the lower network.
            decisions: The dict of `return_gates`.
            mask: Boolean tensor `(batch, time)` or None.
        """
        if self.focused:
            returned = [upper.focused, upper.focused_mask]
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


class LoopOptions(NamedTuple):
    """How the loops run.

    Attributes:
        training: Whether to use the recomputing gradient.
        jit_compile: Whether to compile the loops over all steps with XLA where
            the code around them is not.
        packed: Whether loops of rows that differ, by masks or hard gates, run
            packed where they can.
    """

    training: bool = False
    jit_compile: bool = False
    packed: bool = True

    @property
    def scan(self) -> ScanOptions:
        """Options of `scan` for a loop over all steps."""
        return ScanOptions(
            recompute_gradient=self.training, jit_compile=self.jit_compile
        )


def run_lower(
    cell: keras.layers.LSTMCell,
    sequence: Tensor,
    states: States,
    mask: Tensor | None,
    options: LoopOptions,
) -> tuple[Tensor, States]:
    """Runs the lower cell over all steps; masked ones keep the states.

    Returns:
        The states h after each step, `(batch, time, units)`, and the final
        states.
    """
    if mask is not None and options.packed and can_pack(options.scan):
        packing = pack(mask)
        hidden, finals = _run_kept(
            cell, sequence, packing, states, options.scan
        )
        return packing.hold(hidden, states[0]), finals
    return _run_padded(cell, sequence, mask, states, options)


def _run_padded(
    cell: keras.layers.LSTMCell,
    sequence: Tensor,
    gates: Tensor | None,
    states: States,
    options: LoopOptions,
) -> tuple[Tensor, States]:
    """Runs a cell at every step: state = b * new + (1 - b) * old.

    The gates b, `(batch, time)` from 0 to 1 or boolean, are 1 if None.

    Returns:
        The states h after each step, `(batch, time, units)`, and the final
        states.
    """
    dtype = sequence.dtype
    run = cells.prepare(
        cell, ops.transpose(sequence, (1, 0, 2)), dtype, options.training
    )
    gate = blend = None
    if gates is not None:
        by_step = ops.transpose(gates)[..., None]
        if gates.dtype == tf.bool:
            gate, blend = Constant(by_step), tf.where
        else:
            gate, blend = ops.cast(by_step, dtype), _blend

    def step(operands: tuple, states: States) -> tuple[Named, States]:
        of_cell, gate = operands
        _, new = run.step(of_cell, states)
        if blend is not None:
            new = tuple(blend(gate, a, b) for a, b in zip(new, states))
        return {"hidden": new[0]}, new

    values, states = scan(
        step,
        (run.operands, gate),
        states,
        {"hidden": tf.TensorSpec((sequence.shape[0], cell.units), dtype)},
        options.scan,
    )
    return ops.transpose(values["hidden"], (1, 0, 2)), states


def _blend(gate: Tensor, new: Tensor, old: Tensor) -> Tensor:
    return gate * new + (1 - gate) * old


def _run_kept(
    cell: keras.layers.LSTMCell,
    sequence: Tensor,
    packing: Packing,
    states: States,
    options: ScanOptions,
) -> tuple[Tensor, States]:
    """Runs an `LSTMCell` over kept steps alone, products with inputs too.

    Returns:
        The states h after each kept step, packed, and each row's final states.
    """
    run = cells.prepare(
        cell,
        packing.gather(sequence),
        sequence.dtype,
        options.recompute_gradient,
    )

    def step(operands: Any, states: States) -> tuple[Named, States]:
        _, states = run.step(operands, states)
        return {"hidden": states[0]}, states

    states = tuple(tf.ensure_shape(x, (None, cell.units)) for x in states)
    values, states = scan(
        step,
        run.operands,
        states,
        {"hidden": tf.TensorSpec((None, cell.units), sequence.dtype)},
        options,
        packing=packing,
    )
    return values["hidden"], states


def run_every(
    cell: keras.layers.LSTMCell,
    sequence: Tensor,
    gates: Tensor,
    states: States,
    options: LoopOptions,
    returned: ReturnOptions,
) -> UpperOutputs:
    """Runs the upper cell at every step: state = b * new + (1 - b) * old.

    All `gates`, `(batch, time)` from 0 to 1 and 0 at masked steps, get a
    gradient, closed ones too. The focused states are those at gates above one
    half.
    """
    hidden, states = _run_padded(cell, sequence, gates, states, options)
    if not returned.focused:
        return UpperOutputs(states, hidden)
    kept = compact(gates > 0.5)
    focused = kept.gather(hidden)
    return UpperOutputs(states, hidden, focused, kept.mask, kept.indices)


def run_open(
    cell: keras.layers.LSTMCell,
    sequence: Tensor,
    gates: Tensor,
    states: States,
    options: LoopOptions,
    returned: ReturnOptions,
) -> UpperOutputs:
    """Runs the upper cell over the open steps of each row alone.

    The loop is packed, so that a row is done after its own open steps. Compiled
    with XLA it cannot be: there rows wait for the one with most open steps,
    arrays have room for all steps, and the loops, backward too, end after the
    open steps of that row. The loop is not compiled on its own, as the number
    of open steps differs from batch to batch.

    Gates are open above one half, and get no gradient.
    """
    packed = options.packed and can_pack()
    run = _run_packed if packed else _run_shortened
    return run(cell, sequence, gates > 0.5, states, options, returned)


def _run_packed(
    cell: keras.layers.LSTMCell,
    sequence: Tensor,
    keep: Tensor,
    states: States,
    options: LoopOptions,
    returned: ReturnOptions,
) -> UpperOutputs:
    """`run_open`, packed."""
    packing = pack(keep)
    loop = ScanOptions(recompute_gradient=options.training)
    hidden, finals = _run_kept(cell, sequence, packing, states, loop)
    outputs = UpperOutputs(finals if returned.state else finals[:1])
    if returned.sequences:
        expanded = packing.hold(hidden, states[0])
        outputs = outputs._replace(sequence=expanded)
    if returned.focused:
        kept = compact(keep)
        places = tf.gather(packing.last, kept.indices, batch_dims=1)
        outputs = outputs._replace(
            focused=entries(hidden, tf.where(kept.mask, places, -1)),
            focused_mask=kept.mask,
            focused_indices=kept.indices,
        )
    return outputs


def _run_shortened(
    cell: keras.layers.LSTMCell,
    sequence: Tensor,
    keep: Tensor,
    states: States,
    options: LoopOptions,
    returned: ReturnOptions,
) -> UpperOutputs:
    """`run_open`, each row shortened to its open steps, and padded."""
    kept = compact(keep)
    compacted = ops.transpose(kept.gather(sequence), (1, 0, 2))
    if in_xla():
        run = _project_in_loop(cell, compacted)
        steps = longest(keep)
    else:
        run = cells.prepare(cell, compacted, compacted.dtype, options.training)
        steps = None
    names = ("hidden", "carry") if returned.state else ("hidden",)

    def keep_states(operands: Any, states: States) -> tuple[Named, States]:
        _, states = run.step(operands, states)
        return dict(zip(names, states)), states

    spec = tf.TensorSpec((sequence.shape[0], cell.units), sequence.dtype)
    outputs, _ = scan(
        keep_states,
        run.operands,
        states,
        dict.fromkeys(names, spec),
        ScanOptions(recompute_gradient=options.training, steps=steps),
    )
    values = [ops.transpose(outputs[name], (1, 0, 2)) for name in names]
    finals = tuple(
        kept.final(value, initial) for initial, value in zip(states, values)
    )
    expanded = focused = None
    if returned.sequences:
        expanded = kept.hold(values[0], states[0])
    if returned.focused:
        focused = masks.zero_masked(values[0], kept.mask)
    return UpperOutputs(finals, expanded, focused, kept.mask, kept.indices)


def _project_in_loop(
    cell: keras.layers.LSTMCell, sequence: Tensor
) -> cells.CellRun:
    """A cell whose step computes the products with its inputs itself.

    Compiled with XLA, arrays have room for all steps: products before the loop
    would be computed for all of them.
    """
    kernel, recurrent_kernel, bias = (
        ops.cast(variable, sequence.dtype)
        for variable in (cell.kernel, cell.recurrent_kernel, cell.bias)
    )

    def step(operands: tuple, states: States) -> tuple[Tensor, States]:
        inputs, project, multiply = operands
        (projected,) = project(inputs)

        def both(hidden: Tensor) -> list[Tensor]:
            (product,) = multiply(hidden)
            return tf.split(projected + product, 4, axis=-1)

        return cells.lstm_step(cell, both, states)

    products = Product(kernel, bias=bias), Product(recurrent_kernel)
    return cells.CellRun((sequence, *products), step)
