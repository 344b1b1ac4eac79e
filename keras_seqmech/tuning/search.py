"""A search with one of KerasTuner's tuners that continues after a kill."""

import json
import os
from collections.abc import Callable
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras_tuner

from keras_seqmech.tuning import distributed
from keras_seqmech.tuning import search_folder

# What may differ when a search is continued.
FREE = (
    "max_trials",
    "max_retries_per_trial",
    "max_consecutive_failed_trials",
)
NEVER = 10**9


def open_search(
    tuner_class: type[keras_tuner.Tuner],
    hypermodel: keras_tuner.HyperModel | Callable,
    directory: str | Path,
    project_name: str,
    settings: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    chief_timeout: float = 60.0,
    **kwargs: Any,
) -> keras_tuner.Tuner:
    """Makes a tuner for a new search, or for one that is continued.

    In addition to what KerasTuner does:

    - It refuses a folder that holds another search. Two searches are the same
      if their tuner, space, objective, `settings` and all keywords are,
      except `max_trials` and those about failures: more trials may be asked
      for later.
    - After a kill at any time, the same call continues the search. Finished
      trials are kept; trials that were running are run again.
    - Failed trials do not end the search, however many follow each other,
      unless `max_consecutive_failed_trials` is given. (In KerasTuner 1.4 the
      chief of a distributed search would wait forever.)
    - In a distributed search, the chief does not start at a port that is
      taken, and a worker does not wait for a chief longer than
      `chief_timeout`. A worker that is killed and started again with its
      `KERASTUNER_TUNER_ID` continues the trial it had; until then the chief
      does not end.

    Args:
        tuner_class: Class of the tuner, such as `keras_tuner.RandomSearch`.
        hypermodel: A `ReceptiveFieldHyperModel`, or any other one.
        directory: Folder of searches; made if it is missing. All processes of
            a distributed search need the same.
        project_name: Name of this search's own folder in `directory`.
        settings: What else trials depend on, such as the data set and the
            number of epochs: numbers, strings, lists and dicts of them.
        overwrite: Whether to delete the search in the folder first.
        chief_timeout: Seconds a worker waits for its chief.
        **kwargs: Arguments of the tuner, such as `objective` and
            `max_trials`.

    Returns:
        The tuner; call its `search` next. In a chief, this returns when all
        trials are done.

    Raises:
        ValueError: If the folder holds another search, a file of the search
            is not KerasTuner's, or an argument is not as described.
        OSError: In a chief, if the port is taken.
        TimeoutError: In a worker, if there is no chief.

    Example:

    >>> import tempfile
    >>> def build_model(hp):
    ...     model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    ...     model.compile("sgd", loss="mse")
    ...     return model
    >>> options = {"hypermodel": build_model, "project_name": "sweep"}
    >>> options["directory"] = tempfile.mkdtemp()
    >>> tuner = open_search(
    ...     keras_tuner.RandomSearch, **options, objective="loss")
    >>> tuner = open_search(keras_tuner.GridSearch, **options, objective="loss")
    Traceback (most recent call last):
    ValueError: The folder ... holds another search, which differs in `tuner`:
    'RandomSearch' there, 'GridSearch' here. ...
    """
    _check_search(tuner_class, hypermodel, directory, project_name)
    settings = _check_settings(settings)
    worker = distributed.is_worker()
    if worker:
        distributed.wait_for_chief(chief_timeout)
        overwrite = False  # The chief has done it, and uses the folder now.
    elif distributed.is_chief():
        distributed.check_port()
    folder = Path(directory) / project_name
    if overwrite:
        search_folder.delete(folder)
    space = _space(hypermodel, kwargs.get("hyperparameters"))
    is_new = search_folder.claim(
        folder,
        {
            "tuner": tuner_class.__name__,
            "objective": _describe(kwargs.get("objective")),
            "space": space,
            "settings": settings,
            "keywords": _plain(kwargs),
        },
    )
    if not worker:
        search_folder.mend(folder, distributed.tuner_id())
    kwargs.setdefault("max_consecutive_failed_trials", NEVER)
    try:
        tuner = tuner_class(
            hypermodel=hypermodel,
            directory=str(directory),
            project_name=project_name,
            **kwargs,
        )
    except Exception:
        if is_new:  # A wrong keyword makes no search.
            search_folder.release(folder)
        raise
    if worker:
        _check_chief(tuner, space)
    else:
        tuner.oracle = search_folder.BackedUpOracle(tuner.oracle, folder)
    return tuner


def _check_search(
    tuner_class: Any, hypermodel: Any, directory: Any, project_name: Any
) -> None:
    is_class = isinstance(tuner_class, type)
    if not is_class or not issubclass(tuner_class, keras_tuner.Tuner):
        raise ValueError(
            "Argument `tuner_class` must be a class of tuners, such as "
            f"`keras_tuner.RandomSearch`. Received: tuner_class={tuner_class!r}"
        )
    builds = isinstance(hypermodel, keras_tuner.HyperModel)
    if not builds and not callable(hypermodel):
        raise ValueError(
            "Argument `hypermodel` must be a hypermodel, or a function of hp "
            f"that returns a model. Received: hypermodel={hypermodel!r}"
        )
    if not isinstance(directory, (str, os.PathLike)):
        raise ValueError(
            "Argument `directory` must be a path. "
            f"Received: directory={directory!r}"
        )
    is_name = isinstance(project_name, str) and project_name not in ("", "..")
    if not is_name or Path(project_name).name != project_name:
        raise ValueError(
            "Argument `project_name` must be the name of a folder in "
            f"`directory`. Received: project_name={project_name!r}"
        )


def _check_settings(settings: Any) -> dict[str, Any]:
    try:
        return json.loads(json.dumps(dict(settings or {})))
    except (TypeError, ValueError) as error:
        raise ValueError(
            "Argument `settings` must be a dict of numbers, strings, lists "
            f"and dicts of them ({error}). Received: settings={settings!r}"
        ) from error


def _space(
    hypermodel: keras_tuner.HyperModel | Callable,
    hyperparameters: keras_tuner.HyperParameters | None,
) -> list[dict[str, Any]]:
    """The space of a hypermodel, as its first model defines it."""
    hp = hyperparameters.copy() if hyperparameters else None
    hp = hp or keras_tuner.HyperParameters()
    getattr(hypermodel, "build", hypermodel)(hp)
    return hp.get_config()["space"]


def _describe(objective: Any) -> Any:
    if isinstance(objective, (list, tuple)):
        return [_describe(part) for part in objective]
    return None if objective is None else str(objective)


def _plain(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Keywords that are equal in another process: those that JSON has."""
    found = {}
    for name, value in kwargs.items():
        try:
            found[name] = json.loads(json.dumps(value))
        except TypeError:
            continue
    for name in (*FREE, "objective"):
        found.pop(name, None)
    return found


def _check_chief(tuner: keras_tuner.Tuner, space: list[dict[str, Any]]) -> None:
    names = {hp["config"]["name"] for hp in space}
    searched = {hp.name for hp in tuner.oracle.get_space().space}
    if not names <= searched:
        raise ValueError(
            "The chief of another search answers, whose space lacks "
            f"{sorted(names - searched)}. "
            f"Received: {distributed.PORT}={distributed.read_port()}"
        )
