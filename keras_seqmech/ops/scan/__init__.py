"""The one time loop of the package: `scan` runs a step over the time axis.

`protocol` says what a step gets and returns, `loop` runs it forward,
`backward` is the gradient that recomputes, `stacked` the plain loop under
both.
"""

from keras_seqmech.ops.scan.loop import scan
from keras_seqmech.ops.scan.protocol import Affine
from keras_seqmech.ops.scan.protocol import Operands
from keras_seqmech.ops.scan.protocol import ScanOptions
from keras_seqmech.ops.scan.protocol import Step

__all__ = ["Affine", "Operands", "ScanOptions", "Step", "scan"]
