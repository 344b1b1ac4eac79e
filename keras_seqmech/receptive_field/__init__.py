"""The adaptive receptive field, from "An Informative Adaptive Receptive Field
Model for Recurrent Neural Networks".

`cell` is one step of it and `layer` the layer over sequences, whose `loop` is
fast; `field` has the equations that both compute, `windows` what both read.
`look_ahead` reads ahead in front of any layer, beyond the paper.

Where each equation is computed: table in `field`. The relaxed sample (7), and
sizes from what was read, are in `keras_seqmech.core.decisions.choices`.
"""

from keras_seqmech.receptive_field.cell import RFCell
from keras_seqmech.receptive_field.layer import ReceptiveFieldRNN
from keras_seqmech.receptive_field.look_ahead import LookAhead
from keras_seqmech.receptive_field.windows import ReceptiveFieldWindows

__all__ = [
    "LookAhead",
    "RFCell",
    "ReceptiveFieldRNN",
    "ReceptiveFieldWindows",
]
