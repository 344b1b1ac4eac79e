"""Layers within layers, and functional models as graphs of operations."""

import reprlib
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
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


def input_structure(model: keras.Model) -> Any:
    """The symbolic inputs of a functional model, nested as it takes them."""
    is_sequential = isinstance(model, keras.Sequential)
    return model.inputs[0] if is_sequential else model.input


def input_names(model: keras.Model) -> list[str]:
    """Names of a functional model's inputs; none without a graph of layers."""
    if not getattr(model, "inputs", None):
        return []
    structure = input_structure(model)
    if isinstance(structure, dict):
        return list(structure)
    return [tensor.name for tensor in model.inputs]


def arrange_inputs(model: keras.Model, inputs: Any) -> Any:
    """Inputs in the structure of `model.input`, if it has a graph of layers.

    Keras takes a dict with one key more in the order of the sorted keys.
    """
    if not getattr(model, "inputs", None):
        return inputs
    values = flatten_inputs(model, inputs)
    return keras.tree.pack_sequence_as(input_structure(model), values)


def flatten_inputs(
    model: keras.Model,
    inputs: Any,
    argument: str = "inputs",
    names: Sequence[str] | None = None,
) -> list:
    """Inputs in the order of `model.inputs`, matched by name or nesting.

    Args:
        model: A functional model, or a built `keras.Sequential`.
        inputs: Arrays nested as the model's inputs, or a dict by input name.
        argument: Name of the inputs in errors.
        names: Names of the inputs; those of `keras.Input` if None.

    Raises:
        ValueError: If an input is missing, or the structure does not fit.
    """
    tensors, given = input_structure(model), inputs
    by_name = isinstance(tensors, dict)
    if by_name or not names:
        names = input_names(model)
    if not by_name and len(names) == 1:
        tensors = [model.inputs[0]]
        is_list = isinstance(inputs, (list, tuple))
        if not is_list or not any(hasattr(x, "shape") for x in inputs):
            given = [inputs]
    values: list[Any] = []
    try:
        if isinstance(inputs, dict):
            given = {name: inputs[name] for name in names}
            if not isinstance(tensors, dict):
                given = keras.tree.pack_sequence_as(tensors, [*given.values()])
        keras.tree.map_structure_up_to(
            keras.tree.lists_to_tuples(tensors),
            values.append,
            keras.tree.lists_to_tuples(given),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"Argument `{argument}` must be what the model is called with, "
            f"or a dict with the keys {list(names)}. "
            f"Received: {argument}={reprlib.repr(inputs)}"
        ) from error
    return values


def as_functional(model: keras.Model) -> keras.Model:
    """A built `keras.Sequential` as a functional model; others as they are."""
    if not isinstance(model, keras.Sequential):
        return model
    return keras.Model(model.inputs[0], model.outputs[0], name=model.name)


def call_again(
    network: keras.Model, call: Callable[..., Any], inputs: list[Tensor]
) -> Any:
    """Calls `call(operation, ...)` for each call of a functional model.

    Args:
        network: A functional model, or a built `keras.Sequential`.
        call: Function `(operation, *args, **kwargs) -> outputs`, which calls
            the operation, such as a layer, or something in its place. It may
            give it other tensors, too.
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
    # Keras 3.10 refuses models with inputs that nothing reads.
    read = [keras.layers.Identity()(x) for x in own]
    end = keras.layers.Identity()
    found: list[Any] = []

    def replace(x: Any) -> Any:
        return given.get(x, x) if isinstance(x, keras.KerasTensor) else x

    def call_given(operation: Any, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = keras.tree.map_structure(replace, (args, kwargs))
        if operation is not end:
            return call(operation, *args, **kwargs)
        found.extend(args)
        return keras.tree.map_structure(lambda x: read[0], args[0])

    keras.models.clone_model(
        keras.Model(functional.inputs, end(functional.output)),
        input_tensors=own,
        clone_function=lambda layer: layer,
        call_function=call_given,
    )
    return found[0]


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
