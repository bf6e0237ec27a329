"""Write `llms.txt` beside the pages: the site in one short list, for readers that are programs (llmstxt.org)."""

from __future__ import annotations

from collections.abc import Iterator

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

HEAD = """# droptics

> What dropout does to a model, exactly: the penalty it adds to the loss, the best that any network of a given width can
> do under it, a certificate of how far a given network is from there, and audits of any torch module.

`drop` is the probability of dropping, masks are divided by their mean, risks are means over examples. Every answer
carries its method, which says whether it is exact or an estimate.

## Pages
"""


def pages(environment: BuildEnvironment, name: str) -> Iterator[str]:
    """The pages that the table of contents of one page lists, each before the pages below it."""
    for below in environment.toctree_includes.get(name, []):
        yield below
        yield from pages(environment, below)


def write(app: Sphinx, exception: Exception | None) -> None:
    """Write the list once the site is built."""
    if exception is None and app.builder.format == "html":
        rows = [f"- [{app.env.titles[name].astext()}]({name}.html)" for name in pages(app.env, "index")]
        (app.outdir / "llms.txt").write_text("\n".join([HEAD, *rows]) + "\n", encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
