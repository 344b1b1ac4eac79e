"""Formulas as MathML, which browsers draw themselves: no script, no fonts."""

import re

import latex2mathml.converter
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator


def visit_inline(self: HTML5Translator, node: nodes.math) -> None:
    self.body.append(latex2mathml.converter.convert(node.astext()))
    raise nodes.SkipNode


def visit_block(self: HTML5Translator, node: nodes.math_block) -> None:
    formulas = "\n".join(
        latex2mathml.converter.convert(part, display="block")
        for part in parts(node.astext())
    )
    self.body.append(f'<div class="formula">{formulas}</div>')
    raise nodes.SkipNode


def parts(formula: str) -> list[str]:
    r"""Formulas of a line, which may go below one another in a narrow window.

    >>> parts(r"a = b, \quad c = d")
    ['a = b,', 'c = d']
    """
    found = re.split(r"\s*\\q?quad(?![a-zA-Z])\s*", formula.strip())
    whole = all(part.count("{") == part.count("}") for part in found)
    return found if whole and r"\begin" not in formula else [formula]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer(
        "mathml", (visit_inline, None), (visit_block, None)
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}
