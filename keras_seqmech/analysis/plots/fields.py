"""Figure: which tokens a model looked ahead at."""

from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

from keras_seqmech.analysis.plots import drawing
from keras_seqmech.analysis.plots.fonts import drawable
from keras_seqmech.analysis.plots.fonts import load
from keras_seqmech.core import checks

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    machine, are boxes; see `drawable`.

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
    texts, style = drawable(tokens)
    longest = max(len(text) for text in texts)
    per_line = min(32 if longest <= 2 else 20, len(texts))
    lines = -(-len(texts) // per_line)
    line_height = 0.45 + 0.17 * max_size + 0.09 * longest
    figure = drawing.new_figure(
        max(4.0, 1.4 + 0.36 * per_line), 0.8 + lines * line_height, title
    )
    scale = load("cm").ScalarMappable(cmap="viridis_r")
    scale.set_clim(1, max(max_size, 2))
    all_axes = figure.subplots(lines, 1, squeeze=False)[:, 0]
    for line, axes in enumerate(all_axes):
        steps = range(line * per_line, (line + 1) * per_line)
        _draw_fields(axes, sizes, max_size, steps, scale)
        shown = steps[: len(texts) - steps.start]
        axes.set_xticks(
            shown,
            texts[shown.start : shown.stop],
            rotation=0 if longest <= 2 else 90,
            **style,
        )
    bar = figure.colorbar(scale, ax=all_axes, label="tokens read", shrink=0.9)
    bar.set_ticks(range(1, max(max_size, 2) + 1))
    return figure


def _check_fields(
    tokens: Sequence[str], sizes: Sequence[float], max_size: int
) -> None:
    checks.check_positive_int("max_size", max_size)
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


def _draw_fields(
    axes: Any, sizes: Sequence[float], max_size: int, steps: range, scale: Any
) -> None:
    """Draws the fields of one line of steps; they may run past its end."""
    stop = min(steps.stop, len(sizes))
    for t in range(max(0, steps.start - max_size + 1), stop):
        size, row = float(sizes[t]), t % max_size
        if size <= 0:
            continue
        color = scale.to_rgba(size)
        left = max(t, steps.start - 0.5)
        right = min(t + size - 1, steps.stop - 0.5)
        if right > left:
            axes.plot(
                [left, right],
                [row, row],
                color=color,
                linewidth=4,
                solid_capstyle="butt",
            )
        if t >= steps.start:
            axes.plot(t, row, "o", color=color, markersize=7)
    axes.set_xlim(steps.start - 0.6, steps.stop - 0.4)
    axes.set_ylim(max_size - 0.4, -0.6)
    axes.set_yticks([])
    axes.tick_params(axis="x", length=0, top=False)
    axes.xaxis.tick_top()
    axes.grid(axis="x", color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[:].set_visible(False)
