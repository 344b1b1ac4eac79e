"""Layers within layers, and functional models as graphs of operations."""

from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import keras

from keras_seqmech.typing import Tensor


def check_functional(network: keras.Layer, argument: str = "network") -> None:
    """Refuses networks without a graph of layers."""
    if not getattr(network, "outputs", None):
        raise ValueError(
            f"Argument `{argument}` must be a functional model, such as "
            "`keras.Model(inputs, outputs)`, or a built `keras.Sequential`; of "
            "a model that trains another, give its `network`. "
            f"Received: {argument}={network!r}"
        )


def as_functional(model: keras.Model) -> keras.Model:
    """A built `keras.Sequential` as a functional model; others as they are."""
    if not isinstance(model, keras.Sequential):
        return model
    return keras.Model(model.inputs[0], model.outputs[0], name=model.name)


def run_again(
    network: keras.Model,
    call: Callable[..., Tensor],
    inputs: Tensor | None = None,
) -> keras.Model:
    """Rebuilds a functional model with `call(operation, ...)` for each call.

    Args:
        network: A functional model, or a built `keras.Sequential`.
        call: Function `(operation, *args, **kwargs) -> outputs`, which calls
            the operation, such as a layer, or something in its place.
        inputs: Symbolic inputs in the structure of the network's; new ones of
            the same shapes if None.
    """
    graph = as_functional(network)
    return keras.models.clone_model(
        keras.Model(graph.input, graph.output, name=network.name),
        input_tensors=inputs,
        clone_function=lambda layer: layer,
        call_function=call,
    )


def call_again(
    network: keras.Model, call: Callable[..., Any], inputs: list[Tensor]
) -> Any:
    """Calls `call(operation, ...)` for each call of a functional model.

    Unlike `run_again` it makes no model, so that operations may be given other
    tensors, too.

    Args:
        network: A functional model, or a built `keras.Sequential`.
        call: Function `(operation, *args, **kwargs) -> outputs`.
        inputs: Symbolic tensors in place of the network's inputs, flat.

    Returns:
        What takes the place of the network's outputs, in their structure.
    """
    functional = as_functional(network)
    own = [
        keras.Input(batch_shape=x.shape, dtype=x.dtype)
        for x in functional.inputs
    ]
    given = dict(zip(own, inputs, strict=True))
    end = keras.layers.Identity()
    found: list[Any] = []

    def replace(x: Any) -> Any:
        return given.get(x, x) if isinstance(x, keras.KerasTensor) else x

    def call_given(operation: Any, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = keras.tree.map_structure(replace, (args, kwargs))
        if operation is not end:
            return call(operation, *args, **kwargs)
        found.extend(args)
        return keras.tree.map_structure(lambda x: own[0], args[0])

    ended = keras.Model(functional.inputs, end(functional.output))
    run_again(ended, call_given, own)
    return found[0]


def record_calls(
    network: keras.Model,
) -> tuple[keras.Model, list[tuple[keras.Operation, Any]]]:
    """Rebuilds a functional model, as `run_again` does.

    With it, in the order of the calls, each operation and its outputs.
    """
    calls: list[tuple[keras.Operation, Any]] = []

    def call(operation: keras.Operation, *args: Any, **kwargs: Any) -> Any:
        outputs = operation(*args, **kwargs)
        calls.append((operation, outputs))
        return outputs

    return run_again(network, call), calls


def layers_within(model: keras.Model) -> list[keras.Layer]:
    """The layers of a model, and of functional models in their place."""
    return [
        part
        for layer in model.layers
        for part in (
            layers_within(layer) if getattr(layer, "outputs", None) else [layer]
        )
    ]


def sublayers(layer: keras.Layer) -> Iterator[keras.Layer]:
    """A layer and all layers within it, each once, the layer itself first.

    Layers have no public list of their own; what their attributes hold,
    also in lists and dicts, is theirs.

    Example:

    >>> import keras
    >>> layer = keras.layers.RNN(keras.layers.LSTMCell(2))
    >>> [type(part).__name__ for part in sublayers(layer)]
    ['RNN', 'LSTMCell']
    """
    seen, left = set(), [layer]
    while left:
        value = left.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, keras.Layer):
            yield value
            left.extend(vars(value).values())
        elif isinstance(value, dict):
            left.extend(value.values())
        elif isinstance(value, (list, tuple, set)):
            left.extend(value)
