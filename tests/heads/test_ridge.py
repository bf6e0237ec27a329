"""Dropout on inputs as ridge regression: exact weights, exact leave-one-out, scikit-learn's own checks."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from cases import EXAMPLES, INPUTS, OUTPUTS, laws, normal, sample, small_network, weighted_sample
from compare import close
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import SkipTestWarning
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from droptics.data import Moments, Sample
from droptics.heads.ridge import DropoutRidge, DropoutRidgeCV
from droptics.masks import Bernoulli, Block
from droptics.models import LastLayer
from droptics.optima import optimal_head, optimum
from droptics.penalties import criterion

RATES = [0.0, 0.01, 0.3, 0.9]


def problem(examples: int, features: int, outputs: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(examples, features)) @ rng.normal(size=(features, features)) + 1
    return X, X @ rng.normal(size=(features, outputs)) + rng.normal(size=(examples, outputs))


def refitted_error(X, Y, weights, drop, block, intercept) -> float:
    """Leave-one-out by its definition: one refit per example."""
    errors = []
    for i in range(len(X)):
        kept = np.arange(len(X)) != i
        model = DropoutRidge(drop, block=block, fit_intercept=intercept).fit(X[kept], Y[kept], weights[kept])
        errors.append(((Y[i] - model.predict(X[i : i + 1])[0]) ** 2).mean())
    return float(weights / weights.sum() @ np.array(errors))


@pytest.mark.parametrize("estimator", [DropoutRidge(), DropoutRidgeCV()], ids=["ridge", "cv"])
def test_scikit_learn_checks(estimator: object) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkipTestWarning)  # array API checks need an environment variable
        results = check_estimator(estimator, on_fail=None, on_skip=None)
    assert len(results) > 40
    assert [r["check_name"] for r in results if r["status"] not in ("passed", "skipped")] == []


@pytest.mark.parametrize("block", [1, 2, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_minimizes_the_criterion(block: int, weighted: bool) -> None:
    """Against the mask average computed by the penalty rules, and no step in any direction helps."""
    data = weighted_sample() if weighted else sample()
    weights = None if data.weights is None else data.weights.numpy()
    model = DropoutRidge(0.4, block=block).fit(data.inputs.numpy(), data.targets.numpy(), weights)
    law = Block(0.4, INPUTS, block)
    best = optimum(LastLayer, data, law)
    close(model.objective_, best.objective, 1e-11)
    close(model.coef_, best.model.head.weight.detach(), 1e-9)
    close(model.intercept_, best.model.head.bias.detach(), 1e-9)
    head = torch.nn.Linear(INPUTS, OUTPUTS, dtype=torch.float64)
    for seed in range(5):
        with torch.no_grad():
            head.weight.copy_(torch.from_numpy(model.coef_) + 1e-3 * normal(OUTPUTS, INPUTS, seed=seed))
            head.bias.copy_(torch.from_numpy(model.intercept_))
        assert float(criterion(LastLayer.of(head), data, law).value.detach()) > model.objective_


def test_special_cases() -> None:
    X, Y = problem(30, 4, 2)
    close(DropoutRidge(0.0).fit(X, Y).coef_, LinearRegression().fit(X, Y).coef_, 1e-9)
    # without an intercept it is ridge on inputs scaled to unit second moment
    scales = np.sqrt((X**2).mean(0))
    ridge = Ridge(alpha=30 * 0.25 / 0.75, fit_intercept=False).fit(X / scales, Y)
    close(DropoutRidge(0.25, fit_intercept=False).fit(X, Y).coef_, ridge.coef_ / scales, 1e-10)
    # the units of the inputs do not matter
    units = np.array([1e-3, 1.0, 50.0, 1e4])
    close(DropoutRidge(0.3).fit(X * units, Y).predict(X * units), DropoutRidge(0.3).fit(X, Y).predict(X), 1e-9)
    # one block of everything only scales least squares without an intercept
    whole = DropoutRidge(0.5, block=4, fit_intercept=False).fit(X, Y)
    close(whole.coef_, LinearRegression(fit_intercept=False).fit(X, Y).coef_ / 2, 1e-10)
    assert np.all(DropoutRidge(0.5).fit(np.zeros((3, 2)), [1.0, 2.0, 3.0]).coef_ == 0)
    assert DropoutRidge(0.5).fit(X, Y[:, 0]).coef_.shape == (4,)
    make_pipeline(StandardScaler(), DropoutRidgeCV()).fit(X, Y[:, 0]).predict(X)


@pytest.mark.parametrize(("examples", "features", "outputs", "block"), [(25, 4, 1, 1), (20, 6, 2, 3), (9, 12, 2, 2)])
@pytest.mark.parametrize("intercept", [True, False])
def test_leave_one_out_is_exact(examples: int, features: int, outputs: int, block: int, intercept: bool) -> None:
    X, Y = problem(examples, features, outputs)
    X[:, 1] *= np.random.default_rng(1).random(examples) < 0.3  # a rare feature
    X[3, 2] = 40.0  # an outlier
    X[:, 3] = 0.0
    X[4, 3] = 1.0  # a feature of one example only: leaving it out empties the feature
    weights = np.random.default_rng(2).random(examples)
    weights[2] = 0.0
    model = DropoutRidgeCV(RATES, block=block, fit_intercept=intercept).fit(X, Y, weights)
    expected = [refitted_error(X, Y, weights, rate, block, intercept) for rate in RATES]
    close(model.loo_errors_, expected, 1e-8)
    assert model.drop_ == RATES[int(np.argmin(expected))]
    close(model.coef_, DropoutRidge(model.drop_, block=block, fit_intercept=intercept).fit(X, Y, weights).coef_, 1e-12)


@given(st.integers(3, 12), st.integers(1, 5), st.integers(0, 10_000))
@settings(max_examples=15, deadline=None)
def test_leave_one_out_on_random_problems(examples: int, features: int, seed: int) -> None:
    X, Y = problem(examples, features, 1, seed)
    model = DropoutRidgeCV([0.2, 0.7]).fit(X, Y[:, 0])
    expected = [refitted_error(X, Y, np.ones(examples), rate, 1, True) for rate in (0.2, 0.7)]
    close(model.loo_errors_, expected, 1e-8)


@pytest.mark.parametrize(("examples", "features", "block"), [(6, 8, 1), (5, 8, 4), (5, 30, 1), (12, 3, 1)])
@pytest.mark.parametrize("intercept", [True, False])
def test_leave_one_out_at_tiny_rates(examples: int, features: int, block: int, intercept: bool) -> None:
    """Of fewer examples than features nearly nothing is left open by the example that is left out."""
    X, Y = problem(examples, features, 1, 3)
    rates = [10.0**-k for k in range(2, 11)]
    model = DropoutRidgeCV(rates, block=block, fit_intercept=intercept).fit(X, Y[:, 0])
    expected = [refitted_error(X, Y, np.ones(examples), rate, block, intercept) for rate in rates]
    close(model.loo_errors_, expected, 1e-7)


def test_weights_count_copies() -> None:
    X, Y = problem(12, 3, 1)
    counts = np.random.default_rng(0).integers(0, 4, 12)
    weighted = DropoutRidgeCV().fit(X, Y[:, 0], counts.astype(float))
    repeated = DropoutRidgeCV().fit(np.repeat(X, counts, 0), np.repeat(Y[:, 0], counts))
    close(weighted.loo_errors_, repeated.loo_errors_, 1e-9)


def test_of_hardly_more_than_one_copy_the_rest_stays() -> None:
    X, Y = problem(8, 3, 1)
    X[:, 2] = 0.0
    X[5, 2] = 3.0
    counts = np.ones(8)
    counts[5] += 5e-7
    errors = []
    for i in range(8):
        others = counts - np.eye(8)[i]
        kept = others > 1e-9
        model = DropoutRidge(0.3).fit(X[kept], Y[kept, 0], others[kept])
        errors.append((Y[i, 0] - model.predict(X[i : i + 1])[0]) ** 2)
    found = DropoutRidgeCV([0.3]).fit(X, Y[:, 0], counts)
    close(found.loo_errors_, [counts / counts.sum() @ np.array(errors)], 1e-6)


def test_refusals() -> None:
    X, Y = problem(10, 3, 1)
    for bad in (1.0, -0.1, float("nan"), "half", [0.1, 0.2]):
        with pytest.raises(ValueError, match=r"drop (must|is the probability)"):
            DropoutRidge(bad).fit(X, Y)
    with pytest.raises(ValueError, match="block must divide"):
        DropoutRidge(0.5, block=2).fit(X, Y)
    with pytest.raises(ValueError, match="block must be a positive"):
        DropoutRidge(0.5, block=0).fit(X, Y)
    with pytest.raises(ValueError, match="at least one non-zero"):
        DropoutRidge().fit(X, Y, np.zeros(10))
    with pytest.raises(ValueError, match="leaves none"):
        DropoutRidgeCV().fit(X, Y, np.eye(10)[0])


@pytest.mark.parametrize("law", laws(5).values(), ids=laws(5).keys())
def test_best_head_for_every_law(law) -> None:
    model = LastLayer.of(small_network())
    for data in (sample(), weighted_sample()):
        before = [parameter.clone() for parameter in model.module.parameters()]
        best = optimal_head(model, data, law)
        assert abs(best.gap) <= 1e-11 * best.scale
        assert all(torch.equal(a, b) for a, b in zip(before, model.module.parameters(), strict=True))
        head = best.model.head
        value = criterion(best.model, data, law).value
        slopes = torch.autograd.grad(value, [head.weight, head.bias])
        assert max(float(slope.abs().max()) for slope in slopes) <= 1e-10 * best.scale


def test_head_optimum_edges() -> None:
    state = torch.get_rng_state()
    features = torch.cat([normal(EXAMPLES, 2), torch.zeros(EXAMPLES, 1).double()], 1)
    best = optimum(LastLayer, Sample(features, normal(EXAMPLES, 2, seed=3)), Bernoulli(0.5, 3))
    assert torch.equal(state, torch.get_rng_state())
    assert best.certified
    assert float(best.model.head.weight[:, 2].detach().abs().max()) == 0.0
    plain = torch.nn.Linear(4, 3, bias=False, dtype=torch.float64)
    assert optimal_head(LastLayer.of(plain), sample(), Bernoulli(0.2, 4)).certified
    with pytest.raises(ValueError, match="Sample"):
        optimum(LastLayer, Moments.of_map(normal(3, 4)), Bernoulli(0.5, 4))
    with pytest.raises(ValueError, match="one-hot"):
        optimum(LastLayer, Sample(features, torch.arange(EXAMPLES)), Bernoulli(0.5, 3))


def test_default_rates_and_the_fewest_examples():
    found = DropoutRidgeCV().fit(np.array([[1.0], [2.0]]), np.array([1.0, 3.0]))
    assert np.allclose(found.drops_, np.arange(1, 20) / 20, rtol=1e-14)
    assert found.drop_ in found.drops_


def test_one_example_is_enough_and_negative_weights_are_refused():
    alone = DropoutRidge(drop=0.5, fit_intercept=False).fit([[2.0]], [4.0])
    assert alone.coef_[0] == pytest.approx(1.0, rel=1e-14)  # x y / (x^2 (1 + lambda)), lambda = 1
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        DropoutRidge().fit([[1.0], [2.0]], [1.0, 2.0], sample_weight=[1.0, -1.0])


@pytest.mark.parametrize("shift", [-40, 40])
@pytest.mark.parametrize("block", [1, 2])
@pytest.mark.parametrize("drop", [0.0, 0.3])
def test_units_of_inputs_and_the_number_of_examples_change_nothing(shift, block, drop):
    X, Y = problem(12, 4, 2)
    X[:, 3] = X[:, 2] * 3  # a rank to be decided inside the last block
    units = np.array([1.0, 2.0**shift, 2.0 ** (-shift // 2), 1.0])
    plain = DropoutRidge(drop, block=block).fit(X, Y)
    moved = DropoutRidge(drop, block=block).fit(X * units, Y)
    close(moved.coef_ * units, plain.coef_, 1e-9)
    close(moved.objective_, plain.objective_, 1e-10)
    often = DropoutRidge(drop, block=block).fit(np.tile(X, (500, 1)), np.tile(Y, (500, 1)))
    close(often.coef_, plain.coef_, 1e-9)
    errors = [DropoutRidgeCV([drop, 0.5], block=block).fit(part, Y).loo_errors_ for part in (X, X * units)]
    close(errors[1], errors[0], 1e-8)


@pytest.mark.parametrize("shift", [-40, 40])
def test_heads_on_features_that_do_not_vary_or_have_other_units(shift):
    features, targets = normal(12, 4), normal(12, 2)
    features[:, 1] = 1 / 3
    units = torch.tensor([1.0, 2.0**shift, 2.0**-shift, 1.0]).double()
    for masks in (Bernoulli(0.0, 4), Bernoulli(0.3, 4)):
        plain, moved = (optimum(LastLayer, Sample(part, targets), masks) for part in (features, features * units))
        assert plain.certified
        assert moved.certified
        close(moved.objective, plain.objective, 1e-12)
        close(moved.model.head.weight * units, plain.model.head.weight, 1e-9)


@pytest.mark.parametrize("block", [1, 2])
@pytest.mark.parametrize("outputs", [1, 3])
def test_deviation_of_a_prediction_is_that_over_all_masks(block: int, outputs: int) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 4)) + 1, rng.normal(size=(20, outputs))
    model = DropoutRidge(0.3, block=block).fit(X, y[:, 0] if outputs == 1 else y)
    mean, spread = model.predict(X, return_std=True)
    law = Block(0.3, 4, block)
    values = np.stack([X * z.numpy() @ model.coef_.T + model.intercept_ for z, _ in law.atoms()])
    chances = np.array([chance for _, chance in law.atoms()])
    expected = np.einsum("t,t...->...", chances, (values - mean) ** 2)
    np.testing.assert_allclose(spread**2, expected, rtol=1e-12)
    np.testing.assert_allclose(np.einsum("t,t...->...", chances, values), mean, rtol=1e-12)
    assert spread.shape == mean.shape


@pytest.mark.parametrize("given", [{}, {"drop": 0.5}, {"fit_intercept": True}])
def test_half_of_the_inputs_are_dropped_and_an_intercept_is_fitted_unless_said(given: dict[str, float]) -> None:
    """Least squares with one row for the penalty of every input: lambda is one, and every input has its own energy."""
    X, Y = problem(12, 3, 2)
    rows = np.vstack([np.column_stack([X, np.ones(12)]), np.diag([*np.sqrt((X**2).sum(0)), 0.0])])
    wanted = np.linalg.lstsq(rows, np.vstack([Y, np.zeros((4, 2))]), rcond=None)[0]
    told = DropoutRidge(**given).fit(X, Y)
    close(told.coef_, wanted[:3].T, 1e-10)
    close(told.intercept_, wanted[3], 1e-10)
