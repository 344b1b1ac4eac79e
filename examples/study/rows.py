"""The rows of studies: CSV files in the repository, one for each study.

A row is a run: its labels, its seed, what was measured, and where it comes
from. Older tables that have only means are rows as well: their `seeds` are
several, and their numbers "mean ± standard deviation".
"""

import datetime
import importlib.metadata
import platform
import subprocess
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from examples.common import results
from examples.common.machine import machine
from examples.common.results import Row
from examples.study.records import Study

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "results" / "rows"
ORIGIN = (
    "options",
    "settings",
    "commit",
    "versions",
    "machine",
    "date",
    "seconds",
    "note",
)
PACKAGES = ("tensorflow", "keras")


def fields(study: Study) -> tuple[str, ...]:
    """Columns of a study's file."""
    measured = [column.name for column in study.columns]
    return tuple(dict.fromkeys((*study.labels, "seeds", *measured, *ORIGIN)))


def path(study: Study, folder: Path = FOLDER) -> Path:
    return folder / f"{study.name}.csv"


def read(study: Study, folder: Path = FOLDER) -> list[Row]:
    """All rows of a study, in the order they were added."""
    return results.read_rows(path(study, folder), fields(study), _later(study))


def _later(study: Study) -> dict[str, str]:
    """Columns that are empty where a study got them after its rows."""
    columns = {column.name for column in study.columns}
    return dict.fromkeys(columns.difference(study.labels, ORIGIN), "")


def add(
    study: Study, rows: Sequence[Mapping[str, Any]], folder: Path = FOLDER
) -> None:
    """Adds the rows of a run; several processes may do so."""
    key = (*study.labels, "seeds", "options")
    results.add_rows(
        path(study, folder), fields(study), rows, key, _later(study)
    )


def origin() -> Row:
    """Where the rows of this process come from."""
    from keras_seqmech.version import __version__

    found = [("python", platform.python_version())]
    found += [(name, importlib.metadata.version(name)) for name in PACKAGES]
    found.append(("keras_seqmech", __version__))
    return {
        "commit": commit(),
        "versions": " ".join(f"{name}={version}" for name, version in found),
        "machine": machine(),
        "date": str(datetime.date.today()),
    }


def commit() -> str:
    """The commit of the code, "" if unknown; a "+" if code was changed."""

    def git(*arguments):
        command = ["git", "-C", str(ROOT), *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False
        )
        return done.stdout.strip()

    try:
        changed = git("status", "--porcelain", "keras_seqmech", "examples")
        return git("rev-parse", "--short", "HEAD") + "+" * bool(changed)
    except FileNotFoundError:
        return ""
