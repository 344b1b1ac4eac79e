"""The study of early answers: what is read."""

import numpy as np

from examples.pooling import early

MASK = np.array([[True, True, True, True], [False, True, True, False]])
EACH = np.array(
    [
        [[0.6, 0.4], [0.3, 0.7], [0.1, 0.9], [0.95, 0.05]],
        [[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.9, 0.1]],
    ]
)


def test_what_is_read():
    for kind, setting, classes, read in (
        ("fixed", 0.5, [1, 1], [2, 2]),
        ("fixed", 0.25, [0, 0], [1, 1]),
        ("fixed", 1.0, [0, 1], [4, 2]),
        ("confident", 0.7, [1, 1], [2, 2]),
        ("confident", 0.92, [0, 1], [4, 2]),
        ("confident", 0.3, [0, 0], [1, 1]),
    ):
        found = early.answers(kind, setting, {"each": EACH}, MASK)
        assert [x.tolist() for x in found] == [classes, read]
    found = {"each": EACH, "answer": EACH[:, 1], "size": np.array([2, 1])}
    classes, read = early.answers("learned", 0.1, found, MASK)
    assert classes.tolist() == [1, 0] and read.tolist() == [2, 1]


def test_vowels_are_read_from_the_published_files(tmp_path):
    folder = tmp_path / "japanese_vowels"
    folder.mkdir()
    channels = ":".join(f"{n},{n}.5" for n in range(12))
    for name in ("TRAIN", "TEST"):
        path = folder / f"JapaneseVowels_{name}.ts"
        path.write_text(f"@dimensions 12\n@data\n{channels}:3\n", "utf8")
    train, _ = early.load("vowels", str(tmp_path))
    assert train.labels.tolist() == [2]
    assert train.steps.shape == (1, 29, 12)
    assert train.mask[0].tolist() == [True] * 2 + [False] * 27
    np.testing.assert_array_equal(train.steps[0, 1], np.arange(12) + 0.5)
    assert not train.steps[0, 2:].any()
