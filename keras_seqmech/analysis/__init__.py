from keras_seqmech.analysis import plots as plots
from keras_seqmech.analysis.by_layer import decisions
from keras_seqmech.analysis.delay import emission_delay
from keras_seqmech.analysis.markup import HtmlPicture
from keras_seqmech.analysis.markup import show
from keras_seqmech.analysis.masks import mask_report
from keras_seqmech.analysis.points import waiting_pays
from keras_seqmech.analysis.points import weight_within
from keras_seqmech.analysis.promises import weight_promised
from keras_seqmech.analysis.trade_off import trade_off

__all__ = [
    "HtmlPicture",
    "decisions",
    "emission_delay",
    "mask_report",
    "show",
    "trade_off",
    "waiting_pays",
    "weight_promised",
    "weight_within",
]
