"""Text that matplotlib can draw, in the fonts that are installed."""

import contextlib
import functools
import importlib
import warnings
from collections.abc import Iterator
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from keras_seqmech.analysis.characters import visible

# Of fonts that hold a character, those that go well together come first.
PREFERRED = (
    "DejaVu Sans",
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "Source Han Sans SC",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "Droid Sans Fallback",
    "Microsoft YaHei",
    "PingFang SC",
)
# Drawn in place of a character that no font holds.
BOX = "\u25a1"
# Fonts whose glyphs say only that there is no other font.
LAST_RESORT = "LastResort"


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
    `keras_seqmech.analysis.show` does; those that no installed font holds by
    boxes, with a warning that says so once. Signs of mathematics, such as
    dollars, are drawn as they are.

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
    seen = [visible(text) for text in texts]
    families: list[str] = []
    missing = set("".join(seen))
    for family, held in installed():
        if not families or missing & held:
            families.append(family)
            missing -= held
        if not missing:
            break
    if missing:
        warn_of_boxes()
    boxes = str.maketrans(dict.fromkeys(missing, BOX))
    style = {"fontfamily": families, "parse_math": False}
    return [text.translate(boxes) for text in seen], style


def installed() -> Iterator[tuple[str, frozenset[str]]]:
    """Families of installed fonts, each with its characters.

    First those matplotlib knows; then those that were installed after it
    listed them, which are made known to it.
    """
    font_manager = load("font_manager")
    manager = font_manager.fontManager
    listed = {entry.fname: entry.name for entry in manager.ttflist}
    yield from _families(listed)
    for path in sorted({*font_manager.findSystemFonts()} - set(listed)):
        # What it cannot draw, such as fonts of pictures, it refuses.
        with contextlib.suppress(OSError, RuntimeError):
            manager.addfont(path)
    later = {entry.fname: entry.name for entry in manager.ttflist}
    yield from _families(dict(later.items() - listed.items()))


@functools.cache
def warn_of_boxes() -> None:
    """Says what to install, the first time."""
    warnings.warn(
        "No installed font holds some characters of a figure, which are drawn "
        "as boxes. Install one that does, such as Noto (Debian: `apt-get "
        "install fonts-noto-cjk fonts-noto-core`), or see the text in a "
        "browser with `keras_seqmech.analysis.show`.",
        stacklevel=2,
    )


def _families(
    names: dict[str, str],
) -> Iterator[tuple[str, frozenset[str]]]:
    """Families of fonts for text, preferred ones first.

    Args:
        names: Families by the path of a font.
    """
    import matplotlib

    own = Path(matplotlib.get_data_path())
    paths: dict[str, str] = {}
    for path, name in names.items():
        # matplotlib's own, but for the first, are for mathematics.
        is_for_text = name == PREFERRED[0] or own not in Path(path).parents
        if is_for_text and LAST_RESORT not in name.replace(" ", ""):
            paths.setdefault(name, path)
    places = {name: place for place, name in enumerate(PREFERRED)}
    for name in sorted(
        paths, key=lambda name: (places.get(name, len(PREFERRED)), name)
    ):
        yield name, _characters(paths[name])


@functools.lru_cache(maxsize=256)
def _characters(path: str) -> frozenset[str]:
    try:
        font = load("ft2font").FT2Font(path)
    except (OSError, RuntimeError):
        return frozenset()
    return frozenset(map(chr, font.get_charmap()))
