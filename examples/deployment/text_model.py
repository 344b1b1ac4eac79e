"""Exported models that take texts, run with TensorFlow alone.

TensorFlow is imported where a model is loaded: a program that hands models to
other processes need not hold it.
"""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from typing import NamedTuple

import numpy as np

# Narrow floats are widened to what every reader of files knows.
_WIDER = {"float16": "float32", "bfloat16": "float32"}
_DTYPES = (
    *("bool", "float32", "float64", "int8", "int16", "int32", "int64"),
    *("string", "uint8", "uint16", "uint32", "uint64"),
)


class Output(NamedTuple):
    """What an output holds for each text.

    Attributes:
        dtype: Of its values, `"string"` among others.
        axes: How deep they are nested; 0 for a single value.
    """

    dtype: str
    axes: int


class TextModel:
    """A SavedModel with a signature from texts to named outputs.

    Args:
        path: Folder of the SavedModel.
        signature: Name of the signature.

    Attributes:
        outputs: Dict from names to `Output`s.

    Raises:
        ValueError: If there is no such model or signature; if TensorFlow cannot
            load it; if it has another input than one of strings, `(batch,)` or
            `(batch, 1)`; or an output that cannot be written by row.
    """

    def __init__(self, path: str | Path, signature: str = "serving_default"):
        model = _load(path)
        if signature not in model.signatures:
            raise ValueError(
                "Argument `signature` must be one of "
                f"{sorted(model.signatures)}. Received: signature={signature!r}"
            )
        self._model = model  # A signature alone does not keep its variables.
        self._call = model.signatures[signature]
        self._name, self._shape = _text_input(path, self._call)
        self.outputs = {
            name: _output(name, spec)
            for name, spec in sorted(self._call.structured_outputs.items())
        }

    def __call__(self, texts: Sequence[str]) -> dict[str, np.ndarray]:
        """Answers by name, the first axis that of the texts."""
        import tensorflow as tf

        batch = tf.reshape(tf.constant(texts, "string"), self._shape)
        answers = self._call(**{self._name: batch})
        return {name: _array(name, answers[name], texts) for name in answers}


def length_batches(texts: Sequence[str], size: int) -> list[np.ndarray]:
    """Cuts texts into batches of similar length.

    >>> length_batches(["four", "a", "six", "to"], 2)
    [array([1, 3]), array([2, 0])]

    Args:
        texts: In any order.
        size: Of a batch; the last may be smaller.

    Returns:
        Positions of the texts of each batch, by number of characters; equal
        ones in their order.
    """
    lengths = np.array([len(text) for text in texts], int)
    order = np.argsort(lengths, kind="stable")
    return [order[i : i + size] for i in range(0, len(order), size)]


def score(
    model: TextModel, texts: Sequence[str], batch_size: int
) -> dict[str, list[Any]]:
    """A model's answers as Python values, in the order of the texts."""
    columns = {name: [None] * len(texts) for name in model.outputs}
    for chosen in length_batches(texts, batch_size):
        answers = model([texts[i] for i in chosen])
        for name, column in columns.items():
            for i, value in zip(chosen, answers[name].tolist()):
                column[i] = value
    return columns


def fingerprint(path: str | Path) -> str:
    """SHA-256 of the names and contents of a model's files.

    Those in folders that are links count, too.
    """
    digest = hashlib.sha256()
    inside = (
        Path(folder, name)
        for folder, _, names in os.walk(path, followlinks=True)
        for name in names
    )
    for file in sorted(p for p in inside if p.is_file()):
        with file.open("rb") as content:
            of_file = hashlib.file_digest(content, "sha256").hexdigest()
        digest.update(f"{file.relative_to(path)}\n{of_file}\n".encode())
    return digest.hexdigest()


def limit_tensorflow(threads: int) -> None:
    """Keeps this process to CPU threads; before anything is computed."""
    import tensorflow as tf

    tf.config.set_visible_devices([], "GPU")
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)


def _load(path):
    import tensorflow as tf

    if not tf.saved_model.contains_saved_model(str(path)):
        raise ValueError(
            "Argument `model` must be the folder of a SavedModel, which holds "
            f"saved_model.pb. Received: model={str(path)!r}"
        )
    try:
        return tf.saved_model.load(str(path))
    except Exception as error:
        if "Op type not registered" not in str(error):
            raise _cannot_be_loaded(path, error) from error
        missing = str(error)
    try:
        import tensorflow_text  # noqa: F401
    except ImportError as error:
        raise ValueError(
            "Argument `model` needs ops that are not TensorFlow's; if they are "
            "TensorFlow Text's, `pip install tensorflow-text`. "
            f"Received: model={str(path)!r}: {missing}"
        ) from error
    try:
        return tf.saved_model.load(str(path))
    except Exception as error:
        raise _cannot_be_loaded(path, error) from error


def _cannot_be_loaded(path, error) -> ValueError:
    """For whatever TensorFlow raises over files that are damaged."""
    reason = str(error).partition("\n")[0]
    return ValueError(
        "Argument `model` must be a SavedModel that TensorFlow can load. "
        f"Received: model={str(path)!r}: {type(error).__name__}: {reason}"
    )


def _text_input(path, signature) -> tuple[str, list[int]]:
    """The name of the only input, and the shape of a batch of texts."""
    specs = signature.structured_input_signature[1]
    if len(specs) == 1:
        ((name, spec),) = specs.items()
        shape = spec.shape.as_list() if spec.shape.rank else []
        if spec.dtype.name == "string" and shape in ([None], [None, 1]):
            return name, [-1, *shape[1:]]
    shown = {k: f"{v.dtype.name} {v.shape}" for k, v in specs.items()}
    raise ValueError(
        "Argument `model` must have one input, strings of shape (None,) or "
        f"(None, 1). Received: model={str(path)!r} with inputs {shown}"
    )


def _output(name, spec) -> Output:
    dtype = _WIDER.get(spec.dtype.name, spec.dtype.name)
    if not spec.shape.rank or dtype not in _DTYPES:
        raise ValueError(
            "Argument `model` must have outputs with a batch axis, of strings, "
            f"booleans or real numbers. Received: output {name!r}, "
            f"{spec.dtype.name} {spec.shape}"
        )
    return Output(dtype, spec.shape.rank - 1)


def _array(name, answer, texts) -> np.ndarray:
    """An answer with a row for each text, in a dtype of `_DTYPES`."""
    array = answer.numpy()
    if len(array) != len(texts):
        raise ValueError(
            f"Argument `model` must answer {len(texts)} texts with as many "
            f"rows. Received: output {name!r} of shape {array.shape}"
        )
    dtype = answer.dtype.name
    if dtype != "string":
        return array.astype(_WIDER.get(dtype, dtype))
    decoded = [value.decode("utf8") for value in array.flat]
    return np.array(decoded, object).reshape(array.shape)
