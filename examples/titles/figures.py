"""The pictures of a classifier of titles."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn import calibration
from sklearn import metrics

from examples.titles import reading
from examples.titles import scores
from examples.titles.data import CLASSES
from examples.titles.training import Trained
from keras_seqmech.analysis import plots

# How many units are drawn: those with the largest weights.
UNITS = 32


def draw_scores(
    labels: np.ndarray, probabilities: dict[str, np.ndarray], folder: Path
) -> list[Path]:
    """ROC curves and calibration of all models, confusion of the first.

    Args:
        labels: Labels of the test titles.
        probabilities: Probabilities of label 1 by name of the model.
        folder: Folder of the pictures.

    Returns:
        Their paths.
    """
    figures = {
        name: _figure(4.6, 4.4) for name in ("roc", "calibration", "confusion")
    }
    roc, calibrated, confusion = (f.subplots() for f in figures.values())
    for name, found in probabilities.items():
        metrics.RocCurveDisplay.from_predictions(
            labels, found, name=name, ax=roc
        )
        calibration.CalibrationDisplay.from_predictions(
            labels, found, n_bins=scores.BINS, name=name, ax=calibrated
        )
    metrics.ConfusionMatrixDisplay.from_predictions(
        labels,
        (next(iter(probabilities.values())) > 0.5).astype(int),
        labels=[0, 1],
        display_labels=CLASSES,
        cmap="Blues",
        ax=confusion,
    )
    return [_save(figure, folder / name) for name, figure in figures.items()]


def draw_training(history: dict[str, list[float]], folder: Path) -> list[Path]:
    """Accuracy over training."""
    figure = _figure(6.0, 3.6)
    axes = figure.subplots()
    for key, name in (("accuracy", "training"), ("val_accuracy", "validation")):
        epochs = range(1, len(history[key]) + 1)
        axes.plot(epochs, history[key], "o-", label=name)
    axes.set(xlabel="epoch", ylabel="accuracy")
    axes.legend()
    return [_save(figure, folder / "training")]


def draw_titles(
    trained: Trained, titles: Sequence[str], folder: Path
) -> list[Path]:
    """Probability, logit and units after each token of each title.

    Titles with nothing to read have no pictures.
    """
    paths = []
    for number, title in enumerate(titles, start=1):
        read = reading.read(trained, title)
        if not read.tokens:
            continue
        start = re.sub(r"[^a-z0-9]+", "_", title.lower())[:30].strip("_")
        path = folder / f"title_{number}_{start}"
        tokens = reading.shown(read.tokens)
        paths.append(_save(plot_answers(tokens, read.logits), path))
        values = reading.weighted_units(trained, title)
        if values is not None:
            # In the same order for all titles.
            weights, _ = trained.network.get_layer("logit").get_weights()
            largest = np.argsort(-np.abs(weights[:, 0]))[:UNITS]
            figure = plot_units(values[:, largest], tokens)
            paths.append(_save(figure, path.with_name(f"{path.name}_units")))
    return paths


def plot_answers(tokens: Sequence[str], logits: np.ndarray) -> Figure:
    """Probability and logit after each token, one above the other."""
    figure = _figure(1.2 + 0.42 * len(tokens), 4.4)
    above, below = figure.subplots(2, sharex=True)
    above.plot(reading.probability(logits), "o-")
    below.plot(logits, "o-")
    above.set(ylabel=f"P({CLASSES[1]})", ylim=(-0.05, 1.05))
    below.set_ylabel("logit")
    for axes, middle in ((above, 0.5), (below, 0.0)):
        axes.axhline(middle, color="0.6", linewidth=1.0)
    _name_steps(below, tokens)
    return figure


def plot_units(values: np.ndarray, tokens: Sequence[str]) -> Figure:
    """Units `(tokens, units)`: red raises the logit, blue lowers it."""
    figure = _figure(2.0 + 0.42 * len(tokens), 1.8 + 0.08 * values.shape[1])
    axes = figure.subplots()
    most = np.abs(values).max() or 1.0
    image = axes.imshow(
        values.T, cmap="RdBu_r", vmin=-most, vmax=most, aspect="auto"
    )
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.set_ylabel("unit")
    _name_steps(axes, tokens)
    figure.colorbar(image, ax=axes, label="share in the logit")
    return figure


def _name_steps(axes, tokens):
    texts, style = plots.drawable(tokens)
    axes.set_xticks(range(len(texts)), texts, rotation=60, ha="right", **style)


def _figure(width, height):
    size = (max(4.6, min(width, 20.0)), height)
    return Figure(figsize=size, layout="constrained")


def _save(figure, path):
    path = path.with_name(f"{path.name}.png")
    figure.savefig(path, dpi=150)
    return path
