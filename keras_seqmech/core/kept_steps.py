"""Layouts of the steps of a batch, padded, compacted, packed, and their loops.

`keep`, boolean `(batch, time)` of any pattern, is True at the steps that a row
really does: a mask, open gates, emitted steps. Two layouts hold these alone,
without the others between them:

- a `Compaction`, `(batch, K, ...)`: each row's kept steps moved to its front,
  zeros past its last;
- a `Packing`, `(total, ...)`, without gaps: step by step, first the first kept
  step of every row, then the second of every row that has two, and so on;
  within a step the rows are in order of their number of kept steps, the
  shortest first. So the rows of a step are one slice, and rows active in the
  next step are a suffix of that slice. Its size depends on values, which XLA
  does not allow.

>>> keep = tf.constant([[True, True, True], [False, True, False]])
>>> steps = tf.constant([[1, 2, 3], [4, 5, 6]])
>>> compact(keep).gather(steps).numpy().tolist()
[[1, 2, 3], [5, 0, 0]]
>>> pack(keep).gather(steps).numpy().tolist()
[5, 1, 2, 3]

Both have the same methods. `gather` takes the kept steps of a sequence `(batch,
time, ...)`. Back to such sequences lead `scatter`, with zeros at the other
steps; `hold`, where these repeat the last kept one, and those before the first
have the `initial` value `(batch, ...)` of their row; and `final`, the last step
of `hold` without the others.

A recurrent layer gathers its inputs first, so that everything before the loop
(products with the inputs above all) is computed at kept steps alone. The loop
`core.loop.scan` runs over any `layout_of` the kept steps; a `Padded` one has
all steps, or those of a compaction, time first. What it runs is the `loop` of
the layout: padded, all rows do all steps; packed, each row its own alone.

    layout = layout_of(mask, packs=can_pack(options))
    inputs = project(layout.gather(sequence), kernel, bias, 4)
    outputs, states = scan(
        step, Product(weight, inputs), states, specs, options, layout
    )
    hidden = layout.hold(outputs["hidden"], initial=states[0])

docs/packed_loops.md says where that saves time, and where it cannot be done.
"""

import contextlib
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any
from typing import NamedTuple
from typing import TypeAlias

import keras
import tensorflow as tf

from keras_seqmech._keras_compat import custom_gradient
from keras_seqmech._keras_compat import in_xla
from keras_seqmech.core import masks
from keras_seqmech.typing import Size
from keras_seqmech.typing import Tensor

States: TypeAlias = tuple[Tensor, ...]
# What a loop calls at each step: a function of inputs and states.
Body: TypeAlias = Callable[[Any, States], tuple[Any, States]]
Specs: TypeAlias = Iterable[tf.TensorSpec]
Buffers: TypeAlias = list[tf.TensorArray]


class Compaction(NamedTuple):
    """Places of kept steps at the front of their rows; see `compact`.

    Attributes:
        keep: Boolean `(batch, time)`: the kept steps.
        last: Int32 `(batch, time)`: the place of the last kept step up to each
            step and with it; -1 before the first.
        indices: Int32 `(batch, K)`: the kept steps, ascending, 0 past a row's
            last.
        mask: Boolean `(batch, K)`: the places that hold a step.
    """

    keep: Tensor
    last: Tensor
    indices: Tensor
    mask: Tensor

    def gather(self, sequence: Tensor) -> Tensor:
        """Takes the kept steps `(batch, K, ...)` of `(batch, time, ...)`."""
        return _linear(self._take, self._put, sequence)

    def scatter(self, values: Tensor) -> Tensor:
        """Puts values back at their steps, zeros at the others."""
        return _linear(self._put, self._take, values)

    def hold(self, values: Tensor, initial: Tensor) -> Tensor:
        """Puts values back; the other steps repeat the last kept one.

        K is at least the most steps any row keeps.
        """
        every = tf.concat([initial[:, None], values], axis=1)
        return tf.gather(every, self.last + 1, batch_dims=1)

    def final(self, values: Tensor, initial: Tensor) -> Tensor:
        """The last step of `hold`, without the others: `(batch, units)`."""
        last = self.last[:, -1:]
        at_end = tf.gather(values, tf.maximum(last, 0), batch_dims=1)
        return tf.where(last < 0, initial, at_end[:, 0])

    def _take(self, sequence: Tensor) -> Tensor:
        values = tf.gather(sequence, self.indices, batch_dims=1)
        return masks.zero_masked(values, self.mask)

    def _put(self, values: Tensor) -> Tensor:
        end = tf.shape(self.indices)[1] - 1
        places = tf.clip_by_value(self.last, 0, end)
        values = tf.gather(values, places, batch_dims=1)
        return masks.zero_masked(values, self.keep & (self.last <= end))


def compact(keep: Tensor, length: Size | None = None) -> Compaction:
    """Finds the kept steps of each row, K = `length` of them at most.

    By default K is the most steps any row keeps, at least 1; compiled with XLA,
    which sets the size of arrays beforehand, the number of steps.
    """
    batch_size, time = tf.unstack(tf.shape(keep))
    if length is None:
        length = time if in_xla() else tf.maximum(longest(keep), 1)
    count = running_count(keep)
    # Steps that are not kept go to one additional place, which is cut off.
    place = tf.where(keep & (count <= length), count - 1, length)
    place += tf.range(batch_size)[:, None] * (length + 1)
    steps = tf.broadcast_to(tf.range(time), (batch_size, time))
    indices = tf.math.unsorted_segment_sum(
        tf.reshape(steps, [-1]),
        tf.reshape(place, [-1]),
        batch_size * (length + 1),
    )
    indices = tf.reshape(indices, (batch_size, length + 1))[:, :-1]
    mask = tf.range(length) < count[:, -1:]
    return Compaction(keep, count - 1, indices, mask)


class Padded(NamedTuple):
    """Steps for a loop, time first: all of them, or those of a `Compaction`.

    It has the methods of a `Packing`, of values `(K, batch, ...)`, K the number
    of steps of the batch or of the compaction. The loop keeps the states of
    rows that do not have a step.

    Attributes:
        keep: Boolean `(batch, time)`: the kept steps; None: all.
        kept: Where they lie if the others are left out; None: where they were.
    """

    keep: Tensor | None = None
    kept: Compaction | None = None

    @property
    def mask(self) -> Tensor | None:
        """Boolean `(K, batch)`: whether a row has the step; None: all have."""
        if self.keep is None:
            return None
        return tf.transpose(self.keep if self.kept is None else self.kept.mask)

    @property
    def steps(self) -> Tensor | None:
        """Number of steps that the loop runs, scalar int32; None: all K.

        Compiled with XLA, K is static, but a loop over it may end early.
        """
        ends_early = self.kept is not None and in_xla()
        return longest(self.keep) if ends_early else None

    def gather(self, sequence: Tensor) -> Tensor:
        if self.kept is not None:
            return _time_first(self.kept.gather(sequence))
        return _time_first(masks.zero_masked(sequence, self.keep))

    def scatter(self, values: Tensor) -> Tensor:
        values = _time_first(values)
        if self.kept is not None:
            return self.kept.scatter(values)
        return masks.zero_masked(values, self.keep)

    def hold(self, values: Tensor, initial: Tensor) -> Tensor:
        values = _time_first(values)
        if self.keep is None:
            return values
        return self._held().hold(values, initial)

    def final(self, values: Tensor, initial: Tensor) -> Tensor:
        if self.keep is None:
            return values[-1]
        return self._held().final(_time_first(values), initial)

    def loop(self, differentiable: bool) -> "PaddedLoop":
        return PaddedLoop(self.steps, differentiable)

    def spec(self, steps: Tensor, width: int, dtype: str) -> tf.TensorSpec:
        return tf.TensorSpec((steps.shape[1], width), dtype)

    def _held(self) -> Compaction:
        if self.kept is not None:
            return self.kept
        # The place of a step is its time here.
        found = compact(self.keep, tf.shape(self.keep)[1])
        places = tf.maximum(found.last, 0)
        times = tf.gather(found.indices, places, batch_dims=1)
        return found._replace(last=tf.where(found.last < 0, -1, times))


class Packing(NamedTuple):
    """Places of packed steps; see `pack`.

    Attributes:
        keep: Boolean `(batch, time)`: the kept steps.
        last: `(batch, time)`: the packed element of the last kept step up to
            each step and with it; -1 before the first.
        order: `(batch,)`: the rows, by length, the shortest first.
        ranks: `(batch,)`: the place of each row in `order`.
        counts: `(longest,)`: how many rows have a first, second, ... kept
            step.
        offsets: `(longest,)`: where these begin among the packed elements.
        rows: `(total,)`: the row of each packed element.
        times: `(total,)`: its step in time.
    """

    keep: Tensor
    last: Tensor
    order: Tensor
    ranks: Tensor
    counts: Tensor
    offsets: Tensor
    rows: Tensor
    times: Tensor

    def gather(self, sequence: Tensor) -> Tensor:
        """Takes the kept steps `(total, ...)` of `(batch, time, ...)`."""
        return _linear(self._take, self._put, sequence)

    def scatter(self, values: Tensor) -> Tensor:
        """Puts values back at their steps, zeros at the others."""
        return _linear(self._put, self._take, values)

    def hold(self, values: Tensor, initial: Tensor) -> Tensor:
        """Puts values back; the other steps repeat the last kept one."""
        batch_size = tf.shape(self.keep)[0]
        own = tf.range(batch_size)[:, None]
        places = tf.where(self.last < 0, own, batch_size + self.last)

        @custom_gradient
        def put(values: Tensor, initial: Tensor) -> tuple[Tensor, Callable]:
            def gradient(upstream: Tensor) -> tuple[Tensor, Tensor]:
                size = batch_size + tf.shape(self.rows)[0]
                total = tf.math.unsorted_segment_sum(upstream, places, size)
                return total[batch_size:], total[:batch_size]

            every = tf.concat([initial, values], axis=0)
            return tf.gather(every, places), gradient

        return put(tf.convert_to_tensor(values), tf.convert_to_tensor(initial))

    def final(self, values: Tensor, initial: Tensor) -> Tensor:
        """The last step of `hold`, without the others: `(batch, ...)`."""
        at_end = self._replace(last=self.last[:, -1:])
        return tf.squeeze(at_end.hold(values, initial), axis=1)

    def spec(self, steps: Tensor, width: int, dtype: str) -> tf.TensorSpec:
        """Shape and dtype of what a loop returns of one step.

        `steps` are what it runs over, gathered.
        """
        return tf.TensorSpec((None, width), dtype)

    def loop(self, differentiable: bool) -> "PackedLoop":
        """The loop over these steps; see `PaddedLoop`."""
        return PackedLoop(self, differentiable)

    def sort(self, rows: Tensor) -> Tensor:
        """Brings a tensor `(batch, ...)` into the order of lengths."""
        return taken_once(rows, self.order, self.ranks)

    def unsort(self, rows: Tensor) -> Tensor:
        """Brings a tensor `(batch, ...)` back from the order of lengths."""
        return taken_once(rows, self.ranks, self.order)

    def _take(self, sequence: Tensor) -> Tensor:
        batch_size, length = tf.unstack(tf.shape(self.keep))
        features = tf.shape(sequence)[2:]
        shape = tf.concat([[batch_size * length], features], axis=0)
        indices = self.rows * length + self.times
        values = tf.gather(tf.reshape(sequence, shape), indices)
        return tf.ensure_shape(values, [None, *sequence.shape[2:]])

    def _put(self, values: Tensor) -> Tensor:
        return entries(values, tf.where(self.keep, self.last, -1))


@contextlib.contextmanager
def not_clustered() -> Iterator[None]:
    """Within it, operations are left out of XLA's auto-clustering.

    For values that become sizes: XLA fails where it compiles a size together
    with what it depends on.
    """
    if tf.executing_eagerly():
        yield
        return
    with tf.xla.experimental.jit_scope(compile_ops=False):
        yield


@not_clustered()
def pack(keep: Tensor) -> Packing:
    """Finds where the kept steps of a batch lie when they are packed."""
    keep = tf.convert_to_tensor(keep)
    batch_size = tf.shape(keep)[0]
    numbers = running_count(keep) - 1
    lengths = _lengths(keep)
    order = tf.argsort(lengths, stable=True)
    ranks = tf.math.invert_permutation(order)
    shorter = tf.searchsorted(
        tf.gather(lengths, order), tf.range(longest(keep)), side="right"
    )
    counts = batch_size - shorter
    offsets = tf.cumsum(counts, exclusive=True)
    # Ranks count from the shortest row, elements of a step from the shortest
    # row that has it. One more entry serves batches that keep no step at all.
    starts = tf.concat([offsets - shorter, [0]], axis=0)
    places = tf.gather(starts, tf.maximum(numbers, 0)) + ranks[:, None]
    rows, times = tf.unstack(tf.cast(tf.where(keep), "int32"), axis=1)
    elements = tf.math.invert_permutation(tf.boolean_mask(places, keep))
    return Packing(
        keep,
        tf.where(numbers < 0, -1, places),
        order,
        ranks,
        counts,
        offsets,
        tf.gather(rows, elements),
        tf.gather(times, elements),
    )


Layout: TypeAlias = Padded | Packing


def layout_of(keep: Tensor | None, packs: bool, skips: bool = False) -> Layout:
    """The layout in which a loop runs over kept steps, all if None.

    Args:
        keep: Boolean `(batch, time)`: the kept steps.
        packs: Whether the loop can run packed where it is called.
        skips: Whether the others are left out of padded loops, too, which
            pays where few are kept.
    """
    if keep is None:
        return Padded()
    if packs:
        return pack(keep)
    return Padded(keep, compact(keep) if skips else None)


def running_count(keep: Tensor) -> Tensor:
    """Number of steps kept up to each step and with it, int32."""
    return tf.cumsum(tf.cast(keep, "int32"), axis=1)


@not_clustered()
def longest(keep: Tensor) -> Tensor:
    """The most steps any row keeps, an int32 scalar; 0 for an empty batch."""
    return tf.maximum(tf.reduce_max(_lengths(keep)), 0)


def entries(values: Tensor, places: Tensor) -> Tensor:
    """The entries of a tensor at places; zeros at places below 0."""
    others = [[0, 0]] * (values.shape.rank - 1)
    return tf.gather(tf.pad(values, [[1, 0], *others]), places + 1)


def taken_once(values: Tensor, places: Tensor, takers: Tensor) -> Tensor:
    """The entries of a tensor at places, each of them taken once at most.

    `takers` says by which of the results, -1 by none.
    """
    return _linear(
        lambda x: tf.gather(x, places), lambda x: entries(x, takers), values
    )


def _time_first(values: Tensor) -> Tensor:
    """Exchanges the axes of batch and time."""
    return tf.transpose(values, [1, 0, *range(2, values.shape.rank)])


def _lengths(keep: Tensor) -> Tensor:
    return tf.reduce_sum(tf.cast(keep, "int32"), axis=1)


def _linear(
    function: Callable[[Tensor], Tensor],
    transposed: Callable[[Tensor], Tensor],
    values: Tensor,
) -> Tensor:
    """A linear function whose gradient is the transposed function.

    Where each step is taken once at most, that is a gather, too: cheaper than
    TensorFlow's gradient, which adds up by index.
    """

    @custom_gradient
    def call(values: Tensor) -> tuple[Tensor, Callable]:
        def gradient(upstream: Tensor) -> Tensor:
            return _linear(transposed, function, upstream)

        return function(values), gradient

    return call(tf.convert_to_tensor(values))


class PaddedLoop:
    """Runs a body over the leading axis of its inputs, and stacks its values.

    Args:
        steps: How many steps to run, a scalar int32 tensor for loops whose
            sizes are static and which may end early; all if None.
        differentiable: Whether TensorFlow will differentiate the loop. If not,
            steps are read as slices, which copies nothing; the gradient of
            slices in a loop takes time and memory square in the steps. A loop
            that may end early reads arrays too: compiled with XLA, slices can
            make it several times slower.
    """

    def __init__(self, steps: Tensor | None, differentiable: bool):
        self._steps = steps
        self._differentiable = differentiable

    def run(
        self,
        body: Body,
        inputs: Any,
        states: States,
        specs: Any,
        reverse: bool = False,
    ) -> tuple[Any, States]:
        """Runs `body(inputs_t, states) -> (values, states)` over all steps.

        Inputs are a nest of tensors `(time, ...)`, `specs` one of the shapes
        and dtypes of the values of a step. With `reverse` the last step is the
        first. The values `(time, ...)` are in the order of time.
        """
        first = keras.tree.flatten(inputs)[0]
        size = first.shape[0]
        if size is None:
            size = tf.shape(first)[0]
        steps = size if self._steps is None else self._steps
        read = self._reader(inputs, size)
        buffers = [
            tf.TensorArray(spec.dtype, size, element_shape=spec.shape)
            for spec in keras.tree.flatten(specs)
        ]

        def advance(i: Tensor, states: States, buffers: list) -> tuple:
            t = steps - 1 - i if reverse else i
            values, states = body(read(t), states)
            keras.tree.assert_same_structure(values, specs)
            buffers = [
                buffer.write(t, value)
                for buffer, value in zip(buffers, keras.tree.flatten(values))
            ]
            return i + 1, states, buffers

        _, states, buffers = tf.while_loop(
            lambda i, *_: i < steps,
            advance,
            (tf.constant(0), states, buffers),
            maximum_iterations=size,
        )
        values = [buffer.stack() for buffer in buffers]
        return keras.tree.pack_sequence_as(specs, values), states

    def _reader(self, inputs: Any, size: int | Tensor) -> Callable[[Any], Any]:
        """A function of a step that returns its part of the inputs."""
        if not self._differentiable and self._steps is None:
            return lambda t: _at(inputs, t)
        arrays = [
            tf.TensorArray(x.dtype, size, element_shape=x.shape[1:]).unstack(x)
            for x in keras.tree.flatten(inputs)
        ]
        return lambda t: keras.tree.pack_sequence_as(
            inputs, [array.read(t) for array in arrays]
        )

    def spec(self, tensor: Tensor) -> tf.TensorSpec:
        """Shape and dtype of one step of a tensor `(time, ...)`."""
        return tf.TensorSpec(tensor.shape[1:], tensor.dtype)


def _at(inputs: Any, t: int | Tensor) -> Any:
    """One step of a nest of tensors `(time, ...)`."""
    # As `x[t]`, with the index computed once for all tensors.
    begin = tf.reshape(t, [1])
    end = begin + 1
    return keras.tree.map_structure(
        lambda x: tf.strided_slice(x, begin, end, [1], shrink_axis_mask=1),
        inputs,
    )


class _Place(NamedTuple):
    """Place of a step; each an int32 vector of one entry."""

    # Its first packed element, and the first after it.
    begin: Tensor
    end: Tensor
    # First active row of this step, and of the next one.
    first: Tensor
    going_on: Tensor


class PackedLoop:
    """Like `PaddedLoop`, over packed inputs; it packs its values."""

    def __init__(self, packing: Packing, differentiable: bool):
        self._packing = packing
        self._differentiable = differentiable
        counts, offsets = packing.counts, packing.offsets
        batch_size = tf.shape(packing.order)[0]
        self._steps = tf.shape(counts)[0]
        self._firsts = batch_size - tf.concat([counts, [0]], axis=0)
        self._places = tf.stack(
            [offsets, offsets + counts, self._firsts[:-1], self._firsts[1:]],
            axis=1,
        )

    def run(
        self,
        body: Body,
        inputs: Any,
        states: States,
        specs: Any,
        reverse: bool = False,
    ) -> tuple[Any, States]:
        """As `PaddedLoop.run`; the body gets tensors `(rows of the step, ...)`.

        The states `(batch, ...)` are those before each row's first and after
        its last call; of rows without a step those given.
        """
        if tf.executing_eagerly() and self._steps == 0:
            # Eager lists of no tensors cannot be joined.
            return keras.tree.map_structure(_nothing, specs), states
        read = self._reader(inputs)

        def run_step(t: Tensor, place: _Place, states: States) -> tuple:
            values, states = body(read(t, place), states)
            keras.tree.assert_same_structure(values, specs)
            return keras.tree.flatten(values), states

        states = tuple(self._packing.sort(state) for state in states)
        run = self._run_backwards if reverse else self._run_forwards
        values, rows = run(run_step, states, keras.tree.flatten(specs))
        results = tuple(map(self._complete, rows, states))
        return keras.tree.pack_sequence_as(specs, values), results

    def spec(self, tensor: Tensor) -> tf.TensorSpec:
        """Shape and dtype of one step of a packed tensor or of a state."""
        return tf.TensorSpec([None, *tensor.shape[1:]], tensor.dtype)

    def _run_forwards(
        self, run_step: Callable, states: States, specs: Specs
    ) -> tuple[list[Tensor], Iterable[Tensor]]:
        """Each row runs to its own last step."""

        def advance(
            t: Tensor, live: States, ended: Buffers, values: Buffers
        ) -> tuple:
            place = self._place(t)
            results, live = run_step(t, place, live)
            ending = place.going_on - place.first
            ended = _write(ended, t, [_slice(x, [0], ending) for x in live])
            live = tuple(_slice(x, ending) for x in live)
            return t + 1, live, ended, _write(values, t, results)

        _, _, ended, values = self._loop(
            advance,
            tuple(_slice(state, self._firsts[:1]) for state in states),
            self._buffers(map(self.spec, states)),
            self._buffers(specs),
        )
        return [x.concat() for x in values], [x.concat() for x in ended]

    def _run_backwards(
        self, run_step: Callable, states: States, specs: Specs
    ) -> tuple[list[Tensor], Iterable[Tensor]]:
        """Rows enter the loop where they end."""

        def advance(i: Tensor, live: States, values: Buffers) -> tuple:
            t = self._steps - 1 - i
            place = self._place(t)
            live = tuple(
                tf.concat([_slice(x, place.first, place.going_on), rows], 0)
                for x, rows in zip(states, live)
            )
            results, live = run_step(t, place, live)
            return i + 1, live, _write(values, t, results)

        _, live, values = self._loop(
            advance,
            tuple(state[:0] for state in states),
            self._buffers(specs),
        )
        return [x.concat() for x in values], live

    def _complete(self, rows: Tensor, states: Tensor) -> Tensor:
        """All rows in their order, from those that have a step."""
        idle = _slice(states, [0], self._firsts[:1])
        rows = tf.concat([idle, rows], axis=0)
        return self._packing.unsort(tf.ensure_shape(rows, states.shape))

    def _loop(
        self, advance: Callable, live: States, *buffers: Buffers
    ) -> tuple:
        invariants = (
            tf.TensorShape([]),
            tuple(self.spec(state).shape for state in live),
            *[[tf.TensorShape(None) for _ in b] for b in buffers],
        )
        return tf.while_loop(
            lambda i, *_: i < self._steps,
            advance,
            (tf.constant(0), live, *buffers),
            shape_invariants=invariants,
        )

    def _place(self, t: Tensor) -> _Place:
        return _Place(*tf.split(tf.gather(self._places, t), 4))

    def _reader(self, inputs: Any) -> Callable[[Tensor, _Place], Any]:
        """A function of a step and its place that returns its inputs."""
        if not self._differentiable:
            return lambda t, place: keras.tree.map_structure(
                lambda x: _slice(x, place.begin, place.end), inputs
            )
        counts = self._packing.counts
        flat = keras.tree.flatten(inputs)
        arrays = [
            buffer.split(x, counts)
            for buffer, x in zip(self._buffers(map(self.spec, flat)), flat)
        ]
        return lambda t, place: keras.tree.pack_sequence_as(
            inputs, [array.read(t) for array in arrays]
        )

    def _buffers(self, specs: Specs) -> Buffers:
        return [
            tf.TensorArray(
                spec.dtype,
                self._steps,
                infer_shape=False,
                element_shape=[None, *spec.shape[1:]],
            )
            for spec in specs
        ]


def _slice(tensor: Tensor, begin: Any, end: Any | None = None) -> Tensor:
    """Rows from `begin` to `end`, vectors of one entry."""
    if end is None:
        return tf.strided_slice(tensor, begin, [0], [1], end_mask=1)
    return tf.strided_slice(tensor, begin, end, [1])


def _write(buffers: Buffers, t: Tensor, values: Iterable) -> Buffers:
    return [buffer.write(t, value) for buffer, value in zip(buffers, values)]


def _nothing(spec: tf.TensorSpec) -> Tensor:
    """The values of no step, packed."""
    return tf.zeros([0, *spec.shape[1:]], spec.dtype)
