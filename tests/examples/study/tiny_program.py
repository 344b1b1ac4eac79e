"""A program of the kind that studies run, which measures nothing.

Its score is the seed, ten more with the model "b". A run takes `--wait`
seconds and is noted in `--log` when it starts.
"""

import argparse
import time
from pathlib import Path

from examples.common import results
from examples.study.programs import Program
from examples.study.studies import Measure
from examples.study.studies import Study
from examples.study.studies import grid

KEY = ("model", "seed", "settings")
FIELDS = (*KEY, "score")


def parse(argv):
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", nargs="+", required=True)
    parser.add_argument("--seeds", nargs="+", type=int, required=True)
    parser.add_argument("--wait", type=float, default=0)
    parser.add_argument("--units", type=int, default=3)
    parser.add_argument("--log", type=Path)
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

    def run(key, line):
        if args.log:
            with args.log.open("a") as file:
                file.write(f"{key['model']}{key['seed']} ")
        time.sleep(args.wait)
        return {"score": int(key["seed"]) + 10 * (key["model"] == "b")}

    results.ResultsFile(args.output, FIELDS, KEY).do_missing(keys(args), run)


class TinyProgram(Program):
    """The program above, which is no module of the examples."""

    @property
    def module(self):
        import sys

        return sys.modules[__name__]


def study(options: str = "", **more) -> Study:
    """Two models, three seeds; see the program for `options`."""
    fields = {
        "cases": grid(model=("--models", ["a", "b"])),
        "measures": [Measure("score", "score", ".1f")],
        "program": TinyProgram("tiny"),
        "options": options,
        "against": {"b": "a"},
    }
    return Study("tiny", "titles", "table 0", **{**fields, **more})
