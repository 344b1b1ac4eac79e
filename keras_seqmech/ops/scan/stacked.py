"""A body run over the leading axis of its inputs, its values stacked.

The plain loop under `scan`, forward and backward.
"""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from keras_seqmech.ops.scan.protocol import ScanOptions
from keras_seqmech.ops.scan.protocol import States


def run_stacked(
    body: Callable[[Any, States], tuple[Any, States]],
    inputs: Any,
    states: States,
    specs: Any,
    options: ScanOptions,
    reverse: bool = False,
) -> tuple[Any, States]:
    """Runs `body(inputs_t, states) -> (values, states)` over all steps.

    Args:
        body: The function.
        inputs: Nest of tensors `(time, ...)`.
        states: The states of the first call.
        specs: Nest of the shapes and dtypes of the values.
        options: How many steps to run, and whether to write them out.
        reverse: Whether to begin with the last step.

    Returns:
        The values, `(time, ...)`, in the order of time, and the states after
        the last call.
    """
    first = keras.tree.flatten(inputs)[0]
    size = first.shape[0] if first.shape[0] is not None else tf.shape(first)[0]
    steps = size if options.steps is None else options.steps
    if options.unroll:
        return _run_unrolled(body, inputs, states, steps, reverse)

    def array(spec):
        return tf.TensorArray(spec.dtype, size, element_shape=spec.shape)

    arrays = [
        array(step_spec(x)).unstack(x) for x in keras.tree.flatten(inputs)
    ]
    buffers = [array(spec) for spec in keras.tree.flatten(specs)]

    def advance(i, states, buffers):
        t = steps - 1 - i if reverse else i
        current = keras.tree.pack_sequence_as(
            inputs, [array.read(t) for array in arrays]
        )
        values, states = body(current, states)
        keras.tree.assert_same_structure(values, specs)
        buffers = [
            buffer.write(t, value)
            for buffer, value in zip(buffers, keras.tree.flatten(values))
        ]
        return i + 1, states, buffers

    _, states, buffers = tf.while_loop(
        lambda i, *_: i < steps,
        advance,
        (tf.constant(0), states, buffers),
        maximum_iterations=size,
    )
    values = [buffer.stack() for buffer in buffers]
    return keras.tree.pack_sequence_as(specs, values), states


def _run_unrolled(body, inputs, states, steps, reverse):
    rows = []
    for t in reversed(range(steps)) if reverse else range(steps):
        current = keras.tree.map_structure(lambda x: x[t], inputs)  # noqa: B023
        values, states = body(current, states)
        rows.append(values)
    rows = rows[::-1] if reverse else rows
    return keras.tree.map_structure(lambda *x: tf.stack(x), *rows), states


def spec(tensor: tf.Tensor) -> tf.TensorSpec:
    """Shape and dtype of a tensor."""
    return tf.TensorSpec(tensor.shape, tensor.dtype)


def step_spec(tensor: tf.Tensor) -> tf.TensorSpec:
    """Shape and dtype of one step of a tensor `(time, ...)`."""
    return tf.TensorSpec(tensor.shape[1:], tensor.dtype)
