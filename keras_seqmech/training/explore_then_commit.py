"""Schedules the weights of the auxiliary losses, and the temperature."""

import math
import warnings
from collections.abc import Callable
from collections.abc import Mapping
from numbers import Real
from typing import Any

import keras

from keras_seqmech.core.decisions.learning import EXPLORE_THEN_COMMIT
from keras_seqmech.core.decisions.learning import Ramp
from keras_seqmech.training.decision_collapse import WarnOnDecisionCollapse
from keras_seqmech.training.schedules import Function
from keras_seqmech.training.schedules import Schedule
from keras_seqmech.training.schedules import Scheduled
from keras_seqmech.training.schedules import as_ramp
from keras_seqmech.training.schedules import round_to_dtype

# The layers' own ramps.
OWN = "own"
# Those of these names make decisions certain.
COMMITTING = ("indecision", "temperature")
# The share of the steps after which a schedule that waits commits anyway.
LATEST = 0.8


class ExploreThenCommit(Schedule):
    r"""Makes decisions explore first, then read less, then settle.

    Without such a schedule, relaxed decisions settle early, on the first
    choice that helps. During a `fit` this callback schedules four scalar
    variables of every layer with decisions (`ReceptiveFieldRNN`, `LookAhead`,
    `FocusedHierarchicalEncoder`, `BoundaryGate`, `ExpectedSubsample`,
    `EarlyPooling`):

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
    the step, so that reading is useful at once, and explores less: `entropy`
    from 0.03 to 0 over 0 to 0.3, `reading` to 0.02 over 0 to 0.5; with
    `size_from="input"` from 0.3, and over 0 to 0.05.
    Those of a `BoundaryGate` and the encoder: `entropy` from 0.5, `reading` to
    0.2, as the share of open gates is small beside the loss of one answer. An
    `ExpectedSubsample` with `estimator="expectation"` draws nothing: it has no
    `entropy`, and since outputs that are not decided average over many steps,
    its `indecision` rises earlier and further, from 0 to 0.3 over 0.1 to 0.4.
    Nor has an `EarlyPooling`, whose `reading` rises over 0 to 0.5.

    While the `target_weight` of a layer with a `target` is above 0, its
    `reading` stays as it is, 0 by default: the target says how much is read.

    An `RFCell` in `keras.layers.RNN`, where penalties have no effect, is left
    alone. The base class `Schedule` describes kill and resume, a second `fit`,
    models that their first step builds, and what is added to `history`; if
    layers have different schedules, that is the value of the first layer
    without a target, or of the first layer if all have one.
    `values` are those of the table.

    Decisions that are made before the task is learned say nothing about it.
    Where it is not known how many steps that takes, as above a GRU over
    hundreds of steps, which may stay at chance for most of the training, let
    the schedule wait: with `commit_when=lambda logs: logs["accuracy"] > 0.8`
    it stops where `indecision` or `temperature` would begin to change, goes on
    after the first epoch with such an accuracy, and passes through the rest in
    the steps that are left. It waits for 80 % of the steps at most, so that
    decisions are hard at the end in any case.

    Args:
        steps: As in `Schedule`.
        entropy: Ramp of `entropy`: `"own"`, that of each layer; a number, which
            replaces the initial value of it; a `Ramp` or a tuple `(initial,
            final, begin, end[, power])`, which replaces it in all layers that
            have one; or None, which leaves the variable alone.
        reading: Ramp of `reading`, in the same forms, but a number replaces
            the final value. Layers with a target are left out. Of a layer that
            is given a `weight`, it is a factor of that, which ends at 1;
            `history` calls it `reading_factor`.
        indecision: Ramp of `indecision`, in the forms of `reading`.
        temperature: Ramp of `temperature`, in the forms of `reading`.
        commit_when: Function from the logs of an epoch, a dict, to whether
            decisions may now be made certain; or None, which does not wait. A
            run that is resumed reads from the restored variables when it
            began to commit, so list a backup after this callback; before, they
            show nothing, and it asks again.

    Raises:
        ValueError: If an argument is not allowed; at the start of training, or
            after its first step where the model is not built before, if no
            layer decides; if `steps` is None and the number of steps is not
            known.

    Warns: As `Schedule` does, and if `commit_when` never is true. For layers
    with `track_statistics=True` it also warns, as `WarnOnDecisionCollapse`
    does, of decisions that are certain before anything was learned, of those
    that are all alike at its end, after four epochs or more, while the loss
    does not fall, and of targets that are missed.

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
        commit_when: Callable[[dict[str, float]], bool] | None = None,
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
        if commit_when is not None and not callable(commit_when):
            raise ValueError(
                "Argument `commit_when` must be a function of an epoch's logs, "
                f"or None. Received: commit_when={commit_when!r}"
            )
        super().__init__(numbers, steps)
        self.commit_when = commit_when
        # The optimizer's step before the first that commits, if any did, and
        # the last step that values were set for.
        self._committed = math.inf
        self._last_set = 0
        self._watcher = WarnOnDecisionCollapse(min_certain=0)

    def on_train_begin(self, logs: dict | None = None) -> None:
        super().on_train_begin(logs)
        self._watcher.watch(self.model, self.params)

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        super().on_epoch_begin(epoch, logs)
        self._watcher.on_epoch_begin(epoch, logs)

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        super().on_train_batch_end(batch, logs)
        self._watcher.on_train_batch_end(batch, logs)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        asked = self._waits_for
        if asked is not None and asked(logs or {}):
            # Values move now, so that a backup of this epoch shows it.
            self._committed = self.steps_made() - 1
        super().on_epoch_end(epoch, logs)
        # Decisions that still explore may be alike, and a few epochs do not
        # tell whether the loss falls.
        if self.share() == 1 and epoch > 2:
            self._watcher.on_epoch_end(epoch, logs)
        else:
            self._watcher.note(logs)

    def on_train_end(self, logs: dict | None = None) -> None:
        super().on_train_end(logs)
        # What a run that goes on has not reached yet is not missed.
        if self.share() < 1:
            return
        self._watcher.on_train_end(logs)
        if self._waits_for is not None:
            warnings.warn(
                "Decisions were made certain by `ExploreThenCommit` though "
                "`commit_when` was true after no epoch: train longer, or ask "
                "for less.",
                UserWarning,
                stacklevel=2,
            )

    def share(self) -> float:
        """The share of the schedule that it has gone through."""
        share, hold = super().share(), self._hold()
        if share <= hold:
            return share
        # The share of the steps at which it goes on.
        begin = max(hold, min(self._committed / (self.total or 1), LATEST))
        return hold + (1 - hold) * max(0, share - begin) / (1 - begin)

    @property
    def _waits_for(self) -> Callable[[dict[str, float]], bool] | None:
        """The function that is still to be true, or None."""
        return self.commit_when if self._committed == math.inf else None

    def _hold(self) -> float:
        """The share at which the schedule waits; 1 if it does not."""
        if self.commit_when is None:
            return 1.0
        return min((ramp.begin for _, ramp in self._committing()), default=1.0)

    def _committing(self) -> list[tuple[keras.Variable, Ramp]]:
        """The variables that make decisions certain, with their ramps."""
        return [
            (x.variable, x.function)
            for x in self.scheduled
            if x.name in COMMITTING and isinstance(x.function, Ramp)
        ]

    def _set_values(self) -> None:
        made = self.steps_made()
        if self.is_beginning and made != self._last_set:
            self._recall()
        self._last_set = made
        super()._set_values()

    def _recall(self) -> None:
        """Finds when it began to commit, from what a backup restored."""
        share, hold = super().share(), self._hold()
        if share <= hold:
            return
        reached = max(_share_at(*x) for x in self._committing())
        if hold < reached < 1:
            begin = 1 - (1 - share) * (1 - hold) / (1 - reached)
            self._committed = round(begin * (self.total or 1))

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
        takes_weight = getattr(layer, "takes_weight", False)
        names = {"reading": "reading_factor"} if takes_weight else {}
        found = []
        for name, function in functions.items():
            variable = getattr(weights, name, getattr(layer, name, None))
            if function is not None and isinstance(variable, keras.Variable):
                made = Scheduled(names.get(name, name), variable, function)
                if name == "reading" and weights is not None:
                    made = made._replace(is_held=lambda: weights.is_targeted)
                found.append(made)
        return found

    def _check_found(self) -> None:
        if not self.scheduled:
            raise ValueError(
                "`ExploreThenCommit` needs a model with a layer that decides, "
                "such as `ReceptiveFieldRNN` (not an `RFCell` in "
                "`keras.layers.RNN`), that is called in training and not "
                f"frozen. Received: model '{self.model.name}'"
            )


def _share_at(variable: keras.Variable, ramp: Ramp) -> float:
    """The share at which a ramp has a variable's value; 0 if not begun."""
    value = round_to_dtype(variable, variable)
    if value == round_to_dtype(variable, ramp.initial):
        return 0.0
    if value == round_to_dtype(variable, ramp.final):
        return ramp.end
    left = (value - ramp.final) / (ramp.initial - ramp.final)
    passed = 1 - min(max(left, 0.0), 1.0) ** (1 / ramp.power)
    return ramp.begin + passed * (ramp.end - ramp.begin)


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
