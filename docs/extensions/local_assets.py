"""Fails a build whose pages load anything from the network."""

import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

REMOTE = r"(?:https?:)?//"
LOADS = re.compile(
    rf"""<(?!a\s)[^>]*\b(?:src|href|data)=["']{REMOTE}[^"']*"""
    rf"""|(?:url\(|@import)\s*["']?{REMOTE}[^"')\s]*""",
    re.IGNORECASE,
)


def check(app: Sphinx, exception: Exception | None) -> None:
    if exception is not None or app.builder.format != "html":
        return
    folder = Path(app.outdir)
    remote = [
        f"{path.relative_to(folder)}: {found}"
        for ending in ("html", "css")
        for path in sorted(folder.rglob(f"*.{ending}"))
        for found in LOADS.findall(path.read_text(encoding="utf8"))
    ]
    if remote:
        raise ExtensionError(
            "Pages load from the network:\n" + "\n".join(remote)
        )


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
