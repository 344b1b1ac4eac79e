"""Measuring a model and restoring its state afterwards."""

import contextlib
from collections.abc import Iterator

import keras

from keras_seqmech.core.graph import sublayers


@contextlib.contextmanager
def state_restored(model: keras.Model) -> Iterator[None]:
    """Restores what calls of a model change: metrics, states and seeds.

    Weights that only training changes are not restored.
    """
    # Keras does not list the states of stateful layers.
    states = [getattr(part, "states", None) for part in sublayers(model)]
    variables = [
        *model.non_trainable_variables,
        *model.metrics_variables,
        *(
            state
            for state in keras.tree.flatten(states)
            if isinstance(state, keras.Variable)
        ),
    ]
    kept = [keras.ops.convert_to_numpy(variable) for variable in variables]
    try:
        yield
    finally:
        for variable, value in zip(variables, kept):
            variable.assign(value)
