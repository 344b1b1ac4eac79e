"""Runs the quick tests with several Pythons and writes the table of versions.

    python -m benchmarks.tested_versions --pythons python3.11 python3.12

From the project's directory. Each Python gets an environment of its own, with
the newest packages that `setup.cfg` allows if there is none yet, and runs `make
test-quick` there. Rows are kept in `--rows`, one for 3.11, one for 3.12 and so
on: a run replaces those of its own, and ends with an error if one of its tests
failed.
"""

import argparse
import csv
import datetime
import json
import pathlib
import subprocess
import tempfile
import xml.etree.ElementTree

from examples.common import tables

COLUMNS = (
    "python",
    "tensorflow",
    "keras",
    "numpy",
    "keras-tuner",
    "tensorflow-text",
    "passed",
    "skipped",
    "failed",
    "date",
    "commit",
)
COUNTS = ("tests", "skipped", "failures", "errors")
VERSIONS = """
import importlib.metadata as metadata, json, platform
names = {names}
versions = {{name: metadata.version(name) for name in names}}
print(json.dumps({{"python": platform.python_version(), **versions}}))
"""


def run(python: str) -> dict[str, str]:
    """Runs the quick tests with one Python.

    Args:
        python: The interpreter, a name or a path.

    Returns:
        The row of the table.
    """
    script = "import sys; print('%d.%d' % sys.version_info[:2])"
    environment = f".venv-{_output([python, '-c', script])}"
    with tempfile.TemporaryDirectory() as directory:
        report = pathlib.Path(directory) / "report.xml"
        finished = subprocess.run(
            [
                "make",
                "test-quick",
                f"PYTHON={python}",
                f"VENV={environment}",
                f"ARGS=--quiet --junitxml={report}",
            ],
            check=False,
        )
        if not report.exists():
            raise SystemExit(f"{python}: no tests ran ({finished.returncode})")
        (suite,) = xml.etree.ElementTree.parse(report).getroot()
    counts = {name: int(suite.get(name, 0)) for name in COUNTS}
    failed = counts["failures"] + counts["errors"]
    names = COLUMNS[1 : COLUMNS.index("passed")]
    installed = _output(
        [f"{environment}/bin/python", "-c", VERSIONS.format(names=names)]
    )
    return {
        **json.loads(installed),
        "passed": str(counts["tests"] - counts["skipped"] - failed),
        "skipped": str(counts["skipped"]),
        "failed": str(failed),
        "date": str(datetime.date.today()),
        "commit": _output(["git", "rev-parse", "--short", "HEAD"]),
    }


def table(rows: list[dict[str, str]]) -> str:
    """The page: a row a Python."""
    lines = [
        "# Tested versions",
        "",
        "Made by `python -m benchmarks.tested_versions`: the tests of layers, "
        "serving, saving and the layers' contracts (`make test-quick`) on CPU, "
        "each Python with the packages named. All "
        "tests run on 3.11. Keras 3.15 requires Python 3.11, so there is no "
        "3.10.",
        "",
        tables.table([COLUMNS, *([row[c] for c in COLUMNS] for row in rows)]),
        "",
    ]
    return "\n".join(lines)


def _output(command: list[str]) -> str:
    return subprocess.check_output(command, text=True).strip()


def main(argv: list[str] | None = None) -> None:
    """Runs the tests with each Python; writes rows and table."""
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--pythons", nargs="*", default=["python3.11", "python3.13"])
    add("--rows", type=pathlib.Path, default="docs/results/versions.csv")
    add("--output", type=pathlib.Path, default="docs/versions.md")
    arguments = parser.parse_args(argv)
    rows = {}
    if arguments.rows.exists():
        with open(arguments.rows, newline="") as file:
            rows = {_minor(row): row for row in csv.DictReader(file)}
    failed = False
    for python in arguments.pythons:
        row = run(python)
        failed |= row["failed"] != "0"
        rows[_minor(row)] = row
        ordered = sorted(rows.values(), key=_order)
        with open(arguments.rows, "w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(ordered)
        arguments.output.write_text(table(ordered))
        print(row)
    if failed:
        raise SystemExit("Some tests failed.")


def _minor(row: dict[str, str]) -> str:
    return row["python"].rpartition(".")[0]


def _order(row: dict[str, str]) -> list[int]:
    return [int(part) for part in row["python"].split(".")]


if __name__ == "__main__":
    main()
