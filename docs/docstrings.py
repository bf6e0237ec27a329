"""Docstrings are plain text with formulas such as |x| and a * b; this turns them into what Sphinx reads as such."""

from __future__ import annotations

import re

CODE = re.compile(r"(`+[^`]+`+)")


def plain(lines: list[str]) -> list[str]:
    """Formulas set off by indentation become literal blocks; elsewhere bars and stars stand for themselves."""
    found: list[str] = []
    literal = doctest = False
    before = "x"  # the last line that is not empty
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if not line.strip():
            doctest = False
        elif literal and indent == 0:
            literal = False
        elif indent >= 4 and found and not found[-1].strip() and not before.startswith(" ") and not literal:
            found += ["::", ""]
            literal = True
        doctest = doctest or line.lstrip().startswith(">>>")
        found.append(line if literal or doctest else escaped(line))
        before = line if line.strip() else before
    return found


def escaped(line: str) -> str:
    """The line with bars and stars escaped outside of code."""
    parts = CODE.split(line)
    return "".join(part if i % 2 else re.sub(r"([|*])", r"\\\1", part) for i, part in enumerate(parts))


def process(app, what, name, obj, options, lines) -> None:
    """Hook for autodoc, before the sections are parsed."""
    lines[:] = plain(lines)


def skip(app, what, name, obj, skipped, options) -> bool | None:
    """Leave out the methods that scikit-learn adds to every estimator."""
    return True if re.fullmatch(r"set_\w+_request|get_metadata_routing", name) else None
