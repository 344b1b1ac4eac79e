"""The results of the trials of a search, read from its folder."""

from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from typing import NamedTuple

import numpy as np

from keras_seqmech.tuning import search_folder


class TrialResult(NamedTuple):
    """One trial.

    Attributes:
        trial_id: Its number.
        status: `"COMPLETED"`, `"FAILED"` or, if it has not ended, another.
        score: The objective; None if the trial is not completed.
        values: Hyperparameters by name.
        metrics: Everything the trial reported, by name.
        message: The last line of the error of a trial that failed, or None.
    """

    trial_id: str
    status: str
    score: float | None
    values: dict[str, Any]
    metrics: dict[str, float]
    message: str | None


def trial_results(folder: str | Path) -> list[TrialResult]:
    """Reads the trials of a search, in the order of their numbers.

    Args:
        folder: Folder of the search, `tuner.project_dir`.

    Raises:
        ValueError: If the file of a trial is not KerasTuner's.
    """
    files = Path(folder).glob("trial_*/trial.json")
    results = [_result(search_folder.read_or_backup(file)) for file in files]
    # Numbers have more digits if more trials were asked for later.
    return sorted(results, key=lambda result: result.trial_id.zfill(20))


def results_table(
    results: Sequence[TrialResult],
    score: str = "score",
    maximize: bool = True,
    names: Sequence[str] | None = None,
    metrics: Sequence[str] = (),
) -> str:
    """A Markdown table of trials, the best first, those that failed last.

    Args:
        results: From `trial_results`.
        score: Heading of the column of scores.
        maximize: Whether a greater score is better.
        names: Names of the hyperparameters shown; all that differ among the
            trials if None.
        metrics: Names of metrics shown beside the score.

    Example:

    >>> values = {"max_size": 3, "temperature": 0.5}
    >>> metrics = {"accuracy": 0.91}
    >>> result = TrialResult("0", "COMPLETED", 0.9, values, metrics, None)
    >>> print(results_table([result], metrics=["accuracy"], names=["max_size"]))
    | trial | max_size | score | accuracy | status |
    | --- | --- | --- | --- | --- |
    | 0 | 3 | 0.9000 | 0.9100 | completed |
    """
    if names is None:
        names = list(dict.fromkeys(n for r in results for n in r.values))
        names = [
            name
            for name in names
            if not name.startswith("tuner/")
            and len({str(r.values.get(name)) for r in results}) > 1
        ]

    def rank(result: Any) -> tuple[int, float]:
        if result.score is None:
            return (1, 0.0)
        return (0, -result.score if maximize else result.score)

    header = ["trial", *names, score, *metrics, "status"]
    lines = [header, ["---"] * len(header)]
    for result in sorted(results, key=rank):
        status = result.status.lower()
        if result.message:
            status = f"{status}: {result.message}"
        lines.append(
            [
                result.trial_id,
                *(_show(result.values.get(name), ".3g") for name in names),
                _show(result.score, ".4f"),
                *(_show(result.metrics.get(name), ".4f") for name in metrics),
                status,
            ]
        )
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split("\n")).replace("|", "\\|")


def _show(value: Any, form: str) -> str:
    if value is None:
        return ""
    return format(value, form) if isinstance(value, float) else str(value)


def _result(state: Mapping[str, Any]) -> TrialResult:
    completed = state["status"] == "COMPLETED"
    message = (state["message"] or "").strip()
    return TrialResult(
        trial_id=state["trial_id"],
        status=state["status"],
        score=float(state["score"]) if completed else None,
        values=state["hyperparameters"]["values"],
        metrics={
            name: float(np.mean(metric["observations"][-1]["value"]))
            for name, metric in state["metrics"]["metrics"].items()
        },
        message=message.split("\n")[-1] if message else None,
    )
