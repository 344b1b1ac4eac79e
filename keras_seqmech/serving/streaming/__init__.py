"""Models that are given sequences in chunks, as they arrive."""

from keras_seqmech.serving.streaming.model import StreamingModel

__all__ = ["StreamingModel"]
