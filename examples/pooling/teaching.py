"""A loss that teaches an LSTM: directed gradients.

Source: "Analyzing the Learnability and Representability of Recurrent
Architectures", section 2.2.7.
"""

from typing import Any

import keras
import tensorflow as tf
from keras import ops


class GradientDirectedModel(keras.Model):
    r"""Trains a classifier with a loss that penalizes unequal gradients.

    $$\ell = \ell_1 + \lambda\, KL(p \,\|\, u), \qquad
      p_t = \frac{\lVert \partial \ell_1 / \partial x_t \rVert}
                 {\sum_s \lVert \partial \ell_1 / \partial x_s \rVert}$$

    with $\ell_1$ the compiled loss, $x$ the input of the layer `rnn` and $u$
    uniform over the real words of a text: the mean over texts. $\lambda$ is the
    variable `gradient_weight`. The `network` is a `classifiers.connect` graph
    whose LSTM does not use cuDNN, which has no second derivative.
    """

    def __init__(self, network: keras.Model, gradient_weight: float):
        super().__init__()
        self.network = network
        x, mask = network.get_layer("rnn").input
        outputs = [x, mask, network.output]
        self.probe = keras.Model(network.input, outputs)
        self.gradient_weight = self.add_weight(
            name="gradient_weight",
            shape=(),
            initializer=keras.initializers.Constant(gradient_weight),
            trainable=False,
        )

    def call(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        return self.network(inputs, training=training)

    def train_step(self, data: Any) -> dict:
        ids, labels = data
        with tf.GradientTape() as tape:
            with tf.GradientTape() as inner:
                x, mask, outputs = self.probe(ids, training=True)
                loss = self.compute_loss(ids, labels, outputs)
            slopes = inner.gradient(loss, x)
            divergence = ops.mean(gradient_divergence(slopes, mask))
            directed = self.gradient_weight * divergence
            loss = loss + ops.cast(directed, loss.dtype)
        variables = self.trainable_variables
        self.optimizer.apply(tape.gradient(loss, variables), variables)
        logs = self.compute_metrics(ids, labels, outputs)
        # Those of this batch.
        return {**logs, "loss": loss, "gradient_divergence": divergence}


def gradient_divergence(slopes: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    r"""How far the norms of gradients are from equal, $KL(p \,\|\, u)$.

    Of `(batch, time, features)`, over the n real positions of each row:
    between 0 (all norms equal) and log n (one position has the whole gradient);
    0 in rows without a gradient. Where it is finite, so is its own gradient.

    >>> slopes = np.array([[[3.0, 4.0], [0.0, 5.0]], [[1.0, 0.0], [0.0, 0.0]]])
    >>> gradient_divergence(slopes, np.ones((2, 2), bool)).numpy().round(4)
    array([0.    , 0.6931])
    """
    slopes = ops.where(mask[:, :, None], slopes, 0)
    largest = ops.max(ops.abs(slopes), axis=(1, 2), keepdims=True)
    # Squares neither overflow nor vanish; the scale cancels in p.
    scaled = slopes / ops.stop_gradient(_or_one(largest))
    squares = ops.sum(ops.square(scaled), axis=-1)
    norms = ops.where(squares > 0, ops.sqrt(_or_one(squares)), 0)
    p = norms / _or_one(ops.sum(norms, axis=1, keepdims=True))
    count = ops.sum(ops.cast(mask, p.dtype), axis=1, keepdims=True)
    return ops.sum(p * ops.log(_or_one(p * count)), axis=1)


def _or_one(x: tf.Tensor) -> tf.Tensor:
    """1 in place of 0: nothing divides by 0, nor does a gradient."""
    return ops.where(x > 0, x, ops.ones_like(x))
