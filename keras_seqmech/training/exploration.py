"""A schedule for all that decides: explore, then pay, then commit."""

import warnings
from typing import Any
from typing import NamedTuple
from typing import TypeAlias

import keras

from keras_seqmech.layers import validation
from keras_seqmech.layers.decisions.costs import DecisionCosts
from keras_seqmech.layers.receptive_field import ReceptiveFieldRNN
from keras_seqmech.layers.receptive_field import RFCell
from keras_seqmech.layers.sublayers import sublayers
from keras_seqmech.training.distillation import DistillationModel
from keras_seqmech.training.ramps import Ramp
from keras_seqmech.training.ramps import check_ramp
from keras_seqmech.training.schedules import check_layer_names
from keras_seqmech.training.schedules import optimizer_steps
from keras_seqmech.training.truncated_backpropagation import (
    TruncatedBackpropagationModel,
)

# Schedules by name of the variable; None leaves a variable alone.
Ramps: TypeAlias = dict[str, Ramp | None]

ENTROPY = Ramp(1.0, 0.0, 0.0, 0.6, power=3)
PRICE = Ramp(0.0, 0.02, 0.2, 0.6)
INDECISION = Ramp(0.0, 0.1, 0.6, 0.8)
INDECISION_IN_EXPECTATION = Ramp(0.0, 0.3, 0.1, 0.4)
TEMPERATURE = Ramp(1.0, 0.5, 0.6, 0.9)


class ExploreThenCommit(keras.callbacks.Callback):
    r"""Makes decisions explore first, then pay for what they read, then settle.

    Without such a schedule, relaxed decisions settle early, on the first
    choice that helps. During a `fit` this callback schedules four scalar
    variables of every layer with decisions (`ReceptiveFieldRNN`,
    `FocusedHierarchicalEncoder`, `BoundaryGate`, `ExpectedSubsample`):

    | variable | from | to | over this share of the steps |
    | --- | --- | --- | --- |
    | `entropy_weight` | 1 | 0 | 0 to 0.6, by power 3: at 0.3 it is 1/8 |
    | `cost_weight` | 0 | 0.02 | 0.2 to 0.6 |
    | `indecision_weight` | 0 | 0.1 | 0.6 to 0.8 |
    | `temperature` | 1 | 0.5 | 0.6 to 0.9 |

    so that longer fields, more gates and later steps learn to be useful
    before they have to be worth their price, and decisions are hard at the
    end. Costs are means over all steps, while a decision may help at only a
    few. So exploration must last until these have been learned, and fall
    slowly while the cost weight is of similar size; the cheapest decisions
    that solve the task then remain.

    While the `target_weight` of a layer with a `target` is above 0, the layer
    keeps its price, 0 by default: its target says how much is read. An
    `ExpectedSubsample` with `estimator="expectation"` draws nothing: it keeps
    its entropy's weight, and since outputs that are not decided average over
    many steps, its `indecision_weight` rises earlier and further, from 0 to
    0.3 over 0.1 to 0.4.

    The values depend on `model.optimizer.iterations` alone: a run that is
    killed and resumed with `keras.callbacks.BackupAndRestore` continues the
    schedule, a second `fit` goes on where the first ended, and nothing is
    traced again. With `steps_per_execution=k` the values change every k
    steps. A model that is built by its first step makes that step with its
    layers' initial values.

    Args:
        steps: Positive int, the optimizer step at which the schedule ends,
            counted from the optimizer's first; those of the first `fit` if
            None. For another model take another callback.
        entropy: Schedule of `entropy_weight`: a number replaces the initial
            value of the default; a `Ramp`, or a tuple `(initial, final, begin,
            end[, power])`, replaces the whole schedule; None leaves the
            variable alone.
        price: Schedule of `cost_weight`, given likewise, but a number replaces
            the final value. Layers that a target holds are left out.
        indecision: Schedule of `indecision_weight`, given likewise; a number
            replaces the final value. If given, it holds for all layers, those
            with `estimator="expectation"` too.
        temperature: Schedule of `temperature`, given likewise; a number
            replaces the final value.
        layer_names: Names of the layers to schedule, or of models and
            wrappers around them; all layers with decisions if None. A name
            selects every layer that has it. The frozen parts of a
            `DistillationModel` stay as they are.

    Raises:
        ValueError: If an argument is not allowed; at the start of training, if
            no layer decides, a name in `layer_names` leads to none, or
            `steps` is None and the number of steps is not known.

    Warns: If the optimizer has made so many steps already, in an earlier
    `fit`, that the schedule is over before it begins; and of an `RFCell` in
    `keras.layers.RNN`, where costs have no effect.

    Example:

    >>> import keras, numpy as np
    >>> from keras_seqmech import ReceptiveFieldRNN
    >>> layer = ReceptiveFieldRNN(keras.layers.GRUCell(4), max_size=3)
    >>> model = keras.Sequential([layer, keras.layers.Dense(1)])
    >>> model.compile("adam", "mse")
    >>> fit = model.fit(np.ones((8, 5, 2)), np.ones((8, 1)), batch_size=2,
    ...                 verbose=0, callbacks=[ExploreThenCommit()])
    >>> round(float(layer.costs.cost_weight), 3)
    0.02
    """

    def __init__(
        self,
        steps: int | None = None,
        entropy: Any = ENTROPY,
        price: Any = PRICE,
        indecision: Any = INDECISION,
        temperature: Any = TEMPERATURE,
        layer_names: Any = None,
    ):
        super().__init__()
        if steps is not None:
            steps = validation.check_positive_int("steps", steps)
        check_layer_names(layer_names)
        if layer_names is not None:
            layer_names = list(layer_names)
        self.steps = steps
        self.ramps = {
            "entropy_weight": check_ramp(
                "entropy", entropy, ENTROPY, first=True
            ),
            "cost_weight": check_ramp("price", price, PRICE),
            "indecision_weight": check_ramp(
                "indecision", indecision, INDECISION
            ),
            "temperature": check_ramp(
                "temperature", temperature, TEMPERATURE, least=1e-6
            ),
        }
        self.layer_names = layer_names
        # KerasTuner deep-copies callbacks, after which `is` no longer holds.
        self._has_default_indecision = indecision is INDECISION
        self._total: int | None = None
        # Whether no epoch of this `fit` has begun.
        self._is_beginning = True
        # The variables that this `fit` schedules, once the layers are built.
        self._scheduled: list[_Scheduled] | None = None

    def values(self, progress: float) -> dict[str, float]:
        """The values at a share of training, by name of the variable."""
        return _values(self.ramps, progress)

    def on_train_begin(self, logs: dict | None = None) -> None:
        self._scheduled, self._is_beginning = None, True
        self._find_scheduled(must=self.model.built)
        if self._total is None:
            self._total = self.steps or self._steps_of_fit()
            self._warn_if_over()
        self._set_values()

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        # With an optimizer that has made no step yet, `initial_epoch` says
        # that there are fewer epochs, not that some were trained.
        if self._is_beginning and epoch and not self.steps:
            if not optimizer_steps(self.model):
                self._total = self._steps_of_fit(first_epoch=epoch)
        self._is_beginning = False

    def on_train_batch_begin(
        self, batch: int, logs: dict | None = None
    ) -> None:
        self._set_values()

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        if self._scheduled is None:
            self._find_scheduled(must=True)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        self._set_values()

    def _steps_of_fit(self, first_epoch: int = 0) -> int:
        steps = (self.params or {}).get("steps")
        if not steps or isinstance(self.model, TruncatedBackpropagationModel):
            raise ValueError(
                "Argument `steps` must be given where the number of optimizer "
                "steps of an epoch is not known, as with a generator or a "
                "`TruncatedBackpropagationModel`. Received: steps=None"
            )
        optimizer = self.model.optimizer
        optimizer = getattr(optimizer, "inner_optimizer", optimizer)
        accumulated = optimizer.gradient_accumulation_steps or 1
        epochs = self.params["epochs"] - first_epoch
        return max(1, steps * epochs // accumulated)

    def _warn_if_over(self) -> None:
        step = optimizer_steps(self.model)
        if step and step >= (self._total or 0):
            warnings.warn(
                "The schedule of `ExploreThenCommit` is over before it begins: "
                f"it has {self._total} steps, counted from the optimizer's "
                f"first, and the optimizer has made {step}. Give `steps`, the "
                "number of the last one, to explore in a later `fit`.",
                UserWarning,
                stacklevel=2,
            )

    def _find_scheduled(self, must: bool) -> None:
        """Finds the variables, if the layers are built; raises if they must."""
        deciders = _find_deciders(self.model, self.layer_names)
        if deciders and all(layer.costs.built for layer in deciders):
            _warn_of_cells(self.model, deciders)
            self._scheduled = [
                _Scheduled(
                    layer.costs, _variables(layer), self._ramps_of(layer)
                )
                for layer in deciders
            ]
        elif must:
            raise ValueError(
                "`ExploreThenCommit` needs a model with a layer that decides, "
                "such as `ReceptiveFieldRNN`, and that it is called in "
                "training; name those that are in `layer_names`. Received: "
                f"model '{self.model.name}', in which "
                f"{[layer.name for layer in deciders]} decide and "
                f"{[x.name for x in deciders if not x.costs.built]} were "
                "never called"
            )

    def _ramps_of(self, layer: Any) -> Ramps:
        """The schedules of a layer's variables."""
        if not (self._has_default_indecision and _is_in_expectation(layer)):
            return self.ramps
        return {**self.ramps, "indecision_weight": INDECISION_IN_EXPECTATION}

    def _set_values(self) -> None:
        step = optimizer_steps(self.model)
        progress = min(1.0, step / max(1, self._total or 1))
        for scheduled in self._scheduled or ():
            scheduled.set(progress)


def _values(ramps: Ramps, progress: float) -> dict[str, float]:
    return {
        name: ramp.value(progress)
        for name, ramp in ramps.items()
        if ramp is not None
    }


class _Scheduled(NamedTuple):
    """The variables of a layer, by name, and their schedules."""

    costs: DecisionCosts
    variables: dict[str, keras.Variable]
    ramps: Ramps

    def set(self, progress: float) -> None:
        """Sets the variables for a share of training."""
        values = _values(self.ramps, progress)
        if self.costs.is_targeted:
            values.pop("cost_weight", None)
        for name in values.keys() & self.variables.keys():
            self.variables[name].assign(values[name])


def _find_deciders(
    model: keras.Model, layer_names: list[str] | None
) -> list[Any]:
    """The layers that decide."""
    roots = [model]
    if layer_names is not None:
        by_name: dict[str, list[keras.Layer]] = {}
        for layer in sublayers(model):
            by_name.setdefault(layer.name, []).append(layer)
        missing = [name for name in layer_names if name not in by_name]
        if missing:
            raise ValueError(
                "Argument `layer_names` must name layers of the model. "
                f"Received: layer_names={layer_names!r}, of which {missing} "
                "are none"
            )
        roots = [layer for name in layer_names for layer in by_name[name]]
    found = {}
    for root in roots:
        found.update(_by_costs(root))
    if isinstance(model, DistillationModel):
        for part in model.frozen_parts:
            for key in _by_costs(part):
                found.pop(key, None)
    return list(found.values())


def _by_costs(root: keras.Layer) -> dict[int, Any]:
    """The layers that decide, each once, by the id of what holds its costs."""
    found: dict[int, Any] = {}
    for layer in sublayers(root):
        held = getattr(layer, "costs", None)
        if isinstance(held, DecisionCosts):
            # A `ReceptiveFieldRNN` comes before its cell.
            found.setdefault(id(held), layer)
    return found


def _warn_of_cells(model: keras.Model, deciders: list[Any]) -> None:
    """Warns of cells within `keras.layers.RNN`, where costs have no effect."""
    charged = {
        id(layer.costs)
        for layer in sublayers(model)
        if isinstance(layer, ReceptiveFieldRNN)
    }
    cells = [
        layer.name
        for layer in deciders
        if isinstance(layer, RFCell) and id(layer.costs) not in charged
    ]
    if cells:
        warnings.warn(
            "The costs of decisions act in `ReceptiveFieldRNN` only, not in "
            "`keras.layers.RNN(RFCell(...))`, where sizes neither explore, pay "
            "nor commit. Received: `ExploreThenCommit` for a model with the "
            f"cells {cells}",
            UserWarning,
            stacklevel=2,
        )


def _is_in_expectation(layer: Any) -> bool:
    return getattr(layer, "estimator", None) == "expectation"


def _variables(layer: Any) -> dict[str, keras.Variable]:
    """The variables of a layer that may be scheduled, by name."""
    variables = {v.name: v for v in layer.costs.variables}
    if _is_in_expectation(layer):
        del variables["entropy_weight"]
    temperature = getattr(layer, "temperature", None)
    if isinstance(temperature, keras.Variable):
        variables["temperature"] = temperature
    return variables
