"""The folder of a search: whose it is, and that a kill leaves it whole.

KerasTuner continues whatever search it finds in a folder, writes its files in
place, and notes that a trial has ended in one file before the other. Here a
folder says what search it belongs to, files are replaced in one step, and
what a kill left between two steps is put in order: the trials' own files tell
what is finished.
"""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras_tuner

CLAIM = "search.json"
ORACLE = "oracle.json"
FINISHED = ("COMPLETED", "FAILED")


def claim(folder: Path, search: Mapping[str, Any]) -> bool:
    """Writes down what search a folder belongs to, or refuses the folder.

    Args:
        folder: Of the search; need not exist.
        search: What makes one search differ from another, as JSON has it.

    Returns:
        Whether it was nobody's until now.

    Raises:
        ValueError: If the folder belongs to another search, naming what
            differs; or to one that is not known.
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
    """Leaves a folder to others."""
    (folder / CLAIM).unlink()


def delete(folder: Path) -> None:
    """Deletes a folder if it is one of a search."""
    if (folder / CLAIM).exists() or (folder / ORACLE).exists():
        shutil.rmtree(folder)


def mend(folder: Path, tuner_id: str) -> None:
    """Puts a folder in order that a killed search has left.

    Finished trials are not run again. One whose end was not reached is run
    again under its number, without what it had reported. One that never began
    is forgotten, and so drawn again.

    Args:
        folder: Of the search.
        tuner_id: Name of the process that goes on with it.
    """
    path = folder / ORACLE
    if not path.exists():  # Then no trial has begun, whatever else is there.
        (folder / f"{tuner_id}.json").unlink(missing_ok=True)
        for trial in folder.glob("trial_*"):
            shutil.rmtree(trial)
        return
    state = read(path)
    known = dict.fromkeys(state["start_order"])
    for file in sorted(folder.glob("trial_*/trial.json")):
        trial = read(file)
        if trial["trial_id"] in known:
            known[trial["trial_id"]] = (file, trial)
        else:
            shutil.rmtree(file.parent)
    known = {key: found for key, found in known.items() if found}
    finished = [
        key for key, (_, trial) in known.items() if trial["status"] in FINISHED
    ]
    waiting = [key for key in known if key not in finished]
    for key in waiting:
        file, trial = known[key]
        write(
            file,
            {**trial, "metrics": {"metrics": {}}, "score": None},
        )
    ended = [key for key in state["end_order"] if key in finished]
    ended += [key for key in finished if key not in ended]
    state["start_order"] = list(known)
    state["end_order"] = ended
    state["ongoing_trials"] = {}
    state["retry_queue"] = waiting[::-1]  # KerasTuner takes the last first.
    write(path, state)
    write(folder / f"{tuner_id}.json", {})  # Else nothing is read again.


def write_whole(oracle: keras_tuner.Oracle, folder: Path) -> None:
    """Lets an oracle replace its files in one step."""

    def save():
        write(folder / ORACLE, oracle.get_state())

    def save_trial(trial):
        path = folder / f"trial_{trial.trial_id}" / "trial.json"
        path.parent.mkdir(exist_ok=True)
        write(path, trial.get_state())

    oracle.save = save
    # There is no public way to the trials' files.
    oracle._save_trial = save_trial


def read(path: Path) -> Any:
    """Reads a JSON file.

    Raises:
        ValueError: If it is none.
    """
    try:
        return json.loads(path.read_text("utf8"))
    except ValueError as error:
        raise ValueError(
            f"{path}: expected JSON; the search cannot go on from it. "
            f"Received: {error}"
        ) from error


def write(path: Path, content: Any) -> None:
    """Writes a JSON file that is there whole, or as it was."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    temporary.write_text(json.dumps(content), "utf8")
    os.replace(temporary, path)


def _difference(found, wanted, name=""):
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
