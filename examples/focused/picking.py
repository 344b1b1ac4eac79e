"""The picking task: which of the first k digits is the most frequent?

    python -m examples.focused.picking --length 200 \
        --test-lengths 400 800 1600 10000

Trains LSTMs and the focused hierarchical encoder on fresh random sequences of
`--length` digits with k up to the same number; in the first half of the steps,
or another `--growing-share`, sequences are doubled from 50 digits on. Then the
trained models are tested on the longer `--test-lengths`, with the same k: is a
model disturbed by what comes after the digits that count? There, accuracy is
also measured on the clear examples, where one digit is more frequent than all
others.

Each run is a line of `--output`, a CSV file, and each longer test one of
`<name>-lengths.csv`; beside them, in `<name>-models/`, are the models.
`--export-dir` exports the focused encoder for TensorFlow Serving:
logits, gates and attention by name.
"""

import argparse
import functools
import math
from pathlib import Path

import keras
import numpy as np

from examples.common import results
from examples.common import tables
from examples.focused import experiments
from examples.focused import models
from examples.tasks import picking
from keras_seqmech import serving

# Length of the first sequences.
START_LENGTH = 50
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
    uniform = keras.initializers.RandomUniform(-1, 1)
    digits = keras.layers.Embedding(
        picking.DIGITS, DIGIT_SIZE, uniform, name="digits"
    )
    known = args.length + 1
    questions = keras.layers.Embedding(known, args.units, name="question")
    read = digits(inputs["tokens"]), questions(inputs["k"])
    asked = models.Asked(inputs, *read, picking.DIGITS)
    questions.embeddings.assign(waves(known, args.units))
    return models.build(name, estimator, asked, args)


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


def test_lengths(args: argparse.Namespace, rows: list[results.Row]) -> None:
    """Tests trained models on all lengths, and exports them if asked to.

    Results by length, their own first, are rows of the file beside `--output`.
    """
    path = args.output.with_name(f"{args.output.stem}-lengths.csv")
    file = results.ResultsFile(path, (*PROGRAM.key, "test_length"))

    def test(key: results.Row) -> dict:
        model = load_model(model_path(args, key))
        return measure_length(model, int(key["test_length"]), args)

    load_model = functools.lru_cache(1)(keras.models.load_model)
    tested = file.do_missing(
        [
            (*(row[name] for name in PROGRAM.key), str(length))
            for row in rows
            for length in (args.length, *args.test_lengths)
        ],
        test,
    )
    for row in rows:
        if args.export_dir and row["model"] == "fhe":
            model = load_model(model_path(args, row))
            probed = models.probe(model, focus=True)
            version = serving.export_model(probed, args.export_dir)
            print("Exported to", version, flush=True)
    labels = (*experiments.KIND, "test_length")
    columns = results.measured(tested, file.key)
    tables.publish(tables.by_kind(tested, labels, columns))


def model_path(args: argparse.Namespace, row: results.Row) -> Path:
    """The file of a run's model, of its own for each setting."""
    return results.with_ending(PROGRAM.place(args, row), "keras")


def measure_length(
    model: keras.Model, length: int, args: argparse.Namespace
) -> dict[str, float]:
    """Accuracies on sequences of a length, in percent."""
    test = picking.examples(args.test_size, length, args.length, TEST_SEED)
    batch_size = max(1, min(args.batch_size, READ_AT_ONCE // length))
    clear = {"clear": is_clear(test[0])}
    measured = models.measure(models.probe(model), *test, batch_size, clear)
    measured |= models.measure_others(
        model, lambda: models.measure(models.probe(model), *test, batch_size)
    )
    found = {x: experiments.percent(share) for x, share in measured.items()}
    return {"test_size": args.test_size, **found}


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
    growing = args.growing_share * args.steps
    if step >= growing:
        return args.length
    start = min(START_LENGTH, args.length)
    doublings = math.ceil(math.log2(args.length / start))
    return min(args.length, start * 2 ** int(step / growing * doublings))


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    experiments.options(parser)
    growing = "share of the steps after which sequences have --length digits"
    add("--length", type=int, default=100, help="length of training sequences")
    add("--growing-share", type=float, default=0.5, help=growing)
    longer = "lengths of further tests"
    add("--test-lengths", nargs="*", type=int, default=[], help=longer)
    add("--export-dir", type=Path, help="export fhe to this folder")


def load(args: argparse.Namespace) -> experiments.Task:
    def batches(seed, step):
        length = functools.partial(growing_length, args=args)
        return picking.dataset(
            length, args.batch_size, args.length, seed=seed, start=step
        )

    test = picking.examples(args.test_size, args.length, args.length, TEST_SEED)
    build_one = functools.partial(build, args=args)
    return experiments.Task(build_one, batches, test)


PROGRAM = experiments.study(
    lambda args: f"picking-{args.length}",
    doc=__doc__,
    output="runs/picking.csv",
    options=options,
    settings=("growing_share",),
    load=load,
    after=test_lengths,
)

if __name__ == "__main__":
    PROGRAM.main()
