"""What a study is: a record of the runs behind a table or figure.

`examples/study/studies` holds them, a TOML file for each of the documents. A
table there has the fields of `Study`. The fields that it does not give are
those of the study that it is `like`. Each key of `grid` is a column; its value
is an option with the labels that it takes ("--units 8 16"), labels that need no
option ("8 16"), "" for no label, or options by label. All combinations are
cases; of several grids, those of each.
"""

import itertools
import shlex
import sys
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Any
from typing import NamedTuple

import pandas as pd

from examples.study import programs

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parent / "studies"


class Column(NamedTuple):
    """A number that runs measure."""

    name: str  # In the program's rows.
    title: str  # In tables.
    form: str = ".2f"  # "" lists all runs' numbers.
    scale: float = 1.0  # Factor of what is shown.
    otherwise: str = ""  # Column to read where this one is empty.

    def of(self, rows: pd.DataFrame) -> pd.Series:
        """What the rows have in this column, as text."""
        own = rows[self.name]
        return own.where(own != "", rows[self.otherwise or self.name])


class Case(NamedTuple):
    """What is compared: runs that differ in their seed alone."""

    labels: Mapping[str, str]  # By column, tell it from others.
    options: str  # Of the program.
    seeds: Sequence[int]


class Run(NamedTuple):
    """A case with one seed."""

    case: Case
    seed: int

    @property
    def name(self) -> str:
        labels = filter(None, self.case.labels.values())
        return f"{', '.join(labels)}, seed {self.seed}"


@dataclass(frozen=True, kw_only=True)
class Study:
    """A table or figure of a document, or a part of one.

    Without a program, rows are written by hand from what `command` prints.
    """

    name: str  # Also that of the file of its rows.
    shows: str  # Table or figure, in words.
    grid: Mapping[str, Any] | Sequence[Mapping[str, Any]]
    columns: Sequence[Column]  # The first decides.
    seeds: Sequence[int] = (0, 1, 2)  # Unless its grid has its own.
    program: programs.Program | None = None
    options: str = ""
    by: Sequence[str] = ()  # Tell rows of one run apart, if there are several.
    data: str = ""  # What `--data-dir` must hold.
    compared: str = "model"  # Column in which cases and baselines differ.
    against: Mapping[str, Sequence[str]] = field(default_factory=dict)
    # The document's numbers by column, each by labels with commas between: of
    # the cases that have all of these.
    paper: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    command: str = ""

    @cached_property
    def cases(self) -> list[Case]:
        """All that is compared."""
        grids = [self.grid] if isinstance(self.grid, Mapping) else self.grid
        return [case for grid in grids for case in _cases(**grid, study=self)]

    @property
    def labels(self) -> tuple[str, ...]:
        """Columns that tell rows apart, but for their seeds."""
        return (*self.cases[0].labels, *self.by)

    @property
    def runs(self) -> list[Run]:
        """All runs, seed by seed."""
        found = [Run(case, x) for case in self.cases for x in case.seeds]
        return sorted(found, key=lambda run: run.seed)

    def baseline(self, labels: Mapping[str, str]) -> Mapping[str, str] | None:
        """Labels of what a case is compared with, if anything.

        A baseline that lacks one of its labels is that of all of them.
        """
        for name, others in self.against.items():
            if labels[self.compared] in others:
                wanted = {**labels, self.compared: name}
                for case in self.cases:
                    own = case.labels.items()
                    if all(label in ("", wanted[x]) for x, label in own):
                        return {**wanted, **case.labels}
        return None

    def paper_numbers(self, labels: Mapping[str, str]) -> Mapping[str, str]:
        """The document's numbers of a case, by column."""
        found, case = {}, {*labels.values()}
        for column, numbers in self.paper.items():
            known = [x for x in numbers if case.issuperset(x.split(", "))]
            if known:
                found[column] = numbers[max(known, key=len)]
        return found

    def arguments(self, run: Run, data_dir: Path | None) -> list[str]:
        """Options that ask the program for one run."""
        seed = self.program.seed.format(run.seed)
        options = shlex.split(f"{self.options} {run.case.options} {seed}")
        if self.data:
            if not data_dir:
                raise ValueError(
                    f"--data-dir: must be given for {self.name}, which reads "
                    f"{self.data}. Received: {data_dir}"
                )
            options += ["--data-dir", str(data_dir)]
        return options


def _cases(
    study: Study, seeds: Sequence[int] = (), **axes: str | Mapping[str, str]
) -> list[Case]:
    """A case for each combination of labels."""
    cases = []
    choices = [_options(axis).items() for axis in axes.values()]
    for chosen in itertools.product(*choices):
        labels = {column: label for column, (label, _) in zip(axes, chosen)}
        options = " ".join(filter(None, (given for _, given in chosen)))
        cases.append(Case(labels, options, seeds or study.seeds))
    return cases


def _options(axis: str | Mapping[str, str]) -> Mapping[str, str]:
    """Options by label."""
    if isinstance(axis, Mapping):
        return axis
    option, *labels = shlex.split(axis) or [""]
    if not option.startswith("--"):
        return dict.fromkeys([option, *labels], "")
    return {label: f"{option} {shlex.quote(label)}" for label in labels}


def load(path: Path) -> dict[str, Study]:
    """The studies of a TOML file by name."""
    given: dict[str, dict[str, Any]] = {}
    for name, own in tomllib.loads(path.read_text(encoding="utf8")).items():
        like = own.pop("like", "")
        given[name] = given[like] | own if like else own
    return {name: _study(name, **fields) for name, fields in given.items()}


def _study(
    name: str, columns: Sequence[Any], program: str = "", **fields: Any
) -> Study:
    return Study(
        name=name,
        columns=[Column(*column) for column in columns],
        program=programs.PROGRAMS[program] if program else None,
        **fields,
    )


DOCUMENTS = ("receptive_field", "pooling", "focused", "subsampling", "titles")
STUDIES = {
    name: study
    for document in DOCUMENTS
    for name, study in load(FOLDER / f"{document}.toml").items()
}


def study(name: str) -> Study:
    """The study of this name."""
    if name not in STUDIES:
        raise ValueError(
            f"A study must be one of {', '.join(STUDIES)}. Received: {name}"
        )
    return STUDIES[name]
