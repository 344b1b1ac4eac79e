"""The config of a layer within another, which builds it."""

from typing import Any

import keras


def unbuilt_config(layer: Any) -> dict[str, Any]:
    """A serialized layer or cell, without the shapes that it was built for.

    With them, Keras would build it before the layer around it, and its weights
    would lose that layer's name from their paths.
    """
    return _without_shapes(keras.saving.serialize_keras_object(layer))


def _without_shapes(config: Any) -> Any:
    if isinstance(config, dict):
        is_object = "class_name" in config and "config" in config
        return {
            key: _without_shapes(value)
            for key, value in config.items()
            if not (is_object and key == "build_config")
        }
    if isinstance(config, (list, tuple)):
        return type(config)(_without_shapes(value) for value in config)
    return config
