"""One answer for a sequence that is still arriving, as early as it can be.

    python -m examples.pooling.early --tasks digits questions --data-dir DATA

Images whose rows arrive from the top (`digits`, in 16 half rows; `mnist`),
texts word by word (`questions`, TREC; `news`, AG), and which of nine speakers
says a vowel (`vowels`, JapaneseVowels of timeseriesclassification.com). A GRU
with an answer at each step is what users write: `fixed`, read after so many
steps, and `confident`, the first step whose probability is above a threshold.
`learned` is an `EarlyPooling` that is trained with it, its setting the weight
of a step: it sees how probable the answer is, in `learned+states` the GRU's
states, too.
"""

import argparse
import functools
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np
from keras import layers
from keras import ops

import keras_seqmech as seqmech
from examples.common import datasets
from examples.common import program
from examples.common import text_encoding
from examples.tasks import pixel_question

# Epochs and rows of a batch.
TASKS = {
    "digits": (60, 32),
    "mnist": (8, 128),
    "questions": (8, 32),
    "news": (4, 32),
    "vowels": (100, 32),
}
WEIGHTS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002)
MODELS = {
    "fixed": (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    "confident": (0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999),
    "learned": WEIGHTS,
    "learned+states": WEIGHTS,
}
TEXTS = {"questions": "trec", "news": "ag"}
# Training sequences, and units.
MOST, UNITS = 30000, 64


class Sequences(NamedTuple):
    """Ids `(n, time)`, 0 as padding, or steps `(n, time, d)`; labels `(n,)`."""

    steps: np.ndarray
    labels: np.ndarray
    mask: np.ndarray  # True at real steps.


def load(task: str, data_dir: str | None) -> tuple[Sequences, Sequences]:
    """Training and test sequences."""
    if task in TEXTS:
        data = datasets.load(TEXTS[task], data_dir)
        length = min(text_encoding.LENGTHS[TEXTS[task]], 40)
        parts = text_encoding.frequent_words(data, (20000,) * 2, length, 20000)
    elif task == "vowels":
        parts = load_vowels(data_dir)
    elif task == "mnist":
        parts = pixel_question.load_mnist(data_dir)
    else:
        parts = pixel_question.load_digits()
        parts = [(x.reshape(-1, 16, 4), labels) for x, labels in parts]
    is_ids = task in TEXTS
    train, test = (
        Sequences(
            np.nan_to_num(x),
            labels,
            x != 0 if is_ids else ~np.isnan(x[..., 0]),
        )
        for x, labels in parts
    )
    return Sequences(*(x[:MOST] for x in train)), test


def load_vowels(data_dir: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Sequences `(n, time, 12)` with NaN as padding, and who spoke."""
    parts = []
    for name in ("TRAIN", "TEST"):
        path = Path(data_dir, f"japanese_vowels/JapaneseVowels_{name}.ts")
        lines = path.read_text(encoding="utf8").split("@data\n")[1].split()
        rows = [line.split(":") for line in lines]
        steps = np.full((len(rows), 29, 12), np.nan, "float32")
        for place, row in zip(steps, rows):
            series = np.array([x.split(",") for x in row[:-1]], "float32")
            place[: series.shape[1]] = series.T
        labels = np.array([int(row[-1]) - 1 for row in rows], "int32")
        parts.append((steps, labels))
    return parts


def build(model: str, data: Sequences) -> keras.Model:
    """Sequences, masks and weights in; answers of each step, and early, out."""
    steps, classes = data.steps, int(data.labels.max()) + 1
    x = keras.Input(steps.shape[1:], dtype=str(steps.dtype), name="steps")
    mask = keras.Input(steps.shape[1:2], dtype="bool", name="mask")
    inputs = {"steps": x, "mask": mask}
    if steps.ndim == 2:
        x = layers.Embedding(int(steps.max()) + 1, UNITS)(x)
        x = layers.Dropout(0.3)(x)
    states = layers.GRU(UNITS, return_sequences=True)(x, mask=mask)
    each = layers.Dense(classes, activation="softmax", name="each")(states)
    outputs = {"each": each}
    if model.startswith("learned"):
        inputs["weight"] = keras.Input((), name="weight")
        weight = seqmech.ReadingWeight()(inputs["weight"])
        seen = ops.stop_gradient(ops.log(ops.max(each, -1, keepdims=True)))
        if model == "learned+states":
            seen = ops.concatenate([seen, layers.Dense(1)(states)], axis=-1)
        emission = seqmech.EmissionProbabilities(share=0.05)
        stop = emission(seen, mask=mask, weight=weight)
        early = seqmech.EarlyPooling(return_attention_scores=True)
        answer, decided = early(each, stop, mask=mask, weight=weight)
        outputs |= {"answer": answer, "size": decided["size"]}
    return keras.Model(inputs, outputs)


@functools.lru_cache(maxsize=1)
def trained(
    task: str, model: str, seed: int, epochs: int | None, data_dir: str | None
) -> tuple[keras.Model, Sequences]:
    """A trained model, and the sequences to test it on."""
    train, test = load(task, data_dir)
    keras.utils.clear_session()
    keras.utils.set_random_seed(seed)
    whole = build(model, train)
    names = [name for name in whole.output if name != "size"]
    fitted = keras.Model(whole.input, {x: whole.output[x] for x in names})
    fitted.compile(
        keras.optimizers.Adam(2e-3), "sparse_categorical_crossentropy"
    )
    length = train.mask.shape[1]
    labels = {"each": np.repeat(train.labels[:, None], length, axis=1)}
    weights = {"each": train.mask.astype("float32")}
    if "answer" in names:
        labels["answer"] = train.labels
        weights["answer"] = np.ones(len(train.labels), "float32")
    own_epochs, rows = TASKS[task]
    fitted.fit(
        given(whole, train, 1.0),
        labels,
        rows,
        epochs or own_epochs,
        sample_weight=weights,
        callbacks=[seqmech.ExploreThenCommit()] if "answer" in names else [],
        verbose=0,
    )
    return whole, test


def given(model: keras.Model, data: Sequences, weight: float) -> dict:
    """Inputs of a model."""
    inputs = {"steps": data.steps, "mask": data.mask}
    if "weight" in model.input:
        inputs["weight"] = np.full(len(data.steps), weight, "float32")
    return inputs


def answers(
    kind: str, setting: float, found: dict[str, np.ndarray], mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The class that each row is given, and the steps that were read."""
    if "size" in found:
        return found["answer"].argmax(axis=-1), found["size"]
    count, length = mask.cumsum(axis=1), mask.shape[1]
    ends = count == count[:, -1:]
    if kind == "fixed":
        ends |= count >= max(1, round(setting * length))
    else:
        ends |= found["each"].max(axis=-1) >= setting
    first, rows = (ends & mask).argmax(axis=1), np.arange(len(mask))
    return found["each"][rows, first].argmax(axis=-1), count[rows, first]


def run(own: program.Run) -> dict[str, str]:
    """Trains a model, and tests it at one setting."""
    key, args = own.key, own.args
    kind, setting = key["model"], float(key["setting"])
    # One training has the answers of both.
    name = "each" if kind in ("fixed", "confident") else kind
    model, test = trained(
        key["task"], name, own.seed, args.epochs, args.data_dir
    )
    found = model.predict(given(model, test, setting), 500, verbose=0)
    classes, read = answers(kind, setting, found, test.mask)
    right = 100 * np.mean(classes == test.labels)
    return {"accuracy": f"{right:.2f}", "read": f"{read.mean():.3f}"}


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--tasks", nargs="+", choices=TASKS, default=["digits"])
    add("--models", nargs="+", choices=MODELS, default=[*MODELS])


def cases(args: argparse.Namespace) -> program.Cases:
    for case in program.grid(task=args.tasks, model=args.models):
        for setting in MODELS[case["model"]]:
            yield {**case, "setting": f"{setting:g}"}


PROGRAM = program.Program(
    doc=__doc__,
    output="runs/early.csv",
    options=options,
    key=("task", "model", "setting", "seed", "settings"),
    cases=cases,
    needs_data=lambda args: {*args.tasks} != {"digits"},
    numbers={"epochs": int},  # By default the task's.
    run=run,
)

if __name__ == "__main__":
    PROGRAM.main()
