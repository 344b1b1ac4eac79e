"""The study of shorter sequences: what models read, what is measured."""

import keras
import numpy as np
import pytest

from examples.pooling import noisy_texts
from examples.subsampling import shorten
from tests.examples.pooling.small_study import write_imdb

pytestmark = pytest.mark.long


# What depends on the last step, too.
WHOLE = ("none", "maximum", "lower")


def test_markers():
    """The answer is the symbol at the third marked step."""
    x, y = shorten.markers(30, 20, seed=0)
    for steps, answer in zip(x, y, strict=True):
        assert (steps.sum(axis=1) == 1 + steps[:, -1]).all()
        *_, third = np.flatnonzero(steps[:, -1])[:3]
        assert steps[third, answer] == 1
    assert set(y) == set(range(shorten.SYMBOLS))
    assert (shorten.markers(30, 20, seed=1)[1] != y).any()


def random_data():
    generator = np.random.default_rng(3)
    x = generator.normal(size=(40, 12, 1)).astype("float32")
    y = generator.integers(0, 2, 40)
    return shorten.Data((x, y), (x, y), 2)


@pytest.mark.parametrize("method", ["expectation", "integrate"])
def test_what_is_measured(method):
    """Accuracies of the outputs; steps that are likelier kept, or firings."""
    args, data = (
        shorten.PROGRAM.parse(["--stride", "2", "--units", "3"]),
        random_data(),
    )
    x, y = data.test
    model = shorten.build(method, data, args)
    logits = {"accuracy": model.predict(x, verbose=0)}
    found = shorten.measure(method, model, data, args)
    if method == "expectation":
        logits["hard_accuracy"] = model.predict(x, verbose=0)
        assert (logits["hard_accuracy"] != logits["accuracy"]).any()
        emission = keras.Model(model.input, model.get_layer("emission").output)
        kept = (emission.predict(x, verbose=0) > 0.5).sum(axis=1)
    else:
        states = keras.Model(model.input, model.get_layer("lower").output)
        kernel, bias = model.get_layer("kept").logit.get_weights()
        fired = states.predict(x, verbose=0) @ kernel + bias
        kept = np.rint((1 / (1 + np.exp(-fired))).sum(axis=(1, 2)))
    assert found.keys() == {*logits, "kept"}
    for name, values in logits.items():
        right = values.argmax(axis=-1) == y
        assert found[name] == pytest.approx(right.mean(), abs=1e-6)
    assert 0 < kept.mean() < 12
    assert found["kept"] == pytest.approx(kept.mean(), rel=1e-5)


@pytest.mark.parametrize("lower", ["lstm", "dense"])
@pytest.mark.parametrize(
    "method", ["none", "maximum", "lower", "stride", "mean", "convolution"]
)
def test_padding_is_not_read(method, lower):
    """A padded text has the answer of the text itself.

    A shortened one is read in whole strides: here one of two words of three.
    """
    options = ["--stride", "2", "--units", "3", "--lower", lower]
    args, x = shorten.PROGRAM.parse(options), np.array([[2, 3, 4, 0, 0, 0, 0]])
    parts = (x, np.array([0])), (x, np.array([0]))
    padded = shorten.build(method, shorten.Data(*parts, 2, 9), args)
    own = x[:, : 3 if method in WHOLE else 2]
    parts = (own, np.array([0])), (own, np.array([0]))
    alone = shorten.build(method, shorten.Data(*parts, 2, 9), args)
    alone.set_weights(padded.get_weights())
    np.testing.assert_allclose(padded(x), alone(own), atol=1e-6)


def test_texts_amid_noise(tmp_path, monkeypatch):
    """Words between sentences of noise are the text's, rare ones unknown."""
    write_imdb(tmp_path)
    monkeypatch.setattr(shorten, "WORDS", 30)
    options = f"--data noisy --data-dir {tmp_path} --length 60 --train-size 20 "
    options += "--test-size 10 --units 3 --lower dense"
    args = shorten.PROGRAM.parse(options.split())
    data = shorten.load(args)
    for (ids, labels), size in zip((data.train, data.test), (20, 10)):
        assert ids.shape == (size, 60) and set(labels) == {0, 1}
        assert ids.max() < data.words and (ids[:, :40] > 0).all()
    corpus = noisy_texts.load(tmp_path, test_size=10)
    texts = noisy_texts.prepare(corpus, "mid", 20, 0, 60).train
    for ids, own in zip(data.train[0], texts.ids):
        kept = np.where(own < 30, own, 1)
        np.testing.assert_array_equal(ids[: len(own)], kept)
        assert not ids[len(own) :].any()
    model = shorten.build("mean", data, args)
    assert model.predict(data.test[0], verbose=0).shape == (10, 2)
