"""Ratings made ready for row solves: ids numbered by activity, both orders compressed, in memory or on disk."""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from droptics.data import Entries
from droptics.datasets import Chunk, Ratings, read_chunks

Array = NDArray[Any]
Source = Any
"""Entries, Ratings, a scipy sparse matrix, a table of three columns, three arrays, chunks, or the path of a table."""


class DuplicateRatings(UserWarning):
    """Some (user, item) pair was rated more than once; the mean of its ratings is used."""


@dataclass(frozen=True, eq=False)
class Compressed:
    """Ratings grouped by row: those of row i are `columns[starts[i]:starts[i+1]]` and `values[...]`."""

    starts: NDArray[np.int64]
    columns: NDArray[np.int32]
    values: Array

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.starts) - 1

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of ratings of each row."""
        return np.diff(self.starts)

    def blocks(self, count: int) -> list[tuple[int, int]]:
        """At most `count` ranges of rows with nearly equal numbers of ratings."""
        total = int(self.starts[-1])
        cuts = np.searchsorted(self.starts, np.linspace(0, total, count + 1)[1:-1])
        edges = np.unique(np.concatenate([[0], cuts, [self.rows]]))
        return [(int(low), int(high)) for low, high in pairwise(edges)]


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
        asked = _same_kind(as_ids(ids), self.ids)
        if not len(self.ids) or not len(asked):
            return np.full(len(asked), -1, np.int64)
        place = np.minimum(np.searchsorted(self._sorted, asked), len(self.ids) - 1)
        return np.where(self._sorted[place] == asked, self._order[place], -1).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Observations:
    """All ratings, minus their mean, compressed by user and by item; users and items are numbered by activity.

    The most active come first, so that blocks of rows need similar work and the factors read most often lie
    together.
    """

    users: Lookup
    items: Lookup
    by_user: Compressed
    by_item: Compressed
    mean: float
    low: float
    high: float
    folder: Path | None = None

    def __post_init__(self) -> None:
        if self.folder is not None:
            weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    @property
    def count(self) -> int:
        """Number of distinct (user, item) pairs."""
        return int(self.by_user.starts[-1])


def observations(
    source: Source,
    dtype: type[np.floating[Any]] = np.float32,
    memory: int = 1 << 32,
    mean: float | None = None,
    chunk: int = 1 << 24,
) -> Observations:
    """Read ratings from any source into two compressed orders.

    Files are read twice, `chunk` bytes at a time: once for the ids, once for the ratings. When the two orders need
    more than `memory` bytes they are kept in temporary files and mapped, so that only the factors and the blocks at
    work must fit. Pairs rated more than once are averaged, with a `DuplicateRatings` warning.
    """
    chunks = chunked(source, chunk)
    (user_ids, user_counts), (item_ids, item_counts) = _count(chunks())
    total = int(user_counts.sum())
    if total == 0:
        raise ValueError("ratings must hold at least one rating, got none")
    size = total * 2 * (4 + np.dtype(dtype).itemsize)
    folder = Path(tempfile.mkdtemp(prefix="droptics-")) if size > memory else None
    users, items = (
        Lookup(ids[np.argsort(-n, kind="stable")]) for ids, n in ((user_ids, user_counts), (item_ids, item_counts))
    )
    starts = _starts(-np.sort(-user_counts))
    columns = _empty(total, np.dtype(np.int32), folder, "columns")
    values = _empty(total, np.dtype(dtype), folder, "values")
    cursor = starts[:-1].copy()
    low, high, sums = np.inf, -np.inf, 0.0
    for part in chunks():
        _scatter(users(part.users), items(part.items), part.values.astype(dtype), cursor, columns, values)
        low, high = min(low, float(part.values.min())), max(high, float(part.values.max()))
        sums += float(part.values.sum())
    kept = _merge_duplicates(starts, columns, values)
    if kept < total:
        warnings.warn(
            f"{total - kept} of {total} ratings repeat a (user, item) pair; each pair counts once, with its mean",
            DuplicateRatings,
            stacklevel=3,
        )
        columns, values = columns[:kept], values[:kept]
        sums = _blocked_sum(values)
    middle = sums / kept if mean is None else mean
    for begin in range(0, kept, 1 << 22):
        values[begin : begin + (1 << 22)] -= np.asarray(middle, dtype)
    by_user = Compressed(starts, columns, values)
    by_item = _transpose(by_user, len(items), folder)
    return Observations(users, items, by_user, by_item, float(middle), low, high, folder)


def chunked(source: Source, size: int = 1 << 24) -> Callable[[], Iterator[Chunk]]:
    """A function that starts a new pass over the ratings of any source, in chunks, each value checked to be finite."""
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        return lambda: read_chunks(path, size=size)
    users, items, values = triple(source)
    return lambda: iter([Chunk(users, items, values, 1)])


def triple(source: Source) -> tuple[Array, Array, NDArray[np.float64]]:
    """Users, items and ratings of a source as three arrays; refuses what cannot be read and what is not finite."""
    if isinstance(source, Entries):
        raw: tuple[Any, Any, Any] = (source.rows, source.columns, source.values)
    elif isinstance(source, Ratings):
        raw = (source.users, source.items, source.values)
    elif sparse.issparse(source):
        found = source.tocoo()
        raw = (found.row, found.col, found.data)
    elif isinstance(source, (str, os.PathLike)) or _is_chunks(source):
        parts = source if isinstance(source, list) else list(read_chunks(source))
        users, items = (_joined([getattr(part, name) for part in parts]) for name in ("users", "items"))
        raw = (users, items, np.concatenate([part.values for part in parts]))
    elif hasattr(source, "columns") and hasattr(source, "iloc"):
        if source.shape[1] < 3:
            raise ValueError(f"ratings must have three columns (user, item, rating), got {list(source.columns)}")
        raw = (source.iloc[:, 0].to_numpy(), source.iloc[:, 1].to_numpy(), source.iloc[:, 2].to_numpy())
    elif isinstance(source, (tuple, list)) and len(source) == 3:
        raw = (source[0], source[1], source[2])
    else:
        raise ValueError(
            "ratings must be Entries, Ratings, a scipy sparse matrix, a three-column table, three arrays or a path, "
            f"got {type(source).__name__}"
        )
    users, items = as_ids(raw[0]), as_ids(raw[1])
    values = _as_values(raw[2])
    if not len(users) == len(items) == len(values):
        raise ValueError(f"ratings: {len(users)} users, {len(items)} items and {len(values)} values do not match")
    return users, items, values


def _is_chunks(source: Source) -> bool:
    return isinstance(source, list) and bool(source) and all(isinstance(part, Chunk) for part in source)


def as_ids(ids: Any) -> Array:
    """Ids as a vector of int64 or text."""
    found = ids.detach().cpu().numpy() if isinstance(ids, torch.Tensor) else np.asarray(ids)
    found = found.reshape(-1) if found.ndim == 0 else found
    if found.ndim != 1:
        raise ValueError(f"ids must be a vector, got shape {found.shape}")
    if found.dtype.kind in "iu":
        return found.astype(np.int64)
    if found.dtype.kind in "UT":
        return found.astype(str)
    if found.dtype.kind == "O":
        if all(isinstance(entry, (int, np.integer)) and not isinstance(entry, bool) for entry in found):
            return found.astype(np.int64)
        if all(isinstance(entry, (str, int, np.integer)) for entry in found):
            return found.astype(str)
    if found.dtype.kind == "f" and bool((found % 1 == 0).all()):
        return found.astype(np.int64)
    if not len(found):
        return found.astype(np.int64)
    raise ValueError(f"ids must be whole numbers or text, got {found.dtype} such as {found[0]!r}")


def _as_values(values: Any) -> NDArray[np.float64]:
    found = values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else values
    try:
        numbers = np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("ratings must be numbers; convert or remove the entries that are not") from None
    bad = np.flatnonzero(~np.isfinite(numbers))
    if bad.size:
        raise ValueError(
            f"ratings must be finite, got {bad.size} NaN or infinite values, the first at position {int(bad[0])}; "
            "remove or impute them"
        )
    return numbers


def _same_kind(asked: Array, known: Array) -> Array:
    """Asked ids in the kind (int64 or text) of the known ones."""
    if asked.dtype.kind == known.dtype.kind:
        return asked
    if known.dtype.kind == "U":
        return asked.astype(str)
    numbers = np.full(len(asked), np.iinfo(np.int64).min, np.int64)
    for position, name in enumerate(asked):
        digits = name[1:] if name.startswith("-") else name
        if digits.isdecimal() and len(digits) < 19 and str(int(name)) == name:
            numbers[position] = int(name)
    return numbers


def _joined(parts: list[Array]) -> Array:
    kinds = {part.dtype.kind for part in parts}
    return np.concatenate([part.astype(str) for part in parts] if len(kinds) > 1 else parts)


def _count(chunks: Iterable[Chunk]) -> tuple[tuple[Array, NDArray[np.int64]], tuple[Array, NDArray[np.int64]]]:
    """Distinct users and items in sorted order and how often each occurs, merged chunk by chunk."""
    users = items = (np.empty(0, np.int64), np.empty(0, np.int64))
    for chunk in chunks:
        users, items = _merged(users, chunk.users), _merged(items, chunk.items)
    return users, items


def _merged(known: tuple[Array, NDArray[np.int64]], more: Array) -> tuple[Array, NDArray[np.int64]]:
    fresh, times = np.unique(more, return_counts=True)
    if not len(known[0]):
        return fresh, times.astype(np.int64)
    ids, place = np.unique(_joined([known[0], fresh]), return_inverse=True)
    return ids, np.bincount(place, np.concatenate([known[1], times]), len(ids)).astype(np.int64)


def _starts(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])


def _empty(size: int, dtype: np.dtype[Any], folder: Path | None, name: str) -> Array:
    if folder is None:
        return np.empty(size, dtype)
    return np.memmap(folder / name, dtype, "w+", shape=(size,))


def _blocked_sum(values: Array) -> float:
    return float(sum(values[at : at + (1 << 22)].sum(dtype=np.float64) for at in range(0, len(values), 1 << 22)))


def _transpose(table: Compressed, columns: int, folder: Path | None) -> Compressed:
    counts = np.zeros(columns, np.int64)
    blocks = table.blocks(max(1, int(table.starts[-1]) >> 22))
    for low, high in blocks:
        counts += np.bincount(table.columns[table.starts[low] : table.starts[high]], minlength=columns)
    starts = _starts(counts)
    into = _empty(int(starts[-1]), np.dtype(np.int32), folder, "rows")
    values = _empty(int(starts[-1]), table.values.dtype, folder, "values-by-item")
    cursor = starts[:-1].copy()
    for low, high in blocks:
        part = slice(int(table.starts[low]), int(table.starts[high]))
        rows = np.repeat(np.arange(low, high), np.diff(table.starts[low : high + 1]))
        _scatter(table.columns[part].astype(np.int64), rows, table.values[part], cursor, into, values)
    return Compressed(starts, into, values)


@numba.njit(cache=True, nogil=True)
def _scatter(rows: Any, columns: Any, values: Any, cursor: Any, into: Any, kept: Any) -> None:
    for k in range(len(rows)):
        at = cursor[rows[k]]
        into[at] = columns[k]
        kept[at] = values[k]
        cursor[rows[k]] = at + 1


@numba.njit(cache=True, nogil=True)
def _merge_duplicates(starts: Any, columns: Any, values: Any) -> int:
    """Sort each row by column, average repeated columns, close the gaps; returns the number of ratings left."""
    write = 0
    begin = starts[0]
    for row in range(len(starts) - 1):
        end = starts[row + 1]
        starts[row] = write
        order = np.argsort(columns[begin:end])
        sorted_columns = columns[begin:end][order]
        sorted_values = values[begin:end][order]
        k = 0
        while k < len(order):
            total, times = 0.0, 0
            column = sorted_columns[k]
            while k < len(order) and sorted_columns[k] == column:
                total += sorted_values[k]
                times += 1
                k += 1
            columns[write] = column
            values[write] = total / times
            write += 1
        begin = end
    starts[len(starts) - 1] = write
    return write
