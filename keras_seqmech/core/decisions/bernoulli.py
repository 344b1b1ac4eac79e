r"""Gates that are open or closed, and their continuous relaxation.

A gate with logit $\ell$ is open with probability $\sigma(\ell)$. Its relaxed
sample at temperature $\tau$ is the binary Concrete variable

$$\tilde b = \sigma((\ell + g) / \tau),$$

$g$ logistic noise: `RelaxedBernoulli` of TensorFlow Probability. The hard one
is $b = [\tilde b > 1/2]$. Everything here is float32 or wider.

Without noise, gates are open where their probability is above one half, or
where the `running_sum` of probabilities is rounded to the next int.
"""

from typing import Any

import keras
from keras import ops

from keras_seqmech.core import checks
from keras_seqmech.core.decisions import sampling
from keras_seqmech.core.decisions.deciding import Decides
from keras_seqmech.core.decisions.decision import Decision
from keras_seqmech.core.decisions.sampling import estimate
from keras_seqmech.typing import Tensor

INFERENCES = ("threshold", "sample", "running_sum")


def draw(
    logits: Tensor,
    temperature: Tensor,
    estimator: str,
    seed_generator: keras.random.SeedGenerator,
) -> Tensor:
    """Samples gates from finite logits with the given estimator.

    Gates have the shape and dtype of the logits, and are 0 or 1, or relaxed
    between them. A temperature below 1e-6 acts as 1e-6.
    """
    soft = sampling.relaxed_gates(logits, temperature, seed_generator)
    hard = ops.cast(soft > 0.5, ops.dtype(soft))
    return estimate(hard, lambda: soft, estimator)


# Probabilities are summed in fixed point, in units of 2^-30. Each float32 from
# 1/128 to 1 is a whole number of them.
PARTS = 2**30


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


def choose(probabilities: Tensor, inference: str) -> Tensor:
    """Chooses the open gates: by `"running_sum"`, or those above 0.5."""
    if inference == "running_sum":
        return running_sum(probabilities)[0]
    return probabilities > 0.5


def log_probability(logits: Tensor, gates: Tensor) -> Tensor:
    """Log-probability of each of the `gates`, 0 or 1, that were drawn.

    It has a gradient to the logits.
    """
    signs = 2 * ops.stop_gradient(gates) - 1
    return ops.log_sigmoid(signs * logits)


def entropy(logits: Tensor) -> Tensor:
    """Entropy of each gate in nats, between 0 and log 2."""
    # With both terms positive nothing cancels, however large the logit.
    size = ops.abs(logits)
    return ops.softplus(-size) + size * ops.sigmoid(-size)


def steps(logits: Tensor, gates: Tensor, estimator: str) -> Decision:
    """The gates of a call, from their logits and how far they opened.

    The gate is both what is read and what the auxiliary losses weigh.
    """
    probabilities = ops.sigmoid(logits)
    is_drawn = estimator == "reinforce"
    return Decision(
        probabilities,
        gates,
        gates,
        entropy(logits),
        4 * probabilities * ops.sigmoid(-logits),
        log_probability(logits, gates) if is_drawn else None,
    )


class DecidesSteps(Decides):
    """A layer that decides at each step, yes or no.

    Attributes:
        inferences: What its `inference` may be.
    """

    inferences: tuple[str, ...] = INFERENCES

    @property
    def inference(self) -> str:
        """The mode of inference. Assign to it to change it.

        A model's next call follows it. What was traced before stays as it was:
        after a `predict`, call `model.make_predict_function(force=True)`, after
        an `evaluate` `model.make_test_function(force=True)`.
        """
        return self._inference

    @inference.setter
    def inference(self, inference: str) -> None:
        self._inference = checks.check_choice(
            "inference", inference, self.inferences
        )

    def count(
        self: Any, steps: Decision, mask: Tensor | None, **more: Tensor | None
    ) -> None:
        """Counts the decisions of a batch, if statistics are kept.

        `more` are further arguments of the statistics.
        """
        if self.statistics is not None:
            # As at inference: drawn gates differ at equal probabilities, too.
            choice = choose(steps.probabilities, self.inference)
            self.statistics(steps, choice, mask, **more)
