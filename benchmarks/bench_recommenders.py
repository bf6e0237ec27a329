"""Dropout matrix completion against cmfrec, implicit, scikit-surprise and dropout SGD: per sweep and to equal error.

    python benchmarks/bench_recommenders.py [--parts sweeps exact error large surprise sgd]

CPU seconds on one thread, width 70. `sweeps`: one sweep of three conjugate-gradient steps a row on planted ratings of
ml-1m's size. `exact`: one sweep of exact rows there. `error`: time until the
best test RMSE of an alternative is reached, on ml-1m itself (DROPTICS_DATA), each with the setting that
bench_recommenders_accuracy.py chooses on a split of the training part. `large`: the same on planted ratings of
ml-10m's size. `surprise`: scikit-surprise's SVD there, until it is within 0.0005 of its best error. `sgd`: time until
dropout SGD's own objective is reached. Parts that ran before are kept in the result file. Alternatives that are not
installed are left out and named.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial

import numpy as np
from scipy.sparse import coo_matrix

import surprise_sgd
from aims import SWEEP_CG, SWEEP_EXACT
from bench_ceilings import rates
from droptics.datasets import Ratings, movielens, planted_ratings
from droptics.recommenders import DropoutCompletion, default_drop
from droptics.recommenders.alternation import Strengths
from droptics.recommenders.ratings import Observations, observations
from droptics.recommenders.sgd import objective
from droptics.recommenders.sweepers import Threads
from harness import RESULTS, Row, report

WIDTH = 70
Curve = list[tuple[float, float]]


def start(data: Observations, strengths: Strengths) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    left = np.zeros((len(data.users), strengths.columns), np.float32)
    right = np.zeros((len(data.items), strengths.columns), np.float32)
    right[:, : strengths.width] = 0.1 * generator.standard_normal((len(right), strengths.width))
    return left, right


def sweep(data: Observations, sides: tuple[np.ndarray, np.ndarray], strengths: Strengths, steps: int) -> float:
    engine = Threads(1)
    engine.solve(data.by_user, sides[1], sides[0], strengths, data.by_item.counts, steps)
    return engine.solve(data.by_item, sides[0], sides[1], strengths, data.by_user.counts, steps)[0] / data.count


def cpu(call: Callable[[], object]) -> float:
    begin = time.process_time()
    call()
    return time.process_time() - begin


def matrix(train: Ratings) -> tuple[coo_matrix, np.ndarray, np.ndarray]:
    users, rows = np.unique(train.users, return_inverse=True)
    items, columns = np.unique(train.items, return_inverse=True)
    values = train.values.astype(np.float64)
    return coo_matrix((values, (rows, columns)), shape=(len(users), len(items))), users, items


def cmf(strength: float, sweeps: int, biases: bool, exact: bool = False) -> object:
    from cmfrec import CMF  # noqa: PLC0415 - only where it is installed

    return CMF(
        k=WIDTH,
        lambda_=strength,
        scale_lam=True,
        scale_bias_const=False,
        use_cg=not exact,
        finalize_chol=False,
        niter=sweeps,
        user_bias=biases,
        item_bias=biases,
        nthreads=1,
        verbose=False,
        random_state=0,
        use_float=True,
    )


def place(known: np.ndarray, ids: np.ndarray) -> np.ndarray:
    at = np.minimum(np.searchsorted(known, ids), len(known) - 1)
    return np.where(known[at] == ids, at, -1)


def rmse(test: Ratings, mean: float, parts: tuple[np.ndarray, ...], u: np.ndarray, i: np.ndarray) -> float:
    b, c, left, right = parts
    guess = mean + np.where(u >= 0, b[u], 0.0) + np.where(i >= 0, c[i], 0.0)
    both = (u >= 0) & (i >= 0)
    for at in range(0, len(u), 1 << 16):
        p = slice(at, at + (1 << 16))
        guess[p] += np.where(both[p], np.einsum("nk,nk->n", left[u[p]], right[i[p]]), 0.0)
    return float(np.sqrt(np.mean((guess - test.values) ** 2)))


def per_sweep(exact: bool) -> list[Row]:
    """One sweep at ml-1m's size, ours and theirs interleaved; theirs as (fit(3) - fit(1)) / 2.

    The floor is at the rates of this run: neighbours on a shared machine slow products and sweeps alike.
    """
    train = planted_ratings("ml-1m", seed=0).split(0.1, seed=0)[0]
    data = observations(train)
    strengths = Strengths(WIDTH, expected=2.0)
    sides = {steps: start(data, strengths) for steps in (3, 0)}
    for steps, factors in sides.items():
        values = [sweep(data, factors, strengths, steps) for _ in range(5)]
        sides[steps] = (*factors, values[-1])
    gap = abs(sides[3][2] / sides[0][2] - 1)
    agreement = f"objective after 5 sweeps within {gap:.2%} of exact"
    table, _, _ = matrix(train)
    alternatives: list[tuple[str, int, Callable[[int], float] | None, int]] = [
        ("cmfrec ALS, CG", 3, lambda n: cpu(lambda: cmf(0.1, n, False).fit(table)), 3),
        ("cmfrec ALS, Cholesky", 0, lambda n: cpu(lambda: cmf(0.1, n, False, exact=True).fit(table)), 2),
    ]
    try:
        cmf(0.1, 1, False)
    except ImportError:
        alternatives = [(name, steps, None, repeats) for name, steps, _, repeats in alternatives]
    try:
        from implicit.cpu.als import AlternatingLeastSquares  # noqa: PLC0415 - only where it is installed

        def implicit(sweeps: int) -> float:
            model = AlternatingLeastSquares(WIDTH, iterations=sweeps, num_threads=1, random_state=0)
            rows = table.tocsr().astype(np.float32)
            return cpu(lambda: model.fit(rows, show_progress=False))

        alternatives.append(("implicit ALS, CG (implicit objective)", 3, implicit, 3))
    except ImportError:
        print("implicit is not installed: left out")
    rows = []
    for name, steps, theirs, repeats in alternatives:
        if exact != (steps == 0):
            continue
        pairs = []
        for _ in range(repeats):
            once = partial(sweep, data, sides[steps][:2], strengths, steps)
            ours = statistics.median(cpu(once) for _ in range(3))
            pairs.append((ours, (theirs(3) - theirs(1)) / 2 if theirs else float("nan")))
        kind = "exact" if exact else "3 CG steps"
        floor = (SWEEP_EXACT if exact else SWEEP_CG).floor(rates("cpu"))
        found = Row(
            f"sweep, ml-1m size, {kind}, vs {name}",
            statistics.median(p[0] for p in pairs),
            statistics.median(p[1] for p in pairs),
            statistics.median(p[1] / p[0] for p in pairs),
            agreement,
            floor=floor,
        )
        alone = {"alternative": None, "ratio": None, "note": "the alternative is not installed"}
        rows.append(found if theirs else replace(found, **alone))
    return rows


def own_curve(train: Ratings, test: Ratings, strengths: Strengths, sweeps: int) -> Curve:
    """CPU seconds (reading included) and test RMSE after each sweep."""
    begin = time.process_time()
    data = observations(train)
    sides = start(data, strengths)
    spent = time.process_time() - begin
    u, i = data.users(test.users), data.items(test.items)
    curve = []
    for _ in range(sweeps):
        spent += cpu(lambda: sweep(data, sides, strengths, 3))
        w = strengths.width
        parts = (sides[0][:, w], sides[1][:, w], sides[0][:, :w], sides[1][:, :w])
        curve.append((spent, rmse(test, data.mean, parts, u, i)))
    return curve


def cmfrec_curve(train: Ratings, test: Ratings, strength: float, counts: tuple[int, ...], biases: bool) -> Curve:
    table, users, items = matrix(train)
    u, i = place(users, test.users), place(items, test.items)
    curve = []
    for sweeps in counts:
        model = cmf(strength, sweeps, biases)
        seconds = cpu(lambda model=model: model.fit(table))
        zeros = np.zeros(len(users)), np.zeros(len(items))
        b, c = (model.user_bias_, model.item_bias_) if biases else zeros
        curve.append((seconds, rmse(test, model.glob_mean_, (b, c, model.A_, model.B_), u, i)))
    return curve


def surprise_curve(train: Ratings, test: Ratings, regularization: float, counts: tuple[int, ...]) -> Curve:
    import pandas as pd  # noqa: PLC0415 - only where it is installed
    from surprise import SVD, Dataset, Reader  # noqa: PLC0415 - only where it is installed

    frame = pd.DataFrame({"u": train.users, "i": train.items, "r": train.values.astype(np.float64)})
    trainset = Dataset.load_from_df(frame, Reader(rating_scale=(1, 5))).build_full_trainset()
    u = np.array([trainset._raw2inner_id_users.get(k, -1) for k in test.users.tolist()])
    i = np.array([trainset._raw2inner_id_items.get(k, -1) for k in test.items.tolist()])
    curve = []
    for epochs in counts:
        model = SVD(n_factors=WIDTH, n_epochs=epochs, lr_all=0.01, reg_all=regularization, random_state=0)
        seconds = cpu(lambda model=model: model.fit(trainset))
        curve.append((seconds, rmse(test, trainset.global_mean, (model.bu, model.bi, model.pu, model.qi), u, i)))
    return curve


def to_error(label: str, ours: Curve, theirs: Curve) -> Row:
    """Time until the best error of the alternative is reached."""
    seconds, target = min(theirs, key=lambda point: point[1])
    reached = next(((spent, error) for spent, error in ours if error <= target), None)
    best = min(error for _, error in ours)
    if reached is None:
        return Row(label, ours[-1][0], seconds, float("nan"), f"not reached: best {best:.4f} against {target:.4f}")
    return Row(label, reached[0], seconds, seconds / reached[0], f"RMSE {reached[1]:.4f} against {target:.4f}")


def to_equal_error() -> list[Row]:
    train, test = movielens("ml-1m").split(0.1, seed=0)
    drop = default_drop(WIDTH, len(train))
    ours = own_curve(train, test, Strengths(WIDTH, expected=1.35 * drop / (1 - drop), bias=2.0, smoothing=0.5), 15)
    print("ours, ml-1m:", [(round(s, 2), round(e, 4)) for s, e in ours])
    rows = []
    for name, run in (
        ("cmfrec ALS with biases", lambda: cmfrec_curve(train, test, 0.07 * 1.12, (4, 8), biases=True)),
        ("surprise SVD", lambda: surprise_curve(train, test, 0.06, (20, 30))),
    ):
        try:
            theirs = run()
        except ImportError:
            print(f"{name} is not installed: left out")
            continue
        print(f"{name}:", [(round(s, 2), round(e, 4)) for s, e in theirs])
        rows.append(to_error(f"to the RMSE of {name}, ml-1m", ours, theirs))
    return rows


def own_large(train: Ratings, test: Ratings) -> tuple[Curve, list[float]]:
    """CPU seconds (reading included) and test RMSE after each of six sweeps, and the seconds of each."""
    strengths = Strengths(WIDTH, expected=2.0)
    begin = time.process_time()
    data = observations(train)
    reading = time.process_time() - begin
    sides = start(data, strengths)
    u, i = data.users(test.users), data.items(test.items)
    ours: Curve = []
    seconds = []
    for _ in range(6):
        seconds.append(cpu(lambda: sweep(data, sides, strengths, 3)))
        zeros = np.zeros(len(data.users)), np.zeros(len(data.items))
        parts = (*zeros, sides[0][:, :WIDTH], sides[1][:, :WIDTH])
        ours.append((reading + sum(seconds), rmse(test, data.mean, parts, u, i)))
    print("ours, ml-10m size:", [(round(s, 2), round(e, 4)) for s, e in ours], flush=True)
    return ours, seconds


def large() -> list[Row]:
    train, test = planted_ratings("ml-10m", seed=0).split(0.1, seed=0)
    ours, seconds = own_large(train, test)
    try:
        theirs = cmfrec_curve(train, test, 0.1, (1, 3, 6), biases=False)
    except ImportError:
        print("cmfrec is not installed: left out")
        return []
    print("cmfrec:", [(round(s, 2), round(e, 4)) for s, e in theirs])
    per = (theirs[1][0] - theirs[0][0]) / 2
    own = statistics.median(seconds)
    return [
        Row("sweep, ml-10m size, 3 CG steps, vs cmfrec ALS, CG", own, per, per / own, f"RMSE {ours[-1][1]:.4f}"),
        to_error("to the RMSE of cmfrec ALS, ml-10m size", ours, theirs),
    ]


def large_surprise() -> list[Row]:
    """scikit-surprise's SVD (rate 0.01, regularization 0.06) to within 0.0005 of its best error, at ml-10m's size.

    Its own epoch is timed as fit(2) - fit(1); how many it needs is counted with the same iteration, compiled.
    """
    try:
        import pandas as pd  # noqa: PLC0415 - only where it is installed
        from surprise import SVD, Dataset, Reader  # noqa: PLC0415 - only where it is installed
    except ImportError:
        print("scikit-surprise is not installed: left out")
        return []
    train, test = planted_ratings("ml-10m", seed=0).split(0.1, seed=0)
    ours, _ = own_large(train, test)
    rows, items = train.users.astype(np.int64), train.items.astype(np.int32)
    order = np.argsort(rows, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows))])
    mean = float(np.mean(train.values, dtype=np.float64))
    state = surprise_sgd.begin(len(starts) - 1, int(items.max()) + 1, WIDTH, implicit=False)
    values, errors = train.values[order].astype(np.float64) - mean, []
    for _ in range(60):
        surprise_sgd.advance(state, starts, items[order], values, 1, 0.01, 0.06, implicit=False)
        # ids of the test set without training ratings keep zero biases and small random factors
        errors.append(rmse(test, mean, state[:4], test.users.astype(np.int64), test.items.astype(np.int64)))
    print("surprise, ml-10m size:", [round(error, 4) for error in errors], flush=True)
    frame = pd.DataFrame({"u": train.users, "i": train.items, "r": train.values.astype(np.float64)})
    trainset = Dataset.load_from_df(frame, Reader(rating_scale=(-5, 12))).build_full_trainset()
    once, twice = (
        cpu(lambda n=n: SVD(WIDTH, n, lr_all=0.01, reg_all=0.06, random_state=0).fit(trainset)) for n in (1, 2)
    )
    needed = next(number for number, error in enumerate(errors, 1) if error <= min(errors) + 5e-4)
    theirs = [(needed * (twice - once), errors[needed - 1])]
    found = to_error("to the RMSE of surprise SVD, ml-10m size", ours, theirs)
    return [replace(found, note=f"{needed} epochs of {twice - once:.1f} s, reading left out; ours with reading")]


def against_sgd() -> list[Row]:
    """Dropout SGD as tuned for this size (rate 10, start 0.1, batch 2000), width 30, drop 0.6, 60 epochs."""
    train = planted_ratings("ml-1m", seed=0).split(0.1, seed=0)[0]
    options = {"width": 30, "drop": 0.6, "biases": False}
    begin = time.process_time()
    sgd = DropoutCompletion(**options, solver="sgd", step_size=10.0, sweeps=60, init_scale=0.1).fit(train)
    whole = time.process_time() - begin
    target = sgd.objective_
    data = observations(train)
    strengths = Strengths(30, empirical=1.5)
    checks = cpu(lambda: objective(data, start(data, strengths), strengths)) * len(sgd.history_)
    begin = time.process_time()
    data = observations(train)
    sides = start(data, strengths)
    value, count = np.inf, 0
    while value > target:
        value = sweep(data, sides, strengths, 3)
        count += 1
    ours = time.process_time() - begin
    theirs = whole - checks
    note = f"objective {value:.4f} after {count} sweeps against {target:.4f}"
    return [Row("to dropout SGD's objective, ml-1m size, width 30", ours, theirs, theirs / ours, note)]


PARTS = {
    "sweeps": partial(per_sweep, exact=False),
    "exact": partial(per_sweep, exact=True),
    "error": to_equal_error,
    "large": large,
    "surprise": large_surprise,
    "sgd": against_sgd,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    chosen = parser.parse_args().parts
    kept = RESULTS / "recommenders.json"
    old = json.loads(kept.read_text(encoding="utf-8"))["rows"] if kept.exists() else []
    rows = [Row(**row) for row in old]
    for part in chosen:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fresh = PARTS[part]()
        print(part, [asdict(row) for row in fresh], flush=True)
        names = {row.workload for row in fresh}
        rows = [row for row in rows if row.workload not in names] + fresh
        report("recommenders", rows)


if __name__ == "__main__":
    main()
