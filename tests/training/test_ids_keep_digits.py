"""Models and layers around others pass on what they are given."""

import keras
import numpy as np
import pytest

from keras_seqmech import KeepMask
from keras_seqmech import ReceptiveFieldRNN
from keras_seqmech.serving import StreamingModel
from keras_seqmech.training import PolicyGradientModel

# Half precision makes 2908 or 2912 of the first two.
IDS = np.array([[2909, 2911, 1]])


def table(**options):
    return keras.layers.Embedding(3000, 2, name="table", **options)


def network(kind, layer):
    """Ids, their vectors, a recurrent layer."""
    ids = keras.Input((None,), dtype=kind, name="ids")
    outputs = layer(table()(ids))
    return keras.Model(ids, keras.tree.flatten(outputs)[0])


def policy(kind):
    cell = keras.layers.GRUCell(2)
    field = ReceptiveFieldRNN(cell, max_size=2, estimator="reinforce")
    return PolicyGradientModel(network(kind, field))


@pytest.mark.parametrize(
    "half, kind",
    [
        ("mixed_bfloat16", "float32"),
        pytest.param("mixed_float16", "float32", marks=pytest.mark.slow),
        pytest.param("mixed_bfloat16", "int32", marks=pytest.mark.slow),
    ],
)
def test_ids_keep_their_digits(half, kind):
    """In training; the rows that learn are those of the ids."""
    keras.config.set_dtype_policy(half)
    model = policy(kind)
    model.compile(keras.optimizers.SGD(1.0), "mse", run_eagerly=True)
    rows = model.network.get_layer("table").embeddings
    before = rows.numpy()
    model.fit(IDS.astype(kind), np.ones((1, 2)), verbose=0)
    changed = np.flatnonzero((rows.numpy() != before).any(axis=1))
    np.testing.assert_array_equal(changed, np.sort(IDS[0]))


@pytest.mark.long
def test_ids_keep_their_digits_in_streams_and_wrappers():
    keras.config.set_dtype_policy("mixed_bfloat16")
    lstm = keras.layers.LSTM(2, return_sequences=True, name="lstm")
    model = network("float32", lstm)
    stream = StreamingModel(model)
    ids = IDS.astype("float32")
    found, _ = stream.step({"ids": ids}, stream.start(1), end=True)
    np.testing.assert_array_equal(found["lstm"], model(IDS))
    # A `TimeDistributed` casts by itself, unless told not to.
    rows = keras.layers.TimeDistributed(table(), autocast=False)
    np.testing.assert_array_equal(
        KeepMask(rows)(ids[..., None]), rows(IDS[..., None])
    )
