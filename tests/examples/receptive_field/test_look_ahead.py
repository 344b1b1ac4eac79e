"""Sizes at keys and elsewhere, of small taggers."""

import keras
import pytest

from examples.common import results
from examples.receptive_field import look_ahead

SMALL = "--units 4 --epochs 1 --train-size 20 --batch-size 10 --cells gru"


@pytest.mark.long
def test_runs_are_measured_once(tmp_path, monkeypatch, capsys):
    cleared = []
    clear = keras.utils.clear_session
    monkeypatch.setattr(
        keras.utils, "clear_session", lambda: cleared.append(clear())
    )
    path = tmp_path / "new" / "runs.csv"
    options = [*SMALL.split(), "--keys", "told", "--output", str(path)]
    look_ahead.main(options)
    shown = capsys.readouterr().out
    rows = results.read_rows(path, look_ahead.FIELDS)
    assert [row["size_from"] for row in rows] == ["input", "field"]
    for row in rows:
        assert all(row.values())
        assert 0 <= float(row["accuracy"]) <= 100
        names = ("size_elsewhere", "size_gap_0", "size_gap_1", "size_gap_2")
        assert all(1 <= float(row[x]) <= look_ahead.MAX_SIZE for x in names)
    keys = look_ahead.keys(look_ahead.parse(options))
    assert keys == [tuple(row[x] for x in look_ahead.KEY) for row in rows]
    assert len(cleared) == 2
    assert "| told | gru | field | memory | 1 |" in shown
    look_ahead.main(options)
    assert len(cleared) == 2
    assert capsys.readouterr().out.splitlines() == shown.splitlines()[-4:]
