"""A small layer that draws, and the exact gradient of models with it."""

import itertools

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_seqmech import PolicyGradientModel
from keras_seqmech.core.decisions import reports


@keras.saving.register_keras_serializable(package="tests")
class Gates(keras.Layer):
    """Bernoulli gates `(batch, time)` over a sequence, penalized."""

    def __init__(self, penalty_weight=0.0, seed=None, **kwargs):
        super().__init__(**kwargs)
        self.penalty_weight = penalty_weight
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)

    def build(self, shape):
        self.kernel = self.add_weight(name="kernel", shape=(shape[-1], 1))
        self.bias = self.add_weight(name="bias", shape=(1,))

    def logits(self, x):
        return ops.cast(
            ops.squeeze(ops.matmul(x, self.kernel) + self.bias, -1), "float32"
        )

    def call(self, x, training=None):
        logits = self.logits(x)
        if not training:
            return ops.cast(logits > 0, self.compute_dtype)
        noise = keras.random.uniform(
            ops.shape(logits), seed=self.seed_generator
        )
        gates = ops.cast(noise < ops.sigmoid(logits), "float32")
        penalty = self.penalty_weight * ops.sum(gates, axis=1)
        if self.penalty_weight:
            self.add_loss(ops.mean(penalty))
        reports.report_log_probability(
            self,
            ops.sum(log_probability(logits, gates), axis=1),
            penalty if self.penalty_weight else None,
        )
        return ops.cast(gates, self.compute_dtype)

    def compute_output_shape(self, shape):
        return shape[:-1]

    def get_config(self):
        config = {"penalty_weight": self.penalty_weight, "seed": self.seed}
        return {**super().get_config(), **config}


@keras.saving.register_keras_serializable(package="tests")
class GatedSum(keras.Layer):
    """The sum of the steps whose gates are open."""

    def call(self, x, gates):
        return ops.sum(x * ops.cast(gates, x.dtype)[..., None], axis=1)


def log_probability(logits, gates):
    return -ops.softplus(ops.where(gates > 0, -logits, logits))


def gated_network(length=4, penalty_weight=0.0):
    """Gates, the sum of what they let pass, a dense layer."""
    x = keras.Input((length, 3), name="x")
    gates = Gates(penalty_weight=penalty_weight, name="gates")(x)
    y = keras.layers.Dense(1, name="dense")(GatedSum(name="sum")(x, gates))
    return keras.Model(x, y, name="gated")


def gated_model(length=4, penalty_weight=0.0, **kwargs):
    """A `gated_network` that is trained by policy gradient."""
    return PolicyGradientModel(gated_network(length, penalty_weight), **kwargs)


def all_gates(length):
    """Every sequence of gates, `(2 ** length, length)`."""
    return np.array(list(itertools.product([0, 1], repeat=length)), "float32")


def exact_gradient(model, x, y, share):
    """That of the expected loss of a `gated_network`, over all its gates.

    Args:
        model: A `gated_network`, or a `gated_model`.
        x: Array `(batch, time, 3)`.
        y: Array `(batch, 1)`.
        share: Array `(batch,)`: the factor of an example's squared error in
            the compiled loss.

    Returns:
        The gradients of its trainable variables.
    """
    network = getattr(model, "network", model)
    layer, dense = network.get_layer("gates"), network.get_layer("dense")
    gates = all_gates(x.shape[1])
    with tf.GradientTape() as tape:
        logits = layer.logits(x)[:, None]
        probability = tf.exp(
            tf.reduce_sum(log_probability(logits, gates[None]), -1)
        )
        sums = tf.einsum("gt,btd->bgd", gates, x)
        error = (sums @ dense.kernel + dense.bias - y[:, None])[..., 0] ** 2
        penalty = layer.penalty_weight * tf.reduce_sum(gates, -1) / len(x)
        expected = tf.reduce_sum(
            probability * (share[:, None] * error + penalty[None])
        )
    return tape.gradient(expected, model.trainable_variables)


def flat(gradients):
    return np.concatenate([np.ravel(gradient) for gradient in gradients])
