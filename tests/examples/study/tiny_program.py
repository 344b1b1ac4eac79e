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


def main(argv):
    args = parse(argv)
    for model in args.models:
        for seed in args.seeds:
            if args.log:
                with args.log.open("a") as file:
                    file.write(f"{model}{seed} ")
            time.sleep(args.wait)
            row = {"model": model, "seed": seed, "score": seed}
            row["score"] += 10 * (model == "b")
            row["settings"] = results.describe(args, ["units"])
            results.add_row(args.output, FIELDS, row, KEY)


class TinyProgram(Program):
    """The program above, which is no module of the examples."""

    @property
    def module(self):
        import sys

        return sys.modules[__name__]


def _key(module, args):
    return {
        "model": args.models[0],
        "seed": args.seeds[0],
        "settings": results.describe(args, ["units"]),
    }


def study(options: str = "", **more) -> Study:
    """Two models, three seeds; see the program for `options`."""
    fields = {
        "cases": grid(model=("--models", ["a", "b"])),
        "measures": [Measure("score", "score", ".1f")],
        "program": TinyProgram("tiny", _key),
        "options": options,
        "against": {"b": "a"},
    }
    return Study("tiny", "titles", "table 0", **{**fields, **more})
