"""Gradients against difference quotients."""

import numpy as np
import tensorflow as tf


def gradient_and_difference(function, x):
    """Gradient along a random direction, and the difference quotient."""
    x = tf.constant(x)
    direction = np.random.default_rng(5).normal(size=x.shape)
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = tf.reduce_sum(tf.sin(function(x)))
    exact = tf.reduce_sum(tape.gradient(value, x) * direction)
    ends = [
        tf.reduce_sum(tf.sin(function(x + step * direction)))
        for step in (1e-6, -1e-6)
    ]
    return float(exact), float(ends[0] - ends[1]) / 2e-6


def slope(variable, direction, function, step=1e-6):
    """The difference quotient of a function that reads a variable."""
    value, ends = variable.numpy(), []
    for shift in (step, -step):
        variable.assign(value + shift * direction)
        ends.append(function())
    variable.assign(value)
    return (ends[0] - ends[1]) / (2 * step)
