"""The memory study: its model, loss and batches, and what is measured."""

import keras
import numpy as np
import pytest

from examples.subsampling import memory_task
from examples.tasks import memory

pytestmark = pytest.mark.long


def emission(e, length):
    """p(y_m = s_n) by the products of equations 1 and 2."""
    p = np.zeros((length, length))
    for n in range(length):
        p[0, n] = e[n] * np.prod(1 - e[:n])
        for m in range(1, length):
            p[m, n] = e[n] * sum(
                p[m - 1, j] * np.prod(1 - e[j + 1 : n]) for j in range(n)
            )
    return p


def test_the_length_of_sequences():
    grow = ["--curriculum", "length"]
    for options, accuracies, length in (
        (grow, [], 10),
        (grow, [0.79, 0.8, 0.5], 20),
        (grow, [0.9] * 3, 50),
        ([*grow, "--growth-accuracy", "0.9"], [0.8], 10),
        ([], [0.1, 0.9], 50),
    ):
        args = memory_task.PROGRAM.parse(options)
        curve = [{"train_accuracy": x} for x in accuracies]
        assert memory_task.training_length(curve, 50, args) == length


def test_shorter_batches_have_the_places_of_the_whole():
    args = memory_task.PROGRAM.parse(
        ["--curriculum", "length", "--batch-size", "8"]
    )
    (batch,) = memory_task.batches_of(5, 12, 3, 1, args).take(1)
    symbols, targets, weights = (x.numpy() for x in batch)
    assert symbols.shape == (8, 5) and weights.shape == (8, 6)
    wanted, mask = memory.answers(symbols)
    np.testing.assert_array_equal(targets[:, :2], wanted)
    np.testing.assert_array_equal(weights[:, :2], mask)
    assert not weights[:, 2:].any() and not targets[:, 2:].any()


@pytest.mark.parametrize("curriculum", memory_task.CURRICULA)
def test_all_outputs_are_learned(curriculum):
    """T of them, zeros after the last real one; a batch is that of its step."""
    args = memory_task.PROGRAM.parse(
        ["--outputs", "all", "--curriculum", curriculum, "--batch-size", "8"]
    )

    def read(step, count):
        data = memory_task.batches_of(5, 12, 3, step, args).take(count)
        return [[x.numpy() for x in batch] for batch in data]

    first, batches = read(0, 30), read(1, 29)
    counts = set()
    for (symbols, targets, weights), other in zip(first[1:], batches):
        for found, wanted in zip(other, (symbols, targets, weights)):
            np.testing.assert_array_equal(found, wanted)
        answers, _ = memory.answers(symbols)
        np.testing.assert_array_equal(targets[:, :2], answers)
        assert weights.shape == targets.shape == (8, 12)
        assert not targets[:, 2:].any()
        (count,) = {*weights.sum(axis=1)}
        assert (weights[0] == (np.arange(12) < count)).all()
        counts.add(int(count))
    assert counts == ({*range(1, 6)} if curriculum == "outputs" else {5})


def build(length, options):
    args = memory_task.PROGRAM.parse(options.split())
    return memory_task.build(length, args)


def test_model_is_that_of_the_equations():
    """Equations 1 to 4 with loops, from the states of the LSTM."""
    length, units = 6, 5
    symbols = memory.examples(4, length)[0]
    model = build(length, f"--units {units} --emission-bias 0.7")
    probed = memory_task.probe(model)
    kernel, bias = model.get_layer("emission").get_weights()
    assert bias == [np.float32(0.7)]
    found = probed.predict(symbols, verbose=0)
    states = keras.Model(model.input, model.get_layer("states").output)
    last_kernel, last_bias = model.get_layer("logits").get_weights()
    for row, s in enumerate(states.predict(symbols, verbose=0)):
        read = np.concatenate([s, np.eye(3)[symbols[row]]], axis=1)
        read = np.concatenate([np.zeros((1, units + 3)), read[:-1]])
        e = 1 / (1 + np.exp(-(read @ kernel[:, 0] + bias[0])))
        np.testing.assert_allclose(found["emissions"][row], e, rtol=1e-5)
        p = emission(e, length)[:3]
        logits = p @ s @ last_kernel + last_bias
        np.testing.assert_allclose(found["logits"][row], logits, atol=1e-5)
        matrix = memory_task.emission_matrix(probed, symbols[row])
        np.testing.assert_allclose(matrix, p, atol=1e-6)


def test_scores_by_hand():
    """Of outputs, whole sequences and T outputs, by equations 1 to 4."""
    symbols, targets, mask = test = memory.examples(30, 7)
    model = build(7, "--units 4 --emission-bias 0.5")
    found = memory_task.measure(memory_task.probe(model), test, 8)
    padded = memory_task.padded_accuracy(model, test, 8)
    right = model.predict(symbols, verbose=0).argmax(axis=-1) == targets
    assert found["accuracy"] == pytest.approx(right[mask].mean())
    whole = [r[m].all() for r, m in zip(right, mask)]
    assert found["sequence_accuracy"] == pytest.approx(np.mean(whole))
    parts = [model.get_layer(x).output for x in ("states", "emissions")]
    states, e = keras.Model(model.input, parts).predict(symbols, verbose=0)
    assert found["emitted"] == pytest.approx(e.sum() / mask.sum(), rel=1e-5)
    kernel, bias = model.get_layer("logits").get_weights()
    outputs = np.stack([emission(p, 7) @ s for p, s in zip(e, states)])
    expected = np.pad(targets, ((0, 0), (0, 7 - targets.shape[1])))
    answers = (outputs @ kernel + bias).argmax(axis=-1)
    assert padded == pytest.approx((answers == expected).mean())
