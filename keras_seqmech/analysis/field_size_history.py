"""Field sizes over training.

Source: "An Informative Adaptive Receptive Field Model for Recurrent Neural
Networks", section "Influence of I(X; H) and I(Y; H) Bias".
"""

from typing import Any

import keras
import numpy as np

from keras_seqmech.analysis.field_sizes import expected_field_size
from keras_seqmech.analysis.restored_state import state_restored
from keras_seqmech.analysis.step_history import StepHistory
from keras_seqmech.analysis.token_arrays import check_labels
from keras_seqmech.analysis.token_arrays import check_mask
from keras_seqmech.layers import validation


class FieldSizeHistory(StepHistory):
    r"""Records the mean field size $E(s_t)$ during training.

    Before the first step and every `every` steps, it runs fixed inputs in
    inference mode, without dropout and noise. (The metrics of
    `track_statistics=True` are running means over an epoch, of sampled fields
    under dropout.) Metrics, states and seeds of the model do not change. With
    `steps_per_execution` it measures after the execution in which a step was
    due.

    `history` holds the equally long lists `"step"` (`optimizer.iterations`),
    `"mean_size"` (mean of `expected_field_size` over real steps) and, with
    labels, `"accuracy"`. `plot_field_size_by_step` draws them.

    Args:
        fields: A model that shares the trained layers and returns the dict
            of `ReceptiveFieldRNN(return_field=True)`, nothing else.
        inputs: Inputs of `fields` and of the trained model; run as one batch.
        mask: Boolean array `(batch, time)`, True where a step is real.
        labels: Ints `(batch,)`. If given, the trained model must return class
            probabilities or logits `(batch, classes)`, of two classes or more.
        every: Positive int, steps between measurements.

    Raises:
        ValueError: If an argument does not fit; when training begins, if the
            outputs of the models do not.

    Example:

    >>> import keras, numpy as np
    >>> inputs = keras.Input((5, 3))
    >>> from keras_seqmech import ReceptiveFieldRNN
    >>> cell = keras.layers.SimpleRNNCell(4)
    >>> layer = ReceptiveFieldRNN(cell, max_size=2, return_field=True)
    >>> outputs, field = layer(inputs)
    >>> model = keras.Model(inputs, keras.layers.Dense(1)(outputs))
    >>> x, y = np.ones((8, 5, 3)), np.ones((8, 1))
    >>> record = FieldSizeHistory(keras.Model(inputs, field), x, every=2)
    >>> model.compile("sgd", "mse")
    >>> fit = model.fit(x, y, batch_size=2, verbose=0, callbacks=[record])
    >>> record.history["step"]
    [0, 2, 4]

    Source: figure 2 of the paper.
    """

    def __init__(
        self,
        fields: keras.Model,
        inputs: Any,
        mask: Any = None,
        labels: Any = None,
        every: int = 50,
    ):
        names = ("mean_size",) if labels is None else ("mean_size", "accuracy")
        super().__init__(names, validation.check_positive_int("every", every))
        if labels is not None:
            labels = check_labels(labels, _batch_size(inputs), None)
        _check_fields(fields)
        self.fields = fields
        self.inputs = inputs
        self.mask = mask
        self.labels = labels

    def measure(self) -> dict[str, float]:
        """The mean size and, with labels, the accuracy, now."""
        with state_restored(self.fields, self.model):
            field = self.fields.predict_on_batch(self.inputs)
            outputs: Any = None
            if self.labels is not None:
                outputs = self.model.predict_on_batch(self.inputs)
        _check_field(field)
        if outputs is not None:
            _check_outputs(outputs)
        probabilities = field["probabilities"]
        mask = check_mask(self.mask, probabilities.shape[:2])
        sizes = expected_field_size(probabilities, mask)
        found = {"mean_size": float(sizes.sum() / max(mask.sum(), 1))}
        if self.labels is not None:
            right = np.argmax(outputs, axis=-1) == self.labels
            found["accuracy"] = float(np.mean(right))
        return found


def _batch_size(inputs: Any) -> int:
    shape = np.shape(keras.tree.flatten(inputs)[0])
    if not shape:
        raise ValueError(
            "Argument `inputs` must hold arrays with a batch axis. "
            f"Received: inputs={inputs!r}"
        )
    return shape[0]


def _check_fields(fields: Any) -> None:
    if not isinstance(fields, keras.Model):
        raise ValueError(
            "Argument `fields` must be a `keras.Model`. "
            f"Received: fields={fields!r}"
        )
    # The outputs of a subclassed model are not known before it runs.
    if getattr(fields, "outputs", None):
        _check_field(getattr(fields, "output", None))


def _check_field(field: Any) -> None:
    if not isinstance(field, dict) or "probabilities" not in field:
        received = sorted(field) if isinstance(field, dict) else type(field)
        raise ValueError(
            "Argument `fields` must be a model that returns the dict of "
            "`ReceptiveFieldRNN(return_field=True)`, such as "
            f"`keras.Model(inputs, field)`. Received: fields with {received}"
        )


def _check_outputs(outputs: Any) -> None:
    nested = isinstance(outputs, (dict, list))
    shape: tuple[int, ...] = () if nested else np.shape(outputs)
    if len(shape) != 2 or shape[1] < 2:
        raise ValueError(
            "Argument `labels` needs a trained model that returns "
            "(batch, classes), of two classes or more. "
            f"Received: outputs of shape {shape or type(outputs)}"
        )
