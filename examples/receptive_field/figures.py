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
import csv
import itertools
import json
import zlib
from collections.abc import Iterable
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np

from examples.common import datasets
from examples.common import exploring
from examples.common import locks
from examples.common import results
from examples.common import text_encoding
from examples.common import whole_files
from examples.common import word_vectors
from examples.common.arguments import integer
from examples.common.arguments import positive
from examples.receptive_field import classifiers
from examples.receptive_field import field_options
from keras_seqmech import analysis

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
    """Field sizes over training steps, and by word at start and end."""

    history: dict[str, list[float]]
    start_sizes: dict[str, analysis.TokenFieldSize]
    end_sizes: dict[str, analysis.TokenFieldSize]


def conditions(args: argparse.Namespace) -> dict[str, float]:
    """The rate of dropout of each, by name."""
    return {"plain": 0.0, "dropout": args.dropout}


def settings(dataset: str, args: argparse.Namespace) -> str:
    """What the runs of a data set depend on, but for what names them."""
    return results.describe(
        args,
        SETTINGS,
        length=length_of(dataset, args),
        vectors=Path(args.vectors).name if args.vectors else "none",
        **field_options.settings(args),
    )


def length_of(dataset: str, args: argparse.Namespace) -> int:
    """Words of a text that are read."""
    return args.length or text_encoding.LENGTHS[dataset]


def run_path(
    dataset: str, condition: str, seed: int, args: argparse.Namespace
) -> Path:
    """The file of a finished run, of its own for each setting."""
    own = settings(dataset, args)
    digest = zlib.crc32(own.encode())
    folder, stem = args.output / "runs", f"{dataset}-{condition}-{seed}"
    # Earlier programs did not name the settings.
    older = folder / f"{stem}.json"
    if older.exists():
        content = json.loads(older.read_text(encoding="utf8"))
        if content["settings"] == own:
            return older
    return folder / f"{stem}-{digest:08x}.json"


def do_runs(
    dataset: str, data: text_encoding.Encoded, args: argparse.Namespace
) -> dict[str, list[Run]]:
    """Does what no process has done or does; reads what there is.

    Returns:
        The runs by condition: of all seeds, or fewer if some are left to other
        processes.
    """
    wanted = list(itertools.product(conditions(args), args.seeds))

    def path_of(work: tuple[str, int]) -> Path:
        return run_path(dataset, *work, args)

    def left() -> list[tuple[str, int]]:
        return [work for work in wanted if not path_of(work).exists()]

    def do(work: tuple[str, int]) -> None:
        condition, seed = work
        print(f"{dataset}: trains {condition}, seed {seed}", flush=True)
        run = train(data, conditions(args)[condition], seed, args)
        content = {"settings": settings(dataset, args), **run._asdict()}
        whole_files.write_json(path_of(work), content, indent=2)

    locks.do_claimed(left, lambda work: path_of(work).with_suffix(".claim"), do)
    found: dict[str, list[Run]] = {name: [] for name in conditions(args)}
    for condition, seed in wanted:
        path = path_of((condition, seed))
        if path.exists():
            content = json.loads(path.read_text(encoding="utf8"))
            del content["settings"]
            found[condition].append(_run_of(**content))
    return found


def _run_of(
    history: dict[str, list[float]],
    start_sizes: dict[str, list],
    end_sizes: dict[str, list],
) -> Run:
    """A run as `train` returns it, of what JSON makes of it."""
    start, end = (
        {word: analysis.TokenFieldSize(*size) for word, size in sizes.items()}
        for sizes in (start_sizes, end_sizes)
    )
    return Run(history, start, end)


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
    history = analysis.FieldSizeHistory(
        fields, ids, mask=ids != 0, labels=labels, every=args.every
    )
    start_sizes = sizes_by_word(fields, data, args.min_count)
    model.fit(
        *data.train,
        batch_size=args.batch_size,
        epochs=args.epochs,
        verbose=args.verbose,
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
    sizes = analysis.expected_field_size(probabilities, mask)
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
        ids, labels, len(data.classes), ids != 0, min_count
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


def mean_sizes(sizes: Sequence[dict], words: Iterable[str]) -> dict:
    """Mean over seeds of the sizes at words that all runs know."""
    return {
        word: analysis.TokenFieldSize(
            float(np.mean([size[word].mean for size in sizes])),
            sizes[0][word].count,
        )
        for word in words
        if word in sizes[0]
    }


def rank_correlation(x: Sequence[float], y: Sequence[float]) -> float:
    """Spearman's correlation; equal values share their mean rank."""

    def ranks(values):
        _, index, counts = np.unique(
            values, return_inverse=True, return_counts=True
        )
        return (np.cumsum(counts) - (counts - 1) / 2)[index]

    if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan")
    return float(np.corrcoef(ranks(x), ranks(y))[0, 1])


def summarise(
    histories: dict, start_sizes: dict, sizes: dict, entropies: dict
) -> dict:
    """Numbers for both figures of one data set."""
    smallest = sorted(sizes, key=lambda word: sizes[word].mean)
    certain = sorted(sizes, key=lambda word: entropies[word])
    quarter = max(1, len(certain) // 4)
    entropy = [entropies[word] for word in sizes]
    start, end = (
        np.array([values[word].mean for word in sizes])
        for values in (start_sizes, sizes)
    )

    def mean(words):
        return float(np.mean([sizes[word].mean for word in words]))

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
        "words": len(sizes),
        "rank_correlation_of_entropy_and": {
            "size at the start": rank_correlation(entropy, start),
            "size at the end": rank_correlation(entropy, end),
            "growth": rank_correlation(entropy, end - start),
        },
        "mean_size_in_quarter": {
            "of lowest entropy": mean(certain[:quarter]),
            "of highest entropy": mean(certain[-quarter:]),
        },
        "smallest_fields": smallest[:10],
        "largest_fields": smallest[:-11:-1],
        "lowest_entropy": certain[:10],
    }


def draw(
    name: str,
    histories: dict,
    start_sizes: dict,
    sizes: dict,
    entropies: dict,
    args: argparse.Namespace,
) -> None:
    """Writes both figures of one data set, and their numbers."""
    title = (
        f"{args.model} on {name.upper()}, dropout {args.dropout:g}, "
        f"seeds {len(args.seeds)}"
    )
    figures = {
        "steps": analysis.plot_field_size_by_step(
            histories, args.max_size, title
        ),
        "words": analysis.plot_field_size_by_entropy(
            sizes, entropies, title=title
        ),
    }
    for kind, figure in figures.items():
        figure.savefig(args.output / f"{kind}_{name}.png", dpi=150)
    columns = ("step", "mean_size", "accuracy")
    steps = [
        (condition, *values)
        for condition, history in histories.items()
        for values in zip(*(history[column] for column in columns))
    ]
    _write(args.output / f"steps_{name}.csv", ("condition", *columns), steps)
    words = [
        (word, start_sizes[word].mean, *size, entropies[word])
        for word, size in sizes.items()
    ]
    header = ("word", "start_size", "mean_size", "count", "label_entropy")
    _write(args.output / f"words_{name}.csv", header, words)


def _write(path: Path, header: Sequence[str], rows: Iterable) -> None:
    with open(path, "w", newline="", encoding="utf8") as file:
        csv.writer(file).writerows([header, *rows])


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
    exploring.add_arguments(parser)
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
    with_dropout = runs["dropout"]
    start_sizes = mean_sizes(
        [run.start_sizes for run in with_dropout], entropies
    )
    sizes = mean_sizes([run.end_sizes for run in with_dropout], entropies)
    draw(name, histories, start_sizes, sizes, entropies, args)
    return summarise(histories, start_sizes, sizes, entropies)


if __name__ == "__main__":
    main()
