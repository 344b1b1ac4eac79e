"""Exported models that take texts, run with TensorFlow alone."""

import contextlib
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf


class TextModel:
    """A SavedModel whose `serving_default` maps texts to named outputs.

    A model with another input than one of strings is refused.
    """

    def __init__(self, path: str | Path):
        if not tf.saved_model.contains_saved_model(str(path)):
            raise ValueError(
                "Argument `model` must be the folder of a SavedModel, which "
                f"holds saved_model.pb. Received: model={str(path)!r}"
            )
        with contextlib.suppress(ImportError):
            import tensorflow_text  # noqa: F401  Its ops may be in the model.
        # A signature does not keep its variables.
        self._model = tf.saved_model.load(str(path))
        self._call = self._model.signatures["serving_default"]
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

    def score(self, texts: list[str], batch_size: int) -> dict[str, list[Any]]:
        """Answers as Python values by the output's name, in sorted order.

        Each has a value for each text, in the order of the texts. Batches hold
        texts of similar length, so that little is padding.
        """
        outputs = sorted(self._call.structured_outputs)
        columns: dict[str, list] = {x: [None] * len(texts) for x in outputs}
        order = np.argsort([len(text) for text in texts], kind="stable")
        for start in range(0, len(texts), batch_size):
            chosen = order[start : start + batch_size]
            batch = tf.constant([texts[i] for i in chosen], "string")
            answers = self._call(**{self._name: tf.reshape(batch, self._shape)})
            for name, column in columns.items():
                found = _as_python(answers[name])
                for i, value in zip(chosen, found, strict=True):
                    column[i] = value
        return columns


def fingerprint(path: str | Path) -> str:
    """SHA-256 of the names and contents of a model's files."""
    digest = hashlib.sha256()
    for file in sorted(Path(path).rglob("*")):
        if file.is_file():
            content = hashlib.sha256(file.read_bytes()).hexdigest()
            digest.update(f"{file.relative_to(path)}\n{content}\n".encode())
    return digest.hexdigest()


def limit_tensorflow(threads: int) -> None:
    """Keeps this process to CPU threads; before anything is computed."""
    tf.config.set_visible_devices([], "GPU")
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)


def _as_python(answer: tf.Tensor) -> list:
    """What JSON can hold: neither bytes nor short floats."""
    array = answer.numpy()
    if answer.dtype == tf.string:
        decoded = [value.decode("utf8") for value in array.flat]
        return np.array(decoded, object).reshape(array.shape).tolist()
    if answer.dtype in (tf.bfloat16, tf.float16):
        array = array.astype("float32")
    return array.tolist()
