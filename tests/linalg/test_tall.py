"""Tall matrices through their second moments, against Householder reflections and fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from cases import normal

from droptics.data import Sample
from droptics.linalg import ranks, tall
from droptics.linalg.gram import gram
from droptics.linalg.ranks import distinct, independent
from droptics.linalg.scales import least_singular, powers_of_two
from droptics.linalg.sums import squares
from droptics.linalg.tall import orthogonal
from droptics.masks import Bernoulli
from droptics.models import TwoLayerLinear
from droptics.optima import certify, optimum
from droptics.spectra import coordinates

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]
N, D = 600, 6
X, Y = normal(N, D), normal(N, 3, seed=1)
# every seventh row is among those that a triangle is tried from; on them the first feature is small, and like another
FIRST = torch.where(torch.arange(N)[:, None] % 7 == 0, 0.1 * (X[:, 1:2] + X[:, :1]), X[:, :1])
ONES, CODES = torch.ones(N, 1).double(), torch.nn.functional.one_hot(torch.arange(N) % 3, 3).double()
KINDS = {
    "centered": X,
    "offset": X + 100,
    "far offset": X + 1e6,
    "other units": (X + 100) * 2.0 ** torch.tensor([-30, 0, 7, 30, 1, -3]),
    "correlated": X[:, :1] + 1e-5 * X,
    "powers": torch.linspace(-1, 1, N).double()[:, None] ** torch.arange(24),
    "many powers": torch.linspace(-1, 1, N).double()[:, None] ** torch.arange(45),
    "powers of many sizes": (1 / torch.linspace(1e-3, 1, N).double()[:, None]) ** (torch.arange(24) / 5),
    "alike on some rows": torch.cat([FIRST, X[:, 1:5], X[:, 4:5] + 1e-9 * X[:, 5:]], 1),
    "zero column": torch.cat([X, 0 * X[:, :1]], 1),
    "repeated": torch.cat([X, X[:, 1:3], -4 * X[:, :1]], 1),
    "one-hot": torch.cat([ONES, CODES, X], 1),
    "one-hot, offset": torch.cat([ONES, CODES, X + 100], 1),
    "rounded sum": torch.cat([X, X[:, :1] + X[:, 1:2] + X[:, 2:3]], 1),
    "rounded sum, offset": torch.cat([X + 100, X[:, :1] + X[:, 1:2] + X[:, 2:3] + 300], 1),
    "low rank": X[:, :2] @ normal(2, D, seed=2),
    "constant": ONES * X[:1],
    "four rows": X[torch.arange(N) % 4],
    "nothing": 0 * X,
}


@pytest.mark.parametrize("name", KINDS)
def test_rows_are_orthonormal_columns_times_a_triangle(name: str) -> None:
    rows = KINDS[name][:, KINDS[name].any(0)]
    if not rows.numel():
        return
    found = orthogonal(rows, 1 / N, gram(rows) / N)
    assert found is not None
    basis = found.rows @ found.turn
    units = powers_of_two(torch.linalg.vector_norm(rows / N**0.5, dim=0))
    level = least_singular(rows.shape[1])
    assert float(torch.linalg.matrix_norm(((rows - basis @ found.triangle) / N**0.5) / units)) <= 2 * level
    # eigenvalues of the last second moment are above 2^-20, and its sums are off by a few hundred roundings
    assert float((basis.mT @ basis / N - torch.eye(basis.shape[1])).abs().max()) <= 2.0**20 * N * 2.0**-52
    values = torch.linalg.svdvals(rows / units / N**0.5)
    other = torch.linalg.svdvals(found.triangle / units)
    assert float((values[: len(other)] - other).abs().max()) <= 2 * level
    assert not len(values) > len(other) or float(values[len(other)]) <= 2 * level


@pytest.mark.parametrize("name", ["many powers", "alike on some rows", "powers of many sizes"])
def test_some_rows_save_solves_where_they_say_what_all_are(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, solved = KINDS[name], []
    solve = tall._solved
    monkeypatch.setattr(tall, "_solved", lambda *given: solved.append(1) or solve(*given))
    assert orthogonal(rows, 1 / N, gram(rows) / N) is not None
    assert (len(solved) == 1) == (name == "many powers")


def by_reflections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinates, "TALL", N)


@pytest.mark.parametrize("weights", ["equal", "unequal"])
@pytest.mark.parametrize("noise", [1.0, 0.0])
@pytest.mark.parametrize("name", KINDS)
def test_the_optimum_is_that_of_reflections(
    name: str, noise: float, weights: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = KINDS[name]
    units = powers_of_two(torch.linalg.vector_norm(inputs, dim=0) / N**0.5)
    targets = noise * Y + (inputs / units) @ normal(inputs.shape[1], 3, seed=3)
    known = None if weights == "equal" else torch.arange(N).double() % 5
    data, masks = Sample(inputs, targets, known), Bernoulli(0.5, 4)
    found = optimum(TwoLayerLinear, data, masks)
    by_reflections(monkeypatch)
    other = optimum(TwoLayerLinear, data, masks)
    size = other.slack + 1e-9 * other.scale
    assert abs(found.objective - other.objective) <= size
    assert found.bound <= other.objective + 1e-12 * other.scale
    assert other.bound <= found.objective + 1e-12 * found.scale
    assert found.certified == other.certified or found.slack > 1e-10 * found.scale
    # the criterion of the weights as they are, by another route
    assert certify(found.model, data, masks).objective == pytest.approx(found.objective, abs=size)


@pytest.mark.parametrize("name", KINDS)
def test_columns_that_are_left_out_come_back(name: str) -> None:
    rows = KINDS[name]
    columns = independent(rows, None, rows, 1 / N, gram(rows) / N)
    back = rows[:, columns.kept] @ columns.mixing
    units = powers_of_two(torch.linalg.vector_norm(rows, dim=0) / N**0.5)
    assert (squares((rows - back) / units) / N) ** 0.5 <= columns.lost + 2.0**-50
    assert columns.lost <= least_singular(rows.shape[1]) * rows.shape[1] ** 0.5
    expected = {"zero column": 1, "repeated": 3, "one-hot": 1, "one-hot, offset": 1, "nothing": D}
    assert columns.proved == expected.get(name, 0)
    for place in range(rows.shape[1]) if columns.proved == rows.shape[1] - len(columns.kept) else []:
        for example in (0, 1, 17):
            terms = zip(rows[example, columns.kept].tolist(), columns.mixing[:, place].tolist(), strict=True)
            assert sum((Fraction(a) * Fraction(b) for a, b in terms), Fraction(0)) == Fraction(
                float(rows[example, place])
            )


@pytest.mark.parametrize("power", [-470, -500, -530])
def test_features_whose_squares_underflow_count(power: int) -> None:
    masks, units = Bernoulli(0.5, 4), 2.0 ** torch.tensor([0.0, power, 0, 0, 0, 0]).double()
    targets = X @ normal(D, 3, seed=3) + 0.1 * Y
    plain, found = (optimum(TwoLayerLinear, Sample(inputs, targets), masks) for inputs in (X, X * units))
    assert found.certified
    assert found.objective == pytest.approx(plain.objective, rel=1e-10)


def test_what_is_left_beside_a_rounded_sum_is_said_to_be_open() -> None:
    data = Sample(KINDS["rounded sum"], Y)
    found = optimum(TwoLayerLinear, data, Bernoulli(0.5, 4))
    assert not found.certified
    assert found.slack > 0.5 * found.scale


def test_rows_with_equal_sums_of_bits_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    class Zero:
        def integers(self, high: int, size: int) -> np.ndarray:
            return np.zeros(size, np.int64)

    rows = torch.tensor([[1.0, 3.0], [3.0, 1.0], [1.0, 3.0], [2.0, 6.0], [5.0, 7.0]]).double()
    assert distinct(rows.mT) == 3
    monkeypatch.setattr(ranks.np.random, "default_rng", lambda seed: Zero())
    assert distinct(rows.mT) == 3


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", [*KINDS, "many outputs"])
def test_every_device_answers_as_the_cpu(name: str, dtype: torch.dtype, device: str) -> None:
    inputs = KINDS.get(name, X).to(dtype)
    targets = normal(N, 300 if name == "many outputs" else 3, seed=1).to(dtype)
    weights = None if name == "offset" else (1 + torch.arange(N) % 5).to(dtype)
    data, masks = Sample(inputs, targets, weights), Bernoulli(0.5, 4)
    found, other = (optimum(TwoLayerLinear, data.to(device=where), masks) for where in (device, "cpu"))
    assert found.model.U.device.type == device
    size = found.slack + other.slack + 1e-9 * other.scale
    # weights rounded to float32 add to the criterion of what they multiply
    assert abs(found.objective - other.objective) <= (size if dtype == torch.float64 else size + 1e-4 * other.scale)
    assert max(found.bound, other.bound) <= min(found.objective, other.objective) + 1e-12 * other.scale
    assert found.certified == other.certified or found.slack > 1e-10 * found.scale
