from keras_seqmech.analysis.decision_information import decided_share
from keras_seqmech.analysis.decision_information import decision_entropy
from keras_seqmech.analysis.decision_information import decision_information
from keras_seqmech.analysis.field_size_history import FieldSizeHistory
from keras_seqmech.analysis.field_sizes import TokenFieldSize
from keras_seqmech.analysis.field_sizes import expected_field_size
from keras_seqmech.analysis.field_sizes import field_size_by_token
from keras_seqmech.analysis.field_sizes import label_entropy_by_token
from keras_seqmech.analysis.gradients import VanishingRatio
from keras_seqmech.analysis.gradients import gradient_profile
from keras_seqmech.analysis.gradients import vanishing_ratio
from keras_seqmech.analysis.importance import normalized_word_importance
from keras_seqmech.analysis.importance import word_importance
from keras_seqmech.analysis.markup import HtmlPicture
from keras_seqmech.analysis.markup import show
from keras_seqmech.analysis.masks import LayerChange
from keras_seqmech.analysis.masks import MaskReport
from keras_seqmech.analysis.masks import mask_report
from keras_seqmech.analysis.openness import openness_by_context
from keras_seqmech.analysis.openness import openness_by_position
from keras_seqmech.analysis.plots import plot_accuracy_by_noise
from keras_seqmech.analysis.plots import plot_accuracy_by_openness
from keras_seqmech.analysis.plots import plot_confusion
from keras_seqmech.analysis.plots import plot_emission
from keras_seqmech.analysis.plots import plot_field_size_by_entropy
from keras_seqmech.analysis.plots import plot_field_size_by_step
from keras_seqmech.analysis.plots import plot_gates_over_image
from keras_seqmech.analysis.plots import plot_gradient_profiles
from keras_seqmech.analysis.plots import plot_learning_curves
from keras_seqmech.analysis.plots import plot_openness_by_position
from keras_seqmech.analysis.plots import plot_probability_by_token
from keras_seqmech.analysis.plots import plot_receptive_fields
from keras_seqmech.analysis.plots import plot_reliability
from keras_seqmech.analysis.plots import plot_roc_curves
from keras_seqmech.analysis.plots import plot_score_by_look_ahead
from keras_seqmech.analysis.plots import plot_sweep
from keras_seqmech.analysis.plots import plot_units_by_token
from keras_seqmech.analysis.plots import plot_vanishing_ratio
from keras_seqmech.analysis.plots import plot_word_importance
from keras_seqmech.analysis.positions import original_span
from keras_seqmech.analysis.positions import surround_with_noise
from keras_seqmech.analysis.prefixes import prefixes
from keras_seqmech.analysis.prefixes import weighted_units

__all__ = [
    "FieldSizeHistory",
    "HtmlPicture",
    "LayerChange",
    "MaskReport",
    "TokenFieldSize",
    "VanishingRatio",
    "decided_share",
    "decision_entropy",
    "decision_information",
    "expected_field_size",
    "field_size_by_token",
    "gradient_profile",
    "label_entropy_by_token",
    "mask_report",
    "normalized_word_importance",
    "openness_by_context",
    "openness_by_position",
    "original_span",
    "plot_accuracy_by_noise",
    "plot_accuracy_by_openness",
    "plot_confusion",
    "plot_emission",
    "plot_field_size_by_entropy",
    "plot_field_size_by_step",
    "plot_gates_over_image",
    "plot_gradient_profiles",
    "plot_learning_curves",
    "plot_openness_by_position",
    "plot_probability_by_token",
    "plot_receptive_fields",
    "plot_reliability",
    "plot_roc_curves",
    "plot_score_by_look_ahead",
    "plot_sweep",
    "plot_units_by_token",
    "plot_vanishing_ratio",
    "plot_word_importance",
    "prefixes",
    "show",
    "surround_with_noise",
    "vanishing_ratio",
    "weighted_units",
    "word_importance",
]
