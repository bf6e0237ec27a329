"""What a docstring of a public function says: what it computes, what that costs, and the statement behind it.

- The first line is a sentence: the answer, by its formula where it has one.
- `Cost:` and how it grows, or O(...) where the sentence has room for it.
- The ids of claims it rests on, in brackets or after `Claim:`; without one, `Claim: none,` and why none is needed: a
  definition, a reading of files, a search that is checked otherwise.
- A claim has a formula: the text has one in it, or names the function that states it.
- A claim has conditions: `Conditions:`, or words of the text that say for what, when or under what it holds.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from typing import Any

import droptics

# rooms that compute nothing of the theory: files, the command line, the house itself, and the record of evidence
NOT_ROOMS = {
    *(
        "__main__",
        "annotations",
        "answers",
        "arguments",
        "arrays",
        "checks",
        "cli",
        "clusters",
        "compiling",
        "errors",
        "evidence",
        "files",
        "gpu",
        "papers",
    ),
    *("plots", "progress", "terminal", "transforms"),
}
CLAIM = re.compile(r"\b(mianjy2018|thesis|pal2020|helmbold2017|droptics)-\w[\w.-]*")
COST = re.compile(r"\bCost\b|\bO\(")
NO_CLAIM = re.compile(r"Claim: none,\s+\w")
FORMULA = re.compile(r"[=<>^/+*]|\bsqrt\b|`\w+`")

CONDITIONS = re.compile(
    r"\b([Cc]onditions?|for|where|when|if|under|unless|needs?|only|whatever|any|every|must|independent)\b"
    r"|\bat (most|least)\b|<=|>="
)


def public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every function of a room that a user may call, by its place."""
    for module in pkgutil.iter_modules(droptics.__path__):
        if module.name in NOT_ROOMS:
            continue
        room = importlib.import_module(f"droptics.{module.name}")
        own = [name for name, value in vars(room).items() if getattr(value, "__module__", "") == room.__name__]
        for name in getattr(room, "__all__", own):
            if not name.startswith("_") and inspect.isfunction(getattr(room, name)):
                yield f"{module.name}.{name}", getattr(room, name)


def unsaid(text: str | None) -> list[str]:
    """What a docstring leaves open."""
    if not text:
        return ["everything"]
    found = []
    if not text.split("\n", maxsplit=1)[0].rstrip().endswith((".", ":")):
        found.append("a first line that is a sentence")
    if not COST.search(text):
        found.append("Cost: how it grows")
    if not CLAIM.search(text) and not NO_CLAIM.search(text):
        found.append("Claim: an id, or 'Claim: none,' and why")
    if CLAIM.search(text) and not FORMULA.search(CLAIM.sub("", text)):
        found.append("the formula of its claim")
    if CLAIM.search(text) and not CONDITIONS.search(text.split("Args:")[0]):
        found.append("the conditions of its claim")
    return found
