"""Exact leave-one-out for linear autoencoders: a user, and one of her items, taken out without a refit.

With C = (X^T X + diag(gamma))^-1, t = C x of a user with row x, s = <x, t>, the model without her has

    C' x = t / (1 - s),     c' = c + t^2 / (1 - s)     (its diagonal),

and hiding item j of her row gives C' (x - x_j e_j) = t - x_j C_j + (s - x_j t_j) / (1 - s) t. The regularizers gamma
are held fixed. Each is O(items) once t is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from droptics.arguments import DropRate
from droptics.arrays import Array
from droptics.compiling import njit
from droptics.recommenders.low_rank import LowRank
from droptics.recommenders.metrics import Mean, mean_of
from droptics.recommenders.precision import Precision
from droptics.recommenders.ratings import Compressed

Diagonal = Literal["zero", "free"] | DropRate


@dataclass(frozen=True)
class LeaveOneOut:
    """What is left of a fit when a user is taken out of it.

    Attributes:
        gain: Mean of 1 / log2(1 + rank) of an item hidden from a user the model never saw, among her unseen items.
        squared: Mean over users and items of the squared error of predicting her whole row, each item from the others
            as the model's diagonal allows.
        pairs: Number of hidden pairs.
    """

    gain: Mean
    squared: Mean
    pairs: int


def scales(diagonal: Diagonal, gamma: Array, variances: Array) -> Array:
    """The factors sigma of the columns of C in the weights W = I - C diag(sigma).

    "free" minimizes the dropout loss (sigma = gamma), "zero" under a zero diagonal (sigma = 1 / c), and a number xi
    under |diag W| <= xi (sigma = max(gamma, (1 - xi) / c)).
    """
    if diagonal == "free":
        return gamma
    if diagonal == "zero":
        return 1 / variances  # never below gamma
    return np.maximum(gamma, (1 - float(diagonal)) / variances)


def sample_pairs(rows: Compressed, pairs: int, seed: int) -> tuple[Array, Array]:
    """Users with at least two items, each with positions of items to hide: five per user, or more if users are few."""
    counts = rows.counts
    able = np.flatnonzero(counts > 1)
    if not len(able):
        raise ValueError("leave-one-out needs users with at least two items; give drop and ridge instead")
    generator = np.random.default_rng(seed)
    users = np.sort(generator.choice(able, min(len(able), -(-pairs // 5)), replace=False))
    each = -(-pairs // len(users))
    found = [
        (user, place)
        for user in users
        for place in generator.choice(counts[user], min(each, int(counts[user])), replace=False)
    ]
    chosen = np.array(found, np.int64)
    return chosen[:, 0], chosen[:, 1]


def leave_one_out(
    precision: Precision | LowRank,
    gamma: Array,
    diagonals: Sequence[Diagonal],
    rows: Compressed,
    pairs: tuple[Array, Array],
) -> list[LeaveOneOut]:
    """Both criteria on hidden pairs (users, positions within their rows), users ascending; one for each diagonal."""
    variances = precision.variances
    users = np.unique(pairs[0])
    named = {"zero": 0.0, "free": 1.0}
    bounds = np.array([named[kind] if isinstance(kind, str) else float(kind) for kind in diagonals])
    gains: list[Array] = []
    squares: list[list[Array]] = [[] for _ in diagonals]
    for at in range(0, len(users), 512):
        block = users[at : at + 512]
        x = dense(rows, block, len(precision))
        t = precision.times(x).astype(np.float64)
        rest = 1 - np.einsum("un,un->u", x, t)
        for kind, found in zip(diagonals, squares, strict=True):
            found.append(np.square(residuals(t, rest, gamma, kind, variances)).mean(1))
        mine = (pairs[0] >= block[0]) & (pairs[0] <= block[-1])
        owners, places = np.searchsorted(block, pairs[0][mine]), pairs[1][mine]
        items = rows.columns[rows.starts[block[owners]] + places]
        gains.append(_gains(x, t, rest, gamma, variances, bounds, owners, items, precision.rows(items)))
    every = np.concatenate(gains, 1)
    return [
        LeaveOneOut(mean_of(gain), mean_of(np.concatenate(square)), len(gain))
        for gain, square in zip(every, squares, strict=True)
    ]


@njit(nogil=True)
def _gains(
    x: Any, t: Any, rest: Any, gamma: Any, variances: Any, bounds: Any, owners: Any, items: Any, inverse: Any
) -> Any:
    """1 / log2(1 + rank) of every hidden pair, for every bound on the diagonal; `inverse` has the pairs' rows of C."""
    found = np.empty((len(bounds), len(owners)))
    left, variance = np.empty(x.shape[1]), np.empty(x.shape[1])
    for pair in range(len(owners)):
        owner, item = owners[pair], items[pair]
        row, value = t[owner], x[owner, item]
        factor = 1 + (1 - rest[owner] - value * row[item]) / rest[owner]
        for j in range(len(left)):
            left[j] = factor * row[j] - value * np.float64(inverse[pair, j])
            variance[j] = variances[j] + row[j] * row[j] / rest[owner]
        for kind in range(len(bounds)):
            share = 1 - bounds[kind]
            own = -left[item] * max(gamma[item], share / variance[item])
            rank = 1
            for j in range(len(left)):
                if x[owner, j] == 0:
                    score = -left[j] * max(gamma[j], share / variance[j])
                    if score > own or (score == own and j < item):
                        rank += 1
            found[kind, pair] = 1 / np.log2(1 + rank)
    return found


def residuals(t: Array, rest: Array, gamma: Array, diagonal: Diagonal, variances: Array) -> Array:
    """x_uj minus its prediction by the model without user u, for whole rows: t / (1 - s) times the scales of C'."""
    without = t / rest[:, None]
    return without * scales(diagonal, gamma, variances + t * without)


def dense(rows: Compressed, index: Array, columns: int, dtype: Any = np.float64) -> Array:
    """Some rows of a table as a dense array."""
    found = np.zeros((len(index), columns), dtype)
    for row, user in zip(found, index, strict=True):
        part = slice(int(rows.starts[user]), int(rows.starts[user + 1]))
        row[rows.columns[part]] = rows.values[part]
    return found
