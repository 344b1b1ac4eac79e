"""Draws that a test decides on, in place of those of TensorFlow Probability."""

from typing import Any

import tensorflow as tf

from keras_seqmech.core.decisions import choices

# What `sampling` draws with.
DRAWS = ("gumbel_noise", "relaxed_one_hot", "relaxed_gates", "hard_gates")


def fix_sizes(monkeypatch, noise) -> None:
    """Gives all choices among several this Gumbel noise.

    Args:
        monkeypatch: The fixture of pytest.
        noise: Function of a shape and a dtype that returns the noise.
    """

    def gumbel_noise(shape, seed_generator, dtype="float32") -> Any:
        return tf.cast(noise(shape, dtype), dtype)

    def relaxed_one_hot(logits, temperature, seed_generator) -> Any:
        scores = logits + noise(tf.shape(logits), logits.dtype)
        return tf.nn.softmax(scores / tf.cast(temperature, logits.dtype))

    monkeypatch.setattr(choices, "gumbel_noise", gumbel_noise)
    monkeypatch.setattr(choices, "relaxed_one_hot", relaxed_one_hot)


def fix_gates(monkeypatch, noise) -> None:
    """Gives all gates and emissions this logistic noise, an array."""

    def relaxed_gates(logits, temperature, seed_generator) -> Any:
        scores = logits + tf.cast(noise, logits.dtype)
        return tf.sigmoid(scores / tf.cast(temperature, logits.dtype))

    def hard_gates(probabilities, seed_generator) -> Any:
        log_odds = tf.math.log(probabilities) - tf.math.log1p(-probabilities)
        return log_odds + tf.cast(noise, probabilities.dtype) > 0

    monkeypatch.setattr(choices, "relaxed_gates", relaxed_gates)
    monkeypatch.setattr(choices, "hard_gates", hard_gates)


def silence(monkeypatch) -> None:
    """Takes the noise out of training: all that is drawn is zero."""
    fix_sizes(monkeypatch, lambda shape, dtype: tf.zeros(shape, dtype))
    fix_gates(monkeypatch, 0.0)
