"""What the conformance tests know of a layer, and of a way to use it."""

import dataclasses
import functools
import inspect
from collections.abc import Callable

import keras
import numpy as np
from keras import ops

import keras_seqmech
from keras_seqmech.core.decisions import choices
from keras_seqmech.core.decisions import learning
from keras_seqmech.testing import subject
from tests.fixed_noise import DRAWS
from tests.fixed_noise import silence

# No other size in the registry is this one.
TIME = 7
FEATURES = 3
# Variables that callbacks set: float32 and not trained.
SCALARS = (
    "temperature",
    "penalty",
    "attention_dropout",
    *learning.WEIGHTS,
)


@dataclasses.dataclass(frozen=True)
class Argument:
    """A tensor that a layer is called with.

    Attributes:
        name: Name of the call argument.
        shape: Shape after the batch axis; None is the time axis, which the
            layer's mask masks.
        draw: Function `(generator, shape) -> array` that makes an example.
    """

    name: str
    shape: tuple
    draw: Callable = lambda generator, shape: generator.normal(size=shape)

    def sample(self, generator, batch_size, length):
        shape = [length if size is None else size for size in self.shape]
        values = self.draw(generator, (batch_size, *shape))
        kind = "float32" if values.dtype.kind == "f" else "int32"
        return np.asarray(values, kind)


@dataclasses.dataclass(frozen=True)
class Entry:
    """One way to use a public layer.

    Attributes:
        id: Name of the test case.
        make: Function `(**overrides) -> layer`, the public layer.
        arguments: What it is called with.
        weights: Names of its weights, in order.
        wrap: What turns it into a layer that is called on `arguments`.
        resume: Function `(layer, inputs, mask, cut, training) -> outputs` that
            runs a sequence in two calls, the states passed on, and joins the
            output sequences; None for layers without states.
        draws: Whether training draws noise.
        silent: Whether `silence` makes training deterministic; not where the
            wrapped cell has dropout.
        wide: Outputs that are probabilities: float32 or wider.
        nonzero: Outputs that, in a row without a real step, are what the layer
            started with, which may be learned, or certain.
        core: Whether expensive tests run it too.
        golden: Whether `saved_models` has files of it.
    """

    id: str
    make: Callable[..., keras.layers.Layer]
    arguments: tuple[Argument, ...]
    weights: tuple[str, ...]
    wrap: Callable = lambda layer: layer
    resume: Callable | None = None
    draws: bool = True
    silent: bool = True
    wide: tuple[str, ...] = ()
    nonzero: tuple[str, ...] = ()
    core: bool = False
    golden: bool = False

    @functools.cached_property
    def layer_class(self) -> type:
        return type(self.make())

    @functools.cached_property
    def masks(self) -> list[str]:
        return [subject.mask_argument(self.wrap(self.make()))]

    @property
    def is_trainable(self) -> bool:
        return not set(self.weights) <= set(SCALARS)

    @property
    def is_cell(self) -> bool:
        return self.wrap is OverWindows

    @property
    def is_wrapped(self) -> bool:
        """Whether another layer is called in its place."""
        return inspect.isclass(self.wrap)

    def sample(self, batch_size=5, length=TIME, seed=0) -> dict:
        generator = np.random.default_rng(seed)
        return {
            a.name: a.sample(generator, batch_size, length)
            for a in self.arguments
        }

    def model(self, **overrides) -> keras.Model:
        """Functional model, named inputs and masks in, named outputs out."""
        layer = self.wrap(self.make(**overrides))
        return subject.functional_model(layer, self.sample())

    def subject(self) -> subject.Subject:
        """The layer for contracts, built."""
        return subject.Subject(
            lambda: self.wrap(self.make()),
            self.sample(),
            wide=self.wide,
            nonzero=self.nonzero,
            trainings=(False, True) if self.silent else (False,),
        )


@dataclasses.dataclass(frozen=True)
class Facts:
    """What is to be known about a public layer.

    Attributes:
        arguments: Function that makes a value other than the default for
            each constructor argument that `arguments_of` does not know.
        exclusive: For each argument that another one excludes, what to change
            in these to give it.
        bad_arguments: Names and values that the constructor refuses, beside
            those of a wrong kind.
        bad_calls: Functions by name of the argument at fault that must fail.
        decisions: What `return_...` puts into the dict at the end of the
            outputs, by name of that constructor argument.
        statistics: Metrics that `track_statistics=True` adds, without the
            layer's name.
    """

    arguments: Callable[[], dict] = dict
    bad_arguments: tuple = ()
    bad_calls: tuple = ()
    decisions: dict = dataclasses.field(default_factory=dict)
    statistics: tuple = ()
    exclusive: dict = dataclasses.field(default_factory=dict)


def arguments_of(layer_class, facts) -> dict:
    """Values other than the defaults; of `facts`, or as names tell."""
    known = {
        "initializer": keras.initializers.HeNormal(),
        "regularizer": keras.regularizers.L2(0.25),
        "seed": 11,
    }
    values = {}
    for name, default in subject.constructor_defaults(layer_class).items():
        kind = name.rpartition("_")[2]
        if kind in known:
            values[name] = known[kind]
        elif isinstance(default, bool):
            values[name] = not default
    return {**values, **facts.arguments()}


def bad_arguments_of(layer_class, facts) -> list:
    """Names and values that the constructor refuses."""
    kinds = {
        bool: (1, "no", None),
        int: (-1, 2.5, True, "3"),
        float: (-1, float("nan"), True, "3"),
        str: ("neither", 3),
    }
    return [
        *(
            (name, bad)
            for name, value in arguments_of(layer_class, facts).items()
            for bad in kinds.get(type(value), ())
            if name != "activation"
        ),
        *facts.bad_arguments,
    ]


def maker(layer_class, *parts, **options):
    """Function `(**overrides) -> layer`; parts are functions that make one."""

    def make(**overrides):
        made = [part() for part in parts]
        return layer_class(*made, **{**options, **overrides})

    return make


class Around:
    """A public layer that is called in another way, with layers around it."""

    def __init__(self, *parts):
        self.parts = parts

    def __getattr__(self, name):
        """Weights and variables, of all kinds, of all parts."""
        values = [getattr(part, name) for part in self.parts]
        return sum(values[1:], values[0])

    def __call__(self, *args, **kwargs):
        return self.call(*args, **kwargs)


class OverWindows(Around):
    """A cell that is run over the windows of a sequence."""

    def __init__(self, cell):
        self.windows = keras_seqmech.ReceptiveFieldWindows(cell.max_size)
        self.rnn = keras.layers.RNN(
            cell, return_sequences=True, return_state=True, name="rnn"
        )
        super().__init__(self.rnn)

    def call(self, sequence, mask=None, training=False):
        windows = self.windows(sequence, mask=mask)
        return self.rnn(windows, mask=mask, training=training)


class NoiseSwitch:
    """Turns all that is drawn to zero and back, in compiled graphs, too."""

    def __init__(self, monkeypatch):
        self._scale = keras.Variable(1.0, trainable=False, dtype="float32")
        drawn = {name: getattr(choices, name) for name in DRAWS}
        silence(monkeypatch)
        for name, draw in drawn.items():
            silent = getattr(choices, name)
            monkeypatch.setattr(choices, name, self._switched(draw, silent))

    def _switched(self, draw, silent):
        def switched(*args, **kwargs):
            return ops.where(
                self._scale > 0, draw(*args, **kwargs), silent(*args, **kwargs)
            )

        return switched

    def turn(self, on: bool) -> None:
        self._scale.assign(float(on))
