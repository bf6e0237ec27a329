"""The places that the page of check-lists names are there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SPAN = re.compile(r"`([^`]+)`")


def missing(page: str) -> list[str]:
    """Files that are not there or empty, and commands that make does not know."""
    targets = re.findall(r"(?m)^([\w -]+):", (ROOT / "Makefile").read_text(encoding="utf-8"))
    known = {target for line in targets for target in line.split()}
    found = []
    for span in SPAN.findall(page):
        command, *words = span.split()
        if command == "make":
            found += [] if words[0] in known else [span]
        elif not words and ("/" in span or re.search(r"\.\w+$", span)):
            place = ROOT / span
            found += [] if place.exists() and place.stat().st_size else [span]
    return found


def test_every_place_of_the_check_lists_is_there():
    page = (ROOT / "docs" / "checklists.md").read_text(encoding="utf-8")
    assert len(SPAN.findall(page)) > 30
    assert missing(page) == []


def test_a_planted_place_is_missed():
    assert missing("| a | `make nothing`, `docs/nothing.md`, `NOTHING.md`; `make test`, `README.md` |") == [
        *("make nothing", "docs/nothing.md", "NOTHING.md")
    ]
