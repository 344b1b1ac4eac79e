"""Field sizes over training.

Source: "An Informative Adaptive Receptive Field Model for Recurrent Neural
Networks", section "Influence of I(X; H) and I(Y; H) Bias".
"""

from typing import Any

import keras
import numpy as np

from keras_seqmech.analysis import decisions
from keras_seqmech.layers import validation


class FieldSizeHistory(keras.callbacks.Callback):
    r"""Records the mean field size $E(s_t)$ during training.

    Every `every` batches, and before the first, measures a fixed probe set in
    inference mode: no dropout, no noise, the same texts each time. (The
    metrics of `track_statistics=True` are running means over an epoch, of
    sampled fields under dropout.)

    `history` holds the equally long lists `"step"` (batches trained on),
    `"mean_size"` (mean of `expected_field_size` over real steps) and, with
    labels, `"accuracy"`: what `plot_field_size_by_step` draws.

    Args:
        fields: A model that shares the trained layers and puts out the dict
            of `ReceptiveFieldRNN(return_field=True)`.
        inputs: Probe inputs, as `fields` and the trained model take them;
            measured as one batch.
        mask: Boolean array `(batch, time)`, True where a step is real.
        labels: Ints `(batch,)`. If given, the trained model must put out
            class probabilities or logits `(batch, classes)`.
        every: Positive int, batches between measurements.

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
        validation.check_positive_int("every", every)
        super().__init__()
        if labels is not None:
            labels = decisions.check_labels(labels, len(inputs), None)
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
        if self._step == 0:
            self._measure()

    def on_train_batch_end(self, batch, logs=None):
        self._step += 1
        if self._step % self.every == 0:
            self._measure()

    def _measure(self):
        field = self.fields.predict_on_batch(self.inputs)
        probabilities = field["probabilities"]
        mask = decisions.check_mask(self.mask, probabilities.shape[:2])
        sizes = decisions.expected_field_size(probabilities, mask)
        self.history["step"].append(self._step)
        self.history["mean_size"].append(
            float(sizes.sum() / max(mask.sum(), 1))
        )
        if self.labels is not None:
            outputs = self.model.predict_on_batch(self.inputs)
            self.history["accuracy"].append(
                float(np.mean(np.argmax(outputs, axis=-1) == self.labels))
            )
