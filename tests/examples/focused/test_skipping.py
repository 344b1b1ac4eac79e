"""Skipped steps: what is measured of gates, and of reviews."""

import keras
import numpy as np
import pytest

from examples.focused import skipping

# A few steps decide nothing.
pytestmark = pytest.mark.filterwarnings(
    "ignore:The decisions of layer 'encoder'"
)
SMALL = [
    *("--units", "5", "--lower-units", "3", "--length", "8"),
    *("--train-size", "30", "--test-size", "20", "--epochs", "2"),
    *("--batch-size", "10"),
]


def adding_data():
    args = skipping.PROGRAM.parse(SMALL)
    return args, skipping.load(args)


@pytest.mark.long
def test_what_is_measured():
    """Errors of the answers, and the gates that are likelier open."""
    args, data = adding_data()
    network = skipping.build("focused", "relaxed", data, args)
    x, y = data.test
    gate = network.get_layer("encoder").gate
    flat = keras.tree.flatten(network.get_layer("encoder").output)
    shown = keras.Model(network.input, flat[2])
    probabilities = shown.predict(x, verbose=0)
    logits = np.log(probabilities / (1 - probabilities))
    # So that a quarter is open.
    threshold = np.quantile(logits, 0.75)
    gate.output_bias.assign(gate.output_bias - threshold)
    probabilities = shown.predict(x, verbose=0)
    found = skipping.measure(network, data, batch_size=7)
    errors = (network.predict(x, verbose=0) - y) ** 2
    assert float(found["error"]) == pytest.approx(errors.mean(), rel=5e-3)
    updates = (probabilities > 0.5).sum(axis=1).mean()
    assert 1.5 < updates < 2.5
    assert float(found["updates"]) == pytest.approx(updates, abs=5e-3)
    assert found["steps"] == "8.00"
    others = skipping.measure_otherwise(network, data, batch_size=7)
    assert others.keys() == {
        f"{prefix}_{x}"
        for prefix in ("drawn", "summed")
        for x in ("error", "updates")
    }
    # Of 20 sequences of 8 gates, five standard deviations.
    spread = 5 * float((probabilities * (1 - probabilities)).sum()) ** 0.5 / 20
    expected = float(probabilities.sum(axis=1).mean())
    assert abs(expected - updates) > spread
    found_updates = float(others["drawn_updates"])
    assert found_updates == pytest.approx(expected, abs=spread)
    # Each of the sums rounded.
    rounded = np.floor(probabilities.sum(axis=1) + 0.5).mean()
    assert float(others["summed_updates"]) == pytest.approx(rounded, abs=5e-3)
    assert skipping.measure(network, data, batch_size=7) == found
    lstm = skipping.build("lstm", "", data, args)
    assert skipping.measure_otherwise(lstm, data, batch_size=7) == {}
