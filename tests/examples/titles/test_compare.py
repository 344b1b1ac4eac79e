"""The comparison on small data: rows are kept and not repeated."""

import pytest

pytest.importorskip("tensorflow_text", reason="needs keras_seqmech[text]")
pytest.importorskip("sklearn", reason="needs keras_seqmech[examples]")

from examples.common import datasets  # noqa: E402
from examples.titles import classifiers  # noqa: E402
from examples.titles import compare  # noqa: E402
from examples.titles import data as titles  # noqa: E402
from examples.titles import scores  # noqa: E402
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

    keys = compare.keys(compare.parse([*arguments, "logistic_regression"]))
    assert keys == [tuple(rows[0][name] for name in compare.KEY)]
    monkeypatch.setattr(compare, "run", lambda *args: pytest.fail("repeated"))
    assert compare.main([*arguments, "logistic_regression", *names]) == table


def test_names_say_what_differs():
    """Every name starts with the inputs and the read-out of its model."""
    for name, model in classifiers.MODELS.items():
        inputs, read_out = name.partition(",")[0].split()
        settings = model.settings
        assert (settings.inputs, settings.read_out) == (inputs, read_out)
        assert model.truncated == ("truncated" in name)
    assert len(set(classifiers.MODELS.values())) == len(classifiers.MODELS)


def test_other_titles_or_labels_have_another_name(folder):
    args = compare.parse(["--data-dir", str(folder)])
    data = titles.load(folder)
    names = {compare.describe_data(args, data)}
    assert names == {compare.describe_data(args, titles.load(folder))}
    for part in ("train", "validation", "test"):
        texts, labels = getattr(data, part)
        for other in (
            datasets.Part([*texts[1:], "another"], labels),
            datasets.Part(texts, 1 - labels),
        ):
            changed = data._replace(**{part: other})
            names.add(compare.describe_data(args, changed))
    assert len(names) == 1 + 3 * 2


def test_tables_show_one_setting_and_one_set_of_titles(
    folder, tmp_path, monkeypatch
):
    def score(name, seed, data, args, line):
        assert len(data.train.texts) == args.train_size
        return dict.fromkeys(scores.Scores._fields, args.units / 100)

    monkeypatch.setattr(compare, "run", score)
    other = small_titles.write(tmp_path, [("on another graph", 0)])
    options = ["--models", "words max", "--train-size", "9", "--output"]
    options += [str(tmp_path / "r.csv"), "--data-dir"]
    for root, units in ((folder, 10), (folder, 20), (other, 30)):
        shown = compare.main([*options, str(root), "--units", str(units)])
        assert f"| words max | {units}.00 |" in shown
    assert len(read(tmp_path / "r.csv")) == 3
