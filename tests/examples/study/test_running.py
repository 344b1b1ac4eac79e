"""Runs of studies: done once, resumed, shared by processes."""

import os
import signal
import subprocess
import sys

import pytest

from examples.common import locks
from examples.common import results
from examples.study import programs
from examples.study import rows
from examples.study import running
from examples.study.records import Column
from tests.examples.study import tiny_program

PROCESS = """
import sys
from pathlib import Path
from examples.study import running
from tests.examples.study import tiny_program
folder = Path(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
study = tiny_program.study(sys.argv[2])
done = running.do_runs(study, running.Places(folder / "rows", folder / "work"))
print(done, "done", flush=True)
"""
ALL = [(x, str(i), str(i + 10 * (x == "b"))) for x in "ab" for i in range(3)]


@pytest.fixture
def places(tmp_path):
    return running.Places(tmp_path / "rows", tmp_path / "work")


def scores(study, places):
    found = rows.read(study, places.rows)
    return sorted((row["model"], row["seeds"], row["score"]) for row in found)


def test_runs_are_done_once(tmp_path, places):
    log = tmp_path / "log"
    study = tiny_program.study(f"--log {log}")
    assert running.do_runs(study, places, lambda run: "a" in run.name) == 3
    assert log.read_text() == "a0 a1 a2 "
    left = running.pending(study, places.rows)
    assert [run.name for run in left] == ["b, seed 0", "b, seed 1", "b, seed 2"]
    assert running.do_runs(study, places) == 3
    assert running.do_runs(study, places) == 0
    assert log.read_text() == "a0 a1 a2 b0 b1 b2 "
    assert scores(study, places) == ALL
    row = rows.read(study, places.rows)[0]
    assert row["options"] == study.options
    assert row["settings"] == "units=3"
    assert "keras_seqmech=" in row["versions"] and "cores" in row["machine"]
    assert row["commit"] == rows.commit()


def test_rows_of_other_options_and_means_are_no_runs(places):
    study = tiny_program.study("--units 4")
    older = {"model": "a", "seeds": "0", "score": "7", "options": ""}
    means = {"model": "b", "seeds": "0 1 2", "options": study.options}
    rows.add(study, [older, {**means, "score": "7 ± 1"}], places.rows)
    assert running.do_runs(study, places) == 6
    kept = rows.read(study, places.rows)
    assert len(kept) == 8
    assert [row["score"] for row in kept[:2]] == ["7", "7 ± 1"]


def test_rows_of_files_that_lack_a_column_are_kept(places):
    study = tiny_program.study()
    running.do_runs(study, places, lambda run: "a" in run.name)
    more = Column("seconds_to_score", "seconds to the score")
    study = tiny_program.study(columns=[more, *study.columns])
    kept = rows.read(study, places.rows)
    assert [row["seconds_to_score"] for row in kept] == [""] * 3
    assert running.do_runs(study, places) == 3
    assert scores(study, places) == ALL


def test_a_run_that_another_process_does_is_left_to_it(places):
    study = tiny_program.study()
    run = running.pending(study, places.rows)[0]
    with locks.claimed(running.claim_file(study, run, places)):
        assert running.do_runs(study, places) == 5
    assert scores(study, places) == ALL[1:]
    assert running.do_runs(study, places) == 1


def test_what_a_run_needs(places):
    study = tiny_program.study(program=None, command="make demo")
    with pytest.raises(ValueError, match="what its command prints: make demo"):
        running.do_runs(study, places)
    study = tiny_program.study(data="mr, glove")
    with pytest.raises(ValueError, match="reads mr, glove. Received: None"):
        running.do_runs(study, places)


@pytest.fixture
def commit(monkeypatch):
    """Sets what the commit of the code is."""
    return lambda name: monkeypatch.setattr(rows, "commit", lambda: name)


def origins(study, places):
    found = rows.read(study, places.rows)
    return {(row["commit"], bool(row["seconds"])) for row in found}


@pytest.mark.parametrize("chained, folders", [(False, 6), (True, 3)])
def test_rows_of_finished_work_say_when_it_was_done(
    places, commit, chained, folders
):
    """Killed before the study's row was written."""
    study = tiny_program.study(chained=chained)
    commit("old")
    running.do_runs(study, places)
    assert origins(study, places) == {("old", True)}
    found = {running.work_folder(study, run, places) for run in study.runs}
    assert len(found) == folders
    rows.path(study, places.rows).unlink()
    commit("new")
    assert running.do_runs(study, places) == 6
    assert origins(study, places) == {("old", False)}


def test_runs_that_are_continued_name_both_commits(places, commit, monkeypatch):
    study = tiny_program.study()

    def killed(args):
        raise KeyboardInterrupt

    for name in ("old", "old", "new"):
        commit(name)
        with monkeypatch.context() as patch:
            patch.setattr(tiny_program, "before_run", killed)
            with pytest.raises(KeyboardInterrupt):
                running.do_runs(study, places)
    running.do_runs(study, places, lambda run: run.name == "a, seed 0")
    assert origins(study, places) == {("old / new", False)}
    # Other options of the program are other work.
    running.do_runs(tiny_program.study("--units 4"), places)
    assert ("new", True) in origins(study, places)


def test_a_run_has_all_its_rows(tmp_path, monkeypatch):
    """Unlike one that was killed before all its tests."""
    program, options = tiny_program.study().program, ["--models", "a"]
    options += ["--seeds", "3"]
    path = tmp_path / program.file
    assert program.find(path, options) == []
    row = {"model": "a", "seed": 3, "settings": "units=3", "score": "nan"}
    other = {**row, "settings": "units=4"}
    results.write_rows(path, tiny_program.FIELDS, [row, other])
    # What a model does not have is empty.
    (found,) = program.find(path, options)
    assert (found["settings"], found["score"]) == ("units=3", "")
    with monkeypatch.context() as patch:
        patch.setattr(tiny_program.TinyProgram, "row_count", lambda *_: 2)
        assert program.find(path, options) == []
    monkeypatch.setattr(tiny_program, "main", lambda options: None)
    with pytest.raises(ValueError, match="expected a row of the run"):
        program.run([*options, "--units", "5"], tmp_path)


def start(tmp_path, options):
    """A process that is ready to do the tiny study."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROCESS, str(tmp_path), options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.long
def test_a_study_that_is_killed_is_resumed(tmp_path, places):
    log, gate = tmp_path / "log", tmp_path / "gate"
    options = f"--log {log} --gate {gate}"
    process = start(tmp_path, options)
    gate.write_text("1")
    process.stdin.write("go\n")
    process.stdin.flush()
    with process:
        while "tiny: score" not in process.stdout.readline():
            pass
        # The gate keeps it in its second run.
        os.kill(process.pid, signal.SIGKILL)
    study = tiny_program.study(options)
    assert scores(study, places) == ALL[:1]
    gate.write_text("9")
    assert running.do_runs(study, places) == 5
    assert scores(study, places) == ALL
    assert log.read_text().split().count("a0") == 1


@pytest.mark.long
def test_two_processes_share_a_study(tmp_path, places):
    log, gate = tmp_path / "log", tmp_path / "gate"
    options = f"--log {log} --gate {gate}"
    gate.write_text("0")
    processes = [start(tmp_path, options) for _ in range(2)]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    # Each is within a run.
    tiny_program.wait_for(
        lambda: log.exists() and len(log.read_text().split()) == 2
    )
    gate.write_text("6")
    counts = [process.communicate()[0].split("\n")[-2] for process in processes]
    assert scores(tiny_program.study(options), places) == ALL
    assert sorted(log.read_text().split()) == [f"{x}{i}" for x, i, _ in ALL]
    assert sum(int(count.split()[0]) for count in counts) == 6
    assert all(not count.startswith("0 ") for count in counts)
    # Claims end with their files.
    assert not list(places.work.rglob("*.claim"))


@pytest.mark.long
def test_a_study_of_a_real_program(places):
    study = tiny_program.study(
        "--epochs 1 --units 2 --train-size 64 --test-size 32 --stride 16",
        grid={"method": "--methods stride"},
        columns=[Column("accuracy", "accuracy %")],
        seeds=(0, 1),
        program=programs.PROGRAMS["shorten"],
        against={},
    )
    assert running.do_runs(study, places, lambda run: run.seed == 1) == 1
    first = rows.read(study, places.rows)
    assert running.do_runs(study, places) == 1
    found = rows.read(study, places.rows)
    assert found[:1] == first
    assert [row["seeds"] for row in found] == ["1", "0"]
    assert all(0 <= float(row["accuracy"]) <= 100 for row in found)
    assert "epochs=1" in found[0]["settings"]
