"""The masks of what layers over sequences return."""

from typing import Any

import keras


def output_masks(layer: keras.layers.Layer, mask: Any) -> Any:
    """The masks of what a layer over sequences returns, in every Keras.

    From Keras 3.16 on its own recurrent layers pass none on.

    Args:
        layer: A `keras.layers.RNN`, a `keras.layers.Bidirectional` or a
            `keras.layers.TimeDistributed`.
        mask: Boolean tensor `(batch, time)` or None.

    Returns:
        The mask of the outputs, a list of two where both directions of a
        `Bidirectional` are returned; these come before states, which get none.
        None where there is no mask to pass on.
    """
    if mask is None or not getattr(layer, "return_sequences", True):
        return None
    is_both = isinstance(layer, keras.layers.Bidirectional)
    return [mask, mask] if is_both and layer.merge_mode is None else mask
