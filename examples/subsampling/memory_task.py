"""The memory task: which symbols come in equal pairs?

    python -m examples.subsampling.memory_task \
        --lengths 10 50 --figure figure.png

Trains the model of "Training a Subsampling Mechanism in Expectation", section
3, on fresh random sequences of each of `--lengths`, until `--target-accuracy`
of the outputs of other sequences are right, and for `--steps` minibatches at
most. Prints for each length the accuracy on a third set of sequences, over
outputs and over whole sequences, and the number of minibatches it took.

Only real outputs are learned and count, so nothing keeps the model from
emitting too many; `emitted` is the number it expects to emit. `padded_accuracy`
counts T outputs of each sequence instead: those after the last real one are
right where the model's answer is 0. With `--outputs all` these T are learned.

With `--curriculum outputs` only the first T' outputs of each minibatch are
learned, T' uniform from 1 to T. With `--curriculum length` all outputs are
learned, of sequences that grow: they have 10 symbols at first, and twice as
many, up to T, after each `--evaluate-every` minibatches of which
`--growth-accuracy` of the outputs were right. Equation 3 decides whether to
emit the state of a step before the step's symbol is seen; `--emit after`
decides one step later.

Beside `--output`, in `<name>-models/`, are the models.
"""

import argparse
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops
from matplotlib.figure import Figure

from examples.common import program
from examples.common import results
from examples.common import resumable
from examples.tasks import memory
from keras_seqmech import ExpectedSubsample
from keras_seqmech.subsample import expectation

CURRICULA, EMIT = ("outputs", "length"), ("before", "after")
OUTPUTS = ("real", "all")
# As the paper has it, in training and inference.
EXPECTATION = {"estimator": "expectation", "inference": "expectation"}
# Symbols of the first sequences of the curriculum of lengths.
START_LENGTH = 10
CHECK_SEED, TEST_SEED = 10**6, 10**6 + 1
# Of symbols, targets and weights.
TYPES = ("int32", "int32", "float32")


def build(
    length: int,
    units: int,
    emission_bias: float = 0.0,
    emit: str = "before",
    is_fixed: bool = True,
    learning_rate: float = 1e-3,
    clip_norm: float | None = None,
    width: int | None = None,
) -> keras.Model:
    """A compiled model of logits `(B, U, 3)` for symbols `(B, T)`.

    Its loss is the mean over the outputs that count, U at most. Whether a
    step's state is emitted is decided "before" its symbol was seen, by the
    state and the symbol of the step before, equation 3, zeros before the first
    step; or "after" it, by the step's own. If `is_fixed`, sequences always have
    `length` symbols, and not at most so many. `width` is U, by default the
    largest number of real outputs.
    """
    layers = keras.layers
    steps = length if is_fixed else None
    symbols = keras.Input((steps,), dtype="int32", name="symbols")
    seen = ops.one_hot(symbols, memory.SYMBOLS)
    states = layers.LSTM(units, return_sequences=True, name="states")(seen)
    both = layers.Concatenate(name="state_and_symbol")([states, seen])
    if emit == "before":
        both = layers.ZeroPadding1D((1, 0), name="a_step_later")(both)[:, :-1]
    probabilities = layers.Dense(
        1,
        activation="sigmoid",
        bias_initializer=keras.initializers.Constant(emission_bias),
        name="emission",
    )(both)
    probabilities = layers.Reshape(
        (length if is_fixed else -1,), name="emissions"
    )(probabilities)
    width = width or memory.most_outputs(length)
    outputs = ExpectedSubsample(width, **EXPECTATION, name="subsample")(
        states, probabilities
    )
    logits = layers.Dense(memory.SYMBOLS, name="logits")(outputs)
    model = keras.Model(symbols, logits)
    model.compile(
        optimizer=keras.optimizers.Adam(
            learning_rate, epsilon=1e-8, clipnorm=clip_norm
        ),
        loss=keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction="mean_with_sample_weight"
        ),
        weighted_metrics=["accuracy"],
    )
    return model


def probe(model: keras.Model) -> keras.Model:
    """The same model with the emission probabilities as a second output."""
    emissions = model.get_layer("emissions").output
    return keras.Model(
        model.input, {"logits": model.output, "emissions": emissions}
    )


def measure(
    probed: keras.Model, test: memory.Examples, batch_size: int
) -> dict[str, float]:
    """Scores of a `probe` on some examples.

    `accuracy` is the share of outputs that are right, `sequence_accuracy` that
    of sequences of which all are, and `emitted` the expected number of
    emissions over the number of outputs.
    """
    symbols, targets, mask = test
    found = probed.predict(symbols, batch_size=batch_size, verbose=0)
    answers = found["logits"].argmax(axis=-1)[:, : targets.shape[1]]
    right = answers == targets
    return {
        "accuracy": float(right[mask].mean()),
        "sequence_accuracy": float((right | ~mask).all(axis=1).mean()),
        "emitted": float(found["emissions"].sum() / mask.sum()),
    }


def padded_accuracy(
    model: keras.Model, test: memory.Examples, batch_size: int
) -> float:
    """The share of T outputs that are right, zeros after the last real one.

    Equation 4 has as many outputs as there are symbols. Where nothing is
    emitted the model's answer is that for the zero vector.
    """
    symbols, targets, _ = test
    states, emissions = (
        model.get_layer(name).output for name in ("states", "emissions")
    )
    outputs = ExpectedSubsample(symbols.shape[1], **EXPECTATION)(
        states, emissions
    )
    logits = model.get_layer("logits")(outputs)
    found = keras.Model(model.input, logits).predict(
        symbols, batch_size=batch_size, verbose=0
    )
    padded = np.zeros_like(symbols)
    padded[:, : targets.shape[1]] = targets
    return float((found.argmax(axis=-1) == padded).mean())


def emission_matrix(probed: keras.Model, symbols: np.ndarray) -> np.ndarray:
    """$p(y_m = s_n)$ for one sequence, `(U, T)`."""
    found = probed.predict(symbols[None], verbose=0)["emissions"]
    width = memory.most_outputs(len(symbols))
    matrix, _ = expectation.recursion(tf.constant(found), width)
    return matrix[0].numpy()


def training_length(
    curve: resumable.Curve, length: int, args: argparse.Namespace
) -> int:
    """Number of symbols of the sequences to train with after some epochs."""
    if args.curriculum != "length":
        return length
    now = START_LENGTH
    for point in curve:
        now *= 1 + (point["train_accuracy"] >= args.growth_accuracy)
    return min(now, length)


def train_and_test(run: program.Run) -> dict[str, Any]:
    """Trains, tests and saves one model."""
    length, args = int(run.key["length"]), run.args
    grows = args.curriculum == "length"
    model = build(
        length,
        args.units,
        args.emission_bias,
        args.emit,
        is_fixed=not grows,
        clip_norm=args.clip_norm,
        width=output_count(length, args),
    )
    probed = probe(model)
    check, test = (
        memory.examples(args.test_size, length, own_seed)
        for own_seed in (CHECK_SEED, TEST_SEED)
    )

    def is_reached(curve: resumable.Curve) -> bool:
        """Whether the last test reached the accuracy that is wanted."""
        return bool(curve) and curve[-1]["accuracy"] >= args.target_accuracy

    def batches(step: int, curve: resumable.Curve) -> tf.data.Dataset:
        now = training_length(curve, length, args)
        return batches_of(now, length, run.seed, step, args)

    signature = tuple(tf.TensorSpec((None, None), x) for x in TYPES)
    curve = resumable.fit(
        model,
        batches,
        args.steps // args.evaluate_every,
        args.evaluate_every,
        run.place,
        measure=lambda: measure(probed, check, args.batch_size),
        is_over=is_reached,
        signature=signature if grows else None,
    )
    path = run.file("keras")
    saved = resumable.save(model, curve, args.evaluate_every, path)
    measured = measure(probed, test, args.batch_size)
    measured["padded_accuracy"] = padded_accuracy(model, test, args.batch_size)
    return {
        **{name: f"{100 * value:.2f}" for name, value in measured.items()},
        "steps_to_target": saved["steps"] if is_reached(curve) else "",
        **saved,
    }


def batches_of(
    length: int, whole: int, seed: int, step: int, args: argparse.Namespace
) -> tf.data.Dataset:
    """Training batches of `length` symbols from a step on, endless.

    `whole` is the number of symbols that the model is for.
    """
    everything = args.outputs == "all"
    first_ones = args.curriculum == "outputs"
    data = memory.dataset(
        length,
        args.batch_size,
        seed=seed,
        start=step,
        curriculum=first_ones and not everything,
    )
    width = output_count(whole, args)

    def pad(x):
        return tf.pad(x, [[0, 0], [0, width - x.shape[1]]])

    def complete(number, batch):
        symbols, targets, weights = batch
        if everything:
            counted = length
            if first_ones:
                counted = tf.random.stateless_uniform(
                    (), (seed, number), 1, length + 1, "int64"
                )
            counts = tf.range(length, dtype="int64") < counted
            ones = tf.ones_like(symbols, weights.dtype)
            weights = ones * tf.cast(counts, weights.dtype)
        return symbols, pad(targets), pad(weights)

    return data.enumerate(step).map(complete)


def output_count(length: int, args: argparse.Namespace) -> int:
    """Number of outputs U that a model learns."""
    return length if args.outputs == "all" else memory.most_outputs(length)


def write_figure(args: argparse.Namespace, rows: list[results.Row]) -> None:
    """Draws the model of `--figure-length` and the first seed, if asked to."""
    if args.figure is None:
        return
    wanted = {"length": str(args.figure_length), "seed": str(args.seeds[0])}
    for row in rows:
        if wanted.items() <= row.items():
            path = results.with_ending(PROGRAM.place(args, row), "keras")
            figure = draw(keras.models.load_model(path), args.figure_length)
            args.figure.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(args.figure, dpi=150)
            print(args.figure)
            return
    print("No figure: its run is left to another process")


def draw(model: keras.Model, length: int) -> Figure:
    """The probability that output m is step n, of a test sequence.

    Dashed lines are steps after which an output is complete.
    """
    symbols, _, mask = memory.examples(1, length, TEST_SEED)
    emission = emission_matrix(probe(model), symbols[0])[: mask.sum() + 1]
    size = (2.0 + 0.16 * min(length, 80), 1.2 + 0.16 * max(8, len(emission)))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(emission, cmap="Greys", vmin=0, vmax=1, aspect="auto")
    for mark in np.flatnonzero(memory.completed(symbols)[0]):
        axes.axvline(mark, linestyle="dashed", linewidth=0.8)
    if length <= 100:
        axes.set_xticks(range(length), symbols[0], fontsize="x-small")
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.set(xlabel="sequence", ylabel="output m")
    figure.colorbar(image, ax=axes, label="$p(y_m = s_n)$")
    figure.suptitle(f"{mask.sum()} outputs of {length} symbols")
    return figure


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    lengths = [10, 50, 100, 200, 500]
    bias = "of the emission's logit, before training"
    clip = "of the norm of each weight's gradient, at most"
    when = "whether to emit a state is decided, before or after its symbol"
    learned = "real ones, or T, zeros after the last real one"
    what = "what grows: outputs that are learned, or the length of sequences"
    right = "of training, at which the length doubles"
    add("--lengths", nargs="+", type=int, default=lengths)
    add("--units", type=int, default=100, help="units of the LSTM")
    add("--emission-bias", type=float, default=0.0, help=bias)
    add("--clip-norm", type=float, help=clip)
    add("--batch-size", type=int, default=100)
    add("--emit", choices=EMIT, default="before", help=when)
    add("--outputs", choices=OUTPUTS, default="real", help=learned)
    add("--curriculum", choices=CURRICULA, default="outputs", help=what)
    add("--growth-accuracy", type=float, default=0.8, help=right)
    add("--steps", type=int, default=10000, help="most training minibatches")
    add("--target-accuracy", type=float, default=0.98, help="end of training")
    add("--evaluate-every", type=int, default=100, help="steps")
    add("--test-size", type=int, default=1000)
    add("--figure", type=Path, help="file for a picture of the emission")
    add("--figure-length", type=int, default=50, help="one of --lengths")


def check(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    if args.steps % args.evaluate_every:
        parser.error("--steps: must be a multiple of --evaluate-every")
    if args.figure and args.figure_length not in args.lengths:
        parser.error(f"--figure-length: must be one of {args.lengths}")


PROGRAM = program.Program(
    doc=__doc__,
    output="runs/memory_task.csv",
    options=options,
    check=check,
    key=("length", "seed", "settings"),
    cases=lambda args: program.grid(length=args.lengths),
    settings=(
        *("units", "emission_bias", "emit", "clip_norm", "batch_size"),
        *("outputs", "curriculum", "growth_accuracy", "steps"),
        *("target_accuracy", "evaluate_every", "test_size"),
    ),
    run=train_and_test,
    after=write_figure,
)

if __name__ == "__main__":
    PROGRAM.main()
