"""Receptive fields for the recurrent layers of a whole model."""

from collections.abc import Collection
from typing import Any

import keras

from keras_seqmech.core import graph
from keras_seqmech.core.graph import sublayers
from keras_seqmech.migration.receptive_field import TAKEN
from keras_seqmech.migration.receptive_field import check_migratable
from keras_seqmech.migration.receptive_field import check_options
from keras_seqmech.migration.receptive_field import is_migratable
from keras_seqmech.migration.receptive_field import receptive_field_from_keras


def add_receptive_fields(
    model: keras.Model,
    max_size: int,
    layers: Collection[str] | None = None,
    **options: Any,
) -> keras.Model:
    """A copy of a model whose recurrent layers have receptive fields.

    It has weights of its own, with the values of the model's, and gives the
    same answers; each recurrent layer is that of
    `receptive_field_from_keras`. Trained further, it learns to read ahead.

    Args:
        model: A built functional or `keras.Sequential` model, such as
            `keras.saving.load_model` returns. It does not change.
        max_size: Positive int, the largest field size S.
        layers: Names of the layers to migrate, also those of models within
            the model. All that can be if None; layers within other layers,
            such as `keras.layers.TimeDistributed`, stay as they are.
        **options: Further arguments of `ReceptiveFieldRNN`. With
            `return_field=True` the model returns what it returned before, and
            the `output` of a migrated layer is a flat list that ends with the
            values of its field's dict, in the order of their names: for
            `keras.Model(migrated.input, layer.output)`.

    Returns:
        A model of the same kind. Compiled, if the model is, as
        `keras.models.clone_model` does it: with a new optimizer.

    Raises:
        ValueError: If there is no such layer, or one cannot be migrated; with
            `return_field=True`, if one is in a `keras.Sequential`.

    Example:

    >>> import keras, numpy as np
    >>> model = keras.Sequential(
    ...     [keras.Input((7, 5)), keras.layers.GRU(8), keras.layers.Dense(2)]
    ... )
    >>> x = np.ones((2, 7, 5))
    >>> further = add_receptive_fields(model, max_size=4)
    >>> np.allclose(further(x), model(x), atol=1e-6)
    True
    """
    graph.check_functional(model, "model")
    check_options(options, TAKEN)
    _check_names(model, layers)
    copies: list[tuple[Any, Any]] = []

    def copy(layer: keras.Operation) -> keras.Operation:
        chosen = (
            is_migratable(layer) if layers is None else layer.name in layers
        )
        if chosen:
            if options.get("return_field"):
                _check_passes_field(model, layer)
            return receptive_field_from_keras(layer, max_size, **options)
        copies.append((layer, type(layer).from_config(layer.get_config())))
        return copies[-1][1]

    migrated = keras.models.clone_model(
        model, clone_function=copy, recursive=True
    )
    for layer, own in copies:
        if isinstance(layer, keras.Layer):  # Not an operation.
            own.set_weights(layer.get_weights())
    return migrated


def _check_names(model: keras.Model, names: Collection[str] | None) -> None:
    found = {layer.name: layer for layer in _layers(model)}
    if names is None:
        if not any(map(is_migratable, found.values())):
            raise ValueError(
                "Argument `model` must have a layer that "
                "`receptive_field_from_keras` takes. "
                f"Received: a model with the layers {list(found)}"
            )
        return
    for name in names:
        if name not in found:
            raise ValueError(
                f"Argument `layers` must name layers of the model: "
                f"{list(found)}. Received: layers={names!r}"
            )
        check_migratable(found[name])


def _check_passes_field(model: keras.Model, layer: keras.layers.Layer) -> None:
    """Refuses `return_field` in models that pass on one tensor alone."""
    for part in sublayers(model):
        if isinstance(part, keras.Sequential) and layer in part.layers:
            raise ValueError(
                "Argument `return_field` must be False for layers of a "
                "`keras.Sequential`, in which each layer returns one tensor. "
                "Give it as a functional model, "
                "`keras.Model(model.inputs[0], model.outputs[0])`. Received: "
                f"return_field=True and the layer '{layer.name}' of "
                f"'{part.name}'"
            )


def _layers(model: keras.Model) -> list[keras.layers.Layer]:
    """The layers of a model and of the models within it."""
    return [
        inner
        for layer in model.layers
        for inner in (_layers(layer) if _is_functional(layer) else [layer])
    ]


def _is_functional(layer: keras.layers.Layer) -> bool:
    return isinstance(layer, keras.Model) and bool(
        getattr(layer, "outputs", None)
    )
