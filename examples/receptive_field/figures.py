"""What field sizes depend on: figures 2 and 3 of the receptive field paper.

    python -m examples.receptive_field.figures \
        --data-dir DATA --output figures

For each data set and seed trains an LSTM with adaptive receptive fields twice
from the same weights, with and without dropout. Writes means over seeds:

- `steps_<dataset>.png`: mean field size over training steps (figure 2), and
  the accuracy on the same held-out texts;
- `words_<dataset>.png`: mean field size at frequent words against the entropy
  of the labels of their texts, of the model with dropout (figure 3);
- `steps_<dataset>.csv`, `words_<dataset>.csv` and `summary.csv`: the numbers.

Field sizes are expected sizes, in inference mode. Figure 3 leaves out the last
steps of each text, where a field has no room to be long, and, where pretrained
vectors are used, words that have none: vectors drawn at random lead to other
sizes from the start. Since sizes differ by word before any training, the
numbers hold those of the start too.
"""

import argparse
import itertools
import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from examples.common import arguments
from examples.common import datasets
from examples.common import presets
from examples.common import results
from examples.common import text_encoding
from examples.common import whole_files
from examples.common import word_vectors
from examples.receptive_field import classifiers
from keras_seqmech import analysis
from keras_seqmech.analysis import plots

CONDITIONS = ("plain", "dropout")
# Words of each kind that are named in figure 3.
NAMED = 6
# What the numbers of a run depend on, beside its name and the texts.
SETTINGS = (
    *("model", "units", "dropout", "l2", "learning_rate", "batch_size"),
    *("max_size", "epochs", "embedding_size", "every", "probe", "min_count"),
    "preset",
)


class SizeHistory(keras.callbacks.Callback):
    """Mean field size and accuracy at fixed texts, every few steps.

    `classifier` has the trained layers. `history` holds the equally long lists
    `"step"`, `"mean_size"` (mean of `expected_sizes` over real steps) and
    `"accuracy"`.
    """

    def __init__(
        self, classifier: keras.Model, ids: np.ndarray, labels: Any, every: int
    ):
        super().__init__()
        self.classifier, self.every = classifier, every
        self.ids, self.labels = ids, np.asarray(labels)
        self.history: dict[str, list] = {
            "step": [],
            "mean_size": [],
            "accuracy": [],
        }

    def on_train_begin(self, logs: Any = None) -> None:
        self._record()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if int(self.model.optimizer.iterations) % self.every == 0:
            self._record()

    def _record(self) -> None:
        real = self.ids != 0
        field = analysis.decisions(self.classifier, self.ids)["field"]
        sizes = expected_sizes(field["probabilities"], real)
        right = self.model.predict_on_batch(self.ids).argmax(-1) == self.labels
        found = {
            "step": int(self.model.optimizer.iterations),
            "mean_size": float(sizes.sum() / real.sum()),
            "accuracy": float(right.mean()),
        }
        for name, value in found.items():
            self.history[name].append(value)


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


def settings(dataset: str, args: argparse.Namespace) -> str:
    """What the runs of a data set depend on, but for what names them."""
    return results.describe(
        args,
        SETTINGS,
        length=args.length or text_encoding.LENGTHS[dataset],
        vectors=Path(args.vectors).name if args.vectors else "none",
    )


def do_runs(
    dataset: str, data: text_encoding.Encoded, args: argparse.Namespace
) -> dict[str, list[dict[str, Any]]]:
    """Does the runs that have no file; returns all by condition."""
    digest = zlib.crc32(settings(dataset, args).encode())
    found: dict[str, list[dict[str, Any]]] = {x: [] for x in CONDITIONS}
    for condition, seed in itertools.product(CONDITIONS, args.seeds):
        name = f"{dataset}-{condition}-{seed}-{digest:08x}.json"
        path = args.output / "runs" / name
        if not path.exists():
            print(f"{dataset}: trains {condition}, seed {seed}", flush=True)
            run = train(data, condition, seed, args)
            whole_files.write_json(path, run, indent=2)
        found[condition].append(json.loads(path.read_text(encoding="utf8")))
    return found


def train(
    data: text_encoding.Encoded,
    condition: str,
    seed: int,
    args: argparse.Namespace,
) -> dict[str, Any]:
    """Trains one model; the seed alone decides its first weights.

    Returns `history`, field sizes over training steps, and `start_sizes` and
    `end_sizes`, a mean size and a count by word.
    """
    keras.utils.clear_session()
    keras.utils.set_random_seed(seed)
    matrix = word_vectors.embedding_matrix(
        data.words, args.vectors, args.embedding_size, seed
    )
    shape = data.train[0].shape[1], len(data.classes)
    # Keras draws other weights for a model without dropout.
    with_dropout = classifiers.build_model(args.model, matrix, *shape, args)
    dropout = args.dropout if condition == "dropout" else 0.0
    args = argparse.Namespace(**{**vars(args), "dropout": dropout})
    model = classifiers.build_model(args.model, matrix, *shape, args)
    model.set_weights(with_dropout.get_weights())
    ids, labels = (array[: args.probe] for array in data.validation)
    history = SizeHistory(model, ids, labels, args.every)
    start_sizes = sizes_by_word(model, data, args.min_count)
    schedule = presets.schedule(presets.CLASSIFIERS[args.preset].reading)
    classifiers.trainable(args.model, model, args).fit(
        *data.train,
        batch_size=args.batch_size,
        epochs=args.epochs,
        verbose=0,
        callbacks=[history, *filter(None, [schedule])],
    )
    return {
        "history": history.history,
        "start_sizes": start_sizes,
        "end_sizes": sizes_by_word(model, data, args.min_count),
    }


def sizes_by_word(
    model: keras.Model, data: text_encoding.Encoded, min_count: int
) -> dict[str, analysis.TokenFieldSize]:
    """Field sizes at words in training texts, where fields have room."""
    ids = data.train[0]
    mask = ids != 0
    field = analysis.decisions(model, ids, batch_size=256)["field"]
    probabilities = field["probabilities"]
    sizes = expected_sizes(probabilities, mask)
    reach = probabilities.shape[-1] - 1
    has_room = np.pad(mask, ((0, 0), (0, reach)))[:, reach:]
    sizes = analysis.field_size_by_token(ids, sizes, has_room, min_count)
    words = data.words
    return {words[i - 2]: size for i, size in sizes.items() if i > 1}


def entropies_by_word(
    data: text_encoding.Encoded, min_count: int, vectors: str | None
) -> dict[str, float]:
    """Label entropies of words, those with vectors if there are any."""
    ids, labels = data.train
    entropies = analysis.label_entropy_by_token(
        ids, labels, ids != 0, min_count
    )
    words = data.words
    known = {*(word_vectors.load_vectors(vectors)[0] if vectors else words)}
    named = {words[i - 2]: x for i, x in entropies.items() if i > 1}
    return {word: x for word, x in named.items() if word in known}


def mean_history(runs: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Mean over seeds at each step."""
    histories = pd.concat(pd.DataFrame(run["history"]) for run in runs)
    return histories.groupby("step", as_index=False).mean()


def mean_words(
    runs: Sequence[dict[str, Any]], entropies: dict[str, float]
) -> pd.DataFrame:
    """Mean over seeds of the sizes at words, with entropies."""
    start, end = (
        pd.concat(
            pd.DataFrame(run[name], index=["mean_size", "count"]).T
            for run in runs
        )
        .groupby(level=0)
        .mean()
        for name in ("start_sizes", "end_sizes")
    )
    words = end.assign(
        start_size=start["mean_size"], label_entropy=pd.Series(entropies)
    )
    return words.dropna().rename_axis("word")


def summarise(
    histories: dict[str, pd.DataFrame], words: pd.DataFrame
) -> dict[str, float]:
    """Numbers for both figures of one data set."""
    columns = ["label_entropy", "start_size", "mean_size"]
    correlations = words[columns].corr("spearman")["label_entropy"]
    sizes = words.sort_values("label_entropy", kind="stable")["mean_size"]
    quarter = max(1, len(words) // 4)
    found = {
        "words": len(words),
        "correlation_start": float(correlations["start_size"]),
        "correlation_end": float(correlations["mean_size"]),
        "size_lowest": float(sizes[:quarter].mean()),
        "size_highest": float(sizes[-quarter:].mean()),
    }
    for name, history in histories.items():
        size, accuracy = history["mean_size"], history["accuracy"]
        found |= {
            f"start_{name}": float(size.iloc[0]),
            f"largest_{name}": float(size.max()),
            f"smallest_{name}": float(size.min()),
            f"end_{name}": float(size.iloc[-1]),
            f"accuracy_{name}": float(accuracy.iloc[-1]),
        }
    return found


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
    texts, style = plots.drawable(named)
    for word, text in zip(named, texts):
        axes.annotate(text, (x[word], y[word]), size=8, **style)
    figure.suptitle(title)
    return figure


def write(
    name: str,
    histories: dict[str, pd.DataFrame],
    words: pd.DataFrame,
    args: argparse.Namespace,
) -> None:
    """Writes both figures of one data set, and their numbers."""
    title = f"{args.model} on {name.upper()}, dropout {args.dropout:g}"
    lists = {key: x.to_dict("list") for key, x in histories.items()}
    steps = plots.plot_history(lists, "mean_size", "accuracy", title=title)
    steps.axes[0].set_ylim(1, args.max_size)
    steps.savefig(args.output / f"steps_{name}.png", dpi=150)
    by_word = plot_words(words, title)
    by_word.savefig(args.output / f"words_{name}.png", dpi=150)
    conditions = pd.concat(histories, names=["condition", None])
    conditions.to_csv(args.output / f"steps_{name}.csv")
    words.to_csv(args.output / f"words_{name}.csv")


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = arguments.parser(__doc__)
    add = parser.add_argument
    names, every = list(datasets.CLASSES), "batches between measurements"
    add("--datasets", nargs="+", choices=names, default=["mr", "ag"])
    add("--output", type=Path, default=Path("runs/field_figures"))
    add("--model", choices=("rnn+rf", "lstm+rf"), default="lstm+rf")
    add("--seeds", nargs="+", type=int, default=[1, 2, 3])
    add("--every", type=int, default=20, help=every)
    add("--probe", type=int, default=500, help="held-out texts measured")
    add("--min-count", type=int, default=30, help="least in figure 3")
    classifiers.add_arguments(parser)
    parser.set_defaults(epochs=10, l2=0.0)
    args = parser.parse_args(argv)
    args.vectors = word_vectors.find_vectors(args.data_dir)
    return args


def main(argv: Sequence[str] | None = None) -> pd.DataFrame:
    """Runs the example; returns the summary it prints."""
    args = parse(argv)
    rows = []
    for name in args.datasets:
        text_data = datasets.load(name, args.data_dir)
        print(f"{name}: {datasets.describe(text_data)}", flush=True)
        length = args.length or text_encoding.LENGTHS[name]
        data = text_encoding.encode(text_data, length)
        runs = do_runs(name, data, args)
        entropies = entropies_by_word(data, args.min_count, args.vectors)
        histories = {key: mean_history(own) for key, own in runs.items()}
        words = mean_words(runs["dropout"], entropies)
        write(name, histories, words, args)
        own = {"dataset": name, "settings": settings(name, args)}
        rows.append(own | summarise(histories, words))
    summary = pd.DataFrame(rows)
    print(summary.T.to_string())
    path = args.output / "summary.csv"
    summary.to_csv(path, index=False, float_format="%.4f")
    return summary


if __name__ == "__main__":
    main()
