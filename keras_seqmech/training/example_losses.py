"""The share of each example of a batch in the compiled losses.

Keras gives the loss of a batch; a reward belongs to an example. The derivative
of the loss with respect to the values that Keras reduces says how much each of
them counts: this includes sample weights, masks, loss weights, reductions and
the number of replicas.
"""

import contextlib
import functools
import threading
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any
from typing import NamedTuple

import keras
import tensorflow as tf

from keras_seqmech.core.numerics import score_dtype
from keras_seqmech.typing import Tensor


class Shares(NamedTuple):
    r"""The parts of the examples in a loss of a batch of B.

    Attributes:
        losses: Tensor `(batch,)`, whose mean is the loss of the batch:
            $\ell_i = B \sum_j \frac{\partial L}{\partial u_{ij}} u_{ij}$ with
            $u_{ij}$ the values of example i, of all losses.
        weights: Tensor `(batch,)`: $\omega_i = B \sum_j
            \frac{\partial L}{\partial u_{ij}}$, which is 1 but for sample
            weights, masks and the like.
    """

    losses: Tensor
    weights: Tensor


class LossValues:
    """The values of losses, with their names, before Keras reduces them.

    Attributes:
        values: List of pairs of a name and a tensor `(batch, ...)`.
    """

    def __init__(self, tape: tf.GradientTape):
        self.values: list[tuple[str, Tensor]] = []
        self._tape = tape

    def add(self, name: str, values: Tensor) -> Tensor:
        """Keeps the values of a loss and returns them."""
        values = tf.convert_to_tensor(values)
        if not values.dtype.is_floating:
            values = tf.cast(values, keras.config.floatx())
        self._tape.watch(values)
        self.values.append((name, values))
        return values

    def shares(self, total: Tensor) -> Shares:
        """The parts of the examples in the loss made of the values."""
        self._check()
        values = [values for _, values in self.values]
        slopes = self._tape.gradient(
            total, values, unconnected_gradients="zero"
        )
        dtype = score_dtype(keras.backend.standardize_dtype(total.dtype))
        losses = weights = tf.zeros((), dtype)
        for value, slope in zip(values, slopes):
            value, slope = tf.cast(value, dtype), tf.cast(slope, dtype)
            axes = range(1, len(value.shape))
            losses += tf.reduce_sum(slope * value, axes)
            weights += tf.reduce_sum(slope, axes)
        batch_size = tf.cast(tf.shape(values[0])[0], dtype)
        return Shares(
            tf.stop_gradient(batch_size * losses),
            tf.stop_gradient(batch_size * weights),
        )

    def _check(self) -> None:
        shapes = [tuple(values.shape) for _, values in self.values]
        sizes = {shape[0] for shape in shapes if shape} - {None}
        if not all(shapes) or len(sizes) > 1:
            found = (
                f"{name} of shape {shape}"
                for (name, _), shape in zip(self.values, shapes)
            )
            raise ValueError(
                "Policy gradient needs losses that return a value for each "
                "example, of shape (batch, ...), and leave the mean to Keras. "
                "Received: " + ", ".join(found)
            )


class LossRecorder(threading.local):
    """Records the values of losses; each replica runs in its own thread.

    Example:

    >>> recorder = LossRecorder()
    >>> loss = recorder.recorded(keras.losses.MeanSquaredError())
    >>> with recorder.recording() as values:
    ...     total = loss(np.zeros((2, 1)), np.array([[1.0], [3.0]], "float32"))
    >>> values.shares(total).losses.numpy()
    array([1., 9.], dtype=float32)
    """

    _values: LossValues | None = None

    @contextlib.contextmanager
    def recording(self) -> Iterator[LossValues]:
        """Collects the values of the losses called within the context."""
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            self._values = LossValues(tape)
            try:
                yield self._values
            finally:
                self._values = None

    def recorded(self, loss: Any) -> Any:
        """The same losses, as for `compile`, each of which records its values.

        Refuses losses that are unknown or reduce their values by themselves.
        """
        recorded = [
            None if part is None else self._recorded(part, path)
            for path, part in keras.tree.flatten_with_path(loss)
        ]
        return keras.tree.pack_sequence_as(loss, recorded)

    def _recorded(self, loss: Any, path: tuple) -> Any:
        found = keras.losses.get(loss)
        name = getattr(found, "__name__", type(found).__name__)
        name = loss if isinstance(loss, str) else getattr(found, "name", name)
        place = "".join(f" of output {part!r}" for part in path)
        label = f"loss '{name}'{place}"

        def note(values: Tensor) -> Tensor:
            kept = self._values
            return values if kept is None else kept.add(label, values)

        if not isinstance(found, keras.losses.Loss):
            wrap = functools.wraps(found)
            return wrap(lambda y_true, y_pred: note(found(y_true, y_pred)))
        if type(found).__call__ is not keras.losses.Loss.__call__:
            raise ValueError(
                "Argument `loss` must hold losses that define `call`, a value "
                "for each example, and leave the mean to Keras. Received: "
                f"{label} with a `__call__` of its own"
            )
        return _RecordedLoss(found, note)


class _RecordedLoss(keras.losses.Loss):
    """A loss with the same values, name and reduction, which records values."""

    def __init__(
        self, loss: keras.losses.Loss, note: Callable[[Tensor], Tensor]
    ):
        super().__init__(loss.name, loss.reduction, loss.dtype)
        self.loss = loss
        self.note = note

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        return self.note(self.loss.call(y_true, y_pred))
