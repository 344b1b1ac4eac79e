"""Causal convolutions, one step after the other."""

from keras import ops

from keras_seqmech.serving.streaming.layer import StreamedLayer
from keras_seqmech.typing import Tensor


class StreamedConvolution(StreamedLayer):
    """A `keras.layers.Conv1D` with `padding="causal"` and strides of 1.

    Causal padding is zeros, as are the steps before the first.
    """

    @property
    def keeps(self) -> int:
        (size,), (dilation,) = self.layer.kernel_size, self.layer.dilation_rate
        return (size - 1) * dilation

    def call(self, sequence: Tensor) -> Tensor:
        layer = self.layer
        steps, _ = self.read(sequence, None)
        outputs = ops.conv(
            steps[:, :: layer.dilation_rate[0]],
            layer.kernel,
            padding="valid",
            data_format=layer.data_format,
        )
        if layer.use_bias:
            outputs += layer.bias
        return layer.activation(outputs)
