"""Which sentences of an article are read, on made-up articles."""

import math

import numpy as np
import pytest

from examples.focused import answers
from examples.focused import sentences
from tests.examples.files import read
from tests.examples.files import write_lines

ARTICLES, NAMES = 30, 6


def article(number):
    """Five passages; in each, two names are told two things each.

    Questions ask for one of the two. Only a mark tells which, not words.
    """
    random = np.random.default_rng(number)
    for passage in range(answers.PASSAGES):
        names = random.permutation(NAMES)[:2]
        told = [f"n{x}{y} a{number} p{passage}" for x in names for y in ",;"]
        random.shuffle(told)
        context = " ".join(f"Told {x}." for x in told)
        for x in names:
            question = f"told n{x}; p{passage}"
            answer = f"n{x}; a{number} p{passage}"
            yield dict(question=question, context=context, answer=answer)


def encode(texts):
    """Vectors that tell which of two things it is, and nothing else."""
    return np.array([[";" in x, "," in x] for x in texts], "float32")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [row for i in range(ARTICLES) for row in article(i)]
    write_lines(tmp_path / "xquad" / "all.jsonl.gz", rows)
    monkeypatch.setattr(sentences, "load_encoder", lambda: encode)
    for function in (answers.load, answers.trained, sentences._kept):
        function.cache_clear()
    return tmp_path


def test_each_article_is_tested_once(folder):
    tested = []
    for seed in range(answers.FOLDS):
        training, test = answers.load(folder, seed)
        assert not set(training.sentences.ravel()) & set(test.sentences.ravel())
        tested += test.questions.tolist()
        for question, texts, right in zip(*test):
            (found,) = texts[right]
            assert all(x in found.lower() for x in question.split())
    assert len(tested) == 2 * answers.PASSAGES * ARTICLES


def test_bm25_by_hand():
    """Two sentences of two and three words; one of two has the word asked."""
    texts = np.array([["A b.", "a c d", ""]], object)
    asked = answers.Questions(np.array(["b, b x?"]), texts, texts == "A b.")
    found = answers.bm25(asked)
    length = 2 / 2.5
    expected = (
        math.log(1 + 1.5 / 1.5) * 2.2 / (1 + 1.2 * (0.25 + 0.75 * length))
    )
    np.testing.assert_allclose(found, [[expected, 0, -np.inf]], rtol=1e-6)


@pytest.mark.parametrize(
    "reads, expected",
    [
        ("none", [0, 0, 0, 0]),
        ("first", [1, 1, 0, 0]),
        ("top", [0, 1, 1, 0]),
        ("margin", [1, 1, 1, 0]),
        ("all", [1, 1, 1, 0]),
    ],
)
def test_sentences_of_readers_that_do_not_decide(reads, expected):
    cheap = np.array([[0.1, 0.3, 0.2, -np.inf]])
    assert answers.fixed(reads, 2, cheap).tolist() == [expected]


@pytest.mark.long
def test_only_what_words_leave_open_is_read(folder):
    """Words leave two sentences of twenty; the encoder tells which of them."""
    answers.PROGRAM.main(
        ["--data-dir", str(folder), "--reads", "all", "none", "chosen"]
    )
    whole, nothing, *chosen = (
        (float(x["accuracy"]), float(x["sentences"]))
        for x in read("runs/answers.csv")
    )
    assert whole == (100, 20)
    assert nothing[0] < 75 and nothing[1] == 0
    assert len(chosen) == len(answers.READERS["chosen"])
    assert all(x[0] > 95 and 1.9 < x[1] < 3 for x in chosen), chosen
