"""ImplicitDropoutCompletion against dense objectives and normal equations; sums of rankers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError

from droptics.datasets import planted_ratings
from droptics.recommenders import (
    DropoutAutoencoder,
    ImplicitDropoutCompletion,
    LocalAutoencoder,
    Ranker,
    StackedRanker,
    UnknownIds,
    against_popularity,
    hold_out_users,
    ranking,
)
from droptics.recommenders.all_cells import solve_all_cells

EXACT = {"dtype": "float64", "cg_steps": None}


@pytest.fixture(scope="module")
def planted():
    found = planted_ratings((50, 30, 500), seed=2)
    return found.users, found.items, found.values.astype(np.float64)


def matrix(model, table, graded):
    x, observed = np.zeros((2, len(model.user_ids_), len(model.item_ids_)))
    at = model._users(table[0]), model._items(table[1])
    x[at], observed[at] = table[2] if graded else 1.0, 1.0
    return x, observed


def objective(w, h, x, observed, alpha, rho, penalty):
    """The all-cells loss and its penalty from their definitions."""
    products = w @ h.mT
    loss = (observed * (x - products).square()).sum() + alpha * products.square().sum()
    weight = observed + alpha
    if penalty == "empirical":
        return loss + rho * (weight * (w.square() @ h.square().mT)).sum()
    a, b = weight.sum(1), weight.sum(0)
    return loss + rho / weight.sum() * ((a @ w.square()) * (b @ h.square())).sum()


@pytest.mark.parametrize("graded", [False, True])
@pytest.mark.parametrize("penalty", ["expected", "empirical"])
def test_many_sweeps_reach_a_critical_point(planted, penalty, graded):
    feedback = "graded" if graded else "implicit"
    model = ImplicitDropoutCompletion(4, 0.3, 0.2, penalty, feedback=feedback, sweeps=3000, **EXACT).fit(planted)
    x, observed = (torch.from_numpy(part) for part in matrix(model, planted, graded))
    w, h = (torch.from_numpy(side).requires_grad_() for side in (model.user_factors_, model.item_factors_))
    value = objective(w, h, x, observed, 0.2, 0.3 / 0.7, penalty)
    for side, gradient in zip((w, h), torch.autograd.grad(value, (w, h)), strict=True):
        assert float((gradient * side.detach()).norm()) < 1e-6 * float(value.detach())
    assert float(value.detach()) < float((observed * x.square()).sum())


def test_sweeps_lower_the_objective_and_few_steps_follow(planted):
    values = []
    for sweeps in (1, 2, 4, 8):
        for steps in (None, 3):
            model = ImplicitDropoutCompletion(5, 0.4, sweeps=sweeps, cg_steps=steps, dtype="float64").fit(planted)
            x, observed = (torch.from_numpy(part) for part in matrix(model, planted, False))
            sides = (torch.from_numpy(side) for side in (model.user_factors_, model.item_factors_))
            values.append(float(objective(*sides, x, observed, 0.1, 0.4 / 0.6, "expected")))
    exact, few = np.array(values[::2]), np.array(values[1::2])
    assert (np.diff(exact) < 0).all()
    assert (np.diff(few) < 0).all()
    assert few[-1] == pytest.approx(exact[-1], rel=0.02)


def test_expected_dropout_makes_all_factors_equal(planted):
    model = ImplicitDropoutCompletion(3, 0.6, sweeps=4000, **EXACT).fit(planted)
    _, observed = matrix(model, planted, False)
    a, b = (observed + 0.1).sum(1), (observed + 0.1).sum(0)
    products = (a @ model.user_factors_**2) * (b @ model.item_factors_**2)
    assert np.allclose(products, products.mean(), rtol=1e-6)


@pytest.mark.parametrize("penalty", ["expected", "empirical"])
def test_any_row_is_scored_by_its_exact_solution(planted, penalty):
    model = ImplicitDropoutCompletion(4, 0.3, 0.2, penalty, dtype="float64").fit(planted)
    h = model.item_factors_
    _, observed = matrix(model, planted, False)
    rows = np.zeros((3, len(h)))
    rows[0, [1, 4, 7]] = rows[1, 2] = 1
    rho, items = 0.3 / 0.7, len(h)
    total = observed.sum() + 0.2 * observed.size
    level = ((observed + 0.2).sum(0)) @ h**2
    for row, score in zip(rows, model.scores(rows), strict=True):
        chosen = h[row > 0]
        system = chosen.T @ chosen + 0.2 * h.T @ h
        if penalty == "expected":
            system += np.diag(rho * (len(chosen) + 0.2 * items) * level / total)
        else:
            system += rho * np.diag(np.diag(system))
        assert np.allclose(score, h @ np.linalg.solve(system, chosen.sum(0)), rtol=1e-9, atol=1e-12)


def test_finds_more_than_popularity_does():
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 4, 1500)
    liked = rng.random((1500, 60)) < np.where(groups[:, None] == np.arange(60) % 4, 0.4, 0.03)
    users, items = np.nonzero(liked)
    split = hold_out_users((users, items, np.ones(len(users))), 0.2, seed=0)
    model = ImplicitDropoutCompletion(8, 0.5).fit(split.train)
    popular = model.evaluate_popularity(split.known, split.hidden, (5,))
    ids, known = model._matrix(split.known)
    counts = np.bincount(model._items(split.train.items), minlength=len(model.item_ids_))
    assert np.array_equal(model._popularity, counts)
    expected = ranking(np.tile(counts, (len(ids), 1)), known, model._matrix(split.hidden, ids)[1], (5,))
    assert popular.recall[5] == expected.recall[5]
    curves = against_popularity(model, split, (5,))
    found = model.evaluate(split.known, split.hidden, (5,))
    gain = found.above(popular, "recall@5")
    assert gain.value > 4 * gain.error
    assert curves == {"personal": {5: found.recall[5].value}, "popular": {5: popular.recall[5].value}}


def test_use(planted, tmp_path):
    users, items, values = planted
    model = ImplicitDropoutCompletion(4, threshold=3.5).fit(planted)
    liked = values >= 3.5
    same = ImplicitDropoutCompletion(4).fit((users[liked], items[liked], values[liked]))
    assert np.array_equal(model.item_factors_, same.item_factors_)
    pairs = np.column_stack([users, items])
    assert np.array_equal(
        ImplicitDropoutCompletion(4, threshold=3.5).fit(pairs, values).item_factors_, same.item_factors_
    )
    assert model.drop_ == pytest.approx(4 / 132)
    user = model.user_ids_[0]
    best = model.recommend(user, 4)
    assert not set(best.items.tolist()) & set(items[liked & (users == user)].tolist())
    cold = model.recommend_new((["new"] * 2, items[liked][:2], [5.0, 5.0]), 4)["new"]
    assert len(cold.items) == 4
    with pytest.warns(UnknownIds, match="most popular"):
        model.recommend("nobody")
    model.save(tmp_path / "m.safetensors")
    again = ImplicitDropoutCompletion.load(tmp_path / "m.safetensors")
    assert np.array_equal(again.recommend(user, 4).items, best.items)
    assert again.drop_ == model.drop_
    with pytest.raises(ValueError, match=r"ImplicitDropoutCompletion\.load"):
        DropoutAutoencoder.load(tmp_path / "m.safetensors")
    DropoutAutoencoder(0.5, 1.0).fit(planted).save(tmp_path / "a.safetensors")
    with pytest.raises(ValueError, match=r"DropoutAutoencoder\.load"):
        ImplicitDropoutCompletion.load(tmp_path / "a.safetensors")
    with pytest.raises(NotFittedError):
        ImplicitDropoutCompletion().scores(np.zeros((1, 3)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 0}, "width"),
        ({"drop": 1.0}, "drop"),
        ({"unobserved": 0.0}, "unobserved"),
        ({"penalty": "l2"}, "penalty must be"),
        ({"cg_steps": 0}, "cg_steps"),
        ({"dtype": "float16"}, "dtype must be"),
        ({"feedback": "stars"}, "feedback must be"),
    ],
)
def test_bad_options_are_refused(planted, options, message):
    with pytest.raises(ValueError, match=message):
        ImplicitDropoutCompletion(**options).fit(planted)


def test_rankers_add_up(planted):
    members = [DropoutAutoencoder(0.4, 3.0), ImplicitDropoutCompletion(4)]
    stack = StackedRanker(members).fit(planted)
    rows = np.zeros((2, len(stack.item_ids_)))
    rows[0, [1, 3]] = rows[1, 0] = 1
    whole = np.zeros((len(stack.user_ids_), len(stack.item_ids_)))
    whole[stack._users(planted[0]), stack._items(planted[1])] = 1
    expected = 0
    for member in members:
        fitted = member.fit(planted)
        assert np.array_equal(fitted.item_ids_, stack.item_ids_)
        expected = expected + fitted.scores(rows) / fitted.scores(whole).std()
    assert np.allclose(stack.scores(rows), expected, rtol=1e-5, atol=1e-6)
    assert len(stack.recommend(int(planted[0][0]), 3).items) == 3
    for bad in ([], [3], [DropoutAutoencoder(), ImplicitDropoutCompletion(threshold=4)]):
        with pytest.raises(ValueError, match="members"):
            StackedRanker(bad).fit(planted)


@pytest.mark.parametrize("feedback", ["implicit", "graded"])
def test_a_sum_of_rankers_takes_grades_as_its_members_do(planted, feedback):
    options = {"feedback": feedback, "threshold": 3.0}
    members = [DropoutAutoencoder(0.4, 3.0, **options), ImplicitDropoutCompletion(4, **options)]
    stack = StackedRanker(members).fit(planted)
    row = np.zeros((1, len(stack.item_ids_)))
    row[0, [0, 2]] = (4.5, 3.0) if feedback == "graded" else 1.0
    listed = stack.recommend_new((["x"] * 3, stack.item_ids_[:3], [4.5, 1.0, 3.0]), 4)["x"]
    scores = stack.scores(row)[0]
    best = [k for k in np.argsort(-scores, kind="stable") if row[0, k] == 0][:4]
    assert np.array_equal(listed.items, stack.item_ids_[best])
    assert np.allclose(listed.scores, scores[best], rtol=1e-6)


def test_as_many_steps_as_columns_solve_a_row():
    """Conjugate gradients end after one step for every unknown; twice as many leave rounding alone."""
    rng = np.random.default_rng(3)
    fixed, values, expected = rng.standard_normal((7, 4)), 1 + rng.random(7), 0.1 + rng.random((2, 4))
    starts, columns = np.array([0, 4, 4, 7]), np.array([0, 2, 3, 6, 1, 4, 5], np.int32)
    exact, stepwise = np.zeros((3, 4)), np.zeros((3, 4))
    for found, steps in ((exact, 0), (stepwise, 8)):
        solve_all_cells(starts, columns, values, fixed, 0.3 * fixed.T @ fixed, 0.2, expected, found, steps)
    # systems of condition below a thousand
    assert np.abs(exact - stepwise).max() <= 1e3 * 2.0**-52 * np.abs(exact).max()


@pytest.mark.parametrize("penalty", ["expected", "empirical"])
def test_grades_of_many_thousands_are_scored_in_their_unit(planted, penalty):
    options = {"penalty": penalty, "feedback": "graded", "cg_steps": None, "sweeps": 3, "dtype": "float64"}
    users, items, values = planted
    plain, large = (
        ImplicitDropoutCompletion(3, 0.4, 0.3, **options).fit((users, items, unit * values)) for unit in (1.0, 4096.0)
    )
    rows = np.random.default_rng(1).random((5, len(plain.item_ids_))) * (np.arange(5)[:, None] > 0)
    assert np.allclose(large.scores(4096 * rows), 4096 * plain.scores(rows), rtol=1e-9, atol=1e-9)
    assert np.allclose(large.user_factors_, 4096 * plain.user_factors_, rtol=1e-8, atol=1e-8)


def test_popularity_counts_interactions_whatever_their_grades(tmp_path):
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((60, 8)) < np.linspace(0.2, 0.9, 8))
    grades = rng.integers(1, 4, len(users)).astype(float)
    grades[items == 0] = -9.0  # few have the first item, and all of them dislike it
    early = (users < 40) & (items != 7)
    for make in (
        lambda: DropoutAutoencoder(0.3, 1.0, feedback="graded"),
        lambda: DropoutAutoencoder(0.3, 1.0, feedback="graded", rank=4),
        lambda: LocalAutoencoder(3, feedback="graded"),
        lambda: ImplicitDropoutCompletion(4, feedback="graded"),
        lambda: StackedRanker([LocalAutoencoder(3, feedback="graded")]),
    ):
        fitted = [make().fit((users, items, grades))]
        if isinstance(fitted[0], DropoutAutoencoder):
            fitted[0].save(tmp_path / "model.safetensors")
            fitted.append(DropoutAutoencoder.load(tmp_path / "model.safetensors"))
            fitted.append(make().fit((users[early], items[early], grades[early])))
            fitted[-1].partial_fit((users, items, grades))
        for model in fitted:
            assert np.array_equal(model._popularity, np.bincount(items)[model.item_ids_])


@pytest.mark.parametrize("unit", [1.0, 3.7e5, 1e-9])
@pytest.mark.parametrize("width", [3, 300])
def test_equal_scores_are_not_divided_by_their_rounding(unit, width):
    """Where everybody has everything all items score alike, up to rounding in the precision of the member."""
    everything = np.repeat(np.arange(40), width), np.tile(np.arange(width), 40), np.full(40 * width, unit)
    members = [
        DropoutAutoencoder(0.3, unit**2, feedback="graded"),
        DropoutAutoencoder(0.3, unit**2, feedback="graded", dtype="float64"),
        LocalAutoencoder(3, feedback="graded"),
    ]
    stack = StackedRanker(members).fit(everything)
    assert stack.deviations_ == [np.inf] * 3


class Noted(Ranker):
    """Scores that were written down."""

    def __init__(self, scores=None, feedback="implicit", threshold=None):
        self.scores_given, self.feedback, self.threshold = scores, feedback, threshold

    def get_params(self, deep=True):
        return {"scores": self.scores_given, "feedback": self.feedback, "threshold": self.threshold}

    def fit(self, ratings, y=None):
        like = LocalAutoencoder(3).fit(ratings)
        self._users, self._items, self._rows, self._popularity = like._users, like._items, like._rows, like._popularity
        return self

    def _score(self, rows):
        return np.tile(self.scores_given, (len(rows), 1))


@pytest.mark.parametrize("unit", [1.0, 1e-12, 1e15])
def test_a_member_that_says_nothing_leaves_the_order_of_the_others(planted, unit):
    width = len(LocalAutoencoder(3).fit(planted).item_ids_)
    rows, useful = np.eye(2, width), np.linspace(0.1, 0.3, width)
    for equal in (np.full(width, 0.1 * unit), np.nextafter(0.1 * unit, np.arange(width) % 2 * unit)):
        stack = StackedRanker([Noted(useful), Noted(equal)]).fit(planted)
        assert np.allclose(stack.scores(rows), useful / useful.std(), rtol=1e-12)
