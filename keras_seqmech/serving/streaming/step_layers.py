"""The layers of a streaming network: each call is one tick."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import keras

from keras_seqmech.core.decisions.reports import recording
from keras_seqmech.core.decisions.statistics import without_statistics
from keras_seqmech.core.stream import Queue
from keras_seqmech.core.stream import State
from keras_seqmech.core.stream import Stepped
from keras_seqmech.core.stream import Tick
from keras_seqmech.serving.streaming.keras_masks import is_symbolic
from keras_seqmech.serving.streaming.refusals import refusal_of
from keras_seqmech.typing import Tensor


class _Uncast(keras.DTypePolicy):
    """A policy of which a layer casts weights alone, not its arguments."""

    def convert_input(self, x: Any, autocast: bool, dtype: str) -> Any:
        return x


class StepLayer(keras.layers.Layer):
    """One tick of a layer: `stream_step` as a layer.

    The sequence, the arguments and the weights are cast as in a call of the
    layer; the state is not.

    Args:
        layer: The layer that is streamed.
        take: Its `stream_step`.
        whole: What the layer returns of whole sequences, as `KerasTensor`s.
        records: Whether to return its decisions, too.
        name: Its name, by which errors of exports name the layer.
    """

    def __init__(
        self,
        layer: keras.Layer,
        take: Callable,
        whole: Any,
        records: bool,
        name: str,
    ):
        dtype = layer.compute_dtype
        if dtype != layer.variable_dtype:
            dtype = f"mixed_{dtype}"
        super().__init__(
            name=name, dtype=_Uncast(dtype), autocast=layer.autocast
        )
        self.supports_masking = True
        self.layer = layer
        self.take = take
        self.whole = keras.tree.flatten(whole)
        self.records = records
        self.built = True

    def call(
        self, state: State, tick: Tick, sequence: Tensor, arguments: dict
    ) -> dict[str, Any]:
        sequence, arguments = _cast(self.layer, (sequence, arguments))

        def step() -> Stepped:
            taken = self.take(state, tick, sequence, **arguments)
            if not isinstance(taken, tuple) or len(taken) < 2:
                reason = "has a `stream_step` that returns no state"
                raise refusal_of(self.layer, reason)
            return Stepped(*taken)

        if self.records:
            stepped, decisions = _recorded(step)
        else:
            stepped, decisions = step(), []
        made = {k: x for k, x in stepped._asdict().items() if x is not None}
        return {**made, "decisions": decisions}

    def compute_output_spec(self, *args: Any) -> dict[str, Any]:
        specs = super().compute_output_spec(*args)
        # Sequences have any number of steps.
        shapes = [x.shape for x in self.whole]
        outputs = [
            keras.KerasTensor(shape, x.dtype)
            for shape, x in zip(shapes, keras.tree.flatten(specs["outputs"]))
        ]
        specs["outputs"] = keras.tree.pack_sequence_as(
            specs["outputs"], outputs
        )
        specs["decisions"] = keras.tree.map_structure(
            lambda x: keras.KerasTensor(
                (x.shape[0], None, *x.shape[2:]), x.dtype
            ),
            specs["decisions"],
        )
        return specs

    def compute_mask(self, *args: Any) -> None:
        """None: where masks go is an argument of what they reach."""
        return None


def step_call(
    layer: keras.Layer, steps: Any, args: Any, kwargs: Any
) -> tuple[Callable, Any, dict[str, Any]]:
    """How to call a layer's `stream_step`, from the arguments of its `call`.

    Returns:
        The `stream_step`, with the arguments that are no tensors; the sequence,
        which comes first, by whatever name; the other tensors by name.
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
    tensors = {
        name: x
        for name, x in given.items()
        if any(map(is_symbolic, keras.tree.flatten(x)))
    }
    others = {name: x for name, x in given.items() if name not in tensors}
    take = functools.partial(steps.stream_step, **_cast(layer, others))
    return take, sequence, tensors


def _cast(layer: keras.Layer, arguments: Any) -> Any:
    """Arguments of a layer in the dtypes in which its `call` has them."""

    def cast(x: Any) -> Any:
        policy = layer.dtype_policy
        return policy.convert_input(x, layer.autocast, layer.input_dtype)

    return keras.tree.map_structure(cast, arguments)


class Recorder(keras.layers.Layer):
    """Returns the outputs of a layer, and the decisions of the call."""

    def __init__(self, layer: keras.Layer):
        super().__init__(dtype=layer.dtype_policy, autocast=False)
        self.supports_masking = True
        self.layer = layer
        self.built = True

    def call(self, *args: Any, **kwargs: Any) -> tuple[Any, list]:
        return _recorded(lambda: self.layer(*args, **kwargs))

    def compute_mask(self, *args: Any) -> None:
        """None: the layer has set the masks of its outputs."""
        return None


def _recorded(call: Callable[[], Any]) -> tuple[Any, list[dict]]:
    """What a call returns; and decisions by name of layer, a dict for each."""
    with without_statistics(), recording() as found:
        outputs = call()
    return outputs, [
        {layer.name: decisions}
        for layer, decisions in found
        if found.is_usable(layer)
    ]


class Delay(keras.layers.Layer):
    """Holds steps back until a later place has them."""

    def __init__(self) -> None:
        super().__init__(autocast=False)
        self.supports_masking = True
        self.built = True

    def call(
        self, step: Tensor, state: State, arrives: Tensor, leaves: Tensor
    ) -> tuple[Tensor, State]:
        queue = Queue(**state).append({"step": step}, arrives)
        after = queue.remove_first(leaves)
        return queue.steps["step"][:, :1], after._asdict()

    def compute_output_spec(
        self, step: keras.KerasTensor, state: State, *ticks: Any
    ) -> tuple[keras.KerasTensor, State]:
        # Keras cannot infer it for strings.
        like = lambda x: keras.KerasTensor(x.shape, x.dtype)  # noqa: E731
        return keras.tree.map_structure(like, (step, state))

    def compute_mask(self, *args: Any) -> None:
        """None, as in `StepLayer`."""
        return None


class Words(keras.layers.Layer):
    """A `StringLookup(invert=True)`, which declares ints, with its strings."""

    def __init__(self, lookup: keras.layers.StringLookup):
        super().__init__(dtype=lookup.dtype_policy)
        self.lookup = lookup

    def call(self, ids: Tensor) -> Tensor:
        return self.lookup(ids)

    def compute_output_spec(self, ids: keras.KerasTensor) -> keras.KerasTensor:
        return keras.KerasTensor(ids.shape, "string")
