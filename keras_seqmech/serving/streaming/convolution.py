"""Causal convolutions, one step after the other."""

import tensorflow as tf
from keras import ops

from keras_seqmech.serving.streaming.layer import State
from keras_seqmech.serving.streaming.layer import StreamedLayer
from keras_seqmech.typing import Tensor


class StreamedConvolution(StreamedLayer):
    """A `keras.layers.Conv1D` with `padding="causal"` and strides of 1."""

    def initial_state(self, batch_size: Tensor) -> State:
        (size,), (dilation,) = self.layer.kernel_size, self.layer.dilation_rate
        before = (batch_size, (size - 1) * dilation, self.spec.shape[-1])
        return {"before": tf.zeros(before, self.spec.dtype)}

    def call(self, sequence: Tensor) -> Tensor:
        # Causal padding is zeros, whatever comes before the first step.
        exists = self.clock.exists(self.delay)
        step = tf.where(exists, sequence, tf.zeros_like(sequence))
        window = tf.concat([self.state["before"], step], axis=1)
        self.state = {"before": window[:, 1:]}
        layer = self.layer
        outputs = ops.conv(
            window[:, :: layer.dilation_rate[0]],
            layer.kernel,
            padding="valid",
            data_format=layer.data_format,
        )
        if layer.use_bias:
            outputs += layer.bias
        return layer.activation(outputs)
