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
