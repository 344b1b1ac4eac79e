"""Values that change over training, and how those of decisions do."""

from typing import NamedTuple


class Ramp(NamedTuple):
    r"""A value that changes over a part of training.

    $$v = v_1 + (v_0 - v_1)\,(1 - s)^p$$

    with s the share of that part which has passed. For p = 1 the value changes
    linearly, for larger p fast at first and then more and more slowly (as in
    `keras.optimizers.schedules.PolynomialDecay`).

    Attributes:
        initial: $v_0$, its value until `begin`.
        final: $v_1$, its value from `end` on.
        begin: Share of training at which it begins to change, from 0 to 1.
        end: Share at which it arrives.
        power: p, above 0.
    """

    initial: float
    final: float
    begin: float = 0.0
    end: float = 1.0
    power: float = 1.0

    def __call__(self, share: float) -> float:
        """The value at a share of training."""
        if share >= self.end:
            return self.final
        passed = max(0.0, share - self.begin) / (self.end - self.begin)
        left = (1 - passed) ** self.power
        return self.final + (self.initial - self.final) * left


# What a layer that decides declares as its `decision_ramps`: how
# `ExploreThenCommit` schedules its temperature and the weights of its auxiliary
# losses, by name. Those without a ramp are left alone.
EXPLORE_THEN_COMMIT = {
    "entropy": Ramp(1.0, 0.0, 0.0, 0.6, power=3),
    "reading": Ramp(0.0, 0.02, 0.2, 0.6),
    "indecision": Ramp(0.0, 0.1, 0.6, 0.8),
    "temperature": Ramp(1.0, 0.5, 0.6, 0.9),
}
