"""The text classification examples, on small made-up data sets."""

import csv
import gzip
import json
import re
import subprocess
import sys
from unittest import mock

import keras
import numpy as np
import pytest
import tensorflow as tf

pytest.importorskip("tensorflow_text", reason="needs keras_seqmech[text]")

from examples.common import datasets  # noqa: E402
from examples.common import text_encoding  # noqa: E402
from examples.common import word_vectors  # noqa: E402
from examples.receptive_field import classifiers  # noqa: E402
from examples.receptive_field import classify_text  # noqa: E402
from examples.receptive_field import figures  # noqa: E402

pytestmark = pytest.mark.long

SMALL = "--units 6 --length 8 --epochs 2 --embedding-size 5".split()
# 243 training texts are then in batches of one size, compiled once.
SMALL += ["--batch-size", "81"]
GOOD = "good fine lovely".split()
BAD = "bad poor awful".split()
OTHER = "the film , it's a half-hour plot".split()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """MR as JSON lines: one word of each text says its label."""
    root = tmp_path_factory.mktemp("data")
    random = np.random.default_rng(5)
    (root / "mr").mkdir()
    with gzip.open(root / "mr" / "all.jsonl.gz", "wt") as file:
        for i in range(300):
            words = list(random.choice(OTHER, 5))
            words.insert(i % 6, random.choice([BAD, GOOD][i % 2]))
            row = {"text": " ".join(words), "label": i % 2}
            file.write(json.dumps(row) + "\n")
    return root


@pytest.fixture(scope="module")
def published(folder, tmp_path_factory):
    """The same texts in the layout of their authors."""
    root = tmp_path_factory.mktemp("published")
    texts = {0: "", 1: ""}
    with gzip.open(folder / "mr" / "all.jsonl.gz", "rt") as file:
        for line in file:
            row = json.loads(line)
            texts[row["label"]] += row["text"] + "\n"
    (root / "rt-polarity.neg").write_text(texts[0], encoding="latin-1")
    (root / "rt-polarity.pos").write_text(texts[1], encoding="latin-1")
    return root


def arguments(folder, results, *more):
    return [
        *("--dataset", "mr", "--data-dir", str(folder)),
        *("--results", str(results), *SMALL, *more),
    ]


def words_of(text):
    return [w.decode() for w in text_encoding.split_words([text]).numpy()[0]]


@pytest.mark.parametrize(
    "text, words",
    [
        ("It's GOOD, really!", ["it's", "good", ",", "really", "!"]),
        ("a  half-hour\tplot ...", ["a", "half-hour", "plot", *"..."]),
        ("Ärger (1998)", ["ärger", "(", "1998", ")"]),
        (" ", []),
    ],
)
def test_split_words(text, words):
    assert words_of(text) == words


def test_tokenizer_pads_and_cuts():
    tokenizer = text_encoding.Tokenizer(["a", "b"], max_length=3)
    texts = tf.constant(["b A", "", "a a x b", "y"])
    expected = [[3, 2, 0], [0, 0, 0], [2, 2, 1], [1, 0, 0]]
    np.testing.assert_array_equal(tokenizer(texts), expected)
    again = text_encoding.Tokenizer.from_config(tokenizer.get_config())
    np.testing.assert_array_equal(again(texts), expected)


def test_vocabulary_is_of_training_texts_only():
    def part(*texts):
        return datasets.Part(list(texts), np.zeros(len(texts), dtype="int32"))

    data = datasets.TextData(
        ("x", "y"), part("b b a"), part("b c"), part("d a")
    )
    encoded = text_encoding.encode(data, 3)
    assert encoded.tokenizer.vocabulary == ["b", "a"]
    assert encoded.validation[0].tolist() == [[2, 1, 0]]
    assert encoded.test[0].tolist() == [[1, 3, 0]]


def test_known_words_start_with_their_vectors(tmp_path):
    (tmp_path / "v.txt").write_text("b 1 2\nz 3 4\n")
    matrix = word_vectors.embedding_matrix(["a", "b"], tmp_path / "v.txt", 9, 0)
    assert matrix.shape == (4, 2)
    assert matrix[3].tolist() == [1, 2]
    assert not matrix[:2].any() and matrix[2].any()


@pytest.mark.parametrize("name", classifiers.MODELS)
def test_models_ignore_padding(name):
    """More padding changes nothing, and each has the parts it is named for."""
    args = classify_text.parse(arguments("data", "results"))
    matrix = np.random.default_rng(0).normal(size=(9, 5)).astype("float32")
    outputs = []
    for length in (4, 7):
        keras.utils.set_random_seed(0)
        model, fields = classifiers.build_model(name, matrix, length, 3, args)
        ids = np.zeros((2, length), dtype="int64")
        ids[0, :3], ids[1, :2] = (5, 8, 1), (3, 2)
        outputs.append(model(ids).numpy())
        if fields is not None:
            probabilities = fields(ids)["probabilities"]
            size = 1 if name.endswith("-") else 4
            assert probabilities.shape == (2, length, size)
    np.testing.assert_allclose(outputs[0], outputs[1], atol=1e-6)
    assert (fields is not None) == ("+" in name)
    shapes = [tuple(weight.shape) for weight in model.weights]
    kernel = (5, 24) if name.startswith("lstm") else (5, 6)
    assert kernel in shapes


def test_runs_are_kept_and_not_repeated(folder, published, tmp_path, capsys):
    results = tmp_path / "new" / "results.csv"
    models = ["--models", "rnn", "lstm+rf"]
    first = classify_text.main(
        arguments(folder, results, *models, "--seeds", "1")
    )
    table = [line.split("|") for line in first.splitlines()]
    assert [row[1].strip() for row in table[2:]] == ["rnn", "lstm+rf"]
    assert [row[6].strip() for row in table[2:]] == ["75.14", "80.87"]
    content = results.read_text()
    with open(results, newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["model"], row["seed"]) for row in rows] == [
        ("rnn", "1"),
        ("lstm+rf", "1"),
    ]
    assert 1 <= float(rows[1]["mean_field_size"]) <= 4
    assert rows[0]["mean_field_size"] == ""

    # Both are done, whatever the layout the data come in.
    capsys.readouterr()
    again = classify_text.main(
        arguments(published, results, *models, "--seeds", "1")
    )
    assert again == first
    assert results.read_text() == content
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


def test_padding_does_not_count_in_the_mean_field_size():
    args = classify_text.parse(arguments("data", "results"))
    row, _ = classify_text.train_and_test("rnn+rf-", 1, encoded(), args)
    assert row["mean_field_size"] == 1


def test_field_figures_leave_out_steps_without_room():
    """With S = 3, the last two steps of each text."""
    ids = np.array([[2, 3, 2, 4, 0], [4, 4, 2, 2, 3], [3, 2, 0, 0, 0]])
    probabilities = np.zeros((3, 5, 3))
    probabilities[..., 0] = 1
    probabilities[0, 0] = 0, 0, 1
    fields = mock.Mock()
    fields.predict.return_value = {"probabilities": probabilities}
    tokenizer = text_encoding.Tokenizer(["a", "b", "c"], 5)
    part = (ids, np.zeros(3, "int32"))
    data = text_encoding.Encoded(tokenizer, ("x", "y"), part, part, part)
    sizes = figures.sizes_by_word(fields, data, min_count=1)
    # a at 0 of the first and 2 of the second, b at 1, c at 0 and 1.
    assert sizes == {"a": (2, 2), "b": (1, 1), "c": (1, 2)}


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
    accuracy = float(table.splitlines()[-1].split("|")[2])
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


def test_figures_and_their_numbers(folder, tmp_path):
    pytest.importorskip("matplotlib", reason="needs keras_seqmech[plots]")
    options = ["--datasets", "mr", "--data-dir", str(folder), *SMALL]
    options += ["--output", str(tmp_path), "--every", "3", "--probe", "20"]
    options += ["--min-count", "5", "--learning-rate", "0.01"]
    options += ["--seeds", "1"]
    summary = figures.main(options)
    assert json.loads((tmp_path / "summary.json").read_text()) == summary
    for kind in ("steps", "words"):
        image = (tmp_path / f"{kind}_mr.png").read_bytes()
        assert image.startswith(b"\x89PNG")
    with open(tmp_path / "steps_mr.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    # 243 texts (a tenth for testing, a tenth of the rest for validation)
    # in batches of 81: 3 steps an epoch.
    for condition in ("dropout 0", "dropout 0.5"):
        steps = [r["step"] for r in rows if r["condition"] == condition]
        assert [float(step) for step in steps] == [0, 3, 6]
    # Both conditions start from the same weights.
    assert len({r["mean_size"] for r in rows if float(r["step"]) == 0}) == 1
    assert len({r["mean_size"] for r in rows if float(r["step"]) == 6}) == 2
    with open(tmp_path / "words_mr.csv", newline="") as file:
        words = {row["word"]: row for row in csv.DictReader(file)}
    assert set(words) <= {*GOOD, *BAD, *OTHER} and summary["mr"]["words"] >= 9
    assert float(words["good"]["label_entropy"]) == 0
    assert float(words["film"]["label_entropy"]) > 0.6
    assert all(1 <= float(row["mean_size"]) <= 4 for row in words.values())
    assert set(summary["mr"]["lowest_entropy"][:6]) == {*GOOD, *BAD}


def test_rank_correlation_is_spearmans():
    stats = pytest.importorskip("scipy.stats")
    random = np.random.default_rng(1)
    x = random.integers(0, 8, 40).tolist()
    y = (np.array(x) + random.normal(0, 4, 40)).round().tolist()
    expected = stats.spearmanr(x, y).statistic
    assert figures.rank_correlation(x, y) == pytest.approx(expected)
    assert np.isnan(figures.rank_correlation([1, 1, 1], [1, 2, 3]))


def test_bad_input(folder, tmp_path, capsys):
    with pytest.raises(SystemExit):
        classify_text.main(arguments(folder, "r.csv", "--models", "gru"))
    assert "gru" in capsys.readouterr().err
    with pytest.raises(FileNotFoundError, match="mr/all.jsonl.gz"):
        classify_text.main(arguments(tmp_path, "r.csv"))


@pytest.mark.parametrize("option", ["--epochs", "--units", "--batch-size"])
@pytest.mark.parametrize("value", ["0", "-3", "1.5"])
def test_numbers_that_are_not_positive(capsys, option, value):
    for parse, data in (
        (classify_text.parse, ["--dataset", "mr"]),
        (figures.parse, []),
    ):
        with pytest.raises(SystemExit):
            parse([*data, "--data-dir", "data", f"{option}={value}"])
        message = f"{option}: must be an integer of at least 1. Received: "
        assert message + repr(value) in capsys.readouterr().err


def test_seeds_that_are_negative(folder, capsys):
    with pytest.raises(SystemExit):
        classify_text.main(arguments(folder, "r.csv", "--seeds", "0", "-1"))
    assert "--seeds: must be an integer of at least 0" in (
        capsys.readouterr().err
    )


def test_output_that_cannot_be_is_found_before_training(tmp_path, monkeypatch):
    def load(*args):
        raise AssertionError("too late")

    monkeypatch.setattr(datasets, "load", load)
    (tmp_path / "file").touch()
    inside = str(tmp_path / "file" / "folder" / "results")
    export = ["--export-dir", inside]
    figures = ["--data-dir", "data", "--output", inside]
    for main, options in (
        (classify_text.main, arguments("data", inside)),
        (classify_text.main, arguments("data", tmp_path / "r.csv", *export)),
        (figures.main, figures),
    ):
        with pytest.raises(OSError, match="file"):
            main(options)


def test_a_run_that_was_cut_short_is_done_again(folder, tmp_path, monkeypatch):
    """A killed writer left a row without an end: its last number is cut."""
    seeds = []

    def run(name, seed, data, args):
        seeds.append(seed)
        row = dict.fromkeys(classify_text.FIELDS, 50)
        own = {"dataset": "mr", "model": name, "seed": seed}
        return {**row, **own, "settings": classify_text.settings(args)}, None

    monkeypatch.setattr(classify_text, "train_and_test", run)
    results = tmp_path / "results.csv"
    options = arguments(folder, results, "--models", "rnn", "--seeds", "0", "7")
    classify_text.main(options)
    whole = results.read_bytes()
    for cut in (1, 3, 30):
        results.write_bytes(whole[:-cut])
        classify_text.main(options)
        assert results.read_bytes() == whole
    assert seeds == [0, 7, 7, 7, 7]
