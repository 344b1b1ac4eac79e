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
right where the model's answer is 0.

With `--curriculum outputs` only the first T' outputs of each minibatch are
learned, T' uniform from 1 to T. With `--curriculum length` all outputs are
learned, of sequences that grow: they have 10 symbols at first, and twice as
many, up to T, after each `--evaluate-every` minibatches of which
`--growth-accuracy` of the outputs were right. With `--warm-start` a model
starts from the weights that the same seed learned for the previous of
`--lengths`. Equation 3 decides whether to emit the state of a step before the
step's symbol is seen; `--emit after` decides one step later.

Finished runs are lines of `--output` and are not repeated; a run that was
killed continues from its last test. Beside it, in `<name>-models/`, are the
models and their curves.
"""

import argparse
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd
import tensorflow as tf
from keras import ops
from matplotlib.figure import Figure

from examples.common import results
from examples.common import resumable_progress
from examples.common import tables
from examples.common.arguments import integer
from examples.common.arguments import positive
from examples.common.arguments import real
from keras_seqmech import ExpectedSubsample
from keras_seqmech.subsample import expectation
from keras_seqmech.tasks import memory

KEY = ("length", "seed", "settings")
MEASURED = (
    *("accuracy", "sequence_accuracy", "padded_accuracy", "emitted"),
    *("steps_to_target", "steps", "train_ms", "parameters", "seconds"),
)
FIELDS = KEY + MEASURED
SETTINGS = (
    *("units", "emission_bias", "emit", "clip_norm", "batch_size"),
    *("curriculum", "growth_accuracy", "warm_start", "steps"),
    *("target_accuracy", "evaluate_every", "test_size"),
)
CURRICULA, EMIT = ("outputs", "length"), ("before", "after")
# Symbols of the first sequences of the curriculum of lengths.
START_LENGTH = 10
CHECK_SEED, TEST_SEED = 10**6, 10**6 + 1


def build(
    length: int,
    units: int,
    emission_bias: float = 0.0,
    emit: str = "before",
    is_fixed: bool = True,
    learning_rate: float = 1e-3,
    clip_norm: float | None = None,
) -> keras.Model:
    """A compiled model of logits `(B, U, 3)` for symbols `(B, T)`.

    Its loss is the mean over the outputs that count, U at most. Whether a
    step's state is emitted is decided "before" its symbol was seen, by the
    state and the symbol of the step before, equation 3, zeros before the first
    step; or "after" it, by the step's own. If `is_fixed`, sequences always have
    `length` symbols, and not at most so many.
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
    outputs = ExpectedSubsample(memory.most_outputs(length), name="subsample")(
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
    right = found["logits"].argmax(axis=-1) == targets
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
    outputs = ExpectedSubsample(symbols.shape[1])(states, emissions)
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


class Progress(resumable_progress.ResumableProgress):
    """Tests a model on other sequences; a target accuracy ends the run, too.

    If sequences are to grow, `fit` also ends where they do.
    """

    def __init__(
        self,
        probed: keras.Model,
        length: int,
        args: argparse.Namespace,
        path: Path,
        line: str,
    ):
        super().__init__(args, path, line)
        self.probed = probed
        self.length = length
        self.check = memory.examples(args.test_size, length, CHECK_SEED)

    def measure(self) -> dict[str, float]:
        return measure(self.probed, self.check, self.args.batch_size)

    def is_reached(self) -> bool:
        """Whether the last test reached the accuracy that is wanted."""
        curve, wanted = self.state["curve"], self.args.target_accuracy
        return bool(curve) and curve[-1]["accuracy"] >= wanted

    def training_length(self) -> int:
        """Number of symbols of the sequences to train with now."""
        if self.args.curriculum != "length":
            return self.length
        wanted = self.args.growth_accuracy
        length = START_LENGTH
        for point in self.state["curve"]:
            length *= 1 + (point["train_accuracy"] >= wanted)
        return min(length, self.length)

    def on_epoch_end(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        before = self.training_length()
        super().on_epoch_end(epoch, logs)
        if self.training_length() != before:
            self.model.stop_training = True

    def is_over(self) -> bool:
        return self.is_reached() or super().is_over()


def train_and_test(
    key: results.Row, args: argparse.Namespace, line: str
) -> dict:
    """Trains, tests and saves one model; returns its results."""
    length, seed = int(key["length"]), int(key["seed"])
    keras.utils.clear_session()
    keras.utils.set_random_seed(seed)
    model = build(
        length,
        args.units,
        args.emission_bias,
        args.emit,
        is_fixed=args.curriculum != "length",
        clip_norm=args.clip_norm,
    )
    model.optimizer.build(model.trainable_variables)
    path = model_path(length, seed, args)
    path.parent.mkdir(parents=True, exist_ok=True)
    probed = probe(model)
    progress = Progress(probed, length, args, path.with_suffix(""), line)
    state = progress.restore(model)
    before = lengths_before(length, args)
    if state["step"] == 0 and args.warm_start and before:
        warm = keras.models.load_model(model_path(before[-1], seed, args))
        model.set_weights(warm.get_weights())
    # A fit ends early where sequences grow.
    while not progress.is_over():
        now = progress.training_length()
        model.fit(
            batches(now, length, seed, state["step"], args),
            initial_epoch=state["step"] // args.evaluate_every,
            epochs=args.steps // args.evaluate_every,
            steps_per_epoch=args.evaluate_every,
            callbacks=[progress],
            shuffle=False,
            verbose=0,
        )
    model.save(path)
    pd.DataFrame(state["curve"]).to_csv(path.with_suffix(".csv"), index=False)
    test = memory.examples(args.test_size, length, TEST_SEED)
    measured = measure(probed, test, args.batch_size)
    measured["padded_accuracy"] = padded_accuracy(model, test, args.batch_size)
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
    """Training batches of `length` symbols from a step on, endless.

    `whole` is the number of symbols that the model is for.
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


def lengths_before(length: int, args: argparse.Namespace) -> list[int]:
    """Lengths whose models lead to a warm start."""
    return args.lengths[: args.lengths.index(length)]


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
    return str(length), str(seed), results.describe(args, SETTINGS, **more)


def model_path(length: int, seed: int | str, args: argparse.Namespace) -> Path:
    """The file of a run's model, of its own for each setting."""
    *_, settings = run_key(length, seed, args)
    digest = zlib.crc32(settings.encode())
    folder = args.output.with_name(f"{args.output.stem}-models")
    return folder / f"memory-{length}-{seed}-{digest:08x}.keras"


def draw(args: argparse.Namespace) -> Figure:
    """The probability that output m is step n, of a test sequence.

    Dashed lines are steps after which an output is complete.
    """
    length = args.figure_length
    model = keras.models.load_model(model_path(length, args.seeds[0], args))
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


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    share, lengths = real("(0, 1]"), [10, 50, 100, 200, 500]
    bias = "of the emission's logit, before training"
    clip = "of the norm of each weight's gradient, at most"
    when = "whether to emit a state is decided, before or after its symbol"
    what = "what grows: outputs that are learned, or the length of sequences"
    right = "of training, at which the length doubles"
    warm = "start from the model of the length before"
    add("--lengths", nargs="+", type=positive, default=lengths)
    add("--seeds", nargs="+", type=integer(0), default=[0])
    add("--units", type=positive, default=100, help="of the LSTM")
    add("--emission-bias", type=real("(-inf, inf)"), default=0.0, help=bias)
    add("--clip-norm", type=real("(0, 1000]"), help=clip)
    add("--batch-size", type=positive, default=100)
    add("--emit", choices=EMIT, default="before", help=when)
    add("--curriculum", choices=CURRICULA, default="outputs", help=what)
    add("--growth-accuracy", type=share, default=0.8, help=right)
    add("--warm-start", action="store_true", help=warm)
    add("--steps", type=positive, default=10000, help="of training, at most")
    add("--target-accuracy", type=share, default=0.98, help="to stop at")
    add("--evaluate-every", type=positive, default=100, help="steps")
    add("--test-size", type=positive, default=1000)
    add("--output", type=Path, default=Path("runs/memory_task.csv"))
    add("--figure", type=Path, help="file for a picture of the emission")
    add("--figure-length", type=positive, default=50, help="one of --lengths")
    args = parser.parse_args(argv)
    if args.steps % args.evaluate_every:
        parser.error("--steps: must be a multiple of --evaluate-every")
    if args.figure and args.figure_length not in args.lengths:
        parser.error(f"--figure-length: must be one of {args.lengths}")
    return args


def main(argv: Sequence[str] | None = None) -> str:
    """Does what has no row yet; returns the table it prints."""
    args = parse(argv)
    file = results.ResultsFile(args.output, FIELDS, KEY)

    def forget(key: results.Row) -> None:
        path = model_path(int(key["length"]), key["seed"], args)
        resumable_progress.remove(path.with_suffix(""))

    def is_ready(key: results.Row) -> bool:
        """Whether there is the model that a warm start needs, if any."""
        before = lengths_before(int(key["length"]), args)
        if not args.warm_start or not before:
            return True
        return not file.missing([run_key(before[-1], key["seed"], args)])

    rows = file.do_missing(
        keys(args),
        lambda key, line: train_and_test(key, args, line),
        forget,
        is_ready,
    )
    table = tables.by_kind(rows, ["length"], MEASURED)
    content = tables.publish([table], None)
    if args.figure:
        drawn = run_key(args.figure_length, args.seeds[0], args)
        if file.missing([drawn]):
            print("No figure: its run is left to another process")
            return content
        args.figure.parent.mkdir(parents=True, exist_ok=True)
        draw(args).savefig(args.figure, dpi=150)
        print(args.figure)
    return content


if __name__ == "__main__":
    main()
