"""The experiments of the structured-dropout paper: DropBlock, DropConnect, sliding DropBlock, last layers of networks.

Each cell is a pure function of plain parameters and a seed and returns plain rows. The synthetic set is the paper's:
1000 inputs x ~ N(0, I_100), targets y = U V^T x with 80 outputs and inner dimension 50, all weights N(0, 1).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

from droptics.data import Moments, Sample
from droptics.datasets import cifar10, mnist
from droptics.linalg import k_support_shrink
from droptics.masks import Bernoulli, Block, MaskLaw, SlidingBlock
from droptics.models import Connections, LastLayer, TwoLayerLinear
from droptics.norms import k_support
from droptics.optima import optimum
from droptics.penalties import criterion
from droptics.training import Cosine, Dropout, Inverse, Recording, ResNet, SmallCnn, log_steps, train, with_previous

Row = dict[str, Any]
Scale = Literal["smoke", "paper"]
Folder = str | os.PathLike[str]


def synthetic(
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
    smaller = min(1.0, ((1 - drop) / 0.5) ** 2)
    chosen = log_steps(steps, records)
    run = train(
        start,
        data,
        Dropout(law),
        steps=steps,
        step_size=step_size * smaller,
        batch_size=1,
        convention="pal2020",
        schedule=Inverse(decay / smaller),
        seed=seed,
        record=Recording(("objective",), at=with_previous(chosen), data=Moments.of_sample(data)),
        bound=best.bound,
    )
    history = run.history
    return [
        {
            "drop": drop,
            "block": block,
            "step": step,
            "stochastic": float(run.mean_loss(last, step)),
            "deterministic": float(history["objective"][i]),
            "bound": best.bound,
            "ratio": float(history["objective"][i]) / best.bound,
            "step_loss": float(loss),
            "step_objective": float(mean),
        }
        for last, step, i, (loss, mean) in (
            (last, step, run.at(step), run.step_loss(step)) for last, step in zip((0, *chosen), chosen, strict=False)
        )
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
    smaller = min(1.0, ((1 - drop) / 0.5) ** 2)
    options: dict[str, Any] = {
        "steps": steps,
        "step_size": step_size * smaller,
        "batch_size": batch_size,
        "convention": "pal2020",
        "schedule": Inverse(decay / smaller),
        "seed": seed,
    }
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
            "step": step,
            "stochastic": float(run.mean_loss(last, step)),
            "deterministic": float(connect["objective"][i]),
            "printed": float(connect["printed"][i]),
            "dropout": float(dropout["objective"][i]),
            "optimum_dropconnect": best_connect.objective,
            "optimum_dropout": best_dropout.objective,
            "step_loss": float(loss),
            "step_objective": float(mean),
        }
        for last, step, i, (loss, mean) in (
            (last, step, run.at(step), run.step_loss(step)) for last, step in zip((0, *chosen), chosen, strict=False)
        )
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
    smaller = min(1.0, (keep / 0.5) ** 2)
    moments = Moments.of_sample(data)
    best = optimum(TwoLayerLinear, moments, law)
    chosen = log_steps(steps, records)
    run = train(
        start,
        data,
        Dropout(law),
        steps=steps,
        step_size=step_size * smaller,
        batch_size=1,
        convention="pal2020",
        schedule=Inverse(decay / smaller),
        seed=seed,
        record=Recording(("objective",), at=with_previous(chosen), data=moments),
    )
    smooth = float(run.history["objective"][0])
    rows = []
    for step in chosen:
        value = float(run.history["objective"][run.at(step)])
        loss, mean = run.step_loss(step)
        smooth = 0.5 * smooth + 0.5 * value
        rows.append(
            {
                "scheme": scheme,
                "keep": keep,
                "step": step,
                "objective": value,
                "smoothed": smooth,
                "optimum": best.objective,
                "bound": best.bound,
                "step_loss": float(loss),
                "step_objective": float(mean),
            }
        )
    return rows


def last_layer_cell(
    *,
    dataset: Literal["mnist", "cifar10"] = "mnist",
    network: Literal["cnn", "resnet"] = "resnet",
    blocks: Sequence[int] = (3, 3, 3),
    examples: int = 1000,
    width: int = 80,
    block: int = 5,
    drop: float = 0.5,
    steps: int = 6000,
    step_size: float = 2e-3,
    batch_size: int = 100,
    folder: Folder | None = None,
    device: str = "auto",
    seed: int = 0,
    records: int = 30,
) -> list[Row]:
    """A network with a reduced last layer, trained with DropBlock on images, against the lower bound (pal2020-fig2).

    Targets are one-hot labels and the loss is squared. Rows of kind "objective" hold the deterministic objective along
    training and the bound min_A ||Y - A||^2 + beta ||A||_(r)^2 with beta = (block / width) drop / (1 - drop), per
    example; rows of kind "spectrum" the singular values of the final predictions beside those of the bound.
    `blocks` are residual blocks per stage, (3, 3, 3) 20 layers in all; `device` "auto" is a GPU where there is one.
    """
    place = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device)
    data = images(dataset, examples, folder, seed).to(place)
    channels = data.inputs.shape[1]
    net = (
        SmallCnn(channels=channels, width=width, seed=seed)
        if network == "cnn"
        else ResNet(channels=channels, width=width, blocks=tuple(blocks), seed=seed)
    ).to(place)
    law = Block(drop, width, block)
    run = train(
        LastLayer.of(net, "head"),
        data,
        Dropout(law),
        steps=steps,
        step_size=step_size,
        batch_size=batch_size,
        optimizer=torch.optim.Adam,
        schedule=Cosine(steps),
        seed=seed,
        record=Recording(("objective", "risk", "penalty", "singular_values"), at=log_steps(steps, records)),
    )
    bound, spectrum = prediction_bound(data.targets, drop, width, block)
    head = {"dataset": dataset, "network": network, "bound": bound}
    rows: list[Row] = [
        head | {"kind": "objective", "step": int(step), "objective": float(value), "stochastic": float(loss)}
        for step, value, loss in zip(run.history["step"], run.history["objective"], run.history["loss"], strict=True)
    ]
    return rows + [
        head | {"kind": "spectrum", "index": i + 1, "trained": float(trained), "predicted": float(predicted)}
        for i, (trained, predicted) in enumerate(zip(run.final("singular_values"), spectrum, strict=True))
    ]


def prediction_bound(targets: Tensor, drop: float, width: int, block: int) -> tuple[float, Tensor]:
    """The least DropBlock objective of any features, per example, and the singular values of its predictions.

    min_A ||Y - A||_F^2 + beta ||A||_(block)^2 with beta = (block / width) drop / (1 - drop) (pal2020-thm2.7).
    """
    values = torch.linalg.svdvals(targets.double())
    beta = block / width * drop / (1 - drop)
    shrunk = k_support_shrink(values, beta, block)
    total = (values - shrunk).square().sum() + beta * k_support(shrunk, block).square()
    return float(total) / len(targets), shrunk


def images(dataset: str, examples: int, folder: Folder | None, seed: int) -> Sample:
    """A random subset of a data set: images in [0, 1] minus their mean, one-hot targets, float32."""
    readers = {"mnist": mnist, "cifar10": cifar10}
    if dataset not in readers:
        raise ValueError(f"dataset must be one of {sorted(readers)}, got {dataset!r}")
    pixels, labels = readers[dataset](folder)
    chosen = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))[:examples]
    inputs = pixels[chosen].float() / 255
    inputs = inputs[:, None] if inputs.ndim == 3 else inputs
    return Sample(inputs - inputs.mean(), functional.one_hot(labels[chosen], 10).float())


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


def last_layer_cells(scale: Scale) -> dict[str, dict[str, Any]]:
    """Cells of figure 2; they need the image files."""
    small: dict[str, Any] = {"network": "cnn", "examples": 60, "steps": 60, "batch_size": 20, "records": 6}
    return {dataset: {"dataset": dataset} | (small if scale == "smoke" else {}) for dataset in ("mnist", "cifar10")}
