"""Argument checks: errors name the argument, what is allowed, what is given."""

import functools
import math
import reprlib
from collections.abc import Callable
from collections.abc import Sequence
from numbers import Integral
from numbers import Real
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_seqmech._keras_compat import is_recomputed
from keras_seqmech.typing import Tensor

_SEQUENCES = (
    "Sequences must have the shape (batch, time, features), with at least one "
    "time step and a known number of features"
)


# Numbers. Booleans are rejected.


def _number_check(
    kind: Any, allowed: str, fits: Callable[[Any], bool]
) -> Callable[[str, Any], Any]:
    """A function `(name, value)` that refuses all but numbers that fit."""

    def check(name: str, value: Any) -> Any:
        is_number = isinstance(value, kind) and not isinstance(value, bool)
        if not is_number or not fits(value):
            raise ValueError(
                f"Argument `{name}` must be {allowed}. "
                f"Received: {name}={value!r}"
            )
        return int(value) if kind is Integral else float(value)

    return check


check_positive_int = _number_check(
    Integral, "a positive integer", lambda x: x >= 1
)
check_not_negative_int = _number_check(
    Integral, "an integer of at least 0", lambda x: x >= 0
)
check_finite = _number_check(
    Real, "a finite number", lambda x: -math.inf < x < math.inf
)
check_positive = _number_check(
    Real, "a finite number above 0", lambda x: 0 < x < math.inf
)
check_not_negative = _number_check(
    Real, "a finite number of at least 0", lambda x: 0 <= x < math.inf
)
check_share = _number_check(Real, "a number from 0 to 1", lambda x: 0 <= x <= 1)
check_open_share = _number_check(
    Real, "a number above 0 and below 1", lambda x: 0 < x < 1
)


def check_seed(seed: Any) -> int | None:
    """Returns a seed: an int of at least 0, or None for a random one."""
    return None if seed is None else check_not_negative_int("seed", seed)


# Choices and objects of Keras.


def check_bool(name: str, value: Any) -> bool:
    """Refuses anything but True or False."""
    if not isinstance(value, bool):
        raise ValueError(
            f"Argument `{name}` must be True or False. "
            f"Received: {name}={value!r}"
        )
    return value


def check_choice(name: str, value: Any, allowed: Sequence[str]) -> str:
    """Refuses a value that is not among the allowed ones."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(
            f"Argument `{name}` must be one of {tuple(allowed)}. "
            f"Received: {name}={value!r}"
        )
    return value


def check_cell(name: str, cell: Any) -> Any:
    """Returns a recurrent cell, for a list of cells their stack."""
    if isinstance(cell, (list, tuple)) and cell:
        cell = keras.layers.StackedRNNCells(
            [check_cell(name, part) for part in cell], name="stacked_rnn_cells"
        )
    sizes = keras.tree.flatten(getattr(cell, "state_size", None))
    is_cell = hasattr(cell, "call") and not isinstance(cell, keras.layers.RNN)
    are_ints = all(isinstance(s, Integral) and int(s) > 0 for s in sizes)
    if not is_cell or not sizes or not are_ints:
        raise ValueError(
            f"Argument `{name}` must be a recurrent cell: an object with a "
            "method `call(inputs, states)` and an attribute `state_size` of "
            "ints, such as `keras.layers.LSTMCell(units)`, or a list of such "
            f"cells. Received: {name}={cell!r}"
        )
    return cell


def fresh(initializer: Any) -> Any:
    """A new initializer of the same kind, so that weights do not repeat."""
    if isinstance(initializer, keras.initializers.Initializer):
        return initializer.clone()
    return initializer


def _get(module: Any, name: str, value: Any) -> Any:
    """Returns an object of Keras, given itself or by its name."""
    try:
        return module.get(value)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Argument `{name}` must be one that Keras knows, or its name. "
            f"Received: {name}={value!r}"
        ) from error


get_initializer = functools.partial(_get, keras.initializers)
get_regularizer = functools.partial(_get, keras.regularizers)
get_activation = functools.partial(_get, keras.activations)


def as_tensor(values: Any) -> Any:
    """Converts a list to a tensor; Keras converts arrays only."""
    if isinstance(values, (list, tuple)):
        return keras.ops.convert_to_tensor(values)
    return values


# Shapes and dtypes, as far as they are static.


def check_sequences(name: str, shape: Sequence) -> None:
    """Refuses shapes other than `(batch, time >= 1, known features)`."""
    shape = tuple(shape)
    if len(shape) != 3 or shape[1] == 0 or shape[2] is None:
        raise ValueError(f"{_SEQUENCES}. Received: {name}={shape}")


def check_not_ragged(name: str, values: Any) -> None:
    """Refuses rows of different lengths."""
    if isinstance(values, tf.RaggedTensor):
        raise ValueError(
            f"Argument `{name}` must not be a ragged tensor: use `to_tensor()` "
            f"and a mask. Received: {name}.shape={tuple(values.shape)}"
        )


def check_features(name: str, shape: Sequence, features: int | None) -> None:
    """Refuses a number of features that a built layer was not built for."""
    shape = tuple(shape)
    if features is not None and shape[-1] != features:
        raise ValueError(
            f"Argument `{name.removesuffix('.shape')}` must have the "
            f"{features} features that the layer was built for. "
            f"Received: {name}={shape}"
        )


def check_windows(
    name: str, shape: Sequence, max_size: int, axes: str = "batch, time"
) -> None:
    """Refuses shapes other than `(axes, max_size, features + 1)`."""
    shape, rank = tuple(shape), 2 + len(axes.split())
    fits = len(shape) == rank and 0 not in shape[1:-2]
    if not fits or shape[-2] != max_size or (shape[-1] or 0) < 2:
        raise ValueError(
            f"What an `RFCell` reads must have the shape ({axes}, max_size, "
            f"features + 1) with max_size={max_size}, as "
            f"`ReceptiveFieldWindows(max_size={max_size})` makes it. "
            f"Received: {name}={shape}"
        )


def as_array(name: str, values: Any, dtype: Any = None) -> np.ndarray:
    """An array of numbers; refuses what is none, naming the argument."""
    try:
        return np.asarray(values, dtype)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Argument `{name}` must be an array of numbers. "
            f"Received: {name}={reprlib.repr(values)}"
        ) from error


def check_by_step(
    name: str, values: Any, shape: Sequence, most_axes: int = 2
) -> None:
    """Refuses values that do not fit the `(batch, time)` of `shape`.

    With `most_axes` above 2 they may fit as many of its first axes.
    """
    if values is None:
        return
    check_not_ragged(name, values)
    received = tuple(values.shape)
    expected = tuple(shape[: max(2, min(len(received), most_axes))])
    differs = any(
        a is not None and b is not None and a != b
        for a, b in zip(received, expected)
    )
    if len(received) != len(expected) or differs:
        raise ValueError(
            f"Argument `{name}` must have the shape (batch, time) = "
            f"{expected} of its sequence. Received: {name}.shape={received}"
        )


def check_mask(
    name: str, mask: Any, shape: Sequence, most_axes: int = 2
) -> None:
    """Refuses a mask that is not booleans or ints by step of `shape`.

    Floats may be probabilities or weights, which no mask is. `most_axes` is
    that of `check_by_step`.
    """
    if mask is None:
        return
    try:
        if isinstance(mask, (list, tuple)):
            mask = np.asarray(mask)
        dtype = keras.backend.standardize_dtype(getattr(mask, "dtype", None))
    except ValueError:
        # Rows of different lengths, or a dtype that Keras does not know.
        dtype = ""
    if dtype != "bool" and "int" not in dtype:
        raise ValueError(
            f"Argument `{name}` must be a boolean tensor (batch, time), True "
            f"where a step is real. Received: {name}={mask!r}"
        )
    check_by_step(name, mask, shape, most_axes)


def check_states(
    states: Any, sizes: Sequence[int], batch_size: int | None = None
) -> None:
    """Refuses initial states that are not `(batch, size)` for each size."""
    shapes = [getattr(x, "shape", x) for x in keras.tree.flatten(states)]
    fits = len(shapes) == len(sizes) and all(
        isinstance(shape, (tuple, tf.TensorShape))
        and len(shape) == 2
        and shape[-1] in (None, size)
        and len({shape[0], batch_size} - {None}) < 2
        for shape, size in zip(shapes, sizes)
    )
    if not fits:
        rows = "" if batch_size is None else f", and a batch of {batch_size}"
        raise ValueError(
            "Argument `initial_state` must hold tensors (batch, size) of the "
            f"sizes {list(sizes)}{rows}. "
            f"Received: initial_state of shapes {shapes}"
        )


# Run-time checks of dynamic sizes. XLA drops assertions, so a shape operation
# follows each, which does not compile for other sizes.


def assert_rows(name: str, values: Any, sequence: Tensor) -> Any:
    """Refuses, when it runs, another batch size than that of the sequences.

    Returns:
        The values `(batch, ...)`, which wait for the check, or None.
    """
    return _assert_sizes(name, values, sequence, 1, "batch size")


def assert_by_step(name: str, values: Any, sequence: Tensor) -> Any:
    """Like `assert_rows`, for values `(batch, time, ...)` such as a mask."""
    return _assert_sizes(name, values, sequence, 2, "shape (batch, time)")


def assert_steps(
    sequence: Tensor, mask: Tensor | None, name: str = "mask"
) -> tuple[Tensor, Tensor | None]:
    """Refuses a length of 0, at run time where it is not static.

    Returns:
        The sequences, with the check as a control dependency, so that nothing
        computed from them fails before it; and the mask as booleans, after
        `assert_by_step`, or None.
    """
    check_not_ragged("sequence", sequence)
    shape = tuple(sequence.shape)
    if shape[1] is None and not isinstance(sequence, keras.KerasTensor):
        check = tf.debugging.assert_positive(
            tf.shape(sequence)[1],
            f"{_SEQUENCES}. Received: sequence.shape={shape} with no time step",
        )
        sequence = _after(check, sequence)
    mask = None if mask is None else keras.ops.cast(mask, "bool")
    return sequence, assert_by_step(name, mask, sequence)


def _assert_sizes(
    name: str, values: Any, sequence: Tensor, axes: int, sizes: str
) -> Any:
    if values is None or isinstance(sequence, keras.KerasTensor):
        return values
    if None not in (*sequence.shape[:axes], *values.shape[:axes]):
        return values
    expected = tf.shape(sequence)[:axes]
    check = tf.debugging.assert_equal(
        tf.shape(values)[:axes],
        expected,
        f"Argument `{name}` must have the {sizes} of its sequence. "
        f"Received: {name} of another {sizes}",
    )
    refusal = f"{name}_of_another_size"
    # A reshape to static sizes would tell TensorFlow that the check holds.
    static = [*sequence.shape[:axes], *values.shape[axes:]]
    checked = tf.ensure_shape(_after(check, values), static, name=refusal)
    if None not in checked.shape[:axes]:
        return checked
    shape = tf.concat([expected, tf.shape(values)[axes:]], axis=0)
    reshaped = tf.reshape(checked, shape, name=refusal)
    reshaped.set_shape(checked.shape)
    return reshaped


def assert_not_negative(name: str, values: Tensor) -> Tensor:
    """Refuses NaN and what is below 0, when it runs; not compiled by XLA.

    Returns:
        The values, which wait for the check.
    """
    allowed = "numbers, at least 0"
    holds = values >= 0  # False for NaN.
    check_entries(name, values, holds, allowed)
    if tf.executing_eagerly():
        return values
    received = [f"Argument `{name}` must hold {allowed}. Received:", values]
    return _after(tf.debugging.Assert(tf.reduce_all(holds), received), values)


def checked_limit(
    limit: Any, sequence: Tensor, max_size: int | None = None
) -> Any:
    """The limit of a call, `(batch, 1 or time)`, int32; None for none.

    It is given as `(batch,)` or `(batch, time)`. Another shape or dtype is
    refused, and what is below 0; XLA, which drops that check, takes it for 0.
    What is beyond `max_size - 1`, if given, counts as that.
    """
    if limit is None:
        return None
    check_not_ragged("limit", limit)
    if not hasattr(limit, "shape"):
        limit = as_array("limit", limit)
    shape, steps = tuple(limit.shape), tuple(sequence.shape[:2])
    differs = any(
        None not in pair and pair[0] != pair[1] for pair in zip(shape, steps)
    )
    if len(shape) not in (1, 2) or differs:
        raise ValueError(
            "Argument `limit` must be of shape (batch,) or (batch, time), as "
            f"its sequence has them: {steps}. Received: limit.shape={shape}"
        )
    dtype = tf.as_dtype(limit.dtype).name
    if "int" not in dtype or dtype == "uint64":
        raise ValueError(
            "Argument `limit` must hold ints of up to 63 bits, such as from "
            f"`ReadingLimit`. Received: limit.dtype={dtype}"
        )
    if isinstance(limit, keras.KerasTensor):
        return limit
    limit = assert_not_negative("limit", tf.convert_to_tensor(limit))
    check = assert_rows if len(shape) == 1 else assert_by_step
    limit = tf.cast(check("limit", limit, sequence), "int64")
    most = 2**31 - 2 if max_size is None else max_size - 1
    limit = tf.cast(tf.clip_by_value(limit, 0, most), "int32")
    return limit[:, None] if len(shape) == 1 else limit


def check_entries(name: str, values: Tensor, holds: Tensor, what: str) -> None:
    """Refuses, in eager execution, values of which some do not hold."""
    if tf.executing_eagerly() and not tf.reduce_all(holds):
        wrong = float(values[~holds][0])
        raise ValueError(
            f"Argument `{name}` must hold {what}. "
            f"Received: {name}={wrong} among others"
        )


def assert_stateful_rows(sequence: Tensor, states: Any) -> Tensor:
    """Refuses a batch of another size than that of the states that are kept.

    Returns:
        The sequences, which wait for the check.
    """
    rows = keras.tree.flatten(states)[0].shape[0]
    received = tuple(sequence.shape)
    if received[0] not in (None, rows):
        raise ValueError(
            f"A stateful layer must be called with the {rows} rows that it was "
            "built for, also in the last batch. "
            f"Received: sequence.shape={received}"
        )
    return tf.ensure_shape(
        sequence, (rows, *received[1:]), name="rows_of_a_stateful_layer"
    )


def check_not_recomputed() -> None:
    """Refuses to draw, or to add losses, where a gradient comes of a rerun."""
    if is_recomputed():
        raise ValueError(
            "A layer that draws, or adds a loss, must be made and called "
            "outside of `keras.RematScope`, `keras.remat` and "
            "`tf.recompute_grad`, as must layers and models around it: the "
            "gradient would be that of another draw, and the loss has none. "
            "Received: a call within one of them, or where the recording of a "
            "tape is stopped"
        )


def _after(check: Any, tensor: Tensor) -> Tensor:
    """The tensor after a check, which is None if it has run (eager mode)."""
    with tf.control_dependencies([] if check is None else [check]):
        return tf.identity(tensor)
