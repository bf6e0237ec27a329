"""Whether a penalty bounds the predictions of a completion: a warning where some lie far beyond all ratings."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator

import numpy as np

from droptics.arrays import Array
from droptics.recommenders.answers import UnboundedPredictions


def say_unbounded(user_factors: Array, item_factors: Array, reach: float) -> None:
    """Warn when the root mean square of <u_i, v_j> over one user's or one item's pairs exceeds twice the range.

    Dropout on the observed entries alone, and no dropout, leave rows with few ratings free on other items. A rating
    lies within the range about the mean, and a bias takes off no more than the range. Over all pairs, where few biases
    are as large, the range itself is the limit. Without centering the factors carry the level of the ratings, too, and
    `reach` is the larger of range and level.
    """
    users, items = _second_moment(user_factors), _second_moment(item_factors)
    largest = max(_largest(user_factors, items), _largest(item_factors, users))
    if max(largest, 4 * float((users * items).sum())) > (2 * reach) ** 2:
        warnings.warn(
            f"predictions for one user, or of one item, lie {math.sqrt(largest):.3g} from mean and "
            f"biases, where all ratings lie within {reach:.3g}: the penalty does not bound them; "
            'use penalty="expected", a share of it, or a larger drop',
            UnboundedPredictions,
            stacklevel=4,
        )


def _second_moment(factors: Array) -> Array:
    """Mean of u u^T over rows, in float64 block by block."""
    return np.asarray(sum(block.T @ block for block in _in_float64(factors)) / len(factors))


def _largest(factors: Array, moment: Array) -> float:
    """The largest u^T M u over rows."""
    rows = (float(np.einsum("nk,nk->n", block @ moment, block).max()) for block in _in_float64(factors))
    return max(rows, default=0.0)


def _in_float64(factors: Array) -> Iterator[Array]:
    """Some rows at a time: a copy of all would be the largest array of a client."""
    return (factors[at : at + 4096].astype(np.float64) for at in range(0, len(factors), 4096))
