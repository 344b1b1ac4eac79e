"""The memory task: exact answers, its curriculum."""

import itertools

import numpy as np
import pytest

from examples.tasks import memory
from tests.examples.tasks.streams import arrays


def machine(symbols):
    """The rules of section 3, one symbol after the other, and their times."""
    if len(symbols) == 1:
        return [symbols[0]], [0]
    if not any(symbols):
        return [0], [len(symbols) - 1]
    if sum(symbol != 0 for symbol in symbols) == 1:
        return [max(symbols)], [len(symbols) - 1]
    kept, outputs, times = None, [], []
    for time, symbol in enumerate(symbols):
        if symbol == 0:
            continue
        if kept is None:
            kept = symbol
            continue
        if symbol == 1 and kept == 1:
            outputs.append(0)
        elif symbol == 2 and kept == 2:
            outputs.append(0)
        elif symbol == 1 and kept == 2:
            outputs.append(2)
        elif symbol == 2 and kept == 1:
            outputs.append(1)
        times.append(time)
        kept = None
    return outputs, times


def check(symbols):
    targets, mask = memory.answers(symbols)
    known = memory.completed(symbols)
    rows, length = np.shape(symbols)
    width = memory.most_outputs(length)
    assert targets.shape == mask.shape == (rows, width)
    assert targets.dtype == np.int32 and mask.dtype == np.bool_
    assert known.shape == (rows, length)
    for i, row in enumerate(np.asarray(symbols).tolist()):
        outputs, times = machine(row)
        assert targets[i][mask[i]].tolist() == outputs, row
        assert mask[i].tolist() == sorted(mask[i].tolist(), reverse=True)
        assert not targets[i][~mask[i]].any()
        assert np.flatnonzero(known[i]).tolist() == times, row
    return mask


@pytest.mark.parametrize("length", range(1, 9))
def test_all_sequences_of_a_length(length):
    mask = check(list(itertools.product(range(3), repeat=length)))
    assert mask[:, -1].any(), "U is larger than any number of outputs"


@pytest.mark.parametrize("length", [9, 50, 51, 200])
def test_answers_of_long_sequences(length):
    generator = np.random.default_rng(length)
    rare = generator.choice(3, size=(60, length), p=[0.97, 0.015, 0.015])
    check(np.concatenate([generator.integers(3, size=(60, length)), rare]))


def test_examples():
    symbols, targets, mask = memory.examples(3000, 12, seed=3)
    assert symbols.shape == (3000, 12) and symbols.dtype == np.int32
    found = memory.answers(symbols)
    np.testing.assert_array_equal(targets, found[0])
    np.testing.assert_array_equal(mask, found[1])
    # Six standard deviations of a share.
    near = 6 * np.sqrt(1 / 3 * 2 / 3 / symbols.size)
    for symbol in range(3):
        assert abs((symbols == symbol).mean() - 1 / 3) < near
    again, other = (memory.examples(3000, 12, seed)[0] for seed in (3, 4))
    assert (again == symbols).all() and (other != symbols).any()


def test_curriculum():
    """T' is uniform from 1 to T, and beyond U all outputs count."""
    length, batches = 8, 400
    plain, learned = (
        arrays(memory.dataset(length, 60, curriculum=on).take(batches))
        for on in (False, True)
    )
    counts = np.zeros(5)
    for (symbols, targets, weights), batch in zip(plain, learned):
        np.testing.assert_array_equal(batch[0], symbols)
        np.testing.assert_array_equal(batch[1], targets)
        counted = int(batch[2].any(axis=0).sum())
        counts[counted] += 1
        np.testing.assert_array_equal(
            batch[2][:, :counted], weights[:, :counted]
        )
        assert not batch[2][:, counted:].any()
    # Of 1 to 8, from 4 on all four. Six standard deviations.
    expected = batches * np.array([0, 1, 1, 1, 5]) / 8
    assert (abs(counts - expected) <= 6 * np.sqrt(expected)).all()
