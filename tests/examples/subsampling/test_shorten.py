"""The study of shorter sequences, of tiny models: runs, times, table."""

import gzip
import json
import re

import keras
import numpy as np
import pytest

from examples.common import resumable_fit
from examples.common.networks import network_of
from examples.subsampling import shorten
from keras_seqmech.training import ExactBackupAndRestore
from tests.examples.csv_files import read

pytestmark = pytest.mark.long

SMALL = [
    *("--units", "3", "--train-size", "40", "--test-size", "20"),
    *("--epochs", "2", "--repeats", "1", "--stride", "16"),
]


def with_data(options):
    args = shorten.parse(options)
    return args, shorten.load(args)


def test_rows_times_and_table(tmp_path, monkeypatch):
    output = tmp_path / "s.csv"
    options = [*SMALL, "--output", str(output), "--methods"]
    options += ["expectation", "reinforce", "integrate"]
    measure, measured = shorten.measure, []

    def measure_and_keep(*args):
        measured.append(measure(*args))
        return dict(measured[-1])

    monkeypatch.setattr(shorten, "measure", measure_and_keep)
    content = shorten.main(options)
    rows = read(output)
    lines = content.splitlines()[2:]
    timed = {
        "expectation": [True, True, True],
        "reinforce": [True, False, True],
        "integrate": [True, True, False],
    }
    assert [row["method"] for row in rows] == list(timed)
    for row, found, line in zip(rows, measured, lines, strict=True):
        for name in ("accuracy", "hard_accuracy"):
            value = f"{100 * found[name]:.2f}" if name in found else ""
            assert row[name] == value
        assert (row["hard_accuracy"] == "") == (row["method"] == "integrate")
        assert row["kept"] == f"{found['kept']:.1f}"
        method, accuracy, *_, train, inference, hard, seeds, _ = [
            cell.strip() for cell in line.split("|")[1:]
        ]
        assert (method, seeds) == (row["method"], "1")
        assert accuracy == f"{float(row['accuracy']):.4g}"
        assert timed[method] == [x != "" for x in (train, inference, hard)]
    # Nothing is left of the runs but their results, and none is done twice.
    assert [path.name for path in tmp_path.iterdir()] == ["s.csv"]
    again = [*options, "--no-times"]
    monkeypatch.setattr(shorten, "build", None)
    shorten.main(again)
    assert read(output) == rows
    with pytest.raises(TypeError):
        shorten.main([*again, "--seeds", "1"])


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
        (shorten, "measure", killed),
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


@pytest.mark.parametrize("method", shorten.LEARNED)
def test_decisions_explore_then_commit(method):
    """Each learned model pays what the schedule says at its end."""
    args = shorten.parse([*SMALL, "--indecision", "0.3"])
    (schedule,) = shorten.schedules(method, args)
    data = shorten.load(args)
    model = shorten.build(method, data, args)
    model.fit(*data.train, callbacks=[schedule], verbose=0)
    layer = network_of(model).get_layer("kept")
    assert float(layer.penalties.indecision) == pytest.approx(0.3)
    assert float(layer.penalties.target_weight) == 1
    assert layer.penalties.target == 1 / args.stride
    assert not shorten.schedules("integrate", args)


def random_data():
    generator = np.random.default_rng(3)
    x = generator.normal(size=(40, 12, 1)).astype("float32")
    y = generator.integers(0, 2, 40)
    return shorten.Data((x, y), (x, y), 2)


@pytest.mark.parametrize("method", ["expectation", "integrate"])
def test_what_is_measured(method):
    """Accuracies of the outputs; steps that are likelier kept, or firings."""
    args, data = shorten.parse(["--stride", "2", "--units", "3"]), random_data()
    x, y = data.test
    model = shorten.build(method, data, args)
    found = shorten.measure(method, model, data, args)
    read_by = {"accuracy": model}
    if method == "expectation":
        hard = shorten.build(method, data, args, "threshold")
        hard.set_weights(model.get_weights())
        read_by["hard_accuracy"] = hard
        emission = keras.Model(model.input, model.get_layer("emission").output)
        kept = (emission.predict(x, verbose=0) > 0.5).sum(axis=1)
    else:
        states = keras.Model(model.input, model.get_layer("lower").output)
        kernel, bias = model.get_layer("kept").logit.get_weights()
        logits = states.predict(x, verbose=0) @ kernel + bias
        kept = np.rint((1 / (1 + np.exp(-logits))).sum(axis=(1, 2)))
    assert found.keys() == {*read_by, "kept"}
    for name, reader in read_by.items():
        right = reader.predict(x, verbose=0).argmax(axis=-1) == y
        assert found[name] == pytest.approx(right.mean(), abs=1e-6)
    assert 0 < kept.mean() < 12
    assert found["kept"] == pytest.approx(kept.mean(), rel=1e-5)


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
    data = shorten.load(args)
    assert data.train[0].shape == (5, 8) and data.test[0].shape == (4, 8)
    assert (data.classes, data.length) == (2, 8)
    assert data.train[0].max() < data.words
    assert (data.test[0] == 1).any() and not (data.train[0] == 1).any()
    # Texts are shorter than 8 words: what follows is masked.
    model = shorten.build("expectation", data, args)
    x = np.sort(data.train[0][:2], axis=1)[:, ::-1].copy()
    x[:, 3:] = 0
    probabilities = model.predict(x, verbose=0)
    assert np.isfinite(probabilities).all()


@pytest.mark.parametrize("method", ["none", "stride"])
def test_plain_models_read_what_they_should(method):
    """The end of a sequence counts, what comes after the last stride not."""
    args, data = shorten.parse(["--stride", "5", "--units", "3"]), random_data()
    x, _ = data.test
    model = shorten.build(method, data, args)
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
