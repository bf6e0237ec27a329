"""Sphinx configuration."""

import sys
from pathlib import Path
from typing import Annotated, get_args, get_origin

from droptics import __version__, arguments
from droptics.optima.many import Maps

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import docstrings  # noqa: E402 - these lie beside this file
from generate import write_pages  # noqa: E402

project = "droptics"
author = "The droptics developers"
copyright = "2026, the droptics developers"
version = release = __version__
extensions = [
    "llms",
    "mathml",
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 2
html_theme = "pydata_sphinx_theme"
html_title = "droptics"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["droptics.css"]
WIDE = ("generated/benchmarks", "evidence", "rates")  # their tables need the room
html_theme_options = {
    "show_prev_next": False,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 7,
    "navbar_persistent": ["search-button"],
    "secondary_sidebar_items": {"**": ["page-toc", "sourcelink"]} | {name: [] for name in WIDE},
}
# pages without siblings have nothing to show there
ALONE = ("quickstart", "idea", "choose", "extend", "notation", "need", "policy", "changelog", "cite", "recipes")
html_sidebars = {
    name: [] for name in (*ALONE, *WIDE[:2], "checklists", "names", "generated/commands", "generated/examples")
}
smartquotes_action = "qe"  # two dashes are an option of a command, not a long dash
exclude_patterns = ["_build"]
autodoc_member_order = "bysource"
autodoc_typehints = "description"
# else NumPy's union of ten types, and the checks that ride on a number's type, are spelled out
autodoc_type_aliases = {"ArrayLike": "ArrayLike"} | {
    name: getattr(get_args(kind)[0], "__name__", str(get_args(kind)[0]))
    for name, kind in (vars(arguments) | {"Maps": Maps}).items()
    if get_origin(kind) is Annotated
}
python_use_unqualified_type_names = True
default_role = "code"


def setup(app):
    """Write the generated pages before the sources are read, and read docstrings as plain text."""
    app.connect("autodoc-process-docstring", docstrings.process, priority=400)
    app.connect("autodoc-skip-member", docstrings.skip)
    app.connect("builder-inited", lambda app: write_pages(HERE / "generated", HERE.parent))
