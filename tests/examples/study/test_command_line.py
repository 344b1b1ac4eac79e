"""What the command line of the studies refuses."""

import pytest

from examples.study import __main__ as program


@pytest.mark.parametrize(
    "options, message",
    [
        (
            ["memory", "--only", "nonsense"],
            "--only: must be labels that a run has, all of them, of 10, 50, ",
        ),
        (["memory", "--only", "50", "nonsense"], "Received: 50 nonsense"),
        (["memory", "--dry-run", "--only", "x"], "--only: must be labels"),
        (["memory", "--seeds", "77"], "--seeds: must be of 0"),
        (["memory", "--seeds", "0", "77"], "Received: 0 77"),
        (["--dry-run", "--seeds", "77"], "--seeds: must be of 0"),
        (["--report", "--only", "50"], "--only: not with --list, --report or"),
        (["--list", "--seeds", "0", "1"], "--seeds: not with --list"),
        (["--write", "--seeds", "0"], "Received: 0"),
        (
            ["memory", "--import", "missing.csv"],
            "--import: must be a file that examples.subsampling.memory_task "
            "wrote. Received: missing.csv",
        ),
        (["memory", "--import", "FOLDER"], "--import: must be a file that"),
        (
            ["figures_2_3", "--data-dir", "d", "--import", "x"],
            "--import: must be a folder that examples.receptive_field.figures",
        ),
        (["memory", "--import", "F", "--only", "x"], "--only: must be labels"),
    ],
)
def test_what_no_run_has_is_refused(options, message, tmp_path, capsys):
    options = [str(tmp_path) if x == "FOLDER" else x for x in options]
    with pytest.raises(SystemExit):
        program.main(options)
    assert message in " ".join(capsys.readouterr().err.split())


def test_what_runs_have_is_accepted(tmp_path):
    path = tmp_path / "rows.csv"
    path.touch()
    program.parse(["memory", "--seeds", "0", "--only", "50"])
    # A file may have more seeds than the study.
    program.parse(["memory", "--import", str(path), "--seeds", "77"])
