"""Where layers leave the log-probabilities of what they draw in training.

A drawn decision (a hard gate, a field size) has no gradient of its own. The
layer that draws reports its log-probability here; whoever collects, such as
`PolicyGradientModel`, makes a gradient of it.
"""

import contextlib
import threading
import warnings
import weakref
from collections.abc import Iterator
from typing import Any
from typing import NamedTuple

import keras


class DrawnDecisions(NamedTuple):
    """What one call of a layer drew.

    Attributes:
        layer_name: Name of the layer.
        log_probability: Tensor `(batch,)`: for each example, the sum over all
            its decisions of the log of their probability, in nats.
        cost: Tensor `(batch,)`: what an example's decisions cost beside the
            compiled loss, such as a penalty on open gates; or None.
    """

    layer_name: str
    log_probability: Any
    cost: Any | None = None


class _Stack(threading.local):
    """Collectors by thread: each replica of a strategy runs in its own."""

    def __init__(self):
        self.collectors = []


_stack = _Stack()
_warned = weakref.WeakSet()


@contextlib.contextmanager
def collect() -> Iterator[list[DrawnDecisions]]:
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
    decisions = []
    _stack.collectors.append(decisions)
    try:
        yield decisions
    finally:
        _stack.collectors.pop()


def current() -> list[DrawnDecisions] | None:
    """The list of the innermost `collect`, None outside of any."""
    return _stack.collectors[-1] if _stack.collectors else None


def report(
    layer: keras.Layer, log_probability: Any, cost: Any | None = None
) -> None:
    """Hands what a layer drew to the innermost `collect`.

    To be called by a layer when it draws in training, once a call. Without
    anyone to collect, warns once for each layer that it will not learn what
    it draws. Calls with symbolic inputs, as in building, are passed over.

    Args:
        layer: The layer that drew.
        log_probability: Tensor `(batch,)`, differentiable with respect to the
            layer's weights; masked steps count 0.
        cost: Tensor `(batch,)` or None: an example's own cost of what was
            drawn, as the layer adds its mean over the batch to the loss by
            `add_loss`. Needed where that has no gradient.

    Raises:
        ValueError: If a shape is not `(batch,)`.
    """
    # Keras builds layers by running them in a graph of this name.
    graph = getattr(log_probability, "graph", None)
    if graph is not None and graph.name.startswith("scratch_graph"):
        return
    # A layer that was never built has no path.
    path = layer.path or layer.name
    for name, value in (("log_probability", log_probability), ("cost", cost)):
        if value is not None and len(value.shape) != 1:
            raise ValueError(
                f"Argument `{name}` must be of shape (batch,): one number an "
                f"example. Received: {name} of shape {tuple(value.shape)} "
                f"from layer '{path}'"
            )
    decisions = current()
    if decisions is not None:
        decisions.append(DrawnDecisions(layer.name, log_probability, cost))
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
