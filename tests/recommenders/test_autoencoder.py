"""DropoutAutoencoder against enumeration of masks, refits, constrained solves, and its invariances."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from droptics.recommenders import DropoutAutoencoder, DropoutCompletion, UnknownIds, precision
from droptics.recommenders.left_out import leave_one_out, sample_pairs

MEMBERS = ["zero", "free", 0.0, 0.3, 0.95]
OPTIONS = {"dtype": "float64"}


def table(users: int = 30, items: int = 9, graded: bool = False, seed: int = 0):
    """Interactions without symmetry: uneven activity of users and items; (users, items, values) and the matrix."""
    rng = np.random.default_rng(seed)
    share = rng.random((users, 1)) * np.linspace(0.2, 0.95, items)
    x = (rng.random((users, items)) < share).astype(float)
    x[:, 0] += x.sum(1) == 0  # no empty row
    if graded:
        x *= rng.normal(0.5, 1.0, x.shape)
    rows, columns = np.nonzero(x)
    return (rows, columns, x[rows, columns]), x


def fitted(drop=0.4, ridge=1.5, diagonal="zero", graded=False, **kwargs):
    """A model, its matrix X in the model's own order of items, and gamma."""
    triple, x = table(graded=graded, **kwargs)
    model = DropoutAutoencoder(drop, ridge, diagonal, feedback="graded" if graded else "implicit", **OPTIONS).fit(
        triple
    )
    x = x[model.user_ids_][:, model.item_ids_]
    return model, x, drop / (1 - drop) * (x**2).sum(0) + ridge


def masked_loss(x, weights, drop, emphasized):
    """E |X - (X o Z / (1 - p)) W|^2 by all masks of a row; emphasized: counted on dropped coordinates only."""
    total = torch.zeros((), dtype=torch.float64)
    for bits in itertools.product((0.0, 1.0), repeat=x.shape[1]):
        z = torch.tensor(bits, dtype=torch.float64)
        probability = (1 - drop) ** sum(bits) * drop ** (len(bits) - sum(bits))
        residual = x - (x * z / (1 - drop)) @ weights
        total = total + probability * ((1 - z) * residual**2 if emphasized else residual**2).sum()
    return total


def test_the_dropout_loss_is_a_weighted_ridge():
    _, x = table(7, 6, graded=True)
    x, weights = torch.from_numpy(x), torch.from_numpy(np.random.default_rng(1).standard_normal((6, 6)))
    drop = 0.3
    diagonal = x.square().sum(0)
    expected = (x - x @ weights).square().sum() + drop / (1 - drop) * (diagonal[:, None] * weights.square()).sum()
    assert float(masked_loss(x, weights, drop, False)) == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize("graded", [False, True])
@pytest.mark.parametrize("diagonal", ["zero", "free"])
def test_weights_are_critical_points_of_the_enumerated_loss(diagonal, graded):
    drop, ridge = 0.35, 0.8
    model, x, _ = fitted(drop, ridge, diagonal, graded, users=12, items=7)
    weights = torch.from_numpy(model.weights()).requires_grad_()
    emphasized = diagonal == "zero"
    scale = drop if emphasized else 1.0
    loss = masked_loss(torch.from_numpy(x), weights, drop, emphasized) + scale * ridge * weights.square().sum()
    (gradient,) = torch.autograd.grad(loss, weights)
    if emphasized:
        assert np.abs(np.diag(model.weights())).max() < 1e-12
        gradient = gradient - torch.diag(gradient.diagonal())
    assert float(gradient.abs().max()) < 1e-10 * float(loss.detach())


@pytest.mark.parametrize("diagonal", MEMBERS)
def test_weights_are_the_constrained_minimizers(diagonal):
    """A column minimizes a quadratic; a bound on one coordinate clips its free value, the rest follows."""
    model, x, gamma = fitted(diagonal=diagonal)
    weights = model.weights()
    system, gram = x.T @ x + np.diag(gamma), x.T @ x
    bound = {"zero": 0.0, "free": np.inf}.get(diagonal, diagonal)
    for j in range(x.shape[1]):
        free = np.linalg.solve(system, gram[:, j])
        own = np.clip(free[j], -bound, bound)
        others = np.arange(x.shape[1]) != j
        column = np.zeros(len(free))
        column[j] = own
        column[others] = np.linalg.solve(system[np.ix_(others, others)], gram[others, j] - system[others, j] * own)
        assert np.allclose(weights[:, j], column, rtol=1e-10, atol=1e-12)


def test_one_factorization_serves_all_members():
    found = [fitted(diagonal=diagonal)[0].weights() for diagonal in ("free", 0.999999, "zero", 0.0)]
    assert np.allclose(found[0], found[1])
    assert np.array_equal(found[2], found[3])
    ease = fitted(0.0, 2.0)[0].weights()
    x = fitted(0.0, 2.0)[1]
    inverse = np.linalg.inv(x.T @ x + 2.0 * np.eye(x.shape[1]))
    expected = -inverse / np.diag(inverse)
    np.fill_diagonal(expected, 0)
    assert np.allclose(ease, expected, rtol=1e-10, atol=1e-12)


def published(x, drop, ridge, xi):
    """The weights as the authors of EASE, EDLAE (xi = 0), RLAE (drop = 0) and RDLAE publish them in code."""
    gram = x.T @ x
    gamma = np.diag(gram) * drop / (1 - drop) + ridge
    gram[np.diag_indices(len(gram))] += gamma
    inverse = np.linalg.inv(gram)
    diagonal = np.diag(inverse)
    condition = (1 - gamma * diagonal) > xi
    assert condition.sum() > 0
    lagrangian = ((1 - xi) / diagonal - gamma) * condition.astype(float)
    weights = inverse * -(gamma + lagrangian)
    weights[np.diag_indices(len(weights))] = 0
    return weights


@pytest.mark.parametrize(("drop", "xi"), [(0.0, 0.0), (0.4, 0.0), (0.0, 0.3), (0.4, 0.3), (0.4, 0.1)])
def test_weights_are_those_of_published_code(drop, xi):
    model, x, _ = fitted(drop, 1.5, xi, users=200, items=60)
    weights = model.weights()
    np.fill_diagonal(weights, 0)  # theirs is set to zero after the solve: seen items are not ranked
    assert np.abs(weights - published(x, drop, 1.5, xi)).max() < 1e-12
    if xi == 0:
        assert np.abs(fitted(drop, 1.5, "zero", users=200, items=60)[0].weights() - weights).max() < 1e-12


def without(x, user, gamma, diagonal):
    """The weights of a fit without one user, gamma held fixed."""
    rest = np.delete(x, user, 0)
    inverse = np.linalg.inv(rest.T @ rest + np.diag(gamma))
    c = np.diag(inverse)
    sigma = {"zero": 1 / c, "free": gamma}.get(diagonal)
    sigma = np.maximum(gamma, (1 - diagonal) / c) if sigma is None else sigma
    return np.eye(len(c)) - inverse * sigma


@pytest.mark.parametrize("graded", [False, True])
@pytest.mark.parametrize("diagonal", MEMBERS)
def test_leaving_a_user_out_is_a_refit(diagonal, graded):
    model, x, gamma = fitted(diagonal=diagonal, graded=graded)
    found = model.left_out_residuals(model.user_ids_)
    squares, gains, count = [], [], 0
    pairs = sample_pairs(model._rows, 40, seed=3)
    for user in range(len(x)):
        weights = without(x, user, gamma, diagonal)
        assert np.allclose(found[user], x[user] - x[user] @ weights, rtol=1e-12, atol=1e-12)
        mine = pairs[1][pairs[0] == user]
        for place in mine:
            item = np.flatnonzero(x[user])[place]
            row = x[user].copy()
            row[item] = 0
            scores = row @ weights
            rivals = np.flatnonzero(x[user] == 0)
            gains.append(1 / np.log2(2 + (scores[rivals] > scores[item]).sum()))
            count += 1
        if len(mine):
            squares.append(np.mean((x[user] - x[user] @ weights) ** 2))
    (loo,) = leave_one_out(model._precision, gamma, [diagonal], model._rows, pairs)
    assert loo.pairs == count
    assert loo.gain.value == pytest.approx(np.mean(gains), rel=1e-12)
    assert loo.squared.value == pytest.approx(np.mean(squares), rel=1e-12)
    assert loo.squared.error == pytest.approx(np.std(squares, ddof=1) / np.sqrt(len(squares)), rel=1e-12)


@pytest.mark.parametrize("graded", [False, True])
def test_a_refit_without_a_user_is_a_downdate_of_her_items(graded):
    """Her counts leave the regularizers, too: x' C_(-u) = w' C_S., (I - C_SS M)' w = x_S, M = xx' + rho diag(x^2)."""
    drop, ridge = 0.4, 1.5
    model, x, _ = fitted(drop, ridge, graded=graded, users=80)
    assert ((x != 0).sum(0) > 1).all()  # every item outlives a user
    inverse = model._precision.rows(np.arange(x.shape[1]))
    for user in range(6):
        mine = np.flatnonzero(x[user])
        own = x[user, mine]
        lost = np.outer(own, own) + drop / (1 - drop) * np.diag(own**2)
        found = np.linalg.solve((np.eye(len(mine)) - inverse[np.ix_(mine, mine)] @ lost).T, own) @ inverse[mine]
        others = np.delete(x, user, 0)
        rows, columns = np.nonzero(others)
        refit = DropoutAutoencoder(drop, ridge, feedback="graded", **OPTIONS)
        refit.fit((rows, columns, others[rows, columns]))
        expected = refit._precision.times(x[user][None, refit.item_ids_])[0][np.argsort(refit.item_ids_)]
        assert np.allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_one_decomposition_serves_all_rates_of_a_ray():
    """ridge = rho kappa: C = S^-1 Q diag(1 / (s + rho)) Q' S^-1, where S^2 = D + kappa, S^-1 G S^-1 = Q diag(s) Q'."""
    kappa = 2.5
    for drop in (0.1, 0.4, 0.8):
        rho = drop / (1 - drop)
        model, x, _ = fitted(drop, rho * kappa)
        gram = x.T @ x
        root = np.sqrt(np.diag(gram) + kappa)
        values, vectors = np.linalg.eigh(gram / np.outer(root, root))
        scaled = vectors / root[:, None]
        expected = scaled / (values + rho) @ scaled.T
        assert np.allclose(model._precision.rows(np.arange(len(gram))), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("choose", ["loo", "squared"])
def test_rate_and_ridge_are_chosen_by_leave_one_out(choose):
    triple, _ = table(120, 15, seed=2)
    model = DropoutAutoencoder(choose=choose, **OPTIONS).fit(triple)
    assert len({(point.drop, point.ridge, point.diagonal) for point in model.points_}) == len(model.points_) >= 18
    best = min(
        model.points_,
        key=lambda point: point.left_out.squared.value if choose == "squared" else -point.left_out.gain.value,
    )
    assert (model.drop_, model.ridge_, model.diagonal_) == (best.drop, best.ridge, best.diagonal)
    for kind in ("zero", "free"):
        only = DropoutAutoencoder(diagonal=kind, choose=choose, **OPTIONS).fit(triple)
        assert all(point in model.points_ for point in only.points_[:9])
        assert {point.diagonal for point in only.points_} == {only.diagonal_} == {kind}
    again = DropoutAutoencoder(choose=choose, **OPTIONS).fit(triple)
    assert np.array_equal(again.weights(), model.weights())
    direct = DropoutAutoencoder(best.drop, best.ridge, best.diagonal, **OPTIONS).fit(triple)
    assert np.array_equal(direct.weights(), model.weights())
    assert direct.points_ == []
    half = DropoutAutoencoder(drop=0.25, choose=choose, **OPTIONS).fit(triple)
    assert {point.drop for point in half.points_} == {0.25}
    ridged = DropoutAutoencoder(ridge=3.0, choose=choose, **OPTIONS).fit(triple)
    assert {point.ridge for point in ridged.points_} == {3.0}


def by_id(model):
    """Weights in the sorted order of item ids."""
    order = np.argsort(model.item_ids_)
    return model.weights()[np.ix_(order, order)]


def test_order_and_doubling_of_users_change_nothing():
    (users, items, values), _ = table()
    here = DropoutAutoencoder(0.4, 1.5, **OPTIONS).fit((users, items, values))
    shuffled = np.random.default_rng(0).permutation(len(users))
    there = DropoutAutoencoder(0.4, 1.5, **OPTIONS).fit((99 - users[shuffled], items[shuffled], values[shuffled]))
    assert np.allclose(by_id(there), by_id(here), rtol=1e-10, atol=1e-12)
    twice = tuple(np.concatenate(parts) for parts in ((users, users + 1000), (items, items), (values, values)))
    double = DropoutAutoencoder(0.4, 3.0, **OPTIONS).fit(twice)
    assert np.allclose(by_id(double), by_id(here), rtol=1e-10, atol=1e-12)


def test_a_rate_near_one_orders_by_co_occurrence():
    model, x, _ = fitted(1 - 1e-9, 0.0)
    gram = x.T @ x
    row = x[3] * 1.0
    unseen = np.flatnonzero(row == 0)
    expected = (row / np.diag(gram)) @ gram
    scores = model.scores(row[None])[0]
    assert np.allclose(scores[unseen] * 1e9, expected[unseen], rtol=1e-6)


def test_an_item_never_seen_scores_zero():
    gram = np.array([[4.0, 2.0, 0.0], [2.0, 5.0, 0.0], [0.0, 0.0, 0.0]])
    model = DropoutAutoencoder(0.5, 1.0, **OPTIONS).fit_gram(gram, ["a", "b", "c"])
    assert model.scores(np.array([[1.0, 0.0, 0.0]]))[0, 2] == 0
    assert list(model.recommend_new((["u"], ["a"], [1.0]), 2)["u"].items) == ["b", "c"]
    with pytest.warns(UnknownIds, match="most popular"):
        assert model.recommend("u", 3).items.tolist() == ["b", "a", "c"]
    for bad, message in ((np.ones((2, 3)), "symmetric"), ([[1.0, 0.0], [1.0, 1.0]], "symmetric")):
        with pytest.raises(ValueError, match=message):
            DropoutAutoencoder(0.5, 1.0).fit_gram(bad)
    with pytest.raises(ValueError, match="item_ids must name 3"):
        DropoutAutoencoder(0.5, 1.0).fit_gram(gram, [1, 2])
    with pytest.raises(ValueError, match="drop and ridge must be given"):
        DropoutAutoencoder().fit_gram(gram)


def test_the_gram_matrix_is_enough():
    model, x, _ = fitted()
    same = DropoutAutoencoder(0.4, 1.5, **OPTIONS).fit_gram(x.T @ x, model.item_ids_)
    assert np.allclose(same.weights(), model.weights(), rtol=1e-12, atol=1e-14)
    assert np.array_equal(model._precision.gram(), x.T @ x)


@pytest.mark.parametrize("graded", [False, True])
def test_a_cold_user_with_a_known_row_gets_the_same_scores(graded):
    model, x, _ = fitted(graded=graded)
    number = 4
    items = np.flatnonzero(x[number])
    user = model.user_ids_[number]
    cold = (["cold"] * len(items), model.item_ids_[items], x[number, items])
    mine, theirs = model.recommend(user, 9), model.recommend_new(cold, 9)["cold"]
    assert np.array_equal(mine.items, theirs.items)
    assert np.allclose(mine.scores, theirs.scores, rtol=1e-12)
    scores = model.scores(sparse.csr_matrix(x))
    assert np.allclose(scores, x @ model.weights(), rtol=1e-9, atol=1e-12)
    unseen = np.flatnonzero(x[number] == 0)
    best = unseen[np.argsort(-scores[number, unseen], kind="stable")]
    assert np.array_equal(mine.items, model.item_ids_[best])
    everything = model.recommend([user, model.user_ids_[0]], 100, exclude_seen=False)
    assert [len(found.items) for found in everything] == [9, 9]


@pytest.mark.parametrize("graded", [False, True])
def test_fitting_in_two_parts_is_fitting_at_once(graded):
    (users, items, values), _ = table(graded=graded)
    feedback = "graded" if graded else "implicit"
    whole = DropoutAutoencoder(0.4, 1.5, feedback=feedback, **OPTIONS).fit((users, items, values))
    # Second part: some users are new, some known ones get more items, an item appears for the first time.
    later = (users > 20) | (items == 8) | ((users < 5) & (items % 2 == 0))
    parts = DropoutAutoencoder(0.4, 1.5, feedback=feedback, **OPTIONS)
    parts.partial_fit((users[~later], items[~later], values[~later]))
    parts.partial_fit((users[later], items[later], values[later]))
    assert np.allclose(by_id(parts), by_id(whole), rtol=1e-9, atol=1e-11)
    for user in (0, 3, 25):
        assert np.array_equal(parts.recommend(user).items, whole.recommend(user).items)
    parts.partial_fit((users[:3], items[:3], values[:3]))  # known pairs again: nothing changes
    assert np.allclose(by_id(parts), by_id(whole), rtol=1e-9, atol=1e-11)
    with pytest.raises(ValueError, match="at least one rating"):
        parts.partial_fit(([], [], []))


def test_explanations_add_up():
    for diagonal in ("zero", "free"):
        model, x, _ = fitted(diagonal=diagonal)
        scores = model.scores(x)
        for number, column in ((2, 0), (2, 5), (7, 3)):
            items, parts = model.explain(model.user_ids_[number], model.item_ids_[column])
            assert set(items) == set(model.item_ids_[np.flatnonzero(x[number])])
            assert parts.sum() == pytest.approx(scores[number, column], rel=1e-10, abs=1e-12)
            assert (np.diff(parts) <= 0).all()
            assert len(model.explain(model.user_ids_[number], model.item_ids_[column], 1).items) == 1
    with pytest.raises(ValueError, match="user 'nobody' is unknown"):
        model.explain("nobody", 0)
    with pytest.raises(ValueError, match="item 99 is unknown"):
        model.explain(0, 99)


def test_a_threshold_makes_interactions():
    (users, items, _), _ = table()
    stars = np.random.default_rng(5).integers(1, 6, len(users)).astype(float)
    liked = stars >= 4
    model = DropoutAutoencoder(0.4, 1.5, threshold=4, **OPTIONS).fit((users, items, stars))
    same = DropoutAutoencoder(0.4, 1.5, **OPTIONS).fit((users[liked], items[liked], stars[liked]))
    assert np.array_equal(model.weights(), same.weights())
    centered = DropoutAutoencoder(0.4, 1.5, threshold=0, **OPTIONS).fit((users, items, stars - 4))
    assert np.array_equal(centered.weights(), same.weights())
    pairs = np.column_stack([users, items])
    assert np.array_equal(
        DropoutAutoencoder(0.4, 1.5, threshold=4, **OPTIONS).fit(pairs, stars).weights(), same.weights()
    )
    scaled = DropoutAutoencoder(0.4, 1.5 * 2.0**40, feedback="graded", **OPTIONS).fit((users, items, stars * 2.0**20))
    unit = DropoutAutoencoder(0.4, 1.5, feedback="graded", **OPTIONS).fit((users, items, stars))
    assert np.allclose(by_id(scaled), by_id(unit), rtol=1e-9, atol=1e-12)


def test_single_precision_agrees():
    triple, x = table(200, 40, seed=3)
    single = DropoutAutoencoder(0.4, 5.0).fit(triple)
    double = DropoutAutoencoder(0.4, 5.0, **OPTIONS).fit(triple)
    assert single._precision.array.dtype == np.float32
    condition = np.linalg.cond(x.T @ x + 5 * np.eye(40))
    bound = 40 * condition * np.finfo(np.float32).eps * np.abs(double.weights()).max()
    assert np.abs(single.weights() - double.weights()).max() < bound


@pytest.mark.parametrize(
    "device",
    ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"))],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_device_factorizes_as_the_machine_does(device, dtype):
    triple, x = table(200, 40, seed=3)
    here, there = (DropoutAutoencoder(0.4, 5.0, dtype=dtype, device=where) for where in (None, device))
    here.fit(triple), there.partial_fit(triple)
    condition = np.linalg.cond(x.T @ x + 5 * np.eye(40))
    bound = 40 * condition * np.finfo(dtype).eps * np.abs(here.weights()).max()
    assert np.abs(here.weights() - there.weights()).max() < bound
    for one in (here, there):  # G is still there
        one.partial_fit(([77, 77], [0, 100], [1.0, 1.0]))
        assert one._precision.array.dtype == np.dtype(dtype)
    assert np.abs(here.weights() - there.weights()).max() < bound
    with pytest.raises(ArithmeticError, match="singular"):
        DropoutAutoencoder(0.0, 0.0, dtype=dtype, device=device).fit_gram(np.ones((3, 3)))


@pytest.mark.parametrize("size", [31, 32, 33])
def test_the_gram_matrix_is_mirrored_tile_by_tile(monkeypatch, size):
    monkeypatch.setattr(precision, "_TILE", 16)
    x = np.random.default_rng(0).standard_normal((50, size))
    model = DropoutAutoencoder(0.0, 5.0, diagonal="free", dtype="float64").fit_gram(x.T @ x)
    system = x.T @ x + 5 * np.eye(size)
    bound = size * np.linalg.cond(system) * np.finfo(np.float64).eps
    assert np.abs(model.weights() - np.eye(size) + 5 * np.linalg.inv(system)).max() < bound
    assert np.array_equal(np.tril(model._precision.gram(), -1), np.tril(x.T @ x, -1))


def test_save_and_load(tmp_path):
    triple, _ = table()
    model = DropoutAutoencoder(diagonal=0.2).fit(triple)
    model.set_params(diagonal="free")  # waits for the next fit
    model.save(tmp_path / "m.safetensors")
    again = DropoutAutoencoder.load(tmp_path / "m.safetensors")
    assert np.array_equal(again.weights(), model.weights())
    assert again.points_ == model.points_
    assert (again.drop_, again.ridge_) == (model.drop_, model.ridge_)
    for one in (model, again):
        one.partial_fit(([77, 77], [0, 100], [1.0, 1.0]))
    assert np.array_equal(again.weights(), model.weights())
    assert np.array_equal(again.recommend(77).items, model.recommend(77).items)
    DropoutCompletion(2).fit(triple).save(tmp_path / "c.safetensors")
    with pytest.raises(ValueError, match=r"DropoutCompletion\.load"):
        DropoutAutoencoder.load(tmp_path / "c.safetensors")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"drop": 1.0}, "drop"),
        ({"ridge": -1.0}, "ridge must be"),
        ({"ridge": np.nan}, "ridge must be"),
        ({"diagonal": "none"}, "diagonal must be"),
        ({"diagonal": 1.0}, "diagonal must be"),
        ({"diagonal": True}, "diagonal must be"),
        ({"feedback": "stars"}, "feedback must be"),
        ({"threshold": np.nan}, "threshold"),
        ({"choose": "cv"}, "choose must be"),
        ({"dtype": "float16"}, "dtype must be"),
        ({"memory": 8}, "memory: 9 items need"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        DropoutAutoencoder(**options).fit(table()[0])


def test_other_refusals():
    with pytest.raises(NotFittedError, match="call fit first"):
        DropoutAutoencoder().scores(np.zeros((1, 2)))
    model, _, _ = fitted()
    with pytest.raises(ValueError, match="9 columns"):
        model.scores(np.zeros((1, 2)))
    with pytest.raises(ValueError, match="count"):
        model.recommend(0, 0)
    with pytest.raises(ValueError, match="1 of 1 users are unknown"):
        model.left_out_residuals([12345])
    with pytest.raises(ValueError, match="at least two items"):
        DropoutAutoencoder().fit((np.arange(5), np.arange(5), np.ones(5)))
    twins = (np.repeat(np.arange(4), 2), np.tile([0, 1], 4), np.ones(8))
    with pytest.raises(ArithmeticError, match="larger ridge"):
        DropoutAutoencoder(0.0, 0.0, **OPTIONS).fit(twins)
    assert clone(DropoutAutoencoder(0.1, diagonal=0.5)).get_params()["diagonal"] == 0.5


def test_users_of_a_model_that_is_not_fitted_cannot_be_left_out():
    """Said in words, before anything is missed that only a fit provides."""
    with pytest.raises(NotFittedError, match="call fit first"):
        DropoutAutoencoder().leave_one_out()


def test_users_are_scored_in_blocks():
    model, x, _ = fitted(users=30)
    many = np.tile(x, (40, 1))
    assert np.allclose(model.scores(many), many @ model.weights(), rtol=1e-9, atol=1e-12)
    assert model.scores(np.zeros((0, 9))).shape == (0, 9)


def test_leave_one_out_needs_a_fit():
    with pytest.raises(NotFittedError, match="call fit first"):
        DropoutAutoencoder().leave_one_out()
