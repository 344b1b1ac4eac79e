"""The rows of studies: CSV files in the repository, one for each study.

Where options of a study change, rows of others no longer count, and a new run
takes their place.
"""

import datetime
import importlib.metadata
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from examples.common import results
from examples.common.machine import machine
from examples.common.results import Row
from examples.study.records import Study

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "results" / "rows"
WHERE_FROM = ("commit", "versions", "machine", "date")
ORIGIN = ("options", "settings", *WHERE_FROM, "seconds", "note")


def columns(study: Study) -> list[str]:
    """All columns of a study's rows."""
    measured = (column.name for column in study.columns)
    return list(dict.fromkeys((*study.labels, "seeds", *measured, *ORIGIN)))


def file(study: Study, folder: Path = FOLDER) -> results.ResultsFile:
    """The file of a study; several processes may add rows to it."""
    key = (*study.labels, "seeds")
    return results.ResultsFile(folder / f"{study.name}.csv", key)


def read(study: Study, folder: Path = FOLDER) -> pd.DataFrame:
    """Rows of a study's options, in the order they were added, as text."""
    found = file(study, folder).read()
    rows = pd.DataFrame(found, columns=columns(study), dtype=object).fillna("")
    return rows[rows["options"] == study.options]


def add(
    study: Study, rows: list[Mapping[str, Any]], folder: Path = FOLDER
) -> None:
    """Adds the rows of a run, without what is no column of the study."""
    names = columns(study)
    own = ({x: row.get(x, "") for x in names} for row in rows)
    file(study, folder).add(*own)


def origin() -> Row:
    """Where the rows of this process come from."""
    from keras_seqmech.version import __version__

    versions = {"python": platform.python_version()}
    for name in ("tensorflow", "keras"):
        versions[name] = importlib.metadata.version(name)
    versions["keras_seqmech"] = __version__
    return {
        "commit": commit(),
        "versions": " ".join(f"{name}={x}" for name, x in versions.items()),
        "machine": machine(),
        "date": str(datetime.date.today()),
    }


def commit() -> str:
    """The commit of the code, "" if unknown; a "+" if code was changed."""

    def git(*arguments):
        command = ["git", "-C", str(ROOT), *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, check=False
        ).stdout.strip()

    try:
        changed = git("status", "--porcelain", "keras_seqmech", "examples")
        return git("rev-parse", "--short", "HEAD") + "+" * bool(changed)
    except FileNotFoundError:
        return ""
