"""Delays of the answers of a stream."""

from typing import Any

import numpy as np

from keras_seqmech.core import checks


def emission_delay(sizes: Any, mask: Any = None) -> np.ndarray:
    r"""Number of further steps that each step waits for in a stream.

    Steps leave in order, each once the positions that it reads have arrived:

    $$e_t = \max(e_{t-1},\; t + s_t - 1), \quad \text{delay}_t = e_t - t,$$

    where no step waits past the last real one. A step also waits for those
    before it. So the delay is more than the size less 1 in a
    `ReceptiveFieldRNN`, and equal to it in a `LookAhead`, whose sizes count
    what has arrived meanwhile. These are the delays of rows that are streamed
    alone. A stream that is given masked steps, between real steps or after
    them, may wait longer: it cannot know that they are masked.

    Args:
        sizes: Array `(batch, time)` of the numbers of positions read, as
            returned with `return_field=True` at inference; rounded to the
            nearest int.
        mask: Boolean array `(batch, time)`, True at real steps.

    Returns:
        int64 array `(batch, time)`, 0 at masked steps. `delays[mask]` are those
        of the real steps, for their mean and 95th percentile.

    Raises:
        ValueError: If shapes differ, or a size at a real step is not a finite
            number of at least 1.

    Example:

    >>> emission_delay([[1, 3, 1, 1, 2]]).tolist()
    [[0, 2, 1, 0, 0]]
    """
    sizes = checks.as_array("sizes", sizes, "float64")
    if sizes.ndim != 2:
        raise ValueError(
            "Argument `sizes` must have the shape (batch, time). "
            f"Received: sizes.shape={sizes.shape}"
        )
    if mask is None:
        mask = np.ones(sizes.shape, bool)
    checks.check_mask("mask", mask, sizes.shape)
    real = np.asarray(mask, bool)
    values = np.rint(sizes[real])
    wrong = values[~((values >= 1) & np.isfinite(values))]
    if len(wrong):
        raise ValueError(
            "Argument `sizes` must hold finite numbers of at least 1 at real "
            f"steps. Received: sizes with {wrong.min():g}"
        )
    values = np.minimum(values, sizes.shape[1]).astype(int)
    delays = np.zeros(sizes.shape, int)
    end = 0
    for row, steps in enumerate(map(np.flatnonzero, real)):
        own = values[end : end + len(steps)]
        end += len(steps)
        # The last of the real steps that a field reads.
        last = np.minimum(np.arange(len(steps)) + own - 1, len(steps) - 1)
        delays[row, steps] = np.maximum.accumulate(steps[last]) - steps
    return delays
