"""Searches for hyperparameters with KerasTuner's own tuners.

Import it by `from keras_seqmech import tuning`: it needs the extra
`keras_seqmech[tuning]`, and `keras_seqmech` does not import it.
"""

import json
import logging
import os
import socket
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
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

from keras_seqmech.receptive_field import LookAhead
from keras_seqmech.receptive_field import ReceptiveFieldRNN
from keras_seqmech.training.schedules import Schedule

__all__ = [
    "ReceptiveFieldHyperModel",
    "open_search",
]

# (low, high), (low, high, step), or a number that is not searched.
Range = float | Sequence[float]

# KerasTuner reads these.
IP, PORT = "KERASTUNER_ORACLE_IP", "KERASTUNER_ORACLE_PORT"
TUNER_ID = "KERASTUNER_TUNER_ID"

# Keywords of a tuner that may differ when its search is continued.
FREE = ("max_trials", "max_retries_per_trial", "max_consecutive_failed_trials")
NEVER = 10**9

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
                field = {"max_size": sizes[-1], name: value}
                layer(*cell, seed=0, **field)
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
            keras_tuner.errors.FatalValueError: If `callbacks` have a schedule.
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
        reason = _divergence(history)
        if reason:
            # A chief never learns the reason from its worker.
            _logger.warning(reason)
            raise keras_tuner.errors.FailedTrialError(reason)
        return history


def open_search(
    tuner_class: type[keras_tuner.Tuner],
    hypermodel: keras_tuner.HyperModel | Callable,
    directory: str | Path,
    project_name: str,
    settings: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    **kwargs: Any,
) -> keras_tuner.Tuner:
    """Makes a tuner for a new search, or for one that is continued.

    In addition to what KerasTuner does:

    - It refuses a folder that holds another search. Two searches are the same
      if their tuner, space, objective, `settings` and all keywords are,
      except `max_trials` and those about failures.
    - After a kill, the same call continues the search, also where the kill
      fell between two of KerasTuner's files, or in another process. Finished
      trials are kept; those that were running, or had just ended, are run
      again.
    - Failed trials do not end the search, however many follow each other,
      unless `max_consecutive_failed_trials` is given. (In KerasTuner 1.4 the
      chief of a distributed search would wait forever.)
    - A chief does not start at a port that is taken. A worker that is killed
      and started again with its `KERASTUNER_TUNER_ID` continues the trial it
      had; until then the chief does not end.

    Args:
        tuner_class: Class of the tuner, such as `keras_tuner.RandomSearch`.
        hypermodel: A `ReceptiveFieldHyperModel`, or any other one.
        directory: Folder of searches; made if it is missing. All processes of
            a distributed search need the same.
        project_name: Name of this search's own folder in `directory`.
        settings: What else trials depend on, such as the data set and the
            number of epochs: numbers, strings, lists and dicts of them.
        overwrite: Whether to delete the search in the folder first.
        **kwargs: Arguments of the tuner, such as `objective` and
            `max_trials`.

    Returns:
        The tuner; call its `search` next. In a chief, this returns when all
        trials are done.

    Raises:
        ValueError: If the folder holds another search, or one that cannot be
            continued: a `GridSearch`, whose place KerasTuner does not save,
            or one whose `oracle.json` a kill has cut.
        OSError: In a chief, if the port is taken.

    Example:

    >>> import tempfile
    >>> def build_model(hp):
    ...     model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    ...     model.compile("sgd", loss="mse")
    ...     return model
    >>> tuner = open_search(
    ...     keras_tuner.RandomSearch, build_model, tempfile.mkdtemp(), "sweep",
    ...     objective="loss", max_trials=4)
    """
    role, folder = _role(), Path(directory) / project_name
    if role == "worker":
        overwrite = False  # The chief has done it, and uses the folder now.
    elif role == "chief":
        _check_port()
    search = _describe(tuner_class, hypermodel, settings, kwargs)
    claim, oracle = folder / "search.json", folder / "oracle.json"
    holds_search = claim.exists() or oracle.exists()
    is_continued = oracle.exists() and not overwrite
    if holds_search and not overwrite:
        _check_same(folder, _read(claim) if claim.exists() else {}, search)
    if is_continued and role != "worker":
        if issubclass(tuner_class, keras_tuner.GridSearch):
            raise ValueError(
                "Argument `tuner_class` must save where it is, which "
                "KerasTuner's `GridSearch` does not, for its search to be "
                "continued. Choose another folder, or `overwrite=True`. "
                f"Received: tuner_class={tuner_class.__name__}, "
                f"directory={str(directory)!r}"
            )
        _move_torn(folder)
    kwargs.setdefault("max_consecutive_failed_trials", NEVER)
    tuner = tuner_class(
        hypermodel=hypermodel,
        directory=str(directory),
        project_name=project_name,
        overwrite=overwrite and holds_search,
        **kwargs,
    )
    if role != "worker":
        if is_continued:
            # KerasTuner does so only for a process of the same name.
            tuner.oracle.reload()
        folder.mkdir(parents=True, exist_ok=True)
        claim.write_text(json.dumps(search), "utf8")
    return tuner


def _role() -> str:
    """Returns `"alone"`, `"chief"` or `"worker"`, as KerasTuner does.

    Raises a ValueError if only some of its environment variables are set.
    """
    found = {name: os.environ.get(name) for name in (IP, PORT, TUNER_ID)}
    if not (found[IP] or found[PORT]):
        return "alone"
    if not all(found.values()):
        raise ValueError(
            "A distributed search needs the environment variables "
            f"{list(found)}. Received: {found}"
        )
    return "chief" if "chief" in os.environ[TUNER_ID] else "worker"


def _check_port() -> None:
    """Refuses a port that is taken.

    gRPC would share it with another gRPC server and receive some of the
    workers' calls, without an error.
    """
    ip, port = os.environ[IP].strip("[]"), int(os.environ[PORT])
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    socket.create_server((ip, port), family=family).close()


def _describe(
    tuner_class: type[keras_tuner.Tuner],
    hypermodel: keras_tuner.HyperModel | Callable,
    settings: Mapping[str, Any] | None,
    kwargs: Mapping[str, Any],
) -> dict[str, Any]:
    """The settings that identify a search, as JSON values by name."""
    hp = kwargs.get("hyperparameters")
    hp = hp.copy() if hp else keras_tuner.HyperParameters()
    getattr(hypermodel, "build", hypermodel)(hp)
    search: dict[str, Any] = {"tuner": tuner_class.__name__}
    for entry in hp.get_config()["space"]:
        # A name may come again, under another condition.
        name = f"space.{entry['config']['name']}"
        search.setdefault(name, []).append(entry)
    for name, value in kwargs.items():
        if name == "objective":
            search[name] = [str(part) for part in keras.tree.flatten(value)]
        elif name not in FREE and isinstance(value, (int, float, str)):
            search[name] = value
    try:
        for name, value in dict(settings or {}).items():
            search[f"settings.{name}"] = value
        return json.loads(json.dumps(search))
    except (TypeError, ValueError) as error:
        raise ValueError(
            "Argument `settings` must be a dict of numbers, strings, lists "
            f"and dicts of them ({error}). Received: settings={settings!r}"
        ) from error


def _check_same(
    folder: Path, found: Mapping[str, Any], wanted: Mapping[str, Any]
) -> None:
    """Refuses a folder that holds another search than the one wanted."""
    for name in {**wanted, **found}:
        there, here = found.get(name), wanted.get(name)
        if there != here:
            raise ValueError(
                f"The folder {folder} holds another search, which differs in "
                f"`{name}`: {there!r} there, {here!r} here. Choose another "
                "folder, or `overwrite=True`. Received: "
                f"directory={str(folder.parent)!r}, "
                f"project_name={folder.name!r}"
            )


def _move_torn(folder: Path) -> None:
    """Moves files aside with which KerasTuner would not continue.

    They are cut, or of trials that the oracle does not know, which KerasTuner
    saves after the trial: those are drawn again. A trial that it knows, and
    whose file is cut, runs again with the values that the space has by default.
    """
    known = _read(folder / "oracle.json")["start_order"]
    for file in folder.rglob("*.json"):
        key = file.parent.name.removeprefix("trial_")
        is_unknown = file.name == "trial.json" and key not in known
        is_torn = _is_torn(file)
        if is_torn or is_unknown:
            file.replace(file.with_suffix(".torn"))
        if is_torn and file.name == "trial.json" and not is_unknown:
            hp = keras_tuner.HyperParameters()
            keras_tuner.engine.trial.Trial(hp, key).save(str(file))


def _is_torn(file: Path) -> bool:
    try:
        json.loads(file.read_text("utf8"))
    except ValueError:
        return True
    return False


def _read(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text("utf8"))
    except ValueError as error:
        raise ValueError(
            "The search cannot be continued, as a kill has cut one of its "
            "files; its finished trials are beside it. Choose another folder, "
            f"or `overwrite=True`. Received: {path}: {error}"
        ) from error


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
    """Which loss or weight is not finite, if any."""
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
