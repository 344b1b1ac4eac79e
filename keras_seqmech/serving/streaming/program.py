"""A functional model as a list of calls that is run once for each tick.

`Program` records the calls of a model in order, on its symbolic tensors. A
`Run` makes the same calls on tensors of one step: within a `tf.function`, which
any tick is, the list is gone once it is traced.
"""

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import keras
import tensorflow as tf

from keras_seqmech.core import graph
from keras_seqmech.core.decisions.reports import numbered
from keras_seqmech.core.decisions.reports import recording
from keras_seqmech.core.decisions.statistics import without_statistics
from keras_seqmech.core.graph import sublayers
from keras_seqmech.core.keras_steps import steps_of
from keras_seqmech.core.stream import Queue
from keras_seqmech.core.stream import State
from keras_seqmech.core.stream import Stepped
from keras_seqmech.core.stream import Tick
from keras_seqmech.core.wrapped import unwrapped
from keras_seqmech.core.xla import without_xla
from keras_seqmech.receptive_field.windows import ReceptiveFieldWindows
from keras_seqmech.serving import signature
from keras_seqmech.serving.streaming.keras_masks import Passed
from keras_seqmech.serving.streaming.keras_masks import is_symbolic
from keras_seqmech.serving.streaming.keras_masks import mask_of
from keras_seqmech.serving.streaming.keras_masks import with_masks
from keras_seqmech.serving.streaming.per_step import has_time
from keras_seqmech.serving.streaming.per_step import treats_steps_alone
from keras_seqmech.serving.streaming.refusals import check_call
from keras_seqmech.serving.streaming.refusals import check_classes
from keras_seqmech.serving.streaming.refusals import check_inputs
from keras_seqmech.serving.streaming.refusals import check_state
from keras_seqmech.serving.streaming.refusals import check_streams
from keras_seqmech.serving.streaming.refusals import refusal_of
from keras_seqmech.serving.streaming.shifts import Ends
from keras_seqmech.serving.streaming.shifts import ShiftAhead
from keras_seqmech.serving.streaming.shifts import ShiftBehind
from keras_seqmech.serving.streaming.shifts import Stretch
from keras_seqmech.serving.streaming.shifts import changed_ends
from keras_seqmech.serving.streaming.step_calls import Within
from keras_seqmech.serving.streaming.step_calls import step_call
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

    def never_leads(self, other: "Place") -> bool:
        """Whether no step passes here before it has passed there."""
        return self is other or other in self.earlier


@dataclasses.dataclass(eq=False)
class Passing:
    """What passes for a tensor of the model in a tick.

    Attributes:
        value: Tensor of one step, `(batch, 1, ...)`; `(batch, ...)` of a
            tensor without a time axis.
        shape: The shape of the whole tensor of the model.
        place: Where it passes; None if it does not depend on a sequence.
        mask: The mask that Keras passes on with it.
        stretch: Steps that were added to it or cut off; None if none were.
        windows_of: Of windows, the sequence that they are made of, and its
            mask.
        refusal: Why no operation may be given it: a layer, and a reason.
    """

    value: Any
    shape: tuple
    place: Place | None
    mask: "Passing | None" = None
    stretch: Stretch | None = None
    windows_of: tuple[Any, Any] | None = None
    refusal: tuple[Any, str] | None = None


class Call(NamedTuple):
    """A call of a functional model, on its symbolic tensors.

    Attributes:
        operation: A layer, or an operation of `keras.ops`.
        args: Positional arguments.
        kwargs: Keyword arguments, with the masks that Keras fills in.
        outputs: What it returned, flat.
        masks: The mask that Keras passes on with each output, or None.
    """

    operation: Any
    args: Any
    kwargs: Any
    outputs: list[keras.KerasTensor]
    masks: list[keras.KerasTensor | None]


class Ticked(NamedTuple):
    """What a program returns for a tick.

    Attributes:
        outputs: Those of the model by name, of one step.
        present: Boolean tensor `(batch,)`: whether they have a step.
        pending: Boolean tensor: whether a further tick may move a step on
            although none arrives.
        state: The state after the tick.
    """

    outputs: dict[str, Tensor]
    present: Tensor
    pending: Tensor
    state: State


class Program:
    """A functional model that is given one step of its sequences at a time.

    A run is one tick (see `keras_seqmech.core.stream`), from inputs of one
    step and a state to outputs and the next state. Layers that declare a step
    take it; where paths meet, a step waits in a queue until it has passed all
    of them. All other layers must be known to treat each step alone. Functional
    models within the model become part of it.

    Args:
        model: A functional model, or a built `keras.Sequential`.
        per_step: Classes of further layers that treat each step alone.
        decisions: Whether to return the decisions of all layers, too.

    Attributes:
        calls: The calls of the model, in order.
        delay: The most steps that outputs lie behind the inputs.
        outputs: Specs of the outputs by the names they are served under; those
            with a time axis, `(None, None, ...)`, have one step in a tick.

    Raises:
        ValueError: If the model has no graph, no input has a free time axis,
            a layer may need more of the sequence than what came before and
            what a field reads ahead, or decisions are wanted and no layer
            decides.
    """

    def __init__(
        self,
        model: keras.Model,
        per_step: Sequence[type[keras.Layer]] = (),
        decisions: bool = False,
    ):
        graph.check_functional(model, "model")
        check_call(model)
        check_inputs(model)
        check_classes(per_step)
        self.model = model
        self.per_step = (*per_step, Passed)
        self.shows_decisions = decisions
        self.calls: list[Call] = []
        self.whole_outputs = graph.call_again(
            model, self._record, list(model.inputs)
        )
        # Functions of a batch size that make the first states, by name.
        self.first_states: dict[str, Callable[[Tensor], Any]] = {}
        self.outputs: dict[str, tf.TensorSpec] = {}
        self.delay = 0
        # The first run finds out states, outputs and what is to be refused.
        specs = [
            tf.TensorSpec(
                (None, 1, *x.shape[2:])
                if has_time(x)
                else (None, *x.shape[1:]),
                x.dtype,
            )
            for x in model.inputs
        ]
        rows = [tf.TensorSpec((None,), x) for x in ("bool", "int32", "int32")]
        tf.function(self._first_run).get_concrete_function(specs, Tick(*rows))

    def first_state(self, batch_size: Tensor) -> State:
        """The state before the first tick."""
        return {name: f(batch_size) for name, f in self.first_states.items()}

    def run(self, inputs: list[Tensor], tick: Tick, state: State) -> Ticked:
        """Runs a tick on inputs of one step, flat, in those of the model."""
        run = Run(self, inputs, tick, state)
        outputs = {name: x.value for name, x in run.outputs.items()}
        present, pending = run.end.tick.present, run.pending
        return Ticked(outputs, present, pending, run.next_state)

    def _first_run(self, inputs: list[Tensor], tick: Tick) -> None:
        run = Run(self, inputs, tick, None)
        self.outputs = {
            name: tf.TensorSpec((None, *x.shape[1:]), x.value.dtype, name)
            for name, x in run.outputs.items()
        }
        self.delay = run.delay

    def _record(self, operation: Any, *args: Any, **kwargs: Any) -> Any:
        """Calls an operation on symbolic tensors, and keeps the call."""
        is_declared = type(operation) in self.per_step
        if getattr(operation, "outputs", None) and not is_declared:
            return self._record_model(operation, *args, **kwargs)
        args, kwargs = with_masks(operation, args, kwargs)
        outputs = operation(*args, **kwargs)
        flat = keras.tree.flatten(outputs)
        masks = [mask_of(x) for x in flat]
        self.calls.append(Call(operation, args, kwargs, flat, masks))
        return outputs

    def _record_model(
        self, model: keras.Model, inputs: Any, mask: Any = None, **kwargs: Any
    ) -> Any:
        """The calls of a functional model within the model."""
        check_call(model)
        if model.supports_masking:
            raise refusal_of(model, "passes on masks that its layers may not")
        functional = graph.as_functional(model)
        inputs = keras.tree.flatten(inputs)
        masks = [None] * len(inputs)
        if mask is not None:
            masks = keras.tree.flatten(mask)
        given = [
            self._record(
                Passed(dtype=own.dtype), [x] if mask is None else [x, mask]
            )
            for own, x, mask in zip(functional.inputs, inputs, masks)
        ]
        return graph.call_again(functional, self._record, given)


class Run:
    """One tick of a program.

    Args:
        program: The program.
        inputs: Tensors of one step, flat, in those of the model.
        tick: The steps that the inputs have.
        state: The state before the tick; None to find out, and keep in the
            program, which states there are.

    Attributes:
        outputs: Outputs by name, as they pass at the `end`.
        end: The place where all outputs are aligned.
        delay: The most steps that outputs lie behind the inputs.
        pending: As in `Ticked`.
        next_state: The state after the tick.
    """

    def __init__(
        self,
        program: Program,
        inputs: list[Tensor],
        tick: Tick,
        state: State | None,
    ):
        self.program = program
        self.state = state
        self.batch_size = tf.shape(tick.present)[0]
        self.next_state: State = {}
        # Names of states, in the order in which a run comes to them.
        self._named: list[str] = []
        # By tensor of the model, masks among them.
        self._passing: dict[keras.KerasTensor, Passing] = {}
        # Names of layers and their decisions, call by call, if wanted.
        self._decided: list[tuple[str, dict[str, Passing]]] = []
        self._pending: list[Tensor] = []
        # What was made where paths meet: places, and what waits for them.
        self._meetings: dict[frozenset[Place], Place] = {}
        self._delayed: dict[tuple[Passing, Place], Passing] = {}
        place = Place(tick)
        for x, value in zip(program.model.inputs, inputs):
            self._remember(x, value, place if has_time(x) else None)
        with without_statistics(), without_xla():
            Within()(run=self._run_calls, training=False)
        outputs = self._given(program.whole_outputs)
        _check_given(_passing_of(outputs))
        named = signature.named_outputs(
            program.model, outputs, self._decisions()
        )
        named = {k: x for k, x in named.items() if not x.refusal}
        self.end = self._meet([*named.values()]) or place
        ends = [self.end, *(x.place for x in named.values())]
        self.delay = max(p.delay for p in ends if p is not None)
        self.outputs = self._align(named, self.end)
        nothing = tf.zeros_like(tick.present)
        pending = functools.reduce(tf.logical_or, self._pending, nothing)
        self.pending = tf.reduce_any(pending)

    def _run_calls(self) -> None:
        for call in self.program.calls:
            args, kwargs = self._given((call.args, call.kwargs))
            self._take(call, args, kwargs)
            self._pass_masks(call, args, kwargs)

    def _given(self, structure: Any) -> Any:
        """What passes for the tensors of the model in a structure."""
        return keras.tree.map_structure(
            lambda x: self._passing[x] if is_symbolic(x) else x, structure
        )

    def _remember(self, x: Any, value: Any, place: Place | None) -> Passing:
        """Keeps what passes for a tensor of the model."""
        self._passing[x] = Passing(value, x.shape, place)
        return self._passing[x]

    def _take(self, call: Call, args: Any, kwargs: Any) -> None:
        """Calls an operation, or what is streamed in its place."""
        operation = call.operation
        is_declared = type(operation) in self.program.per_step
        steps = None if is_declared else steps_of(operation)
        if _reads_windows(operation):
            args, kwargs = _over_sequence(operation, args, kwargs)
        given = _passing_of((args, kwargs))
        ends = changed_ends(operation, [*args, *kwargs.values()])
        if ends is not None and has_time(given[0]):
            self._shift(call, ends, given[0])
            return
        _check_given(given)
        dependent = [x for x in given if x.place is not None]
        if not any(map(has_time, given)):
            if any(map(has_time, call.outputs)):
                raise refusal_of(operation, "makes a sequence of a summary")
            place = dependent[0].place if dependent else None
            self._call(call, place, args, kwargs)
            return
        if not all(map(has_time, dependent)):
            reason = "combines a sequence with a summary of it"
            raise refusal_of(operation, reason)
        check_streams(operation, steps)
        if type(operation) is ReceptiveFieldWindows:
            self._make_windows(call, *args, **kwargs)
            return
        place = self._meet(dependent)
        args, kwargs = self._align((args, kwargs), place)
        if is_declared or treats_steps_alone(operation, args, kwargs):
            if not all(map(has_time, call.outputs)):
                reason = "does not return a step for each step"
                raise refusal_of(operation, reason)
            self._call(call, place, args, kwargs)
            return
        if steps is None:
            reason = (
                "is not known to treat each step alone, as it is called here; "
                "a window is made by padding, then slices, as in "
                "`keras.layers.ZeroPadding1D((0, 2))(x)[:, 2:]`; "
                "classes of your own that do are declared by `per_step`, and "
                "those that carry a state have a `stream_step` of their own, "
                "as far as they have their own `call`"
            )
            raise refusal_of(operation, reason)
        self._take_step(operation, steps, call.outputs, place, args, kwargs)

    def _call(
        self, call: Call, place: Place | None, args: Any, kwargs: Any
    ) -> None:
        """Calls an operation that treats each step alone, at a place."""
        args, kwargs = _values((args, kwargs))
        if "training" in kwargs:
            kwargs["training"] = False
        made, decisions = self._recorded(
            call.operation, lambda: call.operation(*args, **kwargs)
        )
        outputs = keras.tree.flatten(made)
        for x, value in zip(call.outputs, outputs, strict=True):
            self._remember(x, value, place)
        has_steps = any(map(has_time, call.outputs))
        self._decide(decisions, place, has_steps)

    def _pass_masks(self, call: Call, args: Any, kwargs: Any) -> None:
        """Gives outputs the masks that Keras passes on with them."""
        places = [self._passing[x].place for x in call.outputs]
        unknown = [x is not None and x not in self._passing for x in call.masks]
        if any(unknown):
            made = self._new_masks(call.operation, places[0], args, kwargs)
            found = zip(call.masks, made, places, unknown, strict=True)
            for mask, value, place, is_new in found:
                if is_new:
                    self._remember(mask, value, place)
        for x, mask in zip(call.outputs, call.masks):
            self._passing[x].mask = self._given(mask)

    def _new_masks(
        self, operation: Any, place: Place | None, args: Any, kwargs: Any
    ) -> list:
        """The masks that a layer makes for its outputs, as Keras asks for."""
        is_declared = type(operation) in self.program.per_step
        if steps_of(operation) is not None and not is_declared:
            # Layers that are streamed pass on the mask that they are given.
            raise refusal_of(operation, "makes a mask of its own")
        first = [*args, *kwargs.values()][0]
        masks = kwargs.get("mask")
        if masks is None:
            masks = keras.tree.map_structure(
                lambda x: getattr(x, "mask", None), first
            )
        first, masks = _values(self._align((first, masks), place))
        return keras.tree.flatten(operation.compute_mask(first, masks))

    def _recorded(
        self, operation: Any, call: Callable[[], Any]
    ) -> tuple[Any, list[dict]]:
        """What a call returns; and decisions by name of layer, if wanted."""
        if not (self.program.shows_decisions and _may_decide(operation)):
            return call(), []
        with recording() as found:
            outputs = call()
        return outputs, [
            {layer.name: decisions}
            for layer, decisions in found
            if found.is_usable(layer)
        ]

    def _decide(
        self, decisions: list[dict], place: Place | None, has_steps: bool = True
    ) -> list[dict]:
        """Keeps decisions, dicts by the name of the layer that decides."""

        def passing(value: Tensor) -> Passing:
            shape = (None, None, *value.shape[2:])
            return Passing(value, shape if has_steps else value.shape, place)

        kept = keras.tree.map_structure(passing, decisions)
        self._decided += [item for found in kept for item in found.items()]
        return kept

    def _decisions(self) -> dict[str, dict[str, Passing]]:
        """The decisions by layer, as `Recording.by_layer` names them."""
        if self.program.shows_decisions and not self._decided:
            raise ValueError(
                "Argument `decisions` must be False for a model that calls no "
                "layers that decide. Received: decisions=True"
            )
        names = numbered([name for name, _ in self._decided])
        return dict(zip(names, (decisions for _, decisions in self._decided)))

    def _take_step(
        self,
        layer: keras.Layer,
        steps: Any,
        outputs: list[keras.KerasTensor],
        place: Any,
        args: Any,
        kwargs: Any,
    ) -> None:
        """Takes the step of a layer that declares one."""
        take = step_call(layer, steps, *_values((args, kwargs)))
        name, before = self._state(layer.name, steps.stream_state)
        within = Within(layer, f"{name}__step")

        def step() -> Stepped:
            return within(run=lambda: take(before, place.tick))

        stepped, decisions = self._recorded(layer, step)
        check_state(layer, before, stepped.state)
        self.next_state[name] = stepped.state
        if stepped.pending is not None:
            self._pending.append(stepped.pending)
        if stepped.leaves is not None:
            length = stepped.length
            place = self._counted(
                name,
                [place],
                getattr(steps, "stream_delay", 0),
                place.tick.length if length is None else length,
                lambda passed: stepped.leaves,
            )
        values = keras.tree.flatten_with_path(stepped.outputs)
        returned = [
            (path, self._remember(x, value, place))
            for x, (path, value) in zip(outputs, values, strict=True)
        ]
        kept = self._decide(decisions, place)
        returned += keras.tree.flatten_with_path(kept)
        for key in getattr(steps, "stream_unread", ()):
            reason = f"returns {key!r} that depend on what it has not read"
            for path, x in returned:
                if key in path:
                    x.refusal = (layer, reason)

    def _shift(self, call: Call, ends: Ends, sequence: Passing) -> None:
        """A sequence that is padded or cut; shifted once it has its length."""
        before = sequence.stretch
        if before is None:
            _check_given([sequence])
            before = Stretch(sequence.value)
        outputs, operation = call.outputs[0], call.operation
        stretch = before.changed(ends, outputs.dtype)
        if stretch is None:
            reason = (
                "pads where steps were cut off, or with another value than "
                "the padding before"
            )
            raise refusal_of(operation, reason)
        place, steps = sequence.place, stretch.behind
        passing = self._remember(outputs, stretch.sequence, place)
        if stretch.before + steps:
            reason = (
                "changes the number of steps; cut as many as you pad before "
                "anything else reads them, as in "
                "`keras.layers.ZeroPadding1D((0, 2))(x)[:, 1:-1]`"
            )
            passing.stretch = stretch
            passing.refusal = (operation, reason)
        elif steps:
            kind = ShiftAhead if steps > 0 else ShiftBehind
            shift = kind(abs(steps), stretch.fill, _spec(stretch.sequence))
            layer = keras.layers.Identity(autocast=False, name="shift")
            self._take_step(layer, shift, [outputs], place, [passing], {})

    def _make_windows(
        self, call: Call, sequence: Passing, mask: Passing | None = None
    ) -> None:
        """Remembers what windows are made of, for the cell that reads them."""
        windows = self._remember(call.outputs[0], None, sequence.place)
        windows.windows_of = (sequence, mask)
        reason = (
            "makes windows that are not read by a `keras.layers.RNN` with an "
            "`RFCell`, under the same mask"
        )
        windows.refusal = (call.operation, reason)

    def _state(
        self, stem: str, first: Callable[[Tensor], Any]
    ) -> tuple[str, Any]:
        """A state, of a name made from `stem`, before the tick."""
        stem = re.sub(r"\W", "_", stem, flags=re.ASCII)
        *_, name = numbered([*self._named, stem])
        self._named.append(name)
        if self.state is not None:
            return name, self.state[name]
        self.program.first_states[name] = first
        return name, first(self.batch_size)

    def _counted(
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
        name, passed = self._state(
            f"passed_{stem}",
            lambda batch_size: tf.zeros((batch_size,), "int32"),
        )
        tick = Tick(present(passed), passed, length)
        self.next_state[name] = tick.received
        return Place(tick, earlier, waits)

    def _meet(self, sequences: Sequence[Passing]) -> Any:
        """The place where sequences meet; None if there is none."""
        found = [x.place for x in sequences if has_time(x)]
        places = [p for p in dict.fromkeys(found) if p is not None]
        for place in places:
            if all(map(place.never_leads, places)):
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
            meeting = self._counted(
                "meeting", places, 0, length, lambda passed: received > passed
            )
            self._pending.append(received > meeting.tick.received)
            self._meetings[key] = meeting
        return self._meetings[key]

    def _align(self, structure: Any, place: Any) -> Any:
        """Delays sequences until they are aligned with a place."""

        def align(x: Any) -> Any:
            if not isinstance(x, Passing) or not has_time(x):
                return x
            if x.place in (None, place):
                return x
            if (x, place) not in self._delayed:
                self._delayed[x, place] = self._delay(x, place)
            return self._delayed[x, place]

        return keras.tree.map_structure(align, structure)

    def _delay(self, x: Passing, later: Place) -> Passing:
        """Holds steps back until they pass a later place."""
        specs = {"step": _spec(x.value)}
        name, state = self._state(
            "delay",
            lambda size: Queue.empty(size, later.delay, specs)._asdict(),
        )
        own: Any = x.place
        queue = Queue(**state).append({"step": x.value}, own.tick.present)
        after = queue.remove_first(later.tick.present)
        self.next_state[name] = after._asdict()
        oldest = queue.steps["step"][:, :1]
        return dataclasses.replace(x, value=oldest, place=later)


def _passing_of(structure: Any) -> list[Passing]:
    flat = keras.tree.flatten(structure)
    return [x for x in flat if isinstance(x, Passing)]


def _values(structure: Any) -> Any:
    """The tensors of one step in a structure of what passes."""
    return keras.tree.map_structure(
        lambda x: x.value if isinstance(x, Passing) else x, structure
    )


def _spec(step: Tensor) -> tf.TensorSpec:
    """The spec of the sequence that a step belongs to."""
    return tf.TensorSpec((None, None, *step.shape[2:]), step.dtype)


def _check_given(given: Sequence[Passing]) -> None:
    """Refuses tensors that are of no use outside the layer they are of."""
    for x in given:
        if x.refusal is not None:
            raise refusal_of(*x.refusal)


def _over_sequence(layer: keras.Layer, args: Any, kwargs: Any) -> Any:
    """Arguments of a cell over windows, with the sequence in their place.

    Sizes are known to the cell alone, so that it is what waits.
    """
    bound = inspect.signature(layer.call).bind(*args, **kwargs).arguments
    name, windows = next(iter(bound.items()))
    sequence, mask = windows.windows_of or (windows, None)
    if bound.get("mask") is mask:
        bound[name] = sequence
    return (), bound


def _reads_windows(operation: Any) -> bool:
    """Whether an operation is a `keras.layers.RNN` over windows."""
    rnn = unwrapped(operation)
    cell = getattr(rnn, "cell", None)
    return type(rnn) is keras.layers.RNN and hasattr(cell, "window_size")


def _may_decide(layer: Any) -> bool:
    """Whether a layer may decide: it, or a layer within, is not of Keras."""
    # An `RFCell` decides in a loop of Keras, which is not recorded.
    if not isinstance(layer, keras.Layer) or _reads_windows(layer):
        return False
    modules = {type(part).__module__ for part in sublayers(layer)}
    return any(name.partition(".")[0] != "keras" for name in modules)
