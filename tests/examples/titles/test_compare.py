"""The comparison on small data: rows are kept and not repeated."""

import pytest

pytest.importorskip("tensorflow_text", reason="needs keras_seqmech[text]")
pytest.importorskip("sklearn", reason="needs keras_seqmech[examples]")

from examples.titles import compare  # noqa: E402
from tests.examples.csv_files import read  # noqa: E402
from tests.examples.titles import small_titles  # noqa: E402

pytestmark = pytest.mark.long

SMALL = ["--units", "4", "--embedding-size", "4", "--epochs", "2"]
SMALL += ["--character-epochs", "1", "--character-length", "30"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return small_titles.write(tmp_path_factory.mktemp("data"))


def test_runs_are_kept_and_not_repeated(folder, tmp_path, monkeypatch):
    output, markdown = tmp_path / "r" / "titles.csv", tmp_path / "table.md"
    arguments = ["--data-dir", str(folder), "--output", str(output), *SMALL]
    arguments += ["--markdown", str(markdown), "--train-size", "40", "--models"]
    names = ["words last, padding read", "characters last, truncated"]
    compare.main([*arguments, "logistic_regression", "--seeds", "0", "1"])
    table = compare.main([*arguments, "logistic_regression", *names])
    assert markdown.read_text() == table
    rows = read(output)
    assert [(row["model"], row["seed"]) for row in rows] == [
        ("logistic_regression", "0"),
        ("logistic_regression", "1"),
        *((name, "0") for name in names),
    ]
    assert all(0 <= float(row["accuracy"]) <= 1 for row in rows)
    assert {row["best_epoch"] for row in rows} <= {"", "1", "2"}
    lines = [line.split("|") for line in table.splitlines()[2:] if line]
    assert [line[1].strip() for line in lines] == [
        "logistic_regression",
        *names,
    ]
    assert [line[-2].strip() for line in lines] == ["2", "1", "1"]

    monkeypatch.setattr(compare, "run", lambda *args: pytest.fail("repeated"))
    assert compare.main([*arguments, "logistic_regression", *names]) == table


def test_names_say_what_differs():
    """Every name starts with the inputs and the read-out of its model."""
    for name, settings in compare.MODELS.items():
        inputs, read_out = name.partition(",")[0].split()
        assert (settings.inputs, settings.read_out) == (inputs, read_out)
    different = [s for n, s in compare.MODELS.items() if "truncated" not in n]
    assert len(set(different)) == len(different)
