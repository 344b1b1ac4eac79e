"""Runs a SavedModel in a process that knows only TensorFlow, as a server does.

A script for a process of its own, started by path:
`python -P _fresh_process.py MODEL INPUTS OUTPUTS`. `INPUTS` is a pickled dict
of arrays by name; the answers of `serving_default` go to `OUTPUTS` likewise.
It cannot import keras_seqmech, nor Keras unless TensorFlow Text needs it.
"""

import pickle
import sys
from typing import Any

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


def main(model_path: str, inputs_path: str, outputs_path: str) -> None:
    """Answers the inputs with the model and writes the outputs."""
    serve = load(model_path).signatures["serving_default"]
    with open(inputs_path, "rb") as file:
        inputs = pickle.load(file)
    outputs = serve(**{k: tf.constant(v) for k, v in inputs.items()})
    with open(outputs_path, "wb") as file:
        pickle.dump({k: v.numpy() for k, v in outputs.items()}, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
