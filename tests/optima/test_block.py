"""DropBlock and general laws: the k-support bound, factors that attain it, and honesty where nothing does."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from cases import GAUSSIAN, laws, normal, sample, singular_moments
from compare import close
from descent import descend_two_layer

from droptics.data import Moments, Sample
from droptics.masks import Bernoulli, Block, Discrete, SlidingBlock, drop_for_width
from droptics.models import TwoLayerLinear
from droptics.norms import k_support
from droptics.optima import certify, optimum
from droptics.optima.two_layer import two_layer_bound
from droptics.penalties import penalty
from droptics.spectra import action
from droptics.spectra.any_law import frobenius_strength, interval_weights, mixed, nuclear_strength
from droptics.spectra.coordinates import whiten


def block_law(beta, width, block):
    """The DropBlock law whose convex bound is beta ||.||_(block)^2 at this width."""
    gamma = beta * width / block
    return Block(gamma / (1 + gamma), width, block)


def diagonal(*values):
    return Moments.of_map(torch.diag(torch.tensor(values, dtype=torch.float64)))


def test_printed_tightness_needs_enough_blocks():
    # Y = I_3, block 2, beta = 0.1: the bound 9/23 is attained at width 6 and 8, not at 4 although the rank is 3 < 4
    data = diagonal(1.0, 1.0, 1.0)
    narrow = optimum(TwoLayerLinear, data, block_law(0.1, 4, 2))
    assert narrow.bound == pytest.approx(9 / 23, rel=1e-12)
    assert narrow.objective == pytest.approx(14 / 33, rel=1e-9)
    assert not narrow.certified
    assert "alternating" in narrow.method
    for width in (6, 8, 16):
        found = optimum(TwoLayerLinear, data, block_law(0.1, width, 2))
        assert found.certified
        assert found.objective == pytest.approx(9 / 23, rel=1e-9)
    assert optimum(TwoLayerLinear, data, block_law(0.1, 8, 2)).method == "closed form"


def test_second_example_of_missing_tightness():
    data = diagonal(1.3, 1.2, 1.0, 0.9, 0.8)
    narrow = optimum(TwoLayerLinear, data, block_law(0.1, 6, 3))
    assert narrow.gap == pytest.approx(1.5e-2, rel=0.05)
    assert not narrow.certified
    assert optimum(TwoLayerLinear, data, block_law(0.1, 9, 3)).certified


@pytest.mark.parametrize(
    ("block", "blocks", "rows", "columns"),
    [(2, 8, 5, 4), (3, 8, 7, 9), (2, 2, 3, 2), (4, 16, 9, 12), (5, 1, 4, 3), (3, 1, 2, 6)],
)
@pytest.mark.parametrize("rate", [0.05, 0.5, 0.95])
def test_constructed_factors_attain_the_bound(block, blocks, rows, columns, rate):
    M = normal(rows, columns)
    masks = Block(rate, block * blocks, block)
    found = optimum(TwoLayerLinear, Moments.of_map(M), masks)
    if found.method != "closed form":
        pytest.fail("the construction covers these sizes")
    assert abs(found.gap) <= 1e-12 * found.scale
    # balanced: every block contributes the same norm (pal2020-def2.4)
    parts = [
        found.model.U[:, i * block : (i + 1) * block] @ found.model.V[:, i * block : (i + 1) * block].mT
        for i in range(blocks)
    ]
    norms = torch.stack([part.norm() for part in parts])
    close(norms, norms.mean().expand(blocks), relative=1e-11)
    close(norms.sum(), k_support(torch.linalg.svdvals(found.model.matrix()), block), relative=1e-10)


def test_as_many_blocks_suffice_as_values_are_in_the_tail():
    """Of five values the largest is in every block; four blocks share the others."""
    values = torch.tensor([5.0, 1.0, 0.9, 0.8, 0.7], dtype=torch.float64)
    left, right = (torch.linalg.qr(normal(6, 5, seed=seed)).Q for seed in (1, 2))
    law = Block(0.4, 12, 3)
    U, H = action(law).spread(left, values, right)
    close(U @ H.mT, left * values @ right.mT, relative=1e-12)
    cost = (law.characteristic * (U.mT @ U) * (H.mT @ H)).sum()
    close(cost, 2 / 3 / 4 * (25 + 3.4**2 / 2), relative=1e-12)


def test_rates_that_are_near_each_other_are_not_one():
    drops = torch.tensor([0.3, 0.3001, 0.2999], dtype=torch.float64)
    found = optimum(TwoLayerLinear, Moments.of_map(normal(4, 3)), Bernoulli(drops, 3))
    assert found.claim == "droptics-unequal-rates"
    assert found.certified
    U, V = found.model.tensors
    own = (normal(4, 3) - U @ V.mT).square().sum()
    own = own + (drops / (1 - drops) * U.square().sum(0) * V.square().sum(0)).sum()
    close(found.objective, own, relative=1e-12)


def test_bound_agrees_with_a_convex_solver():
    cvxpy = pytest.importorskip("cvxpy")
    M = normal(4, 3)
    block, beta = 2, 0.3
    found = optimum(TwoLayerLinear, Moments.of_map(M), block_law(beta, 16, block))
    values = torch.linalg.svdvals(M).numpy()
    x, t = cvxpy.Variable(3), cvxpy.Variable(3)
    norm = cvxpy.sum([cvxpy.quad_over_lin(x[i], t[i]) for i in range(3)])
    problem = cvxpy.Problem(
        cvxpy.Minimize(cvxpy.sum_squares(values - x) + beta * norm), [t >= 0, t <= 1, cvxpy.sum(t) <= block]
    )
    assert found.objective == pytest.approx(problem.solve(solver=cvxpy.CLARABEL), rel=1e-6)
    close(torch.linalg.svdvals(found.model.matrix()), x.value, relative=1e-4)


@pytest.mark.parametrize("data", [sample(), singular_moments(), Sample(normal(3, 5), normal(3, 2))])
@pytest.mark.parametrize("width", [2, 4, 8])
def test_blocks_never_beaten_from_fifty_starts(data, width):
    masks = Block(0.4, width, 2)
    found = optimum(TwoLayerLinear, data, masks)
    moments = data if isinstance(data, Moments) else Moments.of_sample(data)
    reached = descend_two_layer(moments, masks.characteristic, starts=50, sweeps=1500)
    assert found.bound <= reached.min() + 1e-10 * found.scale
    assert found.objective <= reached.min() + 1e-7 * found.scale
    assert found.bound <= found.objective + 1e-10 * found.scale


def test_width_adaptive_rate_keeps_the_optimum():
    M = normal(4, 4)
    values = [
        optimum(TwoLayerLinear, Moments.of_map(M), Block(drop_for_width(0.2, width, 2), width, 2)).objective
        for width in (8, 16, 32)
    ]
    assert values == pytest.approx([values[0]] * 3, rel=1e-11)
    fixed = [optimum(TwoLayerLinear, Moments.of_map(M), Block(0.2, width, 2)).objective for width in (8, 16, 32)]
    assert fixed[0] > 1.5 * fixed[1] > 2 * fixed[2]  # at a fixed rate the penalty vanishes with the width


def test_block_special_cases():
    data = sample()
    # blocks of one unit are dropout
    assert optimum(TwoLayerLinear, data, Block(0.3, 4, 1)).objective == pytest.approx(
        optimum(TwoLayerLinear, data, Bernoulli(0.3, 4)).objective, rel=1e-12
    )
    # one block that holds everything is a scalar shrinkage of least squares
    whole = optimum(TwoLayerLinear, Moments.of_map(normal(3, 4)), Block(0.5, 4, 4))
    assert whole.objective == pytest.approx(0.5 * float(normal(3, 4).square().sum()), rel=1e-12)
    nothing = optimum(TwoLayerLinear, Moments.of_map(torch.zeros(3, 4).double()), Block(0.5, 4, 2))
    assert nothing.objective == 0.0
    free = optimum(TwoLayerLinear, Moments.of_map(normal(3, 4)), Block(0.0, 4, 2))
    assert free.objective == pytest.approx(0.0, abs=1e-12)
    # at equal rate and width, blocks regularize at least as much as dropout
    for width in (4, 8):
        blocks = optimum(TwoLayerLinear, data, Block(0.4, width, 2)).bound
        assert blocks >= optimum(TwoLayerLinear, data, Bernoulli(0.4, width)).objective - 1e-12
    single = optimum(TwoLayerLinear, Moments.of_map(normal(3, 4)).to(torch.float32), Block(0.5, 8, 2))
    assert single.certified
    assert single.model.U.dtype == torch.float32


def test_unequal_block_rates_have_a_bound():
    masks = Block(torch.tensor([0.1, 0.5, 0.7]).double(), 6, 2)
    found = optimum(TwoLayerLinear, sample(), masks)
    reached = descend_two_layer(Moments.of_sample(sample()), masks.characteristic, starts=50)
    assert found.bound <= reached.min()
    assert found.objective <= reached.min() + 1e-7 * found.scale


@pytest.mark.parametrize("name", list(laws(4)))
def test_general_laws_have_valid_bounds(name):
    masks = laws(4)[name]
    data = sample()
    found = optimum(TwoLayerLinear, data, masks)
    reached = descend_two_layer(Moments.of_sample(data), masks.characteristic, starts=50, sweeps=1500)
    assert found.bound <= reached.min() + 1e-10 * found.scale
    assert found.objective <= reached.min() + 1e-6 * found.scale
    certificate = certify(TwoLayerLinear(normal(3, 4), normal(4, 4)), data, masks)
    assert certificate.bound == pytest.approx(found.bound, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize(
    "masks",
    [
        SlidingBlock(0.2, 6, 3),
        SlidingBlock.matching(0.3, 7, 2, "valid"),
        Block(torch.tensor([0.2, 0.6]).double(), 6, 3),
        GAUSSIAN(5),
        Discrete(normal(9, 4, seed=13) + 2, torch.arange(1, 10).double() / 45),
    ],
    ids=["clipped", "valid", "blocks", "gaussian", "discrete"],
)
def test_penalty_bounds_hold_for_random_factors(masks):
    characteristic = masks.characteristic
    plain, nuclear = frobenius_strength(characteristic), nuclear_strength(characteristic)
    for seed in range(200):
        U, V = normal(3, masks.size, seed=seed), normal(4, masks.size, seed=seed + 1)
        if seed % 2:  # factors near the worst case: the same direction in every unit
            U, V = U[:, :1] + 0.01 * U, V[:, :1] + 0.01 * V
        model = TwoLayerLinear(U, V)
        value = float(penalty(model, Moments.of_map(torch.zeros(3, 4).double()), masks))
        spectrum = torch.linalg.svdvals(model.matrix())
        assert value >= plain * float(spectrum.square().sum()) * (1 - 1e-10)
        assert value >= nuclear * float(spectrum.sum()) ** 2 * (1 - 1e-10)


def test_strengths_of_known_laws():
    gamma = 0.4 / 0.6
    assert nuclear_strength(Bernoulli(0.4, 5).characteristic) == pytest.approx(gamma / 5)
    assert frobenius_strength(Bernoulli(0.4, 5).characteristic) == pytest.approx(gamma / 5)
    # blocks: lambda / blocks for the Frobenius norm, lambda / width for the nuclear norm
    assert frobenius_strength(Block(0.4, 6, 2).characteristic) == pytest.approx(gamma / 3)
    assert nuclear_strength(Block(0.4, 6, 2).characteristic) == pytest.approx(gamma / 6)
    # sliding blocks with the same survival: constant diagonal, so gamma / width
    clipped = SlidingBlock.matching(0.4, 10, 3)
    assert nuclear_strength(clipped.characteristic) >= gamma / 10 * (1 - 1e-9)
    weights = interval_weights(clipped.characteristic)
    assert weights is not None
    rebuilt = torch.zeros(10, 10, dtype=torch.float64)
    for first in range(10):
        for last in range(first, 10):
            rebuilt[first : last + 1, first : last + 1] += weights[first, last]
    close(rebuilt, clipped.characteristic)
    negative = torch.tensor([[1.0, -0.5], [-0.5, 1.0]]).double()
    assert interval_weights(negative) is None
    # a law in which two units cancel has no penalty on some maps: the bound must be zero
    antithetic = Discrete(torch.tensor([[0.5, 1.5], [1.5, 0.5]]).double(), torch.tensor([0.5, 0.5]).double())
    assert frobenius_strength(antithetic.characteristic) == 0.0
    assert nuclear_strength(antithetic.characteristic) <= 1e-12
    assert np.isfinite(optimum(TwoLayerLinear, sample(), antithetic).bound)


def ones_form(matrix):
    """1 / (1^T matrix^+ 1), zero when the vector of ones is not in the range."""
    inverse = np.linalg.pinv(matrix, rcond=1e-10, hermitian=True)
    ones = np.ones(len(matrix))
    return 1 / (ones @ inverse @ ones) if np.allclose(matrix @ inverse @ ones, ones, atol=1e-6) else 0.0


@pytest.mark.parametrize(
    "masks",
    [
        SlidingBlock(0.2, 6, 3),
        SlidingBlock.matching(0.3, 7, 2, "valid"),
        Block(torch.tensor([0.2, 0.6]).double(), 6, 3),
        Bernoulli(torch.linspace(0.1, 0.7, 5).double(), 5),
        Bernoulli(torch.tensor([0.0, 0.5, 0.3]).double(), 3),
        Discrete(normal(9, 4, seed=13) + 2, torch.arange(1, 10).double() / 45),
        Bernoulli(0.5, 1),
    ],
    ids=["clipped", "valid", "blocks", "rates", "one-free", "discrete", "one"],
)
def test_strengths_are_those_of_their_formulas(masks):
    C = masks.characteristic.numpy()
    size = len(C)
    assert frobenius_strength(masks.characteristic) == pytest.approx(ones_form(C), rel=1e-9)
    # (b): the weights of intervals by inclusion and exclusion, each divided by its length
    entry = lambda i, j: C[i, j] if 0 <= i <= j < size else 0.0  # noqa: E731
    covering, negative = np.zeros((size, size)), False
    for first in range(size):
        for last in range(first, size):
            corners = entry(first, last) - entry(first - 1, last) - entry(first, last + 1) + entry(first - 1, last + 1)
            negative |= corners < -1e-12 * abs(C).max()
            covering[first : last + 1, first : last + 1] += max(corners, 0.0) / (last - first + 1)
    assert (interval_weights(masks.characteristic) is None) == negative
    expected = 0.0 if negative else ones_form(covering)
    # (c): the largest multiple of the diagonal below C
    diagonal = np.diag(C)
    if diagonal.min() > 0:
        lowest = np.linalg.eigvalsh(C / np.sqrt(np.outer(diagonal, diagonal)))[0]
        expected = max(expected, lowest / (1 / diagonal).sum())
    assert nuclear_strength(masks.characteristic) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def least_of_mixture(values, plain, nuclear, width):
    """Least of |s - x|^2 + plain |x|^2 + nuclear (sum x)^2 over x >= 0 of at most `width` entries, by all supports."""
    best = (values**2).sum()
    for rank in range(1, min(width, len(values)) + 1):
        x = np.linalg.solve((1 + plain) * np.eye(rank) + nuclear, values[:rank])
        if x.min() >= 0:
            lost = ((values[:rank] - x) ** 2).sum() + (values[rank:] ** 2).sum()
            best = min(best, lost + plain * (x**2).sum() + nuclear * x.sum() ** 2)
    return best


@pytest.mark.parametrize("width", [1, 2, 5])
@pytest.mark.parametrize(("plain", "nuclear"), [(0.0, 0.0), (0.5, 0.0), (0.0, 0.7), (0.3, 0.2), (4.0, 0.01)])
def test_least_value_under_a_mixture_of_norms(plain, nuclear, width):
    values = np.array([3.0, 2.0, 1.9, 0.1])
    shrunk, penalty = mixed(torch.from_numpy(values), plain, nuclear, width)
    assert float((torch.from_numpy(values) - shrunk).square().sum()) + penalty == pytest.approx(
        least_of_mixture(values, plain, nuclear, width), rel=1e-13
    )


@pytest.mark.parametrize("masks", [SlidingBlock(0.2, 6, 3), SlidingBlock(0.4, 3, 2, "valid"), laws(4)["discrete"]])
def test_the_bound_is_the_best_mixture(masks):
    white = whiten(sample())
    values = torch.linalg.svdvals(white.target).numpy()
    plain, nuclear = frobenius_strength(masks.characteristic), nuclear_strength(masks.characteristic)
    mixtures = [
        least_of_mixture(values, (1 - w) * plain, w * nuclear, masks.size) + float(white.constant)
        for w in np.linspace(0, 1, 201)
    ]
    bound, claim = two_layer_bound(white, masks)
    assert claim == "droptics-mask-bounds"
    assert max(mixtures[0], mixtures[-1]) * (1 - 1e-12) <= bound <= max(mixtures) * (1 + 1e-12)
    assert bound == pytest.approx(max(mixtures), rel=1e-3)


@pytest.mark.parametrize(("law", "map_"), [(22, 13), (24, 16)])
def test_the_search_keeps_the_best_of_its_starts(law, map_):
    """Laws with stationary points of different values."""
    masks = Discrete(normal(6, 4, seed=law).square(), torch.tensor([6, 2, 4, 3, 1, 4]).double() / 20)
    data = Moments.of_map(normal(4, 4, seed=map_))
    reached = descend_two_layer(data, masks.characteristic, starts=12)
    assert reached.max() > reached.min() + 0.01
    assert optimum(TwoLayerLinear, data, masks).objective <= reached.min() * (1 + 1e-6)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_rank_of_what_a_search_finds(scale):
    matrix = scale * torch.outer(normal(3), normal(4))
    found = optimum(TwoLayerLinear, Moments.of_map(matrix), SlidingBlock(0.3, 4, 2))
    assert found.rank == 1
    plain = optimum(TwoLayerLinear, Moments.of_map(scale * normal(3, 4)), SlidingBlock(0.05, 4, 2))
    assert plain.rank == int(torch.linalg.matrix_rank(plain.model.matrix(), rtol=1e-8))


@pytest.mark.parametrize("small", [2.0**-10, 2.0**-20, 2.0**-24])
def test_strength_of_an_almost_singular_law_is_never_too_large(small):
    # C = [[a, b], [b, c]]: 1^T C^-1 1 = (a + c - 2 b) / (a c - b^2), here in fractions of the entries as they are
    for shift in range(40):
        a, b, c = 3.0, 1.0 + shift / 7, (1.0 + shift / 7) ** 2 / 3 + small
        exact = [Fraction(value) for value in (a, b, c)]
        strength = (exact[0] * exact[2] - exact[1] ** 2) / (exact[0] + exact[2] - 2 * exact[1])
        found = frobenius_strength(torch.tensor([[a, b], [b, c]], dtype=torch.float64))
        # the division at the end rounds once, the sum and what it adds twice each
        assert found <= float(strength) * (1 + 2.0**-50)
        # eigenvalues, at least det / trace, are off by 8 eps of the largest and are lowered by as much
        lowest, level = 3 * small / (a + c), 8 * 2.0**-52 * (a + c)
        assert found >= float(strength) * (1 - 2 * level / lowest)
