"""Does the runs of a study that no process has done or does."""

import datetime
import itertools
import json
import time
import zlib
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from examples.common import locks
from examples.common import whole_files
from examples.common.results import Row
from examples.study import rows as rows_
from examples.study.programs import Program
from examples.study.studies import Case
from examples.study.studies import Run
from examples.study.studies import Study
from examples.study.studies import runs


class Places(NamedTuple):
    """Where things are.

    Attributes:
        rows: Folder of the CSV files.
        work: Folder of what runs leave behind, models and curves for example,
            and of claims. Processes share a study by sharing both.
        data: Value of `--data-dir`.
    """

    rows: Path = rows_.FOLDER
    work: Path = Path("runs/study")
    data: str | None = None


def everything(run: Run) -> bool:
    return True


def pending(
    study: Study,
    rows: Sequence[Row],
    wanted: Callable[[Run], bool] = everything,
) -> list[Run]:
    """Runs without a row."""
    done = [rows_.seeds_done(study, case, rows) for case in study.cases]
    known = {id(case): seeds for case, seeds in zip(study.cases, done)}
    return [
        run
        for run in runs(study)
        if wanted(run) and str(run.seed) not in known[id(run.case)]
    ]


def work_folder(study: Study, run: Run, places: Places) -> Path:
    """Of a run, its own for each setting; chained runs share it."""
    options = study.options
    name = f"seed-{run.seed}"
    if not study.chained:
        options = f"{options} {run.case.options}"
        labels = filter(None, run.case.labels.values())
        name = "-".join([*labels, name]).replace("/", "_").replace(" ", "_")
    digest = zlib.crc32(options.encode())
    return places.work / study.name / f"{name}-{digest:08x}"


def claim_file(study: Study, run: Run, places: Places) -> Path:
    """What is claimed by the process that does a run."""
    folder = work_folder(study, run, places)
    return folder.with_name(f"{folder.name}.claim")


def do_runs(
    study: Study,
    places: Places,
    wanted: Callable[[Run], bool] = everything,
) -> int:
    """Does what is left of a study, except what other processes are doing.

    A run is claimed first, so no two processes do the same; the claim of a
    process that was killed ends with it, and another takes its run up.

    Args:
        study: The study.
        places: Where its files are.
        wanted: Whether a run is to be done.

    Returns:
        The number of runs that this process did.
    """
    if study.program is None:
        raise ValueError(
            f"{study.name} has no runs that can be done one by one; its rows "
            f"are written by hand from what its command prints: {study.command}"
        )

    def left() -> list[Run]:
        return pending(study, rows_.read(study, places.rows), wanted)

    def do(run: Run) -> None:
        every = runs(study)
        rows = rows_.read(study, places.rows)
        number = len(every) - len(pending(study, rows)) + 1
        line = f"[{number}/{len(every)}] {study.name}"
        print(f"{line}: {run.name}", flush=True)
        _do(study, run, places)
        rows = rows_.read(study, places.rows)
        after = remaining(study, pending(study, rows, wanted), rows)
        print(f"{line}: {after}", flush=True)

    return locks.do_claimed(
        left, lambda run: claim_file(study, run, places), do
    )


def _do(study: Study, run: Run, places: Places) -> None:
    """Does one run and adds its rows."""
    start = time.perf_counter()
    folder = work_folder(study, run, places)
    options = study.arguments(run.case, run.seed, places.data)
    known, is_begun = _origin(study.program, options, folder)
    found = study.program.run(options, folder)
    if not is_begun:
        known["seconds"] = f"{time.perf_counter() - start:.0f}"
    _add(study, run.case, [run.seed], found, known, places)


def _origin(
    program: Program, options: Sequence[str], folder: Path
) -> tuple[Row, bool]:
    """Where the rows of a run come from, which is kept beside its work.

    Of a run that was killed it is what was known when it began; if it is now
    continued with other code or elsewhere, both. Little is known of work that
    was done before this was kept.

    Args:
        program: Of the run.
        options: That ask for the run.
        folder: Of its work.

    Returns:
        The columns, and whether the run was begun by another process.
    """
    key = json.dumps(program.key_of(options), sort_keys=True)
    path = folder / f"origin-{zlib.crc32(key.encode()):08x}.json"
    is_done, known = program.is_done(options, folder), rows_.origin()
    if path.exists():
        before = json.loads(path.read_text(encoding="utf8"))
        if is_done:
            return before, True
        known = {name: _both(before[name], x) for name, x in known.items()}
    elif is_done:
        modified = (folder / program.file).stat().st_mtime
        date = str(datetime.date.fromtimestamp(modified))
        return {"machine": known["machine"], "date": date}, True
    is_begun = path.exists()
    whole_files.write_json(path, known)
    return known, is_begun


def _both(before: str, now: str) -> str:
    """What was known and what is new, as tables show several values."""
    values = [*before.split(" / "), now]
    return " / ".join(dict.fromkeys(filter(None, values)))


def minutes(study: Study, rows: Sequence[Row]) -> float | None:
    """What a run takes: the mean of today's rows, or the study's guess."""
    known = [
        float(row["seconds"]) / 60
        for row in rows
        if rows_.is_current(study, row) and row["seconds"]
    ]
    return sum(known) / len(known) if known else study.minutes


def remaining(study: Study, left: Sequence[Run], rows: Sequence[Row]) -> str:
    """How many runs are left, and how long one process needs for them."""
    if not left:
        return "no runs are left"
    noun = "run is" if len(left) == 1 else "runs are"
    each = minutes(study, rows)
    if each is None:
        return f"{len(left)} {noun} left"
    hours = len(left) * each / 60
    return f"{len(left)} {noun} left, about {hours:.1f} h of one process"


def import_rows(
    study: Study,
    file: Path,
    places: Places,
    seeds: Sequence[int],
    known: Row,
) -> int:
    """Adds the rows of runs that the study's program did by itself.

    A row counts if all that its program knows a run by, settings included, is
    what the study would ask for today. Runs that have a row are left alone.

    Args:
        study: The study.
        file: What the program wrote.
        places: Where the study's files are.
        seeds: That may be in the file; those that it has the means of, if the
            program pools its seeds.
        known: What is known of where the rows come from, by column.

    Returns:
        The number of runs.
    """
    if study.program is None:
        raise ValueError(
            f"--import: {study.name} has no program. Received: {file}"
        )
    rows = rows_.read(study, places.rows)
    groups = [list(seeds)] if study.program.pools else [[x] for x in seeds]
    count = 0
    for case, group in itertools.product(study.cases, groups):
        done = rows_.seeds_done(study, case, rows)
        if done.issuperset(map(str, group)):
            continue
        options = study.arguments(case, group[0], places.data)
        found = study.program.find(file, options)
        if found:
            _add(study, case, group, found, known, places)
            count += 1
    return count


def _add(
    study: Study,
    case: Case,
    seeds: Sequence[int],
    found: Sequence[Row],
    known: Mapping[str, str],
    places: Places,
) -> None:
    """Adds what a program found of a run, with what else is known of it."""
    more = {
        **case.labels,
        "seeds": " ".join(map(str, seeds)),
        "options": study.options,
    }
    rows = [{**known, **row, **more} for row in found]
    fields = rows_.fields(study)
    rows = [{name: row.get(name, "") for name in fields} for row in rows]
    rows_.add(study, rows, places.rows)
    for row in rows:
        shown = [row[name] for name in study.by]
        shown += [f"{x.column} {row[x.column]}" for x in study.measures]
        print(f"{study.name}: {', '.join(shown)}", flush=True)
