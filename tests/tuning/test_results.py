"""Results of trials as a table."""

import pytest

pytest.importorskip("keras_tuner")
pytest.importorskip("tensorboard")

from keras_seqmech import tuning  # noqa: E402


def test_results_table_ranks_trials():
    def result(key, status, score, message=None, **values):
        metrics = {} if score is None else {"test": score / 2}
        return tuning.TrialResult(key, status, score, values, metrics, message)

    results = [
        result("0", "COMPLETED", 0.5, max_size="1|\n", summary="mean"),
        result("1", "FAILED", None, "a | b", max_size=2, summary="mean"),
        result("2", "COMPLETED", 0.75, max_size=3, summary="mean"),
    ]
    table = tuning.results_table(results, "F1", metrics=["test"])
    assert table.splitlines() == [
        "| trial | max_size | F1 | test | status |",
        "| --- | --- | --- | --- | --- |",
        "| 2 | 3 | 0.7500 | 0.3750 | completed |",
        "| 0 | 1\\|  | 0.5000 | 0.2500 | completed |",
        "| 1 | 2 |  |  | failed: a \\| b |",
    ]
    lowest = tuning.results_table(results, maximize=False).splitlines()[2]
    assert lowest.startswith("| 0 ")
