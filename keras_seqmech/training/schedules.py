"""Callbacks that change a layer's numbers while it trains."""

from collections.abc import Sequence

import keras

from keras_seqmech.layers import validation

SCHEDULES = ("exponential", "linear")


class TemperatureAnnealing(keras.callbacks.Callback):
    r"""Lowers (or raises) the temperature of relaxed choices step by step.

    Before each training step all non-trainable variables `temperature` of the
    model are set, after i optimizer steps, to

    $$\tau_i = \tau_0 (\tau_N / \tau_0)^{p} \quad (exponential), \qquad
      \tau_i = \tau_0 + (\tau_N - \tau_0)\, p \quad (linear), \qquad
      p = \min(1, i / N)$$

    The value depends on `model.optimizer.iterations` alone. So a second call
    of `fit` goes on where the first ended, a run that is killed and resumed
    with `keras.callbacks.BackupAndRestore` continues the schedule, and
    nothing is retraced or recompiled. With `steps_per_execution=k` the value
    changes every k steps.

    The temperature reached at the end of an epoch is put into the logs as
    `"temperature"` and so into `history`; list this callback before those
    that save models or write logs.

    Args:
        final: Positive float, the temperature after `steps` steps and from
            then on.
        steps: Positive int, N, counted in optimizer steps.
        initial: Positive float, the temperature of the first step.
        schedule: `"exponential"` (a constant factor a step) or `"linear"`.
        layer_names: Names of the layers to change, at any depth, as they
            stand in the variables' paths; all that have a temperature if None.

    Raises:
        ValueError: At the start of training, when the model has no layer with
            a temperature, or none under a name in `layer_names`.

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
        if layer_names is not None and (
            isinstance(layer_names, str) or not layer_names
        ):
            raise ValueError(
                "Argument `layer_names` must be a non-empty sequence of layer "
                f"names, or None. Received: layer_names={layer_names!r}"
            )
        super().__init__()
        self.final = validation.check_positive("final", final)
        self.steps = validation.check_positive_int("steps", steps)
        self.initial = validation.check_positive("initial", initial)
        self.schedule = schedule
        self.layer_names = layer_names
        self._variables = []

    def value(self, step: int) -> float:
        """The temperature after `step` optimizer steps."""
        progress = min(1.0, step / self.steps)
        if self.schedule == "linear":
            return self.initial + (self.final - self.initial) * progress
        return self.initial * (self.final / self.initial) ** progress

    def on_train_begin(self, logs=None):
        found = [
            variable
            for variable in self.model.non_trainable_variables
            if variable.name == "temperature"
        ]
        owners = [set(v.path.split("/")[:-1]) for v in found]
        wanted = set(self.layer_names or ())
        if not found or not wanted <= set().union(*owners):
            raise ValueError(
                "Argument `layer_names` must name layers with a variable "
                "`temperature`, or be None in a model that has one. Variables "
                f"there are: {[v.path for v in found]}. "
                f"Received: layer_names={self.layer_names!r}"
            )
        self._variables = [
            variable
            for variable, names in zip(found, owners)
            if not wanted or wanted & names
        ]

    def on_train_batch_begin(self, batch, logs=None):
        self._set_temperature()

    def on_epoch_end(self, epoch, logs=None):
        temperature = self._set_temperature()
        if logs is not None:
            logs["temperature"] = temperature

    def _set_temperature(self) -> float:
        temperature = self.value(int(self.model.optimizer.iterations))
        for variable in self._variables:
            variable.assign(temperature)
        return temperature
