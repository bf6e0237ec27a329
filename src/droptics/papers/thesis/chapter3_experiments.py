"""The experiments of thesis chapter 3: spectra and equalization gaps of deep linear networks trained with dropout.

Each cell is a pure function of plain parameters and a seed and returns plain rows. Settings follow the authors'
published notebook where the text is silent: layers start uniform in +-1 / sqrt(inputs x outputs), and the loss is
averaged over the outputs, so that a learning rate is divided by their number.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

import torch
from torch import Tensor

from droptics.data import Moments
from droptics.linalg import shrink
from droptics.masks import Bernoulli, MaskLaw, Product
from droptics.models import DeepLinear
from droptics.optima import optimum
from droptics.penalties import effective_strength, sub_penalties
from droptics.training import Dropout, Penalized, Recording, Staircase, log_steps, train

Row = dict[str, Any]
Scale = Literal["smoke", "paper"]


def spectrum_cell(
    *,
    drop: float,
    sizes: Sequence[int] = (20, 20, 20, 20),
    rank: int = 15,
    noise: float = 0.1,
    rate: float = 0.01,
    steps: int = 16_010,
    repeats: int = 41,
    exact: bool = True,
    batch_size: int = 1000,
    seed: int = 0,
) -> list[Row]:
    """Singular values of the trained map against those of the global optimum and of the envelope (thesis-fig3-2).

    The target is a product of Gaussian factors of the given rank plus noise, inputs are isotropic. `exact` descends
    the exact objective; otherwise masks are sampled with a fresh batch per step. `trained` and `trained_std` are over
    the repeats, which differ in their start. Training from small weights stops at a rank below the optimum's: deep
    networks have local minima.
    """
    generator = torch.Generator().manual_seed(seed)
    inputs, outputs = sizes[0], sizes[-1]
    left = torch.randn(outputs, rank, dtype=torch.float64, generator=generator)
    right = torch.randn(rank, inputs, dtype=torch.float64, generator=generator)
    matrix = left @ right + noise * torch.randn(outputs, inputs, dtype=torch.float64, generator=generator)
    data = Moments.of_map(matrix)
    law = layers(sizes, drop)
    run = train(
        small_start(sizes, repeats, generator),
        data,
        Penalized(law) if exact else Dropout(law),
        steps=steps,
        step_size=rate / 1.4 / outputs,
        batch_size=None if exact else batch_size,
        schedule=Staircase(10_000, 1 / 1.4),
        seed=seed,
        record=Recording(("objective", "singular_values"), at=(0, steps)),
    )
    best = optimum(DeepLinear, data, law)
    truth = torch.linalg.svdvals(matrix)
    narrow = min(sizes[1:-1])
    enveloped = shrink(truth, narrow * float(effective_strength(tuple(sizes[1:-1]), drop)), narrow)
    trained = run.final("singular_values")
    optimal = torch.linalg.svdvals(best.model.matrix())  # type: ignore[attr-defined]
    return [
        {
            "drop": drop,
            "index": i + 1,
            "target": float(truth[i]),
            "trained": float(trained[:, i].mean()),
            "trained_std": float(trained[:, i].std(correction=0)),
            "optimum": float(optimal[i]),
            "envelope": float(enveloped[i]),
            "objective": float(run.final("objective").mean()),
            "objective_best": float(run.final("objective").min()),
            "objective_optimum": best.objective,
            "exact": exact,
        }
        for i in range(len(truth))
    ]


def gap_cell(
    *,
    drop: float = 0.3,
    sizes: Sequence[int] = (5, 5, 5, 5, 5, 5, 1),
    norm: float = 1.0,
    rate: float = 0.3,
    steps: int = 40_010,
    repeats: int = 31,
    exact: bool = True,
    batch_size: int = 1000,
    seed: int = 0,
) -> list[Row]:
    """Equalization gaps R_l / lower bound - 1 along training, in total and by number of pivots (thesis-fig3-3).

    One output, so that the optimum is equalized: the gaps fall towards zero, higher orders more slowly. `norm` is the
    length of the target vector; a short one leaves the small start on a long plateau.
    """
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.randn(sizes[-1], sizes[0], dtype=torch.float64, generator=generator)
    matrix = matrix * (norm / torch.linalg.matrix_norm(matrix))
    data = Moments.of_map(matrix)
    law = layers(sizes, drop)
    floors = pivot_floors(sizes[1:-1], drop)

    def gaps(model: Any) -> Tensor:
        energy = torch.linalg.svdvals(model.matrix()).sum(-1, keepdim=True).square()
        parts = sub_penalties(model, data, law)
        total = parts.sum(-1, keepdim=True) / (floors.sum() * energy) - 1
        return torch.cat([total, parts / (floors * energy) - 1], dim=-1)

    run = train(
        small_start(sizes, repeats, generator),
        data,
        Penalized(law) if exact else Dropout(law),
        steps=steps,
        step_size=rate / 1.4 / sizes[-1],
        batch_size=None if exact else batch_size,
        schedule=Staircase(10_000, 1 / 1.4),
        seed=seed,
        record=Recording(
            {"gaps": gaps, "size": lambda model: torch.linalg.matrix_norm(model.matrix())},  # type: ignore[attr-defined]
            at=log_steps(steps, 60),
        ),
    )
    shrunk = norm / (1 + float(effective_strength(tuple(sizes[1:-1]), drop)))
    rows = []
    for i, step in enumerate(run.history["step"].tolist()):
        values = run.history["gaps"][i]
        for order in range(values.shape[-1]):
            rows.append(
                {
                    "step": step,
                    "order": order,  # 0 is the total
                    "gap": float(values[:, order].mean()),
                    "gap_std": float(values[:, order].std(correction=0)),
                    "map_norm": float(run.history["size"][i].mean()),
                    "map_norm_optimum": shrunk,
                    "exact": exact,
                }
            )
    return rows


def layers(sizes: Sequence[int], drop: float) -> MaskLaw:
    """Independent dropout of the same rate on every hidden layer."""
    return Product([Bernoulli(drop, size) for size in sizes[1:-1]])


def small_start(sizes: Sequence[int], repeats: int, generator: torch.Generator) -> DeepLinear:
    """Layers uniform in +-1 / sqrt(inputs x outputs), as in the published notebook."""
    weights = []
    for before, after in pairwise(sizes):
        uniform = torch.rand(repeats, after, before, dtype=torch.float64, generator=generator)
        weights.append((2 * uniform - 1) / (before * after) ** 0.5)
    return DeepLinear(weights)


def pivot_floors(widths: Sequence[int], drop: float) -> Tensor:
    """lambda^l e_l(1 / widths) for l = 1, ..., layers: the lower bound of each order over the squared nuclear norm."""
    strengths = torch.tensor([drop / (1 - drop) / width for width in widths], dtype=torch.float64)
    # elementary symmetric polynomials, one factor (1 + s t) at a time
    coefficients = torch.zeros(len(widths) + 1, dtype=torch.float64)
    coefficients[0] = 1
    for strength in strengths:
        coefficients[1:] = coefficients[1:] + strength * coefficients[:-1].clone()
    return coefficients[1:]


def spectrum_cells(scale: Scale) -> dict[str, dict[str, Any]]:
    """Cells of figure 3-2."""
    if scale == "smoke":
        size: dict[str, Any] = {"sizes": (8, 8, 8, 8), "rank": 6, "steps": 1500, "repeats": 3}
        return {f"drop={drop:g}": {"drop": drop} | size for drop in (0.0, 0.3, 0.6)}
    drops = [round(0.05 * i, 2) for i in range(19)]
    cells: dict[str, dict[str, Any]] = {f"drop={drop:g}": {"drop": drop} for drop in drops}
    return cells | {"drop=0.5, sampled": {"drop": 0.5, "exact": False, "steps": 2000, "repeats": 5}}


def gap_cells(scale: Scale) -> dict[str, dict[str, Any]]:
    """Cells of figure 3-3."""
    if scale == "smoke":
        return {"exact": {"sizes": (4, 4, 4, 1), "steps": 2000, "repeats": 4}}
    return {"exact": {}, "sampled": {"exact": False, "steps": 3000, "repeats": 5}}
