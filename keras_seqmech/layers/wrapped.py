"""Recurrent layers that another layer wraps."""

from collections.abc import Sequence

import keras

from keras_seqmech.layers import validation
from keras_seqmech.layers.receptive_field.cell import RFCell


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
    if type(rnn) is keras.layers.RNN and isinstance(rnn.cell, RFCell):
        validation.check_windows(name, shape, rnn.cell.max_size)
    else:
        validation.check_sequences(name, shape)
