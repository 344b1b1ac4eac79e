"""What `_keras_compat` takes from Keras and TensorFlow is still so."""

import tensorflow as tf

from keras_seqmech import _keras_compat


def test_in_xla_is_known_in_loops_and_inner_functions():
    """If this fails: find how TensorFlow marks functions traced for XLA.

    `tf.cond` and `tf.while_loop` ask the same, to decide whether they lower
    themselves to switches. Without an answer `in_xla` may return True
    everywhere: results stay equal, and shortened sequences get the length of
    whole ones.
    """
    seen = []

    @tf.function
    def inner(x):
        seen.append(_keras_compat.in_xla())
        return x

    def outer(x):
        seen.append(_keras_compat.in_xla())
        (x,) = tf.while_loop(lambda x: x < 3, lambda x: [inner(x) + 1], [x])
        return inner(x)

    tf.function(outer)(tf.constant(0))
    assert seen and not any(seen)
    seen.clear()
    tf.function(outer, jit_compile=True)(tf.constant(0))
    assert seen and all(seen)
    assert not _keras_compat.in_xla()
