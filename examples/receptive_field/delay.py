"""What an answer costs in delay: F1 of taggers whose text is still arriving.

    python -m examples.receptive_field.delay --tasks people_daily code

Trains the models of `stream_taggers` on the tasks of `streams`, all with the
same units, epochs and learning rate, and prints F1 beside the mean and the 95th
percentile of the emission delay: the characters that arrive between a character
and its tag, in order.

A picture shows F1 over the mean delay. Finished runs are lines of `--output`
and are not repeated.
"""

import argparse
import functools
from collections.abc import Iterator

import numpy as np
import pandas as pd

from examples.common import arguments
from examples.common import program
from examples.common import results
from examples.common.arguments import positive
from examples.receptive_field import delay_figure
from examples.receptive_field import stream_taggers
from examples.receptive_field import streams
from examples.receptive_field.stream_taggers import ADAPTIVE
from examples.receptive_field.stream_taggers import AHEAD
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
    add("--texts", type=positive, default=4000, help="training texts")
    add("--test-texts", type=positive, default=800)
    add("--epochs", type=positive, help="epochs in place of the task's")
    add("--units", type=positive, default=64)
    add("--max-size", type=positive, default=12, help="largest size")
    add("--data-dir", type=arguments.folder, help="where texts are")


def check(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    ahead = [x for x in args.models if MODELS[x] is AHEAD]
    if ahead and not all(x.is_integer() for x in args.settings or ()):
        parser.error(
            f"--settings: whole numbers of characters for {' '.join(ahead)}; "
            f"Received: {args.settings}"
        )


def cases(args: argparse.Namespace) -> Iterator[program.Case]:
    for case in program.grid(task=args.tasks, model=args.models):
        for setting in args.settings or MODELS[case["model"]]:
            yield {**case, "setting": f"{setting:g}"}


def draw(args: argparse.Namespace, rows: list[results.Row]) -> None:
    """Draws the figure."""
    path = args.output.with_suffix(".png")
    styles = {
        name: ("D-" if name in ADAPTIVE else "o--", None, name)
        for name in MODELS
        if name != "bilstm"
    }
    runs = pd.DataFrame(rows).astype({"f1": float, "delay": float})
    delay_figure.draw(runs, styles).savefig(path, dpi=200)
    print(f"As a picture: {path}")


def run(own: program.Run) -> dict[str, str]:
    """Trains and tests one model."""
    key, args = own.key, own.args
    length = 128 if key["task"] == "code" else 64
    one = key["model"].startswith("one_")
    tagger = _trained(
        key["model"],
        0.0 if one else float(key["setting"]),
        (key["task"], args.texts, args.test_texts, length, args.data_dir),
        args.epochs or EPOCHS[key["task"]],
        own.seed,
        args.units,
        args.max_size,
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
    check=check,
    key=("task", "model", "setting", "seed", "settings"),
    cases=cases,
    settings=("texts", "test_texts", "epochs", "units", "max_size"),
    run=run,
    measured=("f1", "delay", "delay_95", "longest"),
    after=draw,
)

if __name__ == "__main__":
    PROGRAM.main()
