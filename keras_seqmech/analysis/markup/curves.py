"""Numbers as curves: in HTML as SVG, in text as blocks."""

import html

import numpy as np

# Height of a panel in the units of its SVG, whose width is one a step.
HEIGHT = 100
LEVELS = " ▁▂▃▄▅▆▇█"
COLUMNS = 50


def limits(numbers: np.ndarray) -> tuple[float, float]:
    """The least and the largest finite number; 0 if all are NaN or infinite."""
    finite = numbers[np.isfinite(numbers)]
    return (finite.min(), finite.max()) if finite.size else (0.0, 0.0)


def draw_panel(
    label: str,
    numbers: np.ndarray,
    low: float,
    high: float,
    marked: np.ndarray | None = None,
    dashed: float | None = None,
) -> str:
    """HTML of a curve with a labeled y axis.

    Args:
        label: Label of the axis.
        numbers: Array `(time,)`; the curve is broken at those not finite.
        low: Number at the bottom.
        high: Number at the top.
        marked: Boolean array `(time,)`, the steps with a dot.
        dashed: Number at which a dashed line is drawn, or None.
    """
    scale = HEIGHT / ((high - low) or 1)
    depths = scale * (high - numbers)
    line, dots, is_drawn = "", "", False
    for t, depth in enumerate(depths):
        was_drawn, is_drawn = is_drawn, bool(np.isfinite(depth))
        if is_drawn:
            # A line without length is a dot.
            start = f"M{t} {depth:.1f}h0"
            line += f"L{t} {depth:.1f}" if was_drawn else start
            if marked is not None and marked[t]:
                dots += start
    width = max(1, len(numbers) - 1)
    paths = [("line", line), ("dots", dots)]
    if dashed is not None:
        paths.append(("dashed", f"M0 {scale * (high - dashed):.1f}H{width}"))
    drawn = "".join(f'<path class="sq-{name}" d="{d}"/>' for name, d in paths)
    return (
        f'<div class="sq-panel" dir="ltr"><span class="sq-axis">'
        f'{html.escape(label)}</span><span class="sq-ticks">'
        f"<span>{high:.4g}</span><span>{low:.4g}</span></span>"
        f'<svg viewBox="0 0 {width} {HEIGHT}" preserveAspectRatio="none" '
        f'aria-hidden="true">{drawn}</svg></div>'
    )


def write_panel(
    label: str,
    numbers: np.ndarray,
    low: float,
    high: float,
    peaks: bool = False,
) -> str:
    """A line of text with a block for each step, or for several.

    Args:
        label: Label of the line.
        numbers: Array `(time,)`.
        low: Number of the lowest block.
        high: Number of the highest block.
        peaks: Whether a block shows the largest of its numbers, blank at
            `low`, so that single steps are seen; their mean if False.
    """
    parts = np.array_split(numbers, min(COLUMNS, len(numbers)))
    blocks = ""
    for part in parts:
        finite = part[np.isfinite(part)]
        level = 0
        if finite.size:
            number = finite.max() if peaks else finite.mean()
            share = (number - low) / ((high - low) or 1)
            level = round(share * 8) if peaks else 1 + round(share * 7)
        blocks += LEVELS[level]
    return f"  {label:<15}  {blocks}  {low:.4g} to {high:.4g}"
