"""Tutorials and the pages of the API, checked without building the site."""

import ast
import importlib
import inspect
import re

import pytest

import keras_seqmech
from keras_seqmech import analysis
from keras_seqmech import migration
from keras_seqmech import serving
from keras_seqmech import testing
from keras_seqmech import training
from keras_seqmech.analysis import plots
from tests import ROOT
from tests.conformance.registry import CORE

TUTORIALS = sorted(ROOT.glob("docs/tutorials/*.md"))
CELL = re.compile(
    r"```\{code-cell\} python\n((?::\w+:[^\n]*\n)*)(.*?)```", re.DOTALL
)


def code_of(path) -> ast.Module:
    cells = CELL.findall(path.read_text(encoding="utf8"))
    assert cells
    return ast.parse("\n".join(code for _, code in cells))


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_what_tutorials_say_is_asserted(path):
    """Sentences about results hold in each build, or it fails."""
    assert any(isinstance(node, ast.Assert) for node in ast.walk(code_of(path)))


def listed() -> set[str]:
    """Names that the page of the API leads to, with their modules."""
    page = ROOT.joinpath("docs/api.md").read_text(encoding="utf8")
    return {
        f"{module}.{name}"
        for module, names in re.findall(
            r"currentmodule:: (\S+)\n.*?:nosignatures:\n\n(.*?)```",
            page,
            re.DOTALL,
        )
        for name in names.split()
    }


def test_the_api_is_listed():
    found = listed()
    for path in found:
        module, _, name = path.rpartition(".")
        value = getattr(importlib.import_module(module), name)
        assert inspect.getdoc(value), path
    documented = {path.rpartition(".")[2] for path in found}
    modules = (keras_seqmech, analysis, migration, plots, serving, testing)
    for module in (*modules, training):
        public = set(module.__all__) - {"__version__"}
        assert public <= documented, module.__name__
    tuning = ROOT.joinpath("keras_seqmech/tuning.py").read_text()
    assert set(re.findall(r'^    "(\w+)",$', tuning, re.M)) <= documented


def test_the_contents_lead_to_all_pages():
    contents = ROOT.joinpath("docs/contents.txt").read_text()
    pages = {
        path.relative_to(ROOT).with_suffix("").as_posix()
        for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))
    }
    listed_pages = {
        line for line in contents.splitlines() if re.fullmatch(r"[\w/]+", line)
    }
    assert listed_pages == pages - {"README"} | {"examples/README"}


@pytest.mark.parametrize(
    "formula, parts",
    [
        ("a = b, \\quad c = d,\n \\qquad e", ["a = b,", "c = d,", "e"]),
        (r"\frac{a \quad b}{c}", [r"\frac{a \quad b}{c}"]),
        (
            r"\begin{cases} a \quad b \end{cases}",
            [r"\begin{cases} a \quad b \end{cases}"],
        ),
    ],
)
def test_formulas_of_a_line_can_wrap(monkeypatch, formula, parts):
    """Each part is drawn on its own, so it has to be a whole formula."""
    pytest.importorskip("sphinx", reason="needs keras_seqmech[docs]")
    pytest.importorskip("latex2mathml", reason="needs keras_seqmech[docs]")
    monkeypatch.syspath_prepend(ROOT / "docs" / "extensions")
    assert importlib.import_module("mathml").parts(formula) == parts


def test_the_support_table_has_every_layer():
    page = ROOT.joinpath("docs/support.md").read_text(encoding="utf8")
    rows = re.findall(r"^\| `(\w+)`", page, re.MULTILINE)
    assert rows == list(dict.fromkeys(x.layer_class.__name__ for x in CORE))
