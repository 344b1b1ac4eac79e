"""A layer and all layers within it."""

from collections.abc import Iterator

import keras


def sublayers(layer: keras.Layer) -> Iterator[keras.Layer]:
    """A layer and all layers within it, each once.

    Layers have no public list of their own; what their attributes hold,
    also in lists and dicts, is theirs.

    Args:
        layer: A layer or a model.

    Yields:
        `layer` first, then the others in no particular order.

    Example:

    >>> import keras
    >>> layer = keras.layers.RNN(keras.layers.LSTMCell(2))
    >>> [type(part).__name__ for part in sublayers(layer)]
    ['RNN', 'LSTMCell']
    """
    seen, left = set(), [layer]
    while left:
        value = left.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, keras.Layer):
            yield value
            left.extend(vars(value).values())
        elif isinstance(value, dict):
            left.extend(value.values())
        elif isinstance(value, (list, tuple, set)):
            left.extend(value)
