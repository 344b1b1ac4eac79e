"""Which steps of a sequence exist where a streaming network is."""

from keras import ops

from keras_seqmech.typing import Tensor

# The length of a sequence that has not ended.
ENDLESS = 2**31 - 1


class Clock:
    """The time of a streaming network, set before each of its steps.

    A network is given one step of its inputs after the other. What a layer
    returns may lie some steps behind that, its delay.

    Attributes:
        position: int32 scalar, how many steps were given before.
        length: int32 scalar, the steps of the sequence if its end is known,
            else `ENDLESS`.
    """

    def __init__(self) -> None:
        self.position: Tensor = 0
        self.length: Tensor = ENDLESS

    def exists(self, delay: int) -> Tensor:
        """Whether the sequence has the step that lies a delay behind.

        False before its first step, and after its last.
        """
        step = self.position - delay
        return ops.logical_and(step >= 0, step < self.length)

    def is_first(self, delay: int) -> Tensor:
        """Whether that is the first step."""
        return ops.equal(self.position, delay)
