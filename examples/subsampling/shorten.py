"""Fewer steps between two LSTMs: which ones, and what does it save?

    python -m examples.subsampling.shorten
    python -m examples.subsampling.shorten --data imdb --data-dir DIR --stride 8

Classifies sequences, 8x8 digits pixel by pixel unless `--data` says otherwise,
with two LSTMs. What the upper one reads is all states of the lower one
("none"), each `--stride`-th ("stride"), or as many that an `ExpectedSubsample`
keeps, learned by one of its estimators: from `EmissionProbabilities`, held to
the share by a target for the batch, with `ExploreThenCommit`. "integrate" is
continuous integrate-and-fire, which reads weighted means of neighbouring steps.
Prints for each of `--methods` the accuracy on test sequences, in expectation
and with hard decisions, the number of steps kept then, and the time of a
training step and of inference, all measured in turn. `--markdown` writes the
table.

MNIST and IMDB are read from `--data-dir`, see `examples/common/datasets.py` and
`keras_seqmech/tasks/pixel_question.py`; of texts, the first `--length` words.

Each run is a line of `--output`, a CSV file, and times of a method are one of
the file beside it, `<name>-times.csv`. Finished runs are not
repeated; a run that was killed continues after its last epoch.
"""

import argparse
import functools
import sys
from collections.abc import Sequence
from pathlib import Path

import keras

from examples.common import interleaved
from examples.common import locks
from examples.common import results
from examples.common import resumable_fit
from examples.common import tables
from examples.common.arguments import integer
from examples.common.arguments import positive
from examples.common.arguments import real
from examples.common.epoch_line import EpochLine
from examples.subsampling import shorten_models

KEY = ("data", "method", "seed", "settings")
FIELDS = (
    *KEY,
    "accuracy",
    "hard_accuracy",
    "kept",
    "parameters",
    "seconds",
)
TIMES_KEY = ("data", "method", "settings")
TIMES = ("train_ms", "inference_ms", "hard_ms")
SETTINGS = (
    "stride",
    "units",
    "length",
    "train_size",
    "test_size",
    "epochs",
    "batch_size",
    "learning_rate",
    "target_weight",
    "entropy",
    "indecision",
)
NAMES = {
    "none": "all steps",
    "stride": "fixed stride",
    "expectation": "learned, in expectation",
    "straight_through": "learned, straight-through",
    "reinforce": "learned, policy gradient",
    "integrate": "continuous integrate-and-fire",
}


def train_and_test(
    key: results.Row,
    data: shorten_models.Data,
    args: argparse.Namespace,
    line: str,
) -> dict:
    """Trains and tests one model; returns its results."""
    method, seed = key["method"], int(key["seed"])
    keras.utils.clear_session()
    keras.utils.set_random_seed(seed)
    model = shorten_models.build(method, data, args)
    seconds = resumable_fit.fit(
        model,
        resumable_fit.EpochOrder(*data.train, args.batch_size, seed),
        args.epochs,
        resumable_fit.folder_of(args.output, key),
        [*shorten_models.schedules(method, args), EpochLine(line)],
    )
    found = shorten_models.measure(method, model, data, args)
    kept = found.pop("kept", None)
    return {
        **{name: f"{100 * share:.2f}" for name, share in found.items()},
        "kept": "" if kept is None else f"{kept:.1f}",
        "parameters": model.count_params(),
        "seconds": round(seconds, 1),
    }


def keys(args: argparse.Namespace) -> list[results.Key]:
    """The `KEY` of each run."""
    return [
        (args.data, method, str(seed), settings(args))
        for seed in args.seeds
        for method in args.methods
    ]


def runs_file(args: argparse.Namespace) -> results.ResultsFile:
    return results.ResultsFile(args.output, FIELDS, KEY)


def do_runs(args: argparse.Namespace, data: shorten_models.Data) -> list[dict]:
    """Does what has no row yet; returns the rows of the wanted runs."""
    return runs_file(args).do_missing(
        keys(args),
        lambda key, line: train_and_test(key, data, args, line),
        lambda key: resumable_fit.remove(args.output, key),
    )


def times(args: argparse.Namespace, data: shorten_models.Data) -> list[dict]:
    """Milliseconds of all methods, measured in turn unless all are known.

    While other processes train or measure, times are not those of the methods
    alone: none are measured.
    """
    file = results.ResultsFile(
        args.output.with_name(f"{args.output.stem}-times.csv"),
        (*TIMES_KEY, *TIMES),
        TIMES_KEY,
    )
    wanted = [(args.data, name, settings(args)) for name in args.methods]

    def pending() -> list[results.ResultsFile]:
        is_quiet = not runs_file(args).missing(keys(args))
        return [file] if is_quiet and file.missing(wanted) else []

    def measure(file: results.ResultsFile) -> None:
        measured = measure_times(args, data)
        for key in wanted:
            file.add({**dict(zip(TIMES_KEY, key)), **measured[key[1]]})

    locks.do_claimed(
        pending, lambda file: file.path.with_suffix(".claim"), measure
    )
    if file.missing(wanted):
        print("No times: other processes are at work; start again for them")
    return file.rows_of(wanted)


def measure_times(
    args: argparse.Namespace, data: shorten_models.Data
) -> dict[str, dict[str, str]]:
    """Median milliseconds by method and name of the time."""
    functions = {}
    x, y = (part[: args.batch_size] for part in data.train)
    for method in args.methods:
        trained = shorten_models.build(method, data, args)
        functions[method, "train_ms"] = functools.partial(
            trained.train_on_batch, x, y
        )
        if method not in shorten_models.DRAWN:
            plain = shorten_models.build(method, data, args)
            functions[method, "inference_ms"] = functools.partial(
                plain.predict_on_batch, x
            )
        if method in shorten_models.LEARNED:
            hard = shorten_models.build(method, data, args, "threshold")
            functions[method, "hard_ms"] = functools.partial(
                hard.predict_on_batch, x
            )
    medians = interleaved.median_ms(functions.values(), args.repeats)
    found: dict[str, dict[str, str]] = {name: {} for name in args.methods}
    for (method, name), median in zip(functions, medians, strict=True):
        found[method][name] = f"{median:.2f}"
    return found


def settings(args: argparse.Namespace) -> str:
    return results.describe(args, SETTINGS)


def table(
    rows: Sequence[dict], timed: Sequence[dict], args: argparse.Namespace
) -> str:
    """Markdown table, a line for each method."""
    lines = [
        "between the LSTMs | accuracy % | hard % | kept | training ms a "
        "step | inference ms a batch | hard | seeds".split(" | ")
    ]
    for method in args.methods:
        own = [row for row in rows if row["method"] == method]
        clock = [row for row in timed if row["method"] == method]
        lines.append(
            [
                NAMES[method],
                tables.mean(own, "accuracy"),
                tables.mean(own, "hard_accuracy"),
                tables.mean(own, "kept"),
                *(tables.mean(clock, name) for name in TIMES),
                len(own),
            ]
        )
    return tables.table(lines)


def report(
    rows: Sequence[dict],
    timed: Sequence[dict],
    data: shorten_models.Data,
    args: argparse.Namespace,
) -> str:
    """Prints the table with its notes, and writes it to `--markdown`."""
    notes = (
        f"Data: {args.data}, {len(data.train[1])} training and "
        f"{len(data.test[1])} test sequences of at most {data.length} steps, "
        f"of which {data.length // args.stride} are read where not all are. "
        "Means over seeds. Accuracy of learned ones: in expectation. Hard: "
        "with hard decisions, which keep the steps whose probability is above "
        "one half; kept, their number, or that of firings, may exceed what is "
        f"read. Times: medians of {args.repeats}, measured in turn, of batches "
        f"of {args.batch_size}."
    )
    parts = [table(rows, timed, args), notes]
    parts.append(f"Settings: `{settings(args)}`.")
    return tables.publish(parts, args.markdown)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--data", choices=shorten_models.DATA, default="digits")
    add("--data-dir", type=Path, help="folder of mnist or imdb")
    names = list(NAMES)
    add("--methods", nargs="+", choices=names, default=names)
    add("--seeds", nargs="+", type=integer(0), default=[0])
    add("--stride", type=integer(2), default=4, help="steps for one that stays")
    add("--units", type=positive, default=32, help="of LSTMs and embedding")
    add("--length", type=positive, default=200, help="words of a text")
    add("--train-size", type=positive, default=5000, help="at most")
    add("--test-size", type=positive, default=2000, help="at most")
    add("--epochs", type=positive, default=20)
    add("--batch-size", type=positive, default=32)
    add("--learning-rate", type=real("(0, inf)"), default=3e-3)
    weight = real("[0, 100]")
    add(
        "--target-weight",
        type=weight,
        default=1.0,
        help="of the distance of the kept share to 1 / stride",
    )
    add(
        "--entropy",
        type=weight,
        help="exploration at first, of steps that are drawn, if not the "
        "default of ExploreThenCommit",
    )
    add(
        "--indecision",
        type=weight,
        help="commitment at the end, likewise",
    )
    add("--repeats", type=positive, default=20, help="of times")
    add("--no-times", action="store_true", help="accuracies alone")
    add("--output", type=Path, default=Path("runs/shorten.csv"))
    add("--markdown", type=Path, help="file for the table")
    args = parser.parse_args(argv)
    if args.data != "digits" and args.data_dir is None:
        parser.error(f"--data-dir: must be given for --data {args.data}")
    return args


def main(argv: Sequence[str] | None = None) -> str:
    """Does the runs; returns the table it prints."""
    args = parse(argv)
    data = shorten_models.load(args)
    if data.length < args.stride:
        sys.exit(
            f"--stride: must be at most {data.length}, the length of "
            f"sequences. Received: {args.stride}"
        )
    rows = do_runs(args, data)
    timed = [] if args.no_times else times(args, data)
    return report(rows, timed, data, args)


if __name__ == "__main__":
    main()
