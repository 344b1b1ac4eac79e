"""A functional model as a network that is given one step after the other."""

import re
from collections.abc import Sequence
from typing import Any

import keras

from keras_seqmech.core import graph
from keras_seqmech.core.graph import sublayers
from keras_seqmech.focused.encoder import FocusedHierarchicalEncoder
from keras_seqmech.receptive_field.layer import ReceptiveFieldRNN
from keras_seqmech.receptive_field.windows import ReceptiveFieldWindows
from keras_seqmech.serving.streaming.convolution import StreamedConvolution
from keras_seqmech.serving.streaming.encoder import StreamedEncoder
from keras_seqmech.serving.streaming.fields import StreamedFieldRNN
from keras_seqmech.serving.streaming.fields import StreamedWindows
from keras_seqmech.serving.streaming.layer import Clock
from keras_seqmech.serving.streaming.layer import DelayLine
from keras_seqmech.serving.streaming.layer import StreamedLayer
from keras_seqmech.serving.streaming.per_step import has_known_activation
from keras_seqmech.serving.streaming.per_step import has_time
from keras_seqmech.serving.streaming.per_step import treats_steps_alone
from keras_seqmech.serving.streaming.recurrent import StreamedRNN
from keras_seqmech.serving.streaming.recurrent import unwrap

# Layers that carry a state. A subclass may do more than its class says.
_STREAMED: dict[type, type] = {
    keras.layers.Conv1D: StreamedConvolution,
    keras.layers.GRU: StreamedRNN,
    keras.layers.LSTM: StreamedRNN,
    keras.layers.RNN: StreamedRNN,
    keras.layers.SimpleRNN: StreamedRNN,
    FocusedHierarchicalEncoder: StreamedEncoder,
    ReceptiveFieldRNN: StreamedFieldRNN,
    ReceptiveFieldWindows: StreamedWindows,
}


class StreamingNetwork:
    """A functional model rewritten for one step at a time.

    Recurrent layers carry their states, and fields wait for what they may
    read. Where paths of different delays meet, the faster one waits. All other
    layers must be known to treat each step alone.

    Args:
        model: A functional model, or a built `keras.Sequential`; the network
            shares its weights.
        per_step: Classes of further layers that treat each step alone.

    Attributes:
        model: From inputs with one step of each sequence to the outputs,
            those with a time axis all `delay` steps behind.
        clock: To be set before each step.
        layers: Those that carry a state, by a name of their own.
        delay: Number of steps that the outputs are behind the inputs.

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
        self.layers: dict[str, StreamedLayer] = {}
        # Delays of tensors by id, with the tensor, so that no other one gets
        # the same id; None where a tensor does not depend on the sequence.
        self._delays: dict[int, tuple[Any, int | None]] = {}
        # Delayed tensors by id and delay.
        self._delayed: dict[tuple[int, int], keras.KerasTensor] = {}
        self._models = 0

        functional = graph.as_functional(model)
        inputs = keras.tree.map_structure(self._input, functional.input)
        again = graph.run_again(functional, self._call, inputs)
        _check_call(model, again)
        self.delay = self._latest(again.outputs)
        outputs = self._align(again.output, self.delay)
        self.model = keras.Model(again.input, outputs, name=model.name)

    def _input(
        self, x: keras.KerasTensor, given: keras.KerasTensor | None = None
    ) -> keras.KerasTensor:
        """A new input like one of a model, in place of what it is given."""
        shape = (None, *x.shape[1:]) if given is None else given.shape
        own = keras.Input(batch_shape=shape, dtype=x.dtype, name=x.name)
        if given is not None:
            return self._remember(own, self._delay(given))
        return self._remember(own, 0 if has_time(x) else None)

    def _call(self, operation: Any, *args: Any, **kwargs: Any) -> Any:
        """Calls an operation, or the streamed layer in place of it."""
        is_declared = type(operation) in self.per_step
        given = [
            x
            for x in keras.tree.flatten((args, kwargs))
            if isinstance(x, keras.KerasTensor)
        ]
        dependent = [x for x in given if self._delay(x) is not None]
        delay = self._latest(dependent)
        if getattr(operation, "outputs", None) and not is_declared:
            if kwargs.get("mask") is not None:
                args, kwargs = self._align((args, kwargs), delay)
            return self._call_model(operation, *args, **kwargs)
        if not any(map(has_time, given)):
            outputs = operation(*args, **kwargs)
            if any(map(has_time, keras.tree.flatten(outputs))):
                raise _refusal(operation, "makes a sequence of what is none")
            return self._remember(outputs, delay if dependent else None)
        if not all(map(has_time, dependent)):
            reason = "combines a sequence with a summary of it"
            raise _refusal(operation, reason)
        _check_streams(operation)
        args, kwargs = self._align((args, kwargs), delay)
        if not is_declared and _carries_state(operation):
            return self._call_streamed(operation, delay, args, kwargs)
        if not is_declared and not treats_steps_alone(operation, args, kwargs):
            raise _refusal(operation, _unknown(operation))
        outputs = operation(*args, **kwargs)
        if not all(map(has_time, keras.tree.flatten(outputs))):
            raise _refusal(operation, "does not return a step for each step")
        return self._remember(outputs, delay)

    def _call_streamed(
        self, layer: keras.Layer, delay: int, args: Any, kwargs: Any
    ) -> Any:
        """Calls the streamed form of a layer that carries a state."""
        inner = unwrap(layer)
        if len(args) > 4 or {"lookahead", "lookahead_mask"} & kwargs.keys():
            if isinstance(inner, ReceptiveFieldRNN):
                raise _refusal(layer, "is given a lookahead")
        streamed = _STREAMED[type(inner)](self.clock, delay, layer)
        self._add(layer.name, streamed)
        outputs = streamed(*args, **kwargs)
        return self._remember(outputs, streamed.output_delay)

    def _call_model(
        self, model: keras.Model, inputs: Any, mask: Any = None, **kwargs: Any
    ) -> Any:
        """Calls a functional model within the model, rewritten as well."""
        functional = graph.as_functional(model)
        own = keras.tree.map_structure(self._input, functional.input, inputs)
        self._models += 1
        name = f"{model.name}_{self._models}"
        again = graph.run_again(functional, self._call, own, name)
        _check_call(model, again)
        again.supports_masking = model.supports_masking
        ahead = self._latest(again.outputs) > self._latest(again.inputs)
        if ahead and again.supports_masking and not _keeps_masks(again):
            reason = "reads ahead and passes on a mask that is lost within"
            raise _refusal(model, reason)
        outputs = again(inputs, mask=mask)
        for x, inner in zip(
            keras.tree.flatten(outputs), keras.tree.flatten(again.output)
        ):
            self._remember(x, self._delay(inner))
        return outputs

    def _latest(self, tensors: Sequence[keras.KerasTensor]) -> int:
        """The largest delay of tensors."""
        return max((self._delay(x) or 0 for x in tensors), default=0)

    def _align(self, structure: Any, delay: int) -> Any:
        """Puts delay lines where sequences are less than `delay` behind."""

        def align(x: Any) -> Any:
            if not isinstance(x, keras.KerasTensor) or not has_time(x):
                return x
            behind = self._delay(x) or 0
            if behind == delay:
                return x
            if (id(x), delay) not in self._delayed:
                line = DelayLine(self.clock, behind, delay - behind)
                self._add("delay", line)
                self._delayed[id(x), delay] = self._remember(line(x), delay)
            return self._delayed[id(x), delay]

        return keras.tree.map_structure(align, structure)

    def _add(self, stem: str, layer: StreamedLayer) -> None:
        stem = re.sub(r"\W", "_", stem, flags=re.ASCII)
        name, number = stem, 0
        while name in self.layers:
            number += 1
            name = f"{stem}_{number}"
        self.layers[name] = layer

    def _delay(self, x: keras.KerasTensor) -> int | None:
        return self._delays[id(x)][1]

    def _remember(self, outputs: Any, delay: int | None) -> Any:
        for x in keras.tree.flatten(outputs):
            self._delays[id(x)] = x, delay
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
    layer = unwrap(operation)
    if type(layer) is not keras.layers.Conv1D:
        return type(layer) in _STREAMED
    is_causal = layer.padding == "causal" and layer.strides == (1,)
    sees_more = layer.kernel_size != (1,)
    return is_causal and sees_more and has_known_activation(layer, rank=3)


def _check_streams(operation: Any) -> None:
    """Refuses layers that are told to do what cannot be streamed."""
    layer = unwrap(operation)
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
