"""Rotations, shrinkage and Krylov bounds against definitions, convex solvers and full decompositions."""

import itertools
import math
import re
from pathlib import Path

import cvxpy
import numpy as np
import pytest
import scipy.sparse
import torch
from cases import normal
from compare import close
from hypothesis import given, settings
from hypothesis import strategies as st

from droptics import linalg
from droptics.linalg import (
    allocate,
    equalize_columns,
    equalize_columns_,
    equalizer,
    gram,
    hadamard_equalizer,
    k_support_shrink,
    krylov,
    leading,
    psd_inverse_root,
    psd_root,
    schur_horn,
    shrink,
    shrink_unequal,
)
from droptics.linalg.krylov import Krylov, Operator, upper_values
from droptics.linalg.leading import _vectors, leading_eigen
from droptics.linalg.scales import powers_of_two
from droptics.linalg.shrinkage import threshold
from droptics.linalg.sums import BLOCK, products
from droptics.norms import k_support

EPS = 2.0**-52
DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine")),
]


def factors():
    """Name, U (d, r): generic, tall, wide, rank one, zero columns, zero, scaled over 12 decades, equal already."""
    yield "square", normal(7, 7)
    yield "tall", normal(9, 4)
    yield "wide", normal(3, 8)
    yield "one-column", normal(5, 1)
    yield "one-row", normal(1, 6)
    yield "rank-one", torch.outer(normal(5), normal(6))
    yield "zero-columns", normal(5, 6) * torch.tensor([1.0, 0, 0, 1, 0, 1], dtype=torch.float64)
    yield "one-live-column", normal(5, 6) * torch.tensor([0.0, 0, 1, 0, 0, 0], dtype=torch.float64)
    yield "zero", torch.zeros(4, 5, dtype=torch.float64)
    yield "decades", normal(6, 12) * torch.logspace(0, -12, 12, dtype=torch.float64)
    yield "identity", torch.eye(6, dtype=torch.float64)
    yield "wide-exponential", normal(40, 500) * torch.logspace(0, -4, 500, dtype=torch.float64)


@pytest.mark.parametrize(("name", "U"), list(factors()), ids=[name for name, _ in factors()])
@pytest.mark.parametrize("device", DEVICES)
def test_equalized_columns(name, U, device):
    U = U.to(device)
    V = normal(3, U.shape[1], seed=1).to(device)
    before = U.clone()
    equal, companion = equalize_columns(U, V)
    assert torch.equal(U, before)
    norms = equal.square().sum(0)
    mean = float(U.square().sum()) / U.shape[1]
    # a norm is a sum of d squares, rotated twice: a few units of rounding each
    close(norms, torch.full_like(norms, mean), relative=64 * EPS, scale=mean or 1.0)
    close(equal @ equal.mT, U @ U.mT, relative=64 * EPS, scale=float(U.square().sum()) or 1.0)
    # the companion was turned by the same rotation
    close(equal @ companion.mT, U @ V.mT, relative=64 * EPS, scale=float(U.norm() * V.norm()) or 1.0)


def test_error_stays_at_rounding_level_for_large_widths():
    for width in (1024, 4096):
        U = normal(20, width) * torch.logspace(0, -6, width, dtype=torch.float64)
        (equal,) = equalize_columns(U)
        norms = equal.square().sum(0)
        assert float((norms / norms.mean() - 1).abs().max()) < 1e-14


@pytest.mark.parametrize("stored", ["rows", "columns"])
def test_in_place(stored):
    U = normal(6, 9) if stored == "rows" else normal(9, 6).mT
    expected = U @ U.mT
    pointer = U.data_ptr()
    result = equalize_columns_(U)
    assert result is U
    assert U.data_ptr() == pointer
    norms = U.square().sum(0)
    close(norms, norms.mean().expand(9), relative=64 * EPS)
    close(U @ U.mT, expected)
    with pytest.raises(ValueError, match="gradient"):
        equalize_columns_(normal(2, 2).requires_grad_())


def test_batches_equal_their_members():
    U = normal(2, 3, 4, 5)
    (equal,) = equalize_columns(U)
    for i, j in itertools.product(range(2), range(3)):
        close(equal[i, j], equalize_columns(U[i, j])[0])
    grams = U.mT @ U
    rotations = equalizer(grams)
    diagonal = torch.diagonal(rotations.mT @ grams @ rotations, dim1=-2, dim2=-1)
    close(diagonal, diagonal.mean(-1, keepdim=True).expand_as(diagonal), relative=1e-13)


def test_float32_and_gradients():
    U = normal(5, 8).float()
    (equal,) = equalize_columns(U)
    assert equal.dtype == torch.float32
    norms = equal.square().sum(0)
    close(norms, norms.mean().expand(8), relative=64 * 2.0**-23)
    live = normal(5, 8).requires_grad_()
    (turned,) = equalize_columns(live)
    close(turned.square().sum(0), turned.square().sum(0).mean().expand(8))
    weight = normal(5, 8, seed=3)
    (gradient,) = torch.autograd.grad((turned * weight).sum(), live)
    # the rotation is a constant: the gradient is weight Q^T, of the same norm
    close(gradient.norm(), weight.norm())


@given(st.integers(1, 12), st.integers(0, 10**6), st.booleans())
@settings(max_examples=60, deadline=None)
def test_equalizer_of_any_symmetric_matrix(size, seed, indefinite):
    root = normal(size, size, seed=seed)
    gram = root + root.mT if indefinite else root @ root.mT
    rotation = equalizer(gram)
    close(rotation.mT @ rotation, torch.eye(size, dtype=torch.float64), relative=1e-14 * size)
    diagonal = torch.diagonal(rotation.mT @ gram @ rotation)
    close(diagonal, (torch.trace(gram) / size).expand(size), relative=1e-13, scale=float(gram.norm()))


def test_equalizer_at_512():
    spectrum = 10 * torch.exp(-4 * torch.arange(512, dtype=torch.float64) / 512)
    basis = torch.linalg.qr(normal(512, 512)).Q
    gram = (basis * spectrum) @ basis.mT
    rotation = equalizer(gram)
    diagonal = torch.diagonal(rotation.mT @ gram @ rotation)
    assert float((diagonal / diagonal.mean() - 1).abs().max()) < 1e-13


@pytest.mark.parametrize("size", [1, 2, 4, 64])
def test_hadamard(size):
    Z = hadamard_equalizer(size)
    close(Z @ Z.mT, torch.eye(size, dtype=torch.float64), relative=1e-15 * size)
    spectrum = normal(size).square()
    close(torch.diagonal(Z.mT @ torch.diag(spectrum) @ Z), spectrum.mean().expand(size), relative=1e-15 * size)
    U = normal(3, size)
    basis = torch.linalg.svd(U, full_matrices=True).Vh.mT
    norms = (U @ basis @ Z).square().sum(0)
    close(norms, norms.mean().expand(size), relative=1e-13)
    if size >= 4:
        # the printed recursion (2^{(1-k)/2} at every level) is not orthogonal from size four on
        printed = torch.ones(1, 1, dtype=torch.float64)
        for level in range(2, size.bit_length() + 1):
            printed = 2.0 ** ((1 - level) / 2) * torch.cat(
                [torch.cat([printed, printed], 1), torch.cat([-printed, printed], 1)], 0
            )
        assert float((printed @ printed.mT - torch.eye(size, dtype=torch.float64)).abs().max()) > 0.4


def test_hadamard_refuses_other_sizes():
    with pytest.raises(ValueError, match="power of two"):
        hadamard_equalizer(6)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bool, torch.int64, torch.complex64])
def test_hadamard_refuses_numbers_that_are_not_floating(dtype):
    with pytest.raises(ValueError, match=f"dtype floating, got 2, {dtype}"):
        hadamard_equalizer(2, dtype)  # of eight bits without a sign -1 is 255


@given(st.integers(1, 15), st.integers(0, 10**6), st.sampled_from(["mixed", "zeros", "ties", "permuted", "flat"]))
@settings(max_examples=100, deadline=None)
def test_schur_horn(size, seed, kind):
    values = normal(size, seed=seed)
    if kind == "zeros":
        values[: size // 2] = 0
    if kind == "ties":
        values = values.round()
    order = torch.randperm(size, generator=torch.Generator().manual_seed(seed))
    weights = torch.rand(4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    wanted = values[order]
    if kind == "mixed":  # averages of permutations are majorized
        shifts = [values.roll(k)[order] for k in range(4)]
        wanted = sum(w * s for w, s in zip(weights / weights.sum(), shifts, strict=True))
    if kind == "flat":
        wanted = values.mean().expand(size)
    rotation = schur_horn(values, wanted)
    scale = float(values.abs().max()) or 1.0
    close(rotation.mT @ rotation, torch.eye(size, dtype=torch.float64), relative=1e-14 * size)
    close(torch.diagonal(rotation.mT @ torch.diag(values) @ rotation), wanted, relative=1e-14 * size, scale=scale)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("values", "diagonal"),
    [
        ([2.0, 1.0], [2.5, 0.5]),  # the largest entry alone
        ([2.0, 1.0], [2.0 + 1e-4, 1.0 - 1e-4]),
        ([4.0, 1.0, 1.0], [3.0, 2.5, 0.5]),  # the two largest together, and neither alone
        ([1.0, -1.0, 3.0], [-1.5, 3.0, 1.5]),  # in any order
        ([0.0, 0.0], [1.0, -1.0]),
        ([2.0, 1.0], [1.0, 1.0]),  # the sum is less
        ([2.0, 1.0], [2.0, 1.5]),  # the sum is more
    ],
)
def test_schur_horn_refuses_what_schur_forbids(values, diagonal, dtype):
    with pytest.raises(ValueError, match="majorized"):
        schur_horn(torch.tensor(values, dtype=dtype), torch.tensor(diagonal, dtype=dtype))


def best_by_support(values, strength, width):
    """The shrinkage problem by trying every support, with the KKT system of each."""
    best = np.inf, None
    for size in range(min(width, len(values)) + 1):
        for support in itertools.combinations(range(len(values)), size):
            x = np.zeros(len(values))
            if size:
                matrix = np.eye(size) + strength / width * np.ones((size, size))
                x[list(support)] = np.maximum(np.linalg.solve(matrix, values[list(support)]), 0)
            loss = ((values - x) ** 2).sum() + strength / width * x.sum() ** 2
            if loss < best[0] - 1e-13:
                best = loss, x
    return best


@given(st.integers(1, 6), st.integers(1, 7), st.integers(0, 10**6), st.sampled_from([0.0, 1e-3, 0.5, 1.0, 30.0, 1e6]))
@settings(max_examples=80, deadline=None)
def test_shrink_against_all_supports(count, width, seed, strength):
    values = normal(count, seed=seed) * 2
    if seed % 3 == 0:
        values = values.round()
    shrunk = shrink(values, strength, width)
    loss = float((values - shrunk).square().sum() + strength / width * shrunk.sum().square())
    expected, x = best_by_support(values.numpy(), strength, width)
    assert loss == pytest.approx(expected, rel=1e-12, abs=1e-12)
    distinct = len(set(values.tolist())) == count
    if distinct:
        close(shrunk, x, relative=1e-12, scale=float(values.abs().max()) or 1.0)


def test_shrink_examples():
    # the printed soft threshold would keep two values at width one
    close(shrink(torch.tensor([2.0, 1.0]).double(), 0.1, 1), [20 / 11, 0.0])
    close(shrink(torch.ones(2).double(), 1.0, 2), [0.5, 0.5])
    # lambda exactly at the boundary where the second value is about to enter: it stays out, and would be zero
    close(shrink(torch.tensor([1.0, 1 / 3], dtype=torch.float64), 1.0, 2), [2 / 3, 0.0])
    close(shrink(torch.tensor([-1.0, -2.0]).double(), 0.3, 2), [0.0, 0.0])
    batch = normal(2, 3, 5).abs()
    close(shrink(batch, 0.4, 3)[1, 2], shrink(batch[1, 2], 0.4, 3))
    assert shrink(batch.float(), 0.4, 3).dtype == torch.float32
    values = torch.tensor([3.0, 2.0, 0.1], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: shrink(v, 0.4, 2), (values,))
    with pytest.raises(ValueError, match="strength"):
        shrink(values, -1.0, 2)


@given(st.integers(1, 7), st.integers(1, 6), st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_unequal_rates_against_a_convex_solver(count, width, seed):
    values = normal(count, seed=seed).abs() * 2
    rates = normal(width, seed=seed + 1).square() * 2
    if seed % 4 == 0:
        rates[0] = 0.0
    if seed % 5 == 0:
        rates[:] = rates.mean()
    shrunk, shares = shrink_unequal(values, rates)
    assert float((shrunk.sum() - shares.sum()).abs()) <= 1e-12 * float(values.sum())
    found = float((values - shrunk).square().sum() + (rates * shares.square()).sum())
    x, n = cvxpy.Variable(width), cvxpy.Variable(width)
    top = np.zeros(max(width, count))
    top[:count] = values.sort(descending=True).values.numpy()
    constraints = [x >= 0, cvxpy.sum(x) == cvxpy.sum(n)]
    constraints += [x[i] >= x[i + 1] for i in range(width - 1)]
    constraints += [cvxpy.sum(n[:i]) <= cvxpy.sum(x[:i]) for i in range(1, width)]
    ordered = rates.sort().values.numpy()
    loss = cvxpy.sum_squares(top[:width] - x) + cvxpy.sum(cvxpy.multiply(ordered, cvxpy.square(n)))
    expected = cvxpy.Problem(cvxpy.Minimize(loss), constraints).solve(solver=cvxpy.CLARABEL) + (top[width:] ** 2).sum()
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-6)
    assert found <= expected + 1e-7 * float(values.square().sum())  # the solver stops at its accuracy, never below
    again = allocate(shrunk, rates)
    close((rates * again.square()).sum(), (rates * shares.square()).sum(), relative=1e-9, scale=found + 1e-12)


def test_unequal_rates_reduce_to_equal_ones():
    values = normal(6).abs()
    close(shrink_unequal(values, torch.full((4,), 0.7, dtype=torch.float64))[0], shrink(values, 0.7, 4))
    shrunk, shares = shrink_unequal(values, torch.zeros(3, dtype=torch.float64))
    close(shrunk.sort().values[-3:], values.sort().values[-3:])
    close(shares.sort().values, values.sort().values[-3:])
    with pytest.raises(ValueError, match="strengths"):
        allocate(values, -torch.ones(2))


def all_pairs(values, beta, k):
    """The corrected closed form over all pairs, judged by the true norm."""
    ordered = np.sort(np.abs(values))[::-1]
    best = np.inf
    for rho in range(1, k + 1):
        for last in range(rho - 1, len(ordered) + 1):
            x = np.zeros(len(ordered))
            x[: rho - 1] = ordered[: rho - 1] / (1 + beta)
            room = (k - rho + 1) + beta * (last - rho + 1)
            x[rho - 1 : last] = np.maximum(ordered[rho - 1 : last] - beta * ordered[rho - 1 : last].sum() / room, 0)
            loss = ((ordered - x) ** 2).sum() + beta * float(k_support(torch.from_numpy(x), k)) ** 2
            best = min(best, loss)
    return best


@given(st.integers(1, 9), st.integers(1, 6), st.integers(0, 10**6), st.sampled_from([0.0, 0.01, 0.7, 5.0, 1e3]))
@settings(max_examples=80, deadline=None)
def test_k_support_shrink_against_all_pairs(count, k, seed, beta):
    values = normal(count, seed=seed)
    if seed % 3 == 0:
        values = (2 * values).round() / 2  # ties and zeros
    shrunk = k_support_shrink(values, beta, k)
    loss = float((values - shrunk).square().sum() + beta * k_support(shrunk, k) ** 2)
    assert loss <= all_pairs(values.numpy(), beta, k) + 1e-12 * (1 + float(values.square().sum()))
    assert bool((shrunk * values >= 0).all())
    close(k_support_shrink(values.clone().requires_grad_(), beta, k), shrunk, relative=1e-12, scale=1.0)


def test_nothing_is_shrunk_by_strength_zero():
    """More values than k, one of them as large as what is left of all: no share is divided among none."""
    for values in (torch.tensor([1.0, 3e-16, 1e-17]).double(), normal(6).abs().sort(descending=True).values):
        assert torch.equal(k_support_shrink(values, 0.0, 2), values)


def test_k_support_shrink_against_a_convex_solver():
    for count, k, beta in ((5, 2, 0.7), (8, 3, 0.1), (6, 6, 2.0), (4, 9, 1.0)):
        values = normal(count, seed=k).abs()
        x, t = cvxpy.Variable(count), cvxpy.Variable(count)
        loss = cvxpy.sum_squares(values.numpy() - x) + beta * cvxpy.sum(
            [cvxpy.quad_over_lin(x[i], t[i]) for i in range(count)]
        )
        problem = cvxpy.Problem(cvxpy.Minimize(loss), [t >= 0, t <= 1, cvxpy.sum(t) <= k])
        problem.solve(solver=cvxpy.CLARABEL)
        close(k_support_shrink(values, beta, k), x.value, relative=1e-4, scale=1.0)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 4)])
@pytest.mark.parametrize("derivative", [False, True])
def test_k_support_shrink_of_no_values_is_none(shape, derivative):
    values = torch.empty(shape, dtype=torch.float64, requires_grad=derivative)
    assert k_support_shrink(values, 1.0, 2).shape == shape


def test_k_support_shrink_special_cases():
    values = normal(7)
    close(k_support_shrink(values, 0.3, 1).abs(), shrink(values.abs(), 0.3 * 7, 7))  # k = 1 is the nuclear case
    close(k_support_shrink(values, 0.3, 7), values / 1.3)
    close(k_support_shrink(torch.zeros(3).double(), 0.3, 2), torch.zeros(3))
    close(k_support_shrink(torch.tensor([3.0, 1.0]).double(), 1.0, 2), [1.5, 0.5])
    batch = normal(2, 3, 6)
    close(k_support_shrink(batch, 0.4, 2)[1, 0], k_support_shrink(batch[1, 0], 0.4, 2))
    live = torch.tensor([3.0, 2.0, -1.5, 0.2], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: k_support_shrink(v, 0.5, 2), (live,))
    beta = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda b: k_support_shrink(live.detach(), b, 2), (beta,))


@pytest.mark.parametrize("kind", ["dense", "numpy", "sparse", "scipy", "operator"])
def test_operators_agree(kind):
    dense = normal(30, 20) * (normal(30, 20, seed=1) > 0.5)
    matrix = {
        "dense": dense,
        "numpy": dense.numpy(),
        "sparse": dense.to_sparse(),
        "scipy": scipy.sparse.csr_matrix(dense.numpy()),
        "operator": scipy.sparse.linalg.aslinearoperator(dense.numpy()),
    }[kind]
    operator = Operator.of(matrix)
    close(operator.times(normal(20, 3)), dense @ normal(20, 3))
    close(operator.transposed(normal(30, 3)), dense.mT @ normal(30, 3))
    assert operator.energy == pytest.approx(float(dense.square().sum()), rel=1e-14)


def test_operators_refuse():
    with pytest.raises(ValueError, match="matrix"):
        Operator.of("no matrix")
    with pytest.raises(ValueError, match="floating"):
        Operator.of(torch.ones(2, 2, dtype=torch.long))
    with pytest.raises(ValueError, match="finite"):
        Operator.of(torch.tensor([[float("nan")]]))


@pytest.mark.parametrize("spectrum", ["signal", "power", "ties", "flat"])
def test_krylov_bounds_enclose_the_values(spectrum):
    size = 300
    i = torch.arange(size, dtype=torch.float64)
    values = {
        "signal": torch.where(i < 10, 10 - i / 2, torch.exp(-i / 100)),
        "power": 1 / (i + 1),
        "ties": torch.where(i < 40, 2.0, 1.0).double(),
        "flat": torch.ones(size, dtype=torch.float64),
    }[spectrum]
    left, right = (torch.linalg.qr(normal(size + 5 * k, size, seed=k)).Q for k in (1, 2))
    matrix = (left * values) @ right.mT
    run = Krylov(Operator.of(matrix), block=8, seed=0)
    for _ in range(7):
        run.grow()
        ritz = run.ritz()
        basis = ritz.basis
        close(basis.mT @ basis, torch.eye(run.size, dtype=torch.float64), relative=1e-13)
        close(ritz.images, matrix.mT @ basis, relative=1e-13, scale=10.0)
        # residuals against their definition
        rest = matrix - basis @ (basis.mT @ matrix)
        _, right_vectors = ritz.triples(5)
        close(np.diag(ritz.residual)[:5].copy(), (rest @ right_vectors).square().sum(0), relative=1e-9, scale=1.0)
        found = ritz.found()
        deflated = matrix - left_vectors_all(ritz, found) @ (left_vectors_all(ritz, found).mT @ matrix)
        bound = run.rest_bound(ritz, found)
        truth = float(torch.linalg.matrix_norm(deflated, 2))
        assert truth <= bound <= 1.7 * truth
        upper = upper_values(ritz, found, bound, bound * 1.01, 12)
        assert bool((upper >= values[:12].numpy() * (1 - 1e-12)).all())
        assert bool((ritz.values[:12] <= values[: min(12, run.size)].numpy() * (1 + 1e-12)).all())


def left_vectors_all(ritz, count):
    return ritz.basis @ ritz.vectors[:, :count]


def test_the_bound_on_the_rest_fails_as_rarely_as_it_says(monkeypatch):
    """A value that the basis has not met shows in the test vectors but for the chance that is stated, over all degrees.

    At 6 %: 100 runs fail 16 times with probability 3e-4, and each of the 12 degrees alone may take all of it.
    """
    monkeypatch.setattr(krylov, "FAILURE", 0.06)
    left, right = (torch.linalg.qr(normal(size, 40, seed=size)).Q for size in (60, 50))
    matrix = (left * torch.tensor([1.3, *[1.0] * 39]).double()) @ right.mT
    failed = []
    for seed in range(100):
        run = Krylov(Operator.of(matrix), block=1, seed=seed)
        run.grow()
        failed.append(run.rest_bound(run.ritz(), 0) < 1.3)
    assert sum(failed) < 16


def test_krylov_runs_to_the_end():
    matrix = normal(20, 12) @ torch.diag(torch.tensor([1.0] * 5 + [0.0] * 7, dtype=torch.float64))
    run = Krylov(Operator.of(matrix), block=5)
    while run.size < run.limit:
        run.grow()
    ritz = run.ritz()
    assert ritz.complete
    close(ritz.values, torch.linalg.svdvals(matrix), relative=1e-7, scale=1.0)
    assert run.rest_bound(ritz, len(ritz.values)) == 0.0


def test_psd_root_of_singular_matrices():
    factor = normal(5, 2)
    matrix = factor @ factor.mT
    close(psd_root(matrix) @ psd_root(matrix), matrix)


SPECTRA = {
    "decaying": np.exp(-np.arange(60) / 8.0),
    "all equal": np.ones(60),
    "tie across the cut": np.r_[2.0, np.ones(40), np.zeros(19)],
    "zero": np.zeros(60),
    "almost equal": np.r_[1 + 1e-13 * np.arange(25), np.zeros(35)],
    "many scales": 10.0 ** (-np.arange(60) / 3.0),
}


class TestLeadingEigen:
    """The wanted eigenpairs against the full decomposition, ties and splits included."""

    @pytest.mark.parametrize("name", sorted(SPECTRA))
    @pytest.mark.parametrize("rotated", [True, False])
    @pytest.mark.parametrize("count", [1, 20, 30, 31, 60])
    def test_residual_and_orthogonality(self, name, rotated, count):
        spectrum = SPECTRA[name]
        basis = np.linalg.qr(np.random.default_rng(0).normal(size=(60, 60)))[0] if rotated else np.eye(60)
        matrix = (basis * spectrum) @ basis.T
        matrix = (matrix + matrix.T) / 2
        values, vectors = leading_eigen(matrix, count)
        rounding = 60 * 2.3e-16
        assert np.abs(values - np.sort(spectrum)[::-1][:count]).max() <= rounding * max(spectrum.max(), 1e-300)
        assert np.abs(vectors.T @ vectors - np.eye(count)).max() <= rounding
        assert np.abs(matrix @ vectors - vectors * values).max() <= rounding * spectrum.max()

    def test_entries_so_small_that_inverse_iteration_misses_are_decomposed_all_the_same(self):
        """A power of two changes values by itself and vectors not at all: compared with the matrix without it."""
        matrix = np.random.default_rng(0).normal(size=(40, 40))
        matrix = matrix + matrix.T
        values, vectors = leading_eigen(2.0**-1000 * matrix, 3)
        expected = np.linalg.eigvalsh(matrix)[::-1]
        rounding = 40 * 40 * 2.3e-16 * np.abs(expected).max()
        assert np.abs(2.0**1000 * values - expected[:3]).max() <= rounding
        assert np.abs(vectors.T @ vectors - np.eye(3)).max() <= 40 * 40 * 2.3e-16
        assert np.abs(matrix @ vectors - vectors * expected[:3]).max() <= rounding

    @pytest.mark.parametrize("size", [32, 61])
    def test_inverse_iteration_is_enough_for_up_to_half_of_the_vectors(self, size, monkeypatch):
        """The full decomposition, behind which wrong vectors would be hidden, is not called."""
        matrix = np.random.default_rng(size).normal(size=(size, size))
        matrix = matrix + matrix.T
        expected = np.linalg.eigvalsh(matrix)[::-1]
        rounding = size * size * EPS * np.abs(expected).max()
        monkeypatch.setattr(np.linalg, "eigh", lambda matrix: pytest.fail("a full decomposition"))
        for count in (1, size // 4, size // 2):
            values, vectors = leading_eigen(matrix, count)
            assert np.abs(values - expected[:count]).max() <= rounding
            assert np.abs(matrix @ vectors - vectors * values).max() <= rounding

    def test_full_decomposition_steps_in(self, monkeypatch):
        monkeypatch.setattr(leading, "_vectors", lambda *arguments: np.inf)
        matrix = np.diag(np.arange(40.0))
        values, vectors = leading_eigen(matrix, 3)
        assert values.tolist() == [39.0, 38.0, 37.0]
        assert np.abs(matrix @ vectors - vectors * values).max() <= 40 * 40 * 2.3e-16


@pytest.mark.parametrize("function", [psd_root, psd_inverse_root])
@pytest.mark.parametrize("spectrum", [[3.0, 2.0, 0.5], [2.0, 2.0, 1.0], [1.0, 1.0, 1.0]])
def test_roots_are_differentiable_where_values_coincide(function, spectrum):
    basis = torch.linalg.qr(normal(3, 3)).Q
    matrix = ((basis * torch.tensor(spectrum, dtype=torch.float64)) @ basis.mT).requires_grad_()
    assert torch.autograd.gradcheck(lambda m: function((m + m.mT) / 2), (matrix,), atol=1e-6)


@pytest.mark.parametrize("inverse", [False, True])
def test_root_of_a_singular_matrix_moves_within_its_rank(inverse):
    """Along U diag(s) U^T with U turned by a small angle: the derivative is that of the turned root."""
    values = torch.tensor([4.0, 1.0, 0.0], dtype=torch.float64)
    function = psd_inverse_root if inverse else psd_root
    powers = torch.where(values > 0, values ** (-0.5 if inverse else 0.5), 0.0)
    generator = normal(3, 3)
    skew = generator - generator.mT

    def turned(spectrum, angle):
        rotation = torch.linalg.matrix_exp(angle * skew)
        return (rotation * spectrum) @ rotation.mT

    direction = (turned(values, 1e-6) - turned(values, -1e-6)) / 2e-6
    expected = (turned(powers, 1e-6) - turned(powers, -1e-6)) / 2e-6
    matrix = torch.diag(values).requires_grad_()
    probe = normal(3, 3, seed=1)
    probe = probe + probe.mT
    (gradient,) = torch.autograd.grad((function(matrix) * probe).sum(), matrix)
    close((gradient * direction).sum(), (expected * probe).sum(), relative=1e-7, scale=float(expected.norm()))


def test_krylov_outgrows_the_room_it_was_given():
    matrix = normal(60, 50)
    run = Krylov(Operator.of(matrix), block=4)
    while run.size < run.limit:
        run.grow()
    assert run.steps == 13
    ritz = run.ritz()
    close(ritz.basis.mT @ ritz.basis, torch.eye(run.size, dtype=torch.float64), relative=1e-12)
    close(ritz.values, torch.linalg.svdvals(matrix), relative=1e-11)


def test_energies_that_overflow_are_refused():
    with pytest.raises(ValueError, match="finite squared norm, got inf; scale it down"):
        Operator.of(torch.full((2, 2), 1e200, dtype=torch.float64))
    single = torch.full((2, 2), 2.0**100)  # squares that float32 does not hold are added in double precision
    for matrix in (single, single.to_sparse()):
        assert Operator.of(matrix).energy == pytest.approx(4 * 2.0**200, rel=1e-14)


def test_in_place_rotation_refuses_what_it_would_break():
    with pytest.raises(ValueError, match="must not require a gradient to be changed in place"):
        equalize_columns_(normal(3, 2).requires_grad_())
    with pytest.raises(ValueError, match="gram must be square"):
        equalizer(normal(3, 2))
    with pytest.raises(ValueError, match="values must be a vector"):
        k_support_shrink(torch.tensor(1.0), 0.5, 2)
    with pytest.raises(ValueError, match="values must"):
        k_support_shrink(torch.tensor([1.0, math.nan]), 0.5, 2)


def test_columns_of_the_wanted_norm_are_exchanged_or_left_alone():
    """The mean is met on the way by the carrier (which takes another's place) and by a column (which is skipped)."""
    for diagonal in ([0.0, 1.0, 3.0, 4.0], [1.0, 2.0, 3.0], [2.0, 2.0, 2.0]):
        gram = torch.diag(torch.tensor(diagonal, dtype=torch.float64))
        rotation = equalizer(gram)
        close(rotation.mT @ rotation, torch.eye(len(diagonal), dtype=torch.float64), relative=1e-15 * 4)
        close(torch.diagonal(rotation.mT @ gram @ rotation), torch.full((len(diagonal),), 2.0), relative=1e-15 * 4)
        close(equalize_columns(gram.sqrt())[0].square().sum(0), torch.full((len(diagonal),), 2.0), relative=1e-15 * 4)


@given(st.lists(st.floats(-2, 5), min_size=1, max_size=8), st.floats(0, 20), st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_threshold_is_that_of_shrink(values, strength, width):
    ordered = np.sort(np.array(values))[::-1].copy()
    rank, level = threshold(ordered, strength, width)
    shrunk = shrink(torch.from_numpy(ordered), strength, width).numpy()
    np.testing.assert_allclose(np.r_[ordered[:rank] - level, np.zeros(len(ordered) - rank)], shrunk, atol=1e-12)


def test_vectors_that_are_lost_are_reported():
    rows = np.zeros((2, 4))
    rows[:, 0] = 1.0
    assert not leading._orthonormalize(rows, 1, 0)  # the second row is the first one again
    lost = np.full(5, np.nan)
    assert leading._vectors(lost, lost[1:], np.zeros(1), np.empty((1, 5))) == np.inf


@pytest.mark.parametrize("shape", [(7, 1), (3, 5), (40, 9)])
@pytest.mark.parametrize("way", [gram.gram, gram._by_panels])
def test_gram_matrices_by_symmetry(shape, way):
    rows = normal(*shape)
    found = way(rows)
    close(found, rows.mT @ rows, relative=1e-14, scale=float(rows.square().sum()))
    if way is gram._by_panels:  # the square on the diagonal is as symmetric as the processor's products
        width = -(-shape[1] // gram.PANELS)
        assert torch.equal(found[width:, :width], found[:width, width:].mT)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_what_cannot_be_equalized_is_refused_untouched(bad, batch):
    factor = normal(*batch, 4, 3)
    factor[..., 2, 1] = bad
    before = factor.clone()
    for call in (equalize_columns, equalize_columns_, lambda U: equalize_columns(U.clone().requires_grad_())):
        with pytest.raises(ValueError, match=r"factor must be finite.*\(.*2, 1\)"):
            call(factor)
    torch.testing.assert_close(factor, before, rtol=0, atol=0, equal_nan=True)
    with pytest.raises(ValueError, match=r"companions\[0\] must be finite"):
        equalize_columns(normal(*batch, 4, 3), factor)
    with pytest.raises(ValueError, match="factor is too large"):
        equalize_columns(normal(*batch, 4, 3) * 1e200)


def test_whoever_decides_a_rank_takes_the_units_out_first():
    """Roots of features in different units have no digits for small ones: who calls them equilibrates, or says why."""
    # units of one layer have equal energies by construction; what papers print is checked as it is printed
    reasons = {"envelopes/deep_linear.py", "linalg/roots.py", "linalg/__init__.py"}
    package = Path(linalg.__file__).parents[1]
    found = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if re.search(r"psd_(eigen|root|inverse_root)\(", text := path.read_text()) and "equilibrate(" not in text
    }
    assert {name for name in found if not name.startswith("papers/")} <= reasons


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_powers_of_two_of_numbers_of_any_shape(dtype):
    for shape in ((), (1,), (2, 3)):
        values = normal(6, dtype=dtype).abs()[: math.prod(shape)].reshape(shape)
        found = powers_of_two(values)
        assert found.shape == values.shape
        assert bool(((values < found) & (found <= 2 * values)).all())
        assert torch.equal(torch.frexp(found).mantissa, torch.full_like(found, 0.5))


@pytest.mark.parametrize("shape", [(BLOCK + 1, 3), (2, BLOCK + 1, 3), (2, 5, 3 * BLOCK + 7, 3), (4, 6, 70)], ids=str)
def test_products_of_stacks_are_those_of_their_members(shape):
    """Without derivatives they are computed by NumPy, the wider matrix on either side."""
    left, right = normal(*shape), normal(*shape[:-1], 4, seed=1)
    wanted = torch.einsum("...ni,...nj->...ij", left, right)
    close(products(left, right), wanted, relative=1e-12, scale=float(shape[-2]))
    close(products(right, left), wanted.mT, relative=1e-12, scale=float(shape[-2]))


@pytest.mark.parametrize("count", [BLOCK, BLOCK + 1, 3 * BLOCK + 7])
def test_products_of_many_examples_have_derivatives(count):
    """Blocks of rows and what is left of them, value and slope, against the product at once."""
    left, right = normal(2, count, 3).requires_grad_(), normal(2, count, 4)
    wanted = left.mT @ right
    found = products(left, right)
    close(found, wanted, relative=1e-12, scale=float(count))
    slopes = [torch.autograd.grad(value.square().sum(), left)[0] for value in (found, wanted)]
    close(*slopes, relative=1e-12, scale=float(count))


@pytest.mark.parametrize("derivative", [False, True])
def test_companions_turn_with_the_factor(derivative):
    U, V, W = normal(2, 4, 3), normal(2, 5, 3), normal(2, 1, 3)
    given = U.clone().requires_grad_() if derivative else U
    turned = [part.detach() for part in equalize_columns(given, V, W)]
    for (one, first), (two, second) in itertools.product(zip(turned, (U, V, W), strict=True), repeat=2):
        close(one @ two.mT, first @ second.mT)
    close(turned[0].square().sum(-2), (U.square().sum((-2, -1)) / 3)[:, None].expand(2, 3))


@pytest.mark.parametrize("size", [1.0, 1e-9, 1e9])
def test_inverse_iteration_needs_no_other_route(size):
    """The residual is relative to the matrix, whatever its size, and at rounding level for a regular one."""
    diagonal, beside = size * normal(40).numpy(), size * normal(39).numpy()
    dense = np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)
    values, rows = np.linalg.eigvalsh(dense)[::-1][:5].copy(), np.empty((5, 40))
    told = _vectors(diagonal, beside, values, rows)
    scale = np.abs(diagonal).max() + 2 * np.abs(beside).max()
    close(told, np.abs(dense @ rows.T - rows.T * values).max() / scale, relative=1e-15, scale=1.0)
    assert told <= 4e-15
    bad = values + 1e-3 * size
    assert _vectors(diagonal, beside, bad, rows) > 1e-6


def test_columns_that_are_even_up_to_rounding_stay_so():
    """Products are taken afresh after columns that need no turn: a rotation by a stale one would make norms uneven."""
    rows = [(1.0 + EPS, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 0.0), (1.0, 0.0)]
    for order in dict.fromkeys(itertools.permutations(rows)):
        factor = torch.tensor(order, dtype=torch.float64).mT
        (equal,) = equalize_columns(factor)
        close(equal.square().sum(0), torch.ones(5).double(), relative=64 * EPS, scale=1.0)
        close(equal @ equal.mT, factor @ factor.mT, relative=64 * EPS, scale=5.0)


@pytest.mark.parametrize("factor", [0.0, 1e-120, 1.0])
def test_little_is_left_of_a_map_of_which_all_is_found(factor):
    """Of nothing at all, too: its square must not be divided by."""
    matrix = torch.zeros(9, 11, dtype=torch.float64)
    matrix[1, 2], matrix[0, 4] = 3.0 * factor, -2.0 * factor
    run = Krylov(Operator.of(matrix), block=4)
    run.grow()
    assert run.rest_bound(run.ritz(), 2) <= 1e-6 * (factor or 1.0)
    assert 2.0 * factor <= run.rest_bound(run.ritz(), 1) <= 2.1 * factor + 1e-140
