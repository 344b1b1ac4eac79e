"""The programs whose runs are those of studies, and how each is driven.

A run of a study is one call of a program's `main`, with the options of one
model and one seed. What the program writes to its file is the run's row, so a
study needs no training loop of its own, and a run that was killed continues as
the program does.
"""

import argparse
import csv
import importlib
import json
from collections.abc import Callable
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from examples.common.results import Row


def read_csv(path: Path) -> list[Row]:
    """The rows that a program wrote to its CSV file."""
    with open(path, newline="", encoding="utf8") as file:
        return list(csv.DictReader(file))


def last_key(module: ModuleType, args: argparse.Namespace) -> Row:
    """The key of the last run that the arguments ask for, by column."""
    return dict(zip(module.KEY, module.keys(args)[-1], strict=True))


def one_row(args: argparse.Namespace) -> int:
    return 1


class Program(NamedTuple):
    """A program of the examples.

    Attributes:
        name: Of its module, below `examples`. The module has `KEY`, columns
            that tell one run from another, and `keys(args)`, their values for
            each run that arguments ask for.
        key: `key(module, args)`: columns that the row of a run must have, for
            arguments that ask for one run, or for a chain of runs that ends
            with it.
        seed: Option for one seed, with "{}" in its place.
        output: Option for the file of rows.
        file: Name of this file, or of the folder if it is "".
        read: Reads the rows.
        quiet: Options that change no result.
        pools: Whether its rows are means over the seeds it was given.
        row_count: `row_count(args)`: how many rows a run has.
    """

    name: str
    key: Callable[[ModuleType, argparse.Namespace], Row] = last_key
    seed: str = "--seeds {}"
    output: str = "--output"
    file: str = "rows.csv"
    read: Callable[[Path], list[Row]] = read_csv
    quiet: str = ""
    pools: bool = False
    row_count: Callable[[argparse.Namespace], int] = one_row

    @property
    def module(self) -> ModuleType:
        return importlib.import_module(f"examples.{self.name}")

    def key_of(self, options: Sequence[str]) -> Row:
        """Columns that the rows of a run must have; see `key`."""
        return self.key(self.module, self.module.parse(options))

    def run(self, options: Sequence[str], folder: Path) -> list[Row]:
        """Runs the program; returns the rows of the run.

        Args:
            options: That ask for one run.
            folder: For its file and whatever lies beside it.
        """
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / self.file
        options = [*options, *self.quiet.split()]
        self.module.main([*options, self.output, str(path)])
        rows = self.find(path, options)
        if not rows:
            raise ValueError(
                f"{path}: expected a row of the run of examples.{self.name}. "
                f"Received: {' '.join(options)}"
            )
        return rows

    def is_done(self, options: Sequence[str], folder: Path) -> bool:
        """Whether the rows of a run are there; see `run`."""
        try:
            return bool(self.find(folder / self.file, options))
        except FileNotFoundError:
            return False

    def find(self, path: Path, options: Sequence[str]) -> list[Row]:
        """The rows of a run in a file that the program wrote, if all are there.

        What a model does not have, programs leave empty or write as "nan", the
        open gates of an LSTM for example; here it is empty.

        Args:
            path: The file.
            options: That ask for one run.
        """
        wanted = self.key_of(options)
        found = [
            {name: "" if x == "nan" else x for name, x in row.items()}
            for row in self.read(path)
            if wanted.items() <= row.items()
        ]
        is_whole = len(found) >= self.row_count(self.module.parse(options))
        return found if is_whole else []


CLASSIFY_TEXT = Program("receptive_field.classify_text", output="--results")

# Each seed tests another fold.
CLASSIFY_FOLDS = CLASSIFY_TEXT._replace(seed="--seeds {0} --fold {0}")


SEGMENT_WORDS = Program(
    "receptive_field.segment_words",
    seed="--first-seed {} --seeds 1",
    quiet="--verbose 0",
)


DELAY = Program("receptive_field.delay")


LOOK_AHEAD = Program("receptive_field.look_ahead")


def _read_field_figures(path: Path) -> list[Row]:
    """The numbers of both figures, a row for each data set."""
    summaries = json.loads((path / "summary.json").read_text(encoding="utf8"))
    rows = []
    for dataset, summary in summaries.items():
        row = {"dataset": dataset, "words": str(summary["words"])}
        # Older summaries have no settings.
        row["settings"] = summary.get("settings", "")
        conditions = summary["mean_size_by_condition"].values()
        for name, sizes in zip(("plain", "dropout"), conditions, strict=True):
            row |= {f"{key}_{name}": f"{x:.4f}" for key, x in sizes.items()}
        correlations = summary["rank_correlation_of_entropy_and"]
        for name, key in (("start", "at the start"), ("end", "at the end")):
            row[f"correlation_{name}"] = f"{correlations[f'size {key}']:.4f}"
        quarters = summary["mean_size_in_quarter"]
        for name in ("lowest", "highest"):
            row[f"size_{name}"] = f"{quarters[f'of {name} entropy']:.4f}"
        rows.append(row)
    return rows


def _field_figures_key(module: ModuleType, args: argparse.Namespace) -> Row:
    dataset = args.datasets[0]
    return {"dataset": dataset, "settings": module.settings(dataset, args)}


FIELD_FIGURES = Program(
    "receptive_field.figures",
    _field_figures_key,
    file="",
    read=_read_field_figures,
    pools=True,
)


COMPARE = Program("pooling.compare")


LEARNABILITY = Program("pooling.learnability")


FEW_LABELS = Program("pooling.few_labels")


def _read_picking(path: Path) -> list[Row]:
    """Runs, each with its rows of `<name>-lengths.csv`, by test length."""
    longer = path.with_name(f"{path.stem}-lengths.csv")
    tests = read_csv(longer) if longer.exists() else []
    key = PICKING.module.KEY
    rows = []
    for row in read_csv(path):
        length = row["task"].removeprefix("picking-")
        own = {
            tested["test_length"]: tested
            for tested in tests
            if all(row[name] == tested[name] for name in key)
        }
        rows.append({**row, **own.pop(length, {}), "test_length": length})
        rows += own.values()
    return rows


def _picking_rows(args: argparse.Namespace) -> int:
    return len({args.length, *args.test_lengths})


PICKING = Program(
    "focused.picking", read=_read_picking, row_count=_picking_rows
)
PIXELS = Program("focused.pixel_questions")
SKIPPING = Program("focused.skipping")
PASSAGES = Program("focused.passage_questions")
MEMORY = Program("subsampling.memory_task")
SHORTEN = Program("subsampling.shorten", quiet="--no-times")


TITLES = Program("titles.compare")
