"""Combinations of options: each pair of values once, not every product."""

import itertools

import pytest


def pairs(**options):
    """Parametrizes a test by `combinations`; options are its arguments."""
    return pytest.mark.parametrize(
        list(options),
        [[*chosen.values()] for chosen in combinations(**options)],
    )


def combinations(**options) -> list[dict]:
    """Combinations that hold every pair of values.

    Each value of an option occurs together with each value of every other
    option, in as few combinations as are found greedily.

    Args:
        **options: Values, by name of the option.
    """

    def pairs_of(combination):
        return set(itertools.combinations(enumerate(combination), 2))

    everything = list(
        itertools.product(*(range(len(values)) for values in options.values()))
    )
    missing = set().union(*map(pairs_of, everything))
    chosen = []
    while missing:
        best = max(everything, key=lambda c: len(pairs_of(c) & missing))
        missing -= pairs_of(best)
        chosen.append(best)
    return [
        {name: options[name][i] for name, i in zip(options, combination)}
        for combination in chosen
    ]
