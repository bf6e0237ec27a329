"""The model that a selection found answers for it: every option of a question reaches it."""

import numpy as np
import pytest

from droptics.datasets import planted_ratings
from droptics.recommenders import DropoutCompletion, DropoutCompletionCV, UnknownIds


@pytest.fixture(scope="module")
def fitted():
    ratings = planted_ratings((40, 25, 400), rank=2, noise=0.5, seed=1)
    return DropoutCompletionCV(widths=(2,), drops=(0.2, 0.5)).fit(ratings), ratings


def test_recommendations_count_and_may_hold_what_was_seen(fitted):
    model, ratings = fitted
    user = int(ratings.users[0])
    seen = set(ratings.items[ratings.users == user].tolist())
    everything = len(np.unique(ratings.items))
    assert len(model.recommend(user).items) == min(10, everything - len(seen))
    assert len(model.recommend(user, 3).items) == 3
    assert not seen & set(np.asarray(model.recommend(user, everything).items).tolist())
    whole = set(np.asarray(model.recommend(user, everything, exclude_seen=False).items).tolist())
    assert seen <= whole
    assert len(whole) == everything


def test_unknown_ids_are_told_refused_or_ignored_as_asked(fitted):
    model, ratings = fitted
    user, strange = int(ratings.users[0]), 10**9
    with pytest.warns(UnknownIds):
        model.predict([strange], [int(ratings.items[0])])
    model.predict([strange], [int(ratings.items[0])], unknown="ignore")
    with pytest.raises(ValueError, match="unknown"):
        model.predict([strange], [int(ratings.items[0])], unknown="raise")
    pairs = ([user, strange], [int(ratings.items[0])] * 2, [3.0, 4.0])
    with pytest.warns(UnknownIds):
        model.evaluate(pairs)
    with pytest.raises(ValueError, match="unknown"):
        model.evaluate(pairs, unknown="raise")
    guesses = model.predict(*pairs[:2], unknown="ignore")
    wanted = np.sqrt(np.square(guesses - pairs[2]).mean())
    np.testing.assert_allclose(model.evaluate(pairs, unknown="ignore").rmse, wanted, rtol=1e-12)
    known = tuple(part[:1] for part in pairs)
    np.testing.assert_allclose(-model.score(known), abs(guesses[0] - 3.0), rtol=1e-12)


@pytest.mark.parametrize(("share", "seed"), [(0.1, 0), (0.45, 0), (0.2, 7)])
def test_points_are_errors_on_the_share_that_was_held_out(share, seed):
    """Each point of a width by a fit of its own to the ratings that are left, which begins where the last one ended."""
    ratings = planted_ratings((40, 25, 400), rank=2, noise=0.5, seed=1)
    options = {"sweeps": 4, "dtype": "float64", "tolerance": 0.0}
    model = DropoutCompletionCV(
        (1, 3), (0.1, 0.6), holdout=share, seed=seed, estimator=DropoutCompletion(**options), refit=False
    ).fit(ratings)
    kept, held = ratings.split(share, seed)
    assert len(held) == round(share * len(ratings))
    found = []
    for width in (1, 3):
        fit = DropoutCompletion(width, warm_start=True, **options)
        for drop in (0.6, 0.1):
            fit.set_params(drop=drop).fit(kept)
            guesses = [fit.predict(part.users, part.items, "ignore") for part in (held, kept)]
            errors = [
                np.sqrt(np.mean((guess - part.values) ** 2)) for guess, part in zip(guesses, (held, kept), strict=True)
            ]
            found.append((width, drop, drop / (1 - drop) / width, errors[1], errors[0], 4))
    told = [(p.width, p.drop, p.strength, p.train_rmse, p.holdout_rmse, p.sweeps) for p in model.points_]
    # the same sums of ratings in another order, over the four sweeps of two fits, each a contraction
    np.testing.assert_allclose(told, found, rtol=1e-9)


@pytest.mark.parametrize("drops", [None, (0.2, 0.5)])
def test_the_picture_of_a_path(drops):
    """Both errors of every width over lambda / width, or over the rates that were given."""
    ratings = planted_ratings((40, 25, 400), rank=2, noise=0.5, seed=1)
    model = DropoutCompletionCV((1, 3), drops, estimator=DropoutCompletion(sweeps=2)).fit(ratings)
    axes = model.plot().axes[0]
    assert axes.get_xlabel() == ("lam / width" if drops is None else "drop")
    for width, shown in ((1, axes.lines[:2]), (3, axes.lines[2:])):
        mine = [point for point in model.points_ if point.width == width]
        odds = [point.drop / (1 - point.drop) / width if drops is None else point.drop for point in mine]
        for line, name in zip(shown, ("holdout_rmse", "train_rmse"), strict=True):
            # the rates of one width lie at lambda / width up to the rounding of their odds, below 5
            np.testing.assert_allclose(line.get_xdata(), odds, rtol=1e-12)
            assert list(line.get_ydata()) == [getattr(point, name) for point in mine]
