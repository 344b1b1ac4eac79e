"""A model that shares the layers of another and perturbs a recurrent one.

Layers are called again on `keras.Input`s; only the recurrent layer's place is
taken by one of this module. Nothing of the given model is replaced.
"""

import contextlib
import dataclasses
import math
from collections.abc import Iterator
from typing import Any
from typing import NamedTuple

import keras
import tensorflow as tf
from keras import ops

from keras_seqmech.layers import FocusedHierarchicalEncoder
from keras_seqmech.layers import functional
from keras_seqmech.layers.receptive_field import ReceptiveFieldRNN
from keras_seqmech.layers.receptive_field import ReceptiveFieldWindows
from keras_seqmech.layers.receptive_field import RFCell
from keras_seqmech.layers.sublayers import sublayers
from keras_seqmech.layers.wrapped import directions
from keras_seqmech.typing import Tensor


class Run(NamedTuple):
    """One call of a perturbed layer.

    Attributes:
        perturbations: `(batch, time, units)`, one of each direction; that of
            the backward direction is in the order of the sequence, too.
        mask: The mask of the call, or None.
    """

    perturbations: list[tf.Tensor]
    mask: Any


class Site(NamedTuple):
    """Where a model is perturbed.

    Attributes:
        name: Name of the layer that is measured.
        layer: The layer to replace: that layer, or the `Bidirectional` or
            `FocusedHierarchicalEncoder` that it is a part of.
        loops: The recurrent layers within it whose states are perturbed.
    """

    name: str
    layer: keras.Layer
    loops: list[keras.layers.RNN]


def find_recurrent_layer(model: keras.Model, name: str | None = None) -> Site:
    """The recurrent layer of a name, or the only one of a model."""
    layers = list(sublayers(model))
    owners = {id(loop): layer for layer in layers for loop in _parts(layer)}

    def label(layer: keras.Layer) -> str:
        owner = owners.get(id(layer))
        if isinstance(owner, FocusedHierarchicalEncoder):
            return f"{owner.name}/{layer.name}"
        return layer.name

    outer = [
        layer
        for layer in layers
        if _can_run(layer)
        and not isinstance(owners.get(id(layer)), keras.layers.Bidirectional)
    ]
    names = sorted(map(label, outer))
    if name is None:
        found = outer
    else:
        found = [
            layer for layer in layers if name in (layer.name, label(layer))
        ]
    if len(found) != 1:
        raise ValueError(
            "Argument `layer` must name one recurrent layer of the model, or "
            "be None if it has only one. The model has the recurrent layers "
            f"{names}. Received: layer={name!r}"
        )
    (layer,) = found
    if not _can_run(layer):
        raise ValueError(
            "Argument `layer` must name a `keras.layers.RNN`, `LSTM`, `GRU`, "
            "`SimpleRNN`, or a `Bidirectional` of these, or the `lower` or "
            "`upper` of a `FocusedHierarchicalEncoder`. The model has the "
            f"recurrent layers {names}. "
            f"Received: layer={name!r}, of class {type(layer).__name__}"
        )
    return Site(layer.name, owners.get(id(layer), layer), directions(layer))


def _can_run(layer: keras.Layer) -> bool:
    return all(isinstance(loop, keras.layers.RNN) for loop in directions(layer))


def _parts(layer: keras.Layer) -> list[keras.layers.RNN]:
    """The recurrent layers that a layer is made of."""
    if isinstance(layer, FocusedHierarchicalEncoder):
        return [layer.lower, layer.upper]
    return (
        directions(layer)
        if isinstance(layer, keras.layers.Bidirectional)
        else []
    )


class PerturbedCell(keras.layers.Layer):
    """Runs a cell on the first features, adds the last ones to its output.

    Args:
        cell: The cell.
        step_shape: The shape of its inputs at one step, where these are not a
            vector of features, such as the windows of an `RFCell`.
        **kwargs: Base layer keyword arguments.
    """

    def __init__(
        self,
        cell: Any,
        step_shape: tuple[int, ...] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.cell = cell
        self.step_shape = step_shape
        self.state_size = cell.state_size
        size = getattr(cell, "output_size", None)
        self.output_size = size or keras.tree.flatten(cell.state_size)[0]
        if hasattr(cell, "get_initial_state"):
            self.get_initial_state = cell.get_initial_state

    def build(self, input_shape: Any) -> None:
        pass  # The cell is built.

    def call(self, inputs: Tensor, states: Any) -> Any:
        inputs, perturbation = (
            inputs[:, : -self.output_size],
            inputs[:, -self.output_size :],
        )
        if self.step_shape is not None:
            inputs = ops.reshape(inputs, (-1, *self.step_shape))
        hidden, states = self.cell(inputs, states)
        flat = keras.tree.flatten(states)
        if not any(state is hidden for state in flat):
            raise ValueError(
                "The output of a cell must be one of its states, so that the "
                "gradient at a step is defined. Received: a cell of class "
                f"{type(self.cell).__name__}, whose output is none of them"
            )
        perturbed = hidden + perturbation
        flat = [perturbed if state is hidden else state for state in flat]
        return perturbed, keras.tree.pack_sequence_as(states, flat)


class _PerturbedLoop:
    """The loop of a recurrent layer, with perturbations as a further input.

    Args:
        rnn: The layer.
        cell: The cell to run at each step; that of the layer if None.
    """

    def __init__(self, rnn: keras.layers.RNN, cell: Any = None):
        self.rnn = rnn
        cell = rnn.cell if cell is None else cell
        policy = getattr(cell, "dtype_policy", None)
        step_shape = None
        if isinstance(cell, RFCell):
            features = cell.field_kernel.shape[0]
            step_shape = (cell.max_size, features + 1)
        self.windows: Any = None
        if isinstance(rnn, ReceptiveFieldRNN):
            self.windows = ReceptiveFieldWindows(
                rnn.max_size, dtype=rnn.dtype_policy
            )
        self.loop = keras.layers.RNN(
            PerturbedCell(cell, step_shape, dtype=policy),
            return_sequences=rnn.return_sequences,
            return_state=rnn.return_state,
            go_backwards=rnn.go_backwards and self.windows is None,
            unroll=rnn.unroll,
            zero_output_for_mask=rnn.zero_output_for_mask,
            dtype=rnn.dtype_policy,
        )

    def __call__(
        self,
        sequences: Tensor,
        perturbation: Tensor,
        initial_state: Any = None,
        mask: Tensor | None = None,
    ) -> Any:
        if initial_state is None and self.rnn.stateful:
            initial_state = self.rnn.states
        inputs, loop_mask = sequences, mask
        if self.windows is not None:
            if self.rnn.go_backwards:
                # Windows look ahead in reading order: the sequence is flipped
                # before they are made.
                inputs, perturbation = (
                    ops.flip(x, axis=1) for x in (inputs, perturbation)
                )
                if mask is not None:
                    loop_mask = ops.flip(mask, axis=1)
            inputs = self.windows(inputs, mask=loop_mask)
        if len(inputs.shape) > 3:
            width = math.prod(inputs.shape[2:])
            shape = (*ops.shape(inputs)[:2], width)
            inputs = ops.reshape(inputs, shape)
        outputs = self.loop(
            ops.concatenate([inputs, perturbation], axis=-1),
            initial_state=initial_state,
            mask=loop_mask,
        )
        if not getattr(self.rnn, "return_field", False):
            return outputs
        outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        *_, field = self.rnn(sequences, initial_state=initial_state, mask=mask)
        return (*outputs, keras.tree.map_structure(ops.stop_gradient, field))

    def zero_perturbation(self, sequences: tf.Tensor) -> tf.Tensor:
        batch_size, length = tf.unstack(tf.shape(sequences)[:2])
        shape = (batch_size, length, self.loop.cell.output_size)
        return tf.zeros(shape, sequences.dtype)


@dataclasses.dataclass
class _Recorder:
    """A tape that watches perturbations, and the calls that had them."""

    tape: tf.GradientTape
    runs: list[Run]


class Perturbed(keras.layers.Layer):
    """A layer whose hidden states are perturbed.

    It is called as the layer is, shares its cells, and returns the same.

    Args:
        site: From `find_recurrent_layer`.
    """

    def __init__(self, site: Site):
        super().__init__(dtype=site.layer.dtype_policy)
        self.supports_masking = site.layer.supports_masking
        self.site = site
        self._recorder: _Recorder | None = None

    @contextlib.contextmanager
    def recording(self, tape: tf.GradientTape) -> Iterator[list[Run]]:
        """Within it, the tape watches the perturbations of each call."""
        self._recorder = _Recorder(tape, [])
        try:
            yield self._recorder.runs
        finally:
            self._recorder = None

    def record(self, perturbations: list[tf.Tensor], mask: Any) -> None:
        """Lets the tape, if there is one, watch a call's perturbations."""
        if self._recorder is not None:
            self._recorder.tape.watch(perturbations)
            self._recorder.runs.append(Run(perturbations, mask))

    def compute_mask(self, inputs: Any, previous_mask: Any) -> Any:
        return self.site.layer.compute_mask(inputs, previous_mask)


class PerturbedLayer(Perturbed):
    """A recurrent or bidirectional layer, perturbed."""

    def __init__(self, site: Site):
        super().__init__(site)
        self.parts: list[Any] = [
            _PerturbedLoop(rnn) if any(rnn is r for r in site.loops) else rnn
            for rnn in directions(site.layer)
        ]

    def build(
        self, sequences_shape: Any, initial_state_shape: Any = None
    ) -> None:
        pass  # The parts build themselves when they run.

    def call(
        self,
        sequences: Tensor,
        initial_state: Any = None,
        mask: Tensor | None = None,
        training: bool = False,
    ) -> Any:
        if len(getattr(sequences, "shape", ())) < 3:
            raise ValueError(
                f"Layer {self.site.name!r} must read sequences (batch, time, "
                f"features). Received: {sequences}"
            )
        perturbations = {
            i: part.zero_perturbation(sequences)
            for i, part in enumerate(self.parts)
            if isinstance(part, _PerturbedLoop)
        }
        self.record(list(perturbations.values()), mask)
        outputs = [
            part(
                sequences,
                *([perturbations[i]] if i in perturbations else []),
                initial_state=state,
                mask=mask,
            )
            for i, (part, state) in enumerate(
                zip(self.parts, self._split(initial_state))
            )
        ]
        if isinstance(self.site.layer, keras.layers.Bidirectional):
            return _merge(self.site.layer, *outputs)
        return outputs[0]

    def _split(self, initial_state: Any) -> list[Any]:
        """The initial state of each direction."""
        if initial_state is None or len(self.parts) == 1:
            return [initial_state] * len(self.parts)
        half = len(initial_state) // 2
        return [initial_state[:half], initial_state[half:]]


def _merge(
    layer: keras.layers.Bidirectional, forward: Any, backward: Any
) -> Any:
    """The outputs of both directions, as `Bidirectional` returns them."""
    states: tuple = ()
    if layer.return_state:
        states = (*forward[1:], *backward[1:])
        forward, backward = forward[0], backward[0]
    if layer.return_sequences:
        backward = ops.flip(backward, axis=1)
    if layer.merge_mode is None:
        return (forward, backward, *states)
    merged = {
        "concat": lambda: ops.concatenate([forward, backward], axis=-1),
        "sum": lambda: forward + backward,
        "ave": lambda: (forward + backward) / 2,
        "mul": lambda: forward * backward,
    }[layer.merge_mode]()
    return (merged, *states) if layer.return_state else merged


def rebuild(
    model: keras.Model, perturbed: Perturbed, example_inputs: Any
) -> keras.Model:
    """A functional model with the layers of another, one of them perturbed.

    Args:
        model: A built model: functional, sequential, or subclassed with a
            `call` of layers and `keras.ops`. It may hold the layer at any
            depth of models and layers of these kinds.
        perturbed: Takes the place of the layer it was made from.
        example_inputs: A batch, for the shapes of a subclassed model.

    Raises:
        ValueError: If `call` of a model or layer around the recurrent layer
            is not of layers and `keras.ops`.
    """
    graph = _graph(model)
    if graph is None:
        inputs = keras.tree.map_structure(
            lambda x: keras.Input(
                batch_shape=x.shape,
                dtype=keras.backend.standardize_dtype(x.dtype),
            ),
            example_inputs,
        )
        graph = keras.Model(inputs, _call(model, inputs))
    return _replace(graph, perturbed)


def _graph(model: keras.Layer) -> keras.Model | None:
    """An uncompiled copy of a model that is a graph of layers."""
    if not getattr(model, "inputs", None):
        return None
    if isinstance(model, keras.Sequential):
        (inputs,) = model.inputs
        outputs = model.outputs
        outputs = outputs[0] if len(outputs) == 1 else tuple(outputs)
        graph = keras.Model(inputs, outputs)
        is_plain = type(model).call is keras.Sequential.call
    else:
        graph = keras.Model(model.input, model.output)
        is_plain = type(model).call is type(graph).call
    return graph if is_plain else None


def _replace(graph: keras.Model, perturbed: Perturbed) -> keras.Model:
    """Calls the layers of a graph again, but for the perturbed one."""

    def call(layer: Any, *args: Any, **kwargs: Any) -> Any:
        if layer is perturbed.site.layer:
            return _call_perturbed(perturbed, args, kwargs)
        if _holds(layer, perturbed.site.layer):
            return _call_inside(layer, perturbed, args, kwargs)
        return layer(*args, **kwargs)

    return functional.run_again(graph, call)


def _call_perturbed(perturbed: Perturbed, args: tuple, kwargs: dict) -> Any:
    try:
        return perturbed(*args, **kwargs)
    except Exception as error:
        kinds = [
            f"{type(loop).__name__} of a {type(loop.cell).__name__}"
            for loop in perturbed.site.loops
        ]
        raise ValueError(
            "Argument `layer` must name a layer that runs its cell at each "
            "step and does nothing else. The output of the cell must be one "
            "of its states. "
            f"Received: layer {perturbed.site.name!r}, {', '.join(kinds)}"
        ) from error


def _holds(layer: Any, part: keras.Layer) -> bool:
    return isinstance(layer, keras.Layer) and any(
        found is part for found in sublayers(layer)
    )


def _call_inside(
    layer: keras.Layer, perturbed: Perturbed, args: tuple, kwargs: dict
) -> Any:
    """Calls a layer around the perturbed one."""
    graph = _graph(layer)
    if graph is not None:
        inner = _replace(graph, perturbed)
        inner.supports_masking = layer.supports_masking
        return inner(*args, **kwargs)
    tensors, inputs = [], []

    def as_input(value: Any) -> Any:
        if not isinstance(value, keras.KerasTensor):
            return value
        tensors.append(value)
        inputs.append(keras.Input(batch_shape=value.shape, dtype=value.dtype))
        return inputs[-1]

    args, kwargs = keras.tree.map_structure(as_input, (args, kwargs))
    graph = keras.Model(inputs, _call(layer, *args, **kwargs))
    return _Around(layer, _replace(graph, perturbed))(tensors)


class _Around(keras.layers.Layer):
    """Runs a graph in place of the layer it was made from.

    Args:
        layer: The layer, whose `compute_mask` is used.
        graph: Functional model that takes a list of the layer's inputs.
    """

    def __init__(self, layer: keras.Layer, graph: keras.Model):
        super().__init__(name=f"around_{layer.name}", dtype=layer.dtype_policy)
        self.layer = layer
        self.graph = graph
        self.graph.supports_masking = True
        self.supports_masking = layer.supports_masking

    def build(self, inputs_shape: Any) -> None:
        pass  # The layers of the graph are built.

    def call(self, inputs: Tensor) -> Any:
        return self.graph(inputs)

    def compute_mask(self, inputs: Any, previous_mask: Any) -> Any:
        if len(inputs) == 1:
            (inputs,), (previous_mask,) = inputs, previous_mask or [None]
        return self.layer.compute_mask(inputs, previous_mask)


def _call(layer: keras.Layer, *args: Any, **kwargs: Any) -> Any:
    try:
        return layer.call(*args, **kwargs)
    except Exception as error:
        raise ValueError(
            "Argument `model` must hold the recurrent layer in functional and "
            "sequential models, or in models and layers whose `call` can run "
            "on a `keras.Input`: one of layers and `keras.ops`, not of "
            "functions of TensorFlow. Else pass the part of the model that "
            "can. "
            f"Received: {layer.name!r}, of class {type(layer).__name__}"
        ) from error
