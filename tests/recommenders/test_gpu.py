"""The row kernel for GPUs against the compiled CPU kernels; runs on CUDA, or anywhere in Triton's interpreter.

Without a GPU: TRITON_INTERPRET=1 python -m pytest tests/recommenders/test_gpu.py
"""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch

from droptics.datasets import planted_ratings
from droptics.recommenders import DropoutCompletion, triton_normal, triton_rows
from droptics.recommenders.alternation import Effort, Strengths, alternate
from droptics.recommenders.ratings import Compressed, Observations, observations
from droptics.recommenders.sweepers import Device, Threads

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
pytestmark = [
    pytest.mark.skipif(bool(triton_rows.missing()), reason="needs triton"),
    pytest.mark.skipif(not torch.cuda.is_available() and not INTERPRETED, reason="needs a GPU or TRITON_INTERPRET=1"),
]
PLACE = "cuda" if torch.cuda.is_available() and not INTERPRETED else "cpu"


def device(kernel=True):
    engine = Device(PLACE, kernel=kernel)
    engine.kernel = kernel  # on the CPU the interpreter stands in for the compiler
    return engine


@pytest.fixture(scope="module")
def data():
    return observations(planted_ratings((30, 20, 250), rank=2, noise=0.5, seed=1))


def start(data, strengths):
    generator = np.random.default_rng(0)
    sides = []
    for count in (len(data.users), len(data.items)):
        side = np.zeros((count, strengths.columns), np.float32)
        side[:, : strengths.width] = 0.3 * generator.standard_normal((count, strengths.width))
        sides.append(side)
    return sides[0], sides[1]


CUTS = [(2048, 256), (2048, 3), (5, 3)]  # all rows are short, most are of middle length, most are cut


def cut(sizes, monkeypatch):
    """Narrow rows by normal equations, too, and rows that count as long or of middle length."""
    for name, value in zip(("NARROWEST", "PIECE", "SHORT"), (16, *sizes), strict=True):
        monkeypatch.setattr(triton_normal, name, value)


def check_against_the_compiled_kernel(data, strengths, rounding=0.0):
    """`rounding` is that of the mean square of the ratings, from which normal equations take what is explained."""
    ours, lines = alternate(device(), data, start(data, strengths), strengths, Effort(2, 3))
    same, others = alternate(Threads(1), data, start(data, strengths), strengths, Effort(2, 3))
    for left, right in zip(ours, same, strict=True):
        assert np.abs(left - right).max() <= 2e-4 * np.abs(right).max()
    slack = rounding * np.square(data.by_user.values, dtype=np.float64).mean()
    assert lines[-1].objective == pytest.approx(others[-1].objective, rel=1e-5, abs=slack)
    assert lines[-1].rmse ** 2 == pytest.approx(others[-1].rmse ** 2, rel=2e-5, abs=slack)


@pytest.mark.parametrize(
    "strengths",
    [
        Strengths(6, expected=1.2, bias=2.0),
        Strengths(6, empirical=0.4, expected=0.3, smoothing=0.5, bias=1.0),
        Strengths(6, weighted=0.1),
        Strengths(9, ridge=3.0, bias=0.5),
        Strengths(3),
    ],
)
@pytest.mark.parametrize("held", [1 << 14, 64, 8])  # all rows in registers, some, none
def test_kernel_equals_the_compiled_one(data, strengths, held, monkeypatch):
    monkeypatch.setattr(triton_normal, "WIDEST", 0)
    monkeypatch.setattr(triton_rows, "HELD", max(held, 16))
    monkeypatch.setattr(triton_rows, "TILE", max(held // 2, 16))
    check_against_the_compiled_kernel(data, strengths)


@pytest.mark.parametrize(
    "strengths",
    [
        Strengths(15, expected=1.2, bias=2.0),  # no column is left over
        Strengths(18, empirical=0.4, expected=0.3, smoothing=0.5, bias=1.0),
        Strengths(22, weighted=0.1),
        Strengths(17),
    ],
)
@pytest.mark.parametrize("sizes", CUTS)
def test_normal_equations_equal_the_compiled_kernel(data, strengths, sizes, monkeypatch):
    cut(sizes, monkeypatch)
    check_against_the_compiled_kernel(data, strengths, 2**-20)


def test_normal_equations_of_factors_and_ratings_of_any_size(data, monkeypatch):
    """Two numbers of 16 bits hold what float32 does, whatever the unit: nothing overflows or underflows."""
    cut((2048, 256), monkeypatch)
    strengths = Strengths(20, expected=0.5, bias=1.0)
    for size in (1e-12, 1e9):
        scaled = Observations(
            data.users,
            data.items,
            *(Compressed(t.starts, t.columns, t.values * np.float32(size)) for t in (data.by_user, data.by_item)),
            data.mean,
            data.low,
            data.high,
        )
        check_against_the_compiled_kernel(scaled, strengths, 2**-20)


@pytest.mark.parametrize("sizes", CUTS)
def test_normal_equations_keep_22_bits(data, sizes, monkeypatch):
    """One half-sweep against float64: 16 bits alone would be off by 2^-11, and so would a part that is left out."""
    cut(sizes, monkeypatch)
    strengths = Strengths(18, expected=0.3, bias=1.0)
    left, right = start(data, strengths)
    right[:, strengths.width] = right[:, 0]  # biases, too
    found = []
    for kernel, dtype in ((True, np.float32), (False, np.float64)):
        engine = device(kernel)
        table = Compressed(data.by_user.starts, data.by_user.columns, data.by_user.values.astype(dtype))
        free = engine.hold(left.astype(dtype))
        engine.solve(engine.load(table), engine.hold(right.astype(dtype)), free, strengths, data.by_item.counts, 3)
        found.append(engine.release(free))
    assert np.abs(found[0] - found[1]).max() <= 2**-16 * np.abs(found[1]).max()


def test_rows_without_ratings_become_zero():
    table = Compressed(np.array([0, 2, 2, 3]), np.array([0, 1, 1], np.int32), np.array([1.0, -1.0, 2.0], np.float32))
    strengths = Strengths(2, expected=1.0, bias=1.0)
    engine = device()
    free = engine.hold(np.ones((3, strengths.columns), np.float32))
    fixed = np.zeros((2, strengths.columns), np.float32)
    fixed[:, :2] = [[1.0, 0.5], [-0.5, 1.0]]
    engine.solve(engine.load(table), engine.hold(fixed), free, strengths, np.array([1, 2]), 3)
    assert not engine.release(free)[1].any()
    assert engine.release(free)[[0, 2]].any(1).all()


def test_exact_solves_and_double_precision_take_the_batched_path(data):
    for dtype, steps in ((np.float64, 3), (np.float32, 0)):
        mine = Observations(
            data.users,
            data.items,
            *(Compressed(t.starts, t.columns, t.values.astype(dtype)) for t in (data.by_user, data.by_item)),
            data.mean,
            data.low,
            data.high,
        )
        strengths = Strengths(4, expected=1.0, bias=1.0)
        sides = tuple(side.astype(dtype) for side in start(mine, strengths))
        first, _ = alternate(device(), mine, sides, strengths, Effort(1, steps))
        second, _ = alternate(Device(PLACE, kernel=False), mine, sides, strengths, Effort(1, steps))
        assert np.array_equal(first[0], second[0])


@pytest.mark.skipif(PLACE == "cpu", reason="needs a GPU")
@pytest.mark.parametrize("width", [5, 44, 70, 100, 127, 190])
def test_fit_on_a_gpu_is_the_fit_on_the_cpu(width):
    ratings = planted_ratings((400, 300, 30_000), rank=4, seed=2)
    there = DropoutCompletion(width, device="cuda").fit(ratings)
    here = DropoutCompletion(width).fit(ratings)
    assert there.objective_ == pytest.approx(here.objective_, rel=1e-4)
    same = (
        there.predict(ratings.users[:500], ratings.items[:500]),
        here.predict(ratings.users[:500], ratings.items[:500]),
    )
    assert np.abs(same[0] - same[1]).max() < 0.02
