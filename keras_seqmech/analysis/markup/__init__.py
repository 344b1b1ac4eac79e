"""Decisions beside the text they were made on, as HTML.

A browser draws any script, right to left too, and wraps lines to its width;
the figures of `keras_seqmech.analysis.plots` are for papers.
"""

from keras_seqmech.analysis.markup.picture import HtmlPicture
from keras_seqmech.analysis.markup.picture import show

__all__ = ["HtmlPicture", "show"]
