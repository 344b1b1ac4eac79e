"""Does the runs of a study that no process has done or does."""

import json
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from examples.common import locks
from examples.common import whole_files
from examples.common.results import Row
from examples.study import rows as rows_
from examples.study.records import Run
from examples.study.records import Study


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


def by_hand(study: Study) -> str:
    """Why a study without a program cannot be run."""
    return (
        f"{study.name} has no runs that can be done one by one; its rows are "
        f"written by hand from what its command prints: {study.command}"
    )


def pending(
    study: Study, folder: Path, wanted: Callable[[Run], bool] = everything
) -> list[Run]:
    """Runs without a row of today's options; means of several do not count."""
    columns = (*study.cases[0].labels, "seeds")
    done = {
        tuple(row[name] for name in columns)
        for row in rows_.read(study, folder)
        if row["options"] == study.options
    }
    return [
        run
        for run in study.runs
        if wanted(run)
        and (*run.case.labels.values(), str(run.seed)) not in done
    ]


def work_folder(study: Study, run: Run, places: Places) -> Path:
    """The folder of a run's options; chained runs share it."""
    options, name = study.options, f"seed-{run.seed}"
    if not study.chained:
        options = f"{options} {run.case.options}"
        labels = filter(None, run.case.labels.values())
        name = "-".join([*labels, name]).replace("/", "_").replace(" ", "_")
    digest = zlib.crc32(options.encode())
    return places.work / study.name / f"{name}-{digest:08x}"


def claim_file(study: Study, run: Run, places: Places) -> Path:
    """The file that is claimed by the process that does a run."""
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
        raise ValueError(by_hand(study))

    def left() -> list[Run]:
        return pending(study, places.rows, wanted)

    def do(run: Run) -> None:
        print(f"{study.name}: {run.name}, {len(left())} left", flush=True)
        _do(study, run, places)

    return locks.do_claimed(
        left, lambda run: claim_file(study, run, places), do
    )


def _do(study: Study, run: Run, places: Places) -> None:
    """Does one run and adds its rows."""
    folder = work_folder(study, run, places)
    folder.mkdir(parents=True, exist_ok=True)
    options = study.arguments(run, places.data)
    start = time.perf_counter()
    known = _origin(study, run, places)
    found = study.program.run(options, folder)
    if "seconds" not in known:
        known["seconds"] = f"{time.perf_counter() - start:.0f}"
    more = {
        **run.case.labels,
        "seeds": str(run.seed),
        "options": study.options,
    }
    fields = rows_.fields(study)
    added = [{**known, **row, **more} for row in found]
    added = [{name: row.get(name, "") for name in fields} for row in added]
    rows_.add(study, added, places.rows)
    for row in added:
        measured = [f"{x.name} {row[x.name]}" for x in study.columns]
        shown = [*(row[name] for name in study.by), *measured]
        print(f"{study.name}: {', '.join(shown)}", flush=True)


def _origin(study: Study, run: Run, places: Places) -> Row:
    """Where the rows of a run come from, kept beside its work.

    Of a run that was killed it is what was known when it began; if it is now
    continued with other code or elsewhere, both, and no seconds.
    """
    folder = work_folder(study, run, places)
    options = study.arguments(run, places.data)
    # Chained runs share a folder.
    digest = zlib.crc32(" ".join(options).encode())
    path = folder / f"origin-{digest:08x}.json"
    before = {}
    if path.exists():
        before = json.loads(path.read_text(encoding="utf8"))
        if study.program.find(folder / study.program.file, options):
            return before
    known = rows_.origin()
    for name, value in before.items():
        values = [*value.split(" / "), known.get(name, "")]
        known[name] = " / ".join(dict.fromkeys(filter(None, values)))
    whole_files.write_json(path, {"seconds": "", **known})
    return known
