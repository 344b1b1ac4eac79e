"""Hyperparameters of the layers, each with a checked range.

Each function takes KerasTuner's `hp` and a range, `(low, high)` or one number
that is not searched, and returns the value of the trial. The names in the
search are by default those of the layers' arguments; give another `name` to
search the argument of a second layer separately.
"""

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import TypeVar

import keras_tuner

from keras_seqmech.layers import validation
from keras_seqmech.layers.receptive_field.options import GATED
from keras_seqmech.layers.receptive_field.options import SIZE_SOURCES
from keras_seqmech.layers.receptive_field.options import SUMMARIES
from keras_seqmech.ops.decisions.estimators import ESTIMATORS
from keras_seqmech.training.exploration import ExploreThenCommit
from keras_seqmech.training.schedules import SCHEDULES
from keras_seqmech.training.schedules import TemperatureAnnealing

FIXED = "fixed"

Number = TypeVar("Number", int, float)

Range = float | tuple[float, float]


def choose_max_size(
    hp: keras_tuner.HyperParameters,
    max_size: Range = (1, 8),
    sequence_length: int | None = None,
    step: int = 1,
    name: str = "max_size",
) -> int:
    """Chooses S, the largest size of a receptive field.

    Args:
        hp: The hyperparameters of a trial.
        max_size: Range of positive ints.
        sequence_length: Steps of the longest sequence, which no S may exceed;
            None if not known.
        step: Positive int, the distance between two sizes of the range.
        name: Name of the hyperparameter.

    Raises:
        ValueError: If the range is not one of positive ints, or has sizes over
            `sequence_length`.

    Example:

    >>> hp = keras_tuner.HyperParameters()
    >>> choose_max_size(hp, (2, 8), sequence_length=20)
    2
    """
    low, high = _check_sizes(max_size, sequence_length)
    validation.check_positive_int("step", step)
    if low == high:
        return hp.Fixed(name, low)
    return hp.Int(name, low, high, step=step)


def choose_temperature(
    hp: keras_tuner.HyperParameters,
    temperature: Range = (0.1, 2.0),
    step: float | None = None,
    name: str = "temperature",
) -> float:
    """Chooses a temperature, on a log scale.

    It stays for the whole training, or is the first of `choose_annealing`.

    Args:
        hp: The hyperparameters of a trial.
        temperature: Range of numbers above 0.
        step: Factor above 1 between two temperatures of the range; if None,
            any temperature of the range may be drawn.
        name: Name of the hyperparameter.

    Raises:
        ValueError: If the range is not one of numbers above 0.

    Example:

    >>> choose_temperature(keras_tuner.HyperParameters(), (0.5, 2), step=2)
    0.5
    """
    return _number(
        hp, name, "temperature", temperature, validation.check_positive, step
    )


def choose_annealing(
    hp: keras_tuner.HyperParameters,
    steps: int,
    initial: float,
    final_temperature: Range = (0.1, 0.5),
    schedules: Sequence[str] = (FIXED, *SCHEDULES),
    layer_names: Sequence[str] | None = None,
) -> TemperatureAnnealing | None:
    """Chooses how the temperature changes while a trial trains.

    The names in the search are `"temperature_schedule"` and, only where this
    is not `"fixed"`, `"final_temperature"`.

    Args:
        hp: The hyperparameters of a trial.
        steps: Positive int, optimizer steps until the last temperature.
        initial: The first temperature, such as `choose_temperature` chose.
        final_temperature: Range of the last one, numbers above 0.
        schedules: Schedules to choose from, one or more of `"fixed"`,
            `"exponential"` and `"linear"`.
        layer_names: As in `TemperatureAnnealing`.

    Returns:
        A callback for `fit`; None where the temperature is fixed.

    Raises:
        ValueError: If an argument is not as described.

    Example:

    >>> hp = keras_tuner.HyperParameters()
    >>> annealing = choose_annealing(
    ...     hp, steps=100, initial=1.0, final_temperature=0.25,
    ...     schedules=("exponential",))
    >>> annealing.value(50)
    0.5
    """
    check_choices("schedules", schedules, (FIXED, *SCHEDULES))
    check_range(
        "final_temperature", final_temperature, validation.check_positive
    )
    schedule = _choice(hp, "temperature_schedule", schedules)
    moving = [name for name in schedules if name != FIXED]
    if not moving:
        return None
    with hp.conditional_scope("temperature_schedule", moving):
        final = _number(
            hp,
            "final_temperature",
            "final_temperature",
            final_temperature,
            validation.check_positive,
        )
    if schedule == FIXED:
        return None
    return TemperatureAnnealing(
        final=final,
        steps=steps,
        initial=initial,
        schedule=schedule,
        layer_names=layer_names,
    )


def choose_summary(
    hp: keras_tuner.HyperParameters,
    summaries: Sequence[str] = SUMMARIES,
    name: str = "summary",
) -> str:
    """Chooses the summary of a receptive field.

    Args:
        hp: The hyperparameters of a trial.
        summaries: Values to choose from, one or both of `"mean"` and `"last"`.
        name: Name of the hyperparameter.

    Returns:
        The `summary` of a `ReceptiveFieldRNN` or `RFCell`.

    Raises:
        ValueError: If `summaries` is not as described.
    """
    check_choices("summaries", summaries, SUMMARIES)
    return _choice(hp, name, summaries)


def choose_gated(
    hp: keras_tuner.HyperParameters,
    gated: Sequence[str] = GATED,
    name: str = "gated",
) -> str:
    """Chooses which states of the cell the gate multiplies.

    Args:
        hp: The hyperparameters of a trial.
        gated: Values to choose from, one or more of `"memory"`, `"output"` and
            `"all"`.
        name: Name of the hyperparameter.

    Returns:
        The argument `gated` of a `ReceptiveFieldRNN` or `RFCell`.

    Raises:
        ValueError: If `gated` is not as described.
    """
    check_choices("gated", gated, GATED)
    return _choice(hp, name, gated)


def choose_size_from(
    hp: keras_tuner.HyperParameters,
    size_from: Sequence[str] = SIZE_SOURCES,
    name: str = "size_from",
) -> str:
    """Chooses what the sizes of fields depend on.

    Args:
        hp: The hyperparameters of a trial.
        size_from: Values to choose from, one or both of `"input"` and
            `"field"`.
        name: Name of the hyperparameter.

    Returns:
        The argument `size_from` of a `ReceptiveFieldRNN` or `RFCell`.

    Raises:
        ValueError: If `size_from` is not as described.
    """
    check_choices("size_from", size_from, SIZE_SOURCES)
    return _choice(hp, name, size_from)


def choose_estimator(
    hp: keras_tuner.HyperParameters,
    estimators: Sequence[str] = ESTIMATORS,
    name: str = "estimator",
) -> str:
    """Chooses how decisions are learned.

    `"reinforce"` needs a `PolicyGradientModel`, which trains with the other
    estimators as a `keras.Model` does.

    Args:
        hp: The hyperparameters of a trial.
        estimators: Values to choose from, one or more of `"relaxed"`,
            `"straight_through"` and `"reinforce"`.
        name: Name of the hyperparameter.

    Returns:
        The `estimator` of a layer.

    Raises:
        ValueError: If `estimators` is not as described.
    """
    check_choices("estimators", estimators, ESTIMATORS)
    return _choice(hp, name, estimators)


def choose_exploration(
    hp: keras_tuner.HyperParameters,
    steps: int | None = None,
    exploration: Range | None = (0.1, 3.0),
    price: Range | None = (2e-3, 0.1),
    commitment: Range | None = (0.02, 0.5),
    layer_names: Sequence[str] | None = None,
) -> ExploreThenCommit:
    """Chooses how much decisions explore, pay and commit while a trial trains.

    The names in the search are `"exploration"`, `"price"` and `"commitment"`,
    on log scales; those that are None are left out. Each rises or falls when
    it does in `ExploreThenCommit`. Temperatures stay as they are; see
    `choose_annealing`.

    Args:
        hp: The hyperparameters of a trial.
        steps: Optimizer steps at which the schedule ends; those of the `fit`
            if None.
        exploration: Range of the first `entropy_weight`, numbers above 0; or a
            number, also 0, which is not searched; or None for the default of
            `ExploreThenCommit`.
        price: Range of the last `cost_weight`, given likewise.
        commitment: Range of the last `indecision_weight`, given likewise.
        layer_names: As in `ExploreThenCommit`.

    Returns:
        A callback for `fit`.

    Raises:
        ValueError: If an argument is not as described.

    Example:

    >>> hp = keras_tuner.HyperParameters()
    >>> explore = choose_exploration(hp, exploration=0.2, price=(0.01, 0.1),
    ...                              commitment=None)
    >>> explore.values(0.0)["entropy_weight"], hp.values
    (0.2, {'exploration': 0.2, 'price': 0.01})
    """
    given = {
        "entropy": ("exploration", exploration),
        "price": ("price", price),
        "indecision": ("commitment", commitment),
    }
    numbers = {
        name: _weight(hp, argument, weight)
        for name, (argument, weight) in given.items()
        if weight is not None
    }
    return ExploreThenCommit(
        steps=steps, temperature=None, layer_names=layer_names, **numbers
    )


def choose_target(
    hp: keras_tuner.HyperParameters,
    target: Range = (0.05, 0.5),
    step: float | None = None,
    name: str = "target",
) -> float:
    """Chooses the target of a layer: a mean size, or a share.

    Args:
        hp: The hyperparameters of a trial.
        target: Range of numbers of at least 0: of sizes from 1 to S, of gates
            and kept steps from 0 to 1.
        step: Distance between two targets of the range; if None, any may be
            drawn.
        name: Name of the hyperparameter.

    Raises:
        ValueError: If the range is not one of such numbers.
    """
    check = validation.check_not_negative
    return _number(hp, name, "target", target, check, step, "linear")


def choose_openness_target(
    hp: keras_tuner.HyperParameters,
    openness_target: Range = (0.05, 0.5),
    step: float | None = None,
    name: str = "openness_target",
) -> float:
    """Chooses the largest share of open gates that costs nothing.

    Args:
        hp: The hyperparameters of a trial.
        openness_target: Range of numbers above 0 and up to 1.
        step: Distance between two shares of the range; if None, any may be
            drawn.
        name: Name of the hyperparameter.

    Raises:
        ValueError: If the range is not one of such numbers.
    """
    check = validation.check_positive_share
    return _number(
        hp, name, "openness_target", openness_target, check, step, "linear"
    )


def choose_sparsity_weight(
    hp: keras_tuner.HyperParameters,
    sparsity_weight: Range = (1e-3, 1.0),
    step: float | None = None,
    name: str = "sparsity_weight",
) -> float:
    """Chooses the weight of the cost of open gates, on a log scale.

    Args:
        hp: The hyperparameters of a trial.
        sparsity_weight: Range of numbers above 0; or the number 0.
        step: Factor above 1 between two weights; if None, any may be drawn.
        name: Name of the hyperparameter.

    Raises:
        ValueError: If the range is not one of numbers above 0.
    """
    return _weight(hp, "sparsity_weight", sparsity_weight, step, name)


def check_range(
    name: str, value: Any, check: Callable[[str, Any], Number]
) -> tuple[Number, Number]:
    """Refuses anything but a number or `(low, high)` that pass a check."""
    if not isinstance(value, (tuple, list)):
        number = check(name, value)
        return number, number
    if len(value) != 2:
        raise ValueError(
            f"Argument `{name}` must be a number or a range (low, high). "
            f"Received: {name}={value!r}"
        )
    low, high = (check(name, number) for number in value)
    if low > high:
        raise ValueError(
            f"Argument `{name}` must be a range (low, high) with low up to "
            f"high. Received: {name}={value!r}"
        )
    return low, high


def check_choices(name: str, value: Any, allowed: Sequence[str]) -> None:
    """Refuses anything but one or more of the allowed names, each once."""
    fits = isinstance(value, (tuple, list)) and value
    if not fits or len(set(value)) < len(value) or not set(value) <= {*allowed}:
        raise ValueError(
            f"Argument `{name}` must hold some of {tuple(allowed)}, each once. "
            f"Received: {name}={value!r}"
        )


def _choice(
    hp: keras_tuner.HyperParameters, name: str, values: Sequence[str]
) -> str:
    if len(values) == 1:
        return hp.Fixed(name, values[0])
    return hp.Choice(name, list(values))


def _weight(
    hp: keras_tuner.HyperParameters,
    argument: str,
    weight: Range,
    step: float | None = None,
    name: str | None = None,
) -> float:
    """The weight of a loss, which may be 0 only if it is not searched."""
    ranges = isinstance(weight, (tuple, list))
    check = (
        validation.check_positive if ranges else validation.check_not_negative
    )
    return _number(hp, name or argument, argument, weight, check, step)


def _number(
    hp: keras_tuner.HyperParameters,
    name: str,
    argument: str,
    value: Range,
    check: Callable[[str, Any], float],
    step: float | None = None,
    sampling: str = "log",
) -> float:
    low, high = check_range(argument, value, check)
    if step is not None:
        validation.check_positive("step", step)
        if sampling == "log" and step <= 1:
            raise ValueError(
                "Argument `step` is a factor and must be above 1. "
                f"Received: step={step!r}"
            )
    if low == high:
        return hp.Fixed(name, low)
    return hp.Float(name, low, high, step=step, sampling=sampling)


def _check_sizes(
    max_size: Range, sequence_length: int | None
) -> tuple[int, int]:
    low, high = check_range("max_size", max_size, validation.check_positive_int)
    if sequence_length is not None:
        validation.check_positive_int("sequence_length", sequence_length)
        if high > sequence_length:
            raise ValueError(
                "Argument `max_size` must not exceed the length of the "
                f"sequences, sequence_length={sequence_length}. "
                f"Received: max_size={max_size!r}"
            )
    return low, high
