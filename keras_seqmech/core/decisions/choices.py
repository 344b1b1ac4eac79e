r"""Choices: how they are drawn and relaxed, and what is decided by them.

A choice among S values with logits $\log d$, such as a size, is drawn as the
largest of the scores $\log d_i + g_i$, $g_i \sim \mathrm{Gumbel}(0, 1)$. The
relaxed one-hot sample is their softmax at temperature $\tau$,

$$I_i = \frac{\exp((\log d_i + g_i) / \tau)}
             {\sum_j \exp((\log d_j + g_j) / \tau)}.$$

A choice by stopping asks at each value: is it this one, or a later one? After
value i it stops with probability $\pi_i = \sigma(\ell_i)$, else it goes on to
the next:

$$p(s = i) = \pi_i \prod_{j<i} (1 - \pi_j), \quad i = 1..S$$

where the last value that exists takes what is left, and values that do not
exist take nothing. In logarithms nothing underflows, and they serve as the
logits of a choice.

A gate with logit $\ell$ is open with probability $\sigma(\ell)$. Its relaxed
sample is $\tilde b = \sigma((\ell + g) / \tau)$, $g$ logistic noise, and the
hard one $b = [\tilde b > 1/2]$. Without noise, gates are open where their
probability is above one half, or where the `running_sum` of probabilities is
rounded to the next int.

Distributions of TensorFlow Probability draw: `RelaxedOneHotCategorical` and the
noise of `RelaxedBernoulli`; for loops of the package, which draw once before
they begin, Gumbel noise. Where a distribution is a transformed one, TensorFlow
Probability keeps each tensor that it transformed, and with it the graph of each
model that is traced, for all time. Hence `_gumbel_sampler`, and `.distribution`
in `relaxed_one_hot`. Logits and noise are finite, float32 or wider; a
temperature below 1e-6 acts as 1e-6.

`hard` is what a draw decides, a one-hot vector or a 0 or 1; `soft` its
continuous relaxation. An estimator says which of them a layer uses:

- `"relaxed"`: soft, with its own gradient.
- `"straight_through"`: hard in value, with the gradient of soft.
- `"reinforce"`: hard, without gradient; learned by policy gradient from the
  log-probability of what was drawn.
"""

import functools
import math
from collections.abc import Callable
from typing import Any
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_seqmech.core import checks
from keras_seqmech.core import masks
from keras_seqmech.core.numerics import LARGEST_LOGIT
from keras_seqmech.core.numerics import finite
from keras_seqmech.core.numerics import score_dtype
from keras_seqmech.typing import Tensor

ESTIMATORS = ("relaxed", "straight_through", "reinforce")
# How inference chooses sizes, and gates.
SIZE_INFERENCES = ("greedy", "sample")
GATE_INFERENCES = ("threshold", "sample", "running_sum")
# Lower temperatures act as this one, and samples stay finite.
LEAST_TEMPERATURE = 1e-6
# Rounding may put sums of probabilities outside of [0, 1] by this much.
ROUNDING = 1e-5
# Probabilities are summed in fixed point, in units of 2^-30. Each float32 from
# 1/128 to 1 is a whole number of them.
PARTS = 2**30


class Decision(NamedTuple):
    """Decisions of a layer, one a step: a size, or yes or no.

    Tensors are `(batch, time)` unless said otherwise, float32 or wider.

    Attributes:
        probabilities: Those of the S sizes, `(batch, time, S)`; or of yes,
            that a gate opens or a step is kept, `(batch, time)`.
        read: What each step reads: the number of positions; or 0 or 1, and
            what is between where decisions are relaxed.
        weighed: What auxiliary losses weigh: `read`, or its expectation where
            that has the better gradient.
        entropy: Entropy of the probabilities, in nats.
        indecision: From 0, for a sure decision, to 1, for a fair one.
        log_probability: Log-probability of what was drawn, in nats; None
            unless the estimator is `"reinforce"`.
        most_entropy: Entropy of a fair choice, in nats; None for that among
            all values.
    """

    probabilities: Tensor
    read: Tensor
    weighed: Tensor
    entropy: Tensor
    indecision: Tensor
    log_probability: Tensor | None = None
    most_entropy: Tensor | None = None

    @property
    def is_size(self) -> bool:
        """True if sizes are decided."""
        return len(self.probabilities.shape) > len(self.read.shape)

    @property
    def values(self) -> int:
        """Number of values that a decision can have."""
        return self.probabilities.shape[-1] if self.is_size else 2

    @property
    def certainty(self) -> Tensor:
        """Entropy of a fair choice less that of the probabilities."""
        if self.most_entropy is not None:
            return self.most_entropy - self.entropy
        return math.log(self.values) - self.entropy

    def map(self, function: Callable[[Tensor], Tensor]) -> "Decision":
        """The record with a function applied to each tensor."""
        return Decision(*(None if x is None else function(x) for x in self))

    def shown(self, name: str) -> dict[str, Tensor]:
        """The dict that a layer returns if asked to, `read` by a name."""
        shown = {name: self.read, "probabilities": self.probabilities}
        if self.log_probability is not None:
            shown["log_probability"] = self.log_probability
        return shown


# Draws, and the estimators of their gradients.


def estimate(hard: Tensor, soft: Tensor, estimator: str) -> Tensor:
    """The decision that the forward pass uses."""
    if estimator == "reinforce":
        return hard
    if estimator == "relaxed":
        return soft
    # The sum is exact: soft minus itself is 0 before the decision is added.
    return hard + (soft - ops.stop_gradient(soft))


def distributions() -> Any:
    """`tensorflow_probability.distributions`, imported where first drawn from.

    The import takes longer than that of the package, which neither inference
    nor an export should wait for.
    """
    from tensorflow_probability import distributions

    return distributions


def gumbel_noise(
    shape: Any,
    seed_generator: keras.random.SeedGenerator,
    dtype: str = "float32",
) -> Tensor:
    """Draws Gumbel(0, 1) noise of a shape of ints or scalar tensors.

    Half precision would give infinite noise now and then.
    """
    sizes = tf.stack([tf.cast(size, "int32") for size in shape])
    noise = _gumbel_sampler(dtype)(sizes, _seed(seed_generator))
    return tf.ensure_shape(noise, tf.get_static_value(sizes, partial=True))


@functools.cache
def _gumbel_sampler(dtype: str) -> Callable[[Tensor, Tensor], Tensor]:
    """Function of a shape and a seed, with one small graph for all models."""

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], "int32"),
            tf.TensorSpec([2], "int32"),
        ]
    )
    def sample(shape: Tensor, seed: Tensor) -> Tensor:
        gumbel = distributions().Gumbel(tf.zeros((), dtype), 1)
        return gumbel.sample(shape, seed=seed)

    return sample


def relaxed_one_hot(
    logits: Tensor,
    temperature: Tensor,
    seed_generator: keras.random.SeedGenerator,
) -> Tensor:
    """Draws a `RelaxedOneHotCategorical`; its largest entry is the choice.

    Logits `(..., S)` are normalised or not.
    """
    relaxed = distributions().RelaxedOneHotCategorical(
        _held(temperature, logits.dtype), logits=logits
    )
    # Its logarithm is what TensorFlow Probability draws.
    return ops.exp(relaxed.distribution.sample(seed=_seed(seed_generator)))


def relaxed_gates(
    logits: Tensor,
    temperature: Tensor,
    seed_generator: keras.random.SeedGenerator,
) -> Tensor:
    """Draws a relaxed Bernoulli for each logit; above one half it is open.

    These are the samples of `RelaxedBernoulli`, made from its `Logistic` noise:
    its own gradient is NaN where logit over temperature is above 88.
    """
    logistic = distributions().Logistic(ops.zeros((), logits.dtype), 1)
    noise = logistic.sample(ops.shape(logits), seed=_seed(seed_generator))
    return ops.sigmoid((logits + noise) / _held(temperature, logits.dtype))


def hard_gates(
    probabilities: Tensor, seed_generator: keras.random.SeedGenerator
) -> Tensor:
    """Opens gates with their probabilities, as booleans.

    Surely False at probability 0 and surely True at 1.
    """
    bernoulli = distributions().Bernoulli(probs=probabilities, dtype="bool")
    return bernoulli.sample(seed=_seed(seed_generator))


def uniform_noise(
    shape: Any,
    seed_generator: keras.random.SeedGenerator,
    dtype: str = "float32",
    least: float = 0.0,
    most: float = 1.0,
) -> Tensor:
    """Draws uniform noise from `least` up to `most`."""
    checks.check_not_recomputed()
    return keras.random.uniform(shape, least, most, dtype, seed_generator)


def _seed(seed_generator: keras.random.SeedGenerator) -> Tensor:
    checks.check_not_recomputed()
    return ops.cast(seed_generator.next(), "int32")


def _held(temperature: Tensor, dtype: str) -> Tensor:
    return ops.cast(ops.maximum(temperature, LEAST_TEMPERATURE), dtype)


# Sizes: choices among S values.


def draw_sizes(
    logits: Tensor,
    temperature: Tensor,
    estimator: str,
    seed_generator: keras.random.SeedGenerator,
) -> Tensor:
    """Samples one of S values with the given estimator.

    Returns a one-hot or relaxed one-hot tensor of the shape and dtype of the
    logits `(..., S)`, normalised or not.
    """
    soft = relaxed_one_hot(logits, temperature, seed_generator)
    return estimate(hard_one_hot(soft), soft, estimator)


def sizes_of_scores(
    scores: Tensor, temperature: Tensor, estimator: str
) -> Tensor:
    """Like `draw_sizes`, from logits to which Gumbel noise was added."""
    # Hard choices are made by the scores: high temperatures make entries of
    # the soft one equal that are not equal in the scores.
    soft = tempered_softmax(scores, temperature)
    return estimate(hard_one_hot(scores), soft, estimator)


def tempered_softmax(scores: Tensor, temperature: Tensor) -> Tensor:
    """$softmax(scores / temperature)$."""
    scores = ops.convert_to_tensor(scores)
    # The initial value is for batches of no rows.
    largest = ops.max(scores, axis=-1, keepdims=True, initial=-LARGEST_LOGIT)
    largest = ops.stop_gradient(largest)
    # Scores up to 1e30 over it stay finite once the largest is at 0.
    temperature = _held(temperature, scores.dtype)
    return ops.softmax((scores - largest) / temperature, axis=-1)


def hard_one_hot(scores: Tensor) -> Tensor:
    """One-hot vectors of the largest scores; they pass no gradient."""
    return tf.one_hot(best(scores), scores.shape[-1], dtype=scores.dtype)


def best(scores: Tensor) -> Tensor:
    """Index of the largest score, the first where several are largest."""
    # `ops.argmax` orders zeros by their sign, in seven operations more, of
    # which LiteRT lacks one.
    return tf.argmax(scores, axis=-1, output_type="int32")


def size_log_probability(logits: Tensor, selection: Tensor) -> Tensor:
    """Log-probability of a one-hot `selection` under softmax `logits`.

    It has a gradient to the logits.
    """
    selection = ops.stop_gradient(selection)
    return ops.sum(ops.log_softmax(logits, axis=-1) * selection, axis=-1)


def size_entropy(logits: Tensor) -> Tensor:
    """Entropy of softmax `logits` over the last axis, in nats."""
    log_probabilities = ops.log_softmax(logits, axis=-1)
    # -inf * 0 would be NaN where a probability underflows.
    log_probabilities = ops.maximum(log_probabilities, -1e30)
    return -ops.sum(ops.exp(log_probabilities) * log_probabilities, axis=-1)


class ValueMask(NamedTuple):
    """The values that exist among S, and those after which there is a choice.

    Attributes:
        log_mask: Tensor `(..., S)`: 0 where a value exists, else the log of a
            probability of 0, as a large negative number.
        is_choice: Tensor `(..., S - 1)`: 1 where a value exists and a later
            one does too, else 0.
    """

    log_mask: Tensor
    is_choice: Tensor


def value_mask(exist: Tensor, dtype: str) -> ValueMask:
    """The `ValueMask` of values, in the dtype of the logits.

    Whether they `exist` is a boolean tensor `(..., S)` of any pattern.
    """
    size = exist.shape[-1]
    exist = ops.cast(exist, dtype)
    # Column i sums the entries j > i: how many values exist after i.
    later = np.tril(np.ones((size, size)), -1)[:, :-1]
    count_later = ops.matmul(exist, ops.cast(later, dtype))
    is_choice = exist[..., :-1] * ops.cast(count_later > 0, dtype)
    return ValueMask((exist - 1) * LARGEST_LOGIT, is_choice)


def stop_log_probabilities(stop_logits: Tensor, mask: ValueMask) -> Tensor:
    r"""$\log p(s = i)$ for all i.

    Args:
        stop_logits: Tensor `(..., S - 1)`: $\ell_i$; ignored where no later
            value exists.
        mask: Which values exist, of `value_mask`; broadcasts.

    Returns:
        Tensor `(..., S)`: logits of a choice, whose probabilities sum
        to 1. Where no value exists, all are equal.
    """
    stop_logits = finite(stop_logits)
    stop = mask.is_choice * ops.log_sigmoid(stop_logits)
    go_on = mask.is_choice * ops.log_sigmoid(-stop_logits)
    size = mask.log_mask.shape[-1]
    # Column i sums log(1 - pi_j) over j < i: the values that were passed.
    before = np.triu(np.ones((size, size)), 1)[:-1]
    reached = ops.matmul(go_on, ops.cast(before, go_on.dtype))
    last = ops.zeros_like(stop[..., :1])
    return ops.concatenate([stop, last], axis=-1) + reached + mask.log_mask


def first_stop(log_probabilities: Tensor) -> Tensor:
    r"""Stops at the first value with $\pi_i \ge 1/2$, else at the last.

    Unlike the likeliest value, it depends on nothing after it, but for
    rounding where $\pi_i = 1/2$. From $\log p(s = i)$, a one-hot tensor
    without a gradient.
    """
    probabilities = ops.exp(log_probabilities)
    later = tf.cumsum(probabilities, axis=-1, exclusive=True, reverse=True)
    # Where p(s = i) is no less than what is left: p / (p + later) >= 1/2.
    stops = ops.cast(probabilities >= later, probabilities.dtype)
    return hard_one_hot(stops)


def uniform_stops(shape: tuple[int], dtype: str) -> Tensor:
    r"""Initializer of S - 1 stop logits, $-\log(S - i)$: all are as likely."""
    return -ops.log(ops.arange(shape[0], 0, -1, dtype=dtype))


def decided_sizes(
    logits: Tensor,
    selection: Tensor,
    estimator: str,
    positions_read: Callable[[Tensor], Tensor],
) -> Decision:
    """The sizes of a call, from their logits and what was selected.

    Args:
        logits: Tensor `(..., S)`.
        selection: Tensor `(..., S)`, one-hot or relaxed.
        estimator: How training passes gradients to them.
        positions_read: Function from a selection, or from probabilities, to
            the number of positions read, `(...)`; of a relaxed selection the
            sum of the weights with which positions are read.
    """
    # Not ops.softmax, which warns of an axis of size 1.
    probabilities = ops.exp(ops.log_softmax(logits, axis=-1))
    read, nats = positions_read(selection), size_entropy(logits)
    is_drawn = estimator == "reinforce"
    return Decision(
        probabilities,
        read,
        read if is_drawn else positions_read(probabilities),
        nats,
        nats / (math.log(logits.shape[-1]) or 1.0),
        size_log_probability(logits, selection) if is_drawn else None,
    )


# Gates: open or closed.


def draw_gates(
    logits: Tensor,
    temperature: Tensor,
    estimator: str,
    seed_generator: keras.random.SeedGenerator,
) -> Tensor:
    """Samples gates from logits with the given estimator.

    Gates have the shape and dtype of the logits, and are 0 or 1, or relaxed
    between them.
    """
    soft = relaxed_gates(logits, temperature, seed_generator)
    hard = ops.cast(soft > 0.5, ops.dtype(soft))
    return estimate(hard, soft, estimator)


def check_probabilities(
    name: str, sequence: Any, given: Any, mask: Any
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Refuses probabilities `(batch, time)` that do not fit a sequence.

    Returns:
        The sequence, the probabilities and the mask, as tensors.
    """
    if given is None:
        raise ValueError(
            f"Argument `{name}` must be a tensor (batch, time). "
            f"Received: {name}=None"
        )
    sequence, given, mask = map(checks.as_tensor, (sequence, given, mask))
    shape = sequence.shape
    checks.check_sequences("sequence.shape", shape)
    checks.check_by_step(name, given, shape)
    checks.check_mask("mask", mask, shape)
    return sequence, given, mask


def probabilities_by_step(
    name: str, given: Tensor, sequence: Tensor, mask: Tensor | None
) -> Tensor:
    """Checked probabilities `(batch, time)` of a sequence, 0 at masked steps.

    They are float32 or wider.
    """
    given = checks.assert_by_step(name, given, sequence)
    dtype = score_dtype(sequence.dtype)
    given = masks.zero_masked(ops.cast(given, dtype), mask)
    # False for NaN.
    holds = (given >= -ROUNDING) & (given <= 1 + ROUNDING)
    checks.check_entries(name, given, holds, "probabilities, from 0 to 1")
    # Graphs cannot refuse others.
    return ops.clip(finite(given), 0, 1)


def running_sum(
    probabilities: Tensor, before: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    r"""Opens gates where the rounded sum of their probabilities rises.

    $$c_t = c_{t-1} + p_t, \quad
      b_t = \lfloor c_t + 1/2 \rfloor - \lfloor c_{t-1} + 1/2 \rfloor$$

    This is systematic sampling, started at one half in place of a random
    number: up to every step, as many gates are open as the sum of
    probabilities says, rounded, halves up. Probabilities of 0 and 1 open what
    they say.

    Each probability is rounded to a multiple of $2^{-30}$ and sums are ints,
    so that they are exact in whatever order and parts they are added.

    Args:
        probabilities: Tensor `(batch, time)`, 0 where nothing is decided.
        before: The sum before the first step, as it was returned for the steps
            before; 0 if None.

    Returns:
        The gates, booleans `(batch, time)`, and the sum after the last step,
        int64 `(batch, 1)`.

    Example:

    >>> gates, total = running_sum(ops.array([[0.25, 0.25, 0.25, 0.5]]))
    >>> gates.numpy().tolist(), int(total[0, 0]) / PARTS
    ([[False, True, False, False]], 1.25)
    """
    added = ops.cast(ops.round(probabilities * PARTS), "int64")
    total = ops.cumsum(added, axis=1)
    if before is not None:
        total += before
    # What is beyond the last half came with this step.
    gates = (total + PARTS // 2) % PARTS < added
    return gates, total[:, -1:]


def open_gates(
    probabilities: Tensor, inference: str, before: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:
    """Chooses the open gates: by `"running_sum"`, or those above 0.5.

    With the `running_sum` comes its sum, which begins with that `before`.
    """
    if inference == "running_sum":
        return running_sum(probabilities, before)
    return probabilities > 0.5, None


def gate_log_probability(logits: Tensor, gates: Tensor) -> Tensor:
    """Log-probability of each of the `gates`, 0 or 1, that were drawn.

    It has a gradient to the logits.
    """
    signs = 2 * ops.stop_gradient(gates) - 1
    return ops.log_sigmoid(signs * logits)


def gate_entropy(logits: Tensor) -> Tensor:
    """Entropy of each gate in nats, between 0 and log 2."""
    # With both terms positive nothing cancels, however large the logit.
    size = ops.abs(logits)
    return ops.softplus(-size) + size * ops.sigmoid(-size)


def decided_gates(logits: Tensor, gates: Tensor, estimator: str) -> Decision:
    """The gates of a call, from their logits and how far they opened.

    The gate is both what is read and what the auxiliary losses weigh.
    """
    probabilities = ops.sigmoid(logits)
    is_drawn = estimator == "reinforce"
    return Decision(
        probabilities,
        gates,
        gates,
        gate_entropy(logits),
        4 * probabilities * ops.sigmoid(-logits),
        gate_log_probability(logits, gates) if is_drawn else None,
    )


def decided_steps(
    probabilities: Tensor,
    emitted: Tensor,
    weighed: Tensor,
    log_probability: Tensor | None,
) -> Decision:
    """The kept steps of a call, from probabilities, exact 0 and 1 included.

    Args:
        probabilities: Tensor `(batch, time)`, from 0 to 1.
        emitted: How many times each step is emitted.
        weighed: What auxiliary losses weigh of that.
        log_probability: Log-probability of each decision, or None.
    """

    def x_log_x(x: Tensor) -> Tensor:
        # 0 at 0, with a finite gradient there.
        inside = x > 0
        return ops.where(inside, x * ops.log(ops.where(inside, x, 1.0)), 0.0)

    return Decision(
        probabilities,
        emitted,
        weighed,
        # `gate_entropy` needs logits, which are infinite at 0 and 1.
        -(x_log_x(probabilities) + x_log_x(1 - probabilities)),
        4 * probabilities * (1 - probabilities),
        log_probability,
    )
