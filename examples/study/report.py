"""Studies and claims as Markdown, from the rows alone."""

from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path

from examples.common import tables
from examples.study import claim_numbers
from examples.study import rows as rows_
from examples.study import running
from examples.study import statistics
from examples.study.programs import Row
from examples.study.studies import NOT_RUN
from examples.study.studies import Claim
from examples.study.studies import Measure
from examples.study.studies import Study

INTERVALS = (
    "Differences: of runs with the same seed, and from "
    f"{statistics.LEAST} pairs on in brackets the {statistics.LEVEL:.0%} "
    "interval of the percentile bootstrap, which of three is from the least "
    "to the largest difference."
)


def study_report(
    study: Study, claims: Sequence[Claim], places: running.Places
) -> str:
    """All of a study: its tables and the verdicts that rest on it."""
    own = [claim for claim in claims if study.name in claim.studies]
    return "\n\n".join(
        [
            f"## {study.name}: {study.shows}",
            rows_report(study, places.rows),
            *(f"- {verdict(claim, places.rows)}" for claim in own),
        ]
    )


def rows_report(study: Study, folder: Path = rows_.FOLDER) -> str:
    """The tables of a study, today's options first, and where they are from."""
    rows = rows_.read(study, folder)
    groups: dict[str, list[Row]] = {study.options: []}
    for row in rows:
        groups.setdefault(row["options"], []).append(row)
    current = groups.pop(study.options)
    parts = []
    if current:
        parts += [rows_table(study, current), *_notes(study, current)]
    if study.program is not None:
        parts.append(_progress(study, current))
    for options, own in groups.items():
        given = f"`{options}`" if options else "none"
        parts += [
            f"Rows with other options than today's, {given}:",
            rows_table(study, own),
            *_notes(study, own),
        ]
    return "\n\n".join(parts)


def _progress(study: Study, rows: Sequence[Row]) -> str:
    """How to make these rows, and what is left of them."""
    data = " --data-dir DATA" if study.data else ""
    command = f"`python -m examples.study {study.name}{data}`"
    options = f" (`{study.options}`)" if study.options else ""
    left = running.pending(study, rows)
    if not left:
        return f"All runs of {command}{options}."
    total = len(running.runs(study))
    means = "" if all(map(rows_.is_run, rows)) else "; means are of older runs"
    done = total - len(left)
    return f"{done} of {total} runs of {command}{options}{means}."


def _notes(study: Study, rows: Sequence[Row]) -> list[str]:
    """Where rows come from, and what their differences are."""
    notes = []
    if any(
        _difference(study, study.measures[0], own, rows)
        for own in _cases(study, rows).values()
    ):
        notes.append(INTERVALS)
    origins = []
    for column in ("date", "commit", "machine", "versions", "note"):
        values = dict.fromkeys(row[column] for row in rows if row[column])
        if values:
            known = " / ".join(values)
            origins.append(f"commit {known}" if column == "commit" else known)
    if origins:
        notes.append(f"Rows: {'; '.join(origins)}.")
    return notes


def _cases(study: Study, rows: Sequence[Row]) -> dict[tuple, list[Row]]:
    """Rows by labels, in the study's order, others after them."""
    found: dict[tuple, list[Row]] = {
        tuple(case.labels.values()): [] for case in study.cases
    }
    for row in rows:
        labels = tuple(row[name] for name in study.labels)
        found.setdefault(labels, []).append(row)
    return {labels: own for labels, own in found.items() if own}


def rows_table(study: Study, rows: Sequence[Row]) -> str:
    """Markdown table of rows with the same options, a line for each case.

    Columns without any number are left out.
    """
    cases = _cases(study, rows)
    columns = {
        name.replace("_", " "): [row[0][name] for row in cases.values()]
        for name in study.labels
    }
    for number, measure in enumerate(study.measures):
        cells = [statistics.spread(own, measure) for own in cases.values()]
        columns[measure.title] = cells
        columns[f"{measure.title}, paper"] = [
            str(study.paper(own[0]).get(measure.column, ""))
            if any(cells)
            else ""
            for own in cases.values()
        ]
        if not number:
            columns["difference"] = [
                _difference(study, measure, own, rows) for own in cases.values()
            ]
    columns["seeds"] = [
        str(statistics.seed_count(statistics.of_most_seeds(own)))
        for own in cases.values()
    ]
    columns = {name: cells for name, cells in columns.items() if any(cells)}
    return tables.table([list(columns), *zip(*columns.values())])


def _difference(
    study: Study, measure: Measure, own: Sequence[Row], rows: Sequence[Row]
) -> str:
    """Of a case to its baseline, with the baseline's name; "" without one."""
    if study.compared not in study.labels:
        return ""
    baseline = study.against.get(own[0][study.compared])
    if baseline is None:
        return ""
    labels = {name: own[0][name] for name in study.labels}
    labels[study.compared] = baseline
    other = [row for row in rows if labels.items() <= row.items()]
    found = statistics.difference(own, other, measure)
    if found is None:
        return ""
    return f"{found.show(measure.form)} to {baseline}"


def verdict(claim: Claim, folder: Path = rows_.FOLDER) -> str:
    """One line: what is claimed, and whether it is so."""
    reason = claim_numbers.fill(claim.reason, folder)
    return f"{claim.name} ({claim.claim}): **{claim.verdict}**: {reason}"


def verdicts_table(
    claims: Sequence[Claim],
    sources: Mapping[str, str],
    folder: Path = rows_.FOLDER,
) -> str:
    """Every claim and its verdict, a line each."""
    lines = [["", "document", "claim", "reproduced", "why", "seeds"]]
    for claim in claims:
        lines.append(
            [
                claim.name,
                f"[{claim.source}](docs/results/{claim.source}.md)"
                if claim.source in sources
                else claim.source,
                claim.claim,
                f"**{claim.verdict}**",
                claim_numbers.fill(claim.reason, folder),
                claim_numbers.seeds(claim, folder),
            ]
        )
    return tables.table(lines)


def claims_table(
    claims: Sequence[Claim], source: str, folder: Path = rows_.FOLDER
) -> str:
    """The claims of one document with its numbers and ours."""
    lines = [["", "claim", "paper", "ours", "seeds", "reproduced", "run"]]
    for claim in claims:
        if claim.source == source and claim.verdict != NOT_RUN:
            lines.append(
                [
                    claim.name,
                    claim.claim,
                    claim.paper,
                    claim_numbers.fill(claim.ours, folder),
                    claim_numbers.seeds(claim, folder),
                    claim.verdict,
                    ", ".join(f"`{name}`" for name in claim.studies)
                    or (claim.command and f"`{claim.command}`"),
                ]
            )
    return tables.table(lines)
