"""The renderer of formulas for Sphinx."""

from __future__ import annotations

from docutils import nodes

from droptics.evidence.formulas import mathml


def visit_inline(translator, node) -> None:
    """Formula in a line."""
    translator.body.append(mathml(node.astext()))
    raise nodes.SkipNode


def visit_block(translator, node) -> None:
    """Formula on its own."""
    # wide formulas scroll on a phone, by keyboard too
    formula = mathml(node.astext(), block=True)
    translator.body.append(f'<div class="math" tabindex="0" role="group" aria-label="formula">{formula}</div>\n')
    raise nodes.SkipNode


def setup(app) -> dict[str, bool]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", inline_renderers=(visit_inline, None), block_renderers=(visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
