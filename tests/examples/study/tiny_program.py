"""A program of the kind that studies run, which measures nothing.

Its score is the seed, ten more with the model "b". A run is noted in `--log`.
"""

from pathlib import Path

from examples.common import program
from examples.study import programs
from examples.study.records import Column
from examples.study.records import Study

KEY = ("model", "seed", "settings")


def options(parser):
    parser.add_argument("--models", nargs="+", required=True)
    parser.add_argument("--units", type=int, default=3)
    parser.add_argument("--log", type=Path)
    parser.add_argument("--data-dir", type=Path)


def run(own):
    model, args = own.key["model"], own.args
    if args.log:
        with args.log.open("a") as file:
            file.write(f"{model}{own.seed} ")
    return {"score": own.seed + 10 * (model == "b")}


RECORD = program.Program(
    doc=__doc__,
    output="runs/tiny.csv",
    options=options,
    key=KEY,
    cases=lambda args: program.grid(model=args.models),
    settings=("units",),
    run=run,
)


class TinyProgram(programs.Program):
    """The program above, which is no module of the examples."""

    @property
    def record(self):
        return RECORD


def study(options: str = "", **more) -> Study:
    """Two models, three seeds; see the program for `options`."""
    fields = {
        "name": "tiny",
        "shows": "table 0",
        "grid": {"model": "--models a b"},
        "columns": [Column("score", "score", ".1f")],
        "program": TinyProgram("tiny"),
        "against": {"a": ["b"]},
    }
    return Study(**{**fields, "options": options, **more})
