"""How far apart two computations may be; see the module of the package."""

from keras_seqmech.testing.tolerances import assert_close
from keras_seqmech.testing.tolerances import tolerance
from keras_seqmech.testing.tolerances import within

__all__ = ["assert_close", "tolerance", "within"]
