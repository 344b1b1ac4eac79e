"""`show`: a sequence with its decisions, as a piece of HTML."""

import html
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from typing import NamedTuple

from keras_seqmech.analysis.characters import visible
from keras_seqmech.analysis.markup import tracks
from keras_seqmech.analysis.markup import values
from keras_seqmech.analysis.markup.style import PAGE_STYLE
from keras_seqmech.analysis.markup.style import STYLE


class HtmlPicture(NamedTuple):
    """A picture that notebooks show and browsers open.

    Attributes:
        html: One element with its style; it needs nothing from elsewhere.
        title: Title of the browser's window.
    """

    html: str
    title: str

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
        return f"HtmlPicture(title={self.title!r})"

    def _repr_html_(self) -> str:
        return self.html


def show(
    tokens: Sequence[Any],
    *,
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
    run from right to left where the first letter does. The numbers are what
    layers return, arrays or tensors, of one sequence: `(time,)`, or a mapping
    from the names of rows, such as questions, to `(time,)`.

    Args:
        tokens: A string, or words, characters or numbers, one for each step;
            of padded sequences, those of the real steps. Bytes are read as
            UTF-8.
        sizes: How many tokens each step read, itself first: the `"size"` of
            `ReceptiveFieldRNN`, with `return_field=True`.
        gates: `"gates"` or their `"probabilities"`, of
            `FocusedHierarchicalEncoder` and `BoundaryGate`, with
            `return_gates=True`.
        attention: `"attention_scores"` of the pooling layers,
            `ContextAttention` and `PointerSoftmax`, with
            `return_attention_scores=True`.
        kept: Emission probabilities of a subsample: those it is called with,
            or the sum of its `"emission"` over outputs.
        probabilities: Probability of a class after each token, such as a
            model's answers to the beginnings of the sequence.
        title: Title of the picture.

    Returns:
        An `HtmlPicture`: notebooks show it, `save(path)` writes a file, `html`
        is the text.

    Raises:
        ValueError: If there is no token or no decision, lengths differ, or a
            number is not allowed: sizes are finite and not below 0, all others
            from 0 to 1.

    Example:

    >>> picture = show(
    ...     ["not", "a", "good", "film"],
    ...     sizes=[3, 1, 2, 1],
    ...     gates={"good?": [1, 0, 1, 0], "what?": [0, 0, 0, 1]},
    ...     title="Decisions",
    ... )
    >>> picture.save("decisions.html")  # doctest: +SKIP
    """
    seen = [visible(token) for token in values.token_list(tokens)]
    given = {
        "sizes": sizes,
        "gates": gates,
        "attention": attention,
        "kept": kept,
        "probabilities": probabilities,
    }
    drawn = []
    for name, kind in tracks.KINDS.items():
        if given[name] is not None:
            rows = values.rows(name, given[name], len(seen), kind.largest)
            drawn.append(tracks.draw_track(name, seen, rows))
    if not drawn:
        raise ValueError(
            f"At least one argument of {', '.join(given)} must be given. "
            "Received: None for all"
        )
    label = html.escape("Decisions" if title is None else visible(title))
    heading = f'<p class="sq-title" dir="auto">{label}</p>'
    return HtmlPicture(
        f'<div class="seqmech" role="figure" aria-label="{label}">'
        f"<style>{STYLE}</style>{'' if title is None else heading}"
        f"{''.join(drawn)}</div>",
        "Decisions" if title is None else visible(title),
    )
