"""The numbers of the thesis, and tables that need nothing to show them."""

import subprocess
import sys

import pytest

from examples.pooling import thesis

REPORT = """
import sys
from examples.study import __main__ as program
program.main(["--list"])
program.main([*sys.argv[1:], "--report"])
print({"keras", "tensorflow"} & set(sys.modules) or "light", file=sys.stderr)
"""


def test_numbers_are_complete():
    for numbers in thesis.POOLING.values():
        assert list(numbers) == list(thesis.RATIOS)
        for text in numbers.values():
            assert len(text.split()) == len(thesis.POOLING_SIZES)
    for ratios in thesis.RATIOS.values():
        assert len(ratios) == len(thesis.RATIO_SIZES)
    for numbers in thesis.LEARNABILITY.values():
        assert list(numbers) == list(thesis.METHODS)


@pytest.mark.parametrize(
    "function, known, number, unknown",
    [
        (
            thesis.pooling_accuracy,
            ("imdb", "left", 20000, "att"),
            "88.9 ± 0.5",
            ("ag", "short", 3000, "other"),
        ),
        (
            thesis.vanishing_ratio,
            ("imdb", "standard", 5000, "bilstm"),
            "0.03",
            ("ag", "mid", 2000, "other"),
        ),
        (
            thesis.learnability_accuracy,
            ("imdb", "standard", 10000, "gradient_directed"),
            "87.4",
            ("ag", "left", 1000, "other"),
        ),
        (
            thesis.few_labels_accuracy,
            ("imdb", 10, "maxatt"),
            "75.6",
            ("ag", 5, "logistic"),
        ),
    ],
)
def test_numbers_are_of_what_the_thesis_ran(function, known, number, unknown):
    """With one argument of the unknown ones there is none."""
    assert function(*known) == number
    for i, value in enumerate(unknown):
        other = [*known[:i], value, *known[i + 1 :]]
        assert function(*other) == "", other


@pytest.mark.long
def test_reports_need_no_keras():
    studies = ["table_1_3_1k", "table_2_1", "table_1_9", "titles"]
    done = subprocess.run(
        [sys.executable, "-c", REPORT, *studies],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == "light\n"
    for number in ("75.9 ± 2.2", "87.4", "75.6", "random_forest"):
        assert number in done.stdout
