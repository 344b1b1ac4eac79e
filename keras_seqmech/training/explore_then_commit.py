"""Schedules the weights of the auxiliary losses, and the temperature."""

from collections.abc import Mapping
from numbers import Real
from typing import Any

import keras

from keras_seqmech.core.decisions.deciding import EXPLORE_THEN_COMMIT
from keras_seqmech.core.decisions.deciding import Ramp
from keras_seqmech.core.decisions.penalties import PenaltyWeights
from keras_seqmech.training.decision_collapse import WarnOnDecisionCollapse
from keras_seqmech.training.decision_collapse import layers_with_statistics
from keras_seqmech.training.schedules import Function
from keras_seqmech.training.schedules import Schedule
from keras_seqmech.training.schedules import Scheduled
from keras_seqmech.training.schedules import as_ramp

# The layers' own ramps.
OWN = "own"


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

    These are the ramps of most layers. A layer declares its own by an attribute
    `decision_ramps`, a dict of a `keras_seqmech.training.Ramp` by name; a name
    without one is left alone. A layer of yours may have other names: those of
    attributes that are scalar variables. `LookAhead` shows what it reads beside
    the step, so that reading is useful at once, and its ramps are shorter:
    `entropy` from 0.3 to 0 over 0 to 0.3, `reading` to 0.02 over 0 to 0.05. An
    `ExpectedSubsample` with `estimator="expectation"` draws nothing: it has no
    `entropy`, and since outputs that are not decided average over many steps,
    its `indecision` rises earlier and further, from 0 to 0.3 over 0.1 to 0.4.

    While the `target_weight` of a layer with a `target` is above 0, its
    `reading` stays as it is, 0 by default: the target says how much is read.

    An `RFCell` in `keras.layers.RNN`, where penalties have no effect, is left
    alone. The base class `Schedule` describes kill and resume, a second `fit`,
    models that their first step builds, and what is added to `history`; if
    layers have different schedules, that is the value of the first layer.
    `values` are those of the table.

    Args:
        steps: As in `Schedule`.
        entropy: Ramp of `entropy`: `"own"`, that of each layer; a number, which
            replaces the initial value of it; a `Ramp` or a tuple `(initial,
            final, begin, end[, power])`, which replaces it in all layers that
            have one; or None, which leaves the variable alone.
        reading: Ramp of `reading`, in the same forms, but a number replaces
            the final value. Layers with a target are left out. Of a layer that
            is given a `weight`, it is a factor of that, and ends at 1.
        indecision: Ramp of `indecision`, in the forms of `reading`.
        temperature: Ramp of `temperature`, in the forms of `reading`.

    Raises:
        ValueError: If an argument is not allowed; at the start of training, or
            after its first step where the model is not built before, if no
            layer decides; if `steps` is None and the number of steps is not
            known.

    Warns: As `Schedule` does. For layers with `track_statistics=True` it also
    warns, as `WarnOnDecisionCollapse` does, of decisions that are certain
    before anything was learned, of those that are all alike at its end while
    the loss does not fall, and of targets that are missed.

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
        entropy: Any = OWN,
        reading: Any = OWN,
        indecision: Any = OWN,
        temperature: Any = OWN,
    ):
        self._given = {
            "entropy": entropy,
            "reading": reading,
            "indecision": indecision,
            "temperature": temperature,
        }
        numbers = {
            name: ramp
            for name, own in EXPLORE_THEN_COMMIT.items()
            if (ramp := _ramp(name, self._given[name], own)) is not None
        }
        if not numbers:
            raise ValueError(
                "One of the arguments `entropy`, `reading`, `indecision` and "
                "`temperature` must be given. Received: None for each"
            )
        super().__init__(numbers, steps)
        self._watcher = WarnOnDecisionCollapse(min_certain=0)
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
        # Decisions that still explore may be alike.
        if self._watches and self.share() == 1:
            self._watcher.on_epoch_end(epoch, logs)
        elif self._watches:
            self._watcher.note(logs)

    def on_train_end(self, logs: dict | None = None) -> None:
        super().on_train_end(logs)
        # What a run that goes on has not reached yet is not missed.
        if self._watches and self.share() == 1:
            self._watcher.on_train_end(logs)

    def _scheduled_in(self, layer: keras.Layer) -> list[Scheduled]:
        weights = getattr(layer, "penalty_weights", None)
        ramps = getattr(layer, "decision_ramps", None)
        if ramps is None or (weights is not None and not weights.built):
            return []
        _check_declared(layer, ramps)
        functions: dict[str, Function | None] = {
            name: _ramp(name, self._given.get(name, OWN), own)
            for name, own in ramps.items()
        }
        if weights is not None:
            functions["reading"] = _unless_targeted(
                weights, functions.get("reading")
            )
        found = []
        for name, function in functions.items():
            variable = getattr(weights, name, getattr(layer, name, None))
            if function is not None and isinstance(variable, keras.Variable):
                found.append(Scheduled(name, variable, function))
        return found

    def _check_found(self) -> None:
        if not self.scheduled:
            raise ValueError(
                "`ExploreThenCommit` needs a model with a layer that decides, "
                "such as `ReceptiveFieldRNN` (not an `RFCell` in "
                "`keras.layers.RNN`), that is called in training and not "
                f"frozen. Received: model '{self.model.name}'"
            )


def _check_declared(layer: keras.Layer, ramps: Mapping[str, Any]) -> None:
    """Refuses ramps that a layer cannot mean."""
    for name, ramp in ramps.items():
        known = name in EXPLORE_THEN_COMMIT
        is_variable = isinstance(getattr(layer, name, None), keras.Variable)
        is_there = known or is_variable or not layer.built
        if as_ramp(ramp) is None or not is_there:
            raise ValueError(
                f"`decision_ramps` of the layer {layer.name!r} must have a "
                "`Ramp` for each name, with 0 <= begin < end <= 1 and a power "
                "above 0, and a scalar variable of the layer with that name. "
                f"Received: {name!r}: {ramp!r}"
            )


def _unless_targeted(
    weights: PenaltyWeights, reading: Function | None
) -> Function | None:
    """The schedule of `reading`, which holds while there is no target."""
    if reading is None:
        return None
    return lambda share: None if weights.is_targeted else reading(share)


def _ramp(name: str, value: Any, own: Ramp) -> Ramp | None:
    """The ramp that an argument makes of a layer's own."""
    if value is None:
        return None
    if isinstance(value, str) and value == OWN:
        return own
    fields: Any = value
    if isinstance(value, Real) and not isinstance(value, bool):
        field = "initial" if name == "entropy" else "final"
        fields = {**own._asdict(), field: value}.values()
    least = 1e-6 if name == "temperature" else 0.0
    ramp = as_ramp(fields, least)
    if ramp is None:
        raise ValueError(
            f"Argument `{name}` must be 'own', None, a finite number of at "
            f"least {least:g}, or (initial, final, begin, end) and perhaps a "
            "power above 0: two such numbers, and two shares with "
            f"0 <= begin < end <= 1. Received: {name}={value!r}"
        )
    return ramp
