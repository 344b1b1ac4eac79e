"""A model that is given sequences in chunks, as they arrive."""

import reprlib
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_seqmech.core import checks
from keras_seqmech.core.kept_steps import compact
from keras_seqmech.core.kept_steps import longest
from keras_seqmech.core.stream import State
from keras_seqmech.core.stream import choose
from keras_seqmech.serving import signature
from keras_seqmech.serving.streaming.per_step import has_time
from keras_seqmech.serving.streaming.program import Program
from keras_seqmech.serving.streaming.program import Run
from keras_seqmech.typing import Tensor

# What the names of states begin with, in signatures.
_PREFIX = "state"
# The state that counts steps, and its number once the sequences have ended.
_PASSED = f"{_PREFIX}_passed"
_ENDED = -1

Tensors = dict[str, Tensor]


class StreamingModel:
    """Runs a model on sequences that come in chunks.

    Every cut of a sequence into chunks gives the same numbers, those of the
    model on the whole sequence up to rounding. Recurrent layers carry their
    states from chunk to chunk; a step of an adaptive field waits for the
    positions that it chose to read, and for no other. Step t of a field that
    reads $s_t$ positions is returned once step

    $$e_t = \\max(e_{t-1}, t + s_t - 1)$$

    is given, or the sequences end; behind several fields, once all that it
    needs is certain. A position counts as read also where its step turns out to
    be masked, which is not known before.

    Outputs with a time axis are returned as soon as they are certain. Rows of
    a batch advance each at its own pace: `count` says how many steps each row
    has got, and rows with fewer are padded with zeros. Outputs without a time
    axis, such as the last state of a recurrent layer and what is made of it,
    are those after the steps that were processed so far.

    All rows of a batch are given the same number of steps and end together;
    rows of different lengths have a mask, from an input or
    `keras.layers.Embedding(mask_zero=True)`. Inputs without a time axis, such
    as the context of a `FocusedHierarchicalEncoder`, are given with each chunk.

    Args:
        model: A functional model or a built `keras.Sequential`, with inputs of
            free length, `keras.Input((None, ...))`. Its layers may be
            recurrent ones of Keras that read forwards,
            `keras.layers.Conv1D(padding="causal")`, `ReceptiveFieldRNN`,
            `LookAhead`, `FocusedHierarchicalEncoder`, `EarlyPooling`,
            `keras.layers.RNN` with an `RFCell` over `ReceptiveFieldWindows`,
            `LearnedInitialState` and `KeepMask` around recurrent ones, layers
            with a `stream_step` (see ``keras_seqmech.core.stream``), layers and
            operations of Keras that are known to treat each step alone, and
            padding along time followed by cutting as many steps off, which
            shifts a sequence.
        per_step: Classes of further layers, such as those of your own, that
            treat each step alone. Whether they do is not checked.
        decisions: Whether to return the decisions of all layers too, such as
            sizes and gates, under the names of `export_model`. Left out is
            what depends on steps that were not read: probabilities of sizes
            that are decided while reading, attention of an `EarlyPooling`.

    Attributes:
        delay: The most steps that outputs are behind the inputs: the sum of
            `max_size - 1` over the fields on the longest path, and of the
            steps that it is shifted. A limit that a request gives may lessen
            it. What a sequence really waited for: `analysis.emission_delay`.

    Raises:
        ValueError: If the model has another layer, or no input of free length,
            or no layer that decides where decisions are wanted. A subclass is
            another layer, as its `call` may do more.

    Cost: each step is computed alone, in a loop, and so is each step that
    leaves after others that left in the same chunk; the state of a batch is
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
    >>> early = int(outputs["count"][0])
    >>> early >= 3  # 2 steps wait at most
    True
    >>> outputs, state = stream.step({"x": np.ones((1, 1, 3))}, state, end=True)
    >>> early + int(outputs["count"][0])
    6
    """

    def __init__(
        self,
        model: keras.Model,
        per_step: Sequence[type[keras.Layer]] = (),
        decisions: bool = False,
    ):
        decisions = checks.check_bool("decisions", decisions)
        self.program = Program(model, per_step, decisions)
        self.delay = self.program.delay
        self.specs = signature.input_specs(model)
        self.outputs = self.program.outputs
        for name in (*self.specs, *self.outputs):
            if name in ("end", "count") or name.startswith(f"{_PREFIX}_"):
                raise ValueError(
                    "Argument `model` must have inputs and outputs whose names "
                    "are not `end` or `count` and do not begin with "
                    f"`{_PREFIX}_`, to be served step by step; a `keras.Model` "
                    "of the same tensors gives them others: `keras.Model("
                    "model.input, {'tags': model.output})`. "
                    f"Received: name={name!r}"
                )
        self._first = self.program.first_state(1)
        self.state_specs = {
            name: tf.TensorSpec((None, *x.shape[1:]), x.dtype, name)
            for name, x in named_states(self._first).items()
        }
        # `step` as a graph, and the model's variables that it reads.
        self._graph: Any = None
        self._variables: list[keras.Variable] = []

    def start(self, batch_size: int = 1) -> Tensors:
        """The state before the first chunk, of `batch_size` sequences."""
        batch_size = checks.check_positive_int("batch_size", batch_size)
        return named_states(self.program.first_state(batch_size))

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
            Outputs by name, with `count`, int32 `(batch,)`, if one of them has
            a time axis; and the state for the next step.

        Raises:
            ValueError: If `inputs` or `state` do not fit the model, or hold
                numbers that its dtypes cannot; if the sequences have ended,
                or the sizes of inputs and states differ.
        """
        values = signature.named_inputs(
            self.program.model, self.specs, inputs, "inputs"
        )
        states = self._check_state(state)
        self._check_sizes(values, states)
        end = tf.constant(checks.check_bool("end", end))
        answer = self._step()({**values, **states, "end": end})
        state = {name: answer.pop(name) for name in self.state_specs}
        return answer, state

    def _step(self) -> Callable:
        """`step` as a graph; `quantize` and `enable_lora` replace weights."""
        variables = self.program.model.variables
        is_same = [*map(id, variables)] == [*map(id, self._variables)]
        if self._graph is None or not is_same:
            function, specs = self.endpoints()["step"]
            self._graph = tf.function(function, input_signature=[specs])
            self._variables = variables
        return self._graph

    def _check_sizes(self, inputs: Tensors, states: Tensors) -> None:
        """Refuses what `_checked` would, before the graph runs."""
        if np.any(states[_PASSED] < 0):
            raise ValueError(
                "Argument `state` must be of sequences that go on; new ones "
                "begin with `start`. Received: the state after their end"
            )
        shapes = {name: tuple(x.shape) for name, x in inputs.items()}
        steps = {shapes[k][1] for k, x in self.specs.items() if has_time(x)}
        rows = {shape[0] for shape in shapes.values()}
        rows |= {x.shape[0] for x in states.values()}
        if len(rows) > 1 or len(steps) > 1:
            raise ValueError(
                "Arguments `inputs` and `state` must be of one batch size, and "
                "sequences have the same number of steps. Received: inputs of "
                f"shapes {shapes}, a batch size or more of {sorted(rows)}"
            )

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

    def endpoints(self) -> dict[str, tuple[Callable, dict[str, tf.TensorSpec]]]:
        """Functions to serve by name, from a dict to a dict, and their specs.

        `start` returns states and the `delay`; `step` is given inputs, states
        and `end`, and returns outputs, `count` and states.
        """

        def start(request: Tensors) -> Tensors:
            count = request["batch_size"]
            message = "`batch_size` must be positive"
            positive = tf.debugging.assert_positive(count, message)
            with tf.control_dependencies([positive]):
                state = self.program.first_state(tf.identity(count))
            return {**named_states(state), "delay": tf.constant(self.delay)}

        count = tf.TensorSpec((), "int32", "batch_size")
        end = tf.TensorSpec((), "bool", "end")
        request = {**self.specs, **self.state_specs, "end": end}
        return {
            "start": (start, {"batch_size": count}),
            "step": (self._read, request),
        }

    def _read(self, request: Tensors) -> Tensors:
        """Reads a chunk: the signature `step`."""
        request = self._checked(request)
        end = request["end"]
        values = [request[name] for name in self.state_specs]
        state = keras.tree.pack_sequence_as(self._first, values)
        inputs = {name: request[name] for name in self.specs}
        sequences = {k: x for k, x in inputs.items() if has_time(self.specs[k])}
        batch_size, length = tf.unstack(
            tf.shape(next(iter(sequences.values())))[:2]
        )
        # One more step, for ticks without new input.
        for name, x in sequences.items():
            none = tf.zeros((batch_size, 1, *x.shape[2:]), x.dtype)
            sequences[name] = tf.concat([x, none], axis=1)
        made = {
            name: _array(x.dtype, x.shape[2:])
            for name, x in self.outputs.items()
            if has_time(x)
        }
        latest = {
            name: tf.zeros((batch_size, *x.shape[1:]), x.dtype)
            for name, x in self.outputs.items()
            if not has_time(x)
        }
        # Whether rows have a step.
        made["count"] = _array(tf.bool)

        def run_tick(
            i: Tensor,
            pending: Tensor,
            state: State,
            latest: Tensors,
            made: dict[str, tf.TensorArray],
        ) -> tuple:
            at = tf.minimum(i, length)
            present = tf.fill([batch_size], i < length)
            ends = tf.fill([batch_size], end & (i >= length - 1))
            step = {
                name: tf.ensure_shape(
                    x[:, at : at + 1], (None, 1, *x.shape[2:])
                )
                for name, x in sequences.items()
            }
            given = {**inputs, **step}
            leaves = [given[name] for name in self.specs]
            ticked = Run(self.program, leaves, present, ends, state)
            latest = {name: ticked.outputs[name] for name in latest}
            outputs = {**ticked.outputs, "count": ticked.present[:, None]}
            made = {
                name: array.write(i, outputs[name][:, 0])
                for name, array in made.items()
            }
            return i + 1, ticked.pending, ticked.state, latest, made

        # A first tick even if no step arrives, for what has no time axis.
        *_, state, outputs, made = tf.while_loop(
            lambda i, pending, *_: (i < length) | pending,
            run_tick,
            (0, True, state, latest, made),
            parallel_iterations=1,
        )
        # Rows have got steps in different ticks.
        present = tf.transpose(made.pop("count").stack())
        if made:
            outputs["count"] = tf.reduce_sum(tf.cast(present, "int32"), axis=1)
            kept = compact(present, longest(present))
        for name, array in made.items():
            steps = array.stack()
            axes = range(2, steps.shape.rank)
            steps = tf.transpose(steps, [1, 0, *axes])
            steps = tf.gather(steps, kept.indices, batch_dims=1)
            # `kept.gather` takes no strings.
            outputs[name] = choose(kept.mask, steps, tf.zeros_like(steps))
        state["passed"] = tf.where(end, _ENDED, state["passed"])
        return {**outputs, **named_states(state)}

    def _checked(self, request: Tensors) -> Tensors:
        """Refuses inputs and states that do not match."""
        sequences = [x for x in self.specs.values() if has_time(x)]
        first = tf.shape(request[sequences[0].name])
        ended = "The sequences have ended; new ones begin with `start`"
        assertions = [tf.debugging.assert_non_negative(request[_PASSED], ended)]
        for x in request.values():
            if x.shape.rank:
                message = "Inputs and states must be of one batch size"
                assertions.append(
                    tf.debugging.assert_equal(tf.shape(x)[0], first[0], message)
                )
        for spec in sequences:
            length = tf.shape(request[spec.name])[1]
            message = "Inputs must have the same number of steps"
            assertions.append(
                tf.debugging.assert_equal(length, first[1], message)
            )
        with tf.control_dependencies(assertions):
            return {name: tf.identity(x) for name, x in request.items()}


def _array(dtype: Any, shape: Sequence[int] = ()) -> tf.TensorArray:
    """An array of steps of a batch."""
    return tf.TensorArray(
        dtype, 0, dynamic_size=True, element_shape=(None, *shape)
    )


def named_states(state: State) -> Tensors:
    """States by the names they are served under."""
    leaves = keras.tree.flatten(state)
    names = signature.leaf_names({_PREFIX: state}, [""] * len(leaves))
    return dict(zip(names, leaves))
