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
    "labels": Kind("Label of each {one}", "", "", ""),
    "sizes": Kind(
        "{Many} read at each one",
        "Steps read",
        "A bar runs from a {one} at which more was read over all of it; below "
        "each {one} is how many were read there, itself included.",
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
        "Numbers are percent; columns are relative to the largest of a row, "
        "the dashed line is the mean: uniform attention.",
        "The lower curve is the attention to each step, the dashed line the "
        "mean: uniform attention.",
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
        rows: A number for each step, or a label, by the name of the row.
    """
    kind = KINDS[name]
    heading = _worded(kind.heading, shown)
    is_curve = _curve_of(kind, shown) is not None
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
        numbers = _curve_of(kind, shown)
        if numbers is None:
            lines += _token_lines(kind, shown.tokens, values)
        else:
            lines += _curve_lines(kind, numbers, values)
    return "\n".join(lines)


def _worded(text: str, shown: Shown) -> str:
    many = f"{shown.one}s"
    return text.format(one=shown.one, many=many, Many=many.capitalize())


def _token_lines(
    kind: Kind, tokens: list[str], values: np.ndarray
) -> list[str]:
    width = max(map(_width, tokens))
    spaced = [f"  {x}{' ' * (width - _width(x))}" for x in tokens]
    if kind is KINDS["labels"]:
        return [f"{x}  {label}" for x, label in zip(spaced, values)]
    if kind is KINDS["sizes"]:
        numbers, length = [*map(_count, values.tolist())], 1.0
    else:
        numbers = [f"{number} %" for number in _percents(values)]
        length = BAR / _scale(kind, values)
    if _is_decided(kind, values):
        numbers = [kind.passed if value else "" for value in values]
    bars = ["█" * min(BAR, round(length * value)) for value in values]
    return [
        f"{token} {number:>5}  {bar}".rstrip()
        for token, number, bar in zip(spaced, numbers, bars)
    ]


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
    numbers = _curve_of(kind, shown)
    if numbers is None:
        body = _chart(kind, shown.tokens, values)
    else:
        body = _curves(kind, numbers, values)
    return (
        f'<div class="sq-row"><p>{named if name else ""}'
        f'<bdi class="sq-summary">{summary}</bdi></p>'
        f"{body}</div>"
    )


def _curve_of(kind: Kind, shown: Shown) -> np.ndarray | None:
    """The numbers that are drawn as a curve; labels have tokens."""
    return None if kind is KINDS["labels"] else shown.numbers


def _chart(kind: Kind, tokens: list[str], values: np.ndarray) -> str:
    """Tokens with what was decided, and a label where columns have an axis."""
    if kind is KINDS["labels"]:
        axis, cells = "", _labels(tokens, values)
    elif kind is KINDS["sizes"]:
        axis, cells = "", _sizes(tokens, values)
    else:
        axis = f'<span class="sq-axis">{kind.axis}</span>'
        axis = "" if _is_decided(kind, values) else axis
        cells = _shares(kind, tokens, values)
    return (
        f'<div class="sq-chart">{axis}'
        f'<div class="sq-tokens" role="list" dir="auto">{"".join(cells)}'
        "</div></div>"
    )


def _curves(kind: Kind, numbers: np.ndarray, values: np.ndarray) -> str:
    """The numbers with dots, and below them what was decided."""
    marked = _is_marked(kind, values)
    panels = [
        curves.draw_panel("Number", numbers, *curves.limits(numbers), marked)
    ]
    if not _is_decided(kind, values):
        dashed = None
        if kind is not KINDS["sizes"]:
            dashed = _units(kind) * _dashed(kind, values)
        panels.append(
            curves.draw_panel(
                kind.axis,
                _units(kind) * values,
                0,
                _top(kind, values),
                dashed=dashed,
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
    """Returns whether each step read ahead, passed the gate or was kept."""
    if kind is KINDS["sizes"]:
        return values > 1 + LEAST_SHARE
    return (values > 0.5) & bool(kind.passed)


def _summary(kind: Kind, shown: Shown, values: np.ndarray) -> str:
    if kind is KINDS["labels"]:
        return f"{len({*values})} different"
    if kind is KINDS["sizes"]:
        return _size_summary(values)
    return _share_summary(kind, shown.tokens, values)


def _size_summary(sizes: np.ndarray) -> str:
    return f"{sizes.mean():.2f} on average, {_count(sizes.max())} at most"


def _labels(tokens: list[str], labels: np.ndarray) -> list[str]:
    """Cells with a label below each token."""
    return [
        _cell(token, f'<bdi class="sq-label">{html.escape(label)}</bdi>')
        for token, label in zip(tokens, labels)
    ]


def _sizes(tokens: list[str], sizes: np.ndarray) -> list[str]:
    """Cells with a bar over what was read where that is more than the step.

    A bar is in the first lane that is free, so no bar covers another.
    """
    pieces = [""] * len(tokens)
    ends: list[int] = []  # Of the last bar of each lane.
    for start in np.flatnonzero(sizes > 1 + LEAST_SHARE).tolist():
        size = float(sizes[start])
        free = (i for i, end in enumerate(ends) if end <= start)
        lane = next(free, len(ends))
        end = min(len(tokens), start + math.ceil(size - LEAST_SHARE))
        ends[lane : lane + 1] = [end]
        for t in range(start, end):
            names = ["start"] * (t == start) + ["end"] * (t == end - 1)
            style = f"--lane:{lane};--share:{min(1.0, size - t + start):.3f}"
            pieces[t] += f'<i class="{" ".join(names)}" style="{style}"></i>'
    lanes = f'<span class="sq-lanes" style="--lanes:{len(ends)}">'
    return [
        _cell(token, f"{lanes}{piece}</span>{_number(_count(size))}")
        for token, piece, size in zip(tokens, pieces, sizes.tolist())
    ]


def _scale(kind: Kind, values: np.ndarray) -> float:
    """The value at the full height of a column."""
    return (values.max() if kind.relative else 0.0) or 1.0


def _is_decided(kind: Kind, values: np.ndarray) -> bool:
    """Returns whether all values are decisions, 0 or 1, not probabilities."""
    return bool(kind.passed) and bool(np.isin(values, (0.0, 1.0)).all())


def _shares(kind: Kind, tokens: list[str], values: np.ndarray) -> list[str]:
    """Cells with numbers from 0 to 1, as columns in percent."""
    is_decided, scale = _is_decided(kind, values), _scale(kind, values)
    dashed, cells = _dashed(kind, values) / scale, []
    for token, value, percent in zip(tokens, values, _percents(values)):
        element, below = "span", ""
        if kind.passed:
            element = "mark" if value > 0.5 else kind.left_out
        if not is_decided:
            below = _column(value / scale, dashed) + _number(percent)
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
        most, mean = _percent(values[best]), _percent(values.mean())
        return f"most, {most}, on {tokens[best]}; mean {mean}"
    low, high, last = map(_percent, (values.min(), values.max(), values[-1]))
    return f"from {low} to {high}, {last} at the end"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _count(number: float) -> str:
    """A number with one decimal, or without if it is whole."""
    return f"{number:.1f}".removesuffix(".0")


def _percents(shares: np.ndarray) -> list[str]:
    """Percent in whole numbers; with a decimal where these are all alike."""
    whole = [f"{100 * share:.0f}" for share in shares]
    if len({*whole}) > 1:
        return whole
    return [_count(100 * share) for share in shares]


def _dashed(kind: Kind, values: np.ndarray) -> float:
    """The share at the dashed line."""
    return values.mean() if kind.relative else 0.5


def _number(number: str) -> str:
    return f'<span class="sq-number">{number}</span>'


def _column(height: float, dashed: float) -> str:
    return (
        f'<span class="sq-column" style="--dashed:{dashed:.4f}">'
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
