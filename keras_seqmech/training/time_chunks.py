"""A step over long sequences, one chunk of time after the other."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from keras_seqmech.typing import Tensor


def over_chunks(
    step: Callable[[tuple, Any, Tensor], tuple[list[Tensor], Any]],
    data: tuple,
    chunk_length: int,
) -> list[Tensor]:
    """Runs a step over chunks of time, the states passed on.

    The first chunk and a shorter last one are runs of their own; those
    between are a loop, so that graphs do not grow with the sequence. No
    gradient goes through it.

    Args:
        step: Function `(chunk, states, share) -> (outputs, states)`. `chunk`
            is a part of `data`; `states` are None for the first chunk, then
            what the step before returned; `share` is the chunk's share of the
            whole length; `outputs` are a list of tensors `(batch, time, ...)`.
        data: Tuple of nests of tensors `(batch, time, ...)`. Nones, and
            tensors `(batch,)`, go with every chunk.
        chunk_length: Steps of a chunk; the last may have fewer.

    Returns:
        The outputs, joined in time.

    Raises:
        ValueError: If the numbers of steps differ.

    Example:

    >>> def add_up(chunk, total, share):
    ...     total = (0 if total is None else total) + tf.reduce_sum(chunk[0])
    ...     return [chunk[0] + total], total
    >>> [y] = over_chunks(add_up, (tf.constant([[1, 2, 3, 4, 5]]),), 2)
    >>> y.numpy()
    array([[ 4,  5, 13, 14, 20]], dtype=int32)
    """
    length = _length(data)
    whole = length // chunk_length
    rest = length - whole * chunk_length

    def run(chunk: tuple, states: Any) -> tuple:
        steps = keras.ops.shape(keras.tree.flatten(chunk)[0])[1]
        share = tf.cast(steps, "float32") / tf.cast(length, "float32")
        return step(chunk, states, share)

    def run_whole(outputs: list[Tensor], states: Any) -> tuple:
        """The second chunk to the last whole one."""
        chunks = _in_time(
            lambda x: _split(x[:, : whole * chunk_length], chunk_length), data
        )

        def body(i: Tensor, states: Any, arrays: list[tf.TensorArray]) -> tuple:
            chunk = _in_time(lambda x: tf.gather(x, i, axis=1), chunks)
            more, states = run(chunk, states)
            arrays = [a.write(i - 1, y) for a, y in zip(arrays, more)]
            return i + 1, states, arrays

        arrays = [tf.TensorArray(y.dtype, whole - 1) for y in outputs]
        _, states, arrays = tf.while_loop(
            lambda i, *_: i < whole, body, (1, states, arrays)
        )
        more = [_merge(array.stack()) for array in arrays]
        return _join(outputs, more), states

    def run_rest(outputs: list[Tensor], states: Any) -> tuple:
        chunk = _in_time(lambda x: x[:, whole * chunk_length :], data)
        more, states = run(chunk, states)
        return _join(outputs, more), states

    results = run(_in_time(lambda x: x[:, :chunk_length], data), None)
    results = _run_if(whole > 1, run_whole, results)
    outputs, _ = _run_if((whole > 0) & (rest > 0), run_rest, results)
    return outputs


def _length(data: tuple) -> Tensor | int:
    shapes = [tuple(x.shape) for x in keras.tree.flatten(data) if x is not None]
    if len({shape[1] for shape in shapes if len(shape) > 1} - {None}) > 1:
        raise ValueError(
            "Inputs, targets and sample weights must have the shape (batch, "
            "time, ...), with the same number of steps. "
            f"Received: shapes={shapes}"
        )
    return keras.ops.shape(keras.tree.flatten(data)[0])[1]


def _run_if(
    condition: Tensor | bool, function: Callable, results: tuple
) -> tuple:
    """`function(*results)`, or the results as they are."""
    if isinstance(condition, bool):
        return function(*results) if condition else results
    return tf.cond(condition, lambda: function(*results), lambda: results)


def _in_time(function: Callable[[Tensor], Tensor], data: Any) -> Any:
    """Applies a function to all that has a time axis."""
    return keras.tree.map_structure(
        lambda x: x if x is None or len(x.shape) < 2 else function(x), data
    )


def _split(x: Tensor, chunk_length: int) -> Tensor:
    """`(batch, chunks * time, ...)` to `(batch, chunks, time, ...)`."""
    batch_size, _, *shape = keras.ops.shape(x)
    return tf.reshape(x, (batch_size, -1, chunk_length, *shape))


def _merge(x: Tensor) -> Tensor:
    """`(chunks, batch, time, ...)` to `(batch, chunks * time, ...)`."""
    count, batch_size, length, *shape = keras.ops.shape(x)
    x = keras.ops.moveaxis(x, 0, 1)
    return tf.reshape(x, (batch_size, count * length, *shape))


def _join(first: list[Tensor], second: list[Tensor]) -> list[Tensor]:
    return [tf.concat(pair, axis=1) for pair in zip(first, second)]
