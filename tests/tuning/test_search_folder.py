"""Folders of searches: whose they are, what a kill leaves behind."""

import contextlib
import json

import pytest
import tensorflow as tf

keras_tuner = pytest.importorskip("keras_tuner")
pytest.importorskip("tensorboard")

from keras_seqmech import tuning  # noqa: E402
from keras_seqmech.tuning import search_folder  # noqa: E402
from tests.tuning.searches import Counted  # noqa: E402
from tests.tuning.searches import search  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*(currentThread|getName):DeprecationWarning"
)


@pytest.mark.parametrize(
    "options, difference",
    [
        ({"hypermodel": Counted(max_size=(1, 5))}, "`space.*4 there, 5 here"),
        ({"settings": {"epochs": 2}}, "`settings.epochs`: 1 there, 2 here"),
        ({"tuner": keras_tuner.BayesianOptimization}, "`tuner`"),
        ({"seed": 6}, "`keywords.seed`: 5 there, 6 here"),
    ],
)
def test_folders_of_another_search(tmp_path, options, difference):
    defaults = {"hypermodel": Counted(), "settings": {"epochs": 1}}
    search(**defaults, folder=tmp_path, max_trials=1)
    message = f"holds another search.*{difference}.*Received: directory="
    with pytest.raises(ValueError, match=message):
        search(**{**defaults, **options}, folder=tmp_path, max_trials=1)


def test_a_folder_of_a_search_that_says_nothing(tmp_path):
    plain = keras_tuner.RandomSearch(
        Counted(),
        keras_tuner.Objective("score", "max"),
        max_trials=1,
        directory=str(tmp_path),
        project_name="sweep",
    )
    plain.search(verbose=0)
    with pytest.raises(ValueError, match="does not say what.*Received"):
        search(Counted(), tmp_path)
    assert len(list(tmp_path.glob("sweep/trial_*"))) == 1
    search(Counted(), tmp_path, overwrite=True)
    assert len(list(tmp_path.glob("sweep/trial_*"))) == 4


def test_a_search_that_cannot_be_leaves_its_folder_free(tmp_path):
    with pytest.raises(ValueError, match="max_trails"):
        search(Counted(), tmp_path, max_trails=1)
    assert not list(tmp_path.glob("sweep/*"))
    # As a chief that is killed before its first trial.
    (tmp_path / "sweep" / "tuner0.json").write_text("{}")
    (tmp_path / "sweep" / "trial_9").mkdir()
    search(Counted(), tmp_path, max_trials=1)
    assert len(list(tmp_path.glob("sweep/trial_*"))) == 1


class Killed(BaseException):
    """No handler of errors catches it."""


@pytest.mark.long
@pytest.mark.parametrize(
    "tuner, step, options",
    [
        (keras_tuner.RandomSearch, 1, {"max_trials": 2}),
        (keras_tuner.Hyperband, 5, {"max_epochs": 2, "factor": 2}),
    ],
)
def test_a_kill_between_writes_loses_and_repeats_no_trial(
    tmp_path, monkeypatch, tuner, step, options
):
    write, open_file, left = search_folder.write, tf.io.gfile.GFile, []

    def write_or_die(path, content):
        left[-1] -= 1
        if not left[-1]:
            raise Killed
        write(path, content)

    def open_to_die(path, mode="r"):
        """A file of KerasTuner, which a kill leaves empty, or cut."""
        file = open_file(path, mode)
        if "w" not in mode or not str(path).endswith(".json"):
            return file

        def write_half(text, write=file.write):
            left[-1] -= 1
            if not left[-1]:
                write(text[: len(text) // 2 * (len(left) // 2 % 2)])
                raise Killed
            write(text)

        file.write = write_half
        return file

    monkeypatch.setattr(search_folder, "write", write_or_die)
    monkeypatch.setattr(tf.io.gfile, "GFile", open_to_die)

    def run(folder, writes):
        left.append(writes)
        runs = Counted(fails=[2])
        search(runs, folder, tuner, **options)
        return runs

    def finished(folder):
        found = 0
        for file in folder.glob("sweep/trial_*/trial.json"):
            with contextlib.suppress(json.JSONDecodeError):
                status = json.loads(file.read_text())["status"]
                found += status in ("COMPLETED", "FAILED")
        return found

    whole = run(tmp_path / "whole", 10**6)
    writes = 10**6 - left[-1]
    expected = tuning.trial_results(tmp_path / "whole" / "sweep")
    # At least two files at the begin of a trial, one as it reports, two at
    # its end, and the backups of all but the report.
    assert writes > 9 * len(expected)
    for at in range(1, writes + 1, step):
        folder = tmp_path / str(at)
        with pytest.raises(Killed):
            run(folder, at)
        done = finished(folder)
        second = run(folder, 10**6)
        results = tuning.trial_results(folder / "sweep")
        assert [(r.status, r.score, r.values) for r in results] == [
            (r.status, r.score, r.values) for r in expected
        ]
        assert second.began == whole.began - done


@pytest.mark.parametrize("content", [None, "", "{}", "[]", "null", "3"])
@pytest.mark.parametrize(
    "name", ["oracle.json", "trial_0/trial.json", "search.json"]
)
def test_files_that_are_cut_or_of_another_kind(tmp_path, name, content):
    tuner = search(Counted(), tmp_path, max_trials=1)
    (result,) = tuning.trial_results(tuner.project_dir)
    path = tmp_path / "sweep" / name
    path.write_text(path.read_text()[:-5] if content is None else content)
    backup = search_folder.backup_path(path)
    if backup.exists():
        assert tuning.trial_results(tuner.project_dir)
        second = Counted()
        search(second, tmp_path, max_trials=1)
        assert second.began == (name == "trial_0/trial.json")
        assert tuning.trial_results(tuner.project_dir) == [result]
        path.write_text(content or "{")
        backup.unlink()
    message = rf"{name}: expected JSON of.*cannot continue.*Received: "
    with pytest.raises(ValueError, match=message):
        search(Counted(), tmp_path, max_trials=2)
    if name == "trial_0/trial.json":
        with pytest.raises(ValueError, match=message):
            tuning.trial_results(tuner.project_dir)


def test_the_oracle_of_a_search_is_that_of_its_tuner(tmp_path, capsys):
    tuner = search(Counted(), tmp_path, max_trials=1)
    assert tuner.oracle.objective.name == "score"
    assert tuner.oracle.verbose == 0
    tuner.search_space_summary()
    tuner.results_summary()
    assert "Trial 0 summary" in capsys.readouterr().out
    with pytest.raises(AttributeError, match="no_such_name"):
        assert tuner.oracle.no_such_name
