"""What stands for a reference to rows in the text of a claim."""

import pytest

from examples.study import claim_numbers
from examples.study import registry
from examples.study import rows
from examples.study.studies import YES
from examples.study.studies import Claim
from tests.examples.study import tiny_program


@pytest.fixture
def add(tmp_path, monkeypatch):
    """Adds a row of a study that has the options `--units 4`."""
    study = tiny_program.study("--units 4")
    monkeypatch.setitem(registry.STUDIES, "tiny", study)

    def add_row(model, seeds, score, options="--units 4"):
        row = {"model": model, "seeds": seeds, "score": score}
        rows.add(study, [{**row, "options": options}], tmp_path)

    return add_row


def claim_of(ours, **changes):
    return Claim("C1", "tiny", "", "", ours, YES, "", **changes)


def test_the_options_of_most_seeds_and_of_today_come_first(add, tmp_path):
    add("a", "0", "7", options="")
    text = "from {tiny: a} on"
    assert claim_numbers.fill(text, tmp_path) == "from 7.0 on"
    add("a", "0", "8")
    both = "{tiny: a | score} and {tiny: a}"
    assert claim_numbers.fill(both, tmp_path) == "8.0 and 8.0"
    add("a", "1 2", "5.0 ± 1.0", options="")
    assert claim_numbers.fill("{tiny: a}", tmp_path) == "5.0 ± 1.0"


def test_a_summary_keeps_no_digits_beyond_the_measure(add, tmp_path):
    add("a", "0 1", "5.0449 ± 0.25")
    add("b", "0 1", "5")
    text = "{tiny: a} and {tiny: b}"
    assert claim_numbers.fill(text, tmp_path) == "5.0 ± 0.2 and 5"


def test_differences_are_of_the_options_with_most_pairs(add, tmp_path):
    for seed, scores in enumerate([(1, 4), (2, 6), (3, 9)]):
        for model, score in zip("ab", scores):
            add(model, str(seed), str(score), options="")
    add("a", "0", "1")
    add("b", "0", "0")
    # Without a pair of the same options.
    add("b", "7", "100", options="--units 2")
    add("a", "8", "0", options="--units 3")
    text = "{tiny: b - a}, {tiny: a - b | score}"
    filled = "+4.3 [3.0, 6.0], -4.3 [-6.0, -3.0]"
    assert claim_numbers.fill(text, tmp_path) == filled


def test_the_seeds_of_a_claim(add, tmp_path):
    for seed in "012":
        add("a", seed, "1")
    add("b", "1", "2")
    claim = claim_of("{tiny: a} and {tiny: b}")
    assert claim_numbers.seeds(claim, tmp_path) == "1 to 3"
    claim = claim_of("{tiny: a}")
    assert claim_numbers.seeds(claim, tmp_path) == "3"
    # The seeds that both have.
    claim = claim_of("{tiny: a - b}")
    assert claim_numbers.seeds(claim, tmp_path) == "1"
    add("b", "2", "2")
    assert claim_numbers.seeds(claim, tmp_path) == "2"
    assert claim_numbers.seeds(claim_of("a picture"), tmp_path) == ""
    claim = claim_of("a picture", seeds="2")
    assert claim_numbers.seeds(claim, tmp_path) == "2"


@pytest.mark.parametrize("labels", ["b", "b - a", "a - b"])
def test_numbers_that_no_row_has(labels, add, tmp_path):
    add("a", "0", "7")
    match = f"the score of '{labels}'. Received: {{tiny: {labels}}}"
    with pytest.raises(ValueError, match=match):
        claim_numbers.fill(f"{{tiny: {labels}}}", tmp_path)
