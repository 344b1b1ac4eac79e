"""Runs a SavedModel in a process that knows only TensorFlow, as a server does.

A script for a process of its own, started by path:
`python _fresh_process.py MODEL INPUTS OUTPUTS`. `INPUTS` is a pickled dict
of arrays by name; the answers go to `OUTPUTS` likewise, those of each signature
in a dict of their own: of `serving_default`, and of `step` where there is one.
It cannot import keras_seqmech, nor Keras unless TensorFlow Text needs it.
"""

import os
import sys

_FOLDER = os.path.dirname(os.path.realpath(__file__))
if __name__ == "__main__" and os.path.realpath(sys.path[0]) == _FOLDER:
    # A package's folder must not shadow other modules.
    del sys.path[0]

import pickle  # noqa: E402
from typing import Any  # noqa: E402

MISSING: dict[str, Any] = {"keras_seqmech": None, "keras": None}
if __name__ == "__main__":
    sys.modules.update(MISSING)

import tensorflow as tf  # noqa: E402


def load(path: str) -> Any:
    """Loads a SavedModel, with the ops of TensorFlow Text if it needs them."""
    try:
        return tf.saved_model.load(path)
    except Exception as error:
        if "Op type not registered" not in str(error):
            raise
        # TensorFlow Text defines Keras layers of its own when imported.
        del sys.modules["keras"]
        import tensorflow_text  # noqa: F401

        return tf.saved_model.load(path)


def stream(signatures: Any, inputs: Any, cuts: list[int]) -> dict[str, Any]:
    """Answers of the signatures `start` and `step` to sequences in chunks."""
    start, step = signatures["start"], signatures["step"]
    batch_size = len(next(iter(inputs.values())))
    state = start(batch_size=tf.constant(batch_size, "int32"))
    del state["delay"]

    def take(chunk: Any, state: Any, end: bool) -> tuple[Any, Any]:
        answer = step(**chunk, **state, end=tf.constant(end))
        return answer, {name: answer.pop(name) for name in state}

    _, given = step.structured_input_signature
    return in_chunks(take, state, inputs, cuts, given, step.structured_outputs)


def in_chunks(
    step: Any, state: Any, inputs: Any, cuts: list[int], given: Any, shown: Any
) -> dict[str, Any]:
    """Answers to sequences in chunks, joined.

    Args:
        step: Function `(chunk, state, end)` of an answer and the next state.
        state: The first state.
        inputs: Arrays by name; those with a time axis are cut into chunks.
        cuts: The numbers of steps of the chunks.
        given: Specs of the inputs by name.
        shown: Specs of the answers by name.
    """
    found: dict[str, list] = {}
    counts: list[Any] = []
    for number, length in enumerate(cuts):
        at = sum(cuts[:number])
        chunk = {
            name: x[:, at : at + length] if has_time(given[name].shape) else x
            for name, x in inputs.items()
        }
        answer, state = step(chunk, state, number == len(cuts) - 1)
        counts.append(answer.pop("count", None))
        for name, x in answer.items():
            found.setdefault(name, []).append(x)
    return {
        name: join(x, counts) if has_time(shown[name].shape) else x[-1]
        for name, x in found.items()
    }


def join(parts: Any, counts: Any) -> Any:
    """Joins the outputs of chunks, `count` steps of each row of each.

    All rows have the same number of steps in the end.
    """
    rows = range(len(counts[0]))
    return tf.stack(
        [
            tf.concat([x[row, : n[row]] for x, n in zip(parts, counts)], axis=0)
            for row in rows
        ]
    )


def has_time(shape: tf.TensorShape) -> bool:
    """Returns whether a shape is that of a sequence, with a free axis 1."""
    return shape.rank is not None and shape.rank > 1 and shape[1] is None


def answers(signatures: Any, inputs: Any) -> dict[str, dict[str, Any]]:
    """Answers of each signature, as arrays by name.

    Raises:
        RuntimeError: If other chunks of a sequence have other answers.
    """
    inputs = {name: tf.constant(value) for name, value in inputs.items()}
    found = {"serving_default": signatures["serving_default"](**inputs)}
    if "step" in signatures:
        specs = signatures["step"].structured_input_signature[1]
        length = next(
            int(tf.shape(x)[1])
            for name, x in inputs.items()
            if has_time(specs[name].shape)
        )
        found["step"] = stream(signatures, inputs, [length])
        in_parts = stream(signatures, inputs, [1] * length + [0])
        for name, x in found["step"].items():
            if bits(x) != bits(in_parts[name]):
                raise RuntimeError(f"Chunks change the output {name!r}.")
    return tf.nest.map_structure(lambda x: x.numpy(), found)


def bits(x: Any) -> Any:
    """The bytes of a tensor, to compare to the last bit; strings as a list.

    All NaNs are one.
    """
    if x.dtype.is_floating:
        x = tf.where(tf.math.is_nan(x), tf.constant(float("nan"), x.dtype), x)
    return x.numpy().tolist() if x.dtype == tf.string else x.numpy().tobytes()


def main(model_path: str, inputs_path: str, outputs_path: str) -> None:
    """Answers the inputs with the model and writes the outputs."""
    signatures = load(model_path).signatures
    with open(inputs_path, "rb") as file:
        found = answers(signatures, pickle.load(file))
    with open(outputs_path, "wb") as file:
        pickle.dump(found, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
