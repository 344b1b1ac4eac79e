"""The generated parts of pages: between comments, made of rows and claims.

A part begins with a line `<!-- generated: rows NAME -->` (the tables of a
study), `<!-- generated: verdicts -->` (of all claims) or
`<!-- generated: claims SOURCE -->` (of a document), and ends with
`<!-- end of generated -->`. All else on a page is written by hand.
"""

import re
from pathlib import Path

from examples.study import registry
from examples.study import report
from examples.study import rows

PAGES = (rows.ROOT / "RESULTS.md", *sorted(rows.FOLDER.parent.glob("*.md")))
PART = re.compile(
    r"(<!-- generated: (?P<kind>\w+) ?(?P<name>\S*) -->\n)"
    r"(?P<content>.*?)"
    r"(<!-- end of generated -->)",
    re.DOTALL,
)


def part(kind: str, name: str, folder: Path = rows.FOLDER) -> str:
    """What belongs between the comments."""
    if kind == "rows":
        return report.rows_report(registry.study(name), folder)
    if kind == "verdicts":
        return report.verdicts_table(registry.CLAIMS, registry.SOURCES, folder)
    if kind == "claims":
        return report.claims_table(registry.CLAIMS, name, folder)
    raise ValueError(
        "Parts of pages must be rows, verdicts or claims. "
        f"Received: <!-- generated: {kind} {name} -->"
    )


def generated(content: str, folder: Path = rows.FOLDER) -> str:
    """A page with its parts made anew."""

    def fill(match):
        made = part(match["kind"], match["name"], folder)
        return f"{match[1]}\n{made}\n\n{match[5]}"

    return PART.sub(fill, content)


def write(folder: Path = rows.FOLDER) -> list[Path]:
    """Makes the parts of all pages anew; returns the pages that changed.

    Args:
        folder: Of the rows.
    """
    changed = []
    for path in PAGES:
        content = path.read_text(encoding="utf8")
        made = generated(content, folder)
        if made != content:
            path.write_text(made, encoding="utf8")
            changed.append(path)
    return changed
