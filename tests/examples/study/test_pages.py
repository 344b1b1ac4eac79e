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

RESULTS, *DOCUMENTS = pages.PAGES
MADE_BY_HAND = {"serving.md", "speed.md", "what_we_changed.md"}


def read(path):
    return path.read_text(encoding="utf8")


@pytest.mark.parametrize("path", pages.PAGES, ids=lambda path: path.name)
def test_pages_are_those_of_the_rows(path):
    content = read(path)
    assert pages.with_tables(content) == content, (
        "Tables differ from the rows: python -m examples.study --write"
    )
    assert pages.wrong_quotes(content) == []


def test_every_study_is_on_a_page_and_no_other_table():
    found = []
    for path in DOCUMENTS:
        found += [match[2] for match in pages.TABLE.finditer(read(path))]
        by_hand = pages.TABLE.sub("", read(path))
        has_table = bool(re.search(r"^\|", by_hand, re.MULTILINE))
        assert has_table == (path.name in MADE_BY_HAND), path
    assert sorted(found) == sorted(records.STUDIES)


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
            quoted = pages.QUOTE.findall(line)
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
        assert len(pages.QUOTE.sub("", cell["why"]).split()) <= 25, claim.text


def test_claims_name_their_rows():
    for cell, claim in ALL:
        studies = re.findall(r"`(\w+)`", cell["rows"])
        assert set(studies) <= set(records.STUDIES), claim.text
        quoted = {quote.partition(" ")[0] for quote in claim.quoted}
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
    (page,) = (read(path) for path in DOCUMENTS if path.stem == "titles")
    assert pages.with_tables(page, folder) != page
    quote = "titles accuracy: length"
    content = f"<!-- quoted: {quote} -->63.31 ± 0.06"
    assert content in read(RESULTS) and pages.wrong_quotes(content) == []
    assert pages.wrong_quotes(content, folder) == [f"{quote}: 75.00 ± 0.00"]


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
    assert pages.number("tiny score: a", tmp_path) == ("2.0 ± 1.0", 3)
    found = pages.number("tiny score: b - a", tmp_path)
    assert found == ("+4.3 [3.0, 6.0]", 3)


@pytest.mark.parametrize(
    "quote",
    ["score: b", "score: b - a", "score: a - b", "size: a"],
)
def test_numbers_that_no_row_has(quote, add, tmp_path):
    add("a", "0", "7")
    with pytest.raises(ValueError, match=f"Received: tiny {quote}"):
        pages.number(f"tiny {quote}", tmp_path)


def test_quotes_are_whole_numbers(add, tmp_path):
    add("a", "0", "7")
    comment = "From <!-- quoted: tiny score: a -->"
    for text in ("7.0 of", "7.0", "7.0.", "7.0, 8"):
        assert pages.wrong_quotes(comment + text, tmp_path) == []
    for text in ("7.05", "7.0 ± 1.0", "7.0 [1, 2]", "7.0e-4", " 7.0", "8.0"):
        wrong = pages.wrong_quotes(f"{comment}7.0, {comment}{text}", tmp_path)
        assert wrong == ["tiny score: a: 7.0"]
