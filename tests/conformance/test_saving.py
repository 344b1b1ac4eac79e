"""What one process saves, another loads."""

import json
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest

from tests import ROOT
from tests.conformance.registry import ENTRIES
from tests.conformance.registry import FACTS
from tests.conformance.registry import TIME

pytestmark = pytest.mark.long

GOLDEN = ROOT / "saved_models"

# Loads SavedModels with TensorFlow alone.
SERVE = """
import pathlib, sys
import numpy as np
import tensorflow as tf
from tests import ROOT

for directory in sorted(pathlib.Path(sys.argv[1]).iterdir()):
    with np.load(directory / "example.npz") as file:
        arrays = dict(file)
    serve = tf.saved_model.load(directory).signatures["serving_default"]
    outputs = serve(**{
        name.removeprefix("input/"): tf.constant(x)
        for name, x in arrays.items() if name.startswith("input/")
    })
    expected = {n: x for n, x in arrays.items() if n.startswith("output/")}
    assert set(expected) == {f"output/{name}" for name in outputs}
    for name, value in outputs.items():
        np.testing.assert_allclose(
            value, expected[f"output/{name}"], rtol=1e-5, atol=1e-6
        )
    print(directory.name)
assert "keras_seqmech" not in sys.modules
"""


# What the docs promise of a file without the import, and with it.
IMPORT = """
import sys
import keras

try:
    keras.saving.load_model(sys.argv[1])
except TypeError as error:
    print(error)
assert "keras_seqmech" not in sys.modules
import keras_seqmech
print(type(keras.saving.load_model(sys.argv[1])).__name__)
"""


def run(*arguments) -> str:
    """Runs Python in a new process; returns what it printed."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    result = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout


def example(entry) -> tuple[keras.Model, dict]:
    """A model of an entry, and named arrays: inputs, masks and outputs."""
    model = entry.model()
    for variable in model.weights:
        if variable.name == "temperature":
            variable.assign(0.62)
    inputs = entry.sample(batch_size=3)
    mask = np.arange(TIME) < np.array([[7], [4], [0]])
    inputs.update(dict.fromkeys(entry.masks, mask))
    outputs = model.predict_on_batch(inputs)
    return model, {
        **{f"input/{name}": x for name, x in inputs.items()},
        **{f"output/{name}": x for name, x in outputs.items()},
    }


def is_serialized_by_package(entry) -> bool:
    """Whether a process without the tests can load it."""
    return "DecayCell" not in json.dumps(entry.make().get_config())


@pytest.fixture(scope="module")
def fresh_process(tmp_path_factory) -> dict:
    """What a new process finds in old and in new files, by path."""
    directory = tmp_path_factory.mktemp("saved")
    for entry in filter(is_serialized_by_package, ENTRIES):
        model, arrays = example(entry)
        model.save(directory / f"{entry.id}.keras")
        np.savez(directory / f"{entry.id}.npz", **arrays)
    lines = run(GOLDEN / "check_golden.py", GOLDEN, directory).splitlines()
    return {r["path"]: r for r in map(json.loads, lines)}


@pytest.mark.parametrize("temperature, golden", [(0.37, True), (0.62, False)])
def test_files_load_in_a_fresh_process(fresh_process, temperature, golden):
    results = [
        result
        for path, result in fresh_process.items()
        if (pathlib.Path(path).parent == GOLDEN) == golden
    ]
    assert len(results) == sum(
        entry.golden if golden else is_serialized_by_package(entry)
        for entry in ENTRIES
    )
    for result in results:
        differences = result["differences"]
        assert differences
        assert max(differences.values()) < 1e-5, result
        for value in result["temperatures"]:
            assert value == np.float32(temperature)


def test_every_public_layer_has_small_golden_files():
    golden = [entry for entry in ENTRIES if entry.golden]
    assert {entry.layer_class for entry in golden} == set(FACTS)
    versions = json.loads((GOLDEN / "versions.json").read_text())
    for entry in golden:
        assert (GOLDEN / f"{entry.id}.keras").stat().st_size < 100_000
        assert (GOLDEN / f"{entry.id}.npz").stat().st_size < 100_000
        assert set(versions[entry.id]) >= {"keras", "tensorflow", "numpy"}


def test_exports_are_served_without_the_package(tmp_path):
    """One way and more to use each layer; other ways share its graph's ops."""
    entries = [entry for entry in ENTRIES if entry.core]
    for entry in entries:
        model, arrays = example(entry)
        model.export(tmp_path / entry.id, verbose=False)
        np.savez(tmp_path / entry.id / "example.npz", **arrays)
    served = run("-c", SERVE, tmp_path).split()
    assert served == sorted(entry.id for entry in entries)


def test_seed_count_starts_again():
    """Keras keeps a layer's seed, not how often it was drawn from."""
    entry = next(e for e in ENTRIES if e.draws and not e.is_cell)
    model = entry.model(seed=7)
    inputs = {**entry.sample(), "mask": np.ones((5, TIME), "bool")}
    first = model(inputs, training=True)["output_0"].numpy()
    second = model(inputs, training=True)["output_0"].numpy()
    loaded = keras.Model.from_config(model.get_config())
    loaded.set_weights(model.get_weights())
    again = loaded(inputs, training=True)["output_0"].numpy()
    assert (first != second).any()
    np.testing.assert_array_equal(first, again)


def test_a_file_loads_after_the_import():
    """Where Keras begins to import what a file names, the docs can say so."""
    *error, loaded = run(
        "-c", IMPORT, GOLDEN / "KeepMask-lstm.keras"
    ).splitlines()
    assert loaded == "Functional"
    assert "Could not locate class 'KeepMask'" in "".join(error)
    assert "'registered_name': 'keras_seqmech>KeepMask'" in "".join(error)
