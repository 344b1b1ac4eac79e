"""The package as a whole: what it imports, says and promises."""

import ast
import doctest
import importlib
import inspect
import os
import pkgutil
import subprocess
import sys

import keras
import numpy as np
import pytest

import keras_seqmech
from tests import ROOT

PACKAGE = ROOT / "keras_seqmech"
SOURCES = sorted(PACKAGE.rglob("*.py"))
EXTRAS = ("tensorflow_text", "keras_tuner", "matplotlib")
# Below all: `typing`, `_keras_compat`. All else stands above.
FLOORS = {"typing": 0, "_keras_compat": 0, "ops": 0, "layers": 1}

# With the extras made unimportable: Keras itself takes matplotlib if it can.
IMPORT = f"""
import sys

sys.modules.update(dict.fromkeys({EXTRAS}))
import keras

backend, keras.backend.backend = keras.backend.backend, lambda: "jax"
try:
    import keras_seqmech
except ImportError as error:
    print(error)
keras.backend.backend = backend
import keras_seqmech
print("tensorflow_probability" in sys.modules)
"""


def test_import_is_light_and_refuses_other_backends():
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        [sys.executable, "-c", IMPORT],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    error, loads_probability = result.stdout.splitlines()
    assert "KERAS_BACKEND=tensorflow" in error
    assert "Received: backend='jax'" in error
    assert loads_probability == "False"


def imported_modules(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{a.name}" for a in node.names)


def floor_of(module: str) -> int:
    parts = module.removesuffix(".py").split(".")
    return FLOORS.get(parts[1] if len(parts) > 1 else "", 2)


@pytest.mark.parametrize("floor", [0, 1])
def test_imports_point_downward(floor):
    sources = [
        path
        for path in SOURCES
        if floor_of(".".join(path.relative_to(ROOT).parts)) == floor
    ]
    assert len(sources) > 1
    upward = [
        (path, module)
        for path in sources
        for module in imported_modules(path)
        if module.split(".")[0] == "keras_seqmech" and floor_of(module) > floor
    ]
    assert not upward


def test_examples_are_imported_by_nothing_in_the_package():
    outside = {"examples", "tests", "benchmarks"}
    for path in SOURCES:
        roots = {module.split(".")[0] for module in imported_modules(path)}
        assert not roots & outside, path


def test_no_assert_and_errors_say_what_they_received():
    errors = 0
    for path in SOURCES:
        text = path.read_text()
        for node in ast.walk(ast.parse(text)):
            assert not isinstance(node, ast.Assert), f"{path}:{node.lineno}"
            if isinstance(node, ast.Raise) and node.exc is not None:
                source = ast.get_source_segment(text, node.exc)
                private = path.name.startswith("_")
                if source.startswith("ValueError") and not private:
                    errors += 1
                    assert "Received: " in source, f"{path}:{node.lineno}"
    assert errors > 5


@pytest.mark.parametrize("name", keras_seqmech.__all__)
def test_public_names_are_documented(name):
    value = getattr(keras_seqmech, name)
    if name.startswith("__"):
        assert isinstance(value, str)
        return
    assert inspect.getdoc(value)
    if inspect.isclass(value):
        for method in {"__init__", "call"} & set(dir(value)):
            for parameter in inspect.signature(
                getattr(value, method)
            ).parameters:
                if parameter not in ("self", "kwargs", "args"):
                    assert f"    {parameter}: " in value.__doc__, parameter


def modules():
    for info in pkgutil.walk_packages([str(PACKAGE)], "keras_seqmech."):
        if not info.name.rpartition(".")[2].startswith("_"):
            yield info.name


@pytest.mark.parametrize("name", list(modules()))
def test_docstring_examples(name):
    module = importlib.import_module(name)
    public = {n: getattr(keras_seqmech, n) for n in keras_seqmech.__all__}
    names = {**public, **vars(module), "keras": keras, "np": np}
    runner = doctest.DocTestRunner(
        optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    )
    for test in doctest.DocTestFinder().find(module, name, globs=names):
        runner.run(test)
    assert runner.summarize(verbose=False).failed == 0


def test_public_layers_have_examples():
    for name in keras_seqmech.__all__:
        value = getattr(keras_seqmech, name)
        if inspect.isclass(value):
            assert ">>> " in value.__doc__, name
