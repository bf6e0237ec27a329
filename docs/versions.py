"""Put a built site beside those of earlier versions.

    python docs/versions.py docs/_build/html SITE

SITE/0.1 then holds the pages of version 0.1.x, each with its version and a link to the others, whatever else lies in
SITE stays, and SITE/index.html lists all versions and leads to the newest. SITE can be served as it is by any host of
files.
"""

from __future__ import annotations

import re
import shutil
import sys
import tomllib
from pathlib import Path

VERSION = re.compile(r"\d+\.\d+")
LIST = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>droptics: versions of the documentation</title>
</head>
<body>
<main>
<h1>droptics: versions of the documentation</h1>
<ul>
{items}
</ul>
</main>
</body>
</html>
"""
OTHERS = (
    '<p>This is the documentation of version {version}. <a href="{up}versions.html">Other versions</a>.</p>\n</article>'
)


def add(pages: Path, site: Path, version: str) -> None:
    """Copy the pages of a version to their place and write the list anew."""
    short = ".".join(version.split(".")[:2])
    shutil.rmtree(site / short, ignore_errors=True)
    shutil.copytree(pages, site / short)
    for page in (site / short).rglob("*.html"):
        up = "../" * len(page.relative_to(site).parent.parts)
        text = page.read_text(encoding="utf-8")
        page.write_text(text.replace("</article>", OTHERS.format(version=version, up=up), 1), encoding="utf-8")
    found = sorted(
        (path.name for path in site.iterdir() if path.is_dir() and VERSION.fullmatch(path.name)),
        key=lambda name: [int(part) for part in name.split(".")],
        reverse=True,
    )
    items = "\n".join(f'<li><a href="{name}/index.html">{name}</a></li>' for name in found)
    (site / "versions.html").write_text(LIST.format(items=items), encoding="utf-8")
    forward = f'<meta http-equiv="refresh" content="0; url={found[0]}/index.html">\n</head>'
    (site / "index.html").write_text(LIST.format(items=items).replace("</head>", forward), encoding="utf-8")
    (site / ".nojekyll").touch()  # folders of pages start with an underscore, which one host takes for its own


if __name__ == "__main__":
    pyproject = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    add(Path(sys.argv[1]), Path(sys.argv[2]), pyproject["project"]["version"])
