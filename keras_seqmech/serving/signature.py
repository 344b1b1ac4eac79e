"""Inputs and outputs of an exported model: shapes, names, examples."""

import keyword
import reprlib
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_seqmech.core import graph
from keras_seqmech.core.decisions.reports import numbered
from keras_seqmech.core.decisions.reports import recording
from keras_seqmech.core.decisions.statistics import without_statistics
from keras_seqmech.core.loop import without_xla

_WORDS = ("how far to look", "ahead", "naïve 字符", "a")


def leaf_names(structure: Any, defaults: Sequence[str]) -> list[str]:
    """A name for each leaf: its path of dict keys, or else its default."""
    paths = [path for path, _ in keras.tree.flatten_with_path(structure)]
    stems = [
        "_".join(str(key) for key in path if not isinstance(key, int))
        or default
        for path, default in zip(paths, defaults)
    ]
    return numbered(stems)


def input_specs(model: keras.Model) -> dict[str, tf.TensorSpec]:
    """Specs of what a functional model is called with, by name, in its order.

    The axis of the batch is None, and so are those that are None in
    `keras.Input`.
    """
    structure = graph.input_structure(model)
    leaves = keras.tree.flatten(structure)
    # A tensor of `keras.Input` has its layer's name only where that was given.
    given = {
        layer.name
        for layer in keras.Model(model.inputs, model.outputs).layers
        if isinstance(layer, keras.layers.InputLayer)
    }
    defaults = [x.name if x.name in given else "inputs" for x in leaves]
    names = leaf_names(structure, defaults)
    for name in names:
        plain = name.isascii() and name.isidentifier() and name != "self"
        if not plain or keyword.iskeyword(name):
            raise ValueError(
                "A served input needs a name of letters, digits and `_` that "
                "is not a keyword of Python. "
                f"Received: keras.Input(name={name!r})"
            )
    return {
        name: tf.TensorSpec((None, *leaf.shape[1:]), leaf.dtype, name)
        for name, leaf in zip(names, leaves)
    }


def _loses_numbers(tensor: tf.Tensor, cast: tf.Tensor) -> bool:
    """Returns whether a cast drops fractions, or overflows."""
    if tensor.dtype == cast.dtype:
        return False
    if cast.dtype.is_floating:
        overflows = np.isinf(cast.numpy()) & np.isfinite(tensor.numpy())
        return bool(np.any(overflows))
    if tensor.dtype.is_floating:
        return True
    if not (tensor.dtype.is_integer and cast.dtype.is_integer):
        return False
    numbers, info = tensor.numpy(), np.iinfo(cast.dtype.as_numpy_dtype)
    return bool(np.any((numbers < info.min) | (numbers > info.max)))


def example(
    model: keras.Model, specs: Mapping[str, tf.TensorSpec], example_inputs: Any
) -> dict[str, np.ndarray]:
    """Example inputs by name, checked against their specs; random if None."""
    if example_inputs is None:
        tensors = {name: _random(spec) for name, spec in specs.items()}
    else:
        name = "example_inputs"
        tensors = named_inputs(model, specs, example_inputs, name)
    arrays = {name: x.numpy() for name, x in tensors.items()}
    if not all(x.size for x in arrays.values()):
        shapes = {name: x.shape for name, x in arrays.items()}
        raise ValueError(
            "Argument `example_inputs` must hold an example or more, of a step "
            f"or more. Received: example_inputs of shapes {shapes}"
        )
    return arrays


def named_inputs(
    model: keras.Model,
    specs: Mapping[str, tf.TensorSpec],
    inputs: Any,
    argument: str,
) -> dict[str, tf.Tensor]:
    """Inputs by name, checked against their specs.

    The `inputs` are what the model is called with, or a dict of arrays by
    name; `argument` is what errors call them.
    """
    values = graph.flatten_inputs(model, inputs, argument, [*specs])
    return {
        name: tensor_like(value, spec, argument)
        for value, (name, spec) in zip(values, specs.items())
    }


def tensor_like(value: Any, spec: tf.TensorSpec, argument: str) -> tf.Tensor:
    """A value as a tensor; refuses one that its spec does not allow."""
    refusal = ValueError(
        f"Argument `{argument}` must hold arrays of {spec.dtype.name}, of "
        "numbers that it can hold. "
        f"Received: {argument}={reprlib.repr(value)}"
    )
    try:
        # TensorFlow makes float32 of Python's floats.
        value = value if tf.is_tensor(value) else np.asarray(value)
        given = tf.convert_to_tensor(value)
        tensor = tf.cast(given, spec.dtype)
        loses_numbers = _loses_numbers(given, tensor)
    except (TypeError, ValueError, tf.errors.OpError) as error:
        raise refusal from error
    if loses_numbers:
        raise refusal
    if not spec.shape.is_compatible_with(tensor.shape):
        raise ValueError(
            f"Argument `{argument}` must hold `{spec.name}` with a shape "
            f"like {tuple(spec.shape)}. "
            f"Received: {spec.name}.shape={tuple(tensor.shape)}"
        )
    return tensor


def _random(spec: tf.TensorSpec) -> tf.Tensor:
    """A batch of 2, other unknown axes of 5: strings, 0 and 1, or in [0, 1)."""
    shape = spec.shape.as_list()
    shape = [n or (5 if axis else 2) for axis, n in enumerate(shape)]
    if spec.dtype == tf.string:
        return tf.constant(np.resize(np.array(_WORDS, object), shape))
    numbers = np.random.default_rng(0).random(shape)
    values = numbers if spec.dtype.is_floating else numbers < 0.5
    return tf.cast(values, spec.dtype)


def serving_function(
    model: keras.Model,
    specs: Mapping[str, tf.TensorSpec],
    decisions: bool = False,
) -> Callable[[Mapping[str, tf.Tensor]], dict[str, tf.Tensor]]:
    """The served function: from a dict of inputs to a dict of outputs.

    It runs the model in inference mode; `named_outputs` names the outputs, and
    the `decisions` of layers if wanted. A server accepts inputs of any shape.
    The function refuses those that do not fit, which broadcasting might
    otherwise accept.
    """

    def serve(inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        leaves = [
            tf.ensure_shape(inputs[name], spec.shape)
            for name, spec in specs.items()
        ]
        structure = graph.input_structure(model)
        packed = keras.tree.pack_sequence_as(structure, leaves)
        with without_statistics(), without_xla():
            if not decisions:
                return named_outputs(model, model(packed, training=False))
            with recording() as recorded:
                outputs = model(packed, training=False)
        return named_outputs(model, outputs, recorded.by_layer())

    return serve


def named_outputs(
    model: keras.Model,
    outputs: Any,
    decisions: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """The outputs of a model by the names they are served under.

    After them the decisions by layer, if there are any.
    """
    leaves = keras.tree.flatten(outputs)
    if isinstance(model, keras.Sequential):
        defaults = [model.layers[-1].name] * len(leaves)
    else:
        defaults = model.output_names
    shown = decisions or {}
    defaults = [*defaults, *[""] * len(keras.tree.flatten(shown))]
    names = leaf_names([outputs, shown], defaults)
    return dict(zip(names, [*leaves, *keras.tree.flatten(shown)]))
