"""Reports of layers, beside their outputs, to the code that calls them.

A hard decision (a gate, a field size) has no gradient of its own. The layer
that draws it reports its log-probability (`report_log_probability`) to the
code that collects these (`collect`), such as `PolicyGradientModel`, which makes
a gradient of them. Every layer that decides also shows its decisions
(`record`), whether it returns them or not, to the code that records them
(`recording`), such as `analysis.decisions`.
"""

import contextlib
import contextvars
import warnings
import weakref
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any
from typing import Generic
from typing import NamedTuple
from typing import TypeVar

import keras
import tensorflow as tf

from keras_seqmech.core import checks
from keras_seqmech.typing import Tensor

Report = TypeVar("Report")


class Reports(list[Report], Generic[Report]):
    """The reports of layers, in the order of calls.

    Tensors can be used only in the graph they belong to. Keras builds layers
    by running them in a graph that it throws away; a loop or a `tf.function`
    has a graph of its own, too. What is reported from there is not collected.
    After building, the layer reports again from the graph in which this list
    was made; if it does not, what it reported cannot be used.
    """

    def __init__(self) -> None:
        super().__init__()
        self._graph = _current_graph()
        self._unusable: dict[int, keras.Layer] = {}

    def add(self, layer: keras.Layer, report: Report, tensor: Tensor) -> None:
        """Collects a report if its tensors, such as this one, can be used."""
        graph = tensor.graph if tf.is_symbolic_tensor(tensor) else None
        if graph is self._graph:
            self._unusable.pop(id(layer), None)
            self.append(report)
        else:
            self._unusable[id(layer)] = layer

    @property
    def unusable(self) -> list[str]:
        """Names of the layers whose last report could not be used."""
        return sorted(layer.name for layer in self._unusable.values())

    def is_usable(self, layer: keras.Layer) -> bool:
        """Returns whether the last report of a layer could be used."""
        return id(layer) not in self._unusable


class DrawnDecisions(NamedTuple):
    """The draws of one call of a layer.

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
_collection: contextvars.ContextVar[Collection | None] = contextvars.ContextVar(
    "log_probabilities", default=None
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
    with _within(_collection, decisions):
        yield decisions


def current() -> Collection | None:
    """The list of the innermost `collect`, None outside of any."""
    return _collection.get()


def report_log_probability(
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
        ValueError: If a shape is not `(batch,)`, or the call is recomputed for
            its gradient.
    """
    checks.check_not_recomputed()
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


class Recording(Reports[tuple[keras.Layer, dict[str, Tensor]]]):
    """Layers, and the dicts of their decisions, call by call."""

    def by_layer(self) -> dict[str, dict[str, Tensor]]:
        """The decisions by layer; a repeated name is numbered, `rnn_1`.

        Raises:
            ValueError: If no layer decided.
        """
        # Keras runs a cell once before its loop, to know its outputs: a layer
        # whose last report is of a loop is left out with all it reported.
        usable = [report for report in self if self.is_usable(report[0])]
        if not usable:
            raise ValueError(
                "Argument `model` must call layers that decide (fields, gates, "
                "attention, subsamples), and not only within a loop or a "
                "`tf.function` of another layer. An `RFCell` decides in the "
                "loop of its `keras.layers.RNN`; a `ReceptiveFieldRNN` with "
                "its weights shows its sizes. "
                f"Received: deciding layers in loops {self.unusable}, others []"
            )
        names = numbered([layer.name for layer, _ in usable])
        return dict(zip(names, (decisions for _, decisions in usable)))


_recording: contextvars.ContextVar[Recording | None] = contextvars.ContextVar(
    "recording", default=None
)


@contextlib.contextmanager
def recording() -> Iterator[Recording]:
    """Records the decisions of the layers that are called within it.

    Record and use the tensors in the same function: inside one `tf.function`,
    or all eagerly.

    Example:

    >>> import numpy as np
    >>> from keras_seqmech import AttentionPooling
    >>> with recording() as found:
    ...     pooled = AttentionPooling(name="pooling")(np.ones((1, 4, 3)))
    >>> found.by_layer()["pooling"]["attention_scores"].numpy()
    array([[0.25, 0.25, 0.25, 0.25]], dtype=float32)
    """
    found = Recording()
    with _within(_recording, found):
        yield found


def unrecorded() -> contextlib.AbstractContextManager[None]:
    """Disables recording, for sublayers whose parent records."""
    return _within(_recording, None)


@contextlib.contextmanager
def _within(variable: contextvars.ContextVar, value: Any) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def is_recording() -> bool:
    """Returns whether decisions are recorded that a layer might not compute."""
    return _recording.get() is not None


def record(layer: keras.Layer, decisions: dict[str, Tensor]) -> None:
    """Records what a layer decided in a call, if that is recorded."""
    found = _recording.get()
    if found is not None:
        some = next(iter(decisions.values()))
        found.add(layer, (layer, decisions), some)


def with_decisions(
    layer: keras.Layer,
    outputs: list,
    decisions: dict[str, Tensor],
    are_returned: bool,
) -> Any:
    """What a call returns, outputs and the dict if wanted; records the dict."""
    record(layer, decisions)
    return returned([*outputs, decisions] if are_returned else outputs)


def returned(outputs: list) -> Any:
    """Outputs as a layer returns them: a tuple, one alone as it is."""
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def numbered(names: Sequence[str]) -> list[str]:
    """Unique names: a repeated name gets a number.

    A numbered name equals no other name.

    >>> numbered(["size", "size", "size_1"])
    ['size', 'size_2', 'size_1']
    """
    unique: list[str] = []
    for stem in names:
        name, number = stem, 0
        while name in unique or (number and name in names):
            number += 1
            name = f"{stem}_{number}"
        unique.append(name)
    return unique


def _current_graph() -> tf.Graph | None:
    """The graph that operations go into, None if they run eagerly."""
    if tf.executing_eagerly():
        return None
    return tf.compat.v1.get_default_graph()
