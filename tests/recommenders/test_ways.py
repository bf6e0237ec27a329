"""Every way to improve rows by conjugate gradients takes the same steps, not only ends at the same solution.

The Triton kernels run on CUDA, or anywhere in Triton's interpreter: TRITON_INTERPRET=1 python -m pytest
tests/recommenders/test_ways.py
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
import torch

from droptics.datasets import planted_ratings
from droptics.recommenders import DropoutCompletion, sweepers, triton_normal, triton_rows
from droptics.recommenders.alternation import Strengths, column_sums
from droptics.recommenders.partitioned import (
    _add,
    _apply_items,
    _descended,
    _descent,
    _direction,
    _reached_items,
    _start_items,
)
from droptics.recommenders.ratings import observations
from droptics.recommenders.rows import block_of, parts_of
from droptics.recommenders.sweepers import Device, Threads

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
PLACE = "cuda" if torch.cuda.is_available() and not INTERPRETED else "cpu"
KERNELS = not triton_rows.missing() and (PLACE == "cuda" or INTERPRETED)
kernels = pytest.mark.skipif(not KERNELS, reason="needs triton and a GPU, or TRITON_INTERPRET=1")
VARIANTS = {
    "expected": Strengths(15, expected=1.5),
    "smoothed, biases": Strengths(15, expected=1.2, smoothing=0.3, bias=2.0),
    "ALS-WR, biases": Strengths(15, weighted=0.3, bias=1.0),
    "ridge": Strengths(15, ridge=3.0),
    "empirical": Strengths(15, empirical=1.5),  # a row needs its own squares
    "mixed, biases": Strengths(15, empirical=0.4, expected=0.7, bias=0.5),
}


def problem(strengths, dtype):
    """Ratings, and factors of users and items that are far from balanced: columns and rows of many sizes."""
    data = observations(planted_ratings((30, 20, 250), rank=2, noise=0.5, seed=1), dtype)
    rng = np.random.default_rng(0)
    used = strengths.width + (strengths.bias is not None)
    sides = [np.zeros((count, strengths.columns), dtype) for count in (len(data.users), len(data.items))]
    for side in sides:
        side[:, :used] = rng.standard_normal((len(side), used)) * rng.uniform(0.2, 1.0, (len(side), 1))
    return data, *sides


def written_out(data, users, items, strengths, steps):
    """Items after so many preconditioned steps in float64, and the largest condition number of their systems."""
    width, used = strengths.width, strengths.width + (strengths.bias is not None)
    table, users, found, condition = data.by_item, users.astype(np.float64), items.astype(np.float64), 1.0
    regressors = users[:, :used].copy()
    if strengths.bias is not None:
        regressors[:, width] = 1
    squares = (regressors[table.columns] ** 2).mean(0)
    s, n_users = strengths.smoothing, data.by_user.counts
    level = ((1 - s) * n_users / data.count + s / len(users)) @ users[:, :width] ** 2
    for i in range(table.rows):
        part = slice(table.starts[i], table.starts[i + 1])
        R, y = regressors[table.columns[part]], table.values[part].astype(np.float64)
        own = (1 - s) * len(y) + s * data.count / table.rows
        D = np.full(used, strengths.bias or 0.0)
        D[:width] = own * strengths.expected * level + len(y) * strengths.weighted + strengths.ridge
        D[:width] += strengths.empirical * (R[:, :width] ** 2).sum(0)
        if strengths.bias is not None:
            y = y - users[table.columns[part], width]
        system = R.T @ R + np.diag(D)
        metric = D + ((R**2).sum(0) if strengths.empirical else len(y) * squares)
        roots = np.sqrt(np.outer(metric, metric))
        condition = max(condition, np.linalg.cond(system / roots))
        x = found[i, :used]
        r = R.T @ y - system @ x
        p, before = np.zeros(used), 1.0
        for step in range(steps):
            z = r / metric
            p = z + (z @ r / before if step else 0.0) * p
            before = z @ r
            alpha = before / (p @ system @ p)
            x += alpha * p
            r -= alpha * (system @ p)
    return found, condition


def by(engine):
    def solve(data, users, items, strengths, steps):
        free, fixed = engine.hold(items), engine.hold(users)
        engine.solve(engine.load(data.by_item), fixed, free, strengths, data.by_user.counts, steps)
        return engine.release(free)

    return solve


def by_workers(data, users, items, strengths, steps):
    """Two blocks of users, as the workers of a cluster hold them."""
    counts, cuts = data.by_user.counts, (0, 11, data.by_user.rows)
    spans = list(pairwise(cuts))
    blocks = [(block_of(data.by_user, *span), (users[slice(*span)],)) for span in spans]
    sums = reduce(_add, (column_sums(users[slice(*span)], counts[slice(*span)]) for span in spans))
    diagonals, _ = parts_of(sums, strengths, counts, len(items))
    passed = reduce(_add, (_start_items(*block, items, strengths) for block in blocks))
    state = _descent(passed, items, data.by_item.counts, diagonals)
    for _ in range(steps):
        p = _direction(state)
        state = _descended(state, p, reduce(_add, (_apply_items(*block, p, strengths) for block in blocks)))
    return _reached_items(state)[0]


def by_kernels(data, users, items, strengths, steps):
    engine = Device(PLACE)
    engine.kernel = True  # on the CPU the interpreter stands in for the compiler
    return by(engine)(data, users, items, strengths, steps)


def test_columns_without_ratings_become_zero():
    """Wherever they began."""
    passed = np.zeros((2, 3)), np.ones((2, 3)), 1.0
    state = _descent(passed, np.ones((2, 3)), np.array([0, 3]), np.full((3, 3), 0.5))
    assert np.array_equal(state.x, [[0, 0, 0], [1, 1, 1]])


WAYS = {
    "one thread": by(Threads(1)),
    "two threads": by(Threads(2)),
    "batches": by(Device(PLACE, kernel=False)),
    "small batches": by(Device(PLACE, 4096, kernel=False)),
    "workers": by_workers,
}


def check(solve, variant, steps, dtype):
    """Within the rounding of a row's sums, which every step multiplies by the condition number at most."""
    strengths = VARIANTS[variant]
    data, users, items = problem(strengths, dtype)
    wanted, condition = written_out(data, users, items, strengths, steps)
    found = solve(data, users, items, strengths, steps)
    terms = data.by_item.counts.max() + strengths.columns
    bound = terms * np.finfo(dtype).eps * condition**steps * np.abs(wanted).max()
    assert np.abs(found - wanted).max() <= bound


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("way", WAYS)
def test_every_way_takes_the_steps_that_are_written_out(way, variant, steps, dtype):
    check(WAYS[way], variant, steps, dtype)


@kernels
@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("held", [1 << 14, 64, 16])  # all rows in registers, some, none
def test_the_kernel_of_rows_takes_these_steps(held, variant, steps, monkeypatch):
    monkeypatch.setattr(triton_normal, "WIDEST", 0)
    monkeypatch.setattr(triton_rows, "HELD", held)
    monkeypatch.setattr(triton_rows, "TILE", max(held // 2, 16))
    check(by_kernels, variant, steps, np.float32)


@kernels
@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("sizes", [(2048, 256), (2048, 3), (5, 3)])  # rows are short, of middle length, cut
def test_normal_equations_take_these_steps(sizes, variant, steps, monkeypatch):
    for name, value in zip(("NARROWEST", "PIECE", "SHORT"), (16, *sizes), strict=True):
        monkeypatch.setattr(triton_normal, name, value)
    check(by_kernels, variant, steps, np.float32)


def test_few_ratings_start_no_threads_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starting threads takes milliseconds a half-sweep, more than the rows of few ratings."""
    started: list[int] = []

    class Counted(ThreadPoolExecutor):
        def __init__(self, count: int) -> None:
            started.append(count)
            super().__init__(count)

    monkeypatch.setattr(sweepers, "ThreadPoolExecutor", Counted)
    monkeypatch.setattr(sweepers, "cores", lambda: 2)
    data = (np.arange(20) % 5, np.arange(20) % 4, np.linspace(1.0, 5.0, 20))
    few = DropoutCompletion(2, 0.2, sweeps=3).fit(data)
    assert not started
    asked = DropoutCompletion(2, 0.2, sweeps=3, threads=2).fit(data)
    assert set(started) == {2}
    np.testing.assert_allclose(asked.predict(*data[:2]), few.predict(*data[:2]), rtol=1e-5)
    monkeypatch.setattr(sweepers, "FEW", 0)
    DropoutCompletion(2, 0.2, sweeps=3).fit(data)
    assert len(started) == 12
