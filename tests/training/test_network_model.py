"""Models and layers around others pass on what they are given."""

import keras
import numpy as np
import pytest

from keras_seqmech import KeepMask
from keras_seqmech import ReceptiveFieldRNN
from keras_seqmech.serving import StreamingModel
from keras_seqmech.training import DistillationModel
from keras_seqmech.training import GradientDirectedModel
from keras_seqmech.training import PolicyGradientModel
from keras_seqmech.training import TruncatedBackpropagationModel

# Half precision makes 2908 or 2912 of the first two.
IDS = np.array([[2909, 2911, 1]])
OPTIONS = {"return_sequences": True, "return_state": True}


def table(**options):
    return keras.layers.Embedding(3000, 2, name="table", **options)


def network(kind, layer):
    """Ids, their vectors, a recurrent layer."""
    ids = keras.Input((None,), dtype=kind, name="ids")
    outputs = layer(table()(ids))
    return keras.Model(ids, keras.tree.flatten(outputs)[0])


def distillation(kind):
    student, teacher = (network(kind, keras.layers.LSTM(2)) for _ in range(2))
    return DistillationModel(student, teacher)


def policy(kind):
    cell = keras.layers.GRUCell(2)
    field = ReceptiveFieldRNN(cell, max_size=2, estimator="reinforce")
    return PolicyGradientModel(network(kind, field))


def directed(kind):
    return GradientDirectedModel(
        network(kind, keras.layers.LSTM(2)), layer="table"
    )


def truncated(kind):
    return TruncatedBackpropagationModel(
        network(kind, keras.layers.LSTM(2, **OPTIONS)), chunk_length=2
    )


@pytest.mark.parametrize(
    "half, kind",
    [
        ("mixed_bfloat16", "float32"),
        pytest.param("mixed_float16", "float32", marks=pytest.mark.slow),
        pytest.param("mixed_bfloat16", "int32", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("make", [distillation, policy, directed, truncated])
def test_ids_keep_their_digits(make, half, kind):
    """In training; the rows that learn are those of the ids."""
    keras.config.set_dtype_policy(half)
    model = make(kind)
    loss = None if make is distillation else "mse"
    model.compile(keras.optimizers.SGD(1.0), loss, run_eagerly=True)
    trained = model.student if make is distillation else model.network
    rows = trained.get_layer("table").embeddings
    before = rows.numpy()
    targets = np.ones((1, 3, 2) if make is truncated else (1, 2))
    model.fit(IDS.astype(kind), targets, verbose=0)
    changed = np.flatnonzero((rows.numpy() != before).any(axis=1))
    np.testing.assert_array_equal(changed, np.sort(IDS[0]))


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
