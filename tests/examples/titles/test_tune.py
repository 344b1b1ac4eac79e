"""The search on small data, continued."""

import keras
import pytest

pytest.importorskip("tensorflow_text", reason="needs keras_seqmech[text]")
keras_tuner = pytest.importorskip(
    "keras_tuner", reason="needs keras_seqmech[tuning]"
)

from examples.titles import tune  # noqa: E402
from tests.examples.titles import small_titles  # noqa: E402

pytestmark = pytest.mark.long


def test_a_search_is_continued(tmp_path, capsys):
    folder = small_titles.write(tmp_path / "data")
    arguments = ["--data-dir", str(folder), "--output", str(tmp_path / "s")]
    arguments += ["--units", "2", "3", "--embedding-sizes", "2", "4"]
    arguments += ["--epochs", "1", "--verbose", "0", "--trials"]
    first = tune.main([*arguments, "2"]).splitlines()
    assert len(first) == 2 + 2
    capsys.readouterr()
    table = tune.main([*arguments, "3"]).splitlines()
    assert len(table) == 2 + 3
    # What is new is the third trial; the others have the scores they had.
    assert len([row for row in table if row.startswith("| 2 |")]) == 1
    assert "3 trials, 0 failed" in capsys.readouterr().out
    assert (tmp_path / "s" / "results.md").read_text().split("\n")[:5] == table
    with pytest.raises(ValueError, match="another search"):
        tune.main([*arguments, "3", "--cell", "lstm"])


@pytest.mark.parametrize(
    "more, score", [([], 0.9), (["--receptive-field", "1", "3"], 0.6)]
)
def test_with_fields_the_last_epoch_counts(tmp_path, monkeypatch, more, score):
    """Those before explore."""

    def fit(self, *args, **kwargs):
        history = keras.callbacks.History()
        names = ("accuracy", "val_loss", "val_accuracy")
        history.history = {name: [0.5, 0.9, 0.6] for name in names}
        return history

    monkeypatch.setattr(keras.Model, "fit", fit)
    folder = small_titles.write(tmp_path / "data")
    arguments = ["--data-dir", str(folder), "--output", str(tmp_path / "s")]
    arguments += ["--units", "2", "--embedding-sizes", "2", "--trials", "1"]
    header, _, row = tune.main([*arguments, *more]).splitlines()
    columns = [name.strip() for name in header.split("|")]
    found = row.split("|")[columns.index("val_accuracy")]
    assert float(found) == score


def test_trials_search_what_they_should():
    args = tune.parse(
        [
            *("--receptive-field", "1", "3", "--read-outs", "last"),
            *("--initial-states", "zeros", "drawn"),
        ]
    )
    hp = keras_tuner.HyperParameters()
    settings = tune.choose_settings(hp, args)
    assert settings.read_out == "last" and settings.field_size == 1
    spaces = {space.name for space in hp.space}
    assert {"units", "initial_state", "embedding_size", "max_size"} <= spaces
    args = tune.parse(["--inputs", "characters"])
    hp = keras_tuner.HyperParameters()
    tune.choose_settings(hp, args)
    spaces = {space.name for space in hp.space}
    assert spaces == {"units", "read_out", "initial_state"}


@pytest.mark.parametrize(
    "options, message",
    [
        (["--receptive-field", "3", "2"], "must be LOW <= HIGH <= --length 20"),
        (["--receptive-field", "2", "21"], "Received: 2 21"),
        (["--vectors", "nowhere"], "no such file. Received: nowhere"),
        (["--learning-rate", "nan"], "must be a number in"),
    ],
)
def test_options_that_do_not_fit(options, message, capsys):
    with pytest.raises(SystemExit):
        tune.parse(options)
    assert message in capsys.readouterr().err
