"""Draws the figures of bounds.md into images/: `python docs/bounds_figures.py` (two minutes on one core).

The sub-network figure reads the rows in benchmarks/results/subnetworks_gpu.json; the co-adaptation figure needs MNIST
and keeps its old picture where that is absent.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from pathlib import Path

import torch

from droptics import bounds
from droptics.coadaptation import retentivity
from droptics.data import Sample
from droptics.datasets import DatasetMissing
from droptics.heads.projection import variable_projection
from droptics.masks import Bernoulli
from droptics.papers.thesis.chapter4_experiments import coadaptation_cell
from droptics.plots import Panel, as_png, panels

HERE = Path(__file__).parent


def save(name: str, *items: Panel) -> None:
    folder = HERE / "images"
    folder.mkdir(exist_ok=True)
    (folder / f"bounds-{name}.png").write_bytes(as_png(panels(items), dots=90))


def randn(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def completion() -> None:
    counts = [10 ** (4 + i / 4) for i in range(25)]
    series = {}
    for name, shape in {"943 x 1682": (1682, 943), "6040 x 3706": (6040, 3706)}.items():
        values = [bounds.completion(alpha=1.0, shape=shape, examples=int(n)).value for n in counts]
        series[name] = (counts, values)
    levels = {"largest loss": 4.0, "constant predictor": 0.28}
    save("completion", Panel("Matrix completion, alpha = 1", "ratings", "bound on the gap", series, levels, "xy"))


def rademacher() -> None:
    counts = [10, 20, 40, 80, 160, 320]
    curves: dict[str, list[float]] = defaultdict(list)
    for n in counts:
        data = Sample(randn(n, 2, seed=n).exp() - 1, torch.ones(n, 1).double())
        curves["lower"].append(bounds.rademacher(data=data, alpha=1.0, side="lower").value)
        curves["measured"].append(float(bounds.measured_rademacher(data, draws=300)))
        beta = max(retentivity(data).value, 1e-6)
        curves["upper"].append(min(bounds.rademacher(data=data, alpha=1.0, retentivity=beta).value, 1e3))
    series = {name: (counts, values) for name, values in curves.items()}
    save("rademacher", Panel("Complexity, skewed data in the plane", "examples", "complexity", series, log="xy"))


def sample_retentivity() -> None:
    ratios = [1, 2, 4, 8, 16, 32, 64, 128]
    series = {}
    for d in (3, 10, 30):
        values = [sum(retentivity(randn(r * d, d, seed=s)).value for s in range(3)) / 3 for r in ratios]
        series[f"dimension {d}"] = (ratios, values)
    levels = {"population": 0.5}
    save("retentivity", Panel("Retentivity of Gaussian samples", "examples per dimension", "beta", series, levels, "x"))


def relu() -> None:
    counts = [100, 300, 1000, 3000]
    fresh = randn(20_000, 6, seed=99)
    bound, risk = [], []
    for n in counts:
        x = randn(n, 6, seed=n)
        data = Sample(x, (x[:, 0] * x[:, 1]).sign())
        model = variable_projection(data, Bernoulli(0.5, 24), iterations=60).model
        bound.append(bounds.relu(model, data, retentivity=0.5).value)
        error = model.outputs(fresh).clamp(-1, 1)[:, 0] - (fresh[:, 0] * fresh[:, 1]).sign()
        risk.append(float(error.square().mean()))
    series = {"bound (retentivity 1/2)": (counts, bound), "risk on fresh data": (counts, risk)}
    levels = {"largest loss": 4.0}
    save("relu", Panel("Two-layer ReLU network, 24 units", "examples", "squared loss", series, levels, "xy"))


def coadaptation() -> None:
    drops = [0.0, 0.25, 0.5, 0.75]
    phi, size = {}, {}
    for width in (16, 128):
        rows = [
            [coadaptation_cell(width=width, drop=p, seed=s, epochs=15, rate=3e-3, examples=800)[0] for s in range(3)]
            for p in drops
        ]
        for name, target, key in (("trained", phi, "phi"), ("start", phi, "phi_start"), ("trained", size, "alpha")):
            means = [sum(row[key] for row in group) / 3 for group in rows]
            target[f"{name}, width {width}"] = (drops, means)
    left = Panel("Equality of flows, MNIST 4/7, random signs", "drop", "phi", phi)
    save("coadaptation", left, Panel("Size of the network", "drop", "alpha / sqrt(n)", size))


def lazy() -> None:
    margins = [0.01 * 10 ** (i / 10) for i in range(17)]
    needed = [bounds.lazy(margin=g, steps=1000, inputs=784, drop=0.0).needed for g in margins]
    series = {"steps": (margins, [n["steps"] for n in needed]), "width": (margins, [n["width"] for n in needed])}
    save("lazy", Panel("What the lazy bound needs to say something", "margin", "amount", series, log="xy"))


def subnetworks() -> None:
    rows = json.loads((HERE.parent / "benchmarks" / "results" / "subnetworks_gpu.json").read_text(encoding="utf-8"))[
        "rows"
    ]
    by_width: dict[int, list[dict[str, float]]] = defaultdict(list)
    for row in rows:
        if row["drop"] == 0.8:
            by_width[row["width"]].append(row)
    items = []
    for width, chosen in sorted(by_width.items()):
        steps = sorted({int(row["step"]) for row in chosen})
        curves = {
            name: (steps, [_mean([row[name] for row in chosen if row["step"] == step]) for step in steps])
            for name in ("full", "visited", "unvisited")
        }
        items.append(Panel(f"width {width}, drop 0.8", "step", "test accuracy", curves, log="x"))
    save("subnetworks", *items)


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


if __name__ == "__main__":
    for draw in (completion, rademacher, sample_retentivity, relu, lazy, subnetworks):
        draw()
    try:
        coadaptation()
    except DatasetMissing as error:
        print(error)
