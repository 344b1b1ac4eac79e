from keras_seqmech.analysis import plots as plots
from keras_seqmech.analysis.by_layer import decisions
from keras_seqmech.analysis.by_step import TokenFieldSize
from keras_seqmech.analysis.by_step import emission_delay
from keras_seqmech.analysis.by_step import field_size_by_token
from keras_seqmech.analysis.by_step import label_entropy_by_token
from keras_seqmech.analysis.by_step import openness_by_position
from keras_seqmech.analysis.gradients import VanishingRatio
from keras_seqmech.analysis.gradients import gradient_profile
from keras_seqmech.analysis.gradients import vanishing_ratio
from keras_seqmech.analysis.importance import normalized_word_importance
from keras_seqmech.analysis.importance import word_importance
from keras_seqmech.analysis.markup import HtmlPicture
from keras_seqmech.analysis.markup import show
from keras_seqmech.analysis.masks import mask_report
from keras_seqmech.analysis.positions import original_span
from keras_seqmech.analysis.positions import surround_with_noise
from keras_seqmech.analysis.trade_off import trade_off
from keras_seqmech.analysis.trade_off import weight_within

__all__ = [
    "HtmlPicture",
    "TokenFieldSize",
    "VanishingRatio",
    "decisions",
    "emission_delay",
    "field_size_by_token",
    "gradient_profile",
    "label_entropy_by_token",
    "mask_report",
    "normalized_word_importance",
    "openness_by_position",
    "original_span",
    "show",
    "surround_with_noise",
    "trade_off",
    "vanishing_ratio",
    "weight_within",
    "word_importance",
]
