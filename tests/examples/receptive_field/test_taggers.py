"""Taggers for word segmentation: batches, models, training, use."""

import numpy as np
import pytest

from examples.receptive_field import cells
from examples.receptive_field import field_report
from examples.receptive_field import segmentation
from examples.receptive_field import taggers
from keras_seqmech import PolicyGradientModel
from keras_seqmech import analysis


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
        wanted = [1] * length + [0] * (ids.shape[1] - length)
        assert weights[0].numpy().tolist() == wanted
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


def test_drawn_sizes_are_trained_by_policy_gradient():
    for kind in ("rnn", "rnn+rf-", "rnn+rf", "rnn+rf-rl"):
        model = taggers.trainable(taggers.build_model(kind, 2, 3, 3))
        drawn = isinstance(model, PolicyGradientModel)
        assert drawn == cells.draws(kind) == (kind == "rnn+rf-rl")


@pytest.mark.long
@pytest.mark.parametrize(
    "kind, bidirectional",
    [
        pytest.param("rnn+rf", True, marks=pytest.mark.slow),
        ("lstm+rf-", False),
    ],
)
def test_texts_are_segmented_whole_and_fields_reported(kind, bidirectional):
    """Fields as the layers themselves report them, on whole rows."""
    known = ["甲", "乙"]
    model = taggers.build_model(
        kind, 2, 3, 3, bidirectional=bidirectional, seed=0
    )
    generator = np.random.default_rng(0)
    texts = ["".join(generator.choice(known, 9)) for _ in range(40)]
    words = taggers.segment(model, texts, known, max_length=9)
    ids = np.stack(taggers.encode(texts, known))
    best = model(ids).numpy().argmax(axis=-1)
    for text, row, found in zip(texts, best, words, strict=True):
        tags = [segmentation.TAGS[tag] for tag in row]
        assert found == segmentation.join_words(text, tags)
    largest = 1 if kind.endswith("-") else 4
    found = taggers.report_fields(model, texts, known, max_length=9)
    sizes, information, certain = [], [], []
    decisions = analysis.decisions(model, ids)
    for layer in taggers.fields_of(model):
        sizes.append(decisions[layer.name]["size"].mean())
        p = decisions[layer.name]["probabilities"]
        read = ids[:, ::-1] if layer.go_backwards else ids
        # The last steps of nine cannot choose every size.
        free = slice(10 - largest)
        information.append(
            field_report.information(
                p.argmax(axis=-1)[:, free].ravel(), read[:, free].ravel()
            )
        )
        certain.append((p[:, free].max(axis=-1) > 0.9).mean())
    assert 1 <= found.mean_size <= largest
    assert found.mean_size == pytest.approx(np.mean(sizes))
    assert found.information == pytest.approx(np.mean(information))
    assert found.certain == pytest.approx(np.mean(certain))
    # Longer texts and unknown characters, in pieces.
    texts = ["甲乙" * 20, "丙", "甲，乙。" * 7]
    words = taggers.segment(model, texts, known, max_length=9)
    assert ["".join(found) for found in words] == texts
