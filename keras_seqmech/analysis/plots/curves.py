"""Figures: curves over positions of a text and over training steps."""

from collections.abc import Mapping
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

import numpy as np

from keras_seqmech.analysis.plots import drawing

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
    quantity: str,
    log_scale: bool = False,
    title: str | None = None,
) -> "Figure":
    """A quantity over training steps, accuracies below it if there are any.

    Accuracy on training texts is drawn solid, on validation texts dashed.

    Args:
        histories: For each model the equally long sequences `"step"` and the
            quantity, as in `FieldSizeHistory.history` and
            `VanishingRatio.history`; and, for the lower panel, `"accuracy"` or
            `"val_accuracy"` or both: as long as `"step"`, or as
            `"accuracy_step"` where that is given.
        quantity: `"mean_size"`, `"vanishing_ratio"` or another key.
        log_scale: Whether the quantity is on a log scale, where numbers that
            are 0 or infinite leave a gap.
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
    >>> figure = plot_history(
    ...     {"bilstm": {**history, **accuracies}}, "vanishing_ratio", True)

    Source: figure 2 of "An Informative Adaptive Receptive Field Model for
    Recurrent Neural Networks"; figures 1.2b and 1.2c of "Analyzing the
    Learnability and Representability of Recurrent Architectures".
    """
    _check_histories(histories, quantity)
    below = any(key in h for h in histories.values() for key in ACCURACIES)
    figure = drawing.new_figure(7.4, 5.0 if below else 3.4, title)
    panels = figure.subplots(
        1 + below,
        squeeze=False,
        sharex=True,
        height_ratios=(3, 2)[: 1 + below],
    )[:, 0]
    for i, history in enumerate(histories.values()):
        style = drawing.line_style(i)
        panels[0].plot(history["step"], history[quantity], **style)
        steps = history.get("accuracy_step", history["step"])
        for key, dashes in ACCURACIES.items():
            if key in history:
                style["linestyle"] = dashes
                panels[1].plot(steps, history[key], **style)
    if log_scale:
        _set_log_scale(panels[0])
    panels[0].set_ylabel(quantity.replace("_", " "))
    if below:
        panels[1].set_ylabel("accuracy\n(dashed: validation)")
    panels[-1].set_xlabel("training step")
    for axes in panels:
        drawing.clear_frame(axes)
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
    """A log scale with gaps for what it cannot show, if there is anything."""
    for line in axes.lines:
        values = np.array(line.get_ydata(), dtype="float64")
        values[~((values > 0) & (values < np.inf))] = np.nan
        line.set_ydata(values)
    if any(np.isfinite(line.get_ydata()).any() for line in axes.lines):
        axes.relim()
        axes.set_yscale("log")


def _check_histories(histories: Mapping, quantity: str) -> None:
    if not histories:
        raise ValueError(
            "Argument `histories` must hold at least one history. "
            f"Received: histories={histories!r}"
        )
    for name, history in histories.items():
        missing = {"step", quantity} - set(history)
        if missing:
            raise ValueError(
                f"Each of `histories` must hold {sorted(missing)}. "
                f"Received: histories[{name!r}] with {sorted(history)}"
            )
        steps = "accuracy_step" if "accuracy_step" in history else "step"
        pairs = [(quantity, "step")]
        pairs += [(key, steps) for key in ACCURACIES if key in history]
        for key, other in pairs:
            if len(history[key]) != len(history[other]):
                raise ValueError(
                    f"Sequences {key!r} and {other!r} must be of the same "
                    f"length. Received: histories[{name!r}] with "
                    f"{len(history[key])} and {len(history[other])}"
                )
