"""Finds words while a text is typed, with LiteRT and NumPy alone.

    pip install -r requirements.txt
    python find_words.py FOLDER "thefirstlineofatext" --weight 0.02

Needs neither TensorFlow nor Keras, nor any other file of this repository.
`FOLDER` is what `examples.deployment.words_for_devices` has written. Prints
each word as soon as it is certain; then how many characters tags waited for, on
average. The larger the weight, the sooner a word comes.
"""

import argparse
import json
import pathlib

import numpy as np
from ai_edge_litert.interpreter import Interpreter


class Stream:
    """A step of a stream, with its state."""

    def __init__(self, file: pathlib.Path):
        self._step = Interpreter(str(file)).get_signature_runner()
        self._state = {
            name: np.zeros(x["shape"], x["dtype"])
            for name, x in self._step.get_input_details().items()
            if name.startswith("state_")
        }

    def step(self, end: bool, **inputs: np.ndarray):
        """Reads a step; yields the answers that are certain now, in order."""
        present = pending = True
        while pending:
            answer = self._step(
                present=np.array([present]),
                end=np.array([end]),
                **inputs,
                **self._state,
            )
            self._state = {x: answer[f"next_{x}"] for x in self._state}
            present, pending = False, answer["pending"]
            if answer["emitted"][0]:
                yield answer


def main():
    """Types a text, character by character."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("text")
    parser.add_argument("--weight", type=float, default=0.02)
    args = parser.parse_args()
    known = json.loads((args.folder / "words.json").read_text("utf-8"))
    stream = Stream(args.folder / "words.tflite")
    weight, waited, done = np.array([args.weight], "float32"), 0, 0
    for i, character in enumerate(args.text):
        ids = np.array([[known["ids"].get(character, 1)]], "int32")
        end = i == len(args.text) - 1
        for answer in stream.step(end, ids=ids, weight=weight):
            tag = known["tags"][np.argmax(answer["tags"])]
            # B and S begin a word, E and S end it.
            before = " " if tag in "BS" and done else ""
            print(before + args.text[done], end="", flush=True)
            waited, done = waited + i - done, done + 1
    print(f"\n{waited / max(1, done):.2f} characters waited for")


if __name__ == "__main__":
    main()
