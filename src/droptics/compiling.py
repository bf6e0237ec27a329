"""Compiled loops: kept on disk where there is a place for them, compiled anew by every process where there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

Loop = TypeVar("Loop", bound=Callable[..., Any])


def njit(**options: Any) -> Callable[[Loop], Loop]:
    """`numba.njit(cache=True)`, also for a user who may write neither beside the package nor at home.

    numba refuses to load a function that it is to keep and has no place for; without `cache` it compiles as usual.
    """

    def compiled(function: Loop) -> Loop:
        try:
            kept: Loop = numba.njit(cache=True, **options)(function)
        except RuntimeError:
            kept = numba.njit(**options)(function)
        return kept

    return compiled
