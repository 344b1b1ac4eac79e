"""The record of a program: options, runs, and the table of its rows.

A program that compares models over seeds declares a `PROGRAM`. Each run is a
row of the CSV file `--output`. What has a row is not repeated, and what was
killed is taken up again; several processes may share the file.
"""

import argparse
import functools
import itertools
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from typing import Any
from typing import NamedTuple

import keras
import numpy as np

from examples.common import arguments
from examples.common import results
from examples.common import resumable
from examples.common import tables

Case = Mapping[str, Any]
Cases = Iterator[Case]


class Run(NamedTuple):
    """A run that is to be done; seeds are set."""

    key: results.Row  # What tells it from others, by column.
    args: argparse.Namespace
    place: Path  # Folder of its backup, and the stem of its files.
    data: Any  # What the program loads.

    @property
    def seed(self) -> int:
        return int(self.key["seed"])

    def file(self, ending: str) -> Path:
        """A file of the run."""
        return results.with_ending(self.place, ending)

    def fit(
        self,
        model: keras.Model,
        arrays: tuple[np.ndarray, np.ndarray],
        callbacks: Sequence[keras.callbacks.Callback] = (),
    ) -> resumable.Curve:
        """`resumable.fit` with the batches and epochs of the command line."""
        size, epochs = self.args.batch_size, self.args.epochs
        batches = resumable.shuffled(*arrays, size, self.seed)
        steps = -(-len(arrays[1]) // size)
        return resumable.fit(
            model, batches, epochs, steps, self.place, callbacks
        )


def grid(**axes: Iterable[Any]) -> Cases:
    """All combinations of values of some columns.

    >>> [*grid(size=[1], model="ab")]
    [{'size': 1, 'model': 'a'}, {'size': 1, 'model': 'b'}]
    """
    for values in itertools.product(*axes.values()):
        yield dict(zip(axes, values))


def nothing(*_: Any) -> Any:
    """Of a program that has no such part."""
    return {}


@dataclass(frozen=True, kw_only=True)
class Program:
    """What a program has of its own."""

    doc: str | None  # Its first line says what the program does.
    output: str  # Where rows go by default.
    options: Callable[[argparse.ArgumentParser], None]  # Adds its options.
    # Columns that tell one run from another, "seed" among them.
    key: Sequence[str]
    # Values of these columns, of the runs of one seed.
    cases: Callable[[argparse.Namespace], Iterable[Case]]
    run: Callable[[Run], Mapping[str, Any]]  # Returns what is measured.
    seeds: Sequence[int] = (0,)
    # What a result depends on besides, in the column "settings": options that
    # are numbers, by name, with their defaults (a type if there is none); other
    # options; and what else, of a case.
    numbers: Mapping[str, Any] = field(default_factory=dict)
    settings: Sequence[str] = ()
    more: Callable[[argparse.Namespace, Case], Case] = nothing
    # Whether `--data-dir` must be given; if None, there is no such option.
    needs_data: Callable[[argparse.Namespace], bool] | None = None
    # Completes options, and refuses those that do not fit.
    check: Callable[..., Any] = nothing
    # Data of all runs, read if there is one to be done.
    load: Callable[[argparse.Namespace], Any] = nothing
    # Does what follows the table.
    after: Callable[[argparse.Namespace, list[results.Row]], Any] = nothing

    def parse(self, argv: Sequence[str] | None = None) -> argparse.Namespace:
        """Reads the command line."""
        parser = arguments.parser(self.doc)
        add = parser.add_argument
        add("--seeds", nargs="+", type=int, default=[*self.seeds])
        add("--output", type=Path, default=Path(self.output), help="CSV file")
        for name, x in self.numbers.items():
            kind, default = (x, None) if isinstance(x, type) else (type(x), x)
            option, told = f"--{name.replace('_', '-')}", "of all runs"
            add(option, type=kind, default=default, help=told)
        if self.needs_data:
            add("--data-dir", type=arguments.folder, help="data sets")
        self.options(parser)
        args = parser.parse_args(argv)
        if self.needs_data and not args.data_dir and self.needs_data(args):
            where = arguments.WHERE_DATA_ARE
            parser.error(f"--data-dir: must be given; {where}")
        self.check(parser, args)
        return args

    def keys(self, args: argparse.Namespace) -> list[results.Key]:
        """Values of `key` of each run, seed by seed."""
        found = []
        for seed in args.seeds:
            for case in self.cases(args):
                names = *self.numbers, *self.settings
                known = {name: getattr(args, name) for name in names}
                known |= self.more(args, case)
                settings = " ".join(f"{x}={y}" for x, y in known.items())
                own = {**case, "seed": seed, "settings": settings}
                found.append(tuple(str(own[name]) for name in self.key))
        return found

    def file(self, args: argparse.Namespace) -> results.ResultsFile:
        """The file of finished runs."""
        return results.ResultsFile(args.output, self.key)

    def place(self, args: argparse.Namespace, row: results.Row) -> Path:
        """The `Run.place` of a row."""
        return self.file(args).place(row[name] for name in self.key)

    def main(self, argv: Sequence[str] | None = None) -> str:
        """Does the runs without a row; returns the table it prints."""
        args = self.parse(argv)
        load = functools.cache(lambda: self.load(args))

        def do(key: results.Row) -> Mapping[str, Any]:
            run = Run(key, args, self.place(args, key), load())
            keras.utils.clear_session()
            keras.utils.set_random_seed(run.seed)
            found = self.run(run)
            resumable.remove(run.place)
            return found

        rows = self.file(args).do_missing(self.keys(args), do)
        columns = results.measured(rows, self.key)
        columns = [x for x in columns if any(row.get(x) for row in rows)]
        by = [x for x in self.key if x not in ("seed", "settings")]
        # At least one, and those that tell lines apart.
        by = [x for x in by if len({row[x] for row in rows}) > 1] or by[:1]
        content = tables.publish(tables.by_kind(rows, by, columns))
        self.after(args, rows)
        return content
