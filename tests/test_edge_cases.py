"""Every public layer on an empty batch, and where Keras computes in float64."""

import keras
import numpy as np
import pytest
from layer_models import make_model
from layer_models import sample
from registry import ENTRIES
from registry import silence

CORE = [entry for entry in ENTRIES if entry.core]
# The loop of `keras.layers.LSTM` itself refuses empty batches.
REFUSED = ("RFCell-lstm-relaxed-mean", "LearnedInitialState-lstm")


@pytest.fixture(autouse=True)
def no_noise(monkeypatch):
    silence(monkeypatch)


def call(entry, rows=None):
    inputs = keras.tree.map_structure(
        lambda x: np.asarray(x)[:rows], sample(entry)
    )
    return keras.tree.flatten(make_model(entry)(inputs))


@pytest.mark.parametrize(
    "entry",
    [entry for entry in CORE if entry.id not in REFUSED],
    ids=lambda entry: entry.id,
)
def test_empty_batch(entry):
    assert {output.shape[0] for output in call(entry, rows=0)} == {0}


@pytest.mark.parametrize("entry", CORE, ids=lambda entry: entry.id)
def test_all_in_float64(entry):
    keras.utils.set_random_seed(0)
    expected = call(entry)
    try:
        keras.config.set_floatx("float64")
        keras.config.set_dtype_policy("float64")
        keras.utils.set_random_seed(0)
        found = call(entry)
    finally:
        keras.config.set_floatx("float32")
        keras.config.set_dtype_policy("float32")
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        assert np.isfinite(one).all()
