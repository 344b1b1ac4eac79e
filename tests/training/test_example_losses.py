import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_seqmech.training.example_losses import LossRecorder

RNG = np.random.default_rng(0)
TARGETS = RNG.normal(size=(3, 4)).astype("float32")
OUTPUTS = RNG.normal(size=(3, 4)).astype("float32")
SQUARES = (TARGETS - OUTPUTS) ** 2
ABSOLUTES = np.abs(TARGETS - OUTPUTS)
WEIGHTS = np.array([0.0, 0.5, 2.0], "float32")


def absolute_error(y_true, y_pred):
    return ops.mean(ops.abs(y_true - y_pred), axis=-1)


class Distance:
    """A loss that is neither a function nor a `keras.losses.Loss`."""

    def __call__(self, y_true, y_pred):
        return absolute_error(y_true, y_pred)


class StepwiseError(keras.losses.Loss):
    """A squared error for each step, of series of numbers."""

    def call(self, y_true, y_pred):
        return (y_true - y_pred) ** 2


def compiled(loss, outputs=1, **settings):
    """A model that returns its inputs, and what records its losses."""
    inputs = [keras.Input((4,), name=f"in{i}") for i in range(outputs)]
    made = [
        keras.layers.Activation("linear", name=f"out{i}")(part)
        for i, part in enumerate(inputs)
    ]
    model = keras.Model(inputs, made if outputs > 1 else made[0])
    recorder = LossRecorder()
    model.compile(loss=recorder.recorded(loss), **settings)
    return model, recorder


def shares(compiled, y, y_pred, sample_weight=None, rtol=1e-5):
    """Total, losses and weights, the last two not yet times the batch."""
    model, recorder = compiled
    with recorder.recording() as values:
        total = model.compute_loss(
            y=y, y_pred=y_pred, sample_weight=sample_weight
        )
    losses, weights = values.shares(total)
    np.testing.assert_allclose(np.mean(losses), total, rtol=rtol)
    count = len(losses)
    return total.numpy(), losses.numpy() / count, weights.numpy() / count


@pytest.mark.parametrize(
    "loss, sample_weight",
    [
        ("mae", None),
        ("MeanAbsoluteError", WEIGHTS),
        (keras.losses.MeanAbsoluteError, None),
        (absolute_error, WEIGHTS),
        (Distance(), WEIGHTS),
    ],
    ids=["name", "class_name", "class", "function", "callable"],
)
def test_losses_of_every_kind(loss, sample_weight):
    total, losses, weights = shares(
        compiled(loss), TARGETS, tf.constant(OUTPUTS), sample_weight
    )
    expected = (np.ones(3) if sample_weight is None else WEIGHTS) / 3
    np.testing.assert_allclose(weights, expected, rtol=1e-6)
    np.testing.assert_allclose(
        losses, expected * ABSOLUTES.mean(axis=1), rtol=1e-6
    )
    plain = keras.losses.MeanAbsoluteError()(TARGETS, OUTPUTS, sample_weight)
    assert total == plain.numpy()


@pytest.mark.parametrize(
    ("reduction", "share"),
    [
        ("sum", WEIGHTS),
        ("mean", WEIGHTS / 12),
        ("sum_over_batch_size", WEIGHTS / 12),
        ("mean_with_sample_weight", WEIGHTS / (4 * WEIGHTS.sum())),
    ],
)
def test_reductions(reduction, share):
    """Of a loss for each step; sample weights for each step, too."""
    by_step = np.repeat(WEIGHTS[:, None], 4, axis=1)
    loss = StepwiseError(reduction=reduction)
    total, losses, weights = shares(
        compiled(loss), TARGETS, tf.constant(OUTPUTS), by_step
    )
    np.testing.assert_allclose(weights, 4 * share, rtol=1e-6)
    np.testing.assert_allclose(losses, share * SQUARES.sum(axis=1), rtol=1e-5)
    plain = StepwiseError(reduction=reduction)(TARGETS, OUTPUTS, by_step)
    assert total == plain.numpy()


def test_masks_of_keras():
    x = np.ones((2, 3, 1), "float32")
    x[0, 1:] = 0
    inputs = keras.Input((3, 1))
    model = keras.Model(inputs, keras.layers.Masking()(inputs))
    recorder = LossRecorder()
    model.compile(loss=recorder.recorded("mse"))
    made = shares((model, recorder), np.zeros((2, 3, 1)), model(x))
    # Four real steps, one of them in the first example; all errors are 1.
    np.testing.assert_allclose(made[1:], [[1 / 4, 3 / 4]] * 2, rtol=1e-6)


@pytest.mark.parametrize("kind", ["list", "dict"])
def test_several_outputs(kind):
    loss, factors = ["mse", "mae"], [0.5, 3.0]
    if kind == "dict":
        loss, factors = ({"out0": a, "out1": b} for a, b in (loss, factors))
    made = compiled(loss, outputs=2, loss_weights=factors)
    total, losses, weights = shares(
        made,
        [TARGETS, TARGETS],
        [tf.constant(OUTPUTS), tf.constant(OUTPUTS)],
        [WEIGHTS, np.ones(3, "float32")],
    )
    expected = 0.5 * WEIGHTS * SQUARES.mean(axis=1)
    expected += 3 * ABSOLUTES.mean(axis=1)
    np.testing.assert_allclose(losses, expected / 3, rtol=1e-5)
    np.testing.assert_allclose(weights, (0.5 * WEIGHTS + 3) / 3, rtol=1e-5)
    names = [metric.name for metric in made[0].metrics]
    assert names == ["loss", "out0_loss", "out1_loss"]


class Reduced(keras.losses.Loss):
    """Takes over the reduction: nothing is left for each example."""

    def __call__(self, y_true, y_pred, sample_weight=None):
        return ops.mean((y_true - y_pred) ** 2)


def test_a_loss_that_reduces_by_itself_is_named():
    loss = {"out0": "mse", "out1": Reduced(name="whole")}
    with pytest.raises(ValueError, match="'whole' of output 'out1' with a"):
        LossRecorder().recorded(loss)


def test_half_precision_and_whole_numbers():
    loss = keras.losses.MeanSquaredError(dtype="float16")
    _, losses, _ = shares(
        compiled(loss), TARGETS, tf.constant(OUTPUTS), rtol=1e-2
    )
    np.testing.assert_allclose(losses, SQUARES.mean(axis=1) / 3, rtol=1e-2)

    made = compiled(lambda y, p: tf.cast(y[:, 0] != p[:, 0], "int32"))
    _, losses, _ = shares(made, TARGETS, tf.constant(OUTPUTS))
    np.testing.assert_allclose(losses, np.ones(3) / 3, rtol=1e-6)


def test_losses_without_a_value_for_each_example_are_named():
    loss = {"out0": "mse", "out1": lambda y, p: (y - p)[:2] ** 2}
    outputs = [tf.constant(OUTPUTS)] * 2
    message = r"'mse' of output 'out0' of shape \(3,\), loss"
    with pytest.raises(ValueError, match=message):
        shares(compiled(loss, outputs=2), [TARGETS] * 2, outputs)
