"""Estimators that know how sure they are, against their own networks and scikit-learn's rules."""

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import check_estimator

from droptics import DropoutClassifier, DropoutRegressor, Enumerate, MonteCarlo, predictive


def regression(count=160):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(count, 3)) * [1.0, 5.0, 0.1] + [0.0, 3.0, 100.0]
    y = 10 * np.sin(X[:, 0]) + X[:, 1] + rng.normal(size=count) + 50
    return X, y


def test_regressor_predicts_the_mean_over_masks_in_the_units_of_the_target():
    X, y = regression()
    model = DropoutRegressor(hidden=(12,), drop=0.1, epochs=150, seed=1).fit(X, y)
    mean, spread = model.predict(X, return_std=True)
    listed = predictive(model.network_, model._inputs(X[:9]), model.masks_, Enumerate(2**16))
    np.testing.assert_allclose(mean[:9], listed.mean.value[:, 0], rtol=1e-11)
    expected = np.sqrt(listed.variance.value[:, 0].numpy() + model.noise_**2)
    np.testing.assert_allclose(spread[:9], expected, rtol=1e-11)
    assert np.mean((mean - y) ** 2) < 0.5 * np.var(y)
    low, high = model.interval(X, 0.9)
    assert np.all(low < mean)
    assert np.all(mean < high)
    # nine tenths of these, give or take four standard errors and what training on them gains
    assert 0.8 <= np.mean((low <= y) & (y <= high)) <= 1.0
    fixed = DropoutRegressor(hidden=(12,), drop=0.1, noise=2.0, epochs=2).fit(X, y)
    assert fixed.noise_ == 2.0
    logs = fixed.predictive(X).log_likelihood(torch.from_numpy(y)[:, None], 2.0)
    assert fixed.score(X, y) == pytest.approx(float(logs.mean()), rel=1e-12)


def test_two_hidden_layers_are_sampled_and_say_so():
    X, y = regression()
    model = DropoutRegressor(hidden=(20, 10), drop=0.1, noise=1.0, epochs=3, samples=60).fit(X, y)
    found = model.predictive(X)
    assert "Monte Carlo, 60 masks" in found.mean.method
    assert isinstance(MonteCarlo(60), MonteCarlo)
    assert model.predict(X).shape == (160,)


def test_classifier_probabilities_are_means_of_the_softmax():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 3))
    y = np.array(["low", "mid", "high"])[np.digitize(X[:, 0] + 0.3 * rng.normal(size=200), [-0.5, 0.5])]
    model = DropoutClassifier(hidden=(6,), drop=0.2, epochs=100).fit(X, y)
    chances = model.predict_proba(X)
    masks = list(model.masks_.atoms())
    inputs = model._inputs(X[:5])
    expected = sum(p * torch.softmax(model.network_.outputs(inputs, z), -1) for z, p in masks)
    np.testing.assert_allclose(chances[:5], expected, atol=1e-12)
    assert list(model.classes_) == ["high", "low", "mid"]
    assert model.score(X, y) > 0.6
    assert set(model.predict(X)) <= set(model.classes_)


def test_a_grid_of_rates_is_compared_by_likelihood():
    X, y = regression(60)
    grid = GridSearchCV(DropoutRegressor(hidden=(4,), noise=3.0, epochs=150), {"drop": [0.05, 0.9]}, cv=2).fit(X, y)
    assert grid.best_params_ == {"drop": 0.05}


def test_refusals():
    X, y = regression(20)
    for options, text in (
        ({"hidden": ()}, "hidden must name"),
        ({"hidden": (0,)}, r"hidden\[0\] must be a positive"),
        ({"drop": 1.0}, "drop must be a probability"),
        ({"noise": 0.0}, "noise must be a finite number > 0"),
        ({"epochs": 0}, "epochs must be"),
        ({"step_size": 0.0}, "step_size must be"),
        ({"decay": -1.0}, "decay must be"),
    ):
        with pytest.raises(ValueError, match=text):
            DropoutRegressor(**options).fit(X, y)
    with pytest.raises(ValueError, match="two classes"):
        DropoutClassifier().fit(X, np.zeros(20, int))
    with pytest.raises(NotFittedError):
        DropoutClassifier().predict(X)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", [DropoutRegressor(hidden=(4,), epochs=30), DropoutClassifier(hidden=(4,), epochs=30)])
def test_scikit_learn_accepts_them(model):
    check_estimator(model)


def test_predictions_follow_the_units_of_the_targets():
    X = np.random.default_rng(0).normal(size=(40, 2))
    y = np.sin(X[:, 0]) + X[:, 1] + 2
    plain, scaled = (DropoutRegressor((4,), 0.2, 0.5, epochs=4, seed=1).fit(X, one) for one in (y, 10 * y - 3))
    assert np.allclose(scaled.predict(X), 10 * plain.predict(X) - 3, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("level", [0.1, 0.125, 1e-200])
def test_columns_and_targets_that_never_change_are_not_blown_up(level):
    X, y = regression(30)
    X[:, 1] = level  # whose mean rounds for 0.1
    model = DropoutRegressor(hidden=(3,), noise=1.0, epochs=2).fit(X, y)
    assert model.input_scale_[1] == 1.0
    classifier = DropoutClassifier(hidden=(3,), epochs=2).fit(X, y > np.median(y))
    assert classifier.input_scale_[1] == 1.0
    X[:, 1] = level + 0.75
    inputs = model._inputs(X).numpy()
    np.testing.assert_allclose(inputs[:, 1], 0.75, rtol=1e-12)
    same = DropoutRegressor(hidden=(3,), noise=1.0, epochs=2).fit(X, np.full(30, level)).predict(X)
    other = DropoutRegressor(hidden=(3,), noise=1.0, epochs=2).fit(X, np.zeros(30)).predict(X)
    np.testing.assert_allclose(same - level, other, rtol=1e-10, atol=1e-12)


def test_noise_is_fitted_on_a_tenth_that_the_network_has_not_seen():
    X, y = regression(40)
    held = np.random.default_rng(3).permutation(40)[:4]
    other = y.copy()
    other[held] = y[np.roll(held, 1)]  # of the same mean and deviation
    first, second = (DropoutRegressor(hidden=(3,), epochs=2, seed=3).fit(X, targets) for targets in (y, other))
    np.testing.assert_allclose(second.predict(X), first.predict(X), rtol=1e-10)
    assert abs(second.noise_ / first.noise_ - 1) > 1e-3
    for fitted, targets in ((first, y), (second, other)):
        found, wanted = fitted.predictive(X[held]), torch.from_numpy(targets[held])[:, None]
        best = float(found.log_likelihood(wanted, fitted.noise_).mean())
        for factor in (0.99, 1.01):
            assert float(found.log_likelihood(wanted, factor * fitted.noise_).mean()) < best
