"""Installed fonts, and the characters they hold."""

import contextlib
import functools
import warnings
from collections.abc import Iterator
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# Of fonts that hold a character, those that go well together come first.
PREFERRED = (
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
# Fonts whose glyphs say only that there is no other font.
LAST_RESORT = "LastResort"


def installed() -> Iterator[tuple[str, frozenset[str]]]:
    """Families of installed fonts, each with its characters.

    First those matplotlib knows, preferred ones before others; then those that
    were installed after it listed them, which are made known to it.
    """
    from matplotlib import font_manager

    manager = font_manager.fontManager
    yield from _families(manager.ttflist)
    listed = {entry.fname for entry in manager.ttflist}
    count = len(manager.ttflist)
    for path in sorted(set(font_manager.findSystemFonts()) - listed):
        # What it cannot draw, such as fonts of pictures, it refuses.
        with contextlib.suppress(OSError, RuntimeError):
            manager.addfont(path)
    yield from _families(manager.ttflist[count:])


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


def _families(entries: Sequence[Any]) -> Iterator[tuple[str, frozenset[str]]]:
    places = {name: place for place, name in enumerate(PREFERRED)}
    paths: dict[str, str] = {}
    for entry in entries:
        if _is_for_text(entry.name, entry.fname):
            paths.setdefault(entry.name, entry.fname)
    for name in sorted(
        paths, key=lambda name: (places.get(name, len(PREFERRED)), name)
    ):
        yield name, _characters(paths[name])


def _is_for_text(family: str, path: str) -> bool:
    """Whether it is no last resort, nor one of matplotlib's for mathematics."""
    import matplotlib

    if family.replace(" ", "").lstrip(".").startswith(LAST_RESORT):
        return False
    is_own = Path(matplotlib.get_data_path()) in Path(path).parents
    return family in PREFERRED or not is_own


@functools.lru_cache(maxsize=256)
def _characters(path: str) -> frozenset[str]:
    from matplotlib import ft2font

    try:
        font = ft2font.FT2Font(path)
    except (OSError, RuntimeError):
        return frozenset()
    return frozenset(map(chr, font.get_charmap()))
