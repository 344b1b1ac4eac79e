"""The norm of the loss's gradient at each position of a text.

Source: "Analyzing the Learnability and Representability of Recurrent
Architectures", section 1.5.
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from examples.pooling import positions


class _BumpedCell(keras.layers.Layer):
    """Runs an LSTM's cell, and adds the last features to its output."""

    def __init__(self, cell: keras.layers.LSTMCell):
        super().__init__()
        self.cell = cell
        self.units = cell.units
        self.state_size = cell.state_size

    def build(self, input_shape: Any) -> None:
        pass  # The cell is built.

    def call(self, inputs: tf.Tensor, states: list) -> tuple:
        hidden, (_, memory) = self.cell(inputs[:, : -self.units], states)
        hidden = hidden + inputs[:, -self.units :]
        return hidden, [hidden, memory]


class GradientProbe:
    r"""Norms of $dL_b/dh_t$ at the states of a classifier's BiLSTM.

    The gradient at the output of a layer has the paths that leave the
    recurrence at t, but not those through $h_{t+1}$ and later steps. So the
    same cells run in loops in which each step adds $e_t = 0$ to $h_t$, before
    the output and the next step read it. Then $dL_b/de_t$ is the total
    $dL_b/dh_t$, here of both directions at position t.
    """

    def __init__(self, model: keras.Model):
        rnn = model.get_layer("rnn")
        self.front = keras.Model(model.input, rnn.input)
        _, mask = rnn.input
        self.back = keras.Model([rnn.output, mask], model.output)
        self.loops = [
            keras.layers.RNN(
                _BumpedCell(lstm.cell),
                return_sequences=True,
                go_backwards=lstm.go_backwards,
                zero_output_for_mask=lstm.zero_output_for_mask,
            )
            for lstm in (rnn.forward_layer, rnn.backward_layer)
        ]
        self.norms = tf.function(self._norms, reduce_retracing=True)

    def profile(self, ids: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Mean norms at 100 places of the real steps of texts."""
        norms, mask = (x.numpy() for x in self.norms(ids, labels))
        rows = zip(norms, mask)
        curves = [positions.stretch(row[real], 100) for row, real in rows]
        return np.mean(curves, axis=0)

    def _norms(self, ids: Any, labels: Any) -> tuple[tf.Tensor, tf.Tensor]:
        x, mask = self.front(ids)
        units = self.loops[0].cell.units
        shape = (*tf.unstack(tf.shape(x)[:2]), units)
        bumps = [tf.zeros(shape), tf.zeros(shape)]
        with tf.GradientTape() as tape:
            tape.watch(bumps)
            forward, backward = (
                loop(ops.concatenate([x, bump], axis=-1), mask=mask)
                for loop, bump in zip(self.loops, bumps)
            )
            backward = ops.flip(backward, axis=1)
            states = ops.concatenate([forward, backward], axis=-1)
            losses = keras.losses.sparse_categorical_crossentropy(
                labels, self.back([states, mask])
            )
        slopes = tape.gradient(losses, bumps)
        return tf.norm(tf.concat(slopes, axis=-1), axis=-1), mask


def vanishing_ratio(profile: np.ndarray) -> float:
    """Mean norm at positions 45 to 54 of 100, over that at the first position.

    At 1 nothing vanishes, at 0 no gradient reaches the middle (table 1.2).
    """
    middle = profile[45:55].mean()
    if profile[0] == 0:
        return 1.0 if middle == 0 else float("inf")
    return float(middle / profile[0])


class VanishingRatio(keras.callbacks.Callback):
    """Measures the vanishing ratio at fixed texts in training.

    Before the first step, at the end of each epoch, which logs it, and after
    each `every` steps unless that is 0.
    """

    def __init__(self, ids: np.ndarray, labels: np.ndarray, every: int = 0):
        super().__init__()
        self.texts = ids, labels
        self.every = every
        self.history: dict[str, list] = {"step": [], "vanishing_ratio": []}

    def on_train_begin(self, logs: Any = None) -> None:
        self.probe = GradientProbe(self.model)
        self._record()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        step = int(self.model.optimizer.iterations)
        if self.every and step % self.every == 0:
            self._record()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._record()
        logs["vanishing_ratio"] = self.history["vanishing_ratio"][-1]

    def _record(self) -> None:
        """Measures, unless this step has been measured."""
        step = int(self.model.optimizer.iterations)
        if self.history["step"][-1:] != [step]:
            ratio = vanishing_ratio(self.probe.profile(*self.texts))
            self.history["step"].append(step)
            self.history["vanishing_ratio"].append(ratio)
