"""Schedules the weights of the auxiliary losses, and the temperature."""

from numbers import Real
from typing import Any

import keras

from keras_seqmech.core.decisions.penalties import PenaltyWeights
from keras_seqmech.receptive_field import LookAhead
from keras_seqmech.receptive_field import RFCell
from keras_seqmech.training.decision_collapse import WarnOnDecisionCollapse
from keras_seqmech.training.decision_collapse import layers_with_statistics
from keras_seqmech.training.schedules import Function
from keras_seqmech.training.schedules import Ramp
from keras_seqmech.training.schedules import Schedule
from keras_seqmech.training.schedules import Scheduled
from keras_seqmech.training.schedules import as_ramp

ENTROPY = Ramp(1.0, 0.0, 0.0, 0.6, power=3)
READING = Ramp(0.0, 0.02, 0.2, 0.6)
ENTROPY_AHEAD = Ramp(0.3, 0.0, 0.0, 0.3, power=3)
READING_AHEAD = Ramp(0.0, 0.02, 0.0, 0.05)
INDECISION = Ramp(0.0, 0.1, 0.6, 0.8)
INDECISION_IN_EXPECTATION = Ramp(0.0, 0.3, 0.1, 0.4)
TEMPERATURE = Ramp(1.0, 0.5, 0.6, 0.9)


class ExploreThenCommit(Schedule):
    r"""Makes decisions explore first, then read less, then settle.

    Without such a schedule, relaxed decisions settle early, on the first
    choice that helps. During a `fit` this callback schedules four scalar
    variables of every layer with decisions (`ReceptiveFieldRNN`, `LookAhead`,
    `FocusedHierarchicalEncoder`, `BoundaryGate`, `ExpectedSubsample`):

    | variable | from | to | over this share of the steps |
    | --- | --- | --- | --- |
    | `entropy` | 1 | 0 | 0 to 0.6, by power 3: at 0.3 it is 1/8 |
    | `reading` | 0 | 0.02 | 0.2 to 0.6 |
    | `indecision` | 0 | 0.1 | 0.6 to 0.8 |
    | `temperature` | 1 | 0.5 | 0.6 to 0.9 |

    so that longer fields, more gates and later steps learn to be useful
    before what they read is penalized, and decisions are hard at the end. The
    first three are weights of auxiliary losses, see
    `keras_seqmech.DecisionPenalties`.

    While the `target_weight` of a layer with a `target` is above 0, its
    `reading` stays as it is, 0 by default: the target says how much is read.
    An `ExpectedSubsample` with `estimator="expectation"` draws nothing: its
    `entropy` stays as it is, and since outputs that are not decided average
    over many steps, its `indecision` rises earlier and further, from 0 to 0.3
    over 0.1 to 0.4.

    A `LookAhead` shows what it reads beside the step, so that reading is useful
    at once. Its schedule is shorter: `entropy` from 0.3 to 0 over 0 to 0.3,
    `reading` to 0.02 over 0 to 0.05.

    An `RFCell` in `keras.layers.RNN`, where penalties have no effect, is left
    alone. The base class `Schedule` describes kill and resume, a second `fit`,
    models that their first step builds, and what is added to `history`; if
    layers have different schedules, that is the value of the first layer.
    `values` are those of the table.

    Args:
        steps: As in `Schedule`.
        entropy: Schedule of `entropy`: a number replaces the initial
            value of the default; a `Ramp`, or a tuple `(initial, final, begin,
            end[, power])`, replaces the whole schedule; None leaves the
            variable alone. It holds for `LookAhead`, too; a number keeps the
            shorter span.
        reading: Schedule of `reading`, in the same forms, but a number replaces
            the final value. Layers with a target are left out.
        indecision: Schedule of `indecision`, in the same forms; a number
            replaces the final value. If given, it holds for all layers, those
            with `estimator="expectation"` too.
        temperature: Schedule of `temperature`, in the same forms; a number
            replaces the final value.

    Raises:
        ValueError: If an argument is not allowed; at the start of training, or
            after its first step where the model is not built before, if no
            layer decides; if `steps` is None and the number of steps is not
            known.

    Warns: As `Schedule` does. For layers with `track_statistics=True` it also
    warns, as `WarnOnDecisionCollapse` does, of decisions that are certain
    before anything was learned and of targets that are missed.

    Example:

    >>> import keras, numpy as np
    >>> from keras_seqmech import ReceptiveFieldRNN
    >>> layer = ReceptiveFieldRNN(keras.layers.GRUCell(4), max_size=3)
    >>> model = keras.Sequential([layer, keras.layers.Dense(1)])
    >>> model.compile("adam", "mse")
    >>> fit = model.fit(np.ones((8, 5, 2)), np.ones((8, 1)), batch_size=2,
    ...                 verbose=0, callbacks=[ExploreThenCommit()])
    >>> round(float(layer.penalty_weights.reading), 3)
    0.02
    """

    def __init__(
        self,
        steps: int | None = None,
        entropy: Any = ENTROPY,
        reading: Any = READING,
        indecision: Any = INDECISION,
        temperature: Any = TEMPERATURE,
    ):
        ramps = {
            "entropy": _ramp("entropy", entropy, ENTROPY, "initial"),
            "reading": _ramp("reading", reading, READING),
            "indecision": _ramp("indecision", indecision, INDECISION),
            "temperature": _ramp(
                "temperature", temperature, TEMPERATURE, least=1e-6
            ),
        }
        numbers = {
            name: ramp for name, ramp in ramps.items() if ramp is not None
        }
        if not numbers:
            raise ValueError(
                "One of the arguments `entropy`, `reading`, `indecision` and "
                "`temperature` must be given. Received: None for each"
            )
        super().__init__(numbers, steps)
        # Now, as KerasTuner deep-copies callbacks, after which `is` fails.
        self._ahead = {
            "entropy": _ramp(
                "entropy",
                ENTROPY_AHEAD if entropy is ENTROPY else entropy,
                ENTROPY_AHEAD,
                "initial",
            ),
            "reading": _ramp(
                "reading",
                READING_AHEAD if reading is READING else reading,
                READING_AHEAD,
            ),
        }
        self._in_expectation = (
            INDECISION_IN_EXPECTATION
            if indecision is INDECISION
            else ramps["indecision"]
        )

        self._watcher = WarnOnDecisionCollapse(
            min_choice_entropy=0, min_certain=0
        )
        self._watches = False

    def on_train_begin(self, logs: dict | None = None) -> None:
        super().on_train_begin(logs)
        self._watches = bool(layers_with_statistics(self.model))
        if self._watches:
            self._watcher.set_model(self.model)
            self._watcher.set_params(self.params)
            self._watcher.on_train_begin(logs)

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        super().on_epoch_begin(epoch, logs)
        if self._watches:
            self._watcher.on_epoch_begin(epoch, logs)

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        super().on_train_batch_end(batch, logs)
        if self._watches:
            self._watcher.on_train_batch_end(batch, logs)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        super().on_epoch_end(epoch, logs)
        if self._watches:
            self._watcher.on_epoch_end(epoch, logs)

    def on_train_end(self, logs: dict | None = None) -> None:
        super().on_train_end(logs)
        # What a run that goes on has not reached yet is not missed.
        if self._watches and self._share() == 1:
            self._watcher.on_train_end(logs)

    def _scheduled_in(self, layer: keras.Layer) -> list[Scheduled]:
        weights = getattr(layer, "penalty_weights", None)
        if weights is None or not weights.built:
            return []
        if isinstance(layer, RFCell):  # It is for the layer that runs it.
            return []
        functions: dict[str, Function | None] = {**self.numbers}
        if isinstance(layer, LookAhead):
            functions.update(self._ahead)
        functions["reading"] = _unless_targeted(
            weights, functions.get("reading")
        )
        if getattr(layer, "estimator", None) == "expectation":
            functions["entropy"] = None
            functions["indecision"] = self._in_expectation
        variables = [*weights.variables, getattr(layer, "temperature", None)]
        found = []
        for variable in variables:
            if isinstance(variable, keras.Variable):
                function = functions.get(variable.name)
                if function is not None:
                    found.append(Scheduled(variable.name, variable, function))
        return found

    def _check_found(self) -> None:
        if not self.scheduled:
            raise ValueError(
                "`ExploreThenCommit` needs a model with a layer that decides, "
                "such as `ReceptiveFieldRNN` (not an `RFCell` in "
                "`keras.layers.RNN`), that is called in training and not "
                f"frozen. Received: model '{self.model.name}'"
            )


def _unless_targeted(
    weights: PenaltyWeights, reading: Function | None
) -> Function | None:
    """The schedule of `reading`, which holds while there is no target."""
    if reading is None:
        return None
    return lambda share: None if weights.is_targeted else reading(share)


def _ramp(
    name: str,
    value: Any,
    default: Ramp,
    field: str = "final",
    least: float = 0.0,
) -> Ramp | None:
    """The ramp that an argument describes: `field` of the default, or all."""
    if value is None:
        return None
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    ramp = as_ramp(
        default._replace(**{field: value}) if is_number else value, least
    )
    if ramp is None:
        raise ValueError(
            f"Argument `{name}` must be None, a finite number of at least "
            f"{least:g}, or (initial, final, begin, end) and perhaps a power "
            "above 0: two such numbers, and two shares with "
            f"0 <= begin < end <= 1. Received: {name}={value!r}"
        )
    return ramp
