"""A functional model as a network that is given one step after the other."""

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
from keras import ops

from keras_seqmech.core import graph
from keras_seqmech.core.decisions.reports import numbered
from keras_seqmech.core.graph import sublayers
from keras_seqmech.core.keras_steps import steps_of
from keras_seqmech.core.stream import Queue
from keras_seqmech.core.stream import State
from keras_seqmech.core.stream import Tick
from keras_seqmech.core.wrapped import unwrapped
from keras_seqmech.receptive_field.windows import ReceptiveFieldWindows
from keras_seqmech.serving import signature
from keras_seqmech.serving.streaming import step_layers
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
from keras_seqmech.typing import Tensor


class Place:
    """A place of a network: steps t of all sequences there pass together.

    Args:
        tick: The steps that pass in a tick, symbolic.
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


class _Known(NamedTuple):
    """What is known of a tensor of the network.

    Attributes:
        place: Where it passes; None if it does not depend on a sequence.
        mask: The mask that Keras passes on with it, a tensor of the network.
        stretch: Of a sequence that is padded or cut, what it is made of.
        windows_of: Of windows, the sequence that they are made of, and its
            mask.
        refusal: Why no operation may be given it: a layer, and a reason.
    """

    place: Place | None
    mask: Any = None
    stretch: Stretch | None = None
    windows_of: tuple[Any, Any] | None = None
    refusal: tuple[Any, str] | None = None


class Ticked(NamedTuple):
    """What a network returns for a tick.

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


class StreamingNetwork:
    """A functional model rewritten for one step at a time.

    It is a functional model of one tick (see `keras_seqmech.core.stream`), from
    inputs of one step and a state to outputs and the next state. Layers that
    declare a step take it; where paths meet, a step waits in a queue until it
    has passed all of them. All other layers must be known to treat each step
    alone. Functional models within the model become part of it.

    Args:
        model: A functional model, or a built `keras.Sequential`; the network
            shares its weights.
        per_step: Classes of further layers that treat each step alone.
        decisions: Whether to return the decisions of all layers, too.

    Attributes:
        delay: The most steps that outputs lie behind the inputs.
        outputs: Symbolic outputs by the names they are served under.

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
        self._per_step = (*per_step, Passed)
        # Symbolic states by name, before and after a tick, and the function of
        # a batch size that makes the first.
        self._states: dict[str, Any] = {}
        self._next_states: dict[str, Any] = {}
        self._first_states: dict[str, Callable[[Tensor], Any]] = {}
        self._pending: list[keras.KerasTensor] = []
        self._shows_decisions = decisions
        # Names of layers and their decisions, call by call, if wanted.
        self._decided: list[tuple[str, dict[str, Any]]] = []
        # Tensors of the network by those of the model; what is known of them.
        self._streamed: dict[keras.KerasTensor, keras.KerasTensor] = {}
        self._known: dict[keras.KerasTensor, _Known] = {}
        # What was made where paths meet: places, and tensors that wait.
        self._meetings: dict[frozenset[Place], Place] = {}
        self._delayed: dict[tuple[keras.KerasTensor, Place], Any] = {}

        tick = Tick(
            *(keras.Input((), dtype=x) for x in ("bool", *["int32"] * 2))
        )
        self._inputs = Place(tick)
        inputs = [self._input(x) for x in model.inputs]
        whole = graph.call_again(model, self._call, list(model.inputs))
        outputs = keras.tree.map_structure(self._streamed.get, whole)
        self._check_given(keras.tree.flatten(outputs))
        named = signature.named_outputs(model, outputs, self._decisions())
        named = {k: x for k, x in named.items() if not self._known[x].refusal}
        place = self._meet([*named.values()]) or self._inputs
        ends = [place, *(self._known[x].place for x in named.values())]
        self.delay = max(p.delay for p in ends if p is not None)
        self.outputs = self._align(named, place)
        nothing = ops.zeros_like(place.tick.present)
        pending = functools.reduce(ops.logical_or, self._pending, nothing)
        given = keras.tree.flatten([inputs, list(tick), self._states])
        made = [*self.outputs.values(), place.tick.present, pending]
        made += keras.tree.flatten(self._next_states)
        # Keras 3.10 refuses models with inputs that nothing reads.
        read = [keras.layers.Identity(autocast=False)(x) for x in given]
        self._model = keras.Model(given, [*made, *read])

    def first_state(self, batch_size: Tensor) -> State:
        """The state before the first tick."""
        return {name: f(batch_size) for name, f in self._first_states.items()}

    def run(self, inputs: list[Tensor], tick: Tick, state: State) -> Ticked:
        """Runs a tick on inputs of one step, flat, in those of the model."""
        given = keras.tree.flatten([inputs, list(tick), state])
        made = iter(self._model(given, training=False))
        outputs = {name: next(made) for name in self.outputs}
        present, pending = next(made), next(made)
        state = keras.tree.map_structure(lambda _: next(made), state)
        return Ticked(outputs, present, tf.reduce_any(pending), state)

    def _input(self, x: keras.KerasTensor) -> keras.KerasTensor:
        """A new input like one of the model."""
        shape = (None, *x.shape[1:])
        own = keras.Input(batch_shape=shape, dtype=x.dtype)
        self._streamed[x] = own
        return self._remember(own, self._inputs if has_time(x) else None)

    def _state(self, stem: str, first: Callable[[Tensor], Any]) -> str:
        """Adds a state, of a name made from `stem`, and returns the name."""
        stem = re.sub(r"\W", "_", stem, flags=re.ASCII)
        *_, name = numbered([*self._states, stem])
        self._first_states[name] = first
        self._states[name] = keras.tree.map_structure(
            lambda x: keras.Input(
                batch_shape=(None, *x.shape[1:]), dtype=x.dtype.name
            ),
            first(1),
        )
        return name

    def _counted(
        self,
        stem: str,
        earlier: Sequence[Place],
        waits: int,
        length: Any,
        present: Callable,
    ) -> Place:
        """A place whose steps are counted, of sequences of a length.

        `present` is a function of how many have passed: whether one passes.
        """
        name = self._state(
            f"passed_{stem}",
            lambda batch_size: tf.zeros((batch_size,), "int32"),
        )
        passed = self._states[name]
        tick = Tick(present(passed), passed, length)
        self._next_states[name] = tick.received
        return Place(tick, earlier, waits)

    def _call(self, operation: Any, *args: Any, **kwargs: Any) -> Any:
        """Calls an operation on whole sequences, and its step in the network.

        The first shows what it returns, and the masks that Keras passes on.
        """
        is_declared = type(operation) in self._per_step
        if getattr(operation, "outputs", None) and not is_declared:
            return self._call_model(operation, *args, **kwargs)
        args, kwargs = with_masks(operation, args, kwargs)
        whole = operation(*args, **kwargs)

        def streamed(x: Any) -> Any:
            return self._streamed[x] if is_symbolic(x) else x

        own_args, own_kwargs = keras.tree.map_structure(
            streamed, (args, kwargs)
        )
        made = self._step(operation, whole, *own_args, **own_kwargs)
        both = zip(keras.tree.flatten(whole), keras.tree.flatten(made))
        for x, own in both:
            self._streamed[x] = own
            mask = mask_of(x) if has_time(x) else None
            if mask is not None:
                # Layers that are streamed pass on the mask that they are given.
                own_mask = self._streamed.get(mask, mask_of(own))
                if own_mask is None:
                    raise refusal_of(operation, "makes a mask of its own")
                self._streamed[mask] = own_mask
                self._known[own] = self._known[own]._replace(mask=own_mask)
                self._known.setdefault(own_mask, _Known(self._known[own].place))
        return whole

    def _call_model(
        self, model: keras.Model, inputs: Any, mask: Any = None, **kwargs: Any
    ) -> Any:
        """Calls the operations of a functional model within the model."""
        check_call(model)
        if model.supports_masking:
            raise refusal_of(model, "passes on masks that its layers may not")
        functional = graph.as_functional(model)
        inputs = keras.tree.flatten(inputs)
        masks = [None] * len(inputs)
        if mask is not None:
            masks = keras.tree.flatten(mask)
        given = [
            self._call(
                Passed(dtype=own.dtype), [x] if mask is None else [x, mask]
            )
            for own, x, mask in zip(functional.inputs, inputs, masks)
        ]
        return graph.call_again(functional, self._call, given)

    def _step(
        self, operation: Any, whole: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Calls an operation in the network, or what is streamed in its place.

        `whole` is what it returns of whole sequences.
        """
        is_declared = type(operation) in self._per_step
        steps = None if is_declared else steps_of(operation)
        if _reads_windows(operation):
            args, kwargs = self._over_sequence(operation, args, kwargs)
        given = [
            x for x in keras.tree.flatten((args, kwargs)) if is_symbolic(x)
        ]
        ends = changed_ends(operation, [*args, *kwargs.values()])
        if ends is not None and has_time(given[0]):
            outputs = operation(*args, **kwargs)
            return self._shift(operation, ends, given[0], outputs)
        self._check_given(given)
        dependent = [x for x in given if self._known[x].place is not None]
        call = operation
        if type(operation) is keras.layers.StringLookup and operation.invert:
            call = step_layers.Words(operation)
        if not any(map(has_time, given)):
            place = self._known[dependent[0]].place if dependent else None
            outputs = self._result(call, place, args, kwargs)
            if any(map(has_time, keras.tree.flatten(outputs))):
                raise refusal_of(operation, "makes a sequence of a summary")
            return outputs
        if not all(map(has_time, dependent)):
            reason = "combines a sequence with a summary of it"
            raise refusal_of(operation, reason)
        check_streams(operation, steps)
        if type(operation) is ReceptiveFieldWindows:
            return self._make_windows(operation, *args, **kwargs)
        place = self._meet(dependent)
        args, kwargs = self._align((args, kwargs), place)
        alone = is_declared or treats_steps_alone(operation, args, kwargs)
        if not alone and steps is not None:
            return self._take_step(operation, steps, whole, place, args, kwargs)
        if not alone:
            reason = (
                "is not known to treat each step alone, as it is called here; "
                "a window is made by padding, then slices, as in "
                "`keras.layers.ZeroPadding1D((0, 2))(x)[:, 2:]`; "
                "classes of your own that do are declared by `per_step`, and "
                "those that carry a state have a `stream_step` of their own, "
                "as far as they have their own `call`"
            )
            raise refusal_of(operation, reason)
        if isinstance(call, keras.Layer) and call.supports_masking:
            args = keras.tree.map_structure(self._masked, args)
        outputs = self._result(call, place, args, kwargs)
        if not all(map(has_time, keras.tree.flatten(outputs))):
            raise refusal_of(operation, "does not return a step for each step")
        return outputs

    def _result(
        self, call: Any, place: Place | None, args: Any, kwargs: Any
    ) -> Any:
        """What a call returns, at a place; keeps its decisions if wanted."""
        if not (self._shows_decisions and _may_decide(call)):
            return self._remember(call(*args, **kwargs), place)
        outputs, decisions = step_layers.Recorder(call)(*args, **kwargs)
        self._decide(decisions, place)
        return self._remember(outputs, place)

    def _decide(self, decisions: list[dict], place: Place | None) -> None:
        """Keeps decisions, dicts by the name of the layer that decides."""
        self._decided += [item for found in decisions for item in found.items()]
        self._remember(decisions, place)

    def _decisions(self) -> dict[str, dict[str, Any]]:
        """The decisions by layer, as `Recording.by_layer` names them."""
        if self._shows_decisions and not self._decided:
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
        whole: Any,
        place: Any,
        args: Any,
        kwargs: Any,
    ) -> Any:
        """Calls the step of a layer that declares one."""
        take, sequence, given = step_layers.step_call(
            layer, steps, args, kwargs
        )
        name = self._state(layer.name, steps.stream_state)
        records = self._shows_decisions and _may_decide(layer)
        step = step_layers.StepLayer(
            layer, take, whole, records, f"{name}__step"
        )
        stepped = step(self._states[name], place.tick, sequence, given)
        self._next_states[name] = stepped["state"]
        check_state(layer, self._states[name], stepped["state"])
        if "pending" in stepped:
            self._pending.append(stepped["pending"])
        if "leaves" in stepped:
            place = self._counted(
                name,
                [place],
                getattr(steps, "stream_delay", 0),
                stepped.get("length", place.tick.length),
                lambda passed: stepped["leaves"],
            )
        outputs = self._remember(stepped["outputs"], place)
        decisions = stepped["decisions"]
        self._decide(decisions, place)
        returned = keras.tree.flatten_with_path([outputs, decisions])
        for key in getattr(steps, "stream_unread", ()):
            reason = f"returns {key!r} that depend on what it has not read"
            for path, x in returned:
                if key in path:
                    self._known[x] = _Known(place, refusal=(layer, reason))
        return outputs

    def _shift(
        self,
        operation: Any,
        ends: Ends,
        sequence: keras.KerasTensor,
        outputs: keras.KerasTensor,
    ) -> Any:
        """A sequence that is padded or cut; shifted once it has its length."""
        before = self._known[sequence].stretch
        if before is None:
            self._check_given([sequence])
            before = Stretch(sequence)
        stretch = before.changed(ends, outputs.dtype)
        if stretch is None:
            reason = (
                "pads where steps were cut off, or with another value than "
                "the padding before"
            )
            raise refusal_of(operation, reason)
        place = self._known[sequence].place
        self._remember(stretch.sequence, place)
        steps = stretch.behind
        if stretch.before + steps:
            reason = (
                "changes the number of steps; cut as many as you pad before "
                "anything else reads them, as in "
                "`keras.layers.ZeroPadding1D((0, 2))(x)[:, 1:-1]`"
            )
            refusal = operation, reason
            self._known[outputs] = _Known(
                place, stretch=stretch, refusal=refusal
            )
            return outputs
        if not steps:
            return stretch.sequence
        kind = ShiftAhead if steps > 0 else ShiftBehind
        shift = kind(abs(steps), stretch.fill, stretch.sequence)
        layer = keras.layers.Identity(autocast=False, name="shift")
        whole = keras.KerasTensor(outputs.shape, outputs.dtype)
        return self._take_step(
            layer, shift, whole, place, [stretch.sequence], {}
        )

    def _make_windows(
        self, layer: keras.Layer, sequence: Any, mask: Any = None
    ) -> Any:
        """Remembers what windows are made of, for the cell that reads them."""
        windows = layer(sequence)
        reason = (
            "makes windows that are not read by a `keras.layers.RNN` with an "
            "`RFCell`, under the same mask"
        )
        place = self._known[sequence].place
        self._known[windows] = _Known(
            place, windows_of=(sequence, mask), refusal=(layer, reason)
        )
        return windows

    def _over_sequence(self, layer: keras.Layer, args: Any, kwargs: Any) -> Any:
        """Arguments of a cell over windows, with the sequence in their place.

        Sizes are known to the cell alone, so that it is what waits.
        """
        bound = inspect.signature(layer.call).bind(*args, **kwargs).arguments
        name, windows = next(iter(bound.items()))
        sequence, mask = self._known[windows].windows_of or (windows, None)
        if bound.get("mask") is mask:
            bound[name] = sequence
        return (), bound

    def _check_given(self, tensors: Sequence[keras.KerasTensor]) -> None:
        """Refuses tensors that are of no use outside the layer they are of."""
        for x in tensors:
            refusal = self._known[x].refusal
            if refusal is not None:
                raise refusal_of(*refusal)

    def _meet(self, tensors: Sequence[keras.KerasTensor]) -> Any:
        """The place where sequences meet; None if there is none."""
        found = [self._known[x].place for x in tensors if has_time(x)]
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
                ops.minimum, [t.received for t in ticks]
            )
            length = functools.reduce(ops.minimum, [t.length for t in ticks])
            meeting = self._counted(
                "meeting", places, 0, length, lambda passed: received > passed
            )
            self._pending.append(received > meeting.tick.received)
            self._meetings[key] = meeting
        return self._meetings[key]

    def _align(self, structure: Any, place: Any) -> Any:
        """Holds sequences back that may lead a place."""

        def align(x: Any) -> Any:
            if not is_symbolic(x) or not has_time(x):
                return x
            own = self._known[x].place
            if own in (None, place):
                return x
            if (x, place) not in self._delayed:
                self._delayed[x, place] = self._delay(x, own, place)
            return self._delayed[x, place]

        return keras.tree.map_structure(align, structure)

    def _delay(self, x: keras.KerasTensor, own: Any, later: Any) -> Any:
        """Holds steps back until they pass a later place."""
        spec = {"step": tf.TensorSpec((None, None, *x.shape[2:]), x.dtype)}
        name = self._state(
            "delay",
            lambda size: Queue.empty(size, later.delay, spec)._asdict(),
        )
        delayed, self._next_states[name] = step_layers.Delay()(
            x, self._states[name], own.tick.present, later.tick.present
        )
        self._known[delayed] = self._known[x]._replace(place=later)
        return delayed

    def _masked(self, x: Any) -> Any:
        """A tensor under the mask that Keras passes on with it."""
        known = self._known[x] if is_symbolic(x) else None
        if known is None or known.mask is None or not has_time(x):
            return x
        mask = self._align(known.mask, known.place)
        return self._remember(Passed(dtype=x.dtype)([x, mask]), known.place)

    def _remember(self, outputs: Any, place: Place | None) -> Any:
        for x in keras.tree.flatten(outputs):
            self._known[x] = _Known(place)
        return outputs


def _reads_windows(operation: Any) -> bool:
    """Whether an operation is a `keras.layers.RNN` over windows."""
    rnn = unwrapped(operation)
    cell = getattr(rnn, "cell", None)
    return type(rnn) is keras.layers.RNN and hasattr(cell, "window_size")


def _may_decide(layer: Any) -> bool:
    """Whether a layer may decide: one of neither Keras nor `step_layers`."""
    # An `RFCell` decides in a loop of Keras, which is not recorded.
    if not isinstance(layer, keras.Layer) or _reads_windows(layer):
        return False
    modules = {type(part).__module__ for part in sublayers(layer)}
    others = modules - {step_layers.__name__}
    return any(name.partition(".")[0] != "keras" for name in others)
