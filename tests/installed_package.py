"""Uses the package as whoever installed a wheel does; `make dist` runs it.

    python -I tests/installed_package.py

by the Python of an environment that holds the wheel and no source tree: builds,
trains, saves and loads a model, shows its decisions, exports it and asks it.
"""

import pathlib
import tempfile

import keras
import numpy as np
import tensorflow as tf

import keras_seqmech
from keras_seqmech import analysis
from keras_seqmech import serving


def main() -> None:
    package = pathlib.Path(keras_seqmech.__file__)
    check("site-packages" in package.parts, f"installed, not {package}")
    check(package.with_name("py.typed").is_file(), "types")
    with tempfile.TemporaryDirectory() as folder:
        use(pathlib.Path(folder))
    print(f"keras_seqmech {keras_seqmech.__version__} works as installed.")


def use(folder: pathlib.Path) -> None:
    tokens = np.random.default_rng(0).integers(9, size=(64, 20))
    ids = keras.Input((None,), dtype="int32", name="ids")
    x = keras.layers.Embedding(9, 8)(ids)
    outputs, field = keras_seqmech.ReceptiveFieldRNN(
        keras.layers.GRUCell(8),
        max_size=3,
        return_sequences=True,
        return_field=True,
    )(x)
    values = keras.layers.Dense(9, activation="softmax")(outputs)
    model = keras.Model({"ids": ids}, values)
    model.compile("adam", "sparse_categorical_crossentropy")
    model.fit(
        {"ids": tokens},
        np.roll(tokens, -1, axis=1),
        callbacks=[keras_seqmech.ExploreThenCommit()],
        verbose=0,
    )
    shown = keras.Model({"ids": ids}, {"values": values, "size": field["size"]})
    expected = shown.predict({"ids": tokens[:2]}, verbose=0)

    shown.save(folder / "shown.keras")
    loaded = keras.saving.load_model(folder / "shown.keras")
    found = loaded.predict({"ids": tokens[:2]}, verbose=0)
    agree(found, expected, "a model that was saved and loaded")

    picture = analysis.show(tokens[0], sizes=expected["size"][0])
    check(picture.save(folder / "sizes.html").is_file(), "a picture")

    path = serving.export_model(shown, folder / "shown")
    served = tf.saved_model.load(path).signatures["serving_default"]
    agree(served(ids=tf.constant(tokens[:2])), expected, "an export")


def agree(found: dict, expected: dict, what: str) -> None:
    for name, value in expected.items():
        near = np.allclose(found[name], value, rtol=1e-5, atol=1e-5)
        check(near, f"{what} answers as the model: {name}")


def check(condition: bool, what: str) -> None:
    if not condition:
        raise SystemExit(f"Expected: {what}")


if __name__ == "__main__":
    main()
