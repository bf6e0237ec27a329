"""What the claim on named ids compares of chosen rates: every point of a path fitted again, and what the best says."""

from __future__ import annotations

import math
import warnings

import numpy as np

from droptics.arrays import Array
from droptics.datasets import Ratings
from droptics.evidence.claims import Comparison, compare
from droptics.recommenders import DropoutCompletion, DropoutCompletionCV


def chosen_rates(scale: float, rows: Array, columns: Array, values: Array) -> list[Comparison]:
    """Errors along a path of rates by fits to the kept part, the best of them, and answers of a fit to all."""
    found: list[Comparison] = []
    template = DropoutCompletion(2, sweeps=2, dtype="float64")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        choice = DropoutCompletionCV((2, 3), estimator=template, holdout=0.2, seed=1).fit((rows, columns, values))
    kept, held = Ratings(rows, columns, values).split(0.2, 1)
    path = {width: DropoutCompletion(width, sweeps=2, dtype="float64", warm_start=True) for width in (2, 3)}
    strengths: dict[int, list[float]] = {}
    for point in choice.points_:
        # rates fall, and every fit begins where the last one ended
        path[point.width].set_params(drop=point.drop).fit((kept.users, kept.items, kept.values))
        told = path[point.width].predict(held.users, held.items, "ignore")
        error = math.sqrt(float(np.square(told - held.values).mean()))
        found.append(compare(point.holdout_rmse, "==", scale * error, f"error at {point.drop:.2f}", precision=1e-7))
        base = 4.8 * point.width * len(kept.values) ** (-1 / 3)
        strengths.setdefault(point.width, []).append(point.drop / (1 - point.drop) / base)
        found.append(compare(point.strength * point.width, "==", scale * point.drop / (1 - point.drop), "strength"))
    for mine in strengths.values():
        multiples = [4.0, 2.8, 2.0, 1.4, 1.0, 0.7, 0.5, 0.35]
        found.append(compare(mine, "==", [scale * multiple for multiple in multiples], "path of rates"))
    raw = DropoutCompletion(2, 0.4, sweeps=2, center=False, dtype="float64")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told_raw = DropoutCompletionCV(2, (0.4,), estimator=raw, holdout=0.2, seed=1).fit((rows, columns, values))
        raw.fit((kept.users, kept.items, kept.values))
    error = math.sqrt(float(np.square(raw.predict(held.users, held.items, "ignore") - held.values).mean()))
    found.append(compare(told_raw.points_[0].holdout_rmse, "==", scale * error, "not centered", precision=1e-7))
    best = min(choice.points_, key=lambda point: point.holdout_rmse)
    found.append(compare([choice.best_width_, choice.best_drop_], "==", [best.width, best.drop], "the best point"))
    winner = choice.best_estimator_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fresh = DropoutCompletion(best.width, best.drop, sweeps=2, dtype="float64").fit((rows, columns, values))
    found.append(compare(winner.predict(rows, columns), "==", scale * fresh.predict(rows, columns), "a fit to all"))
    answers = choice.predict(rows, columns) - winner.predict(rows, columns), choice.score((rows, columns, values))
    found.append(compare(answers[0], "==", 0.0, "predictions of the best"))
    error = math.sqrt(float(np.square(winner.predict(rows, columns) - values).mean()))
    found.append(compare(answers[1], "==", -scale * error, "score"))
    found.append(compare(choice.evaluate((rows, columns, values)).rmse, "==", error, "its error"))
    lists = [one.recommend(int(rows[0]), 2, exclude_seen=False).scores for one in (choice, winner)]
    found.append(compare(lists[0], "==", lists[1], "lists of the best"))
    factors = winner.factorization()
    product = winner.user_factors_ @ winner.item_factors_.T
    found.append(compare(factors.matrix(), "==", scale * product, "factors as a model"))
    return found
