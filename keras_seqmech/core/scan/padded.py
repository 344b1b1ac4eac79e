"""The loop over padded steps: every row takes part in every step.

The leading axis of all tensors is time. XLA compiles this loop; `packed` has
the one for rows of different lengths.
"""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from keras_seqmech.core.scan.protocol import Body
from keras_seqmech.core.scan.protocol import ScanOptions
from keras_seqmech.core.scan.protocol import States
from keras_seqmech.typing import Tensor


class PaddedLoop:
    """Runs a body over the leading axis of its inputs, and stacks its values.

    Args:
        options: How many steps to run, and whether to unroll the loop.
        differentiable: Whether TensorFlow will differentiate the loop. If not,
            steps are read as slices, which copies nothing; the gradient of
            slices in a loop takes time and memory square in the steps. A loop
            that may end early reads arrays too: compiled with XLA, slices can
            make it several times slower.
    """

    def __init__(self, options: ScanOptions, differentiable: bool):
        self._options = options
        self._differentiable = differentiable

    def run(
        self,
        body: Body,
        inputs: Any,
        states: States,
        specs: Any,
        reverse: bool = False,
    ) -> tuple[Any, States]:
        """Runs `body(inputs_t, states) -> (values, states)` over all steps.

        Args:
            body: The function.
            inputs: Nest of tensors `(time, ...)`.
            states: The states of the first call.
            specs: Nest of the shapes and dtypes of the values of a step.
            reverse: Whether to begin with the last step.

        Returns:
            The values, `(time, ...)`, in the order of time, and the states
            after the last call.
        """
        first = keras.tree.flatten(inputs)[0]
        size = first.shape[0]
        if size is None:
            size = tf.shape(first)[0]
        steps = self._options.steps
        steps = size if steps is None else steps
        if self._options.unroll:
            return _run_unrolled(body, inputs, states, steps, reverse)

        read = self._reader(inputs, size)
        buffers = [
            tf.TensorArray(spec.dtype, size, element_shape=spec.shape)
            for spec in keras.tree.flatten(specs)
        ]

        def advance(i: Tensor, states: States, buffers: list) -> tuple:
            t = steps - 1 - i if reverse else i
            values, states = body(read(t), states)
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

    def _reader(self, inputs: Any, size: int | Tensor) -> Callable[[Any], Any]:
        """A function of a step that returns its part of the inputs."""
        if not self._differentiable and self._options.steps is None:
            return lambda t: _at(inputs, t)
        arrays = [
            tf.TensorArray(x.dtype, size, element_shape=x.shape[1:]).unstack(x)
            for x in keras.tree.flatten(inputs)
        ]
        return lambda t: keras.tree.pack_sequence_as(
            inputs, [array.read(t) for array in arrays]
        )

    def spec(self, tensor: Tensor) -> tf.TensorSpec:
        """Shape and dtype of one step of a tensor `(time, ...)`."""
        return tf.TensorSpec(tensor.shape[1:], tensor.dtype)


def _run_unrolled(
    body: Body, inputs: Any, states: States, steps: int, reverse: bool
) -> tuple[Any, States]:
    rows: list = []
    for t in reversed(range(steps)) if reverse else range(steps):
        values, states = body(_at(inputs, t), states)
        rows.append(values)
    rows = rows[::-1] if reverse else rows
    return keras.tree.map_structure(lambda *x: tf.stack(x), *rows), states


def _at(inputs: Any, t: int | Tensor) -> Any:
    """One step of a nest of tensors `(time, ...)`."""
    # As `x[t]`, with the index computed once for all tensors.
    begin = tf.reshape(t, [1])
    end = begin + 1
    return keras.tree.map_structure(
        lambda x: tf.strided_slice(x, begin, end, [1], shrink_axis_mask=1),
        inputs,
    )
