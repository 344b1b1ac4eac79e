"""Means, paired differences and tables, from given numbers."""

import numpy as np
import pytest
from scipy import stats

from examples.study import report
from examples.study import rows
from examples.study.records import Column
from tests.examples.study import tiny_program

SCORE = Column("score", "score", ".2f")


@pytest.fixture
def add(tmp_path):
    """Adds rows of the tiny study; returns them all, read again."""

    def add_rows(*scores, seeds=None, model="a", **more):
        study = tiny_program.study()
        seeds = seeds or range(len(scores))
        new = [
            {"seeds": str(seed), "score": str(score), "model": model, **more}
            for seed, score in zip(seeds, scores)
        ]
        rows.add(study, new, tmp_path)
        return rows.read(study, tmp_path)

    return add_rows


@pytest.mark.parametrize(
    "scores, column, shown",
    [
        ((1, 2, 6), SCORE, "3.00 ± 2.65"),
        ((1,), SCORE, "1.00"),
        ((1, "", 2), SCORE, "1.50 ± 0.71 (2)"),
        (("", ""), SCORE, ""),
        ((0.5, 0.7), SCORE._replace(scale=100, form=".1f"), "60.0 ± 14.1"),
        ((0.5, "2e-12"), SCORE._replace(form=""), "0.5, 2e-12"),
    ],
)
def test_summary(scores, column, shown, add):
    assert report.summary(add(*scores), column) == shown


def difference(found, column=SCORE):
    own, other = (found[found["model"] == model] for model in "ba")
    return report.difference(own, other, column)


def test_paired_difference(add):
    add(3, 5, model="b")
    assert difference(add(1, seeds=[7])) is None
    assert difference(add(1, 1)) == (3.0, None, 2, 1)
    # The range of 2, 4 and -3, then of 0 too: of few pairs it is no interval.
    add(4, 9, seeds=[2, 3], model="b")
    found = difference(add(7, seeds=[2]))
    assert found == (1.0, (-3.0, 4.0), 3, 2)
    assert found.show(".1f") == "+1.0 [-3.0, 4.0] (3)"
    assert difference(add(9, seeds=[3])) == (0.75, (-3.0, 4.0), 4, 1)
    # A row without a number is of no pair.
    add("", seeds=[8], model="b")
    add(1, seeds=[8])
    add(8, seeds=[4], model="b")
    found = difference(add(6.5, seeds=[4]), SCORE._replace(scale=2))
    expected = stats.ttest_1samp(np.array([4.0, 8, -6, 0, 3]), 0)
    interval = expected.confidence_interval(0.95)
    assert (found.pairs, found.unpaired, found.mean) == (5, 2, 1.8)
    assert found.bounds == pytest.approx((interval.low, interval.high))
    assert found.show(".0f") == "+2 [95 %: -5, 8] (5)"


def test_a_report(add, tmp_path):
    paper = {"score": {"a": "5a", "b": "5b"}}
    study = tiny_program.study(paper=paper)
    run = {"date": "2026-11-22", "commit": "abc"}
    add(4, 6, 9, model="b", **run)
    add(1, 2, 3, model="a", **run)
    found = report.report(study, tmp_path).split("\n\n")
    title = f"difference [{report.RANGE}]"
    assert found[0].split("\n") == [
        f"| model | score | score, paper | {title} | seeds |",
        "| --- | --- | --- | --- | --- |",
        "| a | 2.0 ± 1.0 | 5a |  | 3 |",
        "| b | 6.3 ± 2.5 | 5b | +4.3 [3.0, 6.0] to a | 3 |",
    ]
    assert found[1:] == [
        "Rows: 2026-11-22; commit abc.",
        "All runs of `python -m examples.study tiny`.",
    ]


def test_a_report_of_no_rows(tmp_path):
    found = report.report(tiny_program.study(), tmp_path)
    assert found == "0 of 6 runs of `python -m examples.study tiny`."
