"""The gradient at each step of a recurrent layer, through the recurrence."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_seqmech.core import cells
from keras_seqmech.core import graph
from keras_seqmech.core.keras_steps import RECURRENT
from keras_seqmech.core.wrapped import directions
from keras_seqmech.core.wrapped import unwrapped
from keras_seqmech.initial_state import LearnedInitialState
from keras_seqmech.receptive_field import ReceptiveFieldRNN
from keras_seqmech.receptive_field import ReceptiveFieldWindows
from keras_seqmech.receptive_field import RFCell
from keras_seqmech.typing import Tensor

KINDS = (*RECURRENT, ReceptiveFieldRNN)


class RecurrentProbe:
    r"""Norms of $dL_b/dh_t$ at the steps of a recurrent layer of a model.

    The gradient at the output of the layer has the paths that leave the
    recurrence at t, but not those through $h_{t+1}$ and later steps. So a model
    that shares all layers of the given one runs the same cell in a loop in
    which each step adds a perturbation $e_t = 0$ to $h_t$, before the output
    and the next step read it. Then $dL_b/de_t$ is the total $dL_b/dh_t$.

    Args:
        model: As in `gradient_profile`.
        layer: As in `gradient_profile`.
        loss: As in `gradient_profile`.
    """

    def __init__(
        self,
        model: keras.Model,
        layer: str | None = None,
        loss: str | Callable | None = None,
    ):
        self.model = model
        self.loss = _find_loss(model, loss)
        network = getattr(model, "network", model)
        self._layer = _Perturbed(_find_layer(network, layer))
        self._perturbed = _rebuild(network, self._layer)
        if self._layer.calls != 1:
            raise ValueError(
                f"Layer {self._layer.layer.name!r} must run exactly once in a "
                f"call of the model. Received: it runs {self._layer.calls} "
                "times"
            )
        self._traced = tf.function(
            self._norms, autograph=False, reduce_retracing=True
        )

    def norms(self, inputs: Any, targets: Any) -> tuple[np.ndarray, np.ndarray]:
        """Norms of one batch and the layer's mask, `(batch, time)`."""
        inputs = graph.arrange_inputs(self._perturbed, inputs)
        norms, mask = self._traced(inputs, targets)
        return norms.numpy(), mask.numpy()

    def _norms(self, inputs: Any, targets: Any) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            self._layer.tape = tape
            outputs = self._perturbed(inputs, training=False)
            self._layer.tape = None
            total = ops.sum(_losses(self.loss, targets, outputs))
        gradients = tape.gradient(
            total,
            self._layer.perturbations,
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
        gradients = [tf.cast(gradient, "float64") for gradient in gradients]
        norms = tf.norm(tf.concat(gradients, axis=-1), axis=-1)
        if self._layer.mask is None:
            return norms, tf.ones_like(norms, "bool")
        return norms, ops.cast(self._layer.mask, "bool")


def _find_layer(model: keras.Model, name: str | None) -> keras.Layer:
    """The recurrent layer of a name, or the only one of a model."""
    graph.check_functional(model, "model")
    layers = [
        layer
        for layer in graph.layers_within(model)
        if all(type(x) in KINDS and not x.stateful for x in _loops(layer))
    ]
    found = [
        layer
        for layer in layers
        if name in (None, layer.name, unwrapped(layer).name)
    ]
    if len(found) != 1:
        kinds = ", ".join(f"`{kind.__name__}`" for kind in KINDS)
        raise ValueError(
            "Argument `layer` must name one recurrent layer of the model, or "
            f"be None if it has only one. Those of the classes {kinds}, not "
            "stateful, alone or within `Bidirectional`, `LearnedInitialState` "
            f"or `KeepMask`, are {[layer.name for layer in layers]}; for other "
            "layers, take the gradient at their inputs with `tf.GradientTape`. "
            f"Received: layer={name!r}"
        )
    return found[0]


def _loops(layer: keras.Layer) -> list[keras.Layer]:
    """The layer that runs the cell, of each direction."""
    return directions(unwrapped(layer))


def _rebuild(model: keras.Model, perturbed: "_Perturbed") -> keras.Model:
    """A functional model with the layers of another, one of them perturbed."""
    functional = graph.as_functional(model)
    plain = type(keras.Model(functional.input, functional.output)).call
    if type(model).call not in (plain, keras.Sequential.call):
        raise ValueError(
            "Argument `model` must be a graph of layers without a `call` of "
            "its own; pass `keras.Model(model.inputs, outputs)` of its layers' "
            f"outputs. Received: {model.name!r}, of class "
            f"{type(model).__name__}"
        )

    def call(layer: Any, *args: Any, **kwargs: Any) -> Any:
        if layer is perturbed.layer:
            perturbed.calls += 1
            return perturbed(*args, **kwargs)
        if getattr(layer, "outputs", None):
            rebuilt = _rebuild(layer, perturbed)
            rebuilt.supports_masking = layer.supports_masking
            return rebuilt(*args, **kwargs)
        return layer(*args, **kwargs)

    return graph.run_again(functional, call)


class _Perturbed(keras.layers.Layer):
    """A recurrent layer whose hidden states are perturbed.

    It is called as the layer is, shares its cells, and returns the same.

    Args:
        layer: The layer, alone or within others.
    """

    def __init__(self, layer: keras.Layer):
        super().__init__(dtype=layer.dtype_policy)
        self.supports_masking = layer.supports_masking
        self.layer = layer
        self.loops = [
            keras.layers.RNN(
                _PerturbedCell(rnn.cell),
                return_sequences=rnn.return_sequences,
                return_state=rnn.return_state,
                go_backwards=rnn.go_backwards,
                zero_output_for_mask=rnn.zero_output_for_mask,
                dtype=rnn.dtype_policy,
            )
            for rnn in _loops(layer)
        ]
        self.calls = 0
        # The tape that watches the next call, and what that call had.
        self.tape: tf.GradientTape | None = None
        self.perturbations: list[tf.Tensor] = []
        self.mask: Any = None

    def build(self, *shapes: Any, **more: Any) -> None:
        pass  # The loops build themselves when they run.

    def call(
        self,
        sequences: Tensor,
        initial_state: Any = None,
        mask: Tensor | None = None,
        training: bool = False,
    ) -> Any:
        batch_size, length = tf.unstack(tf.shape(sequences)[:2])
        perturbations = [
            tf.zeros((batch_size, length, loop.cell.output_size), loop.dtype)
            for loop in self.loops
        ]
        if self.tape is not None:
            self.tape.watch(perturbations)
            self.perturbations, self.mask = perturbations, mask
        if initial_state is None and isinstance(
            self.layer, LearnedInitialState
        ):
            initial_state = self.layer.get_initial_state(batch_size)
        states = [initial_state] * len(self.loops)
        if initial_state is not None and len(self.loops) == 2:
            half = len(initial_state) // 2
            states = [initial_state[:half], initial_state[half:]]
        outputs = [
            loop(
                ops.concatenate(
                    [_steps(rnn, sequences, mask), perturbation], axis=-1
                ),
                initial_state=state,
                mask=mask,
            )
            for loop, rnn, perturbation, state in zip(
                self.loops, _loops(self.layer), perturbations, states
            )
        ]
        if len(outputs) == 2:
            return _merge(unwrapped(self.layer), *outputs)
        if getattr(unwrapped(self.layer), "return_field", False):
            returned = self.layer(
                sequences, initial_state=initial_state, mask=mask
            )
            field = keras.tree.map_structure(ops.stop_gradient, returned[-1])
            return (*_as_list(outputs[0]), field)
        return outputs[0]

    def compute_mask(self, inputs: Any, previous_mask: Any) -> Any:
        return self.layer.compute_mask(inputs, previous_mask)


def _as_list(outputs: Any) -> list:
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


def _steps(
    rnn: keras.layers.RNN, sequences: Tensor, mask: Tensor | None
) -> Tensor:
    """What each step of a layer's cell reads, as vectors.

    Windows become vectors: the cell makes windows of them again.
    """
    if isinstance(rnn, ReceptiveFieldRNN):
        windows = ReceptiveFieldWindows(rnn.max_size, dtype=rnn.dtype_policy)
        if rnn.go_backwards:
            mask = None if mask is None else ops.flip(mask, axis=1)
            flipped = windows(ops.flip(sequences, axis=1), mask=mask)
            sequences = ops.flip(flipped, axis=1)
        else:
            sequences = windows(sequences, mask=mask)
    size = np.prod(sequences.shape[2:])
    return ops.reshape(sequences, (*ops.shape(sequences)[:2], size))


def _merge(
    layer: keras.layers.Bidirectional, forward: Any, backward: Any
) -> Any:
    """The outputs of both directions, as `Bidirectional` returns them."""
    (forward, *states), (backward, *others) = map(_as_list, (forward, backward))
    if layer.return_sequences:
        backward = ops.flip(backward, axis=1)
    merged = {
        "concat": lambda: (ops.concatenate([forward, backward], axis=-1),),
        "sum": lambda: (forward + backward,),
        "ave": lambda: ((forward + backward) / 2,),
        "mul": lambda: (forward * backward,),
        None: lambda: (forward, backward),
    }[layer.merge_mode]()
    outputs = (*merged, *states, *others)
    return outputs[0] if len(outputs) == 1 else outputs


class _PerturbedCell(keras.layers.Layer):
    """Runs a cell on the first features, adds the last ones to its output."""

    def __init__(self, cell: Any):
        super().__init__(dtype=getattr(cell, "dtype_policy", None))
        self.cell = cell
        self.state_size = cell.state_size
        self.output_size = cells.output_size(cell)
        if hasattr(cell, "get_initial_state"):
            self.get_initial_state = cell.get_initial_state

    def build(self, input_shape: Any) -> None:
        pass  # The cell is built.

    def call(self, inputs: Tensor, states: Any) -> Any:
        features = inputs[:, : -self.output_size]
        if isinstance(self.cell, RFCell):
            size = self.cell.max_size
            features = ops.reshape(
                features, (-1, size, features.shape[1] // size)
            )
        hidden, states = self.cell(features, states)
        flat = keras.tree.flatten(states)
        if not any(state is hidden for state in flat):
            raise ValueError(
                "The output of a cell must be one of its states, so that the "
                "gradient at a step is defined. Received: a cell of class "
                f"{type(self.cell).__name__}, whose output is not a state"
            )
        perturbed = hidden + inputs[:, -self.output_size :]
        flat = [perturbed if state is hidden else state for state in flat]
        return perturbed, keras.tree.pack_sequence_as(states, flat)


def _find_loss(model: keras.Model, loss: Any) -> Any:
    if loss is None:
        loss = getattr(model, "loss", None)
        if loss is None or isinstance(loss, (dict, list, tuple)):
            raise ValueError(
                "Argument `loss` must be given for a model that is not "
                "compiled with a single loss. "
                f"Received: loss=None, and a model compiled with {loss!r}"
            )
    return loss


def _losses(loss: Any, targets: Any, outputs: Any) -> tf.Tensor:
    """The loss of each example, as Keras has it before the reduction."""
    if not keras.tree.is_nested(outputs):
        if keras.backend.standardize_dtype(outputs.dtype) != "float64":
            outputs = ops.cast(outputs, "float32")
        if not keras.tree.is_nested(targets):
            targets = ops.cast(targets, outputs.dtype)
            rank = len(outputs.shape)
            if len(targets.shape) == rank - 1 and outputs.shape[-1] == 1:
                targets = ops.expand_dims(targets, -1)
    elif isinstance(loss, (str, keras.losses.Loss)):
        raise ValueError(
            "Argument `loss` must be a function of (targets, outputs) for a "
            f"model with several outputs. Received: loss={loss!r}"
        )
    loss = keras.losses.get(loss)
    call = loss.call if isinstance(loss, keras.losses.Loss) else loss
    losses = ops.convert_to_tensor(call(targets, outputs))
    if not len(losses.shape):
        raise ValueError(
            "Argument `loss` must give one value an example, not their mean. "
            f"Received: loss={loss!r}, which gives a scalar"
        )
    return ops.mean(ops.reshape(losses, (ops.shape(losses)[0], -1)), axis=1)
