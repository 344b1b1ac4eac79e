"""The adaptive receptive field as a recurrent cell."""

import keras
from keras import ops

from keras_seqmech.layers import cell_adapters
from keras_seqmech.layers import validation
from keras_seqmech.ops import receptive_field
from keras_seqmech.ops.decisions import categorical
from keras_seqmech.ops.decisions import sampling
from keras_seqmech.ops.decisions.estimators import ESTIMATORS
from keras_seqmech.ops.precision import finite
from keras_seqmech.ops.precision import score_dtype

SUMMARIES = ("mean", "last")


@keras.saving.register_keras_serializable(package="keras_seqmech")
class RFCell(keras.layers.Layer):
    r"""Recurrent cell that looks ahead as far as each step needs.

    Wraps any Keras cell. At each step it chooses how many of the next inputs
    to read, reads them with a small inner network, and lets what it read gate
    the state before the wrapped cell moves on:

    $$d_t = \mathrm{softmax}(W_{sx} x_t + W_{sh} h_{t-1}), \quad
      s_t \sim d_t \quad (1)$$
    $$m_{t,i+1} = g(W_m x_{t+i} + U_m m_{t,i} + b_m), \quad m_{t,0} = 0
      \quad (2)$$
    $$h^f_{t-1} = \sigma(W_F \bar m_t + b_F) \odot h_{t-1} \quad (3, 4)$$
    $$h_t = \mathrm{cell}(x_t, h^f_{t-1}) \quad (5)$$

    where $h$ is the cell's first state (of an LSTM: the output, not the
    carry) and $\bar m_t$ sums up $m_{t,1..s_t}$. With
    `estimator="relaxed"`, training replaces (2) by its soft form, eqs. 6 to 8.

    Most people want `ReceptiveFieldRNN`, which has the same weights, gives
    the same answers, makes the windows itself, and is several times faster.

    Args:
        cell: A Keras cell (`keras.layers.LSTMCell`, `GRUCell`,
            `SimpleRNNCell`, `StackedRNNCells`, your own), or a list of cells
            to stack. At masked steps it sees zeros, where its gradient must
            be finite.
        max_size: Positive int, the largest field size S. With 1 the field is
            always $x_t$ alone (the paper's RF-minus).
        field_units: Width of the inner network. Defaults to the size of the
            cell's first state.
        summary: What the gate sees of a field: `"mean"` of its inner states
            (easier to optimise, says the paper) or the `"last"` one.
        estimator: How sizes are learned. `"relaxed"`: soft sizes in training
            (eq. 7). `"straight_through"`: sizes drawn, with the gradient of
            the relaxed sample. `"reinforce"`: sizes drawn, no gradient to the
            size weights; train them on the log-probability that
            `ReceptiveFieldRNN(return_field=True)` puts out.
        temperature: Positive float, $\tau$ of the relaxed sample. Kept in a
            non-trainable variable of that name, so that callbacks can change
            it without retracing.
        activation: $g$, the inner network's activation, without weights.
        unit_forget_bias: Whether $b_F$ starts at 1, so that the gate starts
            mostly open; else at 0.
        kernel_initializer: Initializer of the kernels. One with a seed gives
            kernels of the same shape the same values.
        recurrent_initializer: Initializer of the inner network's $U_m$.
        kernel_regularizer: Regularizer of all the kernels ($U_m$ included).
        sample_at_inference: Whether to draw sizes at inference too. By
            default inference takes the most probable size, so a served model
            is deterministic.
        seed: Int, seed of the noise. `keras.layers.Bidirectional` gives it to
            both directions.
        **kwargs: Base layer keyword arguments, such as `name` and `dtype`.

    Call arguments:
        inputs: One window of each row, `(batch, max_size, features + 1)`,
            from `ReceptiveFieldWindows(max_size)`.
        states: The wrapped cell's states.
        training: Whether sizes are drawn.

    Input shape:
        `(batch, max_size, features + 1)`; inside `keras.layers.RNN`,
        `(batch, time, max_size, features + 1)`.

    Output shape:
        The wrapped cell's.

    Masking: a field contains no masked position and none past the end; the
    inner network carries its state over them.

    Randomness: a step draws its own noise from the cell's seed generator.
    Dropout masks of the wrapped cell are drawn each step too.

    Cost: S inner steps and one cell step a time step.

    Example:

    >>> import keras, numpy as np
    >>> cell = RFCell(keras.layers.LSTMCell(8), max_size=4)
    >>> inputs = keras.Input((None, 5))
    >>> windows = ReceptiveFieldWindows(max_size=4)(inputs)
    >>> model = keras.Model(inputs, keras.layers.RNN(cell)(windows))
    >>> model(np.ones((2, 7, 5))).shape
    TensorShape([2, 8])

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
        **kwargs,
    ):
        cell = validation.check_cell("cell", cell)
        max_size = validation.check_positive_int("max_size", max_size)
        if field_units is not None:
            field_units = validation.check_positive_int(
                "field_units", field_units
            )
        validation.check_choice("summary", summary, SUMMARIES)
        validation.check_choice("estimator", estimator, ESTIMATORS)
        temperature = validation.check_positive("temperature", temperature)
        activation = keras.activations.get(activation)
        if isinstance(activation, keras.layers.Layer):
            raise ValueError(
                "Argument `activation` must be a function without weights, or "
                f"the name of one. Received: activation={activation!r}"
            )
        super().__init__(**kwargs)
        self.cell = cell
        self.max_size = max_size
        self.state_size = cell.state_size
        self.output_size = cell_adapters.output_size(cell)
        self.units = cell_adapters.flat_state_sizes(cell)[0]
        self.field_units = self.units if field_units is None else field_units
        self.summary = summary
        self.estimator = estimator
        self.initial_temperature = temperature
        self.activation = activation
        self.unit_forget_bias = unit_forget_bias
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.recurrent_initializer = keras.initializers.get(
            recurrent_initializer
        )
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self.sample_at_inference = sample_at_inference
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)
        self.temperature = None

    def build(self, input_shape):
        validation.check_window("input_shape", input_shape, self.max_size)
        features = input_shape[-1] - 1
        self.temperature = self.add_weight(
            name="temperature",
            shape=(),
            dtype="float32",
            initializer=keras.initializers.Constant(self.initial_temperature),
            trainable=False,
            autocast=False,
        )

        def kernel(name, rows, columns, initializer=self.kernel_initializer):
            return self.add_weight(
                name=name,
                shape=(rows, columns),
                initializer=validation.fresh(initializer),
                regularizer=self.kernel_regularizer,
            )

        if self.max_size > 1:
            self.size_kernel = kernel("size_kernel", features, self.max_size)
            self.size_recurrent_kernel = kernel(
                "size_recurrent_kernel", self.units, self.max_size
            )
            self.field_recurrent_kernel = kernel(
                "field_recurrent_kernel",
                self.field_units,
                self.field_units,
                self.recurrent_initializer,
            )
        self.field_kernel = kernel("field_kernel", features, self.field_units)
        self.field_bias = self.add_weight(
            name="field_bias", shape=(self.field_units,), initializer="zeros"
        )
        self.forget_kernel = kernel(
            "forget_kernel", self.field_units, self.units
        )
        self.forget_bias = self.add_weight(
            name="forget_bias",
            shape=(self.units,),
            initializer="ones" if self.unit_forget_bias else "zeros",
        )
        cell_adapters.build(self.cell, input_shape[0], features)

    def call(self, inputs, states, training=False):
        validation.check_window("inputs.shape", inputs.shape, self.max_size)
        nested_states = states
        hidden, *rest = keras.tree.flatten(states)
        validity = inputs[..., -1] > 0.5
        window = ops.where(validity[..., None], inputs[..., :-1], 0)
        field = self._read(window, validity, hidden, training)
        gate = ops.sigmoid(
            ops.matmul(field, self.forget_kernel) + self.forget_bias
        )
        with cell_adapters.fresh_dropout(self.cell):
            output, states = cell_adapters.call_cell(
                self.cell, window[:, 0], [gate * hidden, *rest], training
            )
        dtype = self.compute_dtype
        states = [ops.cast(state, dtype) for state in states]
        states = keras.tree.pack_sequence_as(nested_states, states)
        return ops.cast(output, dtype), states

    def _read(self, window, validity, hidden, training):
        """Chooses a field and reads it, one window a row."""
        offsets = [
            ops.matmul(window[:, i], self.field_kernel) + self.field_bias
            for i in range(self.max_size)
        ]
        if self.max_size == 1:
            return self.activation(offsets[0])
        logits = ops.matmul(
            ops.cast(window[:, 0], self.score_dtype),
            ops.cast(self.size_kernel, self.score_dtype),
        ) + ops.matmul(
            ops.cast(hidden, self.score_dtype),
            ops.cast(self.size_recurrent_kernel, self.score_dtype),
        )
        noise = self.sample_noise(ops.shape(logits), training)
        selection = self.choose(logits, noise, training)
        if self.draws_soft(training):
            keep = receptive_field.keep_weights(
                selection, ops.cast(validity, selection.dtype)
            )

            def candidate(i, state):
                product = ops.matmul(state, self.field_recurrent_kernel)
                return self.activation(offsets[i] + product)

            return receptive_field.soft_summary(
                self.activation(offsets[0]), candidate, keep, self.summary
            )
        summaries = receptive_field.run_summaries(
            offsets,
            self.field_recurrent_kernel,
            validity,
            self.activation,
            self.summary,
        )
        return self.pick(selection, summaries, training)

    @property
    def score_dtype(self) -> str:
        """The dtype of logits, probabilities and noise."""
        return score_dtype(self.compute_dtype)

    def draws_soft(self, training: bool) -> bool:
        """Whether sizes are soft in this call."""
        return bool(training) and self.estimator == "relaxed"

    def sample_noise(self, shape, training: bool):
        """Gumbel noise of `shape`, or None where sizes are not drawn."""
        if not (training or self.sample_at_inference):
            return None
        return sampling.gumbel_noise(
            shape, self.seed_generator, self.score_dtype
        )

    def choose(self, logits, noise, training: bool):
        """Selects sizes: `(batch, max_size)`, relaxed or one-hot."""
        scores = finite(logits)
        scores = scores if noise is None else scores + noise
        if not training:
            return categorical.hard_one_hot(scores)
        return categorical.draw(scores, self.temperature, self.estimator)

    def pick(self, selection, summaries, training: bool):
        """The summary of the selected size, `(batch, field_units)`."""
        if training and self.estimator == "straight_through":
            return receptive_field.mix(selection, summaries)
        return receptive_field.pick(selection, summaries)

    def get_initial_state(self, batch_size=None):
        """The wrapped cell's initial state."""
        get_initial_state = getattr(self.cell, "get_initial_state", None)
        if get_initial_state is not None:
            return get_initial_state(batch_size=batch_size)
        return keras.tree.map_structure(
            lambda size: ops.zeros((batch_size, size), self.compute_dtype),
            self.state_size,
        )

    def get_config(self):
        serialize = keras.saving.serialize_keras_object
        return {
            **super().get_config(),
            "cell": serialize(self.cell),
            "max_size": self.max_size,
            "field_units": self.field_units,
            "summary": self.summary,
            "estimator": self.estimator,
            "temperature": self.initial_temperature,
            "activation": keras.activations.serialize(self.activation),
            "unit_forget_bias": self.unit_forget_bias,
            "kernel_initializer": keras.initializers.serialize(
                self.kernel_initializer
            ),
            "recurrent_initializer": keras.initializers.serialize(
                self.recurrent_initializer
            ),
            "kernel_regularizer": keras.regularizers.serialize(
                self.kernel_regularizer
            ),
            "sample_at_inference": self.sample_at_inference,
            "seed": self.seed,
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        cell = keras.saving.deserialize_keras_object(
            config["cell"], custom_objects=custom_objects
        )
        return cls(**{**config, "cell": cell})
