"""Models with and without gates: what they read, what is measured."""

import pytest

from examples.common.networks import network_of
from examples.focused import models
from examples.focused import picking
from tests.examples.focused.small_models import small

pytestmark = pytest.mark.long


def test_gates_as_drawn():
    """By probabilities of about 0.75: open if hard, some of them if drawn."""
    args = picking.PROGRAM.parse(small("unused"))
    test = picking.picking.examples(200, 6)
    model = picking.build("fhe", "reinforce", args)
    network_of(model).get_layer("encoder").gate.output_bias.assign_add(1.1)
    for _ in range(2):
        found = models.measure_others(
            model, lambda: models.measure(models.probe(model), *test, 100)
        )
        # Six standard deviations, and what the weights do at first.
        assert found["drawn_openness"] == pytest.approx(0.75, abs=0.15)
        assert 0 < found["drawn_accuracy"] < 1
        assert found["summed_openness"] == pytest.approx(0.75, abs=0.15)
        measured = models.measure(models.probe(model), *test, 100)
        assert measured["openness"] > 0.97
    lstm = picking.build("lstm1", "", args)
    assert models.measure_others(lstm, lambda: {"accuracy": 1.0}) == {}
