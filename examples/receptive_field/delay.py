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
import itertools
import pathlib

import numpy as np
import pandas as pd

from examples.common import arguments
from examples.common import results
from examples.common import tables
from examples.common.arguments import positive
from examples.receptive_field import delay_figure
from examples.receptive_field import stream_taggers
from examples.receptive_field import streams
from examples.receptive_field.stream_taggers import ADAPTIVE
from examples.receptive_field.stream_taggers import AHEAD
from examples.receptive_field.stream_taggers import MODELS

EPOCHS = {"people_daily": 4, "msr": 8, "spaces": 12, "code": 8}
SETTINGS = ("texts", "test_texts", "epochs", "units", "max_size")
KEY = ("task", "model", "setting", "seed", "settings")
MEASURED = ("f1", "delay", "delay_95")


def main(argv: list[str] | None = None) -> None:
    """Runs what is not finished; prints the table and draws the figure."""
    args = parse(argv)
    rows = results.ResultsFile(args.output, KEY).do_missing(
        keys(args), lambda key: run(args, key)
    )
    print(tables.by_kind(rows, KEY[:3], MEASURED))
    path = args.output.with_suffix(".png")
    styles = {
        name: ("D-" if name in ADAPTIVE else "o--", None, name)
        for name in MODELS
        if name != "bilstm"
    }
    runs = pd.DataFrame(rows).astype({"f1": float, "delay": float})
    delay_figure.draw(runs, styles).savefig(path, dpi=200)
    print(f"As a picture: {path}")


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = arguments.parser(__doc__)
    add = parser.add_argument
    tasks, output = ["people_daily", "code"], pathlib.Path("runs/delay.csv")
    add("--tasks", nargs="+", choices=streams.TASKS, default=tasks)
    few = ["lstm", "window+dense", "look_ahead+dense"]
    add("--models", nargs="+", choices=MODELS, default=few)
    add("--settings", nargs="+", type=float, help="in place of the models' own")
    add("--seeds", nargs="+", type=int, default=[0])
    add("--texts", type=positive, default=4000, help="training texts")
    add("--test-texts", type=positive, default=800)
    add("--epochs", type=positive, help="epochs in place of the task's")
    add("--units", type=positive, default=64)
    add("--max-size", type=positive, default=12, help="largest size")
    add("--data-dir", type=arguments.folder, help="where `msr` is")
    add("--output", type=pathlib.Path, default=output)
    args = parser.parse_args(argv)
    ahead = [x for x in args.models if MODELS[x] is AHEAD]
    if ahead and not all(x.is_integer() for x in args.settings or ()):
        parser.error(
            f"--settings: whole numbers of characters for {' '.join(ahead)}; "
            f"Received: {args.settings}"
        )
    return args


def keys(args: argparse.Namespace) -> list[results.Key]:
    """The `KEY` of each run."""
    settings = results.describe(args, SETTINGS)
    return [
        (task, model, f"{setting:g}", str(seed), settings)
        for task, seed, model in itertools.product(
            args.tasks, args.seeds, args.models
        )
        for setting in args.settings or MODELS[model]
    ]


def run(args: argparse.Namespace, key: results.Row) -> dict[str, str]:
    """Trains and tests one model."""
    length = 128 if key["task"] == "code" else 64
    one = key["model"].startswith("one_")
    tagger = _trained(
        key["model"],
        0.0 if one else float(key["setting"]),
        (key["task"], args.texts, args.test_texts, length, args.data_dir),
        args.epochs or EPOCHS[key["task"]],
        int(key["seed"]),
        args.units,
        args.max_size,
    )
    f1, delays = tagger._replace(setting=float(key["setting"])).test()
    return {
        "f1": f"{f1:.2f}",
        "delay": f"{delays.mean():.3f}",
        "delay_95": f"{np.percentile(delays, 95):g}",
    }


@functools.lru_cache(maxsize=1)
def _trained(
    name: str, setting: float, texts: tuple, *settings: int
) -> stream_taggers.Tagger:
    """A trained model, which may be tested at several settings."""
    return stream_taggers.train(name, setting, streams.load(*texts), *settings)


if __name__ == "__main__":
    main()
