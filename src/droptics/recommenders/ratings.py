"""Ratings made ready for row solves: ids numbered by activity, both orders compressed, in memory or on disk."""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import torch
from numpy.typing import NDArray

from droptics.arrays import Array
from droptics.compiling import njit
from droptics.data import Entries
from droptics.datasets import Chunk, Ratings, read_chunks
from droptics.files.limits import from_home
from droptics.recommenders.extents import Extent, unit
from droptics.recommenders.ids import Lookup, as_ids, joined

Source = Any
"""Entries, Ratings, a scipy sparse matrix, a table of three columns, three arrays, chunks, or the path of a table."""

Counted = tuple[Array, NDArray[np.int64]]
"""Distinct ids in sorted order, and how often each occurs."""


class DuplicateRatings(UserWarning):
    """Some (user, item) pair was rated more than once; the mean of its ratings is used."""


@dataclass(frozen=True, eq=False)
class Compressed:
    """Ratings grouped by row: those of row i are `columns[starts[i]:starts[i+1]]` and `values[...]`."""

    starts: NDArray[np.int64]
    columns: NDArray[np.int32]
    values: Array

    @staticmethod
    def of(rows: Iterable[tuple[Array, Array]], dtype: np.dtype[Any]) -> Compressed:
        """Rows given as pairs of columns and values."""
        columns, values = zip(*rows, strict=True)
        starts = _starts(np.array([len(part) for part in columns]))
        return Compressed(starts, np.concatenate(columns).astype(np.int32), np.concatenate(values).astype(dtype))

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
        cuts = np.searchsorted(self.starts, np.linspace(0, self.starts[-1], count + 1)[1:-1])
        return list(pairwise(np.unique([0, *cuts, self.rows]).tolist()))


@dataclass(frozen=True, eq=False)
class Observations:
    """All ratings, minus their mean, compressed by user and by item; users and items are numbered by activity.

    The most active come first, so that blocks of rows need similar work and the factors read most often lie together.
    Values are (rating - mean) / scale, formed in float64; `scale` is 1 for ratings of ordinary size.
    """

    users: Lookup
    items: Lookup
    by_user: Compressed
    by_item: Compressed
    mean: float
    low: float
    high: float
    folder: Path | None = None
    scale: float = 1.0

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
    users, items, found = count(chunks())
    total = int(users[1].sum())
    if total == 0:
        raise ValueError("ratings must hold at least one rating, got none")
    middle = found.mean(total) if mean is None else mean
    scale = unit(found, middle, dtype)
    size = total * 2 * (4 + np.dtype(dtype).itemsize)
    folder = Path(tempfile.mkdtemp(prefix="droptics-")) if size > memory else None
    user_ids, item_ids = by_activity(users), by_activity(items)
    columns = _empty(total, np.dtype(np.int32), folder, "columns")
    values = _empty(total, np.dtype(dtype), folder, "values")
    by_user = compress(chunks(), (user_ids, users[1]), item_ids, (middle, scale), (columns, values))
    kept = int(by_user.starts[-1])
    if kept < total:
        say_duplicates(total - kept, total)
        if mean is None:
            middle += scale * recentered(by_user.values)
    by_item = _transpose(by_user, len(item_ids), folder)
    return Observations(user_ids, item_ids, by_user, by_item, float(middle), found.low, found.high, folder, scale)


def by_activity(found: Counted) -> Lookup:
    """Numbers for ids, the most frequent first."""
    return Lookup(found[0][np.argsort(-found[1], kind="stable")])


def compress(
    chunks: Iterable[Chunk],
    users: tuple[Lookup, NDArray[np.int64]],
    items: Lookup,
    scaling: tuple[float, float],
    into: tuple[Array, Array],
) -> Compressed:
    """Ratings by user, as (rating - mean) / unit with `scaling` = (mean, unit).

    `users` numbers them by activity and has their counts in the order of the ids. Pairs that repeat are averaged: fewer
    ratings than there is room for in `into` (columns, values) may come back.
    """
    starts = _starts(-np.sort(-users[1]))
    cursor = starts[:-1].copy()
    columns, values = into
    for part in chunks:
        # The mean goes before the cast: ratings of a large offset differ only in digits that float32 does not hold.
        centered = ((part.values - scaling[0]) / scaling[1]).astype(values.dtype)
        _scatter(users[0](part.users), items(part.items), centered, cursor, columns, values)
        let_go(columns, values)
    kept = begin = 0
    for low, high in Compressed(starts, columns, values).blocks(max(1, int(starts[-1]) >> 22)):
        end = int(starts[high])
        kept, begin = _merge_duplicates(starts[low:high], end, begin, kept, columns, values), end
        let_go(columns, values)
    starts[-1] = kept
    return Compressed(starts, columns[:kept], values[:kept])


def say_duplicates(repeated: int, total: int) -> None:
    """Warn that pairs were averaged."""
    text = f"{repeated} of {total} ratings repeat a (user, item) pair; each pair counts once, with its mean"
    warnings.warn(text, DuplicateRatings, stacklevel=4)


def recentered(values: Array) -> float:
    """Subtract the mean from values, in place; returns it."""
    blocks = [values[begin : begin + (1 << 22)] for begin in range(0, len(values), 1 << 22)]
    shift = float(sum(block.sum(dtype=np.float64) for block in blocks)) / len(values)
    for block in blocks:
        np.subtract(block, np.asarray(shift, values.dtype), out=block)
    return shift


def files(source: str | os.PathLike[str]) -> list[Path]:
    """The file at a path, or the Parquet files below a folder, in sorted order."""
    path = from_home(source)
    found = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
    if not found or not found[0].is_file():
        raise ValueError(f"ratings: no {'Parquet file in' if path.is_dir() else 'file'} {path}")
    return found


def chunked(source: Source, size: int = 1 << 24) -> Callable[[], Iterator[Chunk]]:
    """A function that starts a new pass over the ratings of any source, in chunks, each value checked to be finite."""
    if isinstance(source, (str, os.PathLike)):
        paths = files(source)
        return lambda: chain.from_iterable(read_chunks(path, size=size) for path in paths)
    users, items, values = triple(source)
    return lambda: iter([Chunk(users, items, values, 1)])


def triple(source: Source) -> tuple[Array, Array, NDArray[np.float64]]:
    """Users, items and ratings of a source as three arrays; refuses what cannot be read and what is not finite."""
    if isinstance(source, Entries):
        raw: tuple[Any, ...] = (source.rows, source.columns, source.values)
    elif isinstance(source, Ratings):
        raw = (source.users, source.items, source.values)
    elif scipy.sparse.issparse(source):
        found = source.tocoo()
        raw = (found.row, found.col, found.data)
    elif isinstance(source, (str, os.PathLike)) or (
        isinstance(source, list) and source and all(isinstance(part, Chunk) for part in source)
    ):
        parts = source if isinstance(source, list) else list(chunked(source, 1 << 22)())
        users, items = (joined([getattr(part, name) for part in parts]) for name in ("users", "items"))
        raw = (users, items, np.concatenate([part.values for part in parts]))
    elif hasattr(source, "columns") and hasattr(source, "iloc"):
        if source.shape[1] < 3:
            raise ValueError(f"ratings must have three columns (user, item, rating), got {list(source.columns)}")
        raw = tuple(source.iloc[:, i].to_numpy() for i in range(3))
    elif isinstance(source, (tuple, list)) and len(source) == 3:
        raw = tuple(source)
    else:
        kinds = "Entries, Ratings, a scipy sparse matrix, a three-column table, three arrays or a path"
        raise ValueError(f"ratings must be {kinds}, got {type(source).__name__}")
    users, items, values = as_ids(raw[0]), as_ids(raw[1]), _as_values(raw[2])
    if not len(users) == len(items) == len(values):
        raise ValueError(f"ratings: {len(users)} users, {len(items)} items and {len(values)} values do not match")
    return users, items, values


def _as_values(values: Any) -> NDArray[np.float64]:
    found = values.detach().cpu().double().numpy() if isinstance(values, torch.Tensor) else values
    try:
        numbers = np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("ratings must be numbers; convert or remove the entries that are not") from None
    bad = np.flatnonzero(~np.isfinite(numbers))
    if bad.size:
        got = f"{bad.size} NaN or infinite values, the first at position {int(bad[0])}"
        raise ValueError(f"ratings must be finite, got {got}; remove or impute them")
    return numbers


def count(chunks: Iterable[Chunk]) -> tuple[Counted, Counted, Extent]:
    """Distinct users and items in sorted order and how often each occurs, and the ratings' extent, chunk by chunk."""
    users = items = (np.empty(0, np.int64), np.empty(0, np.int64))
    extent = Extent()
    for chunk in chunks:
        users, items = _merged(users, chunk.users), _merged(items, chunk.items)
        extent = extent.with_chunk(chunk.values)
    return users, items, extent


def _merged(known: Counted, more: Array) -> Counted:
    fresh, times = np.unique(more, return_counts=True)
    if not len(known[0]):
        return fresh, times.astype(np.int64)
    ids, place = np.unique(joined([known[0], fresh]), return_inverse=True)
    return ids, np.bincount(place, np.concatenate([known[1], times]), len(ids)).astype(np.int64)


def _starts(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])


def _empty(size: int, dtype: np.dtype[Any], folder: Path | None, name: str) -> Array:
    if folder is None:
        return np.empty(size, dtype)
    return np.memmap(folder / name, dtype, "w+", shape=(size,))


def let_go(*arrays: Array) -> None:
    """Hand the pages of mapped files back: what they hold stays in the files, and memory is free for other blocks."""
    for array in arrays:
        if isinstance(array, np.memmap) and hasattr(mmap, "MADV_DONTNEED"):
            array._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]


def _transpose(table: Compressed, columns: int, folder: Path | None) -> Compressed:
    counts = np.zeros(columns, np.int64)
    blocks = table.blocks(max(1, int(table.starts[-1]) >> 22))
    for low, high in blocks:
        counts += np.bincount(table.columns[table.starts[low] : table.starts[high]], minlength=columns)
        let_go(table.columns)
    starts = _starts(counts)
    into = _empty(int(starts[-1]), np.dtype(np.int32), folder, "rows")
    values = _empty(int(starts[-1]), table.values.dtype, folder, "values-by-item")
    cursor = starts[:-1].copy()
    for low, high in blocks:
        part = slice(int(table.starts[low]), int(table.starts[high]))
        rows = np.repeat(np.arange(low, high), np.diff(table.starts[low : high + 1]))
        _scatter(table.columns[part].astype(np.int64), rows, table.values[part], cursor, into, values)
        let_go(table.columns, table.values, into, values)
    return Compressed(starts, into, values)


@njit(nogil=True)
def _scatter(rows: Any, columns: Any, values: Any, cursor: Any, into: Any, kept: Any) -> None:
    for k in range(len(rows)):
        at = cursor[rows[k]]
        into[at] = columns[k]
        kept[at] = values[k]
        cursor[rows[k]] = at + 1


@njit(nogil=True)
def _merge_duplicates(starts: Any, stop: int, begin: int, write: int, columns: Any, values: Any) -> int:
    """Sort each row by column, average repeated columns, close the gaps; returns where the next rating is written.

    The rows' ratings lie from `begin` to `stop` and go to `write` and beyond; `starts` begin there afterwards.
    """
    for row in range(len(starts)):
        end = starts[row + 1] if row + 1 < len(starts) else stop
        starts[row] = write
        order = np.argsort(columns[begin:end])
        sorted_columns, sorted_values = columns[begin:end][order], values[begin:end][order]
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
    return write
