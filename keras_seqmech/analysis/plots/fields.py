"""Figures: what a model looked ahead at, and how field sizes come about."""

from collections.abc import Hashable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

import numpy as np

from keras_seqmech.analysis.plots import drawing
from keras_seqmech.analysis.plots import text as figure_text
from keras_seqmech.layers import validation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE_COLORS = "viridis_r"


def plot_receptive_fields(
    tokens: Sequence[str],
    sizes: Sequence[float],
    max_size: int,
    title: str | None = None,
) -> "Figure":
    """Shows which tokens a model looked ahead at, and how far.

    Under each token a dot marks the step, and a bar runs from it over the
    tokens that were read there, `sizes[t]` in all. Bars take turns on
    `max_size` rows, so that none covers another. Long texts wrap.

    Characters that no installed font holds, such as Chinese ones on a bare
    machine, are boxes, and a warning says so once; see
    `keras_seqmech.analysis.show`. Fonts that are not installed are made known
    with `matplotlib.font_manager.fontManager.addfont(path)`.

    Args:
        tokens: The token of each step.
        sizes: Size of the field of each step, fractions allowed.
        max_size: The largest size, S.
        title: Title of the figure.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: If there are no tokens, or not one size for each, or a
            size is not between 0 and `max_size`.
        ImportError: If matplotlib is missing.

    Example:

    >>> tokens = ["not", "a", "good", "film"]
    >>> figure = plot_receptive_fields(tokens, [3, 1, 2, 1], max_size=4)
    >>> figure.savefig("fields.png")  # doctest: +SKIP
    """
    _check_fields(tokens, sizes, max_size)
    cm = drawing.load("cm")
    texts, family = figure_text.drawable(tokens)
    longest = max(len(text) for text in texts)
    per_line = 32 if longest <= 2 else 20
    per_line = min(per_line, len(texts))
    lines = -(-len(texts) // per_line)
    line_height = 0.35 + 0.17 * max_size + (0.09 * longest + 0.1)
    figure = drawing.new_figure(
        max(4.0, 1.4 + 0.36 * per_line), 0.8 + lines * line_height
    )
    scale = cm.ScalarMappable(cmap=SIZE_COLORS)
    scale.set_clim(1, max(max_size, 2))
    all_axes = figure.subplots(lines, 1, squeeze=False)[:, 0]
    for line, axes in enumerate(all_axes):
        start = line * per_line
        _draw_line(axes, texts, sizes, max_size, start, per_line, scale)
        axes.set_xticks(
            range(start, min(start + per_line, len(texts))),
            texts[start : start + per_line],
            rotation=0 if longest <= 2 else 90,
            fontfamily=family,
            parse_math=False,
        )
    bar = figure.colorbar(scale, ax=all_axes, label="tokens read", shrink=0.9)
    bar.set_ticks(range(1, max(max_size, 2) + 1))
    drawing.set_title(figure, title)
    return figure


def plot_field_size_by_step(
    histories: Mapping[str, Mapping[str, Sequence[float]]],
    max_size: int | None = None,
    title: str | None = None,
) -> "Figure":
    r"""Mean field size $E(s_t)$ over training steps, accuracy below it.

    Figure 2 of the paper: one line for each training condition, such as with
    and without dropout.

    Args:
        histories: For each condition its `FieldSizeHistory.history`: equally
            long sequences `"step"`, `"mean_size"` and, for the lower panel,
            `"accuracy"`.
        max_size: The largest size S; if given, the axis runs from 1 to it.
        title: Title of the figure.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: If there is no history, or one lacks a sequence, or its
            sequences differ in length.
        ImportError: If matplotlib is missing.

    Example:

    >>> history = {"step": [0, 10, 20], "mean_size": [2.5, 2.1, 1.6]}
    >>> figure = plot_field_size_by_step({"dropout": history}, max_size=4)

    Source: "An Informative Adaptive Receptive Field Model for Recurrent
    Neural Networks", figure 2.
    """
    _check_histories(histories)
    if max_size is not None:
        max_size = validation.check_positive_int("max_size", max_size)
    with_accuracy = any("accuracy" in h for h in histories.values())
    figure, panels = drawing.panels_with_accuracy(6.4, with_accuracy)
    for i, (name, history) in enumerate(histories.items()):
        color = drawing.line_color(i)
        style = {"color": color, "linewidth": 1.8, "label": name}
        panels[0].plot(history["step"], history["mean_size"], **style)
        if "accuracy" in history:
            panels[1].plot(history["step"], history["accuracy"], **style)
    panels[0].set_ylabel("mean field size")
    if max_size is not None:
        panels[0].set_ylim(1 - 0.03 * max_size, max_size * 1.03)
    if with_accuracy:
        panels[1].set_ylabel("accuracy")
    panels[-1].set_xlabel("training step")
    for axes in panels:
        drawing.clear_frame(axes, grid=True)
    drawing.draw_legend(panels[0], histories)
    drawing.set_title(figure, title)
    return figure


def plot_field_size_by_entropy(
    field_sizes: Mapping[Hashable, Any],
    entropies: Mapping[Hashable, float],
    annotate: int = 6,
    title: str | None = None,
) -> "Figure":
    r"""Mean field size of words against the label entropy of their texts.

    Figure 3 of the paper: each point is a word w, at
    $(H(Y \mid w \in x),\; E(s_t \mid x_t = w))$; larger points are more
    frequent words. The words of lowest entropy, of smallest and of largest
    fields are named, as far as there is room.

    Args:
        field_sizes: For each word `(mean size, count)`, from
            `field_size_by_token`.
        entropies: For each word an entropy, from `label_entropy_by_token`.
            Words found in only one mapping are left out.
        annotate: How many words of each kind to name, at least 0.
        title: Title of the figure.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: If the mappings have no word in common.
        ImportError: If matplotlib is missing.

    Example:

    >>> sizes = {"awful": (1.2, 40), "the": (2.9, 900)}
    >>> entropies = {"awful": 0.31, "the": 0.69}
    >>> figure = plot_field_size_by_entropy(sizes, entropies)

    Source: "An Informative Adaptive Receptive Field Model for Recurrent
    Neural Networks", figure 3.
    """
    words = [word for word in field_sizes if word in entropies]
    if not words:
        raise ValueError(
            "Arguments `field_sizes` and `entropies` must have words in "
            f"common. Received: {len(field_sizes)} and {len(entropies)} words"
        )
    if annotate != 0:
        annotate = validation.check_positive_int("annotate", annotate)
    x = [float(entropies[word]) for word in words]
    y = [float(field_sizes[word][0]) for word in words]
    counts = [field_sizes[word][1] for word in words]
    figure = drawing.new_figure(7.2, 5.4)
    axes = figure.subplots()
    largest = max(*counts, 1)
    areas = [8 + 60 * (count / largest) ** 0.5 for count in counts]
    axes.scatter(
        x, y, s=areas, color=drawing.line_color(0), alpha=0.35, linewidths=0
    )
    axes.margins(0.08)
    axes.set_xlabel(r"label entropy $H(Y\,|\,w\in x)$, nats")
    axes.set_ylabel(r"mean field size $E(s_t\,|\,x_t=w)$")
    drawing.clear_frame(axes, grid=True)
    figure_text.annotate_points(axes, words, x, y, annotate)
    drawing.set_title(figure, title)
    return figure


def plot_score_by_look_ahead(
    fixed: Sequence[tuple[float, float]],
    adaptive: Mapping[str, Sequence[tuple[float, float]]],
    score: str,
    title: str | None = None,
) -> "Figure":
    """What reading ahead is worth: a score over the mean look-ahead.

    Models with a fixed look-ahead are joined by a line, adaptive ones are
    points: those above the line score higher at the same look-ahead. Where a
    model answers while its input arrives, the look-ahead is its delay.

    Args:
        fixed: Mean look-ahead and score of models with one size; drawn in the
            order of look-ahead.
        adaptive: For each kind of adaptive model, the same pairs.
        score: Name of the score.
        title: Title of the figure.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: If there is no point of a kind, or one is not finite.
        ImportError: If matplotlib is missing.

    Example:

    >>> figure = plot_score_by_look_ahead(
    ...     [(0, 76.3), (1, 84.5), (2, 86.6)], {"S = 4": [(1.7, 86.6)]}, "F1")
    """
    _check_points("fixed", fixed)
    for name, points in adaptive.items():
        _check_points(f"adaptive[{name!r}]", points)
    figure = drawing.new_figure(6.4, 3.8)
    axes = figure.subplots()
    axes.plot(*zip(*sorted(fixed)), "o-", color="0.45", linewidth=1.5)
    for i, points in enumerate(adaptive.values()):
        color = drawing.line_color(i)
        axes.plot(*zip(*points), "D", color=color, markersize=6)
    axes.set_xlabel("mean look-ahead (steps)")
    axes.set_ylabel(score)
    drawing.clear_frame(axes, grid=True)
    drawing.draw_legend(axes, ["one size for all", *adaptive])
    drawing.set_title(figure, title)
    return figure


def _check_points(name: str, points: Sequence[tuple[float, float]]) -> None:
    array = np.asarray(points, "float64")
    if array.ndim != 2 or array.shape[1] != 2 or not np.isfinite(array).all():
        raise ValueError(
            f"Argument `{name}` must hold pairs of finite numbers, at least "
            f"one. Received: {name}={points!r}"
        )


def _check_fields(
    tokens: Sequence[str], sizes: Sequence[float], max_size: int
) -> None:
    validation.check_positive_int("max_size", max_size)
    if len(tokens) == 0 or len(tokens) != len(sizes):
        raise ValueError(
            "Arguments `tokens` and `sizes` must be of the same length, at "
            f"least 1. Received: {len(tokens)} tokens, {len(sizes)} sizes"
        )
    for t, size in enumerate(sizes):
        if not 0 <= size <= max_size:
            raise ValueError(
                f"Argument `sizes` must lie between 0 and max_size={max_size}."
                f" Received: sizes[{t}]={size!r}"
            )


def _check_histories(histories: Mapping) -> None:
    if not histories:
        raise ValueError(
            "Argument `histories` must hold at least one history. "
            f"Received: histories={histories!r}"
        )
    for name, history in histories.items():
        for key in ("step", "mean_size"):
            if key not in history:
                raise ValueError(
                    f"Each history must hold {key!r}. "
                    f"Received: histories[{name!r}] with {sorted(history)}"
                )
        lengths = {
            key: len(history[key])
            for key in ("step", "mean_size", "accuracy")
            if key in history
        }
        if len(set(lengths.values())) > 1:
            raise ValueError(
                "The sequences of a history must be of the same length. "
                f"Received: histories[{name!r}] with {lengths}"
            )


def _draw_line(
    axes: Any,
    texts: Sequence[str],
    sizes: Sequence[float],
    max_size: int,
    start: int,
    per_line: int,
    scale: Any,
) -> None:
    """Draws the fields of one line of tokens; fields may run past its end."""
    end = min(start + per_line, len(texts))
    for t in range(max(0, start - max_size + 1), end):
        size, row = float(sizes[t]), t % max_size
        if size <= 0:
            continue
        color = scale.to_rgba(size)
        left = max(t, start - 0.5)
        right = min(t + size - 1, start + per_line - 0.5)
        if right > left:
            axes.plot(
                [left, right],
                [row, row],
                color=color,
                linewidth=4,
                solid_capstyle="butt",
            )
        if t >= start:
            axes.plot(t, row, "o", color=color, markersize=7)
    axes.set_xlim(start - 0.6, start + per_line - 0.4)
    axes.set_ylim(max_size - 0.4, -0.6)
    axes.set_yticks([])
    axes.tick_params(axis="x", length=0, top=False)
    axes.xaxis.tick_top()
    for t in range(start, end):
        axes.axvline(t, color="0.9", linewidth=0.8, zorder=0)
    for side in axes.spines.values():
        side.set_visible(False)
