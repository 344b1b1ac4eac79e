"""A functional model as a list of calls that is run once for each tick.

`Program` has the calls of a model in order, on its symbolic tensors. A `Run`
makes the same calls on tensors of one step: within a `tf.function`, which any
tick is, so that the list is gone once that is traced.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_seqmech.core import graph
from keras_seqmech.core.decisions.reports import numbered
from keras_seqmech.core.decisions.reports import recording
from keras_seqmech.core.decisions.statistics import without_statistics
from keras_seqmech.core.loop import without_xla
from keras_seqmech.core.stream import ENDLESS
from keras_seqmech.core.stream import State
from keras_seqmech.core.stream import Tick
from keras_seqmech.core.stream import steps_of
from keras_seqmech.core.wrapped import unwrapped
from keras_seqmech.receptive_field.windows import ReceptiveFieldWindows
from keras_seqmech.serving import signature
from keras_seqmech.serving.streaming import refusals
from keras_seqmech.serving.streaming import shifts
from keras_seqmech.serving.streaming.calls import AtInference
from keras_seqmech.serving.streaming.calls import Call
from keras_seqmech.serving.streaming.calls import Passed
from keras_seqmech.serving.streaming.calls import calls_of
from keras_seqmech.serving.streaming.calls import is_symbolic
from keras_seqmech.serving.streaming.calls import mask_of
from keras_seqmech.serving.streaming.calls import step_call
from keras_seqmech.serving.streaming.per_step import has_time
from keras_seqmech.serving.streaming.per_step import treats_steps_alone
from keras_seqmech.serving.streaming.places import Passing
from keras_seqmech.serving.streaming.places import Place
from keras_seqmech.serving.streaming.places import Places
from keras_seqmech.serving.streaming.places import passing_of
from keras_seqmech.serving.streaming.places import spec_of
from keras_seqmech.serving.streaming.places import values_of
from keras_seqmech.serving.streaming.refusals import refusal_of
from keras_seqmech.typing import Tensor


class Program:
    """A functional model that is given one step of its sequences at a time.

    A `Run` is one tick (see `keras_seqmech.core.stream`), from inputs of one
    step and a state to outputs and the next state. Layers that declare a step
    take it; where paths meet, a step waits in a queue until it has passed all
    of them. All other layers must be known to treat each step alone. Functional
    models within the model become part of it.

    Arguments and errors are those of `StreamingModel`.

    Attributes:
        delay: The most steps that outputs lie behind the inputs.
        outputs: Specs of the outputs by the names they are served under; those
            with a time axis, `(None, None, ...)`, have one step in a tick.
    """

    def __init__(
        self,
        model: keras.Model,
        per_step: Sequence[type[keras.Layer]] = (),
        decisions: bool = False,
    ):
        graph.check_functional(model, "model")
        refusals.check_call(model)
        refusals.check_inputs(model)
        refusals.check_classes(per_step)
        self.model = model
        self.per_step = (*per_step, Passed)
        self.shows_decisions = decisions
        self.calls, self.results = calls_of(model, self.per_step)
        shapes = [
            (None, 1, *x.shape[2:]) if has_time(x) else (None, *x.shape[1:])
            for x in model.inputs
        ]
        inputs = [
            tf.TensorSpec(shape, x.dtype)
            for shape, x in zip(shapes, model.inputs)
        ]
        rows = tf.TensorSpec((None,), "bool")
        # A first run shows what states and outputs there are, or refuses.
        # Errors are those of the model, as no code is converted.
        graph_of_run = tf.function(self._run_first, autograph=False)
        graph_of_run.get_concrete_function(inputs, rows, rows)

    def _run_first(
        self, inputs: list[Tensor], present: Tensor, end: Tensor
    ) -> None:
        run = Run(self, inputs, present, end)
        self._first_states = run.places.first_states
        self.delay = run.delay
        self.outputs = {
            name: tf.TensorSpec((None, *x.shape[1:]), x.value.dtype, name)
            for name, x in run.passing.items()
        }

    def first_state(self, batch_size: Tensor) -> State:
        """The state before the first tick."""
        layers = {name: f(batch_size) for name, f in self._first_states.items()}
        return {"passed": tf.zeros((batch_size,), "int32"), "layer": layers}


class Run:
    """One tick of a program.

    Args:
        program: The program.
        inputs: Tensors of one step, flat, in those of the model.
        present: Boolean tensor `(batch,)`: whether they have a step.
        end: Boolean tensor `(batch,)`: whether the sequences end with it, or
            have ended.
        state: The state before the tick; None to begin with the first one.

    Attributes:
        passing: What passes for the outputs of the model, by name.
        outputs: The outputs by name, of one step.
        present: Boolean tensor `(batch,)`: whether they have a step.
        pending: Boolean tensor: whether a further tick may move a step on
            although none arrives.
        state: The state after the tick.
        delay: The most steps that outputs lie behind the inputs.
    """

    def __init__(
        self,
        program: Program,
        inputs: list[Tensor],
        present: Tensor,
        end: Tensor,
        state: State | None = None,
    ):
        self._program = program
        passed = tf.zeros_like(present, "int32")
        if state is not None:
            passed, state = state["passed"], state["layer"]
        self._received = passed + tf.cast(present, "int32")
        length = tf.where(end, self._received, ENDLESS)
        self.places = Places(Place(Tick(present, passed, length)), state)
        # By tensor of the model, masks among them.
        self._passing: dict[keras.KerasTensor, Passing] = {}
        # Names of layers and their decisions, call by call, if wanted.
        self._decided: list[tuple[str, dict[str, Passing]]] = []
        for x, value in zip(program.model.inputs, inputs):
            place = self.places.inputs if has_time(x) else None
            self._passing[x] = Passing(value, x.shape, place)
        with without_statistics(), without_xla():
            for call in program.calls:
                made = self._take(call, *self._given((call.args, call.kwargs)))
                self._remember(call, made)
        self._conclude()

    def _conclude(self) -> None:
        """Aligns the outputs."""
        outputs = self._given(self._program.results)
        _check_given(passing_of(outputs))
        if self._program.shows_decisions and not self._decided:
            raise ValueError(
                "Argument `decisions` must be False for a model that calls no "
                "layers that decide. Received: decisions=True"
            )
        layers = numbered([name for name, _ in self._decided])
        decisions = dict(zip(layers, (found for _, found in self._decided)))
        named = signature.named_outputs(self._program.model, outputs, decisions)
        named = {k: x for k, x in named.items() if not x.refusal}
        end = self.places.meet([*named.values()]) or self.places.inputs
        ends = [end, *(x.place for x in named.values())]
        self.delay = max(p.delay for p in ends if p is not None)
        self.passing = self.places.align(named, end)
        self.outputs = values_of(self.passing)
        self.present = end.tick.present
        pending = functools.reduce(tf.logical_or, self.places.pending)
        self.pending = tf.reduce_any(pending)
        self.state = {
            "passed": self._received,
            "layer": self.places.next_state,
        }

    def _given(self, structure: Any) -> Any:
        """Replaces the tensors of the model in a structure by what passes."""
        return keras.tree.map_structure(
            lambda x: self._passing[x] if is_symbolic(x) else x, structure
        )

    def _remember(self, call: Call, made: list[Passing]) -> None:
        """Keeps what passes for outputs, with the masks of Keras."""
        for x, passing, mask in zip(
            call.outputs, made, call.masks, strict=True
        ):
            if mask is not None and mask not in self._passing:
                value = mask_of(passing.value)
                if value is None:
                    # Layers that are streamed pass on what they are given.
                    raise refusal_of(call.operation, "makes a mask of its own")
                self._passing[mask] = Passing(value, mask.shape, passing.place)
            self._passing[x] = dataclasses.replace(
                passing, mask=self._given(mask)
            )

    def _take(self, call: Call, args: Any, kwargs: Any) -> list[Passing]:
        """Calls an operation, or what is streamed in its place."""
        operation = call.operation
        if _reads_windows(operation):
            args, kwargs = _over_sequence(operation, args, kwargs)
        given = passing_of((args, kwargs))
        ends = shifts.changed_ends(operation, [*args, *kwargs.values()])
        if ends is not None and has_time(given[0]):
            return self._shift(call, ends, given[0])
        _check_given(given)
        dependent = [x for x in given if x.place is not None]
        if not any(map(has_time, given)):
            if any(map(has_time, call.outputs)):
                raise refusal_of(operation, "makes a sequence of a summary")
            place = dependent[0].place if dependent else None
            return self._call(call, place, args, kwargs)
        if not all(map(has_time, dependent)):
            reason = "combines a sequence with a summary of it"
            raise refusal_of(operation, reason)
        return self._take_sequences(call, dependent, args, kwargs)

    def _take_sequences(
        self, call: Call, dependent: list[Passing], args: Any, kwargs: Any
    ) -> list[Passing]:
        """The same for sequences, once they are aligned."""
        operation = call.operation
        is_declared = type(operation) in self._program.per_step
        steps = None if is_declared else steps_of(operation)
        refusals.check_streams(operation, steps)
        if type(operation) is ReceptiveFieldWindows:
            return self._make_windows(call, *args, **kwargs)
        place = self.places.meet(dependent)
        args, kwargs = self.places.align((args, kwargs), place)
        if is_declared or treats_steps_alone(operation, args, kwargs):
            if not all(map(has_time, call.outputs)):
                reason = "does not return a step for each step"
                raise refusal_of(operation, reason)
            return self._call(call, place, args, kwargs)
        if steps is None:
            raise refusal_of(operation, refusals.UNKNOWN)
        return self._take_step(
            operation, steps, call.outputs, place, args, kwargs
        )

    def _call(
        self, call: Call, place: Place | None, args: Any, kwargs: Any
    ) -> list[Passing]:
        """Calls an operation that treats each step alone, at a place."""
        operation = call.operation
        if isinstance(operation, keras.Layer) and operation.supports_masking:
            # Some read the masks of their inputs, such as `Multiply`.
            args, kwargs = keras.tree.map_structure(
                self._with_mask, (args, kwargs)
            )
        args, kwargs = values_of((args, kwargs))
        if "training" in kwargs:
            kwargs["training"] = False
        made, decided = self._recorded(
            operation,
            lambda: AtInference(autocast=False)(
                run=lambda: operation(*args, **kwargs), training=False
            ),
        )
        has_steps = any(map(has_time, call.outputs))
        self._decide(decided, place, {}, has_steps)
        return _passing_for(call.outputs, made, place, {})

    def _with_mask(self, x: Any) -> Any:
        """What passes, its tensor with the mask that Keras passes on."""
        if not isinstance(x, Passing) or x.mask is None:
            return x
        mask = self.places.align(x.mask, x.place)
        given = Passed(autocast=False, dtype=x.value.dtype.name)
        return dataclasses.replace(x, value=given([x.value, mask.value]))

    def _recorded(
        self, operation: Any, call: Callable[[], Any]
    ) -> tuple[Any, list[tuple[str, dict]]]:
        """Results of a call; and decisions by name of layer, if wanted."""
        # An `RFCell` decides in a loop of Keras, which is not recorded.
        if not self._program.shows_decisions or _reads_windows(operation):
            return call(), []
        with recording() as found:
            outputs = call()
        return outputs, [
            (layer.name, decisions)
            for layer, decisions in found
            if found.is_usable(layer)
        ]

    def _decide(
        self,
        decided: list[tuple[str, dict]],
        place: Place | None,
        unread: dict[str, Any],
        has_steps: bool = True,
    ) -> None:
        """Keeps what passes for decisions, some of which are refused."""
        for name, decisions in decided:
            passing = {}
            for key, value in decisions.items():
                shape = value.shape
                if has_steps and len(shape) > 1:
                    shape = (None, None, *shape[2:])
                refusal = unread.get(key)
                passing[key] = Passing(value, shape, place, refusal=refusal)
            self._decided.append((name, passing))

    def _take_step(
        self,
        layer: keras.Layer,
        steps: Any,
        outputs: list[keras.KerasTensor],
        place: Any,
        args: Any,
        kwargs: Any,
    ) -> list[Passing]:
        """Takes the step of a layer that declares one."""
        take = step_call(layer, steps, *values_of((args, kwargs)))
        name, before = self.places.state(layer.name, steps.stream_state)
        tick = place.tick
        stepped, decided = self._recorded(
            layer, lambda: take(name, before, tick)
        )
        refusals.check_state(layer, before, stepped.state)
        self.places.next_state[name] = stepped.state
        if stepped.pending is not None:
            self.places.pending.append(stepped.pending)
        if stepped.leaves is not None:
            length = stepped.length
            place = self.places.counted(
                name,
                [place],
                getattr(steps, "stream_delay", 0),
                tick.length if length is None else length,
                lambda passed: stepped.leaves,
            )
        reason = "returns {!r} that depend on what it has not read"
        unread = {
            key: (layer, reason.format(key))
            for key in getattr(steps, "stream_unread", ())
        }
        self._decide(decided, place, unread)
        return _passing_for(outputs, stepped.outputs, place, unread)

    def _shift(
        self, call: Call, ends: shifts.Ends, sequence: Passing
    ) -> list[Passing]:
        """A sequence that is padded or cut; shifted once it has its length."""
        (outputs,), operation = call.outputs, call.operation
        if sequence.ends is None:
            _check_given([sequence])
        changed = (sequence.ends or shifts.Ends(0, 0)).then(ends)
        if changed is None:
            reason = (
                "pads where steps were cut off, or with another value than "
                "the padding before"
            )
            raise refusal_of(operation, reason)
        value = ops.cast(sequence.value[ends.kept], outputs.dtype)
        place, steps = sequence.place, changed.behind
        if changed.before + steps:
            reason = (
                "changes the number of steps; cut as many as you pad before "
                "anything else reads them, as in "
                "`keras.layers.ZeroPadding1D((0, 2))(x)[:, 1:-1]`"
            )
            refusal = operation, reason
            return [
                Passing(
                    value, outputs.shape, place, ends=changed, refusal=refusal
                )
            ]
        passing = Passing(value, outputs.shape, place)
        if not steps:
            return [passing]
        kind = shifts.ShiftAhead if steps > 0 else shifts.ShiftBehind
        shift = kind(abs(steps), changed.fill, spec_of(value))
        layer = keras.layers.Identity(autocast=False, name="shift")
        return self._take_step(layer, shift, [outputs], place, [passing], {})

    def _make_windows(
        self, call: Call, sequence: Passing, mask: Passing | None = None
    ) -> list[Passing]:
        """What windows are made of, for the cell that reads them."""
        reason = (
            "makes windows that are not read by a `keras.layers.RNN` with an "
            "`RFCell`, under the same mask"
        )
        return [
            Passing(
                None,
                call.outputs[0].shape,
                sequence.place,
                windows_of=(sequence, mask),
                refusal=(call.operation, reason),
            )
        ]


def _passing_for(
    outputs: list[keras.KerasTensor],
    made: Any,
    place: Place | None,
    unread: dict[str, Any],
) -> list[Passing]:
    """What passes for outputs; refused under some keys."""
    passing = []
    values = keras.tree.flatten_with_path(made)
    for x, (path, value) in zip(outputs, values, strict=True):
        refusal = next(filter(None, map(unread.get, path)), None)
        passing.append(Passing(value, x.shape, place, refusal=refusal))
    return passing


def _check_given(given: Sequence[Passing]) -> None:
    """Refuses tensors that are of no use outside the layer they are of."""
    for x in given:
        if x.refusal is not None:
            raise refusal_of(*x.refusal)


def _over_sequence(layer: keras.Layer, args: Any, kwargs: Any) -> Any:
    """Arguments of a cell over windows, with the sequence in their place.

    Sizes are known to the cell alone, so that it is what waits.
    """
    bound = inspect.signature(layer.call).bind(*args, **kwargs).arguments
    name, windows = next(iter(bound.items()))
    if windows.windows_of is None:
        raise refusal_of(layer, "reads windows that the model is given")
    sequence, mask = windows.windows_of
    if bound.get("mask") is mask:
        bound[name] = sequence
    return (), bound


def _reads_windows(operation: Any) -> bool:
    """Returns whether an operation is a `keras.layers.RNN` over windows."""
    rnn = unwrapped(operation)
    cell = getattr(rnn, "cell", None)
    return type(rnn) is keras.layers.RNN and hasattr(cell, "window_size")
