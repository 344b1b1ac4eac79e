"""Tasks whose exact answers are known, as `tf.data`: one module each."""

from keras_seqmech.tasks import memory
from keras_seqmech.tasks import picking
from keras_seqmech.tasks import pixel_question

__all__ = ["memory", "picking", "pixel_question"]
