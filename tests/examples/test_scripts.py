"""The scripts that a user copies; tests of the tutorials run them."""

import pytest

from tests import ROOT


@pytest.mark.parametrize("name", ["read_ahead", "focus", "pool", "subsample"])
def test_scripts_are_short_and_stand_alone(name):
    text = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf8")
    assert len(text.splitlines()) <= 60
    assert f"    python -m examples.{name}\n" in text
    for helper in ("from examples", "import examples"):
        assert helper not in text
