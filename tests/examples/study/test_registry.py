"""Studies and claims fit together, and programs know their options."""

import numpy as np
import pytest

from examples.common import datasets
from examples.receptive_field import segmentation
from examples.study import claim_numbers
from examples.study import registry
from examples.study import rows
from examples.study import studies
from examples.titles import compare as titles

STUDIES = [x for x in registry.STUDIES.values() if x.program is not None]


@pytest.fixture
def few_texts(monkeypatch):
    """Small data, where what a run is known by depends on them."""
    part = datasets.Part(["a", "b"], np.array([0, 1]))
    few = datasets.TextData(("real", "made"), part, part, part)
    monkeypatch.setattr(titles, "_load", lambda data_dir: few)
    for name in ("people_daily", "read_words"):
        found = [["a", "b"]] * 20
        found = (found, found) if name == "people_daily" else found
        monkeypatch.setattr(segmentation, name, lambda *_, found=found: found)


@pytest.mark.usefixtures("few_texts")
@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_the_program_takes_the_options_of_every_run(study, tmp_path):
    for run in studies.runs(study):
        options = study.arguments(run.case, run.seed, str(tmp_path))
        module = study.program.module
        args = module.parse([*options, *study.program.quiet.split()])
        key = study.program.key(module, args)
        for label, value in run.case.labels.items():
            # Other labels are options that the program has no column for.
            if label in key:
                assert str(key[label]) == value
        if not study.program.pools:
            assert str(key["seed"]) == str(run.seed)


@pytest.mark.parametrize(
    "study", registry.STUDIES.values(), ids=lambda study: study.name
)
def test_rows_are_whole(study):
    known = [tuple(case.labels.values()) for case in study.cases]
    for row in rows.read(study):
        labels = tuple(row[name] for name in study.cases[0].labels)
        if rows.is_current(study, row):
            assert labels in known
        assert row["seeds"] and row["date"] and row["machine"]
        assert any(row[measure.column] for measure in study.measures)


def test_columns_of_tables_are_told_apart():
    """Of two of a name, the first would show the numbers of the second."""
    for study in registry.STUDIES.values():
        titles = [measure.title for measure in study.measures]
        titles += [name.replace("_", " ") for name in study.labels]
        assert len(set(titles)) == len(titles), study.name


def test_names_are_told_apart():
    modules = registry._MODULES
    names = [study.name for module in modules for study in module.STUDIES]
    assert len(set(names)) == len(names)
    headlines = [x.name for x in registry.CLAIMS if x.is_headline]
    assert headlines == [f"C{number}" for number in range(1, 13)]
    others = [(x.source, x.name) for x in registry.CLAIMS if not x.is_headline]
    assert len(set(others)) == len(others)
    for study in registry.STUDIES.values():
        titles = [measure.title for measure in study.measures]
        assert len(set(titles)) == len(titles), study.name


@pytest.mark.parametrize(
    "claim", registry.CLAIMS, ids=lambda claim: f"{claim.source} {claim.name}"
)
def test_claims_name_their_studies(claim):
    assert claim.verdict in studies.VERDICTS
    assert set(claim.studies) <= set(registry.STUDIES)
    assert claim.reason
    assert "{" not in claim_numbers.fill(claim.ours + claim.reason)
    was_run = claim.verdict != studies.NOT_RUN
    assert bool(claim.ours) == was_run
    if was_run:
        assert claim.studies or claim.command
    assert bool(claim_numbers.seeds(claim)) == was_run
    for name in claim.studies:
        assert rows.read(registry.STUDIES[name]), name


def test_baselines_are_cases():
    for study in registry.STUDIES.values():
        for value, baseline in study.against.items():
            assert value != baseline
            values = {case.labels[study.compared] for case in study.cases}
            assert baseline in values, study.name
