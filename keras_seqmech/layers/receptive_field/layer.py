"""The adaptive receptive field as a recurrent layer."""

import keras
from keras import ops

from keras_seqmech.layers import cell_adapters
from keras_seqmech.layers import log_probabilities
from keras_seqmech.layers import validation
from keras_seqmech.layers.receptive_field import decisions
from keras_seqmech.layers.receptive_field import loop as receptive_field_loop
from keras_seqmech.layers.receptive_field.cell import RFCell


@keras.saving.register_keras_serializable(package="keras_seqmech")
class ReceptiveFieldRNN(keras.layers.RNN):
    r"""Recurrent layer that looks ahead as far as each step needs.

    `keras.layers.RNN(RFCell(cell, max_size))` over look-ahead windows: the
    same weights and the same answers (see `RFCell` for the equations), but it
    takes plain sequences and is several times faster, because all products
    with the inputs, and at inference the whole inner network, leave the loop.

    Args:
        cell: A Keras cell or a list of cells to stack; see `RFCell`.
        max_size: Positive int, the largest field size S.
        field_units: Width of the inner network. Defaults to the size of the
            cell's first state.
        summary: `"mean"` or `"last"`.
        estimator: `"relaxed"`, `"straight_through"` or `"reinforce"`; the
            last learns its sizes in a `PolicyGradientModel`.
        temperature: Positive float, of the relaxed sample.
        activation: The inner network's activation.
        unit_forget_bias: Whether the gate's bias starts at 1.
        kernel_initializer: Initializer of the kernels.
        recurrent_initializer: Initializer of the inner recurrent kernel.
        kernel_regularizer: Regularizer of the kernels.
        sample_at_inference: Whether to draw sizes at inference too.
        seed: Int, seed of the noise.
        return_field: Whether to put out, after everything else, a dict with
            `"size"`, the number of positions read, `(batch, time)`, expected
            under soft sizes; `"probabilities"` of the sizes, `(batch, time,
            max_size)`; and with `estimator="reinforce"` `"log_probability"`
            of the drawn sizes, `(batch, time)`. float32 or wider, 0 at masked
            steps. Not for use inside `keras.layers.Bidirectional`.
        track_statistics: Whether to keep the metrics `<name>_mean_size` and
            `<name>_size_entropy` (of the size probabilities, in nats) over
            real steps; they appear in `history`.
        jit_compile: Whether to compile the loop of training steps with XLA
            where the model is not, in `fit` or another `tf.function`. On CPU
            it takes half the time or less at small widths (see the
            benchmarks); it compiles for seconds, and again for every new
            length. Cells that run step by step as they are (see Cost) are
            left uncompiled.
        return_sequences: Whether to put out every step, or the last only.
        return_state: Whether to put out the final states too.
        go_backwards: Whether to read from the end. Fields then reach towards
            the start (as if the sequence were flipped first), and outputs come
            in reading order, as in Keras.
        stateful: Whether to start from the states the last batch ended with.
        unroll: Whether to unroll the loop. Fast to run for a few steps, slow
            to compile for many.
        zero_output_for_mask: Whether masked steps put out zeros; by default
            they repeat the output before.
        **kwargs: Base layer keyword arguments, such as `name` and `dtype`.

    Call arguments:
        sequences: Tensor `(batch, time, features)`.
        initial_state: List of the cell's states; zeros if None.
        mask: Boolean tensor `(batch, time)`, any pattern, True where a step
            is real.
        training: Whether sizes are drawn (from noise drawn once a call) and
            dropout is active.
        lookahead: Tensor `(batch, steps, features)`: what follows the last
            step. Fields may read it. With it, a sequence run in chunks, the
            state handed on, gives what it gives in one piece.
        lookahead_mask: Boolean tensor `(batch, steps)`.

    Input shape:
        `(batch, time, features)`.

    Output shape:
        `(batch, time, units)` with `return_sequences`, else `(batch, units)`;
        with `return_state`, followed by the states; with `return_field`,
        followed by the dict.

    Masking: a field contains no masked position; masked steps keep the state.
    What stands there reaches neither outputs nor gradients. A row without a
    real step gives zeros. Keras fills in `mask` from `sequences` only where
    these are the one tensor argument; beside `initial_state` or `lookahead`
    pass it.

    Cost: time linear in T and S, for inner width f and u units O(T (S f^2 +
    f u)) beside the cell's own. Training holds O(T) states and products, with
    drawn sizes O(T S f). `SimpleRNNCell`, `LSTMCell` and `GRUCell` have their
    input products taken out of the loop; other cells, cells with dropout in
    training, or with an activation that has weights, run step by step as they
    are.

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
        cell,
        max_size: int,
        field_units: int | None = None,
        summary: str = "mean",
        estimator: str = "relaxed",
        temperature: float = 1.0,
        activation="tanh",
        unit_forget_bias: bool = True,
        kernel_initializer="glorot_uniform",
        recurrent_initializer="orthogonal",
        kernel_regularizer=None,
        sample_at_inference: bool = False,
        seed: int | None = None,
        return_field: bool = False,
        track_statistics: bool = False,
        jit_compile: bool = False,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        zero_output_for_mask: bool = False,
        **kwargs,
    ):
        field_cell = RFCell(
            cell,
            max_size,
            field_units=field_units,
            summary=summary,
            estimator=estimator,
            temperature=temperature,
            activation=activation,
            unit_forget_bias=unit_forget_bias,
            kernel_initializer=kernel_initializer,
            recurrent_initializer=recurrent_initializer,
            kernel_regularizer=kernel_regularizer,
            sample_at_inference=sample_at_inference,
            seed=seed,
            name="rf_cell",
            dtype=kwargs.get("dtype"),
        )
        super().__init__(
            field_cell,
            return_sequences=return_sequences,
            return_state=return_state,
            go_backwards=go_backwards,
            stateful=stateful,
            unroll=unroll,
            zero_output_for_mask=zero_output_for_mask,
            **kwargs,
        )
        self.return_field = return_field
        self.track_statistics = track_statistics
        self.jit_compile = jit_compile
        if track_statistics:
            self.size_metric = keras.metrics.Mean(f"{self.name}_mean_size")
            self.entropy_metric = keras.metrics.Mean(
                f"{self.name}_size_entropy"
            )

    @property
    def max_size(self) -> int:
        """The largest field size S."""
        return self.cell.max_size

    @property
    def temperature(self) -> keras.Variable:
        """The relaxed sample's temperature; None before the layer is built.

        Assign to it to change it; nothing is traced again.
        """
        return self.cell.temperature

    def build(
        self,
        sequences_shape,
        initial_state_shape=None,
        lookahead_shape=None,
    ):
        validation.check_sequences("sequences.shape", sequences_shape)
        batch_size, length, features = sequences_shape
        if self.stateful and batch_size is None:
            raise ValueError(
                "A layer with `stateful=True` needs a static batch size; give "
                "it by `keras.Input(batch_shape=...)`. "
                f"Received: sequences.shape={tuple(sequences_shape)}"
            )
        super().build((batch_size, length, self.max_size, features + 1))

    def call(
        self,
        sequences,
        initial_state=None,
        mask=None,
        training=False,
        lookahead=None,
        lookahead_mask=None,
    ):
        self._check_call(sequences, mask, lookahead, lookahead_mask)
        if initial_state is not None:
            sizes = cell_adapters.flat_state_sizes(self.cell)
            validation.check_states(initial_state, sizes)
        dtype = self.compute_dtype
        sequences = ops.cast(sequences, dtype)
        lookahead = None if lookahead is None else ops.cast(lookahead, dtype)
        states = initial_state
        if states is None:
            states = self.states if self.stateful else None
        if states is None:
            states = self.get_initial_state(ops.shape(sequences)[0])
        states = [
            ops.cast(ops.convert_to_tensor(state), dtype)
            for state in keras.tree.flatten(states)
        ]
        mask = None if mask is None else ops.cast(mask, "bool")
        if lookahead_mask is not None:
            lookahead_mask = ops.cast(lookahead_mask, "bool")
        if self.go_backwards:
            sequences = ops.flip(sequences, axis=1)
            mask = None if mask is None else ops.flip(mask, axis=1)
        reports = training and self._reports()
        result = receptive_field_loop.run(
            self.cell,
            sequences,
            states,
            mask,
            lookahead,
            lookahead_mask,
            training,
            self.unroll,
            self.zero_output_for_mask,
            return_decisions=(
                self.return_field or self.track_statistics or reports
            ),
            jit_compile=self.jit_compile,
        )
        if self.stateful:
            for variable, state in zip(
                keras.tree.flatten(self.states), result.states
            ):
                variable.assign(state)
        if reports:
            log_probabilities.report(
                self, decisions.log_probability(self.cell, result, mask)
            )
        return self._assemble(result, mask)

    def _reports(self):
        """Whether log-probabilities of what training draws are to be left."""
        if self.cell.estimator != "reinforce":
            return False
        # Of one size nothing is drawn, and nothing is lost with it.
        return self.max_size > 1 or log_probabilities.current() is not None

    def _check_call(self, sequences, mask, lookahead, lookahead_mask):
        validation.check_sequences("sequences.shape", sequences.shape)
        validation.check_mask("mask", mask, sequences.shape)
        if self.unroll and sequences.shape[1] is None:
            raise ValueError(
                "A layer with `unroll=True` needs a static number of steps. "
                f"Received: sequences.shape={tuple(sequences.shape)}"
            )
        validation.check_lookahead(lookahead, lookahead_mask, sequences.shape)
        if lookahead is not None and self.go_backwards:
            raise ValueError(
                "Argument `lookahead` follows the last step, which a layer "
                "with `go_backwards=True` reads first; flip the sequence "
                f"instead. Received: lookahead={lookahead!r}"
            )

    def _assemble(self, result, mask):
        """Puts together what the layer returns; updates its statistics."""
        if self.return_sequences:
            output = ops.transpose(result.outputs, (1, 0, 2))
        else:
            output = result.outputs[-1]
        returned = [output]
        if self.return_state:
            returned += keras.tree.pack_sequence_as(
                self.state_size, list(result.states)
            )
        if self.return_field or self.track_statistics:
            field, size_entropy = decisions.describe(self.cell, result, mask)
            if self.track_statistics:
                real = None if mask is None else ops.reshape(mask, -1)
                for metric, values in (
                    (self.size_metric, field["size"]),
                    (self.entropy_metric, size_entropy),
                ):
                    metric.update_state(ops.reshape(values, -1), real)
            if self.return_field:
                returned.append(field)
        return returned[0] if len(returned) == 1 else tuple(returned)

    def compute_output_shape(
        self, sequences_shape, initial_state_shape=None, lookahead_shape=None
    ):
        validation.check_sequences("sequences.shape", sequences_shape)
        batch_size, length, _ = sequences_shape
        output = (batch_size, cell_adapters.output_size(self.cell))
        if self.return_sequences:
            output = (batch_size, length, output[-1])
        returned = [output]
        if self.return_state:
            returned += keras.tree.map_structure(
                lambda size: (batch_size, size), list(self.state_size)
            )
        if self.return_field:
            returned.append(decisions.shapes(self.cell, batch_size, length))
        return output if len(returned) == 1 else tuple(returned)

    def compute_output_spec(
        self,
        sequences,
        initial_state=None,
        mask=None,
        training=False,
        lookahead=None,
        lookahead_mask=None,
    ):
        self._check_call(sequences, mask, lookahead, lookahead_mask)
        specs = keras.tree.map_shape_structure(
            lambda shape: keras.KerasTensor(shape, dtype=self.compute_dtype),
            self.compute_output_shape(sequences.shape),
        )
        if not self.return_field:
            return specs
        *others, field = specs
        dtype = self.cell.score_dtype
        return *others, {
            name: keras.KerasTensor(spec.shape, dtype=dtype)
            for name, spec in field.items()
        }

    def reset_state(self):
        for variable in keras.tree.flatten(self.states) if self.states else ():
            variable.assign(ops.zeros_like(variable))

    def get_config(self):
        config = super().get_config()
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
