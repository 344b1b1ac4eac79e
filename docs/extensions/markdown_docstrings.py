"""Docstrings are Markdown with Google's sections; Sphinx reads its own markup.

This converts what differs between the two in the docstrings of this package:
code, formulas, tables, and lists that follow a line of text.
"""

import re
import textwrap
from collections.abc import Iterator

from sphinx.application import Sphinx

FENCE = re.compile(r"^( *)```(\w+)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
NAME = re.compile(r"[\w.]+")
FORMULA = re.compile(r"^( *)\$\$(.+?)\$\$", re.DOTALL | re.MULTILINE)
# It may go on in the next line.
INLINE_FORMULA = re.compile(r"(?<![`$\w])\$([^$\n]+(?:\n[^$\n]+)?)\$(?![`$\w])")
ROW = re.compile(r" *\|.*\|$")
ITEM = re.compile(r" *(- |\d+\. )")


def convert(text: str) -> str:
    """The same docstring in reStructuredText."""
    text = INLINE_FORMULA.sub(
        lambda found: f":math:`{' '.join(found[1].split())}`", text
    )
    text = "\n".join(set_apart(text.split("\n")))
    text = FORMULA.sub(convert_formula, text)
    text = CODE.sub(convert_code, text)
    return FENCE.sub(convert_block, text)


def convert_block(found: re.Match) -> str:
    """A block of code between fences."""
    indent, language, code = found.groups()
    return f"{indent}.. code-block:: {language}\n\n" + textwrap.indent(
        code, "    "
    )


def convert_formula(found: re.Match) -> str:
    """A formula on lines of its own."""
    indent, formula = found.groups()
    return f"\n{indent}.. math:: {' '.join(formula.split())}\n"


def convert_code(found: re.Match) -> str:
    """Names may lead to where they are documented; other code does not."""
    before, after = found.string[: found.start()], found.string[found.end() :]
    is_name = NAME.fullmatch(found[1]) or before.endswith(":math:")
    code = found[0] if is_name else f"`{found[0]}`"
    # Where a letter follows, as in a plural, markup would not end.
    return code + ("\\ " if after[:1].isalnum() else "")


def set_apart(lines: list[str]) -> Iterator[str]:
    """Puts an empty line before each list; makes lists of tables."""
    before = ""
    for line in lines:
        if ROW.match(line):
            yield from table_row(line, is_first=not ROW.match(before))
        else:
            in_text = before.strip() and not ITEM.match(before)
            deeper = indent_of(before) <= indent_of(line)
            if ITEM.match(line) and in_text and deeper:
                yield ""
            yield line
        before = line


def table_row(line: str, is_first: bool) -> Iterator[str]:
    """A row of a table; nothing for the line under its header."""
    indent = indent_of(line)
    first, *others = (cell.strip() for cell in line.strip(" |").split(" | "))
    if set(first) == {"-"}:
        return
    if is_first:
        yield f"{indent}.. list-table::"
        yield f"{indent}   :header-rows: 1"
        yield ""
    yield f"{indent}   * - {first}"
    for cell in others:
        yield f"{indent}     - {cell}"


def indent_of(line: str) -> str:
    """The spaces before a line."""
    return line[: len(line) - len(line.lstrip())]


def process(app, what, name, value, options, lines: list[str]) -> None:
    lines[:] = convert("\n".join(lines)).split("\n")


def setup(app: Sphinx) -> dict[str, bool]:
    # Before napoleon, which takes the sections apart.
    app.connect("autodoc-process-docstring", process, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
