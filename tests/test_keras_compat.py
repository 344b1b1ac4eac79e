"""What `_keras_compat` takes from Keras and TensorFlow is still so."""

import functools
import gc
import weakref

import numpy as np
import pytest
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


def test_in_control_flow_is_known_in_bodies_and_branches():
    """If this fails: find of what class the graphs of bodies are now."""
    seen = []

    def note(x):
        seen.append(_keras_compat.in_control_flow())
        return x + 1

    @tf.function
    def run(x):
        tf.cond(x < 1, lambda: note(x), lambda: note(x))
        tf.while_loop(lambda x: x < 1, note, [x])
        tf.map_fn(note, tf.range(2))

    run(tf.constant(0))
    assert len(seen) >= 4 and all(seen)
    seen.clear()
    tf.function(note)(tf.constant(0))
    note(tf.constant(0))
    assert seen == [False, False]


@pytest.mark.parametrize(
    "compile_",
    [
        lambda f: f,
        tf.function,
        functools.partial(tf.function, jit_compile=True),
    ],
)
def test_is_recomputed_is_known_in_the_first_run(compile_):
    """If this fails: find what `tf.recompute_grad` changes around that run."""
    seen = []

    @tf.recompute_grad
    def square(x):
        seen.append(_keras_compat.is_recomputed())
        return x**2

    def derivative(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = square(x)
        seen.append(_keras_compat.is_recomputed())
        return tape.gradient(y, x)

    assert compile_(derivative)(tf.constant(3.0)) == 6
    assert seen == [True, False, False]


def _tripled(x):
    """Identity whose gradient is three times that of the identity."""

    @_keras_compat.custom_gradient
    def same(x, unused):
        def gradient(upstream):
            return 3 * upstream, tf.zeros_like(unused)

        return tf.identity(x), gradient

    return same(x, tf.constant([1, 2]))


def _derivative(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(_tripled(x) ** 2)
    return tape.gradient(y, x)


def _derivative_by_graph(x):
    return tf.gradients(tf.reduce_sum(_tripled(x) ** 2), x)[0]


def _derivative_of_loop(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        _, y = tf.while_loop(
            lambda i, y: i < 1,
            lambda i, y: (i + 1, _tripled(y) ** 2),
            (0, x),
            maximum_iterations=1,
        )
    return tape.gradient(y, x)


def _derivative_of_function(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.function(lambda x: _tripled(x) ** 2)(x)
    return tape.gradient(y, x)


@pytest.mark.parametrize(
    "derivative",
    [
        _derivative,
        tf.function(_derivative),
        tf.function(_derivative_by_graph),
        tf.function(_derivative_of_loop),
        tf.function(_derivative_of_loop, jit_compile=True),
        _derivative_of_function,
        tf.function(_derivative_of_function),
        tf.function(_derivative, jit_compile=True),
    ],
)
def test_custom_gradient_is_used(derivative):
    """If this fails: find how tapes and graphs look a gradient up."""
    x = tf.constant([1.0, 2.0])
    np.testing.assert_array_equal(derivative(x), [6.0, 12.0])


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function])
def test_custom_gradient_has_a_second_one(wrap):
    @wrap
    def second(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            first = _derivative(x)
        return tape.gradient(first, x)

    np.testing.assert_array_equal(second(tf.constant([1.0, 2.0])), [18.0, 18.0])


def test_custom_gradient_is_freed_with_its_graph():
    """If this fails: something holds the graphs of all models trained."""
    function = tf.function(_derivative)
    graph = weakref.ref(function.get_concrete_function(tf.ones([2])).graph)
    assert graph() is not None
    del function
    gc.collect()
    assert graph() is None


def test_custom_gradient_refuses_to_read_variables():
    variable = tf.Variable([1.0])

    @tf.function
    def run(x):
        function = _keras_compat.custom_gradient(
            lambda x: (x * variable, lambda upstream: upstream)
        )
        return function(x)

    with pytest.raises(ValueError, match="trainable variables as arguments"):
        run(tf.constant([1.0]))


def test_exported_graph_refuses_a_gradient(tmp_path):
    module = tf.Module()
    module.run = tf.function(
        lambda x: _tripled(x) + _tripled(x[:, :1]),
        input_signature=[tf.TensorSpec([None, 2])],
    )
    tf.saved_model.save(module, tmp_path)
    loaded = tf.saved_model.load(tmp_path)
    x = tf.constant([[1.0, 2.0]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = loaded.run(x)
    np.testing.assert_array_equal(y, [[2.0, 3.0]])
    with pytest.raises(tf.errors.InvalidArgumentError, match="exported model"):
        tape.gradient(y, x)
