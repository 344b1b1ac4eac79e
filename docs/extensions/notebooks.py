"""Tutorials as notebooks that need the package alone.

`make notebooks` writes them; the site offers each on its page.
"""

import itertools
import json
import re
from pathlib import Path

DOCS = Path(__file__).parents[1]
FOLDER = DOCS.parent / "build" / "notebooks"
CELL = re.compile(
    r"^```\{code-cell\} python\n((?::[^\n]*\n)*)(.*?)^```\n",
    re.DOTALL | re.MULTILINE,
)
LOAD = re.compile(r"^:load: (.+)\n", re.MULTILINE)
LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]+\)")
OFFER = "{download}`This page as a notebook </build/notebooks/%s.ipynb>`"


def load(source: str) -> str:
    """A page with its script, but for what says how to run that alone."""

    def script(found: re.Match) -> str:
        text = (DOCS / "tutorials" / found[1]).read_text("utf8")
        return text.partition('"""\n\n')[2]

    return LOAD.sub(script, source)


def convert(page: Path) -> dict:
    """The notebook of a tutorial; links to other pages become text."""
    _, _, source = page.read_text("utf8").split("---\n", 2)
    parts = iter(CELL.split(load(source)))
    cells = []
    for text, options, code in itertools.zip_longest(parts, parts, parts):
        text = LINK.sub(r"\1", text).strip()
        if text:
            cells.append({"cell_type": "markdown", "source": text})
        if code and "remove-cell" not in options:
            of_code = {"execution_count": None, "outputs": []}
            cells.append(
                {"cell_type": "code", "source": code.strip(), **of_code}
            )
    python = {"name": "python3", "display_name": "Python 3"}
    return {
        "cells": [{**cell, "metadata": {}} for cell in cells],
        "metadata": {"kernelspec": {**python, "language": "python"}},
        "nbformat": 4,
        "nbformat_minor": 4,
    }


def write(folder: Path) -> None:
    """Writes the notebooks of all tutorials."""
    folder.mkdir(parents=True, exist_ok=True)
    for page in DOCS.glob("tutorials/*.md"):
        notebook = json.dumps(convert(page), indent=1, ensure_ascii=False)
        folder.joinpath(f"{page.stem}.ipynb").write_text(notebook, "utf8")


def offer(app, docname: str, source: list[str]) -> None:
    """Adds its script and the download to a tutorial's page."""
    if docname.startswith("docs/tutorials/"):
        link = OFFER % Path(docname).name
        page = load(source[0])
        source[0] = page.replace("\n## ", f"\n{link}\n\n## ", 1)


def setup(app) -> dict[str, bool]:
    app.connect("builder-inited", lambda app: write(FOLDER))
    app.connect("source-read", offer)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    write(FOLDER)
