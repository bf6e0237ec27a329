"""Where algebra reaches: heads and estimators, against fits one by one."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression
from torch import nn
from tuned import data, seeded

from droptics import DropoutClassifier, DropoutCompletion, DropoutRegressor, DropoutRidgeCV, tune_rates
from droptics.heads.ridge import DropoutRidge
from droptics.rates import Fit
from droptics.rates.estimators import _losses
from droptics.recommenders import DropoutCompletionCV

SCAN = (0.0, 0.2, 0.5)


def regression(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, 5, generator=generator).double()
    noise = torch.randn(count, 2, generator=generator).double()
    return inputs, inputs[:, :2] ** 2 + inputs[:, 2:4] + 0.3 * noise


def frozen(bias: bool = True) -> nn.Module:
    """Random features and a head that alone is trained."""
    module = seeded(nn.Sequential(nn.Linear(5, 12), nn.Tanh(), nn.Dropout(0.5), nn.Linear(12, 2, bias=bias)).double())
    module[0].requires_grad_(False)
    return module


@pytest.mark.parametrize("bias", [True, False])
def test_a_head_is_compared_without_training(bias):
    module, train, held = frozen(bias), regression(40, 1), regression(30, 2)
    found = tune_rates(module, train, held, scan=SCAN, progress=False)
    assert found.method == "closed form of the trained head"
    assert found.cost.copies == 0
    with torch.no_grad():
        features = [module[:2](part[0]).numpy() for part in (train, held)]
    for point in found.points:
        ridge = DropoutRidge(point.rate, fit_intercept=bias).fit(features[0], train[1].numpy())
        errors = held[1].numpy() - ridge.predict(features[1])
        assert point.loss == pytest.approx(np.square(errors).sum(1).mean(), rel=1e-9)
    assert "closed form" in str(found)


def test_leave_one_out_needs_no_validation_data():
    module, train = frozen(), regression(40, 1)
    found = tune_rates(module, train, None, scan=SCAN, progress=False)
    assert found.method == "exact leave-one-out"
    with torch.no_grad():
        features = module[:2](train[0]).numpy()
    targets = train[1].numpy()
    for point in found.points:
        errors = []
        for i in range(40):
            others = np.arange(40) != i
            ridge = DropoutRidge(point.rate).fit(features[others], targets[others])
            errors.append(targets[i] - ridge.predict(features[i : i + 1])[0])
        assert point.loss == pytest.approx(np.square(errors).sum(1).mean(), rel=1e-6)


@pytest.mark.parametrize("obstacle", ["body trained", "another site", "labels", "a fit of its own", "head fixed"])
def test_algebra_keeps_away_from_what_it_does_not_know(obstacle):
    module, train, held, options = frozen(), regression(40, 1), regression(30, 2), {}
    if obstacle == "body trained":
        module[0].requires_grad_(True)
    elif obstacle == "another site":
        module = nn.Sequential(nn.Dropout(0.2), *module)
    elif obstacle == "labels":
        train, held = ((part[0], (part[1][:, 0] > 0).long()) for part in (train, held))
    elif obstacle == "head fixed":
        module[3].bias.requires_grad_(False)
    options["fit"] = Fit(epochs=1, looks=1) if obstacle == "a fit of its own" else None
    found = tune_rates(module, train, held, scan=SCAN, progress=False, **options)
    # a weight without its bias is no head that is trained whole, and still an affine tail
    assert found.method == ("exact training loss of the affine tail" if obstacle == "head fixed" else "scan")
    if obstacle != "a fit of its own":
        with pytest.raises(ValueError, match="validation must be data"):
            tune_rates(module, train, None, scan=SCAN, progress=False)


def test_ridge_by_leave_one_out_is_the_answer_of_its_own_search():
    inputs, targets = (part.numpy() for part in regression(40, 1))
    drops = (0.05, 0.2, 0.5, 0.8)
    found = tune_rates(DropoutRidge(), (inputs, targets), None, scan=drops, progress=False)
    own = DropoutRidgeCV(drops).fit(inputs, targets)
    assert found.best == own.drop_
    assert [point.loss / 2 for point in found.points] == pytest.approx(own.loo_errors_, rel=1e-12)  # two outputs
    ridge = DropoutRidge()
    assert found.apply(ridge) == []
    assert ridge.drop == found.best


def test_estimators_are_fitted_at_every_rate():
    inputs, targets = (part.numpy() for part in regression(40, 1))
    held = tuple(part.numpy() for part in regression(30, 2))
    found = tune_rates(DropoutRidge(), (inputs, targets), held, scan=SCAN, progress=False)
    for point in found.points:
        errors = held[1] - DropoutRidge(point.rate).fit(inputs, targets).predict(held[0])
        assert point.loss == pytest.approx(np.square(errors).sum(1).mean())
    assert found.sites[0].kind == "DropoutRidge"


def test_networks_are_judged_by_what_they_say_of_the_target():
    inputs, targets = (part.numpy() for part in regression(30, 1))
    pair = inputs[:, :3], targets[:, 0]
    regressor = DropoutRegressor((4,), epochs=2, noise=0.5)
    found = tune_rates(regressor, pair, pair, scan=(0.05, 0.3), progress=False)
    again = DropoutRegressor((4,), 0.3, epochs=2, noise=0.5).fit(*pair)
    assert found.points[1].loss == pytest.approx(-again.score(*pair))
    rows, labels = (part.numpy() for part in data(30, 1))
    classifier = DropoutClassifier((4,), epochs=2)
    found = tune_rates(classifier, (rows[:, :3], labels), (rows[:, :3], labels), scan=(0.05, 0.3), progress=False)
    chances = DropoutClassifier((4,), 0.3, epochs=2).fit(rows[:, :3], labels).predict_proba(rows[:, :3])
    assert found.points[1].loss == pytest.approx(-np.log(chances[np.arange(30), labels]).mean())


def test_labels_stand_where_the_estimator_has_them_and_no_loss_is_infinite():
    chances = np.array([[0.25, 0.75], [1.0, 0.0]])
    said = SimpleNamespace(classes_=np.array(["b", "d"]), predict_proba=lambda inputs: chances[inputs])
    losses = _losses(said, ([0, 1, 1], ["d", "b", "d"]), "train").tolist()
    assert losses == pytest.approx([-np.log(0.75), 0.0, -np.log(np.finfo(np.float64).tiny)])


def test_an_estimator_that_chooses_its_rate_gives_the_same_answer():
    """One question for all: the rate of least leave-one-out error, among the rates that the estimator names."""
    pair = tuple(part.numpy() for part in regression(40, 1))
    drops = [0.02, 0.1, 0.3, 0.7]
    chooser = DropoutRidgeCV(drops).fit(*pair)
    found = tune_rates(DropoutRidgeCV(drops), pair, None, progress=False)
    assert found.method == "exact leave-one-out"
    assert found.best == chooser.drop_
    outputs = pair[1].shape[1]  # its errors are means over outputs, ours sums
    assert [point.loss / outputs for point in found.points] == pytest.approx(list(chooser.loo_errors_), rel=1e-9)
    assert [point.rate for point in tune_rates(DropoutRidgeCV(drops), pair, None, scan=SCAN).points] == list(SCAN)
    single, several = DropoutRidge(), DropoutRidgeCV()
    assert found.apply(single) == found.apply(several) == []
    assert single.drop == several.fit(*pair).drop_ == found.best


def few_ratings():
    rng = np.random.default_rng(0)
    cells = rng.permutation(15 * 12)[:120]
    ratings = cells // 12, cells % 12, rng.normal(size=120)
    return (tuple(column[part] for column in ratings) for part in (slice(90), slice(90, None)))


@pytest.mark.slow
def test_a_recommender_that_chooses_its_rate_is_asked_at_its_rates():
    train, held = few_ratings()
    chooser = DropoutCompletionCV(3, [0.1, 0.6], estimator=DropoutCompletion(sweeps=3))
    found = tune_rates(chooser, train, held, progress=False)
    alone = tune_rates(DropoutCompletion(3, sweeps=3), train, held, scan=(0.1, 0.6), progress=False)
    assert [point.loss for point in found.points] == [point.loss for point in alone.points]


@pytest.mark.slow
def test_completion_is_judged_by_ratings_it_has_not_seen():
    train, held = few_ratings()
    found = tune_rates(DropoutCompletion(3, sweeps=3), train, held, scan=(0.1, 0.6), progress=False)
    for point in found.points:
        model = DropoutCompletion(3, point.rate, sweeps=3).fit(train)
        errors = held[2] - model.predict(held[0], held[1], "ignore")
        assert point.loss == pytest.approx(np.square(errors).mean())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"module": LinearRegression()}, "module must have a parameter called drop"),
        ({"module": DropoutCompletionCV((3, 4))}, "module must have one width"),
        ({"train": 3}, r"train must be a pair \(X, y\)"),
        ({"validation": None, "module": DropoutRegressor()}, "validation must be data"),
        ({"split": "factorial"}, "module is an estimator"),
    ],
)
def test_what_estimators_cannot_do_is_said(change, message):
    pair = tuple(part.numpy() for part in regression(20, 1))
    given = {"module": DropoutRidge(), "train": pair, "validation": pair, "scan": SCAN} | change
    with pytest.raises(ValueError, match=message):
        tune_rates(given.pop("module"), given.pop("train"), given.pop("validation"), **given)


@pytest.mark.parametrize("intercept", [True, False])
def test_an_estimator_that_chooses_keeps_its_options(intercept):
    """Each example left out of ridge with the mask's penalty, with and without an offset, at the estimator's rates."""
    inputs, targets = (value.numpy() for value in regression(14, 3))
    found = tune_rates(DropoutRidgeCV([0.6, 0.2], fit_intercept=intercept), (inputs, targets), None, progress=False)
    assert [point.rate for point in found.points] == [0.2, 0.6]
    for point in found.points:
        strength, errors = point.rate / (1 - point.rate), []
        for i in range(14):
            X, Y = np.delete(inputs, i, 0), np.delete(targets, i, 0)
            means = (X.mean(0), Y.mean(0)) if intercept else (0 * X[0], 0 * Y[0])
            moved = X - means[0]
            system = moved.T @ moved + strength * np.diag((X**2).sum(0))
            weights = np.linalg.solve(system, moved.T @ (Y - means[1]))
            errors.append(((targets[i] - means[1] - (inputs[i] - means[0]) @ weights) ** 2).sum())
        assert point.loss == pytest.approx(np.mean(errors), rel=1e-9)


def test_training_losses_of_an_estimator_are_those_of_its_training_data():
    train, held = ((x.numpy(), y.numpy()[:, 0]) for x, y in (regression(40, 1), regression(30, 2)))
    for point in tune_rates(DropoutRidge(0.1), train, held, scan=SCAN, progress=False).points:
        fitted = DropoutRidge(point.rate).fit(*train)
        assert point.training_loss == pytest.approx(np.square(fitted.predict(train[0]) - train[1]).mean(), rel=1e-12)
        assert point.loss == pytest.approx(np.square(fitted.predict(held[0]) - held[1]).mean(), rel=1e-12)
