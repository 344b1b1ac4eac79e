"""Figures: what reaches which position of a text.

Source: "Analyzing the Learnability and Representability of Recurrent
Architectures", chapter 1.
"""

from collections.abc import Mapping
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

import numpy as np

from keras_seqmech.analysis.plots import drawing
from keras_seqmech.analysis.positions import PLACES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ACCURACIES = {"accuracy": "solid", "val_accuracy": "dashed"}


def plot_gradient_profiles(
    profiles: Mapping[str, Any], title: str | None = None
) -> "Figure":
    r"""Norm of the gradient $\lVert dL/dh_t \rVert$ by position, of models.

    The norms are on a log scale, where those that are exactly 0 leave a gap.

    Args:
        profiles: For each model its `gradient_profile`, of any length.
        title: Title of the figure.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: If there is no profile, or one is no list of norms.
        ImportError: If matplotlib is missing.

    Example:

    >>> profiles = {"bilstm": [1e-1, 1e-6, 1e-1], "maxpool": [0.1, 0.1, 0.1]}
    >>> figure = plot_gradient_profiles(profiles)

    Source: figure 1.2a.
    """
    curves = _check_curves("profiles", profiles)
    curves = {name: _positive(curve) for name, curve in curves.items()}
    figure, axes = _figure_by_position(curves, title)
    _set_log_scale(axes, curves.values())
    axes.set_ylabel(r"$\|\partial L/\partial h_t\|$")
    return figure


def plot_word_importance(
    importances: Mapping[str, Any],
    separators: Sequence[float] = (),
    title: str | None = None,
) -> "Figure":
    """Normalized word importance by position, of models.

    Args:
        importances: For each model its `normalized_word_importance`.
        separators: Where to draw a red vertical line, as a fraction of the
            text between 0 and 1: where noise begins or ends, as
            `original_span` tells.
        title: Title of the figure.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: If there is no curve, one is no list of numbers of at
            least 0, or a separator is not between 0 and 1.
        ImportError: If matplotlib is missing.

    Example:

    >>> importances = {"bilstm": [0.6, 0.1, 0.5], "maxatt": [0.1, 0.7, 0.1]}
    >>> figure = plot_word_importance(importances, separators=(0.33, 0.67))

    Source: figure 1.9.
    """
    curves = _check_curves("importances", importances)
    for place in separators:
        if not 0 <= place <= 1:
            raise ValueError(
                "Argument `separators` must hold fractions between 0 and 1. "
                f"Received: separators={separators!r}"
            )
    figure, axes = _figure_by_position(curves, title)
    for place in separators:
        axes.axvline(100 * place, color="red", linewidth=1.2)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("normalized word importance")
    return figure


def plot_vanishing_ratio(
    histories: Mapping[str, Mapping[str, Sequence[float]]],
    title: str | None = None,
) -> "Figure":
    """Vanishing ratio over training steps, accuracies below it, of models.

    The ratios are on a log scale, where those that are 0 or infinite leave a
    gap. Accuracy on training texts is drawn solid, on validation texts dashed.

    Args:
        histories: For each model the equally long sequences `"step"` and
            `"vanishing_ratio"`, as in `VanishingRatio.history`, and, for the
            lower panel, `"accuracy"` or `"val_accuracy"` or both: as long as
            `"step"`, or as `"accuracy_step"` where that is given.
        title: Title of the figure.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: If there is no history, or one lacks a sequence, or its
            sequences differ in length.
        ImportError: If matplotlib is missing.

    Example:

    >>> history = {"step": [0, 50, 100], "vanishing_ratio": [1e-6, 1e-4, 1e-3]}
    >>> accuracies = {"accuracy_step": [50, 100], "accuracy": [0.6, 0.9]}
    >>> figure = plot_vanishing_ratio({"bilstm": {**history, **accuracies}})

    Source: figures 1.2b and 1.2c.
    """
    _check_histories(histories)
    with_accuracy = any(
        key in h for h in histories.values() for key in ACCURACIES
    )
    figure, panels = drawing.panels_with_accuracy(7.4, with_accuracy)
    curves = []
    for i, history in enumerate(histories.values()):
        style = drawing.line_style(i)
        curves.append(_positive(history["vanishing_ratio"]))
        panels[0].plot(history["step"], curves[-1], **style)
        steps = history.get("accuracy_step", history["step"])
        for key, dashes in ACCURACIES.items():
            if key in history:
                style["linestyle"] = dashes
                panels[1].plot(steps, history[key], **style)
    _set_log_scale(panels[0], curves)
    panels[0].set_ylabel("vanishing ratio")
    if with_accuracy:
        panels[1].set_ylabel("accuracy\n(dashed: validation)")
    panels[-1].set_xlabel("training step")
    for axes in panels:
        drawing.clear_frame(axes, grid=True)
    drawing.draw_legend(panels[0], histories, **drawing.BESIDE)
    drawing.set_title(figure, title)
    return figure


def plot_accuracy_by_noise(
    shares: Sequence[float],
    accuracies: Mapping[str, Mapping[str, Sequence[float]]],
    title: str | None = None,
) -> "Figure":
    """Accuracy against the share of noise, a panel for each place of the text.

    Args:
        shares: Shares of noise, each in [0, 1).
        accuracies: For each place of the text, `"left"`, `"mid"` and
            `"right"` or some of them, and for each model: an accuracy at each
            share. NaN leaves a gap.
        title: Title of the figure.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: If there is no share, place or model, a share or place is
            not allowed, or a model has not one accuracy for each share.
        ImportError: If matplotlib is missing.

    Example:

    >>> accuracies = {"bilstm": [0.84, 0.71], "maxatt": [0.86, 0.83]}
    >>> figure = plot_accuracy_by_noise([0, 0.66], {"mid": accuracies})

    Source: figure 1.4.
    """
    _check_accuracies(shares, accuracies)
    places = [place for place in PLACES if place in accuracies]
    names = list(dict.fromkeys(n for p in places for n in accuracies[p]))
    figure = drawing.new_figure(2.2 + 3.0 * len(places), 3.4)
    panels = figure.subplots(1, len(places), squeeze=False, sharey=True)[0]
    lines = {}
    for axes, place in zip(panels, places):
        for name, row in accuracies[place].items():
            (lines[name],) = axes.plot(
                [100 * share for share in shares],
                row,
                marker="o",
                markersize=4,
                **drawing.line_style(names.index(name)),
            )
        axes.set_title(f"text kept {place}", fontsize="medium")
        axes.set_xlabel("noise (%)")
        drawing.clear_frame(axes, grid=True)
    panels[0].set_ylabel("accuracy")
    drawing.draw_legend(
        panels[-1], names, [lines[name] for name in names], **drawing.BESIDE
    )
    drawing.set_title(figure, title)
    return figure


def _figure_by_position(curves: Any, title: str | None) -> tuple[Any, Any]:
    """One panel, a line for each curve over the positions in percent."""
    figure = drawing.new_figure(7.4, 3.8)
    axes = figure.subplots()
    for i, curve in enumerate(curves.values()):
        place = np.linspace(0, 100, len(curve))
        axes.plot(place, curve, **drawing.line_style(i))
    axes.set_xlim(0, 100)
    axes.set_xlabel("position in the text (%)")
    drawing.clear_frame(axes, grid=True)
    drawing.draw_legend(axes, curves, **drawing.BESIDE)
    drawing.set_title(figure, title)
    return figure, axes


def _positive(values: Any) -> np.ndarray:
    """Values with gaps where a log scale cannot show them."""
    values = np.array(values, dtype="float64")
    values[~((values > 0) & (values < np.inf))] = np.nan
    return values


def _set_log_scale(axes: Any, curves: Any) -> None:
    """A log scale, if there is anything to see on it."""
    if any((np.asarray(curve) > 0).any() for curve in curves):
        axes.set_yscale("log")


def _check_curves(name: str, curves: Any) -> dict[str, np.ndarray]:
    if not isinstance(curves, Mapping) or not curves:
        raise ValueError(
            f"Argument `{name}` must be a mapping from names to curves, of at "
            f"least one. Received: {name}={curves!r}"
        )
    arrays = {}
    for key, curve in curves.items():
        arrays[key] = np.asarray(curve, dtype="float64")
        fits = arrays[key].ndim == 1 and arrays[key].size
        if not fits or not ((arrays[key] >= 0) & (arrays[key] < np.inf)).all():
            raise ValueError(
                f"Argument `{name}` must hold sequences of finite numbers of "
                f"at least 0. Received: {name}[{key!r}]={curve!r}"
            )
    return arrays


def _check_histories(histories: Mapping) -> None:
    if not histories:
        raise ValueError(
            "Argument `histories` must hold at least one history. "
            f"Received: histories={histories!r}"
        )
    for name, history in histories.items():
        missing = {"step", "vanishing_ratio"} - set(history)
        if missing:
            raise ValueError(
                f"Each history must hold {sorted(missing)}. "
                f"Received: histories[{name!r}] with {sorted(history)}"
            )
        steps = "accuracy_step" if "accuracy_step" in history else "step"
        pairs = [("vanishing_ratio", "step")]
        pairs += [(key, steps) for key in ACCURACIES if key in history]
        for key, other in pairs:
            if len(history[key]) != len(history[other]):
                raise ValueError(
                    f"Sequences {key!r} and {other!r} must be of the same "
                    f"length. Received: histories[{name!r}] with "
                    f"{len(history[key])} and {len(history[other])}"
                )


def _check_accuracies(shares: Sequence[float], accuracies: Mapping) -> None:
    if not len(shares) or not all(0 <= share < 1 for share in shares):
        raise ValueError(
            "Argument `shares` must hold at least one share, each of at least "
            f"0 and below 1. Received: shares={shares!r}"
        )
    if not accuracies or not set(accuracies) <= set(PLACES):
        raise ValueError(
            "Argument `accuracies` must be a mapping from one or more of "
            f"{PLACES}. Received: accuracies of {list(accuracies)}"
        )
    for place, models in accuracies.items():
        lengths = {name: len(row) for name, row in models.items()}
        if set(lengths.values()) != {len(shares)}:
            raise ValueError(
                "Argument `accuracies` must hold, for one model or more, an "
                f"accuracy at each of {len(shares)} shares. "
                f"Received: accuracies[{place!r}] with {lengths}"
            )
