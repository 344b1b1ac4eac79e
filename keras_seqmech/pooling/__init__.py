"""Poolings: a sequence in one vector, from "Analyzing the Learnability and
Representability of Recurrent Architectures" and "RNNs for arXiv/viXra title
classification".

`reductions` has the mean, the maximum, the last step and all three side by
side; `attention` the softmax poolings with a learned query and with the
maximum as query; `last_attention` the one with the last step as query.
"""

from keras_seqmech.pooling.attention import AttentionPooling
from keras_seqmech.pooling.attention import MaxAttentionPooling
from keras_seqmech.pooling.last_attention import LastAttentionPooling
from keras_seqmech.pooling.reductions import ConcatPooling
from keras_seqmech.pooling.reductions import LastPooling
from keras_seqmech.pooling.reductions import MaxPooling
from keras_seqmech.pooling.reductions import MeanPooling

__all__ = [
    "AttentionPooling",
    "ConcatPooling",
    "LastAttentionPooling",
    "LastPooling",
    "MaxAttentionPooling",
    "MaxPooling",
    "MeanPooling",
]
