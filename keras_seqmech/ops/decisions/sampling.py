"""The noise that decisions are drawn with, float32 or wider."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_seqmech.typing import Tensor


def gumbel_noise(
    shape: Any,
    seed_generator: keras.random.SeedGenerator,
    dtype: str = "float32",
) -> Tensor:
    """Draws Gumbel(0, 1) noise, -log(-log(u)) of a uniform u in (0, 1).

    For seeds below $2^{31} - 1$ these are the numbers of `Gumbel` of TensorFlow
    Probability, whose import takes longer than to trace a small model.

    Args:
        shape: Shape of the noise, of ints or scalar tensors.
        seed_generator: A `keras.random.SeedGenerator`.
        dtype: `"float32"` or `"float64"`; half precision would give infinite
            noise now and then.

    Returns:
        Tensor of `shape`.
    """
    smallest = float(np.finfo(dtype).tiny)  # no logarithm of zero
    uniform = keras.random.uniform(
        shape, smallest, 1.0, dtype=dtype, seed=seed_generator
    )
    return -ops.log(-ops.log(uniform))


def logistic_noise(
    shape: Any,
    seed_generator: keras.random.SeedGenerator,
    dtype: str = "float32",
) -> Tensor:
    """Draws Logistic(0, 1) noise: the difference of two Gumbel draws.

    What decides between two values; see `gumbel_noise` for the arguments.
    """
    first, second = ops.unstack(
        gumbel_noise((2, *shape), seed_generator, dtype)
    )
    return first - second
