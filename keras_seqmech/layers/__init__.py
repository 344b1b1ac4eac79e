from keras_seqmech.layers.focused_encoder.context_attention import (
    ContextAttention,
)
from keras_seqmech.layers.focused_encoder.encoder import (
    FocusedHierarchicalEncoder,
)
from keras_seqmech.layers.focused_encoder.gate import BoundaryGate
from keras_seqmech.layers.focused_encoder.pointer_softmax import PointerSoftmax
from keras_seqmech.layers.initial_state import LearnedInitialState
from keras_seqmech.layers.keep_mask import KeepMask
from keras_seqmech.layers.pooling.attention import AttentionPooling
from keras_seqmech.layers.pooling.attention import MaxAttentionPooling
from keras_seqmech.layers.pooling.last_attention import LastAttentionPooling
from keras_seqmech.layers.pooling.reductions import ConcatPooling
from keras_seqmech.layers.pooling.reductions import LastPooling
from keras_seqmech.layers.pooling.reductions import MaxPooling
from keras_seqmech.layers.pooling.reductions import MeanPooling
from keras_seqmech.layers.receptive_field import ReceptiveFieldRNN
from keras_seqmech.layers.receptive_field import ReceptiveFieldWindows
from keras_seqmech.layers.receptive_field import RFCell
from keras_seqmech.layers.subsample.layer import ExpectedSubsample
from keras_seqmech.layers.subsample.probabilities import EmissionProbabilities

__all__ = [
    "AttentionPooling",
    "BoundaryGate",
    "ConcatPooling",
    "ContextAttention",
    "EmissionProbabilities",
    "ExpectedSubsample",
    "FocusedHierarchicalEncoder",
    "KeepMask",
    "LastAttentionPooling",
    "LastPooling",
    "LearnedInitialState",
    "MaxAttentionPooling",
    "MaxPooling",
    "MeanPooling",
    "PointerSoftmax",
    "RFCell",
    "ReceptiveFieldRNN",
    "ReceptiveFieldWindows",
]
