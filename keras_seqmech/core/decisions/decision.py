"""The record of what a layer decides in a call."""

import math
from collections.abc import Callable
from typing import NamedTuple

from keras_seqmech.typing import Tensor


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
    """

    probabilities: Tensor
    read: Tensor
    weighed: Tensor
    entropy: Tensor
    indecision: Tensor
    log_probability: Tensor | None = None

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
