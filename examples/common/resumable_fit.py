"""A `fit` that a killed run continues exactly.

For runs of so many epochs that are tested at the end. Where tests between the
epochs are part of a run, and may end it, `resumable_progress` does.
"""

import json
import shutil
import time
import zlib
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np

from examples.common import whole_files
from keras_seqmech.training import ExactBackupAndRestore


class EpochOrder(keras.utils.PyDataset):
    """Batches of arrays, in an order that depends on the epoch and a seed."""

    def __init__(
        self, x: np.ndarray, y: np.ndarray, batch_size: int, seed: int
    ):
        super().__init__()
        self.x, self.y = x, y
        self.batch_size = batch_size
        self.seed = seed
        self.start(0)

    def start(self, epoch: int) -> None:
        """Takes the order of an epoch."""
        generator = np.random.default_rng((self.seed, epoch))
        self.order = generator.permutation(len(self.y))

    def __len__(self) -> int:
        return -(-len(self.y) // self.batch_size)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        first = index * self.batch_size
        rows = self.order[first : first + self.batch_size]
        return self.x[rows], self.y[rows]


class EpochSeconds(keras.callbacks.Callback):
    """Writes how long each epoch took to a file, which it continues."""

    def __init__(self, path: Path):
        super().__init__()
        self.path = path
        self.seconds: dict[str, float] = {}
        if path.exists():
            self.seconds = json.loads(path.read_text(encoding="utf8"))

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        self._begun = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        self.seconds[str(epoch)] = time.perf_counter() - self._begun
        whole_files.write_json(self.path, self.seconds)


def folder_of(output: Path, key: Mapping[str, str]) -> Path:
    """The folder of the backup of a run with this key, in `output`."""
    digest = zlib.crc32(" ".join(key.values()).encode())
    return output.with_name(f"{output.stem}-{digest:08x}")


def remove(output: Path, key: Mapping[str, str]) -> None:
    """Deletes the backup of a run, if there is one; see `folder_of`."""
    shutil.rmtree(folder_of(output, key), ignore_errors=True)


def fit(
    model: keras.Model,
    data: EpochOrder,
    epochs: int,
    folder: Path,
    callbacks: Sequence[keras.callbacks.Callback] = (),
) -> float:
    """Trains a compiled model with a backup after each epoch, until `remove`.

    A run that is killed, in `fit` or later, continues after its last epoch,
    with the weights, random numbers and batches of one that was not. Returns
    the seconds that all epochs took.
    """
    clock = EpochSeconds(folder / "seconds.json")
    order = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: data.start(epoch)
    )
    backup = ExactBackupAndRestore(folder, delete_checkpoint=False)
    model.fit(
        data,
        epochs=epochs,
        shuffle=False,
        callbacks=[order, clock, *callbacks, backup],
        verbose=2,
    )
    return sum(clock.seconds.values())
