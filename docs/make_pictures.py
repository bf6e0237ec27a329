"""Draws the pictures of the pages under rooms/ into images/: `python docs/make_pictures.py` (a minute on one core).

With names of figures, such as `thesis-fig3-2`, it draws these again instead, from the tables in results/. Those of
mianjy2018-fig1 and thesis-fig2-1 lack the grids, which are left out for their size.
"""

from __future__ import annotations

import ast
import csv
import io
import math
import sys
from pathlib import Path

import torch
from PIL import Image
from sklearn.datasets import load_digits
from torch import nn

from droptics import datasets, landscapes
from droptics.attacks import Fgsm, Margin, Pgd, Reflected, Threat, robustness_curve
from droptics.data import Moments, Sample
from droptics.layers import realized_rates
from droptics.losses import CrossEntropy
from droptics.masks import Bernoulli, Block, SlidingBlock
from droptics.models import ReLUNet, TwoLayerLinear
from droptics.optima import certify, optimum
from droptics.papers import figures
from droptics.penalties import penalty
from droptics.plots import Panel, as_png, bars, landscape, lines, panels
from droptics.predictions import predictive
from droptics.recommenders import DropoutAutoencoder, DropoutCompletionCV, against_popularity, hold_out_users
from droptics.training import Dropout, Inverse, Penalized, Plain, log_steps, train
from droptics.training.records import Recording

IMAGES = Path(__file__).parent / "images"
RATES = [i / 50 for i in range(1, 46)]


def save(name: str, figure) -> None:
    write(IMAGES / f"{name}.png", as_png(figure, dots=90))


def write(path: Path, png: bytes, width: int = 760) -> None:
    """Write a picture at most `width` pixels wide with a palette, a fraction of the bytes."""
    image = Image.open(io.BytesIO(png)).convert("RGB")
    if image.width > width:
        image = image.resize((width, image.height * width // image.width), Image.Resampling.LANCZOS)
    image.quantize(128, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(path, optimize=True)


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def diagonal(*values: float) -> Moments:
    return Moments.of_map(torch.diag(torch.tensor(values, dtype=torch.float64)))


def penalties() -> None:
    data = Moments.of_map(torch.ones(3, 5).double())
    shared = randn(5, 1)
    network = TwoLayerLinear(torch.ones(3, 12).double() / 4, shared + randn(5, 12, seed=1) / 2)
    laws = {
        "independent units": lambda drop: Bernoulli(drop, 12),
        "blocks of 3, grid": lambda drop: Block(drop, 12, 3),
        "blocks of 3, sliding": lambda drop: SlidingBlock.matching(drop, 12, 3),
    }
    series = {name: [float(penalty(network, data, law(drop))) for drop in RATES] for name, law in laws.items()}
    save("penalties", lines(RATES, series, xlabel="drop", ylabel="penalty", log="y"))


def optima() -> None:
    data = diagonal(3.0, 2.0, 1.0)
    rows = [torch.linalg.svdvals(optimum(TwoLayerLinear, data, Bernoulli(d, 4)).model.matrix()) for d in RATES]
    series = {f"singular value {s}": [float(row[i]) for row in rows] for i, s in enumerate((3, 2, 1))}
    save("optima", lines(RATES, series, xlabel="drop", ylabel="singular values of the optimum, width 4"))


def predicted() -> None:
    """The README's picture: algebra beside networks that were trained with dropout."""
    data = diagonal(3.0, 2.0, 1.0)
    found = [optimum(TwoLayerLinear, data, Bernoulli(drop, 4)) for drop in RATES]
    spectra = [torch.linalg.svdvals(best.model.matrix()) for best in found]
    curves = {f"singular value {s}": (RATES, [float(v[i]) for v in spectra]) for i, s in enumerate((3, 2, 1))}
    rates = (0.1, 0.3, 0.5, 0.7, 0.85)
    start = TwoLayerLinear(randn(3, 4) / 2, randn(3, 4, seed=1) / 2)
    # the published algorithm: one fresh example a step, compiled
    sampled = {
        "batch_size": 1,
        "convention": "mianjy2018",
        "schedule": Inverse(5000),
        "record": Recording(("objective",), at=()),
    }
    runs = [train(start, data, Dropout(Bernoulli(d, 4)), steps=100_000, step_size=0.01, **sampled) for d in rates]
    spread = [torch.linalg.svdvals(run.model.matrix()) for run in runs]
    dots = {"trained with dropout": (rates * 3, [float(value[i]) for i in range(3) for value in spread])}
    left = Panel("What dropout learns", "drop", "singular values of the map", curves, marks=dots)
    values = {"optimum, by algebra": (RATES, [best.objective for best in found])}
    reached = {
        "trained with dropout": (
            rates,
            [certify(r.model, data, Bernoulli(d, 4)).objective for r, d in zip(runs, rates, strict=True)],
        )
    }
    right = Panel("What it costs", "drop", "expected loss under dropout", values, marks=reached)
    save("predicted", panels([left, right]))


def landscapes_picture() -> None:
    found = landscapes.portrait(diagonal(1.0), Bernoulli(0.5, 2), extent=1.8, steps=400)
    runs = [[(float(u), float(v)) for u, v in run] for run in found.trajectories]
    save("landscapes", landscape(found.axis.tolist(), found.values.tolist(), found.points, runs))


def relu() -> None:
    network = ReLUNet([torch.ones(2, 2).double(), torch.ones(1, 2).double()])
    inputs = torch.tensor([[1.0, -1.0]]).double()
    rates = [rate for rate in RATES if rate <= 0.8]
    series = {}
    for label in (0.0, 4.0, 8.0):
        data = Sample(inputs, torch.tensor([[label]]).double())
        series[f"label {label:g}"] = [float(penalty(network, data, Bernoulli(drop, 4))) for drop in rates]
    save("relu", lines(rates, series, xlabel="drop", ylabel="penalty"))


def layers() -> None:
    rows = realized_rates(sizes=(8, 16, 32), drops=(0.1,), blocks=(7,))
    names = {"droptics": "matched", "torchvision": "torchvision", "timm": "timm", "dropblock": "dropblock"}
    groups = {name: [getattr(row, field) for row in rows] for name, field in names.items()}
    labels = [f"{row.size} x {row.size}" for row in rows]
    save("layers", bars(groups, labels, ylabel="realized rate, nominal 0.1, block 7"))


def predictions() -> None:
    torch.manual_seed(0)
    x = 4 * torch.rand(400, 1) - 2
    y = torch.sin(3 * x) + 0.1 * torch.randn(400, 1)
    layers = [nn.Linear(1, 64), nn.Tanh(), nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 1)]
    network = nn.Sequential(*layers)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    for _ in range(300):
        optimizer.zero_grad()
        (network(x) - y).square().mean().backward()
        optimizer.step()
    grid = torch.linspace(-3.5, 3.5, 120)[:, None]
    with torch.no_grad():
        exact = predictive(network, grid)
        passes = torch.stack([network.train()(grid) for _ in range(4096)])[..., 0]
    axis, mean, spread = grid[:, 0].tolist(), exact.mean.value[:, 0], 2 * exact.std[:, 0]
    few, wide = passes[:20].mean(0), 2 * passes[:20].std(0)
    bands = {
        "exact": (axis, mean.tolist(), (mean - spread).tolist(), (mean + spread).tolist()),
        "20 passes": (axis, few.tolist(), (few - wide).tolist(), (few + wide).tolist()),
    }
    counts = [2**k for k in range(2, 10)]
    variance = exact.variance.value[:, 0]
    errors = [
        float((passes.unflatten(0, (-1, count)).var(1) / variance - 1).square().mean().sqrt()) for count in counts
    ]
    items = [
        Panel("predictions, two deviations", "input", "output", bands),
        Panel("error of the variance", "passes", "relative error (rms)", {"MC dropout": (counts, errors)}, log="xy"),
    ]
    save("predictions", panels(items, columns=2))


def training() -> None:
    data, masks = diagonal(3.0, 2.0, 1.0), Bernoulli(0.5, 4)
    start = TwoLayerLinear(randn(3, 4) / 2, randn(3, 4, seed=1) / 2)
    best = optimum(TwoLayerLinear, data, masks).objective
    record = Recording(["objective"], at=log_steps(20_000, 60))
    settings = {
        "dropout, constant step": (Dropout(masks), {"batch_size": 1}),
        "dropout, step 1 / (1 + t / 500)": (Dropout(masks), {"batch_size": 1, "schedule": Inverse(500)}),
        "penalized": (Penalized(masks), {}),
    }
    series = {}
    for name, (objective, options) in settings.items():
        run = train(start, data, objective, steps=20_000, step_size=0.01, record=record, **options)
        gaps = (run.history["objective"] - best).clamp_min(1e-10)
        series[name] = (run.history["step"].clamp_min(1).tolist(), gaps.tolist())
    save("training", panels([Panel("Distance to the certified optimum", "step", "gap", series, log="xy")]))


def recommenders() -> None:
    ratings = datasets.planted_ratings((500, 300, 20_000), rank=5, seed=0)
    search = DropoutCompletionCV(widths=(5, 10, 20), seed=0, refit=False).fit(ratings)
    series = {}
    for width in (5, 10, 20):
        points = [point for point in search.points_ if point.width == width]
        series[f"width {width}"] = ([point.strength for point in points], [point.holdout_rmse for point in points])
    panel = Panel("Planted ratings", "strength divided by width", "held-out RMSE", series, {"noise": 0.8})
    save("recommenders", panels([panel]))


def ranking_picture() -> None:
    ratings = datasets.planted_ratings((800, 200, 30_000), rank=4, noise=0.5, seed=0)
    split = hold_out_users(ratings.take((ratings.values >= 4).nonzero()[0]), share=0.2, seed=0)
    ranker = DropoutAutoencoder().fit(split.train)
    series = {name: (list(found), list(found.values())) for name, found in against_popularity(ranker, split).items()}
    save("ranking", panels([Panel("Planted tastes, new users", "length of the list", "share found", series)]))


def attacks() -> None:
    digits = load_digits()
    images, labels = torch.tensor(digits.data) / 16, torch.tensor(digits.target)
    data, test = Sample(images[:1200], labels[:1200]), Sample(images[1200:], labels[1200:])
    start = ReLUNet([randn(32, 64) / 8, randn(10, 32, seed=1) / 8])
    network = train(start, data, Plain(CrossEntropy()), steps=150, step_size=0.3, batch_size=64).model
    radii = [i / 50 for i in range(11)]
    methods = {
        "FGSM": Fgsm(),
        "PGD, cross-entropy": Pgd(CrossEntropy()),
        "PGD, margin": Pgd(Margin()),
        "PGD, reflected": Pgd(Reflected(CrossEntropy())),
    }
    threat = Threat("linf", 0.1, box=(0, 1))
    series = {name: robustness_curve(network, test, threat, method, radii) for name, method in methods.items()}
    save("attacks", lines(radii, series, xlabel="radius (linf)", ylabel="robust error on small digits"))


def value(text: str) -> object:
    """A cell of a table as it was before it was written."""
    try:
        return math.nan if text == "nan" else ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def redraw(names: list[str]) -> None:
    for figure in [found for found in figures() if found.id in names]:
        folder = IMAGES.parents[1] / "results" / figure.id
        with (folder / "table.csv").open(encoding="utf-8", newline="") as table:
            rows = [{name: value(cell) for name, cell in row.items() if cell} for row in csv.DictReader(table)]
        figure.draw(rows, folder / "figure.png")


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit(redraw(sys.argv[1:]))
    IMAGES.mkdir(exist_ok=True)
    for draw in (
        predicted,
        penalties,
        optima,
        landscapes_picture,
        relu,
        layers,
        predictions,
        training,
        recommenders,
        ranking_picture,
        attacks,
    ):
        draw()
