"""Runs every public layer in every way and writes the table of what works.

    python -m benchmarks.support_table

From the project's directory, into `docs/support.md`, which says what cells
mean. Each is a run of one way to use a layer, from the registry of the tests,
with masks and a row without a real step, noise taken out. Needs
`pip install '.[formats]'`.
"""

import contextlib
import pathlib
import tempfile

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
from benchmarks import timing  # noqa: E402
from benchmarks.portable_formats import EIGHT_BITS  # noqa: E402
from benchmarks.portable_formats import FORMATS  # noqa: E402
from examples.common.tables import table  # noqa: E402
from keras_seqmech import serving  # noqa: E402
from tests.conformance import layer_models  # noqa: E402
from tests.conformance.registry import CORE  # noqa: E402
from tests.fixed_noise import silence  # noqa: E402
from tests.serving import export_tools  # noqa: E402

# One for all: TensorFlow mixes up what several of them reduce.
MIRRORED = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
# How to run, and what may differ from the eager run, absolutely.
TRAINED = {
    "eager": ({"run_eagerly": True}, 0.0),
    "graph": ({"jit_compile": False}, 1e-5),
    "XLA": ({"jit_compile": True}, 1e-5),
    "mixed_float16": ({"policy": "mixed_float16"}, 1e-2),
    "mixed_bfloat16": ({"policy": "mixed_bfloat16"}, 5e-2),
    "float64": ({"policy": "float64"}, 1e-5),
    "MirroredStrategy": ({"strategy": MIRRORED}, 1e-5),
}
EXPORTED = {
    "SavedModel": 1e-6,
    "C loader": 1e-6,
    **dict.fromkeys(FORMATS, 1e-5),
    **dict.fromkeys(EIGHT_BITS, 0.1),
}
PORTABLE = {**FORMATS, **EIGHT_BITS}
TOLERANCES = {**{name: t for name, (_, t) in TRAINED.items()}, **EXPORTED}
PAGE = pathlib.Path("docs/support.md")


def main():
    """Runs every layer; replaces all of the page from its table on."""
    silence(pytest.MonkeyPatch())
    # One way to use each layer, of several in the core the last: it shows what
    # portable formats do with the default of `ExpectedSubsample`, too.
    entries = {entry.layer_class.__name__: entry for entry in CORE}
    lines: list[list] = [["", *TOLERANCES]]
    lines.append(["tolerance", *(f"{t:g}" for t in TOLERANCES.values())])
    notes = []
    for layer, entry in entries.items():
        marks = []
        for column, cell in run_row(entry).items():
            if "failed" in cell:
                notes.append(f"{layer}, {column}: {cell['failed']}")
            marks.append(f"✗ ({len(notes)})" if "failed" in cell else "✓")
        lines.append([f"`{layer}`", *marks])
    ways = ", ".join(f"`{entry.id}`" for entry in entries.values())
    parts = [
        PAGE.read_text(encoding="utf8").partition("\n\n|")[0],
        table(lines),
        *(f"{i}. {note}" for i, note in enumerate(notes, 1)),
        f"keras_seqmech {keras_seqmech.__version__}, {timing.environment()}. "
        f"How each was used, by name in the tests' registry: {ways}.",
    ]
    PAGE.write_text("\n\n".join(parts) + "\n", encoding="utf8")


def run_row(entry):
    """Runs a layer in every way: the largest differences, or what failed."""
    cells = {}
    model, expected = train(entry, run_eagerly=True)
    for column, tolerance in TOLERANCES.items():
        try:
            if column in TRAINED:
                _, found = train(entry, expected["start"], **TRAINED[column][0])
                cell = compare(found, expected)
            else:
                keras.config.set_floatx("float32")
                keras.config.set_dtype_policy("float32")
                cell = {"outputs": export(column, model, entry)}
            for kind, value in list(cell.items()):
                # Not so for NaN either.
                if not value <= tolerance:
                    cell["failed"] = f"{kind} differ by {value:.1e}"
        except Exception as error:  # What fails is what the table is about.
            cell = {"failed": reason(error)}
        cells[column] = cell
        print(entry.layer_class.__name__, column, cell, flush=True)
    return cells


def reason(error):
    """What is wrong, in a line; converters write first where it is."""
    first, *_ = str(error).strip().splitlines() or [""]
    *_, last = first.split("]))): ")
    return f"{type(error).__name__}: {last.split('. ')[0]}"


def train(entry, start=None, policy="float32", strategy=None, **options):
    """A model after one step, and what to compare: outputs and weights."""
    keras.utils.clear_session(free_memory=False)
    keras.utils.set_random_seed(0)
    keras.config.set_dtype_policy(policy)
    # Keras adds losses up in this; weight decay of float64 fails in float32.
    keras.config.set_floatx("float64" if policy == "float64" else "float32")
    with strategy.scope() if strategy else contextlib.nullcontext():
        model = layer_models.make_model(entry)
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
    inputs, outputs = predict(model, entry)
    targets = {name: np.ones_like(x) for name, x in outputs.items()}
    data = tf.data.Dataset.from_tensor_slices((inputs, targets))
    model.fit(data.batch(len(layer_models.MASK)), verbose=0)
    weights = {i: v.numpy() for i, v in enumerate(trained)}
    found = {"start": start, "before": before, "outputs": outputs}
    return model, {**found, "weights": weights}


def predict(model, entry):
    """A batch for the model of an entry, and its outputs."""
    inputs = layer_models.sample(entry)
    size = len(layer_models.MASK)
    return inputs, model.predict(inputs, batch_size=size, verbose=0)


def compare(found, expected):
    """The largest differences of outputs and of weights after a step."""
    pairs = zip(found["before"], found["weights"].values())
    if not any((a != b).any() for a, b in pairs):
        raise ValueError("no weight moved in training")
    return {
        kind: difference(found[kind], expected[kind])
        for kind in ("outputs", "weights")
    }


def difference(found, expected):
    if found.keys() != expected.keys():
        raise ValueError(f"found {sorted(found)}, not {sorted(expected)}")
    return max(
        float(np.max(np.abs(np.asarray(x, "float64") - expected[name])))
        for name, x in found.items()
    )


def export(column, model, entry):
    """Exports the trained model; its answers' difference from eager ones."""
    inputs, expected = predict(model, entry)
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "model"
        if column in PORTABLE:
            serving.use_padded_loops(model)
            outputs = PORTABLE[column](model, inputs, path)
            return difference(outputs, expected)
        model.export(path, verbose=False)
        if column == "SavedModel":
            outputs = export_tools.answer_here(path, inputs)["serving_default"]
        else:
            conversation = export_tools.Conversation()
            conversation.load(path)
            conversation.ask(inputs)
            program = export_tools.compile_loader(path.parent)
            (outputs,) = conversation.run(program)
        return difference(outputs, expected)


if __name__ == "__main__":
    main()
