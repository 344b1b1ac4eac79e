"""One step of a stream as a file of LiteRT or ONNX, and proof that it works."""

import os
import pathlib
from collections.abc import Mapping
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_seqmech.core import checks
from keras_seqmech.core.stream import choose
from keras_seqmech.serving import signature
from keras_seqmech.serving.export import compare
from keras_seqmech.serving.export import run_in_fresh_process
from keras_seqmech.serving.export import scratch_folder
from keras_seqmech.serving.streaming import StreamingModel
from keras_seqmech.serving.streaming.model import named_states
from keras_seqmech.serving.streaming.per_step import has_time
from keras_seqmech.serving.streaming.program import Run
from keras_seqmech.typing import Tensor

# By ending: the format, and the packages that write and run it.
_FORMATS = {
    ".tflite": ("LiteRT", ["ai_edge_litert"]),
    ".onnx": ("ONNX", ["tf2onnx", "onnxruntime"]),
}
_OPSET = 18
Arrays = dict[str, np.ndarray]
Tensors = dict[str, Tensor]


def export_step(
    model: keras.Model,
    path: str | os.PathLike,
    example_inputs: Any = None,
    quantize: bool = False,
    batch_size: int | None = None,
    per_step: Sequence[type[keras.Layer]] = (),
    decisions: bool = False,
) -> pathlib.Path:
    """Writes one step of a stream for devices, as a LiteRT or ONNX file.

    The file is a function without memory: from a step of the inputs and a
    state to a step of the outputs and the next state. It is called once for
    each step that arrives, and again, with `present` False, as long as it
    answers `pending`. A fresh process that can import neither TensorFlow nor
    keras_seqmech runs it with the format's own runtime on example inputs; only
    if it answers as `model` does here, up to rounding, it appears at `path`.

    By name, it is given

    - the inputs of the model: sequences with one step, `(batch, 1, ...)`, of
      any values where none arrives; others, such as the weight of what is
      read, each time;
    - `present` and `end`, boolean `(batch,)`: whether a step arrives, and
      whether the sequence ends with it, or has ended;
    - the state, `state_` before its names: zeros of the shapes and dtypes that
      the file names before the first step, and then what was returned;

    and returns

    - the outputs of the model: sequences with one step, `(batch, 1, ...)`,
      others as they are after the steps that were read;
    - `emitted`, boolean `(batch,)`: whether that step is one, the next;
    - `pending`, boolean: whether more may follow although none arrives, in
      any row;
    - the next state, `next_` before its names.

    Args:
        model: As in `StreamingModel`.
        path: Local path of the file, which is replaced. Its ending says the
            format: `.tflite` or `.onnx`.
        example_inputs: What one would call the model with, on whole sequences,
            or a dict of arrays by input name. They are compared. By default
            random inputs of five steps are.
        quantize: Whether to store weights in 8 bits, by the libraries' own
            quantization: dynamic range of LiteRT, dynamic of ONNX Runtime.
            Decisions close to a threshold may change.
        batch_size: Rows of each call. None leaves them free, which is slower.
        per_step: Classes of further layers that treat each step alone.
        decisions: Whether to return the decisions of all layers, too.

    Returns:
        The path.

    Raises:
        ValueError: If the model cannot be streamed, an argument does not fit,
            or the format cannot hold an operation of the model.
        ImportError: Without the packages of `pip install '.[formats]'`.
        RuntimeError: If the file does not answer as the model does here. 8 bits
            may change one number of ten by more than a tenth of the largest.
            No file is left or changed by an export that fails.

    Example:

    >>> import keras, tempfile
    >>> from keras_seqmech import LookAhead, serving
    >>> x = keras.Input((None, 3), name="x")
    >>> model = keras.Model(x, LookAhead(4)(x))
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     serving.export_step(model, f"{directory}/step.onnx").name
    'step.onnx'
    """
    path = _check_path(path)
    quantize = checks.check_bool("quantize", quantize)
    if batch_size is not None:
        batch_size = checks.check_positive_int("batch_size", batch_size)
    stream = StreamingModel(model, per_step, decisions)
    _check_names(stream)
    step = Step(stream, batch_size)
    example = signature.example(model, stream.specs, example_inputs)
    batches = _batches(example, batch_size)
    serve = signature.serving_function(model, stream.specs, decisions)
    with scratch_folder(path.parent) as folder:
        file = folder / path.name
        write = _write_lite_rt if path.suffix == ".tflite" else _write_onnx
        try:
            write(step, file, quantize)
            given = [(step.states, x, step.sequences) for x in batches]
            found = run_in_fresh_process("_fresh_step.py", file, given)
        except (OSError, MemoryError):
            raise
        except Exception as error:
            raise step.refusal(path.suffix, error) from error
        for batch, there in zip(batches, found):
            # Steps lack decisions that depend on what was not read.
            here = {k: x.numpy() for k, x in serve(batch).items() if k in there}
            compare("step", there, here, model, quantize)
        return file.replace(path)


class Step:
    """A tick of a stream as a function from a dict of tensors to one.

    Attributes:
        function: The function, as a graph.
        specs: Specs of what it is given, by name.
        states: One row of each state before the first step, zeros.
        sequences: Names of inputs and outputs that have a time axis.
    """

    def __init__(self, stream: StreamingModel, batch_size: int | None):
        self.stream = stream
        self._first = stream.program.first_state(1)
        first = named_states(self._first)
        self.states = {
            name: np.zeros(x.shape, x.dtype.as_numpy_dtype)
            for name, x in first.items()
        }
        # Those that zeros cannot stand for before the first step.
        self._starts = {name for name, x in first.items() if np.any(x.numpy())}
        rows = {
            "present": tf.TensorSpec((None,), "bool"),
            "end": tf.TensorSpec((None,), "bool"),
            **stream.specs,
            **first,
        }
        self.specs = {}
        for name, x in rows.items():
            shape = [batch_size, *x.shape[1:]]
            if has_time(x):
                shape[1] = 1
            self.specs[name] = tf.TensorSpec(shape, x.dtype, name)
        whole = {**stream.specs, **stream.outputs}
        self.sequences = {name for name, x in whole.items() if has_time(x)}
        self.function = tf.function(self._take, input_signature=[self.specs])

    def _take(self, pending: Tensors) -> Tensors:
        # tf2onnx renames inputs whose name an argument has: an input of a model
        # may be called anything but `pending`.
        given, program = pending, self.stream.program
        passed = given["state_passed"]
        inputs = [given[name] for name in self.stream.specs]
        fresh = named_states(program.first_state(tf.shape(passed)[0]))
        values = [
            choose(passed == 0, x, given[name])
            if name in self._starts
            else given[name]
            for name, x in fresh.items()
        ]
        state = keras.tree.pack_sequence_as(self._first, values)
        ticked = Run(program, inputs, given["present"], given["end"], state)
        state = named_states(ticked.state)
        return {
            **ticked.outputs,
            "emitted": ticked.present,
            "pending": ticked.pending,
            **{f"next_{name}": x for name, x in state.items()},
        }

    def refusal(self, suffix: str, error: Exception) -> ValueError:
        """An error that names an operation which a format cannot hold."""
        graph = self.function.get_concrete_function().graph
        names = [x.name for x in graph.get_operations()]
        text = str(error)
        named = sorted((x for x in names if "/" in x and x in text), key=len)
        if len(text) > 3000:
            text = f"{text[:1000]}\n...\n{text[-2000:]}"
        return ValueError(
            "Argument `model` must have operations that "
            f"{_FORMATS[suffix][0]} can hold, in float32; no file was written. "
            f"Received: operations {named[-3:]}, with {text}"
        )


def _write_lite_rt(step: Step, file: pathlib.Path, quantize: bool) -> None:
    saved = file.with_name("saved")
    archive = keras.export.ExportArchive()
    archive.track(step.stream.program.model)
    archive.add_endpoint("step", step.function)
    archive.write_out(str(saved), verbose=False)
    converter = tf.lite.TFLiteConverter.from_saved_model(
        str(saved), signature_keys=["step"]
    )
    if quantize:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    file.write_bytes(converter.convert())


def _write_onnx(step: Step, file: pathlib.Path, quantize: bool) -> None:
    import tf2onnx

    written = file.with_name("float.onnx")
    tf2onnx.convert.from_function(
        step.function,
        input_signature=[step.specs],
        opset=_OPSET,
        custom_op_handlers={"SelectV2": (_select, [])},
        output_path=str(written),
    )
    if quantize:
        quantize_onnx(written, file)
    else:
        written.replace(file)


def _select(graph: Any, node: Any, name: str, arguments: Any) -> None:
    """Selects by `Where`, which has no booleans in ONNX Runtime.

    tf2onnx multiplies by 0 and 1, so that NaN of what is not selected stays.
    """
    from onnx import TensorProto
    from tf2onnx.onnx_opset.controlflow import Select

    if graph.get_dtype(node.output[0]) == TensorProto.BOOL:
        Select.version_7(graph, node)
    else:
        node.type = "Where"


def quantize_onnx(source: pathlib.Path, target: pathlib.Path) -> None:
    """Writes an ONNX file with weights of 8 bits."""
    from onnxruntime import quantization

    # Signed weights overflow on CPUs with AVX2 alone.
    unsigned = quantization.QuantType.QUInt8
    quantization.quantize_dynamic(source, target, weight_type=unsigned)


def _batches(
    arrays: Mapping[str, np.ndarray], batch_size: int | None
) -> list[Arrays]:
    """Examples in batches of one size, with the first ones repeated."""
    shapes = {name: x.shape for name, x in arrays.items()}
    count, *others = {shape[0] for shape in shapes.values()}
    if others:
        raise ValueError(
            "Argument `example_inputs` must hold as many examples of each "
            f"input. Received: example_inputs of shapes {shapes}"
        )
    size = batch_size or count
    rows = np.resize(np.arange(count), (-(-count // size), size))
    return [{name: x[part] for name, x in arrays.items()} for part in rows]


def _check_names(stream: StreamingModel) -> None:
    """Refuses strings, and names that a step has for something else."""
    for name, spec in stream.specs.items():
        if spec.dtype == tf.string:
            raise ValueError(
                "Argument `model` must have inputs of numbers, to run without "
                f"TensorFlow. Received: keras.Input(name={name!r}) of strings"
            )
    # LiteRT does not tell capital letters.
    names = [x.lower() for x in (*stream.specs, *stream.outputs)]
    for name in names:
        taken = name in ("present", "end", "emitted", "pending")
        if taken or name.startswith("next_state") or names.count(name) > 1:
            raise ValueError(
                "Argument `model` must have inputs and outputs whose names "
                "differ in more than capitals, none of them `present`, `end`, "
                "`emitted` or `pending`, nor with `next_state` before. "
                f"Received: name={name!r}"
            )


def _check_path(path: Any) -> pathlib.Path:
    is_path = isinstance(path, (str, os.PathLike)) and "://" not in str(path)
    suffix = pathlib.Path(path).suffix if is_path else ""
    if suffix not in _FORMATS or pathlib.Path(path).is_dir():
        raise ValueError(
            "Argument `path` must be of a local file that ends in `.tflite`, "
            f"for LiteRT, or `.onnx`. Received: path={path!r}"
        )
    name, packages = _FORMATS[suffix]
    if None in map(find_spec, packages):
        raise ImportError(
            f"A step in {name} needs `pip install '.[formats]'` in the "
            "checkout of keras_seqmech."
        )
    return pathlib.Path(path)
