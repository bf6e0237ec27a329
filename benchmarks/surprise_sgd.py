"""SVD and SVD++ with the iterations of scikit-surprise 1.1.5, compiled, the second at the cost of the first.

    python benchmarks/surprise_sgd.py

scikit-surprise takes the ratings user by user, and each step of its SVD++ moves the implicit factors of *all* items
the user rated by one and the same map y -> (1 - rate reg) y + shift. So the map is kept as a scale and a shift while
the user lasts, and applied once at the end: the same numbers up to rounding (run as a script, this file compares them
on ml-100k), and a fit on ml-1m takes seconds instead of minutes, which is what makes tuning it possible.
"""

from __future__ import annotations

import time

import numba
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
State = tuple[Array, Array, Array, Array, Array]


def fit(
    starts: NDArray[np.int64],
    items: NDArray[np.int32],
    values: Array,
    count: int,
    width: int,
    epochs: int,
    rate: float,
    regularization: float,
    implicit: bool,
    seed: int = 0,
) -> tuple[Array, Array, Array, Array]:
    """User and item biases, user factors (any implicit part added) and item factors, from ratings sorted by user.

    `starts` bounds each user's ratings, `count` is the number of items, `values` are ratings minus their mean;
    `implicit` makes it SVD++.
    """
    state = begin(len(starts) - 1, count, width, implicit, seed)
    advance(state, starts, items, values, epochs, rate, regularization, implicit)
    b, c, p, q, y = state
    for user in range(len(p) if implicit else 0):
        rated = items[starts[user] : starts[user + 1]]
        p[user] += y[rated].sum(0) / np.sqrt(max(len(rated), 1))
    return b, c, p, q


def begin(users: int, items: int, width: int, implicit: bool, seed: int = 0) -> State:
    """Biases, user and item factors, implicit factors (zero for SVD) before the first epoch."""
    generator = np.random.RandomState(seed)  # what scikit-surprise draws from, in its order
    p, q = (generator.normal(0, 0.1, (rows, width)) for rows in (users, items))
    y = generator.normal(0, 0.1, (items, width)) if implicit else np.zeros((items, width))
    return np.zeros(users), np.zeros(items), p, q, y


def advance(
    state: State,
    starts: NDArray[np.int64],
    items: NDArray[np.int32],
    values: Array,
    epochs: int,
    rate: float,
    regularization: float,
    implicit: bool,
) -> None:
    """So many epochs, in place."""
    for _ in range(epochs):
        _epoch(starts, items, values, *state, rate, regularization, implicit)


@numba.njit(cache=True, fastmath={"reassoc", "contract", "arcp", "nsz"})
def _epoch(starts, items, values, b, c, p, q, y, rate, regularization, implicit):  # type: ignore[no-untyped-def] # compiled
    width = p.shape[1]
    keep = 1.0 - rate * regularization
    total, shift, feedback = np.zeros(width), np.zeros(width), np.zeros(width)
    for user in range(len(starts) - 1):
        begin, end = starts[user], starts[user + 1]
        rated, root = end - begin, np.sqrt(max(end - begin, 1))
        total[:] = 0.0
        shift[:] = 0.0
        scale = 1.0
        if implicit:
            for m in range(begin, end):
                total += y[items[m]]
        for m in range(begin, end):
            item = items[m]
            dot = 0.0
            for f in range(width):
                feedback[f] = (scale * total[f] + rated * shift[f]) / root
                dot += q[item, f] * (p[user, f] + feedback[f])
            error = values[m] - (b[user] + c[item] + dot)
            b[user] += rate * (error - regularization * b[user])
            c[item] += rate * (error - regularization * c[item])
            for f in range(width):
                left, right = p[user, f], q[item, f]
                p[user, f] += rate * (error * right - regularization * left)
                q[item, f] += rate * (error * (left + feedback[f]) - regularization * right)
                if implicit:
                    shift[f] = keep * shift[f] + rate * error * right / root
            scale *= keep
        if implicit:
            for m in range(begin, end):
                for f in range(width):
                    y[items[m], f] = scale * y[items[m], f] + shift[f]


def compare() -> None:
    """Both on ml-100k, width 20, 5 epochs: largest difference of any number, and the times."""
    import pandas as pd  # noqa: PLC0415 - only where it is installed
    from surprise import SVD, Dataset, Reader, SVDpp  # noqa: PLC0415 - only where it is installed

    from droptics.datasets import movielens  # noqa: PLC0415 - only for the comparison

    ratings = movielens("ml-100k")
    frame = pd.DataFrame({"u": ratings.users, "i": ratings.items, "r": ratings.values.astype(np.float64)})
    trainset = Dataset.load_from_df(frame, Reader(rating_scale=(1, 5))).build_full_trainset()
    lists = [trainset.ur[user] for user in range(trainset.n_users)]
    starts = np.concatenate([[0], np.cumsum([len(rated) for rated in lists])])
    items = np.array([item for rated in lists for item, _ in rated], np.int32)
    values = np.array([value for rated in lists for _, value in rated]) - trainset.global_mean
    options = {"n_factors": 20, "n_epochs": 5, "lr_all": 0.01, "reg_all": 0.05, "random_state": 0}
    for name, theirs in (("SVD", SVD(**options)), ("SVD++", SVDpp(**options, cache_ratings=True))):
        implicit = name == "SVD++"
        fit(starts, items, values, trainset.n_items, 20, 1, 0.01, 0.05, implicit)  # compile
        first = time.process_time()
        theirs.fit(trainset)
        middle = time.process_time()
        ours = fit(starts, items, values, trainset.n_items, 20, 5, 0.01, 0.05, implicit)
        end = time.process_time()
        factors = theirs.pu.copy()
        for user, rated in enumerate(lists if implicit else []):
            factors[user] += theirs.yj[[item for item, _ in rated]].sum(0) / np.sqrt(len(rated))
        both = zip(ours, (theirs.bu, theirs.bi, factors, theirs.qi), strict=True)
        gap = max(float(np.abs(mine - other).max()) for mine, other in both)
        print(f"{name}: largest difference {gap:.1e}; {middle - first:.2f} s there, {end - middle:.2f} s here")


if __name__ == "__main__":
    compare()
