"""Tasks whose exact answers are known: one module each."""

from keras_seqmech.tasks import adding
from keras_seqmech.tasks import look_ahead
from keras_seqmech.tasks import memory
from keras_seqmech.tasks import picking
from keras_seqmech.tasks import pixel_question

__all__ = ["adding", "look_ahead", "memory", "picking", "pixel_question"]
