"""SavedModels with the page's signatures whose answers are known."""

import tensorflow as tf


def save(model, directory, **inputs):
    """Exports `model.ask` as version 3 of a folder; returns the folder."""
    function = tf.function(
        model.ask,
        input_signature=[
            tf.TensorSpec(shape, dtype, name=name)
            for name, (shape, dtype) in inputs.items()
        ],
    )
    tf.saved_model.save(model, str(directory / "3"), function)
    return directory


class Pairs(tf.Module):
    """Every letter is its sound; every other one reads the next, too.

    Unless the weight is above 0.1: then none does.
    """

    def ask(self, letters, weight):
        first = tf.range(tf.shape(letters)[1]) % 2 == 0
        patient = weight[:, tf.newaxis] <= 0.1
        sounds = tf.strings.strip(tf.strings.upper(letters))
        sizes = tf.where(first & patient, 2.0, 1.0)
        return {"sounds": sounds, "size": sizes}


class LastOfK(tf.Module):
    """Says the k-th digit, which alone passes; at most 12 digits."""

    def ask(self, tokens, k):
        tf.debugging.assert_less_equal(tf.shape(tokens)[1], 12)
        at = tf.one_hot(k - 1, tf.shape(tokens)[1])
        digit = tf.reduce_sum(tf.cast(tokens, "float32") * at, axis=1)
        logits = tf.one_hot(tf.cast(digit, "int32"), 10)
        return {"logits": logits, "gates": at, "focus": 0.5 * at}


class Length(tf.Module):
    """A percent a character."""

    def ask(self, title):
        length = tf.strings.length(title, "UTF8_CHAR")
        return {"probability": tf.cast(length, "float32") / 100}


def save_all(directory):
    """The three, in folders named as the options of the page."""
    return {
        "sounds": save(
            Pairs(),
            directory / "sounds",
            letters=([None, None], "string"),
            weight=([None], "float32"),
        ),
        "picking": save(
            LastOfK(),
            directory / "picking",
            tokens=([None, None], "int32"),
            k=([None], "int32"),
        ),
        "titles": save(
            Length(), directory / "titles", title=([None], "string")
        ),
    }
