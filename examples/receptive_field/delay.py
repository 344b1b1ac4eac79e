"""What an answer costs in delay: F1 of taggers whose text is still arriving.

    python -m examples.receptive_field.delay --tasks people_daily code

Trains taggers of characters on the tasks of `streams`, all with the same units,
epochs and learning rate, and prints F1 beside the mean and the 95th percentile
of the emission delay: the characters that arrive between a character and its
tag, in order. What users write: an LSTM; an LSTM over the embeddings of this
character and the k after it (`window`), also with a lower LSTM beside them
(`window+lower`); targets shifted by k; a convolution over k + 1 characters,
then an LSTM; a BiLSTM, which waits for the end. What this package adds: fields
of k + 1 characters and adaptive ones (`ReceptiveFieldRNN`), and `LookAhead` in
front of an LSTM, its decisions made beside a lower LSTM, whose outputs the
upper one reads too, as in `window+lower`. The setting is k, or the weight of
what is read.

An adaptive model is exported and streamed, character by character, over some
test texts: each tag must come when the table says. A picture shows F1 over the
mean delay. Finished runs are lines of `--output` and are not repeated.
"""

import argparse
import datetime
import itertools
import math
import pathlib
import tempfile
from collections import Counter
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import keras
import numpy as np
import pandas as pd
import tensorflow as tf
from keras import layers
from keras import ops
from matplotlib.figure import Figure

from examples.common import results
from examples.common import tables
from examples.common.arguments import integer
from examples.common.arguments import positive
from examples.receptive_field import streams
from keras_seqmech import DecisionPenalties
from keras_seqmech import ExploreThenCommit
from keras_seqmech import LookAhead
from keras_seqmech import ReceptiveFieldRNN
from keras_seqmech import analysis
from keras_seqmech import serving

AHEAD = (1, 2, 3)
PRICES = (0.05, 0.02, 0.01)
# Settings of each model.
MODELS: dict[str, Sequence[float]] = {
    "lstm": (0,),
    "window": AHEAD,
    "window+lower": AHEAD,
    "shifted": AHEAD,
    "convolution": AHEAD,
    "field": AHEAD,
    "bilstm": (math.inf,),
    "adaptive field": PRICES,
    "look_ahead": PRICES,
}
ADAPTIVE = ("adaptive field", "look_ahead")
EMBEDDING, LOWER, BATCH = 64, 48, 64
LEARNING_RATE = 5e-3
STREAMED = 20  # Test texts.
# 0 is padding, 1 stands for unknown characters.
PADDING, FIRST = 0, 2
EPOCHS = {"people_daily": 4, "msr": 8, "spaces": 12, "code": 8}
SETTINGS = ("texts", "test_texts", "epochs", "units", "max_size")
KEY = ("task", "model", "setting", "seed", "settings")
MEASURED = ("f1", "delay", "delay_95")
FIELDS = (*KEY, *MEASURED, "streamed", "date")


def main(argv: list[str] | None = None) -> None:
    """Runs what is not finished; prints the table and draws the figure."""
    args = parse(argv)
    file = results.ResultsFile(args.output, FIELDS, KEY)
    rows = file.do_missing(keys(args), lambda key, _: run(args, key))
    print(tables.by_kind(rows, KEY[:3], MEASURED))
    path = args.output.with_suffix(".png")
    draw(rows).savefig(path, dpi=150)
    print(f"As a picture: {path}")


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    tasks, output = ["people_daily", "code"], pathlib.Path("runs/delay.csv")
    add("--tasks", nargs="+", choices=streams.TASKS, default=tasks)
    add("--models", nargs="+", choices=MODELS, default=[*MODELS])
    add("--settings", nargs="+", type=float, help="in place of the models' own")
    add("--seeds", nargs="+", type=integer(0), default=[0])
    add("--texts", type=positive, default=4000, help="to train on")
    add("--test-texts", type=positive, default=800)
    add("--epochs", type=positive, help="in place of those of the task")
    add("--units", type=positive, default=64)
    add("--max-size", type=positive, default=12, help="of adaptive models")
    add("--data-dir", type=pathlib.Path, help="where `msr` is")
    add("--output", type=pathlib.Path, default=output)
    return parser.parse_args(argv)


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


class Arrays(NamedTuple):
    """Texts as ids and tags, `(texts, length)`; `PADDING` behind their ends."""

    ids: np.ndarray
    tags: np.ndarray

    @property
    def mask(self) -> np.ndarray:
        """True at characters."""
        return self.ids != PADDING


def encode(
    texts: Sequence[streams.Tagged],
    vocabulary: Sequence[str],
    tags: Sequence[str],
) -> Arrays:
    """Ids of characters, 1 where one is unknown, and of tags."""
    id_of = {x: i for i, x in enumerate(vocabulary, FIRST)}
    number_of = {x: i for i, x in enumerate(tags)}
    shape = len(texts), max(len(text) for text, _ in texts)
    arrays = Arrays(np.full(shape, PADDING, "int32"), np.zeros(shape, "int32"))
    for row, (text, own) in enumerate(texts):
        arrays.ids[row, : len(text)] = [id_of.get(x, 1) for x in text]
        arrays.tags[row, : len(text)] = [number_of[x] for x in own]
    return arrays


def run(args: argparse.Namespace, key: results.Row) -> dict[str, str]:
    """Trains and tests one model."""
    seed, name = int(key["seed"]), key["model"]
    setting = float(key["setting"])
    length = 128 if key["task"] == "code" else 64
    texts = streams.load(
        key["task"], args.texts, args.test_texts, length, args.data_dir
    )
    counts = Counter("".join(text for text, _ in texts.train))
    vocabulary = sorted(x for x, count in counts.items() if count > 1)
    train = encode(texts.train, vocabulary, texts.tags)
    test = encode(texts.test, vocabulary, texts.tags)
    keras.utils.clear_session()
    keras.utils.set_random_seed(seed)
    model = build(
        name,
        setting,
        len(vocabulary) + FIRST,
        len(texts.tags),
        args.units,
        args.max_size,
    )
    fit(model, train, name, setting, args.epochs or EPOCHS[key["task"]], seed)
    found = model.predict(test.ids, batch_size=256, verbose=0)
    scores = np.argmax(found["tags"], axis=-1)
    delays = delays_of(name, setting, found, test.mask)
    streamed = ""
    if name in ADAPTIVE:
        streamed = str(check_stream(model, test.ids[:STREAMED], delays))
    waited = delays[test.mask]
    return {
        "f1": f"{f1(scores, test, texts):.2f}",
        "delay": f"{waited.mean():.3f}",
        "delay_95": f"{np.percentile(waited, 95):g}",
        "streamed": streamed,
        "date": str(datetime.date.today()),
    }


def build(
    name: str,
    setting: float,
    vocabulary_size: int,
    classes: int,
    units: int,
    max_size: int,
) -> keras.Model:
    """A tagger: ids `(batch, time)` in, probabilities of tags out.

    Adaptive ones return `"size"`, `(batch, time)`, too.
    """
    ids = keras.Input((None,), dtype="int32", name="ids")
    mask = ops.not_equal(ids, PADDING)
    x = layers.Embedding(vocabulary_size, EMBEDDING)(ids)
    x = x * ops.cast(ops.expand_dims(mask, -1), x.dtype)
    ahead = 0 if name in (*ADAPTIVE, "bilstm") else int(setting)
    outputs = {}

    def lstm(x: keras.KerasTensor, width: int = units) -> keras.KerasTensor:
        return layers.LSTM(width, return_sequences=True)(x)

    if name == "bilstm":
        both = layers.Bidirectional(layers.LSTM(units, return_sequences=True))
        y = both(x, mask=mask)
    elif name in ("window", "window+lower"):
        read = [shift(x, i) for i in range(ahead + 1)]
        read += [lstm(x, LOWER)] if name == "window+lower" else []
        y = lstm(ops.concatenate(read, axis=-1))
    elif name == "shifted":
        padded = ops.pad(x, [[0, 0], [0, ahead], [0, 0]])
        y = lstm(padded)[:, ahead:]
    elif name == "convolution":
        padded = ops.pad(x, [[0, 0], [0, ahead], [0, 0]])
        y = lstm(layers.Conv1D(units, ahead + 1, activation="relu")(padded))
    elif name == "look_ahead":
        before = lstm(x, LOWER)
        look = LookAhead(max_size, return_field=True, name="look")
        read, field = look(x, context=before, mask=mask)
        outputs["size"] = field["size"]
        y = lstm(ops.concatenate([read, before], axis=-1))
    elif name in ("field", "adaptive field"):
        size = max_size if name in ADAPTIVE else ahead + 1
        held = DecisionPenalties(target=size, target_weight=10.0)
        y, field = ReceptiveFieldRNN(
            layers.LSTMCell(units),
            size,
            gated="output",
            penalties=None if name in ADAPTIVE else held,
            return_field=True,
            return_sequences=True,
        )(x, mask=mask)
        if name in ADAPTIVE:
            outputs["size"] = field["size"]
    else:
        y = lstm(x)
    tags = layers.Dense(classes, activation="softmax", name="tags")(y)
    return keras.Model(ids, {"tags": tags, **outputs})


def shift(x: keras.KerasTensor, steps: int) -> keras.KerasTensor:
    """What comes some steps later, zeros behind the end."""
    return ops.pad(x[:, steps:], [[0, 0], [0, steps], [0, 0]])


def fit(
    model: keras.Model,
    train: Arrays,
    name: str,
    setting: float,
    epochs: int,
    seed: int,
) -> None:
    """Trains with Adam, the learning rate falling along a cosine."""
    batches = len(train.ids) // BATCH
    rate = keras.optimizers.schedules.CosineDecay(
        LEARNING_RATE, epochs * batches
    )
    tagger = keras.Model(model.input, model.output["tags"])
    tagger.compile(
        keras.optimizers.Adam(rate, clipnorm=1.0),
        keras.losses.SparseCategoricalCrossentropy(
            reduction="mean_with_sample_weight"
        ),
        jit_compile=False,
    )
    callbacks = []
    if name in ADAPTIVE:
        callbacks = [ExploreThenCommit(reading=setting)]
    tagger.fit(
        alike(train, seed).repeat(),
        epochs=epochs,
        steps_per_epoch=batches,
        shuffle=False,
        callbacks=callbacks,
        verbose=0,
    )


def alike(train: Arrays, seed: int) -> tf.data.Dataset:
    """Batches of texts of similar length, shuffled, with weights."""
    lengths = train.mask.sum(axis=1)
    generator = np.random.default_rng(seed)

    def batches():
        order = generator.permutation(len(lengths))
        pools = np.array_split(order, -(-len(order) // (16 * BATCH)))
        chosen = []
        for pool in pools:
            pool = pool[np.argsort(lengths[pool], kind="stable")]
            count = len(pool) // BATCH
            chosen += np.array_split(pool[: count * BATCH], count)
        for i in generator.permutation(len(chosen)):
            own = slice(lengths[chosen[i]].max())
            ids, tags, mask = (
                x[chosen[i]][:, own] for x in (*train, train.mask)
            )
            yield ids, tags, mask.astype("float32")

    spec = (None, None)
    return tf.data.Dataset.from_generator(
        batches,
        output_signature=(
            tf.TensorSpec(spec, "int32"),
            tf.TensorSpec(spec, "int32"),
            tf.TensorSpec(spec, "float32"),
        ),
    )


def delays_of(
    name: str, setting: float, found: dict[str, Any], mask: np.ndarray
) -> np.ndarray:
    """How long each character waits for its tag, `(texts, length)`."""
    if name in ADAPTIVE:
        return analysis.emission_delay(found["size"], mask)
    # All that is waited for, at most to the end of the text.
    ends = mask.sum(axis=1, keepdims=True)
    left = np.maximum(ends - 1 - np.arange(mask.shape[1]), 0)
    return np.minimum(left, setting).astype(int)


def f1(found: np.ndarray, test: Arrays, texts: streams.Texts) -> float:
    """F1 of words, or of tokens with their kinds, in %."""
    right = total = 0
    names = np.array(texts.tags)
    for tags, expected, real in zip(found, test.tags, test.mask):
        a, b = (texts.spans(names[x[real]]) for x in (tags, expected))
        right, total = right + len(a & b), total + len(a) + len(b)
    return 100 * 2 * right / total


def check_stream(
    model: keras.Model, ids: np.ndarray, delays: np.ndarray
) -> int:
    """Streams texts through an export; each tag must come at its time.

    Returns:
        The number of characters that were streamed.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = serving.export_model(model, folder, streaming=True)
        signatures = tf.saved_model.load(str(path)).signatures
    total = 0
    for text, expected in zip(ids, delays):
        text = text[text != PADDING]
        times: list[int] = []
        state = signatures["start"](batch_size=tf.constant(1))
        state.pop("delay")
        for i, x in enumerate(text):
            answer = signatures["step"](
                ids=tf.constant([[x]]),
                end=tf.constant(i == len(text) - 1),
                **state,
            )
            state = {name: answer[name] for name in state}
            times += [i] * int(answer["count"][0])
        waited = np.array(times) - np.arange(len(text))
        if (waited != expected[: len(text)]).any():
            raise RuntimeError(f"Delays {waited}, not {expected}")
        total += len(text)
    return total


def draw(rows: Sequence[results.Row]) -> Figure:
    """F1 over the mean delay, means over seeds, one plot a task."""
    runs = pd.DataFrame(rows)
    runs[["f1", "delay"]] = runs[["f1", "delay"]].astype(float)
    names = [x for x in streams.TASKS if x in {*runs["task"]}]
    figure = Figure(figsize=(5.2 * len(names), 3.8), layout="constrained")
    plots = figure.subplots(1, len(names), squeeze=False)[0]
    for axes, task in zip(plots, names):
        own = runs[(runs["task"] == task) & (runs["model"] != "bilstm")]
        points = own.groupby(["model", "setting"])[["delay", "f1"]].mean()
        for name in MODELS:
            if name in points.index:
                line = points.loc[name].sort_values("delay")
                style = "D-" if name in ADAPTIVE else "o--"
                axes.plot(line["delay"], line["f1"], style, label=name)
        axes.set(title=task, xlabel="mean emission delay (characters)")
    plots[0].set_ylabel("F1 (%)")
    plots[-1].legend(fontsize="small")
    return figure


if __name__ == "__main__":
    main()
