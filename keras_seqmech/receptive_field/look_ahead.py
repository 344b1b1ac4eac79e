"""Reading ahead in front of any layer, as far as each step needs."""

import math
from functools import partial
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_seqmech.core import checks
from keras_seqmech.core import masks
from keras_seqmech.core import numerics
from keras_seqmech.core.decisions import choices
from keras_seqmech.core.decisions import reports
from keras_seqmech.core.decisions.choices import ESTIMATORS
from keras_seqmech.core.decisions.choices import Decision
from keras_seqmech.core.decisions.learning import EXPLORE_THEN_COMMIT
from keras_seqmech.core.decisions.learning import DecisionPenalties
from keras_seqmech.core.decisions.learning import HasInference
from keras_seqmech.core.decisions.learning import PenaltyWeights
from keras_seqmech.core.decisions.learning import Ramp
from keras_seqmech.core.decisions.learning import as_log_weight
from keras_seqmech.core.layers import add_kernel
from keras_seqmech.core.layers import add_scalar
from keras_seqmech.core.layers import output_specs
from keras_seqmech.core.numerics import finite
from keras_seqmech.core.numerics import finite_gradient
from keras_seqmech.core.stream import Queue
from keras_seqmech.core.stream import State
from keras_seqmech.core.stream import Stepped
from keras_seqmech.core.stream import Tick
from keras_seqmech.core.stream import choose
from keras_seqmech.receptive_field.ahead import UNREAD
from keras_seqmech.receptive_field.ahead import DecidesSizes
from keras_seqmech.receptive_field.ahead import Window
from keras_seqmech.receptive_field.ahead import arrived
from keras_seqmech.receptive_field.ahead import first_queue
from keras_seqmech.receptive_field.ahead import oldest_window
from keras_seqmech.receptive_field.ahead import views_ahead
from keras_seqmech.receptive_field.ahead import within
from keras_seqmech.receptive_field.field import SIZE_SOURCES
from keras_seqmech.receptive_field.field import check_activation
from keras_seqmech.receptive_field.field import inner_states
from keras_seqmech.receptive_field.field import keep_weights
from keras_seqmech.typing import Tensor


@keras.saving.register_keras_serializable(package="keras_seqmech")
class LookAhead(HasInference, DecidesSizes):
    r"""Concatenates an adaptive number of future steps to each step.

    The output at step $x_t$ is that step and the next ones, L in all, and a
    summary of all inputs after the step, which an inner network computes from
    position S back to the step; each as far as the step chooses to read:

    $$y_t = [x_t,\; k_{t,2}\, x_{t+1},\; \dots,\; k_{t,L}\, x_{t+L-1},\;
             r_{t,2}],$$
    $$r_{t,i} = k_{t,i}\, g(W_r x_{t+i-1} + U_r r_{t,i+1} + b_r), \quad
      r_{t,S+1} = 0.$$

    It stands in front of any layer: an `LSTM`, `Conv1D`, attention, a stack.
    What a user would write without it, a window with all $k = 1$, waits for
    S - 1 steps everywhere.

    The size $s_t$ of a step is decided while reading: another inner network
    reads $x_t, x_{t+1}, \dots$ and after each position gives the probability to
    stop there,

    $$n_{t,1} = g(W x_t + V c_t + b), \quad
      n_{t,i+1} = g(W x_{t+i} + U n_{t,i} + b),$$
    $$\pi_{t,i} = \sigma(w\, n_{t,i} + b_i), \quad
      p(s_t = i) = \pi_{t,i} \prod_{j<i} (1 - \pi_{t,j}),$$

    and the last position takes what is left. The `context` $c_t$, such as the
    outputs of a causal LSTM, tells the decision what came before; it helps
    where a step alone does not show whether it needs more. Inference
    stops at the first position with $\pi_{t,i} \ge 1/2$.

    A step cannot leave a stream before those in front of it. It also reads
    what has arrived while these waited: with the last position read so far,
    $e_t = \max(e_{t-1},\, t + s_t - 1)$,

    $$k_{t,i} = 1 \text{ if } t + i - 1 \le e_t, \text{ else } 0,$$

    which delays nothing: without masked steps the number of positions read,
    the `"size"`, is the emission delay of the step + 1. In training sizes are
    samples I (see `estimator`), and with $q_{t,i} = \sum_{j \ge i} I_{t,j}$

    $$k_{t,i} = 1 - (1 - q_{t,i})(1 - k_{t-1,i+1}).$$

    A penalty on what is read makes sizes small: `ExploreThenCommit` schedules
    one, or, where each step has a label, a constant one may do,
    `DecisionPenalties(reading=0.02)`.

    Args:
        max_size: Positive int, the largest size S.
        size_from: What the size is chosen from: what the `"field"` has read so
            far, as above, or the step's `"input"` alone, by the logits
            $W x_t + V c_t + b$, before anything ahead is read.
        window: Positive int, L: how many positions are shown one by one, the
            step included; `max_size` if that is less. What is further ahead is
            in the summary alone.
        units: Width of the inner networks. Defaults to the number of features.
        estimator: How sizes are learned. `"straight_through"`: sizes drawn,
            with the gradient of the relaxed sample, so that training reads as
            inference does. `"relaxed"`: soft sizes in training.
            `"reinforce"`: sizes drawn; a `PolicyGradientModel` learns them
            from log-probabilities.
        temperature: Positive float, temperature of the relaxed sample. Kept in
            a non-trainable variable of that name, so that callbacks can change
            it without retracing.
        initial_stop: Float above 0 and below 1, about the probability at first
            to stop at a position, if `size_from="field"`. By default most
            steps read all at first, so that what is ahead is learned.
        activation: $g$, the inner networks' activation, without weights.
        penalties: Auxiliary losses of the sizes, a
            `keras_seqmech.DecisionPenalties`; None for no losses. What is
            read, the positions ahead, is the emission delay.
        return_field: Whether to return, after the outputs, a dict with
            `"size"`, the number of positions read, `(batch, time)`, expected
            under soft sizes; `"probabilities"` of the sizes, `(batch, time,
            max_size)`; and with `estimator="reinforce"` `"log_probability"`
            of the drawn sizes, `(batch, time)`. float32 or wider, 0 at masked
            steps.
        track_statistics: Whether to keep metrics, which appear in `history`:
            those of `ReceptiveFieldRNN`.
        kernel_initializer: Initializer of the kernels.
        recurrent_initializer: Initializer of the inner networks' U.
        kernel_regularizer: Regularizer of all the kernels.
        inference: How inference chooses sizes: `"greedy"`, without noise, or
            `"sample"`, drawn.
        seed: Int, seed of the noise.
        **kwargs: Base layer keyword arguments, such as `name` and `dtype`.

    Call arguments:
        sequence: Tensor `(batch, time, features)`.
        context: Tensor `(batch, time, context_features)`, what only the
            decision sees. It must be causal, or a stream would have to wait for
            it. Required in every call if the layer was built with it.
        mask: Boolean tensor `(batch, time)`, any pattern, True where a step is
            real.
        weight: Tensor `(batch,)`, the weight of what is read, from a
            `ReadingWeight`: one training for a whole range of them. In
            decisions $u \log_{10} 100 w$ is added to b. Required in every call
            if the layer was built with it.
        limit: Int tensor `(batch,)` or `(batch, time)`, such as from a
            `ReadingLimit`: the most further steps that a step may read and
            wait for. What it asks for beyond is not read, unless a step before
            it, with a longer limit, has waited for that. None for no limit.
        training: Whether sizes are drawn (from noise drawn once a call).
        sequence_mask: What Keras fills in for `mask` beside a context; without
            effect if that is given. A mask of the context has no effect.

    Input shape:
        `(batch, time, features)`.

    Output shape:
        `(batch, time, min(window, max_size) * features + units)`; `(batch,
        time, features)` if `max_size` is 1; with `return_field`, followed by
        the dict.

    Masking: nothing is read at masked positions, zeros take their places, and
    summaries pass over them; masked steps give zeros. The values there reach
    neither outputs nor gradients.

    Cost: for inner width f a few products over all steps at once, O(T S f^2),
    and L copies of the input; no loop over time.

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

    inferences = choices.SIZE_INFERENCES

    def __init__(
        self,
        max_size: int,
        size_from: str = "field",
        window: int = 3,
        units: int | None = None,
        estimator: str = "straight_through",
        temperature: float = 1.0,
        initial_stop: float = 0.05,
        activation: Any = "tanh",
        penalties: DecisionPenalties | None = None,
        return_field: bool = False,
        track_statistics: bool = False,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        kernel_regularizer: Any = None,
        inference: str = "greedy",
        seed: int | None = None,
        **kwargs: Any,
    ):
        max_size = checks.check_positive_int("max_size", max_size)
        penalty_weights = PenaltyWeights(penalties, least=1, most=max_size)
        super().__init__(**kwargs)
        self.supports_masking = True
        self.max_size = max_size
        self.size_from = checks.check_choice(
            "size_from", size_from, SIZE_SOURCES
        )
        self.window = checks.check_positive_int("window", window)
        if units is not None:
            units = checks.check_positive_int("units", units)
        self.units = units
        self.estimator = checks.check_choice("estimator", estimator, ESTIMATORS)
        self.initial_temperature = checks.check_positive(
            "temperature", temperature
        )
        self.initial_stop = checks.check_open_share(
            "initial_stop", initial_stop
        )
        self.activation = check_activation("activation", activation)
        self.penalty_weights = penalty_weights
        self.penalties = penalty_weights.initial
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
        self.inference = inference
        self.seed = checks.check_seed(seed)
        self.seed_generator = keras.random.SeedGenerator(self.seed)
        self.temperature: keras.Variable | None = None
        if track_statistics:
            self.keep_statistics()

    @property
    def ramps(self) -> dict[str, Ramp]:
        """Ramps of `ExploreThenCommit` where no weight is given."""
        # What it reads stands beside the step, so that reading helps at once.
        # Sizes of the step alone do not start from reading all.
        entropy, end = (0.03, 0.5) if self.size_from == "field" else (0.3, 0.05)
        return {
            **EXPLORE_THEN_COMMIT,
            "entropy": Ramp(entropy, 0.0, 0.0, 0.3, power=3),
            "reading": Ramp(0.0, 0.02, 0.0, end),
        }

    def build(
        self,
        sequence_shape: Any,
        context_shape: Any = None,
        weight_shape: Any = None,
    ) -> None:
        checks.check_sequences("sequence.shape", sequence_shape)
        self.temperature = add_scalar(
            self, "temperature", self.initial_temperature
        )
        self.penalty_weights.build()
        self.features = sequence_shape[-1]
        self.context_features = None
        if context_shape is not None:
            checks.check_sequences("context.shape", context_shape)
            self.context_features = context_shape[-1]
        self.takes_weight = weight_shape is not None
        if self.max_size == 1:
            return
        is_field = self.size_from == "field"
        width = self.units or self.features
        kernel = partial(add_kernel, self)
        self.summary_kernel = kernel("summary_kernel", (self.features, width))
        # Of two positions, one is summed up, and one can be stopped at.
        recurs = self.max_size > 2
        if recurs:
            self.summary_recurrent_kernel = kernel(
                "summary_recurrent_kernel",
                (width, width),
                self.recurrent_initializer,
            )
        self.summary_bias = self.add_weight(
            name="summary_bias", shape=(width,), initializer="zeros"
        )
        # Decisions are float32 or wider, and so are their weights.
        kernel = partial(kernel, autocast=False)
        weight = partial(self.add_weight, autocast=False)
        units = width if is_field else self.max_size
        self.kernel = kernel("kernel", (self.features, units))
        if self.context_features is not None:
            self.context_kernel = kernel(
                "context_kernel", (self.context_features, units)
            )
        if self.takes_weight:
            self.weight_kernel = kernel("weight_kernel", (1, units))
        self.bias = weight((units,), "zeros", name="bias")
        if not is_field:
            return
        if recurs:
            self.recurrent_kernel = kernel(
                "recurrent_kernel", (units, units), self.recurrent_initializer
            )
        self.stop_kernel = kernel("stop_kernel", (units, 1))
        odds = self.initial_stop / (1 - self.initial_stop)
        start = keras.initializers.Constant(math.log(odds))
        self.stop_bias = weight((self.max_size - 1,), start, name="stop_bias")

    def call(
        self,
        sequence: Tensor,
        context: Tensor | None = None,
        mask: Tensor | None = None,
        weight: Tensor | None = None,
        limit: Tensor | None = None,
        training: bool = False,
        sequence_mask: Tensor | None = None,
    ) -> Any:
        context = checks.as_tensor(context)
        mask = masks.given(mask, sequence_mask)
        self._check_call(sequence, context, mask)
        weight = self.check_weight(weight, sequence)
        limit = checks.checked_limit(limit, sequence, self.max_size)
        sequence, mask = checks.assert_steps(sequence, mask)
        sequence = masks.zero_masked(
            ops.cast(sequence, self.compute_dtype), mask
        )
        if context is not None:
            context = checks.assert_by_step("context", context, sequence)
            context = ops.cast(context, self.compute_dtype)
            context = masks.zero_masked(context, mask)
        log_weight = as_log_weight(weight, self.score_dtype)
        if log_weight is not None:
            log_weight = log_weight[:, None]
        ahead = partial(views_ahead, max_size=self.max_size)
        real = masks.real_steps(sequence, mask)
        validity = ops.stack(ahead(real), axis=-1)
        allowed = validity
        if limit is not None:
            allowed = validity & within(limit, self.max_size)
        for_sizes = ahead(self._project_for_sizes(sequence))
        logits = self._size_logits(for_sizes, context, allowed, log_weight)
        selection = self._select(logits, training)
        keep, sizes = self._read(logits, selection, validity, allowed)
        if training:
            # An infinite gradient would be NaN where choices saturate.
            keep = ops.cast(finite_gradient(keep, 1e20), self.compute_dtype)
        else:
            keep = keep > 0.5
        for_summary = ahead(self._project_for_summary(sequence))
        outputs = self._show(ahead(sequence), for_summary, keep, validity)
        self.conclude(sizes, mask, weight, training, validity, allowed)
        return reports.with_decisions(
            self, [outputs], sizes.shown("size"), self.return_field
        )

    def _check_call(
        self,
        sequence: Tensor,
        context: Tensor | None,
        mask: Tensor | None,
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
                "Argument `context` must be given in all calls or never. "
                f"Received: context={context!r}, in a layer that was built "
                f"{'with' if context is None else 'without'} one"
            )
        if context is not None:
            checks.check_features(
                "context.shape", context.shape, self.context_features
            )

    def _project_for_sizes(self, sequence: Tensor) -> Tensor:
        """$W x$ of each step, float32 or wider; unused if `max_size` is 1."""
        if self.max_size == 1:
            return sequence
        kernel = ops.cast(self.kernel, self.score_dtype)
        return numerics.product(ops.cast(sequence, kernel.dtype), kernel)

    def _project_for_summary(self, sequence: Tensor) -> Tensor:
        """$W_r x$ of each step; unused if `max_size` is 1."""
        if self.max_size == 1:
            return sequence
        kernel = ops.cast(self.summary_kernel, self.compute_dtype)
        return numerics.product(sequence, kernel)

    def _size_logits(
        self,
        projected: list[Tensor],
        context: Tensor | None,
        validity: Tensor,
        log_weight: Tensor | None = None,
    ) -> Tensor:
        """Logits of the sizes.

        Args:
            projected: S tensors `(..., units)`: $W x$ of a step and those
                after it.
            context: Tensor `(..., context_features)` or None.
            validity: Boolean tensor `(..., S)`: which of them may be read.
            log_weight: Tensor `(..., 1)`, the weight of what is read as
                decisions see it, or None.

        Returns:
            Tensor `(..., S)`, float32 or wider.
        """
        dtype = self.score_dtype
        if self.max_size == 1:
            return ops.zeros_like(ops.cast(validity, dtype))

        def product(x: Tensor, kernel: keras.Variable) -> Tensor:
            return numerics.product(ops.cast(x, dtype), ops.cast(kernel, dtype))

        offset = ops.cast(self.bias, dtype)
        if log_weight is not None:
            offset += product(log_weight, self.weight_kernel)
        first = offset
        if context is not None:
            first = first + product(context, self.context_kernel)
        current, *later = projected
        if self.size_from == "input":
            return finite(current + first)
        recurrent_kernel = None
        if self.max_size > 2:
            recurrent_kernel = ops.cast(self.recurrent_kernel, dtype)
        # The last position takes what is left, so that it is not read here.
        states = inner_states(
            [current + first, *(x + offset for x in later[:-1])],
            recurrent_kernel,
            validity,
            self.activation,
        )
        stops = [product(state, self.stop_kernel) for state in states]
        stop_logits = ops.concatenate(stops, axis=-1)
        stop_logits += ops.cast(self.stop_bias, dtype)
        exist = choices.value_mask(validity, dtype)
        return finite(choices.stop_log_probabilities(stop_logits, exist))

    def _select(self, logits: Tensor, training: bool) -> Tensor:
        """Sizes, one-hot or relaxed, as training or inference chooses them."""
        if training or self.inference == "sample":
            estimator = self.estimator if training else "reinforce"
            return choices.draw_sizes(
                logits, self.temperature, estimator, self.seed_generator
            )
        if self.size_from == "field":
            return choices.first_stop(logits)
        return choices.hard_one_hot(logits)

    def _read(
        self,
        logits: Tensor,
        selection: Tensor,
        validity: Tensor,
        allowed: Tensor,
    ) -> tuple[Tensor, Decision]:
        """Share of each position that is read, in order, and the sizes.

        Args:
            logits: Tensor `(batch, time, S)`.
            selection: Tensor of that shape, what steps ask for.
            validity: Boolean tensor of that shape: which positions are real.
            allowed: Boolean tensor of that shape: which of them the step
                itself may ask for.
        """
        valid = ops.cast(validity, logits.dtype)
        may_ask = ops.cast(allowed, logits.dtype)
        # A masked step asks for nothing and reads nothing.
        own = valid[..., :1]

        def keep(selection: Tensor) -> Tensor:
            asked = keep_weights(selection, own) * may_ask
            return arrived(asked) * valid * own

        def positions_read(selection: Tensor) -> Tensor:
            return ops.sum(keep(selection), axis=-1)

        sizes = choices.decided_sizes(
            logits, selection, self.estimator, positions_read
        )
        mask = validity[..., 0]
        return keep(selection), sizes.map(lambda x: masks.zero_masked(x, mask))

    def _show(
        self,
        views: list[Tensor],
        projected: list[Tensor],
        keep: Tensor,
        validity: Tensor,
    ) -> Tensor:
        """Inputs of the next layer: the positions read, and their summary.

        Args:
            views: S tensors `(..., features)`: a step and those after it.
            projected: S tensors `(..., units)`: $W_r x$ of these.
            keep: Tensor `(..., S)`, how much of each is read; boolean where
                that is all or nothing, so that what is not read has no effect,
                even if infinite.
            validity: Boolean tensor `(..., S)`: which of them are real.
        """

        def kept(i: int, values: Tensor) -> Tensor:
            share = keep[..., i : i + 1]
            if keep.dtype == "bool":
                return ops.where(share, values, ops.zeros_like(values))
            return share * values

        shown = [kept(i, x) for i, x in enumerate(views[: self.window])]
        if self.max_size == 1:
            return shown[0]
        dtype, last = self.compute_dtype, self.max_size - 1
        bias = ops.cast(self.summary_bias, dtype)
        # Nothing infinite is multiplied by 0.
        largest = tf.as_dtype(dtype).max
        summary = ops.zeros_like(projected[0])
        for i in range(last, 0, -1):
            new = projected[i] + bias
            if i < last:
                kernel = ops.cast(self.summary_recurrent_kernel, dtype)
                new += numerics.product(summary, kernel)
            new = kept(i, finite(self.activation(new), largest))
            summary = ops.where(validity[..., i : i + 1], new, summary)
        # A masked step shows nothing.
        summary = ops.where(validity[..., :1], summary, 0)
        return ops.concatenate([*shown, summary], axis=-1)

    @property
    def stream_delay(self) -> int:
        """The most further steps that a step of a stream waits for."""
        return self.max_size - 1

    @property
    def stream_refusal(self) -> str | None:
        """The reason why the layer cannot be streamed, or None."""
        return "draws at inference" if self.inference == "sample" else None

    @property
    def stream_unread(self) -> tuple[str, ...]:
        """Decisions that depend on what a step has not read."""
        return UNREAD[self.size_from]

    def stream_state(self, batch_size: Tensor) -> State:
        """The steps that wait, and how far those that left have read."""
        features = {"sequence": self.features}
        if self.context_features is not None:
            features["context"] = self.context_features
        queue = first_queue(
            batch_size, self.stream_delay, self.compute_dtype, **features
        )
        # The position that follows the last one read.
        return {"reach": tf.zeros((batch_size,), "int32"), **queue}

    def stream_step(
        self,
        state: State,
        tick: Tick,
        sequence: Tensor,
        context: Tensor | None = None,
        mask: Tensor | None = None,
        weight: Tensor | None = None,
        limit: Tensor | None = None,
    ) -> Stepped:
        """Shows the oldest step, which leaves once it has all that it reads."""
        weight = self.check_weight(weight, sequence)
        dtype = self.compute_dtype
        arriving = {
            "sequence": ops.cast(sequence, dtype),
            "real": tick.real(mask)[:, None],
        }
        if context is not None:
            arriving["context"] = ops.cast(context, dtype)
        queue = Queue.receive(state, arriving, tick)
        window = oldest_window(queue, tick, limit, self.max_size)
        real, passed = window.real, window.passed
        projected = self._project_for_sizes(window.steps)
        logits = self._size_logits(
            tf.unstack(projected, self.max_size, axis=1),
            None if context is None else queue.steps["context"][:, 0],
            window.allowed,
            as_log_weight(weight, self.score_dtype),
        )
        selection = self._select(logits, training=False)
        # A step also reads what those before it waited for.
        extent = tf.maximum(
            tf.minimum(choices.best(selection) + 1, window.most),
            state["reach"] - passed,
        )
        # A masked step reads nothing.
        needed = tf.where(real[:, 0], extent, 1)
        leaves, pending = queue.oldest_leave(needed, tick)
        reach = choose(leaves & real[:, 0], passed + extent, state["reach"])
        keep = tf.range(self.max_size) < extent[:, None]
        keep = keep & real & real[:, :1]
        outputs = self._show_step(window, keep, logits, selection)
        if not self.stream_delay:
            return Stepped(outputs, {"reach": reach})
        state = {"reach": reach, "queue": queue.remove_first(leaves)._asdict()}
        return Stepped(outputs, state, leaves, pending)

    def _show_step(
        self,
        window: Window,
        keep: Tensor,
        logits: Tensor,
        selection: Tensor,
    ) -> Any:
        """Outputs of the layer for the first step of a window."""
        read = masks.zero_masked(window.steps, keep)
        outputs = self._show(
            tf.unstack(read, self.max_size, axis=1),
            tf.unstack(self._project_for_summary(read), self.max_size, axis=1),
            keep,
            window.real,
        )
        size = ops.sum(ops.cast(keep, logits.dtype), axis=-1)
        sizes = choices.decided_sizes(
            logits, selection, self.estimator, lambda _: size
        )
        sizes = sizes.map(lambda x: masks.zero_masked(x[:, None], keep[:, :1]))
        return reports.with_decisions(
            self, [outputs[:, None]], sizes.shown("size"), self.return_field
        )

    def compute_mask(self, sequence: Tensor, mask: Any = None) -> Any:
        mask = mask[0] if isinstance(mask, (list, tuple)) else mask
        return (mask, None) if self.return_field else mask

    def compute_output_shape(
        self,
        sequence_shape: Any,
        context_shape: Any = None,
        weight_shape: Any = None,
    ) -> Any:
        checks.check_sequences("sequence.shape", sequence_shape)
        *steps, features = sequence_shape
        width = min(self.window, self.max_size) * features
        if self.max_size > 1:
            width += self.units or features
        outputs = (*steps, width)
        if not self.return_field:
            return outputs
        return outputs, self.field_shapes(steps)

    def compute_output_spec(
        self,
        sequence: Tensor,
        context: Tensor | None = None,
        mask: Tensor | None = None,
        weight: Tensor | None = None,
        limit: Tensor | None = None,
        training: bool = False,
        sequence_mask: Tensor | None = None,
    ) -> Any:
        mask = masks.given(mask, sequence_mask)
        self._check_call(sequence, context, mask)
        self.check_weight(weight, sequence)
        checks.checked_limit(limit, sequence, self.max_size)
        shapes = self.compute_output_shape(sequence.shape)
        return output_specs(shapes, self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        serialize = keras.saving.serialize_keras_object
        return {
            **super().get_config(),
            "max_size": self.max_size,
            "size_from": self.size_from,
            "window": self.window,
            "units": self.units,
            "estimator": self.estimator,
            "temperature": self.initial_temperature,
            "initial_stop": self.initial_stop,
            "activation": keras.activations.serialize(self.activation),
            "return_field": self.return_field,
            "track_statistics": self.track_statistics,
            "kernel_initializer": serialize(self.kernel_initializer),
            "recurrent_initializer": serialize(self.recurrent_initializer),
            "kernel_regularizer": serialize(self.kernel_regularizer),
            "inference": self.inference,
            "seed": self.seed,
            "penalties": serialize(self.penalties),
        }
