"""Export for TensorFlow Serving, and proof that the export works."""

import contextlib
import errno
import logging
import os
import pathlib
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NoReturn

import keras
import numpy as np
import tensorflow as tf

from keras_seqmech.layers import validation
from keras_seqmech.serving import comparison
from keras_seqmech.serving import layout
from keras_seqmech.serving import signature
from keras_seqmech.serving.streaming import StreamingModel

_TEMPORARY = ".tmp-export-"
_STALE_SECONDS = 24 * 60 * 60
_logger = logging.getLogger(__name__)


def export_model(
    model: keras.Model,
    directory: str | os.PathLike,
    version: int | None = None,
    example_inputs: Any = None,
    streaming: bool = False,
) -> pathlib.Path:
    """Writes a model as `directory/<version>` for TensorFlow Serving.

    The SavedModel's signature `serving_default` runs the model with
    `training=False`. After writing, a fresh process that can import neither
    keras_seqmech nor Keras loads it and answers example inputs; only if it
    answers as `model` does here, up to rounding, the version appears in
    `directory`, in one step. An export that fails or is interrupted leaves no
    version behind.

    Inputs are named after the model's `keras.Input`s, or `inputs` where these
    have no name; those of a subclassed model after the keys of its dict of
    example inputs, or the first argument of its `call`. An output's name is
    the path of dict keys that leads to it, joined by `_`; outside any dict
    it is the name of the layer that made it, in a subclassed model
    `output_0`, `output_1` and so on. So `[tags, {"size": size}]` gives `tags`
    and `size`. A repeated name is numbered, `size_1`, skipping numbers that
    would make the name of another output. Requests of another shape are
    refused.

    The batch axis is free, and so is every axis that is None in
    `keras.Input`, such as time. With a stateful layer the batch size is
    fixed, and the served model carries its state from request to request;
    a served model does not update the statistics of `track_statistics=True`.
    A subclassed model takes axes from `example_inputs`: the batch is free, and
    axis 1 (time) of inputs of rank 3 or more, and of ids and strings of rank
    2. For other axes, wrap it: `x = keras.Input(...)`,
    `keras.Model(x, model(x))`.

    With `streaming=True` two more signatures run the model on sequences that
    arrive in chunks, as `StreamingModel` does:

    - `start`: from `batch_size` to the states before the first chunk, whose
      names begin with `state_`, and the `delay`, the number of steps that
      outputs are behind the inputs.
    - `step`: from a chunk of the inputs, the states and `end`, whether the
      sequences end with it, to the outputs that are certain now, and the states
      for the next chunk under the same names.

    The server keeps nothing: a client keeps its states. That every cut into
    chunks gives the same numbers, those of `serving_default` up to rounding, is
    part of what the fresh process shows.

    A model with ops of TensorFlow Text must be loaded after
    `import tensorflow_text` (which itself imports Keras).

    Args:
        model: A built `keras.Model` with one argument, which may be a list or
            a dict of tensors.
        directory: Path of a local directory; its name is the model's name for
            TensorFlow Serving. It is made if missing.
        version: Positive int. Defaults to one more than the largest version
            in `directory`, starting with 1.
        example_inputs: What one would call the model with, or a dict of
            arrays by input name; needed for a subclassed model. They are
            compared, and written as a warm-up request, which needs
            `pip install 'keras_seqmech[serving]'`; without that package a
            warning is logged and none is written. By default random inputs
            are compared.
        streaming: Whether to add the signatures `start` and `step`.

    Returns:
        The path of the new version.

    Raises:
        ValueError: If the model is not built, an argument does not fit, the
            version exists, or no version is left that a server knows. Nothing
            is ever overwritten.
        OSError: If `directory` cannot be made, read or written to: it has a
            `PermissionError`, a full disk, a dangling link or too long a name.
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
    _check_model(model)
    streaming = validation.check_bool("streaming", streaming)
    structure, specs = signature.input_specs(model, example_inputs)
    example = signature.example(structure, specs, example_inputs)
    serve = signature.serving_function(model, structure, specs)
    endpoints = {"serve": (serve, specs)}
    if streaming:
        endpoints |= StreamingModel(model).endpoints()
    with _naming_directory(directory):
        directory, version = _check_directory(directory, version)
        scratch = _make_scratch(directory)
        try:
            path = scratch / "model"
            variables = _write(model, endpoints, path)
            if example_inputs is not None:
                _write_warmup(path, directory.resolve().name, example)
            with _hint_at_inputs(random=example_inputs is None):
                served = _serve_in_fresh_process(path, example)
            here = _answer_here(serve, example, variables)
            for name, answers in served.items():
                comparison.compare(name, answers, here, model)
            return _publish(path, directory, version)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def _check_model(model: Any) -> None:
    if not isinstance(model, keras.Model):
        raise ValueError(
            "Argument `model` must be a `keras.Model`; wrap a layer by "
            f"`keras.Sequential`. Received: model={model!r}"
        )
    if not model.built:
        raise ValueError(
            "Argument `model` must be built before it is exported: start it "
            "with a `keras.Input`, call it on data, or fit it. "
            f"Received: model={model!r} with built=False"
        )


def _check_directory(
    directory: Any, version: Any
) -> tuple[pathlib.Path, int | None]:
    is_path = isinstance(directory, (str, os.PathLike))
    is_path = is_path and isinstance(os.fspath(directory), str)
    if not is_path or not os.fspath(directory):
        raise ValueError(
            "Argument `directory` must be a string or a path. "
            f"Received: directory={directory!r}"
        )
    if "://" in os.fspath(directory) or "\0" in os.fspath(directory):
        raise ValueError(
            "Argument `directory` must be a local path, without NUL "
            f"characters. Received: directory={directory!r}"
        )
    if version is not None:
        version = validation.check_positive_int("version", version)
        if version > layout.LARGEST:
            raise ValueError(
                "Argument `version` must be one that TensorFlow Serving "
                f"knows, up to {layout.LARGEST}. Received: version={version}"
            )
    directory = pathlib.Path(directory)
    for path in (directory, *directory.parents):
        dangles = path.is_symlink() and not path.exists()
        if dangles or (path.exists() and not path.is_dir()):
            raise ValueError(
                "Argument `directory` must be a directory, or a path where one "
                f"can be made. Received: directory={str(directory)!r}; "
                f"{str(path)!r} is a {'dangling link' if dangles else 'file'}"
            )
    _number(directory, version)
    return directory, version


def _number(directory: pathlib.Path, version: int | None) -> int:
    """The number of the new version, if there can be one."""
    found = layout.versions(directory)
    if version is None:
        version = max(found, default=0) + 1
        if version > layout.LARGEST:
            raise ValueError(
                "Argument `version` must be given where the largest version "
                f"that TensorFlow Serving knows, {layout.LARGEST}, exists. "
                f"Received: version=None, directory={str(directory)!r}"
            )
    elif version in found:
        _refuse_version(directory, version)
    return version


def _refuse_version(
    directory: pathlib.Path, version: int, cause: Exception | None = None
) -> NoReturn:
    raise ValueError(
        "Argument `version` must be one that does not exist yet, or None for "
        "the next; nothing is overwritten. Received: "
        f"version={version}, directory={str(directory)!r}"
    ) from cause


def _make_scratch(directory: pathlib.Path) -> pathlib.Path:
    """A new directory beside the versions, with a name no server reads."""
    directory.mkdir(parents=True, exist_ok=True)
    _remove_stale(directory)
    return pathlib.Path(tempfile.mkdtemp(prefix=_TEMPORARY, dir=directory))


@contextlib.contextmanager
def _naming_directory(directory: Any) -> Iterator[None]:
    """Errors of the file system tell which argument they are about."""
    try:
        yield
    except OSError as error:
        if error.errno is None or not _concerns(directory, error):
            raise
        wanted = "where a directory can be made and written to"
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            wanted = "one this user may read and write"
        # With an errno, Python makes the matching subclass of OSError.
        raise OSError(
            error.errno,
            f"Argument `directory` must be {wanted}, but: "
            f"{os.strerror(error.errno)}. "
            f"Received: directory={str(directory)!r}",
        ) from error


def _concerns(directory: str | os.PathLike, error: OSError) -> bool:
    """Whether an error is about a directory, a part of it or its disk."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    if not isinstance(error.filename, str):
        return False
    paths = [os.path.abspath(directory), os.path.abspath(error.filename)]
    return os.path.commonpath(paths) in paths


def _remove_stale(directory: pathlib.Path) -> None:
    """Removes what killed exports left, but nothing another may be using."""
    for path in directory.glob(_TEMPORARY + "*"):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(path, ignore_errors=True)


def _publish(
    path: pathlib.Path, directory: pathlib.Path, version: int | None
) -> pathlib.Path:
    while True:
        number = _number(directory, version)
        try:
            os.rename(path, directory / str(number))
            return directory / str(number)
        except OSError as error:
            # Another export may have taken the number meanwhile.
            if not (directory / str(number)).exists():
                raise
            if version:
                _refuse_version(directory, version, error)


def _write(
    model: keras.Model,
    endpoints: Mapping[str, tuple[Callable, Mapping[str, tf.TensorSpec]]],
    path: pathlib.Path,
) -> Sequence[tf.Variable]:
    """Writes a SavedModel; returns the variables it reads or assigns.

    Args:
        model: The model that the endpoints run.
        endpoints: By name, a function from a dict to a dict, and the specs of
            its inputs. The first one is `serving_default`.
        path: Where to write.
    """
    archive = keras.export.ExportArchive()
    archive.track(model)
    written = [
        archive.add_endpoint(name, function, [specs])
        for name, (function, specs) in endpoints.items()
    ]
    try:
        archive.write_out(str(path), verbose=False)
    except tf.errors.ResourceExhaustedError as error:
        raise OSError(errno.ENOSPC, str(error), str(path)) from error
    return written[0].get_concrete_function().variables


def _write_warmup(
    path: pathlib.Path, model_name: str, example: Mapping[str, tf.Tensor]
) -> None:
    try:
        from tensorflow_serving.apis import model_pb2
        from tensorflow_serving.apis import predict_pb2
        from tensorflow_serving.apis import prediction_log_pb2
    except ImportError:
        _logger.warning(
            "The export has no warm-up request, which needs "
            "`pip install 'keras_seqmech[serving]'`."
        )
        return
    request = predict_pb2.PredictRequest(
        model_spec=model_pb2.ModelSpec(
            name=model_name, signature_name="serving_default"
        ),
        inputs={
            name: tf.make_tensor_proto(tensor.numpy())
            for name, tensor in example.items()
        },
    )
    log = prediction_log_pb2.PredictionLog(
        predict_log=prediction_log_pb2.PredictLog(request=request)
    )
    file = path / layout.WARMUP
    file.parent.mkdir()
    with tf.io.TFRecordWriter(str(file)) as writer:
        writer.write(log.SerializeToString())


def _serve_in_fresh_process(
    path: pathlib.Path, example: Mapping[str, tf.Tensor]
) -> dict[str, dict[str, np.ndarray]]:
    """The answers to an example, by signature and name."""
    script = pathlib.Path(__file__).with_name("_fresh_process.py")
    inputs, outputs = path.with_name("inputs"), path.with_name("outputs")
    inputs.write_bytes(pickle.dumps({k: v.numpy() for k, v in example.items()}))
    result = subprocess.run(
        [sys.executable, script, path, inputs, outputs],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env={"TF_FORCE_GPU_ALLOW_GROWTH": "true", **os.environ},
    )
    if result.returncode:
        raise RuntimeError(
            "The exported model does not run in a fresh process; no version "
            f"was written. The process ended with:\n{result.stderr[-2000:]}"
        )
    return pickle.loads(outputs.read_bytes())


@contextlib.contextmanager
def _hint_at_inputs(random: bool) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        if not random:
            raise
        raise RuntimeError(
            f"{error}\nIt was called with random inputs, of 5 steps where "
            "their number is free. If they are the cause, give "
            "`example_inputs`. Received: example_inputs=None"
        ) from error


def _answer_here(
    serve: Callable,
    example: Mapping[str, tf.Tensor],
    variables: Sequence[tf.Variable],
) -> dict[str, np.ndarray]:
    """The model's answer; its states and statistics stay as they are."""
    kept = [(v, tf.convert_to_tensor(v)) for v in variables if not v.trainable]
    try:
        return {name: x.numpy() for name, x in serve(example).items()}
    finally:
        for variable, value in kept:
            variable.assign(value)
