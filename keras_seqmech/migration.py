"""From trained Keras layers to layers of this package.

A migrated layer gives the same answers as the given one, and can be trained on.
"""

from collections.abc import Collection
from typing import Any

import keras
import numpy as np

from keras_seqmech.core import graph
from keras_seqmech.core.keras_steps import RECURRENT
from keras_seqmech.core.wrapped import directions
from keras_seqmech.receptive_field import LookAhead
from keras_seqmech.receptive_field import ReceptiveFieldRNN
from keras_seqmech.receptive_field import RFCell

__all__ = [
    "add_receptive_fields",
    "look_ahead_from_keras",
    "receptive_field_from_keras",
]

# Arguments that a migrated layer has under the same names.
CARRIED = (
    "return_sequences",
    "return_state",
    "go_backwards",
    "stateful",
    "unroll",
    "zero_output_for_mask",
    "activity_regularizer",
    "name",
    "trainable",
)


def receptive_field_from_keras(
    layer: keras.layers.Layer, max_size: int, **options: Any
) -> keras.layers.Layer:
    r"""A layer with receptive fields that gives a Keras layer's answers.

    The cell, its weights and all arguments of the layer are carried over. The
    field's own weights are new. At first its gate is open whatever it reads,

    $$1 - a \odot (1 - F_t), \quad a = 0,$$

    in place of $F_t$: states are multiplied by exactly 1. The strength $a$ is
    trainable, between 0 and 1, and has a gradient from the first step on;
    inner network, gate and sizes get theirs as soon as it is above 0. (The
    gradient of an open gate of equation 3 vanishes: at $F_t = 1 - 10^{-7}$ it
    is $10^{-7}$ times that.)

    Args:
        layer: A `keras.layers.LSTM`, `GRU`, `SimpleRNN`, a `keras.layers.RNN`
            of any cell or several, or a `keras.layers.Bidirectional` of one.
            Not a subclass, which may do other things. It does not change.
        max_size: Positive int, the largest field size S.
        **options: Further arguments of `ReceptiveFieldRNN`, such as
            `field_units` and `penalties`. `forget_strength` is 0 unless
            given.

    Returns:
        A `ReceptiveFieldRNN`, or a `keras.layers.Bidirectional` of two. It has
        the name of the layer, and its weights where it is built.

    Raises:
        ValueError: If `layer` is not such a layer, or sets an option itself.

    Example:

    >>> import keras, numpy as np
    >>> lstm = keras.layers.LSTM(8)
    >>> x = np.ones((2, 7, 5))
    >>> expected = lstm(x)
    >>> layer = receptive_field_from_keras(lstm, max_size=4)
    >>> np.allclose(layer(x), expected, atol=1e-6)
    True
    """
    _check_options(options)
    _check_migratable(layer)
    is_both = isinstance(layer, keras.layers.Bidirectional)
    if is_both and options.get("return_field"):
        raise ValueError(
            "Argument `return_field` must be False within "
            "`keras.layers.Bidirectional`, which merges tensors alone. "
            "Received: return_field=True"
        )
    options = {"forget_strength": 0.0, **options, "max_size": max_size}
    parts = [_without_weights(rnn, options) for rnn in directions(layer)]
    migrated = parts[0]
    if len(parts) == 2:
        migrated = keras.layers.Bidirectional(
            parts[0],
            backward_layer=parts[1],
            merge_mode=layer.merge_mode,
            name=layer.name,
            dtype=layer.dtype_policy,
            activity_regularizer=layer.activity_regularizer,
        )
        migrated.trainable = layer.trainable
    if layer.built:
        shapes = layer.get_build_config()
        if "shapes_dict" in shapes:
            shapes = {"input_shape": shapes["shapes_dict"]["sequences_shape"]}
        migrated.build_from_config(shapes)
        for own, rnn in zip(directions(migrated), directions(layer)):
            own.cell.cell.set_weights(rnn.cell.get_weights())
    return migrated


def look_ahead_from_keras(
    layer: keras.layers.Layer, max_size: int, **options: Any
) -> tuple[LookAhead, keras.layers.Layer]:
    """Returns a `LookAhead`, and a copy of a recurrent layer to read it.

    The copy has the weights of the given layer, and zeros in the rows of its
    kernel that meet what is read ahead: at first both together give the
    layer's answers. These rows have a gradient wherever something is read.

    Args:
        layer: A built `keras.layers.LSTM`, `GRU` or `SimpleRNN` that reads
            forwards, not a subclass. It does not change.
        max_size: Positive int, the largest size S.
        **options: Further arguments of `LookAhead`; `dtype` is the layer's
            unless given.

    Returns:
        The `LookAhead`, not built, so that it can be given a context; and the
        copy that reads its outputs, built, with the name of the given layer.

    Raises:
        ValueError: If `layer` is not such a layer, or not built.

    Example:

    >>> import keras, numpy as np
    >>> lstm = keras.layers.LSTM(8)
    >>> x = np.random.default_rng(0).normal(size=(2, 7, 5))
    >>> expected = lstm(x)
    >>> look, reader = look_ahead_from_keras(lstm, max_size=4)
    >>> np.allclose(reader(look(x)), expected, atol=1e-6)
    True
    """
    is_plain = type(layer) in {*RECURRENT} - {keras.layers.RNN}
    if not is_plain or not layer.built or layer.go_backwards:
        raise ValueError(
            "Argument `layer` must be a built `keras.layers.LSTM`, `GRU` or "
            "`SimpleRNN` that reads forwards, and of no subclass. Received: "
            f"layer={layer!r}"
        )
    look = LookAhead(max_size, **{"dtype": layer.dtype_policy, **options})
    kernel, *others = layer.get_weights()
    shapes = look.compute_output_shape((None, None, kernel.shape[0]))
    width = (shapes[0] if look.return_field else shapes)[-1]
    reader = type(layer).from_config(layer.get_config())
    given = layer.get_build_config()
    given = given.get("shapes_dict", given)
    steps = given.get("sequences_shape", given.get("input_shape"))[:2]
    reader.build((*steps, width))
    more = np.zeros((width - kernel.shape[0], kernel.shape[1]), kernel.dtype)
    reader.set_weights([np.concatenate([kernel, more]), *others])
    return look, reader


def add_receptive_fields(
    model: keras.Model,
    max_size: int,
    layers: Collection[str] | None = None,
    **options: Any,
) -> keras.Model:
    """Returns a copy of a model whose recurrent layers have receptive fields.

    It has weights of its own, with the values of the model's, and gives the
    same answers; each recurrent layer is that of
    `receptive_field_from_keras`. Trained further, it learns to read ahead.

    Args:
        model: A built functional or `keras.Sequential` model, such as
            `keras.saving.load_model` returns. It does not change.
        max_size: Positive int, the largest field size S.
        layers: Names of the layers to migrate, also those of models within
            the model; all that can be migrated if None. Layers within other
            layers, such as `keras.layers.TimeDistributed`, stay as they are.
        **options: Further arguments of `ReceptiveFieldRNN`. With
            `return_field=True` a functional model returns what it returned
            before, and the `output` of a migrated layer is a flat list that
            ends with the values of its field's dict, ordered by name: for
            `keras.Model(migrated.input, layer.output)`.

    Returns:
        A model of the same kind. Compiled, if the model is, as
        `keras.models.clone_model` does it: with a new optimizer.

    Raises:
        ValueError: If there is no such layer, or one cannot be migrated.

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
    _check_options(options)
    _check_names(model, layers)
    copies: list[tuple[Any, Any]] = []

    def copy(layer: keras.Operation) -> keras.Operation:
        chosen = (
            _is_migratable(layer) if layers is None else layer.name in layers
        )
        if chosen:
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
    found = {layer.name: layer for layer in graph.layers_within(model)}
    if names is None:
        if not any(map(_is_migratable, found.values())):
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
        _check_migratable(found[name])


def _check_options(options: dict[str, Any]) -> None:
    """Refuses arguments that a migrated layer takes from the given one."""
    both = sorted(set(options) & {*CARRIED, "cell", "dtype"})
    if both:
        raise ValueError(
            f"Arguments {both} are those of the layer that is migrated and "
            "must not be given. "
            f"Received: {', '.join(f'{k}={options[k]!r}' for k in both)}"
        )


def _is_migratable(layer: Any) -> bool:
    """Whether `receptive_field_from_keras` takes a layer."""
    if type(layer) is keras.layers.Bidirectional:
        return all(map(_is_migratable, directions(layer)))
    return type(layer) in RECURRENT and not isinstance(layer.cell, RFCell)


def _check_migratable(layer: Any) -> None:
    """Refuses other layers."""
    if not _is_migratable(layer):
        raise ValueError(
            "Argument `layer` must be a `keras.layers.LSTM`, `GRU`, "
            "`SimpleRNN` or `RNN` without receptive fields, or a "
            "`keras.layers.Bidirectional` of one, and of no subclass. "
            f"Received: layer={layer!r}"
        )


def _without_weights(
    layer: keras.layers.RNN, options: dict[str, Any]
) -> ReceptiveFieldRNN:
    cell = type(layer.cell).from_config(layer.cell.get_config())
    carried = {name: getattr(layer, name) for name in CARRIED}
    return ReceptiveFieldRNN(
        cell, **carried, dtype=layer.dtype_policy, **options
    )
