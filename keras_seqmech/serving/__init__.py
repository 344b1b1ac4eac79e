"""Models for TensorFlow Serving: export, streams, other formats."""

from keras_seqmech.serving.export import export_model
from keras_seqmech.serving.export import use_padded_loops
from keras_seqmech.serving.portable import export_step
from keras_seqmech.serving.streaming import StreamingModel

__all__ = ["StreamingModel", "export_model", "export_step", "use_padded_loops"]
