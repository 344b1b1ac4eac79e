"""Recurrent layers that another layer wraps."""

from collections.abc import Sequence

import keras

from keras_seqmech.core import checks


def directions(layer: keras.layers.Layer) -> list[keras.layers.Layer]:
    """The layer of each direction, one or two."""
    if isinstance(layer, keras.layers.Bidirectional):
        return [layer.forward_layer, layer.backward_layer]
    return [layer]


def check_steps(name: str, shape: Sequence, layer: keras.layers.Layer) -> None:
    """Refuses sequences of steps that a recurrent layer does not read.

    Args:
        name: What to call the shape in an error.
        shape: The shape of the sequences: windows where an `RFCell` runs in a
            `keras.layers.RNN`, else vectors.
        layer: A `keras.layers.RNN`, or a `keras.layers.Bidirectional` of one.
    """
    rnn = directions(layer)[0]
    window_size = getattr(getattr(rnn, "cell", None), "window_size", None)
    if type(rnn) is keras.layers.RNN and window_size is not None:
        checks.check_windows(name, shape, window_size)
    else:
        checks.check_sequences(name, shape)
