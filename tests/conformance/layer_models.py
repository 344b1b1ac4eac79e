"""A model to train around each layer of the registry, and data for it."""

import keras
import numpy as np

import keras_seqmech
from keras_seqmech import DecisionPenalties
from keras_seqmech.testing import subject
from tests.conformance.registry import FACTS

# Half of the rows a device: 9 real steps against 4, one row without any.
MASK = np.array(
    [
        [1, 1, 1, 1],
        [1, 1, 0, 0],
        [0, 1, 1, 1],
        [0, 1, 0, 1],
        [0, 0, 0, 0],
        [1, 1, 0, 0],
    ],
    "float32",
)
# As many real steps a device: what decisions cost is a mean over those of a
# replica.
EVEN_MASK = MASK * [[1], [1], [0], [1], [0], [1]] + np.array(
    [[0] * 4, [0] * 4, [0] * 4, [0] * 4, [0, 1, 1, 0], [0] * 4]
)


def make_model(entry) -> keras.Model:
    """The layer of an entry, with statistics, on top of a linear one."""
    public = entry.make(name="watched", **statistics(entry))
    layer = entry.wrap(public)
    inputs = {
        a.name: keras.Input(a.shape, name=a.name) for a in entry.arguments
    }
    # Under a strategy `fit` takes the mean of inputs: all are floats.
    given = {name: keras.Input((None,), name=name) for name in entry.masks}
    masks = {name: keras.ops.cast(x, "bool") for name, x in given.items()}
    first = entry.arguments[0]
    below = keras.layers.Dense(
        first.shape[-1], kernel_regularizer=keras.regularizers.L2(0.01)
    )
    example = entry.sample()
    values = {
        name: keras.ops.cast(x, example[name].dtype.name)
        for name, x in inputs.items()
    }
    values[first.name] = below(inputs[first.name])
    outputs = subject.name_outputs(subject.call_layer(layer, values, masks))
    # Free of masks: Keras averages losses over the real steps of a replica. Of
    # rank 2 or more: it does not divide the loss of vectors among replicas.
    outputs = {
        name: keras.ops.expand_dims(x, -1) for name, x in outputs.items()
    }
    network = keras.Model({**inputs, **given}, outputs)
    if getattr(public, "estimator", None) == "reinforce":
        return keras_seqmech.PolicyGradientModel(network)
    return network


def statistics(entry) -> dict:
    """What a layer needs to count, if it can."""
    if FACTS[entry.layer_class].statistics:
        return {"track_statistics": True}
    return {}


def sample(entry) -> dict:
    """A batch for the model of an entry, with masks of all kinds."""
    inputs = entry.sample(*MASK.shape)
    penalties = getattr(entry.make(), "penalties", None)
    added = penalties and penalties != DecisionPenalties()
    mask = EVEN_MASK if added else MASK
    given = {**inputs, **dict.fromkeys(entry.masks, mask)}
    return {name: x.astype("float32") for name, x in given.items()}
