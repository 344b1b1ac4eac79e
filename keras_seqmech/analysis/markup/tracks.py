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
    drawn = [Row(kind, shown, *row) for row in rows.items()]
    is_curve = drawn[0].numbers is not None
    legend = kind.curve_legend if is_curve else _worded(kind.legend, shown)
    return (
        f'<div class="sq-track" role="group" aria-label="{heading}">'
        f'<p class="sq-heading">{heading}</p>'
        f"{''.join(row.draw() for row in drawn)}"
        f'<p class="sq-legend">{legend}</p></div>'
    )


def write_track(name: str, shown: Shown, rows: Mapping[str, np.ndarray]) -> str:
    """Text of a track: a line for each token, or for each curve."""
    lines = [_worded(KINDS[name].heading, shown)]
    for item in rows.items():
        lines += Row(KINDS[name], shown, *item).write()
    return "\n".join(lines)


class Row(NamedTuple):
    """A decision at each step.

    Attributes:
        kind: Kind of decision.
        shown: The sequence.
        name: Name of the row, or "".
        values: Array `(time,)` of numbers or labels.
    """

    kind: Kind
    shown: Shown
    name: str
    values: np.ndarray

    @property
    def numbers(self) -> np.ndarray | None:
        """The numbers that are drawn as a curve; labels have tokens."""
        return None if self.kind is KINDS["labels"] else self.shown.numbers

    @property
    def is_size(self) -> bool:
        """True for numbers of steps, False for shares."""
        return self.kind is KINDS["sizes"]

    @property
    def is_decided(self) -> bool:
        """True if all values are decisions, 0 or 1, not probabilities."""
        made = np.isin(self.values, (0.0, 1.0)).all()
        return bool(self.kind.passed) and bool(made)

    @property
    def is_marked(self) -> np.ndarray:
        """Whether each step read ahead, passed the gate or was kept."""
        if self.is_size:
            return self.values > 1 + LEAST_SHARE
        return (self.values > 0.5) & bool(self.kind.passed)

    @property
    def scale(self) -> float:
        """The value at the full height of a column."""
        return (self.values.max() if self.kind.relative else 0.0) or 1.0

    @property
    def dashed(self) -> float:
        """The share at the dashed line."""
        return self.values.mean() if self.kind.relative else 0.5

    @property
    def written(self) -> list[str]:
        """Numbers as they are written: steps, or percent."""
        if self.is_size:
            return [_count(size) for size in self.values.tolist()]
        # With a decimal where whole numbers are all alike.
        whole = [f"{100 * share:.0f}" for share in self.values]
        if len({*whole}) > 1:
            return whole
        return [_count(100 * share) for share in self.values]

    def draw(self) -> str:
        """HTML of the row."""
        named = ""
        if self.name:
            name = html.escape(visible(self.name))
            named = f'<bdi class="sq-name">{name}</bdi> '
        numbers = self.numbers
        body = self._chart() if numbers is None else self._curves(numbers)
        return (
            f'<div class="sq-row"><p>{named}'
            f'<bdi class="sq-summary">{html.escape(self.summary())}</bdi></p>'
            f"{body}</div>"
        )

    def write(self) -> list[str]:
        """Lines of text."""
        named = f"{visible(self.name)}: " if self.name else ""
        first, numbers = f"{named}{self.summary()}", self.numbers
        if numbers is None:
            return [first, *self._token_lines()]
        return [first, *self._curve_lines(numbers)]

    def summary(self) -> str:
        """The row in a few words."""
        kind, values = self.kind, self.values
        if kind is KINDS["labels"]:
            return f"{len({*values})} different"
        if self.is_size:
            most = _count(values.max())
            return f"{values.mean():.2f} on average, {most} at most"
        if kind.passed:
            count = int((values > 0.5).sum())
            summary = f"{count} of {len(values)} {kind.passed}"
            mean = f", mean {_percent(values.mean())}"
            return summary if self.is_decided else summary + mean
        if kind.relative:
            best = int(values.argmax())
            most, mean = _percent(values[best]), _percent(values.mean())
            return f"most, {most}, on {self.shown.tokens[best]}; mean {mean}"
        ends = values.min(), values.max(), values[-1]
        low, high, last = map(_percent, ends)
        return f"from {low} to {high}, {last} at the end"

    def _token_lines(self) -> list[str]:
        tokens, values = self.shown.tokens, self.values
        width = max(map(_width, tokens))
        spaced = [f"  {x}{' ' * (width - _width(x))}" for x in tokens]
        if self.kind is KINDS["labels"]:
            return [f"{x}  {label}" for x, label in zip(spaced, values)]
        numbers, length = self.written, 1.0
        if not self.is_size:
            numbers = [f"{number} %" for number in numbers]
            length = BAR / self.scale
        if self.is_decided:
            numbers = [self.kind.passed if value else "" for value in values]
        bars = ["█" * min(BAR, round(length * value)) for value in values]
        return [
            f"{token} {number:>5}  {bar}".rstrip()
            for token, number, bar in zip(spaced, numbers, bars)
        ]

    def _panels(self) -> tuple[np.ndarray, float, int]:
        """The values of a curve, the number at its top, and the unit."""
        unit = 1 if self.is_size else 100
        top = unit * (self.scale if self.kind.relative else 1)
        return unit * self.values, top, unit

    def _curve_lines(self, numbers: np.ndarray) -> list[str]:
        kind, label = self.kind, self.kind.axis
        if self.is_decided:
            label = f"{kind.passed.capitalize()} (%)"
        values, top, _ = self._panels()
        lines = [
            curves.write_panel("Number", numbers, *curves.limits(numbers)),
            curves.write_panel(label, values, 0, top, bool(kind.passed)),
        ]
        steps = np.flatnonzero(self.is_marked).tolist()
        if kind.passed and steps:
            more = f" and {len(steps) - LISTED} more" if steps[LISTED:] else ""
            listed = ", ".join(map(str, steps[:LISTED]))
            lines.append(f"  {kind.passed} at steps {listed}{more}")
        return lines

    def _curves(self, numbers: np.ndarray) -> str:
        """The numbers with dots, and below them what was decided."""
        limits = curves.limits(numbers)
        drawn = curves.draw_panel("Number", numbers, *limits, self.is_marked)
        if not self.is_decided:
            values, top, unit = self._panels()
            dashed = None if self.is_size else unit * self.dashed
            drawn += curves.draw_panel(
                self.kind.axis, values, 0, top, dashed=dashed
            )
        return (
            f'{drawn}<p class="sq-steps" dir="ltr"><span>step 0</span>'
            f"<span>step {len(numbers) - 1}</span></p>"
        )

    def _chart(self) -> str:
        """Tokens with what was decided, beside the axis of their columns."""
        axis = ""
        if self.kind is KINDS["labels"]:
            cells = [
                _cell(token, f'<bdi class="sq-label">{html.escape(x)}</bdi>')
                for token, x in zip(self.shown.tokens, self.values)
            ]
        elif self.is_size:
            cells = self._sizes()
        else:
            cells = self._shares()
            if not self.is_decided:
                axis = f'<span class="sq-axis">{self.kind.axis}</span>'
        return (
            f'<div class="sq-chart">{axis}'
            f'<div class="sq-tokens" role="list" dir="auto">{"".join(cells)}'
            "</div></div>"
        )

    def _sizes(self) -> list[str]:
        """Cells with a bar over what was read where that is more than the step.

        A bar is in the first lane that is free, so no bar covers another.
        """
        tokens = self.shown.tokens
        pieces = [""] * len(tokens)
        ends: list[int] = []  # Of the last bar of each lane.
        for start in np.flatnonzero(self.is_marked).tolist():
            size = float(self.values[start])
            free = (i for i, end in enumerate(ends) if end <= start)
            lane = next(free, len(ends))
            end = min(len(tokens), start + math.ceil(size - LEAST_SHARE))
            ends[lane : lane + 1] = [end]
            for t in range(start, end):
                names = ["start"] * (t == start) + ["end"] * (t == end - 1)
                share = min(1.0, size - t + start)
                style = f"--lane:{lane};--share:{share:.3f}"
                pieces[t] += (
                    f'<i class="{" ".join(names)}" style="{style}"></i>'
                )
        lanes = f'<span class="sq-lanes" style="--lanes:{len(ends)}">'
        return [
            _cell(token, f"{lanes}{piece}</span>{_number(size)}")
            for token, piece, size in zip(tokens, pieces, self.written)
        ]

    def _shares(self) -> list[str]:
        """Cells with numbers from 0 to 1, as columns in percent."""
        scale, cells = self.scale, []
        style = f"--dashed:{self.dashed / scale:.4f}"
        parts = zip(self.shown.tokens, self.values, self.written)
        for token, value, percent in parts:
            element, below = "span", ""
            if self.kind.passed:
                element = "mark" if value > 0.5 else self.kind.left_out
            if not self.is_decided:
                below = (
                    f'<span class="sq-column" style="{style}"><i style='
                    f'"--height:{value / scale:.4f}"></i></span>'
                    f"{_number(percent)}"
                )
            cells.append(_cell(token, below, element, value / scale))
        return cells


def _worded(text: str, shown: Shown) -> str:
    many = f"{shown.one}s"
    return text.format(one=shown.one, many=many, Many=many.capitalize())


def _width(text: str) -> int:
    """Columns that a text takes in a terminal."""
    return sum(
        2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
        if not unicodedata.combining(letter)
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _count(number: float) -> str:
    """A number with one decimal, or without if it is whole."""
    return f"{number:.1f}".removesuffix(".0")


def _number(number: str) -> str:
    return f'<span class="sq-number">{number}</span>'


def _cell(
    token: str, below: str, element: str = "span", tint: float = 0.0
) -> str:
    return (
        f'<span class="sq-cell" role="listitem">'
        f'<{element} class="sq-token" style="--tint:{tint:.3f}">'
        f"{html.escape(token)}</{element}>{below}</span>"
    )
