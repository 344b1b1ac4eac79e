"""Figures: one function each.

Each function returns a `matplotlib.figure.Figure`, which belongs to no window
and no global state: show it in a notebook, or write it with
`figure.savefig(path)`.
"""

from keras_seqmech.analysis.plots.curves import plot_gradient_profiles
from keras_seqmech.analysis.plots.curves import plot_history
from keras_seqmech.analysis.plots.curves import plot_word_importance
from keras_seqmech.analysis.plots.fields import plot_receptive_fields
from keras_seqmech.analysis.plots.fonts import drawable

__all__ = [
    "drawable",
    "plot_gradient_profiles",
    "plot_history",
    "plot_receptive_fields",
    "plot_word_importance",
]
