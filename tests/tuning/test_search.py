"""Folders of searches: whose they are, what is continued after a kill."""

import contextlib
import json
import pathlib

import keras
import pytest
import tensorflow as tf

keras_tuner = pytest.importorskip("keras_tuner")
pytest.importorskip("tensorboard")

from keras_seqmech import tuning  # noqa: E402
from tests.tuning.searches import Counted  # noqa: E402
from tests.tuning.searches import opened  # noqa: E402
from tests.tuning.searches import search  # noqa: E402
from tests.tuning.searches import trials  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*(currentThread|getName):DeprecationWarning"
)


@pytest.mark.filterwarnings("ignore::UserWarning:sklearn")
@pytest.mark.parametrize(
    "tuner, options",
    [
        (keras_tuner.BayesianOptimization, {"num_initial_points": 2}),
        (keras_tuner.GridSearch, {}),
    ],
)
def test_each_tuner_finds_the_largest_size(tmp_path, tuner, options):
    hypermodel = Counted(fails=[2], temperature=1.0)
    # Opened, and not searched: nothing is to be continued.
    opened(hypermodel, tmp_path, tuner, **options)
    done = search(hypermodel, tmp_path, tuner, **options)
    assert hypermodel.began == 4
    best = max(size for size, _ in hypermodel.ran)
    assert done.get_best_hyperparameters()[0]["max_size"] == best
    if tuner is keras_tuner.GridSearch:
        message = "`tuner_class`.*GridSearch.*Received"
        with pytest.raises(ValueError, match=message):
            search(hypermodel, tmp_path, tuner, **options)


def test_a_search_that_is_done_is_continued_with_more_trials(
    tmp_path, monkeypatch
):
    """Under another name, too, as that of a chief is, in one process."""
    first, second = Counted(), Counted()
    monkeypatch.setenv("KERASTUNER_TUNER_ID", "other")
    search(first, tmp_path)
    monkeypatch.delenv("KERASTUNER_TUNER_ID")
    search(second, tmp_path)
    assert (len(first.ran), len(second.ran)) == (4, 0)
    tuner = search(second, tmp_path, max_trials=6)
    assert len(second.ran) == 2
    assert len({*first.ran, *second.ran}) == 6
    best = tuner.oracle.get_best_trials()[0].score
    assert best == max(size for size, _ in first.ran + second.ran)
    search(second, tmp_path, overwrite=True)
    assert second.ran[2:] == first.ran


@pytest.mark.parametrize(
    "options, difference",
    [
        ({"hypermodel": Counted(max_size=(1, 5))}, "`space.max_size`"),
        ({"settings": {"epochs": 2}}, "`settings.epochs`: 1 there, 2 here"),
        ({"settings": {}}, "`settings.epochs`: 1 there, None here"),
        ({"tuner": keras_tuner.BayesianOptimization}, "`tuner`"),
        ({"seed": 6}, "`seed`: 5 there, 6 here"),
    ],
)
def test_folders_of_another_search(tmp_path, options, difference):
    defaults = {"hypermodel": Counted(), "settings": {"epochs": 1}}
    search(**defaults, folder=tmp_path, max_trials=1)
    message = f"holds another search.*{difference}.*Received: directory="
    with pytest.raises(ValueError, match=message):
        search(**{**defaults, **options}, folder=tmp_path, max_trials=1)


def test_a_folder_that_does_not_say_what_it_searched(tmp_path):
    plain = keras_tuner.RandomSearch(
        Counted(),
        keras_tuner.Objective("score", "max"),
        max_trials=1,
        directory=str(tmp_path),
        project_name="sweep",
    )
    plain.search(verbose=0)
    with pytest.raises(ValueError, match="`tuner`: None there.*Received"):
        search(Counted(), tmp_path)
    search(Counted(), tmp_path, overwrite=True)
    assert len(list(tmp_path.glob("sweep/trial_*"))) == 4


def test_a_search_that_cannot_be_leaves_its_folder_free(tmp_path):
    with pytest.raises(ValueError, match="max_trails"):
        search(Counted(), tmp_path, max_trails=1)
    with pytest.raises(ValueError, match="`settings` must be.*Received"):
        search(Counted(), tmp_path, settings={"path": tmp_path})
    search(Counted(), tmp_path, max_trials=1)


class Killed(BaseException):
    """No handler of errors catches it."""


class Pen:
    """Kills before the n-th JSON file of KerasTuner, or in the middle of it."""

    def __init__(self, monkeypatch, cuts):
        self.left, self.path, self.cuts = 0, None, cuts
        self.open_file = tf.io.gfile.GFile
        monkeypatch.setattr(tf.io.gfile, "GFile", self.open)

    def open(self, path, mode="r"):
        file = self.open_file(path, mode)
        if "w" in mode and str(path).endswith(".json"):
            write = file.write
            file.write = lambda text: self.write(path, write, text)
        return file

    def write(self, path, write, text):
        self.left -= 1
        if not self.left:
            self.path = pathlib.Path(path)
            if self.cuts:
                write(text[: len(text) // 2])
            raise Killed
        write(text)


def state_of(file):
    with contextlib.suppress(json.JSONDecodeError):
        return json.loads(file.read_text())


@pytest.mark.long
# KerasTuner says so of a trial that had reported and runs again.
@pytest.mark.filterwarnings("ignore:The use case of calling")
@pytest.mark.parametrize(
    "tuner, step, options, cuts",
    [
        (keras_tuner.RandomSearch, 1, {"max_trials": 2}, True),
        (keras_tuner.RandomSearch, 1, {"max_trials": 2}, False),
        (keras_tuner.Hyperband, 5, {"max_epochs": 2, "factor": 2}, False),
    ],
)
def test_a_search_that_is_killed_while_it_saves(
    tmp_path, monkeypatch, tuner, step, options, cuts
):
    pen = Pen(monkeypatch, cuts)

    def run(folder, writes, **more):
        pen.left, hypermodel = writes, Counted(fails=[2])
        return hypermodel, search(hypermodel, folder, tuner, **options, **more)

    whole, expected = run(tmp_path / "whole", 10**6)
    writes = 10**6 - pen.left
    # Two files when a trial begins, one as it reports, three at its end.
    assert writes >= 5 * whole.began
    all_lost = []
    for at in range(1, writes + 1, step):
        folder = tmp_path / str(at)
        with pytest.raises(Killed):
            run(folder, at)
        oracle = folder / "sweep" / "oracle.json"
        if cuts and pen.path == oracle:
            with pytest.raises(ValueError, match="cut.*Received.*oracle.json"):
                run(folder, 10**6)
            again, _ = run(folder, 10**6, overwrite=True)
            assert again.began == whole.began
            continue
        # What the oracle knows of: other trials have not begun.
        known = state_of(oracle)["start_order"] if oracle.exists() else []
        files = {
            key: folder / "sweep" / f"trial_{key}" / "trial.json"
            for key in known
        }
        states = {key: state_of(file) for key, file in files.items()}
        lost = [key for key, state in states.items() if state is None]
        ended = [
            key
            for key in set(known) - set(lost)
            if states[key]["status"] in ("COMPLETED", "FAILED")
        ]
        second, done = run(folder, 10**6)
        # The one that had just ended may run again.
        assert second.began - (whole.began - len(ended)) in (0, 1)
        for found, trial in zip(trials(done), trials(expected), strict=True):
            if found.trial_id in lost:
                assert files[found.trial_id].with_suffix(".torn").exists()
                # KerasTuner keeps what runs on from there.
                assert found.status == "COMPLETED" and found.score == 1
                continue
            assert (found.status, found.score) == (trial.status, trial.score)
            values = found.hyperparameters.values
            assert values == trial.hyperparameters.values
        all_lost += lost
    assert bool(all_lost) == cuts


def test_any_hypermodel_is_searched(tmp_path):
    def build(hp):
        units = hp.Int("units", 1, 3)
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(units)])
        model.compile("sgd", "mse", run_eagerly=True)
        return model

    tuner = tuning.open_search(
        keras_tuner.RandomSearch,
        build,
        tmp_path,
        "sweep",
        objective=["loss", keras_tuner.Objective("loss", "min")],
        max_trials=1,
    )
    tuner.search(tf.ones((2, 1)), tf.ones((2, 1)), verbose=0)
    (trial,) = trials(tuner)
    assert trial.status == "COMPLETED"
