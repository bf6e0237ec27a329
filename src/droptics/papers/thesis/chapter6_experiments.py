"""The experiments of chapter 6 as plain functions: parameters and a seed in, numbers out.

Each function is one cell of a figure or table and can run anywhere. Data are passed in as samples: images in [0, 1]
as vectors with labels -1 and +1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from droptics.attacks import (
    CrossEntropy,
    Decay,
    Fgsm,
    Logistic,
    Loss,
    Method,
    Pgd,
    Reflected,
    Threat,
    attack,
    perturb,
    smallest_margins,
)
from droptics.data import Sample
from droptics.papers.thesis.chapter6_grid import grid_search

__all__ = [
    "ATTACKS",
    "TRAININGS",
    "binary_attacks",
    "binary_network",
    "binary_run",
    "binary_table",
    "grid_search",
    "loss_curves",
    "robustness_curves",
    "target_counterexample",
    "target_rules",
]

TRAININGS = ("standard", "PGD-inf", "R-PGD-inf", "PGD-2", "R-PGD-2")
ATTACKS = (
    "FGSM", "R-FGSM", "PGD-inf", "R-PGD-inf", "BIM", "R-BIM", "PGD-2", "R-PGD-2", "normalized PGD-2",
)  # fmt: skip


def loss_curves(points: int = 201, limit: float = 4.0) -> dict[str, list[float]]:
    """The 0-1 loss, the logistic loss in base 2 above it and the reflected one below it (thesis-fig6-1)."""
    margins = torch.linspace(-limit, limit, points, dtype=torch.float64)
    ones = torch.ones(points, dtype=torch.float64)
    return {
        "margin": margins.tolist(),
        "zero-one": (margins < 0).double().tolist(),
        "logistic, base 2": (Logistic()(margins[:, None], ones) / math.log(2)).tolist(),
        "reflected, base 2": (Reflected(Logistic())(margins[:, None], ones) / math.log(2)).tolist(),
        "tight reflected, base 2": (1 + Reflected(Logistic())(margins[:, None], ones) / math.log(2)).tolist(),
    }


def target_counterexample(radius: float = 0.3) -> dict[str, Any]:
    """Three linear classes where the most likely wrong class cannot be reached and the nearest can (thesis-rem6.5.3).

    W has the rows 2 e1, e1, 10 e2 and x = e1. For each target rule: the margin after one full step towards it.
    """
    weight = torch.tensor([[2.0, 0.0], [1.0, 0.0], [0.0, 10.0]], dtype=torch.float64)
    net = _linear(weight)
    data = Sample(torch.tensor([[1.0, 0.0]], dtype=torch.float64), torch.tensor([0]))
    threat = Threat("l2", radius)
    margins = {
        rule: float(attack(net, data, threat, _one_step(rule, radius)).margins)
        for rule in ("greedy", "nearest", "every")
    }
    exact = float(smallest_margins(net, data.inputs, data.targets, threat))
    distances = [float((weight[0] - weight[j]) @ data.inputs[0] / (weight[0] - weight[j]).norm()) for j in (1, 2)]
    return {"margins": margins, "exact": exact, "distances": {"class 2": distances[0], "class 3": distances[1]}}


def target_rules(
    models: int = 20, *, classes: int = 5, inputs: int = 10, examples: int = 200, budget: float = 1.2, seed: int = 0
) -> dict[str, float]:
    """Random linear models: how often the greedy target is not the nearest, and cannot be reached with `budget`.

    Each example gets the radius budget times its own distance to the boundary, so the nearest target always succeeds.
    """
    generator = torch.Generator().manual_seed(seed)
    differs = fails = total = 0
    for _ in range(models):
        weight = torch.randn(classes, inputs, generator=generator, dtype=torch.float64)
        points = torch.randn(examples, inputs, generator=generator, dtype=torch.float64)
        scores = points @ weight.mT
        best = scores.argmax(1)
        gaps = scores.gather(1, best[:, None]) - scores
        speeds = torch.linalg.vector_norm(weight[best][:, None] - weight, dim=2)
        distances = (gaps / speeds).scatter(1, best[:, None], math.inf)
        greedy = gaps.scatter(1, best[:, None], math.inf).argmin(1)
        nearest = distances.argmin(1)
        differs += int((greedy != nearest).sum())
        fails += int((distances.gather(1, greedy[:, None]).squeeze(1) > budget * distances.amin(1)).sum())
        total += examples
    return {"greedy is not nearest": differs / total, "greedy cannot succeed": fails / total, "examples": total}


def binary_network(inputs: int, width: int, seed: int) -> nn.Sequential:
    """One hidden ReLU layer and one output, initialized as torch does but from the seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, 1))


def binary_attacks(
    steps: int, *, stop: Literal["fooled", "never"] = "fooled", linf: float = 0.1, l2: float = 2.0, step: float = 10.0
) -> dict[str, tuple[Threat, Method]]:
    """The eight attacks of thesis-tab6-1 and the normalized PGD-2, each with its threat.

    PGD uses the raw gradient with a step of 10 that falls by a factor of 0.2 every ten steps, BIM the sign of the
    gradient with the same steps; all keep the best iterate. "R-" reflects the loss.
    """
    found: dict[str, tuple[Threat, Method]] = {}
    losses: tuple[tuple[str, Loss], ...] = (("", Logistic()), ("R-", Reflected(Logistic())))
    for prefix, loss in losses:
        raw = Pgd(loss, steps, Decay(step), gradient="raw", stop=stop)
        found[f"{prefix}FGSM"] = (Threat("linf", linf), Fgsm(loss))
        found[f"{prefix}PGD-inf"] = (Threat("linf", linf), raw)
        found[f"{prefix}BIM"] = (Threat("linf", linf), replace(raw, gradient="steepest"))
        found[f"{prefix}PGD-2"] = (Threat("l2", l2), raw)
    found["normalized PGD-2"] = (Threat("l2", l2), Pgd(Logistic(), steps, stop=stop))
    return {name: found[name] for name in ATTACKS}


def binary_run(  # parameters: columns of the table
    train: Sample,
    test: Sample,
    training: str,
    *,
    seed: int,
    epochs: int = 20,
    width: int = 100,
    batch: int = 64,
    rate: float = 1.0,
    train_steps: int = 20,
    test_steps: int = 40,
    linf: float = 0.1,
    l2: float = 2.0,
) -> dict[str, float]:
    """One training and its robust test error under every attack (one row of thesis-tab6-1, one seed).

    Stochastic gradient descent on the logistic loss; the rate falls by a factor of 0.2 every quarter of the epochs.
    """
    net = _trained(train, training, seed, epochs, width, batch, rate, train_steps, linf, l2)
    targets = test.targets.reshape(-1)
    with torch.no_grad():
        clean = float((net(test.inputs).squeeze(1) * targets <= 0).double().mean())
    errors = {"clean": clean}
    for name, (threat, method) in binary_attacks(test_steps, linf=linf, l2=l2).items():
        points = perturb(net, test.inputs, targets, threat, method)
        with torch.no_grad():
            errors[name] = float((net(points).squeeze(1) * targets <= 0).double().mean())
    return errors


def binary_table(
    train: Sample,
    test: Sample,
    *,
    seeds: Sequence[int] = range(10),
    trainings: Sequence[str] = TRAININGS,
    **options: Any,
) -> list[dict[str, Any]]:
    """All rows of thesis-tab6-1: mean and deviation over the seeds of the error of each training and attack."""
    rows = []
    for training in trainings:
        runs = [binary_run(train, test, training, seed=seed, **options) for seed in seeds]
        values = {name: torch.tensor([run[name] for run in runs], dtype=torch.float64) for name in runs[0]}
        rows.append(
            {
                "training": training,
                "mean": {name: float(value.mean()) for name, value in values.items()},
                "deviation": {name: float(value.std(unbiased=False)) for name, value in values.items()},
                "runs": len(runs),
            }
        )
    return rows


def robustness_curves(  # parameters: columns of the table
    train: Sample,
    test: Sample,
    radii: Sequence[float],
    *,
    seed: int,
    norm: str = "l2",
    trainings: Sequence[str] = ("standard", "R-PGD-2"),
    test_steps: int = 40,
    **options: Any,
) -> list[dict[str, Any]]:
    """Robust error against the radius for several trainings, by normalized PGD and by raw PGD with and without "R-".

    A raw attack that stays flat while the normalized one climbs is a weak attack, not a robust network.
    """
    settings: dict[str, Any] = {"epochs": 20, "width": 100, "batch": 64, "rate": 1.0, "train_steps": 20} | options
    methods: dict[str, Method] = {
        "normalized": Pgd(Logistic(), test_steps),
        "raw": Pgd(Logistic(), test_steps, Decay(10.0), gradient="raw"),
        "raw, reflected": Pgd(Reflected(Logistic()), test_steps, Decay(10.0), gradient="raw"),
    }
    rows = []
    for training in trainings:
        net = _trained(train, training, seed, linf=0.1, l2=2.0, **settings)
        for name, method in methods.items():
            errors = _curve(net, test, norm, radii, method)
            rows.append({"training": training, "attack": name, "radii": list(map(float, radii)), "errors": errors})
    return rows


def _trained(  # parameters: columns of the table
    train: Sample,
    training: str,
    seed: int,
    epochs: int,
    width: int,
    batch: int,
    rate: float,
    train_steps: int,
    linf: float,
    l2: float,
) -> nn.Sequential:
    if training not in TRAININGS:
        raise ValueError(f"training must be one of {', '.join(TRAININGS)}, got {training!r}")
    inputs, targets = train.inputs, train.targets.reshape(-1).to(train.inputs.dtype)
    net = binary_network(inputs.shape[1], width, seed).to(inputs.dtype)
    inner = None
    if training != "standard":
        inner = binary_attacks(train_steps, stop="never", linf=linf, l2=l2)[training]
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.SGD(net.parameters(), lr=rate)
    for epoch in range(epochs):
        optimizer.param_groups[0]["lr"] = rate * 0.2 ** (4 * epoch // epochs)
        for rows in torch.randperm(len(train), generator=generator).split(batch):
            points = inputs[rows] if inner is None else perturb(net, inputs[rows], targets[rows], *inner)
            optimizer.zero_grad()
            Logistic()(net(points), targets[rows]).mean().backward()
            optimizer.step()
    return net


def _curve(net: nn.Module, test: Sample, norm: str, radii: Sequence[float], method: Method) -> list[float]:
    """Errors at each radius, attacked on its own: a raw attack is expected to be weak, which is the point."""
    targets = test.targets.reshape(-1)
    errors = []
    for radius in radii:
        points = perturb(net, test.inputs, targets, Threat(norm, float(radius)), method)
        with torch.no_grad():
            errors.append(float((net(points).squeeze(1) * targets <= 0).double().mean()))
    return errors


def _linear(weight: Tensor) -> nn.Module:
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=False, dtype=weight.dtype)
    with torch.no_grad():
        layer.weight.copy_(weight)
    return layer


def _one_step(rule: str, radius: float) -> Method:
    return Pgd(Reflected(CrossEntropy(), rule), steps=1, step=radius)  # type: ignore[arg-type]
