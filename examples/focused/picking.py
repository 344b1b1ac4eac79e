"""The picking task: which of the first k digits is the most frequent?

    python -m examples.focused.picking --length 200 \
        --test-lengths 400 800 1600 10000

Trains one and two stacked LSTMs and the focused hierarchical encoder, each
`--estimators` of its gates, on fresh random sequences of `--length` digits
with k up to `--max-k`, and tests them on `--test-size` fixed ones. Prints,
beside the numbers of "Focused Hierarchical RNNs for Conditional Sequence
Processing", accuracy and openness, the steps to 95 %, times, and the variance
of the gates' gradient from draw to draw, on one batch, before and after
training: `--markdown` writes the tables.

In the first `--growing-share` of the steps, sequences are doubled from
`--start-length` on until they have `--length`: to count in short ones is
learned faster, and a step takes less time.

Then the trained models are tested on the longer `--test-lengths`, with k up
to the same `--max-k`: k is an embedding, and one that was never trained would
mean nothing. So the question is whether a model is disturbed by what comes
after the digits that count. There, accuracy is also measured on the clear
examples, where one digit is more frequent than all others: a model may count
without mistakes and still not know which of two equal digits came first.

The LSTMs do not know k; the question attends over their states after the last
step, or, of `lstm1_last` and `lstm2_last`, is joined with their last state. The
gates of the focused encoder know it; see `examples/focused/models.py`.

What open gates cost is by default what exceeds `--openness-target`, by weights
that change over training. With `--explore` it is a price, `--price`, after
`ExploreThenCommit`; options of the former are refused then.

Each run is a line of `--output`, a CSV file, and each longer test one of the
file beside it, `<name>-lengths.csv`. Finished runs are not repeated; a run that
was killed continues from its last test. Beside them, in `<name>-models/`
or `--save-models`, are the models and their curves. `--export-dir` exports the
focused encoder for TensorFlow Serving: logits, gates and attention by name.
"""

import argparse
import functools
import math
from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np

from examples.common import results
from examples.common import tables
from examples.common.arguments import positive
from examples.common.arguments import real
from examples.focused import experiments
from examples.focused import models
from keras_seqmech.tasks import picking

# Accuracies in %: table 2, and table 4 for models trained at length 200.
PAPER = {
    "lstm1": {100: 99.4, 200: 97.0, 400: 92.9},
    "lstm2": {100: 99.7, 200: 99.2, 400: 97.5},
    "fhe": {100: 99.5, 200: 99.4, 400: 96.9},
}
PAPER_LENGTH = 200
PAPER_LONGER = {
    "lstm1": {200: 97.1, 400: 55.9, 800: 39.6, 1600: 29.5, 10000: 18.5},
    "lstm2": {200: 99.2, 400: 61.4, 800: 39.7, 1600: 28.6, 10000: 14.8},
    "fhe": {200: 99.4, 400: 97.6, 800: 95.6, 1600: 93.3, 10000: 66.8},
}
# Table 3: less open gates at some cost.
PAPER_SPARSE = {
    "FHE80": {100: 93.4, 200: 92.3, 400: 87.2},
    "FHE90": {100: 94.2, 200: 92.4, 400: 90.5},
    "FHE95": {100: 96.6, 200: 93.6, 400: 90.0},
    "FHE98": {100: 98.7, 200: 93.6, 400: 91.0},
}
KEY = experiments.KEY
LENGTH_FIELDS = (
    *KEY,
    "test_length",
    "test_size",
    "accuracy",
    "clear_accuracy",
    "openness",
    "drawn_accuracy",
    "drawn_openness",
)
OWN_SETTINGS = ("max_k", "growing_share", "start_length")
DIGIT_SIZE = 16
TEST_SEED = 10**6
# Digits read at once in tests, so that long sequences fit into memory.
READ_AT_ONCE = 500_000


def build(name: str, estimator: str, args: argparse.Namespace) -> keras.Model:
    """A model that is given `tokens` and `k`."""
    inputs = {
        "tokens": keras.Input((None,), dtype="int32", name="tokens"),
        "k": keras.Input((), dtype="int32", name="k"),
    }
    digits = keras.layers.Embedding(
        picking.DIGITS,
        DIGIT_SIZE,
        keras.initializers.RandomUniform(-1, 1),
        name="digits",
    )
    asked = keras.layers.Embedding(args.max_k + 1, args.units, name="question")
    question = asked(inputs["k"])
    asked.embeddings.assign(waves(args.max_k + 1, args.units))
    return models.build(
        name,
        inputs,
        digits(inputs["tokens"]),
        question,
        picking.DIGITS,
        args.length,
        estimator,
        args,
    )


def waves(count: int, size: int) -> np.ndarray:
    """Sines and cosines of 0 to count - 1, `(count, size)`.

    What the questions' embedding starts from: near numbers are near vectors.
    Small random vectors take long to tell one k from another.

    >>> waves(7, 2).round(1).tolist()[:3]
    [[0.0, 1.0], [1.0, 0.0], [0.0, -1.0]]
    """
    periods = np.geomspace(4, 2 * count, -(-size // 2))
    angles = 2 * np.pi * np.arange(count)[:, None] / periods
    both = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    return both[:, :size]


def keys(args: argparse.Namespace) -> list[results.Key]:
    """The `KEY` of each run."""
    return experiments.keys(args, f"picking-{args.length}", OWN_SETTINGS)


def lengths_file(args: argparse.Namespace) -> results.ResultsFile:
    """Results by length of the test sequences, beside `--output`."""
    path = args.output.with_name(f"{args.output.stem}-lengths.csv")
    return results.ResultsFile(path, LENGTH_FIELDS, (*KEY, "test_length"))


def measure_lengths(
    key: results.Row, path: Path, args: argparse.Namespace
) -> None:
    """Tests a trained model on each length it was not yet tested on."""
    load = functools.cache(lambda: keras.models.load_model(path))
    lengths_file(args).do_missing(
        [(*key.values(), str(length)) for length in args.test_lengths],
        lambda row, line: measure_length(load(), int(row["test_length"]), args),
    )


def measure_length(
    model: keras.Model, length: int, args: argparse.Namespace
) -> dict[str, float]:
    """Accuracies on sequences of a length, in percent."""
    probed, drawn = models.probe(model), models.probe(model)
    test = picking.examples(args.test_size, length, args.max_k, TEST_SEED)
    batch_size = max(1, min(args.batch_size, READ_AT_ONCE // length))
    measured = {
        "openness": np.nan,
        **models.measure(
            probed, *test, batch_size, {"clear": is_clear(test[0])}
        ),
        **models.measure_drawn(model, drawn, *test, batch_size),
    }
    found = {x: experiments.percent(share) for x, share in measured.items()}
    return {"test_size": args.test_size, **found}


def export(key: results.Row, path: Path, directory: Path | None) -> None:
    """Exports a trained model with its decisions, if it makes any.

    Args:
        key: Of the run.
        path: Of the model.
        directory: Of the exports; None for none.
    """
    if directory is None or key["model"] != "fhe":
        return
    from keras_seqmech import serving

    probed = models.probe(keras.models.load_model(path), focus=True)
    print("Exported to", serving.export_model(probed, directory), flush=True)


def is_clear(asked: dict[str, np.ndarray]) -> np.ndarray:
    """Where one digit is more frequent than all others, bools `(N,)`.

    >>> examples = {"tokens": [[3, 2, 2, 3]] * 2, "k": [3, 4]}
    >>> is_clear(examples).tolist()
    [True, False]
    """
    counts = picking.counts(asked["tokens"], asked["k"])
    most = counts.max(axis=1, keepdims=True)
    return (counts == most).sum(axis=1) == 1


def growing_length(step: int, args: argparse.Namespace) -> int:
    """Length of the sequences of a training step: doubled again and again."""
    share = min(1.0, step / (args.growing_share * args.steps))
    start = min(args.start_length, args.length)
    doublings = math.ceil(math.log2(args.length / start))
    return min(args.length, start * 2 ** int(share * doublings))


def runs_table(rows: Sequence[dict], args: argparse.Namespace) -> str:
    """Markdown table of what was trained, as table 2."""
    lines = [
        f"length {args.length} | accuracy % | slides % | drawn % | openness % "
        "| steps to 95 % | steps | gate variance: start | end "
        "| training ms a step | inference ms a batch | seeds".split(" | ")
    ]
    for kind, own in experiments.kinds(rows).items():
        means = [
            ("steps_to_95", ".0f"),
            ("steps", ".0f"),
            ("gate_variance_start", ".2g"),
            ("gate_variance_end", ".2g"),
            ("train_ms", ".0f"),
            ("inference_ms", ".0f"),
        ]
        lines.append(
            [
                experiments.kind_name(kind),
                tables.mean(own, "accuracy"),
                of_slides(PAPER, kind[0]).get(args.length, ""),
                tables.mean(own, "drawn_accuracy"),
                tables.mean(own, "openness"),
                *(tables.mean(own, *field) for field in means),
                len(own),
            ]
        )
    return tables.table(lines)


def lengths_table(rows: Sequence[dict], args: argparse.Namespace) -> str:
    """Markdown table of longer sequences, as table 4; "" without any."""
    wanted = {tuple(row[name] for name in KEY) for row in rows}
    longer = [
        row
        for row in lengths_file(args).read()
        if tuple(row[name] for name in KEY) in wanted
    ]
    if not longer:
        return ""
    columns = sorted({int(row["test_length"]) for row in longer})
    header = [f"trained at {args.length}, %"]
    for length in columns:
        header += [f"{length:,}", "clear", "drawn", "openness", "slides"]
    lines = [header]
    for kind, own in experiments.kinds(longer).items():
        line = [experiments.kind_name(kind)]
        slides = {}
        if args.length == PAPER_LENGTH:
            slides = of_slides(PAPER_LONGER, kind[0])
        for length in columns:
            at = [row for row in own if int(row["test_length"]) == length]
            fields = ("accuracy", "clear_accuracy", "drawn_accuracy")
            line += [tables.mean(at, field) for field in (*fields, "openness")]
            line.append(slides.get(length, ""))
        lines.append(line)
    return tables.table(lines)


def of_slides(table: dict[str, dict], name: str) -> dict[int, float]:
    """Accuracies of the slides; how their LSTMs read the question is unknown.

    >>> of_slides(PAPER, "lstm1_last")[100]
    99.4
    """
    return table[name.removesuffix("_last")]


def sparse_note(args: argparse.Namespace) -> str:
    """The slides' models with less open gates, at this length."""
    numbers = [
        f"{name} {row[args.length]}"
        for name, row in PAPER_SPARSE.items()
        if args.length in row
    ]
    if not numbers:
        return ""
    return f"Slides, less open gates (table 3): {', '.join(numbers)}."


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    experiments.add_arguments(parser, "picking")
    add("--length", type=positive, default=100, help="of training sequences")
    share = real("[0, 1)")
    add("--growing-share", type=share, default=0.5, help="of the steps, first")
    add("--start-length", type=positive, default=50)
    add("--max-k", type=positive, help="largest k; default: --length")
    add("--test-lengths", nargs="*", type=positive, default=[])
    add("--export-dir", type=Path, help="export fhe to this folder")
    args = experiments.complete(parser, parser.parse_args(argv))
    args.max_k = args.max_k or args.length
    if args.max_k > min([args.length, *args.test_lengths]):
        parser.error(
            "--max-k: must be at most --length and --test-lengths. Received: "
            f"{args.max_k}"
        )
    return args


def main(argv: Sequence[str] | None = None) -> str:
    """Does the runs; returns the tables it prints."""
    args = parse(argv)

    def batches(seed, step):
        length = args.length
        if args.growing_share:
            length = functools.partial(growing_length, args=args)
        return picking.dataset(
            length, args.batch_size, args.max_k, seed=seed, start=step
        )

    asked, answers = picking.examples(
        args.test_size, args.length, args.max_k, TEST_SEED
    )

    def after(key, path):
        measure_lengths(key, path, args)
        export(key, path, args.export_dir)

    rows = experiments.do_runs(
        args,
        keys(args),
        experiments.Task(
            functools.partial(build, args=args), batches, (asked, answers)
        ),
        after,
    )
    parts = [runs_table(rows, args), sparse_note(args)]
    parts.append(lengths_table(rows, args))
    return experiments.report(args, parts, OWN_SETTINGS)


if __name__ == "__main__":
    main()
