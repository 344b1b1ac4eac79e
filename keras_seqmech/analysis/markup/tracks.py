"""The tracks of a picture, one for each kind of decision."""

import html
import math
import unicodedata
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from keras_seqmech.analysis.markup import curves
from keras_seqmech.analysis.markup.characters import visible

# A smaller share of a token, such as a soft size of 2.0001 reads of the third,
# is not shown.
LEAST_SHARE = 1e-3


class Shown(NamedTuple):
    """A sequence to be shown.

    Attributes:
        tokens: Visible tokens; of a curve, names of its steps.
        one: Word for one of them.
        numbers: Array `(time,)` that is drawn as a curve, or None.
    """

    tokens: list[str]
    one: str
    numbers: np.ndarray | None = None


class Kind(NamedTuple):
    """A kind of decision.

    Attributes:
        heading: What it is, with `{one}` or `{Many}` for what is shown.
        axis: Label of the y axis.
        legend: How tokens are read, with `{one}` or `{many}`.
        curve_legend: How curves are read.
        passed: Word for a token with a number above one half; "" where
            nothing is decided.
        left_out: HTML element of a token that was decided against.
        relative: Whether columns are relative to the largest number.
        largest: Largest allowed number.
    """

    heading: str
    axis: str
    legend: str
    curve_legend: str
    passed: str = ""
    left_out: str = "span"
    relative: bool = False
    largest: float = 1.0


# Longest bar of a text, and how many steps it lists.
BAR = 20
LISTED = 20

# In the order in which they are shown.
KINDS = {
    "sizes": Kind(
        "{Many} read at each one",
        "Steps read",
        "A bar runs from each {one} over all that was read there; below it is "
        "how many, the {one} itself included.",
        "Dots are steps that read ahead; the lower curve counts what each step "
        "read, itself included.",
        relative=True,
        largest=np.inf,
    ),
    "gates": Kind(
        "Gates",
        "Probability (%)",
        "Framed {many} passed the gate. Columns and numbers, where there are "
        "any, are the probability of being open, in percent.",
        "Dots are steps that passed the gate. The lower curve, where there is "
        "one, is the probability of being open.",
        passed="open",
    ),
    "attention": Kind(
        "Attention",
        "Attention (%)",
        "Numbers are percent; columns are relative to the largest of a row.",
        "The lower curve is the attention to each step.",
        relative=True,
    ),
    "kept": Kind(
        "Kept by the subsample",
        "Probability (%)",
        "Framed {many} were kept, those struck through left out. Columns and "
        "numbers, where there are any, are the probability of being kept, in "
        "percent.",
        "Dots are steps that were kept. The lower curve, where there is one, "
        "is the probability of being kept.",
        passed="kept",
        left_out="s",
    ),
    "probabilities": Kind(
        "Probability after each {one}",
        "Probability (%)",
        "Numbers are percent; the dashed line is one half.",
        "The dashed line is one half.",
    ),
}


def draw_track(name: str, shown: Shown, rows: Mapping[str, np.ndarray]) -> str:
    """HTML of a track.

    Args:
        name: Key of `KINDS`.
        shown: The sequence.
        rows: A number for each step, by the name of the row.
    """
    kind = KINDS[name]
    heading = _worded(kind.heading, shown)
    is_curve = shown.numbers is not None
    legend = kind.curve_legend if is_curve else _worded(kind.legend, shown)
    drawn = "".join(_row(kind, shown, *row) for row in rows.items())
    return (
        f'<div class="sq-track" role="group" aria-label="{heading}">'
        f'<p class="sq-heading">{heading}</p>{drawn}'
        f'<p class="sq-legend">{legend}</p></div>'
    )


def write_track(name: str, shown: Shown, rows: Mapping[str, np.ndarray]) -> str:
    """Text of a track: a line for each token, or for each curve."""
    kind = KINDS[name]
    lines = [_worded(kind.heading, shown)]
    for title, values in rows.items():
        summary = _summary(kind, shown, values)
        lines.append(f"{visible(title)}: {summary}" if title else summary)
        if shown.numbers is None:
            lines += _token_lines(kind, shown.tokens, values)
        else:
            lines += _curve_lines(kind, shown.numbers, values)
    return "\n".join(lines)


def _worded(text: str, shown: Shown) -> str:
    many = f"{shown.one}s"
    return text.format(one=shown.one, many=many, Many=many.capitalize())


def _token_lines(
    kind: Kind, tokens: list[str], values: np.ndarray
) -> list[str]:
    width, lines = max(map(_width, tokens)), []
    is_size = kind is KINDS["sizes"]
    length = 1 if is_size else BAR / _scale(kind, values)
    for token, value in zip(tokens, values.tolist()):
        space = " " * (width - _width(token))
        number = _count(value) if is_size else f"{100 * value:.0f} %"
        if _is_decided(kind, values):
            number = kind.passed if value else ""
        bar = "█" * min(BAR, round(length * value))
        lines.append(f"  {token}{space} {number:>5}  {bar}".rstrip())
    return lines


def _curve_lines(
    kind: Kind, numbers: np.ndarray, values: np.ndarray
) -> list[str]:
    marked = _is_marked(kind, values)
    peaks, label = bool(kind.passed), kind.axis
    if _is_decided(kind, values):
        label = f"{kind.passed.capitalize()} (%)"
    values, top = _units(kind) * values, _top(kind, values)
    lines = [
        curves.write_panel("Number", numbers, *curves.limits(numbers)),
        curves.write_panel(label, values, 0, top, peaks),
    ]
    steps = np.flatnonzero(marked).tolist()
    if kind.passed and steps:
        more = f" and {len(steps) - LISTED} more" if steps[LISTED:] else ""
        listed = ", ".join(map(str, steps[:LISTED]))
        lines.append(f"  {kind.passed} at steps {listed}{more}")
    return lines


def _width(text: str) -> int:
    """Columns that a text takes in a terminal."""
    return sum(
        2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
        if not unicodedata.combining(letter)
    )


def _row(kind: Kind, shown: Shown, name: str, values: np.ndarray) -> str:
    named = f'<bdi class="sq-name">{html.escape(visible(name))}</bdi> '
    summary = html.escape(_summary(kind, shown, values))
    if shown.numbers is None:
        body = _chart(kind, shown.tokens, values)
    else:
        body = _curves(kind, shown.numbers, values)
    return (
        f'<div class="sq-row"><p>{named if name else ""}'
        f'<bdi class="sq-summary">{summary}</bdi></p>'
        f"{body}</div>"
    )


def _chart(kind: Kind, tokens: list[str], values: np.ndarray) -> str:
    """Tokens with what was decided, and a label where columns have an axis."""
    has_axis = kind is not KINDS["sizes"] and not _is_decided(kind, values)
    axis = f'<span class="sq-axis">{kind.axis}</span>' if has_axis else ""
    make = _sizes if kind is KINDS["sizes"] else _shares
    cells = "".join(make(kind, tokens, values))
    return (
        f'<div class="sq-chart">{axis}'
        f'<div class="sq-tokens" role="list" dir="auto">{cells}</div></div>'
    )


def _curves(kind: Kind, numbers: np.ndarray, values: np.ndarray) -> str:
    """The numbers with dots, and below them what was decided."""
    marked = _is_marked(kind, values)
    panels = [
        curves.draw_panel("Number", numbers, *curves.limits(numbers), marked)
    ]
    if not _is_decided(kind, values):
        has_half = kind.largest == 1 and not kind.relative
        panels.append(
            curves.draw_panel(
                kind.axis,
                _units(kind) * values,
                0,
                _top(kind, values),
                has_half=has_half,
            )
        )
    last = len(numbers) - 1
    return (
        f'{"".join(panels)}<p class="sq-steps" dir="ltr"><span>step 0</span>'
        f"<span>step {last}</span></p>"
    )


def _units(kind: Kind) -> int:
    return 1 if kind is KINDS["sizes"] else 100


def _top(kind: Kind, values: np.ndarray) -> float:
    """The number at the top of a curve."""
    return _units(kind) * (_scale(kind, values) if kind.relative else 1)


def _is_marked(kind: Kind, values: np.ndarray) -> np.ndarray:
    """Whether each step read ahead, passed the gate or was kept."""
    if kind is KINDS["sizes"]:
        return values > 1 + LEAST_SHARE
    return (values > 0.5) & bool(kind.passed)


def _summary(kind: Kind, shown: Shown, values: np.ndarray) -> str:
    if kind is KINDS["sizes"]:
        return _size_summary(values)
    return _share_summary(kind, shown.tokens, values)


def _size_summary(sizes: np.ndarray) -> str:
    return f"{sizes.mean():.2f} on average, {_count(sizes.max())} at most"


def _sizes(kind: Kind, tokens: list[str], sizes: np.ndarray) -> list[str]:
    """Cells with a bar over what was read at each step."""
    lanes = max(1, math.ceil(sizes.max() - LEAST_SHARE))
    lanes = min(lanes, len(sizes))
    return [
        _cell(token, _bars(t, sizes, lanes) + _number(size))
        for t, (token, size) in enumerate(zip(tokens, sizes.tolist()))
    ]


def _bars(t: int, sizes: np.ndarray, lanes: int) -> str:
    """HTML of the pieces of the fields' bars over token t.

    The field of step s is in lane `s % lanes`, so no bar covers another.
    """
    pieces = []
    for start in range(max(0, t - lanes + 1), t + 1):
        size = float(sizes[start])
        left = size - (t - start)
        if left <= LEAST_SHARE:
            continue
        is_end = left <= 1 + LEAST_SHARE or t == len(sizes) - 1
        names = ["start"] * (start == t) + ["end"] * is_end
        names += ["ahead"] * (size > 1 + LEAST_SHARE)
        style = f"--lane:{start % lanes};--share:{min(1.0, left):.3f}"
        pieces.append(f'<i class="{" ".join(names)}" style="{style}"></i>')
    return (
        f'<span class="sq-lanes" style="--lanes:{lanes}">{"".join(pieces)}'
        "</span>"
    )


def _scale(kind: Kind, values: np.ndarray) -> float:
    """The value at the full height of a column."""
    return (values.max() if kind.relative else 0.0) or 1.0


def _is_decided(kind: Kind, values: np.ndarray) -> bool:
    """Whether all values are decisions, 0 or 1, not probabilities."""
    return bool(kind.passed) and bool(np.isin(values, (0.0, 1.0)).all())


def _shares(kind: Kind, tokens: list[str], values: np.ndarray) -> list[str]:
    """Cells with numbers from 0 to 1, as columns in percent."""
    is_decided, scale = _is_decided(kind, values), _scale(kind, values)
    cells = []
    for token, value in zip(tokens, values.tolist()):
        element, below = "span", ""
        if kind.passed:
            element = "mark" if value > 0.5 else kind.left_out
        if not is_decided:
            below = _column(value / scale, half=not kind.relative)
            below += _number(round(100 * value))
        cells.append(_cell(token, below, element, value / scale))
    return cells


def _share_summary(kind: Kind, tokens: list[str], values: np.ndarray) -> str:
    if kind.passed:
        count = int((values > 0.5).sum())
        summary = f"{count} of {len(values)} {kind.passed}"
        if _is_decided(kind, values):
            return summary
        return f"{summary}, mean {_percent(values.mean())}"
    if kind.relative:
        best = int(values.argmax())
        return f"most, {_percent(values[best])}, on {tokens[best]}"
    low, high, last = map(_percent, (values.min(), values.max(), values[-1]))
    return f"from {low} to {high}, {last} at the end"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _count(number: float) -> str:
    """A number with one decimal, or without if it is whole."""
    return f"{number:.1f}".removesuffix(".0")


def _number(number: float) -> str:
    return f'<span class="sq-number">{_count(number)}</span>'


def _column(height: float, half: bool = False) -> str:
    return (
        f'<span class="sq-column{" half" if half else ""}">'
        f'<i style="--height:{height:.4f}"></i></span>'
    )


def _cell(
    token: str, below: str, element: str = "span", tint: float = 0.0
) -> str:
    return (
        f'<span class="sq-cell" role="listitem">'
        f'<{element} class="sq-token" style="--tint:{tint:.3f}">'
        f"{html.escape(token)}</{element}>{below}</span>"
    )
