"""Files of word vectors, and embeddings that start from them."""

import gzip

import numpy as np
import pytest

from examples.common import word_vectors


def test_vectors_in_both_layouts(tmp_path):
    words = ["the", "of", ","]
    vectors = np.array([[1, 2.5], [0, -1], [3, 4]], dtype="float16")
    np.savez(tmp_path / "v.npz", words=np.array(words), vectors=vectors)
    text = "the 1 2.5\nof 0 -1\n, 3 4\n"
    (tmp_path / "v.txt").write_text(text)
    with gzip.open(tmp_path / "v.txt.gz", "wt") as file:
        file.write(text)
    for file in ("v.npz", "v.txt", "v.txt.gz"):
        found_words, found = word_vectors.load_vectors(tmp_path / file)
        assert found_words == words
        assert found.dtype == "float32"
        np.testing.assert_array_equal(found, vectors)


@pytest.mark.parametrize(
    "text, line",
    [
        ("a 1 2\nb 1\n", 2),
        ("a 1 2\nb 1 2 3\n", 2),
        ("2 3\na 1 2 3\n", 2),
        ("a 1 x\n", 1),
        ("a 1 2\nb nan 1\n", 2),
        ("a inf 2\n", 1),
        ("a\n", 1),
        ("", 1),
    ],
)
def test_malformed_vectors(tmp_path, text, line):
    path = tmp_path / "v.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=f"v.txt, line {line}: expected"):
        word_vectors.load_vectors(path)


def test_words_with_spaces(tmp_path):
    path = tmp_path / "v.txt"
    path.write_text("the 1 2\n. . . 3 4\nto me@x.org 5 6\n7 8 9\n")
    words, vectors = word_vectors.load_vectors(path)
    assert words == ["the", ". . .", "to me@x.org", "7"]
    np.testing.assert_array_equal(vectors, [[1, 2], [3, 4], [5, 6], [8, 9]])


@pytest.mark.parametrize(
    "arrays",
    [
        {"words": np.array(["a"])},
        {"words": np.array([1]), "vectors": np.ones((1, 3))},
        {"words": np.array(["a"]), "vectors": np.array([["b"]])},
        {"words": np.array(["a"]), "vectors": np.ones((2, 3))},
        {"words": np.array(["a"]), "vectors": np.array([[1.0, np.nan]])},
    ],
)
def test_malformed_arrays(tmp_path, arrays):
    path = tmp_path / "v.npz"
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match="v.npz: expected strings `words`"):
        word_vectors.load_vectors(path)


def test_known_words_start_with_their_vectors(tmp_path):
    (tmp_path / "v.txt").write_text("b 1 2\nz 3 4\n")
    matrix = word_vectors.embedding_matrix(["a", "b"], tmp_path / "v.txt", 9, 0)
    assert matrix.shape == (4, 2)
    assert matrix[3].tolist() == [1, 2]
    assert not matrix[:2].any() and matrix[2].any()
