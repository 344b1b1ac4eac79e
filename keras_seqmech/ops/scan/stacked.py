"""A body run over the leading axis of its inputs, what it returns stacked.

The plain loop under `keras_seqmech.ops.scan.loop`, forward and backward.
"""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf


def run(
    body: Callable,
    inputs: Any,
    states: tuple,
    specs: Any,
    steps: Any = None,
    unroll: bool = False,
    reverse: bool = False,
) -> tuple[Any, tuple]:
    """Runs `body(inputs_t, states) -> (values, states)` over all steps.

    Args:
        body: The function.
        inputs: Nest of tensors `(time, ...)`.
        states: What the first call gets.
        specs: Nest of the shapes and dtypes of the values.
        steps: How many steps to run, all if None; values of the others are
            zeros.
        unroll: Whether to write the steps out; needs their static number.
        reverse: Whether to begin with the last step.

    Returns:
        The values, `(time, ...)`, in the order of time, and the states after
        the last call.
    """
    first = keras.tree.flatten(inputs)[0]
    size = first.shape[0] if first.shape[0] is not None else tf.shape(first)[0]
    steps = size if steps is None else steps
    if unroll:
        order = reversed(range(steps)) if reverse else range(steps)
        rows = []
        for t in order:
            flat = [x[t] for x in keras.tree.flatten(inputs)]
            current = keras.tree.pack_sequence_as(inputs, flat)
            values, states = body(current, states)
            rows.append(values)
        rows = rows[::-1] if reverse else rows
        stacked = keras.tree.map_structure(lambda *x: tf.stack(x), *rows)
        return stacked, states

    def array(part):
        return tf.TensorArray(part.dtype, size, element_shape=part.shape)

    arrays = [
        array(step_spec(x)).unstack(x) for x in keras.tree.flatten(inputs)
    ]
    buffers = [array(part) for part in keras.tree.flatten(specs)]

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
    stacked = [buffer.stack() for buffer in buffers]
    return keras.tree.pack_sequence_as(specs, stacked), states


def spec(tensor: tf.Tensor) -> tf.TensorSpec:
    """Shape and dtype of a tensor."""
    return tf.TensorSpec(tensor.shape, tensor.dtype)


def step_spec(tensor: tf.Tensor) -> tf.TensorSpec:
    """Shape and dtype of one step of a tensor `(time, ...)`."""
    return tf.TensorSpec(tensor.shape[1:], tensor.dtype)
