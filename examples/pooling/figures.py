"""Where in a text gradients, accuracy and importance come from.

    python -m examples.pooling.figures --data-dir DATA --models MODELS

Figures of "Analyzing the Learnability and Representability of Recurrent
Architectures" from the models that `examples/pooling/compare.py` wrote with
`--save-models`:

- `start_gradients.png`: norm of the loss's gradient by position, of models
  that this program trains on `--start-texts` texts, once (figure 1.2a);
- `noise.png`: accuracy on texts of the standard setting with more and more
  noise around them, at test time only (figure 1.4);
- `importance_<setting>.png`: Normalized Word Importance by position, of test
  texts of nearly 400 tokens (figure 1.9);
- `vanishing.png`: vanishing ratio by training step (figures 1.2b and 1.2c), of
  the `--curves` that the study wrote with `--vanishing-every`.
"""

import argparse
import json
from pathlib import Path

import keras
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from examples.common import arguments
from examples.common import plots
from examples.pooling import classifiers
from examples.pooling import experiments
from examples.pooling import gradients
from examples.pooling import importance
from examples.pooling import noisy_texts
from examples.pooling import positions

# By name, each with its words.
Models = dict[str, tuple[keras.Model, list[str]]]
# Tokens of a text, noise included, and of a text whose noise grows.
MAX_LENGTH = 400
TEXT_LENGTH = 136
NOISE_SHARES = (0.0, 0.2, 0.4, 0.6, 0.8)
# Share of the tokens that a text must have whose words' importance counts.
NEARLY = 0.9
# Units of the models trained here.
UNITS = 256


def find_models(args: argparse.Namespace, setting: str) -> Models:
    """Saved models of a setting."""
    found = {}
    for name in classifiers.POOLINGS:
        stem = f"{args.size}-{setting}-{name}-{args.seed}"
        for path in args.models.glob(f"{stem}-*.keras"):
            described = path.with_suffix(".json").read_text(encoding="utf8")
            words = json.loads(described)["words"]
            model = keras.models.load_model(path)
            found[name] = model, words
    return found


def start_models(
    data: noisy_texts.StudyData, args: argparse.Namespace
) -> Models:
    """Models after one epoch on few texts.

    Beside those of the study a BiLSTM without a forget bias, `bilstm_lowf`.
    """
    found = {}
    for name in ("bilstm", "bilstm_lowf", *list(classifiers.POOLINGS)[1:]):
        matrix = experiments.start(args.seed, data, args)
        kind, _, low = name.partition("_")
        model = classifiers.bilstm_classifier(
            kind, matrix, UNITS, forget_bias=0.0 if low else 1.0
        )
        classifiers.compile_classifier(model, learning_rate=2e-3)
        order = np.random.default_rng(args.seed)
        batches = noisy_texts.batches(data.train, 32, order)
        model.fit(batches, verbose=0, shuffle=False)
        found[name] = model, data.words
        print(f"{name}: trained", flush=True)
    return found


def gradient_profiles(
    models: Models, corpus: noisy_texts.Corpus, probe: int
) -> dict[str, np.ndarray]:
    """Gradient profiles at test texts of the standard setting."""
    texts = corpus.test.take(range(min(probe, len(corpus.test.ids))))
    found = {}
    for name, (model, words) in models.items():
        ids = noisy_texts.encode(corpus, texts.ids, words)
        ids = noisy_texts.pad([text[:MAX_LENGTH] for text in ids])
        probe = gradients.GradientProbe(model)
        found[name] = probe.profile(ids, texts.labels)
    return found


def noise_accuracies(
    models: Models, corpus: noisy_texts.Corpus
) -> dict[str, dict[str, list[float]]]:
    """Accuracy by place of the text, model and share of noise."""
    found: dict[str, dict[str, list[float]]] = {}
    own = [text[:TEXT_LENGTH].tolist() for text in corpus.test.ids]
    for place in positions.PLACES:
        found[place] = {name: [] for name in models}
        for share in NOISE_SHARES:
            arranged = positions.surround_with_noise(
                own, corpus.noise["test"], place, share
            )
            for name, (model, words) in models.items():
                ids = noisy_texts.encode(corpus, arranged, words)
                texts = noisy_texts.Texts(ids, corpus.test.labels)
                batches = noisy_texts.batches(texts, 64)
                accuracy = classifiers.accuracy(model, batches)
                found[place][name].append(accuracy)
        print(f"text kept {place}: {found[place]}", flush=True)
    return found


def importances(
    models: Models, setting: str, corpus: noisy_texts.Corpus, count: int
) -> dict[str, np.ndarray]:
    """Normalized Word Importance in long test texts of a setting."""
    arranged = noisy_texts.arrange(
        corpus.test.ids, corpus.noise["test"], setting, MAX_LENGTH, seed=0
    )
    least = NEARLY * MAX_LENGTH
    long = [i for i, text in enumerate(arranged) if len(text) >= least][:count]
    found = {}
    for name, (model, words) in models.items():
        texts = noisy_texts.encode(corpus, [arranged[i] for i in long], words)
        found[name] = importance.normalized_word_importance(
            model, texts, corpus.test.labels[long]
        )
        print(f"importance, {setting}: {name} done", flush=True)
    return found


def separators(setting: str) -> list[float]:
    """Where noise begins and ends, as fractions of a text."""
    if setting not in positions.PLACES:
        return []
    share = noisy_texts.SHARE
    start, stop = positions.original_span(10**6, setting, share)
    total = 10**6 / (1 - share)
    return [x / total for x in (start, stop) if 0.001 < x / total < 0.999]


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    add = parser.add_argument
    add("--data-dir", type=arguments.folder, required=True, help="data sets")
    add("--models", type=Path, help="folder of the saved models")
    add("--output", type=Path, default=Path("runs/position_figures"))
    add("--curves", nargs="*", type=Path, default=[], help="CSV files")
    add("--size", type=int, default=10000, help="training texts")
    add("--seed", type=int, default=0)
    add("--test-size", type=int, default=1000, help="texts looked at")
    add("--probe", type=int, default=64, help="texts of gradients")
    add("--importance-texts", type=int, default=50)
    add("--start-texts", type=int, default=500, help="0: no training")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> dict[str, dict]:
    """Draws the figures; returns what they show of each model, by name."""
    args = parse(argv)
    settings = noisy_texts.SETTINGS if args.models else ()
    models = {setting: find_models(args, setting) for setting in settings}
    args.output.mkdir(parents=True, exist_ok=True)
    if args.curves:
        curves = {x.stem: pd.read_csv(x).to_dict("list") for x in args.curves}
        figure = plots.plot_history(
            curves, "vanishing_ratio", "accuracy", "val_accuracy"
        )
        figure.axes[0].set_yscale("log", nonpositive="mask")
        figure.savefig(args.output / "vanishing.png", dpi=150)
    corpus = noisy_texts.load(args.data_dir, test_size=args.test_size)
    shown = {}
    if args.start_texts:
        data = noisy_texts.prepare(
            corpus, "standard", args.start_texts, args.seed, MAX_LENGTH
        )
        started = start_models(data, args)
        profiles = gradient_profiles(started, corpus, args.probe)
        title = f"after {args.start_texts} texts"
        label = r"$\|\partial L/\partial h_t\|$"
        figure = plot_by_position(profiles, label, title)
        figure.axes[0].set_yscale("log", nonpositive="mask")
        figure.savefig(args.output / "start_gradients.png", dpi=150)
        shown["start_gradients"] = profiles
    for setting, own in models.items():
        if own:
            shown |= draw(own, setting, corpus, args)
    return shown


def draw(
    models: Models,
    setting: str,
    corpus: noisy_texts.Corpus,
    args: argparse.Namespace,
) -> dict[str, dict]:
    """Draws the figures of one setting's models; returns what they show."""
    trained = f"imdb, {args.size:,} texts, {setting}"
    curves = importances(models, setting, corpus, args.importance_texts)
    figure = plot_by_position(curves, "normalized word importance", trained)
    figure.axes[0].set_ylim(bottom=0)
    for place in separators(setting):
        figure.axes[0].axvline(100 * place, color="red", linewidth=1.2)
    figure.savefig(args.output / f"importance_{setting}.png", dpi=150)
    shown: dict[str, dict] = {f"importance_{setting}": curves}
    if setting == "standard":
        shown["noise"] = noise_accuracies(models, corpus)
        figure = plot_accuracies(shown["noise"], trained)
        figure.savefig(args.output / "noise.png", dpi=150)
    return shown


def plot_by_position(curves: dict, label: str, title: str) -> Figure:
    """One panel, a line for each curve over the positions in percent."""
    figure = Figure(figsize=(7.4, 3.8), layout="constrained")
    axes = figure.subplots()
    for name, curve in curves.items():
        axes.plot(np.linspace(0, 100, len(curve)), curve, label=name)
    axes.set(xlim=(0, 100), xlabel="position in the text (%)", ylabel=label)
    axes.grid(color="0.92")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.suptitle(title)
    return figure


def plot_accuracies(accuracies: dict, title: str) -> Figure:
    """Accuracy against the share of noise, a panel for each place."""
    size = (2.2 + 3.0 * len(accuracies), 3.4)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(1, len(accuracies), sharey=True)
    for axes, (place, models) in zip(panels, accuracies.items()):
        for name, row in models.items():
            axes.plot([100 * x for x in NOISE_SHARES], row, "o-", label=name)
        axes.set_title(f"text kept {place}", fontsize="medium")
        axes.set_xlabel("noise (%)")
        axes.grid(color="0.92")
    panels[0].set_ylabel("accuracy")
    panels[-1].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.suptitle(title)
    return figure


if __name__ == "__main__":
    main()
