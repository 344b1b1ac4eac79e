"""The decisions of layers, whether they return them or not."""

import contextlib
import contextvars
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

import keras

from keras_seqmech.core.decisions.reports import Reports
from keras_seqmech.typing import Tensor


class Recording(Reports[tuple[keras.Layer, dict[str, Tensor]]]):
    """Layers, and the dicts of their decisions, call by call."""

    def by_layer(self) -> dict[str, dict[str, Tensor]]:
        """The decisions by layer; a repeated name is numbered, `rnn_1`.

        Raises:
            ValueError: If no layer decided.
        """
        # Keras runs a cell once before its loop, to know its outputs.
        usable = [report for report in self if self.is_usable(report[0])]
        if not usable:
            raise ValueError(
                "Argument `model` must call layers that decide (fields, gates, "
                "attention, subsamples), and not only within a loop or a "
                "`tf.function` of another layer. A `RFCell` decides in the "
                "loop of its `keras.layers.RNN`; a `ReceptiveFieldRNN` with "
                "its weights shows its sizes. "
                f"Received: layers in loops {self.unusable}, no others"
            )
        names = numbered([layer.name for layer, _ in usable])
        return dict(zip(names, (decisions for _, decisions in usable)))


# Each thread has its own: each replica of a strategy runs in one.
_innermost: contextvars.ContextVar[Recording | None] = contextvars.ContextVar(
    "innermost_recording", default=None
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
    with _recording_to(found):
        yield found


def unrecorded() -> contextlib.AbstractContextManager[None]:
    """Within it nothing is recorded: for a layer that another reports for."""
    return _recording_to(None)


@contextlib.contextmanager
def _recording_to(found: Recording | None) -> Iterator[None]:
    token = _innermost.set(found)
    try:
        yield
    finally:
        _innermost.reset(token)


def is_recording() -> bool:
    """Whether decisions are recorded that a layer might not compute."""
    return _innermost.get() is not None


def record(layer: keras.Layer, decisions: dict[str, Tensor]) -> None:
    """Records what a layer decided in a call, if that is recorded."""
    found = _innermost.get()
    if found is not None:
        some = next(iter(decisions.values()))
        found.add(layer, (layer, decisions), some)


def with_decisions(
    layer: keras.Layer,
    outputs: Any,
    decisions: dict[str, Tensor],
    are_returned: bool,
) -> Any:
    """Records a layer's decisions; its outputs, and the dict if wanted."""
    record(layer, decisions)
    return (outputs, decisions) if are_returned else outputs


def numbered(names: Sequence[str]) -> list[str]:
    """Unique names: of equal ones, all but the first get a number.

    A numbered name is none of the others.

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
