"""Means, standard deviations and paired differences, from given numbers."""

import itertools

import numpy as np
import pytest

from examples.study import statistics
from examples.study.studies import Measure

SCORE = Measure("score", "score", ".2f")


def rows(*scores, seeds=None):
    seeds = seeds or range(len(scores))
    return [
        {"seeds": str(seed), "score": str(score)}
        for seed, score in zip(seeds, scores)
    ]


def test_spread():
    assert statistics.spread(rows(1, 2, 6), SCORE) == "3.00 ± 2.65"
    assert statistics.spread(rows(1), SCORE) == "1.00"
    assert statistics.spread(rows(1, "", 2), SCORE) == "1.50 ± 0.71 (2)"
    assert statistics.spread(rows("", ""), SCORE) == ""
    assert statistics.spread([], SCORE) == ""
    percent = SCORE._replace(scale=100, form=".1f")
    assert statistics.spread(rows(0.5, 0.7), percent) == "60.0 ± 14.1"
    listed = SCORE._replace(form="")
    assert statistics.spread(rows(0.5, "2e-12"), listed) == "0.5, 2e-12"


def test_a_summary_is_shown_as_it_was_given():
    summary = rows("74.98 ± 2.46", seeds=["1 2 3"])
    assert statistics.spread(summary, SCORE) == "74.98 ± 2.46"
    assert statistics.seed_count(summary) == 3
    percent = SCORE._replace(scale=100)
    share = rows("0.7 ± 0.02", seeds=["1 2 3"])
    assert statistics.spread(share, percent) == "70.00 ± 2.00"


@pytest.mark.parametrize(
    "given, shown",
    [
        ("1.0260 ± 0.5", "1.03 ± 0.5"),
        ("7 ± 1", "7 ± 1"),
        ("0.00012 ± 0.00003", "0.00012 ± 0.00003"),
        ("4e-8", "4e-8"),
        ("-0.2621", "-0.26"),
        ("0.000", "0.00"),
        ("3-5", "3-5"),
        ("never", "never"),
    ],
)
def test_a_summary_keeps_the_digits_that_count(given, shown):
    assert statistics.spread(rows(given, seeds=["1 2"]), SCORE) == shown


def test_runs_take_the_place_of_a_summary_of_no_more_seeds():
    summary = rows("7 ± 1", seeds=["0 1 2"])
    few, enough = rows(1, 2), rows(1, 2, 6)
    assert statistics.of_most_seeds([*summary, *few]) == summary
    assert statistics.of_most_seeds([*summary, *enough]) == enough


def test_paired_difference():
    own, baseline = rows(3, 5, 4, 9), rows(1, 1, 3, seeds=[0, 1, 2])
    found = statistics.difference(own, baseline, SCORE)
    assert found.mean == pytest.approx(7 / 3)
    assert found.pairs == 3
    # The mean of each of the 27 samples of the differences 2, 4 and 1.
    means = [np.mean(x) for x in itertools.product((2, 4, 1), repeat=3)]
    ends = np.quantile(means, [0.025, 0.975], method="inverted_cdf")
    assert found.interval == pytest.approx(tuple(ends))
    four = statistics.difference(rows(3, 5, 4, 9), rows(1, 1, 3, 4), SCORE)
    means = [np.mean(x) for x in itertools.product((2, 4, 1, 5), repeat=4)]
    ends = np.quantile(means, [0.025, 0.975], method="inverted_cdf")
    assert four.interval == pytest.approx(tuple(ends))


def test_no_interval_from_few_pairs_and_none_without_pairs():
    two = statistics.difference(rows(3, 5), rows(1, 1), SCORE)
    assert (two.mean, two.interval, two.pairs) == (3, None, 2)
    assert two.show(".1f") == "+3.0"
    assert statistics.difference(rows(3), rows(1, seeds=[1]), SCORE) is None
    summary = rows("7 ± 1", seeds=["0 1 2"])
    assert statistics.difference(rows(3), summary, SCORE) is None
    unknown = rows("", "", "")
    assert statistics.difference(rows(1, 2, 3), unknown, SCORE) is None
