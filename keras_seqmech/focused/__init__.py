"""Focused reading, from "Focused Hierarchical RNNs for Conditional Sequence
Processing".

`encoder` runs over the steps that the `gate` opens; `attention` and `pointer`
read the states.
"""

from keras_seqmech.focused.attention import ContextAttention
from keras_seqmech.focused.encoder import FocusedHierarchicalEncoder
from keras_seqmech.focused.gate import BoundaryGate
from keras_seqmech.focused.pointer import PointerSoftmax

__all__ = [
    "BoundaryGate",
    "ContextAttention",
    "FocusedHierarchicalEncoder",
    "PointerSoftmax",
]
