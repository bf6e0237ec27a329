"""The bounds against independent evaluations, printed numbers, and the quantities they bound."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from droptics import bounds
from droptics.bounds import classical, lazy_training, margins, statistical
from droptics.data import Entries, Sample
from droptics.models import DeepLinear, Factorization, ReLUNet, TwoLayerLinear

POSITIVE = st.floats(1e-3, 1e3)
EXAMPLES = st.integers(2, 10**7)
CONFIDENCE = st.floats(0.01, 0.999)


def sample(n=40, d=3, seed=0, skewed=False):
    rng = np.random.default_rng(seed)
    x = rng.exponential(size=(n, d)) - 1 if skewed else rng.normal(size=(n, d))
    return Sample(x @ rng.normal(size=(d, d)), rng.choice([-1.0, 1.0], size=n))


def network(d=3, width=4, seed=1):
    rng = np.random.default_rng(seed)
    return ReLUNet([torch.tensor(rng.normal(size=(width, d))), torch.tensor(rng.normal(size=(1, width)) / width)])


# ---------------------------------------------------------------- classical


def test_uniform_and_squared_by_hand():
    bound = bounds.uniform(0.1, 0.02, 50, confidence=0.9)
    assert bound.value == pytest.approx(0.1 + 0.04 + math.sqrt(math.log(10) / 100), rel=1e-14)
    bound = bounds.uniform(0.1, 0.02, 50, confidence=0.9, empirical=True)
    assert bound.value == pytest.approx(0.1 + 0.04 + 3 * math.sqrt(math.log(20) / 100), rel=1e-14)
    bound = bounds.squared(0.1, 0.02, 50, deviation=2, confidence=0.9)
    assert bound.value == pytest.approx(0.1 + 8 * 0.02 + 4 * math.sqrt(math.log(20) / 100), rel=1e-14)
    assert sum(bound.terms.values()) == pytest.approx(bound.value)


def test_uniform_deviation_holds_on_a_finite_class():
    """Threshold functions on uniform data: complexity by enumeration, failures far below delta."""
    rng = np.random.default_rng(0)
    thresholds = np.linspace(0, 1, 11)
    failures = 0
    for _ in range(200):
        x = rng.random(60)
        values = (x[:, None] < thresholds).astype(float)
        signs = rng.choice([-1.0, 1.0], size=(400, 60))
        complexity = float((signs @ values).max(1).mean()) / 60
        slack = bounds.uniform(0.0, complexity, 60, confidence=0.9, empirical=True).value
        failures += bool((thresholds > values.mean(0) + slack).any())
    assert failures <= 20


@pytest.mark.parametrize("deviation", [0.1, 0.3, 0.5])
def test_hoeffding_bounds_the_exact_binomial_tail(deviation):
    n = 12
    tail = sum(0.5**n for signs in itertools.product((-0.5, 0.5), repeat=n) if sum(signs) >= deviation * n - 1e-12)
    assert tail <= bounds.hoeffding(deviation * n, [1.0] * n)
    assert bounds.hoeffding(deviation * n, [1.0] * n) == pytest.approx(math.exp(-2 * n * deviation**2))


def test_gaussian_tail_and_martingale():
    for t in (0.5, 1.0, 3.0):
        assert 0.5 * math.erfc(t / math.sqrt(2)) <= bounds.gaussian_tail(t, 1.0) == pytest.approx(math.exp(-t * t / 2))
    assert bounds.gaussian_tail(0.0, 1.0) == 1.0
    assert bounds.gaussian_tail(1.0, 0.0) == 0.0
    value = bounds.martingale(variance=4.0, largest=2.0, confidence=1 - math.exp(-1))
    assert value == pytest.approx(2 + (math.e - 2) * 2)


# ---------------------------------------------------------------- completion


@given(POSITIVE, st.integers(2, 3000), st.integers(1, 3000), EXAMPLES, CONFIDENCE, st.floats(0, 3))
@settings(max_examples=50, deadline=None)
def test_completion_by_hand(alpha, d2, d0, n, confidence, risk):
    long, short = max(d2, d0), min(d2, d0)
    ell = math.log(long + short) / math.log(long)
    constant = math.sqrt(2 * ell) + ell * (short / long) ** 0.25 / 3
    logarithm = math.log(2 / (1 - confidence))
    corrected = risk + 8 * constant * math.sqrt(alpha * long * math.log(long) / n) + 4 * math.sqrt(logarithm / 2 / n)
    printed = risk + 8 * math.sqrt((2 * alpha * long * math.log(long) + logarithm / 4) / n)
    ours = bounds.completion(alpha=alpha, shape=(d2, d0), examples=n, risk=risk, confidence=confidence)
    assert ours.value == pytest.approx(corrected, rel=1e-9)
    given_printed = bounds.completion(
        alpha=alpha, shape=(d2, d0), examples=n, risk=risk, confidence=confidence, printed=True
    )
    assert given_printed.value == pytest.approx(printed, rel=1e-9)
    assert ours.vacuous == (ours.value >= 4)
    needed = ours.needed["examples"]
    if math.isfinite(needed) and needed > 2:
        enough = bounds.completion(
            alpha=alpha, shape=(d2, d0), examples=math.ceil(needed * 1.001), risk=risk, confidence=confidence
        )
        few = bounds.completion(
            alpha=alpha, shape=(d2, d0), examples=max(1, int(needed * 0.99)), risk=risk, confidence=confidence
        )
        assert not enough.vacuous
        assert few.vacuous


@pytest.mark.parametrize(
    ("shape", "examples", "alpha", "gap"),
    [((1682, 943), 99_999, 1, 4.00), ((1682, 943), 99_999, 0.1, 1.26), ((6040, 3706), 1_000_209, 1, 2.59)],
)
def test_completion_at_movielens_sizes(shape, examples, alpha, gap):
    printed = bounds.completion(alpha=alpha, shape=shape, examples=examples, printed=True)
    assert printed.value == pytest.approx(gap, abs=0.006)
    assert bounds.completion(alpha=alpha, shape=shape, examples=examples).value > printed.value
    # the constant predictor has risk about 0.28 on ratings scaled to [-1, 1]
    assert bounds.completion(alpha=1, shape=shape, examples=examples, trivial=0.28).needed["examples"] > 1e7


@pytest.mark.parametrize("side", [2, 5, 10, 60])
def test_completion_constant_covers_the_measured_complexity(side):
    """E ||sum zeta e_i e_j^T / sqrt(p q)|| / n against K sqrt(d log d / n), uniform marginals."""
    rng = np.random.default_rng(side)
    n = math.ceil(side * math.log(side))  # the fewest examples that the non-degeneracy condition admits
    norms = []
    for _ in range(400):
        matrix = np.zeros((side, side))
        np.add.at(matrix, (rng.integers(side, size=n), rng.integers(side, size=n)), rng.choice([-1.0, 1.0], size=n))
        norms.append(np.linalg.norm(matrix, 2) * side / n)
    measured = np.mean(norms) / math.sqrt(side * math.log(side) / n)
    assert measured <= bounds.completion_constant((side, side))
    assert measured > 1  # the printed constant 1 is false for small square matrices


@pytest.mark.parametrize("shape", [(9, 5), (5, 9), (40, 2)])
def test_completion_constant_written_out(shape):
    long, short = max(shape), min(shape)
    share = math.log(sum(shape), long)
    assert bounds.completion_constant(shape) == pytest.approx((2 * share) ** 0.5 + share * (short / long) ** 0.25 / 3)
    for examples, mixed in ((200, 0.5), (75, 0.2)):
        spread = (short * math.log(long) / examples) ** 0.5
        wanted = (2 * share) ** 0.5 / (1 - mixed) + share * spread / (3 * mixed)
        assert bounds.completion_constant(shape, examples, mixed) == pytest.approx(wanted)


def entries(n=300, seed=0, shape=(12, 9)):
    rng = np.random.default_rng(seed)
    rows = torch.tensor(np.minimum(rng.geometric(0.3, n) - 1, shape[0] - 1))
    columns = torch.tensor(rng.integers(shape[1], size=n))
    return Entries(rows, columns, torch.tensor(rng.uniform(-1, 1, n)), shape)


def test_completion_of_a_model_and_data():
    data = entries()
    rng = np.random.default_rng(2)
    model = Factorization(torch.tensor(rng.normal(size=(12, 3)) / 3), torch.tensor(rng.normal(size=(9, 3)) / 3))
    p = np.bincount(data.rows.numpy(), minlength=12) / 300 / 2 + 0.5 / 12
    q = np.bincount(data.columns.numpy(), minlength=9) / 300 / 2 + 0.5 / 9
    regularizer = sum((p @ model.U[:, k].numpy() ** 2) * (q @ model.V[:, k].numpy() ** 2) for k in range(3))
    alpha = bounds.completion_alpha(model, data)
    assert alpha == pytest.approx(3 * regularizer, rel=1e-12)
    bound = bounds.completion(model, data)
    # alpha is rounded up by at most 2^(1/4) and the confidence shared over the grid: never below the plain numbers
    plain = bounds.completion(model, data, alpha=alpha)
    assert plain.value < bound.value < 1.1 * plain.value + 1
    predicted = (model.U @ model.V.T)[data.rows, data.columns]
    assert bound.terms["empirical risk"] == pytest.approx(float((predicted - data.values).square().mean()), rel=1e-12)
    expected = float(p.min() * q.min()) * 300 * math.sqrt(108) / math.log(12)
    assert bounds.completion_condition(data, 0.5) == pytest.approx(expected, rel=1e-12)
    assert bounds.completion_condition(data) < bounds.completion_condition(data, 0.5)  # some row was hardly seen


def test_the_condition_of_completion_on_at_most_two_users_and_two_items():
    """By hand at two by two and two by one, every entry seen once; one by one has no logarithm to divide by."""
    square = Entries([0, 0, 1, 1], [0, 1, 0, 1], torch.ones(4, dtype=torch.float64), (2, 2))
    assert bounds.completion_condition(square) == pytest.approx(0.5 * 0.5 * 4 * 2 / math.log(2), rel=1e-14)
    for shape, rows, columns in (((2, 1), [0, 1], [0, 0]), ((1, 2), [0, 0], [0, 1])):
        thin = Entries(rows, columns, torch.ones(2, dtype=torch.float64), shape)
        assert bounds.completion_condition(thin) == pytest.approx(0.5 * 2 * math.sqrt(2) / math.log(2), rel=1e-14)
    with pytest.raises(ValueError, match="side of at least 2"):
        bounds.completion_condition(Entries([0], [0], torch.ones(1, dtype=torch.float64), (1, 1)))


def test_smoothed_constant_bounds_the_measured_complexity_on_skewed_marginals():
    shape, n = (12, 9), 2000
    rng = np.random.default_rng(0)
    p = 0.6 ** np.arange(12)
    p /= p.sum()
    smooth_p, smooth_q = 0.5 * p + 0.5 / 12, np.full(9, 1 / 9)
    norms = []
    for _ in range(60):
        matrix = np.zeros(shape)
        rows, columns = rng.choice(12, size=n, p=p), rng.integers(9, size=n)
        np.add.at(matrix, (rows, columns), rng.choice([-1.0, 1.0], size=n))
        norms.append(np.linalg.norm(matrix / np.sqrt(np.outer(smooth_p, smooth_q)), 2) / n)
    assert np.mean(norms) <= bounds.completion_constant(shape, n, 0.5) * math.sqrt(12 * math.log(12) / n)


@pytest.mark.parametrize(
    "change",
    [
        {"alpha": -1.0},
        {"examples": 0},
        {"shape": (1, 1)},
        {"confidence": 1.0},
        {"risk": float("nan")},
        {"smoothing": 1.0},
        {"alpha": None},
    ],
)
def test_completion_refuses(change):
    with pytest.raises(ValueError, match=next(iter(change))):
        bounds.completion(**({"alpha": 1.0, "shape": (3, 4), "examples": 10} | change))


def test_completion_refuses_ratings_out_of_range():
    data = Entries([0], [0], torch.tensor([5.0]), (2, 2))
    with pytest.raises(ValueError, match="rescale"):
        bounds.completion(Factorization(torch.ones(2, 1), torch.ones(2, 1)), data)


# ---------------------------------------------------------------- rademacher


@given(POSITIVE, POSITIVE, EXAMPLES, st.floats(0.01, 0.5))
@settings(max_examples=50, deadline=None)
def test_rademacher_by_hand_and_monotone(alpha, norm, n, beta):
    def upper(**change):
        numbers = {"alpha": alpha, "norm": norm, "examples": n, "retentivity": beta} | change
        return bounds.rademacher(**numbers).value

    assert upper() == pytest.approx(2 * alpha * norm / (n * math.sqrt(beta)), rel=1e-12)
    lower = bounds.rademacher(alpha=alpha, norm=norm, examples=n, side="lower").value
    assert lower == pytest.approx(alpha * norm / (2 * n), rel=1e-12)
    assert upper() / lower == pytest.approx(4 / math.sqrt(beta), rel=1e-12)
    assert upper(alpha=1.1 * alpha) > upper()
    assert upper(norm=1.1 * norm) > upper()
    assert upper(examples=n + 1) < upper()
    assert upper(retentivity=beta * 0.9) > upper()


@given(POSITIVE, POSITIVE, EXAMPLES, st.floats(0.01, 0.5))
@settings(max_examples=50, deadline=None)
def test_rademacher_says_how_many_examples_make_it_one(alpha, norm, n, beta):
    """The norm of n examples of the same law grows with sqrt(n), so the complexity falls with it."""
    for choice in ({"retentivity": beta}, {"symmetrized": True}, {"side": "lower"}):
        found = bounds.rademacher(alpha=alpha, norm=norm, examples=n, **choice)
        for more in (2, 7):
            there = bounds.rademacher(alpha=alpha, norm=norm * math.sqrt(more), examples=more * n, **choice)
            share = math.sqrt(found.needed["examples"] / (more * n))
            assert there.value == pytest.approx(share * found.trivial, rel=1e-12)


@pytest.mark.parametrize("skewed", [False, True])
@pytest.mark.parametrize(("n", "d"), [(8, 1), (60, 1), (8, 2), (60, 2), (100, 4)])
def test_measured_complexity_lies_between_the_bounds(n, d, skewed):
    data = sample(n, d, seed=n + d, skewed=skewed)
    measured = bounds.measured_rademacher(data, alpha=1.5, draws=400)
    lower = bounds.rademacher(data=data, alpha=1.5, side="lower").value
    upper = bounds.rademacher(data=data, alpha=1.5, retentivity=0.5).value  # the best case of the upper bound
    # of listed patterns with two features the rounding is not bounded
    low, high = measured.interval if float(measured.error) < np.inf else (measured.value, measured.value)
    assert lower <= float(low)
    assert float(high) <= upper
    assert (float(measured.error) == np.inf) == (n == 8 and d == 2)


def brute_force_supremum(points, signs, angles=20_000, law=None, shares=None):
    """max over directions of |sum zeta relu(v.x)| / sqrt(E relu(v.x)^2) on a fine grid, under a law."""
    turn = np.linspace(0, 2 * np.pi, angles, endpoint=False)
    ways = np.stack([np.cos(turn), np.sin(turn)])
    active = np.maximum(points @ ways, 0)
    law, shares = (points, np.full(len(points), 1 / len(points))) if law is None else (law, shares)
    energy = np.sqrt(shares @ np.maximum(law @ ways, 0) ** 2)
    return np.abs(np.where(energy > 1e-9, signs @ active / np.maximum(energy, 1e-9), 0)).max(1)


@pytest.mark.parametrize("skewed", [False, True])
def test_sweep_in_two_dimensions_equals_a_fine_grid(skewed):
    data = sample(7, 2, seed=3, skewed=skewed)
    signs = np.array(list(itertools.product((1.0, -1.0), repeat=7)))
    grid = brute_force_supremum(data.inputs.numpy(), signs).mean() / 7
    exact = float(bounds.measured_rademacher(data))
    assert grid <= exact * (1 + 1e-9)
    assert exact == pytest.approx(grid, rel=1e-4)


def test_the_constraint_can_be_that_of_a_population():
    data, law = sample(6, 2, seed=3), sample(9, 2, seed=4, skewed=True)
    shares = np.linspace(1, 3, 9) / np.linspace(1, 3, 9).sum()
    population = Sample(law.inputs, law.targets, torch.from_numpy(7 * shares))
    signs = np.array(list(itertools.product((1.0, -1.0), repeat=6)))
    grid = brute_force_supremum(data.inputs.numpy(), signs, law=law.inputs.numpy(), shares=shares).mean() / 6
    exact = float(bounds.measured_rademacher(data, population=population))
    assert grid <= exact * (1 + 1e-9)
    assert exact == pytest.approx(grid, rel=1e-4)
    assert exact != pytest.approx(float(bounds.measured_rademacher(data)), rel=0.05)
    # more features: the relaxation with the second moment of the law, as data_norm has it
    wide, other = sample(5, 4, seed=3), sample(40, 4, seed=4)
    moment = other.inputs.mT @ other.inputs / 40
    roots = torch.linalg.cholesky(torch.linalg.inv(moment))
    signs = torch.tensor(list(itertools.product((1.0, -1.0), repeat=5))).double()
    expected = float((signs @ wide.inputs @ roots).norm(dim=1).mean()) / math.sqrt(2) / 5
    assert float(bounds.measured_rademacher(wide, population=other)) == pytest.approx(expected, rel=1e-10)


def test_in_one_dimension_the_points_of_a_population_count_by_their_weights():
    """Either side by itself: sums over the data on it, over the root of its share of the second moment of the law."""
    data, law = sample(6, 1, seed=3), sample(5, 1, seed=4)
    shares = np.array([0.05, 0.4, 0.1, 0.25, 0.2])
    population = Sample(law.inputs, law.targets, torch.from_numpy(3 * shares))
    x, z = data.inputs.numpy()[:, 0], law.inputs.numpy()[:, 0]
    signs = np.array(list(itertools.product((1.0, -1.0), repeat=6)))
    sides = [
        np.abs(signs @ np.maximum(s * x, 0)) / math.sqrt(float(shares @ np.maximum(s * z, 0) ** 2)) for s in (1, -1)
    ]
    told = bounds.measured_rademacher(data, 1.7, population=population)
    assert float(told) == pytest.approx(1.7 / 6 * np.maximum(*sides).mean(), rel=1e-12)
    assert told.cost == 64


@pytest.mark.parametrize(("count", "patterns"), [(11, 2**11), (12, 2**12), (13, 16)])
def test_all_signs_of_a_dozen_examples_are_listed(count, patterns):
    x = sample(count, 1, seed=7).inputs.numpy()[:, 0]
    told = bounds.measured_rademacher(Sample(x[:, None], np.ones(count)), draws=16)
    assert told.cost == patterns
    if count <= 12:
        signs = np.array(list(itertools.product((1.0, -1.0), repeat=count)))
        sides = [np.abs(signs @ np.maximum(s * x, 0)) / np.sqrt((np.maximum(s * x, 0) ** 2).mean()) for s in (1, -1)]
        wanted = np.maximum(*sides).mean() / count
        assert [float(told), float(told.lower), float(told.upper)] == pytest.approx([wanted] * 3, rel=1e-12)


def test_a_unit_that_the_population_never_activates_has_no_limit():
    data, right = Sample(np.array([[1.0], [-2.0]]), np.ones(2)), Sample(np.array([[1.0], [3.0]]), np.ones(2))
    assert float(bounds.measured_rademacher(data, population=right)) == math.inf
    positive = Sample(np.abs(data.inputs.numpy()), np.ones(2))
    assert float(bounds.measured_rademacher(positive, population=right)) == pytest.approx(
        (3 + 1) / 2 / 2 / math.sqrt(5)
    )
    quadrant = sample(5, 2, seed=3)
    inside = Sample(quadrant.inputs.abs(), quadrant.targets)
    assert float(bounds.measured_rademacher(quadrant, population=inside)) == math.inf
    flat = Sample(np.array([[1.0, 0.0], [-1.0, 0.0]]), np.ones(2))
    with pytest.raises(ValueError, match="population must span the data"):
        bounds.measured_rademacher(quadrant, population=flat)
    with pytest.raises(ValueError, match="population"):
        bounds.measured_rademacher(quadrant, population=data)


def test_sweep_with_ties_collinear_and_zero_points():
    points = np.array([[1.0, 0], [1, 0], [2, 0], [0, 1], [-1, -1], [0, 0]])
    data = Sample(points, np.ones(6))
    signs = np.array(list(itertools.product((1.0, -1.0), repeat=6)))
    grid = brute_force_supremum(points, signs).mean() / 6
    assert float(bounds.measured_rademacher(data)) == pytest.approx(grid, rel=1e-4)


def test_one_dimension_in_a_plane_and_zero_data():
    line = np.array([[1.0, 2], [-2, -4], [0.5, 1], [3, 6]])
    x = line[:, 0]
    expected = 0.0
    for signs in itertools.product((1.0, -1.0), repeat=4):
        sides = [np.maximum(s * x, 0) for s in (1, -1)]
        expected += max(abs(np.dot(signs, side)) / np.sqrt((side**2).mean()) for side in sides) / 16 / 4
    assert float(bounds.measured_rademacher(Sample(line, np.ones(4)))) == pytest.approx(expected, rel=1e-12)
    assert float(bounds.measured_rademacher(Sample(np.zeros((3, 2)), np.ones(3)))) == 0.0


def test_complexity_of_the_regularized_class_is_the_same_for_every_width():
    """One unit, two units and three units reach the same supremum, so the constant 1/2 holds for odd widths too."""
    x = np.random.default_rng(5).normal(size=(6, 1))
    turns = np.array([1.0, -1.0])
    units = np.maximum(x @ turns[None, :], 0)
    units /= np.sqrt((units**2).mean(0))
    r = 1.7
    for width in (1, 2, 3):
        total = 0.0
        for signs in itertools.product((1.0, -1.0), repeat=6):
            gains = np.abs(np.array(signs) @ units)
            # u over units chosen with repetition, sum u_k^2 <= r: the best is to repeat one, gain sqrt(width r)
            best = max(
                math.sqrt(r) * math.sqrt(sum(gains[k] ** 2 for k in chosen))
                for chosen in itertools.product(range(2), repeat=width)
            )
            total += best / 64 / 6
        alpha = math.sqrt(width * r)
        assert float(bounds.measured_rademacher(Sample(x, np.ones(6)), alpha)) == pytest.approx(total, rel=1e-12)
        assert bounds.rademacher(data=Sample(x, np.ones(6)), alpha=alpha, side="lower").value <= total


def test_norm_and_complexity_of_tiny_inputs_are_those_of_the_same_inputs_in_other_units():
    """Their squares underflow; without units taken out the norm was zero."""
    for size in (1, 2, 3):
        data = sample(n=8, d=size)
        tiny = Sample(1e-170 * data.inputs, data.targets)
        assert bounds.data_norm(tiny) == bounds.data_norm(data) == pytest.approx(math.sqrt(8 * size))
        plain, other = bounds.measured_rademacher(data), bounds.measured_rademacher(tiny)
        assert float(other) == pytest.approx(float(plain), rel=1e-9)
    assert bounds.data_norm(Sample(torch.zeros(5, 2).double(), torch.zeros(5, 1).double())) == 0


def test_data_norm():
    data = sample(30, 4)
    assert bounds.data_norm(data) == pytest.approx(math.sqrt(30 * 4), rel=1e-12)
    flat = Sample(torch.cat([data.inputs, data.inputs], 1), data.targets)
    assert bounds.data_norm(flat) == pytest.approx(math.sqrt(30 * 4), rel=1e-12)
    population = torch.diag(torch.tensor([1.0, 2, 3, 4], dtype=torch.float64))
    direct = math.sqrt(float((data.inputs @ torch.linalg.inv(population) * data.inputs).sum()))
    assert bounds.data_norm(data, population) == pytest.approx(direct, rel=1e-12)
    singular = torch.diag(torch.tensor([1.0, 2, 3, 0], dtype=torch.float64))
    assert bounds.data_norm(data, singular) == math.inf
    with pytest.raises(ValueError, match="unweighted"):
        bounds.data_norm(Sample(data.inputs, data.targets, torch.ones(30).double()))


# ---------------------------------------------------------------- two-layer networks


@given(POSITIVE, POSITIVE, EXAMPLES, st.floats(0.01, 0.5), CONFIDENCE, st.floats(0, 4))
@settings(max_examples=50, deadline=None)
def test_relu_by_hand(alpha, norm, n, beta, confidence, risk):
    numbers = {"alpha": alpha, "norm": norm, "examples": n, "risk": risk, "confidence": confidence}
    slack = math.sqrt(math.log(2 / (1 - confidence)) / (2 * n))
    plain = bounds.relu(**numbers, retentivity=beta)
    assert plain.value == pytest.approx(risk + 16 * alpha * norm / (math.sqrt(beta) * n) + 12 * slack, rel=1e-9)
    even = bounds.relu(**numbers, symmetrized=True)
    exact = 2 * risk + 32 * math.sqrt(2) * alpha * norm / n + 24 * slack
    assert even.value == pytest.approx(exact, rel=1e-9)
    printed = bounds.relu(**numbers, symmetrized=True, printed=True)
    assert printed.value == pytest.approx(2 * risk + 46 * alpha * norm / n + 24 * slack, rel=1e-9)
    assert even.value < printed.value
    for bound in (plain, even, printed):
        assert sum(bound.terms.values()) == pytest.approx(bound.value, rel=1e-12)
        assert bound.vacuous == (bound.value >= 4)


def test_examples_needed_for_a_fitted_network():
    """alpha = 1 and ||X|| = sqrt(n rank): 512 examples a dimension and 2048 with symmetrization for a gap below 1."""
    for rank in (10, 561):
        n = 1000
        numbers = {"alpha": 1.0, "norm": math.sqrt(n * rank), "examples": n, "confidence": 1 - 1e-12}
        complexity = bounds.relu(**numbers, retentivity=0.5).terms["complexity"]
        assert n * complexity**2 == pytest.approx(512 * rank)
        complexity = bounds.relu(**numbers, symmetrized=True).terms["complexity"]
        assert n * complexity**2 == pytest.approx(2048 * rank)


def test_relu_of_a_model_and_data():
    data, model = sample(200, 3), network()
    hidden, top = model.weights[0].numpy(), model.weights[1].numpy()[0]
    products = data.inputs.numpy() @ hidden.T
    alpha = float((np.abs(top) * np.sqrt((np.maximum(products, 0) ** 2).mean(0))).sum())
    assert bounds.relu_alpha(model, data) == pytest.approx(alpha, rel=1e-12)
    even = float((np.abs(top) * np.sqrt((products**2).mean(0) / 2)).sum())
    assert bounds.relu_alpha(model, data, symmetrized=True) == pytest.approx(even, rel=1e-12)
    doubled = Sample(torch.cat([data.inputs, -data.inputs]), torch.cat([data.targets, data.targets]))
    assert bounds.relu_alpha(model, doubled) == pytest.approx(even, rel=1e-12)
    bound = bounds.relu(model, data, retentivity=0.4)
    outputs = np.clip(np.maximum(products, 0) @ top, -1, 1)
    assert bound.terms["empirical risk"] == pytest.approx(((outputs - data.targets.numpy()[:, 0]) ** 2).mean())
    plain = bounds.relu(model, data, retentivity=0.4, alpha=alpha)
    assert plain.value < bound.value  # the price of choosing alpha after seeing the data
    even_bound = bounds.relu(model, data, symmetrized=True)
    assert even_bound.terms["empirical risk"] == pytest.approx(
        2 * float((model.outputs(doubled.inputs).clamp(-1, 1) - doubled.targets).square().mean())
    )
    assert bounds.relu(model, data, retentivity=0.0).vacuous
    assert bounds.relu(model, data, retentivity=0.0).needed["examples"] == math.inf


@pytest.mark.parametrize("symmetrized", [False, True])
def test_rademacher_reads_all_that_is_not_given_off_a_model_and_data(symmetrized):
    """Unit by unit and example by example; the norm of 7 examples of full rank is sqrt(7 * 3)."""
    data, model = sample(7, 3, seed=5, skewed=True), network(width=5)
    products = data.inputs.numpy() @ model.weights[0].numpy().T
    top = np.abs(model.weights[1].numpy()[0])
    energies = (products**2).mean(0) / 2 if symmetrized else (np.maximum(products, 0) ** 2).mean(0)
    alpha, norm = float(top @ np.sqrt(energies)), math.sqrt(21)
    beta = 0.5 if symmetrized else 0.2
    read = bounds.rademacher(model, data, retentivity=0.2, symmetrized=symmetrized)
    assert read.value == pytest.approx(2 * alpha * norm / 7 / math.sqrt(beta), rel=1e-12)
    assert read.terms["alpha"] == pytest.approx(alpha, rel=1e-12)
    assert read.needed["examples"] == pytest.approx(7 * read.value**2, rel=1e-12)
    lower = bounds.rademacher(model, data, side="lower", symmetrized=symmetrized)
    assert lower.value == pytest.approx(alpha * norm / 14, rel=1e-12)
    numbers = ({"alpha": 0.3}, 0.3 * norm / 14), ({"norm": 2.0}, alpha / 7), ({"examples": 50}, alpha * norm / 100)
    for number, wanted in numbers:
        told = bounds.rademacher(model, data, side="lower", symmetrized=symmetrized, **number)
        assert told.value == pytest.approx(wanted, rel=1e-12)


def test_a_symmetrized_bound_reads_the_alpha_of_both_signs():
    """On positive inputs of positive units it is smaller than that of the data by sqrt 2, two steps of the grid."""
    data, model = sample(200, 3), network()
    positive = Sample(data.inputs.abs(), data.targets)
    net = ReLUNet([model.weights[0].abs(), model.weights[1]])
    products = positive.inputs.numpy() @ net.weights[0].numpy().T
    alpha = float((np.abs(net.weights[1].numpy()[0]) * np.sqrt((products**2).mean(0) / 2)).sum())
    grid, failure = bounds.statistical.grid_alpha(alpha, 0.05)
    told = bounds.relu(net, positive, symmetrized=True)
    assert told.terms["complexity"] == pytest.approx(32 * math.sqrt(2) * grid * math.sqrt(600) / 200, rel=1e-9)
    assert told.terms["confidence"] == pytest.approx(24 * math.sqrt(math.log(2 / failure) / 400), rel=1e-9)
    risk = np.clip(np.stack([np.maximum(products, 0), np.maximum(-products, 0)]) @ net.weights[1].numpy()[0], -1, 1)
    wanted = 2 * ((risk - data.targets.numpy()[:, 0]) ** 2).mean()
    assert told.terms["empirical risk"] == pytest.approx(wanted, rel=1e-9)


def test_grid_of_alphas_spends_exactly_the_confidence():
    total = 0.0
    for index in range(-2000, 2001):
        alpha, share = bounds.statistical.grid_alpha(2 ** (index / 4), 0.05)
        assert alpha == pytest.approx(2 ** (index / 4), rel=1e-9)
        total += share
    assert total <= 0.05
    assert total == pytest.approx(0.05, rel=1e-3)
    rounded, _ = bounds.statistical.grid_alpha(1.01, 0.05)
    assert rounded == pytest.approx(2**0.25)
    assert bounds.statistical.grid_alpha(0.0, 0.05) == (0.0, 0.05)


def test_a_model_pays_for_its_alpha_with_confidence():
    """Numbers that are given are not read off the data, and pay nothing."""
    data, model = sample(200, 3), network()
    read = bounds.relu(model, data, retentivity=0.2, confidence=0.9)
    alpha, failure = bounds.statistical.grid_alpha(bounds.relu_alpha(model, data), 0.1)
    assert failure < 0.1
    assert read.terms["confidence"] == pytest.approx(12 * math.sqrt(math.log(2 / failure) / 400), rel=1e-9)
    given = bounds.relu(model, data, alpha=alpha, retentivity=0.2, confidence=0.9)
    assert given.terms["confidence"] == pytest.approx(12 * math.sqrt(math.log(20) / 400), rel=1e-9)
    assert given.terms["complexity"] == pytest.approx(read.terms["complexity"], rel=1e-9)


def test_relu_bound_holds_on_fresh_data():
    """Fits in a small class: the bound covers the risk on fresh data in every one of 30 draws."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(30):
        x = torch.randn(400, 2, generator=generator, dtype=torch.float64)
        fresh = torch.randn(4000, 2, generator=generator, dtype=torch.float64)
        model = ReLUNet(
            [
                torch.randn(3, 2, generator=generator, dtype=torch.float64),
                torch.randn(1, 3, generator=generator, dtype=torch.float64) / 3,
            ]
        )
        bound = bounds.relu(model, Sample(x, x[:, :1].sign()), retentivity=0.4)
        risk = float((model.outputs(fresh).clamp(-1, 1) - fresh[:, :1].sign()).square().mean())
        assert risk <= bound.value


@pytest.mark.parametrize(
    ("change", "match"),
    [({"retentivity": 0.6}, "retentivity"), ({"retentivity": None}, "retentivity"), ({"alpha": -1.0}, "alpha")],
)
def test_relu_refuses(change, match):
    with pytest.raises(ValueError, match=match):
        bounds.relu(**({"alpha": 1.0, "norm": 1.0, "examples": 10, "retentivity": 0.5} | change))


def test_relu_refuses_other_models_and_targets():
    data = sample(20, 3)
    biased = ReLUNet(network().weights, [torch.ones(4).double(), None])
    for model in (biased, DeepLinear(network().weights)):
        with pytest.raises(ValueError, match="model"):
            bounds.relu(model, data, retentivity=0.5)
    with pytest.raises(ValueError, match="rescale"):
        bounds.relu(network(), Sample(data.inputs, 2 * data.targets), retentivity=0.5)
    with pytest.raises(ValueError, match="side"):
        bounds.rademacher(alpha=1.0, norm=1.0, examples=1, side="middle")


# ---------------------------------------------------------------- surveyed expressions


def test_surveyed_expressions_by_hand():
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(5, 3)), rng.normal(size=(4, 5)), rng.normal(size=(2, 4))]
    n, k, d = 70, 2, 5
    found = bounds.surveyed(ReLUNet([torch.tensor(w) for w in weights]), examples=n, power=2)
    paths = sum(
        (weights[2][o, j] * weights[1][j, i] * weights[0][i, e]) ** 2
        for o in range(2)
        for j in range(4)
        for i in range(5)
        for e in range(3)
    )
    spectral = [np.linalg.norm(w, 2) for w in weights]
    rows = [np.linalg.norm(w, axis=1).sum() for w in weights]
    frobenius = [np.linalg.norm(w) for w in weights]
    expected = {
        "path norm": math.sqrt((2 * d**0.5) ** (2 * k) * paths * math.log(3) / n),
        "spectral": math.prod(spectral)
        * sum((a / b) ** (2 / 3) for a, b in zip(rows, spectral, strict=True)) ** 1.5
        / math.sqrt(n),
        "PAC-Bayes": math.prod(spectral)
        * math.sqrt(d * k**2 * sum((a / b) ** 2 for a, b in zip(frobenius, spectral, strict=True)) / n),
        "Frobenius": math.sqrt(k) * math.prod(frobenius) / math.sqrt(n),
    }
    assert list(found) == list(expected)
    for name, value in expected.items():
        assert found[name].value == pytest.approx(value, rel=1e-12)
        assert math.prod(found[name].terms.values()) == pytest.approx(value, rel=1e-12)
        assert found[name].needed["examples"] == pytest.approx(n * value**2, rel=1e-12)
    outer = np.abs(np.einsum("oj,ji,ie->ojie", weights[2], weights[1], weights[0]))
    fourth = (2 * d**0.75) ** k * (outer**4).sum() ** 0.25 * math.sqrt(math.log(3) / n)
    found = bounds.surveyed([torch.tensor(w) for w in weights], examples=n, power=4)
    assert found["path norm"].value == pytest.approx(fourth, rel=1e-12)


@given(st.integers(0, 10**6), st.integers(1, 4))
@settings(max_examples=30, deadline=None)
def test_spectral_expression_is_never_worse_than_pac_bayes_up_to_its_factor(seed, hidden):
    """True up to (k + 1) / k when the widest layer counted includes the output."""
    rng = np.random.default_rng(seed)
    widths = [3, *rng.integers(2, 9, size=hidden), 1]
    weights = [torch.tensor(rng.normal(size=(b, a))) for a, b in itertools.pairwise(widths)]
    found = bounds.surveyed(weights, examples=10)
    assert found["spectral"].value <= (hidden + 1) / hidden * found["PAC-Bayes"].value * (1 + 1e-12)


def test_surveyed_inputs_and_degenerate_layers():
    data = sample(30, 3)
    model = network()
    unit = bounds.surveyed(model, examples=30)
    scaled = bounds.surveyed(model, data)
    largest = float(data.inputs.norm(dim=1).max())
    assert scaled["Frobenius"].value == pytest.approx(largest * unit["Frobenius"].value, rel=1e-12)
    for power, order in ((1.0, np.inf), (1.5, 3.0), (2.0, 2.0), (4.0, 4 / 3), (1 + 1e-6, np.inf)):
        dual = np.linalg.norm(1e-3 * data.inputs.numpy(), order, axis=1).max()
        small = bounds.surveyed(model, Sample(1e-3 * data.inputs, data.targets), power=power)["path norm"].value
        bare = bounds.surveyed(model, examples=30, power=power)["path norm"].value
        assert small == pytest.approx(dual * bare, rel=1e-5)
    given = bounds.surveyed(model, data, input_norm=0.3)
    assert all(given[name].value == pytest.approx(0.3 * unit[name].value, rel=1e-12) for name in unit)
    zero = bounds.surveyed([torch.zeros(4, 3), torch.ones(1, 4)], examples=30)
    assert all(bound.value == 0 for bound in zero.values())
    linear = bounds.surveyed(TwoLayerLinear(torch.ones(1, 2), torch.ones(3, 2)), examples=5)
    assert linear["Frobenius"].value == pytest.approx(math.sqrt(12 / 5))
    for bad in ({"examples": 0}, {"power": 0.5, "examples": 3}, {}):
        with pytest.raises(ValueError, match=r"examples|power"):
            bounds.surveyed(model, **bad)
    with pytest.raises(ValueError, match="hidden layer"):
        bounds.surveyed([torch.ones(1, 2)], examples=3)


# ---------------------------------------------------------------- lazy training


@pytest.mark.parametrize(
    ("margin", "steps", "width"),
    [(0.5, 2.7e5, 7.1e9), (0.25, 1.3e6, 2.2e12), (0.1, 1.0e7, 4.2e15), (0.05, 4.7e7, 1.3e18), (0.01, 1.6e9, 6.7e23)],
)
def test_lazy_requirements_at_image_size(margin, steps, width):
    printed = bounds.lazy(margin=margin, steps=10_000, inputs=784, drop=0.0, printed=True)
    assert printed.needed["steps"] == pytest.approx(steps, rel=0.05)
    assert printed.needed["width"] == pytest.approx(width, rel=0.05)
    sharper = bounds.lazy(margin=margin, steps=10_000, inputs=784, drop=0.0)
    assert printed.vacuous
    assert sharper.vacuous
    assert 0.15 < sharper.needed["steps"] / printed.needed["steps"] < 0.3
    there = bounds.lazy(margin=margin, steps=math.ceil(sharper.needed["steps"]), inputs=784, drop=0.0)
    assert there.value == pytest.approx(1, rel=1e-4)
    assert not there.vacuous
    before = bounds.lazy(margin=margin, steps=math.floor(0.9 * sharper.needed["steps"]), inputs=784, drop=0.0)
    assert 1 < before.value < 1.2
    assert before.vacuous


@given(st.floats(0.01, 0.5), st.integers(2, 10**8), st.integers(1, 10**5), st.floats(0.01, math.log(2)))
@settings(max_examples=50, deadline=None)
def test_lazy_width_is_the_least_fixed_point(margin, steps, inputs, rate):
    if 2 * rate * steps < 1:
        steps = math.ceil(1 / rate)
    setting = bounds.lazy_setting(margin, steps, inputs, step_size=rate)
    assert setting.width == pytest.approx(setting.needed_width, rel=1e-9)
    m = setting.width
    c = math.sqrt(inputs) + max(1 / (14 * margin**2), 2 * math.sqrt(math.log(m))) + 1
    lam = 5 / margin * math.log(2 * rate * steps) + math.sqrt(
        44 / margin**2 * math.log(24 * rate * c * math.sqrt(m) * steps**2)
    )
    assert setting.radius == pytest.approx(c, rel=1e-12)
    assert setting.strength == pytest.approx(lam, rel=1e-9)
    assert m == pytest.approx(2401 * margin**-6 * lam**2, rel=1e-9)
    assert setting.drift == pytest.approx(3.5 * lam / (margin * math.sqrt(m)), rel=1e-9)
    smaller = bounds.lazy_setting(margin, steps, inputs, step_size=rate, width=0.9 * m)
    assert smaller.width < smaller.needed_width
    learning = bounds.lazy(margin=margin, steps=steps, inputs=inputs, drop=0.0, step_size=rate)
    assert learning.value == pytest.approx((lam**2 + 1 / math.log(2) + 1) / (rate * steps), rel=1e-9)
    assert learning.value <= (lam**2 + 2.45) / (rate * steps)
    printed = bounds.lazy(margin=margin, steps=steps, inputs=inputs, drop=0.0, step_size=rate, printed=True)
    assert printed.value == pytest.approx(4 * lam**2 / (rate * steps), rel=1e-9)


@pytest.mark.parametrize("width", [1, 50, 10**6, 1e18])
@pytest.mark.parametrize(("margin", "steps", "inputs", "step_size"), [(0.05, 400, 9, 0.1), (0.4, 3, 784, 0.5)])
def test_the_quantities_of_lazy_training_at_a_given_width(margin, steps, inputs, step_size, width):
    """Written out, at step sizes below the largest one, whether the width suffices or not."""
    told = bounds.lazy_setting(margin, steps, inputs, step_size=step_size, width=width)
    c = math.sqrt(inputs) + max(1 / (14 * margin**2), 2 * math.sqrt(math.log(width))) + 1
    lam = 5 / margin * math.log(2 * step_size * steps)
    lam += math.sqrt(44 / margin**2 * math.log(24 * step_size * c * math.sqrt(width) * steps**2))
    found = told.strength, told.radius, told.width, told.needed_width, told.drift
    wanted = lam, c, width, 2401 * margin**-6 * lam**2, 3.5 * lam / (margin * math.sqrt(width))
    assert found == pytest.approx(wanted, rel=1e-12)


def test_lazy_compression_constants():
    numbers = {"margin": 0.2, "steps": 10**6, "inputs": 20, "drop": 0.5}
    setting = bounds.lazy_setting(0.2, 10**6, 20)
    eta_t = math.log(2) * 10**6
    printed = bounds.lazy(**numbers, compression=True, printed=True)
    assert printed.value == pytest.approx(12 * setting.strength**2 / eta_t + 6 * math.log(20) / 10**6, rel=1e-9)
    ours = bounds.lazy(**numbers, compression=True)
    spent = 1 / (4 * eta_t * setting.radius * math.sqrt(setting.width))
    factor = 2 / (3 - math.e)
    expected = factor * math.log(2) * (setting.strength**2 + 1 / math.log(2)) / eta_t
    assert ours.value == pytest.approx(expected + factor * math.log(1 / (0.05 - spent)) / 10**6, rel=1e-9)
    assert ours.value < 4.93 * (setting.strength**2 + 1.45) / eta_t + 7.11 * math.log(1 / (0.05 - spent)) / 10**6
    assert ours.value < printed.value


def test_lazy_without_a_margin_says_so():
    twice = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    bound = bounds.lazy(data=Sample(twice, torch.tensor([[1.0], [-1.0]])))
    assert bound.value == bound.needed["steps"] == bound.needed["width"] == math.inf
    assert bound.terms == {"margin": 0.0}


def test_lazy_below_the_required_width_says_nothing():
    bound = bounds.lazy(margin=0.2, steps=10**6, inputs=20, width=10_000)
    assert bound.value == math.inf
    assert bound.vacuous
    assert bound.needed["width"] > 10_000


def test_lazy_is_monotone_in_margin_and_eventually_in_steps():
    values = [bounds.lazy(margin=g, steps=10**7, inputs=50, drop=0.0).value for g in (0.05, 0.1, 0.2, 0.4)]
    assert values == sorted(values, reverse=True)
    values = [bounds.lazy(margin=0.4, steps=t, inputs=50, drop=0.0).value for t in (10**5, 10**6, 10**7, 10**8)]
    assert values == sorted(values, reverse=True)
    widths = [bounds.lazy_setting(0.3, t, 50).width for t in (10**3, 10**5, 10**7)]
    assert widths == sorted(widths)


def test_lazy_refuses():
    good = {"margin": 0.2, "steps": 1000, "inputs": 5}
    for change, match in (
        ({"margin": 0.3, "drop": 0.5}, "margin"),
        ({"margin": -0.1}, "margin"),
        ({"step_size": 1.0}, "step_size"),
        ({"inputs": 0}, "inputs"),
        ({"steps": 0}, "steps"),
        ({"margin": None}, "margin"),
    ):
        with pytest.raises(ValueError, match=match):
            bounds.lazy(**(good | change))


def test_active_units_bound_is_rarely_exceeded():
    generator = torch.Generator().manual_seed(0)
    m, steps, runs = 200, 50, 400
    limit = bounds.active_units(m, 0.6, steps, confidence=0.9)
    counts = (torch.rand(runs, steps, m, generator=generator) < 0.4).sum(-1).amax(1)
    assert float((counts > limit).double().mean()) <= 0.1
    assert limit == pytest.approx(80 + math.sqrt(200 * math.log(500) / 2))
    assert limit < bounds.active_units(m, 0.6, steps, confidence=0.9, printed=True)
    assert bounds.active_units(3, 0.1, 10**6) == 3.0


def test_initial_norm_is_rarely_exceeded():
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(300, 50, 10, generator=generator, dtype=torch.float64)
    exceeded = (rows.norm(dim=-1).amax(1) > bounds.initial_norm(50, 10)).double().mean()
    assert float(exceeded) <= 1 / 50


# ---------------------------------------------------------------- margins


def separable(n=60, d=4, seed=0, gap=0.2):
    rng = np.random.default_rng(seed)
    v = rng.normal(size=d)
    v /= np.linalg.norm(v)
    x = rng.normal(size=(20 * n, d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    x = x[np.abs(x @ v) > gap][:n]
    return Sample(x, np.sign(x @ v))


def test_linear_margin_equals_the_convex_program():
    import cvxpy as cp

    # two fans of directions: the 64 examples that are looked at first, farthest from the mean, all lie in the smaller
    angles = torch.cat([torch.linspace(80, 89, 200), torch.linspace(-30, -10, 100)]).double().deg2rad()
    fans = torch.stack([angles.cos(), angles.sin()], 1)
    turned = [
        torch.cat([fans, 0.1 * torch.randn(300, 2, generator=torch.Generator().manual_seed(seed)).double()], 1)
        @ torch.linalg.qr(torch.randn(4, 4, generator=torch.Generator().manual_seed(seed)).double()).Q
        for seed in range(3)
    ]
    signs = (torch.arange(300) % 3 - 0.5).sign()[:, None].double()
    for data in (*(separable(seed=seed) for seed in range(3)), *(Sample(signs * part, signs) for part in turned)):
        v, t = cp.Variable(4), cp.Variable()
        signed = data.targets.numpy() * data.inputs.numpy()
        signed = signed / np.linalg.norm(signed, axis=1, keepdims=True)
        problem = cp.Problem(cp.Maximize(t), [signed @ v >= t, cp.norm(v) <= 1])
        assert bounds.linear_margin(data) == pytest.approx(problem.solve(solver="CLARABEL"), rel=1e-5)


def test_the_tolerance_of_a_linear_margin_is_a_share_of_it():
    """Half a ball of points, so that the margin is small and the first ones looked at say little of it."""
    for seed in range(4):
        half = torch.randn(400, 6, generator=torch.Generator().manual_seed(seed)).double()
        data = Sample(half * half[:, :1].sign(), torch.ones(400, 1).double())
        nearest = bounds.linear_margin(data)
        assert 0.99 * nearest <= bounds.linear_margin(data, tolerance=0.01) <= nearest * (1 + 1e-6)


def test_the_nearest_point_of_a_hull_is_on_it():
    """p is nearest where p.x_i >= ||p||^2 for all i, with equality where x_i has weight: its length bounds margins."""
    for seed in range(3):
        data = separable(seed=seed)
        points = data.targets.numpy() * data.inputs.numpy()
        nearest = margins._nearest_point(points)
        assert (points @ nearest).min() == pytest.approx(nearest @ nearest, rel=1e-9)


def test_linear_margin_of_scaled_and_inseparable_data():
    data = separable()
    scaled = Sample(data.inputs * torch.linspace(0.1, 9, len(data)).double()[:, None], data.targets)
    assert bounds.linear_margin(scaled) == pytest.approx(bounds.linear_margin(data), rel=1e-6)
    both = Sample(torch.cat([data.inputs, data.inputs]), torch.cat([data.targets, -data.targets]))
    assert bounds.linear_margin(both) == 0.0
    assert bounds.lazy(data=both).vacuous
    single = Sample(torch.tensor([[3.0, 4.0]]), torch.tensor([-1.0]))
    assert bounds.linear_margin(single) == pytest.approx(1.0)
    for bad in (Sample(torch.ones(2, 2), torch.tensor([0.5, 1.0])), Sample(torch.zeros(1, 2), torch.ones(1))):
        with pytest.raises(ValueError, match="data"):
            bounds.linear_margin(bad)


def test_gate_margin_brackets_the_convex_program():
    import cvxpy as cp

    data, width = separable(n=30, d=3), 12
    estimate = bounds.gate_margin(data, width, drop=0.25, steps=4000, seed=2)
    generator = torch.Generator().manual_seed(2)
    rows = torch.randn(width, 3, generator=generator, dtype=torch.float64).numpy()
    x, y = data.inputs.numpy(), data.targets.numpy()[:, 0]
    gates = (x @ rows.T >= 0) * y[:, None] / width * 0.75
    P, t = cp.Variable((width, 3)), cp.Variable()
    margins = cp.sum(cp.multiply(gates, x @ P.T), axis=1)
    exact = cp.Problem(cp.Maximize(t), [margins >= t, cp.norm(P, axis=1) <= 1]).solve(solver="CLARABEL")
    assert float(estimate.lower) <= exact * (1 + 1e-6)
    assert float(estimate.upper) >= exact * (1 - 1e-6)
    assert float(estimate.upper - estimate.lower) < 0.1 * exact


@pytest.mark.parametrize("steps", [100, 900])
def test_gate_margin_of_contradicting_labels_is_zero_up_to_the_regret(steps):
    """A point with both labels has no margin; multiplicative weights are within sqrt(2 ln n / steps) of it."""
    points = torch.tensor([[0.6, 0.8]], dtype=torch.float64).repeat(3, 1)
    estimate = bounds.gate_margin(Sample(points, torch.tensor([1.0, 1.0, -1.0]).double()), 9, steps=steps, seed=1)
    assert float(estimate.lower) <= 0 <= float(estimate.upper)
    assert float(estimate.upper - estimate.lower) <= math.sqrt(2 * math.log(3) / steps)
    assert float(estimate.value) == float(estimate.lower)


def test_lazy_of_a_model_and_data_uses_the_linear_margin():
    data = separable(n=50)
    model = network(4, 6)
    bound = bounds.lazy(model, data, drop=0.2)
    margin = 0.8 * bounds.linear_margin(data) / 2
    assert bound.value == math.inf  # six units are too few
    wide = bounds.lazy(data=data, drop=0.2)
    assert wide.value == pytest.approx(bounds.lazy(margin=margin, steps=50, inputs=4, drop=0.2).value)


def test_degenerate_tails_and_crossings():
    assert bounds.hoeffding(0.0, [1.0]) == bounds.hoeffding(-1.0, [1.0]) == 1.0
    assert bounds.hoeffding(0.5, [0.0, 0.0]) == 0.0  # constants never deviate
    with pytest.raises(ValueError, match="largest must be"):
        bounds.martingale(1.0, 0.0)
    assert classical.examples_needed(0.0, 1.0, 50) == 1.0
    assert classical.examples_needed(2.0, 1.0, 50) == 200.0
    assert classical.examples_needed(2.0, 0.0, 50) == classical.examples_needed(math.inf, 1.0, 50) == math.inf
    assert classical.crossing(lambda n: 1 / n, 0.25) == pytest.approx(4.0, rel=1e-12)
    assert classical.crossing(lambda n: 1 / n, 2.0) == 1.0
    assert classical.crossing(lambda n: 1.0, 0.5) == math.inf


def test_measured_complexity_needs_equal_weights():
    weighted = Sample(torch.ones(3, 2).double(), torch.ones(3, 1).double(), torch.arange(1.0, 4.0).double())
    with pytest.raises(ValueError, match="unweighted vectors"):
        bounds.measured_rademacher(weighted)


def test_compression_that_the_width_cannot_afford():
    """At one step and width one the start alone spends more than the failure probability."""
    setting = bounds.LazySetting(1.0, 1.0, 1.0, 1.0, 1.0)
    terms = lazy_training._compression(setting, 0.1, 1.0, 0.05, printed=False)
    assert list(terms.values()) == [math.inf]
    wide = bounds.LazySetting(1.0, 1.0, 1e6, 1.0, 1.0)
    assert all(math.isfinite(term) for term in lazy_training._compression(wide, 0.1, 1.0, 0.05, printed=False).values())


def test_lazy_takes_the_width_of_its_model(monkeypatch):
    """The rows of the first layer, not of the second."""
    asked = []
    true = lazy_training.lazy_setting

    def listened(*given, width=None, **more):
        asked.append(width)
        return true(*given, width=width, **more)

    monkeypatch.setattr(lazy_training, "lazy_setting", listened)
    told = bounds.lazy(network(width=4), margin=0.5, steps=50, inputs=3, drop=0.0)
    assert asked[0] == 4
    assert told.value == bounds.lazy(margin=0.5, steps=50, inputs=3, drop=0.0, width=4).value


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_data_beyond_one_are_refused_on_either_side(sign):
    data = sample(n=6)
    inside = Sample(data.inputs, 0.5 * data.targets.double())
    statistical._check_range(inside.targets, "targets")
    for values in (sign * torch.tensor([0.1, 1.01]), torch.tensor([1])):
        with pytest.raises(ValueError, match=r"targets of the data must be floating point in \[-1, 1\]"):
            statistical._check_range(values, "targets")


def test_inputs_that_are_all_zero_have_no_complexity():
    assert bounds.rademacher(alpha=1.0, norm=0.0, examples=4, retentivity=0.0).value == 0
    assert bounds.relu(alpha=1.0, norm=0.0, examples=4, retentivity=0.0).terms["complexity"] == 0


def test_the_share_of_a_high_confidence_does_not_round_to_one():
    net = ReLUNet([torch.ones(1, 1), torch.full((1, 1), 1e3)])
    told = bounds.relu(net, Sample(torch.ones(4, 1), torch.ones(4, 1)), retentivity=0.5, confidence=1 - 2.0**-52)
    assert 12 * math.sqrt(math.log(2.0**53) / 8) < told.terms["confidence"] < math.inf


def test_numbers_override_a_table_and_its_model():
    data = Entries(torch.tensor([0, 1]), torch.tensor([1, 0]), torch.zeros(2), (2, 2))
    net = Factorization(torch.ones(2, 1), torch.ones(2, 1))
    numbers = {"shape": (9, 5), "examples": 70, "alpha": 0.7, "risk": 0.2, "smoothing": 0.3}
    assert bounds.completion(net, data, **numbers).value == bounds.completion(**numbers).value
