"""Every public layer on an empty batch, and where Keras computes in float64."""

import contextlib

import keras
import numpy as np
import pytest
from keras import ops

import keras_seqmech
from tests.conformance.layer_models import make_model
from tests.conformance.layer_models import sample
from tests.conformance.registry import CORE
from tests.conformance.registry import layers_first
from tests.fixed_noise import silence

# Keras' `LSTMCell` itself fails on an empty batch, where it adds its bias.
REFUSED = ("RFCell-lstm-relaxed-mean", "LearnedInitialState-lstm")


@pytest.fixture(autouse=True)
def no_noise(monkeypatch):
    silence(monkeypatch)


@contextlib.contextmanager
def all_in_float64():
    try:
        keras.config.set_floatx("float64")
        keras.config.set_dtype_policy("float64")
        yield
    finally:
        keras.config.set_floatx("float32")
        keras.config.set_dtype_policy("float32")


def call(entry, rows=None):
    inputs = keras.tree.map_structure(
        lambda x: np.asarray(x)[:rows], sample(entry)
    )
    return keras.tree.flatten(make_model(entry)(inputs))


@pytest.mark.parametrize(
    "entry", layers_first(entry for entry in CORE if entry.id not in REFUSED)
)
def test_empty_batch(entry):
    assert {output.shape[0] for output in call(entry, rows=0)} == {0}


@pytest.mark.parametrize("entry", layers_first(CORE))
def test_all_in_float64(entry):
    expected = call(entry)
    with all_in_float64():
        found = call(entry)
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        assert np.isfinite(one).all()


ROWS = keras_seqmech.DecisionPenalties(
    target=0.1, target_weight=0.5, target_of="row"
)


@pytest.mark.parametrize(
    "pool",
    [
        lambda x: keras_seqmech.LastAttentionPooling(penalty=0.5)(x),
        lambda x: keras_seqmech.BoundaryGate(2, "relaxed", penalties=ROWS)(
            x, x[:, 0]
        ),
        lambda x: keras_seqmech.ExpectedSubsample(2, penalties=ROWS)(
            x, ops.sigmoid(x[..., 0])
        ),
    ],
    ids=["LastAttentionPooling", "BoundaryGate", "ExpectedSubsample"],
)
def test_added_losses_in_float64(pool):
    """Keras adds them to the loss of the model, of its own dtype."""
    with all_in_float64():
        x = keras.Input((4, 3))
        model = keras.Model(x, pool(keras.layers.Dense(3)(x)))
        model.compile("sgd", "mse", run_eagerly=True)
        data = np.random.default_rng(0).normal(size=(2, 4, 3))
        model(data, training=True)
        dtypes = {
            keras.backend.standardize_dtype(loss.dtype) for loss in model.losses
        }
        assert dtypes == {"float64"}
        targets = 0 * model.predict(data, verbose=0)
        assert np.isfinite(model.train_on_batch(data, targets))
