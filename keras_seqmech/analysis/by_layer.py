"""Decisions of a trained model's layers, whatever it returns."""

import contextlib
import reprlib
from collections.abc import Iterator
from numbers import Number
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_seqmech.core.decisions.reports import recording
from keras_seqmech.core.decisions.statistics import without_statistics
from keras_seqmech.core.graph import arrange_inputs
from keras_seqmech.core.graph import sublayers
from keras_seqmech.typing import Tensor


def decisions(
    model: keras.Model, inputs: Any, batch_size: int | None = None
) -> dict[str, dict[str, np.ndarray]]:
    """The decisions of all layers of a model at inference, by layer.

    The model runs in a graph, batch by batch, as in `predict`. The decisions
    are the dicts that the layers return if they are told to:

    - `ReceptiveFieldRNN` and `LookAhead` with `return_field=True`: `"size"` and
      `"probabilities"`, under `"reinforce"` `"log_probability"`, too;
    - `FocusedHierarchicalEncoder` and `BoundaryGate` with `return_gates=True`:
      `"gates"` and `"probabilities"`;
    - `ExpectedSubsample` with `return_emission=True`: `"emission"`,
      `"length_distribution"` and `"output_mask"`;
    - pooling layers with attention, `ContextAttention` and `PointerSoftmax`
      with `return_attention_scores=True`: `"attention_scores"`; of an
      `EarlyPooling` `"size"` and `"answered"`, too.

    They are 0 at masked steps. A layer that reads backwards, such as one within
    a `keras.layers.Bidirectional`, returns them in the order in which it reads.

    Layers are found wherever the model calls them: in a subclassed model, a
    nested model, a wrapper, or the network that a `PolicyGradientModel` trains.
    Decisions within a loop of Keras are left out: the sizes of an `RFCell` in a
    `keras.layers.RNN` (a `ReceptiveFieldRNN` has the same weights), layers
    within a cell, and layers within a `keras.layers.TimeDistributed` whose
    number of steps is not static. With a static number, each step is a call.

    Args:
        model: A built model of any kind. It does not change.
        inputs: What `model.predict` takes, such as arrays or a
            `tf.data.Dataset`.
        batch_size: Rows of a batch; 32 if None, as in `predict`.

    Returns:
        `{layer: {key: array}}`, by layer name in the order of the calls. If a
        layer is called twice, or two layers share a name, the later name is
        numbered: `"rnn"`, `"rnn_1"`. Batches of different lengths are padded
        with zeros. Keras chooses the order in which a functional model calls a
        layer that several inputs share; to tell them apart, use a
        `keras.Model` of one of the inputs.

    Cost: that of `predict`, and memory for all that is returned; for an
    `ExpectedSubsample` a number for each output, step and row.

    Raises:
        ValueError: If `model` is not a built `keras.Model`, no layer of it
            decides, or the inputs have no row or are lists of numbers.

    Example:

    >>> from keras_seqmech import MaxAttentionPooling, ReceptiveFieldRNN
    >>> rnn = ReceptiveFieldRNN(
    ...     keras.layers.GRUCell(4), 3, return_sequences=True, name="rnn")
    >>> model = keras.Sequential(
    ...     [keras.Input((None, 2)), rnn, MaxAttentionPooling(name="pooling")])
    >>> found = decisions(model, np.ones((5, 7, 2)))
    >>> found["rnn"]["size"].shape, found["pooling"]["attention_scores"].shape
    ((5, 7), (5, 7))
    """
    deciding = Deciding(model)
    check_rows("inputs", inputs)
    return deciding.decisions(inputs, batch_size)


def check_rows(name: str, inputs: Any) -> None:
    """Refuses inputs without a row, and lists of numbers in place of arrays."""
    # An input of Keras that is optional may be None.
    leaves = [x for x in keras.tree.flatten(inputs) if x is not None]
    if not leaves or not all(map(_has_rows, leaves)):
        raise ValueError(
            f"Argument `{name}` must hold arrays of a row or more. "
            f"Received: {name}={reprlib.repr(inputs)}"
        )


def _has_rows(x: Any) -> bool:
    if isinstance(x, tf.data.Dataset):
        return int(x.cardinality()) != 0
    if hasattr(x, "shape"):
        return len(x.shape) > 0 and x.shape[0] != 0
    return not isinstance(x, (Number, str, bytes))


@contextlib.contextmanager
def state_restored(model: keras.Model) -> Iterator[None]:
    """Restores what calls of a model change: metrics, states and seeds.

    Weights that only training changes are not restored.
    """
    # Keras does not list the states of stateful layers.
    states = [getattr(part, "states", None) for part in sublayers(model)]
    variables = [
        *model.non_trainable_variables,
        *model.metrics_variables,
        *(
            state
            for state in keras.tree.flatten(states)
            if isinstance(state, keras.Variable)
        ),
    ]
    kept = [keras.ops.convert_to_numpy(variable) for variable in variables]
    try:
        yield
    finally:
        for variable, value in zip(variables, kept):
            variable.assign(value)


class Deciding(keras.Model):
    """Returns the decisions of a model in place of its outputs."""

    def __init__(self, model: keras.Model):
        if not isinstance(model, keras.Model) or not model.built:
            raise ValueError(
                "Argument `model` must be a built `keras.Model`; calling it "
                f"builds it. Received: model={model!r}"
            )
        # The model casts its inputs itself.
        super().__init__(
            name="decisions", autocast=False, dtype=model.dtype_policy
        )
        self.model = model
        self.built = True
        # XLA is for models that were compiled with it.
        self.jit_compile = False
        self.run_eagerly = model.run_eagerly

    def decisions(
        self, inputs: Any, batch_size: int | None
    ) -> dict[str, dict[str, np.ndarray]]:
        """The decisions at inference, as the function returns them."""
        with state_restored(self.model):
            found = self.predict(inputs, batch_size, verbose=0)
        return keras.tree.map_structure(
            # Batches of different lengths are ragged.
            lambda x: x.to_tensor().numpy() if hasattr(x, "to_tensor") else x,
            found,
        )

    def call(self, inputs: Tensor) -> dict[str, dict[str, Tensor]]:
        with without_statistics(), recording() as recorded:
            self.model(arrange_inputs(self.model, inputs), training=False)
        return recorded.by_layer()
