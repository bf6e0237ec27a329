"""Test error of explicit-rating recommenders on MovieLens 100K, 1M and Jester, every method tuned the same way.

    python benchmarks/bench_recommenders_accuracy.py [--sets ml-100k ml-1m jester] [--methods ...] [--jobs 1]

Protocol. Three random 90/10 splits. Every method has the same two widths and a grid of sixteen settings. The setting
is chosen by the RMSE on a random tenth of the training part, the method fitted again to the whole training part, and
tested once. All methods see ratings divided by the standard deviation of the training part, so that one grid serves all
sets; errors are in the original unit. Predictions are not clipped; unknown users and items fall back to the biases in
every method. A table gives mean and standard error over the splits, and the paired difference to the best alternative.

Needs the data (DROPTICS_DATA) and, for one alternative, cmfrec. SVD and SVD++ are scikit-surprise's iterations,
compiled as `surprise_sgd.py` describes. `AutoencoderCompletion()` and `StackedCompletion()` have no option set: their
constants were fixed before they were run on these splits, and they choose the rest from the training part.
Finished cells are kept in the result file and not run again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import lru_cache
from itertools import product
from multiprocessing import get_context

import numpy as np
from scipy.sparse import coo_matrix

import surprise_sgd
from droptics.datasets import Ratings, jester, movielens
from droptics.recommenders import (
    AutoencoderCompletion,
    DropoutCompletion,
    RidgeCompletion,
    StackedCompletion,
    default_drop,
)
from droptics.recommenders.rating_model import RatingModel
from harness import RECORDED, RESULTS, write

NAME = "recommenders_accuracy"
SETS: dict[str, Callable[[], Ratings]] = {
    "ml-100k": lambda: movielens("ml-100k"),
    "ml-1m": lambda: movielens("ml-1m"),
    "jester": jester,
}
SEEDS = (41, 42, 43)
INNER = 1000
WIDTHS = (30.0, 70.0)
SWEEPS, EPOCHS = 40, 30
Setting = dict[str, float]
Fit = Callable[[Ratings, Ratings, Setting], np.ndarray]


def crossed(**axes: tuple[float, ...]) -> list[Setting]:
    axes = {"width": WIDTHS, **axes}
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]


# Two widths times eight settings each. The ridge of L2-ALS does not scale with the counts: its grid depends on the set.
GRIDS: dict[str, list[Setting]] = {
    "droptics": crossed(multiple=(0.8, 1.0, 1.2, 1.45), smoothing=(0.0, 0.5)),
    "ALS-WR": crossed(strength=(0.032, 0.04, 0.05, 0.06, 0.07, 0.085, 0.1, 0.12)),
    "cmfrec ALS": crossed(strength=(0.055, 0.07, 0.09, 0.115), constant_bias=(0, 1)),
    "surprise SVD": crossed(regularization=(0.025, 0.04, 0.06, 0.09), rate=(0.01, 0.02)),
    "surprise SVD++": crossed(regularization=(0.025, 0.04, 0.06, 0.09), rate=(0.01, 0.02)),
}
FROZEN = {"AutoencoderCompletion()": AutoencoderCompletion, "StackedCompletion()": StackedCompletion}
RIDGES = {
    "ml-100k": (7.0, 9.0, 11.0, 13.0, 15.0, 18.0, 22.0, 27.0),
    "ml-1m": (12.0, 15.0, 18.0, 21.0, 25.0, 30.0, 36.0, 44.0),
    "jester": (28.0, 36.0, 44.0, 52.0, 60.0, 70.0, 85.0, 100.0),
}


def grid(method: str, name: str) -> list[Setting]:
    if method in FROZEN:
        return [{}]
    return crossed(ridge=RIDGES[name]) if method == "L2-ALS" else GRIDS[method]


def with_droptics(train: Ratings, test: Ratings, setting: Setting) -> np.ndarray:
    width = int(setting["width"])
    drop = default_drop(width, len(train))
    lam = setting["multiple"] * drop / (1 - drop)
    model = DropoutCompletion(width, lam / (1 + lam), smoothing=setting["smoothing"], sweeps=SWEEPS, threads=1)
    return model.fit(train).predict(test.users, test.items, unknown="ignore")


def as_it_is(made: Callable[[], RatingModel]) -> Fit:
    return lambda train, test, setting: made().fit(train).predict(test.users, test.items, unknown="ignore")


def with_ridge(train: Ratings, test: Ratings, setting: Setting) -> np.ndarray:
    weighted = "strength" in setting
    strength = setting["strength" if weighted else "ridge"]
    model = RidgeCompletion(int(setting["width"]), strength, weighted=weighted, sweeps=SWEEPS, threads=1)
    return model.fit(train).predict(test.users, test.items, unknown="ignore")


def with_cmfrec(train: Ratings, test: Ratings, setting: Setting) -> np.ndarray:
    from cmfrec import CMF  # noqa: PLC0415 - only for this method

    users, rows = np.unique(train.users, return_inverse=True)
    items, columns = np.unique(train.items, return_inverse=True)
    model = CMF(
        k=int(setting["width"]),
        lambda_=setting["strength"],
        scale_lam=True,
        scale_bias_const=bool(setting["constant_bias"]),
        niter=15,
        nthreads=1,
        verbose=False,
        random_state=0,
    )
    model.fit(X=coo_matrix((train.values.astype(np.float64), (rows, columns)), shape=(len(users), len(items))))
    at = place(users, test.users), place(items, test.items)
    return combine(model.glob_mean_, model.user_bias_, model.item_bias_, model.A_, model.B_, *at)


def with_surprise(implicit: bool) -> Fit:
    def run(train: Ratings, test: Ratings, setting: Setting) -> np.ndarray:
        users, rows = np.unique(train.users, return_inverse=True)
        items, columns = np.unique(train.items, return_inverse=True)
        order = np.argsort(rows, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(users)))])
        mean = float(np.mean(train.values, dtype=np.float64))
        values = train.values[order].astype(np.float64) - mean
        sizes = len(items), int(setting["width"]), EPOCHS
        step = setting["rate"], setting["regularization"]
        found = surprise_sgd.fit(starts, columns[order].astype(np.int32), values, *sizes, *step, implicit)
        return combine(mean, *found, place(users, test.users), place(items, test.items))

    return run


def place(known: np.ndarray, ids: np.ndarray) -> np.ndarray:
    at = np.minimum(np.searchsorted(known, ids), len(known) - 1)
    return np.where(known[at] == ids, at, -1)


def combine(
    mean: float, b: np.ndarray, c: np.ndarray, left: np.ndarray, right: np.ndarray, u: np.ndarray, i: np.ndarray
) -> np.ndarray:
    both = (u >= 0) & (i >= 0)
    result = mean + np.where(u >= 0, b[u], 0.0) + np.where(i >= 0, c[i], 0.0)
    for at in range(0, len(u), 1 << 16):
        part = slice(at, at + (1 << 16))
        result[part] += np.where(both[part], np.einsum("nk,nk->n", left[u[part]], right[i[part]]), 0.0)
    return result


METHODS: dict[str, Fit] = {
    "droptics": with_droptics,
    "L2-ALS": with_ridge,
    "ALS-WR": with_ridge,
    "cmfrec ALS": with_cmfrec,
    "surprise SVD": with_surprise(implicit=False),
    "surprise SVD++": with_surprise(implicit=True),
    **{method: as_it_is(made) for method, made in FROZEN.items()},
}


def scaled(fit: Fit) -> Fit:
    """The method on ratings of standard deviation one, its predictions in the original unit."""

    def run(train: Ratings, test: Ratings, setting: Setting) -> np.ndarray:
        unit = float(np.std(train.values, dtype=np.float64))
        small = Ratings(train.users, train.items, (train.values / unit).astype(np.float32))
        return unit * fit(small, test, setting)

    return run


def rmse(predicted: np.ndarray, test: Ratings) -> float:
    return float(np.sqrt(np.mean((predicted - test.values) ** 2)))


@lru_cache(maxsize=1)
def load(name: str) -> Ratings:
    return SETS[name]()


def cell(name: str, method: str, seed: int) -> dict[str, object]:
    """Tune on a split of the training part, fit to all of it, test once."""
    train, test = load(name).split(0.1, seed)
    part, valid = train.split(0.1, INNER + seed)
    settings, fit = grid(method, name), scaled(METHODS[method])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        validation = [rmse(fit(part, valid, setting), valid) for setting in settings] if len(settings) > 1 else []
    best = settings[int(np.argmin(validation)) if validation else 0]
    begin = time.process_time()
    predicted = fit(train, test, best)
    seconds = time.process_time() - begin
    mae = float(np.mean(np.abs(predicted - test.values)))
    error = rmse(predicted, test)
    return {"rmse": error, "mae": mae, "setting": best, "fit_seconds": seconds, "validation": validation}


def table(found: dict[str, dict[str, object]]) -> list[dict[str, object]]:
    """Mean and standard error per set and method, and ours minus the best alternative, paired over the splits."""
    rows: list[dict[str, object]] = []
    for name in SETS:
        errors: dict[str, list[float]] = {}
        for method in METHODS:
            keys = [f"{name} / {method} / {seed}" for seed in SEEDS]
            if all(key in found for key in keys):
                errors[method] = [float(found[key]["rmse"]) for key in keys]  # type: ignore[arg-type]
                rows.append({"set": name, "method": method, **summary(errors[method])})
        ours = [method for method in ("droptics", *FROZEN) if method in errors]
        others = [method for method in errors if method not in ours]
        for method in ours if others else []:
            best = min(others, key=lambda other: statistics.mean(errors[other]))
            gaps = [mine - theirs for mine, theirs in zip(errors[method], errors[best], strict=True)]
            rows.append({"set": name, "method": f"{method} minus {best}", **summary(gaps)})
    return rows


def summary(values: list[float]) -> dict[str, float]:
    return {"rmse": statistics.mean(values), "standard_error": statistics.stdev(values) / len(values) ** 0.5}


def keep(found: dict[str, dict[str, object]]) -> None:
    grids = {**GRIDS, **{f"L2-ALS, {known}": crossed(ridge=ridges) for known, ridges in RIDGES.items()}}
    facts = {"widths": WIDTHS, "seeds": SEEDS, "grids": grids}
    write(NAME, {**facts, "summary": table(found), "cells": dict(sorted(found.items()))})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    # errors do not depend on the machine: cells that are recorded are not computed again
    found: dict[str, dict[str, object]] = {}
    for file in (RECORDED / f"{NAME}.json", RESULTS / f"{NAME}.json"):
        found |= json.loads(file.read_text(encoding="utf-8"))["cells"] if file.exists() else {}
    wanted = [(name, method, seed) for name in options.sets for seed in SEEDS for method in options.methods]
    missing = [key for key in wanted if " / ".join(map(str, key)) not in found]
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
        running = {pool.submit(cell, *key): " / ".join(map(str, key)) for key in missing}
        for done in as_completed(running):
            found[running[done]] = done.result()
            print(running[done], json.dumps(found[running[done]]), flush=True)
            keep(found)
    keep(found)
    for row in table(found):
        print(f"{row['set']:10s}{row['method']:32s}{row['rmse']:9.4f} ± {row['standard_error']:.4f}")


if __name__ == "__main__":
    main()
