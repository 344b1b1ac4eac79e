"""Loads the saved models of directories and compares their outputs.

    python saved_models/check_golden.py saved_models

Prints one JSON line a model, the largest difference of each output and the
temperatures it was saved with. Needs nothing but the installed package, so
that it shows what another process sees.
"""

import json
import pathlib
import sys

import keras
import numpy as np

import keras_seqmech  # noqa: F401  (registers the layers)


def check(path: pathlib.Path) -> dict:
    """Runs one `.keras` file on the `.npz` beside it."""
    with np.load(path.with_suffix(".npz")) as file:
        arrays = {name: file[name] for name in file}
    inputs = {
        name.removeprefix("input/"): x
        for name, x in arrays.items()
        if name.startswith("input/")
    }
    model = keras.saving.load_model(path)
    outputs = model.predict_on_batch(inputs)
    expected = {n for n in arrays if n.startswith("output/")}
    if expected != {f"output/{name}" for name in outputs}:
        raise ValueError(f"{path}: outputs are now {sorted(outputs)}")
    return {
        "path": str(path),
        "differences": {
            name: float(np.max(np.abs(x - arrays[f"output/{name}"])))
            for name, x in outputs.items()
        },
        "temperatures": [
            float(v.numpy()) for v in model.weights if v.name == "temperature"
        ],
    }


if __name__ == "__main__":
    for directory in sys.argv[1:]:
        for path in sorted(pathlib.Path(directory).glob("*.keras")):
            print(json.dumps(check(path)))
