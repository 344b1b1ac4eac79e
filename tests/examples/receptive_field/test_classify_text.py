"""Text classification on a small made-up data set."""

import csv
import json
import re
import subprocess
import sys

import keras
import numpy as np
import pytest

pytest.importorskip("tensorflow_text", reason="needs keras_seqmech[text]")

from examples.common import datasets  # noqa: E402
from examples.common import exploring  # noqa: E402
from examples.common import text_encoding  # noqa: E402
from examples.receptive_field import classify_text  # noqa: E402
from examples.receptive_field import figures  # noqa: E402
from keras_seqmech import ExploreThenCommit  # noqa: E402
from keras_seqmech import ReceptiveFieldRNN  # noqa: E402
from tests.examples.receptive_field import small_reviews  # noqa: E402
from tests.examples.receptive_field.small_reviews import BAD  # noqa: E402
from tests.examples.receptive_field.small_reviews import GOOD  # noqa: E402
from tests.examples.receptive_field.small_reviews import OTHER  # noqa: E402
from tests.examples.receptive_field.small_reviews import SMALL  # noqa: E402

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    small_reviews.write_mr(root)
    return root


def arguments(folder, results, *more):
    return [
        *("--dataset", "mr", "--data-dir", str(folder)),
        *("--results", str(results), *SMALL, *more),
    ]


def test_runs_are_kept_and_not_repeated(folder, tmp_path, capsys):
    results = tmp_path / "new" / "results.csv"
    models = ["--models", "rnn", "lstm+rf"]
    first = classify_text.main(
        arguments(folder, results, *models, "--seeds", "1")
    )
    table = [line.split("|") for line in first.splitlines()]
    assert [row[1].strip() for row in table[2:]] == ["rnn", "lstm+rf"]
    assert [row[8].strip() for row in table[2:]] == ["75.14", "80.87"]
    content = results.read_text()
    with open(results, newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["model"], row["seed"]) for row in rows] == [
        ("rnn", "1"),
        ("lstm+rf", "1"),
    ]
    assert 1 <= float(rows[1]["mean_field_size"]) <= 4
    assert 0 <= float(rows[1]["certain"]) <= 1
    assert abs(float(rows[1]["information"])) < np.log(4)
    assert [rows[0][x] for x in ("mean_field_size", "certain")] == ["", ""]

    capsys.readouterr()
    again = classify_text.main(
        arguments(folder, results, *models, "--seeds", "1")
    )
    assert again == first
    assert results.read_text() == content
    args = classify_text.parse(
        arguments(folder, results, *models, "--seeds", "1")
    )
    assert classify_text.keys(args) == [
        tuple(row[name] for name in classify_text.KEY) for row in rows
    ]
    counts, output = capsys.readouterr().out.strip().split("\n", 1)
    assert output == first
    assert re.match(r"mr: 243 training, .* \d+ test texts are also", counts)

    # Another setting is another run.
    classify_text.main(
        arguments(
            folder,
            results,
            *("--models", "rnn", "--seeds", "1", "--dropout", "0"),
        )
    )
    assert results.read_text().startswith(content)
    assert len(results.read_text().splitlines()) == 4


def test_each_fold_is_tested_and_a_run_of_its_own(
    folder, tmp_path, monkeypatch
):
    seen = []

    def note(name, seed, data, args):
        seen.append(data.test[0].tolist())
        measured = classify_text.FIELDS[len(classify_text.KEY) :]
        return dict.fromkeys(measured, 50), None

    monkeypatch.setattr(classify_text, "train_and_test", note)
    options = ["--models", "rnn", "--seeds", "1"]
    for fold in ("0", "3", "3"):
        results = tmp_path / "r.csv"
        classify_text.main(arguments(folder, results, *options, "--fold", fold))
    wanted = [
        text_encoding.encode(datasets.load("mr", folder, fold), 8).test[0]
        for fold in (0, 3)
    ]
    assert seen == [ids.tolist() for ids in wanted]
    assert seen[0] != seen[1]
    with open(results, newline="") as file:
        rows = [row["settings"] for row in csv.DictReader(file)]
    assert "fold" not in rows[0] and rows[1].endswith(" fold=3")


def test_folds_that_are_not_there(capsys):
    for dataset, fold, message in (
        ("trec", "1", "--fold: --dataset trec has a test part of its own"),
        ("mr", "10", "--fold: must be an integer from 0 to 9"),
    ):
        with pytest.raises(SystemExit):
            classify_text.parse(
                ["--dataset", dataset, "--data-dir", "data", "--fold", fold]
            )
        assert message in capsys.readouterr().err


def encoded(length=4):
    """Arrays with other texts in each part, padded on the right."""
    parts = []
    for label, ids in enumerate([[2, 3, 0, 0], [3, 2, 2, 0], [2, 0, 0, 0]]):
        ids = np.array([ids] * 4)
        parts.append((ids, np.array([label % 2, 1, 1, 1])))
    tokenizer = text_encoding.Tokenizer(["a", "b"], length)
    return text_encoding.Encoded(tokenizer, ("x", "y"), *parts)


def test_the_best_epoch_is_validated_and_the_test_part_held_out(monkeypatch):
    """Of two epochs, one answers always 1 and the next, worse, always 0."""
    data, seen = encoded(), {}

    def fit(model, *inputs, validation_data, callbacks, **options):
        seen.update(train=inputs, validation=validation_data)
        model.evaluate(*validation_data, verbose=0)  # Makes the metrics.
        callbacks = keras.callbacks.CallbackList(callbacks, model=model)
        callbacks.on_train_begin()
        *weights, _ = model.get_weights()
        weights = [np.zeros_like(weight) for weight in weights]
        for epoch, (bias, score) in enumerate([([0, 9], 0.9), ([9, 0], 0.1)]):
            model.set_weights([*weights, np.array(bias)])
            callbacks.on_epoch_end(epoch, {"val_accuracy": score})
        callbacks.on_train_end()
        history = keras.callbacks.History()
        history.history = {"val_accuracy": [0.9, 0.1], "loss": [1, 1]}
        return history

    monkeypatch.setattr(keras.Model, "fit", fit)
    args = classify_text.parse(arguments("data", "results"))
    row, _ = classify_text.train_and_test("rnn", 1, data, args)
    for part in ("train", "validation"):
        for array, expected in zip(seen[part], getattr(data, part)):
            np.testing.assert_array_equal(array, expected)
    assert row["test_accuracy"] == 75
    assert row["validation_accuracy"] == 90
    assert (row["best_epoch"], row["epochs"]) == (1, 2)


def test_explored_sizes_pick_a_late_epoch(monkeypatch):
    """The best epoch is one after exploration and the price's rise."""
    args = classify_text.parse(arguments("data", "results", "--explore"))
    args.epochs = 10
    first = classify_text.settled_epoch(exploring.schedule(args), 10)
    assert first > 0
    row, model = classify_text.train_and_test("rnn+rf", 1, encoded(), args)
    assert row["epochs"] >= first + 1 and row["best_epoch"] > first
    (field,) = [
        layer for layer in model.layers if isinstance(layer, ReceptiveFieldRNN)
    ]
    assert float(field.penalties.entropy) == 0


def test_sizes_are_settled_after_exploration_and_price():
    schedule = ExploreThenCommit(
        entropy=(0.1, 0.0, 0.0, 0.45), reading=(0.0, 0.02, 0.3, 0.7)
    )
    epochs = [classify_text.settled_epoch(schedule, n) for n in (1, 5, 10)]
    assert epochs == [0, 4, 7]
    assert classify_text.settled_epoch(None, 10) == 0


def test_settings_name_what_older_runs_did_not_have():
    def settings(model, *more):
        args = classify_text.parse(arguments("data", "results", *more))
        return classify_text.settings(args, model)

    older = settings("rnn+rf", "--gated", "output")
    assert older == settings("rnn") == settings("rnn", "--explore")
    assert settings("rnn+rf") == f"{older} gated=memory"
    explored = settings("rnn+rf", "--explore", "--price", "0.5")
    assert explored.startswith(f"{older} gated=memory explore=")
    assert explored.endswith("/0.5")


def test_padding_does_not_count_in_the_mean_field_size():
    args = classify_text.parse(arguments("data", "results"))
    row, _ = classify_text.train_and_test("rnn+rf-", 1, encoded(), args)
    assert row["mean_field_size"] == 1


def test_it_learns_and_exports_strings_in_labels_out(folder, tmp_path):
    (tmp_path / "v.txt").write_text(
        "".join(f"{word} 1 0 0 0\n" for word in GOOD)
        + "".join(f"{word} -1 0 0 0\n" for word in BAD)
        + "".join(f"{word} 0 1 0 0\n" for word in OTHER)
    )
    more = ["--epochs", "4", "--learning-rate", "0.02", "--dropout", "0.1"]
    more += ["--models", "lstm+rf", "--seeds", "1", "--batch-size", "27"]
    more += ["--vectors", str(tmp_path / "v.txt")]
    more += ["--export-dir", str(tmp_path / "served")]
    table = classify_text.main(arguments(folder, tmp_path / "r.csv", *more))
    accuracy = float(table.splitlines()[-1].split("|")[3])
    assert accuracy == 100

    texts = ["The film: LOVELY plot!", "a poor, poor film"]
    served = serve_in_a_fresh_process(tmp_path / "served" / "1", texts)
    assert served["label"] == ["positive", "negative"]
    np.testing.assert_allclose(np.sum(served["probabilities"], 1), 1, 1e-5)


def serve_in_a_fresh_process(path, texts):
    """Answers of an export where only TF and TF Text are known."""
    script = f"""
import json, sys
sys.modules["keras_seqmech"] = sys.modules["examples"] = None
import tensorflow as tf
import tensorflow_text
model = tf.saved_model.load({str(path)!r})
out = model.signatures["serving_default"](text=tf.constant({texts!r}))
labels = [label.decode() for label in out["label"].numpy()]
print(json.dumps({{
    "label": labels, "probabilities": out["probabilities"].numpy().tolist()
}}))
"""
    process = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    "option, value",
    [
        ("--epochs", "0"),
        ("--units", "1.5"),
        ("--batch-size", "-3"),
        ("--dropout", "1"),
        ("--l2", "inf"),
        ("--learning-rate", "0"),
    ],
)
def test_numbers_that_cannot_be(capsys, option, value):
    for parse, data in (
        (classify_text.parse, ["--dataset", "mr"]),
        (figures.parse, []),
    ):
        with pytest.raises(SystemExit):
            parse([*data, "--data-dir", "data", f"{option}={value}"])
        error = capsys.readouterr().err
        assert f"{option}: must be a" in error and repr(value) in error


def test_output_that_cannot_be_is_found_before_training(tmp_path, monkeypatch):
    def load(*args):
        raise AssertionError("too late")

    monkeypatch.setattr(datasets, "load", load)
    (tmp_path / "file").touch()
    inside = str(tmp_path / "file" / "folder" / "results")
    export = ["--export-dir", inside]
    drawing = ["--data-dir", "data", "--output", inside]
    for main, options in (
        (classify_text.main, arguments("data", inside)),
        (classify_text.main, arguments("data", tmp_path / "r.csv", *export)),
        (figures.main, drawing),
    ):
        with pytest.raises(OSError, match="file"):
            main(options)
