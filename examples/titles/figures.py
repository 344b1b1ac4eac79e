"""The pictures of a classifier of titles."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sklearn import metrics

from examples.titles import reading
from examples.titles import scores
from examples.titles.data import CLASSES
from examples.titles.training import Trained
from keras_seqmech.analysis import plots

DPI = 150


def draw_scores(
    labels: np.ndarray, probabilities: dict[str, np.ndarray], folder: Path
) -> list[Path]:
    """ROC curves and calibration of all models, confusion of the first.

    Args:
        labels: Of the test titles.
        probabilities: By name of the model.
        folder: For the pictures.

    Returns:
        Their paths.
    """
    curves, bins = {}, {}
    for name, found in probabilities.items():
        curves[name] = metrics.roc_curve(labels, found)[:2]
        reliability = scores.reliability(labels, found)
        bins[name] = (reliability.probability, reliability.share)
    first = next(iter(probabilities.values()))
    counts = metrics.confusion_matrix(labels, first > 0.5, labels=[0, 1])
    figures = {
        "roc": plots.plot_roc_curves(curves),
        "calibration": plots.plot_reliability(bins),
        "confusion": plots.plot_confusion(counts, CLASSES),
    }
    return [_save(figure, folder / name) for name, figure in figures.items()]


def draw_training(history: dict[str, list[float]], folder: Path) -> list[Path]:
    """Accuracy over training."""
    curves = {
        "training": history["accuracy"],
        "validation": history["val_accuracy"],
    }
    return [_save(plots.plot_learning_curves(curves), folder / "training")]


def draw_titles(
    trained: Trained, titles: Sequence[str], folder: Path, units: int = 32
) -> list[Path]:
    """Probability, logit and units after each token of each title.

    Args:
        trained: The classifier.
        titles: Those with nothing to read have no pictures.
        folder: For the pictures.
        units: How many are drawn: those with the largest weights.
    """
    paths = []
    for number, title in enumerate(titles, start=1):
        read = reading.read(trained, title)
        if not read.tokens:
            continue
        name = f"title_{number}_{_file_name(title)}"
        tokens = reading.shown(read.tokens)
        figure = plots.plot_probability_by_token(tokens, read.logits, CLASSES)
        paths.append(_save(figure, folder / f"{name}"))
        values = reading.weighted_units(trained, title)
        if values is not None:
            # In the same order for all titles.
            weights, _ = trained.network.get_layer("logit").get_weights()
            largest = np.argsort(-np.abs(weights[:, 0]))[:units]
            figure = plots.plot_units_by_token(values[:, largest], tokens)
            paths.append(_save(figure, folder / f"{name}_units"))
    return paths


def _file_name(title):
    """The start of a title in characters that any file system takes."""
    return re.sub(r"[^a-z0-9]+", "_", title.lower())[:30].strip("_")


def _save(figure, path):
    path = path.with_name(f"{path.name}.png")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=DPI)
    return path
