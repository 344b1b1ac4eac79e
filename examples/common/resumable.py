"""A `fit` that a killed run continues exactly."""

import itertools
import json
import shutil
import statistics
import time
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from examples.common import whole_files
from keras_seqmech.training import ExactBackupAndRestore

Curve = list[dict[str, float]]
Batches = Callable[[int, Curve], tf.data.Dataset]


class CurveFile(keras.callbacks.Callback):
    """Writes what each epoch logs and what is measured to a file.

    It continues the file of a run that was killed, and ends training when
    `is_over` says so.
    """

    def __init__(
        self,
        path: Path,
        measure: Callable[[], Mapping[str, float]],
        is_over: Callable[[Curve], bool],
    ):
        super().__init__()
        self.path, self.measure, self.is_over = path, measure, is_over
        self.curve: Curve = []
        if path.exists():
            self.curve = json.loads(path.read_text(encoding="utf8"))

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        self._begun = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        seconds = time.perf_counter() - self._begun
        point = {f"train_{name}": value for name, value in logs.items()}
        point |= {**self.measure(), "seconds": seconds}
        self.curve[epoch:] = [{x: float(y) for x, y in point.items()}]
        whole_files.write_json(self.path, self.curve)
        shown = ", ".join(f"{x} {y:.3f}" for x, y in point.items())
        print(f"Epoch {epoch + 1}: {shown}", flush=True)
        self.model.stop_training = self.is_over(self.curve)


def fit(
    model: keras.Model,
    batches: Batches,
    epochs: int,
    steps: int,
    folder: Path,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    measure: Callable[[], Mapping[str, float]] = dict,
    is_over: Callable[[Curve], bool] = lambda curve: False,
    signature: Any = None,
) -> Curve:
    """Trains a compiled model with a backup after each epoch, until `remove`.

    A run that is killed, in `fit` or later, continues after its last epoch,
    with the weights, random numbers and batches of one that was not.
    `batches(step, curve)` are those from a step on, by what the epochs before
    measured; an epoch has so many `steps`. After each, `measure` returns scores
    by name; training ends where `is_over` says so of all of them. `signature`
    is that of a batch, if not that of the first.

    Returns:
        Of each epoch its logs, with "train_" before their names, scores and
        seconds.
    """
    curve = CurveFile(folder / "curve.json", measure, is_over)

    def epoch() -> Iterator[Any]:
        step = int(model.optimizer.iterations)
        own = batches(step, curve.curve[: step // steps])
        return itertools.islice(own.as_numpy_iterator(), steps)

    # Without `steps_per_epoch`, `fit` asks for a new iterator each epoch.
    data = tf.data.Dataset.from_generator(
        epoch, output_signature=signature or batches(0, []).element_spec
    ).apply(tf.data.experimental.assert_cardinality(steps))
    model.fit(
        data.prefetch(2),
        epochs=len(curve.curve) if is_over(curve.curve) else epochs,
        callbacks=[
            *callbacks,
            curve,
            ExactBackupAndRestore(folder, delete_checkpoint=False),
        ],
        shuffle=False,
        verbose=0,
    )
    return curve.curve


def remove(folder: Path) -> None:
    """Deletes the backup of a run that is over."""
    shutil.rmtree(folder, ignore_errors=True)


def save(
    model: keras.Model, curve: Curve, steps: int, path: Path
) -> dict[str, float]:
    """Saves a trained model.

    Returns its steps, the median milliseconds of one (the first epoch
    compiles), parameters, and seconds.
    """
    model.save(path)
    seconds = [point["seconds"] for point in curve]
    warm = seconds[1:] or seconds
    return {
        "steps": steps * len(curve),
        "train_ms": round(1000 * statistics.median(warm) / steps, 1),
        "parameters": model.count_params(),
        "seconds": round(sum(seconds), 1),
    }


def shuffled(
    x: np.ndarray, y: np.ndarray, batch_size: int, seed: int
) -> Batches:
    """Batches of arrays; each epoch has an order of its own."""
    steps = -(-len(y) // batch_size)

    def batches(step: int, curve: Curve) -> tf.data.Dataset:
        generator = np.random.default_rng((seed, step // steps))
        order = generator.permutation(len(y))
        parts = tf.data.Dataset.from_tensor_slices((x[order], y[order]))
        return parts.batch(batch_size)

    return batches
