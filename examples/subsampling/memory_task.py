"""The memory task: which symbols come in equal pairs?

    python -m examples.subsampling.memory_task \
        --lengths 10 50 --figure figure.png

Trains the model of "Training a Subsampling Mechanism in Expectation", section
3, on fresh random sequences of each of `--lengths`, until `--target-accuracy`
of the outputs of other sequences are right, and for `--steps` minibatches at
most. Prints for each length the accuracy on a third set of sequences.

Only real outputs are learned and count, so nothing keeps the model from
emitting too many; `padded_accuracy` counts T outputs of each sequence, with
zeros after the last real one. With `--outputs all` these T are learned.

With `--curriculum outputs` only the first T' outputs of each minibatch are
learned, T' uniform from 1 to T. With `--curriculum length` all outputs are
learned, of sequences that grow: they have 10 symbols at first, and twice as
many, up to T, after each `--evaluate-every` minibatches of which
`--growth-accuracy` of the outputs were right.
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

CURRICULA, OUTPUTS = ("outputs", "length"), ("real", "all")
# As the paper has it, in training and inference.
EXPECTATION = {"estimator": "expectation", "inference": "expectation"}
# Symbols of the first sequences of the curriculum of lengths.
START_LENGTH = 10
CHECK_SEED, TEST_SEED = 10**6, 10**6 + 1
# Of symbols, targets and weights.
TYPES = ("int32", "int32", "float32")


def build(length: int, args: argparse.Namespace) -> keras.Model:
    """A compiled model of logits `(B, U, 3)` for symbols `(B, T)`.

    Its loss is the mean over the outputs that count, U at most. Whether a
    step's state is emitted is decided before its symbol was seen, by the
    state and the symbol of the step before, equation 3, zeros before the first
    step.
    """
    layers = keras.layers
    # Where sequences grow, they have at most so many symbols.
    steps = None if args.curriculum == "length" else length
    symbols = keras.Input((steps,), dtype="int32", name="symbols")
    seen = ops.one_hot(symbols, memory.SYMBOLS)
    lstm = layers.LSTM(args.units, return_sequences=True, name="states")
    states = lstm(seen)
    both = layers.Concatenate(name="state_and_symbol")([states, seen])
    both = layers.ZeroPadding1D((1, 0), name="a_step_later")(both)[:, :-1]
    probabilities = layers.Dense(
        1,
        activation="sigmoid",
        bias_initializer=keras.initializers.Constant(args.emission_bias),
        name="emission",
    )(both)
    flat = layers.Reshape((steps or -1,), name="emissions")
    probabilities = flat(probabilities)
    outputs = ExpectedSubsample(
        output_count(length, args), **EXPECTATION, name="subsample"
    )(states, probabilities)
    logits = layers.Dense(memory.SYMBOLS, name="logits")(outputs)
    model = keras.Model(symbols, logits)
    model.compile(
        optimizer=keras.optimizers.Adam(
            1e-3, epsilon=1e-8, clipnorm=args.clip_norm
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
    outputs = {"logits": model.output, "emissions": emissions}
    return keras.Model(model.input, outputs)


def measure(
    probed: keras.Model, test: memory.Examples, batch_size: int
) -> dict[str, float]:
    """Scores of a `probe`: over outputs, and over whole sequences.

    `emitted` is the expected number of emissions over that of outputs.
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
    model = build(length, args)
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
        signature=signature if args.curriculum == "length" else None,
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
    add("--lengths", nargs="+", type=int, default=lengths)
    add("--outputs", choices=OUTPUTS, default="real")
    add("--curriculum", choices=CURRICULA, default="outputs")
    add("--figure", type=Path, help="file for a picture of the emission")
    add("--figure-length", type=int, default=50, help="one of --lengths")


PROGRAM = program.Program(
    doc=__doc__,
    output="runs/memory_task.csv",
    options=options,
    key=("length", "seed", "settings"),
    cases=lambda args: program.grid(length=args.lengths),
    numbers={
        "units": 100,
        "emission_bias": 0.0,  # Of the logit, before training.
        "clip_norm": float,  # Of each weight's gradient.
        "batch_size": 100,
        "growth_accuracy": 0.8,  # Of training: sequences grow.
        "steps": 10000,  # At most.
        "target_accuracy": 0.98,  # Training ends.
        "evaluate_every": 100,  # Steps.
        "test_size": 1000,
    },
    settings=("outputs", "curriculum"),
    run=train_and_test,
    after=write_figure,
)

if __name__ == "__main__":
    PROGRAM.main()
