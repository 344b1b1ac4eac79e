"""The tables and numbers of the pages are those of the rows."""

import csv
import re
import shutil
from typing import NamedTuple

import pytest

from examples.study import pages
from examples.study import records
from examples.study import report
from examples.study import rows
from tests.examples.study import tiny_program

RESULTS, *DOCUMENTS = pages.TEMPLATES
MADE_BY_HAND = {"serving.md", "speed.md", "what_we_changed.md"}


def read(path):
    return path.read_text(encoding="utf8")


@pytest.mark.parametrize("path", pages.TEMPLATES, ids=lambda path: path.name)
def test_pages_are_those_of_templates_and_rows(path):
    assert read(pages.page(path)) == pages.filled(path), (
        "Templates or rows have changed: python -m examples.study --write"
    )


def test_every_study_is_on_a_page_and_no_other_table():
    made = {path.name for path in DOCUMENTS}
    written = {path.name for path in rows.FOLDER.parent.glob("*.md")}
    assert written == made | MADE_BY_HAND
    found = []
    for path in DOCUMENTS:
        assert not re.search(r"^\|", read(path), re.MULTILINE), path
        found += [x for x in references(read(path)) if ":" not in x]
    assert sorted(found) == sorted(records.STUDIES)


def references(text):
    return pages.REFERENCE.findall(text)


class Claim(NamedTuple):
    """A line of a table of RESULTS.md that says what was reproduced."""

    text: str
    verdict: str
    seeds: str
    quoted: list[str]


def claims(titles):
    """The claims of tables of RESULTS.md with these titles, split by "|"."""
    found = []
    for line in read(RESULTS).split("\n"):
        if not line.startswith("|"):
            columns = None
        elif columns is None:
            columns = [x.strip() for x in line.strip("|").split("|")]
        elif set(columns) >= set(titles) and "---" not in line:
            cells = [x.strip() for x in line.strip("|").split("|")]
            cell = dict(zip(columns, cells, strict=True))
            verdict, _, seeds = cell["reproduced"].partition(", ")
            quoted = references(line)
            found.append(
                (cell, Claim(cells[0], verdict.strip("*"), seeds, quoted))
            )
    return found


HEADLINES, ALL = claims(["why"]), claims(["rows"])
VERDICTS = ("yes", "partly", "no", "open", "drawn")


@pytest.mark.parametrize(
    "claim",
    [claim for _, claim in (*HEADLINES, *ALL)],
    ids=lambda claim: claim.text[:40],
)
def test_verdicts_rest_on_their_seeds(claim):
    assert claim.verdict in VERDICTS
    if claim.verdict == "drawn":
        assert claim.seeds == "1 seed" and not claim.quoted
        return
    counts = {pages.number(quote).seeds for quote in claim.quoted}
    least, most = min(counts), max(counts)
    span = f"{least} to {most}" if least < most else f"{least}"
    assert claim.seeds == f"{span} seed" + "s" * (most > 1)
    assert claim.verdict != "yes" or least >= report.LEAST


def test_reasons_of_headline_claims_are_short():
    names = [re.match(r"\[(C\d+)\]", claim.text)[1] for _, claim in HEADLINES]
    assert names == [f"C{i}" for i in range(1, 13)]
    for cell, claim in HEADLINES:
        assert len(pages.REFERENCE.sub("0", cell["why"]).split()) <= 25, (
            claim.text
        )


def test_claims_name_their_rows():
    for cell, claim in ALL:
        studies = re.findall(r"`(\w+)`", cell["rows"])
        assert set(studies) <= set(records.STUDIES), claim.text
        quoted = {re.match(r"\w+", quote)[0] for quote in claim.quoted}
        assert quoted <= set(studies), claim.text


def test_the_first_screen_counts_the_verdicts():
    def counted(found, verdicts):
        all_of_them = [claim.verdict for _, claim in found]
        return ", ".join(f"{all_of_them.count(x)} {x}" for x in verdicts)

    first, _, rest = read(RESULTS).partition("## By document")
    assert f"documents\n{counted(HEADLINES, VERDICTS[:-1])}.**" in first
    assert f"{len(ALL)} claims below: {counted(ALL, VERDICTS)}." in rest


def test_rows_that_disagree_are_noticed(tmp_path):
    folder = tmp_path / "rows"
    shutil.copytree(rows.FOLDER, folder)
    path = folder / "titles.csv"
    with path.open(newline="", encoding="utf8") as file:
        lines = list(csv.reader(file))
    for line in lines[1:]:
        if line[0] == "length":
            line[lines[0].index("accuracy")] = "0.75"
    with path.open("w", newline="", encoding="utf8") as file:
        csv.writer(file).writerows(lines)
    template = RESULTS.with_name("titles.md")
    assert "| length | 63.31 ± 0.06 |" in pages.filled(template)
    assert "| length | 75.00 ± 0.00 |" in pages.filled(template, folder)
    assert pages.number("titles: length", folder) == ("75.00 ± 0.00", 3)


@pytest.fixture
def add(tmp_path, monkeypatch):
    """Adds a row of the tiny study."""
    study = tiny_program.study()
    monkeypatch.setitem(records.STUDIES, "tiny", study)

    def add_row(model, seed, score):
        row = {"model": model, "seeds": seed, "score": score}
        rows.add(study, [row], tmp_path)

    return add_row


def test_numbers_of_references(add, tmp_path):
    for seed, scores in enumerate([(1, 4), (2, 6), (3, 9)]):
        for model, score in zip("ab", scores):
            add(model, str(seed), str(score))
    # Of no pair.
    add("b", "7", "100")
    assert pages.number("tiny: a", tmp_path) == ("2.0 ± 1.0", 3)
    found = pages.number("tiny score: b - a", tmp_path)
    assert found == ("+4.3 [3.0, 6.0]", 3)


@pytest.mark.parametrize(
    "reference",
    ["tiny: b", "tiny: b - a", "tiny: a - b", "tiny size: a"],
)
def test_numbers_that_no_row_has(reference, add, tmp_path):
    add("a", "0", "7")
    with pytest.raises(ValueError, match=f"Received: {reference}"):
        pages.number(reference, tmp_path)
