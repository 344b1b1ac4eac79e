"""The tables of the pages are those of the rows, and of nothing else."""

import csv
import re
import shutil

import pytest

from examples.study import __main__ as program
from examples.study import pages
from examples.study import registry
from examples.study import report
from examples.study import rows
from tests.examples.study import tiny_program

MADE_BY_HAND = {"serving.md", "speed.md"}


@pytest.mark.parametrize("path", pages.PAGES, ids=lambda path: path.name)
def test_tables_are_those_of_the_rows(path):
    content = path.read_text(encoding="utf8")
    assert pages.generated(content) == content, (
        "Tables differ from the rows: python -m examples.study --write"
    )


def test_all_tables_of_the_documents_are_generated():
    for path in pages.PAGES[1:]:
        by_hand = pages.PART.sub("", path.read_text(encoding="utf8"))
        has_table = bool(re.search(r"^\|", by_hand, re.MULTILINE))
        assert has_table == (path.name in MADE_BY_HAND), path


def test_every_study_is_on_a_page():
    parts = [
        match["name"]
        for path in pages.PAGES
        for match in pages.PART.finditer(path.read_text(encoding="utf8"))
        if match["kind"] == "rows"
    ]
    assert sorted(parts) == sorted(registry.STUDIES)


def test_rows_that_disagree_are_noticed(tmp_path):
    folder = tmp_path / "rows"
    shutil.copytree(rows.FOLDER, folder)
    (page,) = [path for path in pages.PAGES if path.name == "titles.md"]
    content = page.read_text(encoding="utf8")
    assert pages.generated(content, folder) == content
    path = folder / "titles.csv"
    with path.open(newline="", encoding="utf8") as file:
        lines = list(csv.reader(file))
    column = lines[0].index("accuracy")
    lines[1][column] = str(float(lines[1][column]) + 0.01)
    with path.open("w", newline="", encoding="utf8") as file:
        csv.writer(file).writerows(lines)
    assert pages.generated(content, folder) != content


def test_an_unknown_part():
    content = "<!-- generated: lines x -->\n\n<!-- end of generated -->"
    with pytest.raises(ValueError, match="Received: <!-- generated: lines x"):
        pages.generated(content)
    with pytest.raises(ValueError, match="must be one of .* Received: x"):
        pages.generated(content.replace("lines", "rows"))


def test_a_report(tmp_path):
    study = tiny_program.study(
        paper=lambda labels: {"score": f"5{labels['model']}"}
    )
    run = {"options": "", "date": "2026-11-22", "commit": "abc"}
    new = [
        {**run, "model": model, "seeds": str(seed), "score": str(score)}
        for model, scores in {"b": (4, 6, 9), "a": (1, 2, 3)}.items()
        for seed, score in enumerate(scores)
    ]
    older = {"model": "a", "seeds": "0 1", "score": "7 ± 1", "note": "by hand"}
    rows.add(study, [*new, {**older, "options": "--units 4"}], tmp_path)
    found = report.rows_report(study, tmp_path).split("\n\n")
    assert found[0].split("\n") == [
        "| model | score | score, paper | difference | seeds |",
        "| --- | --- | --- | --- | --- |",
        "| a | 2.0 ± 1.0 | 5a |  | 3 |",
        "| b | 6.3 ± 2.5 | 5b | +4.3 [3.0, 6.0] to a | 3 |",
    ]
    assert found[1] == report.INTERVALS
    assert found[2:5] == [
        "Rows: 2026-11-22; commit abc.",
        "All runs of `python -m examples.study tiny`.",
        "Rows with other options than today's, `--units 4`:",
    ]
    assert "| a | 7 ± 1 | 5a | 2 |" in found[5]
    assert found[6] == "Rows: by hand."


def test_the_program_lists_and_reports(tmp_path, capsys):
    program.main(["--list"])
    lines = capsys.readouterr().out.strip().split("\n")
    assert len(lines) == 2 + len(registry.STUDIES)
    program.main(["titles", "--report"])
    assert "| words concat | 67.95 ± 0.55 |" in capsys.readouterr().out
    places = ["--rows-dir", str(tmp_path), "--work-dir", str(tmp_path)]
    program.main(["pixels_digits", "--dry-run", "--only", "fhe", *places])
    options = "--jit-compile --models fhe --seeds 0"
    assert capsys.readouterr().out.split("\n")[:2] == [
        "pixels_digits: 3 runs are left",
        f"  examples.focused.pixel_questions {options}",
    ]


@pytest.mark.parametrize(
    "options, message",
    [
        (["tables"], "NAME: must be one of"),
        ([], "NAME: must be given"),
        (["memory", "delay", "--import", "x.csv"], "for one study"),
        (["demo"], "NAME: demo has no runs"),
        (["table_1_trec"], "--data-dir: must be given for table_1_trec"),
        (["titles", "--write"], "NAME: --write is for all studies"),
        (["--list", "--report"], "not allowed with"),
    ],
)
def test_options_are_checked(options, message, capsys):
    with pytest.raises(SystemExit):
        program.parse(options)
    assert message in capsys.readouterr().err
