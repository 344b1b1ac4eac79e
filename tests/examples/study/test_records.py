"""Studies are whole, and programs know their options."""

import importlib

import pytest

from examples.receptive_field import segmentation
from examples.study import records
from examples.study import rows
from examples.study.records import Case
from tests.examples.study import tiny_program

STUDIES = records.STUDIES.values()


@pytest.fixture
def few_texts(monkeypatch):
    """Small data, where what a run is known by depends on them."""
    for name in ("people_daily", "read_words"):
        found = [["a", "b"]] * 20
        found = (found, found) if name == "people_daily" else found
        monkeypatch.setattr(segmentation, name, lambda *_, found=found: found)


@pytest.mark.usefixtures("few_texts")
@pytest.mark.parametrize(
    "study", [x for x in STUDIES if x.program], ids=lambda study: study.name
)
def test_the_program_takes_the_options_of_every_run(study, tmp_path):
    for run in study.runs:
        options = study.arguments(run, tmp_path)
        args = study.program.record.parse(options)
        key, *others = study.program.keys(args)
        assert all(
            {*study.by} & {x for x in key if key[x] != other[x]}
            for other in others
        )
        for label, value in run.case.labels.items():
            # Other labels are options that the program has no column for.
            if label in key:
                # "lstm of 146 units" is the program's "lstm".
                value, _, units = value.partition(" of ")
                assert str(key[label]) == value
                assert not units or units == f"{args.units} units"
        if "seed" in key:
            assert str(key["seed"]) == str(run.seed)


@pytest.mark.parametrize(
    "study", [x for x in STUDIES if x.command], ids=lambda study: study.name
)
def test_commands_of_rows_by_hand_are_taken(study, tmp_path):
    command = study.command.replace("DATA", str(tmp_path))
    _, _, module, *options = command.split()
    found = importlib.import_module(module)
    getattr(found, "PROGRAM", found).parse(options)


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_studies_and_their_rows_are_whole(study):
    titles = [column.title for column in study.columns]
    titles += [name.replace("_", " ") for name in study.labels]
    assert len(set(titles)) == len(titles)
    assert (study.program is None) == bool(study.command)
    known = [(*run.case.labels.values(), str(run.seed)) for run in study.runs]
    compared = {case.labels.get(study.compared) for case in study.cases}
    for baseline, names in study.against.items():
        assert {baseline, *names} <= compared and baseline not in names
    for row in rows.file(study).read():
        assert {*row} == {*rows.columns(study)}
        labels = [row[name] for name in study.cases[0].labels]
        assert (*labels, row["seeds"]) in known
        assert row["options"] == study.options
        assert row["commit"] and row["date"] and row["machine"]
        assert any(row[column.name] for column in study.columns)


def test_every_file_of_rows_is_of_a_study():
    files = {path.stem for path in rows.FOLDER.glob("*.csv")}
    assert files and files <= set(records.STUDIES)


def test_grids():
    grids = [
        {"model": "--models 'a b' c", "units": {"8": "-u 8 -v"}},
        {"model": "d", "units": "", "seeds": [5]},
    ]
    study = tiny_program.study(grid=grids, seeds=[0, 1], against={})
    assert study.cases == [
        Case({"model": "a b", "units": "8"}, "--models 'a b' -u 8 -v", [0, 1]),
        Case({"model": "c", "units": "8"}, "--models c -u 8 -v", [0, 1]),
        Case({"model": "d", "units": ""}, "", [5]),
    ]
    assert [run.name for run in study.runs[2:4]] == [
        "a b, 8, seed 1",
        "c, 8, seed 1",
    ]


def test_what_a_case_is_compared_with():
    """A baseline may lack labels; the paper's number of most labels counts."""
    grids = [
        {"model": "a", "units": ""},
        {"model": "b c", "units": "4 8"},
    ]
    study = tiny_program.study(
        grid=grids,
        against={"a": ["b"], "b": ["c"]},
        paper={"score": {"b": "1", "b, 8": "2", "c, 8": "3"}},
    )

    def compared(model, units="8"):
        labels = {"model": model, "units": units}
        return study.baseline(labels), study.paper_numbers(labels)

    assert compared("a") == (None, {})
    assert compared("b") == ({"model": "a", "units": ""}, {"score": "2"})
    assert compared("b", "4")[1] == {"score": "1"}
    assert compared("c") == ({"model": "b", "units": "8"}, {"score": "3"})


def test_a_file_of_studies(tmp_path):
    path = tmp_path / "studies.toml"
    first = '[one]\nshows = "x"\ngrid.a = "1 2"\ncolumns = [["b", "c", "d"]]\n'
    path.write_text(first + '[two]\nlike = "one"\ngrid.a = "3"')
    one, two = records.load(path).values()
    assert (one.name, two.name, two.shows) == ("one", "two", "x")
    assert two.cases == [Case({"a": "3"}, "", (0, 1, 2))]
    assert two.columns == [records.Column("b", "c", "d")]
    path.write_text(first + 'option = "--units 8"')
    with pytest.raises(TypeError, match="option"):
        records.load(path)
    for field in ("program", "like"):
        path.write_text(f'{first}{field} = "other"')
        with pytest.raises(KeyError, match="other"):
            records.load(path)
