"""The package without KerasTuner."""

import importlib
import sys

import pytest


def test_without_the_extra_the_error_says_how_to_get_it(monkeypatch):
    for name in list(sys.modules):
        if name.startswith("keras_seqmech.tuning"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "keras_tuner", None)
    with pytest.raises(ImportError, match=r"'.\[tuning\]'"):
        importlib.import_module("keras_seqmech.tuning")
