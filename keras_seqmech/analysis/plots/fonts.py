"""Text that matplotlib can draw, in the fonts that are installed."""

import importlib
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from keras_seqmech.analysis.characters import visible

# After matplotlib's own, those that hold what it lacks, Chinese for example.
FAMILIES = (
    "DejaVu Sans",
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "Source Han Sans SC",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "Droid Sans Fallback",
    "Microsoft YaHei",
    "PingFang SC",
    "Noto Sans",
    "Arial Unicode MS",
)


def load(name: str) -> ModuleType:
    """A module of matplotlib, or an error that says how to get it."""
    try:
        return importlib.import_module(f"matplotlib.{name}")
    except ImportError as error:
        raise ImportError(
            "Figures need matplotlib; install it with "
            "`pip install 'keras_seqmech[plots]'`."
        ) from error


def drawable(texts: Sequence[Any]) -> tuple[list[str], dict[str, Any]]:
    """Texts that matplotlib can draw, and keywords to draw them with.

    Characters that show no ink are replaced by signs, as
    `keras_seqmech.analysis.show` does; signs of mathematics, such as dollars,
    are drawn as they are. Each character has the first of the installed fonts
    that holds it; of one that none holds matplotlib warns, and draws a box.
    Then install a font, such as Noto (Debian: `apt-get install
    fonts-noto-cjk`), or see the text in a browser with
    `keras_seqmech.analysis.show`.

    Args:
        texts: Any strings.

    Returns:
        The texts to draw, as many, and the keywords `fontfamily` and
        `parse_math` of a matplotlib `Text`.

    Raises:
        ImportError: If matplotlib is missing.

    Example:

    >>> texts, style = drawable(["so", "\\u00e4", " "])
    >>> texts
    ['so', 'ä', '␣']
    """
    installed = load("font_manager").fontManager.get_font_names()
    families = [family for family in FAMILIES if family in installed]
    style = {"fontfamily": families, "parse_math": False}
    return [visible(text) for text in texts], style
