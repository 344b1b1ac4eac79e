from keras_seqmech.analysis.decisions import TokenFieldSize
from keras_seqmech.analysis.decisions import expected_field_size
from keras_seqmech.analysis.decisions import field_size_by_token
from keras_seqmech.analysis.decisions import label_entropy_by_token
from keras_seqmech.analysis.history import FieldSizeHistory
from keras_seqmech.analysis.plots import plot_field_size_by_entropy
from keras_seqmech.analysis.plots import plot_field_size_by_step
from keras_seqmech.analysis.plots import plot_receptive_fields

__all__ = [
    "FieldSizeHistory",
    "TokenFieldSize",
    "expected_field_size",
    "field_size_by_token",
    "label_entropy_by_token",
    "plot_field_size_by_entropy",
    "plot_field_size_by_step",
    "plot_receptive_fields",
]
