"""The adaptive receptive field as a recurrent layer, and its fast loop.

What a field reads depends on the state only through its size. So what `hoist`
computes (see `keras_seqmech.receptive_field.field`), and the products of the
cell with its inputs, are computed for all steps at once, in few large products;
the loop runs `field_step` and the rest of the cell.

Under a mask, if the loop can run packed, all of this is computed at real steps
only, and masked steps are inserted again after it.
"""

from typing import Any
from typing import NamedTuple

import keras
import tensorflow as tf
from keras import ops

from keras_seqmech.core import cells
from keras_seqmech.core import checks
from keras_seqmech.core import masks
from keras_seqmech.core.decisions import reports
from keras_seqmech.core.decisions.choices import Decision
from keras_seqmech.core.decisions.learning import DecisionPenalties
from keras_seqmech.core.decisions.learning import PenaltyWeights
from keras_seqmech.core.decisions.learning import as_log_weight
from keras_seqmech.core.kept_steps import Layout
from keras_seqmech.core.kept_steps import States
from keras_seqmech.core.kept_steps import layout_of
from keras_seqmech.core.layers import freeze_parts
from keras_seqmech.core.layers import output_specs
from keras_seqmech.core.loop import Named
from keras_seqmech.core.loop import ScanOptions
from keras_seqmech.core.loop import can_pack
from keras_seqmech.core.loop import scan
from keras_seqmech.receptive_field.ahead import DecidesSizes
from keras_seqmech.receptive_field.ahead import views_of
from keras_seqmech.receptive_field.ahead import within
from keras_seqmech.receptive_field.cell import FieldSteps
from keras_seqmech.receptive_field.cell import RFCell
from keras_seqmech.receptive_field.field import field_step
from keras_seqmech.receptive_field.field import forget
from keras_seqmech.receptive_field.field import hoist
from keras_seqmech.typing import Tensor


class FieldRun(NamedTuple):
    """Results of the loop, in a layout.

    Attributes:
        layout: The real steps.
        outputs: The cell's outputs.
        states: Flat tuple of final states `(batch, size)`.
        validity: Whether each position of a field exists and is real, `(...,
            S)`.
        allowed: Whether it is within the limit, too.
        selection: Selected sizes `(..., S)`; None unless asked for.
        logits: Size logits, likewise.
    """

    layout: Layout
    outputs: Tensor
    states: States
    validity: Tensor
    allowed: Tensor
    selection: Tensor | None = None
    logits: Tensor | None = None


@keras.saving.register_keras_serializable(package="keras_seqmech")
class ReceptiveFieldRNN(DecidesSizes, keras.layers.RNN):
    r"""Recurrent layer that looks ahead as far as each step needs.

    `keras.layers.RNN(RFCell(cell, max_size))` over look-ahead windows: the
    same weights and the same answers (see `RFCell` for the equations), but it
    takes plain sequences and is several times faster, because all products
    with the inputs, and at inference the whole inner network, are hoisted out
    of the loop.

    Its own arguments come after `seed`; those before are the cell's.

    Args:
        cell: A Keras cell or a list of cells to stack.
        max_size: Positive int, the largest field size S.
        field_units: Width of the inner network. Defaults to the size of the
            cell's first state.
        summary: What the gate sees of a field: `"mean"` of its inner states or
            the `"last"` one.
        estimator: How sizes are learned: `"relaxed"`, `"straight_through"`, or
            `"reinforce"`, in a `PolicyGradientModel`.
        temperature: Positive float, that of the relaxed sample.
        activation: The inner network's activation, without weights.
        gated: The state that the gate multiplies: the cell's `"memory"`, its
            last one, or its `"output"`, the first.
        size_from: What the size is chosen from: the step's `"input"`, or what
            the `"field"` has read so far.
        penalties: Auxiliary losses of the sizes, a
            `keras_seqmech.DecisionPenalties`; None for no losses.
        unit_forget_bias: Whether the gate's bias starts at 1, so that it starts
            mostly open; else at 0.
        kernel_initializer: Initializer of the kernels.
        recurrent_initializer: Initializer of the inner network's recurrent
            kernel.
        kernel_regularizer: Regularizer of all the kernels.
        inference: How inference chooses sizes: `"greedy"`, without noise, or
            `"sample"`, drawn.
        seed: Int, seed of the noise.
        return_field: Whether to return, after everything else, a dict with
            `"size"`, the number of positions read, `(batch, time)`, expected
            under soft sizes; `"probabilities"` of the sizes, `(batch, time,
            max_size)`; and with `estimator="reinforce"` `"log_probability"`
            of the drawn sizes, `(batch, time)`. float32 or wider, 0 at masked
            steps. `keras.layers.Bidirectional` cannot merge it: use a layer
            for each direction.
        track_statistics: Whether to keep metrics, which appear in `history`:
            `<name>_penalty`, in training, the auxiliary losses in `loss`;
            `<name>_mean_delay` and `<name>_delay_percentile`, mean and 95th
            percentile of the steps that each step waits for in a stream (see
            `analysis.emission_delay`; exact for hard sizes); and over the
            steps with `max_size` real positions to read, as others cannot
            choose every size, `<name>_mean_size`; of these, over those that no
            limit holds, `<name>_size_entropy`, of the size probabilities, in
            nats; `<name>_certain`, the share of sizes chosen with a
            probability above 0.9; and `<name>_choice_entropy`, the entropy of
            the likeliest sizes, 0 where all are equal. They are 0 where no row
            has such a step.
        jit_compile: Whether to compile the loop of training steps with XLA
            where the model is not, in `fit` or another `tf.function`. On CPU
            it takes half the time or less at small widths (see the
            benchmarks); it compiles for seconds, and again for every new
            length. Cells that run step by step as they are (see Cost) are
            left uncompiled.
        return_sequences: Whether to return every step, or the last only.
        return_state: Whether to return the final states too.
        go_backwards: Whether to read from the end. Fields then reach towards
            the start (as if the sequence were flipped first), and outputs come
            in reading order, as in Keras.
        stateful: Whether to start from the states the last batch ended with.
        zero_output_for_mask: Whether masked steps return zeros; by default
            they repeat the output before.
        **kwargs: Base layer keyword arguments, such as `name` and `dtype`.

    Call arguments:
        sequence: Tensor `(batch, time, features)`.
        initial_state: List of the cell's states; zeros if None.
        mask: Boolean tensor `(batch, time)`, any pattern, True where a step
            is real.
        weight: Tensor `(batch,)`, the weight of what is read, from a
            `ReadingWeight`: one training for a whole range of them. Sizes see
            $\log_{10} 100 w$. Required in every call if the layer was built
            with it.
        limit: Int tensor `(batch,)` or `(batch, time)`, such as from a
            `ReadingLimit`: the most further steps that a step may read and
            wait for. What it asks for beyond is not read. A stream answers in
            order: a step may wait longer for one before it with a longer
            limit. None for no limit.
        training: Whether sizes are drawn (from noise drawn once a call) and
            dropout is active.
        sequence_mask: What Keras fills in for `mask` beside further tensors;
            without effect if that is given.

    Input shape:
        `(batch, time, features)`.

    Output shape:
        `(batch, time, units)` with `return_sequences`, else `(batch, units)`;
        with `return_state`, followed by the states; with `return_field`,
        followed by the dict.

    Masking: a field contains no masked position; masked steps keep the state.
    The values there reach neither outputs nor gradients. A row without a
    real step gives zeros.

    Cost: time linear in T and S, for inner width f and u units O(T (S f^2 +
    f u)) beside the cell's own. Training holds O(T) states and products, with
    drawn sizes O(T S f). `SimpleRNNCell`, `LSTMCell` and `GRUCell` have their
    input products hoisted out of the loop; other cells, cells with dropout in
    training, or with an activation that has weights, run step by step as they
    are. Under a mask, the cost grows with the total number
    of real steps, not with the longest row. This does not hold in loops
    compiled with XLA, or for cells that run step by step.

    Example:

    >>> import keras, numpy as np
    >>> cell = keras.layers.LSTMCell(8)
    >>> layer = ReceptiveFieldRNN(cell, max_size=4, return_field=True)
    >>> outputs, field = layer(np.ones((2, 7, 5)))
    >>> outputs.shape, field["size"].shape, field["probabilities"].shape
    (TensorShape([2, 8]), TensorShape([2, 7]), TensorShape([2, 7, 4]))

    Source: "An Informative Adaptive Receptive Field Model for Recurrent
    Neural Networks", equations 1 to 8.
    """

    def __init__(
        self,
        cell: Any,
        max_size: int,
        field_units: int | None = None,
        summary: str = "mean",
        estimator: str = "relaxed",
        temperature: float = 1.0,
        activation: Any = "tanh",
        gated: str = "memory",
        size_from: str = "input",
        penalties: DecisionPenalties | None = None,
        unit_forget_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        kernel_regularizer: Any = None,
        inference: str = "greedy",
        seed: int | None = None,
        return_field: bool = False,
        track_statistics: bool = False,
        jit_compile: bool = False,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        zero_output_for_mask: bool = False,
        **kwargs: Any,
    ):
        check_bool = checks.check_bool
        if "unroll" in kwargs:  # `RNN` would take it.
            raise ValueError(
                "Unrecognized keyword arguments passed to "
                f"{type(self).__name__}. Received: unroll={kwargs['unroll']!r}"
            )
        field_cell = RFCell(
            cell,
            max_size,
            field_units=field_units,
            summary=summary,
            estimator=estimator,
            temperature=temperature,
            activation=activation,
            gated=gated,
            size_from=size_from,
            penalties=penalties,
            unit_forget_bias=unit_forget_bias,
            kernel_initializer=kernel_initializer,
            recurrent_initializer=recurrent_initializer,
            kernel_regularizer=kernel_regularizer,
            inference=inference,
            seed=seed,
            name="rf_cell",
            dtype=kwargs.get("dtype"),
        )
        super().__init__(
            field_cell,
            return_sequences=check_bool("return_sequences", return_sequences),
            return_state=check_bool("return_state", return_state),
            go_backwards=check_bool("go_backwards", go_backwards),
            stateful=check_bool("stateful", stateful),
            zero_output_for_mask=check_bool(
                "zero_output_for_mask", zero_output_for_mask
            ),
            **kwargs,
        )
        self.supports_masking = True
        # The cell's arguments, checked.
        self.field_units = field_cell.field_units
        self.summary = field_cell.summary
        self.activation = field_cell.activation
        self.gated = field_cell.gated
        self.size_from = field_cell.size_from
        self.unit_forget_bias = field_cell.unit_forget_bias
        self.kernel_initializer = field_cell.kernel_initializer
        self.recurrent_initializer = field_cell.recurrent_initializer
        self.kernel_regularizer = field_cell.kernel_regularizer
        self.seed = field_cell.seed
        self.return_field = check_bool("return_field", return_field)
        self.track_statistics = check_bool("track_statistics", track_statistics)
        self.jit_compile = check_bool("jit_compile", jit_compile)
        # Whether the loop runs packed where it can.
        self.packed = True
        if track_statistics:
            self.keep_statistics()
        freeze_parts(self)

    @property
    def max_size(self) -> int:
        """The largest field size S."""
        return self.cell.max_size

    @property
    def estimator(self) -> str:
        """The estimator of the sizes' gradients."""
        return self.cell.estimator

    @property
    def inference(self) -> str:
        """The mode of inference; see `RFCell.inference`."""
        return self.cell.inference

    @inference.setter
    def inference(self, inference: str) -> None:
        self.cell.inference = inference

    @property
    def temperature(self) -> keras.Variable | None:
        """The relaxed sample's temperature; None before the layer is built.

        Its `assign` changes it; nothing is traced again.
        """
        return self.cell.temperature

    @property
    def penalties(self) -> DecisionPenalties:
        """The auxiliary losses of the sizes, as given."""
        return self.cell.penalties

    @property
    def penalty_weights(self) -> PenaltyWeights:
        """The weights of the auxiliary losses, as variables."""
        return self.cell.penalty_weights

    def build(
        self,
        sequence_shape: Any,
        initial_state_shape: Any = None,
        weight_shape: Any = None,
    ) -> None:
        checks.check_sequences("sequence.shape", sequence_shape)
        batch_size, length, features = sequence_shape
        if self.stateful and batch_size is None:
            raise ValueError(
                "A layer with `stateful=True` needs a static batch size; give "
                "it by `keras.Input(batch_shape=...)`. "
                f"Received: sequence.shape={tuple(sequence_shape)}"
            )
        self.takes_weight = self.cell.takes_weight = weight_shape is not None
        super().build((batch_size, length, self.max_size, features + 1))

    def call(
        self,
        sequence: Tensor,
        initial_state: Any = None,
        mask: Tensor | None = None,
        weight: Tensor | None = None,
        limit: Tensor | None = None,
        training: bool = False,
        sequence_mask: Tensor | None = None,
    ) -> Any:
        mask = masks.given(mask, sequence_mask)
        self._check_call(sequence, initial_state, mask)
        weight = self.check_weight(weight, sequence)
        limit = checks.checked_limit(limit, sequence, self.max_size)
        sequence, mask = checks.assert_steps(sequence, mask)
        if self.stateful:
            sequence = checks.assert_stateful_rows(sequence, self.states)
        states = self._initial_states(initial_state, sequence)
        sequence, mask, limit = self._in_reading_order(sequence, mask, limit)
        log_weight = as_log_weight(weight, self.score_dtype)
        training = bool(training)
        run = self._run(sequence, mask, states, log_weight, limit, training)
        if self.stateful:
            kept = keras.tree.flatten(self.states)
            for variable, state in zip(kept, run.states):
                variable.assign(state)
        outputs = [self._outputs(run)]
        if self.return_state:
            outputs += keras.tree.pack_sequence_as(
                self.state_size, list(run.states)
            )
        if not self._keeps_choices(training):
            return reports.returned(outputs)
        sizes = self._sizes(run)
        positions: list[Tensor] = []
        if self.statistics is not None:
            # Without masks one row stands for all.
            shape = (*ops.shape(sizes.read), self.max_size)
            positions = [
                ops.broadcast_to(run.layout.scatter(x), shape)
                for x in (run.validity, run.allowed)
            ]
        self.conclude(sizes, mask, weight, training, *positions)
        return reports.with_decisions(
            self, outputs, sizes.shown("size"), self.return_field
        )

    def _keeps_choices(self, training: bool) -> bool:
        """Returns whether a call needs what was chosen at each step."""
        is_shown = self.return_field or reports.is_recording()
        return training or self.track_statistics or is_shown

    def _run(
        self,
        sequence: Tensor,
        mask: Tensor | None,
        states: States,
        log_weight: Tensor | None,
        limit: Tensor | None,
        training: bool,
    ) -> FieldRun:
        """Runs the cell over the real steps of `(batch, time, features)`.

        The initial states `(batch, size)` are flat, the weight of what is read
        is `(batch, 1)`, as decisions see it, the limit `(batch, 1 or time)`.
        """
        cell = self.cell
        hoists = cells.projects_before_loop(cell.cell, training)
        recomputes = training and hoists
        # A cell that is called step by step may hold tensors of the whole
        # batch, such as dropout masks.
        packed = self.packed and hoists
        how = ScanOptions(recomputes, recomputes and self.jit_compile, packed)
        if mask is not None:
            # Static sizes of the steps hold for the mask too.
            mask = tf.ensure_shape(mask, sequence.shape[:2])
        layout = layout_of(mask, can_pack(how))
        steps = layout.gather(sequence)
        views = views_of(layout, steps, cell.max_size)
        dtype = cell.compute_dtype
        states = tuple(
            tf.ensure_shape(state, (None, size))
            for state, size in zip(states, cells.flat_state_sizes(cell.cell))
        )
        specs = {"output": layout.spec(steps, cell.output_size, dtype)}
        if self._keeps_choices(training):
            choice = layout.spec(steps, cell.max_size, cell.score_dtype)
            specs |= {"selection": choice, "logits": choice}
        field = cell.field(training)

        def step(operands: tuple, states: States) -> tuple[Named, States]:
            of_field, of_cell = operands
            chosen = field_step(field, of_field, states[0])
            states = tuple(forget(chosen.gate, states, cell.gated_state))
            output, states = wrapped.step(of_cell, states)
            values = {"output": output, **chosen._asdict()}
            return {name: values[name] for name in specs}, states

        batch_size, length, features = ops.shape(sequence)
        with cells.fresh_dropout(cell.cell):
            if training:
                cells.draw_dropout(cell.cell, batch_size, features, dtype)
            wrapped = cells.prepare(cell.cell, steps, dtype, training)
            # Noise is drawn time first, whatever the layout.
            shape = (length, batch_size, cell.max_size)
            noise = cell.sample_noise(shape, training)
            if noise is not None:
                noise = layout.gather(ops.swapaxes(noise, 0, 1))

            def of_steps(values: Tensor, width: int) -> Tensor:
                """Values `(batch, 1 or time, width)` in the layout."""
                shape = (batch_size, length, width)
                return layout.gather(tf.broadcast_to(values, shape))

            allowed = views.validity
            if log_weight is not None:
                log_weight = of_steps(log_weight[:, None], 1)
            if limit is not None:
                allowed &= of_steps(within(limit, cell.max_size), cell.max_size)
            hoisted = hoist(
                field,
                steps,
                views.of(field.offsets(steps)),
                allowed,
                noise,
                log_weight,
            )
            operands = hoisted, wrapped.operands
            values, states = scan(step, operands, states, specs, how, layout)
        outputs = values.pop("output")
        return FieldRun(
            layout, outputs, states, views.validity, allowed, **values
        )

    def _check_call(
        self, sequence: Tensor, initial_state: Any, mask: Tensor | None
    ) -> None:
        shape = sequence.shape
        checks.check_sequences("sequence.shape", shape)
        checks.check_mask("mask", mask, shape)
        if self.built:
            features = self.cell.field_kernel.shape[0]
            checks.check_features("sequence.shape", shape, features)
        if initial_state is not None:
            sizes = cells.flat_state_sizes(self.cell)
            checks.check_states(initial_state, sizes, shape[0])

    def _in_reading_order(
        self, sequence: Tensor, *by_step: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        """The sequence, and what each step has, in the order of reading."""
        steps = (ops.cast(sequence, self.compute_dtype), *by_step)
        if not self.go_backwards:
            return steps
        return tuple(None if x is None else ops.flip(x, axis=1) for x in steps)

    def _initial_states(
        self, initial_state: Any, sequence: Tensor
    ) -> tuple[Tensor, ...]:
        states = initial_state
        if states is None and self.stateful:
            states = self.states
        if states is None:
            states = self.get_initial_state(ops.shape(sequence)[0])
        checked = (
            checks.assert_rows("initial_state", state, sequence)
            for state in map(ops.convert_to_tensor, keras.tree.flatten(states))
        )
        return tuple(ops.cast(state, self.compute_dtype) for state in checked)

    def _outputs(self, run: FieldRun) -> Tensor:
        """The outputs of a run, masked steps among them."""
        if self.zero_output_for_mask:
            outputs = run.layout.scatter(run.outputs)
            return outputs if self.return_sequences else outputs[:, -1]
        shape = (ops.shape(run.states[0])[0], self.cell.output_size)
        first = ops.zeros(shape, self.compute_dtype)
        if self.return_sequences:
            return run.layout.hold(run.outputs, first)
        return run.layout.final(run.outputs, first)

    def _sizes(self, run: FieldRun) -> Decision:
        """The sizes of a run, batch first."""
        sizes = self.cell.sizes(run.logits, run.selection, run.allowed)
        return sizes.map(run.layout.scatter)

    def compute_mask(self, sequence: Tensor, mask: Any = None) -> Any:
        # Keras 3.16 stops its own recurrent layers from passing masks on.
        return masks.output_masks(self, mask)

    def compute_output_shape(
        self,
        sequence_shape: Any,
        initial_state_shape: Any = None,
        weight_shape: Any = None,
    ) -> Any:
        checks.check_sequences("sequence.shape", sequence_shape)
        shapes = super().compute_output_shape(sequence_shape)
        if not self.return_field:
            return shapes
        field = self.field_shapes(sequence_shape[:2])
        return (*shapes, field) if self.return_state else (shapes, field)

    def compute_output_spec(
        self,
        sequence: Tensor,
        initial_state: Any = None,
        mask: Tensor | None = None,
        weight: Tensor | None = None,
        limit: Tensor | None = None,
        training: bool = False,
        sequence_mask: Tensor | None = None,
    ) -> Any:
        mask = masks.given(mask, sequence_mask)
        self._check_call(sequence, initial_state, mask)
        self.check_weight(weight, sequence)
        checks.checked_limit(limit, sequence, self.max_size)
        shapes = self.compute_output_shape(sequence.shape)
        return output_specs(shapes, self.compute_dtype)

    def stream_steps(self, owner: Any = None) -> FieldSteps:
        """The steps of the layer in a stream."""
        return FieldSteps(self, owner)

    def reset_state(self) -> None:
        for variable in keras.tree.flatten(self.states) if self.states else ():
            variable.assign(ops.zeros_like(variable))

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        config.pop("unroll")
        own = self.cell.get_config()
        for name in ("name", "trainable", "dtype"):
            own.pop(name)
        return {
            **config,
            **own,
            "return_field": self.return_field,
            "track_statistics": self.track_statistics,
            "jit_compile": self.jit_compile,
        }
