"""Truncated backpropagation through time."""

import itertools
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from keras_seqmech.core import checks
from keras_seqmech.core import graph
from keras_seqmech.core.keras_steps import steps_of
from keras_seqmech.initial_state import LearnedInitialState
from keras_seqmech.receptive_field import LookAhead
from keras_seqmech.training import network_model
from keras_seqmech.typing import Tensor

# Layers whose steps read a few others, not all before: they end with the chunk.
_LOCAL = (keras.layers.Conv1D, LookAhead)
# The states of each recurrent layer after a chunk; None before the first.
States = list[list[Tensor] | None] | None


@keras.saving.register_keras_serializable(package="keras_seqmech")
class TruncatedBackpropagationModel(network_model.NetworkModel):
    """Trains a functional model on one chunk of time after the other.

    Training on a long sequence stores something for every step until the
    backward pass. Here `fit` cuts each batch into chunks of `chunk_length`
    steps and makes an optimizer step for each, from the first to the last. The
    recurrent layers start a chunk from the states at the end of the one before,
    but no gradient goes back to it: memory grows with the chunk and not with
    the sequence. Every batch starts from zeros, or from the states of a
    `LearnedInitialState`, which learn from the first chunk.

    `evaluate` and `predict` are those of the network, which runs over the whole
    sequence and stores nothing for a backward pass. With a `chunk_length` of
    the whole sequence, training is that of a plain model. `model.network` is
    the network alone, to export and to use without this class.

    Args:
        network: A functional model whose inputs, masks included, and outputs
            all have the shape `(batch, time, ...)`.
        chunk_length: Positive int, the steps of a chunk. The last may have
            fewer.
        **kwargs: Arguments of `keras.Model`, such as `name`.

    Call arguments:
        inputs: What the network takes.
        training: Whether layers run in training mode.

    Raises:
        ValueError: If `chunk_length` is not a positive int; if an input or
            output has no time axis; if the network has no recurrent layer, or
            one whose states cannot be passed on: it needs
            `return_sequences=True` and `return_state=True`, must read
            forwards, not be stateful and not be within another layer, such as
            `keras.layers.Bidirectional`; or if another layer carries a state,
            such as one of your own with a `stream_step`. In `fit`, if targets
            and inputs have different lengths, or with a `tf.distribute`
            strategy.

    In `fit` all layers see one chunk at a time. This makes no difference to
    layers that work step by step, such as `Dense`; convolutions, attention and
    the fields of a `ReceptiveFieldRNN` or `LookAhead` end with the chunk, and
    masked steps at its start have outputs of zeros.

    Targets are `(batch, time, ...)`; sample weights `(batch, time)`, or
    `(batch,)` for a loss that returns one number a row. The loss of a chunk is
    that of its own steps, and `history` has the mean over chunks, weighted by
    length: if the loss is a mean over steps, that of the whole sequence.
    Metrics are updated chunk by chunk; where Keras averages over rows, as for
    accuracy, a shorter last chunk counts as much as the others. Every chunk
    makes an optimizer step, even if all of its steps are masked.

    The length may vary from batch to batch; only XLA compiles anew for each.

    Cost: the time of training on whole sequences, with more steps of the
    optimizer; the memory of one chunk, beside the data.

    Example:

    >>> import keras, numpy as np
    >>> x = keras.Input((None, 3))
    >>> y, h, c = keras.layers.LSTM(
    ...     8, return_sequences=True, return_state=True)(x)
    >>> network = keras.Model(x, keras.layers.Dense(1)(y))
    >>> model = TruncatedBackpropagationModel(network, chunk_length=20)
    >>> model.compile("adam", "mse")
    >>> x, y = np.ones((4, 50, 3)), np.ones((4, 50, 1))
    >>> history = model.fit(x, y, verbose=0)
    >>> int(model.optimizer.iterations)  # 20, 20 and 10 steps
    3

    Source: "RNNs for arXiv/viXra title classification", on truncated
    backpropagation through time.
    """

    def __init__(
        self, network: keras.Model, *, chunk_length: int, **kwargs: Any
    ):
        chunk_length = checks.check_positive_int("chunk_length", chunk_length)
        graph.check_functional(network)
        super().__init__(network, **kwargs)
        self.chunk_length = chunk_length
        _check_time_axes(network.inputs, network.outputs)
        resumable, self._carries = _resumable(network)
        # In a function, where Keras does not save it as a part of the model.
        self._resumable = lambda x: resumable(
            graph.arrange_inputs(resumable, x), training=True
        )

    def train_step(self, data: Any) -> dict[str, Tensor]:
        if tf.distribute.has_strategy():
            # Within a loop, Mirrored and its like refuse an optimizer step.
            raise ValueError(
                "A `TruncatedBackpropagationModel` does not train with a "
                "`tf.distribute` strategy. Received: "
                f"strategy={self.distribute_strategy!r}"
            )
        _over_chunks(self._train_chunk, data, self.chunk_length)
        return self.get_metrics_result()

    def _train_chunk(
        self, chunk: tuple, states: States, share: Tensor
    ) -> States:
        """Takes an optimizer step; returns the states after the chunk."""
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(chunk)
        variables = self.trainable_variables
        with tf.GradientTape() as tape:
            y_pred, after = self._resume(x, states)
            loss = self.compute_loss(
                x=x,
                y=y,
                y_pred=y_pred,
                sample_weight=sample_weight,
                training=True,
            )
            scaled = self.optimizer.scale_loss(loss)
        gradients = tape.gradient(scaled, variables)
        if states is not None:
            # Learned initial states have a gradient in the first chunk only.
            if network_model.accumulation_steps(self.optimizer) > 1:
                # The optimizer would drop sums of what it is not given.
                gradients = [
                    tf.zeros_like(v) if g is None else g
                    for g, v in zip(gradients, variables)
                ]
            known = [g is not None for g in gradients]
            gradients = list(itertools.compress(gradients, known))
            variables = list(itertools.compress(variables, known))
        self.optimizer.apply(gradients, variables)
        rows = tf.cast(tf.shape(keras.tree.flatten(x)[0])[0], share.dtype)
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss, sample_weight=share * rows)
        self.compute_metrics(x, y, y_pred, sample_weight)
        return after

    def _resume(self, x: Tensor, states: States) -> tuple[Tensor, States]:
        """Runs a chunk from states, or from the start if they are None."""
        for i, carry in enumerate(self._carries):
            carry.states = None if states is None else states[i]
        outputs = self._resumable(x)
        after = [carry.take() for carry in self._carries]
        return outputs, after

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "chunk_length": self.chunk_length}


def _over_chunks(
    step: Callable[[tuple, States, Tensor], States],
    data: tuple,
    chunk_length: int,
) -> None:
    """Runs a step over chunks of time, the states passed on.

    The first chunk and a shorter last one are runs of their own; those
    between are a loop, so that graphs do not grow with the sequence. No
    gradient goes through it.

    Args:
        step: Function `(chunk, states, share) -> states`. `chunk` is a part of
            `data`; `states` are None for the first chunk; `share` is the
            chunk's share of the whole length.
        data: Tuple of nests of tensors `(batch, time, ...)`. Nones, and
            tensors `(batch,)`, go with every chunk.
        chunk_length: Number of steps of a chunk; the last may have fewer.
    """
    length = _length(data)
    whole = length // chunk_length
    rest = length - whole * chunk_length

    def run(cut: Callable[[Tensor], Tensor], states: States) -> States:
        chunk = keras.tree.map_structure(
            lambda x: x if x is None or len(x.shape) < 2 else cut(x), data
        )
        steps = keras.ops.shape(keras.tree.flatten(chunk)[0])[1]
        share = tf.cast(steps, "float32") / tf.cast(length, "float32")
        return step(chunk, states, share)

    def run_between(states: States) -> States:
        """The second chunk to the last whole one."""

        def body(i: Tensor, states: States) -> tuple[Tensor, States]:
            steps = i * chunk_length + tf.range(chunk_length)
            return i + 1, run(lambda x: tf.gather(x, steps, axis=1), states)

        return tf.while_loop(lambda i, _: i < whole, body, (1, states))[1]

    def run_rest(states: States) -> States:
        return run(lambda x: x[:, whole * chunk_length :], states)

    states = run(lambda x: x[:, :chunk_length], None)
    states = _run_if(whole > 1, run_between, states)
    _run_if((whole > 0) & (rest > 0), run_rest, states)


def _length(data: tuple) -> Tensor | int:
    shapes = [tuple(x.shape) for x in keras.tree.flatten(data) if x is not None]
    if len({shape[1] for shape in shapes if len(shape) > 1} - {None}) > 1:
        raise ValueError(
            "Inputs, targets and sample weights must have the shape (batch, "
            "time, ...), with the same number of steps. "
            f"Received: shapes={shapes}"
        )
    return keras.ops.shape(keras.tree.flatten(data)[0])[1]


def _run_if(
    condition: Tensor | bool,
    function: Callable[[States], States],
    states: States,
) -> States:
    """`function(states)`, or the states as they are."""
    if isinstance(condition, bool):
        return function(states) if condition else states
    return tf.cond(condition, lambda: function(states), lambda: states)


class _Carry:
    """Holds the states with which a recurrent layer starts its next chunk."""

    states: list[Tensor] | None = None

    def take(self) -> list[Tensor] | None:
        """Returns and drops the states, which may belong to a graph."""
        states, self.states = self.states, None
        return states


class _Resumed(keras.layers.Layer):
    """A recurrent layer that starts from the states in its carry.

    The states are not part of the graph, which stays as the user made it.
    """

    def __init__(self, layer: keras.Layer, carry: _Carry):
        super().__init__(dtype=layer.dtype_policy)
        self.layer = layer
        self.carry = carry
        self.supports_masking = True

    def call(
        self,
        sequences: Tensor,
        initial_state: Any = None,
        mask: Tensor | None = None,
        **kwargs: Any,
    ) -> tuple:
        if self.carry.states is not None:
            initial_state = self.carry.states
        output, *rest = self.layer(
            sequences, initial_state=initial_state, mask=mask, **kwargs
        )
        # The last output may be the dict of the layer's decisions.
        self.carry.states = [x for x in rest if not isinstance(x, dict)]
        return output, *rest

    def compute_mask(self, sequences: Tensor, mask: Any = None) -> Any:
        return self.layer.compute_mask(sequences, mask)


def _resumable(
    network: keras.Model,
) -> tuple[keras.Model, tuple[_Carry, ...]]:
    """The same network with all layers resumed, and their carries."""
    carries = []

    def call(layer: Any, *args: Any, **kwargs: Any) -> Any:
        if _carries_states(layer):
            carries.append(_Carry())
            layer = _Resumed(layer, carries[-1])
        return layer(*args, **kwargs)

    inputs = keras.tree.map_structure(
        lambda x: keras.Input(
            batch_shape=(x.shape[0], None, *x.shape[2:]),
            dtype=x.dtype,
            name=x.name,
        ),
        graph.as_functional(network).input,
    )
    resumable = graph.run_again(network, call, inputs)
    if not carries:
        raise ValueError(
            "Argument `network` must have outputs that come from recurrent "
            "layers. Received: network with layers="
            f"{[layer.name for layer in network.layers]}"
        )
    for carry in carries:
        carry.take()
    return resumable, tuple(carries)


def _carries_states(layer: keras.Layer) -> bool:
    """Whether a layer is recurrent; refuses what cannot be resumed."""
    rnn = layer.rnn if isinstance(layer, LearnedInitialState) else layer
    if isinstance(rnn, keras.layers.RNN):
        can = rnn.return_sequences and rnn.return_state
        cannot = rnn.go_backwards or rnn.stateful
        if can and not cannot:
            return True
    elif not any(map(_has_state, graph.sublayers(layer))):
        return False
    raise ValueError(
        "Argument `network` must have recurrent layers with "
        "`return_sequences=True` and `return_state=True` that read forwards, "
        "are not stateful, and are not within another layer, such as "
        "`keras.layers.Bidirectional`; and no other layers that carry a state. "
        f"Received: layer={layer!r}"
    )


def _has_state(layer: Any) -> bool:
    """Whether a layer, or the step that it declares, carries a state."""
    if isinstance(layer, keras.layers.RNN):
        return True
    return steps_of(layer) is not None and not isinstance(layer, _LOCAL)


def _check_time_axes(inputs: list[Tensor], outputs: list[Tensor]) -> None:
    shapes = [tuple(x.shape) for x in (*inputs, *outputs)]
    if any(len(s) < 2 or s[1] != shapes[0][1] for s in shapes):
        raise ValueError(
            "Argument `network` must have inputs and outputs of shape (batch, "
            "time, ...), with the same number of steps. Received: network with "
            f"inputs and outputs of shapes {shapes}"
        )
