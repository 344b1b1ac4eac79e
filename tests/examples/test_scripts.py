"""The scripts that a user copies; tests of the tutorials run the others."""

import runpy

import pytest

from tests import ROOT

SCRIPTS = ["read_ahead", "focus", "pool", "subsample", "beats"]


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_are_short_and_stand_alone(name):
    text = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf8")
    assert len(text.splitlines()) <= 60
    assert f"    python -m examples.{name}\n" in text
    for helper in ("from examples", "import examples"):
        assert helper not in text


@pytest.mark.long
def test_beats(capsys):
    """What is kept says more than all steps do."""
    runpy.run_module("examples.beats")
    right = {}
    for line in capsys.readouterr().out.splitlines():
        kind, _, share = line.partition(": ")
        right[kind] = float(share.removesuffix("% right"))
    assert right["subsample"] > max(93, right["mean and maximum"])
