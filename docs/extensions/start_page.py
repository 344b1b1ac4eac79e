"""Adds the site's contents to the README, which is its first page."""

import pathlib

from sphinx.application import Sphinx

CONTENTS = pathlib.Path(__file__).parents[1] / "contents.txt"


def add_contents(app: Sphinx, docname: str, source: list[str]) -> None:
    if docname == app.config.root_doc:
        source[0] += "\n" + CONTENTS.read_text(encoding="utf8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", add_contents)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
