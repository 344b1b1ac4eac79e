r"""A choice among S values, its continuous relaxation, and choice by stopping.

A choice with logits $\log d$ is drawn as the largest of the scores
$\log d_i + g_i$, $g_i \sim \mathrm{Gumbel}(0, 1)$. The relaxed one-hot sample
is their softmax at temperature $\tau$,

$$I_i = \frac{\exp((\log d_i + g_i) / \tau)}
             {\sum_j \exp((\log d_j + g_j) / \tau)},$$

`RelaxedOneHotCategorical` of TensorFlow Probability, which `sample` draws. In a
loop whose noise was drawn beforehand, `draw` computes the same from it.

A choice by stopping asks at each value: is it this one, or a later one? After
value i it stops with probability $\pi_i = \sigma(\ell_i)$, else it goes on to
the next:

$$p(s = i) = \pi_i \prod_{j<i} (1 - \pi_j), \quad i = 1..S$$

where the last value that exists takes what is left, and values that do not
exist take nothing. In logarithms nothing underflows, and they serve as the
logits of a choice. Everything here is float32 or wider.
"""

import math
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_seqmech.core.decisions import sampling
from keras_seqmech.core.decisions.deciding import Decides
from keras_seqmech.core.decisions.decision import Decision
from keras_seqmech.core.decisions.sampling import LEAST_TEMPERATURE
from keras_seqmech.core.decisions.sampling import estimate
from keras_seqmech.core.decisions.statistics import DecisionStatistics
from keras_seqmech.core.numerics import LARGEST_LOGIT
from keras_seqmech.core.numerics import finite
from keras_seqmech.typing import Tensor

# How inference chooses.
INFERENCES = ("greedy", "sample")


def sample(
    logits: Tensor,
    temperature: Tensor,
    estimator: str,
    seed_generator: keras.random.SeedGenerator,
) -> Tensor:
    """Samples one of S values with the given estimator.

    Returns a one-hot or relaxed one-hot tensor of the shape and dtype of the
    finite logits `(..., S)`, normalised or not. A temperature below 1e-6
    acts as 1e-6.
    """
    soft = sampling.relaxed_one_hot(logits, temperature, seed_generator)
    return estimate(hard_one_hot(soft), lambda: soft, estimator)


def draw(scores: Tensor, temperature: Tensor, estimator: str) -> Tensor:
    """Like `sample`, from logits to which Gumbel noise was added."""
    # Hard choices are made by the scores: high temperatures make entries of
    # the soft one equal that are not equal in the scores.
    return estimate(
        hard_one_hot(scores),
        lambda: tempered_softmax(scores, temperature),
        estimator,
    )


def tempered_softmax(scores: Tensor, temperature: Tensor) -> Tensor:
    """$softmax(scores / temperature)$; below 1e-6 the temperature is 1e-6.

    With Gumbel noise added to the logits, it is a relaxed one-hot sample.
    """
    scores = ops.convert_to_tensor(scores)
    # The initial value is for batches of no rows.
    largest = ops.max(scores, axis=-1, keepdims=True, initial=-LARGEST_LOGIT)
    largest = ops.stop_gradient(largest)
    # Scores up to 1e30 over it stay finite once the largest is at 0.
    temperature = ops.maximum(temperature, LEAST_TEMPERATURE)
    temperature = ops.cast(temperature, scores.dtype)
    return ops.softmax((scores - largest) / temperature, axis=-1)


def hard_one_hot(scores: Tensor) -> Tensor:
    """One-hot vectors of the largest scores; they pass no gradient."""
    return tf.one_hot(best(scores), scores.shape[-1], dtype=scores.dtype)


def best(scores: Tensor) -> Tensor:
    """Index of the largest score, the first where several are largest."""
    # `ops.argmax` orders zeros by their sign, in seven operations more, of
    # which LiteRT lacks one.
    return tf.argmax(scores, axis=-1, output_type="int32")


def log_probability(logits: Tensor, selection: Tensor) -> Tensor:
    """Log-probability of a one-hot `selection` under softmax `logits`.

    It has a gradient to the logits.
    """
    selection = ops.stop_gradient(selection)
    return ops.sum(ops.log_softmax(logits, axis=-1) * selection, axis=-1)


def entropy(logits: Tensor) -> Tensor:
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


def log_probabilities(stop_logits: Tensor, mask: ValueMask) -> Tensor:
    r"""$\log p(s = i)$ for all i.

    Args:
        stop_logits: Tensor `(..., S - 1)`: $\ell_i$; ignored where no later
            value exists.
        mask: Which values exist, from `value_mask`; broadcasts.

    Returns:
        Tensor `(..., S)`: logits for `categorical`, whose probabilities sum
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


def sizes(
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
    read, nats = positions_read(selection), entropy(logits)
    is_drawn = estimator == "reinforce"
    return Decision(
        probabilities,
        read,
        read if is_drawn else positions_read(probabilities),
        nats,
        nats / (math.log(logits.shape[-1]) or 1.0),
        log_probability(logits, selection) if is_drawn else None,
    )


def field_shapes(
    steps: Sequence[int | None], max_size: int, estimator: str
) -> dict[str, tuple[int | None, ...]]:
    """Shapes of what `return_field=True` returns, by name.

    `steps` are batch size and number of steps.
    """
    shapes: dict[str, tuple[int | None, ...]] = {
        "size": tuple(steps),
        "probabilities": (*steps, max_size),
    }
    if estimator == "reinforce":
        shapes["log_probability"] = tuple(steps)
    return shapes


class DecidesSizes(Decides):
    """A layer that decides sizes, up to its `max_size`."""

    def keep_statistics(self: Any) -> None:
        """Makes the metrics of `track_statistics=True`."""
        self.statistics = DecisionStatistics(
            self.name,
            "mean_size",
            "size_entropy",
            choices=self.max_size,
            is_size=True,
            name="statistics",
        )

    def count(
        self: Any,
        sizes: Decision,
        validity: Tensor,
        delay: Tensor,
        mask: Tensor | None,
    ) -> None:
        """Counts the sizes of a batch.

        Args:
            sizes: The sizes.
            validity: Boolean tensor `(batch, time, S)`: the real positions.
            delay: Tensor `(batch, time)`: what steps wait for in a stream.
            mask: Boolean tensor `(batch, time)` or None.
        """
        # Truncated windows are excluded; excluding only truncated choices
        # would bias the mean.
        free = ops.all(validity, axis=-1)
        choice = best(sizes.probabilities)
        self.statistics(sizes, choice, mask, free, delay)
