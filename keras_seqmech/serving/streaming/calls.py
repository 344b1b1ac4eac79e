"""The calls of a functional model, with their masks; steps in their place."""

import inspect
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import keras
import tensorflow as tf

from keras_seqmech.core import graph
from keras_seqmech.core.stream import State
from keras_seqmech.core.stream import Stepped
from keras_seqmech.core.stream import Tick
from keras_seqmech.serving.streaming.refusals import check_call
from keras_seqmech.serving.streaming.refusals import refusal_of
from keras_seqmech.typing import Tensor


class Call(NamedTuple):
    """A call of a functional model, on its symbolic tensors.

    Attributes:
        operation: A layer, or an operation of `keras.ops`.
        args: Positional arguments.
        kwargs: Keyword arguments, with the masks that Keras fills in.
        outputs: What it returned, flat.
        masks: The mask that Keras passes on with each output, or None.
    """

    operation: Any
    args: Any
    kwargs: Any
    outputs: list[keras.KerasTensor]
    masks: list[keras.KerasTensor | None]


def calls_of(
    model: keras.Model, per_step: Sequence[type[keras.Layer]]
) -> tuple[list[Call], Any]:
    """The calls of a functional model, in order, and its outputs.

    Those of functional models within it are among them, unless their classes
    treat each step alone, `per_step`.
    """
    calls: list[Call] = []

    def call(operation: Any, *args: Any, **kwargs: Any) -> Any:
        is_declared = type(operation) in per_step
        if getattr(operation, "outputs", None) and not is_declared:
            return call_model(operation, *args, **kwargs)
        args, kwargs = with_masks(operation, args, kwargs)
        outputs = operation(*args, **kwargs)
        flat = keras.tree.flatten(outputs)
        masks = [mask_of(x) for x in flat]
        calls.append(Call(operation, args, kwargs, flat, masks))
        return outputs

    def call_model(
        part: keras.Model, inputs: Any, mask: Any = None, **kwargs: Any
    ) -> Any:
        check_call(part)
        if part.supports_masking:
            raise refusal_of(part, "passes on masks that its layers may not")
        functional = graph.as_functional(part)
        inputs = keras.tree.flatten(inputs)
        masks = [None] * len(inputs)
        if mask is not None:
            masks = keras.tree.flatten(mask)
        given = [
            call(Passed(dtype=own.dtype), [x] if mask is None else [x, mask])
            for own, x, mask in zip(functional.inputs, inputs, masks)
        ]
        return graph.call_again(functional, call, given)

    return calls, graph.call_again(model, call, list(model.inputs))


class AtInference(keras.layers.Layer):
    """Runs a function as the call of a layer: at inference, its weights cast.

    What is called within draws nothing, whatever its own default says.
    """

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.built = True

    def call(self, run: Callable[[], Any], training: bool = False) -> Any:
        return run()


def step_call(
    layer: keras.Layer, steps: Any, args: Any, kwargs: Any
) -> Callable[[str, State, Tick], Stepped]:
    """The step of a layer, given the arguments of its `call` for one step.

    They are cast as in a call; the state is not. It is a function of the
    state's name, the state, and the tick.
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

    dtype = layer.compute_dtype
    if dtype != layer.variable_dtype:
        dtype = f"mixed_{dtype}"

    def take(name: str, state: State, tick: Tick) -> Stepped:
        # Errors of exports name the layer by it.
        own = f"{name}__step"
        called = AtInference(name=own, dtype=dtype, autocast=layer.autocast)
        made = called(
            run=lambda: steps.stream_step(state, tick, sequence, **given),
            training=False,
        )
        if not isinstance(made, tuple) or len(made) < 2:
            reason = "has a `stream_step` that returns no state"
            raise refusal_of(layer, reason)
        return Stepped(*made)

    return take


def with_masks(operation: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Arguments of a layer, with the masks that Keras fills in for it."""
    if not isinstance(operation, keras.Layer):
        return args, kwargs
    signature = inspect.signature(operation.call)
    given = signature.bind(*args, **kwargs).arguments
    tensors = {
        name: value
        for name, value in given.items()
        if all(map(is_symbolic, keras.tree.flatten(value)))
    }
    for name, value in tensors.items():
        own = "mask" if len(tensors) == 1 else f"{name}_mask"
        is_missing = own in signature.parameters and given.get(own) is None
        if is_missing and is_symbolic(value):
            mask = mask_of(value)
            kwargs = kwargs if mask is None else {**kwargs, own: mask}
    return args, kwargs


def is_symbolic(value: Any) -> bool:
    """Returns whether a value is a symbolic tensor of Keras."""
    return isinstance(value, keras.KerasTensor)


def mask_of(tensor: Any) -> Any:
    """The mask that comes with a tensor, as Keras shows it to layers alone."""
    shown = Shown(autocast=False)
    shown(tensor)
    return shown.mask


class Shown(keras.layers.Layer):
    """Keeps the mask that it is called with."""

    mask: Any = None

    def call(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        self.mask = mask
        return x

    def compute_output_spec(self, x: Tensor, mask: Any = None) -> Tensor:
        self.mask = mask
        return keras.KerasTensor(x.shape, x.dtype)

    def compute_mask(self, x: Tensor, mask: Any = None) -> None:
        return None


class Passed(keras.layers.Layer):
    """Passes a tensor on, in a dtype, and with another mask if one is given."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, tensors: list[Tensor]) -> Tensor:
        # As a functional model casts what it is given.
        return tf.identity(tf.cast(tensors[0], self.compute_dtype))

    def compute_output_spec(
        self, tensors: list[keras.KerasTensor]
    ) -> keras.KerasTensor:
        return keras.KerasTensor(tensors[0].shape, self.compute_dtype)

    def compute_mask(self, tensors: list[Tensor], mask: Any = None) -> Any:
        if len(tensors) > 1:
            return tensors[1]
        return mask[0] if isinstance(mask, (list, tuple)) else mask
