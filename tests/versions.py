"""A plugin of pytest that ends a run with its row of docs/limits.md."""

import datetime
import importlib.metadata
import platform

import keras

from examples.study.rows import commit

PACKAGES = ("tensorflow", "keras", "numpy", "keras-tuner", "tensorflow-text")


def pytest_terminal_summary(terminalreporter):
    counts = {x: len(y) for x, y in terminalreporter.stats.items()}
    row = {
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in PACKAGES},
        "keras": keras.__version__,  # Of a nightly, too.
        "passed": counts.get("passed", 0),
        "skipped": counts.get("skipped", 0),
        "failed": counts.get("failed", 0) + counts.get("error", 0),
        "date": datetime.date.today(),
        "commit": commit(),
    }
    for cells in (row, ["---"] * len(row), row.values()):
        terminalreporter.line(f"| {' | '.join(map(str, cells))} |")
