"""Writes the step of the model of `saved_models/sounds` for browsers.

    python -m examples.deployment.sounds_for_browsers --folder runs/browser

The folder gets `sounds.onnx`, for one row; the ids of letters and the names of
tags, `sounds.json`; and `say_words.html`, which says words with them. Nothing
is trained.
"""

import pathlib
import shutil

import keras
import numpy as np

import keras_seqmech  # noqa: F401  Its layers are in the file.
from examples.common import arguments
from keras_seqmech import serving

SOUNDS = pathlib.Path(__file__).parents[2] / "saved_models" / "sounds"
PAGE = pathlib.Path(__file__).with_name("device") / "say_words.html"


def main(argv: list[str] | None = None) -> None:
    """Exports and copies."""
    parser = arguments.parser(__doc__)
    folder = pathlib.Path("runs/browser")
    parser.add_argument("--folder", type=pathlib.Path, default=folder)
    folder = parser.parse_args(argv).folder
    speller = keras.saving.load_model(SOUNDS / "sounds.keras")
    # From ids to tags: formats for devices have no strings.
    (tagger,) = [x for x in speller.layers if isinstance(x, keras.Model)]
    folder.mkdir(parents=True, exist_ok=True)
    serving.export_step(
        # How long a sound waits is seen when it comes.
        keras.Model(tagger.input, {"tags": tagger.output["tags"]}),
        folder / "sounds.onnx",
        {"ids": np.arange(4, 16)[None], "weight": np.array([0.05])},
        batch_size=1,
    )
    for file in (SOUNDS / "sounds.json", PAGE):
        shutil.copy(file, folder)


if __name__ == "__main__":
    main()
