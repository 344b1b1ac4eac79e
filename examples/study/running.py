"""Does the runs of a study that no process has done or does."""

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from examples.common import locks
from examples.common import results
from examples.common import whole_files
from examples.common.results import Row
from examples.study import rows as rows_
from examples.study.records import Run
from examples.study.records import Study

Wanted = Callable[[Run], bool]


class Places(NamedTuple):
    """Where things are; processes share a study by sharing both folders."""

    rows: Path = rows_.FOLDER  # CSV files.
    work: Path = Path("runs/study")  # What runs leave behind, and claims.
    data: Path | None = None  # Value of `--data-dir`.


def pending(
    study: Study, folder: Path, wanted: Wanted = lambda run: True
) -> list[Run]:
    """Runs without a row of today's options."""
    columns = [*study.cases[0].labels, "seeds"]
    rows = rows_.read(study, folder)
    done = set(rows[columns].itertuples(index=False, name=None))
    return [
        run
        for run in study.runs
        if wanted(run)
        and (*run.case.labels.values(), str(run.seed)) not in done
    ]


def work_folder(study: Study, run: Run, places: Places) -> Path:
    """The folder of a run's options."""
    labels = filter(None, run.case.labels.values())
    name = "-".join([*labels, f"seed-{run.seed}"])
    name = name.replace("/", "_").replace(" ", "_")
    digest = zlib.crc32(f"{study.options} {run.case.options}".encode())
    return places.work / study.name / f"{name}-{digest:08x}"


def do_runs(
    study: Study, places: Places, wanted: Wanted = lambda run: True
) -> int:
    """Does what is left of a study, except what other processes are doing.

    Returns the number of runs that this process did.
    """

    def left() -> list[Run]:
        return pending(study, places.rows, wanted)

    def claim_of(run: Run) -> Path:
        return results.with_ending(work_folder(study, run, places), "claim")

    def do(run: Run) -> None:
        print(f"{study.name}: {run.name}, {len(left())} left", flush=True)
        _do(study, run, places)

    return locks.do_claimed(left, claim_of, do)


def _do(study: Study, run: Run, places: Places) -> None:
    """Does one run and adds its rows."""
    folder = work_folder(study, run, places)
    options = study.arguments(run, places.data)
    known = _origin(folder / "origin.json")
    found = study.program.run(options, folder)
    own = {**run.case.labels, "seeds": run.seed, "options": study.options}
    rows = [{**known, **row, **own} for row in found]
    rows_.add(study, rows, places.rows)
    for row in rows:
        shown = [*study.by, *(column.name for column in study.columns)]
        measured = ", ".join(f"{x} {row.get(x, '')}" for x in shown)
        print(f"{study.name}: {measured}", flush=True)


def _origin(path: Path) -> Row:
    """Where the rows of a run come from, kept beside its work.

    If a run that was killed is continued, all places.
    """
    found = rows_.origin()
    if path.exists():
        before = json.loads(path.read_text(encoding="utf8"))
        if found["commit"] not in before["commit"].split(" / "):
            print(
                f"{path.parent} goes on from what commit {before['commit']} "
                "left; delete it to do all of it anew",
                flush=True,
            )
        for name, value in found.items():
            values = [*before[name].split(" / "), value]
            found[name] = " / ".join(dict.fromkeys(filter(None, values)))
    whole_files.write_json(path, found)
    return found
