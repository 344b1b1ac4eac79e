"""What the conformance tests know of a layer, and of a way to use it."""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_seqmech.core.decisions import penalties
from keras_seqmech.core.decisions import sampling
from tests.fixed_noise import DRAWS
from tests.fixed_noise import silence

# No other size in the registry is this one: an output of this second
# dimension has a time axis.
TIME = 7
FEATURES = 3
# Variables that callbacks set: float32 and not trained.
SCALARS = (
    "temperature",
    "penalty",
    "attention_dropout",
    *penalties.WEIGHTS,
)


@dataclasses.dataclass(frozen=True)
class Argument:
    """A tensor that a layer is called with.

    Attributes:
        name: Name of the call argument.
        shape: Shape after the batch axis; None is the time axis.
        mask: Name of the call argument that masks it, or None.
        draw: Function `(generator, shape) -> array` that makes an example.
        above: Axes to add for a rank that is too high.
    """

    name: str
    shape: tuple
    mask: str | None = None
    draw: Callable = lambda generator, shape: generator.normal(size=shape)
    above: tuple = (1,)

    def sample(self, generator, batch_size, length):
        shape = [length if size is None else size for size in self.shape]
        values = self.draw(generator, (batch_size, *shape))
        return np.asarray(values, "float32")


@dataclasses.dataclass(frozen=True)
class Entry:
    """One way to use a public layer.

    Attributes:
        id: Name of the test case.
        make: Function `(**overrides) -> layer`, the public layer.
        arguments: What it is called with.
        weights: Names of its weights, in order.
        wrap: What turns it into a layer that is called on `arguments`.
        prepare: Function `(inputs, masks) -> inputs` applied before the call;
            inputs and masks are by name.
        name: Function of what the layer returns: the same with names for what
            is a decision.
        shown: Function of its decisions: as they are among the outputs.
        resume: Function `(layer, inputs, mask, cut, training) -> outputs` that
            runs a sequence in two calls, the states passed on, and joins the
            output sequences; None for layers without states.
        draws: Whether training draws noise.
        length: Steps of functional models: static where a layer needs it.
        silent: Whether `silence` makes training deterministic; not where the
            wrapped cell has dropout.
        backwards: Whether outputs come in reading order, from the end.
        states: Outputs that are final states: in a row without a real step
            they are the states it started with, which may be learned.
        core: Whether expensive tests run it too.
        golden: Whether `saved_models` has files of it.
    """

    id: str
    make: Callable[..., keras.layers.Layer]
    arguments: tuple[Argument, ...]
    weights: tuple[str, ...]
    wrap: Callable = lambda layer: layer
    prepare: Callable = lambda inputs, masks: inputs
    name: Callable = lambda outputs: outputs
    shown: Callable = lambda decisions: decisions
    resume: Callable | None = None
    length: int | None = None
    draws: bool = True
    silent: bool = True
    backwards: bool = False
    states: tuple[str, ...] = ()
    core: bool = False
    golden: bool = False

    @functools.cached_property
    def layer_class(self) -> type:
        return type(self.make())

    @property
    def is_trainable(self) -> bool:
        return not set(self.weights) <= set(SCALARS)

    @property
    def masks(self) -> list[str]:
        return [a.mask for a in self.arguments if a.mask is not None]

    def sample(self, batch_size=5, length=TIME, seed=0) -> dict:
        generator = np.random.default_rng(seed)
        return {
            a.name: a.sample(generator, batch_size, length)
            for a in self.arguments
        }

    def call(self, layer, inputs, masks=None, training=False) -> Any:
        masks = masks or {}
        keywords = {a.name: inputs[a.name] for a in self.arguments}
        keywords = self.prepare(keywords, masks)
        first = keywords.pop(self.arguments[0].name)
        if "training" in inspect.signature(layer.call).parameters:
            keywords["training"] = training
        return self.name(layer(first, **keywords, **masks))

    @property
    def is_cell(self) -> bool:
        return self.wrap is in_rnn

    @property
    def is_wrapped(self) -> bool:
        """Whether another layer is called in its place."""
        return self.is_cell or inspect.isclass(self.wrap)

    def model(self, **overrides) -> keras.Model:
        """Functional model, named inputs and masks in, named outputs out."""
        layer = self.wrap(self.make(**overrides))
        inputs, masks = {}, {}
        for a in self.arguments:
            shape = [self.length if size is None else size for size in a.shape]
            inputs[a.name] = keras.Input(shape, name=a.name)
            if a.mask is not None:
                masks[a.mask] = keras.Input(
                    (self.length,), dtype="bool", name=a.mask
                )
        outputs = name_outputs(self.call(layer, inputs, masks))
        return keras.Model({**inputs, **masks}, outputs)


@dataclasses.dataclass(frozen=True)
class Facts:
    """What is to be known about a public layer.

    Attributes:
        arguments: Function that makes a value other than the default for
            every constructor argument but those of `exclusive`.
        exclusive: For each argument that another one excludes, what to change
            in `arguments` to give it.
        bad_arguments: Names and values that the constructor refuses.
        bad_calls: Functions by name of the argument at fault that must fail.
        decisions: What `return_...` puts into the dict at the end of the
            outputs, by name of that constructor argument.
        statistics: Metrics that `track_statistics=True` adds, without the
            layer's name.
    """

    arguments: Callable[[], dict]
    bad_arguments: tuple = ()
    bad_calls: tuple = ()
    decisions: dict = dataclasses.field(default_factory=dict)
    statistics: tuple = ()
    exclusive: dict = dataclasses.field(default_factory=dict)


def maker(layer_class, *parts, **options):
    """Function `(**overrides) -> layer`; parts are functions that make one."""

    def make(**overrides):
        made = [part() for part in parts]
        return layer_class(*made, **{**options, **overrides})

    return make


def in_rnn(cell):
    return keras.layers.RNN(
        cell, return_sequences=True, return_state=True, name="rnn"
    )


def name_outputs(outputs) -> dict:
    """Names what a layer returns: `output_0`, ..., and its decisions."""
    parts = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    decisions = parts[-1] if isinstance(parts[-1], dict) else {}
    if decisions:
        parts = parts[:-1]
    flat = keras.tree.flatten(list(parts))
    return {**{f"output_{i}": x for i, x in enumerate(flat)}, **decisions}


class NoiseSwitch:
    """Turns all that is drawn to zero and back, in compiled graphs, too."""

    def __init__(self, monkeypatch):
        self._scale = keras.Variable(1.0, trainable=False, dtype="float32")
        drawn = {name: getattr(sampling, name) for name in DRAWS}
        silence(monkeypatch)
        for name, draw in drawn.items():
            silent = getattr(sampling, name)
            monkeypatch.setattr(sampling, name, self._switched(draw, silent))

    def _switched(self, draw, silent):
        def switched(*args, **kwargs):
            return ops.where(
                self._scale > 0, draw(*args, **kwargs), silent(*args, **kwargs)
            )

        return switched

    def turn(self, on: bool) -> None:
        self._scale.assign(float(on))
