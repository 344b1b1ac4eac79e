"""Field sizes over training and by word, of small models."""

import csv
import json
from unittest import mock

import numpy as np
import pytest

pytest.importorskip("tensorflow_text", reason="needs keras_seqmech[text]")

from examples.common import text_encoding  # noqa: E402
from examples.receptive_field import figures  # noqa: E402
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
    for condition in ("dropout 0", "dropout 0.5"):
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


def test_rank_correlation_is_spearmans():
    stats = pytest.importorskip("scipy.stats")
    random = np.random.default_rng(1)
    x = random.integers(0, 8, 40).tolist()
    y = (np.array(x) + random.normal(0, 4, 40)).round().tolist()
    expected = stats.spearmanr(x, y).statistic
    assert figures.rank_correlation(x, y) == pytest.approx(expected)
    assert np.isnan(figures.rank_correlation([1, 1, 1], [1, 2, 3]))
