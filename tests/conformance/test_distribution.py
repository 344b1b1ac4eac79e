"""Every public layer on two devices, against one device on the whole batch.

The devices of a process are fixed before TensorFlow starts: one new process
trains all layers, and the tests here read what it found.
"""

import contextlib
import functools
import json
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_seqmech
from tests.conformance.layer_models import MASK
from tests.conformance.layer_models import make_model
from tests.conformance.layer_models import sample
from tests.conformance.registry import CORE
from tests.conformance.registry import FACTS
from tests.conformance.registry import LAYERS
from tests.conformance.registry import over
from tests.fixed_noise import silence
from tests.processes import run_python

pytestmark = pytest.mark.long

STEPS = 2
START = """
import sys
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(
    cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
from tests.conformance import test_distribution
test_distribution.main(sys.argv[1:])
"""


@functools.cache
def found(first: bool) -> dict:
    """What a process with two devices found, of `LAYERS` or of the others.

    TensorFlow's heap was corrupted in one of about five such processes, in
    none that trained one layer alone. What a signal kills is run once more.
    """
    names = [e.id for e in CORE if (e in LAYERS) == first]
    result = run(names)
    if result.returncode < 0:
        result = run(names)
    assert result.returncode == 0, result.stderr[-3000:]
    return json.loads(result.stdout.splitlines()[-1])


def run(names: list[str]) -> subprocess.CompletedProcess:
    # Devices wait for each other: each needs a thread.
    options = {"TF_NUM_INTEROP_THREADS": "4"}
    return run_python("-W", "ignore", "-c", START, *names, **options)


@over(CORE)
def test_two_devices_train_as_one(entry):
    """Weights after SGD are gradients; the layer below has the inputs'."""
    result = found(entry in LAYERS)[entry.id]
    assert result["replicas"] == 2
    for name, (one, two) in result["weights"].items():
        if name.endswith("/baseline"):
            # Each sum is of a replica's share; the baseline is their ratio.
            one, two = one[0] / one[1], two[0] / two[1]
        np.testing.assert_allclose(two, one, rtol=1e-4, atol=1e-6, err_msg=name)
    # Losses that layers add, and what they count.
    one, two = result["history"]
    assert one.keys() == two.keys()
    for name in one:
        np.testing.assert_allclose(
            two[name], one[name], rtol=1e-5, err_msg=name
        )
    for statistic in FACTS[entry.layer_class].statistics:
        name = f"watched_{statistic}"
        assert result["metrics"].count(name) == 1
        assert len(one[name]) == STEPS and np.isfinite(one[name]).all()
        # Untrained decisions may all be uncertain; some are not penalized.
        assert min(one[name]) > 0 or statistic in ("certain", "penalty")
    assert result["moved"] == result["trainable"]


def test_devices_draw_the_same_noise():
    """And so half as much of it as one device; none twice in a row."""
    first, second = found(True)["noise"]
    np.testing.assert_array_equal(*first)
    np.testing.assert_array_equal(*second)
    assert first != second


def train(entry, strategy=None) -> tuple[keras.Model, list, dict]:
    """The model after two steps of `fit`, its first weights, its history."""
    # What is asked of the layer once draws weights of its own.
    make_model(entry)
    keras.utils.clear_session(free_memory=False)
    keras.utils.set_random_seed(0)
    with strategy.scope() if strategy else contextlib.nullcontext():
        model = make_model(entry)
        model.compile(
            keras.optimizers.SGD(0.1), "mse", run_eagerly=strategy is None
        )
    start = model.get_weights()
    inputs = sample(entry)
    targets = keras.tree.map_structure(np.ones_like, model(inputs))
    data = tf.data.Dataset.from_tensor_slices((inputs, targets))
    history = model.fit(data.batch(len(MASK)), epochs=STEPS, verbose=0).history
    return model, start, history


def compare(entry, strategy) -> dict:
    one, start, history = train(entry)
    two, same_start, two_history = train(entry, strategy)
    for a, b in zip(start, same_start, strict=True):
        np.testing.assert_array_equal(a, b)
    pairs = zip(one.get_weights(), two.get_weights(), strict=True)
    ends = {
        f"{i}-{variable.path}": [x.tolist() for x in pair]
        for i, (variable, pair) in enumerate(zip(one.weights, pairs))
    }
    names = [variable.path for variable in one.trainable_variables]
    moved = {
        variable.path
        for variable, before in zip(one.weights, start)
        if (before != variable.numpy()).any()
    }
    return {
        "replicas": two.distribute_strategy.num_replicas_in_sync,
        "weights": ends,
        "history": [history, two_history],
        # What `evaluate` returns, and prints.
        "metrics": [metric.name for metric in two.metrics],
        "trainable": sorted(names),
        "moved": sorted(moved.intersection(names)),
    }


def draw(strategy) -> list:
    """Fields of two calls of a layer, the same row on each device."""
    with strategy.scope():
        layer = keras_seqmech.ReceptiveFieldRNN(
            keras.layers.SimpleRNNCell(2), max_size=4, return_field=True
        )
        layer.build((None, None, 2))
    x = tf.ones((1, 5, 2))

    @tf.function
    def sizes():
        return strategy.run(lambda: layer(x, training=True)[-1]["size"])

    return [
        [value.numpy().tolist() for value in sizes().values] for _ in range(2)
    ]


def main(names) -> None:
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    found = {"noise": draw(strategy)}
    silence(pytest.MonkeyPatch())
    for entry in CORE:
        if entry.id in names:
            print(entry.id, file=sys.stderr)
            found[entry.id] = compare(entry, strategy)
    print(json.dumps(found))
