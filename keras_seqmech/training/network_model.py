"""Base classes of the training models, which own other models."""

from typing import Any

import keras

from keras_seqmech.core import graph
from keras_seqmech.typing import Tensor


class PartsModel(keras.Model):
    """A model made of others, with which it is saved.

    Attributes:
        parts: Names of the arguments, and attributes, that are layers or None.
    """

    parts: tuple[str, ...]

    def __init__(self, **kwargs: Any):
        # Parts cast their inputs themselves: ids must not lose digits.
        super().__init__(autocast=False, **kwargs)

    def compile_from_config(self, config: dict[str, Any]) -> None:
        # Keras asks for this method beside a `compile` of one's own.
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.built:
            self.optimizer.build(self.trainable_variables)

    def get_config(self) -> dict[str, Any]:
        serialize = keras.saving.serialize_keras_object
        parts = {name: serialize(getattr(self, name)) for name in self.parts}
        return {**super().get_config(), **parts}

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: dict | None = None
    ) -> "PartsModel":
        return cls(
            **{**config, **cls.deserialized_parts(config, custom_objects)}
        )

    @classmethod
    def deserialized_parts(
        cls, config: dict[str, Any], custom_objects: dict | None
    ) -> dict[str, Any]:
        """The parts that a config holds, by name."""
        return {
            name: keras.saving.deserialize_keras_object(
                config[name], custom_objects=custom_objects
            )
            for name in cls.parts
        }


class NetworkModel(PartsModel):
    """A model that trains a network in a way of its own.

    Calling it calls the network; so `predict` and `evaluate` are the network's.
    The network stays as it is and can be used, saved and exported by itself.

    Args:
        network: A model.
        **kwargs: Arguments of `keras.Model`, such as `name`.
    """

    parts = ("network",)

    def __init__(self, network: keras.Model, **kwargs: Any):
        if not isinstance(network, keras.Model):
            raise ValueError(
                "Argument `network` must be a `keras.Model`. "
                f"Received: network={network!r}"
            )
        kwargs.setdefault("dtype", network.dtype_policy)
        super().__init__(**kwargs)
        self.network = network
        self.built = network.built

    @property
    def output_names(self) -> list[str]:
        """The network's, by which Keras knows outputs, losses and metrics."""
        return self.network.output_names

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        inputs = graph.arrange_inputs(self.network, inputs)
        return self.network(inputs, training=training)

    def export(self, filepath: Any, *args: Any, **kwargs: Any) -> None:
        """Exports the network, whose answers are the model's."""
        self.network.export(filepath, *args, **kwargs)


def accumulation_steps(optimizer: keras.optimizers.Optimizer) -> int:
    """The steps whose gradients an optimizer averages, 1 for most."""
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    return optimizer.gradient_accumulation_steps or 1
