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
    """Draws Gumbel(0, 1) noise with TensorFlow Probability.

    The numbers are those of its `Gumbel`, whose cache of bijectors would keep
    every graph that draws in memory.

    Args:
        shape: Shape of the noise, of ints or scalar tensors.
        seed_generator: A `keras.random.SeedGenerator`.
        dtype: `"float32"` or `"float64"`; half precision would give infinite
            noise now and then.

    Returns:
        Tensor of `shape`.
    """
    # Imported here: it takes seconds, and inference never needs it.
    import tensorflow_probability as tfp

    seed = ops.cast(seed_generator.next(), "int32")
    low = ops.cast(np.finfo(dtype).tiny, dtype)  # no logarithm of zero
    uniform = tfp.distributions.Uniform(low, ops.ones((), dtype=dtype))
    return -ops.log(-ops.log(uniform.sample(shape, seed=seed)))


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
