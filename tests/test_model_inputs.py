"""Inputs of a functional model of several, in every form that Keras takes."""

import keras
import numpy as np
import pytest
from keras import layers

import keras_seqmech
from keras_seqmech import analysis
from keras_seqmech import serving
from keras_seqmech import training
from keras_seqmech.serving import signature

# Sorted, the names have another order; all inputs have one shape.
ARRAYS = dict(
    zip(
        ["words", "notes", "more"],
        np.random.default_rng(0).normal(size=(3, 2, 4, 3)).astype("float32"),
    )
)
TARGETS = np.ones((2, 4, 1), "float32")


def network(structure, end=None):
    """A model that reads its three inputs unequally."""
    keras.utils.set_random_seed(0)
    inputs = [keras.Input((None, 3), name=name) for name in ARRAYS]
    words, notes, more = inputs
    mixed = layers.Identity(name="mixed")(words + 2 * notes)
    rnn = layers.GRU(3, return_sequences=True, return_state=True)
    outputs = layers.Dense(1, name="head")(rnn(mixed)[0] + 3 * more)
    given = (
        dict(zip(ARRAYS, inputs)) if structure is dict else structure(inputs)
    )
    return keras.Model(given, outputs if end is None else end()(outputs))


def streamed(structure, inputs):
    stream = serving.StreamingModel(network(structure))
    return stream.step(inputs, stream.start(2), end=True)[0]["head"]


def exported(structure, inputs):
    model = network(structure)
    specs = signature.input_specs(model)
    return signature.example(model, specs, inputs)


FUNCTIONS = {
    "decisions": lambda structure, inputs: analysis.decisions(
        network(structure, keras_seqmech.AttentionPooling), inputs
    ),
    "mask_report": lambda structure, inputs: [
        layer.change
        for layer in analysis.mask_report(network(structure), inputs).layers
    ],
    "StreamingModel": streamed,
    "export_model": exported,
    "PolicyGradientModel": lambda structure, inputs: (
        training.PolicyGradientModel(network(structure))(inputs)
    ),
}


@pytest.mark.filterwarnings("ignore:When providing `inputs` as a dict")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_inputs_are_matched_by_name_or_order(name):
    function = FUNCTIONS[name]
    backwards = dict([*ARRAYS.items()][::-1])
    more = {"another": ARRAYS["more"], **ARRAYS}
    expected = keras.tree.flatten(function(list, [*ARRAYS.values()]))
    for structure, inputs in (
        (list, backwards),
        (list, tuple(ARRAYS.values())),
        (tuple, more),
        (dict, backwards),
        (dict, more),
    ):
        found = keras.tree.flatten(function(structure, inputs))
        for here, there in zip(found, expected, strict=True):
            np.testing.assert_allclose(here, there, rtol=1e-4, atol=1e-6)
    for structure, inputs in (
        (list, dict(zip("abc", ARRAYS.values()))),
        (dict, [*ARRAYS.values()]),
        (dict, {"words": ARRAYS["words"], "more": ARRAYS["more"]}),
    ):
        with pytest.raises(
            ValueError, match="`(inputs|example|example_inputs)` must.*notes"
        ):
            function(structure, inputs)
