"""Figures: curves over positions of a text and over training steps."""

from collections.abc import Mapping
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

import numpy as np

from keras_seqmech.analysis.plots import drawing

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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

    Source: "Analyzing the Learnability and Representability of Recurrent
    Architectures", figure 1.2a.
    """
    figure, axes = _figure_by_position("profiles", profiles, title)
    _set_log_scale(axes)
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
        ValueError: If there is no curve, or one is no list of numbers of at
            least 0.
        ImportError: If matplotlib is missing.

    Example:

    >>> importances = {"bilstm": [0.6, 0.1, 0.5], "maxatt": [0.1, 0.7, 0.1]}
    >>> figure = plot_word_importance(importances, separators=(0.33, 0.67))

    Source: "Analyzing the Learnability and Representability of Recurrent
    Architectures", figure 1.9.
    """
    figure, axes = _figure_by_position("importances", importances, title)
    for place in separators:
        axes.axvline(100 * place, color="red", linewidth=1.2)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("normalized word importance")
    return figure


def plot_history(
    histories: Mapping[str, Mapping[str, Sequence[float]]],
    *quantities: str,
    log_scale: bool = False,
    title: str | None = None,
) -> "Figure":
    """Quantities over training steps, a panel each.

    Args:
        histories: For each model the equally long sequences `"step"` and the
            quantities, as in `VanishingRatio.history`. Numbers that are NaN
            were not measured: lines run past them.
        *quantities: Keys of the histories, such as `"vanishing_ratio"`.
        log_scale: Whether the first is on a log scale, where numbers that are
            0 leave a gap.
        title: Title of the figure.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: If there is no history or no quantity, or a history lacks
            a sequence, or its sequences differ in length.
        ImportError: If matplotlib is missing.

    Example:

    >>> history = {"step": [0, 50, 100], "vanishing_ratio": [1e-6, 1e-4, 1e-3]}
    >>> accuracies = {"accuracy": [float("nan"), 0.6, 0.9]}
    >>> figure = plot_history(
    ...     {"bilstm": {**history, **accuracies}}, "vanishing_ratio", "accuracy"
    ... )

    Source: figure 2 of "An Informative Adaptive Receptive Field Model for
    Recurrent Neural Networks"; figures 1.2b and 1.2c of "Analyzing the
    Learnability and Representability of Recurrent Architectures".
    """
    _check_histories(histories, quantities)
    count = len(quantities)
    figure = drawing.new_figure(7.4, 1.8 + 1.6 * count, title)
    panels = figure.subplots(count, squeeze=False, sharex=True)[:, 0]
    for axes, quantity in zip(panels, quantities):
        for i, history in enumerate(histories.values()):
            step, values = (
                np.asarray(history[key], dtype="float64")
                for key in ("step", quantity)
            )
            known = ~np.isnan(values)
            axes.plot(step[known], values[known], **drawing.line_style(i))
        axes.set_ylabel(quantity.replace("_", " "))
        drawing.clear_frame(axes)
    if log_scale:
        _set_log_scale(panels[0])
    panels[-1].set_xlabel("training step")
    drawing.draw_legend(panels[0], histories)
    return figure


def _figure_by_position(
    name: str, curves: Any, title: str | None
) -> tuple["Figure", Any]:
    """One panel, a line for each curve over the positions in percent."""
    if not isinstance(curves, Mapping) or not curves:
        raise ValueError(
            f"Argument `{name}` must be a mapping from names to curves, of at "
            f"least one. Received: {name}={curves!r}"
        )
    figure = drawing.new_figure(7.4, 3.8, title)
    axes = figure.subplots()
    for i, (key, curve) in enumerate(curves.items()):
        array = np.asarray(curve, dtype="float64")
        fits = array.ndim == 1 and array.size
        if not fits or not ((array >= 0) & (array < np.inf)).all():
            raise ValueError(
                f"Argument `{name}` must hold sequences of finite numbers of "
                f"at least 0. Received: {name}[{key!r}]={curve!r}"
            )
        place = np.linspace(0, 100, len(array))
        axes.plot(place, array, **drawing.line_style(i))
    axes.set_xlim(0, 100)
    axes.set_xlabel("position in the text (%)")
    drawing.clear_frame(axes)
    drawing.draw_legend(axes, curves)
    return figure, axes


def _set_log_scale(axes: Any) -> None:
    """A log scale with gaps for zeros, if there is anything else."""
    if any(np.any(np.asarray(line.get_ydata()) > 0) for line in axes.lines):
        axes.set_yscale("log", nonpositive="mask")


def _check_histories(histories: Mapping, quantities: Sequence[str]) -> None:
    if not histories or not quantities:
        raise ValueError(
            "Arguments `histories` and `quantities` must hold at least one "
            f"each. Received: histories={histories!r}, quantities={quantities}"
        )
    for name, history in histories.items():
        keys = ("step", *quantities)
        missing = set(keys) - set(history)
        lengths = {len(history[key]) for key in keys if key in history}
        if missing or len(lengths) > 1:
            raise ValueError(
                f"Each of `histories` must hold {list(keys)}, equally long. "
                f"Received: histories[{name!r}] with "
                f"{ {key: len(history[key]) for key in history} }"
            )
