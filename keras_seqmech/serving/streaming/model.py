"""A model that is given sequences in chunks, as they arrive."""

import reprlib
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import keras
import tensorflow as tf

from keras_seqmech.core import checks
from keras_seqmech.core.decisions.statistics import without_statistics
from keras_seqmech.serving import signature
from keras_seqmech.serving.streaming.clock import ENDLESS
from keras_seqmech.serving.streaming.network import streaming_network
from keras_seqmech.serving.streaming.per_step import has_time
from keras_seqmech.typing import Tensor

# What the names of states begin with, in signatures.
PREFIX = "state_"
_POSITION = f"{PREFIX}position"
_LATEST = f"{PREFIX}latest_"
# The position once the sequences have ended.
_ENDED = -1

Tensors = dict[str, Tensor]


class StreamingModel:
    """Runs a model on sequences that come in chunks.

    Every cut of a sequence into chunks gives the same numbers, those of the
    model on the whole sequence up to rounding: recurrent layers carry their
    states from chunk to chunk, and a `ReceptiveFieldRNN` waits for the steps
    that its fields may read. So outputs lie `delay` steps behind the inputs,
    until the end of the sequences is known.

    Outputs with a time axis are returned step by step, as soon as they are
    certain. Others, such as the last state of a recurrent layer and what is
    made of it, are those after the steps that were processed so far.

    All rows of a batch are given the same number of steps and end together;
    rows of different lengths have a mask, from an input or
    `keras.layers.Embedding(mask_zero=True)`. Inputs without a time axis, such
    as the context of a `FocusedHierarchicalEncoder`, are given with each chunk.

    Args:
        model: A functional model or a built `keras.Sequential`, with inputs of
            free length, `keras.Input((None, ...))`. Its layers may be
            recurrent ones of Keras that read forwards,
            `keras.layers.Conv1D(padding="causal")`, `ReceptiveFieldRNN`,
            `FocusedHierarchicalEncoder`, `keras.layers.RNN` with an `RFCell`
            over `ReceptiveFieldWindows`, `LearnedInitialState`, and layers and
            operations of Keras that are known to treat each step alone.
        per_step: Classes of further layers, such as those of your own, that
            treat each step alone. Whether they do is not checked.

    Attributes:
        delay: Steps that outputs are behind the inputs: the sum of
            `max_size - 1` over the fields on the longest path.

    Raises:
        ValueError: If the model has another layer, or no input of free length.
            A subclass is another layer, as its `call` may do more.

    Cost: each step is computed alone, in a loop; the state of a batch is
    that of its layers, with `max_size - 1` inputs of each field.

    Example:

    >>> import keras, numpy as np
    >>> from keras_seqmech import ReceptiveFieldRNN
    >>> x = keras.Input((None, 3), name="x")
    >>> y = ReceptiveFieldRNN(
    ...     keras.layers.GRUCell(4), 3, return_sequences=True, name="y")(x)
    >>> stream = StreamingModel(keras.Model(x, y))
    >>> stream.delay
    2
    >>> state = stream.start(batch_size=1)
    >>> outputs, state = stream.step({"x": np.ones((1, 5, 3))}, state)
    >>> outputs["y"].shape
    TensorShape([1, 3, 4])
    >>> outputs, state = stream.step({"x": np.ones((1, 1, 3))}, state, end=True)
    >>> outputs["y"].shape
    TensorShape([1, 3, 4])
    """

    def __init__(
        self, model: keras.Model, per_step: Sequence[type[keras.Layer]] = ()
    ):
        self.network = streaming_network(model, per_step)
        self.delay = self.network.delay
        self.structure, self.specs = signature.input_specs(model, None)
        self.outputs = self._output_specs(model)
        # The names of the states that each layer carries.
        self._carried = {
            name: {key: f"{PREFIX}{name}_{key}" for key in one_row}
            for name, layer in self.network.layers.items()
            for one_row in [layer.initial_state(1)]
        }
        count = tf.TensorSpec((), "int32", "batch_size")
        self._start = tf.function(self.first_state, input_signature=[count])
        first = self._start.get_concrete_function().structured_outputs
        self.state_specs = {
            name: tf.TensorSpec(x.shape, x.dtype, name)
            for name, x in first.items()
        }
        _check_names([*self.specs, *self.outputs])
        _check_unique(
            [name for own in self._carried.values() for name in own.values()]
            + [
                f"{_LATEST}{k}"
                for k, x in self.outputs.items()
                if not has_time(x)
            ]
        )
        end = tf.TensorSpec((), "bool", "end")
        self._step = tf.function(
            self.read, input_signature=[self.specs, self.state_specs, end]
        )

    def start(self, batch_size: int = 1) -> Tensors:
        """The state before the first chunk, of `batch_size` sequences."""
        batch_size = checks.check_positive_int("batch_size", batch_size)
        return self._start(batch_size)

    def step(
        self, inputs: Any, state: Mapping[str, Tensor], end: bool = False
    ) -> tuple[Tensors, Tensors]:
        """Reads a chunk.

        Args:
            inputs: What the model is called with, or a dict by name of input;
                sequences have the steps of the chunk, any number.
            state: The state that `start` or the step before returned.
            end: Whether the sequences end with the chunk. Then all outputs
                that are left are returned.

        Returns:
            Outputs by name, and the state for the next step.

        Raises:
            ValueError: If `inputs` or `state` do not fit the model.
            tf.errors.InvalidArgumentError: If the sequences have ended, or
                the sizes of inputs and states differ.
        """
        values = signature.named_inputs(
            self.structure, self.specs, inputs, "inputs"
        )
        end = checks.check_bool("end", end)
        return self._step(values, self._check_state(state), end)

    def _check_state(self, state: Any) -> Tensors:
        if not isinstance(state, Mapping) or set(state) != {*self.state_specs}:
            raise ValueError(
                "Argument `state` must be a state of `start` or `step`, with "
                f"the keys {sorted(self.state_specs)}. Received: "
                f"state={reprlib.repr(state)}"
            )
        return {
            name: signature.tensor_like(state[name], spec, "state")
            for name, spec in self.state_specs.items()
        }

    def endpoints(self) -> dict[str, tuple[Callable, Tensors]]:
        """Functions to serve by name, from a dict to a dict, and their specs.

        `start` also returns the `delay`; `step` is given inputs, states and
        `end` in one dict, and returns outputs and states in one.
        """

        def start(request: Tensors) -> Tensors:
            state = self.first_state(request["batch_size"])
            return {**state, "delay": tf.constant(self.delay)}

        def step(request: Tensors) -> Tensors:
            inputs = {name: request[name] for name in self.specs}
            state = {name: request[name] for name in self.state_specs}
            outputs, state = self.read(inputs, state, request["end"])
            return {**outputs, **state}

        count = tf.TensorSpec((), "int32", "batch_size")
        end = tf.TensorSpec((), "bool", "end")
        request = {**self.specs, **self.state_specs, "end": end}
        return {
            "start": (start, {"batch_size": count}),
            "step": (step, request),
        }

    def first_state(self, batch_size: Tensor) -> Tensors:
        """`start`, in a graph."""
        check = tf.debugging.assert_positive(
            batch_size, "`batch_size` must be positive"
        )
        with tf.control_dependencies([check] if check is not None else []):
            batch_size = tf.identity(batch_size)
        states = {_POSITION: tf.zeros((), "int32")}
        for name, layer in self.network.layers.items():
            first = layer.initial_state(batch_size)
            for key, carried in self._carried[name].items():
                states[carried] = tf.convert_to_tensor(first[key])
        for name, x in self.outputs.items():
            if not has_time(x):
                shape = (batch_size, *x.shape[1:])
                states[f"{_LATEST}{name}"] = tf.zeros(shape, x.dtype)
        return states

    def read(
        self, inputs: Tensors, state: Tensors, end: Tensor
    ) -> tuple[Tensors, Tensors]:
        """`step`, in a graph."""
        chunk, state = _checked(_Chunk(self.specs, inputs), state)
        steps = chunk.padded()
        carried = dict(state)
        position = carried.pop(_POSITION)
        after = position + chunk.length
        # At the end, layers that wait are given `delay` steps more, which do
        # not exist.
        count = chunk.length + tf.where(end, self.delay, 0)
        arrays = {
            name: tf.TensorArray(
                x.dtype, count + 1, element_shape=(None, *x.shape[2:])
            )
            for name, x in self.outputs.items()
            if has_time(x)
        }

        def advance(
            i: Tensor, carried: Tensors, arrays: dict[str, tf.TensorArray]
        ) -> tuple:
            self.network.clock.position = position + i
            self.network.clock.length = tf.where(end, after, ENDLESS)
            outputs, carried = self._advance(steps.step(i), carried)
            arrays = {
                name: array.write(i, outputs[name][:, 0])
                for name, array in arrays.items()
            }
            return i + 1, carried, arrays

        _, carried, arrays = tf.while_loop(
            lambda i, *_: i < count,
            advance,
            (0, carried, arrays),
            parallel_iterations=1,
        )
        before_first = tf.minimum(tf.maximum(self.delay - position, 0), count)
        outputs = {
            name: chunk.stack(arrays[name], x.shape[2:])[:, before_first:]
            if name in arrays
            else carried[f"{_LATEST}{name}"]
            for name, x in self.outputs.items()
        }
        carried[_POSITION] = tf.where(end, _ENDED, after)
        return outputs, carried

    def _output_specs(self, model: keras.Model) -> dict[str, tf.TensorSpec]:
        """Shapes that the network declares, dtypes that it returns."""
        for layer in self.network.layers.values():
            layer.state = layer.initial_state(1)
        returned = self._run(
            {
                name: tf.zeros([axis or 1 for axis in spec.shape], spec.dtype)
                for name, spec in self.specs.items()
            }
        )
        declared = signature.named_outputs(model, self.network.model.output)
        return {
            name: tf.TensorSpec(x.shape, y.dtype, name)
            for (name, x), y in zip(declared.items(), returned)
        }

    def _run(self, inputs: Tensors) -> list[Tensor]:
        """The network's outputs, flat, for one step."""
        leaves = [inputs[name] for name in self.specs]
        packed = keras.tree.pack_sequence_as(self.structure, leaves)
        with without_statistics():
            return keras.tree.flatten(
                self.network.model(packed, training=False)
            )

    def _advance(
        self, inputs: Tensors, carried: Tensors
    ) -> tuple[Tensors, Tensors]:
        """One step of the network, and what it leaves for the next."""
        layers = self.network.layers
        for layer, names in self._carried.items():
            layers[layer].state = {
                key: carried[name] for key, name in names.items()
            }
        outputs = dict(zip(self.outputs, self._run(inputs)))
        carried = {
            name: layers[layer].state[key]
            for layer, names in self._carried.items()
            for key, name in names.items()
        }
        for name, x in self.outputs.items():
            if not has_time(x):
                carried[f"{_LATEST}{name}"] = outputs[name]
        return outputs, carried


class _Chunk(NamedTuple):
    """The inputs of a step of a `StreamingModel`.

    Attributes:
        specs: Specs of the inputs by name.
        inputs: The inputs by name.
    """

    specs: dict[str, tf.TensorSpec]
    inputs: Tensors

    @property
    def sequences(self) -> Tensors:
        return {k: x for k, x in self.inputs.items() if has_time(self.specs[k])}

    @property
    def batch_size(self) -> Tensor:
        return tf.shape(next(iter(self.inputs.values())))[0]

    @property
    def length(self) -> Tensor:
        return tf.shape(next(iter(self.sequences.values())))[1]

    def padded(self) -> "_Chunk":
        """The chunk with a step of zeros after the last."""
        inputs = dict(self.inputs)
        for name, x in self.sequences.items():
            rest = self.specs[name].shape[2:]
            nothing = tf.zeros((self.batch_size, 1, *rest), x.dtype)
            inputs[name] = tf.concat([x, nothing], axis=1)
        return _Chunk(self.specs, inputs)

    def step(self, i: Tensor) -> Tensors:
        """The inputs with step i alone; past the end, with the last step."""
        inputs = dict(self.inputs)
        for name, x in self.sequences.items():
            step = tf.gather(x, tf.minimum(i, self.length - 1), axis=1)
            shape = (None, 1, *self.specs[name].shape[2:])
            inputs[name] = tf.ensure_shape(step[:, None], shape)
        return inputs

    def stack(self, array: tf.TensorArray, shape: Sequence[int]) -> Tensor:
        """The steps of an output, batch first; there may be none.

        The array has room for one more, as an empty one cannot be stacked.
        """
        nothing = tf.zeros((self.batch_size, *shape), array.dtype)
        steps = array.write(array.size() - 1, nothing).stack()[:-1]
        axes = range(2, steps.shape.rank)
        return tf.transpose(steps, [1, 0, *axes])


def _checked(chunk: _Chunk, state: Tensors) -> tuple[_Chunk, Tensors]:
    """Returns its arguments; refuses inputs and states that do not match."""
    batched = [x for name, x in state.items() if name != _POSITION]
    batched += chunk.inputs.values()
    assertions = [
        tf.debugging.assert_equal(
            tf.shape(x)[0],
            chunk.batch_size,
            "Inputs and states must be of one batch size",
        )
        for x in batched
    ]
    assertions += [
        tf.debugging.assert_equal(
            tf.shape(x)[1],
            chunk.length,
            "Inputs must have the same number of steps",
        )
        for x in chunk.sequences.values()
    ]
    assertions.append(
        tf.debugging.assert_non_negative(
            state[_POSITION],
            "The sequences have ended; new ones begin with `start`",
        )
    )
    with tf.control_dependencies([x for x in assertions if x is not None]):
        inputs = {k: tf.identity(x) for k, x in chunk.inputs.items()}
        state = {k: tf.identity(x) for k, x in state.items()}
    return chunk._replace(inputs=inputs), state


def _check_unique(names: list[str]) -> None:
    """Refuses names of layers and outputs that lead to one name of states."""
    if len({*names}) < len(names):
        raise ValueError(
            "Argument `model` must have names of layers and outputs that "
            f"lead to different names of states. Received: {sorted(names)}"
        )


def _check_names(names: Iterable[str]) -> None:
    """Refuses names that requests to the signatures need themselves."""
    for name in names:
        if name == "end" or name.startswith(PREFIX):
            raise ValueError(
                "Argument `model` must have inputs and outputs whose names are "
                f"not `end` and do not begin with `{PREFIX}`, to be served "
                f"step by step. Received: name={name!r}"
            )
