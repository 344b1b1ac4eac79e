"""What fields can read, against indexing step by step."""

import numpy as np
import pytest

from keras_seqmech.ops import windows

BATCH, TIME, FEATURES, SIZE = 2, 4, 3, 3
MASK = np.array([[True, True, False, True], [False, True, True, False]])
AHEAD_MASK = np.array([[True, False], [True, True]])


def sample():
    generator = np.random.default_rng(0)
    sequences = generator.normal(size=(BATCH, TIME, FEATURES))
    return sequences, generator.normal(size=(BATCH, 2, FEATURES))


@pytest.mark.parametrize("ahead_mask", [None, AHEAD_MASK])
@pytest.mark.parametrize("mask", [None, MASK])
@pytest.mark.parametrize("has_lookahead", [False, True])
def test_readable_steps_and_their_validity(mask, ahead_mask, has_lookahead):
    sequences, lookahead = sample()
    if not has_lookahead:
        lookahead = ahead_mask = None
    result = windows.readable(sequences, SIZE, mask, lookahead, ahead_mask)
    every, real = sequences, np.ones((BATCH, TIME), bool)
    real = real if mask is None else mask
    if has_lookahead:
        every = np.concatenate([sequences, lookahead], axis=1)
        follows = (
            np.ones((BATCH, 2), bool) if ahead_mask is None else AHEAD_MASK
        )
        real = np.concatenate([real, follows], axis=1)
    expected = np.where(real[..., None], every, 0)
    np.testing.assert_array_equal(np.swapaxes(result.steps, 0, 1), expected)
    np.testing.assert_array_equal(
        np.swapaxes(result.current, 0, 1), expected[:, :TIME]
    )
    validity = np.broadcast_to(result.validity, (TIME, BATCH, SIZE))
    for b in range(BATCH):
        for t in range(TIME):
            for i in range(SIZE):
                exists = t + i < real.shape[1] and real[b, t + i]
                assert validity[t, b, i] == exists
    if mask is None:
        assert result.mask is None
    else:
        np.testing.assert_array_equal(result.mask, mask.T)


def test_windows_hold_the_same_steps_and_validity():
    sequences, _ = sample()
    stacked = windows.look_ahead_windows(sequences, SIZE, MASK).numpy()
    result = windows.readable(sequences, SIZE, MASK)
    np.testing.assert_array_equal(
        stacked[..., -1], np.swapaxes(result.validity, 0, 1)
    )
    np.testing.assert_array_equal(
        stacked[:, :, 0, :-1], np.swapaxes(result.current, 0, 1)
    )
    np.testing.assert_array_equal(stacked[:, 1:, 0], stacked[:, :-1, 1])
