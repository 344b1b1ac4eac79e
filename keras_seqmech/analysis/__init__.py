from keras_seqmech.analysis import plots as plots
from keras_seqmech.analysis.decision_information import decided_share
from keras_seqmech.analysis.decision_information import decision_entropy
from keras_seqmech.analysis.decision_information import decision_information
from keras_seqmech.analysis.field_sizes import TokenFieldSize
from keras_seqmech.analysis.field_sizes import expected_field_size
from keras_seqmech.analysis.field_sizes import field_size_by_token
from keras_seqmech.analysis.field_sizes import label_entropy_by_token
from keras_seqmech.analysis.gradients import gradient_profile
from keras_seqmech.analysis.gradients import vanishing_ratio
from keras_seqmech.analysis.histories import FieldSizeHistory
from keras_seqmech.analysis.histories import VanishingRatio
from keras_seqmech.analysis.importance import normalized_word_importance
from keras_seqmech.analysis.importance import word_importance
from keras_seqmech.analysis.markup import HtmlPicture
from keras_seqmech.analysis.markup import show
from keras_seqmech.analysis.masks import LayerChange
from keras_seqmech.analysis.masks import MaskReport
from keras_seqmech.analysis.masks import mask_report
from keras_seqmech.analysis.openness import openness_by_context
from keras_seqmech.analysis.openness import openness_by_position
from keras_seqmech.analysis.positions import original_span
from keras_seqmech.analysis.positions import surround_with_noise
from keras_seqmech.analysis.prefixes import prefixes

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
    "prefixes",
    "show",
    "surround_with_noise",
    "vanishing_ratio",
    "word_importance",
]
