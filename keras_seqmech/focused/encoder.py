"""The focused hierarchical encoder, and the loops of its two networks.

The upper one runs, with hard gates, over a layout of the open steps alone: a
step that is not there keeps the states. Soft ones, and the gradients of closed
gates, need a candidate at every step.
"""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_seqmech.core import cells
from keras_seqmech.core import checks
from keras_seqmech.core import masks
from keras_seqmech.core.decisions import reports
from keras_seqmech.core.decisions.learning import DecisionPenalties
from keras_seqmech.core.decisions.learning import PenaltyWeights
from keras_seqmech.core.kept_steps import Layout
from keras_seqmech.core.kept_steps import Padded
from keras_seqmech.core.kept_steps import States
from keras_seqmech.core.kept_steps import compact
from keras_seqmech.core.kept_steps import layout_of
from keras_seqmech.core.kept_steps import running_count
from keras_seqmech.core.layers import freeze_parts
from keras_seqmech.core.layers import output_specs
from keras_seqmech.core.loop import Named
from keras_seqmech.core.loop import ScanOptions
from keras_seqmech.core.loop import can_pack
from keras_seqmech.core.loop import scan
from keras_seqmech.core.stream import State
from keras_seqmech.core.stream import Stepped
from keras_seqmech.core.stream import Tick
from keras_seqmech.core.stream import choose
from keras_seqmech.core.stream import first_states
from keras_seqmech.focused.gate import BoundaryGate
from keras_seqmech.focused.gate import TakesContext
from keras_seqmech.typing import Tensor


def run_lower(
    cell: keras.layers.LSTMCell,
    sequence: Tensor,
    states: States,
    mask: Tensor | None,
    options: ScanOptions,
) -> tuple[Tensor, States]:
    """Runs the lower cell over real steps; see `_run`."""
    layout = layout_of(mask, can_pack(options))
    return _run(cell, sequence, states, layout, options)


def run_upper(
    cell: keras.layers.LSTMCell,
    sequence: Tensor,
    gates: Tensor,
    states: States,
    options: ScanOptions,
    is_soft: bool,
) -> tuple[Tensor, States]:
    """Runs the upper cell by its gates `(batch, time)`; see `_run`.

    Soft gates, from 0 to 1, all get a gradient, closed ones too: the cell runs
    at every step.

    Hard ones are open above one half, and get no gradient: it runs over the
    open steps of each row alone. The loop is packed, so that a row is done
    after its own open steps. Compiled with XLA it cannot be: there rows wait
    for the one with most open steps, arrays have room for all steps, and the
    loops, backward too, end after the open steps of that row. The loop is not
    compiled on its own, as the number of open steps differs from batch to
    batch.
    """
    if is_soft:
        return _run(cell, sequence, states, Padded(), options, gates)
    options = options._replace(jit_compile=False)
    layout = layout_of(gates > 0.5, can_pack(options), skips=True)
    return _run(cell, sequence, states, layout, options)


def _run(
    cell: keras.layers.LSTMCell,
    sequence: Tensor,
    states: States,
    layout: Layout,
    options: ScanOptions,
    gates: Tensor | None = None,
) -> tuple[Tensor, States]:
    """Runs a cell over the steps of a layout.

    Args:
        cell: A built cell.
        sequence: Finite tensor `(batch, time, features)`; for the upper network
            the lower states.
        states: The initial h and c, `(batch, units)` each.
        layout: The steps that move the states on; the others repeat them.
        options: How to run.
        gates: Soft gates `(batch, time)` of a padded layout, or None.

    Returns:
        The states h after every step, `(batch, time, units)`, and the final h
        and c.
    """
    dtype = sequence.dtype
    steps = layout.gather(sequence)
    ends_early = isinstance(layout, Padded) and layout.steps is not None
    run = cells.prepare(
        cell, steps, dtype, options.recompute_gradient, hoists=not ends_early
    )
    gate = None
    if gates is not None:
        gate = layout.gather(ops.cast(gates, dtype)[..., None])

    def step(operands: tuple, states: States) -> tuple[Named, States]:
        of_cell, gate = operands
        _, new = run.step(of_cell, states)
        if gate is not None:
            new = tuple(gate * a + (1 - gate) * b for a, b in zip(new, states))
        return {"hidden": new[0]}, new

    values, finals = scan(
        step,
        (run.operands, gate),
        tuple(tf.ensure_shape(x, (None, cell.units)) for x in states),
        {"hidden": layout.spec(steps, cell.units, dtype)},
        options,
        layout,
    )
    return layout.hold(values["hidden"], states[0]), finals


@keras.saving.register_keras_serializable(package="keras_seqmech")
class FocusedHierarchicalEncoder(TakesContext):
    r"""Two LSTMs, the upper of which is updated only at steps that matter.

    The lower LSTM reads every step, a `BoundaryGate` decides from its state
    and the context q which steps matter, and the upper LSTM is updated there:

    $$h^l_t = \mathrm{LSTM}^l(x_t, h^l_{t-1}), \quad
      b_t \sim \mathrm{gate}(h^l_t, q)$$
    $$s_t = b_t\,\mathrm{LSTM}^u(h^l_t, s_{t-1}) + (1 - b_t)\,s_{t-1}$$

    with s the upper states h and c. At inference, and in training with
    `"reinforce"`, closed steps are skipped: the upper LSTM runs over the open
    ones of each row, gathered, so that cost falls with openness.
    `ContextAttention` reads the states, those at open gates or all.

    Args:
        units: Positive int, size of the upper LSTM.
        lower_units: Size of the lower LSTM. Defaults to `units`.
        gate_units: Width of the gate's hidden layer. Defaults to a quarter of
            `lower_units`, at least 32: a step costs `lower_units *
            gate_units` multiplications, a few percent of what an LSTM does.
        estimator: `"relaxed"`, `"straight_through"` or `"reinforce"`, see
            `BoundaryGate`. The first two give the gates gradients, for which
            training computes the upper LSTM at every step. The last, the
            source's, learns in a `keras_seqmech.PolicyGradientModel`.
        penalties: Auxiliary losses of the gates, a
            `keras_seqmech.DecisionPenalties`; None for no losses.
        temperature: Positive float, temperature of soft gates, kept in a
            non-trainable variable, which callbacks may change.
        initial_openness: Approximate probability of being open at first.
        kernel_initializer: Initializer of the kernels.
        recurrent_initializer: Initializer of the LSTMs' recurrent kernels.
        unit_forget_bias: Whether the LSTMs' forget biases start at 1.
        kernel_regularizer: Regularizer of the kernels (recurrent ones not
            included, as in Keras).
        inference: Which gates are open at inference: by `"threshold"` those
            with a probability above one half; `"sample"`, drawn; or
            `"running_sum"`, where the sum of probabilities so far rounds to
            the next int, see `BoundaryGate`. The sum starts from 0 in each
            call, with an `initial_state` too; a `StreamingModel` carries it.
        seed: Int, seed of the noise.
        return_gates: Whether to return, after everything else, a dict of
            `(batch, time)`, float32 or wider, 0 at masked steps: `"gates"`,
            `"probabilities"` of being open, and with `estimator="reinforce"`
            the `"log_probability"` of the gates as drawn. With
            `return_focused` also `"indices"`, int32 `(batch, K)`: the steps of
            the focused states, 0 past a row's last one. `ops.take_along_axis(
            ids, gates["indices"], axis=1)` are the words a `PointerSoftmax`
            over them points to.
        return_focused: Whether to return, in place of the last state, the
            states at open gates (soft ones: above one half), `(batch, K,
            units)`, and their boolean mask `(batch, K)`. K is the largest
            number of open gates in a row, at least 1; compiled with XLA, it is
            the number of steps. Not together with `return_sequences`.
        track_statistics: Whether to keep the metrics of the gate, see there,
            with the encoder's name; they appear in `history`.
        jit_compile: Whether to compile the loops over all steps with XLA where
            the model is not, in `fit` or another `tf.function`; see Cost.
        return_sequences: Whether to return the state after every step.
        return_state: Whether to return the final states too.
        **kwargs: Base layer keyword arguments, such as `name` and `dtype`.

    Call arguments:
        sequence: Tensor `(batch, time, features)`.
        context: Tensor `(batch, context features)`, on which gates depend.
        mask: Boolean tensor `(batch, time)`, any pattern, True where a step is
            real.
        initial_state: List of the states to start from: lower h, lower c,
            upper h, upper c; zeros if None.
        weight: Tensor `(batch,)`, the weight of what is read, from a
            `ReadingWeight`: one training for a whole range of them. Required in
            every call if the layer was built with it.
        training: Whether gates are drawn, from noise drawn once a call.
        sequence_mask: What Keras fills in for `mask` beside further tensors;
            without effect if that is given.

    Output shape:
        `(batch, units)`, the upper h at the end; with `return_sequences`
        `(batch, time, units)`, with `return_focused` two outputs in its
        place; with `return_state`, followed by lower h, lower c, upper h,
        upper c; with `return_gates`, followed by the dict.

    Masking: masked steps have closed gates and keep both states; their values
    reach neither outputs nor gradients. As in Keras, outputs are zeros before
    a call's first real step, and so throughout a row without one; a mask that
    comes with the sequence is passed on with the output sequence.

    Attributes: `lower` and `upper` are `keras.layers.LSTM`s whose weights are
    those of plain ones; `gate` is the `BoundaryGate`, whose `penalty_weights`
    and `temperature` are those of the encoder too. With all gates open the
    encoder equals the two LSTMs stacked.

    Cost: the lower LSTM over the real steps, the upper, where it skips, over
    the open ones, both in time and in memory held for the gradient. It grows
    with the total over all rows, not with the fullest row: each loop step
    computes only the rows that have it. Numbers of steps differ from batch to
    batch without retracing. Where all is compiled with XLA, arrays have room
    for all steps, loops are not packed, and they end after the fullest row's:
    time falls, memory does not.
    `jit_compile=True` compiles the loops over T steps alone, which on CPU saved
    up to a third in one measurement, nothing in a later one (see the
    benchmarks). XLA compiles anew for every T.

    Example:

    >>> import numpy as np
    >>> encoder = FocusedHierarchicalEncoder(8, return_gates=True)
    >>> state, gates = encoder(np.ones((2, 7, 5)), np.ones((2, 3)))
    >>> state.shape, gates["gates"].shape
    (TensorShape([2, 8]), TensorShape([2, 7]))

    Source: "Focused Hierarchical RNNs for Conditional Sequence Processing".
    """

    def __init__(
        self,
        units: int,
        lower_units: int | None = None,
        gate_units: int | None = None,
        estimator: str = "relaxed",
        penalties: DecisionPenalties | None = None,
        temperature: float = 1.0,
        initial_openness: float = 0.75,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        unit_forget_bias: bool = True,
        kernel_regularizer: Any = None,
        inference: str = "threshold",
        seed: int | None = None,
        return_gates: bool = False,
        return_focused: bool = False,
        track_statistics: bool = False,
        jit_compile: bool = False,
        return_sequences: bool = False,
        return_state: bool = False,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        check_int = checks.check_positive_int
        check_bool = checks.check_bool
        self.units = check_int("units", units)
        if lower_units is None:
            lower_units = self.units
        self.lower_units = check_int("lower_units", lower_units)
        if gate_units is None:
            gate_units = max(32, self.lower_units // 4)
        self.gate_units = check_int("gate_units", gate_units)
        self.kernel_initializer = checks.get_initializer(
            "kernel_initializer", kernel_initializer
        )
        self.recurrent_initializer = checks.get_initializer(
            "recurrent_initializer", recurrent_initializer
        )
        self.unit_forget_bias = check_bool("unit_forget_bias", unit_forget_bias)
        self.kernel_regularizer = checks.get_regularizer(
            "kernel_regularizer", kernel_regularizer
        )
        self.track_statistics = check_bool("track_statistics", track_statistics)
        self.jit_compile = check_bool("jit_compile", jit_compile)
        # Whether loops run packed where they can.
        self.packed = True
        self.return_gates = check_bool("return_gates", return_gates)
        self.return_focused = check_bool("return_focused", return_focused)
        self.return_sequences = check_bool("return_sequences", return_sequences)
        self.return_state = check_bool("return_state", return_state)
        if return_focused and return_sequences:
            raise ValueError(
                "Argument `return_focused` must be False where "
                "`return_sequences` is True: states are returned at open gates "
                "or after every step. Received: return_focused=True"
            )
        self.gate = BoundaryGate(
            self.gate_units,
            estimator=estimator,
            temperature=temperature,
            penalties=penalties,
            initial_openness=initial_openness,
            kernel_initializer=self.kernel_initializer,
            kernel_regularizer=self.kernel_regularizer,
            inference=inference,
            seed=seed,
            return_gates=True,
            name="gate",
            dtype=self.dtype_policy,
        )
        self.initial_openness = self.gate.initial_openness
        self.seed = self.gate.seed
        if track_statistics:
            self.gate.keep_statistics(self.name)
        self.lower = self._lstm(self.lower_units, "lower")
        self.upper = self._lstm(self.units, "upper")
        freeze_parts(self)

    def _lstm(self, units: int, name: str) -> keras.layers.LSTM:
        """An LSTM that only holds weights and settings; the loops run it."""
        return keras.layers.LSTM(
            units,
            kernel_initializer=checks.fresh(self.kernel_initializer),
            recurrent_initializer=checks.fresh(self.recurrent_initializer),
            unit_forget_bias=self.unit_forget_bias,
            kernel_regularizer=self.kernel_regularizer,
            return_sequences=True,
            use_cudnn=False,
            name=name,
            dtype=self.dtype_policy,
        )

    def build(
        self,
        sequence_shape: Any,
        context_shape: Any = None,
        initial_state_shape: Any = None,
        weight_shape: Any = None,
    ) -> None:
        self.build_sizes(sequence_shape, context_shape)
        states_shape = (*sequence_shape[:2], self.lower_units)
        self.lower.build(tuple(sequence_shape))
        self.gate.build(states_shape, tuple(context_shape), weight_shape)
        self.upper.build(states_shape)

    def call(
        self,
        sequence: Tensor,
        context: Tensor,
        mask: Tensor | None = None,
        initial_state: Any = None,
        weight: Tensor | None = None,
        training: bool = False,
        sequence_mask: Tensor | None = None,
    ) -> Any:
        mask = masks.given(mask, sequence_mask)
        sequence, context, real = self.prepare_inputs(sequence, context, mask)
        self._check_states(initial_state, sequence)
        sequence = ops.cast(sequence, self.compute_dtype)
        sequence = masks.zero_masked(sequence, real)
        states = self._initial_states(sequence, initial_state)
        options = ScanOptions(training, self.jit_compile, self.packed)

        lower, lower_states = run_lower(
            self.lower.cell, sequence, states[:2], real, options
        )
        with reports.unrecorded():
            gates, decisions = self.gate(
                lower,
                context,
                mask=real,
                weight=weight,
                training=training,
            )
        is_soft = training and self.gate.is_soft
        upper, upper_states = run_upper(
            self.upper.cell, lower, gates, states[2:], options, is_soft
        )
        if self.return_focused:
            is_open = compact(gates > 0.5)
            outputs = [is_open.gather(upper), is_open.mask]
            decisions = {**decisions, "indices": is_open.indices}
        elif self.return_sequences:
            started = None if real is None else running_count(real)
            outputs = [masks.zero_masked(upper, started)]
        else:
            output = upper_states[0]
            if real is not None:
                started = ops.any(real, axis=1, keepdims=True)
                output = ops.where(started, output, ops.zeros_like(output))
            outputs = [output]
        if self.return_state:
            outputs += [*lower_states, *upper_states]
        return reports.with_decisions(
            self, outputs, decisions, self.return_gates
        )

    def _initial_states(self, sequence: Tensor, states: Any) -> States:
        dtype = self.compute_dtype
        if states is None:
            batch_size = ops.shape(sequence)[0]
            shapes = [(batch_size, size) for size in self.state_size]
            return tuple(ops.zeros(shape, dtype) for shape in shapes)
        return tuple(
            ops.cast(
                checks.assert_rows("initial_state", state, sequence), dtype
            )
            for state in keras.tree.flatten(states)
        )

    @property
    def stream_refusal(self) -> str | None:
        """The reason why the layer cannot be streamed, or None."""
        if self.inference == "sample":
            return "draws at inference"
        return "returns focused states" if self.return_focused else None

    def stream_state(self, batch_size: Tensor) -> State:
        """Both networks' states, and whether a real step has arrived."""
        states = [
            ops.zeros((batch_size, size), self.compute_dtype)
            for size in self.state_size
        ]
        started = ops.zeros((batch_size, 1), "bool")
        state: State = {"states": states, "started": started}
        if self.inference == "running_sum":
            state["total"] = ops.zeros((batch_size, 1), "int64")
        return state

    def stream_step(
        self,
        state: State,
        tick: Tick,
        sequence: Tensor,
        context: Tensor,
        mask: Tensor | None = None,
        initial_state: Any = None,
        weight: Tensor | None = None,
    ) -> Stepped:
        """Moves the lower network on, and the upper one where a gate opens.

        Without `return_sequences` the output, like returned states, is that
        after the steps so far.
        """
        weight = self.gate.check_weight(weight, sequence)
        real = tick.real(mask)
        states = first_states(tick.passed == 0, initial_state, state["states"])

        def advance(
            lstm: keras.layers.LSTM, step: Tensor, states: list, moves: Tensor
        ) -> list[Tensor]:
            _, new = cells.call_cell(lstm.cell, step, states, training=False)
            return [choose(moves, *x) for x in zip(new, states)]

        lower = advance(self.lower, sequence[:, 0], states[:2], real)
        decision, total = self.gate.decide(
            self.gate.logits(lower[0][:, None], context, weight),
            real[:, None],
            before=state.get("total"),
        )
        # Closed where the step is not real.
        is_open = decision.read[:, 0] > 0.5
        upper = advance(self.upper, lower[0], states[2:], is_open)
        started = ops.logical_or(state["started"], real[:, None])
        state = {"states": lower + upper, "started": started}
        if total is not None:
            state["total"] = total
        output = ops.where(started, upper[0], ops.zeros_like(upper[0]))
        outputs = [output[:, None] if self.return_sequences else output]
        if self.return_state:
            outputs += lower + upper
        returned = reports.with_decisions(
            self, outputs, decision.shown("gates"), self.return_gates
        )
        return Stepped(returned, state)

    @property
    def estimator(self) -> str:
        """The estimator of the gates' gradients."""
        return self.gate.estimator

    @property
    def penalties(self) -> DecisionPenalties:
        """The auxiliary losses of the gates, as given."""
        return self.gate.penalties

    @property
    def penalty_weights(self) -> PenaltyWeights:
        """The weights of the auxiliary losses, as variables."""
        return self.gate.penalty_weights

    @property
    def temperature(self) -> keras.Variable | None:
        """The temperature of soft gates; None before the layer is built."""
        return self.gate.temperature

    @property
    def state_size(self) -> list[int]:
        """Sizes of lower h, lower c, upper h, upper c."""
        return [self.lower_units] * 2 + [self.units] * 2

    def _check_states(self, states: Any, sequence: Tensor) -> None:
        if states is not None:
            checks.check_states(states, self.state_size, sequence.shape[0])

    def compute_mask(self, sequence: Tensor, previous_mask: Any = None) -> Any:
        return previous_mask if self.return_sequences else None

    def compute_output_shape(
        self,
        sequence_shape: Any,
        context_shape: Any,
        initial_state_shape: Any = None,
        weight_shape: Any = None,
    ) -> Any:
        return keras.tree.map_structure(
            lambda spec: spec.shape, self._output_spec(sequence_shape)
        )

    def compute_output_spec(
        self,
        sequence: Tensor,
        context: Tensor,
        mask: Tensor | None = None,
        initial_state: Any = None,
        weight: Tensor | None = None,
        training: bool = False,
        sequence_mask: Tensor | None = None,
    ) -> Any:
        mask = masks.given(mask, sequence_mask)
        self.prepare_inputs(sequence, context, mask)
        self._check_states(initial_state, sequence)
        self.gate.check_weight(weight, sequence)
        return self._output_spec(sequence.shape)

    def _output_spec(self, sequence_shape: Any) -> Any:
        batch_size, length, _ = sequence_shape
        shapes = self.gate.compute_output_shape(sequence_shape, None)
        _, decisions = output_specs(shapes, self.gate.score_dtype)

        def spec(*shape: Any, dtype: str | None = None) -> keras.KerasTensor:
            dtype = dtype or self.compute_dtype
            return keras.KerasTensor((batch_size, *shape), dtype)

        if self.return_focused:
            outputs = [spec(None, self.units), spec(None, dtype="bool")]
            decisions = {**decisions, "indices": spec(None, dtype="int32")}
        elif self.return_sequences:
            outputs = [spec(length, self.units)]
        else:
            outputs = [spec(self.units)]
        if self.return_state:
            outputs += [spec(size) for size in self.state_size]
        if self.return_gates:
            outputs.append(decisions)
        return reports.returned(outputs)

    def get_config(self) -> dict[str, Any]:
        serialize = keras.saving.serialize_keras_object
        return {
            **super().get_config(),
            "units": self.units,
            "lower_units": self.lower_units,
            "gate_units": self.gate_units,
            "estimator": self.estimator,
            "penalties": serialize(self.penalties),
            "temperature": self.gate.initial_temperature,
            "initial_openness": self.initial_openness,
            "inference": self.inference,
            "seed": self.seed,
            "kernel_initializer": serialize(self.kernel_initializer),
            "recurrent_initializer": serialize(self.recurrent_initializer),
            "unit_forget_bias": self.unit_forget_bias,
            "kernel_regularizer": serialize(self.kernel_regularizer),
            "return_gates": self.return_gates,
            "return_focused": self.return_focused,
            "track_statistics": self.track_statistics,
            "jit_compile": self.jit_compile,
            "return_sequences": self.return_sequences,
            "return_state": self.return_state,
        }

    @property
    def inference(self) -> str:
        """The mode of inference; see `BoundaryGate.inference`."""
        return self.gate.inference

    @inference.setter
    def inference(self, inference: str) -> None:
        self.gate.inference = inference
