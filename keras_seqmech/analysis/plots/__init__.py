"""Figures: one function each.

Each function returns a `matplotlib.figure.Figure`, which belongs to no window
and no global state: show it in a notebook, or write it with
`figure.savefig(path)`.
"""

from keras_seqmech.analysis.plots.classification import plot_confusion
from keras_seqmech.analysis.plots.classification import plot_learning_curves
from keras_seqmech.analysis.plots.classification import plot_reliability
from keras_seqmech.analysis.plots.classification import plot_roc_curves
from keras_seqmech.analysis.plots.emission import plot_emission
from keras_seqmech.analysis.plots.fields import plot_field_size_by_entropy
from keras_seqmech.analysis.plots.fields import plot_field_size_by_step
from keras_seqmech.analysis.plots.fields import plot_receptive_fields
from keras_seqmech.analysis.plots.fields import plot_score_by_look_ahead
from keras_seqmech.analysis.plots.gates import plot_accuracy_by_openness
from keras_seqmech.analysis.plots.gates import plot_gates_over_image
from keras_seqmech.analysis.plots.gates import plot_openness_by_position
from keras_seqmech.analysis.plots.positions import plot_accuracy_by_noise
from keras_seqmech.analysis.plots.positions import plot_gradient_profiles
from keras_seqmech.analysis.plots.positions import plot_vanishing_ratio
from keras_seqmech.analysis.plots.positions import plot_word_importance
from keras_seqmech.analysis.plots.reading import plot_probability_by_token
from keras_seqmech.analysis.plots.reading import plot_units_by_token
from keras_seqmech.analysis.plots.tuning import plot_sweep

__all__ = [
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
]
