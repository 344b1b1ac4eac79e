"""Types of public signatures."""

from typing import Any
from typing import TypeAlias

# Eager and symbolic tensors of TensorFlow and Keras, arrays and variables: the
# ops of Keras take all of them, and have no common class.
Tensor: TypeAlias = Any

# A number of steps, known or not when a graph is made: an int, or a scalar
# int32 tensor.
Size: TypeAlias = Any
