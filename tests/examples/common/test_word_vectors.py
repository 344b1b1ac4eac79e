"""Files of word vectors, and embeddings that start from them."""

import gzip

import numpy as np

from examples.common import word_vectors


def test_vectors_in_both_layouts(tmp_path):
    words = ["the", ". . .", "7"]
    vectors = np.array([[1, 2.5], [0, -1], [8, 9]], dtype="float16")
    text = "the 1 2.5\n. . . 0 -1\n7 8 9\n"
    folder = tmp_path / "glove"
    folder.mkdir()
    assert word_vectors.find_vectors(tmp_path) is None
    with gzip.open(folder / "v.txt.gz", "wt") as file:
        file.write(text)
    found = [word_vectors.find_vectors(tmp_path)]
    (folder / "v.txt").write_text(text)
    found.append(word_vectors.find_vectors(tmp_path))
    np.savez(folder / "v.npz", words=np.array(words), vectors=vectors)
    found.append(word_vectors.find_vectors(tmp_path))
    for path, ending in zip(found, ("txt.gz", "txt", "npz"), strict=True):
        assert path == str(folder / f"v.{ending}")
        found_words, values = word_vectors.load_vectors(path)
        assert found_words == words
        assert values.dtype == "float32"
        np.testing.assert_array_equal(values, vectors)


def test_known_words_start_with_their_vectors(tmp_path):
    (tmp_path / "v.txt").write_text("b 1 2\nz 3 4\n")
    matrix = word_vectors.embedding_matrix(["a", "b"], tmp_path / "v.txt", 9, 0)
    assert matrix.shape == (4, 2)
    assert matrix[3].tolist() == [1, 2]
    assert not matrix[:2].any() and matrix[2].any()
