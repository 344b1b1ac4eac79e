"""Expected subsampling twice over, in plain numpy and float64.

Each is for one row, and shares nothing with the package nor the others.
"""

import itertools

import numpy as np


def triple_loop(emission):
    """Equation 1 as it stands: p(y_m = s_n), `(time, time)`."""
    time = len(emission)
    p = np.zeros((time, time))
    for m in range(time):
        for n in range(time):
            if m == 0:
                p[m, n] = emission[n] * np.prod(1 - emission[:n])
                continue
            for j in range(n):
                skipped = np.prod(1 - emission[j + 1 : n])
                p[m, n] += emission[n] * p[m - 1, j] * skipped
    return p


def outcomes(emission):
    """Every way to emit or skip: pairs of probability and steps emitted."""
    for choice in itertools.product([False, True], repeat=len(emission)):
        chosen = np.array(choice, bool)
        yield np.prod(np.where(chosen, emission, 1 - emission)), chosen


def brute_force(sequence, emission):
    """Expected outputs and the length's distribution, over all outcomes."""
    time = len(emission)
    expected = np.zeros(sequence.shape)
    lengths = np.zeros(time + 1)
    for probability, chosen in outcomes(emission):
        count = int(np.sum(chosen))
        expected[:count] += probability * sequence[chosen]
        lengths[count] += probability
    return expected, lengths


def compacted(sequence, chosen, length):
    """The chosen steps, then zeros."""
    steps = sequence[chosen][:length]
    missing = np.zeros((length - len(steps), sequence.shape[1]))
    return np.concatenate([steps, missing])
