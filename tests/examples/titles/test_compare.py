"""The comparison on small data: rows are kept and not repeated."""

import pytest

from examples.common import datasets
from examples.titles import compare
from examples.titles import data as titles
from examples.titles import scores
from tests.examples.files import read
from tests.examples.titles import small_titles

pytestmark = pytest.mark.long

SMALL = ["--units", "4", "--embedding-size", "4", "--epochs", "2"]
SMALL += ["--train-size", "40"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return small_titles.write(tmp_path_factory.mktemp("data"))


@pytest.mark.slow
def test_runs_are_kept_and_not_repeated(folder, tmp_path, monkeypatch):
    output = tmp_path / "r" / "titles.csv"
    options = ["--data-dir", str(folder), "--output", str(output), *SMALL]
    options += ["--models", "logistic_regression", "words last, padding read"]
    options += ["characters last, truncated"]
    table = compare.main(options)
    rows = read(output)
    keys = compare.keys(compare.parse(options))
    assert keys == [tuple(row[name] for name in compare.KEY) for row in rows]
    assert all(0 <= float(row["accuracy"]) <= 1 for row in rows)
    assert rows[0]["best_epoch"] == "" and rows[1]["best_epoch"] in "12"
    lines = [line.split("|") for line in table.splitlines()[2:] if line]
    for line, row in zip(lines, rows, strict=True):
        assert line[1].strip() == row["model"]
        assert float(line[2]) == float(row["accuracy"])
    # The baseline again, on the training titles that the seed draws.
    data = titles.load(folder)
    train = datasets.choose(data.train, 40, seed=0)
    baseline = scores.fit_baseline("logistic_regression", train, 0)
    for part, column in (
        (data.test, "accuracy"),
        (data.validation, "validation_accuracy"),
    ):
        called = scores.probabilities(baseline, part.texts) > 0.5
        right = (called == part.labels).mean()
        assert float(rows[0][column]) == pytest.approx(right, abs=1e-4)
    monkeypatch.setattr(compare, "run", None)
    assert compare.main(options) == table
    for other in (["--units", "5"], ["--shuffle"]):
        with pytest.raises(TypeError):
            compare.main([*options, *other])
