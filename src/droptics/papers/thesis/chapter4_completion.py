"""Chapter 4's matrix completion experiments (thesis-tab4-1, thesis-fig4-1): plain and dropout SGD, and our ALS beside.

Every function is a pure function of its arguments and seed and returns plain rows. Runs go side by side, as one problem
with as many blocks, whose batches hold as many ratings of each. The thesis uses MovieLens 10M, He
initialization, 100 epochs, batch 2000 and learning rate 1; on the smaller sets that rate is too small, because the
step per rating is 2 rate / batch and they get 10 to 100 times fewer of them: use 10 there.
"""

from __future__ import annotations

import math
import os
import time
from typing import Any

import numpy as np
import torch

from droptics.datasets import DatasetMissing, Ratings, movielens
from droptics.recommenders import DropoutCompletion, default_drop
from droptics.recommenders.alternation import Strengths
from droptics.recommenders.ratings import observations
from droptics.recommenders.sgd import CHUNK, Sgd, step, triples

Row = dict[str, Any]
Folder = str | os.PathLike[str]

WIDTHS = (30, 70, 110, 150, 190)
DROPS = (0.1, 0.2, 0.3, 0.4)
PRINTED_LAST = {30: 0.8041, 70: 0.8315, 110: 0.8431, 150: 0.8472, 190: 0.8473}
PRINTED_BEST = {30: 0.7938, 70: 0.7897, 110: 0.7873, 150: 0.7858, 190: 0.7844}
PRINTED_DROPOUT = {
    30: (0.7805, 0.785, 0.7991, 0.8186),
    70: (0.7899, 0.7771, 0.7763, 0.7833),
    110: (0.7988, 0.7813, 0.7742, 0.7743),
    150: (0.8042, 0.7852, 0.7756, 0.7722),
    190: (0.8069, 0.7879, 0.7772, 0.772),
}
"""Test RMSE printed in the table, by width; dropout in the order of DROPS."""


def available_set(scale: str, folder: Folder | None = None) -> str:
    """The set a scale runs on: "smoke" ml-100k; "paper" ml-10m where the user has it and ml-1m otherwise."""
    if scale not in ("smoke", "paper"):
        raise ValueError(f'scale must be "smoke" or "paper", got {scale!r}')
    names = ("ml-100k",) if scale == "smoke" else ("ml-10m", "ml-1m")
    for name in names[:-1]:
        try:
            movielens(name, folder)
        except DatasetMissing:
            continue
        return name
    return names[-1]


def sgd_curve(  # parameters: columns of the table
    name: str,
    width: int,
    drop: float,
    *,
    epochs: int = 100,
    rate: float = 1.0,
    batch: int = 2000,
    seed: int = 0,
    runs: int = 1,
    holdout: float = 0.1,
    folder: Folder | None = None,
    device: str | None = None,
) -> list[Row]:
    """One curve of thesis-fig4-1: training and test RMSE and their gap after every epoch of (dropout) SGD.

    Ratings are centered by the training mean; there are no biases, as in the thesis. Means over `runs`, which differ
    in starts, orders and masks. Runs on a CUDA device where there is one (its random numbers are others) unless
    `device` says where.
    """
    train, test = movielens(name, folder).split(holdout, seed)
    if device is None and torch.cuda.is_available():
        device = "cuda"
    options: dict[str, Any] = {"epochs": epochs, "rate": rate, "batch": batch, "seed": seed, "runs": runs}
    return sgd_rows(train, test, width, drop, device=device, name=name, **options)


def sgd_rows(  # parameters: columns of the table
    train: Ratings,
    test: Ratings,
    width: int,
    drop: float,
    *,
    epochs: int,
    rate: float,
    batch: int,
    seed: int,
    runs: int = 1,
    device: str | None = None,
    name: str = "",
) -> list[Row]:
    """The rows of `sgd_curve` for given ratings; `best_rmse` is the least test error of a run so far.

    With several runs, their deviations stand beside: `train_sd`, `test_sd`, `gap_sd`, `best_sd`.
    """
    data, place = observations(train), torch.device(device or "cpu")
    generator = torch.Generator(place).manual_seed(seed)
    rows, columns, values = triples(data, place)
    counts, block = (len(data.users), len(data.items)), torch.arange(runs, device=place)[:, None]
    left, right = (
        math.sqrt(2 / width) * torch.randn(runs * count, width, generator=generator, device=place) for count in counts
    )
    # the step is that of a mean over the batches of all runs
    how, strengths = Sgd(drop, epochs, runs * rate, runs * batch, seed, device), Strengths(width)
    users, items = (torch.from_numpy(ids).to(place) for ids in (data.users(test.users), data.items(test.items)))
    truth = torch.from_numpy((np.asarray(test.values) - data.mean) / data.scale).to(values)
    found: list[Row] = []
    best, begin = torch.full((runs,), math.inf, dtype=torch.float64), time.perf_counter()
    for epoch in range(1, epochs + 1):
        order = torch.rand(runs, data.count, generator=generator, device=place).argsort(1)
        for part in order.split(batch, 1):
            places = (rows[part] + counts[0] * block).flatten(), (columns[part] + counts[1] * block).flatten()
            step((left, right), (*places, values[part].flatten()), strengths, how, generator, data.count)
        sides = left.view(runs, -1, width), right.view(runs, -1, width)
        errors = data.scale * _errors(sides, (rows, columns, values))
        tests = data.scale * _errors(sides, (users, items, truth))
        best = torch.minimum(best, tests)
        line: Row = {"set": name, "method": "plain SGD" if drop == 0 else "dropout SGD", "width": width, "drop": drop}
        line |= {"epoch": epoch, "runs": runs, "seconds": time.perf_counter() - begin, "seed": seed}
        curves = {"train_rmse": errors, "test_rmse": tests, "gap": tests - errors, "best_rmse": best}
        line |= {key: float(each.mean()) for key, each in curves.items()}
        if runs > 1:
            line |= {f"{key.removesuffix('_rmse')}_sd": float(each.std()) for key, each in curves.items()}
        found.append(line)
    return found


def _errors(
    sides: tuple[torch.Tensor, torch.Tensor], ratings: tuple[torch.Tensor, torch.Tensor, torch.Tensor]
) -> torch.Tensor:
    """Root mean squared error of every run; users and items without a rating in training (-1) have the mean."""
    sums = torch.zeros(len(sides[0]), dtype=torch.float64, device=sides[0].device)
    for rows, columns, values in zip(*(part.split(CHUNK) for part in ratings), strict=True):
        known = (rows >= 0) & (columns >= 0)
        for run, (left, right) in enumerate(zip(*sides, strict=True)):
            error = (left[rows] * right[columns]).sum(1) * known - values
            sums[run] += error.double().square().sum()
    return (sums / len(ratings[2])).sqrt().cpu()


def als_row(  # parameters: columns of the table
    name: str,
    width: int,
    drop: float | None = None,
    *,
    biases: bool = False,
    penalty: str | float = "expected",
    sweeps: int = 15,
    seed: int = 0,
    holdout: float = 0.1,
    folder: Folder | None = None,
) -> list[Row]:
    """Our columns: alternating least squares for one width and rate (None: the default rate), as one row."""
    train, test = movielens(name, folder).split(holdout, seed)
    return als_rows(train, test, width, drop, biases=biases, penalty=penalty, sweeps=sweeps, seed=seed, name=name)


def als_rows(  # parameters: columns of the table
    train: Ratings,
    test: Ratings,
    width: int,
    drop: float | None,
    *,
    biases: bool,
    penalty: str | float,
    sweeps: int,
    seed: int,
    name: str = "",
) -> list[Row]:
    """The row of `als_row` for given ratings."""
    model = DropoutCompletion(width, drop, penalty, biases=biases, sweeps=sweeps, seed=seed).fit(train)
    last = model.history_[-1]
    error = model.evaluate(test, unknown="ignore").rmse
    rate = default_drop(width, len(train)) if drop is None else drop
    return [
        {
            "set": name,
            "method": "ALS with biases" if biases else "ALS",
            "width": width,
            "drop": rate,
            "epoch": last.sweep,
            "train_rmse": last.rmse,
            "test_rmse": error,
            "gap": error - last.rmse,
            "objective": last.objective,
            "seconds": last.seconds,
            "seed": seed,
        }
    ]


def printed_rows() -> list[Row]:
    """The printed table in the form of `table_rows`, so that the same summaries can be asked of it."""
    rows: list[Row] = []
    for width in WIDTHS:
        for iterate, value in (("last", PRINTED_LAST[width]), ("best", PRINTED_BEST[width])):
            rows.append({"method": "plain SGD", "width": width, "drop": 0.0, "iterate": iterate, "test_rmse": value})
        for drop, value in zip(DROPS, PRINTED_DROPOUT[width], strict=True):
            rows.append({"method": "dropout SGD", "width": width, "drop": drop, "iterate": "last", "test_rmse": value})
    return rows


def printed_value(method: str, width: int, drop: float, iterate: str) -> float | None:
    """The number of the printed table for this method, width, rate and iterate ("last" or "best"), if it has one."""
    for row in printed_rows():
        if (row["method"], row["width"], row["drop"], row["iterate"]) == (method, width, drop, iterate):
            return float(row["test_rmse"])
    return None
