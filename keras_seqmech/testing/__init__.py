"""Contracts of layers over sequences, for layers of your own.

`verify` checks all of them; each is also a function of a `Subject`, as the
tests of this package use it.
"""

import inspect
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_seqmech.testing import contracts
from keras_seqmech.testing.subject import Subject

__all__ = ["verify"]


def verify(
    make: Callable[[], keras.Layer],
    inputs: Any,
    *,
    wide: Sequence[str] = (),
    nonzero: Sequence[str] = (),
    skip: Sequence[str] = (),
) -> list[str]:
    """Asserts that a layer over sequences keeps its contracts.

    The layer is made anew for each way to run it: eagerly, in graphs, compiled
    by XLA, under each dtype policy, saved, exported, and, if it declares a step
    (see ``keras_seqmech.core.stream``), as a stream. A layer that draws in
    training is compared at inference alone. Outputs are named as by position,
    `output_0`, ...; a dict at the end has names of its own, those of decisions.

    The mask is the first argument of `call` that is called `mask`, for its
    first argument, or `<argument>_mask`. Other inputs whose second axis is as
    long are sequences under the same mask.

    Args:
        make: Function without arguments that makes the layer, such as its class
            or a `functools.partial`.
        inputs: Array `(rows, steps, ...)`, at least 5 rows of 4 steps; or a
            dict of arrays by argument of `call`, in its order.
        wide: Names of outputs that are float32 or wider under each policy, as
            probabilities should be. So are decisions.
        nonzero: Names of outputs that may differ from zero in a row without a
            real step.
        skip: Names of contracts that are not checked.

    Returns:
        Names of the contracts that hold. Those on masks, streams and training
        are left out where the layer has no mask, no step and no weights.

    Raises:
        AssertionError: If one does not hold: which, of which layer, and why.
        ValueError: If an argument does not fit.

    The random seeds of Python, NumPy and Keras are set.

    Example:

    >>> import numpy as np
    >>> from keras_seqmech import MaxPooling
    >>> from keras_seqmech.testing import verify
    >>> x = np.random.default_rng(0).normal(size=(5, 7, 3))
    >>> "masked_steps_reach_nothing" in verify(MaxPooling, x)
    True
    """
    if isinstance(make, keras.Layer) or not callable(make):
        raise ValueError(
            "Argument `make` must be a function without arguments that makes "
            f"the layer. Received: make={make!r}"
        )
    names = [check.__name__ for check in contracts.CONTRACTS]
    if not set(skip) <= set(names):
        raise ValueError(
            f"Argument `skip` must have names of {names}. Received: skip={skip}"
        )
    keras.utils.set_random_seed(0)
    subject = Subject(make, _arrays(make, inputs), wide=wide, nonzero=nonzero)
    held = []
    for check, applies in contracts.CONTRACTS.items():
        if check.__name__ not in skip and applies(subject):
            check(subject)
            held.append(check.__name__)
    return held


def _arrays(make: Callable[[], keras.Layer], inputs: Any) -> dict[str, Any]:
    """Arrays by name, floats as float32 and ints as int32."""
    if not isinstance(inputs, dict):
        name, *_ = inspect.signature(make().call).parameters
        inputs = {name: inputs}
    arrays = {name: np.asarray(x) for name, x in inputs.items()}
    return {
        name: x.astype("float32" if x.dtype.kind == "f" else "int32")
        for name, x in arrays.items()
    }
