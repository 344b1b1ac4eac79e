"""Truncated backpropagation through time."""

import itertools
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_seqmech.layers import validation
from keras_seqmech.layers.initial_state import LearnedInitialState
from keras_seqmech.layers.sublayers import sublayers
from keras_seqmech.ops import chunks


@keras.saving.register_keras_serializable(package="keras_seqmech")
class TruncatedBackpropagationModel(keras.Model):
    """A functional model that is trained on one chunk of time at a time.

    Training on a long sequence keeps something of every step until the
    gradient comes back. Here `fit` cuts each batch into chunks of
    `chunk_length` steps and makes an optimizer step for each, from the first
    to the last. The recurrent layers go on from the states the chunk before
    ended with, but no gradient goes back to it: memory grows with the chunk
    and not with the sequence. Every batch starts afresh, from zeros or from
    the states of a `LearnedInitialState`, whose gradient is that of the first
    chunk.

    `evaluate` and `predict` go from chunk to chunk too, and give what they
    give for the whole. Called, saved, exported and served the model is the
    plain functional one; trained it is that, too, with a `chunk_length` of
    the whole sequence.

    Args:
        inputs: The model's inputs, each `(batch, time, ...)`, masks included.
        outputs: Its outputs, each `(batch, time, ...)`.
        name: Name of the model.
        chunk_length: Positive int, the steps of a chunk. The last may have
            fewer.
        **kwargs: Base model keyword arguments, such as `trainable`.

    Raises:
        ValueError: If `chunk_length` is no positive int; if an input or output
            has no time axis; if the model has no recurrent layer, or one whose
            states cannot be handed on: it needs `return_sequences=True` and
            `return_state=True`, must read forwards, not be stateful and not
            stand within another layer, such as a `keras.layers.Bidirectional`.
            In `fit` and `evaluate`, if targets have other lengths than the
            inputs, or with a `tf.distribute` strategy.

    All layers see one chunk at a time. Those that work step by step, such as
    `Dense`, take no notice; convolutions, attention and the fields of a
    `ReceptiveFieldRNN` end with the chunk.

    Targets are `(batch, time, ...)`; sample weights `(batch, time)`, or
    `(batch,)` for a loss that gives one number a row. The loss of a chunk is
    that of its own steps, and `history` has the mean over chunks by length:
    for a mean over steps, the loss of the whole. Metrics are updated chunk by
    chunk; where Keras takes means of rows, as for accuracy, a shorter last
    chunk counts as much as the others. An optimizer step is made for every
    chunk, be it all padding.

    The length may vary from batch to batch; only XLA compiles anew for each.

    Cost: time that of training on whole sequences, with more steps of the
    optimizer; memory that of a chunk, beside the data.

    Example:

    >>> import keras, numpy as np
    >>> x = keras.Input((None, 3))
    >>> y, h, c = keras.layers.LSTM(
    ...     8, return_sequences=True, return_state=True)(x)
    >>> model = TruncatedBackpropagationModel(
    ...     x, keras.layers.Dense(1)(y), chunk_length=20)
    >>> model.compile("adam", "mse")
    >>> x, y = np.ones((4, 50, 3)), np.ones((4, 50, 1))
    >>> history = model.fit(x, y, verbose=0)
    >>> int(model.optimizer.iterations)  # 20, 20 and 10 steps
    3

    Source: "RNNs for arXiv/viXra title classification", on truncated
    backpropagation through time.
    """

    def __init__(
        self,
        inputs: Any,
        outputs: Any,
        name: str | None = None,
        *,
        chunk_length: int,
        **kwargs,
    ):
        chunk_length = validation.check_positive_int(
            "chunk_length", chunk_length
        )
        super().__init__(inputs, outputs, name=name, **kwargs)
        self.chunk_length = chunk_length
        _check_time_axes(self.inputs, self.outputs)
        resumable, self._carries = _resumable(self)
        # In a function, where Keras does not save it as a part of the model.
        self._resumable = lambda x, training: resumable(x, training=training)

    def train_step(self, data):
        chunks.over_chunks(self._train_chunk, data, self.chunk_length)
        return self.get_metrics_result()

    def test_step(self, data):
        chunks.over_chunks(self._test_chunk, data, self.chunk_length)
        return self.get_metrics_result()

    def predict_step(self, data):
        x, _, _ = keras.utils.unpack_x_y_sample_weight(data)
        outputs = chunks.over_chunks(
            self._predict_chunk, (x,), self.chunk_length
        )
        return keras.tree.pack_sequence_as(self.output, outputs)

    def _train_chunk(self, chunk, states, share):
        variables = self.trainable_variables
        with tf.GradientTape() as tape:
            loss, after = self._assess(chunk, states, share, training=True)
            scaled = self.optimizer.scale_loss(loss)
        gradients = tape.gradient(scaled, variables)
        if states is not None:
            # Learned initial states have a gradient in the first chunk only.
            known = [g is not None for g in gradients]
            gradients = list(itertools.compress(gradients, known))
            variables = list(itertools.compress(variables, known))
        self.optimizer.apply(gradients, variables)
        return [], after

    def _test_chunk(self, chunk, states, share):
        _, states = self._assess(chunk, states, share, training=False)
        return [], states

    def _predict_chunk(self, chunk, states, share):
        outputs, states = self._resume(*chunk, states, training=False)
        return keras.tree.flatten(outputs), states

    def _assess(self, chunk, states, share, training):
        """Loss of a chunk, put into the metrics, and the states after it."""
        if tf.distribute.has_strategy():
            # Within a loop, Mirrored and its like refuse an optimizer step.
            raise ValueError(
                "A `TruncatedBackpropagationModel` takes no `tf.distribute` "
                f"strategy. Received: strategy={self.distribute_strategy!r}"
            )
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(chunk)
        y_pred, states = self._resume(x, states, training)
        loss = self.compute_loss(
            x=x,
            y=y,
            y_pred=y_pred,
            sample_weight=sample_weight,
            training=training,
        )
        rows = tf.cast(tf.shape(keras.tree.flatten(x)[0])[0], share.dtype)
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss, sample_weight=share * rows)
        self.compute_metrics(x, y, y_pred, sample_weight)
        return loss, states

    def _resume(self, x, states, training):
        """Runs a chunk from states, or afresh if they are None."""
        for i, carry in enumerate(self._carries):
            carry.value = None if states is None else states[i]
        outputs = self._resumable(x, training)
        states = [carry.value for carry in self._carries]
        _clear(self._carries)
        return outputs, states

    def get_config(self):
        return {**super().get_config(), "chunk_length": self.chunk_length}


class _Carry:
    """Where a recurrent layer leaves what its next chunk goes on from."""

    value = None


def _clear(carries):
    """Lets go of tensors, which may belong to a graph."""
    for carry in carries:
        carry.value = None


class _Resumed(keras.layers.Layer):
    """A recurrent layer that goes on from what it finds in its carry.

    The graph of the model stays as the user made it: the states pass by it.
    """

    def __init__(self, layer, carry):
        super().__init__(dtype=layer.dtype_policy)
        self.layer = layer
        self.carry = carry
        self.supports_masking = True

    def call(
        self,
        sequences,
        initial_state=None,
        mask=None,
        training=False,
        **kwargs,
    ):
        before = self.carry.value
        output, *rest = self.layer(
            sequences,
            initial_state=initial_state if before is None else before["states"],
            mask=mask,
            training=training,
            **kwargs,
        )
        repeats = not _unwrap(self.layer).zero_output_for_mask
        if before is not None and mask is not None and repeats:
            # Masked steps repeat the output before, here of another chunk.
            has_begun = ops.cumsum(ops.cast(mask, "int32"), axis=1) > 0
            output = ops.where(
                has_begun[..., None], output, before["output"][:, None]
            )
        self.carry.value = {
            # The last of the rest may be a dict, of what the layer decided.
            "states": [x for x in rest if not isinstance(x, dict)],
            "output": output[:, -1],
        }
        return output, *rest

    def compute_mask(self, sequences, mask=None):
        return self.layer.compute_mask(sequences, mask)


def _resumable(model):
    """The same model with all layers resumed, and their carries."""
    carries = []

    def call(layer, *args, **kwargs):
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
        model.input,
    )
    resumable = keras.models.clone_model(
        keras.Model(model.input, model.output),
        input_tensors=inputs,
        clone_function=lambda layer: layer,
        call_function=call,
    )
    if not carries:
        raise ValueError(
            "The outputs of a `TruncatedBackpropagationModel` must come from "
            "recurrent layers. Received: layers="
            f"{[layer.name for layer in model.layers]}"
        )
    _clear(carries)
    return resumable, tuple(carries)


def _unwrap(layer):
    return layer.rnn if isinstance(layer, LearnedInitialState) else layer


def _carries_states(layer) -> bool:
    """Whether a layer is recurrent; refuses what cannot be resumed."""
    rnn = _unwrap(layer)
    if isinstance(rnn, keras.layers.RNN):
        can = rnn.return_sequences and rnn.return_state
        cannot = rnn.go_backwards or rnn.stateful
        if can and not cannot:
            return True
    elif not any(
        isinstance(part, keras.layers.RNN) for part in sublayers(layer)
    ):
        return False
    raise ValueError(
        "The recurrent layers of a `TruncatedBackpropagationModel` must have "
        "`return_sequences=True` and `return_state=True`, read forwards, not "
        "be stateful, and not stand within another layer, such as a "
        f"`keras.layers.Bidirectional`. Received: layer={layer!r}"
    )


def _check_time_axes(inputs, outputs):
    shapes = [tuple(x.shape) for x in (*inputs, *outputs)]
    if any(len(s) < 2 or s[1] != shapes[0][1] for s in shapes):
        raise ValueError(
            "Arguments `inputs` and `outputs` must have the shape (batch, "
            "time, ...), with the same number of steps. Received: inputs and "
            f"outputs of shapes {shapes}"
        )
