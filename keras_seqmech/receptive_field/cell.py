"""The adaptive receptive field as a recurrent cell, and its stream."""

import functools
import warnings
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_seqmech.core import cells
from keras_seqmech.core import checks
from keras_seqmech.core.decisions import choices
from keras_seqmech.core.decisions import reports
from keras_seqmech.core.decisions.choices import ESTIMATORS
from keras_seqmech.core.decisions.choices import Decision
from keras_seqmech.core.decisions.learning import DecisionPenalties
from keras_seqmech.core.decisions.learning import HasInference
from keras_seqmech.core.decisions.learning import PenaltyWeights
from keras_seqmech.core.decisions.learning import as_log_weight
from keras_seqmech.core.layers import add_kernel
from keras_seqmech.core.layers import add_scalar
from keras_seqmech.core.layers import freeze_parts
from keras_seqmech.core.layers import unbuilt_config
from keras_seqmech.core.loop import at_one_step
from keras_seqmech.core.masks import zero_masked
from keras_seqmech.core.numerics import score_dtype
from keras_seqmech.core.stream import Queue
from keras_seqmech.core.stream import RecurrentSteps
from keras_seqmech.core.stream import State
from keras_seqmech.core.stream import Stepped
from keras_seqmech.core.stream import Tick
from keras_seqmech.core.stream import first_states
from keras_seqmech.receptive_field.ahead import UNREAD
from keras_seqmech.receptive_field.ahead import first_queue
from keras_seqmech.receptive_field.ahead import oldest_window
from keras_seqmech.receptive_field.field import SIZE_SOURCES
from keras_seqmech.receptive_field.field import Field
from keras_seqmech.receptive_field.field import FieldChoice
from keras_seqmech.receptive_field.field import check_activation
from keras_seqmech.receptive_field.field import field_step
from keras_seqmech.receptive_field.field import forget
from keras_seqmech.receptive_field.field import hoist
from keras_seqmech.receptive_field.field import keep_weights
from keras_seqmech.typing import Tensor

SUMMARIES = ("mean", "last")
GATED = ("memory", "output")


@keras.saving.register_keras_serializable(package="keras_seqmech")
class RFCell(HasInference, keras.layers.Layer):
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

    where $\bar m_t$ sums up $m_{t,1..s_t}$. The gate of (3) and (4) acts on the
    cell's memory, the paper's "long-term store", such as the carry c of an LSTM
    (see `gated`). In (1) $h_{t-1}$ is the cell's first state, such as the
    output h of an LSTM. With `estimator="relaxed"`, training replaces (2) by
    its soft form, eqs. 6 to 8.

    By (1) the size is chosen before anything ahead is read. With
    `size_from="field"`, which is not in the paper, the size depends on what
    has been read so far: after each position the inner state gives the
    probability to stop there,

    $$\pi_{t,i} = \sigma(w m_{t,i} + v h_{t-1} + b_i), \quad
      p(s_t = i) = \pi_{t,i} \prod_{j<i} (1 - \pi_{t,j}),$$

    and the last position takes what is left. There is no choice at positions
    that are masked or past the end: they get probability 0, and the last real
    position takes what is left. Relaxed sizes then mix what fields of each
    size read, $\bar m_t = \sum_i I_{t,i} n_{t,i}$, in place of eqs. 6 and 8.
    Inference stops at the first position with $\pi_{t,i} \ge 1/2$: unlike the
    likeliest size it is known as soon as that position has been read.

    Most people want `ReceptiveFieldRNN`, which has the same weights, gives
    the same answers, makes the windows itself, and is several times faster.

    Args:
        cell: A Keras cell (`keras.layers.LSTMCell`, `GRUCell`,
            `SimpleRNNCell`, `StackedRNNCells`, your own), or a list of cells
            to stack. At masked steps the cell is called on zeros and its
            result is discarded; its gradient at zero input must be finite.
        max_size: Positive int, the largest field size S. With 1 the field is
            always $x_t$ alone (the paper's RF-minus).
        field_units: Width of the inner network. Defaults to the size of the
            cell's first state.
        summary: What the gate sees of a field: `"mean"` of its inner states
            (easier to optimise, says the paper) or the `"last"` one.
        estimator: How sizes are learned. `"relaxed"`: soft sizes in training
            (eq. 7). `"straight_through"`: sizes drawn, with the gradient of
            the relaxed sample. `"reinforce"`: sizes drawn, without a
            gradient to the size weights, which a `ReceptiveFieldRNN` in a
            `PolicyGradientModel` learns from log-probabilities; within
            `keras.layers.RNN` they are not learned.
        temperature: Positive float, $\tau$ of the relaxed sample. Kept in a
            non-trainable variable of that name, so that callbacks can change
            it without retracing.
        activation: $g$, the inner network's activation, without weights.
        gated: The state that the gate multiplies. `"memory"`: the cell's last
            one, which is c of an `LSTMCell`, the only state of `GRUCell` and
            `SimpleRNNCell`, and the last one that a cell of your own lists.
            `"output"`: its first state, h. In stacked cells, a state of the
            first cell, which reads the inputs.
        size_from: What the size is chosen from: the step's `"input"` (eq. 1),
            or what the `"field"` has read so far.
        penalties: Auxiliary losses of the sizes, a
            `keras_seqmech.DecisionPenalties`; None for no losses. They act
            where a `ReceptiveFieldRNN` trains the cell, not within
            `keras.layers.RNN`.
        unit_forget_bias: Whether $b_F$ starts at 1, so that the gate starts
            mostly open; else at 0.
        kernel_initializer: Initializer of the kernels. One with a seed gives
            kernels of the same shape the same values.
        recurrent_initializer: Initializer of the inner network's $U_m$.
        kernel_regularizer: Regularizer of all the kernels ($U_m$ included).
        inference: How inference chooses sizes. `"greedy"`: the most probable
            size, or the first stop that is as probable as not, so that a
            served model is deterministic. `"sample"`: drawn.
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

    Masking: a field contains no position that is masked or past the end; the
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

    inferences = choices.SIZE_INFERENCES

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
        **kwargs: Any,
    ):
        cell = checks.check_cell("cell", cell)
        max_size = checks.check_positive_int("max_size", max_size)
        penalty_weights = PenaltyWeights(penalties, least=1, most=max_size)
        super().__init__(**kwargs)
        self.cell = cell
        self.max_size = max_size
        if field_units is not None:
            field_units = checks.check_positive_int("field_units", field_units)
        self.field_units = field_units
        self.summary = checks.check_choice("summary", summary, SUMMARIES)
        self.estimator = checks.check_choice("estimator", estimator, ESTIMATORS)
        self.initial_temperature = checks.check_positive(
            "temperature", temperature
        )
        self.activation = check_activation("activation", activation)
        self.gated = checks.check_choice("gated", gated, GATED)
        self.size_from = checks.check_choice(
            "size_from", size_from, SIZE_SOURCES
        )
        self.penalty_weights = penalty_weights
        self.penalties = penalty_weights.initial
        self.unit_forget_bias = checks.check_bool(
            "unit_forget_bias", unit_forget_bias
        )
        self.kernel_initializer = checks.get_initializer(
            "kernel_initializer", kernel_initializer
        )
        self.recurrent_initializer = checks.get_initializer(
            "recurrent_initializer", recurrent_initializer
        )
        self.kernel_regularizer = checks.get_regularizer(
            "kernel_regularizer", kernel_regularizer
        )
        self.inference = inference
        self.seed = checks.check_seed(seed)
        self.seed_generator = keras.random.SeedGenerator(self.seed)
        self.temperature: keras.Variable | None = None
        # Whether the layer around it is given the weight of what is read.
        self.takes_weight = False
        self.state_size = cells.state_size(cell)
        self.output_size = cells.output_size(cell)
        # Index among all states, flat.
        self.gated_state = cells.gated_state(cell, gated)
        freeze_parts(self)

    def build(self, input_shape: Any) -> None:
        checks.check_windows("input_shape", input_shape, self.max_size, "batch")
        features = input_shape[-1] - 1
        state_sizes = cells.flat_state_sizes(self.cell)
        field_units = self.field_units or state_sizes[0]
        gated_units = state_sizes[self.gated_state]
        self.temperature = add_scalar(
            self, "temperature", self.initial_temperature
        )
        kernel = functools.partial(add_kernel, self)
        if self.max_size > 1:
            self._build_sizes(features, state_sizes[0], field_units)
            self.field_recurrent_kernel = kernel(
                "field_recurrent_kernel",
                (field_units, field_units),
                self.recurrent_initializer,
            )
        self.field_kernel = kernel("field_kernel", (features, field_units))
        self.field_bias = self.add_weight(
            name="field_bias", shape=(field_units,), initializer="zeros"
        )
        self.forget_kernel = kernel("forget_kernel", (field_units, gated_units))
        self.forget_bias = self.add_weight(
            name="forget_bias",
            shape=(gated_units,),
            initializer="ones" if self.unit_forget_bias else "zeros",
        )
        self.penalty_weights.build()
        cells.build(self.cell, input_shape[0], features)

    def _build_sizes(self, features: int, units: int, field_units: int) -> None:
        """Makes the weights that choose a size.

        Decisions are float32 or wider, and so are their weights.
        """
        kernel = functools.partial(add_kernel, self, autocast=False)
        weight = functools.partial(self.add_weight, autocast=False)
        if self.takes_weight:
            scores = self.max_size - (self.size_from == "field")
            self.weight_kernel = weight(
                (scores,), "zeros", name="weight_kernel"
            )
        if self.size_from == "input":
            self.size_kernel = kernel("size_kernel", (features, self.max_size))
            self.size_recurrent_kernel = kernel(
                "size_recurrent_kernel", (units, self.max_size)
            )
            return
        self.stop_kernel = kernel("stop_kernel", (field_units, 1))
        self.stop_recurrent_kernel = kernel("stop_recurrent_kernel", (units, 1))
        # At first all sizes are about equally likely, so that all can learn.
        stops = (self.max_size - 1,)
        self.stop_bias = weight(stops, choices.uniform_stops, name="stop_bias")

    def call(
        self, inputs: Tensor, states: Any, training: bool = False
    ) -> tuple[Tensor, Any]:
        checks.check_windows(
            "inputs.shape", inputs.shape, self.max_size, "batch"
        )
        features = self.field_kernel.shape[0]
        checks.check_features("inputs.shape", inputs.shape, features + 1)
        if training:
            self._warn_unsupported_in_keras_rnn()
        validity = inputs[..., -1] > 0.5
        window = ops.where(validity[..., None], inputs[..., :-1], 0)
        flat = keras.tree.flatten(states)
        output, new, _ = self.read_window(window, validity, flat, training)
        return output, keras.tree.pack_sequence_as(states, new)

    def read_window(
        self,
        window: Tensor,
        validity: Tensor,
        states: list[Tensor],
        training: bool = False,
        log_weight: Tensor | None = None,
    ) -> tuple[Tensor, list[Tensor], FieldChoice]:
        """One time step, on a window of each row.

        Args:
            window: Tensor `(batch, max_size, features)`, finite.
            validity: Boolean tensor `(batch, max_size)`: the real positions.
            states: The wrapped cell's states, flat.
            training: Whether sizes are drawn.
            log_weight: The weight of what is read as decisions see it,
                `(batch, 1)`, or None.

        Returns:
            The wrapped cell's output and states, flat, and the sizes.
        """
        field = self.field(training)
        offsets = [field.offsets(window[:, i]) for i in range(self.max_size)]
        operands = hoist(
            field, window[:, 0], offsets, validity, log_weight=log_weight
        )
        sample = None
        if self.draws(training):

            def sample(logits: Tensor) -> Tensor:
                return field.sample(logits, self.seed_generator)

        chosen = field_step(field, at_one_step(operands), states[0], sample)
        gated = forget(chosen.gate, states, self.gated_state)
        with cells.fresh_dropout(self.cell):
            output, new = cells.call_cell(
                self.cell, window[:, 0], gated, training
            )
        dtype = self.compute_dtype
        new = [ops.cast(state, dtype) for state in new]
        return ops.cast(output, dtype), new, chosen

    def _warn_unsupported_in_keras_rnn(self) -> None:
        """Warns of what has no effect within `keras.layers.RNN`."""
        draws = self.estimator == "reinforce" and self.max_size > 1
        if draws or self.penalties != DecisionPenalties():
            warnings.warn(
                "Sizes that are drawn within `keras.layers.RNN` are not "
                "learned, and penalties do not act; use `ReceptiveFieldRNN`. "
                f"Received: {self.name!r} with estimator={self.estimator!r}, "
                f"{self.penalties}",
                UserWarning,
                stacklevel=2,
            )

    def field(self, training: bool) -> Field:
        """The field with the cell's weights as they stand now."""

        def data(variable: keras.Variable) -> Tensor:
            return ops.cast(variable, self.compute_dtype)

        def score(variable: keras.Variable) -> Tensor:
            return ops.cast(variable, self.score_dtype)

        sizes: dict[str, Tensor] = {}
        if self.max_size > 1:
            sizes["recurrent_kernel"] = data(self.field_recurrent_kernel)
            if self.takes_weight:
                sizes["weight_kernel"] = score(self.weight_kernel)
            if self.size_from == "input":
                sizes["size_kernel"] = score(self.size_kernel)
                recurrent = score(self.size_recurrent_kernel)
            else:
                sizes["size_kernel"] = score(self.stop_kernel)
                sizes["size_bias"] = score(self.stop_bias)
                kernel = score(self.stop_recurrent_kernel)
                shape = (kernel.shape[0], self.max_size - 1)
                recurrent = ops.broadcast_to(kernel, shape)
            sizes["size_recurrent_kernel"] = recurrent
        return Field(
            self.max_size,
            self.size_from,
            self.summary,
            self.estimator,
            bool(training),
            self.activation,
            # Read here, as no variable is read in the gradient of a loop.
            tf.convert_to_tensor(self.temperature),
            data(self.field_kernel),
            data(self.field_bias),
            data(self.forget_kernel),
            data(self.forget_bias),
            **sizes,
        )

    @property
    def window_size(self) -> int:
        """Positions of a step's input: this cell reads windows."""
        return self.max_size

    @property
    def score_dtype(self) -> str:
        """The dtype of logits, probabilities and noise."""
        return score_dtype(self.compute_dtype)

    def draws(self, training: bool) -> bool:
        """Returns whether sizes are drawn."""
        return training or self.inference == "sample"

    def sample_noise(self, shape: Any, training: bool) -> Tensor | None:
        """Gumbel noise of `shape`, or None where sizes are not drawn."""
        if not self.draws(training):
            return None
        return choices.gumbel_noise(
            shape, self.seed_generator, self.score_dtype
        )

    def sizes(
        self,
        logits: Tensor,
        selection: Tensor,
        validity: Tensor,
    ) -> Decision:
        """The sizes of steps, from the parts of a `FieldChoice`."""
        valid = ops.cast(validity, self.score_dtype)

        def positions_read(selection: Tensor) -> Tensor:
            return ops.sum(keep_weights(selection, valid), axis=-1)

        return choices.decided_sizes(
            logits, selection, self.estimator, positions_read
        )

    def stream_steps(self, rnn: keras.layers.RNN, owner: Any) -> "FieldSteps":
        """The steps of a `keras.layers.RNN` with this cell."""
        return FieldSteps(rnn, owner)

    def get_initial_state(self, batch_size: Any = None) -> Any:
        """The wrapped cell's initial state."""
        get_initial_state = getattr(self.cell, "get_initial_state", None)
        if get_initial_state is not None:
            return get_initial_state(batch_size=batch_size)
        return keras.tree.map_structure(
            lambda size: ops.zeros((batch_size, size), self.compute_dtype),
            self.state_size,
        )

    def get_config(self) -> dict[str, Any]:
        serialize = keras.saving.serialize_keras_object
        return {
            **super().get_config(),
            "cell": unbuilt_config(self.cell),
            "max_size": self.max_size,
            "field_units": self.field_units,
            "summary": self.summary,
            "estimator": self.estimator,
            "temperature": self.initial_temperature,
            "activation": keras.activations.serialize(self.activation),
            "gated": self.gated,
            "size_from": self.size_from,
            "unit_forget_bias": self.unit_forget_bias,
            "kernel_initializer": serialize(self.kernel_initializer),
            "recurrent_initializer": serialize(self.recurrent_initializer),
            "kernel_regularizer": serialize(self.kernel_regularizer),
            "inference": self.inference,
            "seed": self.seed,
            "penalties": serialize(self.penalties),
        }

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: Any = None
    ) -> "RFCell":
        cell = keras.saving.deserialize_keras_object(
            config["cell"], custom_objects=custom_objects
        )
        return cls(**{**config, "cell": cell})


class FieldSteps(RecurrentSteps):
    """The steps of a `keras.layers.RNN` with an `RFCell`.

    They are called on the sequence itself, not on windows over it: a step
    leaves once the positions that it chose to read have arrived.
    """

    @property
    def stream_delay(self) -> int:
        """The most further steps that a step waits for."""
        return self.rnn.cell.max_size - 1

    @property
    def stream_refusal(self) -> str | None:
        """The reason why the layer cannot be streamed, or None."""
        if self.rnn.cell.inference == "sample":
            return "draws at inference"
        return super().stream_refusal

    @property
    def stream_unread(self) -> tuple[str, ...]:
        """Decisions that depend on what a step has not read."""
        return UNREAD[self.rnn.cell.size_from]

    def stream_state(self, batch_size: Tensor) -> State:
        """Beside that of the cell, the steps that wait."""
        cell = self.rnn.cell
        features, dtype = cell.field_kernel.shape[0], cell.compute_dtype
        queue = first_queue(
            batch_size, self.stream_delay, dtype, sequence=features
        )
        return {**super().stream_state(batch_size), **queue}

    def stream_step(
        self,
        state: State,
        tick: Tick,
        sequence: Tensor,
        initial_state: Any = None,
        mask: Tensor | None = None,
        weight: Tensor | None = None,
        limit: Tensor | None = None,
    ) -> Stepped:
        """Calls the cell where the oldest step has all that it reads."""
        cell = self.rnn.cell
        arriving = {
            "sequence": ops.cast(sequence, cell.compute_dtype),
            "real": tick.real(mask)[:, None],
        }
        queue = Queue.receive(state, arriving, tick)
        window = oldest_window(queue, tick, limit, cell.max_size)
        is_first, real = window.passed == 0, window.real
        states = first_states(is_first, initial_state, state["states"])
        if weight is not None:
            weight = self.rnn.check_weight(weight, sequence)
        log_weight = as_log_weight(weight, cell.score_dtype)
        output, new, chosen = cell.read_window(
            window.steps, window.allowed, states, log_weight=log_weight
        )
        asked = choices.best(chosen.selection) + 1
        # A masked step reads nothing.
        needed = tf.where(real[:, 0], tf.minimum(asked, window.most), 1)
        leaves, pending = queue.oldest_leave(needed, tick)
        outputs, state = self.advance(
            output,
            new,
            {**state, "states": states},
            leaves,
            leaves & real[:, 0],
        )
        returns_field = getattr(self.rnn, "return_field", False)
        if returns_field or reports.is_recording():
            sizes = cell.sizes(
                chosen.logits, chosen.selection, real & window.allowed
            ).map(lambda x: zero_masked(x[:, None], real[:, :1]))
            outputs = outputs if isinstance(outputs, list) else [outputs]
            outputs = reports.with_decisions(
                self.rnn, outputs, sizes.shown("size"), returns_field
            )
        if not self.stream_delay:
            return Stepped(outputs, state)
        state["queue"] = queue.remove_first(leaves)._asdict()
        return Stepped(outputs, state, leaves, pending)
