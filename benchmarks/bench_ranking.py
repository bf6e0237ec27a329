"""Ranking for users a model never saw: MovieLens 1M, strong generalization, every method by one protocol.

    python benchmarks/bench_ranking.py [--methods ...] [--seeds 0]

Protocol. Ratings of at least 4 are interactions. 1,000 users are held out for the test, then 500 for validation
(`hold_out_users`, same seed); all others are for training. Of a held-out user 80 % of the interactions are known, the
rest is to be found among all items she has not seen. EASE takes its ridge by nDCG@100 on the validation users, the best
of five, and so do the methods of implicit and irspack, the best of sixteen (width 128 where there is one). Methods with
no option set choose for themselves from the training users and never see the validation users (the default rate of
`ImplicitDropoutCompletion` was read off the validation users of seed 0; that the diagonal is chosen, too, was decided
on the validation users of seed 3, after seed 0 had been seen).
Errors are standard errors over the test users; `above EASE` is the mean paired difference with its own. Seconds are CPU
seconds of one thread, choice included.

Needs the data (DROPTICS_DATA), and implicit and irspack for their rows. Finished cells are kept in the result file and
not run again.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import lru_cache
from itertools import product
from multiprocessing import get_context
from typing import Any

import numpy as np

from droptics.datasets import movielens
from droptics.recommenders import (
    DropoutAutoencoder,
    HeldOutUsers,
    ImplicitDropoutCompletion,
    Ranking,
    StackedRanker,
    UnknownIds,
    hold_out_users,
    ranking,
)
from droptics.recommenders.interactions import as_matrix
from harness import RECORDED, RESULTS, write

NAME = "ranking"
AT = (20, 50, 100)
RIDGES = (125.0, 250.0, 500.0, 1000.0, 2000.0)
SHOWN = ("ndcg@20", "ndcg@100", "recall@20", "recall@50")
Found = tuple[Ranking, dict[str, Any]]


@lru_cache(maxsize=1)
def split(seed: int) -> tuple[HeldOutUsers, HeldOutUsers]:
    """Validation split (its `train` is everybody's training part) and test split."""
    table = movielens("ml-1m")
    liked = table.take(np.flatnonzero(table.values >= 4))
    users = len(np.unique(liked.users))
    test = hold_out_users(liked, 1000 / users, seed=seed)
    return hold_out_users(test.train, 500 / (users - 1000), seed=seed), test


def autoencoder(seed: int, **options: Any) -> Found:
    validation, test = split(seed)
    model = DropoutAutoencoder(**options).fit(validation.train)
    facts = {"drop": model.drop_, "ridge": model.ridge_, "diagonal": model.diagonal_, "points": len(model.points_)}
    return model.evaluate(test.known, test.hidden, AT), facts


def implicit(seed: int) -> Found:
    validation, test = split(seed)
    model = ImplicitDropoutCompletion().fit(validation.train)
    return model.evaluate(test.known, test.hidden, AT), {"drop": model.drop_}


def stacked(seed: int) -> Found:
    validation, test = split(seed)
    return StackedRanker().fit(validation.train).evaluate(test.known, test.hidden, AT), {}


def ease(seed: int) -> Found:
    validation, test = split(seed)
    best: tuple[float, Any] = (-1.0, None)
    for ridge in RIDGES:
        model = DropoutAutoencoder(0.0, ridge).fit(validation.train)
        value = model.evaluate(validation.known, validation.hidden, AT).ndcg[100].value
        best = max(best, (value, model), key=lambda pair: pair[0])
    return best[1].evaluate(test.known, test.hidden, AT), {"ridge": best[1].ridge_}


def tuned(seed: int, grid: list[dict[str, float]], fit: Callable[..., Callable[[Any], np.ndarray]]) -> Found:
    """Another library's model by the same protocol; `fit` makes a function that scores rows of new users."""
    validation, test = split(seed)
    tables = DropoutAutoencoder(0.0, 500.0).fit(validation.train)  # numbers the items and makes the matrices
    rows = as_matrix(tables._rows, len(tables.item_ids_)).astype(np.float32)
    best: tuple[float, Any] = (-1.0, None)
    for setting in grid:
        score = fit(rows, **setting)
        found = judged(tables, score, validation)
        best = max(best, (found.ndcg[100].value, (score, setting)), key=lambda pair: pair[0])
    score, setting = best[1]
    return judged(tables, score, test), setting


def judged(tables: DropoutAutoencoder, score: Callable[[Any], np.ndarray], held: HeldOutUsers) -> Ranking:
    ids, known = tables._matrix(held.known)
    _, relevant = tables._matrix(held.hidden, ids)
    return ranking(score(known.astype(np.float32)), known, relevant, AT)


def implicit_als(rows: Any, alpha: float, regularization: float) -> Callable[[Any], np.ndarray]:
    from implicit.cpu.als import AlternatingLeastSquares  # noqa: PLC0415 - only for this method

    model = AlternatingLeastSquares(128, regularization, alpha, num_threads=1, random_state=0)
    model.fit(rows, show_progress=False)
    return lambda known: model.recalculate_user(np.arange(known.shape[0]), known) @ model.item_factors.T


def irspack_ials(rows: Any, alpha0: float, reg: float) -> Callable[[Any], np.ndarray]:
    from irspack import IALSRecommender  # noqa: PLC0415 - only for this method

    model = IALSRecommender(rows, n_components=128, alpha0=alpha0, reg=reg, n_threads=1).learn()
    return lambda known: np.asarray(model.get_score_cold_user(known))


def irspack_rp3beta(rows: Any, alpha: float, beta: float) -> Callable[[Any], np.ndarray]:
    from irspack import RP3betaRecommender  # noqa: PLC0415 - only for this method

    model = RP3betaRecommender(rows, alpha=alpha, beta=beta, n_threads=1).learn()
    return lambda known: np.asarray(model.get_score_cold_user(known))


def crossed(**axes: tuple[float, ...]) -> list[dict[str, float]]:
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]


def popularity(seed: int) -> Found:
    validation, test = split(seed)
    model = DropoutAutoencoder(0.0, 500.0).fit(validation.train)
    return model.evaluate_popularity(test.known, test.hidden, AT), {}


METHODS: dict[str, Callable[[int], Found]] = {
    "popularity": popularity,
    "EASE, tuned on validation users": ease,
    "DropoutAutoencoder()": autoencoder,
    'DropoutAutoencoder(diagonal="zero")': lambda seed: autoencoder(seed, diagonal="zero"),
    'DropoutAutoencoder(diagonal="free")': lambda seed: autoencoder(seed, diagonal="free"),
    "ImplicitDropoutCompletion()": implicit,
    "StackedRanker()": stacked,
    "implicit ALS, tuned": lambda seed: tuned(
        seed, crossed(alpha=(2.5, 5.0, 10.0, 20.0), regularization=(20.0, 40.0, 80.0, 160.0)), implicit_als
    ),
    "irspack iALS++, tuned": lambda seed: tuned(
        seed, crossed(alpha0=(0.03, 0.1, 0.3, 1.0), reg=(0.001, 0.003, 0.01, 0.03)), irspack_ials
    ),
    "irspack RP3beta, tuned": lambda seed: tuned(
        seed, crossed(alpha=(0.2, 0.4, 0.7, 1.0), beta=(0.4, 0.6, 0.8, 1.0)), irspack_rp3beta
    ),
}


def run(method: str, seed: int) -> dict[str, Any]:
    split(seed)
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnknownIds)
        found, facts = METHODS[method](seed)
    means = {name: summary(found.users[name]) for name in SHOWN}
    users = " ".join(f"{value:.6f}" for value in found.users["ndcg@100"])  # for paired differences
    seconds = time.process_time() - begin
    machine = platform.machine()
    return {
        "method": method,
        "seed": seed,
        "machine": machine,
        "seconds": seconds,
        "facts": facts,
        **means,
        "users": users,
    }


def table(cells: list[dict[str, Any]]) -> list[dict[str, str]]:
    """The table on the benchmark page: means with standard errors, and paired differences to EASE."""
    rows = []
    for cell in cells:
        shown = {"method": cell["method"], "seed": str(cell["seed"])}
        shown |= {name: "{:.4f} ± {:.4f}".format(*cell[name]) for name in SHOWN}
        for other in cells:
            if other["method"].startswith("EASE") and other["seed"] == cell["seed"] and other is not cell:
                mine, theirs = (np.array(one["users"].split(), float) for one in (cell, other))
                shown["nDCG@100 above EASE"] = "{:+.4f} ± {:.4f}".format(*summary(mine - theirs))
        facts = ", ".join(
            f"{name} {value if isinstance(value, str) else f'{value:.3g}'}" for name, value in cell["facts"].items()
        )
        rows.append(
            {
                "nDCG@100 above EASE": "",
                **shown,
                "CPU seconds": f"{cell['seconds']:.0f} ({cell['machine']})",
                "setting": facts,
            }
        )
    return rows


def pooled(cells: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Over all seeds that a method and EASE were run on: mean nDCG@100, and its paired difference to EASE.

    Errors are standard errors over the seeds, each a new split; users occur in several of them.
    """
    rows = []
    baseline = {cell["seed"]: cell for cell in cells if cell["method"].startswith("EASE")}
    for method in METHODS:
        mine = [cell for cell in cells if cell["method"] == method and cell["seed"] in baseline]
        if len(mine) > 2:
            levels = np.array([cell["ndcg@100"][0] for cell in mine])
            gaps = levels - [baseline[cell["seed"]]["ndcg@100"][0] for cell in mine]
            shown = {"method": method, "seeds": str(len(mine)), "ndcg@100": "{:.4f} ± {:.4f}".format(*summary(levels))}
            rows.append({**shown, "nDCG@100 above EASE": "{:+.4f} ± {:.4f}".format(*summary(gaps))})
    return rows


def summary(values: np.ndarray) -> list[float]:
    return [float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))]


def known() -> dict[tuple[str, int], dict[str, Any]]:
    """Finished cells."""
    path = next((folder / f"{NAME}.json" for folder in (RESULTS, RECORDED) if (folder / f"{NAME}.json").exists()), None)
    cells = [] if path is None else json.loads(path.read_text(encoding="utf-8"))["cells"]
    return {(cell["method"], cell["seed"]): cell for cell in cells}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    wanted = [(method, seed) for seed in options.seeds for method in options.methods if (method, seed) not in known()]
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
        for done in as_completed([pool.submit(run, *key) for key in wanted]):
            if done.exception() is not None:
                print("not measured:", repr(done.exception()), flush=True)
                continue
            found = known() | {(done.result()["method"], done.result()["seed"]): done.result()}
            cells = sorted(found.values(), key=lambda cell: (cell["seed"], list(METHODS).index(cell["method"])))
            write(NAME, {"protocol": __doc__, "rows": table(cells), "pooled": pooled(cells), "cells": cells})
    cells = list(known().values())
    for row in table(cells) + pooled(cells):
        print(*row.values(), sep="  ")


if __name__ == "__main__":
    main()
