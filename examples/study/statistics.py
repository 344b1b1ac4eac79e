"""Means over seeds, and differences of runs with the same seed."""

import re
from collections.abc import Mapping
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from examples.common import tables
from examples.study.programs import Row
from examples.study.rows import is_run
from examples.study.studies import Measure

LEAST = 3
LEVEL = 0.95
RESAMPLES = 9999
_NUMBER = r"-?\d+(?:\.\d*)?(?:e[+-]?\d+)?"
_SUMMARY = re.compile(rf"({_NUMBER})(?: ± ({_NUMBER}))?")


def of_most_seeds(rows: Sequence[Row]) -> Sequence[Row]:
    """The runs of a case, or a summary if it is of more seeds."""
    runs = [row for row in rows if is_run(row)]
    summaries = [[row] for row in rows if not is_run(row)]
    return max([runs, *summaries], key=seed_count)


def seed_count(rows: Sequence[Row]) -> int:
    """The number of seeds of rows."""
    return len({seed for row in rows for seed in row["seeds"].split()})


def spread(rows: Sequence[Row], measure: Measure) -> str:
    """Mean and standard deviation of a case, "" if none is known.

    A summary by hand keeps its numbers, rounded to the measure's form. Where
    some runs have no number, how many have is in brackets.
    """
    own = of_most_seeds(rows)
    known = [row[measure.column] for row in own if row[measure.column]]
    if not known:
        return ""
    if not measure.form:
        return ", ".join(known)
    if not is_run(own[0]) or not all(map(_is_number, known)):
        return " / ".join(_scaled(text, measure) for text in known)
    values = [measure.scale * float(text) for text in known]
    count = f" ({len(known)})" if len(known) < len(own) else ""
    return tables.spread(values, measure.form) + count


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _scaled(text: str, measure: Measure) -> str:
    """A summary with no more digits than it has, or a text as it is."""
    found = _SUMMARY.fullmatch(text)
    if not found:
        return text
    numbers = [_shown(x, measure) for x in found.groups() if x]
    return " ± ".join(numbers)


def _shown(text: str, measure: Measure) -> str:
    """A number in the measure's form, unless this adds digits or drops all."""
    value = measure.scale * float(text)
    shown = format(value, measure.form)
    if measure.scale != 1:
        return shown
    is_lost = value != 0 and float(shown) == 0
    return text if is_lost else min(text, shown, key=len)


class Difference(NamedTuple):
    """Mean difference of pairs, and its bootstrap interval if there is one."""

    mean: float
    interval: tuple[float, float] | None
    pairs: int

    def show(self, form: str) -> str:
        """As a table's cell.

        >>> Difference(1.5, (0.5, 2.5), 3).show(".1f")
        '+1.5 [0.5, 2.5]'
        """
        text = f"{self.mean:+{form}}"
        if self.interval is not None:
            low, high = self.interval
            text += f" [{low:{form}}, {high:{form}}]"
        return text


def difference(
    rows: Sequence[Row], baseline: Sequence[Row], measure: Measure
) -> Difference | None:
    """Paired difference to a baseline over the seeds that both have.

    Args:
        rows: Of a case.
        baseline: Of another.
        measure: What differs.

    Returns:
        The mean difference, with the percentile bootstrap's interval if there
        are at least `LEAST` pairs; None without any.
    """
    own, other = _by_seed(rows, measure), _by_seed(baseline, measure)
    seeds = [seed for seed in own if seed in other]
    if not seeds:
        return None
    found = np.array([own[seed] - other[seed] for seed in seeds])
    interval = None
    if len(found) >= LEAST:
        from scipy import stats

        low, high = stats.bootstrap(
            (found,),
            np.mean,
            confidence_level=LEVEL,
            n_resamples=RESAMPLES,
            method="percentile",
            rng=np.random.default_rng(0),
        ).confidence_interval
        interval = float(low), float(high)
    return Difference(float(found.mean()), interval, len(found))


def _by_seed(rows: Sequence[Row], measure: Measure) -> Mapping[str, float]:
    return {
        row["seeds"]: measure.scale * float(row[measure.column])
        for row in rows
        if is_run(row) and _is_number(row[measure.column])
    }
