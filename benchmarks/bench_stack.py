"""Rating accuracy on MovieLens 1M, the 90/10 split with seed 1234 that neural autoencoders report on.

    python benchmarks/bench_stack.py [--methods ...]

Protocol. NumPy's legacy generator with seed 1234 shuffles the ratings in file order; the first tenth is the test part.
Predictions are clipped to 1..5. Every constant is a default or chosen by leave-one-out or on a split of the training
part; the fixed ridges of the stack's members follow a prototype that was looked at on this split. Seconds are CPU
seconds of one thread, choice included. Finished cells are kept and not run again.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from droptics.datasets import Ratings, movielens
from droptics.recommenders import AutoencoderCompletion, DropoutCompletion, StackedCompletion
from harness import RECORDED, RESULTS, write

NAME = "stack"
METHODS: dict[str, Callable[[], Any]] = {
    "DropoutCompletion(30)": lambda: DropoutCompletion(30, clip=True, threads=1),
    "DropoutCompletion(100)": lambda: DropoutCompletion(100, clip=True, threads=1),
    "AutoencoderCompletion()": lambda: AutoencoderCompletion(clip=True),
    "StackedCompletion()": lambda: StackedCompletion(clip=True),
    "StackedCompletion(days=True)": lambda: StackedCompletion(days=True, clip=True),
}


def split() -> tuple[Ratings, Ratings]:
    table = movielens("ml-1m")
    order = np.arange(len(table))
    np.random.RandomState(1234).shuffle(order)  # the split that published numbers are on
    cut = int(0.1 * len(table))
    return table.take(order[cut:]), table.take(order[:cut])


def run(method: str) -> dict[str, Any]:
    train, test = split()
    begin = time.process_time()
    model = METHODS[method]().fit(train)
    seconds = time.process_time() - begin
    errors = model.evaluate(test, unknown="ignore")
    facts = {
        name: getattr(model, name)
        for name in ("drop_", "ridge_", "implicit_", "holdout_rmse_", "day_ridge_")
        if hasattr(model, name)
    }
    if hasattr(model, "weights_"):
        facts["weights_"] = model.weights_.tolist()
    where = platform.machine()
    return {
        "method": method,
        "machine": where,
        "rmse": errors.rmse,
        "mae": errors.mae,
        "seconds": seconds,
        "facts": facts,
    }


def row(cell: dict[str, Any]) -> dict[str, str]:
    """One line of the table on the benchmark page."""
    return {
        "method": cell["method"],
        "test RMSE": f"{cell['rmse']:.4f}",
        "test MAE": f"{cell['mae']:.4f}",
        "CPU seconds": f"{cell['seconds']:.0f} ({cell['machine']})",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    path = next((folder / f"{NAME}.json" for folder in (RESULTS, RECORDED) if (folder / f"{NAME}.json").exists()), None)
    cells = [] if path is None else json.loads(path.read_text(encoding="utf-8"))["cells"]
    for method in parser.parse_args().methods:
        if not any(cell["method"] == method for cell in cells):
            cells.append(run(method))
        write(NAME, {"protocol": __doc__, "rows": [row(cell) for cell in cells], "cells": cells})
    for cell in cells:
        print(*row(cell).values(), cell["facts"], sep="  ")


if __name__ == "__main__":
    main()
