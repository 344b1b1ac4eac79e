"""CSV files of finished runs."""

import subprocess
import sys

import pytest

from examples.common import locks
from examples.common import results
from tests import ROOT

FIELDS = ("model", "seed", "score")


def test_results_of_another_layout(tmp_path):
    path = tmp_path / "results.csv"
    for content in ("model,other\nrnn,0\n", "model,se", ""):
        path.write_text(content)
        with pytest.raises(ValueError, match="line 1: expected model,seed,sc"):
            results.read_rows(path, FIELDS)
        assert path.read_text() == content


def test_rows_that_are_not_whole_are_not_done(tmp_path):
    path = tmp_path / "results.csv"
    whole = "model,seed,score\r\nrnn,0,85.2\r\n"
    row = {"model": "rnn", "seed": "0", "score": "85.2"}
    for cut in ("lstm", "lstm,0", "lstm,0,8", "lstm,0\r\n", "l,0,lstm,1,9\n"):
        path.write_text(whole + cut)
        assert results.read_rows(path, FIELDS) == [row], cut


def test_a_column_that_a_file_lacks_is_empty(tmp_path):
    path = tmp_path / "results.csv"
    path.write_text("model,seed\nrnn,0\n")
    file = results.ResultsFile(path, FIELDS, ("model", "seed"))
    row = {"model": "rnn", "seed": "0", "score": ""}
    assert file.read() == [row]
    rows = file.add({**row, "seed": 1, "score": 3})
    assert rows == [row, {**row, "seed": "1", "score": "3"}] == file.read()


def test_rows_of_another_process_are_kept(tmp_path):
    path = tmp_path / "results.csv"
    key = ("model", "seed")
    first = {"model": "rnn", "seed": 0, "score": 1}
    file = results.ResultsFile(path, FIELDS, key)
    file.add(first)
    with path.open("a") as other:
        other.write("lstm,0,2\n")
    rows = file.add({"model": "rnn", "seed": 1})
    assert [tuple(row.values()) for row in rows] == [
        ("rnn", "0", "1"),
        ("lstm", "0", "2"),
        ("rnn", "1", ""),
    ]
    rows = file.add({**first, "score": 3})
    assert [row["score"] for row in rows] == ["2", "", "3"]
    assert results.read_rows(path, FIELDS) == rows


KEY = ("model", "seed")


def test_missing_runs_are_done(tmp_path, capsys):
    """Each run that has no row, once; what it resumes from goes afterwards."""
    file = results.ResultsFile(tmp_path / "new" / "runs.csv", FIELDS, KEY)
    file.add({"model": "rnn", "seed": 0, "score": 1})
    events = []

    def run(key, line):
        events.append(("run", *key.values()))
        print(line, "trains")
        # Another process adds the run that comes next.
        if key == {"model": "rnn", "seed": "1"}:
            file.add({"model": "lstm", "seed": 0, "score": 7})
        return {"score": len(events)}

    def forget(key):
        assert file.rows_of([tuple(key.values())])
        events.append(("forget", *key.values()))

    keys = [("rnn", "0"), ("rnn", "1"), ("lstm", "0"), ("lstm", "1")]
    rows = file.do_missing([*keys, keys[1]], run, forget)
    assert events == [
        (what, *key) for key in (keys[1], keys[3]) for what in ("run", "forget")
    ]
    assert [tuple(row.values()) for row in rows] == [
        ("rnn", "0", "1"),
        ("rnn", "1", "1"),
        ("lstm", "0", "7"),
        ("lstm", "1", "3"),
    ]
    assert "[2/4] rnn, seed 1 trains" in capsys.readouterr().out
    assert [path.name for path in file.path.parent.iterdir()] == ["runs.csv"]
    assert file.do_missing(keys[:1], run) == rows[:1]
    assert len(events) == 4


def test_runs_left_to_others_are_told(tmp_path, capsys):
    file = results.ResultsFile(tmp_path / "runs.csv", FIELDS, KEY)
    keys = [("rnn", "0"), ("rnn", "1"), ("lstm", "0")]
    with locks.claimed(file.claim_of(keys[1])):
        rows = file.do_missing(keys, lambda key, line: {"score": 1})
    assert [row["model"] for row in rows] == ["rnn", "lstm"]
    told = "Left to other processes: 1 of 3 runs; start again"
    assert told in capsys.readouterr().out
    file.do_missing(keys, lambda key, line: {"score": 1})
    assert "Left to other" not in capsys.readouterr().out


def test_runs_wait_for_what_they_need(tmp_path):
    """A run that needs another one is done after it, or left with it."""
    file = results.ResultsFile(tmp_path / "runs.csv", FIELDS, KEY)
    keys = [("rnn", "1"), ("rnn", "0"), ("lstm", "1")]
    seeds = []

    def run(key, line):
        seeds.append(key["seed"])
        return {"score": 1}

    def is_ready(key):
        before = ("rnn", "0")
        return key["seed"] == "0" or not file.missing([before])

    with locks.claimed(file.claim_of(keys[1])):
        assert file.do_missing(keys, run, is_ready=is_ready) == []
    assert len(file.do_missing(keys, run, is_ready=is_ready)) == 3
    assert seeds == ["0", "1", "1"]


def test_rows_that_are_not_read_back(tmp_path):
    path, done = tmp_path / "runs.csv", []

    def run(key, line):
        done.append(key)
        return {"score": 1}

    file = results.ResultsFile(path, FIELDS, KEY, accept=lambda row: None)
    with pytest.raises(ValueError, match=r"Received: work=\('rnn', '0'\)"):
        file.do_missing([("rnn", "0")], run)
    assert len(done) == 1
    file = results.ResultsFile(path, FIELDS, KEY)
    with pytest.raises(ValueError, match=r"model, seed, .* rows=\['other'\]"):
        file.add({"model": "rnn", "seed": 1, "other": 2})
    assert [row["seed"] for row in file.read()] == ["0"]


def test_what_a_run_resumes_from_goes_after_a_kill_too(tmp_path):
    """Killed after its row was written: the next start has that left to do."""
    file = results.ResultsFile(tmp_path / "runs.csv", FIELDS, KEY)
    keys, forgotten = [("rnn", "0")], []

    def killed(key):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        file.do_missing(keys, lambda key, line: {"score": 1}, killed)
    for _ in range(2):
        file.do_missing(keys, killed, forgotten.append)
    assert forgotten == [{"model": "rnn", "seed": "0"}]


SHARE = """
import sys, time
from pathlib import Path
from examples.common import results
folder, own = Path(sys.argv[1]), sys.argv[2]
def run(key, line):
    with open(folder / "log", "a") as log:
        log.write(key["seed"])
    # Both are within a run before any ends.
    (folder / own).touch()
    deadline = time.monotonic() + 100
    while len(list(folder.glob("in-*"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    return {"score": 1}
fields, key = ("model", "seed", "score"), ("model", "seed")
keys = [("rnn", str(seed)) for seed in range(4)]
results.ResultsFile(folder / "runs.csv", fields, key).do_missing(keys, run)
"""


def test_two_processes_share_the_runs(tmp_path):
    """No run is done twice, by whomever."""
    file = results.ResultsFile(tmp_path / "runs.csv", FIELDS, KEY)
    keys = [("rnn", str(seed)) for seed in range(4)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SHARE, tmp_path, f"in-{number}"], cwd=ROOT
        )
        for number in range(2)
    ]
    assert [process.wait(200) for process in processes] == [0, 0]
    assert len(list(tmp_path.glob("in-*"))) == 2
    assert sorted((tmp_path / "log").read_text()) == ["0", "1", "2", "3"]
    assert len(file.rows_of(keys)) == 4
    assert not list(tmp_path.glob("*.claim"))
