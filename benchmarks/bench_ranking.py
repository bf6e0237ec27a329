"""Ranking for users a model never saw: MovieLens 1M, strong generalization, every method by one protocol.

    python benchmarks/bench_ranking.py [--methods ...] [--seeds 0]

Protocol. Ratings of at least 4 are interactions. 1,000 users are held out for the test, then 500 for validation
(`hold_out_users`, same seed); all others are for training. Of a held-out user 80 % of the interactions are known, the
rest is to be found among all items she has not seen. EASE takes its ridge by nDCG@100 on the validation users, the best
of five. Methods with no option set choose for themselves from the training users and never see the validation users
(the default rate of `ImplicitDropoutCompletion` was read off the validation users of seed 0).
Errors are standard errors over the test users; `above EASE` is the mean paired difference with its own. Seconds are CPU
seconds of one thread, choice included.

Needs the data (DROPTICS_DATA). Finished cells are kept in the result file and not run again.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from functools import lru_cache
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
)
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
    facts = {"drop": model.drop_, "ridge": model.ridge_, "points": len(model.points_)}
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


def popularity(seed: int) -> Found:
    validation, test = split(seed)
    model = DropoutAutoencoder(0.0, 500.0).fit(validation.train)
    return model.evaluate_popularity(test.known, test.hidden, AT), {}


METHODS: dict[str, Callable[[int], Found]] = {
    "popularity": popularity,
    "EASE, tuned on validation users": ease,
    "DropoutAutoencoder()": autoencoder,
    'DropoutAutoencoder(diagonal="free")': lambda seed: autoencoder(seed, diagonal="free"),
    "ImplicitDropoutCompletion()": implicit,
    "StackedRanker()": stacked,
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
    return {"method": method, "seed": seed, "seconds": seconds, "facts": facts, **means, "users": users}


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
        facts = ", ".join(f"{name} {value:.3g}" for name, value in cell["facts"].items())
        rows.append({"nDCG@100 above EASE": "", **shown, "CPU seconds": f"{cell['seconds']:.0f}", "setting": facts})
    return rows


def summary(values: np.ndarray) -> list[float]:
    return [float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    options = parser.parse_args()
    path = next((folder / f"{NAME}.json" for folder in (RESULTS, RECORDED) if (folder / f"{NAME}.json").exists()), None)
    cells = [] if path is None else json.loads(path.read_text())["cells"]
    for seed in options.seeds:
        for method in options.methods:
            if not any(cell["method"] == method and cell["seed"] == seed for cell in cells):
                cells.append(run(method, seed))
                write(NAME, {"protocol": __doc__, "rows": table(cells), "cells": cells})
    for row in table(cells):
        print(*row.values(), sep="  ")


if __name__ == "__main__":
    main()
