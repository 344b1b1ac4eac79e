"""Reports on masks, of models whose masks are known to be lost or kept."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from keras_seqmech import FocusedHierarchicalEncoder
from keras_seqmech import KeepMask
from keras_seqmech import MeanPooling
from keras_seqmech import analysis

TOKENS = np.array([[3, 1, 4, 1, 5], [2, 7, 1, 8, 2]])


def mean(name="mean"):
    return layers.GlobalAveragePooling1D(name=name)


def text_model(rnn, pooling, mask_zero=True, steps=None):
    tokens = keras.Input((steps,), dtype="int32", name="tokens")
    x = layers.Embedding(9, 3, mask_zero=mask_zero, name="words")(tokens)
    x = pooling(rnn(x))
    return keras.Model(tokens, layers.Dense(2, name="head")(x))


def lstm():
    return layers.LSTM(4, return_sequences=True, name="rnn")


def as_in_316(layer):
    layer.supports_masking = False
    return layer


@pytest.mark.filterwarnings("ignore:Layer .* does not support masking")
def test_the_mask_that_keras_no_longer_passes_on():
    report = analysis.mask_report(text_model(as_in_316(lstm()), mean()), TOKENS)
    assert report.first.name == "mean"
    assert report.first.kind == "GlobalAveragePooling1D"
    changed = {layer.name: layer.changed for layer in report.layers}
    assert not changed["words"] and not changed["rnn"] and changed["head"]
    (row,) = [x for x in str(report).splitlines() if "first to read" in x]
    assert row.split()[::2][:2] == ["mean", "GlobalAveragePooling1D"]
    kept = KeepMask(as_in_316(lstm()))
    report = analysis.mask_report(text_model(kept, mean()), TOKENS)
    assert report.first is None
    assert str(report) == "Padding changes no answer."
    names = [layer.name for layer in report.layers]
    assert "words" in names and names[-2:] == ["mean", "head"]


def test_no_mask_at_all():
    forward = text_model(lstm(), mean(), mask_zero=False)
    # Padding after the real steps comes too late for a forward layer.
    assert analysis.mask_report(forward, TOKENS).first.name == "mean"
    report = analysis.mask_report(forward, TOKENS, side="left")
    assert report.first.name == "rnn"
    both = text_model(layers.Bidirectional(lstm(), name="both"), mean(), False)
    assert analysis.mask_report(both, TOKENS).first.name == "both"


def test_the_change_is_what_padding_does():
    inputs = keras.Input((None, 2), name="x")
    model = keras.Model(inputs, mean()(inputs))
    x = np.array([[[1.0, 3.0], [3.0, 5.0]]])
    report = analysis.mask_report(model, x, padding=7)
    # The mean (2, 4) becomes (5, 5.8); the largest number was 4.
    assert report.first.change == pytest.approx(3 / 4)


@pytest.mark.parametrize("reads_padding", [True, False])
def test_infinities_and_nans_are_right_answers(reads_padding):
    inputs = keras.Input((None, 2), name="x")
    logs = keras.ops.log(keras.ops.relu(inputs - 0.5))
    mixed = keras.ops.where(inputs > 0.8, np.nan, logs)
    if reads_padding:
        mixed = mixed + mean("end")(inputs)[:, None]
    x = np.array([[[1.0, 0.7], [0.2, 0.6]]])
    report = analysis.mask_report(keras.Model(inputs, mixed), x)
    assert (report.first and report.first.name) == (
        "end" if reads_padding else None
    )
    # The finite numbers beside them still tell.
    assert report.layers[-1].changed == reads_padding


def masked_model(layer):
    x = keras.Input((None, 3), name="x")
    mask = keras.Input((None,), dtype="bool", name="mask")
    return keras.Model([x, mask], layer(x, mask))


class Leaky(keras.layers.Layer):
    """Sums all steps: zeros under a mask are not seen."""

    def call(self, x, mask):
        return keras.ops.sum(x, axis=1) + 0 * keras.ops.sum(
            keras.ops.cast(mask, "float32")
        )


@pytest.mark.parametrize("side", ["left", "right"])
def test_masks_that_are_inputs_and_other_numbers_under_them(side):
    x = np.random.default_rng(0).normal(size=(2, 4, 3))
    example = [x, np.ones((2, 4), "bool")]
    good = masked_model(lambda x, mask: MeanPooling()(x, mask=mask))
    assert analysis.mask_report(good, example, side=side).first is None
    bad = masked_model(Leaky(name="leaky"))
    assert analysis.mask_report(bad, example, side=side).first.name == "leaky"


def test_the_largest_token_is_a_padding():
    tokens = keras.Input((None,), dtype="uint8", name="tokens")
    mask = keras.Input((None,), dtype="bool", name="mask")
    states = layers.Embedding(256, 2)(tokens)
    model = keras.Model([tokens, mask], MeanPooling()(states, mask=mask))
    example = [np.array([[3, 1]], "uint8"), np.ones((1, 2), "bool")]
    assert analysis.mask_report(model, example, padding=255).first is None


def test_texts_are_padded_with_empty_ones():
    words = keras.Input((None,), dtype="string", name="words")
    ids = layers.StringLookup(vocabulary=["a", "b"], mask_token="")(words)
    states = layers.LSTM(2)(layers.Embedding(4, 2, mask_zero=True)(ids))
    model = keras.Model(words, states)
    for example in (np.array([["a", "b"]]), tf.constant([["a", "b"]])):
        assert analysis.mask_report(model, example).first is None


def test_several_sequences_and_inputs_without_time():
    words = keras.Input((None, 3), name="words")
    mask = keras.Input((None,), dtype="bool", name="mask")
    question = keras.Input((2,), name="question")
    encoder = FocusedHierarchicalEncoder(
        4, return_gates=True, return_sequences=True, name="encoder"
    )
    states, gates = encoder(words, question, mask=mask)
    pooled = mean("end")(states, mask=mask)
    model = keras.Model(
        {"words": words, "mask": mask, "question": question},
        {"end": pooled, "gates": gates["gates"]},
    )
    generator = np.random.default_rng(0)
    example = {
        "words": generator.normal(size=(2, 4, 3)),
        "mask": np.ones((2, 4), "bool"),
        "question": generator.normal(size=(2, 2)),
    }
    assert analysis.mask_report(model, example).first is None


def test_a_sequential_model_and_one_within_another():
    tail = keras.Sequential(
        [keras.Input((None, 3)), mean(), layers.Dense(2)], name="tail"
    )
    model = keras.Sequential([keras.Input((None, 3)), tail])
    x = np.random.default_rng(0).normal(size=(1, 4, 3))
    assert analysis.mask_report(model, x).first.name == "tail"
    assert analysis.mask_report(tail, x).first.name == "mean"


def one_length():
    return text_model(lstm(), mean(), steps=5)


@pytest.mark.parametrize(
    "make, example, options, message",
    [
        (keras.Sequential, TOKENS, {}, "`model` must be a functional model"),
        (None, TOKENS, {"side": "up"}, "side='up'"),
        (one_length, TOKENS, {}, r"unknown number of steps.*\(None, 5\)"),
        (None, [TOKENS, TOKENS], {}, r"`example`.*the keys \['tokens'\]"),
        (None, TOKENS[:0], {}, "`example` .* of a row or more.*Received"),
        (None, [[1], [1, 2]], {}, "`example` must be an array.*Received"),
        (None, TOKENS, {"padding": 0.5}, "hold, of int.*padding=0.5"),
        (None, TOKENS.astype("uint8"), {"padding": -1}, "uint8.*padding=-1"),
    ],
)
def test_refuses(make, example, options, message):
    model = make() if make else text_model(lstm(), mean())
    with pytest.raises(ValueError, match=message):
        analysis.mask_report(model, example, **options)
