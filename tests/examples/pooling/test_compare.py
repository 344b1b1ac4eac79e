"""The comparison of poolings on a small made-up data set."""

import json

import keras
import numpy as np
import pytest

from examples.pooling import classifiers
from examples.pooling import compare
from examples.pooling import experiments
from examples.pooling import noisy_texts
from tests.examples.files import read
from tests.examples.pooling.small_study import SMALL
from tests.examples.pooling.small_study import run_small
from tests.examples.pooling.small_study import write_imdb

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    write_imdb(root)
    return root


def arguments(folder, output, *more):
    return [
        *("--data-dir", str(folder), "--output", str(output)),
        *("--sizes", "20", "--settings", "mid", "--seeds", "0"),
        *("--epochs", "2", *SMALL, *more),
    ]


@pytest.mark.parametrize("name", classifiers.POOLINGS)
def test_classifiers_ignore_padding(name):
    """With words or vectors in, and forget gates start as they should."""
    matrix = np.random.default_rng(0).normal(size=(9, 5)).astype("float32")
    model = classifiers.bilstm_classifier(name, matrix, 4, forget_bias=2.0)
    ids = np.array([[5, 8, 1, 2], [3, 2, 0, 0]])
    expected = model(ids).numpy()
    assert expected.shape == (2, 2) and np.ptp(expected, axis=0).all()
    padded = np.pad(ids, ((0, 0), (0, 3)))
    np.testing.assert_allclose(model(padded), expected, atol=1e-6)
    # Without a mask a row without padding has the same answer, others have not.
    read = classifiers.bilstm_classifier(name, matrix, 4, 2.0, masked=False)
    read.set_weights(model.get_weights())
    found = read(ids).numpy()
    np.testing.assert_allclose(found[0], expected[0], atol=1e-6)
    assert np.abs(found[1] - expected[1]).max() > 1e-4
    given = classifiers.vector_classifier(name, 5, 4, forget_bias=2.0)
    for classifier in (model, given):
        rnn = classifier.get_layer("rnn")
        for lstm in (rnn.forward_layer, rnn.backward_layer):
            assert (
                lstm.cell.bias.numpy().tolist() == [0] * 4 + [2] * 4 + [0] * 8
            )
    given.set_weights(model.get_weights()[1:])
    vectors = matrix[padded]
    vectors[padded == 0] = 9
    found = given({"vectors": vectors, "mask": padded != 0})
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "own"), [("keras_mean", "meanpool"), ("keras_max", "maxpool")]
)
def test_poolings_of_keras(name, own):
    """The mean leaves padding out; the maximum is ours where there is none."""
    matrix = np.random.default_rng(0).normal(size=(9, 5)).astype("float32")
    ids = np.array([[5, 8, 1, 2], [3, 2, 0, 0]])
    ids = ids if name == "keras_mean" else ids[:1]
    model = classifiers.bilstm_classifier(own, matrix, 4)
    beside = classifiers.bilstm_classifier(name, matrix, 4)
    beside.set_weights(model.get_weights())
    np.testing.assert_allclose(beside(ids), model(ids), atol=1e-6)
    if name == "keras_max":
        # Zeros of padded steps count, where all states are negative.
        padded = np.pad(ids, ((0, 0), (0, 3)))
        changed = np.abs(beside(padded) - beside(ids)).max()
        assert changed > 1e-4
        np.testing.assert_allclose(model(padded), model(ids), atol=1e-6)


def test_additive_attention_of_the_last_state():
    random = np.random.default_rng(0)
    states = random.normal(size=(2, 4, 6)).astype("float32")
    mask = np.array([[1, 1, 1, 1], [1, 1, 0, 0]], "bool")
    inputs = keras.Input((4, 6)), keras.Input((4,), dtype="bool")
    pooled = classifiers.KERAS_POOLINGS["keras_att"]("pooling")(
        inputs[0], mask=inputs[1]
    )
    model = keras.Model(inputs, pooled)
    scale = random.normal(size=6).astype("float32")
    model.get_layer("pooling").set_weights([scale])
    for row, length, found in zip(states, (4, 2), model([states, mask])):
        # Forward's last state, and backward's, which is at the first step.
        query = np.append(row[length - 1, :3], row[0, 3:])
        scores = np.exp(np.tanh(row[:length] + query) @ scale)
        expected = scores @ row[:length] / scores.sum()
        np.testing.assert_allclose(found, expected, rtol=1e-5)


class Answer(keras.callbacks.Callback):
    """Makes a model answer one class in each epoch."""

    def __init__(self, answers):
        super().__init__()
        self.answers = answers

    def on_epoch_begin(self, epoch, logs=None):
        kernel, bias = self.model.get_layer("classifier").weights
        kernel.assign(np.zeros(kernel.shape))
        bias.assign(9 * np.eye(2)[self.answers[epoch]])


def test_the_best_epoch_on_the_validation_part_stays(monkeypatch):
    run_small(monkeypatch)
    ids = [np.array([2, 3], dtype="int32")] * 4
    labels = np.array([[1, 1, 1, 1], [0, 0, 0, 1], [1, 1, 0, 1]], "int32")
    parts = [
        noisy_texts.batches(noisy_texts.Texts(ids, own), 4) for own in labels
    ]
    matrix = np.zeros((4, 3), dtype="float32")
    model = classifiers.bilstm_classifier("meanpool", matrix, 1)
    classifiers.compile_classifier(model, learning_rate=0.0)
    answers = Answer([1, 0, 1])
    history = classifiers.fit(model, *parts[:2], 3, [answers])
    assert history["val_accuracy"] == [0.25, 0.75, 0.25]
    assert history["accuracy"] == [1, 0, 1]
    assert experiments.summary(history) == {
        "best_epoch": 2,
        "epochs": 3,
        "train_accuracy": 0,
        "validation_accuracy": 75,
    }
    found = [classifiers.accuracy(model, part) for part in parts]
    assert found == [0, 0.75, 0.25]


@pytest.mark.slow
def test_runs_are_saved_and_shown_and_not_done_again(
    folder, tmp_path, monkeypatch
):
    run_small(monkeypatch)
    output = tmp_path / "new" / "r.csv"
    options = arguments(folder, output, "--models", "bilstm", "maxatt")
    options += ["--save-models", str(tmp_path / "models")]
    shown = compare.main(options)
    rows = read(output)
    keys = compare.keys(compare.parse(options))
    assert [tuple(row[name] for name in compare.KEY) for row in rows] == keys
    accuracy = float(rows[1]["test_accuracy"])
    assert f"| mid | 20 | maxatt | {accuracy:.4g} |" in shown

    # The model that was saved is the one that was tested.
    (path,) = (tmp_path / "models").glob("20-mid-maxatt-0-*.keras")
    model = keras.models.load_model(path)
    data = noisy_texts.prepare(noisy_texts.load(folder), "mid", 20, 0, 20)
    described = json.loads(path.with_suffix(".json").read_text())
    assert described["words"] == data.words
    assert described["settings"] == rows[1]["settings"]
    assert experiments.accuracy(model, data.test) == accuracy

    # All is done: nothing is trained, no text is read.
    monkeypatch.setattr(noisy_texts, "load", None)
    assert compare.main(options) == shown
    # Of other settings nothing is done; seeds come one after the other.
    other = ["--forget-bias", "2", "--seeds", "2", "1", "--sizes", "8", "9"]
    keys = compare.keys(compare.parse([*options, *other]))
    assert [(key[3], key[0], key[2]) for key in keys] == [
        (seed, size, name)
        for seed in "21"
        for size in "89"
        for name in ("bilstm", "maxatt")
    ]
    assert all(" forget_bias=2.0 " in key[4] for key in keys)


def test_presets_are_read_as_they_say(folder, tmp_path, monkeypatch):
    run_small(monkeypatch)
    seen = {}

    def build(name, matrix, units, forget_bias, masked):
        seen["masked"], seen["padding"] = masked, matrix[0].any()
        raise StopIteration

    monkeypatch.setattr(classifiers, "bilstm_classifier", build)
    load = noisy_texts.load

    def note(*args):
        seen["lower"] = args[-1]
        return load(*args)

    monkeypatch.setattr(noisy_texts, "load", note)
    for preset, lower, padding, masked in (
        ("ours", True, False, True),
        ("case", False, False, True),
        ("unknown", True, True, True),
        ("padding", True, False, False),
        ("authors", False, True, False),
    ):
        options = ["--models", "bilstm", "--preset", preset]
        with pytest.raises(StopIteration):
            compare.main(arguments(folder, tmp_path / "p.csv", *options))
        expected = {"lower": lower, "padding": padding, "masked": masked}
        assert seen == expected


@pytest.mark.slow
def test_it_learns_words_in_the_middle(folder, tmp_path):
    options = arguments(folder, tmp_path / "r.csv", "--models", "maxpool")
    options += ["--epochs", "8", "--learning-rate", "0.03", "--units", "8"]
    options += ["--sizes", "60", "--max-length", "28", "--vanishing-every", "4"]
    compare.main(options)
    (row,) = read(tmp_path / "r.csv")
    # By chance 20 of 24 texts or more are right in fewer than 1 of 1,000 runs.
    assert float(row["test_accuracy"]) >= 80
    assert 1 <= int(row["best_epoch"]) <= int(row["epochs"]) == 8
    assert float(row["vanishing_ratio"]) > 0
    (path,) = tmp_path.glob("r-models/60-mid-maxpool-0-*.csv")
    curve = read(path)
    # 60 texts in batches of 8: epochs end at steps 8, 16, and so on.
    assert [int(point["step"]) for point in curve] == list(range(0, 65, 4))
    best = next(
        p for p in curve if int(p["step"]) == 8 * int(row["best_epoch"])
    )
    for column, name in (("val", "validation"), ("", "train")):
        column = f"{column}_accuracy".strip("_")
        values = [point[column] for point in curve]
        assert all(values[2::2]) and not any([values[0], *values[1::2]])
        expected = float(row[f"{name}_accuracy"])
        assert 100 * float(best[column]) == pytest.approx(expected, abs=0.01)
