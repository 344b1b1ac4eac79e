"""The comparison of poolings on a small made-up data set."""

import keras
import numpy as np
import pytest

from examples.pooling import classifiers
from examples.pooling import compare
from examples.pooling import noisy_texts
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
            compare.PROGRAM.main(
                arguments(folder, tmp_path / "p.csv", *options)
            )
        expected = {"lower": lower, "padding": padding, "masked": masked}
        assert seen == expected
