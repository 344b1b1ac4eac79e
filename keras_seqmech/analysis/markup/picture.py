"""`show`: a sequence with its decisions, as a piece of HTML, or as text."""

import html
import os
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from typing import NamedTuple

import numpy as np

from keras_seqmech.analysis.markup import tracks
from keras_seqmech.analysis.markup.characters import as_curve
from keras_seqmech.analysis.markup.characters import visible
from keras_seqmech.analysis.markup.characters import word_for
from keras_seqmech.analysis.markup.style import PAGE_STYLE
from keras_seqmech.analysis.markup.style import STYLE

# Rounding of sums of float32 probabilities.
TOLERANCE = 1e-4


class HtmlPicture(NamedTuple):
    """A picture that notebooks display, browsers open and terminals print.

    Attributes:
        html: One element with its style; it needs nothing from elsewhere.
        title: Title of the browser's window.
        text: The same numbers as `print` writes them.
    """

    html: str
    title: str
    text: str

    @property
    def document(self) -> str:
        """The picture as a whole HTML document."""
        return (
            '<!doctype html>\n<html>\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, '
            'initial-scale=1">\n'
            f"<title>{html.escape(self.title)}</title>\n"
            f"<style>{PAGE_STYLE}</style>\n</head>\n<body>\n{self.html}\n"
            "</body>\n</html>\n"
        )

    def save(self, path: str | os.PathLike) -> Path:
        """Writes the document.

        Args:
            path: Path of an HTML file; missing folders are made.

        Returns:
            The path.
        """
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.document, "utf-8", newline="\n")
        return path

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.html


def show(
    tokens: Sequence[Any],
    *,
    labels: Any = None,
    sizes: Any = None,
    gates: Any = None,
    attention: Any = None,
    kept: Any = None,
    probabilities: Any = None,
    title: str | None = None,
) -> HtmlPicture:
    """Shows a sequence with the decisions that a model made on it.

    Each decision that is given is a track of the picture: the tokens, with the
    decision around and below them. Tokens wrap to the width of the window, and
    run from right to left where the first letter does. Floats, and more than
    100 integers, are drawn as a curve with dots at the steps that were kept,
    passed a gate or read ahead. Headings call the tokens characters, words,
    numbers or steps, whichever they are.

    Decisions are arrays or tensors `(time,)` of one sequence, as the layers
    return them with `return_field=True`, `return_gates=True` and the like, or
    as `analysis.decisions` does; or a dict of such arrays by the name of a
    row, such as a question.

    Args:
        tokens: String, list or array, one token for each step; of a padded
            sequence, the real steps. Bytes are decoded as UTF-8.
        labels: Label of each step, such as the model's answer: strings or
            numbers, written below the tokens.
        sizes: Numbers of steps that each step read, itself included: the
            `"size"` of `LookAhead` and `ReceptiveFieldRNN`.
        gates: The `"gates"` of `FocusedHierarchicalEncoder` and
            `BoundaryGate`, or their `"probabilities"`.
        attention: The `"attention_scores"` of pooling layers,
            `ContextAttention` and `PointerSoftmax`.
        kept: Emission probabilities that an `ExpectedSubsample` is called
            with, or its `"emission"` summed over outputs.
        probabilities: Probability of a class after each step.
        title: Title of the picture.

    Returns:
        An `HtmlPicture`, which notebooks display. `print` writes it as text,
        `save(path)` as an HTML file; `html` is the element itself.

    Raises:
        ValueError: If there is no token or no decision, lengths differ, or a
            number is not allowed: sizes are finite and not below 0, all others
            from 0 to 1.

    Example:

    >>> picture = show(
    ...     ["not", "a", "good", "film"],
    ...     sizes=[3, 1, 2, 1],
    ...     gates={"good?": [1, 0, 1, 0], "what?": [0, 0, 0, 1]},
    ... )
    >>> print(show(["not", "a", "good", "film"], sizes=[3, 1, 2, 1]))
    Decisions
    <BLANKLINE>
    Words read at each one
    1.75 on average, 3 at most
      not     3  ███
      a       1  █
      good    2  ██
      film    1  █
    >>> picture.save("decisions.html")  # doctest: +SKIP
    """
    items = _token_list(tokens)
    numbers = as_curve(items)
    seen = [
        visible(item) if numbers is None else f"step {t}"
        for t, item in enumerate(items)
    ]
    shown = tracks.Shown(seen, word_for(items), numbers)
    given = {
        "labels": labels,
        "sizes": sizes,
        "gates": gates,
        "attention": attention,
        "kept": kept,
        "probabilities": probabilities,
    }
    drawn, written = [], []
    for name, kind in tracks.KINDS.items():
        if given[name] is not None:
            read = _texts if name == "labels" else _numbers
            rows = _rows(name, given[name], len(seen), kind.largest, read)
            drawn.append(tracks.draw_track(name, shown, rows))
            written.append(tracks.write_track(name, shown, rows))
    if not drawn:
        raise ValueError(
            f"At least one argument of {', '.join(given)} must be given. "
            "Received: None for all"
        )
    name = "Decisions" if title is None else visible(title)
    label = html.escape(name)
    heading = f'<p class="sq-title" dir="auto">{label}</p>'
    return HtmlPicture(
        f'<div class="seqmech" role="figure" aria-label="{label}">'
        f"<style>{STYLE}</style>{'' if title is None else heading}"
        f"{''.join(drawn)}</div>",
        name,
        "\n\n".join([name, *written]),
    )


def _token_list(tokens: Any) -> list:
    """Tokens of a string, a sequence, an array or a tensor `(time,)`."""
    if hasattr(tokens, "__array__"):
        tokens = np.asarray(tokens)
        if tokens.ndim != 1:
            raise ValueError(
                "Argument `tokens` must have the shape (time,). "
                f"Received: tokens of shape {tokens.shape}"
            )
        tokens = tokens.tolist()
    if not len(tokens):
        raise ValueError(
            "Argument `tokens` must have at least one token. "
            f"Received: tokens={tokens!r}"
        )
    return list(tokens)


def _rows(
    name: str, given: Any, count: int, largest: float, read: Callable
) -> dict[str, np.ndarray]:
    """Arrays `(time,)`, of `_texts` or `_numbers`, by the names of the rows."""
    if not isinstance(given, Mapping):
        return {"": read(name, given, count, largest)}
    if not given:
        raise ValueError(
            f"Argument `{name}` must have at least one row. "
            f"Received: {name}={given!r}"
        )
    return {
        str(key): read(f"{name}[{key!r}]", part, count, largest)
        for key, part in given.items()
    }


def _texts(name: str, given: Any, count: int, largest: float) -> np.ndarray:
    array = np.asarray([*given] if isinstance(given, str) else given, object)
    _check_count(name, array.shape, count)
    return np.array([visible(label) for label in array.tolist()])


def _check_count(name: str, shape: tuple[int, ...], count: int) -> None:
    if shape != (count,):
        raise ValueError(
            f"Argument `{name}` must have one entry for each of the {count} "
            f"steps, (time,). Received: {name} of shape {shape}"
        )


def _numbers(name: str, given: Any, count: int, largest: float) -> np.ndarray:
    try:
        array = np.asarray(given, "float64")
    except (TypeError, ValueError):
        raise ValueError(
            f"Argument `{name}` must hold numbers. Received: {name}={given!r}"
        ) from None
    _check_count(name, array.shape, count)
    inside = (array >= -TOLERANCE) & (array <= largest + TOLERANCE)
    if not (np.isfinite(array) & inside).all():
        raise ValueError(
            f"Argument `{name}` must hold finite numbers from 0 to "
            f"{largest:g}. Received: {name} from {array.min()} to "
            f"{array.max()}"
        )
    return np.clip(array, 0, largest)
