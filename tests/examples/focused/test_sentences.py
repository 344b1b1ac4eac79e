"""What a cheap layer lets a costly encoder read, on made-up texts."""

import numpy as np
import pytest
from keras import ops

from examples.common import datasets
from examples.focused import sentences
from keras_seqmech import ExpectedSubsample
from tests.examples.files import read
from tests.examples.files import write_lines

KINDS = datasets.CLASSES["trec"]
WORDS = ["ask", "tell", *KINDS]


def encode(texts):
    """Vectors of the second word: the one that tells the kind."""
    kinds = [text.split()[1] for text in texts]
    return np.array([[k == x for x in KINDS] for k in kinds], "float32")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Questions say "ask"; words' vectors do not tell their kinds."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    for part, count in (("train", 400), ("test", 100)):
        kinds = random.choice(KINDS, size=count)
        rows = [
            {"text": f"ask {x} {i}", "label": x} for i, x in enumerate(kinds)
        ]
        write_lines(tmp_path / "trec" / f"{part}.jsonl.gz", rows)
    noise = random.choice(KINDS, size=500)
    rows = [{"text": f"tell {x} {i} {i}"} for i, x in enumerate(noise)]
    write_lines(tmp_path / "wiki" / "sentences.jsonl.gz", rows)
    vectors = np.eye(3, dtype="float32")[[0, 1] + [2] * len(KINDS)]
    (tmp_path / "glove").mkdir()
    np.savez(tmp_path / "glove" / "g.npz", words=WORDS, vectors=vectors)
    monkeypatch.setattr(sentences, "load_encoder", lambda: encode)
    for function in (sentences.load, sentences.trained, sentences._kept):
        function.cache_clear()
    sentences.word_means.cache_clear()
    return tmp_path


def test_a_question_stands_amid_sentences_of_one_part(folder):
    train, test = sentences.load(folder, 0, 2)
    questions = [
        [x for x in row if x.startswith("ask")] for row in train.sentences
    ]
    assert [len(x) for x in questions] == [1] * len(train.kinds)
    first, second = np.split(np.array(questions)[:, 0], 2)
    np.testing.assert_array_equal(first, second)
    kinds = [KINDS.index(x.split()[1]) for x in np.ravel(questions)]
    np.testing.assert_array_equal(kinds, train.kinds)
    both = set(train.sentences.ravel()) & set(test.sentences.ravel())
    assert not [x for x in both if x.startswith("tell")]


@pytest.mark.parametrize(
    "reads, expected", [("first", [0, 1, 2]), ("stride", [1, 4, 7])]
)
def test_places_of_readers_that_do_not_decide(reads, expected):
    texts = np.full((2, 9), "x")
    found = sentences.fixed(reads, 3, texts)
    assert [np.flatnonzero(x).tolist() for x in found] == [expected] * 2


def choose(monkeypatch, reads, count, decided):
    """What a reader takes whose trained part decides so."""
    monkeypatch.setattr(sentences, "word_means", lambda folder: lambda x: x)
    graphs = None, lambda words: ops.convert_to_tensor(decided)
    monkeypatch.setattr(sentences, "trained", lambda *_: graphs)
    taken = sentences.chooser(reads, count, 0, "folder")(decided)
    return taken.astype("float32")


def test_what_is_kept_is_what_the_layer_keeps(monkeypatch):
    emission = np.random.default_rng(0).random((50, 9)).astype("float32") ** 0.2
    taken = choose(monkeypatch, "kept", 3, emission)
    assert taken.sum(axis=1).max() == 6 < (emission > 0.5).sum(axis=1).max()
    terms = np.random.default_rng(1).random((50, 9, 2))
    kept = ExpectedSubsample(6, inference="threshold")(terms, emission)
    expected = np.sum(terms * taken[..., None], axis=1)
    np.testing.assert_allclose(ops.sum(kept, axis=1), expected, rtol=1e-5)


@pytest.mark.long
def test_the_question_alone_is_read(folder):
    """Word vectors tell which it is, the encoder of which kind, neither both.

    Sentences of noise have words of kinds, too.
    """
    sentences.PROGRAM.main(
        ["--data-dir", str(folder), "--reads", "all", "words", "kept", "chosen"]
        + ["--epochs", "30"]
    )
    whole, words, *learned = (
        (float(x["accuracy"]), float(x["sentences"]))
        for x in read("runs/sentences.csv")
    )
    assert whole[0] < 70 and whole[1] == 9
    assert words[0] < 40 and words[1] == 0
    settings = sum(len(sentences.READERS[x]) for x in ("kept", "chosen"))
    assert len(learned) == settings
    assert all(x[0] > 95 and 0.95 < x[1] < 1.5 for x in learned)
