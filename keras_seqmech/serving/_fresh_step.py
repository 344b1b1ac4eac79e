"""Runs a step in LiteRT or ONNX without TensorFlow, as a device does.

A script for a process of its own, started by path:
`python _fresh_step.py FILE GIVEN OUTPUTS`. `GIVEN` is a pickled list of what
`stream` is given after `run`; the answers go to `OUTPUTS`, a list likewise.
"""

import os
import sys

_FOLDER = os.path.dirname(os.path.realpath(__file__))
if __name__ == "__main__" and os.path.realpath(sys.path[0]) == _FOLDER:
    # A package's folder must not shadow other modules.
    del sys.path[0]

import pickle  # noqa: E402
from collections.abc import Callable  # noqa: E402
from collections.abc import Iterator  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402

MISSING: dict[str, Any] = {
    "keras_seqmech": None,
    "keras": None,
    "tensorflow": None,
}
Arrays = dict[str, np.ndarray]


def load(path: str) -> Callable[[Arrays], Arrays]:
    """A file's function of a step."""
    if path.endswith(".tflite"):
        from ai_edge_litert.interpreter import Interpreter

        runner = Interpreter(path).get_signature_runner()
        return lambda given: runner(**given)
    import onnxruntime

    session = onnxruntime.InferenceSession(path)
    names = [x.name for x in session.get_outputs()]
    return lambda given: dict(zip(names, session.run(names, given)))


def answers(
    run: Callable[[Arrays], Arrays],
    state: Arrays,
    step: Arrays,
    end: np.ndarray,
) -> Iterator[tuple[Arrays, np.ndarray]]:
    """Gives a step to all rows; the `state` is updated.

    Args:
        run: The function of a step.
        state: The state of all rows.
        step: Inputs of one step.
        end: Whether it is the last, `(rows,)`.

    Returns:
        The outputs of each call, and in which rows they are a step.
    """
    present, pending = np.full_like(end, True), np.array(True)
    while pending:
        answer = run({**step, "present": present, "end": end, **state})
        state.update({name: answer.pop(f"next_{name}") for name in state})
        emitted, pending = answer.pop("emitted"), answer.pop("pending")
        yield answer, emitted
        present = np.full_like(end, False)


def stream(
    run: Callable[[Arrays], Arrays],
    states: Arrays,
    inputs: Arrays,
    sequences: set[str],
) -> Arrays:
    """Answers of the model to whole sequences, step by step.

    Args:
        run: The function of a step.
        states: A zero row of each state.
        inputs: Arrays by name.
        sequences: The names of inputs and outputs that have a time axis.
    """
    arrays = (inputs[name] for name in inputs.keys() & sequences)
    rows, length = next(arrays).shape[:2]
    state = {name: np.repeat(x, rows, axis=0) for name, x in states.items()}
    steps: dict[str, list] = {}
    for t in range(length):
        step = {
            name: x[:, t : t + 1] if name in sequences else x
            for name, x in inputs.items()
        }
        end = np.full(rows, t == length - 1)
        for answer, emitted in answers(run, state, step, end):
            for name in answer.keys() & sequences:
                kept = steps.setdefault(name, [[] for _ in emitted])
                for row in np.flatnonzero(emitted):
                    kept[row].append(answer[name][row, 0])
    return {
        name: np.array(steps[name]) if name in steps else x
        for name, x in answer.items()
    }


def main(file: str, inputs: str, outputs: str) -> None:
    """Answers the inputs with the file and writes the outputs."""
    with open(inputs, "rb") as given:
        each = pickle.load(given)
    run = load(file)
    found = [stream(run, *arguments) for arguments in each]
    with open(outputs, "wb") as made:
        pickle.dump(found, made)


if __name__ == "__main__":
    sys.modules.update(MISSING)
    main(*sys.argv[1:])
