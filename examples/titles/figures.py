"""The pictures of a classifier of titles."""

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
    labels: np.ndarray, probabilities: dict[str, np.ndarray]
) -> dict[str, Figure]:
    """ROC curves and calibration of all models, confusion of the first."""
    names = ("roc", "calibration", "confusion")
    figures = {name: _figure(4.6, 4.4) for name in names}
    roc, calibrated, confusion = (f.subplots() for f in figures.values())
    for name, found in probabilities.items():
        metrics.RocCurveDisplay.from_predictions(
            labels, found, name=name, ax=roc
        )
        calibration.CalibrationDisplay.from_predictions(
            labels, found, n_bins=scores.BINS, name=name, ax=calibrated
        )
    first, *_ = probabilities.values()
    metrics.ConfusionMatrixDisplay.from_predictions(
        labels, first > 0.5, display_labels=CLASSES, cmap="Blues", ax=confusion
    )
    return figures


def draw_training(history: dict[str, list[float]]) -> Figure:
    """Accuracy over training."""
    figure = _figure(6.0, 3.6)
    axes = figure.subplots()
    for key, name in (("accuracy", "training"), ("val_accuracy", "validation")):
        epochs = range(1, len(history[key]) + 1)
        axes.plot(epochs, history[key], "o-", label=name)
    axes.set(xlabel="epoch", ylabel="accuracy")
    axes.legend()
    return figure


def draw_answers(read: reading.Reading) -> Figure:
    """Probability and logit after each token, one above the other."""
    figure = _figure(1.2 + 0.42 * len(read.tokens), 4.4)
    above, below = figure.subplots(2, sharex=True)
    above.plot(reading.probability(read.logits), "o-")
    below.plot(read.logits, "o-")
    above.set(ylabel=f"P({CLASSES[1]})", ylim=(-0.05, 1.05))
    below.set_ylabel("logit")
    for axes, middle in ((above, 0.5), (below, 0.0)):
        axes.axhline(middle, color="0.6", linewidth=1.0)
    _name_steps(below, read)
    return figure


def draw_units(trained: Trained, read: reading.Reading) -> Figure:
    """Units after each token: red raises the logit, blue lowers it."""
    values = reading.weighted_units(trained, read.title)
    # In the same order for all titles.
    weights, _ = trained.network.get_layer("logit").get_weights()
    largest = np.argsort(-np.abs(weights[: values.shape[1], 0]))[:UNITS]
    values = values[:, largest].T
    figure = _figure(2.0 + 0.42 * len(read.tokens), 1.8 + 0.08 * len(values))
    axes = figure.subplots()
    most = np.abs(values).max()
    image = axes.imshow(
        values, cmap="RdBu_r", vmin=-most, vmax=most, aspect="auto"
    )
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.set_ylabel("unit")
    _name_steps(axes, read)
    figure.colorbar(image, ax=axes, label="share in the logit")
    return figure


def _name_steps(axes, read):
    texts, style = plots.drawable(reading.shown(read.tokens))
    axes.set_xticks(range(len(texts)), texts, rotation=60, ha="right", **style)


def _figure(width, height):
    size = (max(4.6, min(width, 20.0)), height)
    return Figure(figsize=size, layout="constrained")
