"""Formulas as MathML, which browsers draw themselves: no script, no fonts."""

import latex2mathml.converter
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator


def visit_inline(self: HTML5Translator, node: nodes.math) -> None:
    self.body.append(latex2mathml.converter.convert(node.astext()))
    raise nodes.SkipNode


def visit_block(self: HTML5Translator, node: nodes.math_block) -> None:
    formula = latex2mathml.converter.convert(node.astext(), display="block")
    self.body.append(f'<div class="formula">{formula}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer(
        "mathml", (visit_inline, None), (visit_block, None)
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}
