"""The study of shorter sequences: what models read, what is measured."""

import keras
import numpy as np
import pytest
from keras import ops

from examples.pooling import noisy_texts
from examples.subsampling import shorten
from tests.examples.files import write_lines
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


def test_above_a_dense_layer_only_what_is_kept_is_read():
    """Another value of a step that is not kept changes nothing."""
    options = "--data markers --lower dense --length 20 --stride 5 --units 3 "
    options += "--train-size 8 --test-size 6"
    args = shorten.PROGRAM.parse(options.split())
    data = shorten.load(args)
    model = shorten.build("straight_through", data, args)
    # Marked steps are kept.
    lower, emission = model.get_layer("lower"), model.get_layer("emission")
    features = np.random.default_rng(0).normal(size=(5, 3))
    features[:, 0] = [1, 2, 3, 4, 20]
    lower.set_weights([features, np.zeros(3)])
    emission.set_weights([np.array([1, 0, 0]), np.array(-10)])
    shorten.decide(model)
    x, _ = data.test
    expected = np.maximum(x @ features, 0)
    np.testing.assert_allclose(lower(x), expected, rtol=1e-5, atol=1e-6)
    found = model.predict(x, verbose=0)
    others, marked = x.copy(), x.copy()
    others[..., :4] = np.where(x[..., 4:] == 0, x[..., 3::-1], x[..., :4])
    marked[..., :4] = np.where(x[..., 4:] == 1, x[..., 3::-1], x[..., :4])
    np.testing.assert_array_equal(model.predict(others, verbose=0), found)
    assert (model.predict(marked, verbose=0) != found).any()


def test_texts(tmp_path):
    """Words of test texts that training texts lack are unknown."""
    for part, word in (("train", "good"), ("val", "fair"), ("test", "odd")):
        rows = [
            {"text": f"{word} {word} film" * (i + 1), "label": i % 2}
            for i in range(6)
        ]
        write_lines(tmp_path / "imdb" / f"{part}.jsonl.gz", rows)
    options = f"--data imdb --data-dir {tmp_path} --length 8 --train-size 5 "
    options += "--test-size 4 --units 3 --stride 2"
    args = shorten.PROGRAM.parse(options.split())
    data = shorten.load(args)
    assert data.train[0].shape == (5, 8) and data.test[0].shape == (4, 8)
    assert data.train[0].max() < data.words
    assert (data.test[0] == 1).any() and not (data.train[0] == 1).any()


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


def test_maxima_and_the_mean():
    """What the upper LSTM says, and what it reads, in numpy."""
    args, data = (
        shorten.PROGRAM.parse(["--stride", "5", "--units", "3"]),
        random_data(),
    )
    x, _ = data.test
    model = shorten.build("lower", data, args)
    read = np.asarray(model.get_layer("lower")(x)).max(axis=1)
    expected = model.get_layer("logits")(read)
    np.testing.assert_allclose(model(x), expected, atol=1e-5)
    for method in ("maximum", "mean"):
        model = shorten.build(method, data, args)
        upper, logits = model.get_layer("upper"), model.get_layer("logits")
        lower = model.get_layer("lower")(x)
        if method == "mean":
            lower = lower[:, : lower.shape[1] // 5 * 5]
            lower = ops.mean(ops.reshape(lower, (len(x), -1, 5, 3)), axis=2)
        states = np.asarray(upper(lower))
        read = states.max(axis=1) if method == "maximum" else states
        np.testing.assert_allclose(model(x), logits(read), atol=1e-5)
