"""Text in figures: fonts that can draw it, and names at points."""

from collections.abc import Sequence
from typing import Any

from keras_seqmech.analysis.characters import visible
from keras_seqmech.analysis.plots import fonts

# Drawn in place of a character that no font holds.
BOX = "\u25a1"


def drawable(texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """Texts that matplotlib can draw, and the font families to draw them in.

    Characters that show no ink are replaced by signs, as
    `keras_seqmech.analysis.show` does; those that no installed font holds by
    boxes, with a warning that says so once.

    Args:
        texts: Any strings.

    Returns:
        The texts to draw, as many, and a list of font families.

    Example:

    >>> texts, family = drawable(["so", "\\u00e4", " "])
    >>> texts
    ['so', 'ä', '␣']
    """
    seen = [visible(text) for text in texts]
    characters = {c for text in seen for c in text}
    families: list[str] = []
    missing = characters
    for family, held in fonts.installed():
        if not families or missing & held:
            families.append(family)
            missing = missing - held
        if not missing:
            break
    if missing:
        fonts.warn_of_boxes()
    boxes = str.maketrans(dict.fromkeys(missing, BOX))
    return [text.translate(boxes) for text in seen], families


def annotate_points(
    axes: Any,
    words: Sequence[Any],
    x: Sequence[float],
    y: Sequence[float],
    annotate: int,
) -> None:
    """Writes names at points of smallest x, smallest y and largest y.

    Names that would cover another one are left out.

    Args:
        axes: A matplotlib `Axes` on which the points are drawn.
        words: Names of all points.
        x: Their coordinates.
        y: Their coordinates.
        annotate: How many of each kind to name, at most.
    """
    order = range(len(words))
    middle = sorted(x)[len(x) // 2]
    ranked: list[int] = []
    for ranks in zip(
        sorted(order, key=lambda i: x[i]),
        sorted(order, key=lambda i: y[i]),
        sorted(order, key=lambda i: -y[i]),
    ):
        ranked.extend(ranks)
    wanted = list(dict.fromkeys(ranked[: 3 * annotate]))
    texts, family = drawable([str(words[i]) for i in wanted])
    to_pixels = axes.transData.transform
    axes.autoscale_view()
    taken: list[tuple[float, ...]] = []
    for i, text in zip(wanted, texts):
        left, bottom = to_pixels((x[i], y[i]))
        rightwards = x[i] <= middle
        width, height = 6.5 * len(text) + 6, 12
        low = left if rightwards else left - width
        box = (low, bottom - height / 2, low + width, bottom + height / 2)
        if any(_overlap(box, other) for other in taken):
            continue
        taken.append(box)
        axes.annotate(
            text,
            (x[i], y[i]),
            xytext=(5 if rightwards else -5, 0),
            textcoords="offset points",
            ha="left" if rightwards else "right",
            va="center",
            fontsize=8,
            fontfamily=family,
            parse_math=False,
        )


def _overlap(a: Sequence[float], b: Sequence[float]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
