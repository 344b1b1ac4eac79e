"""Field sizes over training and by word, of small models."""

import csv
import json
from unittest import mock

import numpy as np
import pytest

pytest.importorskip("tensorflow_text", reason="needs keras_seqmech[text]")

from examples.common import locks  # noqa: E402
from examples.common import text_encoding  # noqa: E402
from examples.receptive_field import figures  # noqa: E402
from examples.study import programs  # noqa: E402
from keras_seqmech import analysis  # noqa: E402
from tests.examples.receptive_field import small_reviews  # noqa: E402
from tests.examples.receptive_field.small_reviews import BAD  # noqa: E402
from tests.examples.receptive_field.small_reviews import GOOD  # noqa: E402
from tests.examples.receptive_field.small_reviews import OTHER  # noqa: E402
from tests.examples.receptive_field.small_reviews import SMALL  # noqa: E402

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    small_reviews.write_mr(root)
    return root


def test_field_figures_leave_out_steps_without_room():
    """With S = 3, the last two steps of each text."""
    ids = np.array([[2, 3, 2, 4, 0], [4, 4, 2, 2, 3], [3, 2, 0, 0, 0]])
    probabilities = np.zeros((3, 5, 3))
    probabilities[..., 0] = 1
    probabilities[0, 0] = 0, 0, 1
    fields = mock.Mock()
    fields.predict.return_value = {"probabilities": probabilities}
    tokenizer = text_encoding.Tokenizer(["a", "b", "c"], 5)
    part = (ids, np.zeros(3, "int32"))
    data = text_encoding.Encoded(tokenizer, ("x", "y"), part, part, part)
    sizes = figures.sizes_by_word(fields, data, min_count=1)
    # a at 0 of the first and 2 of the second, b at 1, c at 0 and 1.
    assert sizes == {"a": (2, 2), "b": (1, 1), "c": (1, 2)}


def test_figures_and_their_numbers(folder, tmp_path):
    pytest.importorskip("matplotlib", reason="needs keras_seqmech[plots]")
    options = ["--datasets", "mr", "--data-dir", str(folder), *SMALL]
    options += ["--output", str(tmp_path), "--every", "3", "--probe", "20"]
    options += ["--min-count", "5", "--learning-rate", "0.01"]
    options += ["--seeds", "1", "--explore", "--price", "0.05"]
    summary = figures.main(options)
    assert json.loads((tmp_path / "summary.json").read_text()) == summary
    for kind in ("steps", "words"):
        image = (tmp_path / f"{kind}_mr.png").read_bytes()
        assert image.startswith(b"\x89PNG")
    with open(tmp_path / "steps_mr.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    # 243 texts (a tenth for testing, a tenth of the rest for validation)
    # in batches of 81: 3 steps an epoch.
    for condition in ("plain", "dropout"):
        steps = [r["step"] for r in rows if r["condition"] == condition]
        assert [float(step) for step in steps] == [0, 3, 6]
    # Both conditions start from the same weights.
    assert len({r["mean_size"] for r in rows if float(r["step"]) == 0}) == 1
    assert len({r["mean_size"] for r in rows if float(r["step"]) == 6}) == 2
    with open(tmp_path / "words_mr.csv", newline="") as file:
        words = {row["word"]: row for row in csv.DictReader(file)}
    assert set(words) <= {*GOOD, *BAD, *OTHER} and summary["mr"]["words"] >= 9
    assert float(words["good"]["label_entropy"]) == 0
    assert float(words["film"]["label_entropy"]) > 0.6
    assert all(1 <= float(row["mean_size"]) <= 4 for row in words.values())
    assert set(summary["mr"]["lowest_entropy"][:6]) == {*GOOD, *BAD}


def test_finished_runs_are_kept_and_not_repeated(folder, tmp_path, monkeypatch):
    """A program that was killed continues; other settings are other runs."""
    pytest.importorskip("matplotlib", reason="needs keras_seqmech[plots]")
    options = ["--datasets", "mr", "--data-dir", str(folder), *SMALL]
    options += ["--output", str(tmp_path), "--min-count", "5"]
    options += ["--seeds", "1", "2"]
    done, kills = [], [0, 1, 3]

    def train(data, dropout, seed, args):
        if len(done) in kills:
            kills.remove(len(done))
            raise KeyboardInterrupt
        done.append((dropout, seed))
        history = {"step": [0, 6], "mean_size": [2.5, 1 + seed + dropout]}
        history["accuracy"] = [0.5, 0.1 + dropout]
        start, end = (
            {
                word: analysis.TokenFieldSize(1 + seed / 10 + dropout * i, 9)
                for i, word in enumerate(words)
            }
            for words in ([*OTHER, *GOOD, *BAD], [*GOOD, *BAD, *OTHER])
        )
        return figures.Run(history, start, end)

    monkeypatch.setattr(figures, "train", train)
    while kills:
        with pytest.raises(KeyboardInterrupt):
            figures.main(options)
        assert not (tmp_path / "summary.json").exists()
    found = figures.main(options)
    assert done == [(0, 1), (0, 2), (0.5, 1), (0.5, 2)]
    assert figures.main(options) == found and len(done) == 4
    ends = {
        name: sizes["end"]
        for name, sizes in found["mr"]["mean_size_by_condition"].items()
    }
    assert ends == {"plain": 2.5, "dropout": 3.0}
    # As without a kill.
    whole = figures.main([*options, "--output", str(tmp_path / "whole")])
    assert whole == found and len(done) == 8
    figures.main([*options, "--gated", "output"])
    assert len(done) == 12
    # Both are kept.
    assert figures.main(options) == found and len(done) == 12


def test_runs_of_other_processes_are_left_to_them(
    folder, tmp_path, monkeypatch, capsys
):
    options = ["--datasets", "mr", "--data-dir", str(folder), *SMALL]
    options += ["--output", str(tmp_path), "--seeds", "1", "2", "1"]
    args = figures.parse(options)
    done = []

    def train(data, dropout, seed, args):
        done.append((dropout, seed))
        return figures.Run({"step": [0]}, {}, {})

    monkeypatch.setattr(figures, "train", train)
    claim = figures.run_path("mr", "plain", 2, args).with_suffix(".claim")
    with locks.claimed(claim):
        assert figures.main(options) == {}
    assert done == [(0, 1), (0.5, 1), (0.5, 2)]
    assert "mr: left to other processes: 1 runs" in capsys.readouterr().out
    assert not (tmp_path / "summary.json").exists()


def test_models_without_dropout_are_trained_anyway(capsys):
    with pytest.raises(SystemExit):
        figures.parse(["--data-dir", "data", "--dropout", "0"])
    assert "--dropout: must not be 0" in capsys.readouterr().err


def test_the_study_reads_the_summary(tmp_path):
    history = {"mean_size": [2.5, 3.0, 1.5], "accuracy": [0.5, 0.6, 0.75]}
    end = {**history, "mean_size": [2.5, 2.0, 1.25]}
    histories = {"plain": history, "dropout": end}
    # Means over two seeds: start 1 at all words, end 0 to 3.
    runs = [
        figures.Run({}, dict.fromkeys("abcd", (1, 9)), dict(zip("abcde", own)))
        for own in (
            [(0, 9), (0, 9), (1, 9), (2, 9), (9, 9)],
            [(0, 9), (2, 9), (3, 9), (4, 9), (9, 9)],
        )
    ]
    entropies = dict(zip("abcd", (0.1, 0.3, 0.2, 0.4)))
    words = figures.mean_words(runs, entropies)
    summary = figures.summarise(histories, words)
    path = tmp_path / "summary.json"
    path.write_text(json.dumps({"mr": summary}), encoding="utf8")
    (row,) = programs.FIELD_FIGURES.read(tmp_path)
    assert row["settings"] == ""
    assert (row["dataset"], row["words"]) == ("mr", "4")
    assert (row["end_plain"], row["end_dropout"]) == ("1.5000", "1.2500")
    assert (row["size_lowest"], row["size_highest"]) == ("0.0000", "3.0000")
    # Spearman's: 1 - 6 * (0 + 1 + 1 + 0) / (4 * 15); nan of equal sizes.
    assert (row["correlation_end"], row["correlation_start"]) == (
        "0.8000",
        "nan",
    )
    assert summary["largest_fields"] == [*"dcba"]
    assert summary["lowest_entropy"] == [*"acbd"]


def test_the_study_takes_the_summary_of_its_settings_alone(tmp_path):
    summary = {
        "words": 4,
        "mean_size_by_condition": {"plain": {}, "dropout": {}},
        "rank_correlation_of_entropy_and": {
            "size at the start": 0,
            "size at the end": 0,
        },
        "mean_size_in_quarter": {
            "of lowest entropy": 1,
            "of highest entropy": 2,
        },
    }
    options = ["--datasets", "mr", "--data-dir", str(tmp_path)]
    settings = figures.settings("mr", figures.parse(options))
    content = {"mr": {"settings": settings, **summary}}
    (tmp_path / "summary.json").write_text(json.dumps(content))
    (row,) = programs.FIELD_FIGURES.find(tmp_path, options)
    assert row["settings"] == settings and "length=" in settings
    others = [*options, "--gated", "output"]
    assert programs.FIELD_FIGURES.find(tmp_path, others) == []
