"""What an answer costs in delay: F1 of taggers whose text is still arriving.

    python -m examples.receptive_field.delay --tasks people_daily code

Trains the models of `stream_taggers` on the tasks of `streams`, all with the
same units, epochs and learning rate, and prints F1 beside the mean and the 95th
percentile of the emission delay: the characters that arrive between a character
and its tag, in order.
"""

import argparse
import functools

import numpy as np

from examples.common import program
from examples.receptive_field import stream_taggers
from examples.receptive_field import streams
from examples.receptive_field.stream_taggers import MODELS

EPOCHS = {"people_daily": 4, "msr": 8, "spaces": 12, "code": 8}
EPOCHS |= {"sounds": 6, "german": 6, "marks": 4, "held_out": 4}


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    tasks = ["people_daily", "code"]
    add("--tasks", nargs="+", choices=streams.TASKS, default=tasks)
    few = ["lstm", "window+dense", "look_ahead+dense"]
    add("--models", nargs="+", choices=MODELS, default=few)
    add("--settings", nargs="+", type=float, help="in place of the models' own")


def cases(args: argparse.Namespace) -> program.Cases:
    for case in program.grid(task=args.tasks, model=args.models):
        for setting in args.settings or MODELS[case["model"]]:
            yield {**case, "setting": f"{setting:g}"}


def run(own: program.Run) -> dict[str, str]:
    """Trains and tests one model."""
    key, args = own.key, own.args
    length = 128 if key["task"] == "code" else 64
    one = key["model"].startswith("one_")
    texts = key["task"], args.texts, args.test_texts, length, args.data_dir
    epochs = args.epochs or EPOCHS[key["task"]]
    tagger = _trained(
        *(key["model"], 0.0 if one else float(key["setting"]), texts),
        *(epochs, own.seed, args.units, args.max_size),
    )
    f1, delays = tagger._replace(setting=float(key["setting"])).test()
    return {
        "f1": f"{f1:.2f}",
        "delay": f"{delays.mean():.3f}",
        "delay_95": f"{np.percentile(delays, 95):g}",
        "longest": f"{delays.max():g}",
    }


@functools.lru_cache(maxsize=1)
def _trained(
    name: str, setting: float, texts: tuple, *settings: int
) -> stream_taggers.Tagger:
    """A trained model, which may be tested at several settings."""
    return stream_taggers.train(name, setting, streams.load(*texts), *settings)


PROGRAM = program.Program(
    doc=__doc__,
    output="runs/delay.csv",
    options=options,
    needs_data=lambda args: bool({*args.tasks} & {"msr", "marks", "held_out"}),
    key=("task", "model", "setting", "seed", "settings"),
    cases=cases,
    numbers={
        "texts": 4000,  # In training.
        "test_texts": 800,
        "epochs": int,  # By default the task's.
        "units": 64,
        "max_size": 12,
    },
    run=run,
)

if __name__ == "__main__":
    PROGRAM.main()
