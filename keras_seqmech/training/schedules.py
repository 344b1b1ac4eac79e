"""Numbers that change during training: scalar variables of layers."""

import math
import warnings
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple
from typing import TypeAlias

import keras

from keras_seqmech.core import checks
from keras_seqmech.core.decisions.learning import Ramp
from keras_seqmech.core.graph import sublayers

# From the share of the steps made to a value.
Function: TypeAlias = Ramp | Callable[[float], float]


class Scheduled(NamedTuple):
    """A variable, its name in `numbers`, and the function that it follows.

    While it `is_held` it keeps its value.
    """

    name: str
    variable: keras.Variable
    function: Function
    is_held: Callable[[], bool] = lambda: False

    def value(self, share: float) -> float:
        """The value at a share of the steps, which is finite."""
        value = self.function(share)
        return checks.check_finite(f"numbers[{self.name!r}]", value)


def as_ramp(fields: Any, least: float = -math.inf) -> Ramp | None:
    """The ramp with these fields, or None if they describe no ramp.

    Args:
        fields: The fields of a `Ramp`.
        least: Least value that the ramp may have.
    """
    try:
        if isinstance(fields, str):  # A sequence of digits would pass.
            return None
        ramp = Ramp(*map(float, fields))
    except (TypeError, ValueError, OverflowError):
        return None
    fits = (
        0 <= ramp.begin < ramp.end <= 1
        and 0 < ramp.power
        and least <= min(ramp.initial, ramp.final)
        and all(map(math.isfinite, ramp))
    )
    return ramp if fits else None


class Schedule(keras.callbacks.Callback):
    r"""Changes scalar variables of a model's layers, step by step.

    Before each training step, the non-trainable scalar variables of each name
    in `numbers` are set to the value of its function at the share

    $$s = \min(1, i / N)$$

    with i the steps that the optimizer has made and N `steps`. Such variables
    are the `temperature` of relaxed choices, and the `penalty` and the
    `attention_dropout` of `LastAttentionPooling`.

    The values depend on `model.optimizer.iterations` alone: a run that is
    killed and resumed with `keras.callbacks.BackupAndRestore` continues the
    schedule, a second `fit` goes on where the first ended, and nothing is
    traced again. With `steps_per_execution=k` the values change every k
    steps. A model that is built by its first step makes that step with its
    layers' initial values. Layers with `trainable=False` stay as they are.

    The values at the end of an epoch are added to the logs and so to
    `history`, under the names in `numbers`; a metric of that name is left as
    it is. List this callback before those that save models or write logs.

    What a variable adds to the loss, it also adds to `val_loss`: under a
    growing `penalty` epochs cannot be compared, and `EarlyStopping` or
    `ModelCheckpoint(save_best_only=True)` prefer the early ones. Give
    `LastAttentionPooling` `attention_at_inference=False` there: validation
    then uses neither attention nor penalty.

    Args:
        numbers: Dict from the names of variables to a `Ramp`, a tuple
            `(initial, final[, begin, end[, power]])` of its fields, or a
            function from s to the value. A name such as `"penalty"` is that of
            all layers; `"pooling/penalty"`, the end of a variable's `path`,
            is that of the layers of this name.
        steps: Positive int, N, counted from the optimizer's first step; the
            steps of the first `fit` if None. For another model take another
            callback.

    Raises:
        ValueError: If an argument is not allowed; at the start of training, or
            after its first step where the model is not built before, if there
            is no such variable, or the first or last value does not meet the
            `constraint` of a variable; if `steps` is None and the number of
            steps is not known; if a function returns what is not finite.

    Warns: If the schedule is over before it begins, because the optimizer has
    made as many steps in an earlier `fit`; once, if something else sets the
    variables too; and once, if a `fit` ends before their last values.

    Example:

    >>> schedule = Schedule(
    ...     {"temperature": (1.0, 0.5), "penalty": lambda share: share**2})
    >>> schedule.values(0.5)
    {'temperature': 0.75, 'penalty': 0.25}
    """

    def __init__(self, numbers: Mapping[str, Any], steps: int | None = None):
        super().__init__()
        if steps is not None:
            steps = checks.check_positive_int("steps", steps)
        self.numbers = _functions(numbers)
        self.steps = steps
        self.total: int | None = None
        self.scheduled: list[Scheduled] = []
        # What the variables were set to last, with their names in `numbers`.
        self._set: list[tuple[str, keras.Variable, float]] = []
        # Whether the first step of this `fit` has not ended.
        self.is_beginning = True
        self._steps_before = 0
        self._has_warned_of_change = self._has_warned_of_end = False

    def values(self, share: float) -> dict[str, float]:
        """The values at a share of the steps, by name of the variable."""
        return {
            name: function(share) for name, function in self.numbers.items()
        }

    def on_train_begin(self, logs: dict | None = None) -> None:
        self.is_beginning = True
        self._find(required=self.model.built)
        if self.total is None:
            self.total = self.steps or self._steps_of_fit()
            made = self.steps_made()
            if made and made >= self.total:
                warnings.warn(
                    f"The schedule of `{type(self).__name__}` is over before "
                    f"it begins: it has {self.total} steps, counted from the "
                    f"optimizer's first, and the optimizer has made {made}. "
                    "Give `steps`, the number of the last one, to schedule a "
                    "later `fit`.",
                    UserWarning,
                    stacklevel=2,
                )
        self._set_values()

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        # With an optimizer that has made no step yet, `initial_epoch` says
        # that there are fewer epochs, not that some were trained.
        if self.is_beginning and epoch and not self.steps:
            if not self.steps_made():
                self.total = self._steps_of_fit(first_epoch=epoch)

    def on_train_batch_begin(
        self, batch: int, logs: dict | None = None
    ) -> None:
        if self.is_beginning:  # A backup may have been restored.
            self._steps_before = self.steps_made()
        self._set_values()

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        if not self.is_beginning:
            return
        self.is_beginning = False
        if (
            not self.steps
            and self.steps_made() - self._steps_before > batch + 1
        ):
            self._refuse_unknown_steps()
        # The step may have built layers.
        self._find(required=True)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        self._warn_if_changed()
        self._set_values()
        if logs is not None:
            for name, _, value in self._set:
                logs.setdefault(name, value)
            for name, variable, _, is_held in self.scheduled:
                if is_held():
                    value = float(keras.ops.convert_to_numpy(variable))
                    logs.setdefault(name, value)

    def on_train_end(self, logs: dict | None = None) -> None:
        share, reached = self.share(), {}
        for name, _, function, is_held in self.scheduled:
            value, final = function(share), function(1.0)
            if value != final and not is_held():
                reached[name] = f"`{name}` {value:.4g}, not {final:g}"
        if not reached or self._has_warned_of_end:
            return
        self._has_warned_of_end = True
        warnings.warn(
            f"`{type(self).__name__}` has not reached its end: the optimizer "
            f"has made {self.steps_made()} of {self.total} steps, so that "
            f"there is {'; '.join(reached.values())}. Inference, as by hard "
            "decisions, may differ from what was trained. Another `fit` with "
            "this callback goes on from here. To end earlier, give `steps`: "
            "the number that will be made, without batches that a loss scaler "
            "skips, that only accumulate gradients, or that come after "
            "`EarlyStopping`.",
            UserWarning,
            stacklevel=2,
        )

    def steps_made(self) -> int:
        """The steps that the optimizer has made."""
        # A variable of several replicas has no int.
        return int(keras.ops.convert_to_numpy(self.model.optimizer.iterations))

    def share(self) -> float:
        """The share of the schedule that the optimizer has gone through."""
        return min(1.0, self.steps_made() / (self.total or 1))

    def _steps_of_fit(self, first_epoch: int = 0) -> int:
        steps = (self.params or {}).get("steps")
        if not steps:
            self._refuse_unknown_steps()
        optimizer = self.model.optimizer
        optimizer = getattr(optimizer, "inner_optimizer", optimizer)
        accumulated = optimizer.gradient_accumulation_steps or 1
        epochs = self.params["epochs"] - first_epoch
        return max(1, steps * epochs // accumulated)

    def _refuse_unknown_steps(self) -> None:
        raise ValueError(
            f"Argument `steps` of `{type(self).__name__}` must be given where "
            "the number of optimizer steps of an epoch is not known: "
            "`steps=epochs * batches` with a generator, and more where a batch "
            "has several steps. Received: steps=None"
        )

    def _set_values(self) -> None:
        share = self.share()
        self._set = []
        for scheduled in self.scheduled:
            if scheduled.is_held():
                continue
            value = scheduled.value(share)
            scheduled.variable.assign(value)
            self._set.append((scheduled.name, scheduled.variable, value))

    def _warn_if_changed(self) -> None:
        """Warns, once, if the variables are not what this has made them."""
        changed = {
            name
            for name, variable, value in self._set
            if round_to_dtype(variable, value)
            != round_to_dtype(variable, variable)
        }
        if changed and not self._has_warned_of_change:
            self._has_warned_of_change = True
            warnings.warn(
                f"Something else sets the variables {sorted(changed)} that "
                f"`{type(self).__name__}` schedules, such as another "
                "`Schedule`, or an `ExploreThenCommit` without "
                "`temperature=None`",
                UserWarning,
                stacklevel=2,
            )

    def _find(self, required: bool) -> None:
        """Finds the variables; raises if they are required and missing."""
        layers = list(sublayers(self.model))
        frozen = {
            id(variable)
            for layer in layers
            if not layer.trainable
            for variable in layer.variables
        }
        found: dict[int, Scheduled] = {}
        for layer in layers:
            for scheduled in self._scheduled_in(layer):
                if id(scheduled.variable) not in frozen:
                    found.setdefault(id(scheduled.variable), scheduled)
        self.scheduled = list(found.values())
        if not required:
            return
        self._check_found()
        for scheduled in self.scheduled:
            for share in (0.0, 1.0):
                _check_allowed(scheduled.variable, scheduled.value(share))

    def _scheduled_in(self, layer: keras.Layer) -> list[Scheduled]:
        """The variables of a layer, with the functions that they follow."""
        return [
            Scheduled(name, variable, function)
            for variable in _scalars(layer)
            for name, function in self.numbers.items()
            if f"/{variable.path}".endswith(f"/{name}")
        ]

    def _check_found(self) -> None:
        """Refuses names that lead to no variable."""
        names = {scheduled.name for scheduled in self.scheduled}
        if names != set(self.numbers):
            paths = [variable.path for variable in _scalars(self.model)]
            raise ValueError(
                "Argument `numbers` must name non-trainable scalar variables "
                f"of layers that are not frozen; there are: {paths}. "
                f"Received: numbers of {sorted(self.numbers)}"
            )


def _functions(numbers: Any) -> dict[str, Function]:
    """The functions that an argument `numbers` describes, by name."""
    if not isinstance(numbers, Mapping) or not numbers:
        raise ValueError(
            "Argument `numbers` must be a dict from names of variables to "
            f"ramps or functions, not empty. Received: numbers={numbers!r}"
        )
    functions: dict[str, Function] = {}
    for name, value in numbers.items():
        is_function = callable(value) and not isinstance(value, Ramp)
        function = value if is_function else as_ramp(value)
        if not isinstance(name, str) or function is None:
            raise ValueError(
                "Argument `numbers` must hold functions, or (initial, final, "
                "begin, end, power) with finite numbers, 0 <= begin < end <= 1 "
                "and a power above 0, of which the last three may be missing. "
                f"Received: numbers={{{name!r}: {value!r}}}"
            )
        functions[name] = function
    return functions


def _scalars(layer: keras.Layer) -> list[keras.Variable]:
    """The variables that may be scheduled: floats, not seeds or metrics."""
    return [
        variable
        for variable in layer.non_trainable_weights
        if variable.shape == () and keras.backend.is_float_dtype(variable.dtype)
    ]


def round_to_dtype(variable: keras.Variable, value: Any) -> float:
    """Rounds a value to the dtype of a variable."""
    value = keras.ops.cast(value, variable.dtype)
    # NumPy has no bfloat16.
    return float(keras.ops.convert_to_numpy(keras.ops.cast(value, "float32")))


def _check_allowed(variable: keras.Variable, value: float) -> None:
    """Refuses what the constraint would change, and temperatures of 0."""
    held = allowed = round_to_dtype(variable, value)
    if variable.constraint is not None:
        held_value = keras.ops.cast(value, variable.dtype)
        allowed = round_to_dtype(variable, variable.constraint(held_value))
    # Scores are divided by it.
    is_divisor = variable.name == "temperature"
    if held != allowed or (is_divisor and held <= 0):
        raise ValueError(
            f"Argument `numbers` must hold values that `{variable.path}` may "
            "have: those that meet its constraint, and of a temperature those "
            f"above 0. Received: {value!r} for {variable.name!r}"
        )
