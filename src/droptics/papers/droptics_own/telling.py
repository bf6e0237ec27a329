"""Comparisons of what is no number: values that are equal, and calls that are refused with words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from droptics.errors import NoClosedForm
from droptics.evidence.claims import Comparison, compare


def same(mine: Any, wanted: Any, label: str, scale: float = 1.0) -> Comparison:
    """Whether two values are equal, a number after it is multiplied by the scale; words and lists have no neighbors."""
    if scale != 1 and isinstance(wanted, (int, float, np.ndarray)) and not isinstance(wanted, bool):
        wanted = scale * wanted
    if isinstance(mine, np.ndarray) or isinstance(wanted, np.ndarray):
        alike = np.array_equal(np.asarray(mine), np.asarray(wanted))
    else:
        alike = bool(mine == wanted)
    return compare(float(alike), "==", 1.0, label)


def refuses(call: Callable[..., Any], words: str, label: str = "") -> Comparison:
    """Whether a call ends in a ValueError that holds the words."""
    try:
        call()
        found = ""
    except (ValueError, OSError) as problem:
        found = str(problem)
    return compare(float(words in found), "==", 1.0, label or f"refused: {words}")


def fails(call: Callable[..., Any], kinds: type[Exception] | tuple[type[Exception], ...] = NoClosedForm) -> float:
    """1 where a call ends in an error of these kinds, 0 where it ends well."""
    try:
        call()
    except kinds:
        return 1.0
    return 0.0
