"""Loops over all steps, for formats that have no counterpart of packed ones."""

import keras

from keras_seqmech.core.graph import sublayers


def use_padded_loops(model: keras.Layer) -> None:
    """Sets `packed=False` in a model and all layers within it.

    The answers stay the same. LiteRT and ONNX need it: a packed loop computes
    fewer rows at each step, which those formats cannot say. What was traced
    before, such as the function of `predict`, stays as it is.

    Args:
        model: A model or layer, of any kind.

    Raises:
        ValueError: If `model` is no layer.

    Example:

    >>> import keras
    >>> import keras_seqmech
    >>> from keras_seqmech import serving
    >>> cell = keras.layers.GRUCell(2)
    >>> field = keras_seqmech.ReceptiveFieldRNN(cell, max_size=2)
    >>> serving.use_padded_loops(keras.Sequential([field]))
    >>> field.packed
    False
    """
    if not isinstance(model, keras.Layer):
        raise ValueError(
            "Argument `model` must be a `keras.Model` or `keras.Layer`. "
            f"Received: model={model!r}"
        )
    for layer in sublayers(model):
        if hasattr(layer, "packed"):
            layer.packed = False
