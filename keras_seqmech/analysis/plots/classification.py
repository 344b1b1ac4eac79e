"""Figures: how good a classifier of two classes is.

Source: "RNNs for arXiv/viXra title classification", on performance.
"""

from collections.abc import Mapping
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

import numpy as np

from keras_seqmech.analysis.plots import drawing
from keras_seqmech.analysis.plots import text as figure_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_roc_curves(
    curves: Mapping[str, tuple[Any, Any]], title: str | None = None
) -> "Figure":
    """ROC curves, one for each model.

    Args:
        curves: For each model the rates of false and of true positives, shares
            from 0 to 1, from the highest threshold to the lowest.
        title: Title of the figure.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: If there is no curve, or one is not two lists of shares of
            the same length.
        ImportError: If matplotlib is missing.

    Example:

    >>> figure = plot_roc_curves({"GRU": ([0.0, 0.1, 1.0], [0.0, 0.8, 1.0])})
    """
    _check_some("curves", curves)
    lines = {
        name: _check_pair(f"curves[{name!r}]", pair)
        for name, pair in curves.items()
    }
    figure, axes = _square()
    axes.plot([0, 1], [0, 1], color="0.8", linewidth=1.0)
    drawn = [
        axes.plot(*pair, **drawing.line_style(i))[0]
        for i, pair in enumerate(lines.values())
    ]
    axes.set_xlabel("false positives, share")
    axes.set_ylabel("true positives, share")
    drawing.draw_legend(axes, lines, drawn, loc="lower right")
    drawing.set_title(figure, title)
    return figure


def plot_reliability(
    bins: Mapping[str, tuple[Any, Any]], title: str | None = None
) -> "Figure":
    """Calibration: how often a class is right, by its probability.

    Args:
        bins: For each model the mean probability of each bin, and the share of
            examples in it that are of the class, both from 0 to 1.
        title: Title of the figure.

    Returns:
        A matplotlib `Figure`; a calibrated model's points are on the diagonal.

    Raises:
        ValueError: If there is no model, or one has not two lists of shares of
            the same length.
        ImportError: If matplotlib is missing.

    Example:

    >>> figure = plot_reliability({"GRU": ([0.1, 0.9], [0.2, 0.8])})
    """
    _check_some("bins", bins)
    lines = {
        name: _check_pair(f"bins[{name!r}]", pair)
        for name, pair in bins.items()
    }
    figure, axes = _square()
    axes.plot([0, 1], [0, 1], color="0.8", linewidth=1.0)
    drawn = [
        axes.plot(*pair, marker="o", markersize=4, **drawing.line_style(i))[0]
        for i, pair in enumerate(lines.values())
    ]
    axes.set_xlabel("probability")
    axes.set_ylabel("share of the class")
    drawing.draw_legend(axes, lines, drawn, loc="upper left")
    drawing.set_title(figure, title)
    return figure


def plot_confusion(
    counts: Any, classes: Sequence[str], title: str | None = None
) -> "Figure":
    """Confusion matrix: how many of each class are called which.

    Args:
        counts: `(classes, classes)`; row i counts examples of class i, column j
            those called j.
        classes: Their names.
        title: Title of the figure.

    Returns:
        A matplotlib `Figure`, shaded by share of each row.

    Raises:
        ValueError: If `counts` is no such matrix of counts.
        ImportError: If matplotlib is missing.

    Example:

    >>> figure = plot_confusion([[90, 10], [20, 80]], ["real", "made"])
    """
    matrix = np.asarray(counts)
    size = len(classes)
    if not size or matrix.shape != (size, size) or not (matrix >= 0).all():
        raise ValueError(
            "Argument `counts` must hold a count for each pair of "
            f"{size} classes. Received: counts={counts!r}"
        )
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    figure = drawing.new_figure(1.8 + 0.9 * size, 1.4 + 0.9 * size)
    axes = figure.subplots()
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    for (i, j), count in np.ndenumerate(matrix):
        axes.text(
            j,
            i,
            f"{count:,}\n{100 * shares[i, j]:.1f} %",
            ha="center",
            va="center",
            color="white" if shares[i, j] > 0.6 else "black",
        )
    names, family = figure_text.drawable([str(name) for name in classes])
    keywords: dict[str, Any] = {"fontfamily": family, "parse_math": False}
    axes.set_xticks(range(size), names, **keywords)
    axes.set_yticks(range(size), names, **keywords)
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")
    drawing.set_title(figure, title)
    return figure


def plot_learning_curves(
    curves: Mapping[str, Any],
    ylabel: str = "accuracy",
    title: str | None = None,
) -> "Figure":
    """A score after each epoch of training, a line for each set.

    Args:
        curves: For each set the score after each epoch.
        ylabel: Name of the score.
        title: Title of the figure.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: If there is no curve, or one is no list of finite numbers.
        ImportError: If matplotlib is missing.

    Example:

    >>> figure = plot_learning_curves({"training": [0.7, 0.9]})
    """
    _check_some("curves", curves)
    lines = {name: np.asarray(y, "float64") for name, y in curves.items()}
    for name, line in lines.items():
        if line.ndim != 1 or not line.size or not np.isfinite(line).all():
            raise ValueError(
                "Argument `curves` must hold lists of finite numbers. "
                f"Received: curves[{name!r}]={curves[name]!r}"
            )
    figure = drawing.new_figure(6.0, 3.6)
    axes = figure.subplots()
    for i, line in enumerate(lines.values()):
        epochs = range(1, len(line) + 1)
        axes.plot(
            epochs, line, marker="o", markersize=4, **drawing.line_style(i)
        )
    axes.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    axes.set_xlabel("epoch")
    axes.set_ylabel(ylabel)
    drawing.clear_frame(axes, grid=True)
    drawing.draw_legend(axes, lines, **drawing.BESIDE)
    drawing.set_title(figure, title)
    return figure


def _square() -> tuple["Figure", Any]:
    """A figure with axes from 0 to 1 in both directions."""
    figure = drawing.new_figure(4.6, 4.4)
    axes = figure.subplots()
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-0.02, 1.02)
    axes.set_aspect("equal")
    drawing.clear_frame(axes, grid=True)
    return figure, axes


def _check_some(name: str, value: Any) -> None:
    if not value:
        raise ValueError(
            f"Argument `{name}` must hold at least one model or set. "
            f"Received: {name}={value!r}"
        )


def _check_pair(name: str, pair: Any) -> tuple[np.ndarray, np.ndarray]:
    try:
        x, y = (np.asarray(part, "float64") for part in pair)
        fits = x.ndim == 1 and x.shape == y.shape and x.size > 0
        fits = fits and all(bool(((0 <= p) & (p <= 1)).all()) for p in (x, y))
    except (TypeError, ValueError):
        fits = False
    if not fits:
        raise ValueError(
            f"Argument `{name.partition('[')[0]}` must hold pairs of lists of "
            f"shares from 0 to 1, equally long. Received: {name}={pair!r}"
        )
    return x, y
