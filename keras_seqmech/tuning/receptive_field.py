"""A search over adaptive receptive fields, for any model that has them."""

import logging
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import keras
import keras_tuner
import numpy as np

from keras_seqmech.layers import validation
from keras_seqmech.layers.receptive_field.options import SUMMARIES
from keras_seqmech.training.exploration import ExploreThenCommit
from keras_seqmech.training.schedules import SCHEDULES
from keras_seqmech.training.schedules import TemperatureAnnealing
from keras_seqmech.tuning import hyperparameters
from keras_seqmech.tuning.hyperparameters import FIXED
from keras_seqmech.tuning.hyperparameters import Range

_logger = logging.getLogger(__name__)


class ReceptiveFieldHyperModel(keras_tuner.HyperModel):
    """Searches the receptive fields of a model; for any KerasTuner tuner.

    Args:
        build_model: Function `(hp, field)` that returns a compiled model.
            `field` is a dict with `"max_size"`, `"summary"`, `"estimator"`
            and `"temperature"`, and where they are asked for `"gated"`,
            `"size_from"`, `"target"` and `"target_weight"`, arguments of
            `ReceptiveFieldRNN` and `RFCell`; it may search more with `hp`.
        max_size: Range of S: `(low, high)`, or an int not to be searched.
        temperature: Range of the temperature; of the first one if it is
            annealed.
        final_temperature: Range of the last temperature if it is annealed.
        schedules: Schedules to choose from, one or more of `"fixed"`,
            `"exponential"` and `"linear"`.
        annealing_steps: Optimizer steps until the last temperature; needed
            if `schedules` has others than `"fixed"`.
        summaries: Summaries to choose from, of `"mean"` and `"last"`.
        estimators: Estimators to choose from, of `"relaxed"`,
            `"straight_through"` and `"reinforce"`; the last needs a
            `PolicyGradientModel`.
        sequence_length: Steps of the longest sequence, which no S may exceed;
            None if not known.
        size_step: Distance between two sizes S of the range.
        temperature_step: Factor above 1 between two temperatures; any of the
            range if None.
        name: Name of the hypermodel.
        tunable: As in `keras_tuner.HyperModel`.
        gated: Values to choose from, of `"memory"`, `"output"` and `"all"`; if
            None, `field` does not have it and the layer has its default.
        size_from: Values to choose from, of `"input"` and `"field"`, or None,
            likewise.
        exploration: Range of the first `entropy_weight`, or a number not to be
            searched. With this or one of the next two, trials train with an
            `ExploreThenCommit`, which has its default for those that are None.
        price: Range of the last `cost_weight`; not beside `target`.
        commitment: Range of the last `indecision_weight`.
        exploration_steps: Optimizer steps at which that schedule ends; those
            of the `fit` if None.
        target: Range of the mean size that training pulls a batch towards,
            from 1 to the smallest S; None for no target.
        target_weight: Weight of the distance from the target in the loss; not
            searched.

    A fixed temperature is an argument of the layer; an annealed one is changed
    by a `TemperatureAnnealing` that `fit` puts before all other callbacks, as
    it does the `ExploreThenCommit`, which leaves the temperature alone.
    Within a trial nothing is retraced. With `Hyperband`, a trial that is
    continued starts from the best epoch of the one before, with its optimizer
    state and so its temperature (if `build_model` returns a built model).

    A trial fails, and ends, when its loss becomes NaN or infinite, and fails
    if a weight is so in the end. The search continues; KerasTuner ends it
    after `max_consecutive_failed_trials` in a row.

    Raises:
        ValueError: If an argument is not as described: a temperature of 0, an
            S over `sequence_length`, a target over the smallest S.

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
        gated: Sequence[str] | None = None,
        size_from: Sequence[str] | None = None,
        exploration: Range | None = None,
        price: Range | None = None,
        commitment: Range | None = None,
        exploration_steps: int | None = None,
        target: Range | None = None,
        target_weight: float = 1.0,
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
        if target is not None:
            _check_target(target, max_size, price)
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
        self.gated = gated
        self.size_from = size_from
        self.exploration = exploration
        self.price = price
        self.commitment = commitment
        self.exploration_steps = exploration_steps
        self.target = target
        self.target_weight = validation.check_positive(
            "target_weight", target_weight
        )
        # Every range is checked now, not in the first trial.
        self.choose(keras_tuner.HyperParameters())
        self.choose_exploration(keras_tuner.HyperParameters())

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
        if self.gated is not None:
            field["gated"] = hyperparameters.choose_gated(hp, self.gated)
        if self.size_from is not None:
            field["size_from"] = hyperparameters.choose_size_from(
                hp, self.size_from
            )
        if self.target is not None:
            field["target"] = hyperparameters.choose_target(hp, self.target)
            field["target_weight"] = self.target_weight
        annealing = hyperparameters.choose_annealing(
            hp,
            # Without other schedules than a fixed one, steps do not matter.
            self.annealing_steps or 1,
            field["temperature"],
            self.final_temperature,
            self.schedules,
        )
        return field, annealing

    def choose_exploration(
        self, hp: keras_tuner.HyperParameters
    ) -> ExploreThenCommit | None:
        """The callback that schedules what sizes cost, or None.

        Args:
            hp: The hyperparameters of a trial.
        """
        ranges = self.exploration, self.price, self.commitment
        if all(values is None for values in ranges):
            return None
        return hyperparameters.choose_exploration(
            hp, self.exploration_steps, *ranges
        )

    def build(self, hp: keras_tuner.HyperParameters) -> keras.Model:
        """Builds the model of a trial."""
        field, _ = self.choose(hp)
        self.choose_exploration(hp)  # Makes it known to the search.
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
            *args: Arguments of `model.fit`.
            callbacks: Callbacks of `model.fit`. Those that would change, in
                all layers, what the search decides are refused: a
                `TemperatureAnnealing`; an `ExploreThenCommit` that sets the
                temperature, or any where the search has one.
            **kwargs: Keyword arguments of `model.fit`.

        Returns:
            The history.

        Raises:
            keras_tuner.errors.FailedTrialError: If the loss or a weight
                became NaN or infinite.
        """
        _, annealing = self.choose(hp)
        exploration = self.choose_exploration(hp)
        callbacks = keras.tree.flatten(callbacks or [])
        _check_callbacks(callbacks, exploration)
        moving = [x for x in (annealing, exploration) if x is not None]
        before = [*moving, keras.callbacks.TerminateOnNaN()]
        history = model.fit(*args, callbacks=[*before, *callbacks], **kwargs)
        check_finite(history)
        return history


def _check_target(target: Range, max_size: Range, price: Any) -> None:
    """Refuses targets that do not fit all trials."""
    low, high = hyperparameters.check_range(
        "target", target, validation.check_not_negative
    )
    smallest, _ = hyperparameters.check_range(
        "max_size", max_size, validation.check_positive_int
    )
    if low < 1 or high > smallest:
        raise ValueError(
            "Argument `target` must be a mean size from 1 to the smallest S, "
            f"{smallest}. Received: target={target!r}, max_size={max_size!r}"
        )
    if price is not None:
        raise ValueError(
            "Argument `price` must be None beside a `target`, which says how "
            f"much is read. Received: price={price!r}, target={target!r}"
        )


def _check_callbacks(
    callbacks: Sequence[Any], exploration: ExploreThenCommit | None
) -> None:
    """Refuses callbacks that would change what is searched, in all layers."""
    for callback in callbacks:
        if getattr(callback, "layer_names", 0) is not None:
            continue
        if isinstance(callback, TemperatureAnnealing):
            raise keras_tuner.errors.FatalValueError(
                "The temperature is searched: leave `TemperatureAnnealing` "
                "out of the callbacks, and give the hypermodel `schedules`. "
                f"Received: callbacks={callbacks!r}"
            )
        if isinstance(callback, ExploreThenCommit) and (
            exploration is not None or callback.ramps["temperature"]
        ):
            raise keras_tuner.errors.FatalValueError(
                "What `ExploreThenCommit` sets is searched: leave it out of "
                "the callbacks, and give the hypermodel `exploration`, "
                "`price` or `commitment`; or without these, give it "
                f"`temperature=None`. Received: callbacks={callbacks!r}"
            )


def check_finite(history: keras.callbacks.History) -> None:
    """Ends a trial as failed if a loss or a weight was not finite."""
    reason = _divergence(history)
    if reason:
        message = f"Training diverged: {reason}."
        # The chief never learns the reason from its worker.
        _logger.warning(message)
        raise keras_tuner.errors.FailedTrialError(message)


def _divergence(history: keras.callbacks.History) -> str:
    for name in ("loss", "val_loss"):
        losses = np.asarray(history.history.get(name, ()), "float64")
        (epochs,) = np.nonzero(~np.isfinite(losses))
        if len(epochs):
            epoch = history.epoch[epochs[0]] + 1
            return f"{name} is {losses[epochs[0]]} in epoch {epoch}"
    # The last step's weights are in no training loss.
    for weight in history.model.trainable_weights:
        if not bool(keras.ops.all(keras.ops.isfinite(weight))):
            return f"{weight.path} is not finite after the last step"
    return ""


def _build_optimizer(model: keras.Model) -> None:
    """Lets a file of weights restore the optimizer's state, too."""
    if model.optimizer is not None and not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)
