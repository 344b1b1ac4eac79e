"""What the layers of a trained model decided, whatever it returns."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_seqmech.analysis.restored_state import state_restored
from keras_seqmech.core.decisions.reports import recording
from keras_seqmech.core.decisions.statistics import without_statistics
from keras_seqmech.core.graph import arrange_inputs
from keras_seqmech.typing import Tensor


def decisions(
    model: keras.Model, inputs: Any, batch_size: int | None = None
) -> dict[str, dict[str, np.ndarray]]:
    """The decisions of all layers of a model at inference, by layer.

    The model runs in a graph, batch by batch, as in `predict`. What it finds
    of each layer is the dict that the layer would return if it was told to:

    - of `ReceptiveFieldRNN` and `LookAhead` that of `return_field=True`:
      `"size"` and `"probabilities"`;
    - of `FocusedHierarchicalEncoder` and `BoundaryGate` that of
      `return_gates=True`: `"gates"` and `"probabilities"`;
    - of `ExpectedSubsample` that of `return_emission=True`: `"emission"`,
      `"length_distribution"` and `"output_mask"`;
    - of pooling layers with attention, `ContextAttention` and `PointerSoftmax`
      that of `return_attention_scores=True`: `"attention_scores"`.

    So they are 0 at masked steps, and of a layer that reads from the end, as
    within a `keras.layers.Bidirectional`, in the order in which it reads.

    Layers are found wherever the model calls them: in a subclassed model, in a
    model within, in a wrapper, in the network that a `PolicyGradientModel`
    trains. What is decided within a loop of Keras is left out: the sizes of an
    `RFCell` in a `keras.layers.RNN` (a `ReceptiveFieldRNN` has the same
    weights), layers within a cell, and, unless the number of steps is static,
    within a `keras.layers.TimeDistributed`. Where it is, each step is a call.

    Args:
        model: A built model of any kind; it stays as it is.
        inputs: What `model.predict` takes, such as arrays or a
            `tf.data.Dataset`.
        batch_size: Rows of a batch, 32 if None, as of `predict`.

    Returns:
        `{layer: {key: array}}`, the names of the layers in the order of the
        calls. A name that comes again, because a layer is called twice or
        another one shares its name, is numbered: `"rnn"`, `"rnn_1"`. Batches
        of different lengths are padded with zeros. In which order a functional
        model calls a layer that several inputs share, Keras chooses: ask a
        `keras.Model` of one of the inputs.

    Cost: that of `predict`, and memory for all that is returned: of an
    `ExpectedSubsample` a number for each output, step and row.

    Raises:
        ValueError: If the model is none, is not built, or shows no decisions.

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
    if not isinstance(model, keras.Model) or not model.built:
        raise ValueError(
            "Argument `model` must be a built `keras.Model`; calling it builds "
            f"it. Received: model={model!r}"
        )
    with state_restored(model):
        found = _Deciding(model).predict(inputs, batch_size, verbose=0)
    return keras.tree.map_structure(_padded, found)


def _padded(values: Any) -> np.ndarray:
    """An array; of batches of different lengths, padded with zeros."""
    if isinstance(values, tf.RaggedTensor):
        values = values.to_tensor().numpy()
    return values


class _Deciding(keras.Model):
    """Returns the decisions of a model in place of its outputs."""

    def __init__(self, model: keras.Model):
        # The model casts its inputs itself.
        super().__init__(
            name="decisions", autocast=False, dtype=model.dtype_policy
        )
        self.model = model
        self.built = True
        # XLA is for models that were compiled with it.
        self.jit_compile = False
        self.run_eagerly = model.run_eagerly

    def call(self, inputs: Tensor) -> dict[str, dict[str, Tensor]]:
        with without_statistics(), recording() as recorded:
            self.model(arrange_inputs(self.model, inputs), training=False)
        return recorded.by_layer()
