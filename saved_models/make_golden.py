"""Makes the files of this directory: a saved model, an input, its output.

    python saved_models/make_golden.py

Run from the project's directory. Makes what is missing and leaves files that
exist alone; read README.md before you delete one.
"""

import json
import pathlib
import platform
import sys

import keras
import numpy as np
import tensorflow as tf

import keras_seqmech

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from tests.conformance.registry import ENTRIES  # noqa: E402
from tests.conformance.registry import TIME  # noqa: E402


def example(entry) -> tuple[keras.Model, dict]:
    """A model of an entry of the registry; its inputs and outputs by name."""
    keras.utils.clear_session(free_memory=False)
    keras.utils.set_random_seed(0)
    model = entry.model()
    for variable in model.variables:
        # As training would: no bias at its initial zero, another temperature.
        if variable.name == "temperature":
            variable.assign(0.37)
        elif variable.trainable:
            variable.assign(variable + keras.random.normal(variable.shape) / 4)
    inputs = entry.sample(batch_size=4)
    mask = np.arange(TIME) < np.array([[7], [4], [0], [7]])
    mask[3, 2] = False
    inputs.update(dict.fromkeys(entry.masks, mask))
    outputs = model.predict_on_batch(inputs)
    return model, {
        **{f"input/{name}": x for name, x in inputs.items()},
        **{f"output/{name}": x for name, x in outputs.items()},
    }


def main() -> None:
    path = HERE / "versions.json"
    versions = json.loads(path.read_text()) if path.exists() else {}
    for entry in ENTRIES:
        if not entry.golden or (HERE / f"{entry.id}.keras").exists():
            continue
        model, arrays = example(entry)
        model.save(HERE / f"{entry.id}.keras")
        np.savez(HERE / f"{entry.id}.npz", **arrays)
        versions[entry.id] = {
            "keras_seqmech": keras_seqmech.__version__,
            "keras": keras.__version__,
            "tensorflow": tf.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        }
        print(f"made {entry.id}")
    path.write_text(json.dumps(versions, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
