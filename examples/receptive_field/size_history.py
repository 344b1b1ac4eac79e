"""Field sizes during training."""

from typing import Any

import keras
import numpy as np


class SizeHistory(keras.callbacks.Callback):
    """Mean field size and accuracy at fixed texts, every few steps.

    `history` holds the equally long lists `"step"`, `"mean_size"` (mean of
    `expected_sizes` over real steps) and `"accuracy"`.

    Args:
        fields: A model that shares the trained layers and returns the dict of
            `ReceptiveFieldRNN(return_field=True)`.
        ids: Ids of tokens `(batch, time)`, 0 at padding.
        labels: Ints `(batch,)`.
        every: Steps between measurements.
    """

    def __init__(
        self, fields: keras.Model, ids: np.ndarray, labels: Any, every: int
    ):
        super().__init__()
        self.fields, self.every = fields, every
        self.ids, self.labels = ids, np.asarray(labels)
        self.history: dict[str, list] = {
            "step": [],
            "mean_size": [],
            "accuracy": [],
        }

    def on_train_begin(self, logs: Any = None) -> None:
        self._record()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if int(self.model.optimizer.iterations) % self.every == 0:
            self._record()

    def _record(self) -> None:
        real = self.ids != 0
        field = self.fields.predict_on_batch(self.ids)
        sizes = expected_sizes(field["probabilities"], real)
        right = self.model.predict_on_batch(self.ids).argmax(-1) == self.labels
        found = {
            "step": int(self.model.optimizer.iterations),
            "mean_size": float(sizes.sum() / real.sum()),
            "accuracy": float(right.mean()),
        }
        for name, value in found.items():
            self.history[name].append(value)


def expected_sizes(probabilities: np.ndarray, real: np.ndarray) -> np.ndarray:
    """Expected number of positions read at each step, E(s_t).

    A field that runs past the end of a text reads only what is there.

    Args:
        probabilities: `(batch, time, S)`, of sizes.
        real: Boolean `(batch, time)`, False at the padding after a text.

    >>> expected_sizes(np.full((1, 4, 2), 0.5), np.arange(4) < [[3]])
    array([[1.5, 1.5, 1. , 0. ]])
    """
    left = np.cumsum(real[:, ::-1], axis=1)[:, ::-1, None]
    sizes = np.arange(1, probabilities.shape[-1] + 1)
    return (probabilities * np.minimum(sizes, left)).sum(-1)
