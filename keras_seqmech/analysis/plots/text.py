"""Text in figures: fonts that can draw it, and names at points."""

from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

FONTS = (
    "DejaVu Sans",
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans SC",
    "Source Han Sans SC",
    "Source Han Sans CN",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "Droid Sans Fallback",
    "SimHei",
    "Microsoft YaHei",
    "PingFang SC",
    "Hiragino Sans GB",
    "Arial Unicode MS",
)


def drawable(texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """Texts that matplotlib can draw, and the font families to draw them in.

    A text with a character that no installed font of `FONTS` holds, or that
    shows no ink, is replaced by the code points of its characters.

    Args:
        texts: Any strings.

    Returns:
        The texts to draw, as many, and a list of font families.

    Example:

    >>> texts, family = drawable(["so", "\\u4e2d", " "])
    >>> texts in (["so", "4E2D", "0020"], ["so", "\\u4e2d", "0020"])
    True
    """
    characters = {c for text in texts for c in text}
    families: list[str] = []
    missing = characters
    for family, held in _installed():
        if not families or missing & held:
            families.append(family)
            missing = missing - held
        if not missing:
            break
    shown = [
        text
        if text.strip() and text.isprintable() and not missing & set(text)
        else " ".join(f"{ord(c):04X}" for c in text)
        for text in texts
    ]
    return shown, families


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


def _installed() -> Iterator[tuple[str, set[str]]]:
    """Installed fonts of `FONTS` in order, each with its characters."""
    from matplotlib import font_manager
    from matplotlib import ft2font

    paths: dict[str, str] = {}
    for entry in font_manager.fontManager.ttflist:
        paths.setdefault(entry.name, entry.fname)
    for family in FONTS:
        if family in paths:
            font = ft2font.FT2Font(paths[family])
            yield family, {chr(code) for code in font.get_charmap()}


def _overlap(a: Sequence[float], b: Sequence[float]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
