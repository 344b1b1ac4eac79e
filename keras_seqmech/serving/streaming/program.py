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

from keras_seqmech.core import graph
from keras_seqmech.core.decisions.reports import numbered
from keras_seqmech.core.decisions.reports import recording
from keras_seqmech.core.decisions.statistics import without_statistics
from keras_seqmech.core.graph import sublayers
from keras_seqmech.core.loop import without_xla
from keras_seqmech.core.stream import State
from keras_seqmech.core.stream import Stepped
from keras_seqmech.core.stream import Tick
from keras_seqmech.core.stream import steps_of
from keras_seqmech.core.wrapped import unwrapped
from keras_seqmech.receptive_field.windows import ReceptiveFieldWindows
from keras_seqmech.serving import signature
from keras_seqmech.serving.streaming.calls import Call
from keras_seqmech.serving.streaming.calls import Within
from keras_seqmech.serving.streaming.calls import calls_of
from keras_seqmech.serving.streaming.calls import step_call
from keras_seqmech.serving.streaming.keras_masks import Passed
from keras_seqmech.serving.streaming.keras_masks import is_symbolic
from keras_seqmech.serving.streaming.keras_masks import mask_of
from keras_seqmech.serving.streaming.per_step import has_time
from keras_seqmech.serving.streaming.per_step import treats_steps_alone
from keras_seqmech.serving.streaming.places import Passing
from keras_seqmech.serving.streaming.places import Place
from keras_seqmech.serving.streaming.places import Places
from keras_seqmech.serving.streaming.places import passing_of
from keras_seqmech.serving.streaming.places import spec_of
from keras_seqmech.serving.streaming.places import values_of
from keras_seqmech.serving.streaming.refusals import check_call
from keras_seqmech.serving.streaming.refusals import check_classes
from keras_seqmech.serving.streaming.refusals import check_inputs
from keras_seqmech.serving.streaming.refusals import check_state
from keras_seqmech.serving.streaming.refusals import check_streams
from keras_seqmech.serving.streaming.refusals import refusal_of
from keras_seqmech.serving.streaming.shifts import Ends
from keras_seqmech.serving.streaming.shifts import ShiftAhead
from keras_seqmech.serving.streaming.shifts import ShiftBehind
from keras_seqmech.serving.streaming.shifts import Stretch
from keras_seqmech.serving.streaming.shifts import changed_ends
from keras_seqmech.typing import Tensor


class Program:
    """A functional model that is given one step of its sequences at a time.

    A run is one tick (see `keras_seqmech.core.stream`), from inputs of one
    step and a state to outputs and the next state. Layers that declare a step
    take it; where paths meet, a step waits in a queue until it has passed all
    of them. All other layers must be known to treat each step alone. Functional
    models within the model become part of it.

    Args:
        model: A functional model, or a built `keras.Sequential`.
        per_step: Classes of further layers that treat each step alone.
        decisions: Whether to return the decisions of all layers, too.

    Attributes:
        delay: The most steps that outputs lie behind the inputs.
        outputs: Specs of the outputs by the names they are served under; those
            with a time axis, `(None, None, ...)`, have one step in a tick.

    Raises:
        ValueError: If the model has no graph, no input has a free time axis,
            a layer may need more of the sequence than what came before and
            what a field reads ahead, or decisions are wanted and no layer
            decides.
    """

    def __init__(
        self,
        model: keras.Model,
        per_step: Sequence[type[keras.Layer]] = (),
        decisions: bool = False,
    ):
        graph.check_functional(model, "model")
        check_call(model)
        check_inputs(model)
        check_classes(per_step)
        self.model = model
        self.per_step = (*per_step, Passed)
        self.shows_decisions = decisions
        self.calls, self.ends = calls_of(model, self.per_step)
        shapes = [
            (None, 1, *x.shape[2:]) if has_time(x) else (None, *x.shape[1:])
            for x in model.inputs
        ]
        inputs = [
            tf.TensorSpec(shape, x.dtype)
            for shape, x in zip(shapes, model.inputs)
        ]
        rows = [tf.TensorSpec((None,), x) for x in ("bool", "int32", "int32")]
        # A first run shows what states and outputs there are, or refuses.
        # Errors are those of the model, as no code is converted.
        graph_of_run = tf.function(self._run_first, autograph=False)
        graph_of_run.get_concrete_function(inputs, Tick(*rows))

    def _run_first(self, inputs: list[Tensor], tick: Tick) -> None:
        run = Run(self, inputs, tick, None)
        self._first_states = run.places.first_states
        self.delay = run.delay
        self.outputs = {
            name: tf.TensorSpec((None, *x.shape[1:]), x.value.dtype, name)
            for name, x in run.passing.items()
        }

    def first_state(self, batch_size: Tensor) -> State:
        """The state before the first tick."""
        return {name: f(batch_size) for name, f in self._first_states.items()}

    def run(self, inputs: list[Tensor], tick: Tick, state: State) -> "Run":
        """Runs a tick on inputs of one step, flat, in those of the model."""
        return Run(self, inputs, tick, state)


class Run:
    """One tick of a program.

    Args:
        program: The program.
        inputs: Tensors of one step, flat, in those of the model.
        tick: The steps that the inputs have.
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
        tick: Tick,
        state: State | None,
    ):
        self._program = program
        self.places = Places(Place(tick), state)
        # By tensor of the model, masks among them.
        self._passing: dict[keras.KerasTensor, Passing] = {}
        # Names of layers and their decisions, call by call, if wanted.
        self._decided: list[tuple[str, dict[str, Passing]]] = []
        for x, value in zip(program.model.inputs, inputs):
            place = self.places.inputs if has_time(x) else None
            self._remember(x, value, place)
        with without_statistics(), without_xla():
            for call in program.calls:
                self._take(call, *self._given((call.args, call.kwargs)))
                self._pass_masks(call)
        self._end()

    def _end(self) -> None:
        """Aligns the outputs."""
        outputs = self._given(self._program.ends)
        _check_given(passing_of(outputs))
        named = signature.named_outputs(
            self._program.model, outputs, self._decisions()
        )
        named = {k: x for k, x in named.items() if not x.refusal}
        end = self.places.meet([*named.values()]) or self.places.inputs
        ends = [end, *(x.place for x in named.values())]
        self.delay = max(p.delay for p in ends if p is not None)
        self.passing = self.places.align(named, end)
        self.outputs = values_of(self.passing)
        self.present = end.tick.present
        pending = functools.reduce(tf.logical_or, self.places.pending)
        self.pending = tf.reduce_any(pending)
        self.state = self.places.next_state

    def _given(self, structure: Any) -> Any:
        """Replaces the tensors of the model in a structure by what passes."""
        return keras.tree.map_structure(
            lambda x: self._passing[x] if is_symbolic(x) else x, structure
        )

    def _remember(self, x: Any, value: Any, place: Place | None) -> Passing:
        """Keeps what passes for a tensor of the model."""
        self._passing[x] = Passing(value, x.shape, place)
        return self._passing[x]

    def _take(self, call: Call, args: Any, kwargs: Any) -> None:
        """Calls an operation, or what is streamed in its place."""
        operation = call.operation
        is_declared = type(operation) in self._program.per_step
        steps = None if is_declared else steps_of(operation)
        if _reads_windows(operation):
            args, kwargs = _over_sequence(operation, args, kwargs)
        given = passing_of((args, kwargs))
        ends = changed_ends(operation, [*args, *kwargs.values()])
        if ends is not None and has_time(given[0]):
            self._shift(call, ends, given[0])
            return
        _check_given(given)
        dependent = [x for x in given if x.place is not None]
        if not any(map(has_time, given)):
            if any(map(has_time, call.outputs)):
                raise refusal_of(operation, "makes a sequence of a summary")
            place = dependent[0].place if dependent else None
            self._call(call, place, args, kwargs)
            return
        if not all(map(has_time, dependent)):
            reason = "combines a sequence with a summary of it"
            raise refusal_of(operation, reason)
        check_streams(operation, steps)
        if type(operation) is ReceptiveFieldWindows:
            self._make_windows(call, *args, **kwargs)
            return
        place = self.places.meet(dependent)
        args, kwargs = self.places.align((args, kwargs), place)
        if is_declared or treats_steps_alone(operation, args, kwargs):
            if not all(map(has_time, call.outputs)):
                reason = "does not return a step for each step"
                raise refusal_of(operation, reason)
            self._call(call, place, args, kwargs)
            return
        if steps is None:
            reason = (
                "is not known to treat each step alone, as it is called here; "
                "a window is made by padding, then slices, as in "
                "`keras.layers.ZeroPadding1D((0, 2))(x)[:, 2:]`; "
                "classes of your own that do are declared by `per_step`, and "
                "those that carry a state have a `stream_step` of their own, "
                "as far as they have their own `call`"
            )
            raise refusal_of(operation, reason)
        self._take_step(operation, steps, call.outputs, place, args, kwargs)

    def _call(
        self, call: Call, place: Place | None, args: Any, kwargs: Any
    ) -> None:
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
        made, decisions = self._recorded(
            operation,
            lambda: Within()(
                run=lambda: operation(*args, **kwargs), training=False
            ),
        )
        outputs = keras.tree.flatten(made)
        for x, value in zip(call.outputs, outputs, strict=True):
            self._remember(x, value, place)
        has_steps = any(map(has_time, call.outputs))
        self._decide(decisions, place, has_steps)

    def _with_mask(self, x: Any) -> Any:
        """What passes, its tensor with the mask that Keras passes on."""
        if not isinstance(x, Passing) or x.mask is None:
            return x
        mask = self.places.align(x.mask, x.place)
        given = Passed(autocast=False, dtype=x.value.dtype.name)
        return dataclasses.replace(x, value=given([x.value, mask.value]))

    def _pass_masks(self, call: Call) -> None:
        """Gives outputs the masks that Keras passes on with them."""
        for x, mask in zip(call.outputs, call.masks):
            passing = self._passing[x]
            if mask is not None and mask not in self._passing:
                made = mask_of(passing.value)
                if made is None:
                    # Layers that are streamed pass on what they are given.
                    raise refusal_of(call.operation, "makes a mask of its own")
                self._remember(mask, made, passing.place)
            passing.mask = self._given(mask)

    def _recorded(
        self, operation: Any, call: Callable[[], Any]
    ) -> tuple[Any, list[dict]]:
        """Results of a call; and decisions by name of layer, if wanted."""
        if not (self._program.shows_decisions and _may_decide(operation)):
            return call(), []
        with recording() as found:
            outputs = call()
        return outputs, [
            {layer.name: decisions}
            for layer, decisions in found
            if found.is_usable(layer)
        ]

    def _decide(
        self, decisions: list[dict], place: Place | None, has_steps: bool = True
    ) -> list[dict]:
        """Keeps decisions, dicts by the name of the layer that decides."""

        def passing(value: Tensor) -> Passing:
            shape = (None, None, *value.shape[2:])
            return Passing(value, shape if has_steps else value.shape, place)

        kept = keras.tree.map_structure(passing, decisions)
        self._decided += [item for found in kept for item in found.items()]
        return kept

    def _decisions(self) -> dict[str, dict[str, Passing]]:
        """The decisions by layer, as `Recording.by_layer` names them."""
        if self._program.shows_decisions and not self._decided:
            raise ValueError(
                "Argument `decisions` must be False for a model that calls no "
                "layers that decide. Received: decisions=True"
            )
        names = numbered([name for name, _ in self._decided])
        return dict(zip(names, (decisions for _, decisions in self._decided)))

    def _take_step(
        self,
        layer: keras.Layer,
        steps: Any,
        outputs: list[keras.KerasTensor],
        place: Any,
        args: Any,
        kwargs: Any,
    ) -> None:
        """Takes the step of a layer that declares one."""
        take = step_call(layer, steps, *values_of((args, kwargs)))
        name, before = self.places.state(layer.name, steps.stream_state)
        within = Within(layer, f"{name}__step")

        def step() -> Stepped:
            made = within(run=lambda: take(before, place.tick), training=False)
            if not isinstance(made, tuple) or len(made) < 2:
                reason = "has a `stream_step` that returns no state"
                raise refusal_of(layer, reason)
            return Stepped(*made)

        stepped, decisions = self._recorded(layer, step)
        check_state(layer, before, stepped.state)
        self.places.next_state[name] = stepped.state
        if stepped.pending is not None:
            self.places.pending.append(stepped.pending)
        if stepped.leaves is not None:
            length = stepped.length
            place = self.places.counted(
                name,
                [place],
                getattr(steps, "stream_delay", 0),
                place.tick.length if length is None else length,
                lambda passed: stepped.leaves,
            )
        values = keras.tree.flatten_with_path(stepped.outputs)
        returned = [
            (path, self._remember(x, value, place))
            for x, (path, value) in zip(outputs, values, strict=True)
        ]
        kept = self._decide(decisions, place)
        returned += keras.tree.flatten_with_path(kept)
        for key in getattr(steps, "stream_unread", ()):
            reason = f"returns {key!r} that depend on what it has not read"
            for path, x in returned:
                if key in path:
                    x.refusal = (layer, reason)

    def _shift(self, call: Call, ends: Ends, sequence: Passing) -> None:
        """A sequence that is padded or cut; shifted once it has its length."""
        before = sequence.stretch
        if before is None:
            _check_given([sequence])
            before = Stretch(sequence.value)
        outputs, operation = call.outputs[0], call.operation
        stretch = before.changed(ends, outputs.dtype)
        if stretch is None:
            reason = (
                "pads where steps were cut off, or with another value than "
                "the padding before"
            )
            raise refusal_of(operation, reason)
        place, steps = sequence.place, stretch.behind
        passing = self._remember(outputs, stretch.sequence, place)
        if stretch.before + steps:
            reason = (
                "changes the number of steps; cut as many as you pad before "
                "anything else reads them, as in "
                "`keras.layers.ZeroPadding1D((0, 2))(x)[:, 1:-1]`"
            )
            passing.stretch = stretch
            passing.refusal = (operation, reason)
        elif steps:
            kind = ShiftAhead if steps > 0 else ShiftBehind
            shift = kind(abs(steps), stretch.fill, spec_of(stretch.sequence))
            layer = keras.layers.Identity(autocast=False, name="shift")
            self._take_step(layer, shift, [outputs], place, [passing], {})

    def _make_windows(
        self, call: Call, sequence: Passing, mask: Passing | None = None
    ) -> None:
        """Remembers what windows are made of, for the cell that reads them."""
        windows = self._remember(call.outputs[0], None, sequence.place)
        windows.windows_of = (sequence, mask)
        reason = (
            "makes windows that are not read by a `keras.layers.RNN` with an "
            "`RFCell`, under the same mask"
        )
        windows.refusal = (call.operation, reason)


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
    sequence, mask = windows.windows_of or (windows, None)
    if bound.get("mask") is mask:
        bound[name] = sequence
    return (), bound


def _reads_windows(operation: Any) -> bool:
    """Returns whether an operation is a `keras.layers.RNN` over windows."""
    rnn = unwrapped(operation)
    cell = getattr(rnn, "cell", None)
    return type(rnn) is keras.layers.RNN and hasattr(cell, "window_size")


def _may_decide(layer: Any) -> bool:
    """Returns whether a layer, or one within it, is not of Keras."""
    # An `RFCell` decides in a loop of Keras, which is not recorded.
    if not isinstance(layer, keras.Layer) or _reads_windows(layer):
        return False
    modules = {type(part).__module__ for part in sublayers(layer)}
    return any(name.partition(".")[0] != "keras" for name in modules)
