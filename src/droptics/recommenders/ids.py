"""Ids of users and items: whole numbers of any size or text, and the numbers they get."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from droptics.arrays import Array

_WHOLE = 2.0**53


class Lookup:
    """Numbers for arbitrary ids; `ids[k]` has number k, unknown ids get -1."""

    def __init__(self, ids: Array) -> None:
        self.ids = ids
        self._order = np.argsort(ids, kind="stable")
        self._sorted = ids[self._order]

    def __len__(self) -> int:
        return len(self.ids)

    def __call__(self, ids: Any) -> NDArray[np.int64]:
        """Numbers of these ids, -1 where unknown; whole numbers and their text are the same id."""
        asked, possible = _as_kind(as_ids(ids), self.ids.dtype.kind)
        if not len(self.ids) or not len(asked):
            return np.full(len(asked), -1, np.int64)
        place = np.minimum(np.searchsorted(self._sorted, asked), len(self.ids) - 1)
        return np.where(possible & (self._sorted[place] == asked), self._order[place], -1).astype(np.int64)


def as_ids(ids: Any) -> Array:
    """Ids as a vector of int64, of uint64 where some lie above it, or of text."""
    found = ids.detach().cpu().numpy() if isinstance(ids, torch.Tensor) else np.asarray(ids)
    if found.dtype.kind == "f" and isinstance(ids, (list, tuple)) and all(isinstance(one, int) for one in ids):
        found = np.array(ids, dtype=object)  # NumPy rounds lists of whole numbers on both sides of 2^63 to floats
    found = found.reshape(-1) if found.ndim == 0 else found
    if found.ndim != 1:
        raise ValueError(f"ids must be a vector, got shape {found.shape}")
    if not len(found):
        return found.astype(np.int64)
    if found.dtype.kind in "iu":
        return found.astype(_integers(int(found.min()), int(found.max())))
    if found.dtype.kind in "UT":
        return found.astype(str)
    if found.dtype.kind == "O" and all(isinstance(entry, (str, int, np.integer)) for entry in found):
        if any(isinstance(entry, (str, bool)) for entry in found):
            return found.astype(str)
        return found.astype(_integers(int(min(found)), int(max(found))))
    if found.dtype.kind == "f" and bool((found % 1 == 0).all()):
        if float(np.abs(found).max()) > _WHOLE:
            raise ValueError("ids beyond 2^53 cannot be told apart as floats; pass them as integers or text")
        return found.astype(np.int64)
    raise ValueError(f"ids must be whole numbers or text, got {found.dtype} such as {found[0]!r}")


def joined(parts: list[Array]) -> Array:
    """One vector of all these ids, in the narrowest kind that holds them: int64, uint64, else text."""
    kinds = {part.dtype.kind for part in parts}
    if kinds == {"i", "u"} and all(part.dtype.kind == "u" or not len(part) or part.min() >= 0 for part in parts):
        return np.concatenate([part.astype(np.uint64) for part in parts])
    return np.concatenate([part.astype(str) for part in parts] if len(kinds) > 1 else parts)


def _integers(low: int, high: int) -> type:
    """The kind of whole numbers from `low` to `high`."""
    if low >= -(2**63) and high < 2**63:
        return np.int64
    return np.uint64 if low >= 0 and high < 2**64 else str


def _as_kind(asked: Array, kind: str) -> tuple[Array, NDArray[np.bool_]]:
    """Asked ids in the kind of the known ones, and which of them can be written in it at all."""
    if kind in (asked.dtype.kind, "U"):
        return asked.astype(str) if kind == "U" else asked, np.ones(len(asked), bool)
    target = np.dtype(np.int64 if kind == "i" else np.uint64)
    limits = np.iinfo(target)
    if asked.dtype.kind in "iu":
        # Asked and known differ in sign: what fits into both kinds lies between 0 and the largest int64.
        possible = asked >= 0 if kind == "u" else asked <= np.uint64(limits.max)
        return np.where(possible, asked, 0).astype(target), possible
    numbers, possible = np.zeros(len(asked), target), np.zeros(len(asked), bool)
    for position, name in enumerate(asked):
        digits = name[1:] if name.startswith("-") else name
        if digits.isdecimal() and len(digits) <= 20 and str(int(name)) == name:
            possible[position] = limits.min <= int(name) <= limits.max
            numbers[position] = int(name) if possible[position] else 0
    return numbers, possible


def pair_columns(pairs: Any) -> tuple[Array, Array]:
    """The two columns of a table of (user, item) pairs."""
    frame = hasattr(pairs, "iloc")
    table: Any = pairs if frame else np.asarray(pairs)
    if table.ndim != 2 or table.shape[1] != 2:
        raise ValueError(f"pairs must have two columns (user, item), got shape {table.shape}")
    first, second = (table.iloc[:, k].to_numpy() if frame else table[:, k] for k in (0, 1))
    return as_ids(first), as_ids(second)
