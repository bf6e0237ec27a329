"""New ratings for a fitted completion: rows solved exactly with the other side fixed."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from droptics.arrays import Array
from droptics.recommenders.interactions import extended
from droptics.recommenders.ratings import Compressed, DuplicateRatings
from droptics.recommenders.rows import block_of, prepared, solve_block


def fold_in(model: Any, ratings: tuple[Array, Array, NDArray[np.float64]]) -> None:
    """Solve the rows of the users in `ratings`, then those of items never seen before, in place.

    Ratings of a known user are added to the ones stored, a repeated pair takes the new value.
    """
    user_ids, item_ids, values = ratings
    if not len(values):
        raise ValueError("ratings must hold at least one rating, got none")
    known_items = len(model._items)
    model._users = extended(model._users, user_ids)
    model._items = extended(model._items, item_ids)
    users, items = model._users(user_ids), model._items(item_ids)
    users, items, centered = _averaged(users, items, (values - model.mean_) / model.scale_)
    model.range_ = (min(model.range_[0], float(values.min())), max(model.range_[1], float(values.max())))
    touched = np.unique(users)
    for user in touched:
        mine = users == user
        old_items, old_values = model._rated(int(user)) if model._seen is not None else (items[:0], centered[:0])
        keep = ~np.isin(old_items, items[mine])
        model._fresh[int(user)] = (
            np.concatenate([old_items[keep], items[mine]]),
            np.concatenate([old_values[keep], centered[mine]]),
        )
    sizes = len(model._users), len(model._items)
    counts = [np.pad(count, (0, size - len(count))) for count, size in zip(model._counts, sizes, strict=True)]
    left, right = model._sides(len(model._users), len(model._items))
    table = _table([model._fresh[int(user)] for user in touched], known_items, right.dtype)
    left[touched] = _solved(model, table, right[:known_items], left[touched], counts[1][:known_items], len(left))
    counts[0][touched] = [len(model._fresh[int(user)][0]) for user in touched]
    fresh = np.arange(known_items, len(right))
    if len(fresh):
        rows = [(users[items == item], centered[items == item]) for item in fresh]
        right[fresh] = _solved(model, _table(rows, len(left), right.dtype), left, right[fresh], counts[0], len(right))
        counts[1][fresh] = [len(raters) for raters, _ in rows]
    model._set_sides(left, right)
    model._counts = tuple(counts)


def _averaged(users: Array, items: Array, values: Array) -> tuple[Array, Array, Array]:
    pairs, place, times = np.unique(np.stack([users, items]), axis=1, return_inverse=True, return_counts=True)
    if pairs.shape[1] < len(values):
        warnings.warn(
            f"{len(values) - pairs.shape[1]} of {len(values)} ratings repeat a (user, item) pair; their mean is used",
            DuplicateRatings,
            stacklevel=5,
        )
    return pairs[0], pairs[1], np.bincount(place.reshape(-1), values) / times


def _table(rows: list[tuple[Array, Array]], limit: int, dtype: np.dtype[Any]) -> Compressed:
    """Compressed rows of (columns, values), columns from `limit` on left out."""
    kept = [(columns[columns < limit], values[columns < limit]) for columns, values in rows]
    starts = np.concatenate([[0], np.cumsum([len(columns) for columns, _ in kept])]).astype(np.int64)
    columns = np.concatenate([columns for columns, _ in kept]).astype(np.int32)
    return Compressed(starts, columns, np.concatenate([values for _, values in kept]).astype(dtype))


def _solved(model: Any, table: Compressed, fixed: Array, rows: Array, weights: Array, count: int) -> Array:
    regressors, offsets, diagonals, _ = prepared(fixed, model.strengths_.scaled(model.scale_), weights, count)
    result = np.ascontiguousarray(rows)
    solve_block(block_of(table, 0, table.rows), regressors, offsets, result, diagonals, 0)
    return result
