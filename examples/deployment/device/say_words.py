"""Says words while they are typed, with LiteRT and NumPy alone.

    pip install -r requirements.txt
    python say_words.py ../../../saved_models/sounds "special decision"

Needs neither TensorFlow nor Keras, nor any other file of this repository than
the two of that folder, `sounds.tflite` and `sounds.json`. Prints what is typed,
letter by letter, and the sounds that are certain by then; then how many letters
they waited for, on average. The larger the weight, the sooner a sound comes.
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
    """Types words, letter by letter."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("text")
    parser.add_argument("--weight", type=float, default=0.05)
    args = parser.parse_args()
    known = json.loads((args.folder / "sounds.json").read_text("utf-8"))
    weight, waits = np.array([args.weight], "float32"), []
    for word in args.text.lower().split():
        # A word ends with the space behind it.
        stream, typed = Stream(args.folder / "sounds.tflite"), f"{word} "
        said = 0
        for i, letter in enumerate(typed):
            ids = np.array([[known["ids"].get(letter, 1)]], "int32")
            certain = []
            for answer in stream.step(letter == " ", ids=ids, weight=weight):
                certain.append(known["tags"][np.argmax(answer["tags"])])
                if said < len(word):
                    waits.append(i - said)
                said += 1
            print(f"{typed[: i + 1]:{len(typed)}}", *filter(None, certain))
    if waits:
        print(f"{np.mean(waits):.2f} letters waited for")


if __name__ == "__main__":
    main()
