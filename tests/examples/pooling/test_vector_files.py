"""Files of token vectors, what is found in them, and which are refused."""

import numpy as np
import pytest

from examples.common import datasets
from examples.pooling import few_texts
from examples.pooling import vector_files


def encoded(**changes):
    """Two texts, of two and three tokens."""
    fields = {
        "vectors": np.arange(10, dtype="float16").reshape(5, 2),
        "row_splits": np.array([0, 2, 5]),
        "labels": np.array([1, 0], dtype="int32"),
        "parts": np.array(["train", "test"]),
        "digests": np.array([vector_files.digest(x) for x in ("a", "b")]),
        "encoder": "made up",
    }
    return vector_files.Encoded(**fields | changes)


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "folder" / "v.npz"
    vector_files.write(path, encoded())
    found = vector_files.read(path)
    for name, expected in encoded()._asdict().items():
        np.testing.assert_array_equal(getattr(found, name), expected)
    assert found.encoder == "made up"
    assert found.vectors.dtype == "float16"
    assert [file.name for file in path.parent.iterdir()] == ["v.npz"]


def test_texts_are_found_by_what_they_say():
    vectors = [encoded().vectors] * 2
    twice = encoded(
        vectors=np.concatenate(vectors),
        row_splits=np.array([0, 2, 5, 7, 10]),
        labels=np.array([1, 0, 1, 0]),
        parts=np.array(["train", "train", "validation", "test"]),
        digests=np.array([vector_files.digest(x) for x in "aabb"]),
    )
    found = twice.find(["a"], np.array([0]), "train")
    assert found.rows[0].tolist() == [[4, 5], [6, 7], [8, 9]]
    found = twice.find(["b"], np.array([0]), "test")
    assert found.rows[0].tolist() == [[4, 5], [6, 7], [8, 9]]
    found = encoded().find(["a"], np.array([1]), "train")
    assert found.rows[0].tolist() == [[0, 1], [2, 3]]
    assert found.labels.tolist() == [1]


def test_other_texts_are_refused():
    with pytest.raises(ValueError, match="without 1 of 2 train texts"):
        encoded().find(["a", "b"], np.array([1, 0]), "train")
    with pytest.raises(ValueError, match="those of the test texts"):
        encoded().find(["b"], np.array([1]), "test")


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"vectors": np.zeros(5)}, "`vectors` with 2 dimensions of floats"),
        ({"vectors": np.zeros((5, 2), int)}, "dimensions of floats.*int64"),
        ({"vectors": np.zeros((5, 0))}, "at least one number"),
        ({"vectors": np.full((5, 2), np.inf)}, "finite `vectors`"),
        ({"vectors": np.zeros((4, 2))}, "rises from 0 to 4"),
        ({"row_splits": np.array([1, 2, 5])}, "rises from 0 to 5"),
        ({"row_splits": np.array([0, 5, 5])}, "rises from 0 to 5"),
        ({"row_splits": np.array([0, 2.0, 5])}, "`row_splits` with 1 dimen"),
        ({"row_splits": np.array([0, 5])}, "`labels` of as many texts"),
        ({"row_splits": np.array([0])}, "at least one"),
        ({"labels": np.array([1])}, "`labels` of as many.*1 and 2"),
        ({"labels": np.array([1, -1])}, "`labels` of at least 0.*-1"),
        ({"parts": np.array(["train", "dev"])}, "`parts` of train.*dev"),
        ({"digests": np.array(["a"])}, "`digests` of as many"),
        ({"digests": np.array([1, 2])}, "`digests` .* of strings"),
        ({"encoder": np.array(["a", "b"])}, "`encoder` with 0 dimensions"),
        ({"parts": np.array([{}, {}])}, "arrays of numbers and strings"),
    ],
)
def test_malformed_files_are_refused(tmp_path, changes, message):
    path = tmp_path / "v.npz"
    vector_files.write(path, encoded(**changes))
    with pytest.raises(ValueError, match=f"v.npz: expected .*{message}"):
        vector_files.read(path)


def test_what_is_no_such_file_is_refused(tmp_path):
    path = tmp_path / "v.npz"
    with pytest.raises(FileNotFoundError, match="contextual_vectors"):
        vector_files.read(path)
    path.write_bytes(b"not an archive")
    with pytest.raises(ValueError, match="v.npz: expected .*Received: "):
        vector_files.read(path)
    np.savez(path, vectors=np.zeros((1, 1)))
    with pytest.raises(ValueError, match="expected .*row_splits"):
        vector_files.read(path)
    vector_files.write(path, encoded())
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match="v.npz: expected "):
        vector_files.read(path)
    np.save(tmp_path / "one.npy", np.zeros((5, 2)))
    with pytest.raises(ValueError, match="one.npy: expected "):
        vector_files.read(tmp_path / "one.npy")


def data():
    """Some texts are in two parts, some twice in one."""

    def part(*texts):
        labels = [ord(text[0]) % 2 for text in texts]
        return datasets.Part(list(texts), np.array(labels, dtype="int32"))

    train = part(*"abcdef", "a", " ")
    validation = part("a", "k", "l", "m", "m")
    return datasets.TextData(
        ("x", "y"), train, validation, part("b", "l", "x", "y", "z", "z")
    )


def test_parts_have_no_text_in_common():
    validation, test = few_texts.held_out(data(), 3, 3)
    assert sorted(validation.texts) == list("klm")
    assert sorted(test.texts) == list("xyz")
    labels = [ord(text) % 2 for text in test.texts]
    assert test.labels.tolist() == labels
    smaller, _ = few_texts.held_out(data(), 2, 3)
    assert smaller.texts == validation.texts[:2]
    for sizes, name in (((4, 3), "validation"), ((3, 4), "test")):
        with pytest.raises(ValueError, match=f"`{name}_size` .* 1 to 3"):
            few_texts.held_out(data(), *sizes)


def test_seeds_draw_as_many_texts_of_each_class():
    train = data().train
    drawn = [few_texts.draw(train, 2, seed) for seed in range(9)]
    for part in drawn:
        assert part.labels.tolist() == [0, 0, 1, 1]
        assert [ord(text) % 2 for text in part.texts] == [0, 0, 1, 1]
        assert len(set(part.texts)) == 4 and " " not in part.texts
    assert len({tuple(part.texts) for part in drawn}) > 3
    assert few_texts.draw(train, 2, 3).texts == drawn[3].texts
    fewer = few_texts.draw(train, 1, 3).texts
    assert fewer == [drawn[3].texts[0], drawn[3].texts[2]]
    with pytest.raises(ValueError, match="at most 3.*per_class=4"):
        few_texts.draw(train, 4, 0)
