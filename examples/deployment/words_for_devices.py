"""Trains a model that finds words, and writes its step for devices.

    python -m examples.deployment.words_for_devices --folder runs/device

Text without spaces is tagged while it is typed: an LSTM behind a `LookAhead`,
with the weight of what it reads ahead as an input, trained once on first lines
of docstrings (`--task people_daily`: Chinese). The folder gets `words.tflite`
and `words.onnx`, with weights of 8 bits, for one row; `words.json`, the ids of
characters and the names of tags; and what runs them without TensorFlow:
`find_words.py` (LiteRT) and `find_words.html` (ONNX Runtime, in a browser).
"""

import argparse
import json
import pathlib
import shutil

import keras
import numpy as np

from examples.common import arguments
from examples.receptive_field import stream_taggers
from examples.receptive_field import streams
from keras_seqmech import serving

DEVICE = pathlib.Path(__file__).with_name("device")


def main(argv: list[str] | None = None) -> None:
    """Trains, exports and copies."""
    args = parse(argv)
    texts = streams.load(args.task, args.texts, args.texts // 5 + 1, 64)
    tagger = stream_taggers.train(
        "one_look_ahead+dense", 0.02, texts, args.epochs, 0, verbose="auto"
    )
    args.folder.mkdir(parents=True, exist_ok=True)
    ids = tagger.tests.ids[:4]
    weights = np.full(len(ids), tagger.setting)
    for ending in ("tflite", "onnx"):
        file = args.folder / f"words.{ending}"
        serving.export_step(
            tags_alone(tagger.model),
            file,
            example_inputs={"ids": ids, "weight": weights},
            quantize=True,
            batch_size=1,
        )
        print(f"{file}: {file.stat().st_size / 1000:.0f} kB")
    numbers = enumerate(tagger.vocabulary, stream_taggers.FIRST)
    known = {"ids": {x: i for i, x in numbers}, "tags": list(texts.tags)}
    text = json.dumps(known, ensure_ascii=False)
    (args.folder / "words.json").write_text(text, "utf-8")
    for file in DEVICE.iterdir():
        if file.is_file():
            shutil.copy(file, args.folder)


def tags_alone(model: keras.Model) -> keras.Model:
    """The model without sizes: how long a tag waits is seen when it comes."""
    return keras.Model(model.input, {"tags": model.output["tags"]})


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = arguments.parser(__doc__)
    add = parser.add_argument
    folder = pathlib.Path("runs/device")
    add("--folder", type=pathlib.Path, default=folder)
    tasks = ("spaces", "people_daily")
    add("--task", choices=tasks, default="spaces", help="what to train on")
    add("--texts", type=int, default=4000, help="in training")
    add("--epochs", type=int, default=8)
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
