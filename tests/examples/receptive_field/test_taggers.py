"""Taggers for word segmentation: batches, models, training, use."""

import keras
import numpy as np
import pytest
from keras import ops

from examples.receptive_field import cells
from examples.receptive_field import segmentation
from examples.receptive_field import taggers
from keras_seqmech import analysis
from keras_seqmech.receptive_field import layer
from keras_seqmech.receptive_field.layer import FieldChoices


def test_vocabulary_and_unknown_characters():
    sentences = [["甲", "乙甲"], ["丙", "乙甲"]]
    vocabulary = segmentation.character_vocabulary(sentences)
    assert vocabulary == ["甲", "乙"]
    ids = taggers.encode(["乙甲丙丁"], vocabulary)
    assert ids[0].tolist() == [3, 2, 1, 1]


def test_batches_hold_every_piece_once_an_epoch():
    sentences = [["甲" * (1 + i % 3), "乙。"] * (1 + i % 4) for i in range(24)]
    vocabulary = ["甲", "乙", "。"]
    batches, steps = taggers.training_batches(
        sentences, vocabulary, batch_size=1, lengths=(4, 8), seed=0
    )
    found = []
    for ids, tags, weights in batches.take(steps):
        assert ids.shape in [(1, 4), (1, 8)]
        assert ids.shape == tags.shape == weights.shape
        length = int(weights[0].numpy().sum())
        assert weights[0].numpy().tolist() == [1] * length + [0] * (
            ids.shape[1] - length
        )
        assert not ids[0, length:].numpy().any()
        characters = [vocabulary[i - 2] for i in ids[0, :length].numpy()]
        letters = [segmentation.TAGS[i] for i in tags[0, :length].numpy()]
        found.append(("".join(characters), "".join(letters)))
    expected = []
    for words in sentences:
        text, letters = segmentation.tag_words(words)
        for piece in segmentation.split_text(text, 8):
            expected.append((piece, letters[: len(piece)]))
            letters = letters[len(piece) :]
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_layers_get_the_options(bidirectional):
    options = {"summary": "mean", "temperature": 0.25, "max_size": 3}
    options |= {"gated": "all", "size_from": "field"}
    model = taggers.build_model(
        "lstm+rf", 2, 3, 3, bidirectional=bidirectional, **options
    )
    names = ["field", "field_backwards"][: 1 + bidirectional]
    for name in names:
        config = model.get_layer(name).get_config()
        assert {key: config[key] for key in options} == options


def test_unknown_model():
    with pytest.raises(ValueError, match="one of .*kind='gru'"):
        taggers.build_model("gru", 10)


@pytest.mark.long
@pytest.mark.parametrize(
    "kind, bidirectional",
    [(kind, (i + i // 4) % 2 == 0) for i, kind in enumerate(cells.MODELS)],
)
def test_segments_long_texts_whole(kind, bidirectional):
    model = taggers.build_model(
        kind, 2, units=3, embedding_units=3, bidirectional=bidirectional
    )
    texts = ["甲乙" * 20, "丙", "甲，乙。" * 7]
    words, size = taggers.segment(model, texts, ["甲", "乙"], max_length=9)
    assert ["".join(found) for found in words] == texts
    if "+" not in kind:
        assert size is None
    else:
        assert 1 <= size <= (1 if kind.endswith("-") else 4)


@pytest.mark.long
@pytest.mark.parametrize("bidirectional", [False, True])
def test_fields_are_reported_of_each_direction(bidirectional):
    """As the layers themselves report them, on whole rows without padding."""
    model = taggers.build_model(
        "rnn+rf", 2, 3, 3, bidirectional=bidirectional, seed=0
    )
    generator = np.random.default_rng(0)
    texts = ["".join(generator.choice(list("甲乙"), 9)) for _ in range(40)]
    found = taggers.report_fields(model, texts, ["甲", "乙"], max_length=9)
    _, size = taggers.segment(model, texts, ["甲", "乙"], max_length=9)
    assert found.mean_size == pytest.approx(size, rel=1e-6)
    ids = np.stack(taggers.encode(texts, ["甲", "乙"]))
    names = ["field", "field_backwards"][: 1 + bidirectional]
    information, certain = [], []
    for name in names:
        probabilities = model.get_layer(name).output[-2]  # By name: the last.
        p = keras.Model(model.input, probabilities)(ids).numpy()
        chosen = p.argmax(axis=-1)
        read = ids[:, ::-1] if name == "field_backwards" else ids
        # The last three of nine steps cannot choose every size up to 4.
        information.append(
            analysis.decision_information(chosen[:, :6], read[:, :6])
        )
        certain.append((p[:, :6].max(axis=-1) > 0.9).mean())
    assert found.information == pytest.approx(np.mean(information))
    assert found.certain == pytest.approx(np.mean(certain))
    assert (
        taggers.report_fields(
            taggers.build_model("rnn", 2, 3, 3), texts, ["甲", "乙"]
        )
        is None
    )


def test_fields_of_loaded_models_are_reported(tmp_path):
    model = taggers.build_model("rnn+rf", 2, 3, 3, seed=0)
    texts = ["甲乙乙甲" * 5]
    expected = taggers.report_fields(model, texts, ["甲", "乙"])
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert taggers.report_fields(loaded, texts, ["甲", "乙"]) == expected


@pytest.mark.parametrize("name", ["aaa", "zzz"])
def test_fields_are_known_by_name(monkeypatch, name):
    """Whatever else the layer returns, before or after them by name."""
    texts = ["甲乙乙甲" * 5]

    def report():
        keras.utils.set_random_seed(0)
        model = taggers.build_model("rnn+rf", 2, 3, 3, seed=0)
        return taggers.report_fields(model, texts, ["甲", "乙"])

    expected = report()
    field, shapes = FieldChoices.field, layer.field_shapes

    def more_shapes(cell, batch_size, length):
        own = shapes(cell, batch_size, length)
        return {**own, name: own["size"]}

    monkeypatch.setattr(layer, "field_shapes", more_shapes)
    monkeypatch.setattr(
        FieldChoices,
        "field",
        lambda self: {**field(self), name: ops.zeros_like(self.size)},
    )
    assert report() == expected


@pytest.mark.long
def test_learns_a_small_lexicon():
    generator = np.random.default_rng(0)
    sentences = [
        [["甲乙", "丙"][i] for i in generator.integers(2, size=10)]
        for _ in range(200)
    ]
    model = taggers.build_model("lstm", 3, units=8, dropout=0.0)
    timer = taggers.train(
        model, sentences, ["甲", "乙", "丙"], 4, 16, 0.03, seed=0, verbose=0
    )
    assert len(timer.seconds) == 4 * 13  # 200 pieces in batches of 16.
    texts = ["".join(words) for words in sentences]
    words, _ = taggers.segment(model, texts, ["甲", "乙", "丙"])
    assert segmentation.word_scores(sentences, words) == (1, 1, 1)
