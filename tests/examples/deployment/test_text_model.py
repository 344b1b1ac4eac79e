"""Exported models that take texts."""

import pytest
import tensorflow as tf

from examples.deployment import text_model
from tests.examples.deployment import text_models

TEXTS = ["four", "", "字字", "a", "seventeen letters", "to"]
TEXT = tf.TensorSpec([None], tf.string, "text")


@pytest.mark.parametrize("batch_size", [2, 100])
def test_answers_are_in_the_order_of_texts(tmp_path, batch_size):
    path = text_models.save(text_models.Letters(), tmp_path / "model")
    model = text_model.TextModel(path)
    found = model.score(TEXTS, batch_size)
    assert [*found] == ["count", "half", "is_long", "letters", "powers"]
    counts = [len(text) for text in TEXTS]
    assert found["count"] == counts
    assert found["half"] == [count / 2 for count in counts]
    assert found["is_long"] == [count > 3 for count in counts]
    assert ["".join(letters) for letters in found["letters"]] == TEXTS
    assert found["powers"] == [[count, count**2] for count in counts]
    assert model.score([], batch_size)["count"] == []


def test_batches_hold_texts_of_similar_length(tmp_path):
    def whole_batch(text):
        joined = tf.strings.reduce_join(text, separator=" ")
        return {"batch": tf.fill(tf.shape(text), joined)}

    path = text_models.save_function(whole_batch, [TEXT], tmp_path / "model")
    found = text_model.TextModel(path).score(["333", "1", "4444", "22", "x"], 2)
    assert found["batch"] == ["22 333", "1 x", "4444", "22 333", "1 x"]


def test_models_that_are_refused(tmp_path):
    with pytest.raises(ValueError, match="`model` must be the folder"):
        text_model.TextModel(tmp_path)
    ids = tf.TensorSpec([None], tf.int64, "ids")
    given = r"one input, strings .*'ids': 'int64 \(None,\)'"
    path = text_models.save_function(
        lambda ids: {"found": ids}, [ids], tmp_path / "ids"
    )
    with pytest.raises(ValueError, match=given):
        text_model.TextModel(path)
