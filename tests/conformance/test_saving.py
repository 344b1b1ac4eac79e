"""What one process saves, another loads."""

import json
import pathlib

import keras
import numpy as np
import pytest

from saved_models.make_golden import example
from tests import ROOT
from tests.conformance.registry import ENTRIES
from tests.conformance.registry import FACTS
from tests.conformance.registry import LAYERS
from tests.conformance.registry import TIME
from tests.processes import printed_by

pytestmark = pytest.mark.long

GOLDEN = ROOT / "saved_models"

# Runs exports with TensorFlow alone, then loads files: one without the package,
# which Keras is to refuse, and all with it.
FRESH = """
import json, pathlib, runpy, sys
import numpy as np
import tensorflow as tf

golden, saved = map(pathlib.Path, sys.argv[1:])
for path in saved.glob("*/example.npz"):
    with np.load(path) as file:
        arrays = dict(file)
    serve = tf.saved_model.load(path.parent).signatures["serving_default"]
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
    print(json.dumps({"served": path.parent.name}))
import keras
try:
    keras.saving.load_model(golden / "KeepMask-lstm.keras")
except TypeError as error:
    print(json.dumps({"refused": str(error)}))
assert "keras_seqmech" not in sys.modules
runpy.run_path(golden / "check_golden.py", run_name="__main__")
"""


def is_serialized_by_package(entry) -> bool:
    """Whether a process without the tests can load it."""
    return "DecayCell" not in json.dumps(entry.make().get_config())


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(LAYERS, id="layers"),
        pytest.param(
            [entry for entry in ENTRIES if entry not in LAYERS],
            id="others",
            marks=pytest.mark.slow,
        ),
    ],
)
def fresh_process(request, tmp_path_factory):
    """Entries whose files and exports a new process loads; what it found."""
    entries = list(filter(is_serialized_by_package, request.param))
    directory = tmp_path_factory.mktemp("saved")
    for entry in entries:
        model, arrays = example(entry)
        model.save(directory / f"{entry.id}.keras")
        np.savez(directory / f"{entry.id}.npz", **arrays)
        if entry.core:  # Other ways share their graphs' operations.
            model.export(directory / entry.id, verbose=False)
            np.savez(directory / entry.id / "example.npz", **arrays)
    printed = printed_by(
        "-c", FRESH, GOLDEN, directory, TF_CPP_MIN_LOG_LEVEL="3"
    )
    return entries, [json.loads(line) for line in printed]


def test_old_and_new_files_load(fresh_process):
    entries, found = fresh_process
    results = {r["path"]: r for r in found if "path" in r}
    golden = [path for path in results if pathlib.Path(path).parent == GOLDEN]
    assert len(golden) == sum(entry.golden for entry in ENTRIES)
    assert len(results) == len(golden) + len(entries)
    for result in results.values():
        assert result["differences"]
        assert max(result["differences"].values()) < 1e-5, result
        for value in result["temperatures"]:
            assert value == np.float32(0.37)


def test_exports_are_served_without_the_package(fresh_process):
    entries, found = fresh_process
    served = {result["served"] for result in found if "served" in result}
    assert served == {entry.id for entry in entries if entry.core}


def test_a_file_loads_after_the_import(fresh_process):
    """Where Keras begins to import what a file names, the docs can say so."""
    _, found = fresh_process
    (error,) = (result["refused"] for result in found if "refused" in result)
    assert "Could not locate class 'KeepMask'" in error
    assert "'registered_name': 'keras_seqmech>KeepMask'" in error
    assert any("KeepMask-lstm" in result.get("path", "") for result in found)


def test_every_public_layer_has_small_golden_files():
    golden = [entry for entry in ENTRIES if entry.golden]
    assert {entry.layer_class for entry in golden} == set(FACTS)
    versions = json.loads((GOLDEN / "versions.json").read_text())
    for entry in golden:
        assert (GOLDEN / f"{entry.id}.keras").stat().st_size < 100_000
        assert (GOLDEN / f"{entry.id}.npz").stat().st_size < 100_000
        assert set(versions[entry.id]) >= {"keras", "tensorflow", "numpy"}


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
