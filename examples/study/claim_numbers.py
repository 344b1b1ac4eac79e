"""Numbers of rows in the texts of claims.

In a text `{study: labels}` stands for the mean and standard deviation of the
case with these labels, which are separated by commas, and `{study: labels -
labels}` for the mean difference of two cases over the seeds that both have,
with its interval if there is one. They are of the study's first measure;
`{study: labels | measure}` names another one.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from examples.study import rows as rows_
from examples.study import statistics
from examples.study.programs import Row
from examples.study.studies import Claim
from examples.study.studies import Measure
from examples.study.studies import Study

_REFERENCE = re.compile(r"\{([^{}]+)\}")


class Quoted(NamedTuple):
    """What stands for a reference.

    Attributes:
        text: The number.
        seeds: Of how many seeds it is.
    """

    text: str
    seeds: int


def fill(text: str, folder: Path = rows_.FOLDER) -> str:
    """A text with its numbers."""
    return _REFERENCE.sub(lambda match: quote(match[1], folder).text, text)


def seeds(claim: Claim, folder: Path = rows_.FOLDER) -> str:
    """How many seeds the numbers of a claim are of: "1", "1 to 3"."""
    if claim.seeds:
        return claim.seeds
    found = _REFERENCE.findall(claim.ours + claim.reason)
    counts = {quote(reference, folder).seeds for reference in found}
    if not counts:
        return ""
    least, most = min(counts), max(counts)
    return str(least) if least == most else f"{least} to {most}"


def quote(reference: str, folder: Path = rows_.FOLDER) -> Quoted:
    """The number of a reference, given without its braces."""
    from examples.study import registry

    name, _, rest = reference.partition(": ")
    labels, _, column = rest.partition(" | ")
    study = registry.study(name)
    measures = {measure.column: measure for measure in study.measures}
    measure = measures[column] if column else study.measures[0]
    rows = rows_.read(study, folder)
    case, _, baseline = labels.partition(" - ")
    if baseline:
        found = _difference(study, rows, case, baseline, measure)
    else:
        own = _best_known(study, rows, case)
        count = statistics.seed_count(statistics.of_most_seeds(own))
        found = Quoted(statistics.spread(own, measure), count)
    if not found.text:
        raise ValueError(
            f"{rows_.path(study, folder)}: expected a row with the "
            f"{measure.column} of {labels!r}. Received: {{{reference}}}"
        )
    return found


def _difference(
    study: Study,
    rows: Sequence[Row],
    case: str,
    baseline: str,
    measure: Measure,
) -> Quoted:
    """Of runs with the same options, of those with most pairs."""
    others = _by_options(study, rows, baseline)
    known = [
        statistics.difference(own, others[options], measure)
        for options, own in _by_options(study, rows, case).items()
        if options in others
    ]
    found = [difference for difference in known if difference is not None]
    if not found:
        return Quoted("", 0)
    best = max(found, key=lambda difference: difference.pairs)
    return Quoted(best.show(measure.form), best.pairs)


def _best_known(study: Study, rows: Sequence[Row], labels: str) -> list[Row]:
    """Rows of the case with these labels, with the options of most seeds.

    Of as many seeds, today's options come first, then those added last.
    """
    return max(
        _by_options(study, rows, labels).values(),
        key=lambda own: statistics.seed_count(statistics.of_most_seeds(own)),
    )


def _by_options(
    study: Study, rows: Sequence[Row], labels: str
) -> dict[str, list[Row]]:
    """Rows of a case: of today's options, then of those added last."""
    groups: dict[str, list[Row]] = {study.options: []}
    for row in reversed(rows):
        if ", ".join(row[x] for x in study.labels if row[x]) == labels:
            groups.setdefault(row["options"], []).insert(0, row)
    return groups
