"""What the training models have in common: a network of their own."""

from typing import Any

import keras

from keras_seqmech.typing import Tensor


class NetworkModel(keras.Model):
    """A model that trains a network in a way of its own.

    Calling it calls the network; so `predict` and `evaluate` are the network's.
    The network stays as it is and can be used, saved and exported by itself.

    Args:
        network: A model or layer.
        **kwargs: Arguments of `keras.Model`, such as `name`.
    """

    def __init__(self, network: keras.Layer, **kwargs: Any):
        if not isinstance(network, keras.Layer):
            raise ValueError(
                "Argument `network` must be a `keras.Model` or "
                f"`keras.Layer`. Received: network={network!r}"
            )
        kwargs.setdefault("dtype", network.dtype_policy)
        # The network casts its inputs itself.
        super().__init__(autocast=False, **kwargs)
        self.network = network
        self.built = network.built

    @property
    def output_names(self) -> list[str]:
        """The network's, by which Keras knows outputs, losses and metrics."""
        return self.network.output_names

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        return self.network(inputs, training=training)

    def export(self, filepath: Any, *args: Any, **kwargs: Any) -> None:
        """Exports the network, whose answers are the model's.

        A subclass with a `call` of its own, and a network that is a layer, are
        exported as Keras exports any subclassed model: after a call.

        Args:
            filepath: Where to write.
            *args: Arguments of `keras.Model.export`.
            **kwargs: Keyword arguments of `keras.Model.export`.
        """
        plain = type(self).call is NetworkModel.call
        if plain and isinstance(self.network, keras.Model):
            self.network.export(filepath, *args, **kwargs)
        else:
            super().export(filepath, *args, **kwargs)

    def get_config(self) -> dict[str, Any]:
        network = keras.saving.serialize_keras_object(self.network)
        return {**super().get_config(), "network": network}

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: dict | None = None
    ) -> "NetworkModel":
        network = keras.saving.deserialize_keras_object(
            config["network"], custom_objects=custom_objects
        )
        return cls(**{**config, "network": network})
