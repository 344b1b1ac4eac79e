"""The adaptive receptive field as a recurrent layer."""

import inspect
from operator import attrgetter
from typing import Any

import keras
from keras import ops

from keras_seqmech.core import cells
from keras_seqmech.core import checks
from keras_seqmech.core.decisions import reports
from keras_seqmech.core.decisions.categorical import DecidesSizes
from keras_seqmech.core.decisions.categorical import field_shapes
from keras_seqmech.core.decisions.deciding import as_log_weight
from keras_seqmech.core.decisions.decision import Decision
from keras_seqmech.core.decisions.penalties import DecisionPenalties
from keras_seqmech.core.decisions.penalties import PenaltyWeights
from keras_seqmech.core.layers import freeze_parts
from keras_seqmech.core.layers import output_specs
from keras_seqmech.core.masks import output_masks
from keras_seqmech.receptive_field import loop
from keras_seqmech.receptive_field.ahead import emission_delays
from keras_seqmech.receptive_field.cell import RFCell
from keras_seqmech.receptive_field.loop import FieldRun
from keras_seqmech.receptive_field.steps import FieldSteps
from keras_seqmech.receptive_field.windows import FieldInputs
from keras_seqmech.receptive_field.windows import pack_inputs
from keras_seqmech.receptive_field.windows import pad_inputs
from keras_seqmech.typing import Tensor


@keras.saving.register_keras_serializable(package="keras_seqmech")
class ReceptiveFieldRNN(DecidesSizes, keras.layers.RNN):
    r"""Recurrent layer that looks ahead as far as each step needs.

    `keras.layers.RNN(RFCell(cell, max_size))` over look-ahead windows: the
    same weights and the same answers (see `RFCell` for the equations), but it
    takes plain sequences and is several times faster, because all products
    with the inputs, and at inference the whole inner network, are hoisted out
    of the loop.

    Args:
        cell: A Keras cell or a list of cells to stack; see `RFCell`.
        max_size: Positive int, the largest field size S.
        return_field: Whether to return, after everything else, a dict with
            `"size"`, the number of positions read, `(batch, time)`, expected
            under soft sizes; `"probabilities"` of the sizes, `(batch, time,
            max_size)`; and with `estimator="reinforce"` `"log_probability"`
            of the drawn sizes, `(batch, time)`. float32 or wider, 0 at masked
            steps. `keras.layers.Bidirectional` cannot merge it: use a layer
            for each direction.
        track_statistics: Whether to keep metrics, which appear in `history`:
            `<name>_penalty`, in training, the auxiliary losses in `loss`;
            `<name>_mean_delay` and `<name>_delay_percentile`, mean and 95th
            percentile of the steps that each step waits for in a stream (see
            `analysis.emission_delay`; exact for hard sizes); and over the
            steps with `max_size` real positions to read, as others cannot
            choose every size, `<name>_mean_size`; `<name>_size_entropy`, of
            the size probabilities, in nats; `<name>_certain`, the share of
            sizes chosen with a probability above 0.9; and
            `<name>_choice_entropy`, the entropy of the likeliest sizes, 0
            where all are equal. The last four are 0 where no row has such a
            step.
        jit_compile: Whether to compile the loop of training steps with XLA
            where the model is not, in `fit` or another `tf.function`. On CPU
            it takes half the time or less at small widths (see the
            benchmarks); it compiles for seconds, and again for every new
            length. Cells that run step by step as they are (see Cost) are
            left uncompiled.
        packed: Whether the loop runs packed where it can; see Cost.
        return_sequences: Whether to return every step, or the last only.
        return_state: Whether to return the final states too.
        go_backwards: Whether to read from the end. Fields then reach towards
            the start (as if the sequence were flipped first), and outputs come
            in reading order, as in Keras.
        stateful: Whether to start from the states the last batch ended with.
        unroll: Whether to unroll the loop. Fast to run for a few steps, slow
            to compile for many.
        zero_output_for_mask: Whether masked steps return zeros; by default
            they repeat the output before.
        **kwargs: The other arguments of `RFCell`, such as `size_from` and
            `penalties`; and base layer keyword arguments, such as `name` and
            `dtype`.

    Call arguments:
        sequences: Tensor `(batch, time, features)`.
        initial_state: List of the cell's states; zeros if None.
        mask: Boolean tensor `(batch, time)`, any pattern, True where a step
            is real.
        weight: Tensor `(batch,)`, the weight of what is read, from a
            `ReadingWeight`: one training for a whole range of them. Sizes see
            $\log_{10} 100 w$. Given in all calls or never.
        training: Whether sizes are drawn (from noise drawn once a call) and
            dropout is active.
        sequences_mask: What Keras fills in for `mask` beside another tensor;
            without effect if `mask` is given.

    Input shape:
        `(batch, time, features)`.

    Output shape:
        `(batch, time, units)` with `return_sequences`, else `(batch, units)`;
        with `return_state`, followed by the states; with `return_field`,
        followed by the dict.

    Masking: a field contains no masked position; masked steps keep the state.
    The values there reach neither outputs nor gradients. A row without a
    real step gives zeros.

    Cost: time linear in T and S, for inner width f and u units O(T (S f^2 +
    f u)) beside the cell's own. Training holds O(T) states and products, with
    drawn sizes O(T S f). `SimpleRNNCell`, `LSTMCell` and `GRUCell` have their
    input products hoisted out of the loop; other cells, cells with dropout in
    training, or with an activation that has weights, run step by step as they
    are. Under a mask, with `packed=True`, the cost grows with the total number
    of real steps, not with the longest row. This does not hold with `unroll`,
    in loops compiled with XLA, or for cells that run step by step.

    Example:

    >>> import keras, numpy as np
    >>> cell = keras.layers.LSTMCell(8)
    >>> layer = ReceptiveFieldRNN(cell, max_size=4, return_field=True)
    >>> outputs, field = layer(np.ones((2, 7, 5)))
    >>> outputs.shape, field["size"].shape, field["probabilities"].shape
    (TensorShape([2, 8]), TensorShape([2, 7]), TensorShape([2, 7, 4]))

    Source: "An Informative Adaptive Receptive Field Model for Recurrent
    Neural Networks", equations 1 to 8.
    """

    def __init__(
        self,
        cell: Any,
        max_size: int,
        return_field: bool = False,
        track_statistics: bool = False,
        jit_compile: bool = False,
        packed: bool = True,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        zero_output_for_mask: bool = False,
        **kwargs: Any,
    ):
        check_bool = checks.check_bool
        # Those of `Layer` and `RNN` are the layer's own.
        cell_arguments = {
            name: kwargs.pop(name)
            for name in inspect.signature(RFCell.__init__).parameters
            if name in kwargs
        }
        field_cell = RFCell(
            cell,
            max_size,
            **cell_arguments,
            name="rf_cell",
            dtype=kwargs.get("dtype"),
        )
        super().__init__(
            field_cell,
            return_sequences=check_bool("return_sequences", return_sequences),
            return_state=check_bool("return_state", return_state),
            go_backwards=check_bool("go_backwards", go_backwards),
            stateful=check_bool("stateful", stateful),
            unroll=check_bool("unroll", unroll),
            zero_output_for_mask=check_bool(
                "zero_output_for_mask", zero_output_for_mask
            ),
            **kwargs,
        )
        self.supports_masking = True
        self.return_field = check_bool("return_field", return_field)
        self.track_statistics = check_bool("track_statistics", track_statistics)
        self.jit_compile = check_bool("jit_compile", jit_compile)
        self.packed = check_bool("packed", packed)
        if track_statistics:
            self.keep_statistics()
        freeze_parts(self)

    @property
    def max_size(self) -> int:
        """The largest field size S."""
        return self.cell.max_size

    @property
    def estimator(self) -> str:
        """How training passes gradients to the sizes."""
        return self.cell.estimator

    @property
    def temperature(self) -> keras.Variable | None:
        """The relaxed sample's temperature; None before the layer is built.

        Its `assign` changes it; nothing is traced again.
        """
        return self.cell.temperature

    @property
    def penalties(self) -> DecisionPenalties:
        """The auxiliary losses of the sizes, as given."""
        return self.cell.penalties

    @property
    def penalty_weights(self) -> PenaltyWeights:
        """The weights of the auxiliary losses, as variables."""
        return self.cell.penalty_weights

    # The other arguments of the `RFCell`, as attributes.
    field_units = property(attrgetter("cell.field_units"))
    summary = property(attrgetter("cell.summary"))
    activation = property(attrgetter("cell.activation"))
    gated = property(attrgetter("cell.gated"))
    size_from = property(attrgetter("cell.size_from"))
    unit_forget_bias = property(attrgetter("cell.unit_forget_bias"))
    forget_strength = property(attrgetter("cell.forget_strength"))
    kernel_initializer = property(attrgetter("cell.kernel_initializer"))
    recurrent_initializer = property(attrgetter("cell.recurrent_initializer"))
    kernel_regularizer = property(attrgetter("cell.kernel_regularizer"))
    sample_at_inference = property(attrgetter("cell.sample_at_inference"))
    seed = property(attrgetter("cell.seed"))

    def build(
        self,
        sequences_shape: Any,
        initial_state_shape: Any = None,
        weight_shape: Any = None,
    ) -> None:
        checks.check_sequences("sequences.shape", sequences_shape)
        batch_size, length, features = sequences_shape
        if self.stateful and batch_size is None:
            raise ValueError(
                "A layer with `stateful=True` needs a static batch size; give "
                "it by `keras.Input(batch_shape=...)`. "
                f"Received: sequences.shape={tuple(sequences_shape)}"
            )
        self.takes_weight = self.cell.takes_weight = weight_shape is not None
        super().build((batch_size, length, self.max_size, features + 1))

    def call(
        self,
        sequences: Tensor,
        initial_state: Any = None,
        mask: Tensor | None = None,
        weight: Tensor | None = None,
        training: bool = False,
        sequences_mask: Tensor | None = None,
    ) -> Any:
        mask = sequences_mask if mask is None else mask
        self._check_call(sequences, initial_state, mask)
        weight = self.check_weight(weight, sequences)
        sequences, mask = checks.assert_steps(sequences, mask)
        if self.stateful:
            sequences = checks.assert_stateful_rows(sequences, self.states)
        states = self._initial_states(initial_state, sequences)
        options = loop.RunOptions(
            training=bool(training),
            return_sequences=self.return_sequences,
            return_choices=(
                bool(training)
                or self.return_field
                or self.track_statistics
                or reports.is_recording()
            ),
            zero_output_for_mask=self.zero_output_for_mask,
            unroll=self.unroll,
            jit_compile=self.jit_compile,
        )
        sequences, mask = self._in_reading_order(sequences, mask)
        packs = self.packed and loop.can_pack(self.cell, mask, options)
        prepare = pack_inputs if packs else pad_inputs
        field_inputs = prepare(sequences, mask, self.max_size)
        log_weight = None
        if weight is not None:
            log_weight = as_log_weight(weight, self.cell.score_dtype)
        run = loop.run(self.cell, field_inputs, states, options, log_weight)
        if self.stateful:
            kept = keras.tree.flatten(self.states)
            for variable, state in zip(kept, run.states):
                variable.assign(state)
        returned = [run.outputs]
        if self.return_state:
            returned += keras.tree.pack_sequence_as(
                self.state_size, list(run.states)
            )
        if options.return_choices:
            sizes = self._sizes(run, field_inputs)
            if training:
                self.learn(sizes, mask, weight)
            if self.statistics is not None:
                self._count_sizes(sizes, field_inputs, mask)
            reports.record(self, sizes.shown("size"))
            if self.return_field:
                returned.append(sizes.shown("size"))
        return returned[0] if len(returned) == 1 else tuple(returned)

    def _check_call(
        self, sequences: Tensor, initial_state: Any, mask: Tensor | None
    ) -> None:
        shape = sequences.shape
        checks.check_sequences("sequences.shape", shape)
        checks.check_mask("mask", mask, shape)
        if self.built:
            features = self.cell.field_kernel.shape[0]
            checks.check_features("sequences.shape", shape, features)
        if self.unroll and shape[1] is None:
            raise ValueError(
                "A layer with `unroll=True` needs a static number of steps. "
                f"Received: sequences.shape={tuple(shape)}"
            )
        if initial_state is not None:
            sizes = cells.flat_state_sizes(self.cell)
            checks.check_states(initial_state, sizes, shape[0])

    def _in_reading_order(
        self, sequences: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        sequences = ops.cast(sequences, self.compute_dtype)
        if self.go_backwards:
            sequences = ops.flip(sequences, axis=1)
            mask = None if mask is None else ops.flip(mask, axis=1)
        return sequences, mask

    def _initial_states(
        self, initial_state: Any, sequences: Tensor
    ) -> tuple[Tensor, ...]:
        states = initial_state
        if states is None and self.stateful:
            states = self.states
        if states is None:
            states = self.get_initial_state(ops.shape(sequences)[0])
        checked = (
            checks.assert_rows("initial_state", state, sequences)
            for state in map(ops.convert_to_tensor, keras.tree.flatten(states))
        )
        return tuple(ops.cast(state, self.compute_dtype) for state in checked)

    def _sizes(self, run: FieldRun, field_inputs: FieldInputs) -> Decision:
        """The sizes of a run, batch first."""
        steps = ops.shape(field_inputs.steps)[:-1]
        sizes = self.cell.sizes(
            run.logits, run.selection, field_inputs.validity, steps
        )
        return sizes.map(field_inputs.restore)

    def _count_sizes(
        self, sizes: Decision, field_inputs: FieldInputs, mask: Tensor | None
    ) -> None:
        # Without masks one row stands for all.
        shape = (*ops.shape(sizes.read), self.max_size)
        validity = ops.broadcast_to(
            field_inputs.restore(field_inputs.validity), shape
        )
        delay = emission_delays(sizes.read, validity)
        self.count(sizes, validity, delay, mask)

    def compute_mask(self, sequences: Tensor, mask: Any = None) -> Any:
        # Keras 3.16 stops its own recurrent layers from passing masks on.
        return output_masks(self, mask)

    def compute_output_shape(
        self,
        sequences_shape: Any,
        initial_state_shape: Any = None,
        weight_shape: Any = None,
    ) -> Any:
        checks.check_sequences("sequences.shape", sequences_shape)
        shapes = super().compute_output_shape(sequences_shape)
        if not self.return_field:
            return shapes
        field = field_shapes(sequences_shape[:2], self.max_size, self.estimator)
        return (*shapes, field) if self.return_state else (shapes, field)

    def compute_output_spec(
        self,
        sequences: Tensor,
        initial_state: Any = None,
        mask: Tensor | None = None,
        weight: Tensor | None = None,
        training: bool = False,
        sequences_mask: Tensor | None = None,
    ) -> Any:
        mask = sequences_mask if mask is None else mask
        self._check_call(sequences, initial_state, mask)
        self.check_weight(weight, sequences)
        shapes = self.compute_output_shape(sequences.shape)
        return output_specs(shapes, self.compute_dtype)

    def stream_steps(self, owner: Any = None) -> FieldSteps:
        """The steps of the layer in a stream."""
        return FieldSteps(self, owner)

    def reset_state(self) -> None:
        for variable in keras.tree.flatten(self.states) if self.states else ():
            variable.assign(ops.zeros_like(variable))

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        own = self.cell.get_config()
        for name in ("name", "trainable", "dtype"):
            own.pop(name)
        return {
            **config,
            **own,
            "return_field": self.return_field,
            "track_statistics": self.track_statistics,
            "jit_compile": self.jit_compile,
            "packed": self.packed,
        }
