"""Functional models as graphs of operations."""

from collections.abc import Callable

import keras

from keras_seqmech.typing import Tensor


def check_functional(network: keras.Layer) -> None:
    """Refuses networks without a graph of layers."""
    if not getattr(network, "outputs", None):
        raise ValueError(
            "Argument `network` must be a functional model, such as "
            f"`keras.Model(inputs, outputs)`. Received: network={network!r}"
        )


def run_again(
    network: keras.Model,
    call: Callable[..., Tensor],
    inputs: Tensor | None = None,
) -> keras.Model:
    """The graph of a functional model, with a say in each of its calls.

    Args:
        network: A functional model.
        call: Function `(operation, *args, **kwargs) -> outputs`, which calls
            the operation, a layer for example, or something in its place.
        inputs: Symbolic inputs in the structure of the network's; new ones of
            the same shapes if None.

    Returns:
        A functional model of the same layers.
    """
    return keras.models.clone_model(
        keras.Model(network.input, network.output, name=network.name),
        input_tensors=inputs,
        clone_function=lambda layer: layer,
        call_function=call,
    )
