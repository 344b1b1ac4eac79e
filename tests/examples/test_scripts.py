"""The scripts that a user copies; tests of the tutorials run the others."""

import re
import runpy
import subprocess
import sys

import numpy as np
import pytest

from tests import ROOT

SCRIPTS = ["read_ahead", "focus", "skip", "pool", "subsample", "beats"]
SCRIPTS += ["answer_early"]


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_are_short_and_stand_alone(name):
    text = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf8")
    assert len(text.splitlines()) <= 60
    assert f"    python -m examples.{name}\n" in text
    for helper in ("from examples", "import examples"):
        assert helper not in text


@pytest.mark.long
def test_a_gate_before_a_costly_layer_is_learned():
    command = [sys.executable, "-m", "examples.skip"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    found = re.findall(r"(\w+): ([\d.]+) % right, [\d.]+ ms", done.stdout)
    assert [kind for kind, _ in found] == ["all", "gate"]
    assert all(float(right) > 97 for _, right in found)


@pytest.mark.long
def test_beats(capsys):
    """Decisions are learned, far from the half that chance has."""
    runpy.run_module("examples.beats")
    right = {}
    for line in capsys.readouterr().out.splitlines():
        kind, _, share = line.partition(": ")
        right[kind] = float(share.removesuffix("% right"))
    assert [*right] == ["mean and maximum", "GRU", "subsample"]
    assert right["subsample"] > 80


@pytest.mark.long
def test_early_answers(capsys):
    """They are right more often than at as many steps for all."""
    runpy.run_module("examples.answer_early")
    out = capsys.readouterr().out
    fixed = dict(re.findall(r"after (\d+) steps: ([\d.]+)% right", out))
    given = re.findall(r"(\w+) [\d.]+: ([\d.]+)% at ([\d.]+) steps", out)
    assert {kind for kind, _, _ in given} == {"confidence", "price"}
    steps, right = ([float(x) for x in xs] for xs in zip(*fixed.items()))
    for _, accuracy, size in given:
        assert float(accuracy) > np.interp(float(size), steps, right)
