"""The tracks of a picture: for each kind of decision, what is at a token."""

import html
import math
import unicodedata
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from keras_seqmech.analysis.markup.characters import visible

# A smaller share of a token, such as a soft size of 2.0001 reads of the third,
# is not shown.
LEAST_SHARE = 1e-3


class Kind(NamedTuple):
    """A kind of decision.

    Attributes:
        heading: What it is.
        legend: How it is read.
        passed: Word for a token with a number above one half; "" where
            nothing is decided.
        left_out: HTML element of a token that was decided against.
        relative: Whether columns are relative to the largest number.
        largest: Largest allowed number.
    """

    heading: str
    legend: str
    passed: str = ""
    left_out: str = "span"
    relative: bool = False
    largest: float = 1.0


# Longest bar of a text.
BAR = 20

# In the order in which they are shown.
KINDS = {
    "sizes": Kind(
        "Tokens read at each step",
        "A bar runs from each token over all that was read there; the number "
        "counts them, the token itself included.",
        relative=True,
        largest=np.inf,
    ),
    "gates": Kind(
        "Gates",
        "Framed tokens passed the gate. Columns and numbers, where there are "
        "any, are the probability of being open, in percent.",
        passed="open",
    ),
    "attention": Kind(
        "Attention",
        "Numbers are percent; columns are relative to the largest of a row.",
        relative=True,
    ),
    "kept": Kind(
        "Kept by the subsample",
        "Framed tokens were kept, those struck through left out. Columns and "
        "numbers, where there are any, are the probability of being kept, in "
        "percent.",
        passed="kept",
        left_out="s",
    ),
    "probabilities": Kind(
        "Probability after each token",
        "Numbers are percent; the dashed line is one half.",
    ),
}


def draw_track(
    name: str, tokens: list[str], rows: Mapping[str, np.ndarray]
) -> str:
    """HTML of a track.

    Args:
        name: Key of `KINDS`.
        tokens: Visible tokens.
        rows: A number for each token, by the name of the row.
    """
    kind = KINDS[name]
    drawn = "".join(_row(kind, tokens, *row) for row in rows.items())
    return (
        f'<div class="sq-track" role="group" aria-label="{kind.heading}">'
        f'<p class="sq-heading">{kind.heading}</p>{drawn}'
        f'<p class="sq-legend">{kind.legend}</p></div>'
    )


def write_track(
    name: str, tokens: list[str], rows: Mapping[str, np.ndarray]
) -> str:
    """The same as text: below each summary a line for each token."""
    kind, width = KINDS[name], max(map(_width, tokens))
    lines = [kind.heading]
    for title, values in rows.items():
        is_size = kind is KINDS["sizes"]
        summary = _size_summary(values)
        if not is_size:
            summary = _share_summary(kind, tokens, values)
        lines.append(f"{visible(title)}: {summary}" if title else summary)
        length = 1 if is_size else BAR / _scale(kind, values)
        for token, value in zip(tokens, values.tolist()):
            space = " " * (width - _width(token))
            number = _count(value) if is_size else f"{100 * value:.0f} %"
            if _is_decided(kind, values):
                number = kind.passed if value else ""
            bar = "█" * min(BAR, round(length * value))
            lines.append(f"  {token}{space} {number:>5}  {bar}".rstrip())
    return "\n".join(lines)


def _width(text: str) -> int:
    """Columns that a text takes in a terminal."""
    return sum(
        2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
        if not unicodedata.combining(letter)
    )


def _row(kind: Kind, tokens: list[str], name: str, values: np.ndarray) -> str:
    if kind is KINDS["sizes"]:
        cells, summary = _sizes(tokens, values), _size_summary(values)
    else:
        cells = _shares(kind, tokens, values)
        summary = _share_summary(kind, tokens, values)
    named = f'<bdi class="sq-name">{html.escape(visible(name))}</bdi> '
    return (
        f'<div class="sq-row"><p>{named if name else ""}'
        f'<bdi class="sq-summary">{html.escape(summary)}</bdi></p>'
        f'<div class="sq-tokens" role="list" dir="auto">{"".join(cells)}</div>'
        "</div>"
    )


def _size_summary(sizes: np.ndarray) -> str:
    return f"{sizes.mean():.2f} on average, {_count(sizes.max())} at most"


def _sizes(tokens: list[str], sizes: np.ndarray) -> list[str]:
    """Cells with a bar over what was read at each step."""
    lanes = max(1, math.ceil(sizes.max() - LEAST_SHARE))
    lanes = min(lanes, len(sizes))
    return [
        _cell(token, _bars(t, sizes, lanes) + _number(size))
        for t, (token, size) in enumerate(zip(tokens, sizes.tolist()))
    ]


def _bars(t: int, sizes: np.ndarray, lanes: int) -> str:
    """What of the fields' bars lies over token t.

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
    """The share whose column is as high as any."""
    return (values.max() if kind.relative else 0.0) or 1.0


def _is_decided(kind: Kind, values: np.ndarray) -> bool:
    """Whether tokens pass or do not, with no probabilities."""
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
    """With one decimal, where it has any."""
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
