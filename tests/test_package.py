"""The package as a whole: what it imports, says and promises."""

import ast
import doctest
import importlib
import inspect
import pkgutil
import re

import keras
import numpy as np
import pytest

import keras_seqmech
from tests import ROOT
from tests.processes import printed_by

PACKAGE = ROOT / "keras_seqmech"
SOURCES = sorted(PACKAGE.rglob("*.py"))
EXTRAS = ("tensorflow_text", "keras_tuner", "matplotlib", "pydot")
MECHANISMS = (
    "receptive_field",
    "focused",
    "subsample",
    "pooling",
    "initial_state",
    "keep_mask",
)
# All else stands above.
FLOORS = {
    **dict.fromkeys(("typing", "_keras_compat", "core"), 0),
    **dict.fromkeys(MECHANISMS, 1),
}

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
layer = keras_seqmech.ReceptiveFieldRNN(keras.layers.GRUCell(2), 2)
for training in (False, True):
    layer(keras.ops.ones((1, 3, 2)), training=training)
    print("tensorflow_probability" in sys.modules)
"""


@pytest.mark.long
def test_import_is_light_and_refuses_other_backends():
    error, *probability_is_loaded = printed_by("-c", IMPORT, timeout=120)
    assert "KERAS_BACKEND=tensorflow" in error
    assert "Received: backend='jax'" in error
    assert probability_is_loaded == ["False", "True"]


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


def test_imports_point_downward():
    """Nor from one mechanism to another, nor out of the package."""
    for path in SOURCES:
        own = path.relative_to(ROOT).with_suffix("").parts
        for module in imported_modules(path):
            other = [*module.split("."), ""]
            assert other[0] not in {"examples", "tests", "benchmarks"}, path
            if other[0] != "keras_seqmech" or own[1] == "__init__":
                continue
            assert floor_of(module) <= floor_of(".".join(own)), path
            if own[1] in MECHANISMS and other[1] in MECHANISMS:
                assert own[1] == other[1], path


def test_errors_say_what_they_received():
    errors = 0
    for path in SOURCES:
        text = path.read_text()
        for node in ast.walk(ast.parse(text)):
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


def has_examples(name: str) -> bool:
    """Whether there may be one: told from the text, nothing is imported."""
    path = PACKAGE.parent.joinpath(*name.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ">>> " in file.read_text(encoding="utf8")


@pytest.mark.parametrize(
    "name",
    [
        # Above the layers, examples train, search and export.
        pytest.param(
            name, marks=[pytest.mark.long] if floor_of(name) == 2 else []
        )
        for name in modules()
        if has_examples(name)
    ],
)
def test_docstring_examples(name):
    module = importlib.import_module(name)
    public = {n: getattr(keras_seqmech, n) for n in keras_seqmech.__all__}
    names = {**public, **vars(module), "keras": keras, "np": np}
    runner = doctest.DocTestRunner(
        optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    )
    for test in doctest.DocTestFinder().find(module, name, globs=names):
        runner.run(test)
    failed, attempted = runner.summarize(verbose=False)
    assert attempted and not failed


def test_the_citation_is_of_this_version():
    citation = ROOT.joinpath("CITATION.cff").read_text(encoding="utf8")
    assert f"\nversion: {keras_seqmech.__version__}\n" in citation


def test_public_layers_have_examples():
    for name in keras_seqmech.__all__:
        value = getattr(keras_seqmech, name)
        if inspect.isclass(value):
            assert ">>> " in value.__doc__, name


PRIVATE = re.compile("_[^_]")
HIDDEN = re.compile(
    r"keras\.src|tensorflow\.python|tf\.python|__class__ = "
    r"|object\.__(?:new|setattr)__|(?:get|set|has)attr\([^,]+,\s*\"_[^_]"
)


def private_in_bases(path) -> set:
    """Private names that the classes of a file inherit from other packages."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    module = importlib.import_module(".".join(parts))
    bases = {
        base
        for value in vars(module).values()
        if inspect.isclass(value) and value.__module__ == module.__name__
        for base in value.__mro__
        if not base.__module__.startswith("keras_seqmech")
    }
    names = {name for base in bases for name in vars(base)}
    if keras.layers.Layer in bases:
        names |= vars(keras.Model()).keys()
    return {name for name in names if PRIVATE.match(name)}


def private_names(path):
    """What a file takes that its owner does not offer.

    A name that the file itself gives to an attribute, a method or a class is
    its own, unless its bases have it as well.
    """
    text, inherited = path.read_text(), private_in_bases(path)
    yield from (match.group() for match in HIDDEN.finditer(text))
    used, own = set(), {"_fields", "_replace", "_asdict", "_make"}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            own.add(node.name)
            if node.col_offset:  # A method.
                used.add(node.name)
        elif isinstance(node, ast.Attribute) and PRIVATE.match(node.attr):
            used.add(node.attr)
            if isinstance(node.ctx, ast.Store):
                if ast.unparse(node.value) in ("self", "cls"):
                    own.add(node.attr)
    yield from used - own
    yield from used & inherited


def test_private_names_are_in_one_file():
    """Of Keras, TensorFlow and others; `_keras_compat.py` says why."""
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in SOURCES
        if path.name != "_keras_compat.py"
        for name in private_names(path)
    ]
    assert not found, "\n".join(found)
