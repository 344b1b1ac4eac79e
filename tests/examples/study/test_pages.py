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
    """A row of a table or item of a list that says what was reproduced."""

    text: str
    verdict: str
    seeds: str
    quoted: list[str]


VERDICTS = ("yes", "in part", "no", "open", "drawn", "not run")
VERDICT = re.compile(
    rf"\*\*({'|'.join(VERDICTS)})\*\*(?:, (\d[\w ]*? seeds?))?(?:\.| \|)"
)


def claims(path):
    """The claims of a page."""
    for block in re.split(r"\n(?=[-|\n])", read(path)):
        match = VERDICT.search(block)
        if match:
            seeds = match[2] or ""
            yield Claim(block, match[1], seeds, references(block))


HEADLINES = [x for x in claims(RESULTS) if x.text.startswith("| [C")]
ALL = [x for path in DOCUMENTS for x in claims(path)]


@pytest.mark.parametrize(
    "claim", [*claims(RESULTS), *ALL], ids=lambda claim: claim.text[:60]
)
def test_verdicts_rest_on_their_seeds(claim):
    if claim.verdict in ("drawn", "not run"):
        assert claim.seeds == ("1 seed" if claim.verdict == "drawn" else "")
        return
    counts = {pages.number(quote).seeds for quote in claim.quoted}
    least, most = min(counts), max(counts)
    span = f"{least} to {most}" if least < most else f"{least}"
    assert claim.seeds == f"{span} seed" + "s" * (most > 1)
    assert claim.verdict != "yes" or least >= report.LEAST


def test_headline_claims_are_numbered():
    names = [re.search(r"\[(C\d+)\]", claim.text)[1] for claim in HEADLINES]
    assert names == [f"C{i}" for i in range(1, len(names) + 1)]


def test_the_first_page_counts_the_verdicts():
    def counted(found):
        all_of_them = [claim.verdict for claim in found]
        counts = {x: all_of_them.count(x) for x in VERDICTS}
        return ", ".join(f"{counts[x]} {x}" for x in VERDICTS if counts[x])

    content = " ".join(read(RESULTS).split())
    headline = (
        f"fourteen headline claims of five documents {counted(HEADLINES)}"
    )
    readme = read(rows.ROOT / "README.md")
    assert len(HEADLINES) == 14
    assert headline in content and headline in " ".join(readme.split())
    assert f"All {len(ALL)} claims stand on" in content
    assert f"Verdicts: {counted(ALL)}." in content


@pytest.mark.parametrize("path", pages.TEMPLATES, ids=lambda path: path.name)
def test_sentences_are_short(path):
    text = re.sub(r"(?m)^\[\w+\]: .*", "", read(path))  # Targets of links.
    text = pages.REFERENCE.sub("0", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    for block in re.split(r"\n(?=[-|#!\n])", text):
        cells = [] if block.startswith("\n    ") else block.split("|")
        for cell in cells:
            for sentence in re.split(r"(?<=[.?!])\s+", cell):
                assert len(sentence.strip("- ").split()) <= 25, sentence


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
    assert found == ("+4.3 [3.0, 6.0] (3)", 3)


@pytest.mark.parametrize(
    "reference",
    ["tiny: b", "tiny: b - a", "tiny: a - b", "tiny size: a"],
)
def test_numbers_that_no_row_has(reference, add, tmp_path):
    add("a", "0", "7")
    with pytest.raises(ValueError, match=f"Received: {reference}"):
        pages.number(reference, tmp_path)
