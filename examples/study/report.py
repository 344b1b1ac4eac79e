"""The tables of studies as Markdown, from the rows alone."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from examples.common import tables
from examples.study import rows as rows_
from examples.study import running
from examples.study.records import Column
from examples.study.records import Study

LEAST = 3
LEAST_OF_INTERVAL = 5
LEVEL = 0.95
LEVEL_NAME = f"{100 * LEVEL:g} %"
RANGE, INTERVAL = "range of pairs", "Student's t"


def summary(rows: pd.DataFrame, column: Column) -> str:
    """Mean and standard deviation of a case, "" if none is known.

    In a column without a form all numbers are listed. Where only some runs have
    a number, their count is in brackets.
    """
    known = column.of(rows)
    known = known[known != ""]
    numbers = column.scale * pd.to_numeric(known)
    if known.empty or not column.form:
        return ", ".join(known)
    count = f" ({len(known)})" if len(known) < len(rows) else ""
    return tables.spread(numbers.tolist(), column.form) + count


class Difference(NamedTuple):
    """Mean difference of pairs, and what is known of how much it varies."""

    mean: float
    bounds: tuple[float, float] | None
    pairs: int
    unpaired: int  # Numbers of either case whose seed the other lacks.

    def show(self, form: str) -> str:
        """The difference as a table's cell.

        The number of pairs is in brackets where the means beside it are of more
        runs.

        >>> Difference(1.5, (0.5, 2.5), 3, 0).show(".1f")
        '+1.5 [0.5, 2.5]'
        >>> Difference(1.5, None, 1, 2).show(".1f")
        '+1.5 (1)'
        """
        text = f"{self.mean:+{form}}"
        if self.bounds is not None:
            low, high = self.bounds
            level = f"{LEVEL_NAME}: " if self.kind == INTERVAL else ""
            text += f" [{level}{low:{form}}, {high:{form}}]"
        return f"{text} ({self.pairs})" if self.unpaired else text

    @property
    def kind(self) -> str:
        """What the bounds are: `RANGE` or `INTERVAL`, "" without any."""
        if self.bounds is None:
            return ""
        return INTERVAL if self.pairs >= LEAST_OF_INTERVAL else RANGE


def difference(
    rows: pd.DataFrame, baseline: pd.DataFrame, column: Column
) -> Difference | None:
    """Mean difference to a baseline over the seeds that both have.

    With the range of the differences from `LEAST` pairs on and Student's t
    interval from `LEAST_OF_INTERVAL` on; None without any pair.
    """
    numbers = [
        pd.to_numeric(column.of(own.set_index("seeds")))
        for own in (rows, baseline)
    ]
    found = column.scale * (numbers[0] - numbers[1]).dropna()
    pairs, mean = len(found), float(found.mean())
    unpaired = sum(len(known.dropna()) for known in numbers) - 2 * pairs
    if pairs == 0:
        return None
    bounds = None
    if pairs >= LEAST_OF_INTERVAL:
        quantile = stats.t.ppf((1 + LEVEL) / 2, pairs - 1)
        half = float(quantile * found.std(ddof=1) / np.sqrt(pairs))
        bounds = mean - half, mean + half
    elif pairs >= LEAST:
        bounds = float(found.min()), float(found.max())
    return Difference(mean, bounds, pairs, unpaired)


def report(study: Study, folder: Path = rows_.FOLDER) -> str:
    """The table of a study, where its rows are from, and how to make them."""
    rows = rows_.read(study, folder)
    parts = [] if rows.empty else [table(study, rows), _origins(rows)]
    if study.program is not None:
        parts.append(_progress(study, folder))
    return "\n\n".join(filter(None, parts))


def _origins(rows: pd.DataFrame) -> str:
    """Where rows are from, in a line; "" if unknown."""
    origins = []
    for name in ("date", "commit", "machine", "note"):
        values = " / ".join(filter(None, rows[name].unique()))
        if values:
            origins.append(f"commit {values}" if name == "commit" else values)
    return f"Rows: {'; '.join(origins)}." if origins else ""


def _progress(study: Study, folder: Path) -> str:
    """How to make these rows, and what is left of them."""
    data = " --data-dir DATA" if study.data else ""
    command = f"`python -m examples.study {study.name}{data}`"
    options = f" (`{study.options}`)" if study.options else ""
    left, total = len(running.pending(study, folder)), len(study.runs)
    if not left:
        return f"All runs of {command}{options}."
    return f"{total - left} of {total} runs of {command}{options}."


def table(study: Study, rows: pd.DataFrame) -> str:
    """Markdown table of rows, a line for each case.

    Columns without any number are left out. The title of the differences says
    what their brackets are.
    """
    names = list(study.labels)
    order = [(*case.labels.values(),) for case in study.cases]

    def place(labels: list[str]) -> int:
        return order.index(labels[: len(order[0])])

    groups = dict(list(rows.groupby(names, sort=False)))
    lines, brackets = [], set()
    for values in sorted(groups, key=place):
        labels = dict(zip(names, values))
        found = _difference(study, labels, groups[values], rows)
        lines.append(_line(study, labels, groups[values], found))
        brackets |= {found.kind} if found else set()
    shown = pd.DataFrame(lines)
    shown = shown.loc[:, (shown != "").any()]
    kinds = ", ".join(sorted(filter(None, brackets)))
    title = f"difference [{kinds}]" if kinds else "difference"
    shown = shown.rename(columns={"difference": title})
    return tables.table([shown.columns, *shown.to_numpy()])


def _difference(
    study: Study, labels: dict[str, str], own: pd.DataFrame, rows: pd.DataFrame
) -> Difference | None:
    """Of a case to its baseline, None without one."""
    baseline = study.baseline(labels)
    if baseline is None:
        return None
    is_other = (rows[list(baseline)] == pd.Series(baseline)).all(axis=1)
    return difference(own, rows[is_other], study.columns[0])


def _line(
    study: Study,
    labels: dict[str, str],
    own: pd.DataFrame,
    found: Difference | None,
) -> dict[str, str]:
    """Cells of a case, by the column's title."""
    line = {name.replace("_", " "): x for name, x in labels.items()}
    paper = study.paper_numbers(labels)
    for column in study.columns:
        ours = summary(own, column)
        theirs = str(paper.get(column.name, "")) if ours else ""
        line |= {column.title: ours, f"{column.title}, paper": theirs}
        if column is study.columns[0]:
            line["difference"] = ""
            if found:
                name = study.baseline(labels)[study.compared]
                line["difference"] = f"{found.show(column.form)} to {name}"
    line["seeds"] = str(len(own))
    return line
