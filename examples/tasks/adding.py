"""The adding problem: the sum of two marked numbers of a sequence.

Each step has a number, uniform from -0.5 to 0.5, and a marker, 1 at two steps
and 0 at all others: one among the first tenth of the steps, one in the second
half. The answer is the sum of the two numbers. The constant answer 0 has a
mean squared error of 1/6. Only two steps matter.

Source: the task of "Skip RNN: Learning to Skip State Updates in Recurrent
Neural Networks", section 4.1.
"""

import numpy as np


def examples(
    count: int, length: int = 50, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Random sequences, float32 `(count, length, 2)`, and sums `(count, 1)`."""
    generator = np.random.default_rng(seed)
    numbers = generator.uniform(-0.5, 0.5, (count, length))
    markers = np.zeros((count, length))
    rows = np.arange(count)
    first = generator.integers(0, max(1, length // 10), count)
    second = generator.integers(max(1, length // 2), length, count)
    markers[rows, first] = markers[rows, second] = 1
    sums = (numbers * markers).sum(axis=1, keepdims=True)
    sequences = np.stack([numbers, markers], axis=-1)
    return sequences.astype("float32"), sums.astype("float32")
