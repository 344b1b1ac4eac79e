"""What each example adds to a compiled loss, as Keras itself reduces it.

The losses given to `compile` are made to note their values before these are
reduced. Sample weights, masks, loss weights, reductions and the number of
replicas then all stand in one place, the derivative of the total with respect
to those values.
"""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

from keras_seqmech.ops.precision import score_dtype


class LossRecord:
    """The values of compiled losses, noted by `record`.

    Attributes:
        tape: The tape that watches them.
        values: A list of `(name of the loss, tensor of its values)`.
    """

    def __init__(self, tape: tf.GradientTape):
        self.tape = tape
        self.values = []

    def per_example(self, total: Any) -> tuple[Any, Any]:
        r"""Shares of each example in the total, and their weights.

        $$\ell_i = B \sum_j \frac{\partial L}{\partial u_{ij}} u_{ij}, \qquad
          \omega_i = B \sum_j \frac{\partial L}{\partial u_{ij}}$$

        with $L$ the total and $u_{ij}$ the values of example i, over all
        losses; their mean over the batch of B is the compiled loss.

        Args:
            total: Scalar, the loss; terms without recorded values are left
                out.

        Returns:
            Two tensors `(batch,)`, float32 or wider, without gradient.

        Raises:
            ValueError: If nothing was recorded, or a loss is not per example.
        """
        if not self.values:
            raise ValueError(
                "Policy gradient needs a `loss` in `compile`: it is the "
                "reward. Terms from `add_loss` are none. Received: loss=None"
            )
        self._check()
        dtype = score_dtype(keras.backend.standardize_dtype(total.dtype))
        values = [value for _, value in self.values]
        gradients = self.tape.gradient(
            total, values, unconnected_gradients="zero"
        )
        losses = weights = 0
        for value, gradient in zip(values, gradients):
            value, gradient = tf.cast(value, dtype), tf.cast(gradient, dtype)
            axes = range(1, len(value.shape))
            losses += tf.reduce_sum(gradient * value, axes)
            weights += tf.reduce_sum(gradient, axes)
        batch_size = tf.cast(tf.shape(values[0])[0], dtype)
        return (
            tf.stop_gradient(batch_size * losses),
            tf.stop_gradient(batch_size * weights),
        )

    def _check(self):
        """Refuses losses that have no values for each example."""
        sizes = {}
        for name, value in self.values:
            if not value.shape.rank:
                raise ValueError(
                    "Policy gradient needs losses that return a value for "
                    "each example, of shape (batch, ...), and leave the mean "
                    f"to Keras. Received: {name}, which returns shape "
                    f"{value.shape}"
                )
            sizes.setdefault(value.shape[0], name)
        sizes.pop(None, None)
        if len(sizes) > 1:
            raise ValueError(
                "Policy gradient needs losses that return a value for each "
                "example, of shape (batch, ...), with the same batch size. "
                "Received: "
                + ", ".join(f"{n} with {size}" for size, n in sizes.items())
            )


class _Active(threading.local):
    record = None


_active = _Active()


@contextlib.contextmanager
def record() -> Iterator[LossRecord]:
    """Notes the values of `recordable` losses computed within the context."""
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        before, _active.record = _active.record, LossRecord(tape)
        try:
            yield _active.record
        finally:
            _active.record = before


def recordable(loss: Any) -> Any:
    """Losses as `compile` takes them, made to note their values.

    Names, reductions and values are those of the losses given, which are left
    as they are.

    Args:
        loss: A loss or a structure of them: name, function, `keras.losses.Loss`
            or None.

    Returns:
        The same structure of losses.

    Raises:
        ValueError: If a name is `"crossentropy"`, or unknown; if a loss has a
            `__call__` of its own, which takes over the reduction.
    """
    wrapped = [
        _recordable(part, path)
        for path, part in keras.tree.flatten_with_path(loss)
    ]
    return keras.tree.pack_sequence_as(loss, wrapped)


def _recordable(loss, path):
    if loss is None:
        return None
    if str(loss).lower() in ("crossentropy", "ce"):
        raise ValueError(
            "Argument `loss` must name a loss in full, such as "
            "'binary_crossentropy', 'categorical_crossentropy' or "
            f"'sparse_categorical_crossentropy'. Received: loss={loss!r}"
        )
    found = keras.losses.get(loss)
    place = "".join(f" of output {part!r}" for part in path)
    if not isinstance(found, keras.losses.Loss):
        return _RecordedFunction(
            found, loss if isinstance(loss, str) else None, place
        )
    # Not by `copy`, for which Keras saves and loads.
    if type(found).__call__ is not keras.losses.Loss.__call__:
        raise ValueError(
            "Argument `loss` must hold losses that define `call`, a value for "
            "each example, and leave the mean to Keras. Received: loss "
            f"'{found.name}'{place} with a `__call__` of its own"
        )
    recorded = object.__new__(type(found))
    vars(recorded).update(vars(found))
    name = f"loss '{found.name}'{place}"
    recorded.call = lambda y_true, y_pred: _note(
        name, found.call(y_true, y_pred)
    )
    return recorded


class _RecordedFunction:
    """A loss function that notes its values.

    Not a function: Keras names it as it would name the one within.
    """

    def __init__(self, function, name, place):
        self.function = function
        self.place = place
        name = name or getattr(function, "name", None)
        if name is not None:
            self.name = name
        self.__name__ = getattr(function, "__name__", type(function).__name__)

    def __call__(self, y_true, y_pred):
        name = f"loss '{getattr(self, 'name', self.__name__)}'{self.place}"
        return _note(name, self.function(y_true, y_pred))


def _note(name, values):
    if _active.record is None:
        return values
    values = tf.convert_to_tensor(values)
    if not values.dtype.is_floating:
        values = tf.cast(values, keras.config.floatx())
    _active.record.tape.watch(values)
    _active.record.values.append((name, values))
    return values
