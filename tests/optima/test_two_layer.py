"""Closed-form optima: against a convex solver, against descent from 50 starts, and on every edge case."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
import torch
from cases import entries, normal, sample, singular_moments, weighted_sample
from compare import close
from descent import descend, descend_two_layer
from hypothesis import given, settings
from hypothesis import strategies as st

from droptics.data import Entries, Measurements, Moments, Sample
from droptics.envelopes import envelope, induced
from droptics.equalization import imbalance
from droptics.errors import CertificateError, NoClosedForm
from droptics.linalg.scales import equilibrate
from droptics.masks import Bernoulli, Block, Gaussian
from droptics.models import Autoencoder, Factorization, TwoLayerLinear
from droptics.optima import Optimum, certify, optimal_factors, optimum, optimum_of_map, two_layer
from droptics.optima.optimum import check_certified
from droptics.penalties import criterion, penalty

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine")),
]


def strength(value, width):
    """The dropout law with lambda = value."""
    return Bernoulli(value / (1 + value), width)


def certified(found, relative=1e-12):
    assert found.certified
    assert abs(found.gap) <= relative * max(found.scale, abs(found.objective)), found.gap
    return found


def problems():
    """Name, data, law: every kind of data, rates equal and unequal, all widths around the rank."""
    unequal = Bernoulli(torch.tensor([0.1, 0.8, 0.3], dtype=torch.float64), 3)
    one_free = Bernoulli(torch.tensor([0.0, 0.5, 0.7, 0.5], dtype=torch.float64), 4)
    steep = Gaussian(torch.tensor([1e-3, 5.0, 5.0], dtype=torch.float64), 3)
    yield "sample", sample(), Bernoulli(0.4, 2)
    yield "weighted", weighted_sample(), Bernoulli(0.3, 3)
    yield "moments", Moments.of_sample(weighted_sample()), Bernoulli(0.3, 3)
    yield "singular", singular_moments(), Bernoulli(0.5, 3)
    yield "few-examples", Sample(normal(3, 5), normal(3, 2)), Bernoulli(0.5, 4)
    yield "wide", sample(), Bernoulli(0.6, 7)
    yield "one-output", sample(outputs=1), Bernoulli(0.5, 3)
    yield "one-input", sample(features=1), Bernoulli(0.5, 3)
    yield "width-one", sample(), Bernoulli(0.5, 1)
    yield "unequal", sample(), unequal
    yield "one-unit-never-dropped", sample(), one_free
    yield "steep-rates", Moments.of_map(torch.diag(torch.tensor([3.0, 2.0, 1.0], dtype=torch.float64))), steep
    yield "gaussian", sample(), Gaussian(0.7, 3)
    yield "strong", sample(), Bernoulli(0.99, 3)


@pytest.mark.parametrize(("name", "data", "masks"), list(problems()), ids=[name for name, _, _ in problems()])
def test_never_beaten_from_fifty_starts(name, data, masks):
    found = certified(optimum(TwoLayerLinear, data, masks))
    moments = data if isinstance(data, Moments) else Moments.of_sample(data)
    reached = descend_two_layer(moments, masks.characteristic, starts=50)
    size = max(found.scale, abs(found.objective))
    assert float(reached.min()) >= found.objective - 1e-10 * size
    # the optimum is also attained: some start comes down to it
    assert float(reached.min()) <= found.objective + 1e-6 * size
    assert found.rank == int(torch.linalg.matrix_rank(found.model.matrix(), rtol=1e-9))


def test_agrees_with_a_convex_solver():
    cvxpy = pytest.importorskip("cvxpy")
    for width, rate in ((6, 1.0), (4, 3.0)):
        data = sample()
        moments = Moments.of_sample(data)
        found = certified(optimum(TwoLayerLinear, data, strength(rate, width)))
        W = cvxpy.Variable(moments.yx.shape)
        root = np.linalg.cholesky(moments.xx.numpy())
        target = np.linalg.solve(root, moments.yx.numpy().T).T
        constant = float(torch.trace(moments.yy)) - (target**2).sum()
        loss = cvxpy.sum_squares(target - W @ root) + rate / width * cvxpy.square(cvxpy.normNuc(W @ root))
        value = cvxpy.Problem(cvxpy.Minimize(loss)).solve(solver=cvxpy.CLARABEL) + constant
        assert np.linalg.matrix_rank(W.value, tol=1e-4) <= width  # the width does not bind: the lifted problem is ours
        assert found.objective == pytest.approx(value, rel=1e-6)
        close(found.model.matrix(), W.value, relative=1e-3)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_optimal_factors_are_equalized(device, dtype):
    data = Moments.of_sample(weighted_sample()).to(device=device, dtype=dtype)
    masks = Bernoulli(0.3, 5)
    found = optimum(TwoLayerLinear, data, masks)
    # moments of correlated inputs, rounded to float32, leave more of the bound open than counts as rounding, and say so
    assert found.certified == (dtype == torch.float64)
    assert found.gap <= found.slack + 1e-9 * found.scale
    assert found.model.U.dtype == dtype
    assert found.model.U.device.type == device
    tolerance = 1e-4 if dtype == torch.float32 else 1e-12
    assert float(imbalance(found.model, data, masks)) <= tolerance
    close(float(penalty(found.model, data, masks)), float(envelope(found.model, data, masks)), relative=tolerance)


@pytest.mark.parametrize("rates", [[0.4] * 3, [0.1, 0.4, 0.6]])
@pytest.mark.parametrize("isotropic", [True, False])
def test_objective_is_the_criterion_of_the_returned_factors(rates, isotropic):
    data = Moments.of_map(normal(40, 36)) if isotropic else Moments.of_sample(sample())
    masks = Bernoulli(torch.tensor(rates, dtype=torch.float64), 3)
    found = [certified(optimum(TwoLayerLinear, data, masks))]
    if isotropic:
        found.append(certified(optimum_of_map(data.yx, masks)))
    for item in found:
        close(item.objective, float(criterion(item.model, data, masks)), 1e-13, item.scale)
        assert item.claim == ("mianjy2018-thm3.6" if len(set(rates)) == 1 else "droptics-unequal-rates")


def test_printed_soft_threshold_is_refuted():
    # M = diag(2, 1), width one, lambda = 0.1: the printed optimum has rank two
    data = Moments.of_map(torch.diag(torch.tensor([2.0, 1.0], dtype=torch.float64)))
    found = certified(optimum(TwoLayerLinear, data, strength(0.1, 1)))
    assert found.rank == 1
    assert found.objective == pytest.approx(15 / 11, rel=1e-14)
    close(found.model.matrix(), [[20 / 11, 0.0], [0.0, 0.0]])
    # M = I, lambda = 1, width two: the printed 1 + lambda j gives 10/9
    found = certified(optimum(TwoLayerLinear, Moments.of_map(torch.eye(2, dtype=torch.float64)), strength(1.0, 2)))
    assert found.objective == pytest.approx(1.0, rel=1e-14)


def edge_cases():
    eye = torch.eye(3, dtype=torch.float64)
    yield "zero-map", torch.zeros(3, 2, dtype=torch.float64), 0.5, 2, 0.0
    yield "rank-deficient", torch.outer(normal(4), normal(3)), 0.5, 3, None
    yield "ties-at-the-width", eye, 0.5, 2, None
    yield "ties", torch.diag(torch.tensor([2.0, 2.0, 1.0, 1.0], dtype=torch.float64)), 1.0, 3, None
    yield "no-dropout", normal(4, 3), 0.0, 2, None
    yield "no-dropout-wide", normal(4, 3), 0.0, 9, 0.0
    yield "nearly-all-dropped", normal(4, 3), 1e8, 2, None
    yield "boundary", torch.diag(torch.tensor([1.0, 1 / 3], dtype=torch.float64)), 1.0, 2, None
    yield "one-by-one", torch.tensor([[-3.0]], dtype=torch.float64), 2.0, 1, 6.0
    yield "decades", torch.diag(torch.logspace(0, -8, 5, dtype=torch.float64)), 1e-9, 5, None
    yield "large-units", 1e8 * normal(4, 3), 0.5, 3, None
    yield "tiny-units", 1e-8 * normal(4, 3), 0.5, 3, None


@pytest.mark.parametrize(("name", "M", "rate", "width", "value"), list(edge_cases()), ids=[c[0] for c in edge_cases()])
def test_edge_cases(name, M, rate, width, value):
    data = Moments.of_map(M)
    masks = strength(rate, width)
    found = certified(optimum(TwoLayerLinear, data, masks))
    assert found.model.U.shape == (M.shape[0], width)
    values = torch.linalg.svdvals(M).numpy()
    energy = float(M.square().sum())
    # the formula by trying every rank
    best = min(
        rate * values[:rank].sum() ** 2 / (width + rate * rank) + (values[rank:] ** 2).sum()
        for rank in range(min(width, len(values)) + 1)
        if rank == 0 or values[rank - 1] - rate * values[:rank].sum() / (width + rate * rank) > -1e-13
    )
    assert found.objective == pytest.approx(best, rel=1e-10, abs=1e-12 * (energy or 1.0))
    if value is not None:
        assert found.objective == pytest.approx(value, rel=1e-10, abs=1e-12)
    if rate > 0 and found.rank:
        assert float(imbalance(found.model, data, masks)) <= 1e-10


def test_badly_scaled_inputs():
    inputs = normal(30, 4) @ torch.diag(torch.tensor([1e-4, 1.0, 1.0, 1e4], dtype=torch.float64))
    targets = inputs @ torch.diag(1 / inputs.std(0)) @ normal(4, 3) + normal(30, 3)
    masks = Bernoulli(0.3, 3)
    plain = certified(optimum(TwoLayerLinear, Sample(inputs, targets), masks), 1e-9)
    scaled = certified(optimum(TwoLayerLinear, Sample(inputs / inputs.std(0), targets), masks))
    # the best network of rescaled inputs has rescaled weights and the same value
    assert plain.objective == pytest.approx(scaled.objective, rel=1e-9)


def test_label_noise_adds_a_constant():
    M = normal(3, 4)
    clean = Moments.of_map(M)
    noisy = Moments(clean.xx, clean.yx, clean.yy + 2.5 * torch.eye(3, dtype=torch.float64))
    masks = Bernoulli(0.4, 3)
    first, second = (optimum(TwoLayerLinear, data, masks) for data in (clean, noisy))
    close(first.model.matrix(), second.model.matrix())
    assert second.objective == pytest.approx(first.objective + 7.5, rel=1e-13)


def test_singular_inputs_give_the_weights_of_least_norm():
    data = singular_moments()
    found = optimum(TwoLayerLinear, data, Bernoulli(0.5, 3))
    # of least norm once every feature is in its own units
    scaled, units = equilibrate(data.xx)
    values, vectors = torch.linalg.eigh(scaled)
    null = vectors[:, values < 1e-10 * values[-1]]
    close(null.mT @ (units[:, None] * found.model.V), torch.zeros(null.shape[1], 3), scale=1.0)


def test_tied_examples():
    one = certified(optimum(Autoencoder, Moments.of_map(torch.tensor([[-2.0]], dtype=torch.float64)), strength(0.6, 2)))
    assert one.rank == 0
    assert one.objective == pytest.approx(4.0)
    close(one.model.U, torch.zeros(1, 2), scale=1.0)
    indefinite = Moments.of_map(torch.diag(torch.tensor([1.0, -3.0], dtype=torch.float64)))
    found = certified(optimum(Autoencoder, indefinite, strength(0.5, 2)))
    close(found.model.matrix(), [[0.8, 0.0], [0.0, 0.0]])


@pytest.mark.parametrize(
    ("M", "masks"),
    [
        (normal(4, 4), Bernoulli(0.4, 3)),
        (normal(4, 4), Bernoulli(0.4, 6)),
        (normal(4, 4) + 2 * torch.eye(4).double(), Bernoulli(torch.tensor([0.1, 0.5, 0.9]).double(), 3)),
        (normal(3, 3) @ normal(3, 3).mT, Bernoulli(0.3, 2)),
        (torch.eye(3).double(), Bernoulli(0.5, 1)),
        (-torch.eye(3).double(), Bernoulli(0.5, 2)),
    ],
    ids=["indefinite", "wide", "unequal", "semi-definite", "width-one", "negative"],
)
def test_tied_never_beaten_from_fifty_starts(M, masks):
    for factor in (1.0, 2.5):  # isotropic inputs of any scale
        base = Moments.of_map(M)
        data = Moments(factor * base.xx, factor * base.yx, factor * base.yy)
        found = certified(optimum(Autoencoder, data, masks))
        loss = lambda U: criterion(Autoencoder(U), data, masks).value  # noqa: B023, E731
        reached = descend(loss, [(M.shape[0], masks.size)], starts=50)
        assert float(reached.min()) >= found.objective - 1e-10 * found.scale
        assert float(reached.min()) <= found.objective + 1e-5 * found.scale


@pytest.mark.parametrize("rates", [[0.0, 0.013], [0.35, 0.52], [0.1, 0.2, 0.3], [0.1, 0.2, 0.3, 0.4]])
def test_tied_network_of_unequal_rates_without_a_positive_eigenvalue(rates):
    # every network adds to the error of a map that reverses signs: the best one answers zero
    data = Moments.of_map(-torch.diag(torch.tensor([2.0, 1.0, 0.5]).double()))
    masks = Bernoulli(torch.tensor(rates), len(rates))
    found = optimum(Autoencoder, data, masks)
    assert found.rank == 0
    assert found.certified
    assert not found.model.U.any()
    close(found.objective, 5.25, 1e-12)


def test_tied_needs_isotropic_inputs():
    with pytest.raises(NoClosedForm, match="isotropic"):
        optimum(Autoencoder, sample(outputs=4), Bernoulli(0.5, 2))
    with pytest.raises(NoClosedForm, match="tied"):
        optimum(Autoencoder, Moments.of_map(torch.eye(4).double()), Block(0.5, 4, 2))
    with pytest.raises(ValueError, match="outputs"):
        optimum(Autoencoder, Moments.of_map(normal(3, 4)), Bernoulli(0.5, 2))
    # certify still has a bound: that of untied networks
    model = Autoencoder(normal(4, 2))
    certificate = certify(model, sample(outputs=4), Bernoulli(0.5, 2))
    assert 0 < certificate.bound < certificate.objective


def full_entries(rows, columns, repeats=1):
    grid = torch.cartesian_prod(torch.arange(rows), torch.arange(columns)).repeat(repeats, 1)
    return Entries(grid[:, 0], grid[:, 1], normal(len(grid)), (rows, columns))


def product_entries():
    """Entry (i, j) observed p_i q_j times."""
    counts = torch.outer(torch.tensor([1, 2, 3]), torch.tensor([2, 1, 1, 3]))
    index = [(i, j) for i in range(3) for j in range(4) for _ in range(int(counts[i, j]))]
    rows, columns = torch.tensor(index).T
    return Entries(rows, columns, normal(len(index)), (3, 4))


def orthogonal_measurements():
    basis = torch.linalg.qr(normal(20, 6)).Q
    return Measurements(3 * basis.reshape(20, 3, 2), normal(20))


@pytest.mark.parametrize(
    "data", [full_entries(4, 3), full_entries(4, 3, 2), product_entries(), orthogonal_measurements()]
)
@pytest.mark.parametrize("masks", [Bernoulli(0.4, 2), Bernoulli(torch.tensor([0.1, 0.7, 0.5]).double(), 3)])
def test_factorization_with_product_sampling(data, masks):
    found = certified(optimum(Factorization, data, masks))
    shape = data.shape if isinstance(data, Entries) else tuple(data.matrices.shape[1:])
    loss = lambda U, V: criterion(Factorization(U, V), data, masks).value  # noqa: E731
    reached = descend(loss, [(shape[0], masks.size), (shape[1], masks.size)], starts=50, steps=120)
    assert float(reached.min()) >= found.objective - 1e-10 * found.scale
    assert float(reached.min()) <= found.objective + 1e-3 * found.scale


def test_factorization_refuses_other_entries():
    with pytest.raises(NoClosedForm, match="DropoutCompletion"):
        optimum(Factorization, entries(), Bernoulli(0.5, 2))
    with pytest.raises(NoClosedForm, match="isotropic"):
        optimum(Factorization, Measurements(normal(20, 3, 2), normal(20)), Bernoulli(0.5, 2))
    with pytest.raises(ValueError, match="Entries or Measurements"):
        optimum(Factorization, sample(), Bernoulli(0.5, 2))
    with pytest.raises(ValueError, match="Sample or Moments"):
        optimum(TwoLayerLinear, entries(), Bernoulli(0.5, 2))


@given(st.integers(0, 10**6), st.sampled_from([2, 3, 5, 8]))
@settings(max_examples=10, deadline=None)
def test_all_optimal_factors(seed, width):
    data = weighted_sample()
    masks = Bernoulli(0.3, width)
    found = optimum(TwoLayerLinear, data, masks)
    rotation = torch.linalg.qr(normal(width, width, seed=seed)).Q
    scales = normal(width, seed=seed).exp() * torch.where(normal(width, seed=seed + 1) > 0, 1.0, -1.0)
    turned = optimal_factors(found, rotation)
    other = optimal_factors(found, rotation, scales)
    close(other.matrix(), found.model.matrix(), relative=1e-11)
    assert float(criterion(other, data, masks)) == pytest.approx(found.objective, rel=1e-11)
    # and back: the inverse rotation leads to factors that are optimal again
    again = optimal_factors(Optimum(turned, found.objective, found.bound, found.rank, found.claim), rotation.mT)
    assert float(criterion(again, data, masks)) == pytest.approx(found.objective, rel=1e-9)


def test_descent_ends_in_the_described_set():
    data, masks = Moments.of_sample(sample()), Bernoulli(0.5, 4)
    found = optimum(TwoLayerLinear, data, masks)
    result = {}

    def loss(U, V):
        result["model"] = TwoLayerLinear(U.detach()[0], V.detach()[0])
        return criterion(TwoLayerLinear(U, V), data, masks).value

    descend(loss, [(3, 4), (4, 4)], starts=1, steps=2000)
    other = result["model"]
    close(other.matrix(), found.model.matrix(), relative=1e-5)
    assert float(imbalance(other, data, masks)) < 1e-7  # equalized in the strong sense (mianjy2018-thm3.4)
    # balanced, both factors are rotations of ours
    out = other.U.norm(dim=0)
    into = (other.V * (data.xx @ other.V)).sum(0).sqrt()
    balanced = other.U * (into / out).sqrt()
    close(balanced @ balanced.mT, found.model.U @ found.model.U.mT, relative=1e-5)


def test_optimal_factors_of_tied_networks_and_refusals():
    data, masks = Moments.of_map(normal(4, 4) @ normal(4, 4).mT), Bernoulli(0.3, 3)
    found = optimum(Autoencoder, data, masks)
    rotation = torch.linalg.qr(normal(3, 3)).Q
    other = optimal_factors(found, rotation, torch.tensor([1.0, -1.0, 1.0]))
    close(other.U, optimal_factors(found, rotation).U * torch.tensor([1.0, -1.0, 1.0]), 1e-14)
    assert float(criterion(other, data, masks)) == pytest.approx(found.objective, rel=1e-12)
    with pytest.raises(ValueError, match="tied"):
        optimal_factors(found, rotation, torch.tensor([1.0, 2.0, 1.0]))
    with pytest.raises(ValueError, match="orthogonal"):
        optimal_factors(found, 2 * rotation)
    for columns in (torch.linalg.qr(normal(5, 3)).Q, torch.linalg.qr(normal(5, 3)).Q.mT):
        with pytest.raises(ValueError, match="per hidden unit"):
            optimal_factors(found, columns)
    with pytest.raises(ValueError, match="zeros"):
        optimal_factors(found, rotation, torch.tensor([1.0, 0.0, 1.0]))
    unequal = optimum(TwoLayerLinear, data, Bernoulli(torch.tensor([0.1, 0.5]).double(), 2))
    with pytest.raises(ValueError, match="one rate"):
        optimal_factors(unequal)


def test_certify_bounds_every_network():
    data, masks = sample(), Bernoulli(0.4, 3)
    found = optimum(TwoLayerLinear, data, masks)
    certificate = certify(TwoLayerLinear(normal(3, 3), normal(4, 3)), data, masks)
    assert certificate.bound == pytest.approx(found.objective, rel=1e-12)
    assert certificate.gap > 0
    best = certify(found.model, data, masks)
    assert best.relative_gap < 1e-12
    assert certify(Factorization(normal(4, 2), normal(3, 2)), full_entries(4, 3), Bernoulli(0.4, 2)).gap > 0


def test_wrong_certificates_are_refused():
    data, masks = sample(), Bernoulli(0.4, 3)
    found = optimum(TwoLayerLinear, data, masks)
    wrong = Optimum(found.model, found.objective * 1.01, found.bound, found.rank, found.claim, found.scale)
    assert not wrong.certified
    assert check_certified(wrong) is wrong  # what is not known is said by the gap
    with pytest.raises(CertificateError, match="bound"):
        check_certified(replace(found, objective=found.objective * 0.99))
    with pytest.raises(ValueError, match="MaskLaw"):
        optimum(TwoLayerLinear, data, 0.5)


def test_induced_is_the_floor_of_the_penalty():
    data, masks = sample(), Bernoulli(torch.tensor([0.1, 0.8, 0.3]).double(), 3)
    found = optimum(TwoLayerLinear, data, masks)
    assert float(penalty(found.model, data, masks)) == pytest.approx(
        float(induced(found.model, data, masks)), rel=1e-12
    )


def large(kind, rows=460, columns=410):
    rank = min(rows, columns)
    i = torch.arange(rank, dtype=torch.float64)
    values = {
        "signal": torch.where(i < 8, 6 - i / 2, 0.5 * torch.exp(-i / 60)),
        "power": 1 / (1 + i),
        "exponential": torch.exp(-i / 25),
        "ties": torch.ones(rank, dtype=torch.float64),
        "low-rank": torch.where(i < 5, 1.0, 0.0).double(),
    }[kind]
    left, right = (torch.linalg.qr(normal(size, rank, seed=size)).Q for size in (rows, columns))
    return (left * values) @ right.mT


@pytest.mark.parametrize("kind", ["signal", "power", "exponential", "ties", "low-rank"])
@pytest.mark.parametrize("masks", [Bernoulli(0.4, 12), Bernoulli(torch.linspace(0.1, 0.9, 12).double(), 12)])
def test_large_maps(kind, masks):
    M = large(kind)
    exact = optimum(TwoLayerLinear, Moments.of_map(M), masks)
    found = optimum_of_map(M, masks, block=16)
    energy = float(M.square().sum())
    assert found.bound <= exact.objective + 1e-13 * energy  # a lower bound on the true least value
    assert exact.objective <= found.objective + 1e-13 * energy
    assert found.gap <= 1e-12 * energy
    value = float(criterion(found.model, Moments.of_map(M), masks))
    assert found.objective == pytest.approx(value, abs=1e-12 * energy)


def test_large_sparse_and_implicit_maps():
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(430, 410)) * (rng.random((430, 410)) < 0.05)
    masks = Bernoulli(0.5, 10)
    exact = optimum(TwoLayerLinear, Moments.of_map(torch.from_numpy(dense)), masks)
    energy = float((dense**2).sum())
    for matrix in (
        dense,
        scipy.sparse.coo_matrix(dense),
        scipy.sparse.linalg.aslinearoperator(dense),
        torch.from_numpy(dense).to_sparse(),
    ):
        found = optimum_of_map(matrix, masks)
        assert found.objective == pytest.approx(exact.objective, abs=2e-12 * energy)
    known = optimum_of_map(scipy.sparse.linalg.aslinearoperator(dense), masks, energy=energy)
    assert known.objective == pytest.approx(exact.objective, abs=2e-12 * energy)
    single = optimum_of_map(dense.astype(np.float32), masks, tolerance=1e-5)
    assert single.model.U.dtype == torch.float32
    assert single.objective == pytest.approx(exact.objective, abs=1e-4 * energy)


def test_large_maps_degenerate():
    masks = Bernoulli(0.5, 4)
    assert optimum_of_map(torch.zeros(30, 20).double(), masks).objective == 0.0
    tiny = optimum_of_map(normal(3, 2), masks)
    assert tiny.objective == pytest.approx(optimum(TwoLayerLinear, Moments.of_map(normal(3, 2)), masks).objective)
    with pytest.raises(NoClosedForm, match="independent"):
        optimum_of_map(normal(3, 2), Block(0.5, 4, 2))


@pytest.mark.parametrize("law", [Bernoulli(0.3, 6), Block(0.3, 6, 2)])
@pytest.mark.parametrize("whitened", [True, False])
def test_the_value_of_many_factors_needs_no_pairs(monkeypatch, law, whitened):
    factor = normal(4, 9, seed=3)
    U, V, cross = normal(3, 6, seed=1), normal(4, 6, seed=2), normal(3, 4, seed=4)
    asked = (U, V, cross, None if whitened else factor @ factor.mT, 7.0, law)
    few = two_layer.value_of_factors(*asked)
    monkeypatch.setattr(two_layer, "WIDE", 1)
    many = two_layer.value_of_factors(*asked)
    close(many, few, 1e-12)


@pytest.mark.parametrize("law", [Bernoulli(0.3, 4), Bernoulli(torch.linspace(0.1, 0.5, 4).double(), 4)])
@pytest.mark.parametrize("shape", [(40, 36), (5, 90), (6, 3), (3, 6)])
def test_arrays_of_every_layout_give_the_answer_of_their_tensor(law, shape):
    matrix = normal(*shape, seed=5)
    wanted = optimum(TwoLayerLinear, Moments.of_map(matrix), law)
    wide = np.zeros((2 * shape[0], 3 * shape[1]))
    wide[::2, ::-3] = matrix.numpy()
    frozen = matrix.numpy().copy()
    frozen.flags.writeable = False
    for form in (matrix, matrix.numpy(), np.asfortranarray(matrix.numpy()), wide[::2, ::-3], frozen):
        found = optimum_of_map(form, law)
        assert found.certified
        close(found.objective, wanted.objective, 1e-12)
        close(found.model.matrix(), wanted.model.matrix(), 1e-10)
        assert (found.model.U.shape, found.model.V.shape) == ((shape[0], 4), (shape[1], 4))
        close(found.objective, float(criterion(found.model, Moments.of_map(matrix), law)), 1e-12)
    assert optimum_of_map(matrix.numpy().astype(np.float32), law).model.dtype == torch.float32
    with pytest.raises(ValueError, match="finite"):
        optimum_of_map(np.where(matrix.numpy() == matrix.numpy().max(), np.nan, matrix.numpy()), law)
    with pytest.raises(ValueError, match="scale it down"):
        optimum_of_map(1e200 * matrix.numpy(), law)
