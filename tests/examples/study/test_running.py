"""Runs of studies: done once, resumed, shared by processes."""

import pytest
from filelock import FileLock

from examples.common import results
from examples.study import rows
from examples.study import running
from tests.examples.study import tiny_program

ALL = [(x, str(i), str(i + 10 * (x == "b"))) for x in "ab" for i in range(3)]


@pytest.fixture
def places(tmp_path):
    return running.Places(tmp_path / "rows", tmp_path / "work")


def scores(study, places):
    found = rows.read(study, places.rows)[["model", "seeds", "score"]]
    return sorted(found.itertuples(index=False, name=None))


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
    row = rows.read(study, places.rows).iloc[0]
    assert row["options"] == study.options
    assert row["settings"] == "units=3"
    assert "keras_seqmech=" in row["versions"] and "cores" in row["machine"]
    assert row["commit"] == rows.commit()


def test_a_run_takes_the_place_of_a_row_of_other_options(places):
    study = tiny_program.study("--units 4")
    older = {"model": "a", "seeds": "0", "score": "7", "options": ""}
    rows.add(study, [older], places.rows)
    assert rows.read(study, places.rows).empty
    assert running.do_runs(study, places) == 6
    assert scores(study, places) == ALL
    assert len(rows.file(study, places.rows).read()) == 6


def test_a_run_that_another_process_does_is_left_to_it(places):
    study = tiny_program.study()
    run = running.pending(study, places.rows)[0]
    folder = running.work_folder(study, run, places)
    claim = results.with_ending(folder, "claim")
    claim.parent.mkdir(parents=True)
    with FileLock(claim):
        assert running.do_runs(study, places) == 5
    assert scores(study, places) == ALL[1:]
    assert running.do_runs(study, places) == 1


def test_what_a_run_needs(places):
    study = tiny_program.study(data="mr, glove")
    with pytest.raises(ValueError, match="reads mr, glove. Received: None"):
        running.do_runs(study, places)
    assert running.do_runs(study, places._replace(data=places.work)) == 6


def test_rows_of_continued_runs_name_both_commits(places, monkeypatch, capsys):
    study = tiny_program.study()

    def commit(name):
        monkeypatch.setattr(rows, "commit", lambda: name)

    def origins():
        return {*rows.read(study, places.rows)["commit"]}

    commit("old")
    running.do_runs(study, places)
    assert origins() == {"old"}
    found = {running.work_folder(study, run, places) for run in study.runs}
    assert len(found) == 6
    # As if killed before the study's rows were written.
    rows.file(study, places.rows).path.unlink()
    commit("new")
    assert running.do_runs(study, places) == 6
    assert origins() == {"old / new"}
    assert "goes on from what commit old left" in capsys.readouterr().out
    # Other options of the program are other work.
    study = tiny_program.study("--units 4")
    running.do_runs(study, places)
    assert "new" in origins()


def test_a_run_has_all_its_rows(tmp_path, monkeypatch):
    """Unlike one that was killed before all its tests."""
    program, options = tiny_program.study().program, ["--models", "a"]
    options += ["--seeds", "3"]
    file = results.ResultsFile(tmp_path / "rows.csv", tiny_program.KEY)
    row = {"model": "a", "seed": 3, "settings": "units=3", "score": "nan"}
    file.add(row, {**row, "settings": "units=4"})
    # What a model does not have is empty.
    (found,) = program.run(options, tmp_path)
    assert (found["settings"], found["score"]) == ("units=3", "")
    monkeypatch.setattr(tiny_program.TinyProgram, "row_count", lambda *_: 2)
    with pytest.raises(ValueError, match="expected all rows of the run"):
        program.run(options, tmp_path)
