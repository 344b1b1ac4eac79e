"""Field sizes over training and by word, of small models."""

import numpy as np
import pandas as pd
import pytest

from examples.common import text_encoding
from examples.receptive_field import figures


def test_steps_without_room_are_left_out(monkeypatch):
    """With S = 3, the last two steps of each text."""
    ids = np.array([[2, 3, 2, 4, 0], [4, 4, 2, 2, 3], [3, 2, 0, 0, 0]])
    probabilities = np.zeros((3, 5, 3))
    probabilities[..., 0] = 1
    probabilities[0, 0] = 0, 0, 1
    found = {"field": {"probabilities": probabilities}}
    monkeypatch.setattr(figures.analysis, "decisions", lambda *_, **__: found)
    monkeypatch.setattr(figures, "MIN_COUNT", 1)
    part = (ids, np.zeros(3, "int32"))
    words = ["a", "b", "c"]
    data = text_encoding.Encoded(None, words, ("x", "y"), *[part] * 3)
    sizes = figures.sizes_by_word(None, data)
    # a at 0 of the first and 2 of the second, b at 1, c at 0 and 1.
    found = dict(zip(sizes.index, sizes.itertuples(index=False, name=None)))
    assert found == {"a": (2, 2), "b": (1, 1), "c": (1, 2)}


def test_entropies_by_hand(monkeypatch):
    """A text counts once; words of too few texts or no vector do not."""
    monkeypatch.setattr(figures, "MIN_COUNT", 2)
    ids = np.array([[2, 2, 3, 4], [2, 5, 5, 0], [3, 4, 1, 0], [1, 4, 0, 0]])
    part = (ids, np.array([0, 1, 0, 1], "int32"))
    data = text_encoding.Encoded(None, [*"abcd"], ("x", "y"), *[part] * 3)
    found = figures.entropies_by_word(data, None)
    shares = np.array([1 / 3, 2 / 3])
    expected = {"a": np.log(2), "b": 0, "c": -(shares @ np.log(shares))}
    assert found.to_dict() == pytest.approx(expected, abs=1e-12)
    vectors = [["a", "z"], None]
    monkeypatch.setattr(figures.word_vectors, "load_vectors", lambda _: vectors)
    assert [*figures.entropies_by_word(data, "v.npz").index] == ["a"]


def test_the_numbers_of_a_run():
    # Start 1 at all words, end 0 to 3, and one word without an entropy.
    history = {"step": [0, 9, 12], "mean_size": [2.5, 3, 1.5]}
    history["accuracy"] = [0.5, 1.0, 0.75]
    start = pd.DataFrame({"mean_size": 1.0, "count": 9}, [*"abcde"])
    ends = (3.0, 2.0, 1.0, 0.0, 9.0)
    end = pd.DataFrame({"mean_size": ends, "count": 9}, [*"dcbae"])
    entropies = pd.Series((0.1, 0.3, 0.2, 0.4), [*"abcd"])
    trained = figures.Trained(history, start, end)
    words = figures.word_table(trained, entropies)
    pd.testing.assert_index_equal(words.index, pd.Index([*"abcd"]))
    numbers = figures.summarise({"plain": history, "dropout": history}, words)
    assert (numbers["words"], numbers["end_plain"]) == (4, "1.5000")
    assert numbers["start_plain"] == "2.5000"
    assert numbers["largest_dropout"] == "3.0000"
    assert numbers["accuracy_dropout"] == "0.7500"
    assert numbers["size_lowest"] == "0.0000"
    assert numbers["size_highest"] == "3.0000"
    # Spearman's: 1 - 6 * (0 + 1 + 1 + 0) / (4 * 15); nan of equal sizes.
    assert numbers["correlation_end"] == "0.8000"
    assert numbers["correlation_start"] == "nan"
