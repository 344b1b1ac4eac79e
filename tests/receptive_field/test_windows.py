"""What fields can read, padded and packed, against indexing step by step."""

import numpy as np
import pytest

from keras_seqmech.receptive_field import windows

BATCH, TIME, FEATURES, SIZE = 2, 4, 3, 3
MASK = np.array([[True, True, False, True], [False, True, True, False]])
AHEAD_MASK = np.array([[True, False], [True, True]])


def sample():
    generator = np.random.default_rng(0)
    sequences = generator.normal(size=(BATCH, TIME, FEATURES))
    return sequences, generator.normal(size=(BATCH, 2, FEATURES))


@pytest.mark.parametrize("mask", [None, MASK])
@pytest.mark.parametrize(
    "has_lookahead, ahead_mask",
    [(False, None), (True, None), (True, AHEAD_MASK)],
)
def test_readable_steps_and_their_validity(mask, has_lookahead, ahead_mask):
    sequences, lookahead = sample()
    if not has_lookahead:
        lookahead = None
    result = windows.pad_inputs(
        windows.Sequences(sequences, mask, lookahead, ahead_mask), SIZE
    )
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
    layer = windows.ReceptiveFieldWindows(SIZE, dtype="float64")
    stacked = layer(sequences, mask=MASK).numpy()
    result = windows.pad_inputs(windows.Sequences(sequences, MASK), SIZE)
    np.testing.assert_array_equal(
        stacked[..., -1], np.swapaxes(result.validity, 0, 1)
    )
    np.testing.assert_array_equal(
        stacked[:, :, 0, :-1], np.swapaxes(result.current, 0, 1)
    )
    np.testing.assert_array_equal(stacked[:, 1:, 0], stacked[:, :-1, 1])


def packed_and_padded(size, ahead_mask):
    """Both ways to read the same, lookahead included unless it is empty."""
    sequences, lookahead = sample()
    if ahead_mask is not None and not ahead_mask.shape[1]:
        lookahead = ahead_mask = None
    read = windows.Sequences(sequences, MASK, lookahead, ahead_mask)
    return (
        windows.pack_inputs(read, size),
        windows.pad_inputs(read, size),
    )


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize(
    "ahead_mask",
    [None, AHEAD_MASK, AHEAD_MASK[:, :0]],
    ids=["whole", "masked", "no lookahead"],
)
def test_packed_is_what_padded_holds_at_real_steps(ahead_mask, size):
    packed, padded = packed_and_padded(size, ahead_mask)
    for one, other in (
        (packed.current, padded.current),
        (packed.validity, padded.validity),
    ):
        np.testing.assert_array_equal(one, packed.take(other))
    views = zip(packed.ahead(packed.steps), padded.ahead(padded.steps))
    for i, (one, other) in enumerate(views):
        valid = packed.validity[:, i].numpy()
        other = packed.take(other).numpy()
        np.testing.assert_array_equal(one.numpy()[valid], other[valid])
        assert np.all(np.isfinite(one))
    np.testing.assert_array_equal(packed.padded_shape, padded.padded_shape)
