"""The pages RESULTS.md and docs/results/*.md, made of templates and rows.

A template is a page of `examples/study/templates`, with references to rows in
braces, which `python -m examples.study --write` fills:

    {NAME}                   the table of a study, folded
    {NAME: LABELS}           mean and standard deviation of the case with these
                             labels, separated by commas
    {NAME: LABELS - LABELS}  the difference of two cases over the seeds that
                             both have

Numbers are those of the study's first column, or of another one:
`{NAME COLUMN: LABELS}`.
"""

import re
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from examples.study import records
from examples.study import report
from examples.study import rows as rows_

TEMPLATES = sorted(Path(__file__).parent.joinpath("templates").glob("*.md"))
REFERENCE = re.compile(r"\{(.+?)\}")
NOTICE = "<!-- Made by `python -m examples.study --write` of {}. -->\n\n"


class Number(NamedTuple):
    """A number of rows, and of how many seeds it is."""

    text: str
    seeds: int


def page(template: Path) -> Path:
    """The page that is made of a template."""
    if template.name == "RESULTS.md":
        return rows_.ROOT / template.name
    return rows_.FOLDER.with_name(template.name)


def filled(template: Path, folder: Path = rows_.FOLDER) -> str:
    """The content of the page, with tables and numbers of these rows."""

    def fill(match: re.Match) -> str:
        if ":" in match[1]:
            return number(match[1], folder).text
        study = records.study(match[1])
        made = report.report(study, folder)
        summary = f"Rows of <code>{study.name}</code>: {study.shows}"
        return (
            f"<details>\n<summary>{summary}</summary>\n\n{made}\n\n</details>"
        )

    notice = NOTICE.format(template.relative_to(rows_.ROOT))
    return notice + REFERENCE.sub(fill, template.read_text(encoding="utf8"))


def write(folder: Path = rows_.FOLDER) -> list[str]:
    """Makes all pages anew; returns the names of those that changed."""
    changed = []
    for template in TEMPLATES:
        path, made = page(template), filled(template, folder)
        if made != path.read_text(encoding="utf8"):
            path.write_text(made, encoding="utf8")
            changed.append(path.name)
    return changed


def number(reference: str, folder: Path = rows_.FOLDER) -> Number:
    """The number of a reference; see above."""
    place, _, labels = reference.partition(": ")
    name, _, column_name = place.partition(" ")
    case, _, baseline = labels.partition(" - ")
    study = records.study(name)
    rows = rows_.read(study, folder)
    joined = [", ".join(filter(None, x)) for x in rows[[*study.labels]].values]
    names = pd.Series(joined, rows.index, dtype=object)
    own, others = rows[names == case], rows[names == baseline]
    wanted = column_name or study.columns[0].name
    for column in study.columns:
        if column.name != wanted:
            continue
        if baseline:
            found = report.difference(own, others, column)
            if found:
                return Number(found.show(column.form), found.pairs)
        elif text := report.summary(own, column):
            return Number(text, int((column.of(own) != "").sum()))
    raise ValueError(
        f"{name}: expected rows with these labels and a number in this "
        f"column. Received: {reference}"
    )
