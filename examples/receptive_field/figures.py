"""What field sizes depend on: figures 2 and 3 of the receptive field paper.

    python -m examples.receptive_field.figures \
        --data-dir DATA --output figures

For each data set and seed trains an LSTM with adaptive receptive fields twice
from the same weights, with and without dropout. Writes means over seeds:

- `steps_<dataset>.png`: mean field size over training steps (figure 2), and
  the accuracy on the same held-out texts;
- `words_<dataset>.png`: mean field size at frequent words against the entropy
  of the labels of their texts, of the model with dropout (figure 3);
- `steps_<dataset>.csv`, `words_<dataset>.csv` and `summary.json`: the numbers.

Each finished run is a file in the folder `runs` of `--output`, of its own for
other settings; those that are there are not repeated. Several processes may
share the folder.

With `--explore` models train with `ExploreThenCommit`, so that reading has a
price. Field sizes are expected sizes, in inference mode. Figure 3 leaves out
the last steps of each text, where a field has no room to be long, and, where
pretrained vectors are used, words that have none: vectors drawn at random
lead to other sizes from the start. Since sizes differ by word before any
training, the numbers hold those of the start too.

Paper: "An Informative Adaptive Receptive Field Model for Recurrent Neural
Networks".
"""

import argparse
import itertools
import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from examples.common import datasets
from examples.common import exploring
from examples.common import locks
from examples.common import results
from examples.common import text_encoding
from examples.common import whole_files
from examples.common import word_vectors
from examples.common.arguments import integer
from examples.common.arguments import positive
from examples.receptive_field import cells
from examples.receptive_field import classifiers
from examples.receptive_field.size_history import SizeHistory
from examples.receptive_field.size_history import expected_sizes
from keras_seqmech import analysis
from keras_seqmech.analysis import plots

# Words of each kind that are named in figure 3.
NAMED = 6
# What the numbers of a run depend on, beside its name and the texts.
SETTINGS = (
    "model",
    "units",
    "dropout",
    "l2",
    "learning_rate",
    "batch_size",
    "max_size",
    "epochs",
    "embedding_size",
    "every",
    "probe",
    "min_count",
)


class Run(NamedTuple):
    """Field sizes over training steps, and by word at start and end.

    Sizes are `analysis.TokenFieldSize`s, or lists of their values.
    """

    history: dict[str, list[float]]
    start_sizes: dict[str, Sequence[float]]
    end_sizes: dict[str, Sequence[float]]


def settings(dataset: str, args: argparse.Namespace) -> str:
    """What the runs of a data set depend on, but for what names them."""
    return results.describe(
        args,
        SETTINGS,
        length=length_of(dataset, args),
        vectors=Path(args.vectors).name if args.vectors else "none",
        **cells.settings(args),
    )


def length_of(dataset: str, args: argparse.Namespace) -> int:
    """Words of a text that are read."""
    return args.length or text_encoding.LENGTHS[dataset]


def run_path(
    dataset: str, condition: str, seed: int, args: argparse.Namespace
) -> Path:
    """The file of a finished run, of its own for each setting."""
    digest = zlib.crc32(settings(dataset, args).encode())
    name = f"{dataset}-{condition}-{seed}-{digest:08x}.json"
    return args.output / "runs" / name


def do_runs(
    dataset: str, data: text_encoding.Encoded, args: argparse.Namespace
) -> dict[str, list[Run]]:
    """Does what no process has done or does; reads what there is.

    Returns:
        The runs by condition: of all seeds, or fewer if some are left to other
        processes.
    """
    dropout = {"plain": 0.0, "dropout": args.dropout}
    wanted = list(itertools.product(dropout, args.seeds))

    def path_of(work: tuple[str, int]) -> Path:
        return run_path(dataset, *work, args)

    def left() -> list[tuple[str, int]]:
        return [work for work in wanted if not path_of(work).exists()]

    def do(work: tuple[str, int]) -> None:
        condition, seed = work
        print(f"{dataset}: trains {condition}, seed {seed}", flush=True)
        run = train(data, dropout[condition], seed, args)
        content = {"settings": settings(dataset, args), **run._asdict()}
        whole_files.write_json(path_of(work), content, indent=2)

    locks.do_claimed(left, lambda work: path_of(work).with_suffix(".claim"), do)
    found: dict[str, list[Run]] = {name: [] for name in dropout}
    for condition, seed in wanted:
        path = path_of((condition, seed))
        if path.exists():
            content = json.loads(path.read_text(encoding="utf8"))
            del content["settings"]
            found[condition].append(Run(**content))
    return found


def train(
    data: text_encoding.Encoded,
    dropout: float,
    seed: int,
    args: argparse.Namespace,
) -> Run:
    """Trains one model; the seed alone decides its first weights."""
    keras.utils.clear_session()
    keras.utils.set_random_seed(seed)
    matrix = word_vectors.embedding_matrix(
        data.tokenizer.vocabulary, args.vectors, args.embedding_size, seed
    )
    length, classes = data.train[0].shape[1], len(data.classes)

    def build():
        return classifiers.build_model(
            args.model, matrix, length, classes, args
        )

    # Keras draws other weights for a model without dropout.
    weights = build()[0].get_weights()
    args = argparse.Namespace(**{**vars(args), "dropout": dropout})
    model, fields = build()
    model.set_weights(weights)
    classifiers.compile_model(model, args)
    ids, labels = (array[: args.probe] for array in data.validation)
    history = SizeHistory(fields, ids, labels, args.every)
    start_sizes = sizes_by_word(fields, data, args.min_count)
    model.fit(
        *data.train,
        batch_size=args.batch_size,
        epochs=args.epochs,
        verbose=0,
        callbacks=[history, *filter(None, [exploring.schedule(args)])],
    )
    end_sizes = sizes_by_word(fields, data, args.min_count)
    return Run(history.history, start_sizes, end_sizes)


def sizes_by_word(
    fields: keras.Model, data: text_encoding.Encoded, min_count: int
) -> dict[str, analysis.TokenFieldSize]:
    """Field sizes at words in training texts, where fields have room."""
    ids = data.train[0]
    mask = ids != 0
    field = fields.predict(ids, batch_size=256, verbose=0)
    probabilities = field["probabilities"]
    sizes = expected_sizes(probabilities, mask)
    reach = probabilities.shape[-1] - 1
    has_room = np.pad(mask, ((0, 0), (0, reach)))[:, reach:]
    sizes = analysis.field_size_by_token(ids, sizes, has_room, min_count)
    words = data.tokenizer.vocabulary
    return {words[i - 2]: size for i, size in sizes.items() if i > 1}


def entropies_by_word(
    data: text_encoding.Encoded, min_count: int, vectors: str | None
) -> dict[str, float]:
    """Label entropies of words, those with vectors if there are any."""
    ids, labels = data.train
    entropies = analysis.label_entropy_by_token(
        ids, labels, ids != 0, min_count
    )
    words = data.tokenizer.vocabulary
    known = word_vectors.load_vectors(vectors)[0] if vectors else words
    known = set(known)
    return {
        words[i - 2]: entropy
        for i, entropy in entropies.items()
        if i > 1 and words[i - 2] in known
    }


def mean_history(histories: Sequence[dict]) -> dict[str, list[float]]:
    """Mean over seeds at each step."""
    return {
        key: np.mean([history[key] for history in histories], axis=0).tolist()
        for key in histories[0]
    }


def mean_words(
    runs: Sequence[Run], entropies: dict[str, float]
) -> pd.DataFrame:
    """Mean over seeds of the sizes at words that all know, with entropies."""
    words = [word for word in entropies if word in runs[0].end_sizes]

    def mean(sizes):
        return [np.mean([size[word][0] for size in sizes]) for word in words]

    return pd.DataFrame(
        {
            "start_size": mean([run.start_sizes for run in runs]),
            "mean_size": mean([run.end_sizes for run in runs]),
            "count": [runs[0].end_sizes[word][1] for word in words],
            "label_entropy": [entropies[word] for word in words],
        },
        index=pd.Index(words, name="word"),
    )


def summarise(histories: dict, words: pd.DataFrame) -> dict:
    """Numbers for both figures of one data set."""
    by_size, by_entropy = (
        words.sort_values(column, kind="stable")
        for column in ("mean_size", "label_entropy")
    )
    smallest, sizes = by_size.index.tolist(), by_entropy["mean_size"]
    quarter = max(1, len(words) // 4)

    def correlation(values: pd.Series) -> float:
        known = words["label_entropy"]
        if known.nunique() < 2 or values.nunique() < 2:
            return float("nan")
        return float(known.corr(values, method="spearman", min_periods=3))

    return {
        "mean_size_by_condition": {
            name: {
                "start": history["mean_size"][0],
                "largest": max(history["mean_size"]),
                "smallest": min(history["mean_size"]),
                "end": history["mean_size"][-1],
                "accuracy": history["accuracy"][-1],
            }
            for name, history in histories.items()
        },
        "words": len(words),
        "rank_correlation_of_entropy_and": {
            "size at the start": correlation(words["start_size"]),
            "size at the end": correlation(words["mean_size"]),
            "growth": correlation(words["mean_size"] - words["start_size"]),
        },
        "mean_size_in_quarter": {
            "of lowest entropy": float(sizes[:quarter].mean()),
            "of highest entropy": float(sizes[-quarter:].mean()),
        },
        "smallest_fields": smallest[:10],
        "largest_fields": smallest[:-11:-1],
        "lowest_entropy": by_entropy.index[:10].tolist(),
    }


def draw(
    name: str, histories: dict, words: pd.DataFrame, args: argparse.Namespace
) -> None:
    """Writes both figures of one data set, and their numbers."""
    title = (
        f"{args.model} on {name.upper()}, dropout {args.dropout:g}, "
        f"seeds {len(args.seeds)}"
    )
    figures = {
        "steps": plots.plot_history(
            histories, "mean_size", "accuracy", title=title
        ),
        "words": plot_words(words, title),
    }
    figures["steps"].axes[0].set_ylim(1, args.max_size)
    for kind, figure in figures.items():
        figure.savefig(args.output / f"{kind}_{name}.png", dpi=150)
    steps = pd.concat(map(pd.DataFrame, histories.values()), keys=histories)
    steps.index.names = ["condition", None]
    steps.reset_index("condition")[
        ["condition", "step", "mean_size", "accuracy"]
    ].to_csv(args.output / f"steps_{name}.csv", index=False)
    words.to_csv(args.output / f"words_{name}.csv")


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
    by_size = y.sort_values(kind="stable").index
    by_entropy = x.sort_values(kind="stable").index
    named = sorted({*by_size[:NAMED], *by_size[-NAMED:], *by_entropy[:NAMED]})
    texts, style = plots.drawable(named)
    for word, text in zip(named, texts):
        axes.annotate(
            text,
            (x[word], y[word]),
            (4, 2),
            textcoords="offset points",
            size=8,
            **style,
        )
    figure.suptitle(title)
    return figure


def report(name: str, summary: dict) -> None:
    def numbers(values):
        return ", ".join(f"{key} {value:.3f}" for key, value in values.items())

    print(f"{name}: mean field size by training step")
    for condition, values in summary["mean_size_by_condition"].items():
        print(f"  {condition}: {numbers(values)}")
    print(f"{name}: {summary['words']} words")
    for kind in ("rank_correlation_of_entropy_and", "mean_size_in_quarter"):
        print(f"  {kind.replace('_', ' ')}: {numbers(summary[kind])}")
    for kind in ("smallest_fields", "largest_fields", "lowest_entropy"):
        print(f"  {kind.replace('_', ' ')}: {' '.join(summary[kind])}")


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    names = list(datasets.CLASSES)
    add("--datasets", nargs="+", choices=names, default=["mr", "ag"])
    add("--output", type=Path, default=Path("runs/field_figures"))
    add("--model", choices=("rnn+rf", "lstm+rf"), default="lstm+rf")
    add("--seeds", nargs="+", type=integer(0), default=[1, 2, 3])
    add(
        "--every",
        type=positive,
        default=20,
        help="batches between measurements",
    )
    add("--probe", type=positive, default=500, help="held-out texts measured")
    add("--min-count", type=positive, default=30, help="of a word in figure 3")
    classifiers.add_arguments(parser)
    parser.set_defaults(epochs=10, l2=0.0)
    args = exploring.check(parser, parser.parse_args(argv))
    if not args.dropout:
        parser.error(
            "--dropout: must not be 0, which models are trained with anyway. "
            f"Received: {args.dropout:g}"
        )
    args.seeds = list(dict.fromkeys(args.seeds))
    args.vectors = args.vectors or word_vectors.find_vectors(args.data_dir)
    return args


def main(argv: Sequence[str] | None = None) -> dict:
    """Runs the example; returns the summary it prints.

    A data set some of whose runs are left to other processes is left out, and
    the summary is written when there is none.
    """
    args = parse(argv)
    args.output.mkdir(parents=True, exist_ok=True)
    summaries = {}
    for name in args.datasets:
        text_data = datasets.load(name, args.data_dir)
        print(f"{name}: {datasets.describe(text_data)}", flush=True)
        data = text_encoding.encode(text_data, length_of(name, args))
        runs = do_runs(name, data, args)
        left = sum(len(args.seeds) - len(own) for own in runs.values())
        if left:
            print(
                f"{name}: left to other processes: {left} runs; start again "
                "for the figures",
                flush=True,
            )
            continue
        summaries[name] = {
            "settings": settings(name, args),
            **draw_and_summarise(name, data, runs, args),
        }
        report(name, summaries[name])
    if len(summaries) == len(set(args.datasets)):
        path = args.output / "summary.json"
        whole_files.write_json(path, summaries, indent=2)
    return summaries


def draw_and_summarise(
    name: str,
    data: text_encoding.Encoded,
    runs: dict[str, list[Run]],
    args: argparse.Namespace,
) -> dict:
    """Writes the figures of a data set; returns the numbers of both."""
    entropies = entropies_by_word(data, args.min_count, args.vectors)
    histories = {
        condition: mean_history([run.history for run in own])
        for condition, own in runs.items()
    }
    words = mean_words(runs["dropout"], entropies)
    draw(name, histories, words, args)
    return summarise(histories, words)


if __name__ == "__main__":
    main()
