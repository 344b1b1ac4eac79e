"""Small SavedModels that take texts."""

import pathlib

import tensorflow as tf


class Letters(tf.Module):
    """Counts what a text holds, with an output of each kind."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def __call__(self, text):
        letters = tf.strings.unicode_split(text, "UTF-8")
        count = tf.cast(letters.row_lengths(), tf.float32)
        return {
            "count": tf.cast(letters.row_lengths(), tf.int32),
            "half": tf.cast(count / 2, tf.bfloat16),
            "is_long": count > 3,
            "letters": letters.to_tensor(""),
            "powers": tf.stack([count, count**2], axis=1),
        }


class Slow(tf.Module):
    """Takes its time: many products of matrices for each batch."""

    def __init__(self, steps: int):
        super().__init__()
        self.weights = tf.Variable(tf.random.normal([256, 256], seed=1) / 16)
        self.steps = steps

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def __call__(self, text):
        x = tf.one_hot(tf.strings.to_hash_bucket_fast(text, 256), 256)
        for _ in tf.range(self.steps):
            x = tf.tanh(x @ self.weights)
        return {"score": tf.reduce_mean(x, axis=-1)}


def save(module: tf.Module, path: pathlib.Path) -> pathlib.Path:
    """Saves a module's call as `serving_default`."""
    tf.saved_model.save(
        module, str(path), signatures={"serving_default": module.__call__}
    )
    return path


def save_function(function, specs, path: pathlib.Path) -> pathlib.Path:
    """Saves a function of tensors as `serving_default`."""
    module = tf.Module()
    module.call = tf.function(function, input_signature=specs)
    tf.saved_model.save(
        module, str(path), signatures={"serving_default": module.call}
    )
    return path
