from keras_seqmech.analysis.decisions import TokenFieldSize
from keras_seqmech.analysis.decisions import expected_field_size
from keras_seqmech.analysis.decisions import field_size_by_token
from keras_seqmech.analysis.decisions import label_entropy_by_token
from keras_seqmech.analysis.gradients import VanishingRatio
from keras_seqmech.analysis.gradients import gradient_profile
from keras_seqmech.analysis.gradients import vanishing_ratio
from keras_seqmech.analysis.history import FieldSizeHistory
from keras_seqmech.analysis.importance import normalized_word_importance
from keras_seqmech.analysis.importance import word_importance
from keras_seqmech.analysis.plots import plot_accuracy_by_noise
from keras_seqmech.analysis.plots import plot_field_size_by_entropy
from keras_seqmech.analysis.plots import plot_field_size_by_step
from keras_seqmech.analysis.plots import plot_gradient_profiles
from keras_seqmech.analysis.plots import plot_receptive_fields
from keras_seqmech.analysis.plots import plot_vanishing_ratio
from keras_seqmech.analysis.plots import plot_word_importance
from keras_seqmech.analysis.positions import original_span
from keras_seqmech.analysis.positions import surround_with_noise

__all__ = [
    "FieldSizeHistory",
    "TokenFieldSize",
    "VanishingRatio",
    "expected_field_size",
    "field_size_by_token",
    "gradient_profile",
    "label_entropy_by_token",
    "normalized_word_importance",
    "original_span",
    "plot_accuracy_by_noise",
    "plot_field_size_by_entropy",
    "plot_field_size_by_step",
    "plot_gradient_profiles",
    "plot_receptive_fields",
    "plot_vanishing_ratio",
    "plot_word_importance",
    "surround_with_noise",
    "vanishing_ratio",
    "word_importance",
]
