"""Callbacks that change scalar variables of layers in training."""

import warnings
from collections.abc import Sequence

import keras

from keras_seqmech.layers import validation
from keras_seqmech.layers.sublayers import sublayers
from keras_seqmech.training.distillation import DistillationModel

SCHEDULES = ("exponential", "linear")


class TemperatureAnnealing(keras.callbacks.Callback):
    r"""Lowers (or raises) the temperature of relaxed choices step by step.

    Before each training step all non-trainable variables `temperature` of the
    model are set, after i optimizer steps, to

    $$\tau_i = \tau_0 (\tau_N / \tau_0)^{p} \quad (exponential), \qquad
      \tau_i = \tau_0 + (\tau_N - \tau_0)\, p \quad (linear), \qquad
      p = \min(1, i / N)$$

    The value depends on `model.optimizer.iterations` alone. So a second call
    of `fit` continues where the first ended, a run that is killed and resumed
    with `keras.callbacks.BackupAndRestore` continues the schedule, and
    nothing is retraced or recompiled. With `steps_per_execution=k` the value
    changes every k steps.

    The temperature reached at the end of an epoch is added to the logs and so
    to `history`: as `"temperature"`, or with `layer_names=["a", ...]` as
    `"a/temperature"`. List this callback before those that save models or
    write logs. The frozen parts of a `DistillationModel` stay as they are.
    `ExploreThenCommit` sets temperatures too: give it `temperature=None`
    beside this one.

    Args:
        final: Positive float, the temperature after `steps` steps and from
            then on.
        steps: Positive int, N, counted in optimizer steps.
        initial: Positive float, the temperature of the first step.
        schedule: `"exponential"` (a constant factor a step) or `"linear"`.
        layer_names: Names of the layers to change, at any depth, or of
            models and wrappers around them; all that have a temperature if
            None.

    Warns: If something else sets a temperature during training.

    Raises:
        ValueError: At the start of training, when the model has no layer with
            a temperature (a model that is not built yet may have none), or
            none under a name in `layer_names`.

    Example:

    >>> annealing = TemperatureAnnealing(final=0.1, steps=1000)
    >>> round(annealing.value(500), 3)
    0.316
    """

    def __init__(
        self,
        final: float,
        steps: int,
        initial: float = 1.0,
        schedule: str = "exponential",
        layer_names: Sequence[str] | None = None,
    ):
        validation.check_choice("schedule", schedule, SCHEDULES)
        check_layer_names(layer_names)
        super().__init__()
        self.final = validation.check_positive("final", final)
        self.steps = validation.check_positive_int("steps", steps)
        self.initial = validation.check_positive("initial", initial)
        self.schedule = schedule
        self.layer_names = layer_names
        self.log_name = _log_name("temperature", layer_names)
        self._variables: list[keras.Variable] = []
        # What the variables were set to last, in this `fit`, as they hold it.
        self._last: list[float] = []
        self._has_warned = False

    def value(self, step: int) -> float:
        """The temperature after `step` optimizer steps."""
        progress = min(1.0, step / self.steps)
        if self.schedule == "linear":
            return self.initial + (self.final - self.initial) * progress
        return self.initial * (self.final / self.initial) ** progress

    def on_train_begin(self, logs: dict | None = None) -> None:
        self._variables = _find(self.model, "temperature", self.layer_names)
        self._last, self._has_warned = [], False

    def on_train_batch_begin(
        self, batch: int, logs: dict | None = None
    ) -> None:
        self._set_temperature()

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        temperature = self._set_temperature()
        if logs is not None:
            logs[self.log_name] = temperature

    def _set_temperature(self) -> float:
        self._warn_if_changed()
        temperature = self.value(optimizer_steps(self.model))
        for variable in self._variables:
            variable.assign(temperature)
        self._last = self._temperatures()
        return temperature

    def _temperatures(self) -> list[float]:
        return [float(keras.ops.convert_to_numpy(x)) for x in self._variables]

    def _warn_if_changed(self) -> None:
        """Warns, once, if the variables are not what this has made them."""
        if not self._last or self._has_warned:
            return
        found = self._temperatures()
        if found != self._last:
            warnings.warn(
                "Something else sets the temperatures that "
                "`TemperatureAnnealing` anneals, such as an "
                "`ExploreThenCommit` without `temperature=None`. Received: "
                f"temperatures {found} where {self._last} was set",
                UserWarning,
                stacklevel=2,
            )
            self._has_warned = True


class Curriculum(keras.callbacks.Callback):
    r"""Changes a named scalar variable of a model's layers, epoch by epoch.

    At the beginning of epoch i, counted from 0, all non-trainable scalar
    variables `target` of the model are set to

    $$v_i = v_0 + (v_N - v_0) \min(1, (i / N)^\eta)$$

    such as the `penalty` or the `attention_dropout` of
    `LastAttentionPooling`, or the `gradient_weight` of a
    `GradientDirectedModel`. Several curricula may run side by side. The
    frozen parts of a `DistillationModel`, teacher and classifier, stay as
    they are.

    The value depends on the epoch alone, as Keras counts it. So
    `fit(initial_epoch=...)` and a run that is killed and resumed with
    `keras.callbacks.BackupAndRestore` continue the curriculum, and nothing is
    retraced or recompiled.

    The value an epoch ran with is added to the logs and so to `history`:
    under the name `target`, or with `layer_names=["a", ...]` under
    `"a/<target>"`, so that curricula of several layers are told apart. List
    this callback before those that save models or write logs.

    What a variable adds to the loss it adds to `val_loss` too: under a growing
    `penalty` epochs cannot be compared, and `EarlyStopping` or
    `ModelCheckpoint(save_best_only=True)` prefer the early ones. Give
    `LastAttentionPooling` `attention_at_inference=False` there: validation
    then uses neither attention nor penalty.

    Args:
        target: Name of the variable.
        max_epochs: Positive number, N: the first epoch with the value
            `final`, and all after it.
        eta: Positive float; above 1, the value changes slowly at first.
        initial: Finite float, the value of the first epoch.
        final: Finite float, the value from epoch N on; may be the smaller.
        layer_names: Names of the layers to change, at any depth, or of
            models and wrappers around them; all that have the variable if
            None.

    Raises:
        ValueError: At the start of training, when the model has no such
            variable (the error lists what there is; a model that is not built
            yet may have none), or none under a name in `layer_names`, or when
            `initial` or `final` does not meet the `constraint` of a variable.

    Example:

    >>> curriculum = Curriculum("penalty", max_epochs=10, eta=2)
    >>> [round(curriculum.value(epoch), 2) for epoch in (0, 5, 10, 20)]
    [0.0, 0.25, 1.0, 1.0]

    Source: "Analyzing the Learnability and Representability of Recurrent
    Architectures", sections 2.2.5 (eta = 4) and 2.2.6 (eta = 2).
    """

    def __init__(
        self,
        target: str,
        max_epochs: float,
        eta: float = 1.0,
        initial: float = 0.0,
        final: float = 1.0,
        layer_names: Sequence[str] | None = None,
    ):
        if not isinstance(target, str) or not target:
            raise ValueError(
                "Argument `target` must be the name of a variable. "
                f"Received: target={target!r}"
            )
        check_layer_names(layer_names)
        super().__init__()
        self.target = target
        self.max_epochs = validation.check_positive("max_epochs", max_epochs)
        self.eta = validation.check_positive("eta", eta)
        self.initial = validation.check_finite("initial", initial)
        self.final = validation.check_finite("final", final)
        self.layer_names = layer_names
        self.log_name = _log_name(target, layer_names)
        self._variables: list[keras.Variable] = []

    def value(self, epoch: int) -> float:
        """The value in an epoch, counted from 0."""
        progress = min(1.0, epoch / self.max_epochs) ** self.eta
        return self.initial + (self.final - self.initial) * progress

    def on_train_begin(self, logs: dict | None = None) -> None:
        candidates = _scalars(self.model)
        names = sorted({variable.name for variable in candidates})
        if self.target not in names:
            _check_built(self.model)
            raise ValueError(
                "Argument `target` must name a non-trainable scalar variable "
                f"of a layer of the model; there are: {names}. "
                f"Received: target={self.target!r}"
            )
        self._variables = _find(self.model, self.target, self.layer_names)
        for name in ("initial", "final"):
            for variable in self._variables:
                _check_constraint(name, getattr(self, name), variable)

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        for variable in self._variables:
            variable.assign(self.value(epoch))

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        if logs is not None:
            logs[self.log_name] = self.value(epoch)


def check_layer_names(layer_names: Sequence[str] | None) -> None:
    """Refuses what is not a sequence of names, nor None."""
    if layer_names is not None and (
        isinstance(layer_names, str) or not layer_names
    ):
        raise ValueError(
            "Argument `layer_names` must be a non-empty sequence of layer "
            f"names, or None. Received: layer_names={layer_names!r}"
        )


def _check_constraint(
    name: str, value: float, variable: keras.Variable
) -> None:
    """Refuses what the constraint of the variable would change."""
    if variable.constraint is None:
        return
    allowed = float(
        variable.constraint(keras.ops.convert_to_tensor(value, variable.dtype))
    )
    if allowed != keras.ops.cast(value, variable.dtype):
        raise ValueError(
            f"Argument `{name}` must be a value that `{variable.path}` may "
            f"have (the nearest is {allowed}). Received: {name}={value!r}"
        )


def _log_name(name: str, layer_names: Sequence[str] | None) -> str:
    """The key in `history`: the name, prefixed by the first layer's name."""
    return name if layer_names is None else f"{next(iter(layer_names))}/{name}"


def _check_built(model: keras.Model) -> None:
    if not model.built:
        raise ValueError(
            "The model must be built before `fit`, for this callback to find "
            "the variables of its layers: call it once on a batch of inputs. "
            f"Received: model {model.name!r}, which is not built"
        )


def _scalars(model: keras.Model) -> list[keras.Variable]:
    """The variables a callback may set: floats, not seeds or metrics."""
    frozen = set()
    if isinstance(model, DistillationModel):
        frozen = {id(v) for part in model.frozen_parts for v in part.variables}
    return [
        variable
        for variable in model.non_trainable_variables
        if variable.shape == ()
        and keras.backend.is_float_dtype(variable.dtype)
        and id(variable) not in frozen
    ]


def _find(
    model: keras.Model, name: str, layer_names: Sequence[str] | None
) -> list[keras.Variable]:
    """The scalars with a name, in the named layers or in all."""
    found = {id(v): v for v in _scalars(model) if v.name == name}
    # A path knows the names a variable was built under, not those of models
    # that took it in later.
    owners = {key: set(v.path.split("/")[:-1]) for key, v in found.items()}
    for part in sublayers(model):
        for variable in part.variables:
            owners.get(id(variable), set()).add(part.name)
    wanted = set(layer_names or ())
    if not found or not wanted <= set().union(*owners.values()):
        _check_built(model)
        raise ValueError(
            f"Argument `layer_names` must name layers with a variable "
            f"`{name}`, or be None in a model that has one. Variables "
            f"there are: {[v.path for v in found.values()]}. "
            f"Received: layer_names={layer_names!r}"
        )
    return [
        variable
        for key, variable in found.items()
        if not wanted or wanted & owners[key]
    ]


def optimizer_steps(model: keras.Model) -> int:
    """How many steps the optimizer of a compiled model has made."""
    # A variable of several replicas has no int.
    return int(keras.ops.convert_to_numpy(model.optimizer.iterations))
