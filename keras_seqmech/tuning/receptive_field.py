"""A search over adaptive receptive fields, for any model that has them."""

import logging
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import keras
import keras_tuner
import numpy as np

from keras_seqmech.layers import validation
from keras_seqmech.training.schedules import SCHEDULES
from keras_seqmech.training.schedules import TemperatureAnnealing
from keras_seqmech.tuning import hyperparameters
from keras_seqmech.tuning.hyperparameters import FIXED
from keras_seqmech.tuning.hyperparameters import SUMMARIES
from keras_seqmech.tuning.hyperparameters import Range

_logger = logging.getLogger(__name__)


class ReceptiveFieldHyperModel(keras_tuner.HyperModel):
    """Searches the receptive fields of a model; for any KerasTuner tuner.

    Args:
        build_model: Function `(hp, field)` that returns a compiled model.
            `field` is a dict with `"max_size"`, `"summary"`, `"estimator"`
            and `"temperature"`, arguments of `ReceptiveFieldRNN` and
            `RFCell`; it may search more with `hp`.
        max_size: Range of S: `(low, high)`, or an int not to be searched.
        temperature: Range of the temperature; of the first one if it is
            annealed.
        final_temperature: Range of the last temperature if it is annealed.
        schedules: Of `"fixed"`, `"exponential"` and `"linear"`.
        annealing_steps: Optimizer steps until the last temperature; needed
            if `schedules` has others than `"fixed"`.
        summaries: Of `"mean"` and `"last"`.
        estimators: Of `"relaxed"`, `"straight_through"` and `"reinforce"`;
            the last needs a `PolicyGradientModel`.
        sequence_length: Steps of the longest sequence, which no S may exceed;
            None if not known.
        size_step: Between two S of the range.
        temperature_step: Factor above 1 between two temperatures; any of the
            range if None.
        name: Of the hypermodel.
        tunable: As in `keras_tuner.HyperModel`.

    A fixed temperature is an argument of the layer; an annealed one is changed
    by a `TemperatureAnnealing` that `fit` puts before all other callbacks.
    Within a trial nothing is retraced. With `Hyperband`, a trial that is
    continued starts from the best epoch of the one before, with its optimizer
    state and so its temperature (if `build_model` returns a built model).

    A trial fails, and ends, when its loss becomes NaN or infinite, and fails
    if a weight is so in the end. The search continues; KerasTuner ends it
    after `max_consecutive_failed_trials` in a row.

    Raises:
        ValueError: If an argument is not as described: a temperature of 0, an
            S over `sequence_length`.

    Example:

    >>> def build_model(hp, field):
    ...     units = hp.Int("units", 8, 16)
    ...     layer = ReceptiveFieldRNN(keras.layers.GRUCell(units), **field)
    ...     layers = [keras.Input((20, 5)), layer, keras.layers.Dense(1)]
    ...     model = keras.Sequential(layers)
    ...     model.compile("adam", loss="mse")
    ...     return model
    >>> hypermodel = ReceptiveFieldHyperModel(
    ...     build_model, max_size=(2, 6), temperature=(0.2, 1.0))
    >>> hp = keras_tuner.HyperParameters()
    >>> model = hypermodel.build(hp)
    >>> sorted(hp.values)
    ['estimator', 'max_size', 'summary', 'temperature', 'temperature_schedule',
     'units']
    """

    def __init__(
        self,
        build_model: Callable[[Any, dict[str, Any]], keras.Model],
        max_size: Range = (1, 8),
        temperature: Range = (0.1, 2.0),
        final_temperature: Range = (0.1, 0.5),
        schedules: Sequence[str] = (FIXED,),
        annealing_steps: int | None = None,
        summaries: Sequence[str] = SUMMARIES,
        estimators: Sequence[str] = ("relaxed",),
        sequence_length: int | None = None,
        size_step: int = 1,
        temperature_step: float | None = None,
        name: str | None = None,
        tunable: bool = True,
    ):
        if not callable(build_model):
            raise ValueError(
                "Argument `build_model` must be a function (hp, field) that "
                "returns a compiled model. "
                f"Received: build_model={build_model!r}"
            )
        super().__init__(name=name, tunable=tunable)
        hyperparameters.check_choices(
            "schedules", schedules, (FIXED, *SCHEDULES)
        )
        if set(schedules) != {FIXED}:
            validation.check_positive_int("annealing_steps", annealing_steps)
        self.build_model = build_model
        self.max_size = max_size
        self.temperature = temperature
        self.final_temperature = final_temperature
        self.schedules = schedules
        self.annealing_steps = annealing_steps
        self.summaries = summaries
        self.estimators = estimators
        self.sequence_length = sequence_length
        self.size_step = size_step
        self.temperature_step = temperature_step
        # Every range is checked now, not in the first trial.
        self.choose(keras_tuner.HyperParameters())

    def choose(
        self, hp: keras_tuner.HyperParameters
    ) -> tuple[dict[str, Any], TemperatureAnnealing | None]:
        """The arguments of the layer, and the callback that anneals or None.

        Args:
            hp: The hyperparameters of a trial.
        """
        field: dict[str, Any] = {
            "max_size": hyperparameters.choose_max_size(
                hp, self.max_size, self.sequence_length, self.size_step
            ),
            "summary": hyperparameters.choose_summary(hp, self.summaries),
            "estimator": hyperparameters.choose_estimator(hp, self.estimators),
            "temperature": hyperparameters.choose_temperature(
                hp, self.temperature, self.temperature_step
            ),
        }
        annealing = hyperparameters.choose_annealing(
            hp,
            # Without other schedules than a fixed one, steps do not matter.
            self.annealing_steps or 1,
            field["temperature"],
            self.final_temperature,
            self.schedules,
        )
        return field, annealing

    def build(self, hp: keras_tuner.HyperParameters) -> keras.Model:
        """Builds the model of a trial."""
        field, _ = self.choose(hp)
        model = self.build_model(hp, field)
        if isinstance(model, keras.Model) and model.built:
            _build_optimizer(model)
        return model

    def fit(
        self,
        hp: keras_tuner.HyperParameters,
        model: keras.Model,
        *args: Any,
        callbacks: Any = (),
        **kwargs: Any,
    ) -> keras.callbacks.History:
        """Trains the model of a trial.

        Args:
            hp: The hyperparameters of the trial.
            model: From `build`.
            *args: Of `model.fit`.
            callbacks: Of `model.fit`; a `TemperatureAnnealing` of all layers
                is refused, since the search decides about temperatures.
            **kwargs: Of `model.fit`.

        Returns:
            The history.

        Raises:
            keras_tuner.errors.FailedTrialError: If the loss or a weight
                became NaN or infinite.
        """
        _, annealing = self.choose(hp)
        callbacks = keras.tree.flatten(callbacks or [])
        for callback in callbacks:
            if getattr(callback, "layer_names", 0) is None and isinstance(
                callback, TemperatureAnnealing
            ):
                raise keras_tuner.errors.FatalValueError(
                    "The temperature is searched: leave `TemperatureAnnealing` "
                    "out of the callbacks, and give the hypermodel `schedules`."
                    f" Received: callbacks={callbacks!r}"
                )
        before = [keras.callbacks.TerminateOnNaN()]
        if annealing is not None:
            before.insert(0, annealing)
        history = model.fit(*args, callbacks=[*before, *callbacks], **kwargs)
        check_finite(history)
        return history


def check_finite(history: keras.callbacks.History) -> None:
    """Ends a trial as failed if a loss or a weight was not finite."""
    reason = _divergence(history)
    if reason:
        message = f"Training diverged: {reason}."
        # A worker's chief never learns the reason.
        _logger.warning(message)
        raise keras_tuner.errors.FailedTrialError(message)


def _divergence(history: keras.callbacks.History) -> str:
    for name in ("loss", "val_loss"):
        losses = np.asarray(history.history.get(name, ()), "float64")
        (epochs,) = np.nonzero(~np.isfinite(losses))
        if len(epochs):
            epoch = history.epoch[epochs[0]] + 1
            return f"{name} is {losses[epochs[0]]} in epoch {epoch}"
    # No training loss tells of the last step.
    for weight in history.model.trainable_weights:
        if not bool(keras.ops.all(keras.ops.isfinite(weight))):
            return f"{weight.path} is not finite after the last step"
    return ""


def _build_optimizer(model: keras.Model) -> None:
    """Lets a file of weights restore the optimizer's state, too."""
    if model.optimizer is not None and not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)
