"""A functional model as a network that is given one step after the other."""

import re
from collections.abc import Callable
from typing import Any
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_seqmech.layers import functional
from keras_seqmech.layers.focused_encoder.encoder import (
    FocusedHierarchicalEncoder,
)
from keras_seqmech.layers.receptive_field.layer import ReceptiveFieldRNN
from keras_seqmech.layers.receptive_field.windows import ReceptiveFieldWindows
from keras_seqmech.layers.sublayers import sublayers
from keras_seqmech.serving.streaming.clock import Clock
from keras_seqmech.serving.streaming.encoder import StreamedEncoder
from keras_seqmech.serving.streaming.fields import StreamedFieldRNN
from keras_seqmech.serving.streaming.fields import StreamedWindows
from keras_seqmech.serving.streaming.layer import DelayLine
from keras_seqmech.serving.streaming.layer import StreamedLayer
from keras_seqmech.serving.streaming.recurrent import StreamedRNN
from keras_seqmech.serving.streaming.recurrent import unwrap
from keras_seqmech.typing import Tensor

# A length that no layer cuts sequences to, for shapes alone.
_LONG = 1_000_003
# Lengths at which layers are tried.
_TRIED = (1, 3, 6)
# `call` of the layers that are known to do just what their cell does.
_CALLS = {
    layer.call
    for layer in (
        keras.layers.RNN,
        keras.layers.LSTM,
        keras.layers.GRU,
        keras.layers.SimpleRNN,
        ReceptiveFieldRNN,
    )
}
# What cannot be given a step alone.
_STATEFUL = (
    keras.layers.RNN,
    ReceptiveFieldWindows,
    FocusedHierarchicalEncoder,
)


class StreamingNetwork(NamedTuple):
    """A network for one step at a time.

    Attributes:
        model: From inputs with one step of each sequence to the outputs,
            those with a time axis all `delay` steps behind.
        clock: To be set before each step.
        layers: Those that carry a state, by a name of their own.
        delay: Steps that the outputs are behind the inputs.
    """

    model: keras.Model
    clock: Clock
    layers: dict[str, StreamedLayer]
    delay: int


def has_time(tensor: keras.KerasTensor) -> bool:
    """Whether a tensor is a sequence, `(batch, time, ...)`, of free length."""
    return len(tensor.shape) > 1 and tensor.shape[1] is None


def streaming_network(model: keras.Model) -> StreamingNetwork:
    """Rewrites a functional model for one step at a time.

    Recurrent layers carry their states, and fields wait for what they may
    read. Where paths of different delays meet, the faster one waits. All other
    layers must treat each step alone.

    Args:
        model: A functional model, or a built `keras.Sequential`.

    Returns:
        A `StreamingNetwork`; it shares the weights of the model.

    Raises:
        ValueError: If the model has no graph, no input has a free time axis,
            or a layer needs more of the sequence than what came before and
            what a field reads ahead.
    """
    functional.check_functional(model, "model")
    model = functional.as_functional(model)
    _check_inputs(model)
    writer = _Writer()
    inputs = keras.tree.map_structure(writer.input, model.input)
    again = functional.run_again(model, writer.call, inputs)
    outputs = writer.align_outputs(again.output)
    network = keras.Model(again.input, outputs, name=model.name)
    return StreamingNetwork(network, writer.clock, writer.layers, writer.delay)


def _check_inputs(model: keras.Model) -> None:
    shapes = [tuple(x.shape) for x in model.inputs]
    only_time_is_free = all(None not in shape[2:] for shape in shapes)
    if not only_time_is_free or not any(map(has_time, model.inputs)):
        raise ValueError(
            "Argument `model` must have an input with a free time axis, such "
            "as `keras.Input((None, 8))`, and no other free axis, to be served "
            f"step by step. Received: inputs of shapes {shapes}"
        )


class _Path(NamedTuple):
    """How a tensor depends on the sequence.

    Attributes:
        delay: Steps that it is behind; None if it does not depend on them.
        by_step: Whether it has a time axis; else it is what was made of all
            steps so far.
    """

    delay: int | None = None
    by_step: bool = False


class _Writer:
    """Writes the network, operation by operation, and follows the delays."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.layers: dict[str, StreamedLayer] = {}
        self.delay = 0
        # By id, with the tensor, so that no other tensor gets the same id.
        self._paths: dict[int, tuple[Any, _Path]] = {}
        # Models within the model.
        self._models = 0
        # By id and delay.
        self._delayed: dict[tuple[int, int], keras.KerasTensor] = {}

    def input(self, x: keras.KerasTensor) -> keras.KerasTensor:
        """A new input like one of the model's."""
        x = keras.Input(
            batch_shape=(None, *x.shape[1:]), dtype=x.dtype, name=x.name
        )
        self._remember(x, _Path(0, True) if has_time(x) else _Path())
        return x

    def call(self, operation: Any, *args: Any, **kwargs: Any) -> Any:
        """Calls an operation, or the streamed layer in place of it."""
        if getattr(operation, "outputs", None):
            return self._call_model(operation, *args, **kwargs)
        paths = [
            self._path(x)
            for x in keras.tree.flatten((args, kwargs))
            if isinstance(x, keras.KerasTensor)
        ]
        delays = [path.delay for path in paths if path.delay is not None]
        delay = max(delays, default=0)
        if not any(path.by_step for path in paths):
            outputs = operation(*args, **kwargs)
            return self._remember(outputs, _Path(delay if delays else None))
        if not all(path.by_step for path in paths if path.delay is not None):
            reason = "combines a sequence with a summary of it"
            raise _refusal(operation, reason)
        args, kwargs = self._align((args, kwargs), delay)
        if len(args) > 4 or {"lookahead", "lookahead_mask"} & kwargs.keys():
            if isinstance(unwrap(operation), ReceptiveFieldRNN):
                raise _refusal(operation, "is given a lookahead")
        streamed = self._stand_in(operation, delay)
        if streamed is None:
            _check_by_step(operation, args, kwargs)
            outputs = operation(*args, **kwargs)
            return self._remember(outputs, _Path(delay, True))
        outputs = streamed(*args, **kwargs)
        for x in keras.tree.flatten(outputs):
            self._remember(x, _Path(streamed.output_delay, has_time(x)))
        return outputs

    def _call_model(
        self, model: keras.Model, inputs: Any, mask: Any = None, **kwargs: Any
    ) -> Any:
        """Calls a functional model within the model, rewritten as well."""
        # Masks that Keras fills in belong to the inputs.
        if any(id(x) in self._paths for x in keras.tree.flatten(mask)):
            raise _refusal(model, "is given a mask as an argument")
        supports_masking = model.supports_masking
        model = functional.as_functional(model)
        own = keras.tree.map_structure(self._input_like, model.input, inputs)
        self._models += 1
        name = f"{model.name}_{self._models}"
        again = functional.run_again(model, self.call, own, name)
        again.supports_masking = supports_masking
        outputs = again(inputs)
        for x, inner in zip(
            keras.tree.flatten(outputs), keras.tree.flatten(again.output)
        ):
            self._remember(x, self._path(inner))
        return outputs

    def _input_like(
        self, x: keras.KerasTensor, given: keras.KerasTensor
    ) -> keras.KerasTensor:
        x = keras.Input(batch_shape=given.shape, dtype=x.dtype, name=x.name)
        return self._remember(x, self._path(given))

    def align_outputs(self, outputs: Any) -> Any:
        """Delays outputs until all are equally far behind."""
        delays = [self._path(x).delay or 0 for x in keras.tree.flatten(outputs)]
        self.delay = max(delays)
        return self._align(outputs, self.delay)

    def _align(self, structure: Any, delay: int) -> Any:
        """Puts delay lines where sequences are less than `delay` behind."""

        def align(x: Any) -> Any:
            if not isinstance(x, keras.KerasTensor):
                return x
            path = self._path(x)
            if not path.by_step or path.delay == delay:
                return x
            if (id(x), delay) not in self._delayed:
                behind = path.delay or 0
                line = DelayLine(
                    self.clock, behind, delay - behind, autocast=False
                )
                self._add("delay", line)
                self._delayed[id(x), delay] = delayed = line(x)
                self._remember(delayed, _Path(delay, True))
            return self._delayed[id(x), delay]

        return keras.tree.map_structure(align, structure)

    def _stand_in(self, operation: Any, delay: int) -> StreamedLayer | None:
        """The streamed form of a layer; None for one without a state."""
        _check_streams(operation)
        layer = unwrap(operation)
        streamed: StreamedLayer
        if isinstance(layer, ReceptiveFieldRNN):
            streamed = StreamedFieldRNN(self.clock, delay, operation)
        elif isinstance(layer, keras.layers.RNN):
            streamed = StreamedRNN(self.clock, delay, operation)
        elif isinstance(layer, ReceptiveFieldWindows):
            streamed = StreamedWindows(self.clock, delay, layer)
        elif isinstance(layer, FocusedHierarchicalEncoder):
            streamed = StreamedEncoder(self.clock, delay, layer)
        else:
            return None
        self._add(operation.name, streamed)
        return streamed

    def _add(self, stem: str, layer: StreamedLayer) -> None:
        stem = re.sub(r"\W", "_", stem, flags=re.ASCII)
        name, number = stem, 0
        while name in self.layers:
            number += 1
            name = f"{stem}_{number}"
        self.layers[name] = layer

    def _path(self, x: keras.KerasTensor) -> _Path:
        return self._paths[id(x)][1]

    def _remember(self, outputs: Any, path: _Path) -> Any:
        for x in keras.tree.flatten(outputs):
            self._paths[id(x)] = x, path
        return outputs


def _refusal(operation: Any, reason: str) -> ValueError:
    return ValueError(
        "Argument `model` must have layers that can be given one step after "
        "the other: recurrent ones that read forwards, those of this package, "
        f"and layers that treat each step alone. Received: {operation.name!r}, "
        f"a {type(operation).__name__}, which {reason}"
    )


def _check_streams(operation: Any) -> None:
    """Refuses layers that carry states in a way that is not known here."""
    layer = unwrap(operation)
    if isinstance(layer, keras.Layer) and any(map(_draws, sublayers(layer))):
        raise _refusal(operation, "draws at inference")
    if isinstance(layer, FocusedHierarchicalEncoder):
        if layer.returned.focused:
            raise _refusal(operation, "returns focused states")
    elif isinstance(layer, keras.layers.RNN):
        if type(layer).call not in _CALLS:
            raise _refusal(operation, "has a `call` of its own")
        if layer.go_backwards:
            raise _refusal(operation, "reads from the end")
        if layer.stateful:
            raise _refusal(operation, "is stateful")
    elif isinstance(layer, keras.Layer) and any(
        isinstance(part, _STATEFUL) for part in sublayers(layer)
    ):
        if not isinstance(layer, _STATEFUL):
            raise _refusal(operation, "holds a recurrent layer")


def _draws(layer: keras.Layer) -> bool:
    """Whether a layer has been told to sample at inference."""
    options = getattr(layer, "options", layer)
    return bool(getattr(options, "sample_at_inference", False))


def _check_by_step(operation: Any, args: Any, kwargs: Any) -> None:
    """Refuses operations whose answer to a step depends on other steps.

    It is tried, with the weights as they are, at random steps of several
    lengths.
    """
    long = _at_length(
        _LONG,
        (args, kwargs),
        lambda x, shape: keras.KerasTensor(shape, x.dtype),
    )
    if not _keeps_length(operation, *long):
        raise _refusal(operation, "does not return a step for each step")
    generator = np.random.default_rng(0)
    # Nothing that it does to variables and losses is kept.
    with keras.StatelessScope(collect_losses=True):
        for length in _TRIED:
            arguments = _at_length(
                length,
                (args, kwargs),
                lambda x, shape: _example(x, shape, generator),
            )
            whole = _numbers(operation, arguments)
            for t in range(length):
                alone = _numbers(operation, _steps(arguments, args, kwargs, t))
                for x, step in zip(whole, alone):
                    if not _is_same(x[:, t : t + 1], step):
                        raise _refusal(
                            operation, "does not treat each step alone"
                        )


def _at_length(length: int, arguments: Any, make: Callable) -> Any:
    """Arguments of which sequences have some length, made by shape."""

    def fill(x: Any) -> Any:
        if not isinstance(x, keras.KerasTensor):
            return x
        shape = [2 if axis is None else axis for axis in x.shape]
        if has_time(x):
            shape[1] = length
        return make(x, shape)

    return keras.tree.map_structure(fill, arguments)


def _steps(arguments: Any, args: Any, kwargs: Any, t: int) -> Any:
    """The arguments with one step of each sequence."""
    return keras.tree.map_structure(
        lambda x, symbol: (
            x[:, t : t + 1]
            if isinstance(symbol, keras.KerasTensor) and has_time(symbol)
            else x
        ),
        arguments,
        (args, kwargs),
    )


def _keeps_length(operation: Any, args: Any, kwargs: Any) -> bool:
    """Whether outputs have the length of the sequences, by their shapes."""
    specs = operation.compute_output_spec(*args, **kwargs)
    return all(
        len(x.shape) > 1 and x.shape[1] == _LONG
        for x in keras.tree.flatten(specs)
    )


def _numbers(operation: Any, arguments: Any) -> list[np.ndarray]:
    args, kwargs = arguments
    outputs = operation(*args, **kwargs)
    return [ops.convert_to_numpy(x) for x in keras.tree.flatten(outputs)]


def _is_same(x: np.ndarray, step: np.ndarray) -> bool:
    """Whether answers are equal, floats up to rounding at their scale."""
    if x.shape != step.shape:
        return False
    if x.dtype.kind not in "fV":
        return bool((x == step).all())
    x, step = x.astype("float64"), step.astype("float64")
    return bool(
        np.abs(x - step).max(initial=0) <= 1e-2 * np.abs(x).max(initial=0)
    )


def _example(
    x: keras.KerasTensor, shape: list[int], generator: np.random.Generator
) -> Tensor:
    """Random values like a tensor: small numbers, ids 0 and 1, words."""
    if x.dtype == "string":
        return tf.constant(generator.choice(["a", "b"], shape).astype(object))
    numbers = generator.normal(size=shape)
    is_float = "float" in x.dtype
    return ops.convert_to_tensor(numbers if is_float else numbers < 0, x.dtype)
