"""Places where sequences of a stream are aligned, and their states."""

import dataclasses
import functools
import re
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_seqmech.core.decisions.reports import numbered
from keras_seqmech.core.stream import Queue
from keras_seqmech.core.stream import State
from keras_seqmech.core.stream import Tick
from keras_seqmech.serving.streaming.per_step import has_time
from keras_seqmech.serving.streaming.shifts import Ends
from keras_seqmech.typing import Tensor


class Place:
    """A point of the graph where sequences are aligned.

    Steps t of all sequences there pass in the same tick.

    Args:
        tick: The steps that pass in a tick.
        earlier: The places that it waits for.
        waits: Number of further steps that it may wait for.

    Attributes:
        delay: The most steps that it lies behind the inputs.
        earlier: All places that it waits for, directly or not.
    """

    def __init__(
        self, tick: Tick, earlier: Iterable["Place"] = (), waits: int = 0
    ):
        earlier = list(earlier)
        self.tick = tick
        self.delay: int = max((p.delay for p in earlier), default=0) + waits
        self.earlier: set[Place] = set(earlier).union(
            *(place.earlier for place in earlier)
        )


@dataclasses.dataclass(eq=False, frozen=True)
class Passing:
    """One step of a tensor of the model, as it passes in a tick.

    Attributes:
        value: Tensor of one step, `(batch, 1, ...)`; `(batch, ...)` of a
            tensor without a time axis.
        shape: The shape of the whole tensor of the model.
        place: Where it passes; None if it does not depend on a sequence.
        mask: The mask that Keras passes on with it.
        ends: Steps that were added to it or cut off; None if none were.
        windows_of: Of windows, the sequence that they are made of, and its
            mask.
        refusal: Why no operation may be given it: a layer, and a reason.
    """

    value: Any
    shape: tuple
    place: Place | None
    mask: "Passing | None" = None
    ends: Ends | None = None
    windows_of: tuple[Any, Any] | None = None
    refusal: tuple[Any, str] | None = None


class Places:
    """The places of one tick of a program.

    Args:
        inputs: Where the inputs pass.
        state: The state before the tick; None to begin with the first one.

    Attributes:
        first_states: Functions of a batch size that make the first states, by
            name.
        next_state: The state after the tick.
        pending: Boolean tensors `(batch,)`: whether a further tick may move a
            step on although none arrives.
    """

    def __init__(self, inputs: Place, state: State | None):
        self.inputs = inputs
        self.first_states: dict[str, Callable[[Tensor], Any]] = {}
        self.next_state: State = {}
        self.pending = [tf.zeros_like(inputs.tick.present)]
        self._state = state
        # What was made where paths meet: places, and what waits for them.
        self._meetings: dict[frozenset[Place], Place] = {}
        self._delayed: dict[tuple[Passing, Place], Passing] = {}

    def state(
        self, stem: str, first: Callable[[Tensor], Any]
    ) -> tuple[str, Any]:
        """A state, of a name made from `stem`, before the tick."""
        stem = re.sub(r"\W", "_", stem, flags=re.ASCII)
        *_, name = numbered([*self.first_states, stem])
        self.first_states[name] = first
        if self._state is not None:
            return name, self._state[name]
        return name, first(tf.shape(self.inputs.tick.present)[0])

    def counted(
        self,
        stem: str,
        earlier: Sequence[Place],
        waits: int,
        length: Any,
        present: Callable,
    ) -> Place:
        """A place with its own step counter, of sequences of a length.

        `present` is a function of how many have passed: whether one passes.
        """
        name, passed = self.state(
            f"passed_{stem}",
            lambda batch_size: tf.zeros((batch_size,), "int32"),
        )
        tick = Tick(present(passed), passed, length)
        self.next_state[name] = tick.received
        return Place(tick, earlier, waits)

    def meet(self, sequences: Sequence[Passing]) -> Any:
        """The place where sequences meet; None if there is none."""
        found = [x.place for x in sequences if has_time(x)]
        places = [p for p in dict.fromkeys(found) if p is not None]
        for place in places:
            # No step passes there before it has passed all of them.
            if {*places} <= {place, *place.earlier}:
                return place
        if not places:
            return None
        key = frozenset(places)
        if key not in self._meetings:
            ticks = [place.tick for place in places]
            received = functools.reduce(
                tf.minimum, [tick.received for tick in ticks]
            )
            length = functools.reduce(
                tf.minimum, [tick.length for tick in ticks]
            )
            meeting = self.counted(
                "meeting", places, 0, length, lambda passed: received > passed
            )
            self.pending.append(received > meeting.tick.received)
            self._meetings[key] = meeting
        return self._meetings[key]

    def align(self, structure: Any, place: Any) -> Any:
        """Delays sequences until they are aligned with a place."""

        def aligned(x: Any) -> Any:
            if not isinstance(x, Passing) or not has_time(x):
                return x
            if x.place in (None, place):
                return x
            if (x, place) not in self._delayed:
                self._delayed[x, place] = self._delay(x, place)
            return self._delayed[x, place]

        return keras.tree.map_structure(aligned, structure)

    def _delay(self, x: Passing, later: Place) -> Passing:
        """Holds steps back until they pass a later place."""
        # A program keeps the function, which must not keep the tick.
        size, specs = later.delay, {"step": spec_of(x.value)}
        name, state = self.state(
            "delay",
            lambda batch: Queue.empty(batch, size, specs)._asdict(),
        )
        own: Any = x.place
        queue = Queue(**state).append({"step": x.value}, own.tick.present)
        after = queue.remove_first(later.tick.present)
        self.next_state[name] = after._asdict()
        oldest = queue.steps["step"][:, :1]
        return dataclasses.replace(x, value=oldest, place=later)


def passing_of(structure: Any) -> list[Passing]:
    """All that passes in a structure."""
    flat = keras.tree.flatten(structure)
    return [x for x in flat if isinstance(x, Passing)]


def values_of(structure: Any) -> Any:
    """The tensors of one step in a structure of what passes."""
    return keras.tree.map_structure(
        lambda x: x.value if isinstance(x, Passing) else x, structure
    )


def spec_of(step: Tensor) -> tf.TensorSpec:
    """The spec of the sequence that a step belongs to."""
    return tf.TensorSpec((None, None, *step.shape[2:]), step.dtype)
