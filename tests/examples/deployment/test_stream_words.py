"""Words as they become certain, from an exported segmenter."""

import io

import numpy as np
import pytest
import tensorflow as tf

from examples.common.exports import newest
from examples.deployment import stream_words
from examples.receptive_field.segmentation import join_words
from keras_seqmech.analysis import emission_delay

pytestmark = pytest.mark.long


def words_at_once(export, text):
    """Words by `serving_default`, all characters known."""
    model = tf.saved_model.load(str(export)).signatures["serving_default"]
    answer = model(characters=tf.constant([list(text)]))
    tags = [tag.decode() for tag in answer["tags"].numpy()[0]]
    return join_words(text, tags)


@pytest.mark.slow
def test_words_are_those_of_the_whole_text(tmp_path, capsys, monkeypatch):
    small = ["--sentences", "70", "--epochs", "1"]
    options = [*small, "--model", str(tmp_path / "m")]
    text = "研究生命的起源，１９９８年。"
    (found,) = stream_words.main([*options, "--text", text])
    output = capsys.readouterr().out
    assert 0 <= min(found.delays) <= max(found.delays) <= 11
    assert f"Delay of a tag: {np.mean(found.delays):.1f} characters" in output
    export = newest(tmp_path / "m")
    expected = words_at_once(export, text)
    assert " ".join(expected) + " \n" in output
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
    assert loaded == [str(export)]
    typist = stream_words.Typist(load_model(str(export)).signatures)
    words = [list(typist.type(character)) for character in "的的的的的"]
    assert "".join(sum(words, []) + list(typist.end())) == "的的的的的"
    # Tags leave in order, each when its field has what it reads.
    model = load_model(str(export)).signatures["serving_default"]
    size = model(characters=tf.constant([[*"的的的的的"]]))["size"]
    assert typist.delays == emission_delay(size)[0].tolist()
