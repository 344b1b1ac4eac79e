"""Which sentence of an article has the answer? A gate chooses what is read.

    python -m examples.focused.answers --data-dir DATA

The answer is the sentence with the highest weighted sum of BM25, and of the
cosine of vectors (all-MiniLM-L6-v2) where the costly encoder reads. It reads:

- `all` sentences, or `none`; the `first`, `random` ones, or the `top`, those of
  the highest BM25: so many; those within a `margin` of the highest;
- `chosen`: those at which a `BoundaryGate` over BM25 is open. The weight of
  what is read is an input: one training for all weights.

Each seed tests another third of the articles. Needs the extra `contextual`;
vectors are kept in `runs/sentences`.
"""

import argparse
import collections
import functools
import pathlib
import re
from collections.abc import Callable
from typing import NamedTuple

import keras
import numpy as np
from keras import layers
from keras import ops

import keras_seqmech as seqmech
from examples.common import interleaved
from examples.common import program
from examples.focused import sentences
from examples.focused import xquad

PASSAGES = 5  # of an article
FOLDS = 3
LEAST, MOST = 0.01, 3.0
# What is read, and its settings: how many sentences, or weights.
READERS = {
    "all": (0,),
    "none": (0,),
    "first": (3,),
    "random": (3,),
    "top": (1, 2, 3, 5),
    "margin": (1, 2, 3),
    "chosen": (0.01, 0.1, 1.0, 3.0),
}
TIMED = 20  # questions, of all articles
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z\d\"(])")


class Questions(NamedTuple):
    """Questions about articles, whose sentences are padded with ""."""

    questions: np.ndarray  # (count,)
    sentences: np.ndarray  # (count, most)
    answers: np.ndarray  # Whether a sentence has the answer, (count, most).

    def take(self, chosen) -> "Questions":
        """Some of them."""
        return Questions(*(x[chosen] for x in self))


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--reads", nargs="+", choices=READERS, default=list(READERS))


def run(own: program.Run) -> dict[str, str]:
    """Trains and tests a reader, and times it in turn with that of all."""
    args = own.args
    training = own.seed, args.epochs, args.units, args.data_dir
    asked = (own.key["reads"], float(own.key["setting"])), ("all", 0.0)
    chosen, whole = (reader(*x, *training) for x in asked)
    _, test = load(args.data_dir, own.seed)
    found, read = chosen(test, sentences.cached)
    right = test.answers[np.arange(len(found)), found.argmax(axis=-1)]
    times = [
        interleaved.median_ms(
            [functools.partial(x, test.take([i])) for x in (chosen, whole)], 1
        )
        for i in np.linspace(0, len(found) - 1, TIMED).astype(int)
    ]
    ms, all_ms = np.mean(times, axis=0)
    return {
        "accuracy": f"{100 * right.mean():.1f}",
        "sentences": f"{read.sum(axis=1).mean():.2f}",
        "ms": f"{ms:.2f}",
        "over_all": f"{ms / all_ms:.3f}",
    }


class Reader(NamedTuple):
    """What chooses sentences by their BM25, and what makes scores of both."""

    choose: Callable[[np.ndarray], np.ndarray]
    score: Callable

    def __call__(
        self, asked: Questions, vectors: sentences.Vectors | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """From words to a probability of each sentence, and those read."""
        cheap = bm25(asked)
        read = self.choose(cheap)
        vectors = vectors or sentences.load_encoder()
        similar = similarities(asked, read, vectors)
        found = self.score(cheap, similar, read.astype("float32"))
        return found.numpy(), read


def reader(reads: str, setting: float, *training) -> Reader:
    """A trained reader of so many sentences, or at a weight."""
    if reads != "chosen":
        score, _ = trained(reads, setting, *training)
        return Reader(functools.partial(fixed, reads, setting), score)
    score, gates = trained(reads, 0.0, *training)

    def choose(cheap):
        weights = np.full(len(cheap), setting, "float32")
        return gates(*features(cheap), weights).numpy() > 0.5

    return Reader(choose, score)


def fixed(reads: str, setting: float, cheap: np.ndarray) -> np.ndarray:
    """Which sentences a reader takes that does not learn it."""
    real = np.isfinite(cheap)
    if reads in ("all", "none"):
        return real & (reads == "all")
    if reads == "margin":
        return cheap >= cheap.max(axis=1, keepdims=True) - setting
    preference = {
        "first": np.broadcast_to(-np.arange(cheap.shape[1]), cheap.shape),
        "random": np.random.default_rng(0).random(cheap.shape),
        "top": cheap,
    }[reads]
    preference = np.where(real, preference, -np.inf)
    ranks = np.argsort(np.argsort(-preference, axis=1, kind="stable"), axis=1)
    return real & (ranks < setting)


@functools.lru_cache(maxsize=2)
def trained(
    reads: str,
    setting: float,
    seed: int,
    epochs: int,
    units: int,
    data_dir: pathlib.Path,
) -> tuple[Callable, Callable | None]:
    """A model of scores, and one of gates."""
    keras.utils.set_random_seed(seed)
    asked, _ = load(data_dir, seed)
    cheap = bm25(asked)
    similar = similarities(asked, np.isfinite(cheap), sentences.cached)
    score = build_score()
    if reads == "chosen":
        gates = build_gates(units)
        both = [keras.Input((None,)) for _ in range(2)]
        model = keras.Model(
            [*both, *gates.inputs], score([*both, gates.outputs[0]])
        )
        # Training draws other weights.
        inputs = [cheap, similar, *features(cheap), np.ones(len(cheap))]
        callbacks = [seqmech.ExploreThenCommit(entropy=1.0)]
    else:
        gates, model, callbacks = None, score, []
        read = fixed(reads, setting, cheap)
        inputs = [cheap, similar, read.astype("float32")]
    model.compile(keras.optimizers.Adam(0.005), loss)
    model.fit(inputs, asked.answers, 32, epochs, verbose=0, callbacks=callbacks)
    return sentences.graph(score), gates and sentences.graph(gates)


def loss(answers, probabilities):
    """Minus the logarithm of the probability of all sentences that answer."""
    right = ops.cast(answers, probabilities.dtype) * probabilities
    return -ops.log(ops.sum(right, axis=-1) + 1e-7)


def build_score() -> keras.Model:
    """Probabilities of sentences, of BM25, and of cosines where read."""
    cheap = keras.Input((None,), name="cheap")
    similar = keras.Input((None,), name="similar")
    read = keras.Input((None,), name="read")
    real = cheap >= 0
    # Weights of the sum begin at 1, with BM25 and cosines of about one size.
    terms = [ops.where(real, cheap / 5, 0.0), 10.0 * read * similar, read]
    scores = layers.Dense(1, use_bias=False, kernel_initializer="ones")(
        ops.stack(terms, axis=-1)
    )
    scores = ops.where(real, scores[..., 0], -1e9)
    return keras.Model([cheap, similar, read], ops.softmax(scores))


def build_gates(units: int) -> keras.Model:
    """A gate at each sentence, of its BM25 and of what its article has."""
    own = keras.Input((None, 2), name="own")
    article = keras.Input((2,), name="article")
    weight = keras.Input((), name="weight")
    gate = seqmech.BoundaryGate(units)
    given = seqmech.ReadingWeight(LEAST, MOST)(weight)
    gates = gate(own, article, mask=own[..., 0] >= 0, weight=given)
    return keras.Model([own, article, weight], gates)


def features(cheap: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What gates see, of about size 1.

    Of each sentence its BM25, -1 where padded, and the distance to the highest
    one; of each article the highest one and the mean.
    """
    real = np.isfinite(cheap)
    cheap = cheap / 5
    best = cheap.max(axis=1)
    mean = np.where(real, cheap, 0).sum(axis=1) / real.sum(axis=1)
    below = np.where(real, cheap - best[:, None], 0)
    own = np.stack([np.where(real, cheap, -1), below], axis=-1)
    return own, np.stack([best, mean], axis=-1)


def bm25(asked: Questions) -> np.ndarray:
    """Okapi BM25 of each sentence, within its article; -inf where padded."""
    found = np.full(asked.sentences.shape, -np.inf, "float32")
    for row, (question, texts, _) in enumerate(zip(*asked)):
        counts = [collections.Counter(words(x)) for x in texts if x]
        lengths = np.array([x.total() for x in counts])
        scores = np.zeros(len(counts))
        for word in {*words(question)}:
            times = np.array([x[word] for x in counts])
            share = (np.sum(times > 0) + 0.5) / (len(counts) + 1)
            saturated = times + 0.3 + 0.9 * lengths / lengths.mean()
            scores += np.log(1 / share) * 2.2 * times / saturated
        found[row, : len(counts)] = scores
    return found


def has_words(text: str, answer: str) -> bool:
    """Whether a text has an answer, as whole words."""
    pattern = rf"(?<!\w){re.escape(answer)}(?!\w)"
    return re.search(pattern, text, re.IGNORECASE) is not None


def words(text: str) -> list[str]:
    """Lower-case words of a text."""
    return re.findall(r"\w+", text.lower())


def similarities(
    asked: Questions, read: np.ndarray, vectors: sentences.Vectors
) -> np.ndarray:
    """Cosines of questions and of the sentences that are read, 0 elsewhere."""
    found = np.zeros(read.shape, "float32")
    rows, _ = np.nonzero(read)
    needed, place = np.unique(rows, return_inverse=True)
    texts = np.concatenate([asked.questions[needed], asked.sentences[read]])
    questions, own = np.split(vectors(texts), [len(needed)])
    found[read] = np.sum(questions[place] * own, axis=-1)
    return found


@functools.lru_cache(maxsize=1)
def load(data_dir: pathlib.Path, seed: int) -> tuple[Questions, Questions]:
    """Training and test questions, about different articles."""
    asked = xquad.read(data_dir)
    passages = {x.passage: None for x in asked}
    split = [SENTENCE_END.split(x) for x in passages]
    most = max(
        sum(map(len, split[start : start + PASSAGES]))
        for start in range(0, len(split), PASSAGES)
    )
    numbers = {x: i for i, x in enumerate(passages)}
    rows, articles = [], []
    for question, passage, answers in asked:
        article, place = divmod(numbers[passage], PASSAGES)
        own = split[article * PASSAGES : (article + 1) * PASSAGES]
        texts = [text for part in own for text in part]
        right = [
            i == place and any(has_words(text, x) for x in answers)
            for i, part in enumerate(own)
            for text in part
        ]
        # Where sentences are cut within an answer there is none.
        if any(right):
            padding = most - len(texts)
            texts, right = texts + [""] * padding, right + [False] * padding
            rows.append((question, np.array(texts, object), right))
            articles.append(article)
    every = Questions(*map(np.array, zip(*rows)))
    is_test = np.array(articles) % FOLDS == seed
    return every.take(~is_test), every.take(is_test)


PROGRAM = program.Program(
    doc=__doc__,
    output="runs/answers.csv",
    options=options,
    needs_data=lambda args: True,
    key=sentences.KEY,
    cases=functools.partial(sentences.cases_of, READERS),
    numbers={"epochs": 60, "units": 16},
    run=run,
)

if __name__ == "__main__":
    PROGRAM.main()
