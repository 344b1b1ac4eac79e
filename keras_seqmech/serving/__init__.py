"""Models for TensorFlow Serving: export, inspection, configuration, clients."""

from keras_seqmech.serving.client import GrpcClient
from keras_seqmech.serving.client import RestClient
from keras_seqmech.serving.config import models_config
from keras_seqmech.serving.export import export_model
from keras_seqmech.serving.inspection import Inspection
from keras_seqmech.serving.inspection import Signature
from keras_seqmech.serving.inspection import inspect
from keras_seqmech.serving.padded_loops import use_padded_loops
from keras_seqmech.serving.streaming import StreamingModel

__all__ = [
    "GrpcClient",
    "Inspection",
    "RestClient",
    "Signature",
    "StreamingModel",
    "export_model",
    "inspect",
    "models_config",
    "use_padded_loops",
]
