"""From trained Keras layers to layers of this package."""

from typing import Any

import keras
import numpy as np

from keras_seqmech.receptive_field import LookAhead

__all__ = ["look_ahead_from_keras"]

KINDS = (keras.layers.LSTM, keras.layers.GRU, keras.layers.SimpleRNN)


def look_ahead_from_keras(
    layer: keras.layers.Layer, max_size: int, **options: Any
) -> tuple[LookAhead, keras.layers.Layer]:
    """Returns a `LookAhead`, and a copy of a recurrent layer to read it.

    The copy has the weights of the given layer, and zeros in the rows of its
    kernel that meet what is read ahead: at first both together give the
    layer's answers. These rows have a gradient wherever something is read. The
    states of a stateful layer are not copied.

    Call the other layers of a model again, around both. Copies of them by
    configs and weights would lose what they keep beside, such as the table of
    an adapted `keras.layers.TextVectorization`.

    Args:
        layer: A built `keras.layers.LSTM`, `GRU` or `SimpleRNN` that reads
            forwards, not a subclass, with functions as activations. It does
            not change.
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
    if type(layer) not in KINDS or not layer.built or layer.go_backwards:
        raise ValueError(
            "Argument `layer` must be a built `keras.layers.LSTM`, `GRU` or "
            "`SimpleRNN` that reads forwards, and of no subclass. Received: "
            f"layer={layer!r}"
        )
    activations = layer.activation, getattr(layer, "recurrent_activation", None)
    if any(isinstance(activation, keras.Layer) for activation in activations):
        # Layers may keep more than the weights that are copied.
        raise ValueError(
            "Argument `layer` must have functions as activations, not layers. "
            f"Received: layer={layer!r} with the activations {activations}"
        )
    look = LookAhead(max_size, **{"dtype": layer.dtype_policy, **options})
    kernel, *others = layer.get_weights()
    shapes = look.compute_output_shape((None, None, kernel.shape[0]))
    width = (shapes[0] if look.return_field else shapes)[-1]
    reader = type(layer).from_config(layer.get_config())
    given = layer.get_build_config()
    given = given.get("shapes_dict", given)
    steps = given.get("sequence_shape", given.get("input_shape"))[:2]
    reader.build((*steps, width))
    more = np.zeros((width - kernel.shape[0], kernel.shape[1]), kernel.dtype)
    reader.set_weights([np.concatenate([kernel, more]), *others])
    reader.cell.trainable = layer.cell.trainable
    return look, reader
