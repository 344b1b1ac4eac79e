"""The tracks of a picture: for each kind of decision, what is below a token."""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from keras_seqmech.analysis.characters import are_characters
from keras_seqmech.analysis.characters import escaped
from keras_seqmech.analysis.characters import visible
from keras_seqmech.analysis.markup import direction
from keras_seqmech.analysis.markup import fields
from keras_seqmech.analysis.markup import joining
from keras_seqmech.analysis.markup.values import Row

# The most tokens named in the text of a field.
NAMED = 12
# The most bars over one token. With more, the picture would grow with the
# square of the length, and nobody could follow a bar.
MOST_BARS = 24


class Cell(NamedTuple):
    """A token with its decision.

    Attributes:
        says: The decision in words.
        element: HTML element of the token: `mark` if it was passed on, `s` if
            it was left out, else `span`.
        below: HTML below the token.
        tint: How strongly the token is coloured, from 0 to 1.
    """

    says: str
    element: str = "span"
    below: str = ""
    tint: float = 0.0


class Kind(NamedTuple):
    """A kind of decision.

    Attributes:
        heading: What it is.
        legend: How it is read.
        soft_legend: How numbers are read that are neither 0 nor 1.
        cells: Function from the visible tokens and a number for each to their
            cells.
        summary: Function of the same arguments to a row in a few words.
        largest: The largest allowed number.
        summed: Whether rows are added up, as those of the `"emission"`.
    """

    heading: str
    legend: str
    cells: Callable[[list[str], np.ndarray], list[Cell]]
    summary: Callable[[list[str], np.ndarray], str]
    soft_legend: str = ""
    largest: float = 1.0
    summed: bool = False


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _count(number: float) -> str:
    """With one decimal, where it has any."""
    return f"{number:.1f}".removesuffix(".0")


def _number(text: str) -> str:
    return f'<span class="sq-number">{escaped(text)}</span>'


def _column(height: float, middle: bool = False) -> str:
    return (
        f'<span class="sq-column{" half" if middle else ""}">'
        f'<i style="--height:{height:.4f}"></i></span>'
    )


def _percent_column(height: float, number: float, middle: bool = False) -> str:
    """A column with its number, in percent, below."""
    return _column(height, middle) + _number(f"{100 * number:.0f}")


def _is_hard(values: np.ndarray) -> bool:
    return bool(np.isin(values, (0.0, 1.0)).all())


def _field_cells(tokens: list[str], sizes: np.ndarray) -> list[Cell]:
    drawn = (_bars if _has_bars(sizes) else _size_columns)(sizes)
    space = "" if are_characters(tokens) else " "
    cells = []
    for t, size in enumerate(sizes.tolist()):
        reach = fields.reach(size)
        named = space.join(tokens[t : t + min(reach, NAMED)])
        if min(reach, len(tokens) - t) > NAMED:
            named += "…"
        cells.append(
            Cell(
                f"at {tokens[t]}: {_count(size)} read: {named}",
                below=drawn[t] + _number(_count(size)),
            )
        )
    return cells


def _has_bars(sizes: np.ndarray) -> bool:
    return fields.depth(sizes) <= MOST_BARS


def _bars(sizes: np.ndarray) -> list[str]:
    lanes = f'<span class="sq-lanes" style="--lanes:{fields.depth(sizes)}">'
    return [
        f"{lanes}{''.join(map(_piece, over))}</span>"
        for over in fields.pieces(sizes)
    ]


def _size_columns(sizes: np.ndarray) -> list[str]:
    return [_column(size / sizes.max()) for size in sizes.tolist()]


def _piece(piece: fields.Piece) -> str:
    names = ["start"] * piece.starts + ["end"] * piece.ends
    names += ["ahead"] * piece.ahead
    style = f"--lane:{piece.lane}"
    if piece.share < 1:
        style += f";--share:{piece.share:.3f}"
    return f'<i class="{" ".join(names)}" style="{style}"></i>'


def _field_summary(tokens: list[str], sizes: np.ndarray) -> str:
    text = f"{sizes.mean():.2f} on average, {_count(sizes.max())} at most"
    if not _has_bars(sizes):
        text += "; columns for bars, of which too many would overlap"
    return text


def _passing(
    passed: str, stopped: str, element: str
) -> tuple[
    Callable[[list[str], np.ndarray], list[Cell]],
    Callable[[list[str], np.ndarray], str],
]:
    """Cells and summary of decisions between two: framed tokens, and others.

    Args:
        passed: Word for a token with a number above one half.
        stopped: Word for the other tokens.
        element: HTML element of the others.
    """

    def cells(tokens: list[str], values: np.ndarray) -> list[Cell]:
        hard = _is_hard(values)
        found = []
        for token, value in zip(tokens, values.tolist()):
            says = f"{token}: {passed if value > 0.5 else stopped}"
            if not hard:
                says += f", {_percent(value)}"
            found.append(
                Cell(
                    says,
                    "mark" if value > 0.5 else element,
                    "" if hard else _percent_column(value, value, middle=True),
                    tint=value,
                )
            )
        return found

    def summary(tokens: list[str], values: np.ndarray) -> str:
        count = int((values > 0.5).sum())
        text = f"{count} of {len(values)} {passed}"
        if not _is_hard(values):
            text += f", mean {_percent(values.mean())}"
        return text

    return cells, summary


def _attention_cells(tokens: list[str], weights: np.ndarray) -> list[Cell]:
    largest = weights.max() or 1.0
    return [
        Cell(
            f"{token}: {_percent(weight)}",
            below=_percent_column(weight / largest, weight),
            tint=weight / largest,
        )
        for token, weight in zip(tokens, weights.tolist())
    ]


def _attention_summary(tokens: list[str], weights: np.ndarray) -> str:
    best = int(weights.argmax())
    return f"most, {_percent(weights[best])}, on {tokens[best]}"


def _probability_cells(tokens: list[str], values: np.ndarray) -> list[Cell]:
    return [
        Cell(
            f"after {token}: {_percent(value)}",
            below=_percent_column(value, value, middle=True),
            tint=value,
        )
        for token, value in zip(tokens, values.tolist())
    ]


def _probability_summary(tokens: list[str], values: np.ndarray) -> str:
    return f"{_percent(values[-1])} at the end"


# In the order in which they are shown.
KINDS: dict[str, Kind] = {
    "sizes": Kind(
        "Tokens read at each step",
        "A bar runs from each token over all that was read there; the number "
        "counts them, the token itself included.",
        _field_cells,
        _field_summary,
        largest=np.inf,
    ),
    "gates": Kind(
        "Gates",
        "Framed tokens passed the gate.",
        *_passing("open", "closed", "span"),
        soft_legend="A column is the probability of being open, in percent; "
        "the dashed line is one half.",
    ),
    "attention": Kind(
        "Attention",
        "Numbers are percent; columns are relative to the largest of a row.",
        _attention_cells,
        _attention_summary,
    ),
    "kept": Kind(
        "Kept by the subsample",
        "Framed tokens were kept, those struck through left out.",
        *_passing("kept", "left out", "s"),
        soft_legend="A column is the probability of being kept, in percent; "
        "the dashed line is one half.",
        summed=True,
    ),
    "probabilities": Kind(
        "Probability after each token",
        "Numbers are percent; the dashed line is one half.",
        _probability_cells,
        _probability_summary,
    ),
}


def draw_track(kind: Kind, tokens: list[str], rows: list[Row]) -> str:
    """HTML of a track."""
    drawn = "".join(_row(kind, tokens, row) for row in rows)
    heading = escaped(kind.heading)
    legend = kind.legend
    if not all(_is_hard(row.values) for row in rows) and kind.soft_legend:
        legend += f" {kind.soft_legend}"
    return (
        f'<div class="sq-track" role="group" aria-label="{heading}">'
        f'<p class="sq-heading">{heading}</p>{drawn}'
        f'<p class="sq-legend">{escaped(legend)}</p></div>'
    )


def _row(kind: Kind, tokens: list[str], row: Row) -> str:
    decided = kind.cells(tokens, row.values)
    cells = list(map(_cell, joining.joined(tokens), decided))
    base, levels = direction.levels(tokens)
    name = escaped(visible(row.name)) if row.name else ""
    named = f'<bdi class="sq-name">{name}</bdi> ' if name else ""
    summary = escaped(kind.summary(tokens, row.values))
    return (
        f'<div class="sq-row"><p>{named}<span class="sq-summary">{summary}'
        "</span></p>"
        f'<div class="sq-tokens" role="list" dir="{_direction(base)}">'
        f"{_nested(cells, levels, base)}</div></div>"
    )


def _direction(level: int) -> str:
    return "rtl" if level % 2 else "ltr"


def _nested(cells: list[str], levels: list[int], level: int) -> str:
    """Cells of a level; those of higher ones within elements of their own."""
    parts: list[str] = []
    for is_here, run in itertools.groupby(
        zip(cells, levels), lambda part: part[1] <= level
    ):
        within, own = zip(*run)
        if is_here:
            parts += within
        else:
            inner = _nested(list(within), list(own), level + 1)
            parts.append(
                f'<span class="sq-run" role="presentation" '
                f'dir="{_direction(level + 1)}">{inner}</span>'
            )
    return "".join(parts)


def _cell(token: str, cell: Cell) -> str:
    tint = f' style="--tint:{cell.tint:.3f}"' if cell.tint else ""
    return (
        f'<span class="sq-cell" role="listitem" title="{escaped(cell.says)}">'
        f'<{cell.element} class="sq-token"{tint}>{escaped(token)}'
        f"</{cell.element}>{cell.below}</span>"
    )
