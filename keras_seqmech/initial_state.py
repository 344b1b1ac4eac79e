"""Recurrent layers that learn their initial state."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_seqmech.core import checks
from keras_seqmech.core.wrapped import Wrapper
from keras_seqmech.core.wrapped import directions
from keras_seqmech.typing import Tensor


@keras.saving.register_keras_serializable(package="keras_seqmech")
class LearnedInitialState(Wrapper):
    r"""A recurrent layer whose initial state is learned.

    $$h_0 = v_0, \quad c_0 = v_1, \quad \dots$$

    with a trainable vector for each state of the wrapped layer, the same for
    every sequence. A call with an `initial_state`, such as the final state of
    the part of the sequence before, starts there instead.

    Args:
        rnn: The layer to wrap: a `keras.layers.RNN` of any kind (`LSTM`,
            `GRU`, `SimpleRNN`, `RNN` with cells of your own or several,
            `ReceptiveFieldRNN`), or a `keras.layers.Bidirectional` of one,
            which then learns a state for each direction. Its states must be
            vectors. Not stateful: such a layer starts from the final states
            of the last batch.
        state_initializer: Initializer of the vectors. With zeros, the
            default, an untrained layer gives what the wrapped one gives. The
            source draws them: `keras.initializers.RandomNormal(stddev=1.0)`.
        state_regularizer: Regularizer of the vectors.
        **kwargs: Base layer keyword arguments, such as `name`. The dtype
            policy defaults to that of `rnn`.

    Call arguments:
        sequence: Tensor `(batch, time, features)`; the windows of
            `ReceptiveFieldWindows` for an `RFCell` in a `keras.layers.RNN`.
        initial_state: List of states to start from instead, `(batch, units)`
            each, as the wrapped layer returns them with `return_state=True`.
        mask: Boolean tensor `(batch, time)`, any pattern, True where a step
            is real.
        training: Whether the wrapped layer trains.
        sequence_mask: What Keras fills in for `mask` beside further tensors;
            without effect if that is given.
        **kwargs: Further call arguments of the wrapped layer.

    Output shape:
        That of the wrapped layer.

    Raises:
        ValueError: If `rnn` is not such a layer, or is stateful.

    Masking: that of the wrapped layer; in addition, no gradient depends on the
    values at masked steps. A row without a real step gives zeros, and its
    final states are those it started with.

    Cost: that of the wrapped layer.

    Example:

    >>> import keras, numpy as np
    >>> layer = LearnedInitialState(keras.layers.LSTM(8, return_state=True))
    >>> outputs, h, c = layer(np.ones((2, 7, 5)))
    >>> [v.name for v in layer.initial_states]
    ['initial_state_0', 'initial_state_1']
    >>> outputs, h, c = layer(np.ones((2, 7, 5)), initial_state=[h, c])

    Source: "RNNs for arXiv/viXra title classification", on the initial hidden
    state.
    """

    wraps = "rnn"

    def __init__(
        self,
        rnn: keras.layers.Layer,
        state_initializer: Any = "zeros",
        state_regularizer: Any = None,
        **kwargs: Any,
    ):
        _check_rnn(rnn)
        super().__init__(rnn, **kwargs)
        self.state_initializer = checks.get_initializer(
            "state_initializer", state_initializer
        )
        self.state_regularizer = checks.get_regularizer(
            "state_regularizer", state_regularizer
        )

    def build(self, sequence_shape: Sequence[int | None]) -> None:
        self.check_shape(sequence_shape)
        self.initial_states = [
            self.add_weight(
                name=f"initial_state_{i}",
                shape=(size,),
                initializer=checks.fresh(self.state_initializer),
                regularizer=self.state_regularizer,
            )
            for i, size in enumerate(_state_sizes(self.rnn))
        ]
        super().build(sequence_shape)

    def get_initial_state(self, batch_size: int | Tensor) -> list:
        """The learned states for a batch, in the structure of the layer's."""
        return self._pack(
            [
                ops.broadcast_to(vector, (batch_size, vector.shape[0]))
                for vector in self.initial_states
            ]
        )

    def start(self, sequence: Tensor, initial_state: Any) -> list:
        if initial_state is not None:
            return self._pack(
                [
                    checks.assert_rows("initial_state", state, sequence)
                    for state in keras.tree.flatten(initial_state)
                ]
            )
        return self.get_initial_state(ops.shape(sequence)[0])

    def _pack(self, states: list) -> list:
        """States in the structure of the wrapped layer's."""
        structure = [
            state
            for rnn in directions(self.rnn)
            for state in rnn.get_initial_state(batch_size=1)
        ]
        return keras.tree.pack_sequence_as(structure, states)

    def check_call(
        self, sequence: Tensor, initial_state: Any, mask: Tensor | None
    ) -> None:
        super().check_call(sequence, initial_state, mask)
        if initial_state is not None:
            rows = sequence.shape[0]
            checks.check_states(initial_state, _state_sizes(self.rnn), rows)

    def get_config(self) -> dict:
        serialize = keras.saving.serialize_keras_object
        return {
            **super().get_config(),
            "state_initializer": serialize(self.state_initializer),
            "state_regularizer": serialize(self.state_regularizer),
        }


def _state_sizes(rnn: keras.layers.Layer) -> list[int]:
    return [
        size
        for direction in directions(rnn)
        for size in keras.tree.flatten(direction.state_size)
    ]


def _check_rnn(rnn: Any) -> None:
    """Refuses layers without initial states to learn."""
    if (
        not all(isinstance(d, keras.layers.RNN) for d in directions(rnn))
        # Convolutional layers have states without a size.
        or not all(isinstance(s, int) and s > 0 for s in _state_sizes(rnn))
        or rnn.stateful
    ):
        raise ValueError(
            "Argument `rnn` must be a recurrent layer, such as "
            "`keras.layers.LSTM(units)`, or a `keras.layers.Bidirectional` of "
            "one, with vectors as states and not stateful. "
            f"Received: rnn={rnn!r}"
        )
