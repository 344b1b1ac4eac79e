"""The study of shorter sequences, of tiny models: runs, times, table."""

import gzip
import json
import re
import shutil

import keras
import numpy as np
import pytest

from examples.common import locks
from examples.common import resumable_fit
from examples.common.networks import network_of
from examples.subsampling import shorten
from examples.subsampling import shorten_models
from keras_seqmech.training import ExactBackupAndRestore
from tests.examples.csv_files import read

pytestmark = pytest.mark.long

SMALL = [
    *("--units", "3", "--train-size", "40", "--test-size", "20"),
    *("--epochs", "2", "--repeats", "1", "--stride", "16"),
]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Options, folder and table of a study."""
    folder = tmp_path_factory.mktemp("study")
    options = [*SMALL, "--output", str(folder / "s.csv")]
    options += ["--markdown", str(folder / "new" / "s.md")]
    options += ["--methods", "expectation", "reinforce", "integrate"]
    measure, measured = shorten_models.measure, []

    def measure_and_keep(*args):
        measured.append(measure(*args))
        return dict(measured[-1])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shorten_models, "measure", measure_and_keep)
        content = shorten.main(options)
    (folder / "measured.json").write_text(json.dumps(measured))
    return options, folder, content


def test_rows_and_table(study):
    _, folder, content = study
    rows = read(folder / "s.csv")
    methods = ["expectation", "reinforce", "integrate"]
    assert [row["method"] for row in rows] == methods
    expected, *_ = rows
    measured = json.loads((folder / "measured.json").read_text())
    for row, found in zip(rows, measured, strict=True):
        for name in ("accuracy", "hard_accuracy"):
            value = f"{100 * found[name]:.2f}" if name in found else ""
            assert row[name] == value
        assert (row["hard_accuracy"] == "") == (row["method"] == "integrate")
        assert row["kept"] == f"{found['kept']:.1f}"
    header, _, first, *_ = content.split("\n\n")[0].split("\n")
    assert header.startswith("| between the LSTMs | accuracy % |")
    accuracy = float(expected["accuracy"])
    assert first.startswith(f"| learned, in expectation | {accuracy:.1f} |")
    assert "64 steps, of which 4 are read" in content
    assert (folder / "new" / "s.md").read_text() == content


def test_times(study):
    _, folder, _ = study
    known = {
        row["method"]: {name for name in shorten.TIMES if row[name]}
        for row in read(folder / "s-times.csv")
        if float(row["train_ms"]) > 0
    }
    assert known == {
        "expectation": {"train_ms", "inference_ms", "hard_ms"},
        "reinforce": {"train_ms", "hard_ms"},
        "integrate": {"train_ms", "inference_ms"},
    }


def test_nothing_is_done_twice(study, monkeypatch):
    options, folder, content = study

    def refuse(*args, **kwargs):
        raise AssertionError("trains")

    monkeypatch.setattr(shorten_models, "build", refuse)
    assert shorten.main(options) == content
    # Nor is anything left of the runs but their results.
    assert {path.name for path in folder.iterdir()} == {
        "s.csv",
        "s-times.csv",
        "new",
        "measured.json",
    }
    with pytest.raises(AssertionError, match="trains"):
        shorten.main([*options, "--seeds", "1"])


def test_times_are_not_measured_while_others_train(
    study, tmp_path, monkeypatch, capsys
):
    """What another process does takes time of the machine."""
    _, folder, _ = study
    shutil.copy(folder / "s.csv", tmp_path / "s.csv")
    options = [*SMALL, "--output", str(tmp_path / "s.csv")]
    options += ["--methods", "expectation", "reinforce", "integrate"]
    measured = []

    def measure(args, data):
        measured.append(args.methods)
        return {name: {"train_ms": "7.00"} for name in args.methods}

    monkeypatch.setattr(shorten, "measure_times", measure)
    args, data = with_data([*options, "--seeds", "0", "1"])
    # The runs of seed 1 have no rows.
    assert shorten.times(args, data) == [] == measured
    assert "No times: other processes" in capsys.readouterr().out
    args.seeds = [0]
    with locks.claimed(tmp_path / "s-times.claim"):
        assert shorten.times(args, data) == [] == measured
    assert "No times: other processes" in capsys.readouterr().out
    rows = shorten.times(args, data)
    assert [row["train_ms"] for row in rows] == ["7.00"] * 3
    assert shorten.times(args, data) == rows and len(measured) == 1
    assert capsys.readouterr().out == ""


def test_a_run_that_was_killed_goes_on(tmp_path, monkeypatch, capsys):
    """Killed after an epoch, then in its tests: it ends as one that was not."""
    options = [*SMALL, "--methods", "stride"]
    (whole,) = shorten.do_runs(
        *with_data([*options, "--output", str(tmp_path / "whole.csv")])
    )
    options += ["--output", str(tmp_path / "s.csv")]
    capsys.readouterr()

    class Killed(ExactBackupAndRestore):
        def on_epoch_end(self, epoch, logs=None):
            super().on_epoch_end(epoch, logs)
            raise KeyboardInterrupt

    def killed(*args):
        raise KeyboardInterrupt

    for part, name, replaced in (
        (resumable_fit, "ExactBackupAndRestore", Killed),
        (shorten_models, "measure", killed),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(part, name, replaced)
            with pytest.raises(KeyboardInterrupt):
                shorten.do_runs(*with_data(options))
    (row,) = shorten.do_runs(*with_data(options))
    assert row["hard_accuracy"] == row["kept"] == ""
    shown = capsys.readouterr().out
    assert shown.count("epoch 1/2") == shown.count("epoch 2/2") == 1
    assert row["accuracy"] == whole["accuracy"]
    assert float(row["seconds"]) > 0
    assert [path.name for path in tmp_path.glob("s*")] == ["s.csv"]


def test_what_is_measured():
    """Accuracies of the outputs, and the steps that are likelier kept."""
    args = shorten.parse(["--stride", "2", "--units", "3"])
    generator = np.random.default_rng(3)
    x = generator.normal(size=(40, 12, 1)).astype("float32")
    y = generator.integers(0, 2, 40)
    data = shorten_models.Data((x, y), (x, y), 2)
    model = shorten_models.build("expectation", data, args)
    found = shorten_models.measure("expectation", model, data, args)
    hard = shorten_models.build("expectation", data, args, "threshold")
    hard.set_weights(model.get_weights())
    for name, read_by in (("accuracy", model), ("hard_accuracy", hard)):
        right = read_by.predict(x, verbose=0).argmax(axis=-1) == y
        assert found[name] == pytest.approx(right.mean(), abs=1e-6)
    emission = keras.Model(model.input, model.get_layer("emission").output)
    kept = (emission.predict(x, verbose=0) > 0.5).sum(axis=1)
    assert 0 < kept.mean() < 12
    assert found["kept"] == pytest.approx(kept.mean(), rel=1e-5)


def test_what_fires_is_counted():
    """Weights of the states, added up and rounded."""
    args = shorten.parse(["--stride", "2", "--units", "3"])
    generator = np.random.default_rng(3)
    x = generator.normal(size=(40, 12, 1)).astype("float32")
    y = generator.integers(0, 2, 40)
    data = shorten_models.Data((x, y), (x, y), 2)
    model = shorten_models.build("integrate", data, args)
    found = shorten_models.measure("integrate", model, data, args)
    right = model.predict(x, verbose=0).argmax(axis=-1) == y
    assert found["accuracy"] == pytest.approx(right.mean(), abs=1e-6)
    states = keras.Model(model.input, model.get_layer("lower").output)
    kernel, bias = model.get_layer("kept").logit.get_weights()
    logits = states.predict(x, verbose=0) @ kernel + bias
    fired = np.rint((1 / (1 + np.exp(-logits))).sum(axis=(1, 2)))
    assert found["kept"] == pytest.approx(fired.mean(), rel=1e-5)


@pytest.mark.parametrize("method", shorten_models.LEARNED)
def test_decisions_explore_then_commit(method):
    """Each learned model pays what the schedule says at its end."""
    args = shorten.parse([*SMALL, "--entropy", "0.5", "--indecision", "0.3"])
    (schedule,) = shorten_models.schedules(method, args)
    assert schedule.values(0.0)["entropy_weight"] == 0.5
    data = shorten_models.load(args)
    model = shorten_models.build(method, data, args)
    model.fit(*data.train, callbacks=[schedule], verbose=0)
    layer = network_of(model).get_layer("kept")
    assert float(layer.costs.indecision_weight) == pytest.approx(0.3)
    assert float(layer.costs.target_weight) == 1
    assert layer.costs.target == 1 / args.stride
    assert not shorten_models.schedules("integrate", args)


def with_data(options):
    args = shorten.parse(options)
    return args, shorten_models.load(args)


def test_digits():
    args = shorten.parse(["--train-size", "50", "--test-size", "30"])
    data = shorten_models.load(args)
    (x, y), (x_test, y_test) = data.train, data.test
    assert x.shape == (50, 64, 1) and x_test.shape == (30, 64, 1)
    assert y.shape == (50,) and y_test.shape == (30,)
    assert (data.classes, data.length, data.words) == (10, 64, 0)
    assert 0 <= x.min() and x.max() == 1


def test_texts(tmp_path):
    """In training most words are unknown to none; those of tests are."""
    (tmp_path / "imdb").mkdir()
    for part, word in (("train", "good"), ("val", "fair"), ("test", "odd")):
        rows = [
            {"text": f"{word} {word} film" * (i + 1), "label": i % 2}
            for i in range(6)
        ]
        path = tmp_path / "imdb" / f"{part}.jsonl.gz"
        with gzip.open(path, "wt", encoding="utf8") as file:
            file.write("\n".join(map(json.dumps, rows)))
    pytest.importorskip("tensorflow_text")
    args = shorten.parse(
        [
            *("--data", "imdb", "--data-dir", str(tmp_path), "--length", "8"),
            *("--train-size", "5", "--test-size", "4", "--units", "3"),
            *("--stride", "2"),
        ]
    )
    data = shorten_models.load(args)
    assert data.train[0].shape == (5, 8) and data.test[0].shape == (4, 8)
    assert (data.classes, data.length) == (2, 8)
    assert data.train[0].max() < data.words
    assert (data.test[0] == 1).any() and not (data.train[0] == 1).any()
    # Texts are shorter than 8 words: what follows is masked.
    model = shorten_models.build("expectation", data, args)
    x = np.sort(data.train[0][:2], axis=1)[:, ::-1].copy()
    x[:, 3:] = 0
    probabilities = model.predict(x, verbose=0)
    assert np.isfinite(probabilities).all()


@pytest.mark.parametrize("method", ["none", "stride"])
def test_plain_models_read_what_they_should(method):
    """The end of a sequence counts, what comes after the last stride not."""
    args = shorten.parse(["--stride", "5", "--units", "3"])
    generator = np.random.default_rng(0)
    x = generator.normal(size=(4, 12, 1)).astype("float32")
    y = np.zeros(4, "int32")
    data = shorten_models.Data((x, y), (x, y), 2)
    model = shorten_models.build(method, data, args)
    changed = x.copy()
    changed[:, 10:] = 7
    same = np.allclose(
        model.predict(x, verbose=0), model.predict(changed, verbose=0)
    )
    assert same == (method == "stride")


@pytest.mark.parametrize(
    "options, message",
    [
        (["--data", "imdb"], "--data-dir: must be given for --data imdb"),
        (["--stride", "1"], "--stride: must be an integer of at least 2"),
        (["--methods", "all"], "--methods: invalid choice: 'all'"),
        (["--target-weight", "-1"], r"--target-weight: .* in \[0, 100\]"),
        (["--data", "mr"], "--data: invalid choice: 'mr'"),
    ],
)
def test_bad_options(options, message, capsys):
    with pytest.raises(SystemExit):
        shorten.parse(options)
    assert re.search(message, " ".join(capsys.readouterr().err.split()))


def test_a_stride_beyond_the_end():
    with pytest.raises(SystemExit, match="--stride.* at most 64"):
        shorten.main(["--stride", "65", "--train-size", "2"])
