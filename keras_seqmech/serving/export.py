"""Export for TensorFlow Serving and other formats, and proof that it works."""

import contextlib
import functools
import logging
import os
import pathlib
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_seqmech.core import checks
from keras_seqmech.core.decisions.statistics import DecisionStatistics
from keras_seqmech.core.graph import check_functional
from keras_seqmech.core.graph import sublayers
from keras_seqmech.serving import signature
from keras_seqmech.serving.streaming import StreamingModel

# Where TensorFlow Serving looks for warm-up requests, and its last version.
_WARMUP = pathlib.Path("assets.extra", "tf_serving_warmup_requests")
_LARGEST = 2**63 - 1
_TOLERANCES = {
    "float64": 1e-9,
    "float32": 1e-5,
    "float16": 1e-2,
    "bfloat16": 5e-2,
}
# Share of integers, such as ids and labels, that 16-bit rounding may change.
_CHANGED_SHARE = 0.01
# The same of all numbers for weights of 8 bits: a tolerance, and a share.
_EIGHT_BITS = 0.1, 0.1
# Folders in which exports are made, and seconds after which none still is.
SCRATCH = ".tmp-keras_seqmech-"
_DAY = 24 * 60 * 60
_logger = logging.getLogger(__name__)


def export_model(
    model: keras.Model,
    directory: str | os.PathLike,
    version: int | None = None,
    example_inputs: Any = None,
    streaming: bool = False,
    per_step: Sequence[type[keras.Layer]] = (),
    decisions: bool = False,
) -> pathlib.Path:
    """Writes a model as `directory/<version>` for TensorFlow Serving.

    The signature `serving_default` runs the model with `training=False`. A
    fresh process that can import neither keras_seqmech nor Keras loads it and
    answers example inputs; only if it answers as `model` does here, up to
    rounding, the version appears in `directory`, in one step. An export that
    fails or is interrupted leaves no version behind; a folder `.tmp-*` that is
    left by one that was killed is removed by an export a day later.

    Inputs have the names of the model's `keras.Input`s, or `inputs`. An
    output's name is the path of dict keys that leads to it, joined by `_`;
    outside any dict it is the name of the layer that made it. So `[tags,
    {"size": size}]` gives `tags` and `size`. A repeated name is numbered,
    `size_1`. Requests of another shape are refused. The batch axis is free,
    and so is every axis that is None in `keras.Input`, such as time. A served
    model does not update the statistics of `track_statistics=True`.

    With `decisions=True` `serving_default` returns, too, what
    `analysis.decisions` shows, under the layer's name and its key: `rnn_size`,
    `rnn_probabilities`. A name that an output has is numbered. `step` returns
    them, too, except what depends on steps that were not read, as
    `StreamingModel` says.

    With `streaming=True` two more signatures run the model on sequences that
    arrive in chunks, as `StreamingModel` does. From `batch_size` `start` makes
    the states before the first chunk, `state_...`, and the `delay`. `step` is
    given a chunk of the inputs, the states, and `end`, whether the sequences
    end with it; it returns the outputs that are certain, their `count` in each
    row, and the states for the next chunk, which the client keeps.

    A model with ops of TensorFlow Text must be loaded after
    `import tensorflow_text` (which itself imports Keras).

    Args:
        model: A functional model, or a built `keras.Sequential`, without
            stateful layers. For a subclassed model, call it on a
            `keras.Input`: `keras.Model(inputs, model(inputs))`.
        directory: Path of a local directory; its name is the model's name for
            TensorFlow Serving. It is made if missing.
        version: Positive int. Defaults to one more than the largest version
            in `directory`, starting with 1.
        example_inputs: What one would call the model with, or a dict of
            arrays by input name. They are compared, and written as a warm-up
            request, which needs `pip install '.[serving]'` in the checkout;
            without that package a warning is logged instead. By default
            random inputs are compared.
        streaming: Whether to add the signatures `start` and `step`.
        per_step: With `streaming=True`, classes of layers that treat each
            step alone, as in `StreamingModel`.
        decisions: Whether to return the decisions of all layers.

    Returns:
        The path of the new version.

    Raises:
        ValueError: If the model has no graph, or no layer that decides where
            decisions are wanted, an argument does not fit, the version exists,
            or no version is left that a server knows. Nothing is ever
            overwritten.
        OSError: If `directory` cannot be made, read or written to; a full disk
            raises TensorFlow's `ResourceExhaustedError`.
        RuntimeError: If the export does not load in a fresh process, or does
            not answer there as the model does here.

    Example:

    >>> import keras, tempfile
    >>> from keras_seqmech import ReceptiveFieldRNN
    >>> from keras_seqmech import serving
    >>> inputs = keras.Input((None, 3), name="tokens")
    >>> rnn = ReceptiveFieldRNN(
    ...     keras.layers.GRUCell(4), max_size=2, return_field=True, name="rnn"
    ... )
    >>> model = keras.Model(inputs, rnn(inputs))
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     serving.export_model(model, directory).name
    '1'

    This one serves the outputs `rnn`, `size` and `probabilities`.
    """
    check_functional(model, "model")
    if any(getattr(part, "stateful", False) for part in sublayers(model)):
        raise ValueError(
            "Argument `model` must not be stateful, as all clients would share "
            "one state; with `streaming=True` each has its own. "
            f"Received: model={model!r}"
        )
    streaming = checks.check_bool("streaming", streaming)
    decisions = checks.check_bool("decisions", decisions)
    specs = signature.input_specs(model)
    example = signature.example(model, specs, example_inputs)
    serve = signature.serving_function(model, specs, decisions)
    here = {name: x.numpy() for name, x in serve(example).items()}
    endpoints = {"serve": (serve, specs)}
    if streaming:
        endpoints |= StreamingModel(model, per_step, decisions).endpoints()
    directory = _check_directory(directory)
    _number(directory, version)
    # Beside the versions, with a name that no server reads.
    with scratch_folder(directory) as scratch:
        path = scratch / "model"
        archive = keras.export.ExportArchive()
        archive.track(model)
        for name, (function, given) in endpoints.items():
            archive.add_endpoint(name, function, [given])
        archive.write_out(str(path), verbose=False)
        if example_inputs is not None:
            _write_warmup(path, directory.resolve().name, example)
        for name, answers in _serve_in_fresh_process(path, example).items():
            expected = here
            if name == "step":
                # Chunks lack decisions that depend on what was not read.
                expected = {key: here[key] for key in answers}
            compare(name, answers, expected, model)
        return _publish(path, directory, version)


@contextlib.contextmanager
def scratch_folder(directory: pathlib.Path) -> Iterator[pathlib.Path]:
    """A folder in a directory, for as long as an export is made.

    Those that killed exports left there a day ago are removed.
    """
    directory.mkdir(parents=True, exist_ok=True)
    for left in directory.glob(f"{SCRATCH}*"):
        # Another export may remove it, too.
        with contextlib.suppress(FileNotFoundError):
            if time.time() - left.stat().st_mtime > _DAY:
                shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(
        prefix=SCRATCH, dir=directory, ignore_cleanup_errors=True
    ) as folder:
        yield pathlib.Path(folder)


def use_padded_loops(model: keras.Layer) -> None:
    """Makes the loops of a model, and of all layers within it, run padded.

    The answers stay the same. LiteRT and ONNX need it: a packed loop computes
    fewer rows at each step, which those formats cannot say. Nor can they count:
    statistics of `track_statistics=True` are no longer updated. What was traced
    before, such as the function of `predict`, stays as it is, and `.keras`
    files do not keep it.

    Args:
        model: A model or layer, of any kind.

    Raises:
        ValueError: If `model` is not a `keras.Layer`.

    Example:

    >>> import keras
    >>> import keras_seqmech
    >>> from keras_seqmech import serving
    >>> cell = keras.layers.GRUCell(2)
    >>> field = keras_seqmech.ReceptiveFieldRNN(cell, max_size=2)
    >>> serving.use_padded_loops(keras.Sequential([field]))
    >>> field.packed
    False
    """
    if not isinstance(model, keras.Layer):
        raise ValueError(
            "Argument `model` must be a `keras.Model` or `keras.Layer`. "
            f"Received: model={model!r}"
        )
    for layer in sublayers(model):
        if hasattr(layer, "packed"):
            layer.packed = False
        if isinstance(layer, DecisionStatistics):
            layer.is_stopped = True


def _check_directory(directory: Any) -> pathlib.Path:
    is_path = isinstance(directory, (str, os.PathLike))
    if not is_path or not str(directory) or "://" in str(directory):
        raise ValueError(
            "Argument `directory` must be a local path. "
            f"Received: directory={directory!r}"
        )
    return pathlib.Path(directory)


def _number(directory: pathlib.Path, version: int | None) -> int:
    """The number of the new version, if there can be one."""
    names = [path.name for path in directory.glob("*")]
    # TensorFlow Serving reads `007` as 7.
    found = {int(x) for x in names if x.isascii() and x.isdigit()}
    found = {number for number in found if number <= _LARGEST}
    number = max(found, default=0) + 1 if version is None else version
    checks.check_positive_int("version", number)
    if number > _LARGEST or number in found:
        raise ValueError(
            "Argument `version` must be one that does not exist yet, up to "
            f"TensorFlow Serving's largest, {_LARGEST}, or None for the next; "
            f"nothing is overwritten. Received: version={version}, "
            f"directory={str(directory)!r}"
        )
    return number


def _publish(
    path: pathlib.Path, directory: pathlib.Path, version: int | None
) -> pathlib.Path:
    while True:
        number = _number(directory, version)
        try:
            return path.rename(directory / str(number))
        except OSError:
            # Another export may have taken the number meanwhile.
            if not (directory / str(number)).exists():
                raise


def _write_warmup(
    path: pathlib.Path, model_name: str, example: Mapping[str, np.ndarray]
) -> None:
    try:
        from tensorflow_serving.apis import model_pb2
        from tensorflow_serving.apis import predict_pb2
        from tensorflow_serving.apis import prediction_log_pb2
    except ImportError:
        _logger.warning(
            "The export has no warm-up request, which needs "
            "`pip install '.[serving]'` in the checkout of keras_seqmech."
        )
        return
    request = predict_pb2.PredictRequest(
        model_spec=model_pb2.ModelSpec(
            name=model_name, signature_name="serving_default"
        ),
        inputs={
            name: tf.make_tensor_proto(array) for name, array in example.items()
        },
    )
    log = prediction_log_pb2.PredictionLog(
        predict_log=prediction_log_pb2.PredictLog(request=request)
    )
    file = path / _WARMUP
    file.parent.mkdir()
    with tf.io.TFRecordWriter(str(file)) as writer:
        writer.write(log.SerializeToString())


def run_in_fresh_process(script: str, path: pathlib.Path, given: Any) -> Any:
    """Answers of a script of this folder, with what was exported."""
    inputs, outputs = path.with_name("inputs"), path.with_name("outputs")
    inputs.write_bytes(pickle.dumps(given))
    file = pathlib.Path(__file__).with_name(script)
    result = subprocess.run(
        [sys.executable, file, path, inputs, outputs],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env={"TF_FORCE_GPU_ALLOW_GROWTH": "true", **os.environ},
    )
    if result.returncode:
        raise RuntimeError(
            "The exported model does not run in a fresh process; nothing "
            "was written. If random inputs, of 5 steps where their number is "
            "free, are the cause, give `example_inputs`. "
            f"The process ended with:\n{result.stderr[-2000:]}"
        )
    return pickle.loads(outputs.read_bytes())


_serve_in_fresh_process = functools.partial(
    run_in_fresh_process, "_fresh_process.py"
)


def compare(
    signature: str,
    served: Mapping[str, np.ndarray],
    expected: Mapping[str, np.ndarray],
    model: keras.Model,
    eight_bits: bool = False,
) -> None:
    """Refuses answers that differ by more than rounding at their scale."""
    tolerance = max(
        _TOLERANCES.get(part.compute_dtype, 0.0) for part in sublayers(model)
    )
    changed_share = 0.0
    if eight_bits:
        tolerance, changed_share = _EIGHT_BITS
    for name, here in expected.items():
        found = difference(here, served[name], tolerance, changed_share)
        if found:
            raise RuntimeError(
                "The exported model does not answer as `model` does here; "
                "nothing was written. It must not depend on Python state, on "
                "random numbers drawn without a `keras.random.SeedGenerator`, "
                "nor, given step by step, on steps that it was not given. If "
                "rounding to 16 or 8 bits changes its answers, export it in "
                "float32, or give other `example_inputs`. "
                f"Received: output {name!r} of `{signature}` with {found}"
            )


def difference(
    here: np.ndarray,
    there: np.ndarray,
    tolerance: float,
    changed_share: float = 0.0,
) -> str:
    """Says where more than a share of two answers differ; empty if not."""
    if here.shape != there.shape:
        return f"shape={there.shape} exported, shape={here.shape} here"
    same, are_labels = np.asarray(here == there), True
    if tf.as_dtype(here.dtype).is_floating:
        here, there = here.astype("float64"), there.astype("float64")
        are_labels = all(np.array_equal(x, np.rint(x)) for x in (here, there))
        scale = np.max(np.abs(here), initial=0.1, where=np.isfinite(here))
        same = np.isclose(
            there, here, rtol=0.0, atol=tolerance * scale, equal_nan=True
        )
    # Rounding to 16 bits changes near ties between labels, or between sizes.
    may_change = are_labels and tolerance >= _TOLERANCES["float16"]
    allowed = max(1, _CHANGED_SHARE * same.size) if may_change else 0
    allowed = max(allowed, changed_share * same.size)
    if np.sum(~same) <= allowed:
        return ""
    first = tuple(map(int, np.argwhere(~same)[0]))
    return f"{there[first]} exported, {here[first]} here, at {first}"
