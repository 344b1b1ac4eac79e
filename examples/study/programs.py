"""The programs whose runs are those of studies, and how each is driven.

A run of a study is one call of a program's `main`, with the options of one
model and one seed. What the program writes to its file are the run's rows.
"""

import argparse
import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from examples.common.results import Row

if TYPE_CHECKING:  # Reports need no Keras.
    from examples.common import program


def read_csv(path: Path) -> list[Row]:
    """The rows that a program wrote to a CSV file; "nan" is empty."""
    rows = pd.read_csv(path, dtype=str, keep_default_na=False)
    return rows.replace("nan", "").to_dict("records")


@dataclass(frozen=True)
class Program:
    """A program of the examples: its module has a record, `PROGRAM`."""

    name: str  # Of the module, below `examples`.
    seed: str = "--seeds {}"

    @property
    def record(self) -> "program.Program":
        return importlib.import_module(f"examples.{self.name}").PROGRAM

    def keys(self, args: argparse.Namespace) -> list[Row]:
        """Columns that tell the rows of a run from others."""
        record = self.record
        return [dict(zip(record.key, key)) for key in record.keys(args)]

    def read(self, path: Path) -> list[Row]:
        """All rows that the program wrote."""
        return read_csv(path)

    def row_count(self, args: argparse.Namespace) -> int:
        """How many rows a run has."""
        return len(self.keys(args))

    def run(self, options: list[str], folder: Path) -> list[Row]:
        """Runs the program in a folder; returns the rows of one run."""
        path = folder / "rows.csv"
        args = self.record.parse(options)
        wanted = [key.items() for key in self.keys(args)]
        self.record.main([*options, "--output", str(path)])
        rows = [
            row
            for row in self.read(path)
            if any(key <= row.items() for key in wanted)
        ]
        if len(rows) < self.row_count(args):
            raise ValueError(
                f"{path}: expected all rows of the run of examples.{self.name}."
                f" Received: {len(rows)} with {' '.join(options)}"
            )
        return rows


class Picking(Program):
    """Has a row for each length of the test sequences."""

    def read(self, path: Path) -> list[Row]:
        """The rows of `<name>-lengths.csv`, each with that of its run."""
        names = self.record.key
        runs = {tuple(x[name] for name in names): x for x in read_csv(path)}
        rows = []
        for test in read_csv(path.with_name(f"{path.stem}-lengths.csv")):
            run = runs[tuple(test[name] for name in names)]
            rows.append({**run, **test, "seconds": run["seconds"]})
        return rows

    def row_count(self, args: argparse.Namespace) -> int:
        return len({args.length, *args.test_lengths})


PROGRAMS = {
    "classify_text": Program("receptive_field.classify_text"),
    # Each seed tests another fold.
    "classify_folds": Program(
        "receptive_field.classify_text", seed="--seeds {0} --fold {0}"
    ),
    "segment_words": Program("receptive_field.segment_words"),
    "delay": Program("receptive_field.delay"),
    "look_ahead": Program("receptive_field.look_ahead"),
    "field_figures": Program("receptive_field.figures"),
    "compare": Program("pooling.compare"),
    "learnability": Program("pooling.learnability"),
    "early": Program("pooling.early"),
    "few_labels": Program("pooling.few_labels"),
    "picking": Picking("focused.picking"),
    "pixels": Program("focused.pixel_questions"),
    "lookup": Program("focused.lookup"),
    "votes": Program("focused.votes"),
    "sentences": Program("focused.sentences"),
    "answers": Program("focused.answers"),
    "skipping": Program("focused.skipping"),
    "memory": Program("subsampling.memory_task"),
    "shorten": Program("subsampling.shorten"),
    "pronounce": Program("subsampling.pronounce"),
    "titles": Program("titles.compare"),
}
