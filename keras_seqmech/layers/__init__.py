from keras_seqmech.layers.attention_pooling import AttentionPooling
from keras_seqmech.layers.attention_pooling import MaxAttentionPooling
from keras_seqmech.layers.boundary_gate import BoundaryGate
from keras_seqmech.layers.focused_encoder import FocusedHierarchicalEncoder
from keras_seqmech.layers.initial_state import LearnedInitialState
from keras_seqmech.layers.last_attention_pooling import LastAttentionPooling
from keras_seqmech.layers.pointer_softmax import PointerSoftmax
from keras_seqmech.layers.pooling import ConcatPooling
from keras_seqmech.layers.pooling import LastPooling
from keras_seqmech.layers.pooling import MaxPooling
from keras_seqmech.layers.pooling import MeanPooling
from keras_seqmech.layers.receptive_field import RFCell
from keras_seqmech.layers.receptive_field_rnn import ReceptiveFieldRNN
from keras_seqmech.layers.receptive_field_windows import ReceptiveFieldWindows
from keras_seqmech.layers.subsample import ExpectedSubsample

__all__ = [
    "AttentionPooling",
    "BoundaryGate",
    "ConcatPooling",
    "ExpectedSubsample",
    "FocusedHierarchicalEncoder",
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
