"""Field sizes over training.

Source: "An Informative Adaptive Receptive Field Model for Recurrent Neural
Networks", section "Influence of I(X; H) and I(Y; H) Bias".
"""

from typing import Any

import keras
import numpy as np

from keras_seqmech.analysis import decisions
from keras_seqmech.analysis.restored_state import state_restored
from keras_seqmech.layers import validation


class FieldSizeHistory(keras.callbacks.Callback):
    r"""Records the mean field size $E(s_t)$ during training.

    Every `every` steps, and before the first, measures a fixed probe set in
    inference mode: no dropout, no noise, the same texts each time. (The
    metrics of `track_statistics=True` are running means over an epoch, of
    sampled fields under dropout.) Metrics, states and seeds of the model stay
    as they are. With `steps_per_execution` it measures after the execution in
    which a step was due.

    `history` holds the equally long lists `"step"` (`optimizer.iterations`),
    `"mean_size"` (mean of `expected_field_size` over real steps) and, with
    labels, `"accuracy"`: what `plot_field_size_by_step` draws.

    Args:
        fields: A model that shares the trained layers and puts out the dict
            of `ReceptiveFieldRNN(return_field=True)`, nothing else.
        inputs: Probe inputs, as `fields` and the trained model take them;
            measured as one batch.
        mask: Boolean array `(batch, time)`, True where a step is real.
        labels: Ints `(batch,)`. If given, the trained model must put out
            class probabilities or logits `(batch, classes)`, of two classes
            or more.
        every: Positive int, steps between measurements.

    Raises:
        ValueError: If an argument does not fit; once training begins, if what
            the models put out does not.

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
        every = validation.check_positive_int("every", every)
        super().__init__()
        if labels is not None:
            labels = decisions.check_labels(labels, _batch_size(inputs), None)
        _check_fields(fields)
        self.fields = fields
        self.inputs = inputs
        self.mask = mask
        self.labels = labels
        self.every = every
        self.history = {"step": [], "mean_size": []}
        if labels is not None:
            self.history["accuracy"] = []
        self._step = 0

    def on_train_begin(self, logs=None):
        self._step = int(self.model.optimizer.iterations)
        if not self.history["step"]:
            self._measure()

    def on_train_batch_end(self, batch, logs=None):
        before, self._step = self._step, int(self.model.optimizer.iterations)
        if self._step // self.every > before // self.every:
            self._measure()

    def _measure(self):
        with state_restored(self.fields, self.model):
            field = self.fields.predict_on_batch(self.inputs)
            outputs = None
            if self.labels is not None:
                outputs = self.model.predict_on_batch(self.inputs)
        _check_field(field)
        if outputs is not None:
            _check_outputs(outputs)
        probabilities = field["probabilities"]
        mask = decisions.check_mask(self.mask, probabilities.shape[:2])
        sizes = decisions.expected_field_size(probabilities, mask)
        self.history["step"].append(self._step)
        self.history["mean_size"].append(
            float(sizes.sum() / max(mask.sum(), 1))
        )
        if self.labels is not None:
            self.history["accuracy"].append(
                float(np.mean(np.argmax(outputs, axis=-1) == self.labels))
            )


def _batch_size(inputs) -> int:
    shape = np.shape(keras.tree.flatten(inputs)[0])
    if not shape:
        raise ValueError(
            "Argument `inputs` must hold arrays with a batch axis. "
            f"Received: inputs={inputs!r}"
        )
    return shape[0]


def _check_fields(fields):
    if not isinstance(fields, keras.Model):
        raise ValueError(
            "Argument `fields` must be a `keras.Model`. "
            f"Received: fields={fields!r}"
        )
    # What a subclassed model puts out is known once it has run.
    if getattr(fields, "outputs", None):
        _check_field(getattr(fields, "output", None))


def _check_field(field):
    if not isinstance(field, dict) or "probabilities" not in field:
        received = sorted(field) if isinstance(field, dict) else type(field)
        raise ValueError(
            "Argument `fields` must be a model that puts out the dict of "
            "`ReceptiveFieldRNN(return_field=True)`, such as "
            f"`keras.Model(inputs, field)`. Received: fields with {received}"
        )


def _check_outputs(outputs):
    shape = () if isinstance(outputs, (dict, list)) else np.shape(outputs)
    if len(shape) != 2 or shape[1] < 2:
        raise ValueError(
            "Argument `labels` needs a trained model that puts out "
            "(batch, classes), of two classes or more. "
            f"Received: outputs of shape {shape or type(outputs)}"
        )
