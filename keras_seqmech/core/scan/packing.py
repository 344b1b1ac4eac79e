"""Packed sequences: the kept steps of a batch, without gaps.

A padded batch of rows with 19.6 real steps on average and 118 at most is five
sixths padding, and a loop over it spends its time accordingly. `pack` says, of
any boolean pattern `(batch, time)`, how its kept steps lie in one tensor
`(total, ...)`: step by step, first the first kept step of every row, then the
second of every row that has two, and so on; within a step the rows are in
order of their number of kept steps, the shortest first. So the rows of a step
are one slice, and rows active in the next step are a suffix of that slice.

>>> packing = pack(tf.constant([[True, True, True], [False, True, False]]))
>>> packing.gather(tf.constant([[1, 2, 3], [4, 5, 6]])).numpy().tolist()
[5, 1, 2, 3]

A recurrent layer gathers its inputs first, so that everything before the loop
(products with the inputs above all) is computed at kept steps alone; calls
`scan` with `packing=packing`; and brings the packed outputs back:

    packing = pack(mask)
    inputs = project(packing.gather(sequence), kernel, bias, 4)
    outputs, states = scan(
        step, Product(weight, inputs), states, specs, options, packing=packing
    )
    hidden = packing.hold(outputs["hidden"], initial=states[0])

docs/packed_loops.md says where that saves time, and where it cannot be done.
"""

from collections.abc import Callable
from collections.abc import Iterable
from typing import Any
from typing import NamedTuple
from typing import TypeAlias

import keras
import tensorflow as tf

from keras_seqmech._keras_compat import custom_gradient
from keras_seqmech._keras_compat import in_xla
from keras_seqmech.core.scan.protocol import Body
from keras_seqmech.core.scan.protocol import ScanOptions
from keras_seqmech.core.scan.protocol import States
from keras_seqmech.core.scan.protocol import compiles
from keras_seqmech.core.scan.protocol import is_differentiable_twice
from keras_seqmech.typing import Tensor


def can_pack(options: ScanOptions = ScanOptions()) -> bool:  # noqa: B008
    """Whether a loop with these options can run packed where it is called.

    It cannot where sizes are static: in code around the loop or a loop alone
    that XLA compiles, and in an unrolled loop; nor within
    `differentiable_twice`.
    """
    fixed = options.unroll or options.steps is not None
    if fixed or compiles(options.jit_compile):
        return False
    return not (in_xla() or is_differentiable_twice())


class Packing(NamedTuple):
    """Where the kept steps of a batch lie when they are packed; see `pack`.

    Attributes:
        keep: Boolean `(batch, time)`: the kept steps.
        order: `(batch,)`: the rows, by length, the shortest first.
        ranks: `(batch,)`: the place of each row in `order`.
        counts: `(longest,)`: how many rows have a first, second, ... kept
            step.
        offsets: `(longest,)`: where these begin among the packed elements.
        rows: `(total,)`: the row of each packed element.
        times: `(total,)`: its step in time.
        last: `(batch, time)`: the packed element of the last kept step up to
            each step and with it; -1 before the first.
    """

    keep: Tensor
    order: Tensor
    ranks: Tensor
    counts: Tensor
    offsets: Tensor
    rows: Tensor
    times: Tensor
    last: Tensor

    def gather(self, sequences: Tensor) -> Tensor:
        """Takes the kept steps `(total, ...)` of `(batch, time, ...)`."""
        batch_size, length = tf.unstack(tf.shape(self.keep))
        indices = self.rows * length + self.times

        @custom_gradient
        def take(sequences: Tensor) -> tuple[Tensor, Callable]:
            def gradient(upstream: Tensor) -> Tensor:
                return self.scatter(upstream)

            features = tf.shape(sequences)[2:]
            shape = tf.concat([[batch_size * length], features], axis=0)
            return tf.gather(tf.reshape(sequences, shape), indices), gradient

        sequences = tf.convert_to_tensor(sequences)
        return tf.ensure_shape(take(sequences), [None, *sequences.shape[2:]])

    def scatter(self, values: Tensor) -> Tensor:
        """Puts packed values back at their steps, zeros at the others."""
        places = tf.where(self.keep, self.last, -1)

        @custom_gradient
        def put(values: Tensor) -> tuple[Tensor, Callable]:
            def gradient(upstream: Tensor) -> Tensor:
                return self.gather(upstream)

            return entries(values, places), gradient

        return put(tf.convert_to_tensor(values))

    def hold(self, values: Tensor, initial: Tensor) -> Tensor:
        """Puts packed values back; the other steps repeat the last kept one.

        Those before the first kept step have the `initial` value `(batch,
        ...)` of their row.
        """
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

    def sort(self, rows: Tensor) -> Tensor:
        """Brings a tensor `(batch, ...)` into the order of lengths."""
        return _permute(tf.convert_to_tensor(rows), self.order, self.ranks)

    def unsort(self, rows: Tensor) -> Tensor:
        """Brings a tensor `(batch, ...)` back from the order of lengths."""
        return _permute(tf.convert_to_tensor(rows), self.ranks, self.order)


def pack(keep: Tensor) -> Packing:
    """Finds where the kept steps of a batch lie when they are packed.

    `keep`, boolean `(batch, time)` of any pattern, is True at the steps that a
    row really does: a mask, or open gates.
    """
    keep = tf.convert_to_tensor(keep)
    batch_size = tf.shape(keep)[0]
    kept = tf.cast(keep, "int32")
    numbers = tf.cumsum(kept, axis=1) - 1
    lengths = tf.reduce_sum(kept, axis=1)
    order = tf.argsort(lengths, stable=True)
    ranks = tf.math.invert_permutation(order)
    shorter = tf.searchsorted(
        tf.gather(lengths, order),
        tf.range(tf.maximum(tf.reduce_max(lengths), 0)),
        side="right",
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
        order,
        ranks,
        counts,
        offsets,
        tf.gather(rows, elements),
        tf.gather(times, elements),
        tf.where(numbers < 0, -1, places),
    )


def entries(values: Tensor, places: Tensor) -> Tensor:
    """The entries of a tensor at places; zeros at places below 0."""
    others = [[0, 0]] * (values.shape.rank - 1)
    return tf.gather(tf.pad(values, [[1, 0], *others]), places + 1)


def _permute(values: Tensor, order: Tensor, inverse: Tensor) -> Tensor:
    @custom_gradient
    def permute(values: Tensor) -> tuple[Tensor, Callable]:
        def gradient(upstream: Tensor) -> Tensor:
            return _permute(upstream, inverse, order)

        return tf.gather(values, order), gradient

    return permute(values)


Specs: TypeAlias = Iterable[tf.TensorSpec]
Buffers: TypeAlias = list[tf.TensorArray]


class _Place(NamedTuple):
    """Where a step lies; each an int32 vector of one entry."""

    # Its first packed element, and the first after it.
    begin: Tensor
    end: Tensor
    # In the order of rows, its first row, and its first with a further step.
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
