"""The optimum worked out by hand: values, ranks, claims and scales of two-layer and tied networks, piece by piece."""

import time

import numpy as np
import pytest
import torch
from cases import normal, sample, weighted_sample
from compare import close
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from droptics.data import Moments, Sample
from droptics.errors import CertificateError
from droptics.heads.projection import variable_projection
from droptics.linalg.krylov import Krylov, Operator
from droptics.masks import Bernoulli, Block, Discrete, SlidingBlock
from droptics.models import Autoencoder, Connections, Factorization, TwoLayerLinear
from droptics.optima import certify, optimal_factors, optimum, optimum_of_map
from droptics.optima.krylov import _answer, _bound, _estimated
from droptics.optima.optimum import Certificate, Optimum, certify_bound, check_certified, optimum_rule, rounding
from droptics.optima.stationary import alternate
from droptics.optima.two_layer import best_factors, two_layer_bound, value_of_factors
from droptics.penalties import criterion
from droptics.spectra import OneRate, action
from droptics.spectra.coordinates import whiten
from droptics.spectra.decomposition import _elsewhere, _on_cpu, kept_values, least_value, shrunk_svd

HALF = Bernoulli(0.5, 2)  # lambda = 1
UNEQUAL = Bernoulli(torch.tensor([0.5, 0.75], dtype=torch.float64), 2)  # lambda = 1 and 3
MAP = torch.diag(torch.tensor([3.0, 1.0], dtype=torch.float64))


def by_hand(matrix, scale=1.0, noise=0.0):
    """Isotropic inputs E x x^T = scale I and y = matrix x + noise of the given energy."""
    outputs = len(matrix)
    identity = torch.eye(matrix.shape[1], dtype=torch.float64)
    extra = noise / outputs * torch.eye(outputs, dtype=torch.float64)
    return Moments(scale * identity, scale * matrix, scale * matrix @ matrix.mT + extra)


@pytest.mark.parametrize(("scale", "noise"), [(1.0, 0.0), (2.0, 0.5)])
def test_two_layers_by_hand(scale, noise):
    # lambda = 1, width 2: the second value is shrunk away, the first loses alpha = 3 / (2 + 1) = 1
    found = optimum(TwoLayerLinear, by_hand(MAP, scale, noise), HALF)
    assert (found.rank, found.claim, found.method) == (1, "mianjy2018-thm3.6", "closed form")
    close(found.objective, scale * (1 + 1 + 4 / 2) + noise, relative=1e-13)
    close(found.bound, found.objective, relative=1e-13)
    close(found.scale, scale * 10 + noise, relative=1e-13)
    close(found.model.matrix(), torch.diag(torch.tensor([2.0, 0.0], dtype=torch.float64)), relative=1e-13)
    assert found.tolerance == 1e-9
    # two inputs whose moments are known to the rounding of float32
    assert optimum(TwoLayerLinear, by_hand(MAP, scale, noise).to(torch.float32), HALF).tolerance == 32 * 2 * 2.0**-23


@pytest.mark.parametrize("skew", [0.0, 1.0])
def test_tied_networks_by_hand(skew):
    turned = MAP + skew * torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)
    data = by_hand(turned, 2.0, 0.25)
    found = optimum(Autoencoder, data, HALF)
    assert (found.rank, found.claim, found.method) == (1, "mianjy2018-thm2.4", "closed form")
    energy = 2 * (10 + 2 * skew) + 0.25
    close(found.objective, energy - 2 * (9 - 1) + 2 * 2, relative=1e-13)
    close(found.bound, found.objective, relative=1e-13)
    close(found.scale, energy + 2 * 10, relative=1e-13)
    close(found.model.U.square().sum(0), [1.0, 1.0], relative=1e-12)
    certificate = certify(found.model, data, HALF)
    assert certificate.claim == "mianjy2018-thm2.4"
    close(certificate.bound, found.bound, relative=1e-13)


def test_tied_networks_of_unequal_rates_are_certified_by_their_own_claim():
    data = by_hand(MAP, 2.0)
    found = optimum(Autoencoder, data, UNEQUAL)
    assert found.claim == "droptics-unequal-rates"
    assert certify(found.model, data, UNEQUAL).claim == "droptics-unequal-rates"
    # one value: it loses mu with sum of mu / lambda = x, mu (1 + 1/3) = 3 - mu; the second value stays below mu
    mu = 3 / (1 + 1 + 1 / 3)
    close(found.model.matrix(), torch.diag(torch.tensor([3 - mu, 0.0], dtype=torch.float64)), relative=1e-12)
    close(found.model.U.square().sum(0), [mu, mu / 3], relative=1e-12)
    close(found.objective, 2 * (mu**2 + 1 + mu**2 * (1 + 1 / 3)), relative=1e-12)


def test_tied_networks_fall_back_on_the_bound_of_untied_ones():
    model, data = Autoencoder(normal(4, 3)), Sample(normal(9, 4), normal(9, 4))
    for law in (Bernoulli(0.3, 3), SlidingBlock(0.3, 3, 2)):
        bound, claim = certify_bound(model, data, law)
        assert (bound, claim) == two_layer_bound(whiten(data), law)
        assert float(criterion(model, data, law)) >= bound


@pytest.mark.parametrize("law", [HALF, UNEQUAL])
def test_actions_give_the_minimum_and_its_penalty(law):
    acting = action(law)
    strengths = law.relative_variance.numpy()
    assert acting.size == 2
    assert isinstance(acting, OneRate) == (law is HALF)
    values = torch.tensor([3.0, 1.0, 0.5], dtype=torch.float64)
    kept, penalty = kept_values(acting, values.numpy())
    # two units of norms n_1 + n_2 = the kept value: the best split is n proportional to 1 / lambda
    weight = 1 / (1 / strengths).sum()
    mu = 3 * weight / (1 + weight)
    close(kept, [3 - mu], relative=1e-13)
    close(penalty, weight * (3 - mu) ** 2, relative=1e-13)
    close(least_value(10.25, values.numpy(), kept, penalty), mu**2 + 1.25 + penalty, relative=1e-13)


@pytest.mark.parametrize("shape", [(7, 3), (3, 7), (4, 4)])
@pytest.mark.parametrize("law", [Bernoulli(0.2, 3), Bernoulli(torch.tensor([0.1, 0.3, 0.2]).double(), 3)])
def test_leading_triples_of_tall_and_wide_targets(shape, law):
    target = normal(*shape)
    left, values, right, least = shrunk_svd(target, action(law))
    U, s, Vt = torch.linalg.svd(target, full_matrices=False)
    kept, penalty = kept_values(action(law), s.numpy())
    kept = torch.from_numpy(kept)
    close(values, kept, relative=1e-12)
    close((left * values) @ right.mT, (U[:, : len(kept)] * kept) @ Vt[: len(kept)], relative=1e-11)
    close(least, ((s[: len(kept)] - kept) ** 2).sum() + (s[len(kept) :] ** 2).sum() + penalty, relative=1e-11)
    A, H, rank, again, method = best_factors(target, action(law), law)
    assert (rank, method) == (len(kept), "closed form")
    assert A.shape == (shape[0], 3)
    assert H.shape == (shape[1], 3)
    close(A @ H.mT, (left * values) @ right.mT, relative=1e-11)
    close(again, least, relative=1e-12)


def test_tiny_values_that_are_kept_have_accurate_vectors():
    left, right = torch.linalg.qr(normal(6, 2)).Q, torch.linalg.qr(normal(5, 2)).Q
    target = (left * torch.tensor([1.0, 1e-6], dtype=torch.float64)) @ right.mT
    found, values, other, _ = shrunk_svd(target, action(Bernoulli(1e-9, 2)))
    assert len(values) == 2
    close(found.mT @ found, torch.eye(2), relative=1e-9)
    close(other.mT @ other, torch.eye(2), relative=1e-9)


@pytest.mark.parametrize("isotropic", [True, False])
@pytest.mark.parametrize(
    "law", [Bernoulli(0.4, 5), Bernoulli(torch.linspace(0.1, 0.5, 5).double(), 5), SlidingBlock(0.2, 5, 3)]
)
def test_the_value_of_factors_is_their_criterion(isotropic, law):
    model = TwoLayerLinear(normal(3, 5), normal(4, 5))
    data = Moments.of_map(normal(3, 4)) if isotropic else Moments.of_sample(weighted_sample())
    moment, energy = None if isotropic else data.xx, float(data.yy.trace())
    close(
        value_of_factors(model.U, model.V, data.yx, moment, energy, law),
        float(criterion(model, data, law)),
        relative=1e-12,
    )


def test_bounds_of_other_laws_are_those_of_their_kind():
    white = whiten(sample())
    assert two_layer_bound(white, Bernoulli(0.3, 4))[1] == "mianjy2018-thm3.6"
    assert two_layer_bound(white, Block(0.3, 4, 2))[1] == "pal2020-thm2.6"
    assert two_layer_bound(white, SlidingBlock(0.3, 4, 2))[1] == "droptics-mask-bounds"
    free = float(white.constant)
    for law in (Bernoulli(0.3, 4), Block(0.3, 4, 2), SlidingBlock(0.3, 4, 2)):
        bound, _ = two_layer_bound(white, law)
        assert free < bound < free + float(white.target.square().sum())
        assert optimum(TwoLayerLinear, sample(), law).bound == pytest.approx(bound, rel=1e-12)


def test_a_search_that_is_not_closed_form_is_returned_with_its_gap():
    found = optimum(TwoLayerLinear, sample(), SlidingBlock(0.3, 4, 2))
    assert found.method.startswith("alternating least squares")
    assert found.gap >= -1e-9 * found.scale
    close(found.objective, float(criterion(found.model, sample(), SlidingBlock(0.3, 4, 2))), relative=1e-13)


@pytest.mark.parametrize("seed", range(4))
def test_the_best_of_all_starts_is_taken(seed):
    """Stationary points of two values, 2.336 and 2.624, which least squares over the list of all masks finds, too."""
    masks = [[2, 1, 7, 5], [16, 7, 7, 9], [11, 3, 7, 8], [5, 15, 19, 2], [0, 2, 8, 10], [12, 4, 2, 2]]
    chances = torch.tensor([0.09, 0.17, 0.17, 0.15, 0.3, 0.12], dtype=torch.float64)
    T = np.array([[-8, -4, 14, -5], [-16, 4, -1, -5], [-21, 1, 8, -11], [-15, -11, -5, 6]]) / 10
    law = Discrete(torch.tensor(masks).double() / 10, chances)
    atoms = [(z.numpy(), float(chance)) for z, chance in law.atoms()]

    def best(known, wanted):
        rows = np.concatenate([chance**0.5 * known * z for z, chance in atoms])
        return np.linalg.lstsq(rows, np.concatenate([chance**0.5 * wanted for _, chance in atoms]), rcond=None)[0].T

    def value(U, H):
        return sum(chance * np.sum((T - (U * z) @ H.T) ** 2) for z, chance in atoms)

    ends = []
    for _ in range(8):
        H = np.random.default_rng(len(ends)).standard_normal((4, 4))
        for _ in range(100):
            U = best(H, T.T)
            H = best(U, T)
        ends.append(value(U, H))
    assert max(ends) - min(ends) > 0.2
    U, H, _, _ = alternate(torch.from_numpy(T), law.characteristic, seed)
    assert value(U.numpy(), H.numpy()) <= min(ends) * (1 + 1e-9)


def test_gaps_scales_and_what_counts_as_rounding():
    model = TwoLayerLinear(normal(2, 1), normal(2, 1))
    assert rounding(torch.float64) == 1e-9
    assert rounding(torch.float32) == 1e-9
    assert rounding(torch.bfloat16) == 64 * 2.0**-14
    for objective, bound, certified in ((4.0, 1.0, False), (1.0 + 9e-9, 1.0, True), (1.0 + 1.1e-8, 1.0, False)):
        found = Optimum(model, objective, bound, 1, "x", scale=10.0)
        assert found.gap == objective - bound
        assert found.certified is certified
    # a large objective widens what counts as rounding; a bound above the objective by more is refused
    assert Optimum(model, 100.0 + 9e-8, 100.0, 1, "x", scale=1.0).certified
    with pytest.raises(ArithmeticError, match="more than rounding at scale 10;"):
        check_certified(Optimum(model, 1.0, 1.0 + 1.1e-8, 1, "x", scale=10.0))
    assert check_certified(Optimum(model, 1.0, 1.0 + 9e-9, 1, "x", scale=10.0)).bound > 1


def test_no_rule_passes_with_an_objective_below_its_bound(monkeypatch):
    """Rules that others register are looked at as ours are."""
    model = TwoLayerLinear(normal(2, 1), normal(2, 1))
    for bound in (1.0, 1.1):
        found = Optimum(model, 1.0, bound, 1, "x", scale=1.0)
        monkeypatch.setattr(optimum_rule, "dispatch", lambda family, found=found: lambda *_: found)
        if bound == 1:
            assert optimum(TwoLayerLinear, by_hand(MAP), HALF) is found
        else:
            with pytest.raises(ArithmeticError, match="more than rounding"):
                optimum(TwoLayerLinear, by_hand(MAP), HALF)


@pytest.mark.parametrize(
    ("objective", "bound", "relative"),
    [(3.0, 2.0, 0.5), (2.0, 2.0, 0.0), (1.0, 2.0, 0.0), (1.0, 0.0, float("inf")), (0.0, 0.0, 0.0)],
)
def test_relative_gaps(objective, bound, relative):
    assert Certificate(objective, bound, "x").relative_gap == relative


def test_other_optimal_factors_and_what_is_refused():
    found = optimum(TwoLayerLinear, by_hand(MAP), HALF)
    turn = torch.linalg.qr(normal(2, 2)).Q
    scales = torch.tensor([2.0, -0.5], dtype=torch.float64)
    other = optimal_factors(found, turn, scales)
    close(other.matrix(), found.model.matrix(), relative=1e-12)
    close(float(criterion(other, by_hand(MAP), HALF)), 4.0, relative=1e-12)
    close((other.U.norm(dim=0) / other.V.norm(dim=0)), scales.abs() ** 2, relative=1e-10)
    same = optimal_factors(found)
    close(same.matrix(), found.model.matrix(), relative=1e-12)
    tied = optimum(Autoencoder, by_hand(MAP), HALF)
    flipped = optimal_factors(tied, scales=torch.tensor([1.0, -1.0], dtype=torch.float64))
    close(flipped.matrix(), tied.model.matrix(), relative=1e-12)
    with pytest.raises(ValueError, match="must be \\+1 or -1"):
        optimal_factors(tied, scales=scales)
    with pytest.raises(ValueError, match="must not contain zeros"):
        optimal_factors(found, scales=torch.zeros(2, dtype=torch.float64))
    with pytest.raises(ValueError, match="rotation must be orthogonal"):
        optimal_factors(found, rotation=turn * (1 + 1e-12))
    with pytest.raises(ValueError, match="one rate"):
        optimal_factors(optimum(TwoLayerLinear, by_hand(MAP), UNEQUAL))
    with pytest.raises(ValueError, match="two-layer or tied"):
        optimal_factors(Optimum(Factorization(normal(2, 2), normal(2, 2)), 1.0, 1.0, 1, "mianjy2018-thm3.6"))


@pytest.mark.parametrize("shape", [(7, 3), (3, 7), (4, 4)])
@pytest.mark.parametrize("rate", [0.2, 1e-9])
def test_what_runs_on_other_devices_is_what_runs_here(shape, rate):
    left, right = torch.linalg.qr(normal(shape[0], 2)).Q, torch.linalg.qr(normal(shape[1], 2)).Q
    # at the small rate the second value is kept and too small for the Gram matrix
    target = (left * torch.tensor([3.0, 3e-6], dtype=torch.float64)) @ right.mT
    for law in (Bernoulli(rate, 2), Block(rate, 4, 2)):
        here, there = _on_cpu(target, action(law)), _elsewhere(target, action(law))
        close(there[1], here[1], relative=1e-12)
        close((there[0] * there[1]) @ there[2].mT, (here[0] * here[1]) @ here[2].mT, relative=1e-13)
        close(there[3], here[3], relative=1e-12, scale=9.0)
    for vectors in (there[0], there[2], here[0], here[2]):
        close(vectors.mT @ vectors, torch.eye(len(there[1])), relative=1e-9)


@pytest.mark.parametrize("law", [SlidingBlock(0.3, 4, 2), Block(0.3, 4, 2), Bernoulli(0.3, 4)])
def test_a_map_that_is_zero_and_maps_that_are_tiny_or_huge(law):
    found = optimum(TwoLayerLinear, Moments.of_map(torch.zeros(2, 3, dtype=torch.float64)), law)
    assert (found.rank, found.objective, found.method) == (0, 0.0, "closed form")
    assert (found.model.U.shape, found.model.V.shape) == ((2, 4), (3, 4))
    matrix = normal(2, 3)
    plain = optimum(TwoLayerLinear, Moments.of_map(matrix), law)
    for scale in (1e-9, 1e9):
        other = optimum(TwoLayerLinear, Moments.of_map(scale * matrix), law)
        close(other.objective, scale**2 * plain.objective, relative=1e-9)
        close(other.bound, scale**2 * plain.bound, relative=1e-9)


def test_dropconnect_on_uncorrelated_inputs_is_dropout():
    scales = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
    matrix = normal(2, 3)
    data = Moments(scales.diag(), matrix * scales, matrix @ scales.diag() @ matrix.mT + torch.eye(2).double())
    for width in (1, 2, 4):
        found = optimum(Connections, data, Bernoulli(0.4, 3 * width))
        plain = optimum(TwoLayerLinear, data, Bernoulli(0.4, width))
        close(found.objective, plain.objective, relative=1e-9)
        close(found.model.matrix(), plain.model.matrix(), relative=1e-6)
        assert found.rank == plain.rank
        assert found.model.units == 3 * width
        close(certify(found.model, data, Bernoulli(0.4, 3 * width)).bound, found.bound, relative=1e-12)


@pytest.mark.parametrize(("width", "certified"), [(1, False), (2, False), (3, True)])
def test_dropconnect_on_correlated_inputs_is_not_improved_by_descent(width, certified):
    data, law = Sample(normal(9, 3), normal(9, 3)), Bernoulli(0.2, 3 * width)
    found = optimum(Connections, data, law)
    assert found.certified is certified
    assert found.bound <= found.objective * (1 + 1e-12)
    start = [
        tensor.detach().clone(memory_format=torch.contiguous_format).requires_grad_(True)
        for tensor in found.model.tensors
    ]
    descent = torch.optim.LBFGS(start, max_iter=300, tolerance_grad=1e-12, line_search_fn="strong_wolfe")

    def closure():
        descent.zero_grad()
        value = criterion(Connections(*start), data, law).value
        value.backward()
        return value

    descent.step(closure)
    reached = float(criterion(Connections(*start), data, law))
    close(found.objective, reached, relative=1e-8 if certified else 0.02)
    least = certify_bound(found.model, data, law)[0]
    assert least <= reached * (1 + 1e-12)


@pytest.mark.parametrize(("dtype", "allowed"), [(torch.float64, 1e-9), (torch.float32, 8 * 64 * 2.0**-23)])
def test_large_maps_say_what_counts_as_rounding(dtype, allowed):
    """In float32 the products with a basis of 64 vectors are rounded."""
    matrix = (normal(450, 2) @ normal(2, 420)).to(dtype) * 3
    found = optimum_of_map(matrix, Bernoulli(0.5, 3), tolerance=1e-12)
    assert found.tolerance == allowed
    assert found.certified
    assert optimum_of_map(matrix, Bernoulli(0.5, 3), tolerance=1e-3).tolerance == 1e-3


SPECTRA = {
    "power": 1 / np.arange(1.0, 31),
    "exponential": 0.7 ** np.arange(30),
    "flat": np.ones(30),
    "step": np.where(np.arange(30) < 6, 1.0, 0.3),
    "low rank": np.where(np.arange(30) < 3, 1.0, 0.0),
}


@pytest.mark.parametrize(
    "law", [Bernoulli(0.5, 5), Bernoulli(0.02, 5), Bernoulli(torch.linspace(0.1, 0.6, 5).double(), 5)]
)
@pytest.mark.parametrize("spectrum", SPECTRA)
def test_bounds_of_an_unfinished_basis_stay_below_the_least_value(spectrum, law):
    values = torch.from_numpy(SPECTRA[spectrum])
    M = (torch.linalg.qr(normal(30, 30)).Q * values) @ torch.linalg.qr(normal(40, 30)).Q.mT
    run, acting = Krylov(Operator.of(M), 3), action(law)
    energy = float(M.square().sum())

    def least_of(values):
        kept, penalty = kept_values(acting, values)
        return least_value(energy, values, kept, penalty)

    least = least_of(SPECTRA[spectrum])
    bounds = []
    while run.size < run.limit:
        run.grow()
        ritz = run.ritz()
        bounds.append(_bound(run, ritz, acting, energy))
        assert bounds[-1] <= least + 1e-12 * energy
        # what is hoped for before a bound is computed: never less than nothing, or not to be known yet
        found = least_of(ritz.values)
        assert found >= least - 1e-12 * energy
        assert _estimated(ritz, acting, found, energy) >= -1e-12 * energy
    close(bounds[-1], least, relative=1e-11, scale=energy)
    if spectrum in ("exponential", "step"):  # long before the basis is complete, the bound is tight
        close(bounds[5], least, relative=1e-3, scale=energy)


@pytest.mark.parametrize("factor", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize(("dtype", "allowed"), [(torch.float64, 1e-9), (torch.float32, 8 * 9 * 2.0**-23)])
def test_products_that_are_not_those_of_a_map_are_refused(factor, dtype, allowed):
    """An objective below its bound by more than rounding, whatever the units of the map."""
    matrix, law = factor * normal(12, 9).to(dtype), Bernoulli(0.3, 3)
    operator = Operator.of(matrix)
    run = Krylov(operator, 9)
    run.grow()
    values, acting = run.ritz().values, action(law)
    kept, penalty = kept_values(acting, values)
    least = least_value(operator.energy, values, kept, penalty)
    close(operator.energy, matrix.double().square().sum(), relative=1e-6)
    for share in (0.0, 0.5):
        found = _answer(
            operator,
            run.ritz(),
            torch.from_numpy(kept),
            law,
            least + share * allowed * operator.energy,
            run.steps,
            1e-12,
        )
        assert (found.rank, found.tolerance, found.scale) == (len(kept), allowed, operator.energy)
        close(found.objective, least, relative=allowed / 10, scale=operator.energy)
        assert found.method.startswith("block Krylov, 1 steps")
    with pytest.raises(CertificateError, match="the products are not M"):
        _answer(
            operator, run.ritz(), torch.from_numpy(kept), law, least + 2 * allowed * operator.energy, run.steps, 1e-12
        )


@pytest.mark.parametrize("tolerance", [0.0, 1e-12, 1e-3])
@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize("tall", [False, True])
def test_operators_of_any_spectrum_shape_and_tolerance(spectrum, tolerance, tall):
    values = torch.from_numpy(SPECTRA[spectrum])
    M = (torch.linalg.qr(normal(40, 30)).Q * values) @ torch.linalg.qr(normal(30, 30)).Q.mT
    M = M if tall else M.mT.contiguous()
    energy = float(M.square().sum())
    for law in (Bernoulli(0.5, 5), Bernoulli(0.02, 5), Bernoulli(0.95, 3), Bernoulli(0.3, 40)):
        exact = optimum(TwoLayerLinear, Moments.of_map(M), law)
        found = optimum_of_map(aslinearoperator(M.numpy()), law, tolerance=tolerance, block=4)
        # ties make exhausted bases, which go on in directions drawn at random
        assert found.bound <= exact.objective + 1e-12 * energy
        assert found.gap <= max(2 * tolerance, 1e-12) * energy
        close(found.objective, exact.objective, relative=max(2 * tolerance, 1e-12), scale=energy)
        close(found.objective, criterion(found.model, Moments.of_map(M), law).value, relative=1e-12, scale=energy)
        if tolerance < 1e-3 and spectrum in ("power", "exponential"):
            close(found.model.matrix(), exact.model.matrix(), relative=1e-5, scale=1.0)


def test_large_maps_need_few_products():
    """A decaying spectrum and a width of four: far fewer products than the map has columns."""
    values = torch.from_numpy(0.8 ** np.arange(420.0))
    M = ((torch.linalg.qr(normal(430, 420)).Q * values) @ torch.linalg.qr(normal(420, 420)).Q.mT).numpy()
    applied = []

    def times(block):
        applied.append(1 if block.ndim == 1 else block.shape[1])
        return M @ block

    operator = LinearOperator(M.shape, matvec=times, matmat=times, rmatvec=lambda block: M.T @ block, dtype=M.dtype)
    found = optimum_of_map(operator, Bernoulli(0.5, 4), energy=float((M**2).sum()))
    assert found.certified
    close(
        found.objective,
        optimum(TwoLayerLinear, Moments.of_map(torch.from_numpy(M)), Bernoulli(0.5, 4)).objective,
        relative=1e-11,
    )
    assert sum(applied) < 420


def test_the_history_of_variable_projection_counts_its_own_seconds():
    began = time.process_time()
    found = variable_projection(Sample(normal(20, 3), normal(20, 2)), Bernoulli(0.3, 4), iterations=5)
    elapsed = time.process_time() - began
    seconds = [second for second, _ in found.history]
    assert seconds[0] == 0.0
    assert seconds == sorted(seconds)
    assert seconds[-1] <= elapsed
