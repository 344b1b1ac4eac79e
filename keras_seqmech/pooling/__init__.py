"""Poolings: a sequence in one vector, from "Analyzing the Learnability and
Representability of Recurrent Architectures" and "RNNs for arXiv/viXra title
classification".

`reductions` has the mean, the maximum, the last step and all three side by
side; `attention` the softmax poolings, whose query is learned, the maximum or
the last step; `early` the step at which reading stops.
"""

from keras_seqmech.pooling.attention import AttentionPooling
from keras_seqmech.pooling.attention import LastAttentionPooling
from keras_seqmech.pooling.attention import MaxAttentionPooling
from keras_seqmech.pooling.early import EarlyPooling
from keras_seqmech.pooling.reductions import ConcatPooling
from keras_seqmech.pooling.reductions import LastPooling
from keras_seqmech.pooling.reductions import MaxPooling
from keras_seqmech.pooling.reductions import MeanPooling

__all__ = [
    "AttentionPooling",
    "ConcatPooling",
    "EarlyPooling",
    "LastAttentionPooling",
    "LastPooling",
    "MaxAttentionPooling",
    "MaxPooling",
    "MeanPooling",
]
