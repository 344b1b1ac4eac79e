"""Tables and numbers of rows on the pages RESULTS.md and docs/results/*.md.

The tables of a study stand between `<!-- generated: rows NAME -->` and
`<!-- end of generated -->`, and are made by `python -m examples.study --write`.
All else is written by hand. A number of rows in a text follows a comment that
says what it is: `<!-- quoted: NAME COLUMN: LABELS -->` the mean and standard
deviation of the case with these labels, separated by commas, and
`<!-- quoted: NAME COLUMN: LABELS - LABELS -->` the difference of two cases over
the seeds that both have.
"""

import re
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from examples.study import records
from examples.study import report
from examples.study import rows as rows_

PAGES = (rows_.ROOT / "RESULTS.md", *sorted(rows_.FOLDER.parent.glob("*.md")))
TABLE = re.compile(
    r"(<!-- generated: rows (\S+) -->\n).*?(<!-- end of generated -->)",
    re.DOTALL,
)
QUOTE = re.compile(r"<!-- quoted: (.+?) -->")
# What does not continue a number.
ENDS = r"(?!\d|\.\d|e[-+]?\d| ±| \[)"


class Number(NamedTuple):
    """A number of rows, and of how many seeds it is."""

    text: str
    seeds: int


def with_tables(content: str, folder: Path = rows_.FOLDER) -> str:
    """A page with its tables made anew."""

    def fill(match: re.Match) -> str:
        made = report.report(records.study(match[2]), folder)
        return f"{match[1]}\n{made}\n\n{match[3]}"

    return TABLE.sub(fill, content)


def write(folder: Path = rows_.FOLDER) -> list[Path]:
    """Makes the tables of all pages anew; returns the pages that changed."""
    changed = []
    for path in PAGES:
        content = path.read_text(encoding="utf8")
        made = with_tables(content, folder)
        if made != content:
            path.write_text(made, encoding="utf8")
            changed.append(path)
    return changed


def wrong_quotes(content: str, folder: Path = rows_.FOLDER) -> list[str]:
    """What the numbers of a page must be that are not those of the rows."""
    references = dict.fromkeys(QUOTE.findall(content))
    numbers = {x: number(x, folder).text for x in references}
    wrong = []
    for match in QUOTE.finditer(content):
        expected = numbers[match[1]]
        if not re.match(re.escape(expected) + ENDS, content[match.end() :]):
            wrong.append(f"{match[1]}: {expected}")
    return wrong


def number(reference: str, folder: Path = rows_.FOLDER) -> Number:
    """The number of a reference, "NAME COLUMN: LABELS" or with a baseline."""
    place, _, labels = reference.partition(": ")
    name, _, column_name = place.partition(" ")
    case, _, baseline = labels.partition(" - ")
    study = records.study(name)
    rows = rows_.read(study, folder)
    joined = [", ".join(filter(None, x)) for x in rows[[*study.labels]].values]
    names = pd.Series(joined, rows.index, dtype=object)
    own, others = rows[names == case], rows[names == baseline]
    for column in study.columns:
        if column.name != column_name:
            continue
        if baseline:
            found = report.difference(own, others, column)
            if found:
                return Number(found.show(column.form), found.pairs)
        elif text := report.summary(own, column):
            return Number(text, len(own))
    raise ValueError(
        f"{name}: expected rows with these labels and a number in this "
        f"column. Received: {reference}"
    )
