"""Norms against their definitions and a convex solver."""

import itertools

import cvxpy
import numpy as np
import pytest
import torch
from cases import normal
from compare import close
from hypothesis import given, settings
from hypothesis import strategies as st

from droptics.models import Autoencoder, DeepLinear, TwoLayerLinear
from droptics.norms import k_support, nuclear, path_norm, weighted_trace


@given(st.integers(1, 7), st.integers(1, 8), st.integers(0, 10**6))
@settings(max_examples=15, deadline=None)
def test_k_support_against_a_convex_solver(count, k, seed):
    values = normal(count, seed=seed)
    if seed % 3 == 0:
        values = values.round()
    x = values[values != 0].abs().numpy()  # zeros need no share, and the solver only comes near one of zero
    if len(x) == 0:
        return
    t = cvxpy.Variable(len(x))
    loss = cvxpy.sum([float(entry**2) * cvxpy.inv_pos(t[i]) for i, entry in enumerate(x)])
    expected = cvxpy.Problem(cvxpy.Minimize(loss), [t <= 1, cvxpy.sum(t) <= k]).solve(solver=cvxpy.CLARABEL)
    assert float(k_support(values, k)) ** 2 == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_k_support_examples():
    # the printed rule (largest candidate) would give 5
    close(k_support(torch.ones(3).double(), 2) ** 2, 4.5)
    values = normal(6)
    close(k_support(values, 1), values.abs().sum())
    close(k_support(values, 6), values.norm())
    close(k_support(values, 20), values.norm())
    close(k_support(torch.zeros(3).double(), 2), 0.0, scale=1.0)
    batch = normal(2, 5)
    close(k_support(batch, 2), torch.stack([k_support(row, 2) for row in batch]))


@given(st.integers(2, 8), st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_k_support_order_and_sandwich(count, seed):
    values = normal(count, seed=seed).abs()
    norms = [float(k_support(values, k)) for k in range(1, count + 1)]
    for (k, first), second in zip(enumerate(norms[:-1], 1), norms[1:], strict=True):
        assert second <= first * (1 + 1e-12)
        assert k * first**2 <= (k + 1) * second**2 * (1 + 1e-12)
    for k, norm in enumerate(norms, 1):
        below = max(float(values.norm()), float(values.sum()) / k**0.5)
        assert below * (1 - 1e-12) <= norm <= 2**0.5 * below


def test_path_norm_sums_over_paths():
    weights = [normal(3, 2), normal(4, 3), normal(2, 4)]
    total = 0.0
    for path in itertools.product(range(2), range(3), range(4), range(2)):
        product = np.prod([float(weights[i][path[i + 1], path[i]]) for i in range(3)])
        total += product**2
    close(path_norm(DeepLinear(weights)) ** 2, total)
    paths = torch.einsum("ab,cb,dc->abcd", *(weight.abs() for weight in (weights[0].mT, weights[1], weights[2])))
    for power in (1.0, 1.5, 3.0):  # where a sign that is kept shows
        close(path_norm(weights, power), paths.pow(power).sum() ** (1 / power), 1e-12)
    model = TwoLayerLinear(normal(3, 4), normal(5, 4))
    close(path_norm(model) ** 2, (model.U.square().sum(0) * model.V.square().sum(0)).sum())
    tied = Autoencoder(normal(3, 4))
    close(path_norm(tied) ** 2, tied.U.square().sum(0).square().sum())
    with pytest.raises(ValueError, match="power"):
        path_norm(model, 0.0)
    with pytest.raises(ValueError, match=r"weights\[0\] must be a matrix .* got shape \(0, 3\)"):
        path_norm([torch.zeros(0, 3)])


@pytest.mark.parametrize(("dtype", "power"), [(torch.float64, 64.0), (torch.float32, 16.0)])
def test_path_norm_keeps_a_small_path_at_high_powers(dtype, power):
    weights = [torch.tensor(values, dtype=dtype) for values in ([[1.0, 0.5], [1e-6, 0.0]], [[0.0, 3.0]])]
    assert float(path_norm(weights, power)) == pytest.approx(3e-6, rel=1e-6)


def test_path_norm_of_no_flow_has_slope_zero():
    weights = [torch.zeros(2, 3).double().requires_grad_(), normal(2, 2).requires_grad_()]
    for slope in torch.autograd.grad(path_norm(weights), weights):
        close(slope, 0 * slope, scale=1.0)


def test_nuclear_and_weighted_trace():
    matrix = normal(4, 3)
    close(nuclear(matrix), torch.linalg.svdvals(matrix).sum())
    p, q = torch.rand(4).double(), torch.rand(3).double()
    close(weighted_trace(matrix, p, q), nuclear(torch.diag(p.sqrt()) @ matrix @ torch.diag(q.sqrt())))
    with pytest.raises(ValueError, match="row_weights"):
        weighted_trace(matrix, -p, q)
    with pytest.raises(ValueError, match="column_weights"):
        weighted_trace(matrix, p, p)


def test_matrices_of_a_batch_have_a_nuclear_norm_each():
    batch = normal(3, 2, 4, 5)
    roots = torch.linalg.eigvalsh(batch @ batch.mT).clamp_min(0).sqrt()  # four values, far from zero
    close(nuclear(batch), roots.sum(-1), 1e-12)
    assert nuclear(batch).shape == (3, 2)
