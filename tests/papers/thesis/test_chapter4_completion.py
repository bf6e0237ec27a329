"""The thesis' completion table and curves, on planted ratings and on MovieLens 100K."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from droptics.datasets import planted_ratings
from droptics.papers.thesis import chapter4_completion as chapter
from droptics.papers.thesis import chapter4_figures as figures
from droptics.recommenders.ratings import observations

REAL = os.environ.get("DROPTICS_DATA")


def table_rows(curves: list[dict]) -> list[dict]:
    """thesis-tab4-1 from the rows of all curves: last and best iterate of plain SGD, last of each other method.

    The best iterate is chosen on the test set, the privilege the thesis gives to plain SGD. Where the width and rate
    are in the printed table, the printed number stands beside (it was measured on MovieLens 10M).
    """
    table: list[dict] = []
    keys = dict.fromkeys((row["set"], row["method"], row["width"], row["drop"], row["seed"]) for row in curves)
    for key in keys:
        mine = [row for row in curves if tuple(row[name] for name in ("set", "method", "width", "drop", "seed")) == key]
        last, best = max(mine, key=lambda row: row["epoch"]), min(mine, key=lambda row: row["test_rmse"])
        names = dict(zip(("set", "method", "width", "drop", "seed"), key, strict=True))
        kinds = (("last", last), ("best", best)) if key[1] == "plain SGD" else (("last", last),)
        for iterate, row in kinds:
            printed = chapter.printed_value(str(key[1]), int(key[2]), float(key[3]), iterate)
            line = {**names, "iterate": iterate, "train_rmse": row["train_rmse"], "test_rmse": row["test_rmse"]}
            table.append({**line, "seconds": row["seconds"], "printed": printed})
    return table


def best_strengths(table: list[dict], method: str) -> dict[int, float]:
    """For every width the strength lam / width of the rate with the least test error; nearly constant in the width."""
    best: dict[int, dict] = {}
    for row in table:
        if row["method"] == method and row["drop"] > 0:
            width = int(row["width"])
            if width not in best or row["test_rmse"] < best[width]["test_rmse"]:
                best[width] = row
    return {width: row["drop"] / (1 - row["drop"]) / width for width, row in best.items()}


@pytest.fixture(scope="module")
def split():
    return planted_ratings((150, 100, 4000), rank=2, noise=0.5, seed=3).split(0.1, seed=0)


@pytest.fixture(scope="module")
def curves(split):
    options = {"epochs": 40, "rate": 2.0, "batch": 200, "seed": 0}
    return [row for drop in (0.0, 0.2, 0.5) for row in chapter.sgd_rows(*split, 20, drop, **options)]


def test_curves_show_what_the_figure_shows(curves):
    last = {row["drop"]: row for row in curves if row["epoch"] == 40}
    assert len(curves) == 120
    gaps = [last[drop]["gap"] for drop in (0.0, 0.2, 0.5)]
    errors = [last[drop]["train_rmse"] for drop in (0.0, 0.2, 0.5)]
    assert gaps == sorted(gaps, reverse=True)
    assert errors == sorted(errors)


def test_table_has_last_and_best(curves, split):
    als = chapter.als_rows(*split, 20, None, biases=True, penalty="expected", sweeps=10, seed=0)
    table = table_rows([*curves, *als])
    kinds = [(row["method"], row["drop"], row["iterate"]) for row in table[:4]]
    assert kinds == [
        ("plain SGD", 0.0, "last"),
        ("plain SGD", 0.0, "best"),
        ("dropout SGD", 0.2, "last"),
        ("dropout SGD", 0.5, "last"),
    ]
    assert table[1]["test_rmse"] <= table[0]["test_rmse"]
    assert table[-1]["method"] == "ALS with biases"
    assert table[-1]["test_rmse"] < table[1]["test_rmse"]


def test_rows_are_a_function_of_the_seed(split):
    options = {"epochs": 2, "rate": 1.0, "batch": 500}
    one, same, other = (chapter.sgd_rows(*split, 5, 0.3, seed=seed, **options) for seed in (1, 1, 2))
    for row in (*one, *same, *other):
        row.pop("seconds")
    assert one == same
    assert one != other


def test_runs_side_by_side_are_runs_of_their_own(split):
    """Without masks and with all ratings in a batch, every run is gradient descent from its own start."""
    train, test = split
    runs, width, rate, epochs = 3, 4, 5.0, 6
    rows = chapter.sgd_rows(train, test, width, 0.0, epochs=epochs, rate=rate, batch=10**6, seed=7, runs=runs)
    data = observations(train)
    users, items, mean = data.users(train.users), data.items(train.items), float(np.mean(train.values))
    at = data.users(test.users), data.items(test.items)
    known = (at[0] >= 0) & (at[1] >= 0)
    generator = torch.Generator().manual_seed(7)
    left, right = (
        np.sqrt(2 / width) * torch.randn(runs * count, width, generator=generator).double().numpy()
        for count in (len(data.users), len(data.items))
    )
    errors = np.zeros((epochs, runs, 2))
    for run in range(runs):
        U, V = (side.reshape(runs, -1, width)[run].copy() for side in (left, right))
        for epoch in range(epochs):
            wrong = np.einsum("nk,nk->n", U[users], V[items]) - (train.values - mean)
            down, across = np.zeros_like(U), np.zeros_like(V)
            np.add.at(down, users, wrong[:, None] * V[items])
            np.add.at(across, items, wrong[:, None] * U[users])
            U, V = U - 2 * rate / len(wrong) * down, V - 2 * rate / len(wrong) * across
            wrong = np.einsum("nk,nk->n", U[users], V[items]) - (train.values - mean)
            predicted = np.full(len(test), mean)
            predicted[known] += np.einsum("nk,nk->n", U[at[0][known]], V[at[1][known]])
            tested = np.sqrt(np.mean((predicted - test.values) ** 2))
            errors[epoch, run] = np.sqrt(np.mean(wrong**2)), tested
    best = np.minimum.accumulate(errors[..., 1])
    for row, (trains, tests), least in zip(rows, errors.transpose(0, 2, 1), best, strict=True):
        parts = {"train": trains, "test": tests, "best": least, "gap": tests - trains}
        for name, each in parts.items():
            # single precision in some hundred sums of thousands of products
            assert row["gap" if name == "gap" else f"{name}_rmse"] == pytest.approx(each.mean(), abs=1e-4)
            assert row[f"{name}_sd"] == pytest.approx(each.std(ddof=1), abs=1e-4)


def test_comparisons_say_by_how_much_means_differ_and_how_well_it_is_known():
    """Ten runs: the quantile of Student's law with nine degrees of freedom is 2.262."""
    rows = [
        {"method": "plain SGD", "width": 5, "test_rmse": 0.9, "test_sd": 0.03, "runs": 10},
        {"method": "dropout SGD", "width": 5, "test_rmse": 0.8, "test_sd": 0.04, "runs": 10},
    ]
    one, other = ({"width": 5, "method": name} for name in ("dropout SGD", "plain SGD"))
    assert figures._apart(rows, "test_rmse", one, other) == " (difference -0.1000 +- 0.0358, 10 runs)"
    bare = [{name: value for name, value in row.items() if name != "test_sd"} for row in rows]
    assert figures._apart(bare, "test_rmse", one, other) == ""


def test_printed_table_says_what_the_text_says():
    rows = chapter.printed_rows()
    assert len(rows) == 30
    for width in chapter.WIDTHS:
        best = min(chapter.PRINTED_DROPOUT[width])
        assert chapter.PRINTED_BEST[width] - best > 0.01
    strengths = best_strengths(rows, "dropout SGD")
    assert list(strengths) == list(chapter.WIDTHS)
    assert max(strengths.values()) / min(strengths.values()) < 1.8
    assert (
        table_rows(
            [
                {
                    "set": "",
                    "method": "dropout SGD",
                    "width": 70,
                    "drop": 0.3,
                    "seed": 0,
                    "epoch": 1,
                    "train_rmse": 1.0,
                    "test_rmse": 1.0,
                    "seconds": 0.0,
                }
            ]
        )[0]["printed"]
        == 0.7763
    )


def test_scale_chooses_the_set(tmp_path):
    assert chapter.available_set("smoke", tmp_path) == "ml-100k"
    assert chapter.available_set("paper", tmp_path) == "ml-1m"
    folder = tmp_path / "ml-10M100K"
    folder.mkdir()
    (folder / "ratings.dat").write_text("1::2::3::4\n")
    assert chapter.available_set("paper", tmp_path) == "ml-10m"
    with pytest.raises(ValueError, match="scale"):
        chapter.available_set("tiny")


@pytest.mark.slow
@pytest.mark.skipif(not REAL or not Path(REAL, "movielens").is_dir(), reason="DROPTICS_DATA has no MovieLens")
def test_movielens_smoke():
    curves = [row for drop in (0.0, 0.6) for row in chapter.sgd_curve("ml-100k", 10, drop, epochs=15, rate=10.0)]
    curves += chapter.als_row("ml-100k", 10, 0.6) + chapter.als_row("ml-100k", 10, None, biases=True)
    found = {(row["method"], row["iterate"]): row["test_rmse"] for row in table_rows(curves)}
    assert found["ALS with biases", "last"] < found["ALS", "last"] < found["plain SGD", "best"]
    assert np.isfinite(found["dropout SGD", "last"])


def test_the_page_shows_the_recorded_accuracies():
    root = Path(__file__).parents[3]
    recorded = json.loads((root / "benchmarks/results/recommenders_accuracy.json").read_text())
    page = (root / "docs/rooms/recommenders.md").read_text()
    assert len(recorded["summary"]) == 3 * (8 + 3)
    for row in recorded["summary"]:
        error = f"{abs(row['rmse']):.4f} ± {row['standard_error']:.4f}"
        assert error in page, row
    for settings in recorded["grids"].values():
        assert len(settings) == 16  # the same budget for every method
    for row in recorded["summary"]:  # not worse than the best alternative by more than a standard error
        if "minus" in row["method"]:
            assert row["rmse"] <= row["standard_error"]


def test_the_page_shows_the_recorded_rankings_and_stacks():
    root = Path(__file__).parents[3]
    page = (root / "docs/rooms/recommenders.md").read_text().replace("\u2212", "-")
    found = {name: json.loads((root / f"benchmarks/results/{name}.json").read_text()) for name in ("ranking", "stack")}
    rows = [row for row in found["ranking"]["rows"] if row["seed"] == "0"]
    assert len(rows) > 6
    for row in rows:
        shown = [row[name].split(" ")[0] for name in ("ndcg@20", "ndcg@100", "recall@50")]
        assert " | ".join([*shown, row["nDCG@100 above EASE"], row["CPU seconds"]]) in page, row
    for row in found["ranking"]["pooled"]:
        assert row["ndcg@100"] in page, row
    for row in found["stack"]["rows"]:
        assert f"| `{row['method']}` | {row['test RMSE']} | {row['CPU seconds']} |" in page, row
