"""Field sizes over training and by word, of small models."""

import json

import numpy as np
import pandas as pd
import pytest

from examples.common import text_encoding
from examples.receptive_field import figures
from tests.examples.files import read
from tests.examples.receptive_field import small_reviews
from tests.examples.receptive_field.small_reviews import BAD
from tests.examples.receptive_field.small_reviews import GOOD
from tests.examples.receptive_field.small_reviews import OTHER
from tests.examples.receptive_field.small_reviews import SMALL

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Folder, options and summary of the program."""
    folder = tmp_path_factory.mktemp("data")
    small_reviews.write_mr(folder)
    options = ["--datasets", "mr", "--data-dir", str(folder), *SMALL]
    options += ["--output", str(folder), "--every", "3", "--probe", "20"]
    options += ["--min-count", "5", "--learning-rate", "0.01"]
    options += ["--seeds", "1", "--preset", "ours"]
    return folder, options, figures.main(options)


@pytest.mark.slow
def test_figures_and_their_numbers(study):
    folder, options, summary = study
    (written,) = read(folder / "summary.csv")
    summary = summary.iloc[0]
    assert float(written["size_highest"]) == pytest.approx(
        summary["size_highest"], abs=1e-4
    )
    for kind in ("steps", "words"):
        image = (folder / f"{kind}_mr.png").read_bytes()
        assert image.startswith(b"\x89PNG")
    rows = pd.read_csv(folder / "steps_mr.csv")
    # 243 texts (a tenth for testing, a tenth of the rest for validation)
    # in batches of 81: 3 steps an epoch.
    for condition in ("plain", "dropout"):
        own = rows[rows["condition"] == condition]
        assert [*own["step"]] == [0, 3, 6]
        found = summary[f"end_{condition}"]
        assert found == pytest.approx(own["mean_size"].iloc[-1])
    # Both conditions start from the same weights.
    sizes = rows.groupby("step")["mean_size"].nunique()
    assert (sizes[0], sizes[6]) == (1, 2)
    words = pd.read_csv(folder / "words_mr.csv", index_col="word")
    assert {*words.index} <= {*GOOD, *BAD, *OTHER}
    assert len(words) == summary["words"] >= 9
    assert words["label_entropy"]["good"] == 0
    assert words["label_entropy"]["film"] > 0.6
    assert words["mean_size"].between(1, 4).all()


@pytest.mark.slow
def test_finished_runs_are_kept_and_not_repeated(study, monkeypatch):
    folder, options, summary = study
    monkeypatch.setattr(figures, "train", None)
    assert figures.main(options).equals(summary)
    with pytest.raises(TypeError):  # Other settings are other runs.
        figures.main([*options, "--preset", "paper"])
    # What was killed continues.
    (path,) = folder.glob("runs/mr-plain-1-*.json")
    content = path.read_text()
    path.unlink()
    seen = []

    def train(data, condition, seed, args):
        seen.append((condition, seed))
        return json.loads(content)

    monkeypatch.setattr(figures, "train", train)
    assert figures.main(options).equals(summary)
    assert seen == [("plain", 1)]


def test_steps_without_room_are_left_out(monkeypatch):
    """With S = 3, the last two steps of each text."""
    ids = np.array([[2, 3, 2, 4, 0], [4, 4, 2, 2, 3], [3, 2, 0, 0, 0]])
    probabilities = np.zeros((3, 5, 3))
    probabilities[..., 0] = 1
    probabilities[0, 0] = 0, 0, 1
    found = {"field": {"probabilities": probabilities}}
    monkeypatch.setattr(figures.analysis, "decisions", lambda *_, **__: found)
    part = (ids, np.zeros(3, "int32"))
    words = ["a", "b", "c"]
    data = text_encoding.Encoded(None, words, ("x", "y"), *[part] * 3)
    sizes = figures.sizes_by_word(None, data, min_count=1)
    # a at 0 of the first and 2 of the second, b at 1, c at 0 and 1.
    assert sizes == {"a": (2, 2), "b": (1, 1), "c": (1, 2)}


def test_the_summary():
    # Means over two seeds: start 1 at all words, end 0 to 3.
    runs = [
        {
            "history": {"step": [0, 9], "mean_size": [2.5, end]},
            "start_sizes": dict.fromkeys("abcd", [1, 9]),
            "end_sizes": {w: [x, 9] for w, x in zip("abcde", sizes)},
        }
        for end, sizes in ((1.0, (0, 0, 1, 2, 9)), (2.0, (0, 2, 3, 4, 9)))
    ]
    entropies = dict(zip("abcd", (0.1, 0.3, 0.2, 0.4)))
    history = figures.mean_history(runs).assign(accuracy=[0.5, 0.75])
    histories = {"plain": history, "dropout": history}
    summary = figures.summarise(histories, figures.mean_words(runs, entropies))
    assert (summary["words"], summary["end_plain"]) == (4, 1.5)
    assert summary["accuracy_dropout"] == 0.75
    assert (summary["size_lowest"], summary["size_highest"]) == (0, 3)
    # Spearman's: 1 - 6 * (0 + 1 + 1 + 0) / (4 * 15); nan of equal sizes.
    assert summary["correlation_end"] == pytest.approx(0.8)
    assert np.isnan(summary["correlation_start"])
