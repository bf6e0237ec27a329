"""Sphinx configuration."""

from droptics import __version__

project = "droptics"
author = "The droptics developers"
copyright = "2026, the droptics developers"
version = release = __version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
myst_enable_extensions = ["dollarmath", "colon_fence"]
html_theme = "pydata_sphinx_theme"
html_title = "droptics"
html_theme_options = {"show_prev_next": False, "navigation_with_keys": False}
exclude_patterns = ["_build"]
autodoc_member_order = "bysource"
autodoc_typehints = "description"
python_use_unqualified_type_names = True
