"""A functional model as a network that is given one step after the other."""

import inspect
import re
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_seqmech.core import graph
from keras_seqmech.core.graph import sublayers
from keras_seqmech.core.wrapped import unwrapped
from keras_seqmech.focused.encoder import FocusedHierarchicalEncoder
from keras_seqmech.receptive_field.layer import ReceptiveFieldRNN
from keras_seqmech.receptive_field.look_ahead import LookAhead
from keras_seqmech.receptive_field.windows import ReceptiveFieldWindows
from keras_seqmech.serving.streaming.convolution import StreamedConvolution
from keras_seqmech.serving.streaming.encoder import StreamedEncoder
from keras_seqmech.serving.streaming.fields import StreamedFieldRNN
from keras_seqmech.serving.streaming.fields import StreamedLookAhead
from keras_seqmech.serving.streaming.fields import StreamedWindows
from keras_seqmech.serving.streaming.fields import is_over_windows
from keras_seqmech.serving.streaming.layer import Clock
from keras_seqmech.serving.streaming.layer import DelayLine
from keras_seqmech.serving.streaming.layer import Meeting
from keras_seqmech.serving.streaming.layer import StreamedLayer
from keras_seqmech.serving.streaming.layer import Timeline
from keras_seqmech.serving.streaming.per_step import has_known_activation
from keras_seqmech.serving.streaming.per_step import has_time
from keras_seqmech.serving.streaming.per_step import treats_steps_alone
from keras_seqmech.serving.streaming.recurrent import StreamedRNN
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
    ReceptiveFieldWindows: StreamedWindows,
}


class StreamingNetwork:
    """A functional model rewritten for one step at a time.

    Recurrent layers carry their states, and steps of fields wait for what they
    read. Where paths meet, a step waits until it has passed all of them. All
    other layers must be known to treat each step alone.

    Args:
        model: A functional model, or a built `keras.Sequential`; the network
            shares its weights.
        per_step: Classes of further layers that treat each step alone.

    Attributes:
        model: From inputs with one step of each sequence to the outputs.
        clock: To be set before each tick, as `inputs` are.
        inputs: The timeline of the inputs.
        outputs: The timeline of the outputs that have a time axis.
        delay: The most steps that outputs lie behind the inputs.
        layers: Those that carry a state, by a name of their own.

    Raises:
        ValueError: If the model has no graph, no input has a free time axis,
            or a layer is not known to need no more of the sequence than what
            came before and what a field reads ahead.
    """

    def __init__(
        self, model: keras.Model, per_step: Sequence[type[keras.Layer]] = ()
    ):
        graph.check_functional(model, "model")
        _check_per_step(per_step)
        _check_inputs(model)
        self.per_step = per_step
        self.clock = Clock()
        self.inputs = Timeline()
        self.layers: dict[str, StreamedLayer] = {}
        # Timelines of tensors by id, with the tensor, so that no other one
        # gets the same id; None where one does not depend on the sequence.
        self._timelines: dict[int, tuple[Any, Timeline | None]] = {}
        # Of the model that is being rewritten: a tensor of each timeline.
        self._places: dict[Timeline, keras.KerasTensor] = {}
        # Delayed tensors by id and timeline.
        self._delayed: dict[tuple[int, Timeline], keras.KerasTensor] = {}
        # What windows are made of, by their id.
        self._windowed: dict[int, keras.KerasTensor] = {}
        # What depends on positions that a field has not read, by id.
        self._unread: dict[int, tuple[keras.KerasTensor, keras.Layer]] = {}
        # Ids of tensors of strings, which are declared as ints.
        self._strings: set[int] = set()
        self._models = 0

        functional = graph.as_functional(model)
        inputs = keras.tree.map_structure(self._input, functional.input)
        again = graph.run_again(functional, self._call, inputs)
        _check_call(model, again)
        self._check_read(again.outputs)
        self.outputs = self._meet(again.outputs) or self.inputs
        ends = [self.outputs, *map(self._timeline, again.outputs)]
        self.delay = max(t.delay for t in ends if t is not None)
        outputs = self._align(again.output, self.outputs)
        self.model = keras.Model(again.input, outputs, name=model.name)
        used = {id(x) for x in sublayers(self.model)}
        self.layers = {
            name: layer
            for name, layer in self.layers.items()
            if id(layer) in used
        }

    @property
    def pending(self) -> Tensor:
        """Whether a further tick moves a step on although none arrives."""
        pending = [
            tf.reduce_any(layer.pending)
            for layer in self.layers.values()
            if layer.pending is not None
        ]
        return tf.reduce_any(pending) if pending else tf.constant(False)

    def _input(
        self, x: keras.KerasTensor, given: keras.KerasTensor | None = None
    ) -> keras.KerasTensor:
        """A new input like one of a model, in place of what it is given."""
        shape = (None, *x.shape[1:]) if given is None else given.shape
        own = keras.Input(batch_shape=shape, dtype=x.dtype, name=x.name)
        if given is not None:
            return self._remember(own, self._timeline(given))
        return self._remember(own, self.inputs if has_time(x) else None)

    def _call(self, operation: Any, *args: Any, **kwargs: Any) -> Any:
        """Calls an operation, or the streamed layer in place of it."""
        is_declared = type(operation) in self.per_step
        given = [
            x
            for x in keras.tree.flatten((args, kwargs))
            if isinstance(x, keras.KerasTensor)
        ]
        self._check_read(given)
        dependent = [x for x in given if self._timeline(x) is not None]
        if getattr(operation, "outputs", None) and not is_declared:
            if kwargs.get("mask") is not None:
                timeline = self._meet(dependent)
                args, kwargs = self._align((args, kwargs), timeline)
            return self._call_model(operation, *args, **kwargs)
        if not any(map(has_time, given)):
            outputs = operation(*args, **kwargs)
            if any(map(has_time, keras.tree.flatten(outputs))):
                raise _refusal(operation, "makes a sequence of what is none")
            summarized = self._timeline(dependent[0]) if dependent else None
            return self._remember(outputs, summarized)
        if not all(map(has_time, dependent)):
            reason = "combines a sequence with a summary of it"
            raise _refusal(operation, reason)
        _check_streams(operation)
        timeline = self._meet(dependent)
        args, kwargs = self._align((args, kwargs), timeline)
        if not is_declared and _carries_state(operation):
            return self._call_streamed(operation, timeline, args, kwargs)
        if not is_declared and not treats_steps_alone(operation, args, kwargs):
            raise _refusal(operation, _unknown(operation))
        outputs = operation(*args, **kwargs)
        if not all(map(has_time, keras.tree.flatten(outputs))):
            raise _refusal(operation, "does not return a step for each step")
        if type(operation) is keras.layers.StringLookup and operation.invert:
            self._strings.add(id(outputs))
        return self._remember(outputs, timeline)

    def _call_streamed(
        self, layer: keras.Layer, timeline: Timeline, args: Any, kwargs: Any
    ) -> Any:
        """Calls the streamed form of a layer that carries a state."""
        inner = unwrapped(layer)
        bound = inspect.signature(layer.call).bind(*args, **kwargs).arguments
        kwargs = {**bound.pop("kwargs", {}), **bound}
        given = {name for name, x in kwargs.items() if x is not None}
        if {"lookahead", "lookahead_mask"} & given:
            raise _refusal(layer, "is given a lookahead")
        # The sequence comes first, by whatever name.
        sequence = kwargs.pop(next(iter(bound)))
        kind = _STREAMED[type(inner)]
        windowed = id(sequence) in self._windowed and "mask" not in given
        if is_over_windows(layer) and windowed:
            # Sizes are known to the cell alone, so that it waits.
            kind, sequence = StreamedFieldRNN, self._windowed[id(sequence)]
            timeline = self._timeline(sequence)
        streamed = kind(layer, self.clock, timeline)
        self._add(layer.name, streamed)
        outputs = streamed(sequence, **kwargs)
        if type(layer) is ReceptiveFieldWindows and "mask" not in given:
            self._windowed[id(outputs)] = sequence
        for x in _unread_outputs(inner, outputs):
            self._unread[id(x)] = x, layer
        return self._remember(outputs, streamed.output_timeline)

    def _call_model(
        self, model: keras.Model, inputs: Any, mask: Any = None, **kwargs: Any
    ) -> Any:
        """Calls a functional model within the model, rewritten as well."""
        functional = graph.as_functional(model)
        outer, self._places = self._places, {}
        own = keras.tree.map_structure(self._input, functional.input, inputs)
        self._models += 1
        name = f"{model.name}_{self._models}"
        again = graph.run_again(functional, self._call, own, name)
        self._places = outer
        _check_call(model, again)
        again.supports_masking = model.supports_masking
        before = {self._timeline(x) for x in again.inputs}
        ahead = any(self._timeline(x) not in before for x in again.outputs)
        if ahead and again.supports_masking and not _keeps_masks(again):
            reason = "reads ahead and passes on a mask that is lost within"
            raise _refusal(model, reason)
        outputs = again(inputs, mask=mask)
        for x, inner in zip(
            keras.tree.flatten(outputs), keras.tree.flatten(again.output)
        ):
            self._remember(x, self._timeline(inner))
            if id(inner) in self._unread:
                self._unread[id(x)] = x, self._unread[id(inner)][1]
        return outputs

    def _check_read(self, tensors: Sequence[keras.KerasTensor]) -> None:
        """Refuses tensors that depend on what a field has not read."""
        for x in tensors:
            if id(x) in self._unread:
                reason = (
                    "returns probabilities of sizes that it decides while "
                    "reading, which depend on what it has not read"
                )
                raise _refusal(self._unread[id(x)][1], reason)

    def _meet(self, tensors: Sequence[keras.KerasTensor]) -> Any:
        """The timeline on which sequences meet; None if there is none."""
        timelines = [self._timeline(x) for x in tensors if has_time(x)]
        timelines = [t for t in dict.fromkeys(timelines) if t is not None]
        for timeline in timelines:
            if all(map(timeline.never_leads, timelines)):
                return timeline
        if not timelines:
            return None
        meeting = Meeting(self.clock, timelines)
        self._add("meeting", meeting)
        place = meeting([self._places[timeline] for timeline in timelines])
        self._remember(place, meeting.output_timeline)
        return meeting.output_timeline

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
                dtype = "string" if id(x) in self._strings else x.dtype
                line = DelayLine(self.clock, own, timeline, dtype)
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


def _check_per_step(per_step: Any) -> None:
    is_sequence = isinstance(per_step, (list, tuple))
    if not is_sequence or not all(
        isinstance(kind, type) and issubclass(kind, keras.Layer)
        for kind in per_step
    ):
        raise ValueError(
            "Argument `per_step` must be a tuple or a list of layer classes, "
            f"such as `(MyLayer,)`. Received: per_step={per_step!r}"
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


def _check_call(model: keras.Model, plain: keras.Model) -> None:
    """Refuses models that do not just run their graph, as a plain one does."""
    for name in ("call", "__call__"):
        if getattr(type(model), name) not in (
            getattr(type(plain), name),
            getattr(keras.Sequential, name),
        ):
            raise _refusal(model, f"has a `{name}` of its own")


def _keeps_masks(model: keras.Model) -> bool:
    """Whether a mask reaches the outputs of a functional model by itself."""
    return all(
        getattr(operation, "supports_masking", False)
        for operation in model.operations
        if not isinstance(operation, keras.layers.InputLayer)
    )


def _carries_state(operation: Any) -> bool:
    """Whether a layer has a streamed form, which carries its state."""
    layer = unwrapped(operation)
    if type(layer) is not keras.layers.Conv1D:
        return type(layer) in _STREAMED
    is_causal = layer.padding == "causal" and layer.strides == (1,)
    sees_more = layer.kernel_size != (1,)
    return is_causal and sees_more and has_known_activation(layer, rank=3)


def _unread_outputs(layer: keras.Layer, outputs: Any) -> list:
    """The outputs of a field that depend on positions it has not read."""
    if not getattr(layer, "return_field", False):
        return []
    chooses = layer if isinstance(layer, LookAhead) else layer.cell
    if chooses.size_from == "input":
        return []
    field = outputs[-1]
    return [x for name, x in field.items() if name != "size"]


def _check_streams(operation: Any) -> None:
    """Refuses layers that are told to do what cannot be streamed."""
    layer = unwrapped(operation)
    if not isinstance(layer, keras.Layer):
        return
    for part in sublayers(layer):
        options = getattr(part, "options", part)
        if getattr(options, "sample_at_inference", False):
            raise _refusal(operation, "draws at inference")
        if getattr(part, "stateful", False):
            raise _refusal(operation, "is stateful")
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


def _unknown(operation: Any) -> str:
    """The reason to refuse what may look at other steps.

    Only a class that nothing is known of may be declared: a layer of Keras or
    of this package that is refused does look at other steps, or may.
    """
    reason = "is not known to treat each step alone, as it is called here"
    kind = type(operation)
    if kind.__module__.partition(".")[0] in ("keras", "keras_seqmech"):
        return reason
    return f"{reason}; if it does: `per_step=({kind.__name__},)`"
