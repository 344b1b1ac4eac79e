"""The gradient at each step of a recurrent layer, through the recurrence."""

import contextlib
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_seqmech.layers.sublayers import sublayers

PLAIN = (
    keras.layers.RNN,
    keras.layers.LSTM,
    keras.layers.GRU,
    keras.layers.SimpleRNN,
)


class RecurrentProbe:
    r"""Norms of $dL_b/dh_t$ at the steps of a recurrent layer of a model.

    The derivative is the total one. What the layer puts out is a stack of
    copies of $h_t$: the gradient with respect to it has the paths that leave
    the recurrence at t, but not those through $h_{t+1}$ and on. So each step
    adds a perturbation $e_t = 0$ to $h_t$, before the step's output and the
    next step take it, and $dL_b/de_t = dL_b/dh_t$.

    While the model is traced, the layer's `call` is replaced by one that runs
    the same cell in such a loop; before and after, the model is untouched.
    This works at any depth, in functional and in subclassed models.

    Args:
        model: Any built `keras.Model`.
        layer: Name of a recurrent layer at any depth, or None for the only one.
        loss: As in `gradient_profile`.

    Raises:
        ValueError: If there is no such layer, or no loss; at the first
            measurement, if the layer or the loss cannot be run this way.
    """

    def __init__(
        self,
        model: keras.Model,
        layer: str | None = None,
        loss: str | Callable | None = None,
    ):
        self.model = model
        self.loss = _find_loss(model, loss)
        layer = find_recurrent_layer(model, layer)
        self.name = layer.name
        self._loops = [(rnn, _perturbed_loop(rnn)) for rnn in _chains(layer)]
        self._traced = tf.function(self._norms, autograph=False)

    def norms(self, inputs: Any, targets: Any) -> tuple[np.ndarray, np.ndarray]:
        """Norms of one batch, and the mask that the layer was called with.

        Returns:
            float64 and boolean `(batch, time)`; all True without a mask.
        """
        norms, mask = self._traced(inputs, targets)
        return norms.numpy(), mask.numpy()

    def _norms(self, inputs, targets):
        with (
            tf.GradientTape(watch_accessed_variables=False) as tape,
            contextlib.ExitStack() as stack,
        ):
            runs = [
                stack.enter_context(_perturbed(rnn, loop, tape))
                for rnn, loop in self._loops
            ]
            outputs = self.model(inputs, training=False)
            calls = [len(found) for found in runs]
            if set(calls) != {1}:
                raise ValueError(
                    f"Layer {self.name!r} must run exactly once in a call of "
                    f"the model. Received: it ran {max(calls)} times"
                )
            total = ops.sum(_losses(self.loss, targets, outputs))
        gradients = tape.gradient(
            total,
            [found[0].perturbation for found in runs],
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
        gradients = [tf.cast(gradient, "float64") for gradient in gradients]
        norms = tf.norm(tf.concat(gradients, axis=-1), axis=-1)
        # Both directions of a layer get the same mask.
        mask = runs[0][0].mask
        if mask is None:
            return norms, tf.ones_like(norms, "bool")
        return norms, ops.cast(mask, "bool")


def find_recurrent_layer(
    model: keras.Model, name: str | None = None
) -> keras.Layer:
    """The recurrent layer of a name, or the only one of a model."""
    layers = list(sublayers(model))
    inner = [
        id(rnn)
        for layer in layers
        if isinstance(layer, keras.layers.Bidirectional)
        for rnn in _chains(layer)
    ]
    recurrent = [
        layer for layer in layers if _can_run(layer) and id(layer) not in inner
    ]
    names = sorted(layer.name for layer in recurrent)
    if name is None:
        found = recurrent
    else:
        found = [layer for layer in layers if layer.name == name]
    if len(found) != 1:
        raise ValueError(
            "Argument `layer` must name one recurrent layer of the model, or "
            "be None where there is only one. Recurrent layers there are: "
            f"{names}. Received: layer={name!r}"
        )
    if not _can_run(found[0]):
        raise ValueError(
            "Argument `layer` must name a layer of exactly the class "
            f"{', '.join(kind.__name__ for kind in PLAIN)}, or Bidirectional "
            f"of these. Recurrent layers there are: {names}. "
            f"Received: layer={name!r}, of class {type(found[0]).__name__}"
        )
    return found[0]


def _can_run(layer) -> bool:
    if type(layer) is keras.layers.Bidirectional:
        return all(type(rnn) in PLAIN for rnn in _chains(layer))
    return type(layer) in PLAIN


def _chains(layer) -> list[keras.Layer]:
    if isinstance(layer, keras.layers.Bidirectional):
        return [layer.forward_layer, layer.backward_layer]
    return [layer]


class _PerturbedCell(keras.layers.Layer):
    """Runs a cell on the first features, adds the last ones to its output."""

    def __init__(self, cell, **kwargs):
        super().__init__(**kwargs)
        self.cell = cell
        self.state_size = cell.state_size
        size = getattr(cell, "output_size", None)
        self.output_size = size or keras.tree.flatten(cell.state_size)[0]
        if hasattr(cell, "get_initial_state"):
            self.get_initial_state = cell.get_initial_state

    def build(self, input_shape):
        pass

    def call(self, inputs, states):
        inputs, perturbation = (
            inputs[:, : -self.output_size],
            inputs[:, -self.output_size :],
        )
        hidden, states = self.cell(inputs, states)
        flat = keras.tree.flatten(states)
        if not any(state is hidden for state in flat):
            raise ValueError(
                "A cell must put out one of its states, so that the gradient "
                "at a step can be told. Received: a cell of class "
                f"{type(self.cell).__name__}, whose output is none of them"
            )
        perturbed = hidden + perturbation
        flat = [perturbed if state is hidden else state for state in flat]
        return perturbed, keras.tree.pack_sequence_as(states, flat)


def _perturbed_loop(rnn) -> keras.layers.RNN:
    """The loop of a recurrent layer, with perturbations as last features."""
    return keras.layers.RNN(
        _PerturbedCell(rnn.cell, dtype=getattr(rnn.cell, "dtype_policy", None)),
        return_sequences=rnn.return_sequences,
        return_state=rnn.return_state,
        go_backwards=rnn.go_backwards,
        unroll=rnn.unroll,
        zero_output_for_mask=rnn.zero_output_for_mask,
        dtype=rnn.dtype_policy,
    )


class _Run(NamedTuple):
    """One call of a layer."""

    perturbation: tf.Tensor
    mask: Any


@contextlib.contextmanager
def _perturbed(rnn, loop, tape) -> Iterator[list[_Run]]:
    """Lets a layer run as its perturbed loop; collects its runs."""
    runs = []

    def call(sequences, initial_state=None, mask=None, training=False):
        if len(getattr(sequences, "shape", ())) != 3:
            raise ValueError(
                f"Layer {rnn.name!r} must read sequences (batch, time, "
                f"features). Received: {sequences}"
            )
        if initial_state is None and rnn.stateful:
            initial_state = rnn.states
        shape = [*tf.unstack(tf.shape(sequences)[:2]), loop.cell.output_size]
        perturbation = tf.zeros(shape, sequences.dtype)
        tape.watch(perturbation)
        runs.append(_Run(perturbation, mask))
        return loop(
            ops.concatenate([sequences, perturbation], axis=-1),
            initial_state=initial_state,
            mask=mask,
        )

    replaced = {"call": call}
    if hasattr(rnn, "use_cudnn"):
        # On a GPU a bidirectional layer may run its parts' weights without
        # calling them.
        replaced["use_cudnn"] = False
    kept = {name: vars(rnn)[name] for name in replaced if name in vars(rnn)}
    for name, value in replaced.items():
        setattr(rnn, name, value)
    try:
        yield runs
    finally:
        for name in replaced:
            if name in kept:
                setattr(rnn, name, kept[name])
            else:
                delattr(rnn, name)


def _find_loss(model, loss):
    if loss is None:
        loss = getattr(model, "loss", None)
        if loss is None or isinstance(loss, (dict, list, tuple)):
            raise ValueError(
                "Argument `loss` must be given for a model that is not "
                "compiled with a single loss. "
                f"Received: loss=None, and a model compiled with {loss!r}"
            )
    return loss


def _losses(loss, targets, outputs):
    """The loss of each example, as Keras has it before the reduction."""
    if _is_tensor(outputs):
        if keras.backend.standardize_dtype(outputs.dtype) != "float64":
            outputs = ops.cast(outputs, "float32")
        if _is_tensor(targets):
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


def _is_tensor(value) -> bool:
    return not keras.tree.is_nested(value)
