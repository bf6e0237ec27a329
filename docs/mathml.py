"""Formulas as MathML, which browsers show by themselves: the pages need no script from elsewhere and work offline."""

from __future__ import annotations

import re

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml


def mathml(text: str, block: bool = False) -> str:
    """A formula; an accented letter becomes a group, or its index would land below it as if it were a limit."""
    found = tex2mathml(re.sub(r"(\\(?:bar|hat|tilde) ?[A-Za-z])", r"{\1{}}", text), as_block=block)
    # common fonts draw the bar as nothing, and accents on top of the letter instead of above it
    return found.replace('stretchy="false">\u02c9', ">\u2212").replace('accent="true"', 'accent="false"')


def visit_inline(translator, node) -> None:
    """Formula in a line."""
    translator.body.append(mathml(node.astext()))
    raise nodes.SkipNode


def visit_block(translator, node) -> None:
    """Formula on its own."""
    translator.body.append(f'<div class="math">{mathml(node.astext(), block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app) -> dict[str, bool]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", inline_renderers=(visit_inline, None), block_renderers=(visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
