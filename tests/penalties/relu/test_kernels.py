"""Compiled loops against plain formulas, at sizes at which every outcome can be listed.

Compiled code is neither traced by coverage nor checked for indices out of range. With NUMBA_DISABLE_JIT=1 these tests
run the same loops as ordinary Python, where both are; `make coverage` runs them both ways.
"""

import itertools

import numpy as np
import pytest
import torch
from numba import config
from scipy import stats

from droptics.papers.helmbold2017.kernels import shallow_objective, train_run
from droptics.papers.thesis.chapter6_grid import FORMS, grid_search
from droptics.penalties.relu import moments, sweeps
from droptics.penalties.relu.kernels import Layer, direct_gradient, direct_moments, half_table, split_coins
from droptics.penalties.relu.moments import Dominance, MomentLeaf
from droptics.penalties.relu.outcomes import Coins, Stage, Walk
from droptics.penalties.relu.sweeps import Half, sorted_outcomes
from droptics.recommenders.least_squares import solve_rows
from droptics.recommenders.ratings import DuplicateRatings, observations
from droptics.training import threads
from droptics.training.kernels import run_kernel


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


# --- sums over dropout outcomes -------------------------------------------------------------------------------------

COUNTS = np.array([1, 2, 1, 3, 1, 1])
DROP = np.array([0.3, 0.6, 0.0, 0.5, 0.9, 0.2])


def every_outcome(counts, drop):
    """Multipliers (outcomes, coins) and probabilities: one binomial count of survivors per coin."""
    kept = np.array(list(itertools.product(*(range(c + 1) for c in counts))))
    chances = np.prod([stats.binom.pmf(kept[:, g], c, 1 - drop[g]) for g, c in enumerate(counts)], axis=0)
    return kept / (1 - drop), chances


def listed_moments(states, chances, weights, bias, counts, drop):
    """Mean and second moment of relu(weights (Z o state) + bias) in torch, by listing every outcome."""
    multipliers, odds = (torch.from_numpy(part) for part in every_outcome(counts, drop))
    mean, second = 0.0, 0.0
    for state, chance in zip(states, chances, strict=True):
        hidden = torch.relu((multipliers * state) @ weights.mT + bias)
        weighted = hidden * odds[:, None] * chance
        mean, second = mean + weighted.sum(0), second + weighted.mT @ hidden
    return mean, second


def layer(units=3, seed=0):
    weights, bias = drawn(units, len(COUNTS), seed=seed), drawn(units, seed=seed + 1)
    weights[:, 4] = 0.0  # a unit nobody listens to
    return weights, bias


@pytest.mark.parametrize("count", [1, 2, 7, 40, 4000])
@pytest.mark.parametrize("drop", [0.01, 0.5, 0.97])
def test_copies_survive_in_binomial_numbers(count, drop):
    arguments = np.array([[2.0]]), np.array([count]), np.array([drop]), np.array([0]), np.array([1.0])
    table, chances = half_table(*arguments)
    kept = np.arange(count + 1)
    np.testing.assert_allclose(chances, stats.binom.pmf(kept, count, 1 - drop), rtol=1e-11, atol=1e-300)
    np.testing.assert_allclose(table[0], 1.0 + 2.0 * kept / (1 - drop), rtol=1e-14)


def test_coins_are_cut_into_halves_of_similar_size():
    counts = np.array([1, 9, 1, 1, 4, 1])
    left, right = split_coins(counts, np.array([0, 1, 2, 4, 5]))
    assert sorted([*left, *right]) == [0, 1, 2, 4, 5]
    sizes = [int(np.prod(counts[half] + 1)) for half in (left, right)]
    assert sizes == [20, 20]
    empty, nothing = split_coins(counts, np.array([], dtype=np.int64))
    assert len(empty) == len(nothing) == 0


@pytest.mark.parametrize("counts", [np.array([1, 1, 1, 1]), np.array([1, 3, 1, 1])])
def test_outcomes_are_sorted_unit_by_unit(counts):
    chosen = np.arange(4)
    columns = np.round(drawn(3, 4) * 2)  # ties
    table, _ = half_table(columns, counts, np.full(4, 0.5), chosen, np.zeros(3))
    sums, order = sorted_outcomes(table, counts, chosen)
    for row, rising, found in zip(table, sums, order, strict=True):
        assert sorted(found) == list(range(table.shape[1]))
        np.testing.assert_array_equal(row[found], np.sort(row))
        np.testing.assert_array_equal(rising, np.sort(row))


def test_direct_moments_and_gradients():
    weights, bias = layer()
    states = np.abs(drawn(2, len(COUNTS), seed=5))
    states[1, 0] = 0.0
    chances = np.array([0.7, 0.3])
    masked = Layer(weights, bias, (weights != 0).any(0), COUNTS, DROP)
    mean, second = direct_moments(states, chances, masked)
    free = [torch.tensor(value, requires_grad=True) for value in (states, weights, bias)]
    expected = listed_moments(free[0], chances, free[1], free[2], COUNTS, DROP)
    np.testing.assert_allclose(mean, expected[0].detach(), rtol=1e-12)
    np.testing.assert_allclose(second, expected[1].detach(), rtol=1e-12)

    linear, quadratic = drawn(3, seed=7), drawn(3, 3, seed=8)
    found = direct_gradient(states, chances, masked, linear, quadratic)
    value = (expected[0] * torch.from_numpy(linear)).sum() + (expected[1] * torch.from_numpy(quadratic)).sum()
    wanted = [gradient.numpy() for gradient in torch.autograd.grad(value, free)]
    # the gradient in a state that is zero is never used: states come out of a ReLU, whose slope is zero there
    wanted[0][1, 0] = 0.0
    for actual, gradient in zip(found, wanted, strict=True):
        np.testing.assert_allclose(actual, gradient, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("memory", [1 << 20, 1])
@pytest.mark.parametrize("longest_tree", [1 << 13, 0])
def test_sorted_sums_and_slopes(memory, longest_tree, monkeypatch):
    """Half tables that fit, and so little memory that coins are enumerated outside; by a tree and by splitting."""
    monkeypatch.setattr(moments, "_TREE", longest_tree)
    # 12 coins in all, so that a half table of 16 rows is too short for its half
    counts, drop = np.r_[COUNTS, np.ones(6, np.int64)], np.r_[DROP, np.linspace(0.1, 0.8, 6)]
    weights, bias = np.c_[layer(2)[0], drawn(2, 6, seed=3)], layer(2)[1]
    law = Coins(counts, drop)
    walk = Walk([Stage(law, torch.from_numpy(weights), torch.from_numpy(bias))], MomentLeaf(), memory)
    chosen = np.flatnonzero((weights != 0).any(0) & (drop > 0))
    part = Dominance(weights, bias + weights[:, 2], law, chosen, walk)
    assert (len(part.outer) > 0) == (memory == 1)

    free = [torch.tensor(value, requires_grad=True) for value in (weights, bias)]
    kept = np.delete(np.arange(12), 4)  # nothing depends on the unit nobody listens to, except its own gradient
    mean, second = listed_moments(
        torch.ones(1, 11, dtype=torch.float64), [1.0], free[0][:, kept], free[1], counts[kept], drop[kept]
    )
    found = part.moments()
    np.testing.assert_allclose(found[0], mean.detach(), rtol=1e-11)
    np.testing.assert_allclose(found[1], second.detach(), rtol=1e-11)

    linear, quadratic = drawn(2, seed=7), drawn(2, 2, seed=8)
    value = (mean * torch.from_numpy(linear)).sum() + (second * torch.from_numpy(quadratic)).sum()
    wanted = [gradient.numpy() for gradient in torch.autograd.grad(value, free)]
    wanted[0][:, 4] = wanted[1] * counts[4]  # its multiplier has the mean `count` and is independent of the rest
    slopes, offset = part.slopes(linear, quadratic)
    np.testing.assert_allclose(slopes, wanted[0], rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(offset, wanted[1], rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("longest_tree", [1 << 13, 0])
@pytest.mark.parametrize("ties", [False, True])
def test_any_two_tables(longest_tree, ties, monkeypatch):
    """Lists that are split more than once, of lengths that are no powers of two; a unit has no slope at zero."""
    monkeypatch.setattr(moments, "_TREE", longest_tree)
    if config.DISABLE_JIT:  # compiled loops keep the size that they were compiled with
        monkeypatch.setattr(sweeps, "_CACHED", 128)
    left, right = drawn(3, 190) * np.array([[1.0], [2.0], [0.5]]) + 0.5, drawn(3, 117, seed=1)
    if ties:
        left, right = np.round(left), np.round(right)
    odds = [weights / weights.sum() for weights in (drawn(190, seed=2) ** 2, drawn(117, seed=3) ** 2)]
    order = [np.argsort(table, axis=1).astype(np.int32) for table in (left, right)]
    halves = [
        Half(np.take_along_axis(table, places, 1), places, chances)
        for table, places, chances in zip((left, right), order, odds, strict=True)
    ]
    linear, quadratic = drawn(3, seed=7), drawn(3, 3, seed=8)
    hidden = np.maximum(left[:, :, None] + right[:, None, :], 0.0)
    weighted = hidden * np.outer(*odds)
    pull = linear[:, None, None] + np.einsum("ij,jab->iab", quadratic + quadratic.T, hidden)
    slopes = (np.where(hidden > 0, pull, 0.0) * np.outer(*odds)).sum(2)
    for weights in (None, (linear, quadratic)):
        mean, second, found = moments._sweep(*halves, lambda work: None, weights)
        np.testing.assert_allclose(mean, weighted.sum((1, 2)), rtol=1e-11)
        np.testing.assert_allclose(second, np.einsum("iab,jab->ij", weighted, hidden), rtol=1e-11)
    np.testing.assert_allclose(found, slopes, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("longest_tree", [1 << 13, 0])
def test_outcomes_too_rare_for_a_number(longest_tree, monkeypatch):
    """All of 1500 copies fall with a probability that is zero in floating point, on the left and on the right."""
    monkeypatch.setattr(moments, "_TREE", longest_tree)
    law = Coins(np.array([1500, 1, 2, 1]), np.array([0.5, 0.3, 0.6, 0.2]))
    weights, bias = drawn(2, 4) / np.array([1500, 1, 1, 1]), drawn(2, seed=1)
    walk = Walk([Stage(law, torch.from_numpy(weights), torch.from_numpy(bias))], MomentLeaf(), 1 << 30)
    part = Dominance(weights, bias, law, np.arange(4), walk)
    linear, quadratic = drawn(2, seed=7), drawn(2, 2, seed=8)
    common = np.ones((1, 4)), np.ones(1), Layer(weights, bias, np.ones(4, dtype=bool), law.counts, law.drop)
    for found, wanted in zip(part.moments(), direct_moments(*common), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-11)
    _, slopes, offset = direct_gradient(*common, linear, quadratic)
    for found, wanted in zip(part.slopes(linear, quadratic), (slopes, offset), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-10)


@pytest.mark.skipif(config.DISABLE_JIT, reason="takes minutes in plain Python")
def test_long_lists_equal_many_short_ones():
    """A list that outgrows the cache, of a length that is no power of two, against coins enumerated outside."""
    rng = np.random.default_rng(0)
    law = Coins(np.ones(27, np.int64), rng.uniform(0.1, 0.9, 27))
    weights, bias = rng.standard_normal((2, 27)), rng.standard_normal(2)
    found = []
    for memory in (1 << 30, 1 << 18):
        walk = Walk([Stage(law, torch.from_numpy(weights), torch.from_numpy(bias))], MomentLeaf(), memory)
        part = Dominance(weights, bias, law, np.arange(27), walk)
        found.append([*part.moments(), *part.slopes(np.ones(2), weights[:, :2].copy())])
    assert len(part.outer) > 5
    for whole, pieces in zip(*found, strict=True):
        np.testing.assert_allclose(whole, pieces, rtol=1e-11, atol=1e-12)


# --- single-sample training -----------------------------------------------------------------------------------------


def written_out(factors, x, y, z, rates):
    """One step after the other in matrix form; factors have one unit per row."""
    factors = [factor.copy() for factor in factors]
    losses = np.empty(rates.shape)
    for run, t in np.ndindex(*rates.shape):
        U, V = factors[0][run].copy(), factors[-1][run].copy()
        hidden = z[run, t] * (V @ x[run, t])
        residual = hidden @ U - y[run, t]
        losses[run, t] = residual @ residual
        factors[0][run] -= rates[run, t] * np.outer(hidden, residual)
        factors[-1][run] -= rates[run, t] * np.outer(z[run, t] * (U @ residual), x[run, t])
    return factors, losses


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(("workers", "features"), [(1, 3), (3, 3), (1, 61)])  # ends of rows alone, and behind vectors
def test_training_steps(tied, workers, features, monkeypatch):
    runs, steps, width = 4, 256 if workers > 1 else 20, 4
    monkeypatch.setattr(threads.torch, "get_num_threads", lambda: workers)
    factors = [drawn(runs, width, features, seed=i) / features for i in range(1 if tied else 2)]
    x, y = drawn(runs, steps, features, seed=3), drawn(runs, steps, features, seed=4)
    # unequal multipliers, an odd number of them zero in most steps, all zero in one
    z = np.where(np.random.default_rng(5).random((runs, steps, width)) < 0.4, 0.0, 1.0 + drawn(runs, steps, width) / 9)
    z[0, 7] = 0.0
    rates = np.full((runs, steps), 0.02)
    rates[:, 5] = 0.0
    expected, expected_losses = written_out(factors, x, y, z, rates)
    losses = run_kernel(factors, x, y, z, rates)
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-9)
    for found, wanted in zip(factors, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-11)


# --- the small networks of helmbold2017 -----------------------------------------------------------------------------


def small_network(width, features, seed=0):
    return drawn(width * (features + 2) + 1, seed=seed)


@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_shallow_criterion_and_its_gradient(decay):
    width, features = 3, 2
    rows, targets = drawn(5, features, seed=1), drawn(5, seed=2)
    chances = np.array([0.1, 0.2, 0.3, 0.15, 0.25])
    flat = small_network(width, features)
    value, gradient = shallow_objective(flat, rows, targets, chances, width, 0.5, decay)
    free = torch.tensor(flat, requires_grad=True)
    first, bias, last, out = free.split([width * features, width, width, 1])
    terms = torch.relu(torch.from_numpy(rows) @ first.reshape(width, features).mT + bias) * last
    error = terms.sum(1) + out - torch.from_numpy(targets)
    expected = (torch.from_numpy(chances) * (error.square() + 0.5 * terms.square().sum(1))).sum()
    expected = expected + decay / 2 * (first.square().sum() + last.square().sum())
    assert value == pytest.approx(float(expected.detach()), rel=1e-12)
    np.testing.assert_allclose(gradient, torch.autograd.grad(expected, free)[0], rtol=1e-11, atol=1e-12)


def uniforms(seed):
    """Splitmix64 in whole numbers."""
    full = (1 << 64) - 1
    state = seed
    while True:
        state = (state + 0x9E3779B97F4A7C15) & full
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & full
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & full
        yield ((z ^ (z >> 31)) >> 11) / 2**53


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # whole numbers wrap around on purpose
@pytest.mark.parametrize("drop", [0.0, 0.4])
def test_a_run_is_stochastic_descent_with_momentum(drop):
    width, features, count, decay, steps, seed = 3, 2, 4, 0.1, 30, 9
    inputs, targets = drawn(count, features, seed=1), drawn(count, seed=2)
    flat = small_network(width, features, seed=3)
    weights = torch.tensor(flat)
    velocity = torch.zeros_like(weights)
    coins = uniforms(seed)
    for t in range(steps):
        example = int(next(coins) * count)
        keep_inputs = [(next(coins) >= drop) / (1 - drop) if drop else 1.0 for _ in range(features)]
        keep_units = [(next(coins) >= drop) / (1 - drop) if drop else 1.0 for _ in range(width)]
        free = weights.clone().requires_grad_()
        first, bias, last, out = free.split([width * features, width, width, 1])
        row = torch.from_numpy(inputs[example]) * torch.tensor(keep_inputs, dtype=torch.float64)
        hidden = torch.relu(first.reshape(width, features) @ row + bias) * torch.tensor(keep_units, dtype=torch.float64)
        loss = (hidden @ last + out - targets[example]).square().sum()
        loss = loss + decay / 2 * (first.square().sum() + last.square().sum())
        gradient = torch.autograd.grad(loss, free)[0]
        velocity = gradient if t == 0 else 0.5 * velocity + 0.5 * gradient
        weights = weights - 0.01 / (1 + 1e-5 * t) * velocity
    error = train_run(flat, inputs, targets, width, drop, decay, steps, seed)
    np.testing.assert_allclose(flat, weights, rtol=1e-10)
    first, bias, last, out = weights.split([width * features, width, width, 1])
    plain = torch.relu(torch.from_numpy(inputs) @ first.reshape(width, features).mT + bias) @ last + out
    assert error == pytest.approx(float((plain - torch.from_numpy(targets)).square().mean()), rel=1e-10)


# --- the grid of section 6.5.1 --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("centered", "budget"), [(False, 0.75), (True, 0.75), (False, 0.6)])
def test_the_heap_keeps_what_sorting_puts_first(centered, budget):
    points, half = 13, 0.51
    found = grid_search(points, budget=budget, half_width=half, counts=(5, 37), centered=centered)
    ends = half * (1 - 1 / points) if centered else half
    axis = np.linspace(-ends, ends, points)
    grid = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), -1).reshape(-1, 3)
    z = (grid + np.array([3.0, 2.0, 1.0]))[(grid**2).sum(1) <= budget**2]
    wrong = z[:, 1:].max(1)
    flips = wrong > z[:, 0]
    assert found["feasible"] == len(z)
    assert found["flipping"] == flips.sum()

    def cross_entropy(logits):
        return np.log(np.exp(logits).sum(1)) - logits[:, 0]

    log_sum = np.log(np.exp(z).sum(1))
    scores = (cross_entropy(z), wrong - log_sum, -cross_entropy(-z), wrong, -np.log1p(np.exp(z[:, 0] - wrong)))
    for form, score in zip(FORMS, scores, strict=True):
        order = np.argsort(-score, kind="stable")
        for count in (5, 37):
            # with ties at the cut any choice among the tied is right
            level = score[order[count - 1]]
            sure, tied = score > level + 1e-9, np.abs(score - level) <= 1e-9
            room = count - sure.sum()
            least = flips[sure].sum() + max(0, room - (~flips[tied]).sum())
            most = flips[sure].sum() + min(room, flips[tied].sum())
            assert least <= found["forms"][form][count] <= most


# --- row solves of matrix completion --------------------------------------------------------------------------------


def ratings_problem(counts, width, columns=30, seed=0):
    rng = np.random.default_rng(seed)
    starts = np.r_[0, np.cumsum(counts)].astype(np.int64)
    where = rng.integers(columns, size=starts[-1]).astype(np.int32)
    return starts, where, rng.standard_normal(starts[-1]), drawn(columns, width, seed=seed + 1), drawn(columns, seed=9)


@pytest.mark.parametrize("mean", [True, False])
@pytest.mark.parametrize("shifted", [True, False])
@pytest.mark.parametrize("steps", [0, 1, 40])
def test_rows_are_ridge_problems(steps, shifted, mean):
    counts, width = [3, 0, 1, 4, 9, 530], 5
    starts, columns, values, regressors, offsets = ratings_problem(counts, width)
    offsets *= shifted
    diagonals = np.abs(drawn(4, width, seed=4)) * np.array([[0.3], [0.1], [0.2], [1.0]])
    diagonals[0] *= not mean  # where a is not zero a row needs its own squares
    diagonals = diagonals[: 4 if mean else 3]
    begun = drawn(len(counts), width, seed=5)
    solution = begun.copy()
    penalized, plain = solve_rows(starts, columns, values, regressors, offsets, solution, diagonals, steps)
    totals = np.zeros(2)
    for row, count in enumerate(counts):
        if count == 0:
            assert not solution[row].any()
            continue
        part = slice(starts[row], starts[row + 1])
        R, y = regressors[columns[part]], values[part] - offsets[columns[part]]
        D = diagonals[0] * (R**2).sum(0) + count * diagonals[1] + diagonals[2]
        best = np.linalg.solve(R.T @ R + np.diag(D), R.T @ y)

        def objective(x, R=R, y=y, D=D):
            return ((y - R @ x) ** 2).sum() + (D * x**2).sum()

        totals += objective(solution[row]), ((y - R @ solution[row]) ** 2).sum()
        assert objective(solution[row]) < objective(begun[row])
        if steps != 1:
            np.testing.assert_allclose(solution[row], best, rtol=1e-8, atol=1e-9)
        else:
            # one step of preconditioned steepest descent
            weight = 1 / ((count * diagonals[3] if mean else (R**2).sum(0)) + D)
            residual = R.T @ (y - R @ begun[row]) - D * begun[row]
            step = weight * residual
            size = step @ residual / (step @ (R.T @ (R @ step)) + (D * step**2).sum())
            np.testing.assert_allclose(solution[row], begun[row] + size * step, rtol=1e-10)
    np.testing.assert_allclose((penalized, plain), totals, rtol=1e-9)


def test_directions_the_data_leave_free_stay_finite():
    """No penalty and fewer ratings than unknowns; a regressor that is zero everywhere."""
    starts, columns, values, regressors, offsets = ratings_problem([2], 4)
    regressors[:, 3] = 0.0
    for steps in (0, 20):
        solution = np.zeros((1, 4))
        _, plain = solve_rows(starts, columns, values, regressors, offsets, solution, np.zeros((3, 4)), steps)
        assert np.isfinite(solution).all()
        assert solution[0, 3] == 0.0
        assert plain == pytest.approx(0.0, abs=1e-12)


def test_rows_that_are_solved_stay_as_they_are():
    starts, columns, values, regressors, offsets = ratings_problem([3, 6], 4)
    values[:] = offsets[columns]  # nothing is left to explain
    solution = np.zeros((2, 4))
    reached = solve_rows(starts, columns, values, regressors, offsets, solution, np.ones((3, 4)), 5)
    assert reached == (0.0, 0.0)
    assert not solution.any()


def test_repeated_ratings_are_averaged_and_both_orders_agree():
    rows = np.array([2, 0, 2, 2, 1, 0, 2])
    columns = np.array([1, 0, 1, 0, 2, 0, 1])
    values = np.array([1.0, 2.0, 4.0, 3.0, 5.0, 4.0, 1.0])
    with pytest.warns(DuplicateRatings):
        found = observations((rows, columns, values), dtype=np.float64)
    assert found.count == 4
    seen = {}
    for name, table in (("by user", found.by_user), ("by item", found.by_item)):
        row = np.repeat(np.arange(table.rows), table.counts)
        users, items = (row, table.columns) if name == "by user" else (table.columns, row)
        seen[name] = {
            (int(found.users.ids[u]), int(found.items.ids[i])): value + found.mean
            for u, i, value in zip(users, items, table.values, strict=True)
        }
    expected = {(0, 0): 3.0, (1, 2): 5.0, (2, 0): 3.0, (2, 1): 2.0}
    for table in seen.values():
        assert table == pytest.approx(expected)
