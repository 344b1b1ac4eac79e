"""One step of Keras' recurrent cells, with the input products taken out.

Each function is the step of a cell after `x_t W` has been computed for all
steps at once. `affine(name, s)` supplies products of the state, as a list of
gates; see `keras_seqmech.ops.scan.protocol`.
"""

from collections.abc import Callable
from typing import TypeAlias

from keras_seqmech.ops.scan.protocol import Affine
from keras_seqmech.ops.scan.protocol import States
from keras_seqmech.typing import Tensor

Activation: TypeAlias = Callable[[Tensor], Tensor]


def simple_rnn_step(
    states: States, affine: Affine, activation: Activation
) -> tuple[Tensor, States]:
    r"""$h_t = g(z_t + U h_{t-1})$.

    Args:
        states: `(h,)`, `(batch, units)`.
        affine: Supplies the product `"cell"`, one part.
        activation: $g$.

    Returns:
        Output and new states.
    """
    (pre_activation,) = affine("cell", states[0])
    hidden = activation(pre_activation)
    return hidden, (hidden,)


def lstm_step(
    states: States,
    affine: Affine,
    activation: Activation,
    recurrent_activation: Activation,
) -> tuple[Tensor, States]:
    r"""$c_t = f_t c_{t-1} + i_t g(\tilde c_t)$, $h_t = o_t g(c_t)$.

    Args:
        states: `(h, c)`, `(batch, units)` each.
        affine: Supplies the product `"cell"`, four parts: input, forget,
            candidate, output (Keras' order).
        activation: $g$.
        recurrent_activation: The gates' activation.

    Returns:
        Output and new states.
    """
    hidden, carry = states
    input_gate, forget_gate, candidate, output_gate = affine("cell", hidden)
    carry = recurrent_activation(forget_gate) * carry + recurrent_activation(
        input_gate
    ) * activation(candidate)
    hidden = recurrent_activation(output_gate) * activation(carry)
    return hidden, (hidden, carry)


def gru_step(
    inputs: dict[str, Tensor],
    states: States,
    affine: Affine,
    activation: Activation,
    recurrent_activation: Activation,
    reset_after: bool,
) -> tuple[Tensor, States]:
    r"""$h_t = z_t h_{t-1} + (1 - z_t) \tilde h_t$.

    Args:
        inputs: With `reset_after`, `"cell_candidate"` holds the input's part
            of the candidate, `(batch, units)`.
        states: `(h,)`, `(batch, units)`.
        affine: Supplies the product `"cell"`: update and reset gate, and with
            `reset_after` the state's part of the candidate. Without, supplies
            `"cell_candidate"` too, one part.
        activation: The candidate's activation.
        recurrent_activation: The gates' activation.
        reset_after: Whether the reset gate acts after the product.

    Returns:
        Output and new states.
    """
    (hidden,) = states
    update, reset, *state_candidate = affine("cell", hidden)
    update = recurrent_activation(update)
    reset = recurrent_activation(reset)
    if reset_after:
        candidate = inputs["cell_candidate"] + reset * state_candidate[0]
    else:
        (candidate,) = affine("cell_candidate", reset * hidden)
    hidden = update * hidden + (1 - update) * activation(candidate)
    return hidden, (hidden,)
