"""Cells of the table of what works, and which layers it can run."""

import os
import subprocess
import sys

import pytest

from benchmarks.support_cells import Cells
from tests import ROOT


def test_cells_are_kept(tmp_path):
    path = tmp_path / "results" / "cells.json"
    cells = Cells(path, "Keras 1")
    assert cells.get("Layer", "graph") is None
    cells.put("Layer", "graph", {"outputs": 0.0})
    cells.put("Layer", "XLA", {"failed": "it says so"})
    again = Cells(path, "Keras 1")
    assert again.get("Layer", "graph")["outputs"] == 0
    assert again.get("Layer", "XLA")["failed"] == "it says so"
    assert again.get("Layer", "float64") is None
    assert [file.name for file in path.parent.iterdir()] == ["cells.json"]


def test_cells_of_other_versions_do_not_count(tmp_path):
    path = tmp_path / "cells.json"
    Cells(path, "Keras 1").put("Layer", "graph", {"failed": "then"})
    Cells(path, "Keras 1").put("Layer", "XLA", {"outputs": 0.0})
    cells = Cells(path, "Keras 2")
    assert cells.get("Layer", "graph") is None
    cells.put("Layer", "graph", {"outputs": 0.0})
    assert "failed" not in cells.get("Layer", "graph")
    assert Cells(path, "Keras 1").get("Layer", "graph") is None
    assert Cells(path, "Keras 1").get("Layer", "XLA") is not None


def test_cells_without_versions_do_not_count(tmp_path):
    path = tmp_path / "cells.json"
    path.write_text('{"Layer": {"graph": {"outputs": 0.0}}}')
    assert Cells(path, "Keras 1").get("Layer", "graph") is None


def test_a_run_that_is_killed_while_it_writes_loses_no_cell(
    tmp_path, monkeypatch
):
    path = tmp_path / "cells.json"
    cells = Cells(path, "Keras 1")
    cells.put("Layer", "graph", {"outputs": 0.0})

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        cells.put("Layer", "XLA", {"outputs": 0.0})
    assert Cells(path, "Keras 1").get("Layer", "graph") is not None


@pytest.mark.long
def test_a_layer_that_there_is_not_is_said():
    # The program sets up devices when it is imported: a process of its own.
    command = [sys.executable, "-m", "benchmarks.support_table"]
    result = subprocess.run(
        [*command, "--layers", "MeanPooling", "Nothing"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 2
    assert "invalid choice: 'Nothing'" in result.stderr
