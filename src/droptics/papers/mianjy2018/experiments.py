"""The experiments of the ICML 2018 paper: landscape, trajectories, convergence and equalization of dropout SGD.

Each cell is a pure function of plain parameters and a seed and returns plain rows. `cells` lists the parameters of a
figure at a scale.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import torch

from droptics.data import Moments
from droptics.masks import Bernoulli
from droptics.models import Autoencoder, TwoLayerLinear
from droptics.optima import optimum
from droptics.penalties import criterion
from droptics.training import Dropout, Inverse, Recording, log_steps, train, with_previous
from droptics.training.schedules import constant

Row = dict[str, Any]
Scale = Literal["smoke", "paper"]
LAMBDAS = (0.1, 0.5, 1.0)


def drop_rate(lam: float) -> float:
    """The drop probability with drop / (1 - drop) = lam."""
    return lam / (1 + lam)


def landscape_cell(*, lam: float, target: float = 2.0, extent: float = 2.0, points: int = 81) -> list[Row]:
    """The landscape of a scalar tied network of width two, and its critical points (mianjy2018-fig1).

    f(u) = (M - u1^2 - u2^2)^2 + lam (u1^4 + u2^4). For lam > 0 there are four minima at +-sqrt(M / (2 + lam)), four
    saddles on the axes at +-sqrt(M / (1 + lam)) and a maximum at zero; for lam = 0 a circle of minima.
    """
    axis = torch.linspace(-extent, extent, points, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis)
    best, saddle = math.sqrt(target / (2 + lam)), math.sqrt(target / (1 + lam))
    places = [("grid", *map(float, point)) for point in grid]
    places += [("minimum", a * best, b * best) for a in (-1, 1) for b in (-1, 1)]
    if lam > 0:
        places += [("saddle", a * saddle, b * saddle) for a, b in ((1, 0), (-1, 0), (0, 1), (0, -1))]
    places.append(("maximum", 0.0, 0.0))
    weights = torch.tensor([place[1:] for place in places], dtype=torch.float64)[:, None, :]
    law = Bernoulli(drop_rate(lam), 2)
    data = Moments.of_map(torch.full((1, 1), target, dtype=torch.float64))
    values = criterion(Autoencoder(weights), data, law).value
    least = optimum(Autoencoder, data, law).objective
    return [
        {"kind": kind, "lam": lam, "u1": u1, "u2": u2, "objective": value, "optimum": least}
        for (kind, u1, u2), value in zip(places, values.tolist(), strict=True)
    ]


def trajectory_cell(
    *,
    lam: float,
    start: tuple[float, float] = (1.8, 0.3),
    target: float = 2.0,
    step_size: float = 0.03,
    decay: float | None = 300.0,
    steps: int = 10_000,
    runs: int = 200,
    seed: int = 0,
) -> list[Row]:
    """Dropout SGD on a scalar tied network: one path and the mean distance of all runs (mianjy2018-fig2).

    The step is the printed one. `distance` is the mean over runs and coordinates of | |u_i| - sqrt(M / (2 + lam)) |:
    signs are a symmetry, and larger steps cross between the minima. A constant step (decay None) ends at a noise floor.
    """
    law = Bernoulli(drop_rate(lam), 2)
    best = math.sqrt(target / (2 + lam))
    data = Moments.of_map(torch.full((1, 1), target, dtype=torch.float64))
    begin = torch.tensor(start, dtype=torch.float64).expand(runs, 1, 2)
    run = train(
        Autoencoder(begin),
        data,
        Dropout(law),
        steps=steps,
        step_size=step_size,
        batch_size=1,
        convention="mianjy2018",
        seed=seed,
        schedule=constant if decay is None else Inverse(decay),
        record=Recording({"u": lambda model: model.tensors[0][:, 0]}, at=log_steps(steps, 120)),
    )
    paths = run.history["u"]
    distances = (paths.abs() - best).abs().mean((1, 2))
    return [
        {
            "lam": lam,
            "start": f"({start[0]:g}, {start[1]:g})",
            "step": int(step),
            "u1": float(path[0, 0]),
            "u2": float(path[0, 1]),
            "distance": float(distance),
            "best": best,
        }
        for step, path, distance in zip(run.history["step"], paths, distances, strict=True)
    ]


def convergence_cell(
    *,
    width: int,
    lam: float,
    outputs: int = 120,
    inputs: int = 80,
    runs: int = 50,
    steps: int = 20_000,
    step_size: float = 0.005,
    spread: float = 0.1,
    tau: float = 20.0,
    seed: int = 0,
    records: int = 60,
) -> list[Row]:
    """Dropout SGD from small random weights: objective and variance of the importance scores (mianjy2018-fig3).

    M has singular values exp(-i / tau) in random subspaces; weights start as normal numbers of standard deviation
    `spread`; one fresh sample per step, printed step convention. `ratio` is the mean objective divided by the global
    optimum, `variance` the variance over units of |u_i| |v_i| (mean over runs), `spread` its root divided by the mean
    score. A constant step leaves a floor above 1 that is proportional to it. `step_loss` is the stochastic loss of the
    last step before the record, `step_objective` the objective it is drawn from, means over runs, and `step_error` the
    standard error of their difference.
    """
    generator = torch.Generator().manual_seed(seed)
    matrix = decaying_map(outputs, inputs, tau, generator)
    law = Bernoulli(drop_rate(lam), width)
    best = optimum(TwoLayerLinear, Moments.of_map(matrix), law)
    data = Moments.of_map(matrix.float())
    U = spread * torch.randn(runs, outputs, width, generator=generator)
    V = spread * torch.randn(runs, inputs, width, generator=generator)
    chosen = log_steps(steps, records)
    run = train(
        TwoLayerLinear(U, V),
        data,
        Dropout(law),
        steps=steps,
        step_size=step_size,
        batch_size=1,
        convention="mianjy2018",
        seed=seed,
        record=Recording(
            ("objective", "importance_variance", "importance_spread", "distance"),
            at=with_previous(chosen),
            reference=best.model.matrix(),  # type: ignore[attr-defined]
        ),
        bound=best.bound,
    )
    history = run.history
    return [
        {
            "width": width,
            "lam": lam,
            "step": step,
            "objective": float(history["objective"][i].mean()),
            "objective_std": float(history["objective"][i].std(correction=0)),
            "optimum": best.objective,
            "ratio": float(history["objective"][i].mean()) / best.objective,
            "variance": float(history["importance_variance"][i].mean()),
            "spread": float(history["importance_spread"][i].mean()),
            "distance": float(history["distance"][i].mean()),
            "runs": runs,
            "step_loss": float(loss.mean()),
            "step_objective": float(objective.mean()),
            "step_error": float((loss - objective).std()) / runs**0.5,
        }
        for step, i, (loss, objective) in ((step, run.at(step), run.step_loss(step)) for step in chosen)
    ]


def decaying_map(outputs: int, inputs: int, tau: float, generator: torch.Generator) -> torch.Tensor:
    """A matrix with singular values exp(-i / tau), i = 0, 1, ..., in random subspaces; float64."""
    count = min(outputs, inputs)
    left = torch.linalg.qr(torch.randn(outputs, count, dtype=torch.float64, generator=generator)).Q
    right = torch.linalg.qr(torch.randn(inputs, count, dtype=torch.float64, generator=generator)).Q
    return (left * torch.exp(-torch.arange(count, dtype=torch.float64) / tau)) @ right.mT


def landscape_cells(scale: Scale) -> dict[str, dict[str, Any]]:
    """Cells of figure 1."""
    points = 21 if scale == "smoke" else 121
    return {f"lam={lam:g}": {"lam": lam, "points": points} for lam in (0.0, 0.6, 2.0)}


def trajectory_cells(scale: Scale) -> dict[str, dict[str, Any]]:
    """Cells of figure 2."""
    size: dict[str, Any] = {"steps": 2000, "runs": 20} if scale == "smoke" else {"steps": 10_000, "runs": 200}
    return {
        f"lam={lam:g}, start {number}": {"lam": lam, "start": start} | size
        for lam in LAMBDAS
        for number, start in enumerate(((1.8, 0.3), (-0.2, -1.5)), 1)
    }


def convergence_cells(scale: Scale) -> dict[str, dict[str, Any]]:
    """Cells of figure 3; smoke: 30 outputs, 20 inputs, widths 5 and 20, 5 runs."""
    small: dict[str, Any] = {"outputs": 30, "inputs": 20, "runs": 5, "steps": 4000, "tau": 5.0, "records": 20}
    widths, size = ((5, 20), small) if scale == "smoke" else ((20, 80), {})
    return {f"width={width}, lam={lam:g}": {"width": width, "lam": lam} | size for width in widths for lam in LAMBDAS}
