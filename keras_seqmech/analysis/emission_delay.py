"""How long the steps of a stream wait."""

from typing import Any

import numpy as np

from keras_seqmech.analysis.token_arrays import check_mask
from keras_seqmech.analysis.token_arrays import check_values


def emission_delay(sizes: Any, mask: Any = None) -> np.ndarray:
    r"""Steps that each step of a field waits for before it leaves a stream.

    A step leaves, in order, once the positions that it reads have arrived:

    $$e_t = \max(e_{t-1},\; t + s_t - 1), \quad \text{delay}_t = e_t - t,$$

    where nothing is waited for past the last real step. The mean size - 1 is
    no delay: a step waits for those before it, too. These are the delays of
    each row as a sequence of its own, without masked steps between or behind
    its real ones: a stream that is given some cannot know that they are masked,
    and may wait for them.

    Args:
        sizes: `(batch, time)`: positions really read, as `return_field=True`
            gives them at inference; numbers are rounded to the nearest int.
        mask: Boolean array `(batch, time)`, True at real steps.

    Returns:
        int64 array `(batch, time)`, 0 at masked steps. A table shows the mean
        and the 95th percentile over real steps, `delays[mask]`.

    Raises:
        ValueError: If shapes differ, or a size is not finite.

    Example:

    >>> emission_delay([[1, 3, 1, 1, 2]]).tolist()
    [[0, 2, 1, 0, 0]]
    """
    sizes = np.asarray(sizes)
    if sizes.ndim != 2:
        raise ValueError(
            "Argument `sizes` must have the shape (batch, time). "
            f"Received: sizes.shape={sizes.shape}"
        )
    real = check_mask(mask, sizes.shape)
    values = np.rint(check_values("sizes", sizes, sizes, real)).astype(int)
    delays = np.zeros(sizes.shape, int)
    end = 0
    for row, steps in enumerate(map(np.flatnonzero, real)):
        own = values[end : end + len(steps)]
        end += len(steps)
        # The last of the real steps that a field reads.
        last = np.minimum(np.arange(len(steps)) + own - 1, len(steps) - 1)
        leaves = np.maximum.accumulate(np.append(steps, 0)[last])
        delays[row, steps] = np.maximum(leaves - steps, 0)
    return delays
