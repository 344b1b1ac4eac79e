"""The table of tested versions, without the tests themselves."""

import pytest

from benchmarks import tested_versions


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs the program; Pythons fail as many tests as are said."""

    def run(**failed: int) -> str:
        def row(python):
            found = dict.fromkeys(tested_versions.COLUMNS, "1")
            version = f"3.{python.removeprefix('python')}.1"
            return {**found, "python": version, "failed": str(failed[python])}

        monkeypatch.setattr(tested_versions, "run", row)
        rows, output = tmp_path / "rows.csv", tmp_path / "page.md"
        options = ["--rows", str(rows), "--output", str(output)]
        tested_versions.main([*options, "--pythons", *failed])
        return output.read_text()

    return run


def test_only_what_was_run_now_counts(run, tmp_path):
    with pytest.raises(SystemExit, match="Some tests failed"):
        run(python11=2, python13=0)
    page = run(python12=0)
    assert [line[2:8] for line in page.splitlines()[-3:]] == [
        "3.11.1",
        "3.12.1",
        "3.13.1",
    ]
    # The row that failed before is still there, and can be replaced.
    assert "| 2 |" in page
    assert "| 2 |" not in run(python11=0)
