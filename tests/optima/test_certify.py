"""certify: for every family the bound is below every model, and attained where the theory says so."""

from __future__ import annotations

import pytest
import torch
from cases import (
    EXAMPLES,
    INPUTS,
    OUTPUTS,
    laws,
    linear_pairs,
    normal,
    relu_network,
    sample,
    singular_moments,
    small_network,
    weighted_sample,
)
from compare import close
from torch import nn

from droptics.data import Moments, Sample
from droptics.errors import NoClosedForm
from droptics.masks import Bernoulli, Block, Product, SlidingBlock
from droptics.models import Connections, Factorization, LastLayer, ReLUNet, TwoLayerLinear
from droptics.norms import k_support
from droptics.optima import certify, optimum
from droptics.optima.last_layer import capacity_bound
from droptics.optima.optimum import Certificate, certify_bound
from droptics.penalties import Enumerate, criterion

# entries in general position have no bound; those in product proportions are tested with the two-layer optimum
PAIRS = [case for case in linear_pairs() if not isinstance(case[1], Factorization)]


@pytest.mark.parametrize(("name", "model", "data"), PAIRS, ids=[case[0] for case in PAIRS])
def test_bound_is_below_every_family(name: str, model, data) -> None:
    for label, law in laws(model.units).items():
        certificate = certify(model, data, law)
        close(certificate.objective, criterion(model, data, law).value.detach(), 1e-12)
        assert certificate.bound <= certificate.objective * (1 + 1e-12), label
        assert certificate.bound >= -1e-9 * certificate.objective, label


class TestLastLayer:
    def test_smallest_example(self) -> None:
        """One example y = 1, drop one half, width two: the true bound is 1/3, the printed one 1/2."""
        one = torch.ones(1, 1, dtype=torch.float64)
        close(capacity_bound(Sample(one, one), Bernoulli(0.5, 2), bias=False), 1 / 3, 1e-14)
        # and it is attained by features (c, c) with weights (1 / (2 c) scaled): every unit carries the same
        model = TwoLayerLinear(torch.full((1, 2), (1 / 3) ** 0.5).double(), torch.full((1, 2), (1 / 3) ** 0.5).double())
        close(float(criterion(model, Sample(one, one), Bernoulli(0.5, 2))), 1 / 3, 1e-14)

    @pytest.mark.parametrize("bias", [True, False])
    def test_formula(self, bias: bool) -> None:
        data = weighted_sample()
        share = (data.weights / data.weights.sum())[:, None]
        y = data.targets - (share * data.targets).sum(0) if bias else data.targets
        s = torch.linalg.svdvals(share.sqrt() * y)
        strength, width = 0.25, 2
        value = []
        for rho in range(width + 1):
            value.append(strength / width * s[:rho].sum() ** 2 / (1 + strength * rho / width) + s[rho:].square().sum())
        close(capacity_bound(data, Bernoulli(0.2, width), bias), min(value), 1e-12)

    def test_dropblock_is_the_k_support_program(self) -> None:
        cvxpy = pytest.importorskip("cvxpy")
        data, law = sample(), Block(0.5, 4, 2)
        s = torch.linalg.svdvals((data.targets - data.targets.mean(0)) / EXAMPLES**0.5).numpy()
        x, t = cvxpy.Variable(3, nonneg=True), cvxpy.Variable(3)
        beta = 1.0 * 2 / 4
        penalty = sum(cvxpy.quad_over_lin(x[i], t[i]) for i in range(3))
        goal = cvxpy.sum_squares(s - x) + beta * penalty
        cvxpy.Problem(cvxpy.Minimize(goal), [t <= 1, cvxpy.sum(t) <= 2]).solve(solver="CLARABEL")
        bound = capacity_bound(data, law, bias=True)
        close(bound, goal.value, 1e-6)
        found = torch.from_numpy(x.value.clip(0))
        direct = float((torch.from_numpy(s) - found).square().sum() + beta * k_support(found, 2) ** 2)
        assert bound <= direct * (1 + 1e-6)

    @pytest.mark.parametrize("law", [Bernoulli(0.5, 6), Block(0.4, 6, 2), SlidingBlock(0.2, 6, 3)])
    def test_no_network_beats_it(self, law) -> None:
        """Training a network with capacity comes close from above and never goes below."""
        data = sample()
        network = nn.Sequential(nn.Linear(INPUTS, 30), nn.Tanh(), nn.Linear(30, 6), nn.Linear(6, OUTPUTS)).double()
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.copy_(0.4 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
        model = LastLayer.of(network)
        bound = certify(model, data, law).bound
        optimizer = torch.optim.LBFGS(network.parameters(), max_iter=300, line_search_fn="strong_wolfe")

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            value = criterion(model, data, law).value
            value.backward()
            return value

        optimizer.step(closure)
        certificate = certify(model, data, law)
        assert certificate.objective >= bound * (1 - 1e-12)
        if isinstance(law, Bernoulli):
            assert certificate.relative_gap < 0.02

    def test_labels_are_refused(self) -> None:
        with pytest.raises(ValueError, match="one-hot"):
            certify(LastLayer.of(small_network()), Sample(sample().inputs, torch.arange(EXAMPLES)), Bernoulli(0.5, 5))


class TestReLUNet:
    def test_below_the_enumerated_criterion(self) -> None:
        model = relu_network()
        masks = Product([Bernoulli(0.2, INPUTS), Bernoulli(0.3, 3), Bernoulli(0.4, 2)])
        bound, claim = certify_bound(model, sample(), masks)
        assert claim == "pal2020-prop3.3"
        assert bound <= float(criterion(model, sample(), masks, Enumerate()))
        close(certify(model, sample(), masks).bound, bound, 1e-14)
        same = Bernoulli(torch.cat([law.drop for law in masks.laws]), 9)
        close(certify_bound(model, sample(), same)[0], bound, 1e-14)
        with pytest.raises(NoClosedForm, match="correlate"):
            certify_bound(model, sample(), SlidingBlock(0.2, 9, 2))

    def test_only_the_last_layer_counts(self) -> None:
        deep, shallow = relu_network(), ReLUNet([normal(2, INPUTS), normal(OUTPUTS, 2)])
        first = certify_bound(deep, sample(), Product([Bernoulli(0.9, INPUTS), Bernoulli(0.9, 3), Bernoulli(0.4, 2)]))
        second = certify_bound(shallow, sample(), Product([Bernoulli(0.0, INPUTS), Bernoulli(0.4, 2)]))
        close(first[0], second[0], 1e-14)


class TestConnections:
    @pytest.mark.parametrize("label", ["sample", "weighted", "singular"])
    @pytest.mark.parametrize("drop", [0.0, 0.4, 0.8])
    def test_optimum(self, label: str, drop: float) -> None:
        data = {"sample": sample(), "weighted": weighted_sample(), "singular": singular_moments()}[label]
        law = Bernoulli(drop, INPUTS * 4)
        best = optimum(Connections, data, law)
        assert best.certified
        assert abs(best.gap) <= 1e-10 * best.scale
        assert certify(best.model, data, law).gap <= 1e-10 * best.scale
        for seed in range(3):
            moved = Connections(
                best.model.U + 1e-2 * normal(OUTPUTS, 4, seed=seed), best.model.V + 1e-2 * normal(INPUTS, 4, seed=seed)
            )
            assert float(criterion(moved, data, law)) >= best.objective - 1e-12 * best.scale

    def test_convex_solver_agrees(self) -> None:
        cvxpy = pytest.importorskip("cvxpy")
        data = Moments.of_sample(sample())
        B = cvxpy.Variable((OUTPUTS, INPUTS))
        root = torch.linalg.cholesky(data.xx).numpy()
        scale = data.xx.diagonal().sqrt().numpy()
        goal = cvxpy.sum_squares(B @ root) - 2 * cvxpy.trace(data.yx.numpy().T @ B)
        goal = goal + 0.5 / 4 * cvxpy.square(cvxpy.normNuc(B @ torch.diag(torch.from_numpy(scale)).numpy()))
        cvxpy.Problem(cvxpy.Minimize(goal)).solve(solver="CLARABEL")
        best = optimum(Connections, data, Bernoulli(1 / 3, INPUTS * 4))
        close(best.objective, goal.value + float(data.yy.trace()), 1e-6)

    def test_width_that_binds_is_not_called_optimal(self) -> None:
        best = optimum(Connections, sample(), Bernoulli(0.05, INPUTS))
        assert best.rank == 1
        assert best.gap > 0

    def test_refusals(self) -> None:
        for law in (Block(0.3, 8, 2), Bernoulli(0.3, 7), Bernoulli(torch.linspace(0.1, 0.4, 8).double(), 8)):
            with pytest.raises(NoClosedForm, match=r"independent units with one rate|one coin per weight"):
                optimum(Connections, sample(), law)


def test_unknown_family_names_what_to_do() -> None:
    class Other(Connections):
        pass

    other = Other(normal(OUTPUTS, 2), normal(INPUTS, 2))
    assert certify(other, sample(), Bernoulli(0.3, 8)).gap > 0  # subclasses inherit the rule


@pytest.mark.parametrize(("objective", "bound", "words"), [(40.0, 10.0, "30"), (0.03, 0.01, "0.02"), (3.0, 0.0, "3")])
def test_the_reason_of_a_certificate_says_how_much_may_be_gained(objective, bound, words) -> None:
    reason = Certificate(objective, bound, "droptics-any-law").reason
    assert reason is not None
    assert f"gain up to {words};" in reason
