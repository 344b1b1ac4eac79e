"""The time loop over a `Packing`: each row does its own steps alone."""

from collections.abc import Callable
from collections.abc import Iterable
from typing import Any
from typing import NamedTuple
from typing import TypeAlias

import keras
import tensorflow as tf

from keras_seqmech._keras_compat import in_xla
from keras_seqmech.core.kept_steps import Packing
from keras_seqmech.core.scan.protocol import Body
from keras_seqmech.core.scan.protocol import ScanOptions
from keras_seqmech.core.scan.protocol import States
from keras_seqmech.core.xla import compiles
from keras_seqmech.typing import Tensor

Specs: TypeAlias = Iterable[tf.TensorSpec]
Buffers: TypeAlias = list[tf.TensorArray]


def can_pack(options: ScanOptions = ScanOptions()) -> bool:  # noqa: B008
    """Returns whether a loop with these options can run packed here.

    It cannot where sizes are static: in code around the loop or a loop alone
    that XLA compiles, and in an unrolled loop.
    """
    if options.unroll or compiles(options.jit_compile):
        return False
    return not in_xla()


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
