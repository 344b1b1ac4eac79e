"""A layer under test: how it is called, and what it returns."""

import contextlib
import inspect
import reprlib
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_seqmech.testing import tolerances

# The fewest that have a mask of each kind.
ROWS, STEPS = 5, 4
# Of the longest way through a small layer: operations of a step, there and
# back, since gradients are compared as well.
OPERATIONS = 2 * 50

Arrays = dict[str, Any]


def mask_argument(layer: Any) -> str | None:
    """Name of the first argument of `call` that is a mask, or None."""
    names = inspect.signature(layer.call).parameters
    return next((name for name in names if name.endswith("mask")), None)


def constructor_defaults(layer_class: Any) -> dict[str, Any]:
    """Defaults by name of argument, variadic ones left out."""
    # Python 3.10 shows the signature of `__new__` for the class.
    parameters = inspect.signature(layer_class.__init__).parameters
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {
        name: parameter.default
        for name, parameter in parameters.items()
        if name != "self" and parameter.kind not in variadic
    }


def make_masks(rows: int, steps: int) -> np.ndarray:
    """Masks of every kind: full, cut at either end, with gaps, empty."""
    step = np.arange(steps)
    kinds = [
        step >= 0,
        step <= steps // 2,
        step >= steps // 3,
        np.isin(step % 7, [1, 4, 5]),
        step < 0,
    ]
    return np.stack([kinds[row % len(kinds)] for row in range(rows)])


def call_layer(
    layer: Any,
    inputs: Arrays,
    masks: Arrays | None = None,
    training: bool = False,
) -> Any:
    """Calls a layer on its inputs by name, the first by its place."""
    (_, first), *others = inputs.items()
    keywords = {**dict(others), **(masks or {})}
    if "training" in inspect.signature(layer.call).parameters:
        keywords["training"] = training
    return layer(first, **keywords)


def name_outputs(outputs: Any) -> Arrays:
    """Names what a layer returns: `output_0`, ..., and its decisions.

    Decisions are a dict at the end, and have their names.
    """
    parts = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    decisions = parts[-1] if isinstance(parts[-1], dict) else {}
    if decisions:
        parts = parts[:-1]
    flat = keras.tree.flatten(list(parts))
    return {**{f"output_{i}": x for i, x in enumerate(flat)}, **decisions}


def sequence_name(inputs: Arrays, mask: str | None) -> str:
    """Name of the input that a mask masks: `mask` masks the first one."""
    named = (mask or "").removesuffix("_mask")
    return named if named in inputs else next(iter(inputs))


def functional_model(layer: Any, inputs: Arrays) -> keras.Model:
    """A model of a layer: named inputs and mask in, named outputs out.

    Args:
        layer: The layer.
        inputs: Arrays by name of its arguments.
    """
    mask = mask_argument(layer)
    steps = inputs[sequence_name(inputs, mask)].shape[1]
    symbols = {}
    for name, x in inputs.items():
        shape = list(x.shape[1:])
        if shape and shape[0] == steps:
            shape[0] = None
        symbols[name] = keras.Input(shape, dtype=x.dtype.name, name=name)
    masks = {}
    if mask is not None:
        masks[mask] = keras.Input((None,), dtype="bool", name=mask)
    outputs = name_outputs(call_layer(layer, symbols, masks))
    return keras.Model({**symbols, **masks}, outputs)


@contextlib.contextmanager
def dtype_policy(name: str) -> Iterator[None]:
    """Layers that are made within have this policy."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


class Subject:
    """A built layer, what it is called with, and its compiled functions.

    Args:
        make: Function without arguments that makes the layer.
        inputs: Arrays `(rows, ...)` by argument of its `call`, in order.
        wide: Names of outputs that are float32 or wider whatever the policy.
        nonzero: Names of outputs that may differ from zero in a row without a
            real step.
        trainings: Values of `training` with which the layer draws nothing;
            None to find out.

    Attributes:
        layer: The layer, built.
        mask: Name of its mask argument, or None.
        masks: Boolean array `(rows, steps)` with masks of every kind.
        timed: Names of inputs `(rows, steps, ...)`, which the mask masks.
        time_axes: Axis of time by name of output, where there is one.
        fresh: The values of its variables when it was built.
    """

    def __init__(
        self,
        make: Callable[[], Any],
        inputs: Arrays,
        *,
        wide: Sequence[str] = (),
        nonzero: Sequence[str] = (),
        trainings: Sequence[bool] | None = None,
    ) -> None:
        self.make = make
        self.inputs = inputs
        self.wide = wide
        self.nonzero = nonzero
        self._trainings = trainings
        self.layer = make()
        self.mask = mask_argument(self.layer)
        sequence = inputs[sequence_name(inputs, self.mask)]
        self.rows, self.steps = (*sequence.shape, 0, 0)[:2]
        if self.rows < ROWS or self.steps < STEPS:
            raise ValueError(
                f"Argument `inputs` must have at least {ROWS} rows and {STEPS} "
                f"steps. Received: inputs={sequence.shape}"
            )
        self.masks = make_masks(self.rows, self.steps)
        self.timed = [
            name
            for name, x in inputs.items()
            if x.ndim > 1 and x.shape[1] == self.steps
        ]
        self.time_axes = self._find_time()
        self.trainable = [v.value for v in self.layer.trainable_variables]
        self.fresh = [ops.copy(v.value) for v in self.layer.variables]
        self._graphs: dict[bool, Callable] = {}
        self._under: dict[str, Subject] = {}

    def _find_time(self) -> dict[str, int]:
        """The axes of outputs that change with the number of steps."""
        whole, shorter = (
            name_outputs(call_layer(self.layer, self.sample(2, steps)))
            for steps in (self.steps, self.steps - 1)
        )
        axes = {
            name: (axis, *sizes)
            for name, x in whole.items()
            for axis, sizes in enumerate(zip(x.shape, shorter[name].shape))
            if sizes[0] != sizes[1]
        }
        for name, (_, *sizes) in axes.items():
            if sizes != [self.steps, self.steps - 1]:
                raise ValueError(
                    "Argument `make` must make a layer that returns as many "
                    "steps as it is given, or always the same number. "
                    f"Received: {name} has {sizes[0]} of {self.steps}"
                )
        return {name: axis for name, (axis, *_) in axes.items()}

    def sample(self, rows: int, steps: int | None = None) -> Arrays:
        """The first rows and steps of the inputs."""
        return {
            name: x[:rows, :steps] if name in self.timed else x[:rows]
            for name, x in self.inputs.items()
        }

    @property
    def given(self) -> Arrays:
        """The inputs, with masks of every kind."""
        masks = {} if self.mask is None else {self.mask: self.masks}
        return {**self.inputs, **masks}

    def under(self, policy: str) -> "Subject":
        """The same layer with the same weights under a dtype policy."""
        if policy not in self._under:
            with dtype_policy(policy):
                self._under[policy] = Subject(
                    self.make,
                    self.inputs,
                    wide=self.wide,
                    nonzero=self.nonzero,
                )
        other = self._under[policy]
        for new, value in zip(other.layer.variables, self.fresh, strict=True):
            new.assign(ops.cast(value, new.dtype))
        return other

    @property
    def trainings(self) -> Sequence[bool]:
        """Values of `training` with which the layer draws nothing."""
        if self._trainings is None:
            self._trainings = [False] if self.draws() else [False, True]
        return self._trainings

    def draws(self) -> bool:
        """Returns whether two calls in training differ."""
        function = self.graph(True)
        first, *_ = self.run(function, self.inputs)
        second, *_ = self.go_on(function, self.inputs)
        return not all(
            np.array_equal(x, second[name], equal_nan=x.dtype.kind == "f")
            for name, x in first.items()
        )

    def describe(self) -> str:
        """The layer, what of its config is no default, and its inputs."""
        layer = self.layer
        config: dict[str, Any] = getattr(layer, "get_config", dict)()
        defaults = constructor_defaults(type(layer))
        settings = ", ".join(
            f"{name}={reprlib.repr(value)}"
            for name, value in config.items()
            if name in defaults and value != defaults[name]
        )
        inputs = ", ".join(
            f"{name}: {x.dtype} {x.shape}" for name, x in self.inputs.items()
        )
        return (
            f"Layer: {type(layer).__name__}({settings})\n"
            f"Inputs: {inputs}; mask: {self.mask}"
        )

    def restore(self, weights: Sequence[Any] | None = None) -> None:
        """Sets weights and seeds, by default to what they were when built."""
        for variable, value in zip(
            self.layer.variables, weights or self.fresh, strict=True
        ):
            variable.assign(value)

    def in_time_order(self, outputs: Arrays) -> Arrays:
        """Turns outputs that come in reading order, from the end."""
        if not getattr(self.layer, "go_backwards", False):
            return outputs
        return {
            name: ops.flip(value, axis=self.time_axes[name])
            if name in self.time_axes
            else value
            for name, value in outputs.items()
        }

    def values(self, training: bool) -> Callable:
        """Function of inputs and a mask: the outputs."""

        def run(inputs: Arrays, mask: Any) -> Arrays:
            masks = {}
            if self.mask is not None and mask is not None:
                masks[self.mask] = mask
            outputs = call_layer(self.layer, inputs, masks, training)
            return self.in_time_order(name_outputs(outputs))

        return run

    def gradients(self, training: bool) -> Callable:
        """The same with the gradients of inputs and of weights."""
        return self.differentiate(self.values(training))

    def differentiate(self, values: Callable) -> Callable:
        """Adds gradients, of the sum of squares at real steps, to outputs."""

        def run(inputs: Arrays, mask: Any) -> tuple:
            floats = {n: x for n, x in inputs.items() if x.dtype.is_floating}
            with tf.GradientTape() as tape:
                tape.watch(floats)
                outputs = values(inputs, mask)
                loss = self.loss(outputs, mask)
            return outputs, *tape.gradient(
                loss,
                (floats, self.trainable),
                unconnected_gradients=tf.UnconnectedGradients.ZERO,
            )

        return run

    def graph(self, training: bool) -> Any:
        """Outputs and gradients, compiled once for all sizes."""
        if training not in self._graphs:
            inputs = {}
            for name, x in self.inputs.items():
                shape = [None, *x.shape[1:]]
                if name in self.timed:
                    shape[1] = None
                inputs[name] = tf.TensorSpec(shape, x.dtype)
            mask = tf.TensorSpec((None, None), "bool")
            self._graphs[training] = tf.function(
                self.gradients(training), input_signature=(inputs, mask)
            )
        return self._graphs[training]

    def loss(self, outputs: Arrays, mask: Any) -> Any:
        """Sum of squares of all that belongs to real steps."""
        total: Any = 0.0
        for name, value in outputs.items():
            value = ops.cast(value, "float32")
            if name in self.time_axes:
                shape = [1] * value.ndim
                shape[0], shape[self.time_axes[name]] = ops.shape(mask)
                value = ops.where(ops.reshape(mask, shape), value, 0.0)
            total += ops.sum(ops.square(value))
        return total

    def run(
        self,
        function: Callable,
        inputs: Arrays,
        mask: Any = None,
        weights: Sequence[Any] | None = None,
    ) -> Any:
        """Calls one of the above from the first seed; numpy results."""
        self.restore(weights)
        return self.go_on(function, inputs, mask)

    def go_on(
        self, function: Callable, inputs: Arrays, mask: Any = None
    ) -> Any:
        """The same from where the last call left the seeds."""
        inputs = {name: tf.constant(x) for name, x in inputs.items()}
        if mask is None or self.mask is None:
            shape = inputs[sequence_name(inputs, self.mask)].shape[:2]
            mask = np.ones(shape, "bool")
        results = function(inputs, tf.constant(mask))
        return keras.tree.map_structure(lambda x: x.numpy(), results)

    def outputs(
        self, inputs: Arrays, mask: Any = None, training: bool = False
    ) -> Arrays:
        """Calls the layer eagerly, on arrays."""
        outputs = self.values(training)(inputs, mask)
        return {name: value.numpy() for name, value in outputs.items()}

    def assert_close(self, found: Any, expected: Any, terms: int = 1) -> None:
        """Asserts equality but for rounding; numbers are about one."""
        operations = terms * OPERATIONS * self.steps
        tolerances.assert_close(found, expected, operations, scale=1)
