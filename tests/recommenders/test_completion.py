"""Row solves, objectives and solvers of dropout matrix completion against independent formulas."""

from __future__ import annotations

import time
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from droptics.data import Entries
from droptics.masks import Bernoulli
from droptics.norms import weighted_trace
from droptics.penalties import criterion, penalty, risk
from droptics.recommenders import DropoutCompletion, RidgeCompletion, default_drop, sgd
from droptics.recommenders.alternation import Effort, Strengths, alternate
from droptics.recommenders.ratings import Compressed, observations
from droptics.recommenders.rows import prepared
from droptics.recommenders.sgd import Sgd, step
from droptics.recommenders.sweepers import Device, Threads

VARIANTS = {
    "expected": Strengths(3, expected=1.5),
    "empirical": Strengths(3, empirical=1.5),
    "mixed, biases": Strengths(3, empirical=0.7, expected=0.9, bias=2.0),
    "ALS-WR, biases": Strengths(3, weighted=0.3, bias=1.0),
    "ridge": Strengths(3, ridge=0.8),
    "smoothed": Strengths(3, expected=1.5, smoothing=0.3, bias=1.0),
    "all, free biases": Strengths(3, 0.2, 0.3, 0.1, 0.4, bias=0.0),
}
ENGINES = {
    "one thread": Threads(1),
    "two threads": Threads(2),
    "torch": Device("cpu"),
    "small budget": Device("cpu", 4096),
}
cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def ratings(seed: int = 0, users: int = 9, items: int = 7, share: float = 0.5):
    """A table without symmetry: every size different, uneven activity, a user and an item with one rating."""
    rng = np.random.default_rng(seed)
    chosen = rng.random((users, items)) < share * rng.random((users, 1)) * 2
    chosen[0], chosen[:, 0] = False, False
    chosen[0, 1] = chosen[1, 0] = chosen[2, 2] = True
    rows, columns = np.nonzero(chosen)
    return rows, columns, rng.standard_normal(len(rows)) + rng.standard_normal(users)[rows]


def start(data, strengths, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    sides = [np.zeros((rows, strengths.columns), dtype) for rows in (len(data.users), len(data.items))]
    used = strengths.width + (strengths.bias is not None)
    for side in sides:
        side[:, :used] = rng.standard_normal((len(side), used))
    return sides


def dense_objective(data, factors, strengths):
    """F written out from its definition, one rating at a time."""
    left, right = (side.astype(np.float64) for side in factors)
    width, table = strengths.width, data.by_user
    total = 0.0
    n_users, n_items = table.counts, data.by_item.counts
    for i in range(table.rows):
        for m in range(table.starts[i], table.starts[i + 1]):
            j = table.columns[m]
            guess = left[i, :width] @ right[j, :width]
            if strengths.bias is not None:
                guess += left[i, width] + right[j, width]
            total += (table.values[m] - guess) ** 2
            total += strengths.empirical * ((left[i, :width] * right[j, :width]) ** 2).sum()
    for k in range(width):
        levels = [
            sum(((1 - strengths.smoothing) * n / data.count + strengths.smoothing / len(side)) * side[:, k] ** 2)
            for n, side in ((n_users, left), (n_items, right))
        ]
        total += strengths.expected * data.count * levels[0] * levels[1]
        total += strengths.weighted * (n_users @ left[:, k] ** 2 + n_items @ right[:, k] ** 2)
        total += strengths.ridge * (left[:, k] @ left[:, k] + right[:, k] @ right[:, k])
    if strengths.bias is not None:
        total += strengths.bias * (left[:, width] @ left[:, width] + right[:, width] @ right[:, width])
    return total


def normal_equations(data, factors, strengths):
    """Users' rows by dense normal equations in float64, one user at a time."""
    left, right = (side.astype(np.float64) for side in factors)
    width, table = strengths.width, data.by_user
    smooth = strengths.smoothing
    shares = (1 - smooth) * data.by_item.counts / data.count + smooth / len(right)
    mean_squares = shares @ right[:, :width] ** 2
    solved = np.zeros_like(left)
    for i in range(table.rows):
        part = slice(table.starts[i], table.starts[i + 1])
        j, y = table.columns[part], table.values[part].astype(np.float64)
        design = right[j, :width]
        count = len(j)
        own = (1 - smooth) * count + smooth * data.count / len(left)
        diagonal = strengths.empirical * (design**2).sum(0) + own * strengths.expected * mean_squares
        diagonal = diagonal + count * strengths.weighted + strengths.ridge
        if strengths.bias is not None:
            y = y - right[j, width]
            design = np.column_stack([design, np.ones(count)])
            diagonal = np.append(diagonal, strengths.bias)
        solved[i, : design.shape[1]] = np.linalg.solve(design.T @ design + np.diag(diagonal), design.T @ y)
    return solved


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("steps", [0, 60])
def test_half_sweep_solves_the_normal_equations(engine, variant, steps):
    strengths, runner = VARIANTS[variant], ENGINES[engine]
    data = observations(ratings(), np.float64)
    factors = start(data, strengths)
    left, right = (runner.hold(side) for side in factors)
    reached, error = runner.solve(runner.load(data.by_user), right, left, strengths, data.by_item.counts, steps)
    found = runner.release(left)
    assert np.allclose(found, normal_equations(data, factors, strengths), rtol=1e-8, atol=1e-9)
    total = dense_objective(data, (found, factors[1]), strengths)
    assert float(reached) == pytest.approx(total, rel=1e-10)
    plain = dense_objective(data, (found, factors[1]), Strengths(3, bias=0.0 if strengths.bias is not None else None))
    assert float(error) == pytest.approx(plain, rel=1e-10)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("steps", [0, 5])
def test_rows_without_ratings_are_zero_and_change_no_other(engine, steps):
    strengths, runner = VARIANTS["expected"], ENGINES[engine]
    data = observations(ratings(), np.float64)
    whole, factors = data.by_user, start(data, strengths)
    begin, end = whole.starts[2], whole.starts[3]
    kept = np.r_[0:begin, end : len(whole.values)]
    starts = np.where(np.arange(len(whole.starts)) > 2, whole.starts - (end - begin), whole.starts)
    found = []
    for table in (whole, Compressed(starts, whole.columns[kept], whole.values[kept])):
        left, right = (runner.hold(side) for side in factors)
        runner.solve(runner.load(table), right, left, strengths, data.by_item.counts, steps)
        found.append(runner.release(left))
    assert not found[1][2].any()
    assert found[0][2].any()
    np.testing.assert_allclose(np.delete(found[1], 2, 0), np.delete(found[0], 2, 0), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("variant", VARIANTS)
def test_one_pass_objective_is_the_definition(variant, monkeypatch):
    monkeypatch.setattr(sgd, "CHUNK", 4)
    strengths = VARIANTS[variant]
    data = observations(ratings(), np.float64)
    factors = start(data, strengths)
    total, error = sgd.objective(data, tuple(factors), strengths)
    assert total == pytest.approx(dense_objective(data, factors, strengths), rel=1e-12)
    assert error <= total


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_last_diagonal_is_the_mean_square_of_the_regressors(variant):
    strengths = VARIANTS[variant]
    data = observations(ratings(), np.float64)
    regressors, _, diagonals, _ = prepared(start(data, strengths)[1], strengths, data.by_item.counts, len(data.users))
    squares = (regressors[data.by_user.columns] ** 2).mean(0)[: strengths.columns]
    if strengths.empirical:
        assert len(diagonals) == 3  # a row needs its own squares
    else:
        np.testing.assert_allclose(diagonals[3], squares, rtol=data.count * 2.0**-52)


@given(
    seed=st.integers(0, 10**6),
    steps=st.sampled_from([0, 1, 3]),
    variant=st.sampled_from(sorted(VARIANTS)),
    share=st.floats(0.05, 1.0),
)
@settings(max_examples=40, deadline=None)
def test_objective_never_increases(seed, steps, variant, share):
    strengths = VARIANTS[variant]
    data = observations(ratings(seed, share=share), np.float64)
    factors = start(data, strengths, seed)
    first = dense_objective(data, factors, strengths) / data.count
    _, history = alternate(Threads(1), data, tuple(factors), strengths, Effort(6, steps))
    values = np.array([first] + [line.objective for line in history])
    # Each value is a sum of non-negative terms no larger than the first value: rounding is relative to that.
    assert (np.diff(values) <= 1e-13 * first).all()


@pytest.mark.parametrize("unit", [1.0, 4096.0])
@pytest.mark.parametrize("tolerance", [0.03, 0.003])
def test_the_first_sweep_that_gains_little_is_the_last(unit, tolerance):
    rows, columns, values = ratings(3, 30, 20)
    data, strengths = observations((rows, columns, unit * values), np.float64), VARIANTS["mixed, biases"]
    runs = [
        alternate(Threads(1), data, tuple(start(data, strengths)), strengths, Effort(40, 3, share))[1]
        for share in (0.0, tolerance)
    ]
    whole, cut = ([line.objective for line in history] for history in runs)
    gains = [(before - after) / after for before, after in pairwise(whole)]
    assert gains[len(cut) - 2] < tolerance <= min(gains[: len(cut) - 2])
    assert cut == whole[: len(cut)]


def test_float32_tracks_float64_over_long_rows():
    rng = np.random.default_rng(3)
    rows, columns = np.divmod(np.arange(6 * 3000), 3000)
    values = 3 + rng.standard_normal(len(rows))
    fits = [
        DropoutCompletion(5, 0.3, dtype=kind, sweeps=4, tolerance=0).fit((rows, columns, values))
        for kind in ("float32", "float64")
    ]
    assert fits[0].objective_ == pytest.approx(fits[1].objective_, rel=1e-6)


def test_three_steps_track_the_exact_solution():
    rng = np.random.default_rng(5)
    rows, columns = rng.integers(0, 200, 6000), rng.integers(0, 150, 6000)
    keep = np.unique(rows * 150 + columns, return_index=True)[1]
    truth = rng.standard_normal((200, 3)) @ rng.standard_normal((3, 150))
    table = (rows[keep], columns[keep], truth[rows, columns][keep] + 0.5 * rng.standard_normal(len(keep)))
    three, exact = (DropoutCompletion(10, 0.5, cg_steps=steps, sweeps=5, tolerance=0).fit(table) for steps in (3, None))
    assert abs(three.objective_ / exact.objective_ - 1) < 1e-2


@pytest.mark.parametrize("engine", ["two threads", "torch"])
def test_engines_agree(engine):
    data = observations(ratings(1), np.float64)
    strengths = VARIANTS["mixed, biases"]
    factors = start(data, strengths)
    reference, lines = alternate(Threads(1), data, tuple(factors), strengths, Effort(4, 3))
    found, others = alternate(ENGINES[engine], data, tuple(factors), strengths, Effort(4, 3))
    for one, other in zip(reference, found, strict=True):
        assert np.allclose(one, other, rtol=1e-9, atol=1e-10)
    assert others[-1].objective == pytest.approx(lines[-1].objective, rel=1e-11)


@cuda
def test_cuda_agrees():
    table = ratings(2, 60, 40)
    here = DropoutCompletion(4, 0.5, threads=1).fit(table)
    there = DropoutCompletion(4, 0.5, device="cuda").fit(table)
    assert there.objective_ == pytest.approx(here.objective_, rel=1e-5)


@pytest.mark.filterwarnings("ignore::droptics.recommenders.UnboundedPredictions")
def test_empirical_objective_is_the_criterion_of_the_theory():
    model = DropoutCompletion(4, 0.4, penalty="empirical", biases=False, dtype="float64").fit(ratings())
    entries, masks = model.entries(), Bernoulli(0.4, 4)
    assert model.objective_ == pytest.approx(float(criterion(model.factorization(), entries, masks)), rel=1e-10)
    assert model.history_[-1].rmse ** 2 == pytest.approx(float(risk(model.factorization(), entries)), rel=1e-9)
    with_biases = DropoutCompletion(4, 0.4, penalty="empirical", dtype="float64", bias_ridge=2.0).fit(ratings())
    theory = float(criterion(with_biases.factorization(), with_biases.entries(biases=True), masks))
    ridge = 2.0 * (
        with_biases.user_biases_ @ with_biases.user_biases_ + with_biases.item_biases_ @ with_biases.item_biases_
    )
    assert with_biases.objective_ == pytest.approx(theory + ridge / len(entries), rel=1e-10)


def test_mean_sgd_step_is_the_gradient_of_the_criterion():
    data = observations(ratings(), np.float64)
    strengths = Strengths(3, empirical=1.0)
    left, right = (torch.from_numpy(side) for side in start(data, strengths))
    rows = torch.from_numpy(np.repeat(np.arange(data.by_user.rows), data.by_user.counts))
    batch = (rows, torch.from_numpy(data.by_user.columns).long(), torch.from_numpy(data.by_user.values))
    entries = Entries(*batch, (len(left), len(right)))
    from droptics.models import Factorization

    factors = [left[:, :3].clone().requires_grad_(), right[:, :3].clone().requires_grad_()]
    criterion(Factorization(*factors), entries, Bernoulli(0.5, 3)).value.backward()
    generator = torch.Generator().manual_seed(0)
    moves = [[], []]
    for _ in range(3000):
        moved = left.clone(), right.clone()
        step(moved, batch, strengths, Sgd(0.5, 1, 0.1, len(batch[0])), generator, data.count)
        for kept, side, old in zip(moves, moved, (left, right), strict=True):
            kept.append((side - old)[:, :3])
    for kept, factor in zip(moves, factors, strict=True):
        draws = torch.stack(kept)
        error = draws.std(0) / len(draws) ** 0.5
        assert ((draws.mean(0) + 0.1 * factor.grad).abs() <= 5 * error + 1e-12).all()


def test_sgd_descends_to_the_neighborhood_of_als():
    rng = np.random.default_rng(2)
    rows, columns = np.divmod(rng.permutation(40 * 30)[:700], 30)
    table = rows, columns, (rng.standard_normal((40, 2)) @ rng.standard_normal((2, 30)))[rows, columns]
    options = {"width": 4, "drop": 0.3, "biases": False, "dtype": "float64"}
    als = DropoutCompletion(**options, penalty="empirical", sweeps=60, cg_steps=None).fit(table)
    begin = time.perf_counter()
    sgd = DropoutCompletion(**options, solver="sgd", sweeps=60, step_size=2.0, batch=100).fit(table)
    elapsed = time.perf_counter() - begin
    first = sgd.history_[0].objective
    seconds = [sweep.seconds for sweep in sgd.history_]
    assert 0 < seconds[0] <= seconds[-1] <= elapsed
    assert seconds == sorted(seconds)
    assert als.objective_ < sgd.objective_ < als.objective_ + 0.1 * (first - als.objective_)
    masks = Bernoulli(0.3, 4)
    assert sgd.objective_ == pytest.approx(float(criterion(sgd.factorization(), sgd.entries(), masks)), rel=1e-9)
    biased = DropoutCompletion(4, 0.3, solver="sgd", sweeps=30, step_size=2.0, batch=100).fit(table)
    assert biased.history_[-1].objective < biased.history_[0].objective


def shrunken_optimum(values: np.ndarray, lam: float, width: int) -> float:
    """min over spectra x >= 0, at most `width` long, of |m - x|^2 + lam / width (sum x)^2, by trying every support."""
    best = np.inf
    for kept in range(min(width, len(values)) + 1):
        threshold = lam * values[:kept].sum() / (width + lam * kept)
        x = np.concatenate([np.maximum(values[:kept] - threshold, 0), np.zeros(len(values) - kept)])
        best = min(best, ((values - x) ** 2).sum() + lam / width * x.sum() ** 2)
    return best


@pytest.mark.parametrize("width", [1, 2, 4, 9])
@pytest.mark.parametrize("kind", ["expected", "empirical"])
def test_fully_observed_reaches_the_closed_form_optimum(width, kind):
    rng = np.random.default_rng(7)
    matrix = rng.standard_normal((6, 3)) @ rng.standard_normal((3, 5)) + 0.3 * rng.standard_normal((6, 5))
    matrix -= matrix.mean()
    rows, columns = np.divmod(np.arange(30), 5)
    model = DropoutCompletion(
        width, 0.4, penalty=kind, biases=False, sweeps=4000, cg_steps=None, tolerance=0.0, dtype="float64"
    ).fit((rows, columns, matrix.reshape(-1)))
    best = shrunken_optimum(np.linalg.svd(matrix, compute_uv=False), 0.4 / 0.6, width)
    assert model.objective_ * 30 == pytest.approx(best, rel=1e-6)
    assert model.objective_ * 30 >= best * (1 - 1e-12)


def test_expected_dropout_is_als_wr_at_the_matched_strength():
    table = ratings(4, 12, 10, 0.8)
    options = {"biases": False, "sweeps": 3000, "cg_steps": None, "tolerance": 0.0, "dtype": "float64"}
    model = DropoutCompletion(10, 0.6, smoothing=0.0, **options).fit(table)
    entries = model.entries()
    matrix = model.factorization().matrix()
    p = torch.bincount(entries.rows).double() / len(entries)
    q = torch.bincount(entries.columns).double() / len(entries)
    norm = float(weighted_trace(matrix, p, q))
    other = RidgeCompletion(10, 0.6 / 0.4 * norm / 10, **options).fit(table)
    assert torch.allclose(other.factorization().matrix(), matrix, atol=1e-6 * float(matrix.abs().max()))


@pytest.mark.parametrize("steps", [3, None])
def test_result_does_not_depend_on_the_initial_scale(steps):
    table = ratings(6, 30, 20)
    he = (2 / 30) ** 0.5
    fits = [
        DropoutCompletion(4, 0.5, init_scale=scale, cg_steps=steps, dtype="float64").fit(table)
        for scale in (0.01, 0.1, 0.5, he)
    ]
    for other in fits[1:]:
        assert np.allclose(other.predict(*table[:2]), fits[0].predict(*table[:2]), rtol=1e-9)


@pytest.mark.filterwarnings("ignore::droptics.recommenders.UnboundedPredictions")
def test_penalty_zero_rate_is_plain_least_squares():
    table = ratings(8)
    for steps in (3, None):
        model = DropoutCompletion(2, 0.0, biases=False, sweeps=50, cg_steps=steps, dtype="float64").fit(table)
        assert model.objective_ == pytest.approx(model.history_[-1].rmse ** 2, rel=1e-9)
        assert np.isfinite(model.predict(*table[:2])).all()
        assert model.objective_ < np.var(table[2])
    assert float(penalty(model.factorization(), model.entries(), Bernoulli(0.0, 2))) == 0.0


def test_exact_solves_survive_singular_systems():
    # Three equal ratings per user, width 5, no penalty: every row system is singular.
    rows, columns = np.divmod(np.arange(12), 3)
    values = np.arange(12.0)
    for engine in (None, "cpu"):
        model = DropoutCompletion(
            5, 0.0, biases=False, cg_steps=None, dtype="float64", device=engine, threads=1 if engine is None else None
        ).fit((rows, columns, values))
        assert model.history_[-1].rmse < 1e-6


@pytest.mark.filterwarnings("ignore::droptics.recommenders.UnboundedPredictions")
@pytest.mark.parametrize("device", [None, "cpu"])
@pytest.mark.parametrize("steps", [3, 30, None])
def test_rows_with_fewer_ratings_than_units_do_not_run_away(steps, device):
    # Without a penalty directions are free; steps along the rounding of a solved row must not add up.
    table = ratings(4, users=60, items=40, share=0.17)
    model = DropoutCompletion(30, 0.0, biases=False, sweeps=30, cg_steps=steps, device=device).fit(table)
    assert model.objective_ > -1e-6
    assert model.history_[-1].rmse < 1e-3
    assert np.abs(model.predict(*table[:2]) - table[2]).max() < 1e-2


def test_large_rates_shrink_the_factors_away():
    table = ratings(9)
    model = DropoutCompletion(3, 1 - 1e-9, dtype="float64", sweeps=30).fit(table)
    share = np.abs(model.factorization().matrix().numpy()).max()
    assert share < 1e-3


def test_default_drop_follows_width_and_ratings():
    rates = [default_drop(width, 10**6) for width in (5, 30, 200)]
    assert rates == sorted(rates)
    strengths = [rate / (1 - rate) / width for rate, width in zip(rates, (5, 30, 200), strict=True)]
    assert max(strengths) == pytest.approx(min(strengths))
    assert default_drop(30, 10**5) > default_drop(30, 10**7)
    assert DropoutCompletion(3).fit(ratings()).drop_ == default_drop(3, len(ratings()[0]))


def test_without_centering_the_factors_explain_the_ratings_themselves():
    users, items = np.divmod(np.arange(60), 10)
    values = 3.0 + (users % 2) * (items % 3)
    plain = DropoutCompletion(2, 0.0, biases=False, center=False, sweeps=200, dtype="float64").fit(
        (users, items, values)
    )
    assert plain.mean_ == 0.0
    assert np.abs(plain.predict(users, items) - values).max() < 1e-3  # rank two without a mean
    assert DropoutCompletion(2, 0.1).fit((users, items, values)).mean_ == values.mean()
