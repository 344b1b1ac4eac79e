"""Models with and without gates: what they read, what is measured."""

import keras
import numpy as np
import pytest

from examples.common.networks import network_of
from examples.focused import models
from examples.focused import picking
from tests.examples.focused.small_models import small

pytestmark = pytest.mark.long


@pytest.mark.parametrize("name", models.LSTMS)
def test_a_model_that_is_told_reads_the_question_at_every_step(name):
    """With its weights 0 it is the model that is not told."""
    args = picking.PROGRAM.parse(small("unused"))
    asked, _ = picking.picking.examples(40, 6)
    told, plain = (picking.build(x, "", args) for x in (f"{name}_told", name))
    for layer in plain.layers:
        own = told.get_layer(layer.name).weights if layer.weights else []
        for weight, expected in zip(own, layer.get_weights(), strict=True):
            missing = weight.shape[0] - expected.shape[0]
            places = [(0, missing), *[(0, 0)] * (expected.ndim - 1)]
            weight.assign(np.pad(expected, places))
    logits = told.predict(asked, verbose=0)
    np.testing.assert_allclose(
        logits, plain.predict(asked, verbose=0), atol=1e-5
    )
    bottom = "lower" if name.startswith("lstm2") else "upper"
    kernel, *_ = told.get_layer(bottom).weights
    assert kernel.shape[0] == picking.DIGIT_SIZE + args.units
    # The first state depends on the question then.
    kernel.assign_add(0.1 * np.ones(kernel.shape))
    states = keras.Model(told.input, told.get_layer(bottom).output)
    other = {**asked, "k": asked["k"] % 6 + 1}
    first, second = (states.predict(x, verbose=0) for x in (asked, other))
    assert np.abs(first - second).reshape(len(first), -1).max(axis=1).all()


def test_gates_as_drawn():
    """By probabilities of about 0.75: open if hard, some of them if drawn."""
    args = picking.PROGRAM.parse(small("unused"))
    test = picking.picking.examples(200, 6)
    model = picking.build("fhe", "reinforce", args)
    network_of(model).get_layer("encoder").gate.output_bias.assign_add(1.1)
    for _ in range(2):
        found = models.measure_drawn(model, *test, 100)
        # Six standard deviations, and what the weights do at first.
        assert found["drawn_openness"] == pytest.approx(0.75, abs=0.15)
        assert 0 < found["drawn_accuracy"] < 1
        measured = models.measure(models.probe(model), *test, 100)
        assert measured["openness"] > 0.97
    lstm = picking.build("lstm1", "", args)
    assert models.measure_drawn(lstm, *test, 100) == {}
