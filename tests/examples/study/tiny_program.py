"""A program of the kind that studies run, which measures nothing.

Its score is the seed, ten more with the model "b". A run is noted in `--log`.
"""

import argparse
import sys
from pathlib import Path

from examples.common import results
from examples.study import programs
from examples.study.records import Column
from examples.study.records import Study

KEY = ("model", "seed", "settings")


def parse(argv):
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", nargs="+", required=True)
    parser.add_argument("--seeds", nargs="+", type=int, required=True)
    parser.add_argument("--units", type=int, default=3)
    parser.add_argument("--log", type=Path)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--output", type=Path)
    return parser.parse_args(argv)


def keys(args):
    settings = results.describe(args, ["units"])
    return [
        (model, str(seed), settings)
        for model in args.models
        for seed in args.seeds
    ]


def main(argv):
    args = parse(argv)

    def run(key):
        if args.log:
            with args.log.open("a") as file:
                file.write(f"{key['model']}{key['seed']} ")
        return {"score": int(key["seed"]) + 10 * (key["model"] == "b")}

    results.ResultsFile(args.output, KEY).do_missing(keys(args), run)


class TinyProgram(programs.Program):
    """The program above, which is no module of the examples."""

    @property
    def module(self):
        return sys.modules[__name__]


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
