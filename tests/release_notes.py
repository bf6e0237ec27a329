"""Print the changelog's entry of a version, when tag, package, citation and changelog agree on it.

python tests/release_notes.py v0.2.0
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def entry(changelog: str, version: str) -> str:
    """What stands below the heading of a version, without the heading; empty where there is none."""
    parts = re.split(r"^## (\S+).*\n", changelog, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True)).get(version, "").strip()


def main(tag: str) -> None:
    """Print the entry, or say which of the four does not know the version."""
    version = tag.removeprefix("v")
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    for place, found in (("pyproject.toml", declared), ("CITATION.cff", cited and cited[1])):
        if found != version:
            raise SystemExit(f"the tag is {tag}, {place} says {found}: set one to the other")
    text = entry((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version)
    if not text:
        raise SystemExit(f"CHANGELOG.md has no entry for {version}: rename the heading 'Unreleased'")
    print(text)


if __name__ == "__main__":
    main(sys.argv[1])
