"""Test error of explicit-rating recommenders on MovieLens 100K, 1M and Jester, every method tuned the same way.

Random 90/10 splits, three seeds. Settings are chosen on a 90/10 split of the training part only, then the method is
fitted to the whole training part. Strengths that have the unit of a rating are multiplied by the standard deviation
of the training ratings, so that one grid serves all sets; the rate of dropout needs no such care. Predictions are not
clipped; unknown users and items fall back to the biases in every method.

    python benchmarks/bench_recommenders_accuracy.py [--sets ml-100k ml-1m jester] [--methods ...]

needs the data (DROPTICS_DATA) and, for the alternatives, scikit-surprise and cmfrec. DROPTICS_DEVICE=cuda runs our own
methods on a GPU (the same systems; errors agree to five digits). Finished cells are kept in the
result file and not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from scipy.sparse import coo_matrix

from droptics.datasets import Ratings, jester, movielens
from droptics.recommenders import DropoutCompletion, RidgeCompletion, default_drop
from harness import RESULTS

FILE = RESULTS / "recommenders_accuracy.json"
SETS: dict[str, Callable[[], Ratings]] = {
    "ml-100k": lambda: movielens("ml-100k"),
    "ml-1m": lambda: movielens("ml-1m"),
    "jester": jester,
}
SEEDS = (0, 1, 2)
WIDTHS = {"ml-100k": (30, 70), "ml-1m": (70,), "jester": (30,)}
WEIGHTED = (0.04, 0.06, 0.09, 0.13)
DEVICE = os.environ.get("DROPTICS_DEVICE")
Setting = dict[str, float]


def grid(method: str, name: str) -> list[Setting]:
    """Widths times four strengths, the same widths for every method; SVD++ gets what the machine allows."""
    if method == "surprise SVD++":
        # One fit takes minutes on the larger sets: the setting found on ml-100k is used there.
        strengths = (0.03, 0.06, 0.1) if name == "ml-100k" else (0.06,)
        return [{"width": 20, "strength": s} for s in strengths]
    strengths = {
        "droptics": (0.6, 0.85, 1.2, 1.7),
        "droptics, smoothing 0.35": (0.6, 0.85, 1.2, 1.7),
        "L2-ALS": (8.0, 12.0, 20.0, 32.0, 56.0, 100.0),
        "ALS-WR": WEIGHTED,
        "cmfrec ALS": WEIGHTED,
        "surprise SVD": (0.03, 0.06, 0.1, 0.15),
    }[method]
    return [{"width": w, "strength": s} for w in WIDTHS[name] for s in strengths]


def own(method: str) -> Callable[[Ratings, Ratings, Setting], np.ndarray]:
    def fit(train: Ratings, test: Ratings, setting: Setting) -> np.ndarray:
        width, strength = int(setting["width"]), setting["strength"]
        unit = float(np.std(train.values))
        options = {"sweeps": 30, "threads": 1 if DEVICE is None else None, "device": DEVICE}
        if method.startswith("droptics"):
            base = default_drop(width, len(train))
            lam = strength * base / (1 - base)
            smoothing = 0.35 if "smoothing" in method else 0.0
            model = DropoutCompletion(width, lam / (1 + lam), smoothing=smoothing, **options)
        else:
            model = RidgeCompletion(width, strength * unit, weighted=method == "ALS-WR", **options)
        return model.fit(train).predict(test.users, test.items, unknown="ignore")

    return fit


def with_cmfrec(train: Ratings, test: Ratings, setting: Setting) -> np.ndarray:
    from cmfrec import CMF  # noqa: PLC0415 - only for this method

    users, rows = np.unique(train.users, return_inverse=True)
    items, columns = np.unique(train.items, return_inverse=True)
    unit = float(np.std(train.values))
    model = CMF(
        k=int(setting["width"]),
        lambda_=setting["strength"] * unit,
        scale_lam=True,
        scale_bias_const=False,
        use_cg=True,
        niter=15,
        nthreads=1,
        verbose=False,
        random_state=0,
    )
    model.fit(X=coo(rows, columns, train.values, (len(users), len(items))))
    left, right = place(users, test.users), place(items, test.items)
    return combine(model.glob_mean_, model.user_bias_, model.item_bias_, model.A_, model.B_, left, right)


def coo(rows: np.ndarray, columns: np.ndarray, values: np.ndarray, shape: tuple[int, int]) -> object:
    return coo_matrix((values.astype(np.float64), (rows, columns)), shape=shape)


def with_surprise(plus: bool) -> Callable[[Ratings, Ratings, Setting], np.ndarray]:
    def fit(train: Ratings, test: Ratings, setting: Setting) -> np.ndarray:
        import pandas as pd  # noqa: PLC0415 - only for this method
        from surprise import SVD, Dataset, Reader, SVDpp  # noqa: PLC0415 - only for this method

        scale = (float(train.values.min()), float(train.values.max()))
        frame = pd.DataFrame({"u": train.users, "i": train.items, "r": train.values.astype(np.float64)})
        trainset = Dataset.load_from_df(frame, Reader(rating_scale=scale)).build_full_trainset()
        unit = float(np.std(train.values)) / 1.12
        regularization = setting["strength"] * unit
        if plus:
            model = SVDpp(n_factors=20, n_epochs=20, reg_all=regularization, random_state=0, cache_ratings=True)
        else:
            model = SVD(
                n_factors=int(setting["width"]), n_epochs=30, lr_all=0.01, reg_all=regularization, random_state=0
            )
        model.fit(trainset)
        left = inner(trainset._raw2inner_id_users, test.users)
        right = inner(trainset._raw2inner_id_items, test.items)
        factors = model.pu
        if plus:
            factors = factors.copy()
            for user, rated in trainset.ur.items():
                factors[user] += model.yj[[item for item, _ in rated]].sum(0) / np.sqrt(len(rated))
        return combine(trainset.global_mean, model.bu, model.bi, factors, model.qi, left, right)

    return fit


def inner(known: dict[object, int], ids: np.ndarray) -> np.ndarray:
    return np.array([known.get(entry, -1) for entry in ids.tolist()])


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


METHODS: dict[str, Callable[[Ratings, Ratings, Setting], np.ndarray]] = {
    "droptics": own("droptics"),
    "droptics, smoothing 0.35": own("droptics, smoothing 0.35"),
    "ALS-WR": own("ALS-WR"),
    "L2-ALS": own("L2-ALS"),
    "cmfrec ALS": with_cmfrec,
    "surprise SVD": with_surprise(plus=False),
    "surprise SVD++": with_surprise(plus=True),
}


def rmse(predicted: np.ndarray, test: Ratings) -> float:
    return float(np.sqrt(np.mean((predicted - test.values) ** 2)))


def cell(name: str, method: str, seed: int, ratings: Ratings) -> dict[str, object]:
    """Tune on a split of the training part, fit to all of it, test once."""
    train, test = ratings.split(0.1, seed)
    settings = grid(method, name)
    fit = METHODS[method]
    tried = {}
    if len(settings) > 1:
        part, valid = train.split(0.1, seed + 100)
        for number, setting in enumerate(settings):
            tried[number] = rmse(fit(part, valid, setting), valid)
    best = settings[min(tried, key=tried.__getitem__)] if tried else settings[0]
    begin = time.process_time()
    predicted = fit(train, test, best)
    seconds = time.process_time() - begin
    error = rmse(predicted, test)
    mae = float(np.mean(np.abs(predicted - test.values)))
    return {"rmse": error, "mae": mae, "setting": best, "fit_seconds": seconds, "validation": list(tried.values())}


def cells(sets: list[str], methods: list[str]) -> Iterator[tuple[str, str, int]]:
    slow = [method for method in methods if method == "surprise SVD++"]
    for group in ([m for m in methods if m not in slow], slow):
        for name in sets:
            for seed in SEEDS:
                for method in group:
                    yield name, method, seed


def write(results: dict[str, object]) -> None:
    FILE.parent.mkdir(exist_ok=True)
    aside = FILE.with_suffix(".part")
    aside.write_text(json.dumps(results, indent=1))
    os.replace(aside, FILE)


def final(results: dict[str, dict[str, object]], name: str, method: str, seed: int) -> float | None:
    """Test RMSE of a cell; "smoothing chosen" takes the variant with the lower error on the validation split."""
    if method.endswith("chosen"):
        both = [f"{name} / {m} / {seed}" for m in METHODS if m.startswith("droptics")]
        if any(key not in results for key in both):
            return None
        return results[min(both, key=lambda key: min(results[key]["validation"]))]["rmse"]
    key = f"{name} / {method} / {seed}"
    return results[key]["rmse"] if key in results else None


def table(results: dict[str, dict[str, float]]) -> None:
    print(f"{'method':28s}" + "".join(f"{name:>22s}" for name in SETS))
    for method in (*METHODS, "droptics, smoothing chosen"):
        line = f"{method:28s}"
        for name in SETS:
            found = [error for seed in SEEDS if (error := final(results, name, method, seed)) is not None]
            error = statistics.stdev(found) / len(found) ** 0.5 if len(found) > 1 else float("nan")
            line += f"{statistics.mean(found):13.4f} ± {error:.4f}" if found else f"{'-':>22s}"
        print(line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    options = parser.parse_args()
    results = json.loads(FILE.read_text()) if Path(FILE).exists() else {}
    loaded: dict[str, Ratings] = {}
    for name, method, seed in cells(options.sets, options.methods):
        key = f"{name} / {method} / {seed}"
        if key in results:
            continue
        if name not in loaded:
            loaded = {name: SETS[name]()}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results[key] = cell(name, method, seed, loaded[name])
        print(key, json.dumps(results[key]), flush=True)
        write(results)
    table(results)


if __name__ == "__main__":
    main()
