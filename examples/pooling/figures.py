"""Where in a text gradients, accuracy and importance come from.

    python -m examples.pooling.figures --data-dir DATA --models MODELS

Draws figures of "Analyzing the Learnability and Representability of Recurrent
Architectures" from the models that `examples/pooling/compare.py` wrote with
`--save-models`, means over `--seeds`:

- `start_gradients.png`: norm of the loss's gradient by position, of models
  that this program trains on `--start-texts` texts, once (figure 1.2a);
- `gradients.png`: the same of the saved models;
- `noise.png`: accuracy on texts of the standard setting with more and more
  noise around them, at test time only (figure 1.4). A text's own tokens, the
  first `--text-length`, are the same at each share;
- `importance_<setting>.png`: Normalized Word Importance by position, of test
  texts of nearly `--max-length` tokens (figure 1.9), or in the setting short
  of nearly what is left of them without noise;
- `vanishing.png`: vanishing ratio by training step (figures 1.2b and 1.2c), of
  the `--curves` that the study wrote with `--vanishing-every`;
- `points.csv`: the points of all but the last.
"""

import argparse
import csv
import itertools
import json
from collections.abc import Iterable
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import keras
import numpy as np

from examples.common import datasets
from examples.common import word_vectors
from examples.common.arguments import integer
from examples.common.arguments import positive
from examples.common.arguments import real
from examples.pooling import classifiers
from examples.pooling import noisy_texts
from keras_seqmech import analysis

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UNKNOWN = 1
POINTS = ("figure", "panel", "model", "x", "y")
# Of `--max-length`: how long a text must be whose words' importance counts.
NEARLY = 0.9


def find_models(
    args: argparse.Namespace, setting: str
) -> dict[str, list[tuple[keras.Model, list[str]]]]:
    """Saved models of a setting by name, each with its words, by seed."""
    found = {}
    for name, seed in itertools.product(classifiers.BILSTMS, args.seeds):
        stem = f"{args.dataset}-{args.size}-{setting}-{name}-{seed}"
        path = find_model(args.models, stem)
        if path is not None:
            described = path.with_suffix(".json").read_text(encoding="utf8")
            words = json.loads(described)["words"]
            model = keras.models.load_model(path)
            found.setdefault(name, []).append((model, words))
    return found


def find_model(folder: Path, stem: str) -> Path | None:
    """The model of a run, whatever its settings; None if there is none.

    Raises:
        ValueError: If there are models of several settings.
    """
    # Those of earlier programs do not name their settings.
    found = sorted(folder.glob(f"{stem}-*.keras"))
    found += [path for path in [folder / f"{stem}.keras"] if path.exists()]
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise ValueError(
            "--models: must hold models of one setting of compare.py for each "
            f"run. Received: {folder} with {names}"
        )
    return found[0] if found else None


def start_models(
    data: noisy_texts.StudyData, args: argparse.Namespace
) -> dict[str, list[tuple[keras.Model, list[str]]]]:
    """Models after one epoch on few texts."""
    found = {}
    for name in classifiers.BILSTMS:
        for seed in args.seeds:
            keras.utils.clear_session()
            keras.utils.set_random_seed(seed)
            matrix = word_vectors.embedding_matrix(
                data.words, args.vectors, args.embedding_size, seed
            )
            model = classifiers.bilstm_classifier(
                name, matrix, len(data.classes), args.units
            )
            classifiers.compile_classifier(model, args.learning_rate)
            order = np.random.default_rng(seed)
            batches = noisy_texts.batches(data.train, args.batch_size, order)
            model.fit(batches, verbose=0, shuffle=False)
            found.setdefault(name, []).append((model, data.words))
            print(f"{name}, seed {seed}: trained", flush=True)
    return found


def mean_profiles(
    models: dict, corpus: noisy_texts.Corpus, args: argparse.Namespace
) -> dict:
    """Gradient profiles at test texts of the standard setting."""
    texts = corpus.test.take(range(min(args.probe, len(corpus.test.ids))))
    found = {}
    for name, members in models.items():
        profiles = []
        for model, words in members:
            ids = noisy_texts.encode(corpus, texts.ids, words)
            ids = noisy_texts.pad([text[: args.max_length] for text in ids])
            profiles.append(
                analysis.gradient_profile(
                    model, ids, texts.labels, layer="rnn", mask=ids != 0
                )
            )
        found[name] = np.mean(profiles, axis=0)
    return found


def noise_accuracies(
    models: dict, corpus: noisy_texts.Corpus, args: argparse.Namespace
) -> dict:
    """Accuracy by place of the text, model and share of noise."""
    found = {place: {} for place in ("left", "mid", "right")}
    own = [text[: args.text_length] for text in corpus.test.ids]
    for place in found:
        for share in args.shares:
            arranged = analysis.surround_with_noise(
                [text.tolist() for text in own],
                corpus.noise["test"],
                place,
                share,
            )
            for name, members in models.items():
                accuracies = [
                    classifiers.accuracy(
                        model,
                        noisy_texts.Texts(
                            noisy_texts.encode(corpus, arranged, words),
                            corpus.test.labels,
                        ),
                    )
                    for model, words in members
                ]
                row = found[place].setdefault(name, [])
                row.append(float(np.mean(accuracies)))
        print(f"text kept {place}: {found[place]}", flush=True)
    return found


def importances(
    models: dict,
    setting: str,
    corpus: noisy_texts.Corpus,
    args: argparse.Namespace,
) -> dict[str, np.ndarray]:
    """Normalized Word Importance in long test texts of a setting."""
    arranged = noisy_texts.arrange(
        corpus.test.ids,
        corpus.noise["test"],
        setting,
        args.max_length,
        args.share,
        seed=0,
    )
    longest = args.max_length
    if setting == "short":
        longest = noisy_texts.own_length(setting, longest, args.share)
    long = [
        i for i, text in enumerate(arranged) if len(text) >= NEARLY * longest
    ][: args.importance_texts]
    if not long:
        raise ValueError(
            f"No test text has {NEARLY:.0%} of {longest} tokens. "
            f"Received: --max-length {args.max_length}"
        )
    found = {}
    for name, members in models.items():
        curves = [
            analysis.normalized_word_importance(
                model,
                noisy_texts.encode(corpus, [arranged[i] for i in long], words),
                corpus.test.labels[long],
                k=args.k,
                unknown_id=UNKNOWN,
                vocabulary_size=len(words) + 2,
            )
            for model, words in members
        ]
        found[name] = np.mean(curves, axis=0)
        print(f"importance, {setting}: {name} done", flush=True)
    return found


def separators(setting: str, args: argparse.Namespace) -> list[float]:
    """Where noise begins and ends, as fractions of a text."""
    if setting in ("standard", "short"):
        return []
    start, stop = analysis.original_span(10**6, setting, args.share)
    total = 10**6 / (1 - args.share)
    return [x / total for x in (start, stop) if 0.001 < x / total < 0.999]


def read_curve(path: Path) -> dict[str, list[float]]:
    """A CSV file of the study as `plot_vanishing_ratio` takes it."""
    with open(path, newline="", encoding="utf8") as file:
        rows = list(csv.DictReader(file))
    ends = [row for row in rows if row["accuracy"]]
    history = {
        key: [float(row[key]) for row in rows]
        for key in ("step", "vanishing_ratio")
    }
    history["accuracy_step"] = [float(row["step"]) for row in ends]
    for key in ("accuracy", "val_accuracy"):
        history[key] = [float(row[key]) for row in ends]
    return history


class Output:
    """Figures and their points in a folder."""

    def __init__(self, folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.rows = []

    def add(
        self,
        name: str,
        panel: str,
        figure: "Figure | None",
        curves: dict[str, Sequence[float]],
        xs: Iterable[float] | None = None,
    ) -> None:
        """Writes a figure, if given, and the points of its curves."""
        for model, ys in curves.items():
            places = np.linspace(0, 1, len(ys)) if xs is None else xs
            self.rows += [
                (name, panel, model, f"{x:g}", f"{y:.6g}")
                for x, y in zip(places, ys)
            ]
        if figure is not None:
            figure.savefig(self.folder / f"{name}.png", dpi=150)
        with open(self.folder / "points.csv", "w", newline="") as file:
            csv.writer(file).writerows([POINTS, *self.rows])


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--data-dir", required=True, help="see examples/common/datasets.py")
    add("--models", type=Path, help="folder of the saved models")
    add("--output", type=Path, default=Path("runs/position_figures"))
    add("--curves", nargs="*", type=Path, default=[], help="CSV files")
    add("--dataset", choices=list(datasets.CLASSES), default="imdb")
    add("--size", type=positive, default=10000, help="of the saved models")
    add("--seeds", nargs="+", type=integer(0), default=[0])
    add("--min-words", type=integer(0), default=100)
    add("--max-length", type=positive, default=400)
    add(
        "--share",
        type=real("[0, 1)"),
        default=0.66,
        help="of noise in their settings",
    )
    add("--noise", help="a sentence a line; default: wiki of --data-dir")
    add("--test-size", type=positive, default=1000, help="texts looked at")
    add("--probe", type=positive, default=64, help="texts of gradients")
    shares = [0, 0.2, 0.4, 0.6, 0.8]
    add("--shares", nargs="+", type=real("[0, 1)"), default=shares)
    add("--text-length", type=positive, default=136, help="tokens, by noise")
    add("--importance-texts", type=positive, default=50)
    add("-k", type=positive, default=5, help="words replaced at once")
    add("--start-texts", type=integer(0), default=500, help="0: no training")
    add("--units", type=positive, default=256, help="of models trained here")
    add("--learning-rate", type=real("(0, inf)"), default=2e-3)
    add("--batch-size", type=positive, default=32)
    add("--vectors", help="GloVe file; default: glove/*.npz of --data-dir")
    add("--embedding-size", type=positive, default=100, help="without vectors")
    args = parser.parse_args(argv)
    args.vectors = args.vectors or word_vectors.find_vectors(args.data_dir)
    return args


def main(argv: Sequence[str] | None = None) -> list[tuple]:
    """Draws the figures; returns their points."""
    args = parse(argv)
    models = {}
    for setting in noisy_texts.SETTINGS if args.models else ():
        models[setting] = find_models(args, setting)
    if args.models and not any(models.values()):
        raise ValueError(
            f"{args.models}: no models for --dataset {args.dataset} "
            f"--size {args.size} --seeds {args.seeds}"
        )
    output = Output(args.output)
    if args.curves:
        curves = {path.stem: read_curve(path) for path in args.curves}
        figure = analysis.plot_vanishing_ratio(curves)
        figure.savefig(args.output / "vanishing.png", dpi=150)
    corpus = noisy_texts.load(
        args.dataset,
        args.data_dir,
        args.noise,
        args.min_words,
        test_size=args.test_size,
    )
    if args.start_texts:
        data = noisy_texts.prepare(
            corpus, "standard", args.start_texts, args.seeds[0], args.max_length
        )
        curves = mean_profiles(start_models(data, args), corpus, args)
        title = f"after {args.start_texts} texts"
        figure = analysis.plot_gradient_profiles(curves, title)
        output.add("start_gradients", "", figure, curves)
    for setting, members in models.items():
        if members:
            draw(members, setting, corpus, output, args)
    return output.rows


def draw(
    models: dict,
    setting: str,
    corpus: noisy_texts.Corpus,
    output: Output,
    args: argparse.Namespace,
) -> None:
    """The figures of one setting's models."""
    trained = f"{args.dataset}, {args.size:,} texts, {setting}"
    curves = importances(models, setting, corpus, args)
    figure = analysis.plot_word_importance(
        curves, separators(setting, args), trained
    )
    output.add(f"importance_{setting}", setting, figure, curves)
    if setting != "standard":
        return
    curves = mean_profiles(models, corpus, args)
    figure = analysis.plot_gradient_profiles(curves, trained)
    output.add("gradients", setting, figure, curves)
    accuracies = noise_accuracies(models, corpus, args)
    figure = analysis.plot_accuracy_by_noise(args.shares, accuracies, trained)
    for place, curves in accuracies.items():
        output.add("noise", place, figure, curves, args.shares)


if __name__ == "__main__":
    main()
