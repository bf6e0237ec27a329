"""New ratings for a fitted completion: rows solved exactly with the other side fixed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from droptics.arrays import Array
from droptics.recommenders.interactions import extended
from droptics.recommenders.ratings import Compressed, say_duplicates
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
    given = np.stack([model._users(user_ids), model._items(item_ids)])
    (users, items), place, times = np.unique(given, axis=1, return_inverse=True, return_counts=True)
    if len(users) < len(values):
        say_duplicates(len(values) - len(users), len(values))
    centered = np.bincount(place.reshape(-1), (values - model.mean_) / model.scale_) / times
    model.range_ = (min(model.range_[0], float(values.min())), max(model.range_[1], float(values.max())))
    touched = np.unique(users)
    for user in touched:
        mine = users == user
        old_items, old_values = model._rated(int(user)) if model._seen is not None else (items[:0], centered[:0])
        keep = ~np.isin(old_items, items[mine])
        parts = (old_items[keep], items[mine]), (old_values[keep], centered[mine])
        model._fresh[int(user)] = tuple(map(np.concatenate, parts))
    sizes = len(model._users), len(model._items)
    counts = [np.pad(count, (0, size - len(count))) for count, size in zip(model._counts, sizes, strict=True)]
    left, right = model._sides(*sizes)
    rows = [model._fresh[int(user)] for user in touched]
    rows = [(columns[columns < known_items], values[columns < known_items]) for columns, values in rows]
    left[touched] = _solved(model, rows, right[:known_items], left[touched], counts[1][:known_items], len(left))
    counts[0][touched] = [len(model._fresh[int(user)][0]) for user in touched]
    fresh = np.arange(known_items, len(right))
    if len(fresh):
        rows = [(users[items == item], centered[items == item]) for item in fresh]
        right[fresh] = _solved(model, rows, left, right[fresh], counts[0], len(right))
        counts[1][fresh] = [len(raters) for raters, _ in rows]
    model._set_sides(left, right)
    model._counts = tuple(counts)


def _solved(
    model: Any, rows: list[tuple[Array, Array]], fixed: Array, start: Array, weights: Array, count: int
) -> Array:
    regressors, offsets, diagonals, _ = prepared(fixed, model.strengths_.scaled(model.scale_), weights, count)
    result = np.ascontiguousarray(start)
    table = Compressed.of(rows, fixed.dtype)
    solve_block(block_of(table, 0, table.rows), regressors, offsets, result, diagonals, 0)
    return result
