"""Runs every public layer in every way and writes a table of what works.

    python -m benchmarks.support_table

From the project's directory. Each cell is a real run of one way to use a
layer, from the registry of the tests: `predict` and a step of `fit` (SGD) of a
small model, with masks and a row without a real step, noise taken out;
outputs, decisions and new weights are compared with those of the eager run in
float32. The columns of exports run only inference, of the trained model; those
of LiteRT and ONNX, which need `pip install '.[formats]'`, for one batch size
and length.
"""

import contextlib
import functools
import pathlib
import platform
import tempfile
import time
from typing import Any

import tensorflow as tf

# Before anything else uses TensorFlow.
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * 2,
)

import keras  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402

import keras_seqmech  # noqa: E402
from benchmarks.portable_formats import EIGHT_BITS  # noqa: E402
from benchmarks.portable_formats import FORMATS  # noqa: E402
from keras_seqmech import serving  # noqa: E402
from tests.conformance.layer_models import MASK  # noqa: E402
from tests.conformance.layer_models import make_model  # noqa: E402
from tests.conformance.layer_models import sample  # noqa: E402
from tests.conformance.registry import CORE  # noqa: E402
from tests.fixed_noise import silence  # noqa: E402
from tests.serving.export_tools import Conversation  # noqa: E402
from tests.serving.export_tools import answer_here  # noqa: E402
from tests.serving.export_tools import compile_loader  # noqa: E402

# How to run, and what may differ from the eager run, absolutely.
TRAINED = {
    "eager": ({"run_eagerly": True}, 0.0),
    "graph": ({"jit_compile": False}, 1e-5),
    "XLA": ({"jit_compile": True}, 1e-5),
    "mixed_float16": ({"policy": "mixed_float16"}, 1e-2),
    "mixed_bfloat16": ({"policy": "mixed_bfloat16"}, 5e-2),
    "float64": ({"policy": "float64"}, 1e-5),
    "MirroredStrategy": ({"devices": ["CPU:0", "CPU:1"]}, 1e-5),
}
EXPORTED = {
    "SavedModel": 1e-6,
    "C loader": 1e-6,
    **dict.fromkeys(FORMATS, 1e-5),
    **dict.fromkeys(EIGHT_BITS, 0.1),
}
PORTABLE = {**FORMATS, **EIGHT_BITS}
TOLERANCES = {**{name: t for name, (_, t) in TRAINED.items()}, **EXPORTED}
Cell = dict[str, Any]
PAGE = pathlib.Path("docs/support.md")
VERSIONS = (
    f"keras_seqmech {keras_seqmech.__version__}, Keras {keras.__version__}, "
    f"TensorFlow {tf.__version__} and Python {platform.python_version()}"
)


def main() -> None:
    """Runs what is missing, and writes the table."""
    silence(pytest.MonkeyPatch())
    # One way to use each layer, of several in the core the last: it shows what
    # portable formats do with the default of `ExpectedSubsample`, too.
    entries = {type(entry.make()).__name__: entry for entry in CORE}
    cells = {layer: run_row(layer, entries[layer]) for layer in entries}
    PAGE.write_text(table(entries, cells), encoding="utf8")
    print(PAGE)


def run_row(layer: str, entry) -> dict[str, Cell]:
    """Runs a layer in every way."""
    cells = {}
    model, expected = train(entry, run_eagerly=True)
    for column in TOLERANCES:
        start = time.perf_counter()
        try:
            if column in TRAINED:
                _, found = train(entry, expected["start"], **TRAINED[column][0])
                cell = compare(found, expected, TOLERANCES[column])
            else:
                keras.config.set_floatx("float32")
                keras.config.set_dtype_policy("float32")
                cell = export(column, model, entry)
        except Exception as error:  # What fails is what the table is about.
            cell = {"failed": reason(error)}
        seconds = time.perf_counter() - start
        cells[column] = cell
        print(f"{layer} {column}: {cell} ({seconds:.1f} s)", flush=True)
    return cells


def reason(error: Exception) -> str:
    """What is wrong, in a line; converters write first where it is."""
    first, *_ = str(error).strip().splitlines() or [""]
    *_, last = first.split("]))): ")
    return f"{type(error).__name__}: {last.split('. ')[0]}"


@functools.cache
def mirrored(devices: tuple) -> tf.distribute.Strategy:
    """One for all: TensorFlow mixes up what several of them reduce."""
    return tf.distribute.MirroredStrategy(devices)


def train(entry, start=None, policy="float32", devices=None, **options):
    """A model after one step, and what to compare: outputs and weights."""
    keras.utils.clear_session(free_memory=False)
    keras.utils.set_random_seed(0)
    keras.config.set_dtype_policy(policy)
    # Keras adds losses up in this; weight decay of float64 fails in float32.
    keras.config.set_floatx("float64" if policy == "float64" else "float32")
    scope = contextlib.nullcontext()
    if devices:
        scope = mirrored(tuple(devices)).scope()
    with scope:
        model = make_model(entry)
        # A float32 run to compare with has no scaled loss either.
        model.compile(
            keras.optimizers.SGD(0.1), "mse", auto_scale_loss=False, **options
        )
    if start is not None:
        model.set_weights(start)
    start = model.get_weights()
    # Without the moving average of policy gradient, which is of a device.
    trained = model.trainable_variables
    before = [variable.numpy() for variable in trained]
    inputs = sample(entry)
    outputs = model.predict(inputs, batch_size=len(MASK), verbose=0)
    targets = {name: np.ones_like(x) for name, x in outputs.items()}
    data = tf.data.Dataset.from_tensor_slices((inputs, targets))
    model.fit(data.batch(len(MASK)), verbose=0)
    return model, {
        "start": start,
        "before": before,
        "outputs": outputs,
        "weights": {i: v.numpy() for i, v in enumerate(trained)},
    }


def compare(found: dict, expected: dict, tolerance: float) -> dict:
    """The largest differences; failed if beyond the tolerance."""
    moved = any(
        (a != b).any()
        for a, b in zip(found["before"], found["weights"].values())
    )
    if not moved:
        return {"failed": "no weight moved in training"}
    cell = {}
    for kind in ("outputs", "weights"):
        cell[kind] = difference(found[kind], expected[kind])
        # Not so for NaN either.
        if not cell[kind] <= tolerance:
            cell["failed"] = f"{kind} differ by {cell[kind]:.1e}"
    return cell


def difference(found: dict, expected: dict) -> float:
    if found.keys() != expected.keys():
        raise ValueError(f"found {sorted(found)}, not {sorted(expected)}")
    return max(
        float(np.max(np.abs(np.asarray(x, "float64") - expected[name])))
        for name, x in found.items()
    )


def export(column: str, model, entry) -> dict:
    """Exports the trained model; compares its answers with eager ones."""
    inputs = sample(entry)
    expected = model.predict(inputs, batch_size=len(MASK), verbose=0)
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "model"
        if column in PORTABLE:
            serving.use_padded_loops(model)
            outputs = PORTABLE[column](model, inputs, path)
            return check_outputs(column, outputs, expected)
        model.export(path, verbose=False)
        if column == "SavedModel":
            outputs = answer_here(path, inputs)["serving_default"]
        else:
            conversation = Conversation()
            conversation.load(path)
            conversation.ask(inputs)
            program = compile_loader(pathlib.Path(directory))
            (outputs,) = conversation.run(program)
    return check_outputs(column, outputs, expected)


def check_outputs(column: str, outputs: dict, expected: dict) -> dict:
    """The largest difference; failed if beyond the tolerance."""
    cell = {"outputs": difference(outputs, expected)}
    if not cell["outputs"] <= TOLERANCES[column]:
        cell["failed"] = f"outputs differ by {cell['outputs']:.1e}"
    return cell


def table(entries: dict, cells: dict[str, dict[str, Cell]]) -> str:
    """The page: a row a layer, a column a way, reasons below."""
    lines = [
        "# What works with what",
        "",
        f"Made by `python -m benchmarks.support_table` with {VERSIONS} on CPU. "
        "Each cell is a run of a small model with the layer: it predicts and "
        "trains a step, without noise. ✓: outputs, decisions and new weights "
        "are those of an eager run in float32, up to the column's absolute "
        "tolerance. Exports only predict, with the trained model. "
        "`MirroredStrategy` has two logical CPU devices, and is compared with "
        "one device that gets the whole batch. LiteRT (without and with ops of "
        "TensorFlow) and ONNX are written by Keras' `model.export` for one "
        "batch size and length, after `serving.use_padded_loops`, and "
        "run by their own runtimes. With 8 bits, the libraries' own "
        "quantization stores weights so. LiteRT's full-integer quantization "
        "is no column: its converter ends the process, with an `RFCell`.",
        "",
        f"| | {' | '.join(TOLERANCES)} |",
        f"|---|{':-:|' * len(TOLERANCES)}",
        "| tolerance | "
        + " | ".join(f"{t:g}" if t else "-" for t in TOLERANCES.values())
        + " |",
    ]
    notes = []
    for layer in entries:
        marks = []
        for column in TOLERANCES:
            cell, mark = cells[layer][column], "✓"
            if "failed" in cell:
                notes.append(f"{layer}, {column}: {cell['failed']}")
                mark = f"✗ ({len(notes)})"
            marks.append(mark)
        lines.append(f"| `{layer}` | {' | '.join(marks)} |")
    lines.append("")
    lines += [f"{i}. {note}" for i, note in enumerate(notes, 1)]
    ways = ", ".join(f"`{entry.id}`" for entry in entries.values())
    lines += [
        *([""] if notes else []),
        f"How each was used, by name in the tests' registry: {ways}.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
