"""The synthetic experiments of the structured-dropout paper: DropBlock, DropConnect, sliding DropBlock.

Each cell is a pure function of plain parameters and a seed and returns plain rows. The synthetic set is the paper's:
1000 inputs x ~ N(0, I_100), targets y = U V^T x with 80 outputs and inner dimension 50, all weights N(0, 1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from droptics.data import Moments, Sample
from droptics.masks import Bernoulli, Block, MaskLaw, SlidingBlock
from droptics.models import Connections, TwoLayerLinear
from droptics.optima import optimum
from droptics.penalties import criterion
from droptics.training import Dropout, Inverse, Recording, Run, log_steps, train, with_previous

Row = dict[str, Any]
Scale = Literal["smoke", "paper"]


def synthetic(  # parameters: the paper's sizes, as defaults
    examples: int = 1000,
    inputs: int = 100,
    outputs: int = 80,
    inner: int = 50,
    width: int = 50,
    correlation: float = 0.0,
    seed: int = 0,
) -> tuple[Sample, TwoLayerLinear]:
    """The synthetic data and the common start; `correlation` makes neighboring inputs an AR(1) sequence."""
    generator = torch.Generator().manual_seed(seed)
    U, V, x = (
        torch.randn(rows, columns, dtype=torch.float64, generator=generator)
        for rows, columns in ((outputs, inner), (inputs, inner), (examples, inputs))
    )
    start = TwoLayerLinear(
        torch.randn(outputs, width, dtype=torch.float64, generator=generator),
        torch.randn(inputs, width, dtype=torch.float64, generator=generator),
    )
    if correlation:
        lag = (torch.arange(inputs)[:, None] - torch.arange(inputs)).abs()
        x = x @ torch.linalg.cholesky(torch.tensor(correlation, dtype=torch.float64) ** lag).mT
    return Sample(x, x @ V @ U.mT), start


def published_steps(step_size: float, decay: float, keep: float) -> dict[str, Any]:
    """The printed steps, smaller by (keep / 0.5)^2 where less than half of the units is kept."""
    smaller = min(1.0, (keep / 0.5) ** 2)
    return {"step_size": step_size * smaller, "schedule": Inverse(decay / smaller), "convention": "pal2020"}


def recorded(run: Run, chosen: Sequence[int]) -> Iterator[tuple[int, int, Row]]:
    """For every chosen step: its place in the history, the chosen step before it, and what the rows share."""
    for last, step in zip((0, *chosen), chosen, strict=False):
        loss, mean = run.step_loss(step)
        yield run.at(step), last, {"step": step, "step_loss": float(loss), "step_objective": float(mean)}


def dropblock_cell(
    *,
    drop: float = 0.5,
    block: int = 5,
    steps: int = 60_000,
    step_size: float = 2e-5,
    decay: float = 4000.0,
    size: dict[str, int] | None = None,
    seed: int = 0,
    records: int = 80,
) -> list[Row]:
    """Single-sample DropBlock SGD: its stochastic loss, the deterministic objective, the optimum (pal2020-fig1, -fig5).

    The step is the printed one, smaller by ((1 - drop) / 0.5)^2 where more than half is dropped. `stochastic` is
    the mean loss of the steps since the last record, `deterministic` the objective of the current weights, `bound` the
    corrected closed form of the global optimum at this width and rate. `step_loss` is the loss of the last step alone
    and `step_objective` its mean, the objective of the weights it started from.
    """
    data, start = synthetic(**(size or {}), seed=seed)
    law = Block(drop, start.units, block)
    best = optimum(TwoLayerLinear, Moments.of_sample(data), law)
    chosen = log_steps(steps, records)
    run = train(
        start,
        data,
        Dropout(law),
        steps=steps,
        batch_size=1,
        seed=seed,
        record=Recording(("objective",), at=with_previous(chosen), data=Moments.of_sample(data)),
        bound=best.bound,
        **published_steps(step_size, decay, 1 - drop),
    )
    objective = run.history["objective"]
    return [
        {
            "drop": drop,
            "block": block,
            "stochastic": float(run.mean_loss(last, row["step"])),
            "deterministic": float(objective[i]),
            "bound": best.bound,
            "ratio": float(objective[i]) / best.bound,
        }
        | row
        for i, last, row in recorded(run, chosen)
    ]


def dropconnect_cell(
    *,
    drop: float = 0.5,
    correlation: float = 0.0,
    steps: int = 3000,
    step_size: float = 3e-4,
    decay: float = 300.0,
    batch_size: int = 50,
    size: dict[str, int] | None = None,
    seed: int = 0,
    records: int = 50,
) -> list[Row]:
    """DropConnect against its deterministic form and against Dropout, from the same start (pal2020-fig3, -fig6).

    `stochastic` and `deterministic` belong to the weights trained with DropConnect, with the corrected formula;
    `printed` is the printed formula (that of Dropout) at the same weights; `dropout` is the deterministic objective
    of weights trained with Dropout. On whitened inputs all agree, on correlated ones (`correlation` > 0) the printed
    formula is off by tens of percent, and the two trainings part.
    """
    data, start = synthetic(**(size or {}), correlation=correlation, seed=seed)
    moments = Moments.of_sample(data)
    units = Bernoulli(drop, start.units)
    weights = Bernoulli(drop, start.V.numel())
    options = published_steps(step_size, decay, 1 - drop)
    options |= {"steps": steps, "batch_size": batch_size, "seed": seed}
    chosen = log_steps(steps, records)
    at = with_previous(chosen)

    def printed(model: Any) -> Tensor:
        return criterion(TwoLayerLinear(model.U, model.V), moments, units).value

    def true(model: Any) -> Tensor:
        return criterion(model, moments, weights).value

    run = train(
        Connections(start.U, start.V),
        data,
        Dropout(weights),
        record=Recording({"objective": true, "printed": printed}, at=at),
        **options,
    )
    connect = run.history
    dropout = train(
        start, data, Dropout(units), record=Recording(("objective",), at=at, data=moments), **options
    ).history
    best_connect = optimum(Connections, moments, weights)
    best_dropout = optimum(TwoLayerLinear, moments, units)
    return [
        {
            "drop": drop,
            "correlation": correlation,
            "stochastic": float(run.mean_loss(last, row["step"])),
            "deterministic": float(connect["objective"][i]),
            "printed": float(connect["printed"][i]),
            "dropout": float(dropout["objective"][i]),
            "optimum_dropconnect": best_connect.objective,
            "optimum_dropout": best_dropout.objective,
        }
        | row
        for i, last, row in recorded(run, chosen)
    ]


def sliding_cell(
    *,
    scheme: Literal["grid", "sliding", "uncorrected", "dropout"],
    drop: float = 0.5,
    block: int = 5,
    steps: int = 60_000,
    step_size: float = 2e-5,
    decay: float = 4000.0,
    size: dict[str, int] | None = None,
    seed: int = 0,
    records: int = 80,
) -> list[Row]:
    """DropBlock on a grid against sliding DropBlock, with and without the corrected rate (pal2020-fig4).

    "sliding" drops each window with probability 1 - (1 - drop)^(1 / block), so that a unit falls with probability
    `drop` (the printed exponent is wrong); "uncorrected" drops each window with probability `drop`.
    """
    data, start = synthetic(**(size or {}), seed=seed)
    laws: dict[str, MaskLaw] = {
        "grid": Block(drop, start.units, block),
        "sliding": SlidingBlock(1 - (1 - drop) ** (1 / block), start.units, block),
        "uncorrected": SlidingBlock(drop, start.units, block),
        "dropout": Bernoulli(drop, start.units),
    }
    if scheme not in laws:
        raise ValueError(f"scheme must be one of {sorted(laws)}, got {scheme!r}")
    law = laws[scheme]
    keep = float(law.mean.mean())
    moments = Moments.of_sample(data)
    best = optimum(TwoLayerLinear, moments, law)
    chosen = log_steps(steps, records)
    run = train(
        start,
        data,
        Dropout(law),
        steps=steps,
        batch_size=1,
        seed=seed,
        record=Recording(("objective",), at=with_previous(chosen), data=moments),
        **published_steps(step_size, decay, keep),
    )
    smooth = float(run.history["objective"][0])
    rows = []
    for i, _, row in recorded(run, chosen):
        value = float(run.history["objective"][i])
        smooth = 0.5 * smooth + 0.5 * value
        rows.append(
            {
                "scheme": scheme,
                "keep": keep,
                "objective": value,
                "smoothed": smooth,
                "optimum": best.objective,
                "bound": best.bound,
            }
            | row
        )
    return rows


SMALL = {"examples": 200, "inputs": 20, "outputs": 16, "inner": 10, "width": 10}


def dropblock_cells(scale: Scale) -> dict[str, dict[str, Any]]:
    """Cells of figures 1 and 5."""
    small: dict[str, Any] = {"size": SMALL, "steps": 4000, "step_size": 1e-3, "decay": 500.0, "records": 30}
    drops = (0.5, 0.2) if scale == "smoke" else (0.5, 0.2, 0.8)
    return {f"drop={drop:g}": {"drop": drop} | (small if scale == "smoke" else {}) for drop in drops}


def dropconnect_cells(scale: Scale) -> dict[str, dict[str, Any]]:
    """Cells of figures 3 and 6, with correlated inputs beside the paper's."""
    small: dict[str, Any] = {"size": SMALL, "steps": 400, "step_size": 5e-3, "decay": 100.0, "records": 20}
    if scale == "smoke":
        return {f"correlation={c:g}": {"correlation": c} | small for c in (0.0, 0.9)}
    return {
        f"drop={drop:g}, correlation={c:g}": {"drop": drop, "correlation": c}
        for drop in (0.5, 0.2, 0.8)
        for c in (0.0, 0.9)
    }


def sliding_cells(scale: Scale) -> dict[str, dict[str, Any]]:
    """Cells of figure 4."""
    small: dict[str, Any] = {"size": SMALL, "steps": 4000, "step_size": 1e-3, "decay": 500.0, "records": 30}
    schemes = ("grid", "sliding", "uncorrected", "dropout")
    return {scheme: {"scheme": scheme} | (small if scale == "smoke" else {}) for scheme in schemes}
