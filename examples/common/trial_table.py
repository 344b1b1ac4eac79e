"""The trials of a KerasTuner search as a Markdown table."""

from collections.abc import Sequence
from typing import Any

import keras_tuner


def all_trials(tuner: keras_tuner.Tuner) -> list[Any]:
    """The trials of a search, the best first, then those without a score."""
    return tuner.oracle.get_best_trials(len(tuner.oracle.trials))


def trial_table(tuner: keras_tuner.Tuner, metrics: Sequence[str] = ()) -> str:
    """A row for each trial, with the hyperparameters that differ.

    Args:
        tuner: A tuner after its search; not that of a worker.
        metrics: Names of metrics shown beside the objective.
    """
    trials = all_trials(tuner)
    values = [trial.hyperparameters.values for trial in trials]
    names = [
        name
        for name in dict.fromkeys(name for found in values for name in found)
        if not name.startswith("tuner/")
        and len({str(found.get(name)) for found in values}) > 1
    ]
    header = ["trial", *names, tuner.oracle.objective.name, *metrics, "status"]
    rows = [header, ["---"] * len(header)]
    for trial, found in zip(trials, values):
        numbers = [trial.score, *(_last(trial, name) for name in metrics)]
        status = trial.status.lower()
        if trial.message:
            status += f": {trial.message.strip().splitlines()[-1]}"
        rows.append(
            [
                trial.trial_id,
                *(_show(found.get(name), ".3g") for name in names),
                *(_show(number, ".4f") for number in numbers),
                status.replace("|", "\\|"),
            ]
        )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _last(trial: Any, name: str) -> float | None:
    if not trial.metrics.exists(name):
        return None
    return trial.metrics.get_history(name)[-1].mean()


def _show(value: Any, form: str) -> str:
    if value is None:
        return ""
    return format(value, form) if isinstance(value, float) else str(value)
