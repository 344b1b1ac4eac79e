"""Measuring a model without leaving traces in it."""

import contextlib
from collections.abc import Iterator

import keras

from keras_seqmech.layers.sublayers import sublayers


@contextlib.contextmanager
def unchanged(*models: keras.Model) -> Iterator[None]:
    """Puts back what a call changes: metrics, states and seeds."""
    variables = []
    for model in models:
        variables += model.non_trainable_variables + model.metrics_variables
        # Keras does not list the states of stateful layers.
        states = [getattr(part, "states", None) for part in sublayers(model)]
        variables += [
            state
            for state in keras.tree.flatten(states)
            if isinstance(state, keras.Variable)
        ]
    kept = [keras.ops.convert_to_numpy(variable) for variable in variables]
    try:
        yield
    finally:
        for variable, value in zip(variables, kept):
            variable.assign(value)
