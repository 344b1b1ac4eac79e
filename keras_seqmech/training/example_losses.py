"""What each example of a batch adds to the compiled losses.

Keras gives the loss of a batch; a reward belongs to an example. Keras reduces
the same losses here a second time, and the derivative of the result with
respect to the values before the reduction says how much each of them counts:
this includes sample weights, masks, loss weights, reductions and the number of
replicas.
"""

import contextlib
import threading
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any
from typing import NamedTuple

import keras
import tensorflow as tf

from keras_seqmech.core.numerics import score_dtype
from keras_seqmech.typing import Tensor

# Names by which Keras chooses a loss from the shapes of targets and outputs.
CROSSENTROPY = ("crossentropy", "ce")


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


class ExampleLosses:
    """Compiled losses, example by example.

    Args:
        loss: As for `compile`: a loss or a structure of them.
        loss_weights: As for `compile`.
        output_names: Names of the model's outputs, if it has any.

    Call arguments:
        y: Targets.
        y_pred: The outputs of the model.
        sample_weight: Weights as for `compute_loss`, or None.

    Raises:
        ValueError: If a loss is unknown or reduces its values by itself; when
            called, if a loss does not return a value for each example.

    Example:

    >>> losses = ExampleLosses("mse")
    >>> shares = losses(np.zeros((2, 1)), tf.constant([[1.0], [3.0]]))
    >>> shares.losses.numpy()
    array([1., 9.], dtype=float32)
    """

    def __init__(
        self,
        loss: Any,
        loss_weights: Any = None,
        output_names: list[str] | None = None,
    ):
        self.built = False
        self._recorder = _Recorder()
        # Never called: it reduces losses as the trained model does.
        self._reducer = keras.Model(name="example_losses")
        if output_names:
            self._reducer.output_names = output_names
        self._reducer.compile(
            optimizer=None,
            loss=_recorded_losses(loss, self._recorder.note),
            loss_weights=loss_weights,
        )

    def build(
        self, y: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None
    ) -> None:
        """Makes the variables of losses, which replicas cannot make.

        It does so as Keras does: by a symbolic call before the first step.
        """
        if not self.built:
            self._reducer.compute_loss(
                y=y, y_pred=y_pred, sample_weight=sample_weight
            )
            self.built = True

    def __call__(
        self, y: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None
    ) -> Shares:
        with self._recorder.recording() as record:
            total = self._reducer.compute_loss(
                y=y, y_pred=y_pred, sample_weight=sample_weight
            )
        self.built = True
        values = [values for _, values in record.values]
        _check_values(record.values)
        slopes = record.tape.gradient(
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


class _Record(NamedTuple):
    """The values of losses, with their names, and the tape that watches."""

    tape: tf.GradientTape
    values: list[tuple[str, Tensor]]


class _Recorder(threading.local):
    """Collects the values of losses; each replica runs in its own thread."""

    record: _Record | None = None

    @contextlib.contextmanager
    def recording(self) -> Iterator[_Record]:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            self.record = _Record(tape, [])
            try:
                yield self.record
            finally:
                self.record = None

    def note(self, name: str, values: Tensor) -> Tensor:
        """Records the values and returns them."""
        if self.record is None:
            return values
        values = tf.convert_to_tensor(values)
        if not values.dtype.is_floating:
            values = tf.cast(values, keras.config.floatx())
        self.record.tape.watch(values)
        self.record.values.append((name, values))
        return values


Note = Callable[[str, Tensor], Tensor]


class _RecordedLoss(keras.losses.Loss):
    """A loss with the same values, name and reduction, which records values."""

    def __init__(self, loss: keras.losses.Loss, label: str, note: Note):
        super().__init__(loss.name, loss.reduction, loss.dtype)
        self.loss = loss
        self.label = label
        self.note = note

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        values = self.loss.call(y_true, y_pred)
        return self.note(self.label, values)


class _RecordedFunction:
    """A loss function that records its values."""

    def __init__(self, function: Callable, label: str, note: Note):
        self.function = function
        self.label = label
        self.note = note

    def __call__(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        values = self.function(y_true, y_pred)
        return self.note(self.label, values)


class _Crossentropy(keras.losses.Loss):
    """The cross-entropy that Keras takes by the name "crossentropy"."""

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        classes = y_pred.shape[-1]
        is_sparse = len(y_true.shape) < len(y_pred.shape)
        if classes == 1:
            loss = keras.losses.BinaryCrossentropy(dtype=self.dtype)
        elif is_sparse or y_true.shape[-1] == 1:
            loss = keras.losses.SparseCategoricalCrossentropy(dtype=self.dtype)
        else:
            loss = keras.losses.CategoricalCrossentropy(dtype=self.dtype)
        return loss.call(y_true, y_pred)


def _recorded_losses(loss: Any, note: Note) -> Any:
    """The same structure of losses, each of which records its values."""
    recorded = [
        None if part is None else _recorded(part, path, note)
        for path, part in keras.tree.flatten_with_path(loss)
    ]
    return keras.tree.pack_sequence_as(loss, recorded)


def _recorded(loss: Any, path: tuple, note: Note) -> Any:
    if str(loss).lower() in CROSSENTROPY:
        found = _Crossentropy(loss)
    else:
        found = keras.losses.get(loss)
    name = loss if isinstance(loss, str) else _name_of(found)
    place = "".join(f" of output {part!r}" for part in path)
    label = f"loss '{name}'{place}"
    if not isinstance(found, keras.losses.Loss):
        return _RecordedFunction(found, label, note)
    if type(found).__call__ is not keras.losses.Loss.__call__:
        raise ValueError(
            "Argument `loss` must hold losses that define `call`, a value for "
            "each example, and leave the mean to Keras. Received: "
            f"{label} with a `__call__` of its own"
        )
    return _RecordedLoss(found, label, note)


def _name_of(loss: Callable) -> str:
    name = getattr(loss, "__name__", type(loss).__name__)
    return getattr(loss, "name", name)


def _check_values(values: list[tuple[str, Tensor]]) -> None:
    """Refuses losses that have no values for each example."""
    sizes: dict[int | None, str] = {}
    for name, value in values:
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
