"""What a study is: runs that belong to a table or figure, and what it claims.

`examples/study/registry` holds them, a module for each of the documents.
"""

import itertools
import shlex
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import NamedTuple

from examples.study.programs import Program


class Measure(NamedTuple):
    """A number that runs measure.

    Attributes:
        column: Its name in the program's rows.
        title: In tables.
        form: Of means and standard deviations; "" shows all runs' numbers.
        scale: It is shown times this.
    """

    column: str
    title: str
    form: str = ".2f"
    scale: float = 1.0


class Case(NamedTuple):
    """What is compared: runs that differ in their seed alone.

    Attributes:
        labels: What tells it from other cases, by column.
        options: Of the program.
        seeds: If not those of the study.
    """

    labels: Mapping[str, str]
    options: str
    seeds: Sequence[int] | None = None


def no_paper(labels: Mapping[str, str]) -> Mapping[str, str]:
    """For studies that no document has numbers of."""
    return {}


class Study(NamedTuple):
    """A table or figure, or a part of one.

    Attributes:
        name: By which it is run.
        source: Which document: one of the registry's.
        shows: Which table or figure.
        cases: All that is compared; the first measure decides.
        measures: What is shown of them.
        seeds: Of each case.
        program: Whose runs they are; None if they are no single runs, and
            rows are written by hand from what `command` prints.
        options: Of the program, of all runs. Rows with other options are older.
        by: Columns that tell the rows of one run apart, if it has several.
        minutes: That a run takes, about, on two cores; None if nobody knows.
        data: What `--data-dir` must hold, "" if none is needed.
        compared: The column in which cases and baselines differ.
        against: The baseline of each value of this column that has one.
        paper: `paper(labels)`: the document's numbers by measure.
        chained: A case starts from the one before with the same seed, so they
            share a folder, one after the other.
        command: That printed the rows, without a program.
    """

    name: str
    source: str
    shows: str
    cases: Sequence[Case]
    measures: Sequence[Measure]
    seeds: Sequence[int] = (0, 1, 2)
    program: Program | None = None
    options: str = ""
    by: tuple[str, ...] = ()
    minutes: float | None = None
    data: str = ""
    compared: str = "model"
    against: Mapping[str, str] = {}
    paper: Callable[[Mapping[str, str]], Mapping[str, str]] = no_paper
    chained: bool = False
    command: str = ""

    @property
    def labels(self) -> tuple[str, ...]:
        """Columns that tell rows apart, but for their seeds."""
        return (*self.cases[0].labels, *self.by)

    def arguments(
        self, case: Case, seed: int, data_dir: str | None
    ) -> list[str]:
        """Options that ask the program for one run."""
        seed_option = self.program.seed.format(seed)
        options = shlex.split(f"{self.options} {case.options} {seed_option}")
        if self.data:
            if not data_dir:
                raise ValueError(
                    f"--data-dir: must be given for {self.name}; it needs "
                    f"{self.data}. Received: {data_dir}"
                )
            options += ["--data-dir", data_dir]
        return options


class Run(NamedTuple):
    """A case with one seed."""

    case: Case
    seed: int

    @property
    def name(self) -> str:
        labels = filter(None, self.case.labels.values())
        return f"{', '.join(labels)}, seed {self.seed}"


def runs(study: Study) -> list[Run]:
    """All runs, seed by seed."""
    found = [
        Run(case, seed)
        for case in study.cases
        for seed in (study.seeds if case.seeds is None else case.seeds)
    ]
    return sorted(found, key=lambda run: run.seed)


def grid(**labels: tuple[str, Sequence[str]]) -> list[Case]:
    """The product of options.

    Args:
        **labels: By column, an option and its values.

    >>> [case.options for case in grid(model=("--models", ["rnn", "lstm"]))]
    ['--models rnn', '--models lstm']
    """
    options = [option for option, _ in labels.values()]
    cases = []
    for values in itertools.product(*(values for _, values in labels.values())):
        pairs = zip(options, values)
        given = " ".join(f"{x} {shlex.quote(value)}" for x, value in pairs)
        cases.append(Case(dict(zip(labels, values)), given))
    return cases


YES, PARTLY, NO, OPEN, NOT_RUN = "yes", "partly", "no", "open", "not run"
VERDICTS = (YES, PARTLY, NO, OPEN, NOT_RUN)


class Claim(NamedTuple):
    """What a document says, and whether it is so.

    Attributes:
        name: "C1" to "C12" of the headline claims, else a table or figure.
        source: Which document.
        claim: In short.
        paper: Its numbers, "" if there are none.
        ours: Ours, with references to numbers of rows; see `claim_numbers`.
        verdict: One of `VERDICTS`.
        reason: Why; as `ours`.
        studies: Whose rows decide.
        command: That shows it, if it is no study.
        seeds: How many, where no row says so.
    """

    name: str
    source: str
    claim: str
    paper: str
    ours: str
    verdict: str
    reason: str
    studies: tuple[str, ...] = ()
    command: str = ""
    seeds: str = ""

    @property
    def is_headline(self) -> bool:
        return self.name[0] == "C" and self.name[1:].isdigit()
