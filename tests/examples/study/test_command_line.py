"""What the command line of the studies does and refuses."""

import subprocess
import sys

import pytest

from examples.study import __main__ as program
from examples.study import records

REPORT = """
import sys
from examples.study import __main__ as program
program.main([*sys.argv[1:], "--report"])
print({"keras", "tensorflow"} & set(sys.modules) or "light", file=sys.stderr)
"""


@pytest.mark.parametrize(
    "options, message",
    [
        (["tables"], "NAME: must be one of"),
        ([], "NAME: must be given"),
        (["figure_1_3"], "of what this prints: python -m"),
        (["--list", "--report"], "not allowed with"),
        (["memory", "--only", "x"], "memory has no such run"),
        (["memory", "--seeds", "77"], "memory has no such run"),
    ],
)
def test_what_cannot_be_done_is_refused(options, message, capsys):
    with pytest.raises(SystemExit):
        program.main(options)
    assert message in " ".join(capsys.readouterr().err.split())


def test_the_program_lists(capsys):
    program.main(["--list"])
    lines = capsys.readouterr().out.strip().split("\n")
    assert len(lines) == 2 + len(records.STUDIES)


@pytest.mark.long
def test_reports_show_the_thesis_numbers_without_keras():
    studies = ["pooling_keras", "table_2_1", "table_1_9", "titles"]
    done = subprocess.run(
        [sys.executable, "-c", REPORT, *studies],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == "light\n"
    for number in ("75.9 ± 2.2", "80.3", "75.6", "67.95 ± 0.55"):
        assert number in done.stdout
