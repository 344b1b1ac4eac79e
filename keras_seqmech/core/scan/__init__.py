"""The one time loop of the package: `scan` runs a step over the time axis.

`protocol` says what a step gets and returns, `loop` runs it forward,
`backward` is the gradient that recomputes. Under both lies one of two loops:
`padded`, where all rows do all steps, or `packed`, where each row does its
own, with `packing` to bring sequences there and back. Within
`differentiable_twice`, the gradient is TensorFlow's, which has one of its own.
"""

from keras_seqmech.core.scan.loop import scan
from keras_seqmech.core.scan.packing import Packing
from keras_seqmech.core.scan.packing import can_pack
from keras_seqmech.core.scan.packing import pack
from keras_seqmech.core.scan.protocol import Affine
from keras_seqmech.core.scan.protocol import Named
from keras_seqmech.core.scan.protocol import Operands
from keras_seqmech.core.scan.protocol import ScanOptions
from keras_seqmech.core.scan.protocol import States
from keras_seqmech.core.scan.protocol import Step
from keras_seqmech.core.scan.protocol import differentiable_twice

__all__ = [
    "Affine",
    "Named",
    "Operands",
    "Packing",
    "ScanOptions",
    "States",
    "Step",
    "can_pack",
    "differentiable_twice",
    "pack",
    "scan",
]
