"""The comparison of poolings on a small made-up data set."""

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
        ("case_unknown", False, True, True),
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
