"""The folder of a search: which search it holds, and its repair after a kill.

KerasTuner continues any search that it finds in a folder, writes its files in
place, and notes the end of a trial in one file before the other. Here a folder
says which search it holds, each of KerasTuner's files has a backup that is
written in one step, and `mend` makes files agree that a kill left cut or
different: the trials' own files tell which trials are finished.
"""

import json
import os
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras_tuner

CLAIM = "search.json"
ORACLE = "oracle.json"
TRIAL = "trial.json"
FINISHED = ("COMPLETED", "FAILED")
# What each file must hold, by path of keys.
FIELDS: dict[str, dict[str, type]] = {
    CLAIM: {"tuner": str, "space": list, "settings": dict, "keywords": dict},
    ORACLE: {
        "display": dict,
        "end_order": list,
        "hyperparameters": dict,
        "id_to_hash": dict,
        "ongoing_trials": dict,
        "retry_queue": list,
        "run_times": dict,
        "start_order": list,
        "tried_so_far": list,
    },
    TRIAL: {
        "hyperparameters.values": dict,
        "metrics.metrics": dict,
        "status": str,
        "trial_id": str,
    },
}


def claim(folder: Path, search: Mapping[str, Any]) -> bool:
    """Writes down which search a folder holds, or refuses the folder.

    Args:
        folder: Folder of the search; need not exist.
        search: What makes one search differ from another, as JSON values.

    Returns:
        Whether the folder held no search before.

    Raises:
        ValueError: If the folder holds another search, naming what differs;
            or one that is not known.
    """
    path = folder / CLAIM
    search = json.loads(json.dumps(search))
    if path.exists():
        found = read(path)
        if found != search:
            raise ValueError(
                f"The folder {folder} holds another search, which differs in "
                f"{_difference(found, search)}. Choose another folder, or "
                f"`overwrite=True`. Received: directory={str(folder.parent)!r},"
                f" project_name={folder.name!r}"
            )
        return False
    if (folder / ORACLE).exists():
        raise ValueError(
            f"The folder {folder} holds a search that does not say what it "
            f"searched (no file {CLAIM}). Choose another folder, or "
            f"`overwrite=True`. Received: directory={str(folder.parent)!r}, "
            f"project_name={folder.name!r}"
        )
    folder.mkdir(parents=True, exist_ok=True)
    write(path, search)
    return True


def release(folder: Path) -> None:
    """Undoes `claim`."""
    (folder / CLAIM).unlink()


def delete(folder: Path) -> None:
    """Deletes a folder if it holds a search."""
    if (folder / CLAIM).exists() or (folder / ORACLE).exists():
        shutil.rmtree(folder)


def mend(folder: Path, tuner_id: str) -> None:
    """Repairs a folder that a killed search has left.

    Finished trials are not run again. Trials that had begun are run again
    under their numbers, without the metrics they had reported. A trial that
    never began is deleted, and drawn again.

    Args:
        folder: Folder of the search.
        tuner_id: Name of the process that continues it.

    Raises:
        ValueError: If a file is not KerasTuner's, and has no backup.
    """
    path = folder / ORACLE
    if not path.exists():  # Then no trial has begun, whatever other files say.
        (folder / f"{tuner_id}.json").unlink(missing_ok=True)
        for trial in folder.glob("trial_*"):
            shutil.rmtree(trial)
        return
    state = read_or_backup(path)
    begun = dict.fromkeys(state["start_order"])
    for file in sorted(folder.glob(f"trial_*/{TRIAL}")):
        key = file.parent.name.removeprefix("trial_")
        if key in begun:
            begun[key] = read_or_backup(file)
        else:
            shutil.rmtree(file.parent)
    trials = {key: trial for key, trial in begun.items() if trial}
    finished = [
        key for key, trial in trials.items() if trial["status"] in FINISHED
    ]
    waiting = [key for key in trials if key not in finished]
    for key in waiting:
        write(
            folder / f"trial_{key}" / TRIAL,
            {**trials[key], "metrics": {"metrics": {}}, "score": None},
        )
    ended = [key for key in state["end_order"] if key in finished]
    ended += [key for key in finished if key not in ended]
    state["start_order"] = list(trials)
    state["end_order"] = ended
    state["ongoing_trials"] = {}
    state["retry_queue"] = waiting[::-1]  # KerasTuner takes the last first.
    write(path, state)
    write(folder / f"{tuner_id}.json", {})  # Else nothing is read again.


class BackedUpOracle:
    """An oracle that keeps backups of the files that it writes.

    It wraps an oracle, as KerasTuner's own `OracleClient` does in a worker.
    After each call that changes the oracle's files, and before the next one,
    the backups hold what the files hold; so a kill during a call may cut one
    of the files, and leaves its backup.

    Args:
        oracle: Oracle of a tuner.
        folder: Folder of its search.
    """

    def __init__(self, oracle: keras_tuner.Oracle, folder: Path):
        self.oracle = oracle
        self._folder = folder
        self._lock = threading.RLock()  # A chief answers in several threads.
        self._back_up()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.oracle, name)

    @property
    def verbose(self) -> Any:
        return self.oracle.verbose

    @verbose.setter
    def verbose(self, value: Any) -> None:
        self.oracle.verbose = value

    def create_trial(self, tuner_id: str) -> Any:
        with self._lock:
            trial = self.oracle.create_trial(tuner_id)
            path = self._folder / f"trial_{trial.trial_id}" / TRIAL
            if path.exists():
                # Later states are not needed: without its own file, a trial
                # is run again.
                write(backup_path(path), trial.get_state())
            self._back_up()
            return trial

    def update_trial(self, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            return self.oracle.update_trial(*args, **kwargs)

    def end_trial(self, *args: Any, **kwargs: Any) -> None:
        with self._lock:
            self.oracle.end_trial(*args, **kwargs)
            self._back_up()

    def save(self) -> None:
        with self._lock:
            self.oracle.save()
            self._back_up()

    def _back_up(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        write(backup_path(self._folder / ORACLE), self.oracle.get_state())


def backup_path(path: Path) -> Path:
    """The backup of a file of KerasTuner."""
    return path.with_name(f"{path.stem}.backup.json")


def read_or_backup(path: Path) -> dict[str, Any]:
    """Reads a file, or its backup if a kill has cut the file.

    Raises:
        ValueError: If the file is not as it should be and has no backup.
    """
    try:
        return read(path)
    except ValueError:
        backup = backup_path(path)
        if not backup.exists():
            raise
        return read(backup, path.name)


def read(path: Path, kind: str | None = None) -> dict[str, Any]:
    """Reads a JSON file with the fields that its kind has.

    Args:
        path: Path of the file.
        kind: A key of `FIELDS`; the file's name if None.

    Raises:
        ValueError: If it is no JSON, or lacks a field.
    """
    fields = FIELDS[kind or path.name]
    try:
        content = json.loads(path.read_text("utf8"))
        problem = _problem(content, fields)
    except ValueError as error:
        problem = str(error)
    if problem:
        raise ValueError(
            f"{path}: expected JSON of an object with {sorted(fields)}; the "
            f"search cannot continue from it. Received: {problem}"
        )
    return content


def _problem(content: Any, fields: Mapping[str, type]) -> str:
    """What a file lacks, or nothing."""
    for name, expected in fields.items():
        value = content
        for key in name.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        if not isinstance(value, expected):
            return f"{name}={value!r}"
    return ""


def write(path: Path, content: Any) -> None:
    """Writes a JSON file in one step: it is complete, or as it was before."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    temporary.write_text(json.dumps(content), "utf8")
    os.replace(temporary, path)


def _difference(found: Any, wanted: Any, name: str = "") -> str:
    """The first thing that differs, with its place."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        for key in {**wanted, **found}:
            if found.get(key) != wanted.get(key):
                place = f"{name}.{key}" if name else key
                return _difference(found.get(key), wanted.get(key), place)
    if isinstance(found, list) and isinstance(wanted, list):
        for i, pair in enumerate(zip(found, wanted)):
            if pair[0] != pair[1]:
                return _difference(*pair, f"{name}[{i}]")
    return f"`{name}`: {found!r} there, {wanted!r} here"
