"""A built layer of the registry, compiled once for all tests of a process."""

import functools

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from tests import tolerances
from tests.conformance.registry import ENTRIES
from tests.conformance.registry import TIME
from tests.conformance.registry import name_outputs

MASKS = np.array(
    [
        [1, 1, 1, 1, 1, 1, 1],
        [1, 1, 1, 1, 0, 0, 0],
        [0, 0, 1, 1, 1, 1, 1],
        [0, 1, 0, 0, 1, 1, 0],
        [0, 0, 0, 0, 0, 0, 0],
    ],
    "bool",
)
# Of the longest way through a layer here: steps, times about 50 terms and
# functions of a cell and of what it reads. Gradients come back as well.
OPERATIONS = 2 * 50 * TIME


def assert_close(found, expected, operations=OPERATIONS):
    """Asserts equality but for rounding; inputs and weights are about one."""
    tolerances.assert_close(found, expected, operations, scale=1)


def assert_equal(found, expected):
    """Asserts that no number differs."""
    keras.tree.map_structure(np.testing.assert_array_equal, found, expected)


class Subject:
    """A built layer of the registry, and what its outputs look like."""

    def __init__(self, entry):
        self.entry = entry
        self.public = entry.make()
        self.layer = entry.wrap(self.public)
        outputs = name_outputs(entry.call(self.layer, entry.sample(2)))
        self.timed = {
            name: value.ndim > 1 and value.shape[1] == TIME
            for name, value in outputs.items()
        }
        self.trainable = [v.value for v in self.layer.trainable_variables]
        self.fresh = [ops.copy(v.value) for v in self.layer.variables]
        self.graphs = {}

    def restore(self, weights=None):
        """Sets weights and seeds, by default to what they were when built."""
        for variable, value in zip(
            self.layer.variables, weights or self.fresh, strict=True
        ):
            variable.assign(value)

    def in_time_order(self, outputs):
        if not self.entry.backwards:
            return outputs
        return {
            name: ops.flip(value, axis=1) if self.timed[name] else value
            for name, value in outputs.items()
        }

    def values(self, training):
        """Function of inputs, masks and real steps: the outputs."""

        def run(inputs, masks, real):
            outputs = self.entry.call(self.layer, inputs, masks, training)
            return self.in_time_order(name_outputs(outputs))

        return run

    def gradients(self, training):
        """The same with the gradients of inputs and of weights."""
        values = self.values(training)

        def run(inputs, masks, real):
            with tf.GradientTape() as tape:
                tape.watch(inputs)
                outputs = values(inputs, masks, real)
                loss = self.loss(outputs, real)
            return outputs, *tape.gradient(
                loss,
                (inputs, self.trainable),
                unconnected_gradients=tf.UnconnectedGradients.ZERO,
            )

        return run

    def graph(self, training):
        """Outputs and gradients, compiled once for all sizes and all tests.

        A layer that needs its number of steps beforehand is run eagerly.
        """
        function = self.gradients(training)
        if self.entry.length is not None:
            return function
        if training not in self.graphs:
            inputs = {
                a.name: tf.TensorSpec((None, *a.shape), "float32")
                for a in self.entry.arguments
            }
            mask = tf.TensorSpec((None, None), "bool")
            masks = dict.fromkeys(self.entry.masks, mask)
            self.graphs[training] = tf.function(
                function, input_signature=(inputs, masks, mask)
            )
        return self.graphs[training]

    def loss(self, outputs, real):
        """Sum of squares of all that belongs to real steps."""
        total = 0.0
        for name, value in outputs.items():
            if self.timed[name]:
                shape = (*ops.shape(real), *[1] * (value.ndim - 2))
                value = ops.where(ops.reshape(real, shape), value, 0)
            total += ops.sum(ops.square(ops.cast(value, "float32")))
        return total

    def run(self, function, inputs, mask=None, weights=None):
        """Calls one of the above from the first seed; numpy results."""
        self.restore(weights)
        return self.go_on(function, inputs, mask)

    def go_on(self, function, inputs, mask=None):
        """The same from where the last call left the seeds."""
        inputs = {name: tf.constant(x) for name, x in inputs.items()}
        if mask is None:
            timed = next(a for a in self.entry.arguments if a.mask)
            mask = np.ones(inputs[timed.name].shape[:2], "bool")
        mask = tf.constant(mask)
        masks = dict.fromkeys(self.entry.masks, mask)
        results = function(inputs, masks, mask)
        return keras.tree.map_structure(lambda x: x.numpy(), results)

    def outputs(self, inputs, mask=None, training=False):
        """Calls the layer eagerly, on arrays."""
        masks = {}
        if mask is not None:
            masks = {name: mask for name in self.entry.masks}
        outputs = self.entry.call(self.layer, inputs, masks, training)
        outputs = self.in_time_order(name_outputs(outputs))
        return {name: value.numpy() for name, value in outputs.items()}


@functools.cache
def _subject(identity: str, policy: str) -> Subject:
    entry = next(e for e in ENTRIES if e.id == identity)
    keras.utils.set_random_seed(0)
    try:
        keras.config.set_dtype_policy(policy)
        return Subject(entry)
    finally:
        keras.config.set_dtype_policy("float32")


def subject_of(entry, policy: str = "float32") -> Subject:
    """The subject of an entry, as it was when built."""
    subject = _subject(entry.id, policy)
    subject.restore()
    return subject


def forget_subjects() -> None:
    """Frees the layers and their graphs."""
    _subject.cache_clear()
