"""The memory task: which symbols come in equal pairs?

    python -m examples.subsampling.memory_task \
        --lengths 10 50 --figure figure.png

Trains the model of "Training a Subsampling Mechanism in Expectation", section
3, on fresh random sequences of each of `--lengths`, until `--target-accuracy`
of the outputs of other sequences are right, and for `--steps` minibatches at
most. Prints for each length the accuracy on a third set of
sequences, over outputs and over whole sequences, and the number of minibatches
it took: `--markdown` writes the table.

Only real outputs are learned and count, so nothing keeps the model from
emitting too many; `emitted` is the number it expects to emit. `padded_accuracy`
counts T outputs of each sequence instead: those after the last real one are
right where the model's answer is 0.

With `--curriculum outputs` only the first T' outputs of each minibatch are
learned, T' uniform from 1 to T. With `--curriculum length` all outputs are
learned, of sequences that grow: they have `--start-length` symbols at first,
and twice as many, up to T, after each `--evaluate-every` minibatches of which
`--growth-accuracy` of the outputs were right. `--no-curriculum` learns all from
the start. With `--warm-start` a model starts from the weights that the same
seed learned for the previous of `--lengths`.

Equation 3 decides whether to emit the state of a step before the step's symbol
is seen. `--emit after` decides one step later, by the state that has seen it.

`--figure` draws, for the model of `--figure-length`, which symbols of a test
sequence become which outputs.

Each run is a line of `--output`, a CSV file. Finished runs are not
repeated; a run that was killed continues from its last test. Beside it, in
`<name>-models/` or `--save-models`, are the models and their curves.
"""

import argparse
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from examples.common import results
from examples.common import resumable_progress
from examples.common import tables
from examples.common.arguments import integer
from examples.common.arguments import positive
from examples.common.arguments import real
from examples.subsampling import memory_model
from examples.subsampling.memory_progress import Progress
from keras_seqmech import analysis
from keras_seqmech.tasks import memory

KEY = ("length", "seed", "settings")
FIELDS = (
    *KEY,
    "accuracy",
    "sequence_accuracy",
    "padded_accuracy",
    "emitted",
    "steps_to_target",
    "steps",
    "train_ms",
    "parameters",
    "seconds",
)
# Files of earlier runs lack it.
OLDER = {"padded_accuracy": ""}
SETTINGS = (
    "units",
    "emission_bias",
    "learning_rate",
    "batch_size",
    "curriculum",
    "warm_start",
    "steps",
    "target_accuracy",
    "evaluate_every",
)
CURRICULA = ("outputs", "length")
# With their defaults.
GROWTH_SETTINGS = {"start_length": 10, "growth_accuracy": 0.8}
# Section 3, for all lengths up to 500.
PAPER_ACCURACY, PAPER_STEPS, PAPER_LENGTH = "> 98", "about 10000", 500
TEST_SIZE = 1000
CHECK_SEED, TEST_SEED = 10**6, 10**6 + 1


def train_and_test(
    key: results.Row, args: argparse.Namespace, line: str
) -> dict:
    """Trains, tests and saves one model; returns its results."""
    length, seed = int(key["length"]), int(key["seed"])
    keras.utils.clear_session()
    keras.utils.set_random_seed(seed)
    model = memory_model.build(
        length,
        args.units,
        args.emission_bias,
        args.emit,
        is_fixed=args.curriculum != "length",
    )
    memory_model.compile_model(
        model, args.learning_rate, args.jit_compile, args.clip_norm
    )
    model.optimizer.build(model.trainable_variables)
    path = model_path(tuple(key.values()), args)
    check = memory.examples(args.test_size, length, CHECK_SEED)
    progress = Progress(check, length, args, path.with_suffix(""), line)
    state = progress.restore(model)
    if state["step"] == 0 and args.warm_start:
        start_warm(model, tuple(key.values()), args)
    # A fit ends early where sequences grow.
    while not progress.is_over():
        model.fit(
            batches(
                progress.training_length(), length, seed, state["step"], args
            ),
            initial_epoch=state["step"] // args.evaluate_every,
            epochs=args.steps // args.evaluate_every,
            steps_per_epoch=args.evaluate_every,
            callbacks=[progress],
            shuffle=False,
            verbose=0,
        )
    model.save(path)
    test = memory.examples(args.test_size, length, TEST_SEED)
    measured = memory_model.measure(
        memory_model.probe(model), test, args.batch_size
    )
    measured["padded_accuracy"] = memory_model.padded_accuracy(
        model, test, args.batch_size
    )
    progress.write_curve()
    # The first epoch compiles.
    times = state["train_ms"][1:] or state["train_ms"]
    return {
        **{name: f"{100 * value:.2f}" for name, value in measured.items()},
        "steps_to_target": state["step"] if progress.is_reached() else "",
        "steps": state["step"],
        "train_ms": round(float(np.median(times)), 1),
        "parameters": model.count_params(),
        "seconds": round(state["seconds"], 1),
    }


def batches(
    length: int, whole: int, seed: int, step: int, args: argparse.Namespace
) -> tf.data.Dataset:
    """Training batches from a step on, endless.

    Args:
        length: Number of symbols of their sequences.
        whole: Number of symbols that the model is for.
        seed: Of the run.
        step: Number of the first batch.
        args: Of the command line.
    """
    data = memory.dataset(
        length,
        args.batch_size,
        seed=seed,
        start=step,
        curriculum=args.curriculum == "outputs",
    )
    missing = memory.most_outputs(whole) - memory.most_outputs(length)
    places = [[0, 0], [0, missing]]

    def pad(symbols, targets, weights):
        return symbols, tf.pad(targets, places), tf.pad(weights, places)

    return data.map(pad) if missing else data


def start_warm(
    model: keras.Model, key: Sequence[str], args: argparse.Namespace
) -> None:
    """Gives a model the weights of the one for the length before its own."""
    before = lengths_before(int(key[0]), args)
    if before:
        path = model_path(run_key(before[-1], key[1], args), args)
        model.set_weights(keras.models.load_model(path).get_weights())


def lengths_before(length: int, args: argparse.Namespace) -> list[int]:
    return args.lengths[: args.lengths.index(length)]


def do_runs(args: argparse.Namespace) -> list[results.Row]:
    """Does what has no row yet; returns the rows of the wanted runs."""
    args.save_models.mkdir(parents=True, exist_ok=True)
    file = results.ResultsFile(args.output, FIELDS, KEY, OLDER)

    def forget(key: results.Row) -> None:
        path = model_path(tuple(key.values()), args)
        resumable_progress.remove(path.with_suffix(""))

    def is_ready(key: results.Row) -> bool:
        """Whether there is the model that a warm start needs, if any."""
        before = lengths_before(int(key["length"]), args)
        if not args.warm_start or not before:
            return True
        return not file.missing([run_key(before[-1], key["seed"], args)])

    return file.do_missing(
        keys(args),
        lambda key, line: train_and_test(key, args, line),
        forget,
        is_ready,
    )


def keys(args: argparse.Namespace) -> list[results.Key]:
    """The `KEY` of each run."""
    return [
        run_key(length, seed, args)
        for length in args.lengths
        for seed in args.seeds
    ]


def run_key(
    length: int, seed: int | str, args: argparse.Namespace
) -> results.Key:
    """Values of `KEY`; a warm start is named by the lengths before."""
    more = {}
    if args.warm_start:
        before = map(str, lengths_before(length, args))
        more["warm_start"] = ",".join(before)
    return str(length), str(seed), settings(args, **more)


def settings(args: argparse.Namespace, **more: Any) -> str:
    """Settings as text; rows that were written before an option keep theirs.

    Args:
        args: Of the command line.
        **more: Values to be shown in the place of theirs.
    """
    names = list(SETTINGS)
    if args.curriculum == "length":
        names += GROWTH_SETTINGS
    else:
        more["curriculum"] = args.curriculum == "outputs"
    if args.emit != "before":
        names.append("emit")
    if args.clip_norm is not None:
        names.append("clip_norm")
    if args.minutes is not None:
        names.append("minutes")
    if args.test_size != TEST_SIZE:
        names.append("test_size")
    return results.describe(args, names, **more)


def model_path(key: Sequence[str], args: argparse.Namespace) -> Path:
    """Where a run's model is, of its own for each setting."""
    digest = zlib.crc32(key[-1].encode())
    return args.save_models / f"memory-{key[0]}-{key[1]}-{digest:08x}.keras"


def table(rows: Sequence[dict], args: argparse.Namespace) -> str:
    """Markdown table, a line for each length."""
    target = f"minibatches to {100 * args.target_accuracy:g} %"
    lines = [
        f"length | accuracy % | paper | whole sequences % | padded to T % "
        f"| {target} | paper | emitted % | ms a minibatch | minutes "
        "| seeds".split(" | ")
    ]
    for length in args.lengths:
        own = [row for row in rows if row["length"] == str(length)]
        in_paper = length <= PAPER_LENGTH
        minutes = [{"minutes": float(row["seconds"]) / 60} for row in own]
        lines.append(
            [
                length,
                tables.mean(own, "accuracy", ".2f"),
                PAPER_ACCURACY if in_paper else "",
                tables.mean(own, "sequence_accuracy"),
                tables.mean(own, "padded_accuracy", ".2f"),
                tables.mean(own, "steps_to_target", ".0f"),
                PAPER_STEPS if in_paper else "",
                tables.mean(own, "emitted"),
                tables.mean(own, "train_ms", ".0f"),
                tables.mean(minutes, "minutes"),
                len(own),
            ]
        )
    return tables.table(lines)


def report(rows: Sequence[dict], args: argparse.Namespace) -> str:
    """Prints the table with its notes, and writes it to `--markdown`."""
    notes = (
        "Means over seeds; in brackets, over how many, if a number is not "
        'known for all. Paper: "Training a Subsampling Mechanism in '
        'Expectation", section 3. Padded to T: T outputs count for each '
        "sequence, zeros after the last real one. Emitted: the expected number "
        "of emissions over that of outputs. Tested every "
        f"{args.evaluate_every} minibatches on {args.test_size} sequences; "
        "accuracies are those of "
        f"{args.test_size} others."
    )
    parts = [table(rows, args), notes, f"Settings: `{settings(args)}`."]
    return tables.publish(parts, args.markdown)


def draw_finished(rows: Sequence[dict], args: argparse.Namespace) -> None:
    """Draws the figure if its run is among those that are finished."""
    key = run_key(args.figure_length, args.seeds[0], args)
    if key in [tuple(row[name] for name in KEY) for row in rows]:
        draw(args)
        print(args.figure, flush=True)
    else:
        print(
            f"No figure: the run of length {args.figure_length} is left to "
            "another process",
            flush=True,
        )


def draw(args: argparse.Namespace) -> np.ndarray:
    """Draws the emission of a test sequence; returns it, `(U, T)`."""
    length = args.figure_length
    key = run_key(length, args.seeds[0], args)
    model = keras.models.load_model(model_path(key, args))
    symbols, _, mask = memory.examples(1, length, TEST_SEED)
    emission = memory_model.emission_matrix(
        memory_model.probe(model), symbols[0]
    )
    figure = analysis.plot_emission(
        emission[: mask.sum() + 1],
        symbols[0],
        np.flatnonzero(memory.completed(symbols)[0]),
        f"{mask.sum()} outputs of {length} symbols",
    )
    args.figure.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(args.figure, dpi=150)
    return emission


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    lengths = [10, 50, 100, 200, 500]
    add("--lengths", nargs="+", type=positive, default=lengths)
    add("--seeds", nargs="+", type=integer(0), default=[0])
    add("--units", type=positive, default=100, help="of the LSTM")
    bias = "of the emission's logit, before training"
    add("--emission-bias", type=real("(-inf, inf)"), default=0.0, help=bias)
    add("--learning-rate", type=real("(0, inf)"), default=1e-3)
    clip = "of the norm of each weight's gradient, at most; default: any"
    add("--clip-norm", type=real("(0, 1000]"), help=clip)
    add("--batch-size", type=positive, default=100)
    when = "whether to emit a state is decided, before or after its symbol"
    add("--emit", choices=memory_model.EMIT, default="before", help=when)
    what = "what grows: outputs that are learned, or the length of sequences"
    either = parser.add_mutually_exclusive_group()
    either.add_argument(
        "--curriculum", choices=CURRICULA, default="outputs", help=what
    )
    none = {"action": "store_const", "const": None, "default": "outputs"}
    either.add_argument("--no-curriculum", dest="curriculum", **none)
    growing = "of --curriculum length, in symbols; default: 10"
    add("--start-length", type=positive, help=growing)
    right = "of training, at which the length doubles; default: 0.8"
    add("--growth-accuracy", type=real("(0, 1]"), help=right)
    warm = "start from the model of the length before"
    add("--warm-start", action="store_true", help=warm)
    add("--jit-compile", action="store_true", help="training by XLA")
    add("--steps", type=positive, default=10000, help="of training, at most")
    add(
        "--target-accuracy",
        type=real("(0, 1]"),
        default=0.98,
        help="to stop at",
    )
    minutes = "of training a run, at most"
    add("--minutes", type=real("(0, inf)"), help=minutes)
    add("--evaluate-every", type=positive, default=100, help="steps")
    add("--test-size", type=positive, default=TEST_SIZE)
    add("--output", type=Path, default=Path("runs/memory_task.csv"))
    add("--markdown", type=Path, help="file for the table")
    add("--save-models", type=Path, help="folder; default: beside --output")
    add("--figure", type=Path, help="file for a picture of the emission")
    add("--figure-length", type=positive, default=50, help="one of --lengths")
    args = parser.parse_args(argv)
    if args.steps % args.evaluate_every:
        parser.error(
            "--steps: must be a multiple of --evaluate-every. Received: "
            f"{args.steps} and {args.evaluate_every}"
        )
    for name, default in GROWTH_SETTINGS.items():
        value = getattr(args, name)
        if value is None:
            setattr(args, name, default)
        elif args.curriculum != "length":
            option = name.replace("_", "-")
            parser.error(
                f"--{option}: needs --curriculum length. Received: {value}"
            )
    if args.warm_start and args.curriculum == "length":
        parser.error("--warm-start: not with --curriculum length")
    if args.figure and args.figure_length not in args.lengths:
        parser.error(
            f"--figure-length: must be one of --lengths, {args.lengths}. "
            f"Received: {args.figure_length}"
        )
    folder = args.output.with_name(f"{args.output.stem}-models")
    args.save_models = args.save_models or folder
    return args


def main(argv: Sequence[str] | None = None) -> str:
    """Does the runs; returns the table it prints."""
    args = parse(argv)
    rows = do_runs(args)
    content = report(rows, args)
    if args.figure:
        draw_finished(rows, args)
    return content


if __name__ == "__main__":
    main()
