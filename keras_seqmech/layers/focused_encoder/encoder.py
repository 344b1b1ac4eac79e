"""The focused hierarchical encoder."""

from typing import Any

import keras
from keras import ops

from keras_seqmech.layers import validation
from keras_seqmech.layers.focused_encoder import loops as focused_encoder_loop
from keras_seqmech.layers.focused_encoder import outputs as focused_outputs
from keras_seqmech.layers.focused_encoder.gate import BoundaryGate
from keras_seqmech.ops import masking


@keras.saving.register_keras_serializable(package="keras_seqmech")
class FocusedHierarchicalEncoder(keras.layers.Layer):
    r"""Two LSTMs, the upper of which moves at the steps that matter alone.

    The lower LSTM reads every step, a `BoundaryGate` decides from its state
    and the context q where it matters, and the upper LSTM moves there:

    $$h^l_t = \mathrm{LSTM}^l(x_t, h^l_{t-1}), \quad
      b_t \sim \mathrm{gate}(h^l_t, q)$$
    $$s_t = b_t\,\mathrm{LSTM}^u(h^l_t, s_{t-1}) + (1 - b_t)\,s_{t-1}$$

    with s the upper states h and c. In inference, and in training with
    `"reinforce"`, closed steps are skipped: the upper LSTM runs over the open
    ones of each row, gathered, so that cost falls with openness.

    Args:
        units: Positive int, size of the upper LSTM.
        lower_units: Size of the lower LSTM. Defaults to `units`.
        gate_units: Width of the gate's hidden layer. Defaults to a quarter of
            `lower_units`, at least 32: a step costs `lower_units *
            gate_units` multiplications, a few percent of what an LSTM does.
        estimator: `"reinforce"`, `"relaxed"` or `"straight_through"`, see
            `BoundaryGate`. The last two give the gates gradients, for which
            training computes the upper LSTM at every step.
        openness_target: Share of gates that may be open without cost.
        sparsity_weight: Cost of each open gate above that, in training.
        entropy_weight: Weight of the gates' entropy, in training.
        temperature: Positive float, of soft gates. This and the two weights
            are kept in non-trainable variables of `encoder.gate`, which
            callbacks may change.
        initial_openness: About the probability of being open at first.
        kernel_initializer: Initializer of the kernels.
        recurrent_initializer: Initializer of the LSTMs' recurrent kernels.
        unit_forget_bias: Whether the LSTMs' forget biases start at 1.
        kernel_regularizer: Regularizer of the kernels (recurrent ones not
            included, as in Keras).
        sample_at_inference: Whether to draw gates at inference too. By
            default they are open where the probability is above one half.
        seed: Int, seed of the noise.
        return_gates: Whether to put out, after everything else, a dict of
            `(batch, time)`, float32 or wider, 0 at masked steps: `"gates"`,
            `"probabilities"` of being open, and with `estimator="reinforce"`
            the `"log_probability"` of what was decided. With `return_focused`
            also `"indices"`, int32 `(batch, K)`: the steps of the focused
            states, 0 where there is none. `ops.take_along_axis(ids,
            gates["indices"], axis=1)` are the words a `PointerSoftmax` over
            them points to.
        return_focused: Whether to put out, in place of the last state, the
            states at open gates (soft ones: above one half), `(batch, K,
            units)`, and their boolean mask `(batch, K)`; K is the most open
            gates of a row, at least 1, and compiled with XLA all steps. Not
            together with `return_sequences`.
        track_statistics: Whether to keep the metrics `<name>_openness` and
            `<name>_gate_entropy` over real steps; they appear in `history`.
        jit_compile: Whether to compile the loops over all steps with XLA where
            the model is not, in `fit` or another `tf.function`; see Cost.
        return_sequences: Whether to put out the state after every step.
        return_state: Whether to put out the final states too.
        **kwargs: Base layer keyword arguments, such as `name` and `dtype`.

    Call arguments:
        sequence: Tensor `(batch, time, features)`.
        context: Tensor `(batch, context features)`, what the gates ask for.
        sequence_mask: Boolean tensor `(batch, time)`, any pattern, True where
            a step is real.
        initial_state: List of the states to start from: lower h, lower c,
            upper h, upper c; zeros if None.
        training: Whether gates are drawn, from noise drawn once a call.

    Output shape:
        `(batch, units)`, the upper h at the end; with `return_sequences`
        `(batch, time, units)`, with `return_focused` two outputs in its
        place; with `return_state`, followed by lower h, lower c, upper h,
        upper c; with `return_gates`, followed by the dict.

    Masking: masked steps have closed gates and keep both states. What stands
    there reaches neither outputs nor gradients. As in Keras, outputs are zeros
    before a call's first real step, and so throughout a row without one; a
    mask that comes with the sequence goes on with the output sequence.

    Attributes: `lower` and `upper` are `keras.layers.LSTM`s whose weights are
    those of plain ones; `gate` is the `BoundaryGate`. With all gates open the
    encoder is the two LSTMs stacked.

    Cost: the lower LSTM over T steps, the upper, where it skips, over K, both
    in time and in memory held for the gradient; K differs from batch to batch
    without retracing. Where all is compiled with XLA, arrays have room for T
    steps and only the loops end after K: time falls, memory does not.
    `jit_compile=True` compiles the loops over T steps alone, which on CPU saves
    a sixth to a third (see the benchmarks). XLA compiles anew for every T.

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
        estimator: str = "reinforce",
        openness_target: float | None = None,
        sparsity_weight: float = 0.0,
        entropy_weight: float = 0.0,
        temperature: float = 1.0,
        initial_openness: float = 0.75,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        unit_forget_bias: bool = True,
        kernel_regularizer: Any = None,
        sample_at_inference: bool = False,
        seed: int | None = None,
        return_gates: bool = False,
        return_focused: bool = False,
        track_statistics: bool = False,
        jit_compile: bool = False,
        return_sequences: bool = False,
        return_state: bool = False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_int = validation.check_positive_int
        check_bool = validation.check_bool
        self.units = check_int("units", units)
        if lower_units is None:
            lower_units = self.units
        self.lower_units = check_int("lower_units", lower_units)
        if gate_units is None:
            gate_units = max(32, self.lower_units // 4)
        self.gate_units = check_int("gate_units", gate_units)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.recurrent_initializer = keras.initializers.get(
            recurrent_initializer
        )
        self.unit_forget_bias = check_bool("unit_forget_bias", unit_forget_bias)
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self.return_gates = check_bool("return_gates", return_gates)
        self.return_focused = check_bool("return_focused", return_focused)
        self.track_statistics = check_bool("track_statistics", track_statistics)
        self.jit_compile = check_bool("jit_compile", jit_compile)
        self.return_sequences = check_bool("return_sequences", return_sequences)
        self.return_state = check_bool("return_state", return_state)
        if return_focused and return_sequences:
            raise ValueError(
                "Argument `return_focused` must be False where "
                "`return_sequences` is True: states are put out at open gates "
                "or after every step. Received: return_focused=True"
            )
        self.gate = BoundaryGate(
            self.gate_units,
            estimator=estimator,
            temperature=temperature,
            openness_target=openness_target,
            sparsity_weight=sparsity_weight,
            entropy_weight=entropy_weight,
            initial_openness=initial_openness,
            kernel_initializer=self.kernel_initializer,
            kernel_regularizer=self.kernel_regularizer,
            sample_at_inference=sample_at_inference,
            seed=seed,
            return_gates=True,
            name="gate",
            dtype=self.dtype_policy,
        )
        if track_statistics:
            self.gate.keep_statistics(self.name)
        self.supports_masking = True
        self.lower = self._lstm(self.lower_units, "lower")
        self.upper = self._lstm(self.units, "upper")

    def _lstm(self, units, name):
        """Holds weights and configuration; the loops are the package's own."""
        return keras.layers.LSTM(
            units,
            kernel_initializer=validation.fresh(self.kernel_initializer),
            recurrent_initializer=validation.fresh(self.recurrent_initializer),
            unit_forget_bias=self.unit_forget_bias,
            kernel_regularizer=self.kernel_regularizer,
            return_sequences=True,
            use_cudnn=False,
            name=name,
            dtype=self.dtype_policy,
        )

    def build(self, sequence_shape, context_shape, initial_state_shape=None):
        validation.check_sequences("sequence.shape", sequence_shape)
        validation.check_context("context.shape", context_shape, sequence_shape)
        states_shape = (*sequence_shape[:2], self.lower_units)
        self.lower.build(tuple(sequence_shape))
        self.gate.build(states_shape, tuple(context_shape))
        self.upper.build(states_shape)

    def call(
        self,
        sequence,
        context,
        sequence_mask=None,
        initial_state=None,
        training=False,
    ):
        self._check_call(sequence, context, sequence_mask, initial_state)
        mask = None
        if sequence_mask is not None:
            mask = ops.cast(sequence_mask, "bool")
        sequence = masking.zero_masked(
            ops.cast(sequence, self.compute_dtype), mask
        )
        states = self._initial_states(ops.shape(sequence)[0], initial_state)
        lower_states, upper_states = states[:2], states[2:]
        hidden, lower_states = focused_encoder_loop.run_lower(
            self.lower.cell,
            sequence,
            lower_states,
            mask,
            training,
            self.jit_compile,
        )
        gates, decisions = self.gate(
            hidden, context, sequence_mask=mask, training=training
        )
        upper = focused_encoder_loop.run_upper(
            self.upper.cell,
            hidden,
            gates,
            upper_states,
            training,
            self.jit_compile,
            soft=training and self.gate.estimator != "reinforce",
            return_sequences=self.return_sequences,
            return_state=self.return_state,
            return_focused=self.return_focused,
        )
        return focused_outputs.assemble(
            self, upper, lower_states, decisions, mask
        )

    def _initial_states(self, batch_size, states):
        dtype = self.compute_dtype
        if states is None:
            shapes = [(batch_size, size) for size in self.state_size]
            return tuple(ops.zeros(shape, dtype) for shape in shapes)
        states = keras.tree.flatten(states)
        return tuple(ops.cast(state, dtype) for state in states)

    @property
    def state_size(self) -> list[int]:
        """Sizes of lower h, lower c, upper h, upper c."""
        return [self.lower_units] * 2 + [self.units] * 2

    def _check_call(self, sequence, context, sequence_mask, initial_state):
        validation.check_sequences("sequence.shape", sequence.shape)
        validation.check_context("context.shape", context.shape, sequence.shape)
        validation.check_mask("sequence_mask", sequence_mask, sequence.shape)
        if initial_state is not None:
            validation.check_states(
                initial_state, self.state_size, sequence.shape[0]
            )

    def compute_mask(self, sequence, previous_mask=None):
        return previous_mask if self.return_sequences else None

    def compute_output_shape(
        self, sequence_shape, context_shape, initial_state_shape=None
    ):
        return focused_outputs.shapes(self, sequence_shape)

    def compute_output_spec(
        self,
        sequence,
        context,
        sequence_mask=None,
        initial_state=None,
        training=False,
    ):
        self._check_call(sequence, context, sequence_mask, initial_state)
        return focused_outputs.specs(self, sequence.shape)

    def get_config(self):
        serialize = keras.saving.serialize_keras_object
        gate = self.gate
        return {
            **super().get_config(),
            "units": self.units,
            "lower_units": self.lower_units,
            "gate_units": self.gate_units,
            "estimator": gate.estimator,
            "openness_target": gate.openness_target,
            "sparsity_weight": gate.initial_sparsity_weight,
            "entropy_weight": gate.initial_entropy_weight,
            "temperature": gate.initial_temperature,
            "initial_openness": gate.initial_openness,
            "kernel_initializer": serialize(self.kernel_initializer),
            "recurrent_initializer": serialize(self.recurrent_initializer),
            "unit_forget_bias": self.unit_forget_bias,
            "kernel_regularizer": serialize(self.kernel_regularizer),
            "sample_at_inference": gate.sample_at_inference,
            "seed": gate.seed,
            "return_gates": self.return_gates,
            "return_focused": self.return_focused,
            "track_statistics": self.track_statistics,
            "jit_compile": self.jit_compile,
            "return_sequences": self.return_sequences,
            "return_state": self.return_state,
        }
