"""What claims of our own are made of: the words of their notes, a check with its control, and checks by parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from droptics.evidence.claims import Check, Claim, Comparison, all_hold

CHECKED = "Checked numerically, not proved."
ENUMERATED = "By enumeration of all masks."
PROVED = "Proved."
READ = "Files are written here, byte by byte, and read."
SKETCHED = "Proof sketched, checked numerically."
TOY = "On a work of four statements and one figure."
WRITTEN = "Written out."


def room_claim(
    name: str, statement: str, pair: tuple[Check, Check], objects: tuple[str, ...], note: str = "Written out."
) -> Claim:
    """A claim of our own on an instrument."""
    check, control = pair
    return Claim(f"droptics-{name}", "droptics, instruments", statement, "holds", check, control, objects, note=note)


def pair(check: Callable[[float], list[Comparison]], factor: float = 1.1) -> tuple[Check, Check]:
    """A check, and its control with the truth multiplied by a factor."""
    return partial(check, 1.0), partial(check, factor)


def by_parts(parts: Iterable[Callable[[float], list[Comparison]]], scale: float) -> list[Comparison]:
    """The comparisons of all parts of a check; its control ends with the first part that it refutes."""
    found: list[Comparison] = []
    for part in parts:
        found += part(scale)
        if scale != 1 and not all_hold(found):
            break
    return found
