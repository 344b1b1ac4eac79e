"""Where layers leave the log-probabilities of what they draw in training.

A hard decision (a gate, a field size) has no gradient of its own. The layer
that draws it reports its log-probability here; a caller that collects these,
such as `PolicyGradientModel`, makes a gradient of them.
"""

import contextlib
import contextvars
import warnings
import weakref
from collections.abc import Iterator
from typing import NamedTuple

import keras

from keras_seqmech.core.decisions.reports import Reports
from keras_seqmech.typing import Tensor


class DrawnDecisions(NamedTuple):
    """What one call of a layer drew.

    Attributes:
        layer_name: Name of the layer.
        log_probability: Tensor `(batch,)`: for each example, the sum over all
            its decisions of the log of their probability, in nats.
        penalty: Tensor `(batch,)`: the loss of each example's decisions beside
            the compiled one, such as a penalty on open gates; or None.
    """

    layer_name: str
    log_probability: Tensor
    penalty: Tensor | None = None


class Collection(Reports[DrawnDecisions]):
    """The decisions that layers reported within a `collect`."""

    def check_usable(self) -> None:
        """Raises a ValueError if decisions of a layer could not be used."""
        if self.unusable:
            raise ValueError(
                "Layers that draw must be called by the training step itself, "
                "not within a `tf.function`, loop or condition of its own, "
                "whose tensors the step cannot use. Received: decisions of "
                f"layers {self.unusable}"
            )


# Each thread has its own: each replica of a strategy runs in one.
_innermost: contextvars.ContextVar[Collection | None] = contextvars.ContextVar(
    "innermost_collection", default=None
)
_warned: weakref.WeakSet = weakref.WeakSet()


@contextlib.contextmanager
def collect() -> Iterator[Collection]:
    """Collects what layers draw within the context, in the order of calls.

    The innermost context collects, of the same thread. Collect and use the
    tensors in the same function: inside one `tf.function`, or all eagerly.

    Yields:
        A list that grows with every call of a layer that draws in training.

    Example:

    >>> import keras, numpy as np
    >>> import keras_seqmech
    >>> layer = keras_seqmech.ReceptiveFieldRNN(
    ...     keras.layers.GRUCell(4), max_size=3, estimator="reinforce")
    >>> with collect() as decisions:
    ...     outputs = layer(np.ones((2, 5, 1)), training=True)
    >>> decisions[0].log_probability.shape
    TensorShape([2])
    """
    decisions = Collection()
    token = _innermost.set(decisions)
    try:
        yield decisions
    finally:
        _innermost.reset(token)


def current() -> Collection | None:
    """The list of the innermost `collect`, None outside of any."""
    return _innermost.get()


def report(
    layer: keras.Layer, log_probability: Tensor, penalty: Tensor | None = None
) -> None:
    """Passes what a layer drew in a call on to the innermost `collect`.

    If nothing collects, warns once for each layer that it will not learn what
    to draw.

    Args:
        layer: The layer that drew.
        log_probability: Tensor `(batch,)`, differentiable with respect to the
            layer's weights; masked steps count 0.
        penalty: Tensor `(batch,)` or None: an example's own loss of what was
            drawn, as the layer adds its mean over the batch to the loss by
            `add_loss`. Needed where that has no gradient.

    Raises:
        ValueError: If a shape is not `(batch,)`.
    """
    # A layer that was never built has no path.
    path = layer.path or layer.name
    reported = {"log_probability": log_probability, "penalty": penalty}
    for name, value in reported.items():
        if value is not None and len(value.shape) != 1:
            raise ValueError(
                f"Argument `{name}` must be of shape (batch,): one number an "
                f"example. Received: {name} of shape {tuple(value.shape)} "
                f"from layer '{path}'"
            )
    decisions = current()
    if decisions is not None:
        drawn = DrawnDecisions(layer.name, log_probability, penalty)
        decisions.add(layer, drawn, log_probability)
    elif layer not in _warned:
        _warned.add(layer)
        warnings.warn(
            f"Layer '{path}' draws in training, but nothing collects "
            "the log-probabilities: it will not learn what to draw. Train it "
            "in a `keras_seqmech.PolicyGradientModel`, or in a loop of your "
            "own with `keras_seqmech.training.collect_log_probabilities`.",
            UserWarning,
            stacklevel=2,
        )
