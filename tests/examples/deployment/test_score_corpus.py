"""A corpus scored in this process, and by Ray's workers that are killed."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

from examples.deployment import corpus
from examples.deployment import score_corpus
from tests import ROOT
from tests.examples.deployment import text_models

TEXTS = ["four", "", "字字", "a", "seventeen letters", "to", "six"]


@pytest.fixture(scope="module")
def letters(tmp_path_factory):
    return text_models.save(
        text_models.Letters(), tmp_path_factory.mktemp("letters") / "1"
    )


def write_texts(path, texts):
    lines = [json.dumps({"n": i, "text": t}) for i, t in enumerate(texts)]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def options(path, model, output, *more):
    return [
        *[str(path), "--model", str(model), "--output", str(output)],
        *["--batch-size", "2", "--shard-rows", "3", *map(str, more)],
    ]


def score_here(*arguments):
    return score_corpus.main(options(*arguments, "--workers", 0))


def read_scores(folder):
    """Rows of all shards, in the order of the shards."""
    return [
        json.loads(line)
        for path in sorted(folder.glob("shard-*.jsonl"))
        for line in path.read_text("utf8").splitlines()
    ]


def contents(folder):
    """All files but the lock."""
    return {
        path.name: path.read_bytes()
        for path in folder.iterdir()
        if path.name != corpus.LOCK
    }


def test_scores_of_each_row(tmp_path, letters, capsys):
    path = write_texts(tmp_path / "a.jsonl", TEXTS)
    output = tmp_path / "scored"
    counts = score_here(path, letters, output, "--id-field", "n")
    assert counts == {"rows": 7, "rejected": 0}
    rows = read_scores(output)
    assert [(r["row"], r["n"], r["count"]) for r in rows] == [
        (i, str(i), len(text)) for i, text in enumerate(TEXTS)
    ]
    assert ["".join(row["letters"]) for row in rows] == TEXTS
    assert {row["file"] for row in rows} == {str(path)}
    assert "3 of 3: shard 2, 1 rows" in capsys.readouterr().out


def test_a_run_continues_where_it_was(tmp_path, letters, capsys):
    path = write_texts(tmp_path / "a.jsonl", TEXTS)
    output = tmp_path / "scored"
    score_here(path, letters, output)
    whole = contents(output)
    (output / "shard-000001.jsonl").unlink()
    kept = (output / "shard-000002.jsonl").stat().st_mtime_ns
    score_here(path, letters, output)
    assert contents(output) == whole
    assert (output / "shard-000002.jsonl").stat().st_mtime_ns == kept
    printed = capsys.readouterr().out
    assert "3 shards, 2 of them done before\n1 of 1: shard 1, 3" in printed
    assert score_here(path, letters, output) == {"rows": 7, "rejected": 0}


def test_another_question_is_refused(tmp_path, letters):
    path = write_texts(tmp_path / "a.jsonl", TEXTS)
    score_here(path, letters, tmp_path / "scored")
    slow = text_models.save(text_models.Slow(1), tmp_path / "slow")
    with pytest.raises(SystemExit, match="outside of all `inputs`"):
        score_here(tmp_path, letters, tmp_path / "other")
    for model, more, message in (
        (letters, ["--batch-size", 3], "batch_size=3, then 2"),
        (letters, ["--text-field", "n"], "text_field='n', then 'text'"),
        (slow, [], "with model='.*', then '.*"),
    ):
        with pytest.raises(SystemExit, match=message):
            score_here(path, model, tmp_path / "scored", *more)


def test_bad_rows_end_a_run_or_are_kept_apart(tmp_path, letters, capsys):
    path = write_texts(tmp_path / "a.jsonl", [*TEXTS[:4], None, *TEXTS[5:]])
    output = tmp_path / "scored"
    with pytest.raises(
        SystemExit, match="a.jsonl, rows 3 to 5: row 4: expected str"
    ):
        score_here(path, letters, output)
    assert [row["row"] for row in read_scores(output)] == [0, 1, 2]
    counts = score_here(path, letters, output, "--on-error", "skip")
    assert counts == {"rows": 6, "rejected": 1}
    assert [row["row"] for row in read_scores(output)] == [0, 1, 2, 3, 5, 6]
    (reject,) = (output / "rejects-000001.jsonl").read_text().splitlines()
    assert json.loads(reject)["row"] == 4
    assert "1 rows were left out: see rejects" in capsys.readouterr().out


def test_a_second_run_leaves_the_first_alone(tmp_path, letters):
    path = write_texts(tmp_path / "a.jsonl", TEXTS)
    output = tmp_path / "scored"
    with corpus.ScoreFolder(output, None).reserved():
        (output / corpus.MANIFEST).touch()
        (output / "shard-000000.jsonl.7.part").touch()
        before = contents(output)
        with pytest.raises(SystemExit, match="no other run uses"):
            score_here(path, letters, output)
        assert contents(output) == before
    (output / corpus.MANIFEST).unlink()
    (output / "shard-000000.jsonl.7.part").unlink()
    assert score_here(path, letters, output) == {"rows": 7, "rejected": 0}


class Process:
    """The program with Ray, and its output as it comes."""

    def __init__(self, *arguments):
        self._process = subprocess.Popen(
            [
                *[sys.executable, "-m", "examples.deployment.score_corpus"],
                *options(*arguments, "--workers", 1),
            ],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.pid = self._process.pid
        self.printed = ""

    def until(self, pattern) -> re.Match:
        """Reads until a line matches."""
        for line in self._process.stdout:
            self.printed += line
            if found := re.match(pattern, line):
                return found
        pytest.fail(f"No {pattern!r} in\n{self.printed[-3000:]}")

    def end(self) -> int:
        """Reads to the end; returns the exit code."""
        self.printed += self._process.stdout.read()
        return self._process.wait(60)

    def kill(self):
        self._process.kill()
        self._process.wait(60)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        self._process.stdout.close()


def wait_for(condition, seconds):
    """Waits until a condition holds; returns whether it did in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.002)
    return True


def descendants(pid) -> list[int]:
    """Processes that a process started, and those that they started."""
    parents = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(
                path.read_text().rpartition(")")[2].split()[1]
            )
        except OSError:
            pass  # ended meanwhile
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    """A model, texts, and what a run gives that nobody killed."""
    folder = tmp_path_factory.mktemp("slow")
    model = text_models.save(text_models.Slow(9000), folder / "1")
    path = write_texts(folder / "a.jsonl", [f"text {i}" for i in range(15)])
    score_here(path, model, folder / "scored", "--id-field", "n")
    rows = read_scores(folder / "scored")
    assert [row["n"] for row in rows] == [str(i) for i in range(15)]
    assert len({row["score"] for row in rows}) > 9
    return path, model, contents(folder / "scored")


LINE = r"\d+ of \d+: shard \d+, 3 rows in .* by (\d+) on "


@pytest.mark.slow
def test_a_killed_worker_loses_and_repeats_nothing(tmp_path, slow):
    path, model, expected = slow
    output = tmp_path / "scored"
    with Process(path, model, output, "--id-field", "n") as program:
        worker = int(program.until(LINE)[1])
        time.sleep(0.1)  # Within the next shard.
        os.kill(worker, signal.SIGKILL)
        program.until(rf"(?!.* by {worker} on ){LINE}")
        assert program.end() == 0, program.printed[-3000:]
    assert contents(output) == expected


@pytest.mark.slow
def test_a_killed_run_continues_and_leaves_no_process(tmp_path, slow):
    path, model, expected = slow
    output = tmp_path / "scored"
    with Process(path, model, output, "--id-field", "n") as program:
        program.until(LINE)
        time.sleep(0.1)  # Within the next shard.
        started = descendants(program.pid)
        assert len(started) > 2
        program.kill()
    assert contents(output).keys() != expected.keys()
    gone = wait_for(
        lambda: not any(os.path.exists(f"/proc/{pid}") for pid in started), 200
    )
    assert gone, started
    score_here(path, model, output, "--id-field", "n")
    assert contents(output) == expected
