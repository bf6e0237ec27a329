"""Compiled loops: kept on disk where there is a place for them, compiled anew by every process where there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from uuid import uuid4

import numba

Loop = TypeVar("Loop", bound=Callable[..., Any])


def njit(**options: Any) -> Callable[[Loop], Loop]:
    """`numba.njit(cache=True)`, also for a user who may write neither beside the package nor at home.

    numba refuses to load a function that it is to keep and has no place for; without `cache` it compiles as usual.
    """

    def compiled(function: Loop) -> Loop:
        try:
            kept: Loop = numba.njit(cache=True, **options)(function)
            _name_apart(kept)
        except RuntimeError:
            kept = numba.njit(**options)(function)
        return kept

    return compiled


def _name_apart(loop: Any) -> None:
    """Give every compiled form of a loop a file of its own.

    numba numbers them by an index that it reads and writes without a lock: two processes that compile a loop for two
    precisions at once write both to one file, and a third runs the wrong one on its memory.
    """
    file: Any = getattr(getattr(loop, "_cache", None), "_cache_file", None)
    if hasattr(file, "_data_name"):
        numbered = file._data_name
        file._data_name = lambda number: f"{uuid4().hex[:16]}-{numbered(number)}"
