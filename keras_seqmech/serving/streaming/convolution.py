"""Causal convolutions, one step after the other."""

import tensorflow as tf
from keras import ops

from keras_seqmech.serving.streaming.layer import State
from keras_seqmech.serving.streaming.layer import StreamedLayer
from keras_seqmech.serving.streaming.layer import choose
from keras_seqmech.typing import Tensor


class StreamedConvolution(StreamedLayer):
    """A `keras.layers.Conv1D` with `padding="causal"` and strides of 1.

    Causal padding is zeros, as are the steps before the first.
    """

    def initial_state(self, batch_size: Tensor) -> State:
        (size,), (dilation,) = self.layer.kernel_size, self.layer.dilation_rate
        shape = (batch_size, (size - 1) * dilation, self.spec.shape[2])
        return {"steps": tf.zeros(shape, self.spec.dtype)}

    def call(self, sequence: Tensor) -> Tensor:
        layer, before = self.layer, self.state["steps"]
        steps = tf.concat([before, sequence], axis=1)
        steps_after = choose(self.timeline.present, steps[:, 1:], before)
        self.state = {"steps": steps_after}
        outputs = ops.conv(
            steps[:, :: layer.dilation_rate[0]],
            layer.kernel,
            padding="valid",
            data_format=layer.data_format,
        )
        if layer.use_bias:
            outputs += layer.bias
        return layer.activation(outputs)
