"""Statistics of decisions, as metrics in `history`."""

import contextlib
import contextvars
from collections.abc import Callable
from collections.abc import Iterator

import keras
from keras import ops

from keras_seqmech.core.decisions.choices import Decision
from keras_seqmech.typing import Tensor

# A decision is certain when its likeliest value has more than this.
CERTAIN = 0.9


class DecisionStatistics(keras.layers.Layer):
    """Metrics of a layer's decisions.

    In training, `<prefix>_penalty`: the auxiliary losses of the decisions,
    which the loss of the model contains.

    For sizes only, over real steps:

    - `<prefix>_mean_delay`, `<prefix>_delay_percentile`: mean and 95th
      percentile of the steps that a step waits for in a stream.

    Over the real steps with every value to choose from:

    - `<prefix>_<amount>`: what is read, such as the mean size.

    Of these, over those that no limit forbids a value:

    - `<prefix>_<entropy>`: the entropy of the probabilities, in nats.
    - `<prefix>_certain`: of sizes, the share whose likeliest value has a
      probability above 0.9. Of gates and kept steps, that share of the open
      or kept ones alone, each step weighed by its probability: 0 where all
      have a probability of 0.06, though all are likely to be closed.
    - `<prefix>_choice_entropy`: the entropy of the likeliest values, in nats:
      0 where all are alike.

    Without such a step they are 0. Sums and counts are float64, as float32
    has no odd number of steps from 2^24 on.

    Args:
        prefix: Beginning of the metrics' names, the layer's name.
        amount: Name of what is read.
        entropy: Name of the entropy.
        choices: Number of values that a decision can have.
        is_size: Whether decisions are sizes, which have delays.
        middle: What is read by neither little nor much.
    """

    def __init__(
        self,
        prefix: str,
        amount: str,
        entropy: str,
        choices: int,
        is_size: bool = False,
        middle: float | None = None,
    ):
        # In the layers' half precision sums would be read rounded.
        super().__init__(name="statistics", dtype="float64")
        self.is_stopped = False
        self.prefix = prefix
        self.is_size = is_size
        self.middle = middle or ((choices + 1) / 2 if is_size else 0.5)
        if is_size:
            self.mean_delay = self.mean("mean_delay")
            self.delay_percentile = CountStatistic(
                f"{prefix}_delay_percentile", choices, percentile
            )
        self.penalty = self.mean("penalty")
        self.amount = self.mean(amount)
        self.entropy = self.mean(entropy)
        self.certain = self.mean("certain")
        self.choice_entropy = CountStatistic(
            f"{prefix}_choice_entropy", choices, entropy_of_counts
        )
        self.built = True

    def mean(self, name: str) -> keras.metrics.Mean:
        """A mean of numbers, named with the prefix."""
        return keras.metrics.Mean(f"{self.prefix}_{name}", dtype="float64")

    @property
    def is_counting(self) -> bool:
        """True if a call counts: not once stopped, nor without statistics."""
        return is_active() and not self.is_stopped

    def call(
        self,
        decision: Decision,
        choice: Tensor,
        real: Tensor | None,
        whole: Tensor | None = None,
        free: Tensor | None = None,
        delay: Tensor | None = None,
    ) -> None:
        """Counts the decisions of a batch, unless within `without_statistics`.

        Args:
            decision: What was decided.
            choice: Int tensor `(batch, time)`: the likeliest value, from 0, in
                training too, where draws differ even if probabilities do not.
            real: Boolean tensor `(batch, time)`: the real steps, or None.
            whole: Boolean tensor `(batch, time)`: the steps with every value
                to choose from; all real ones if None.
            free: Boolean tensor `(batch, time)`: those of them that no limit
                forbids a value; all if None.
            delay: For sizes only, tensor `(batch, time)`: the steps that each
                step waits for in a stream.
        """
        if not self.is_counting:
            return

        def flat(values: Tensor | None) -> Tensor | None:
            return None if values is None else ops.reshape(values, (-1,))

        if self.is_size:
            self.mean_delay.update_state(flat(delay), flat(real))
            self.delay_percentile.update_state(flat(delay), flat(real))
        whole = real if whole is None else whole
        self.amount.update_state(flat(decision.read), flat(whole))
        counted = flat(whole if free is None else free)
        self.entropy.update_state(flat(decision.entropy), counted)
        likeliest, certain_of = decision.probabilities, counted
        if self.is_size:
            # The maximum of an empty batch needs an initial value.
            likeliest = ops.max(likeliest, -1, initial=0)
        else:  # Probabilities of masked steps are 0.
            certain_of = flat(likeliest)
        certain = ops.cast(likeliest > CERTAIN, "float32")
        self.certain.update_state(flat(certain), certain_of)
        self.choice_entropy.update_state(flat(choice), counted)

    def count_penalty(self, losses: Tensor) -> None:
        """Counts the auxiliary losses `(batch,)` of a batch."""
        if self.is_counting:
            self.penalty.update_state(losses)


class CountStatistic(keras.metrics.Metric):
    """A statistic of how often each of the ints from 0 on occurs.

    Args:
        name: Name of the metric.
        choices: Number of ints.
        statistic: Function from the counts, `(choices,)`, to a scalar.
    """

    def __init__(
        self, name: str, choices: int, statistic: Callable[[Tensor], Tensor]
    ):
        super().__init__(name=name, dtype="float64")
        self.choices = choices
        self.statistic = statistic
        self.counts = self.add_variable(
            (choices,), "zeros", dtype=self.dtype, name="counts"
        )

    def update_state(
        self, choice: Tensor, sample_weight: Tensor | None = None
    ) -> None:
        """Counts numbers `(n,)`, rounded, each `sample_weight` times.

        Larger ones count as the largest.
        """
        choice = ops.cast(ops.round(ops.cast(choice, "float32")), "int32")
        choice = ops.minimum(choice, self.choices - 1)
        chosen = ops.one_hot(choice, self.choices, dtype=self.dtype)
        if sample_weight is not None:
            chosen *= ops.cast(sample_weight, self.dtype)[:, None]
        self.counts.assign(self.counts + ops.sum(chosen, axis=0))

    def result(self) -> Tensor:
        return self.statistic(ops.convert_to_tensor(self.counts))


def entropy_of_counts(counts: Tensor) -> Tensor:
    r"""$-\sum_k f_k \log f_k$ in nats, f the shares; 0 for no counts.

    Example:

    >>> round(float(entropy_of_counts(ops.array([2.0, 2.0, 0.0]))), 4)
    0.6931
    """
    shares = counts / ops.maximum(ops.sum(counts), 1)
    shares = ops.maximum(shares, keras.config.epsilon() ** 2)
    return -ops.sum(shares * ops.log(shares))


def percentile(counts: Tensor) -> Tensor:
    """The 95th percentile of ints; 0 for no counts.

    Example:

    >>> float(percentile(ops.array([19.0, 0.0, 0.0, 1.0])))
    0.0
    """
    total = ops.sum(counts)
    # Sums of shares round; half a step of a million is no step.
    within = ops.cumsum(counts / ops.maximum(total, 1)) < 0.95 - 1e-6
    below = ops.sum(ops.cast(within, counts.dtype))
    return ops.where(total > 0, below, ops.zeros_like(below))


# Each thread has its own.
_is_active = contextvars.ContextVar("statistics_are_active", default=True)


@contextlib.contextmanager
def without_statistics() -> Iterator[None]:
    """Within it, in this thread, no layer updates its statistics.

    For calls outside of training and evaluation, such as the trace of a
    served model.

    Example:

    >>> with without_statistics():
    ...     is_active()
    False
    >>> is_active()
    True
    """
    token = _is_active.set(False)
    try:
        yield
    finally:
        _is_active.reset(token)


def is_active() -> bool:
    """Returns whether layers that are called now update statistics."""
    return _is_active.get()
