"""The memory task: exact answers, its curriculum."""

import itertools

import numpy as np
import pytest

from examples.tasks import memory


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
