"""AutoencoderCompletion against dense formulas and refits; stacks against least squares."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from droptics.datasets import Ratings, planted_ratings
from droptics.recommenders import (
    AutoencoderCompletion,
    DropoutCompletion,
    RidgeCompletion,
    StackedCompletion,
    UnknownIds,
)
from droptics.recommenders.item_kernel import Kernel
from droptics.recommenders.ratings import Compressed
from droptics.recommenders.stacked import default_members

DOUBLE = {"dtype": "float64"}


@pytest.fixture(scope="module")
def planted():
    found = planted_ratings((60, 40, 900), rank=2, noise=0.3, seed=1)
    return found.users, found.items, found.values.astype(np.float64)


def dense(model, table):
    """Everything from the module's formulas, with dense matrices: (predictions of all cells, leave-one-out errors)."""
    users, items, values = table
    shape = len(model.user_ids_), len(model.item_ids_)
    rated, ratings = np.zeros(shape), np.zeros(shape)
    at = model._users(users), model._items(items)
    rated[at], ratings[at] = 1, values
    biases = model.mean_ + model.user_biases_[:, None] + model.item_biases_
    left = rated * (ratings - biases)
    deviation = np.sqrt((left**2).sum() / rated.sum())
    r, o = left / deviation, rated
    if model.side == "item":
        r, o = r.T, o.T
    counts = o.sum(1)
    weights = (counts + 1) ** -0.5
    weights = np.diag(weights / weights.mean())
    scales = np.diag((o.sum(0) + 20) ** -0.5)
    predicted, left_out = np.zeros(r.shape), np.zeros(r.shape)
    for u in range(len(r)):
        others = weights.copy()
        others[u, u] = 0
        kernel = scales @ (r.T @ others @ r + model.implicit_ * o.T @ others @ o) @ scales
        mine = np.flatnonzero(o[u])

        def regressed(known, kernel=kernel, u=u):
            system = kernel[np.ix_(known, known)] + model.ridge_ * np.eye(len(known))
            return kernel[:, known] @ np.linalg.solve(system, r[u, known])

        predicted[u] = regressed(mine)
        for j in mine:
            left_out[u, j] = r[u, j] - regressed(mine[mine != j])[j]
    if model.side == "item":
        predicted, left_out = predicted.T, left_out.T
    return biases + deviation * predicted, deviation * left_out[rated > 0]


@pytest.mark.parametrize("side", ["user", "item"])
def test_every_cell_is_predicted_as_the_formulas_say(planted, side):
    model = AutoencoderCompletion(side, 0.4, 0.6, **DOUBLE).fit(planted)
    expected, _ = dense(model, planted)
    users, items = np.meshgrid(model.user_ids_, model.item_ids_, indexing="ij")
    found = model.predict(users.ravel(), items.ravel(), unknown="raise").reshape(expected.shape)
    assert np.allclose(found, expected, rtol=1e-9, atol=1e-9)
    single = AutoencoderCompletion(side, 0.4, 0.6).fit(planted)
    assert np.allclose(single.predict(users.ravel(), items.ravel()), found.ravel(), atol=1e-3)


@pytest.mark.parametrize("side", ["user", "item"])
def test_constants_have_the_least_leave_one_out_error(planted, side):
    model = AutoencoderCompletion(side, **DOUBLE).fit(planted)
    assert len(model.points_) == 12
    best = min(model.points_, key=lambda point: point.rmse)
    assert (model.ridge_, model.implicit_) == (best.ridge, best.implicit)
    _, errors = dense(model, planted)  # fewer ratings than the sample may have: all rows are in it
    assert best.rmse == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-9)
    fixed = AutoencoderCompletion(side, best.ridge, best.implicit, **DOUBLE).fit(planted)
    assert fixed.points_ == []
    assert np.array_equal(fixed.predict(*planted[:2]), model.predict(*planted[:2]))
    assert {point.ridge for point in AutoencoderCompletion(side, 0.4).fit(planted).points_} == {0.4}
    assert {point.implicit for point in AutoencoderCompletion(side, implicit=0.4).fit(planted).points_} == {0.4}


def test_the_sides_are_mirror_images(planted):
    users, items, values = planted
    here = AutoencoderCompletion("user", 0.4, 0.6, **DOUBLE).fit(planted)
    there = AutoencoderCompletion("item", 0.4, 0.6, **DOUBLE).fit((items, users, values))
    # The biases alternate in another order and are equal once they have converged.
    assert np.allclose(there.predict(items, users), here.predict(users, items), atol=1e-4)


@pytest.mark.parametrize(("factor", "offset"), [(2.0**40, 0.0), (2.0**-40, 0.0), (1.0, 1e8), (-4.0, 7.0)])
def test_units_and_offsets_carry_over(planted, factor, offset):
    users, items, values = planted
    here = AutoencoderCompletion(**DOUBLE).fit(planted)
    there = AutoencoderCompletion(**DOUBLE).fit((users, items, values * factor + offset))
    assert (there.ridge_, there.implicit_) == (here.ridge_, here.implicit_)
    moved = (there.predict(users, items) - offset) / factor
    assert np.allclose(moved, here.predict(users, items), atol=1e-9 + 1e-14 * abs(offset))


def test_beats_the_biases(planted):
    train, test = Ratings(*planted).split(0.1, seed=0)
    model = AutoencoderCompletion().fit(train)
    biases = DropoutCompletion(1, 1 - 1e-9).fit(train)
    assert model.evaluate(test, "ignore").rmse < 0.9 * biases.evaluate(test, "ignore").rmse


def test_use(planted, tmp_path):
    users, items, _ = planted
    for side in ("user", "item"):
        model = AutoencoderCompletion(side, clip=(2.0, 4.0)).fit(planted)
        user = int(users[0])
        best = model.recommend(user, 100)
        assert not set(best.items.tolist()) & set(items[users == user].tolist())
        assert len(best.items) == len(model.item_ids_) - (users == user).sum()
        assert np.allclose(best.scores, model.predict([user] * len(best.items), best.items))
        with pytest.warns(UnknownIds, match="1 of 2 users and 1 of 2 items"):
            found = model.predict([user, 999], [999, int(items[0])])
        expected = [
            model.mean_ + model.user_biases_[model._users([user])[0]],
            model.mean_ + model.item_biases_[model._items([items[0]])[0]],
        ]
        assert np.allclose(found, np.clip(expected, 2, 4))
        model.save(tmp_path / "m.safetensors")
        again = AutoencoderCompletion.load(tmp_path / "m.safetensors")
        assert np.array_equal(again.predict(users, items), model.predict(users, items))
        assert again.points_ == model.points_
    with pytest.raises(ValueError, match=r"AutoencoderCompletion\.load"):
        DropoutCompletion.load(tmp_path / "m.safetensors")
    DropoutCompletion(2).fit(planted).save(tmp_path / "c.safetensors")
    with pytest.raises(ValueError, match=r"DropoutCompletion\.load"):
        AutoencoderCompletion.load(tmp_path / "c.safetensors")
    pairs = np.column_stack([users, items])
    assert np.array_equal(
        AutoencoderCompletion(ridge=0.3, implicit=1.0).fit(pairs, planted[2]).predict(pairs),
        AutoencoderCompletion(ridge=0.3, implicit=1.0).fit(planted).predict(pairs),
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"side": "both"}, "side must be"),
        ({"ridge": 0.0}, "ridge must be"),
        ({"implicit": -1.0}, "implicit must be"),
        ({"bias_ridge": np.nan}, "bias_ridge must be"),
        ({"dtype": "float16"}, "dtype must be"),
        ({"clip": (5, 1)}, "clip must be"),
        ({"memory": 100}, "memory: 40 columns need"),
    ],
)
def test_bad_options_are_refused(planted, options, message):
    with pytest.raises(ValueError, match=message):
        AutoencoderCompletion(**options).fit(planted)


def test_degenerate_ratings():
    flat = AutoencoderCompletion().fit((np.arange(6) // 2, np.arange(6) % 2, np.full(6, 2.5)))
    assert np.allclose(flat.predict([0, 1], [1, 0]), 2.5)
    with pytest.raises(ValueError, match="rows with two ratings"):
        AutoencoderCompletion().fit(([0, 1], [0, 1], [1.0, 2.0]))
    one = AutoencoderCompletion(ridge=0.3, implicit=0.3).fit(([0, 1], [0, 1], [1.0, 2.0]))
    assert np.isfinite(one.predict([0], [1])).all()
    table = Compressed(np.array([0, 2]), np.array([0, 1], np.int32), np.array([1.0, 1.0]))
    with pytest.raises(ArithmeticError, match="larger ridge"):
        Kernel(table, 2, np.float64).coefficients(0, 0.3, -1.0)


def test_a_stack_is_least_squares_on_held_out_ratings(planted):
    members = [DropoutCompletion(2), AutoencoderCompletion(ridge=0.3, implicit=0.5), RidgeCompletion(3)]
    table = Ratings(*planted)
    model = StackedCompletion(members, holdout=0.2, seed=3).fit(table)
    kept, held = table.split(0.2, 3)
    middle = kept.values.mean()
    parts = [clone(member).fit(kept).predict(held.users, held.items, "ignore") - middle for member in members]
    design, target = np.column_stack(parts), held.values - middle
    gradient = design.T @ (design @ model.weights_ - target)
    assert np.abs(gradient).max() < 1e-9 * np.abs(design.T @ target).max()
    assert model.holdout_rmse_[0] == pytest.approx(np.sqrt(np.mean((design @ model.weights_ - target) ** 2)))
    assert model.holdout_rmse_[0] <= min(model.holdout_rmse_[1:])
    whole = [clone(member).fit(table).predict(*planted[:2]) for member in members]
    expected = table.values.mean() + sum(
        weight * (part - table.values.mean()) for weight, part in zip(model.weights_, whole, strict=True)
    )
    assert np.allclose(model.predict(*planted[:2]), expected, rtol=1e-10)
    strange = np.array([planted[0][0], -5]), np.array([-5, planted[1][0]])  # an unknown item, an unknown user
    parts = [clone(member).fit(table).predict(*strange, "ignore") - table.values.mean() for member in members]
    expected = table.values.mean() + model.weights_ @ np.array(parts)
    assert np.allclose(model.predict(*strange, "ignore"), expected, rtol=1e-10)
    assert not set(model.recommend(int(planted[0][0]), 5).items) & set(planted[1][planted[0] == planted[0][0]])
    for bad, message in (
        ({"members": []}, "members must be"),
        ({"members": [3]}, r"members\[0\] must be"),
        ({"holdout": 1.0}, "holdout"),
    ):
        with pytest.raises(ValueError, match=message):
            StackedCompletion(**bad).fit(table)
    assert len(StackedCompletion().fit(table).members_) == 5


def test_members_that_clip_are_blended_as_they_predict(planted):
    low, high = np.quantile(planted[2], [0.4, 0.6])
    members = [DropoutCompletion(2, clip=(low, high), **DOUBLE), RidgeCompletion(3, **DOUBLE)]
    model = StackedCompletion(members, holdout=0.2, seed=3).fit(planted)
    parts = np.array([member.predict(*planted[:2]) for member in model.members_]) - planted[2].mean()
    assert (parts[0] + planted[2].mean()).max() == high
    assert np.allclose(model.predict(*planted[:2]), planted[2].mean() + model.weights_ @ parts, rtol=1e-10)


def test_members_whose_kernel_does_not_fit_are_left_out():
    kinds = [[type(member).__name__, getattr(member, "side", "")] for member in default_members(100_000, 100)]
    assert kinds == [["DropoutCompletion", ""]] * 2 + [["AutoencoderCompletion", "user"]] * 2
    assert len(default_members(100, 100_000)) == 3
    assert len(default_members(100_000, 100_000)) == 2


def test_a_day_is_one_more_member(planted):
    users, items, values = planted
    rng = np.random.default_rng(0)
    days = rng.integers(0, 4, len(users))
    moods = rng.normal(0, 2, (users.max() + 1, 4))
    times = 1e9 + 86_400 * days + rng.integers(0, 60_000, len(users))
    table = Ratings(users, items, values + moods[users, days], times)
    train, test = table.split(0.1, 5)
    members = [DropoutCompletion(2), RidgeCompletion(3)]
    model = StackedCompletion(members, days=True, holdout=0.2, seed=3).fit(train)
    plain = StackedCompletion(members, holdout=0.2, seed=3).fit(train)
    assert model.evaluate(test).rmse < 0.9 * plain.evaluate(test).rmse
    assert model.holdout_rmse_[0] < plain.holdout_rmse_[0]
    assert model.day_ridge_ in (4.0, 8.0, 16.0, 32.0)
    # the weights are least squares on ratings that neither the members nor the days have seen
    kept, held = train.split(0.2, 3)
    fits = [clone(member).fit(kept) for member in members]
    left = kept.values - fits[0].predict(kept.users, kept.items)
    alike = (held.users[:, None] == kept.users) & (held.times[:, None] // 86_400 == kept.times // 86_400)
    shifts = (alike * left).sum(1) / (alike.sum(1) + model.day_ridge_)
    parts = [fit.predict(held.users, held.items, "ignore") - kept.values.mean() for fit in fits]
    design, target = np.column_stack([*parts, shifts]), held.values - kept.values.mean()
    gradient = design.T @ (design @ model.weights_ - target)
    assert np.abs(gradient).max() < 1e-9 * np.abs(design.T @ target).max()
    first = clone(members[0]).fit(train)
    errors = train.values - first.predict(train.users, train.items)
    for at in range(5):
        same = (train.users == test.users[at]) & (train.times // 86_400 == test.times[at] // 86_400)
        shift = model.weights_[-1] * errors[same].sum() / (same.sum() + model.day_ridge_)
        pair = [test.users[at]], [test.items[at]]
        assert model.predict(*pair, times=[test.times[at]])[0] == pytest.approx(
            model.predict(*pair)[0] + shift, rel=1e-10
        )
    elsewhere = model.predict(*pair, times=[0.0])
    assert elsewhere == model.predict(*pair)
    with pytest.raises(ValueError, match="do not match"):
        model.predict(*pair, times=[0.0, 1.0])
    with pytest.raises(ValueError, match="days=True needs the times"):
        StackedCompletion(members, days=True).fit(planted)
