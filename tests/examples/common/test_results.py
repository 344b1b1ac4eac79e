"""CSV files of finished runs."""

import pytest
from filelock import FileLock

from examples.common import results

KEY = ("model", "seed")


@pytest.fixture
def file(tmp_path):
    return results.ResultsFile(tmp_path / "new" / "runs.csv", KEY)


def test_rows_are_added_and_replaced(file):
    """Those of other processes are kept; new columns are empty in old rows."""
    file.path.parent.mkdir()
    file.path.write_text("model,seed\nrnn,0\n")
    row = {"model": "rnn", "seed": "0"}
    assert file.read() == [row]
    file.add({**row, "seed": 1, "score": "NaN"}, {"model": "lstm", "seed": 0})
    file.add({**row, "score": 3})
    assert [tuple(row.values()) for row in file.read()] == [
        ("rnn", "1", "NaN"),
        ("lstm", "0", ""),
        ("rnn", "0", "3"),
    ]
    file.path.write_text("model,other\nrnn,0\n")
    with pytest.raises(
        ValueError, match="columns model, seed. Received: model"
    ):
        file.add(row)
    assert file.path.read_text() == "model,other\nrnn,0\n"


def test_missing_runs_are_done(file, capsys):
    """Each run that has no row, once."""
    file.add({"model": "rnn", "seed": 0, "score": 1})
    done = []

    def run(key):
        done.append(tuple(key.values()))
        # Another process adds the run that comes next.
        if key == {"model": "rnn", "seed": "1"}:
            file.add({"model": "lstm", "seed": 0, "score": 7})
        return {"score": len(done)}

    keys = [("rnn", "0"), ("rnn", "1"), ("lstm", "0"), ("lstm", "1")]
    rows = file.do_missing([*keys, keys[1]], run)
    assert done == [keys[1], keys[3]]
    assert [row["score"] for row in rows] == ["1", "1", "7", "2"]
    output = capsys.readouterr().out
    assert "[2/4] rnn, seed 1\n" in output
    assert float(rows[1]["seconds"]) >= 0
    assert file.do_missing(keys[:1], run) == rows[:1]
    assert len(done) == 2


def test_runs_left_to_others_are_told(file, capsys):
    keys = [("rnn", "0"), ("rnn", "1"), ("lstm", "0")]
    claim = results.with_ending(file.place(keys[1]), "claim")
    claim.parent.mkdir(parents=True)
    with FileLock(claim):
        rows = file.do_missing(keys, lambda key: {"score": 1})
    assert [row["model"] for row in rows] == ["rnn", "lstm"]
    told = "Left to other processes: 1 of 3 runs; start again"
    assert told in capsys.readouterr().out
    file.do_missing(keys, lambda key: {"score": 1})
    assert "Left to other" not in capsys.readouterr().out
