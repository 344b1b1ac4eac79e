"""How a layer's `stream_step` is called in place of its `call`."""

import inspect
from collections.abc import Callable
from typing import Any

import keras

from keras_seqmech.core.stream import State
from keras_seqmech.core.stream import Stepped
from keras_seqmech.core.stream import Tick
from keras_seqmech.serving.streaming.refusals import refusal_of


class Within(keras.layers.Layer):
    """Runs a function as the call of a layer: at inference, its weights cast.

    Args:
        layer: The layer whose dtype policy holds; None for no casts.
        name: Its name, by which errors of exports name the layer.
    """

    def __init__(
        self, layer: keras.Layer | None = None, name: str | None = None
    ):
        dtype = None
        if layer is not None:
            dtype = layer.compute_dtype
            if dtype != layer.variable_dtype:
                dtype = f"mixed_{dtype}"
        autocast = layer is not None and layer.autocast
        super().__init__(name=name, dtype=dtype, autocast=autocast)
        self.built = True

    def call(self, run: Callable[[], Any], training: bool = False) -> Any:
        return run()


def step_call(
    layer: keras.Layer, steps: Any, args: Any, kwargs: Any
) -> Callable[[State, Tick], Stepped]:
    """The step of a layer, given the arguments of its `call` for one step.

    They are cast as in a call; the state is not.
    """
    bound = inspect.signature(layer.call).bind(*args, **kwargs)
    given: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            raise refusal_of(layer, "is called with arguments without a name")
        is_named = kind is not inspect.Parameter.VAR_KEYWORD
        given.update({name: value} if is_named else value)
    first = next(iter(given))
    sequence = given.pop(first)
    masks = [given.pop(name, None) for name in ("mask", f"{first}_mask")]
    given["mask"] = next((x for x in masks if x is not None), None)
    given = {name: x for name, x in given.items() if x is not None}
    given.pop("training", None)
    try:
        inspect.signature(steps.stream_step).bind({}, None, sequence, **given)
    except TypeError as error:
        reason = f"has a `stream_step` without its call's arguments: {error}"
        raise refusal_of(layer, reason) from error
    policy = layer.dtype_policy
    sequence, given = keras.tree.map_structure(
        lambda x: policy.convert_input(x, layer.autocast, layer.input_dtype),
        (sequence, given),
    )

    def take(state: State, tick: Tick) -> Stepped:
        stepped = steps.stream_step(state, tick, sequence, **given)
        if not isinstance(stepped, tuple) or len(stepped) < 2:
            reason = "has a `stream_step` that returns no state"
            raise refusal_of(layer, reason)
        return Stepped(*stepped)

    return take
