"""A functional model as a network that is given one step after the other."""

import inspect
import re
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_seqmech.core import graph
from keras_seqmech.core.decisions.reports import numbered
from keras_seqmech.core.decisions.reports import recording
from keras_seqmech.core.decisions.statistics import without_statistics
from keras_seqmech.core.graph import sublayers
from keras_seqmech.core.wrapped import unwrapped
from keras_seqmech.focused.encoder import FocusedHierarchicalEncoder
from keras_seqmech.focused.gate import BoundaryGate
from keras_seqmech.receptive_field.layer import ReceptiveFieldRNN
from keras_seqmech.receptive_field.look_ahead import LookAhead
from keras_seqmech.receptive_field.windows import ReceptiveFieldWindows
from keras_seqmech.serving import signature
from keras_seqmech.serving.streaming.fields import StreamedFieldRNN
from keras_seqmech.serving.streaming.fields import StreamedLookAhead
from keras_seqmech.serving.streaming.fields import is_over_windows
from keras_seqmech.serving.streaming.layer import DelayLine
from keras_seqmech.serving.streaming.layer import Meeting
from keras_seqmech.serving.streaming.layer import StreamedLayer
from keras_seqmech.serving.streaming.layer import Timeline
from keras_seqmech.serving.streaming.layers import StreamedConvolution
from keras_seqmech.serving.streaming.layers import StreamedEncoder
from keras_seqmech.serving.streaming.layers import StreamedRNN
from keras_seqmech.serving.streaming.per_step import has_known_activation
from keras_seqmech.serving.streaming.per_step import has_time
from keras_seqmech.serving.streaming.per_step import treats_steps_alone
from keras_seqmech.serving.streaming.shifts import Ends
from keras_seqmech.serving.streaming.shifts import Shift
from keras_seqmech.serving.streaming.shifts import ShiftAhead
from keras_seqmech.serving.streaming.shifts import ShiftBehind
from keras_seqmech.serving.streaming.shifts import Stretch
from keras_seqmech.serving.streaming.shifts import changed_ends
from keras_seqmech.typing import Tensor

# Layers that carry a state. A subclass may do more than its class says.
_STREAMED: dict[type, type] = {
    keras.layers.Conv1D: StreamedConvolution,
    keras.layers.GRU: StreamedRNN,
    keras.layers.LSTM: StreamedRNN,
    keras.layers.RNN: StreamedRNN,
    keras.layers.SimpleRNN: StreamedRNN,
    FocusedHierarchicalEncoder: StreamedEncoder,
    LookAhead: StreamedLookAhead,
    ReceptiveFieldRNN: StreamedFieldRNN,
}


class StreamingNetwork:
    """A functional model rewritten for one step at a time.

    Recurrent layers carry their states, and steps of fields wait for what they
    read. Where paths meet, a step waits until it has passed all of them. All
    other layers must be known to treat each step alone. Functional models
    within the model become part of it.

    Args:
        model: A functional model, or a built `keras.Sequential`; the network
            shares its weights.
        per_step: Classes of further layers that treat each step alone.
        decisions: Whether to return the decisions of all layers, too.

    Attributes:
        model: From inputs with one step of each sequence to the outputs by
            the names they are served under.
        inputs: The timeline of the inputs, to be set before each tick.
        outputs: The timeline of the outputs that have a time axis.
        delay: The most steps that outputs lie behind the inputs.
        layers: Those that carry a state, by a name of their own.

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
        _check_call(model)
        _check_inputs(model)
        _check_classes(per_step)
        self.per_step = (*per_step, _Passed)
        self.inputs = Timeline()
        self.layers: dict[str, StreamedLayer] = {}
        # Timelines of tensors by id, with the tensor, so that no other one
        # gets the same id; None where one does not depend on the sequence.
        self._timelines: dict[int, tuple[Any, Timeline | None]] = {}
        # A tensor of each timeline.
        self._places: dict[Timeline, keras.KerasTensor] = {}
        # Delayed tensors by id and timeline.
        self._delayed: dict[tuple[int, Timeline], keras.KerasTensor] = {}
        # Timelines of meetings, by those that meet.
        self._meetings: dict[frozenset[Timeline], Timeline] = {}
        # What windows are made of, and their mask, by their id.
        self._windowed: dict[int, tuple[Any, Any]] = {}
        # Sequences that are longer or shorter than the inputs, by id.
        self._stretched: dict[int, Stretch] = {}
        # What no operation may be given, by id: a layer, and why.
        self._refused: dict[int, tuple[keras.Layer, str]] = {}
        self._shows_decisions = decisions
        # Names of layers and their decisions, call by call, if wanted.
        self._decided: list[tuple[str, dict[str, Any]]] = []

        functional = graph.as_functional(model)
        inputs = keras.tree.map_structure(self._input, functional.input)
        again = graph.run_again(functional, self._call, inputs)
        self._check_given(again.outputs)
        named = signature.named_outputs(model, again.output, self._decisions())
        named = {k: x for k, x in named.items() if id(x) not in self._refused}
        self.outputs = self._meet([*named.values()]) or self.inputs
        ends = [self.outputs, *map(self._timeline, named.values())]
        self.delay = max(t.delay for t in ends if t is not None)
        outputs = self._align(named, self.outputs)
        self.model = keras.Model(again.input, outputs, name=model.name)
        used = {id(x) for x in sublayers(self.model)}
        self.layers = {
            name: layer
            for name, layer in self.layers.items()
            if id(layer) in used
        }

    @property
    def pending(self) -> Tensor:
        """Whether another tick can emit a step without new input."""
        pending = [
            tf.reduce_any(layer.pending)
            for layer in self.layers.values()
            if layer.pending is not None
        ]
        return tf.reduce_any(pending) if pending else tf.constant(False)

    def _input(self, x: keras.KerasTensor) -> keras.KerasTensor:
        """A new input like one of the model."""
        shape = (None, *x.shape[1:])
        own = keras.Input(batch_shape=shape, dtype=x.dtype, name=x.name)
        return self._remember(own, self.inputs if has_time(x) else None)

    def _call(self, operation: Any, *args: Any, **kwargs: Any) -> Any:
        """Calls an operation, or what is streamed in place of it."""
        is_declared = type(operation) in self.per_step
        if getattr(operation, "outputs", None) and not is_declared:
            return self._call_model(operation, *args, **kwargs)
        if is_over_windows(operation):
            args, kwargs = self._over_sequence(operation, args, kwargs)
        given = [
            x
            for x in keras.tree.flatten((args, kwargs))
            if isinstance(x, keras.KerasTensor)
        ]
        ends = changed_ends(operation, [*args, *kwargs.values()])
        if ends is not None and has_time(given[0]):
            outputs = operation(*args, **kwargs)
            return self._shift(operation, ends, given[0], outputs)
        self._check_given(given)
        dependent = [x for x in given if self._timeline(x) is not None]
        call = operation
        if type(operation) is keras.layers.StringLookup and operation.invert:
            call = _Words(operation)
        if not any(map(has_time, given)):
            summarized = self._timeline(dependent[0]) if dependent else None
            outputs = self._result(call, summarized, args, kwargs)
            if any(map(has_time, keras.tree.flatten(outputs))):
                raise _refusal(operation, "makes a sequence of a summary")
            return outputs
        if not all(map(has_time, dependent)):
            reason = "combines a sequence with a summary of it"
            raise _refusal(operation, reason)
        _check_streams(operation)
        if type(operation) is ReceptiveFieldWindows:
            return self._call_windows(operation, *args, **kwargs)
        timeline = self._meet(dependent)
        args, kwargs = self._align((args, kwargs), timeline)
        if not is_declared and _carries_state(operation):
            return self._call_streamed(operation, timeline, args, kwargs)
        if not is_declared and not treats_steps_alone(operation, args, kwargs):
            reason = (
                "is not known to treat each step alone, as it is called here; "
                "classes of your own that do are declared by `per_step`"
            )
            raise _refusal(operation, reason)
        outputs = self._result(call, timeline, args, kwargs)
        if not all(map(has_time, keras.tree.flatten(outputs))):
            raise _refusal(operation, "does not return a step for each step")
        return outputs

    def _result(
        self, call: Any, timeline: Timeline | None, args: Any, kwargs: Any
    ) -> Any:
        """What a call returns, on a timeline; keeps its decisions if wanted."""
        if self._shows_decisions and _may_decide(call):
            outputs, decisions = _Recorder(call)(*args, **kwargs)
            if decisions:
                self._decided += [x for by in decisions for x in by.items()]
                self._remember(decisions, timeline)
                return self._remember(outputs, timeline)
        return self._remember(call(*args, **kwargs), timeline)

    def _decisions(self) -> dict[str, dict[str, Any]]:
        """The decisions by layer, as `Recording.by_layer` names them."""
        if self._shows_decisions and not self._decided:
            raise ValueError(
                "Argument `decisions` must be False for a model that calls no "
                "layers that decide. Received: decisions=True"
            )
        names = numbered([name for name, _ in self._decided])
        return dict(zip(names, (decisions for _, decisions in self._decided)))

    def _call_model(
        self, model: keras.Model, inputs: Any, mask: Any = None, **kwargs: Any
    ) -> Any:
        """Calls the operations of a functional model within the model."""
        _check_call(model)
        if model.supports_masking:
            raise _refusal(model, "passes on masks that its layers may not")
        functional = graph.as_functional(model)
        own = [
            keras.Input(batch_shape=x.shape, dtype=x.dtype)
            for x in functional.inputs
        ]
        inputs = keras.tree.flatten(inputs)
        masks = [None] * len(own) if mask is None else keras.tree.flatten(mask)
        given = {
            id(x): self._call(_Passed(dtype=x.dtype), *both)
            for x, *both in zip(own, inputs, masks, strict=True)
        }
        # Keras 3.10 refuses models with inputs that nothing reads.
        read = [keras.layers.Identity()(x) for x in own]
        end = keras.layers.Identity()
        found: list[Any] = []

        def call(operation: Any, *args: Any, **kwargs: Any) -> Any:
            args, kwargs = keras.tree.map_structure(
                lambda x: given.get(id(x), x), (args, kwargs)
            )
            if operation is not end:
                return self._call(operation, *args, **kwargs)
            found.extend(args)
            return keras.tree.map_structure(lambda x: read[0], args[0])

        ended = keras.Model(functional.inputs, end(functional.output))
        graph.run_again(ended, call, own)
        return found[0]

    def _call_windows(
        self, layer: keras.Layer, sequence: Any, mask: Any = None
    ) -> Any:
        """Remembers what windows are made of, for the cell that reads them."""
        windows = layer(sequence)
        self._windowed[id(windows)] = sequence, mask
        reason = (
            "makes windows that are not read by a `keras.layers.RNN` with an "
            "`RFCell`, under the same mask"
        )
        self._refused[id(windows)] = layer, reason
        return self._remember(windows, self._timeline(sequence))

    def _shift(
        self,
        operation: Any,
        ends: Ends,
        sequence: keras.KerasTensor,
        outputs: keras.KerasTensor,
    ) -> Any:
        """A sequence that is padded or cut; shifted once it has its length."""
        before = self._stretched.get(id(sequence))
        if before is None:
            self._check_given([sequence])
            before = Stretch(sequence)
        stretch = before.changed(ends, outputs.dtype)
        if stretch is None:
            reason = (
                "pads where steps were cut off, or with another value than "
                "the padding before"
            )
            raise _refusal(operation, reason)
        timeline = self._timeline(sequence)
        self._remember(stretch.sequence, timeline)
        steps = stretch.behind
        if stretch.before + steps:
            self._stretched[id(outputs)] = stretch
            reason = (
                "changes the number of steps; cut as many as you pad before "
                "anything else reads them, as in "
                "`keras.layers.ZeroPadding1D((0, 2))(x)[:, 1:-1]`"
            )
            self._refused[id(outputs)] = operation, reason
            return self._remember(outputs, timeline)
        if not steps:
            return stretch.sequence
        kind = ShiftAhead if steps > 0 else ShiftBehind
        shift = kind(Shift(steps, stretch.fill), timeline)
        self._add("shift", shift)
        shifted = shift(stretch.sequence)
        return self._remember(shifted, shift.output_timeline)

    def _over_sequence(self, layer: keras.Layer, args: Any, kwargs: Any) -> Any:
        """Arguments of a cell over windows, with the sequence in their place.

        Sizes are known to the cell alone, so that it is what waits.
        """
        bound = inspect.signature(layer.call).bind(*args, **kwargs).arguments
        name, windows = next(iter(bound.items()))
        sequence, mask = self._windowed.get(id(windows), (windows, None))
        if bound.get("mask") is mask:
            bound[name] = sequence
        return (), bound

    def _call_streamed(
        self, layer: keras.Layer, timeline: Timeline, args: Any, kwargs: Any
    ) -> Any:
        """Calls the streamed form of a layer that carries a state."""
        wrapped = unwrapped(layer)
        bound = inspect.signature(layer.call).bind(*args, **kwargs).arguments
        kwargs = {**bound.pop("kwargs", {}), **bound}
        given = {name for name, x in kwargs.items() if x is not None}
        if {"lookahead", "lookahead_mask"} & given:
            raise _refusal(layer, "is given a lookahead")
        # The sequence comes first, by whatever name.
        sequence = kwargs.pop(next(iter(bound)))
        kind = _STREAMED[type(wrapped)]
        if is_over_windows(layer):
            kind = StreamedFieldRNN
        streamed = kind(layer, timeline)
        self._add(layer.name, streamed)
        before = len(self._decided)
        outputs = self._result(
            streamed, streamed.output_timeline, [sequence], kwargs
        )
        fields = [decisions for _, decisions in self._decided[before:]]
        if getattr(wrapped, "return_field", False):
            fields.append(outputs[-1])
        for x in _unread(wrapped, fields):
            reason = (
                "returns probabilities of sizes that it decides while "
                "reading, which depend on what it has not read"
            )
            self._refused[id(x)] = layer, reason
        return outputs

    def _check_given(self, tensors: Sequence[keras.KerasTensor]) -> None:
        """Refuses tensors that are of no use outside the layer they are of."""
        for x in tensors:
            if id(x) in self._refused:
                raise _refusal(*self._refused[id(x)])

    def _meet(self, tensors: Sequence[keras.KerasTensor]) -> Any:
        """The timeline on which sequences meet; None if there is none."""
        timelines = [self._timeline(x) for x in tensors if has_time(x)]
        timelines = [t for t in dict.fromkeys(timelines) if t is not None]
        for timeline in timelines:
            if all(map(timeline.never_leads, timelines)):
                return timeline
        if not timelines:
            return None
        key = frozenset(timelines)
        if key not in self._meetings:
            meeting = Meeting(timelines)
            self._add("meeting", meeting)
            place = meeting([self._places[timeline] for timeline in timelines])
            self._remember(place, meeting.output_timeline)
            self._meetings[key] = meeting.output_timeline
        return self._meetings[key]

    def _align(self, structure: Any, timeline: Any) -> Any:
        """Holds sequences back that may lead a timeline."""

        def align(x: Any) -> Any:
            if not isinstance(x, keras.KerasTensor) or not has_time(x):
                return x
            own = self._timeline(x)
            if own in (None, timeline):
                return x
            key = id(x), timeline
            if key not in self._delayed:
                line = DelayLine(own, timeline)
                self._add("delay", line)
                delayed = line(x, self._places[timeline])
                self._delayed[key] = self._remember(delayed, timeline)
            return self._delayed[key]

        return keras.tree.map_structure(align, structure)

    def _add(self, stem: str, layer: StreamedLayer) -> None:
        stem = re.sub(r"\W", "_", stem, flags=re.ASCII)
        name, number = stem, 0
        while name in self.layers:
            number += 1
            name = f"{stem}_{number}"
        self.layers[name] = layer

    def _timeline(self, x: keras.KerasTensor) -> Any:
        """The timeline of a tensor; None if it depends on no sequence."""
        return self._timelines[id(x)][1]

    def _remember(self, outputs: Any, timeline: Timeline | None) -> Any:
        for x in keras.tree.flatten(outputs):
            self._timelines[id(x)] = x, timeline
            if timeline is not None:
                self._places.setdefault(timeline, x)
        return outputs


class _Passed(keras.layers.Layer):
    """Passes a tensor on, in a dtype, and with another mask if one is given."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.mask: Tensor | None = None

    def call(self, x: Tensor, given: Tensor | None = None) -> Tensor:
        self.mask = given
        return tf.identity(x)

    def compute_output_spec(
        self, x: keras.KerasTensor, given: keras.KerasTensor | None = None
    ) -> keras.KerasTensor:
        self.mask = given
        return keras.KerasTensor(x.shape, self.compute_dtype)

    def compute_mask(self, x: Tensor, mask: Tensor | None = None) -> Any:
        return mask if self.mask is None else self.mask


class _Words(keras.layers.Layer):
    """A `StringLookup(invert=True)`, which declares ints, with its strings."""

    def __init__(self, lookup: keras.layers.StringLookup):
        super().__init__(dtype=lookup.dtype_policy)
        self.lookup = lookup

    def call(self, ids: Tensor) -> Tensor:
        return self.lookup(ids)

    def compute_output_spec(self, ids: keras.KerasTensor) -> keras.KerasTensor:
        return keras.KerasTensor(ids.shape, "string")


class _Recorder(keras.layers.Layer):
    """Returns the outputs of a layer, and the decisions of the call.

    These are dicts by the name of the layer that decides, one for each.
    """

    def __init__(self, layer: keras.Layer):
        super().__init__(dtype=layer.dtype_policy, autocast=False)
        self.supports_masking = True
        self.layer = layer
        self.built = True

    def call(self, *args: Any, **kwargs: Any) -> tuple[Any, list]:
        with without_statistics(), recording() as found:
            outputs = self.layer(*args, **kwargs)
        return outputs, [
            {layer.name: decisions}
            for layer, decisions in found
            if found.is_usable(layer)
        ]

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(self.layer, StreamedLayer):
            return super().compute_output_spec(*args, **kwargs)
        outputs = self.layer.compute_output_spec(*args, **kwargs)
        whole = _Recorder(self.layer.layer)
        return outputs, whole.compute_output_spec(*args, **kwargs)[1]

    def compute_mask(self, *args: Any) -> None:
        """None: the layer has set the masks of its outputs."""
        return None


def _check_classes(per_step: Any) -> None:
    is_list = isinstance(per_step, (list, tuple))
    if not is_list or not all(
        isinstance(kind, type) and issubclass(kind, keras.Layer)
        for kind in per_step
    ):
        raise ValueError(
            "Argument `per_step` must be a list or tuple of classes of layers. "
            f"Received: per_step={per_step!r}"
        )


def _check_inputs(model: keras.Model) -> None:
    shapes = [tuple(x.shape) for x in model.inputs]
    only_time_is_free = all(None not in shape[2:] for shape in shapes)
    if not only_time_is_free or not any(map(has_time, model.inputs)):
        raise ValueError(
            "Argument `model` must have an input with a free time axis, such "
            "as `keras.Input((None, 8))`, and no other free axis, to be served "
            f"step by step. Received: inputs of shapes {shapes}"
        )


def _check_call(model: keras.Model) -> None:
    """Refuses models that do not just run their graph, as a plain one does."""
    plain = type(keras.Model(model.inputs, model.outputs))
    for name in ("call", "__call__"):
        if getattr(type(model), name) not in (
            getattr(plain, name),
            getattr(keras.Sequential, name),
        ):
            raise _refusal(model, f"has a `{name}` of its own")


def _carries_state(operation: Any) -> bool:
    """Whether a layer has a streamed form, which carries its state."""
    layer = unwrapped(operation)
    if type(layer) is not keras.layers.Conv1D:
        return type(layer) in _STREAMED
    is_causal = layer.padding == "causal" or layer.kernel_size == (1,)
    has_all = is_causal and layer.strides == (1,)
    return has_all and has_known_activation(layer, rank=3)


def _may_decide(call: Any) -> bool:
    """Whether a layer may decide: one of neither Keras nor this module."""
    layer = call.layer if isinstance(call, StreamedLayer) else call
    # An `RFCell` decides in a loop of Keras, which is not recorded.
    if not isinstance(layer, keras.Layer) or is_over_windows(layer):
        return False
    modules = {type(part).__module__ for part in sublayers(layer)}
    others = modules - {__name__}
    return any(name.partition(".")[0] != "keras" for name in others)


def _unread(layer: keras.Layer, fields: list[dict[str, Any]]) -> list:
    """What of a field depends on positions that it has not read."""
    chooses = getattr(layer, "cell", layer)
    if getattr(chooses, "size_from", "input") == "input":
        return []
    return [
        x for field in fields for name, x in field.items() if name != "size"
    ]


def _check_streams(operation: Any) -> None:
    """Refuses layers that are told to do what cannot be streamed."""
    layer = unwrapped(operation)
    if not isinstance(layer, keras.Layer):
        return
    for part in sublayers(layer):
        samples = getattr(part, "sample_at_inference", False)
        if samples or getattr(part, "inference", None) == "sample":
            raise _refusal(operation, "draws at inference")
        if getattr(part, "stateful", False):
            raise _refusal(operation, "is stateful")
    if type(layer) is BoundaryGate and layer.inference == "running_sum":
        raise _refusal(operation, "sums over steps outside an encoder")
    if type(layer) is FocusedHierarchicalEncoder and layer.returned.focused:
        raise _refusal(operation, "returns focused states")
    if type(layer) in _STREAMED and getattr(layer, "go_backwards", False):
        raise _refusal(operation, "reads from the end")


def _refusal(operation: Any, reason: str) -> ValueError:
    return ValueError(
        "Argument `model` must have layers that can be given one step after "
        "the other: recurrent ones that read forwards, causal convolutions, "
        "those of this package, and layers that are known to treat each step "
        f"alone. Received: {operation.name!r}, of class "
        f"{type(operation).__name__}, which {reason}"
    )
