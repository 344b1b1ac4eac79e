"""What layers report, beside what they return, to the code that calls them."""

from typing import Generic
from typing import TypeVar

import keras
import tensorflow as tf

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
        if _graph_of(tensor) is self._graph:
            self._unusable.pop(id(layer), None)
            self.append(report)
        else:
            self._unusable[id(layer)] = layer

    @property
    def unusable(self) -> list[str]:
        """Names of the layers whose last report could not be used."""
        return sorted(layer.name for layer in self._unusable.values())

    def is_usable(self, layer: keras.Layer) -> bool:
        """Whether the last report of a layer could be used."""
        return id(layer) not in self._unusable


def _current_graph() -> tf.Graph | None:
    """The graph that operations go into, None if they run eagerly."""
    if tf.executing_eagerly():
        return None
    return tf.compat.v1.get_default_graph()


def _graph_of(tensor: Tensor) -> tf.Graph | None:
    """The graph a tensor belongs to, None for the value of an eager one."""
    return tensor.graph if tf.is_symbolic_tensor(tensor) else None
