"""What the command line of the studies does and refuses."""

import pytest

from examples.study import __main__ as program
from examples.study import records


@pytest.mark.parametrize(
    "options, message",
    [
        (["tables"], "NAME: must be one of"),
        ([], "NAME: must be given"),
        (["demo"], "what its command prints: make demo"),
        (["table_1_trec"], "--data-dir: must be given for table_1_trec"),
        (["titles", "--write"], "NAME: --write is for all studies"),
        (["--list", "--report"], "not allowed with"),
        (["memory", "--only", "x"], "must be labels that a run has, all of"),
        (["memory", "--only", "50", "x"], "of 10, 50, 100, 200, 500. Received"),
        (["memory", "--dry-run", "--only", "x"], "--only: must be labels"),
        (
            ["memory", "--seeds", "0", "77"],
            "must be of 0, 1, 2. Received: 0 77",
        ),
        (["--dry-run", "--seeds", "77"], "--seeds: must be of 0"),
        (["--report", "--only", "50"], "not with --list, --report or --write"),
        (["--list", "--seeds", "0"], "not with --list, --report or --write"),
    ],
)
def test_what_cannot_be_done_is_refused(options, message, capsys):
    with pytest.raises(SystemExit):
        program.main(options)
    assert message in " ".join(capsys.readouterr().err.split())


def test_the_program_lists_and_reports(capsys):
    program.main(["--list"])
    lines = capsys.readouterr().out.strip().split("\n")
    assert len(lines) == 2 + len(records.STUDIES)
    program.main(["titles", "--report"])
    assert "| words concat | 67.95 ± 0.55 |" in capsys.readouterr().out
    program.main(["figure_1_7", "--dry-run"])
    assert "by hand from what its command prints" in capsys.readouterr().out


def test_runs_that_are_left_are_listed(tmp_path, capsys):
    study = records.STUDIES["pixels_digits"]
    places = program.running.Places(tmp_path, tmp_path)
    found = program.left(study, places, lambda run: "fhe" in run.name)
    options = "--jit-compile --models fhe --estimators relaxed --seeds 0"
    assert found.split("\n")[:2] == [
        "pixels_digits: 3 runs are left",
        f"  examples.focused.pixel_questions {options}",
    ]
