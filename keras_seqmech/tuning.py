"""Searches for hyperparameters with KerasTuner's own tuners.

Import it by `from keras_seqmech import tuning`: it needs the extra
`keras_seqmech[tuning]`, and `keras_seqmech` does not import it.
"""

import logging
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

try:
    import keras_tuner
except ImportError as error:
    raise ImportError(
        "`keras_seqmech.tuning` needs KerasTuner and TensorBoard; install "
        "them with `pip install '.[tuning]'` in the checkout of "
        f"keras_seqmech. Received: {error}"
    ) from error

import keras
import numpy as np

from keras_seqmech.core.graph import sublayers
from keras_seqmech.receptive_field import LookAhead
from keras_seqmech.receptive_field import ReceptiveFieldRNN
from keras_seqmech.training.schedules import Schedule

__all__ = [
    "ReceptiveFieldHyperModel",
]

# (low, high), (low, high, step), or a number that is not searched.
Range = float | Sequence[float]

_logger = logging.getLogger(__name__)


class ReceptiveFieldHyperModel(keras_tuner.HyperModel):
    """Searches the fields of `LookAhead` or `ReceptiveFieldRNN`.

    For any tuner of KerasTuner.

    Args:
        build_model: Function `(hp, field)` that returns a compiled model.
            `field` is a dict with `"max_size"`, `"temperature"` and the names
            in `choices`, arguments of `layer`. The function may search more
            with `hp`, such as the weights of a `DecisionPenalties`.
        max_size: Range of S: `(low, high)` or `(low, high, step)`, or an int
            that is not searched.
        temperature: Range of the temperature, on a log scale: `(low, high)`
            or `(low, high, factor)`, or a number that is not searched.
        choices: Values to choose from by argument of the layer, such as
            `{"summary": ("mean", "last")}`.
        sequence_length: Steps of the longest sequence, which no S may exceed;
            None if not known.
        callbacks: Function `(hp, field)` that returns a list of callbacks for
            a trial, such as a `Schedule` of the temperature; it may search
            with `hp`, too.
        layer: `ReceptiveFieldRNN` or `LookAhead`, the class that `build_model`
            gives the arguments to.

    Within a trial nothing is retraced. With `Hyperband`, a trial that is
    continued starts from the best epoch of the one before, with its optimizer
    state and so its schedules (if `build_model` returns a built model).

    A trial fails, and ends, when its loss becomes NaN or infinite, and fails
    if a weight is so in the end. The search continues; KerasTuner ends it
    after `max_consecutive_failed_trials` in a row.

    Raises:
        ValueError: If an argument is not as described: a temperature of 0, an
            S over `sequence_length`, a choice that the layer does not take.

    Example:

    >>> def build_model(hp, field):
    ...     units = hp.Int("units", 8, 16)
    ...     layer = ReceptiveFieldRNN(keras.layers.GRUCell(units), **field)
    ...     layers = [keras.Input((20, 5)), layer, keras.layers.Dense(1)]
    ...     model = keras.Sequential(layers)
    ...     model.compile("adam", loss="mse")
    ...     return model
    >>> hypermodel = ReceptiveFieldHyperModel(
    ...     build_model, max_size=(2, 6), temperature=(0.2, 1.0),
    ...     choices={"summary": ("mean", "last")})
    >>> hp = keras_tuner.HyperParameters()
    >>> model = hypermodel.build(hp)
    >>> hp.values
    {'max_size': 2, 'temperature': 0.2, 'summary': 'mean', 'units': 8}
    """

    def __init__(
        self,
        build_model: Callable[[Any, dict[str, Any]], keras.Model],
        max_size: Range = (1, 8),
        temperature: Range = (0.1, 2.0),
        choices: Mapping[str, Sequence[Any]] | None = None,
        sequence_length: int | None = None,
        callbacks: Callable[[Any, dict[str, Any]], list] | None = None,
        layer: type[keras.Layer] = ReceptiveFieldRNN,
    ):
        super().__init__()
        self.build_model = build_model
        self.max_size = max_size
        self.temperature = temperature
        self.choices = dict(choices or {})
        if layer not in (ReceptiveFieldRNN, LookAhead):
            raise ValueError(
                "Argument `layer` must be `ReceptiveFieldRNN` or `LookAhead`. "
                f"Received: layer={layer!r}"
            )
        cell = (keras.layers.LSTMCell(1),) if layer is ReceptiveFieldRNN else ()
        for name in ("max_size", "temperature"):
            if name in self.choices:
                raise ValueError(
                    f"Argument `choices` must not have `{name}`, which is an "
                    f"argument of its own. Received: choices={choices!r}"
                )
        self.callbacks = callbacks or (lambda hp, field: [])
        # The layer checks what may be drawn for it, before any trial.
        self._choose(keras_tuner.HyperParameters())
        sizes = np.ravel(max_size)[:2].tolist()
        temperatures = np.ravel(temperature)[:2].tolist()
        drawn = {"max_size": sizes, "temperature": temperatures, **self.choices}
        for name, values in drawn.items():
            for value in values:
                field = {"max_size": sizes[-1], "seed": 0, name: value}
                layer(*cell, **field)
        if sequence_length is not None and sizes[-1] > sequence_length:
            raise ValueError(
                "Argument `max_size` must not exceed the length of the "
                f"sequences, sequence_length={sequence_length}. "
                f"Received: max_size={max_size!r}"
            )

    def _choose(self, hp: keras_tuner.HyperParameters) -> dict[str, Any]:
        """The arguments of a trial's layer."""
        return {
            "max_size": _number(hp, hp.Int, "max_size", self.max_size),
            "temperature": _number(
                hp, hp.Float, "temperature", self.temperature, sampling="log"
            ),
            **{
                name: _choice(hp, name, list(values))
                for name, values in self.choices.items()
            },
        }

    def build(self, hp: keras_tuner.HyperParameters) -> keras.Model:
        """Builds the model of a trial."""
        field = self._choose(hp)
        self.callbacks(hp, field)  # The space is what `build` asks for.
        model = self.build_model(hp, field)
        if isinstance(model, keras.Model) and model.built and model.optimizer:
            # Lets a file of weights restore the optimizer's state, too.
            model.optimizer.build(model.trainable_variables)
        return model

    def fit(
        self,
        hp: keras_tuner.HyperParameters,
        model: keras.Model,
        *args: Any,
        callbacks: Any = (),
        **kwargs: Any,
    ) -> keras.callbacks.History:
        """Trains the model of a trial, as `model.fit` does.

        Raises:
            keras_tuner.errors.FatalValueError: If `callbacks` have a schedule,
                or the objective needs statistics that no layer keeps.
            keras_tuner.errors.FailedTrialError: If the loss or a weight
                became NaN or infinite.
        """
        callbacks = keras.tree.flatten(callbacks or [])
        if any(isinstance(callback, Schedule) for callback in callbacks):
            raise keras_tuner.errors.FatalValueError(
                "Schedules may change what is searched: give them to the "
                "hypermodel, as its `callbacks`. "
                f"Received: callbacks={callbacks!r}"
            )
        own = self.callbacks(hp, self._choose(hp))
        own = [*own, keras.callbacks.TerminateOnNaN()]
        history = model.fit(*args, callbacks=[*own, *callbacks], **kwargs)
        _check_objective(callbacks, model, history)
        reason = _divergence(history)
        if reason:
            # A chief never learns the reason from its worker.
            _logger.warning(reason)
            raise keras_tuner.errors.FailedTrialError(reason)
        return history


def _check_objective(
    callbacks: Sequence[Any],
    model: keras.Model,
    history: keras.callbacks.History,
) -> None:
    """Refuses an objective that would be a statistic, were it kept."""
    # KerasTuner gives it to the callback that saves the best epoch.
    given = [getattr(callback, "objective", None) for callback in callbacks]
    parts = [x for one in given for x in getattr(one, "objectives", [one])]
    names = {x.name for x in parts if isinstance(x, keras_tuner.Objective)}
    for name in names - {*history.history}:
        for layer in sublayers(model):
            is_of_layer = name.removeprefix("val_").startswith(f"{layer.name}_")
            if is_of_layer and not getattr(layer, "track_statistics", True):
                raise keras_tuner.errors.FatalValueError(
                    f"The objective {name!r} needs `track_statistics=True` in "
                    f"the layer {layer.name!r}. Received: "
                    f"track_statistics=False, logs of {[*history.history]}"
                )


def _number(
    hp: keras_tuner.HyperParameters,
    kind: Callable,
    name: str,
    value: Range,
    **options: Any,
) -> Any:
    if not isinstance(value, (tuple, list)):
        return hp.Fixed(name, value)
    if len(value) not in (2, 3) or not value[-1] > 0:
        raise ValueError(
            f"Argument `{name}` must be a number, (low, high) or (low, high, "
            f"step), above 0. Received: {name}={value!r}"
        )
    return kind(name, *value, **options)


def _choice(hp: keras_tuner.HyperParameters, name: str, values: list) -> Any:
    chosen = hp.Choice(name, values)
    # KerasTuner makes ints of booleans.
    return bool(chosen) if isinstance(values[0], bool) else chosen


def _divergence(history: keras.callbacks.History) -> str:
    """The loss or weight that is not finite, if any."""
    for name in ("loss", "val_loss"):
        losses = history.history.get(name, ())
        for epoch, loss in zip(history.epoch, losses):
            if not np.isfinite(loss):
                return (
                    f"Training diverged: {name} is {loss} in epoch {epoch + 1}."
                )
    # The last step's weights are in no training loss.
    for weight in history.model.trainable_weights:
        if not bool(keras.ops.all(keras.ops.isfinite(weight))):
            return f"Training diverged: {weight.path} is not finite in the end."
    return ""
