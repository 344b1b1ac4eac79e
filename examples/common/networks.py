"""Models that train a network of their own."""

import keras


def network_of(model: keras.Model) -> keras.Model:
    """The functional model, also of one that trains it."""
    return getattr(model, "network", model)
