"""Reading ahead in front of any layer, as far as each step needs."""

from typing import Any
from typing import NamedTuple

import keras
from keras import ops

from keras_seqmech.core import checks
from keras_seqmech.core import masks
from keras_seqmech.core import numerics
from keras_seqmech.core.decisions import categorical
from keras_seqmech.core.decisions import log_probabilities
from keras_seqmech.core.decisions.penalties import DecisionPenalties
from keras_seqmech.core.decisions.penalties import PenaltyWeights
from keras_seqmech.core.decisions.sampling import ESTIMATORS
from keras_seqmech.core.decisions.statistics import Decided
from keras_seqmech.core.decisions.statistics import DecisionStatistics
from keras_seqmech.core.decisions.statistics import KeepsStatistics
from keras_seqmech.core.layers import add_scalar
from keras_seqmech.core.layers import batch_mean
from keras_seqmech.core.numerics import finite
from keras_seqmech.core.numerics import finite_gradient
from keras_seqmech.core.numerics import score_dtype
from keras_seqmech.receptive_field.equations import SIZE_SOURCES
from keras_seqmech.receptive_field.equations import arrived
from keras_seqmech.receptive_field.equations import emission_delays
from keras_seqmech.receptive_field.equations import inner_states
from keras_seqmech.receptive_field.equations import keep_weights
from keras_seqmech.receptive_field.windows import look_ahead
from keras_seqmech.typing import Tensor


class Choices(NamedTuple):
    """How far each step reads, float32 or wider.

    Attributes:
        logits: Logits of the sizes, `(batch, time, S)`.
        selection: The sizes as chosen, one-hot or relaxed, of that shape.
        keep: How much of each position is read, of that shape.
        expected_size: Positions read, in expectation, `(batch, time)`.
    """

    logits: Tensor
    selection: Tensor
    keep: Tensor
    expected_size: Tensor

    @property
    def size(self) -> Tensor:
        """Positions read, `(batch, time)`."""
        return ops.sum(self.keep, axis=-1)

    @property
    def probabilities(self) -> Tensor:
        """Probabilities of the sizes, `(batch, time, S)`."""
        # Not ops.softmax, which warns of an axis of size 1.
        return ops.exp(ops.log_softmax(self.logits, axis=-1))

    @property
    def log_probability(self) -> Tensor:
        """Log-probability of drawn sizes, `(batch, time)`."""
        return categorical.log_probability(self.logits, self.selection)

    def field(self, mask: Tensor | None, has_drawn: bool) -> dict[str, Tensor]:
        """What `return_field=True` returns."""
        field = {"size": self.size, "probabilities": self.probabilities}
        if has_drawn:
            field["log_probability"] = self.log_probability
        return {name: masks.zero_masked(x, mask) for name, x in field.items()}


@keras.saving.register_keras_serializable(package="keras_seqmech")
class LookAhead(KeepsStatistics, keras.layers.Layer):
    r"""Shows each step to the next layer with as much ahead as it needs.

    Each step $x_t$ is followed by what comes after it, as far as it chooses
    to read:

    $$y_t = [x_t,\; k_{t,2}\, x_{t+1},\; \dots,\; k_{t,S}\, x_{t+S-1}]$$

    It stands in front of any layer: an `LSTM`, `Conv1D`, attention, a stack.
    What a user would write without it, all $k = 1$, waits for S - 1 steps
    everywhere.

    The size $s_t$ of a step is decided while reading: an inner network reads
    $x_t, x_{t+1}, \dots$ and after each position gives the probability to stop
    there,

    $$n_{t,1} = g(W x_t + V c_t + b), \quad
      n_{t,i+1} = g(W x_{t+i} + U n_{t,i} + b),$$
    $$\pi_{t,i} = \sigma(w\, n_{t,i} + b_i), \quad
      p(s_t = i) = \pi_{t,i} \prod_{j<i} (1 - \pi_{t,j}),$$

    and the last position takes what is left. The `context` $c_t$, such as the
    outputs of a causal LSTM, tells the decision what came before; where a step
    alone does not show whether it needs more, it is worth much. Inference
    stops at the first position with $\pi_{t,i} \ge 1/2$.

    A step cannot leave a stream before those in front of it. So it reads, in
    addition, all that these have waited for: with the last position read so
    far, $r_t = \max(r_{t-1},\, t + s_t - 1)$,

    $$k_{t,i} = 1 \text{ if } t + i - 1 \le r_t, \text{ else } 0,$$

    which delays nothing: the number of positions read, the `"size"`, is the
    emission delay of the step + 1. In training sizes are relaxed samples I
    (see `estimator`), and with $q_{t,i} = \sum_{j \ge i} I_{t,j}$

    $$k_{t,i} = 1 - (1 - q_{t,i})(1 - k_{t-1,i+1}).$$

    Args:
        max_size: Positive int, the largest size S.
        size_from: What the size is chosen from: what the `"field"` has read so
            far, as above, or the step's `"input"` alone, by the logits
            $W x_t + V c_t + b$, before anything ahead is read.
        units: Width of the inner network. Defaults to the number of features.
        estimator: How sizes are learned. `"relaxed"`: soft sizes in training.
            `"straight_through"`: sizes drawn, with the gradient of the relaxed
            sample. `"reinforce"`: sizes drawn; a `PolicyGradientModel` learns
            them from log-probabilities.
        temperature: Positive float, temperature of the relaxed sample. Kept in
            a non-trainable variable of that name, so that callbacks can change
            it without retracing.
        activation: $g$, the inner network's activation.
        penalties: Auxiliary losses of the sizes, a
            `keras_seqmech.DecisionPenalties`; none if None. What is read, the
            positions ahead, is the emission delay.
        return_field: Whether to return, after the outputs, a dict with
            `"size"`, the number of positions read, `(batch, time)`, expected
            under soft sizes; `"probabilities"` of the sizes, `(batch, time,
            max_size)`; and with `estimator="reinforce"` `"log_probability"`
            of the drawn sizes, `(batch, time)`. float32 or wider, 0 at masked
            steps.
        track_statistics: Whether to keep metrics, which appear in `history`:
            those of `ReceptiveFieldRNN`.
        kernel_initializer: Initializer of the kernels.
        recurrent_initializer: Initializer of the inner network's U.
        kernel_regularizer: Regularizer of all the kernels.
        sample_at_inference: Whether to draw sizes at inference too.
        seed: Int, seed of the noise.
        **kwargs: Base layer keyword arguments, such as `name` and `dtype`.

    Call arguments:
        sequence: Tensor `(batch, time, features)`.
        context: Tensor `(batch, time, context_features)`, what only the
            decision sees. It must be causal, or a stream would have to wait for
            it. Given in all calls or in none.
        mask: Boolean tensor `(batch, time)`, any pattern, True where a step is
            real. Keras fills it in where there is no context; beside a context
            pass it.
        training: Whether sizes are drawn (from noise drawn once a call).

    Input shape:
        `(batch, time, features)`.

    Output shape:
        `(batch, time, max_size * features)`; with `return_field`, followed by
        the dict.

    Masking: nothing is read at masked positions, zeros take their places;
    masked steps give zeros. The values there reach neither outputs nor
    gradients.

    Cost: for inner width f a few products over all steps at once, O(T S f^2),
    and S copies of the input; no loop over time.

    Example:

    >>> import keras, numpy as np
    >>> words = keras.Input((None, 5))
    >>> before = keras.layers.LSTM(8, return_sequences=True)(words)
    >>> read = LookAhead(max_size=4)(words, context=before)
    >>> tags = keras.layers.LSTM(8, return_sequences=True)(read)
    >>> keras.Model(words, [read, tags])(np.ones((2, 7, 5)))[0].shape
    TensorShape([2, 7, 20])

    Source: beyond "An Informative Adaptive Receptive Field Model for Recurrent
    Neural Networks", whose fields act through a gate (`ReceptiveFieldRNN`).
    """

    def __init__(
        self,
        max_size: int,
        size_from: str = "field",
        units: int | None = None,
        estimator: str = "relaxed",
        temperature: float = 1.0,
        activation: Any = "tanh",
        penalties: DecisionPenalties | None = None,
        return_field: bool = False,
        track_statistics: bool = False,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        kernel_regularizer: Any = None,
        sample_at_inference: bool = False,
        seed: int | None = None,
        **kwargs: Any,
    ):
        max_size = checks.check_positive_int("max_size", max_size)
        weights = PenaltyWeights(penalties, least=1, most=max_size)
        super().__init__(**kwargs)
        self.supports_masking = True
        self.max_size = max_size
        self.size_from = checks.check_choice(
            "size_from", size_from, SIZE_SOURCES
        )
        if units is not None:
            units = checks.check_positive_int("units", units)
        self.units = units
        self.estimator = checks.check_choice("estimator", estimator, ESTIMATORS)
        self.initial_temperature = checks.check_positive(
            "temperature", temperature
        )
        self.activation = checks.get_activation("activation", activation)
        self.penalties = weights
        self.return_field = checks.check_bool("return_field", return_field)
        self.track_statistics = checks.check_bool(
            "track_statistics", track_statistics
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
        self.sample_at_inference = checks.check_bool(
            "sample_at_inference", sample_at_inference
        )
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)
        self.temperature: keras.Variable | None = None
        if track_statistics:
            self.statistics = DecisionStatistics(
                self.name,
                "mean_size",
                "size_entropy",
                choices=max_size,
                is_size=True,
                name="statistics",
            )

    def build(self, sequence_shape: Any, context_shape: Any = None) -> None:
        checks.check_sequences("sequence.shape", sequence_shape)
        self.temperature = add_scalar(
            self, "temperature", self.initial_temperature
        )
        self.penalties.build()
        self.features = sequence_shape[-1]
        self.context_features = None
        if context_shape is not None:
            checks.check_sequences("context.shape", context_shape)
            self.context_features = context_shape[-1]
        if self.max_size == 1:
            return
        is_field = self.size_from == "field"
        units = (self.units or self.features) if is_field else self.max_size
        self.kernel = self._add_kernel("kernel", self.features, units)
        if self.context_features:
            self.context_kernel = self._add_kernel(
                "context_kernel", self.context_features, units
            )
        self.bias = self.add_weight(
            name="bias", shape=(units,), initializer="zeros"
        )
        if not is_field:
            return
        self.recurrent_kernel = self._add_kernel(
            "recurrent_kernel", units, units, self.recurrent_initializer
        )
        self.stop_kernel = self._add_kernel("stop_kernel", units, 1)
        # At first all sizes are about equally likely, so that all can learn.
        self.stop_bias = self.add_weight(
            name="stop_bias",
            shape=(self.max_size - 1,),
            initializer=lambda shape, dtype: ops.convert_to_tensor(
                categorical.uniform_stop_logits(self.max_size), dtype
            ),
        )

    def _add_kernel(
        self, name: str, rows: int, columns: int, initializer: Any = None
    ) -> keras.Variable:
        return self.add_weight(
            name=name,
            shape=(rows, columns),
            initializer=checks.fresh(initializer or self.kernel_initializer),
            regularizer=self.kernel_regularizer,
        )

    def call(
        self,
        sequence: Tensor,
        context: Tensor | None = None,
        mask: Tensor | None = None,
        training: bool = False,
    ) -> Any:
        self._check_call(sequence, context, mask)
        sequence = checks.assert_length("sequence.shape", sequence)
        mask = masks.as_booleans(mask)
        mask = checks.assert_by_step("mask", mask, sequence)
        sequence = masks.zero_masked(
            ops.cast(sequence, self.compute_dtype), mask
        )
        if context is not None:
            context = checks.assert_by_step("context", context, sequence)
            context = ops.cast(context, self.compute_dtype)
            context = masks.zero_masked(context, mask)
        length = ops.shape(sequence)[1]
        ahead = look_ahead(sequence, self.max_size, length)
        real = masks.real_steps(sequence, mask)
        validity = ops.stack(look_ahead(real, self.max_size, length), axis=-1)
        choices = self._choose(ahead, context, validity, training)
        # An infinite gradient would be NaN where choices saturate.
        keep = finite_gradient(choices.keep, 1e20)
        keep = ops.cast(keep, self.compute_dtype)
        outputs = ops.concatenate(
            [keep[..., i : i + 1] * x for i, x in enumerate(ahead)], axis=-1
        )
        if training:
            self._add_penalties(choices, mask)
        self._update_statistics(choices, validity, mask)
        if not self.return_field:
            return outputs
        return outputs, choices.field(mask, self.estimator == "reinforce")

    def _check_call(
        self, sequence: Tensor, context: Tensor | None, mask: Tensor | None
    ) -> None:
        checks.check_sequences("sequence.shape", sequence.shape)
        checks.check_mask("mask", mask, sequence.shape)
        if context is not None:
            checks.check_sequences("context.shape", context.shape)
            pairs = list(zip(context.shape[:2], sequence.shape[:2]))
            if any(None not in pair and len({*pair}) > 1 for pair in pairs):
                raise ValueError(
                    "Argument `context` must have the batch size and the "
                    f"steps of its sequence, {tuple(sequence.shape[:2])}. "
                    f"Received: context.shape={tuple(context.shape)}"
                )
        if not self.built:
            return
        checks.check_features("sequence.shape", sequence.shape, self.features)
        if (context is None) != (self.context_features is None):
            raise ValueError(
                "Argument `context` must be given in all calls or in none. "
                f"Received: context={context!r}, in a layer that was built "
                f"{'with' if context is None else 'without'} one"
            )
        if context is not None:
            checks.check_features(
                "context.shape", context.shape, self.context_features
            )

    def size_logits(
        self, ahead: list[Tensor], context: Tensor | None, validity: Tensor
    ) -> Tensor:
        """Logits of the sizes.

        Args:
            ahead: S tensors `(..., features)`: a step and those after it.
            context: Tensor `(..., context_features)` or None.
            validity: Boolean tensor `(..., S)`: which of them are real.

        Returns:
            Tensor `(..., S)`, float32 or wider.
        """
        dtype = score_dtype(self.compute_dtype)
        if self.max_size == 1:
            return ops.zeros_like(ops.cast(validity, dtype))
        offset: Tensor = 0
        if context is not None:
            offset = self._product(context, self.context_kernel)
        if self.size_from == "input":
            scores = self._product(ahead[0], self.kernel) + offset + self.bias
            return finite(ops.cast(scores, dtype))
        products = [self._product(x, self.kernel) + self.bias for x in ahead]
        states = inner_states(
            [products[0] + offset, *products[1:]],
            ops.cast(self.recurrent_kernel, self.compute_dtype),
            validity,
            self.activation,
        )
        stops = [
            numerics.product(
                ops.cast(state, dtype), ops.cast(self.stop_kernel, dtype)
            )
            for state in states[:-1]
        ]
        stop_logits = ops.concatenate(stops, axis=-1)
        stop_logits += ops.cast(self.stop_bias, dtype)
        exist = categorical.value_mask(validity, dtype)
        return finite(categorical.log_probabilities(stop_logits, exist))

    def _product(self, x: Tensor, kernel: keras.Variable) -> Tensor:
        return numerics.product(x, ops.cast(kernel, x.dtype))

    def select(self, logits: Tensor, training: bool) -> Tensor:
        """Sizes, one-hot or relaxed, as training or inference chooses them."""
        if training or self.sample_at_inference:
            estimator = self.estimator if training else "reinforce"
            return categorical.sample(
                logits, self.temperature, estimator, self.seed_generator
            )
        if self.size_from == "field":
            return categorical.first_stop(logits)
        return categorical.hard_one_hot(logits)

    def _choose(
        self,
        ahead: list[Tensor],
        context: Tensor | None,
        validity: Tensor,
        training: bool,
    ) -> Choices:
        logits = self.size_logits(ahead, context, validity)
        selection = self.select(logits, training)
        real = ops.cast(validity, logits.dtype)
        # A masked step asks for nothing and reads nothing.
        own = real[..., :1]

        def keep(selection: Tensor) -> Tensor:
            return arrived(keep_weights(selection, own)) * real * own

        expected = keep(ops.exp(ops.log_softmax(logits, axis=-1)))
        return Choices(
            logits, selection, keep(selection), ops.sum(expected, axis=-1)
        )

    def _add_penalties(self, choices: Choices, mask: Tensor | None) -> None:
        """Adds the auxiliary losses, and reports log-probabilities."""
        drawn = self.estimator == "reinforce"
        measures = categorical.measure(
            choices.logits, choices.size if drawn else choices.expected_size
        )
        losses = self.penalties.losses(measures, mask)
        if self.max_size > 1:
            self.add_loss(batch_mean(losses.reading + losses.uncertainty))
        if drawn and (
            self.max_size > 1 or log_probabilities.current() is not None
        ):
            log_probability = masks.zero_masked(choices.log_probability, mask)
            log_probabilities.report(
                self, ops.sum(log_probability, axis=1), losses.reading
            )

    def _update_statistics(
        self, choices: Choices, validity: Tensor, mask: Tensor | None
    ) -> None:
        if self.statistics is None:
            return
        decided = Decided(
            amount=choices.size,
            entropy=categorical.entropy(choices.logits),
            # The maximum of an empty batch needs an initial value.
            confidence=ops.max(choices.probabilities, axis=-1, initial=0),
            choice=categorical.best(choices.probabilities),
            # Steps that the end of the sequence cuts are left out.
            free=ops.all(validity, axis=-1),
            delay=emission_delays(choices.size, validity),
        )
        self.statistics.update(decided, mask)

    def compute_mask(self, sequence: Tensor, mask: Any = None) -> Any:
        mask = mask[0] if isinstance(mask, (list, tuple)) else mask
        return (mask, None) if self.return_field else mask

    def compute_output_shape(
        self, sequence_shape: Any, context_shape: Any = None
    ) -> Any:
        checks.check_sequences("sequence.shape", sequence_shape)
        *steps, features = sequence_shape
        outputs = (*steps, self.max_size * features)
        if not self.return_field:
            return outputs
        field = {
            "size": tuple(steps),
            "probabilities": (*steps, self.max_size),
        }
        if self.estimator == "reinforce":
            field["log_probability"] = tuple(steps)
        return outputs, field

    def compute_output_spec(
        self,
        sequence: Tensor,
        context: Tensor | None = None,
        mask: Tensor | None = None,
        training: bool = False,
    ) -> Any:
        self._check_call(sequence, context, mask)
        specs = keras.tree.map_shape_structure(
            lambda shape: keras.KerasTensor(shape, dtype=self.compute_dtype),
            self.compute_output_shape(sequence.shape),
        )
        if not self.return_field:
            return specs
        outputs, field = specs
        dtype = score_dtype(self.compute_dtype)
        return outputs, {
            name: keras.KerasTensor(spec.shape, dtype=dtype)
            for name, spec in field.items()
        }

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "max_size": self.max_size,
            "size_from": self.size_from,
            "units": self.units,
            "estimator": self.estimator,
            "temperature": self.initial_temperature,
            "activation": keras.activations.serialize(self.activation),
            "return_field": self.return_field,
            "track_statistics": self.track_statistics,
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
            **self.penalties.as_argument(),
        }
