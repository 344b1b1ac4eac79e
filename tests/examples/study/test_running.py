"""Runs of studies: done once, resumed, shared, imported."""

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
from examples.study.studies import Measure
from examples.study.studies import Study
from examples.study.studies import grid
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


@pytest.fixture
def places(tmp_path):
    return running.Places(tmp_path / "rows", tmp_path / "work")


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


def scores(study, places):
    found = rows.read(study, places.rows)
    return sorted((row["model"], row["seeds"], row["score"]) for row in found)


ALL = [(x, str(i), str(i + 10 * (x == "b"))) for x in "ab" for i in range(3)]


def test_runs_are_done_once(tmp_path, places, capsys):
    log = tmp_path / "log"
    study = tiny_program.study(f"--log {log}", minutes=6)
    only_a = running.do_runs(study, places, lambda run: "a" in run.name)
    assert only_a == 3
    assert log.read_text() == "a0 a1 a2 "
    assert "no runs are left" in capsys.readouterr().out
    assert running.do_runs(study, places) == 3
    assert running.do_runs(study, places) == 0
    assert log.read_text() == "a0 a1 a2 b0 b1 b2 "
    assert scores(study, places) == ALL
    row = rows.read(study, places.rows)[0]
    assert row["options"] == study.options
    assert row["settings"] == "units=3"
    assert "keras_seqmech=" in row["versions"] and "cores" in row["machine"]
    assert row["commit"] == rows.commit()


def test_what_is_left_and_how_long_it_takes():
    study = tiny_program.study(minutes=6)
    left = running.pending(study, [])
    assert [run.name for run in left[:3]] == [
        *("a, seed 0", "b, seed 0", "a, seed 1")
    ]
    text = "6 runs are left, about 0.6 h of one process"
    assert running.remaining(study, left, []) == text
    known = [{"options": "", "seconds": x} for x in ("7000", "7400", "")]
    known.append({"options": "--units 4", "seconds": "1"})
    text = "1 run is left, about 2.0 h of one process"
    assert running.remaining(study, left[:1], known) == text
    study = study._replace(minutes=None)
    assert running.remaining(study, left, known[2:]) == "6 runs are left"


def test_rows_of_other_options_and_summaries_are_no_runs(places):
    study = tiny_program.study("--units 4")
    older = {"model": "a", "seeds": "0", "score": "7", "options": ""}
    summary = {"model": "b", "seeds": "0 1 2", "options": study.options}
    rows.add(study, [older, {**summary, "score": "7 ± 1"}], places.rows)
    assert len(running.pending(study, rows.read(study, places.rows))) == 6
    running.do_runs(study, places)
    kept = rows.read(study, places.rows)
    assert len(kept) == 8
    assert [row["score"] for row in kept[:2]] == ["7", "7 ± 1"]


def test_rows_of_files_that_lack_a_measure_are_kept(places):
    study = tiny_program.study()
    running.do_runs(study, places, lambda run: "a" in run.name)
    more = Measure("seconds_to_score", "seconds to the score")
    study = study._replace(measures=[more, *study.measures])
    kept = rows.read(study, places.rows)
    assert [row["score"] for row in kept] == ["0", "1", "2"]
    assert [row["seconds_to_score"] for row in kept] == [""] * 3
    assert running.do_runs(study, places) == 3
    assert scores(study, places) == ALL


def test_a_run_that_another_process_does_is_left_to_it(places):
    study = tiny_program.study()
    run = running.pending(study, [])[0]
    with locks.claimed(running.claim_file(study, run, places)):
        assert running.do_runs(study, places) == 5
    assert scores(study, places) == [row for row in ALL if row != ALL[0]]
    assert running.do_runs(study, places) == 1
    assert scores(study, places) == ALL


def test_a_study_without_a_program_says_so(places):
    study = tiny_program.study(program=None, command="make demo")
    with pytest.raises(ValueError, match="what its command prints: make demo"):
        running.do_runs(study, places)


def test_data_must_be_there(places):
    study = tiny_program.study(data="mr, glove")
    with pytest.raises(ValueError, match="needs mr, glove. Received: None"):
        running.do_runs(study, places)


def test_chained_runs_share_a_folder(places):
    chained = tiny_program.study(chained=True)
    for study, count in ((chained, 3), (tiny_program.study(), 6)):
        folders = {
            running.work_folder(study, run, places)
            for run in running.pending(study, [])
        }
        assert len(folders) == count


def test_a_program_without_the_row_of_its_run(places):
    program = tiny_program.TinyProgram("tiny", lambda *_: {"seed": "9"})
    study = tiny_program.study(program=program)
    with pytest.raises(ValueError, match="expected a row of the run"):
        running.do_runs(study, places)


@pytest.fixture
def commit(monkeypatch):
    """Sets what the commit of the code is."""

    def is_now(name):
        monkeypatch.setattr(rows, "commit", lambda: name)

    return is_now


def origins(study, places):
    found = rows.read(study, places.rows)
    return {(row["commit"], bool(row["seconds"])) for row in found}


@pytest.mark.parametrize("chained", [False, True])
def test_rows_of_finished_work_say_when_it_was_done(places, commit, chained):
    """Killed before the study's row was written."""
    study = tiny_program.study(chained=chained)
    commit("old")
    running.do_runs(study, places)
    assert origins(study, places) == {("old", True)}
    rows.path(study, places.rows).unlink()
    commit("new")
    assert running.do_runs(study, places) == 6
    assert origins(study, places) == {("old", False)}


def test_rows_of_work_of_unknown_origin_name_no_commit(places):
    study = tiny_program.study()
    running.do_runs(study, places)
    rows.path(study, places.rows).unlink()
    for path in places.work.rglob("origin-*.json"):
        path.unlink()
    running.do_runs(study, places)
    assert origins(study, places) == {("", False)}
    found = rows.read(study, places.rows)
    assert all(row["machine"] and row["date"] for row in found)
    assert {row["versions"] for row in found} == {""}


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
    running.do_runs(study._replace(options="--units 4"), places)
    assert ("new", True) in origins(study, places)


def test_what_a_model_does_not_have_is_empty(tmp_path):
    program = tiny_program.study().program
    options = ["--models", "a", "--seeds", "3"]
    row = {"model": "a", "seed": 3, "settings": "units=3", "score": "nan"}
    path = tmp_path / "rows.csv"
    results.write_rows(path, tiny_program.FIELDS, [row])
    (found,) = program.find(path, options)
    assert found["score"] == ""


def test_a_run_that_lacks_a_row_is_not_done(tmp_path):
    """As one that was killed before all its tests."""
    program = tiny_program.study().program
    program = program._replace(row_count=lambda args: 2)
    options = ["--models", "a", "--seeds", "3"]
    row = {"model": "a", "seed": 3, "settings": "units=3", "score": "1"}
    path = tmp_path / program.file
    results.write_rows(path, tiny_program.FIELDS, [row])
    assert program.find(path, options) == []
    assert not program.is_done(options, tmp_path)
    results.write_rows(path, tiny_program.FIELDS, [row, row])
    assert len(program.find(path, options)) == 2
    assert program.is_done(options, tmp_path)


def test_import_takes_runs_of_these_settings_only(tmp_path, places):
    file = tmp_path / "own.csv"
    common = ["--output", str(file), "--seeds", "1", "2"]
    tiny_program.main(["--models", "a", *common])
    tiny_program.main(["--models", "b", "--units", "4", *common])
    study = tiny_program.study()
    known = {"commit": "abc"}
    assert running.import_rows(study, file, places, [0, 1, 2], known) == 2
    assert scores(study, places) == ALL[1:3]
    assert {r["commit"] for r in rows.read(study, places.rows)} == {"abc"}
    # Known ones are left alone.
    assert running.import_rows(study, file, places, [0, 1, 2], {}) == 0
    assert {r["commit"] for r in rows.read(study, places.rows)} == {"abc"}


@pytest.mark.long
def test_a_study_that_is_killed_is_resumed(tmp_path, places):
    log, gate = tmp_path / "log", tmp_path / "gate"
    options = f"--log {log} --gate {gate}"
    process = start(tmp_path, options)
    gate.write_text("1")
    process.stdin.write("go\n")
    process.stdin.flush()
    with process:
        while "left" not in process.stdout.readline():
            pass
        # The gate keeps it in its second run.
        os.kill(process.pid, signal.SIGKILL)
    study = tiny_program.study(options)
    before = scores(study, places)
    assert before == ALL[:1]
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
    study = tiny_program.study(options)
    assert scores(study, places) == ALL
    assert sorted(log.read_text().split()) == [f"{x}{i}" for x, i, _ in ALL]
    assert sum(int(count.split()[0]) for count in counts) == 6
    assert all(not count.startswith("0 ") for count in counts)
    # Claims end with their files.
    assert not list(places.work.rglob("*.claim"))


@pytest.mark.long
def test_a_study_of_a_real_program(places):
    study = Study(
        "digits",
        "subsampling",
        "none",
        grid(method=("--methods", ["stride"])),
        [Measure("accuracy", "accuracy %")],
        (0, 1),
        programs.SHORTEN,
        "--epochs 1 --units 2 --train-size 64 --test-size 32 --stride 16",
    )
    assert running.do_runs(study, places, lambda run: run.seed == 1) == 1
    first = rows.read(study, places.rows)
    assert running.do_runs(study, places) == 1
    found = rows.read(study, places.rows)
    assert found[:1] == first
    assert [row["seeds"] for row in found] == ["1", "0"]
    assert all(0 <= float(row["accuracy"]) <= 100 for row in found)
    assert "epochs=1" in found[0]["settings"]
