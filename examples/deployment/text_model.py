"""Exported models that take texts, run with TensorFlow alone."""

import contextlib
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf


class TextModel:
    """A SavedModel whose `serving_default` maps texts to named outputs.

    `outputs` are their names. A model with another input than one of strings
    is refused.
    """

    def __init__(self, path: str | Path):
        self._model = _load(path)  # A signature does not keep its variables.
        signatures = self._model.signatures
        if "serving_default" not in signatures:
            raise ValueError(
                "Argument `model` must have a signature `serving_default`. "
                f"Received: model={str(path)!r} with {sorted(signatures)}"
            )
        self._call = signatures["serving_default"]
        specs = self._call.structured_input_signature[1]
        shown = {k: f"{v.dtype.name} {v.shape}" for k, v in specs.items()}
        if [*shown.values()] not in (["string (None,)"], ["string (None, 1)"]):
            raise ValueError(
                "Argument `model` must have one input, strings of shape "
                f"(None,) or (None, 1). Received: model={str(path)!r} with "
                f"inputs {shown}"
            )
        ((self._name, spec),) = specs.items()
        self._shape = [-1, *spec.shape[1:]]
        self.outputs = sorted(self._call.structured_outputs)

    def score(
        self, texts: Sequence[str], batch_size: int
    ) -> dict[str, list[Any]]:
        """Answers as Python values, in the order of the texts.

        Batches hold texts of similar length, so that little is padding.
        """
        columns: dict[str, list] = {
            name: [None] * len(texts) for name in self.outputs
        }
        order = np.argsort([len(text) for text in texts], kind="stable")
        for start in range(0, len(texts), batch_size):
            chosen = order[start : start + batch_size]
            batch = tf.constant([texts[i] for i in chosen], "string")
            answers = self._call(**{self._name: tf.reshape(batch, self._shape)})
            for name, column in columns.items():
                values = _values(name, answers[name], len(chosen))
                for i, value in zip(chosen, values):
                    column[i] = value
        return columns


def fingerprint(path: str | Path) -> str:
    """SHA-256 of the names and contents of a model's files."""
    digest = hashlib.sha256()
    for folder, folders, names in os.walk(path, followlinks=True):
        folders.sort()
        for file in sorted(Path(folder, name) for name in names):
            content = hashlib.sha256(file.read_bytes()).hexdigest()
            digest.update(f"{file.relative_to(path)}\n{content}\n".encode())
    return digest.hexdigest()


def limit_tensorflow(threads: int) -> None:
    """Keeps this process to CPU threads; before anything is computed."""
    tf.config.set_visible_devices([], "GPU")
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)


def _load(path):
    if not tf.saved_model.contains_saved_model(str(path)):
        raise ValueError(
            "Argument `model` must be the folder of a SavedModel, which holds "
            f"saved_model.pb. Received: model={str(path)!r}"
        )
    with contextlib.suppress(ImportError):
        import tensorflow_text  # noqa: F401  Its ops may be in the model.
    return tf.saved_model.load(str(path))


def _values(name, answer, count) -> list:
    """An answer with a row for each text."""
    array = answer.numpy()
    if array.ndim == 0 or len(array) != count:
        raise ValueError(
            f"Argument `model` must answer {count} texts with as many rows. "
            f"Received: output {name!r} of shape {array.shape}"
        )
    if answer.dtype == tf.string:
        decoded = [value.decode("utf8") for value in array.flat]
        return np.array(decoded, object).reshape(array.shape).tolist()
    if answer.dtype in (tf.bfloat16, tf.float16):
        array = array.astype("float32")  # JSON knows no others.
    return array.tolist()
