"""Exported models that take texts."""

import re

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
    assert model.outputs == {
        "count": ("int32", 0),
        "half": ("float32", 0),
        "is_long": ("bool", 0),
        "letters": ("string", 1),
        "powers": ("float32", 1),
    }
    found = model.score(TEXTS, batch_size)
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


def test_texts_with_an_axis_of_one(tmp_path):
    path = text_models.save_function(
        lambda text: {"length": tf.strings.length(text)[:, 0]},
        [tf.TensorSpec([None, 1], tf.string, "text")],
        tmp_path / "model",
    )
    model = text_model.TextModel(path)
    assert model.score(["abc", ""], 2) == {"length": [3, 0]}


@pytest.mark.parametrize(
    "specs, shown",
    [
        ([tf.TensorSpec([None], tf.int64, "ids")], "'ids': 'int64 (None,)'"),
        ([tf.TensorSpec([None, None], tf.string, "text")], "(None, None)"),
        ([tf.TensorSpec([8], tf.string, "text")], "string (8,)"),
        ([tf.TensorSpec(None, tf.string, "text")], "string <unknown>"),
        ([TEXT, tf.TensorSpec([None], tf.string, "more")], "'more'"),
    ],
)
def test_inputs_that_are_not_texts(tmp_path, specs, shown):
    path = text_models.save_function(
        lambda *inputs: {str(i): tf.identity(x) for i, x in enumerate(inputs)},
        specs,
        tmp_path / "model",
    )
    message = rf"one input, strings of shape.*{re.escape(shown)}"
    with pytest.raises(ValueError, match=message):
        text_model.TextModel(path)


@pytest.mark.parametrize(
    "function, shown",
    [
        (tf.size, r"int32 \(\)"),
        (lambda text: tf.complex(*[tf.ones_like(text, "float32")] * 2), "comp"),
    ],
)
def test_outputs_that_are_no_columns(tmp_path, function, shown):
    path = text_models.save_function(
        lambda text: {"found": function(text)}, [TEXT], tmp_path / "model"
    )
    with pytest.raises(ValueError, match=rf"output 'found', {shown}"):
        text_model.TextModel(path)


def test_fewer_answers_than_texts(tmp_path):
    path = text_models.save_function(
        lambda text: {"first": text[:1]}, [TEXT], tmp_path / "model"
    )
    model = text_model.TextModel(path)
    with pytest.raises(ValueError, match=r"'first' of shape \(1,\)"):
        model.score(TEXTS, 4)


def test_models_and_signatures_that_are_not_there(tmp_path):
    with pytest.raises(ValueError, match="`model` must be the folder"):
        text_model.TextModel(tmp_path)
    module = tf.Module()
    tf.saved_model.save(module, str(tmp_path))
    with pytest.raises(ValueError, match="signature `serving_default`"):
        text_model.TextModel(tmp_path)


@pytest.mark.parametrize(
    "name, content",
    [
        ("saved_model.pb", b"garbage"),
        ("variables/variables.index", b"short"),
        ("variables/variables.data-00000-of-00001", None),
    ],
)
def test_damaged_models_are_named(tmp_path, name, content):
    path = text_models.save(text_models.Slow(1), tmp_path / "model")
    assert (path / name).exists()
    (path / name).unlink()
    if content is not None:
        (path / name).write_bytes(content)
    message = f"TensorFlow can load.* Received: model='{path}': [^\n]+$"
    with pytest.raises(ValueError, match=message):
        text_model.TextModel(path)


def test_fingerprints_tell_models_apart(tmp_path):
    """Also by what is in folders that are links."""
    model = tmp_path / "model"
    for name in ("model", "weights"):
        (tmp_path / name).mkdir()
    (model / "saved_model.pb").write_bytes(b"graph")
    (model / "variables").symlink_to(tmp_path / "weights")
    weights = model / "variables" / "data"
    weights.write_bytes(b"1")
    before = text_model.fingerprint(model)
    assert text_model.fingerprint(model) == before
    weights.write_bytes(b"2")
    assert text_model.fingerprint(model) != before
    weights.write_bytes(b"1")
    assert text_model.fingerprint(model) == before
    weights.rename(model / "variables" / "index")
    assert text_model.fingerprint(model) != before
