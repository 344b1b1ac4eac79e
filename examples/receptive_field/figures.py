"""What field sizes depend on: figures 2 and 3 of the receptive field paper.

    python -m examples.receptive_field.figures \
        --datasets mr --data-dir DATA --figures figures

For each data set and seed trains an LSTM with adaptive receptive fields twice
from the same weights, with and without dropout. Beside `--output`, in
`<name>-models/`, are two pictures of each run, which `--figures` copies for the
first of `--seeds`, as:

- `steps_<dataset>.png`: mean field size over training steps (figure 2), and
  the accuracy on the same held-out texts;
- `words_<dataset>.png`: mean field size at frequent words against the entropy
  of the labels of their texts, of the model with dropout (figure 3).

Field sizes are expected sizes, in inference mode. Figure 3 leaves out the last
steps of each text, where a field has no room to be long, and words without a
pretrained vector. A row holds the correlation before any training, too.
"""

import argparse
import itertools
import shutil
from pathlib import Path
from typing import Any
from typing import NamedTuple

import keras
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

from examples.common import datasets
from examples.common import plots
from examples.common import presets
from examples.common import program
from examples.common import results
from examples.common import text_encoding
from examples.common import word_vectors
from examples.receptive_field import classify_text
from keras_seqmech import analysis

MODEL = "lstm+rf"
CONDITIONS = ("plain", "dropout")
# Training steps from one measurement to the next.
EVERY = 20
# Held-out texts that are measured.
PROBE = 500
# Figure 3 has words of at least as many steps, in at least as many texts.
MIN_COUNT = 30
# Words of each kind that are named in figure 3.
NAMED = 6
FIGURES = ("steps", "words")
History = dict[str, list[float]]


class SizeHistory(keras.callbacks.Callback):
    """Mean field size and accuracy at fixed texts, each `EVERY` steps.

    `classifier` has the trained layers.
    """

    def __init__(self, classifier: keras.Model, ids: np.ndarray, labels: Any):
        super().__init__()
        self.classifier = classifier
        self.ids, self.labels = ids, np.asarray(labels)
        self.history: History = {"step": [], "mean_size": [], "accuracy": []}

    def on_train_begin(self, logs: Any = None) -> None:
        self._record()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if int(self.model.optimizer.iterations) % EVERY == 0:
            self._record()

    def _record(self) -> None:
        real = self.ids != 0
        field = analysis.decisions(self.classifier, self.ids)["field"]
        sizes = expected_sizes(field["probabilities"], real)
        right = self.model.predict_on_batch(self.ids).argmax(-1) == self.labels
        self.history["step"].append(int(self.model.optimizer.iterations))
        self.history["mean_size"].append(float(sizes.sum() / real.sum()))
        self.history["accuracy"].append(float(right.mean()))


def expected_sizes(probabilities: np.ndarray, real: np.ndarray) -> np.ndarray:
    """Expected number of positions read at each step, E(s_t).

    Of probabilities `(batch, time, S)`. A field that runs past the end of a
    text reads only what is there, where `real` is True.

    >>> expected_sizes(np.full((1, 4, 2), 0.5), np.arange(4) < [[3]])
    array([[1.5, 1.5, 1. , 0. ]])
    """
    left = np.cumsum(real[:, ::-1], axis=1)[:, ::-1, None]
    sizes = np.arange(1, probabilities.shape[-1] + 1)
    return (probabilities * np.minimum(sizes, left)).sum(-1)


class Trained(NamedTuple):
    """Field sizes of a model: over its training steps, and by word."""

    history: History
    start_sizes: pd.DataFrame
    end_sizes: pd.DataFrame


def train_and_draw(run: program.Run) -> dict[str, Any]:
    """Does a run, and leaves its pictures."""
    dataset, args = run.key["dataset"], run.args
    text_data = datasets.load(dataset, args.data_dir)
    data = text_encoding.encode(text_data, length_of(dataset, args))
    trained = {x: train(data, x, run) for x in CONDITIONS}
    histories = {name: found.history for name, found in trained.items()}
    entropies = entropies_by_word(data, args.vectors)
    words = word_table(trained["dropout"], entropies)
    title = f"{MODEL} on {dataset.upper()}, dropout {args.dropout:g}"
    steps = plots.plot_history(histories, "mean_size", "accuracy")
    steps.suptitle(title)
    steps.axes[0].set_ylim(1, args.max_size)
    for name, figure in zip(FIGURES, (steps, plot_words(words, title))):
        figure.savefig(run.file(f"{name}.png"), dpi=150)
    return summarise(histories, words)


def train(
    data: text_encoding.Encoded, condition: str, run: program.Run
) -> Trained:
    """Trains one model; the seed alone decides its first weights."""
    args, seed = run.args, run.seed
    keras.utils.clear_session()
    keras.utils.set_random_seed(seed)
    matrix = word_vectors.embedding_matrix(
        data.words, args.vectors, classify_text.EMBEDDING_SIZE, seed
    )
    shape = data.train[0].shape[1], len(data.classes)
    # Keras draws other weights for a model without dropout.
    with_dropout = classify_text.build_model(MODEL, matrix, *shape, args)
    dropout = args.dropout if condition == "dropout" else 0.0
    args = argparse.Namespace(**{**vars(args), "dropout": dropout})
    model = classify_text.build_model(MODEL, matrix, *shape, args)
    model.set_weights(with_dropout.get_weights())
    ids, labels = (array[:PROBE] for array in data.validation)
    history = SizeHistory(model, ids, labels)
    start_sizes = sizes_by_word(model, data)
    schedule = presets.schedule(presets.CLASSIFIERS[args.preset].reading)
    classify_text.trainable(MODEL, model, args).fit(
        *data.train,
        batch_size=args.batch_size,
        epochs=args.epochs,
        verbose=0,
        callbacks=[history, *filter(None, [schedule])],
    )
    end_sizes = sizes_by_word(model, data)
    return Trained(history.history, start_sizes, end_sizes)


def sizes_by_word(
    model: keras.Model, data: text_encoding.Encoded
) -> pd.DataFrame:
    """Field sizes at words in training texts, where fields have room.

    A row is of a word: `mean_size`, and the `count` of its steps.
    """
    ids = data.train[0]
    mask = ids != 0
    field = analysis.decisions(model, ids, batch_size=256)["field"]
    probabilities = field["probabilities"]
    sizes = expected_sizes(probabilities, mask)
    reach = probabilities.shape[-1] - 1
    has_room = np.pad(mask, ((0, 0), (0, reach)))[:, reach:]
    steps = pd.DataFrame({"id": ids[has_room], "size": sizes[has_room]})
    found = steps.groupby("id")["size"].agg(mean_size="mean", count="count")
    return by_word(found[found["count"] >= MIN_COUNT], data.words)


def entropies_by_word(
    data: text_encoding.Encoded, vectors: str | None
) -> pd.Series:
    """Label entropies of words, those with vectors if there are any.

    The entropy, in nats, of the labels of the texts with a word. A text counts
    once, however often the word occurs in it.
    """
    ids, labels = data.train
    texts, _ = np.nonzero(ids)
    found = pd.DataFrame({"text": texts, "id": ids[ids != 0]})
    found = found.drop_duplicates()
    counts = pd.crosstab(found["id"], labels[found["text"]])
    counts = by_word(counts[counts.sum(axis=1) >= MIN_COUNT], data.words)
    if vectors:
        known, _ = word_vectors.load_vectors(vectors)
        counts = counts[counts.index.isin(known)]
    return pd.Series(stats.entropy(counts, axis=1), counts.index)


def by_word(found: pd.DataFrame, words: list[str]) -> pd.DataFrame:
    """Rows of ids as rows of words; 0 and 1 are none."""
    found = found[found.index > 1]
    return found.set_axis([words[i - 2] for i in found.index])


def word_table(trained: Trained, entropies: pd.Series) -> pd.DataFrame:
    """Sizes at words that have an entropy, in the order of the alphabet.

    A row is of a word; `mean_size` and `count` are of the end of training.
    """
    words = trained.end_sizes.assign(
        start_size=trained.start_sizes["mean_size"], label_entropy=entropies
    )
    return words.dropna().sort_index()


def summarise(
    histories: dict[str, History], words: pd.DataFrame
) -> dict[str, Any]:
    """The numbers of both figures, as they are written."""
    correlations = words.corr("spearman")["label_entropy"]
    sizes = words.sort_values("label_entropy", kind="stable")["mean_size"]
    quarter = max(1, len(words) // 4)
    found = {
        "correlation_start": correlations["start_size"],
        "correlation_end": correlations["mean_size"],
        "size_lowest": sizes[:quarter].mean(),
        "size_highest": sizes[-quarter:].mean(),
    }
    for name, history in histories.items():
        mean_sizes = history["mean_size"]
        found |= {
            f"start_{name}": mean_sizes[0],
            f"largest_{name}": max(mean_sizes),
            f"end_{name}": mean_sizes[-1],
            f"accuracy_{name}": history["accuracy"][-1],
        }
    written = {name: f"{value:.4f}" for name, value in found.items()}
    return {"words": len(words), **written}


def plot_words(words: pd.DataFrame, title: str) -> Figure:
    """Mean field size of words over the label entropy of their texts.

    Larger points are more frequent words; those of lowest entropy, of smallest
    and of largest fields are named.
    """
    areas = 8 + 60 * (words["count"] / words["count"].max()) ** 0.5
    figure = Figure(figsize=(7.2, 5.4), layout="constrained")
    axes = figure.subplots()
    x, y = words["label_entropy"], words["mean_size"]
    axes.scatter(x, y, s=areas, alpha=0.35, linewidths=0)
    axes.set_xlabel("label entropy of texts with the word, nats")
    axes.set_ylabel("mean field size at the word")
    extremes = (x.nsmallest(NAMED), y.nsmallest(NAMED), y.nlargest(NAMED))
    named = sorted({word for kind in extremes for word in kind.index})
    for word in named:
        axes.annotate(word, (x[word], y[word]), size=8, parse_math=False)
    figure.suptitle(title)
    return figure


def copy_pictures(args: argparse.Namespace, rows: list[results.Row]) -> None:
    """Copies the pictures of the first seed to `--figures`."""
    if args.figures is None:
        return
    args.figures.mkdir(parents=True, exist_ok=True)
    first = [row for row in rows if row["seed"] == str(args.seeds[0])]
    for row, name in itertools.product(first, FIGURES):
        place = PROGRAM.place(args, row)
        path = args.figures / f"{name}_{row['dataset']}.png"
        shutil.copyfile(results.with_ending(place, f"{name}.png"), path)
        print(path)


def length_of(dataset: str, args: argparse.Namespace) -> int:
    """Tokens that are kept of a text."""
    return args.length or text_encoding.LENGTHS[dataset]


def more(args: argparse.Namespace, case: program.Case) -> program.Case:
    """Settings that depend on the data."""
    length = length_of(case["dataset"], args)
    return {"length": length, **classify_text.vectors_of(args, case)}


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    names = list(datasets.CLASSES)
    add("--datasets", nargs="+", choices=names, default=["mr", "ag"])
    add("--figures", type=Path, help="folder of the pictures' copies")
    presets.add_argument(parser, presets.CLASSIFIERS, "paper")


def check(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    args.vectors = word_vectors.find_vectors(args.data_dir)


PROGRAM = program.Program(
    doc=__doc__,
    output="runs/field_figures.csv",
    options=options,
    check=check,
    seeds=(1, 2, 3),
    key=("dataset", "preset", "seed", "settings"),
    cases=lambda args: program.grid(
        dataset=args.datasets, preset=[args.preset]
    ),
    needs_data=lambda args: True,
    numbers={**classify_text.NUMBERS, "epochs": 10, "l2": 0.0},
    more=more,
    run=train_and_draw,
    after=copy_pictures,
)

if __name__ == "__main__":
    PROGRAM.main()
