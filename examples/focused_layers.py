"""Layers between the gates of a focused encoder and the answer."""

import keras
from keras import ops

# Of scores: below all there are, and how far closed gates' are above others.
LOWEST = -1e9
HIGHEST = 5.0


@keras.saving.register_keras_serializable(package="keras_seqmech_examples")
class GatedAttention(keras.layers.Layer):
    r"""Reads states as a query asks, and each as far as its gate is open.

    $$a_t = \frac{b_t \exp(q \cdot s_t / \sqrt{u})}
                 {\sum_i b_i \exp(q \cdot s_i / \sqrt{u})}, \quad
      r = \sum_t a_t s_t$$

    With hard gates that is attention over the states at open gates, and r is
    zeros if none is; soft ones get a gradient from it. With all gates open,
    or without `gates`, it is attention over all states.

    Call arguments:
        query: `(B, u)`.
        states: `(B, T, u)`.
        gates: `(B, T)`, from 0 (closed) to 1 (open).

    Returns:
        What is read, `(B, u)`, and the weights `(B, T)`.

    >>> read, weights = GatedAttention()(
    ...     np.ones((1, 4)), np.ones((1, 3, 4)), np.array([[0.0, 1.0, 1.0]])
    ... )
    >>> weights.numpy().tolist()
    [[0.0, 0.5, 0.5]]
    """

    def call(self, query, states, gates=None):
        scores = ops.squeeze(ops.matmul(states, query[:, :, None]), axis=-1)
        scores = scores / states.shape[-1] ** 0.5
        if gates is None:
            gates = ops.ones_like(scores)
        gates = ops.cast(gates, scores.dtype)
        highest = ops.max(
            ops.where(gates > 0, scores, LOWEST), axis=-1, keepdims=True
        )
        # The bound is for closed gates, which have a gradient here, too.
        heights = ops.minimum(scores - ops.stop_gradient(highest), HIGHEST)
        weights = gates * ops.exp(heights)
        total = ops.sum(weights, axis=-1, keepdims=True)
        weights = weights / ops.where(total > 0, total, 1)
        return ops.squeeze(ops.matmul(weights[:, None], states), 1), weights

    def compute_output_shape(self, query_shape, states_shape, gates_shape=None):
        return (states_shape[0], states_shape[2]), tuple(states_shape[:2])


@keras.saving.register_keras_serializable(package="keras_seqmech_examples")
class DecidedGates(keras.layers.Layer):
    r"""Hands on gates, and in training charges for undecided ones.

    $$\lambda \cdot \mathrm{mean}_t\, 4 p_t (1 - p_t)$$

    with p the probabilities of being open, in [0, 1] a gate. Where several
    steps would do, sparse gates share the work: each is open in a fifth of
    the draws, some are in every draw, and at inference, where gates are open
    above one half, none is. The charge makes one gate the one that opens.

    It has a gradient of its own, whatever the estimator. The variable
    `indecision_weight`, $\lambda$, starts at 0; a callback is to raise it
    once gates know what to decide.

    Call arguments:
        gates: `(B, T)`.
        probabilities: `(B, T)`.

    Returns:
        The gates.
    """

    def build(self, gates_shape, probabilities_shape):
        self.indecision_weight = self.add_weight(
            name="indecision_weight",
            shape=(),
            dtype="float32",
            initializer="zeros",
            trainable=False,
        )

    def call(self, gates, probabilities, training=False):
        if training:
            undecided = ops.mean(4 * probabilities * (1 - probabilities))
            self.add_loss(self.indecision_weight * undecided)
        return gates

    def compute_output_shape(self, gates_shape, probabilities_shape):
        return gates_shape
