"""Sub-networks of trained networks (thesis-fig5-2, thesis-fig5-3), and lazy dropout training (thesis-alg4)."""

from __future__ import annotations

import math
import os
from typing import Any

import torch
from torch import Tensor

from droptics.coadaptation import draw, evaluate, smallest
from droptics.data import Sample
from droptics.datasets import fashion_mnist, mnist
from droptics.masks import Bernoulli
from droptics.models import LastLayer
from droptics.papers.thesis.chapter5_networks import LeNet, Runs

Row = dict[str, Any]
Folder = str | os.PathLike[str]


def subnetwork_cell(
    *,
    width: int = 1000,
    drop: float = 0.5,
    seed: int = 0,
    runs: int = 1,
    epochs: float = 25.0,
    rate: float = 0.01,
    batch: int = 64,
    gain: float = 1.0,
    examples: int | None = None,
    tests: int | None = None,
    subnetworks: int = 100,
    records: int = 12,
    dataset: str = "mnist",
    device: str = "cpu",
    folder: Folder | None = None,
) -> list[Row]:
    """Full network, visited and unvisited sub-networks over training, one row per run and recorded step.

    A mask is shared by the whole batch, so that step t visits one sub-network; the unvisited ones are drawn once,
    before training. Steps are recorded on a logarithmic grid. thesis-fig5-2 compares `full` with `visited`,
    thesis-fig5-3 with the `unvisited` ones; `smallest`, in the last row, is the width of the smallest sub-network
    found within one percentage point of the full accuracy. The `runs` differ in start, order and masks.
    """
    loader = {"mnist": mnist, "fashion-mnist": fashion_mnist}[dataset]
    images, labels = _images(*loader(folder, "train"), examples, device)
    test = Sample(*_images(*loader(folder, "test"), tests, device))
    training = Runs([LeNet(width, seed + i, gain).to(device) for i in range(runs)], images, labels, rate)
    models = [LastLayer.of(network, "head") for network in training.networks]
    generator = torch.Generator(device).manual_seed(seed + 1)
    chance = torch.Generator().manual_seed(seed + 2)
    fixed = [draw(Bernoulli(drop, width), subnetworks, chance).to(device) for _ in range(runs)]
    total = max(1, round(epochs * math.ceil(len(images) / batch)))
    recorded = _grid(total, records)
    keep, rows, step = 1 - drop, [], 0
    while step < total:
        orders = torch.stack([torch.randperm(len(images), generator=generator, device=device) for _ in range(runs)])
        for chosen in orders.split(batch, dim=1):
            masks = (torch.rand(runs, width, generator=generator, device=device) < keep).float()
            step += 1
            found = []
            if step in recorded:
                found = [_compare(*each, keep) for each in zip(models, [test] * runs, masks, fixed, strict=True)]
            losses = training.step(chosen, masks / keep)
            for i, row in enumerate(found):
                key = {"width": width, "drop": drop, "seed": seed + i, "step": step, "loss": float(losses[i])}
                rows.append(row | key)
            if step == total:
                break
    few = slice(_parts(len(test), width)[0])
    for row, model in zip(rows[-runs:], models, strict=True):
        row["smallest"] = smallest(model, Sample(test.inputs[few], test.targets[few]), 0.01, draws=2).width
    return rows


def _compare(model: LastLayer, test: Sample, mask: Tensor, fixed: Tensor, keep: float) -> Row:
    masks = torch.cat([mask[None] != 0, fixed])
    full, accuracies = 0.0, torch.zeros(len(masks), dtype=torch.float64, device=mask.device)
    sizes = _parts(len(test), len(mask))
    for inputs, targets in zip(test.inputs.split(sizes), test.targets.split(sizes), strict=True):
        report = evaluate(model, Sample(inputs, targets), masks, scale=1 / keep)
        full += report.full * len(inputs) / len(test)
        accuracies += report.accuracies * len(inputs) / len(test)
    others = accuracies[1:]
    return {
        "full": full,
        "visited": float(accuracies[0]),
        "unvisited": float(others.mean()),
        "unvisited_sd": float(others.std()) if len(others) > 1 else 0.0,
        "unvisited_low": float(others.min()),
        "unvisited_high": float(others.max()),
        "kept_units": int(mask.sum()),
    }


def _parts(examples: int, width: int) -> list[int]:
    """How many images to take at a time, so that their activations stay within a gigabyte."""
    size = max(1, min(examples, 2**28 // width))
    return [size] * (examples // size) + ([examples % size] if examples % size else [])


def _images(images: Tensor, labels: Tensor, count: int | None, device: str) -> tuple[Tensor, Tensor]:
    return (images[:count, None].float() / 255).to(device), labels[:count].to(device)


def _grid(steps: int, count: int) -> set[int]:
    """About `count` whole steps from 1 to `steps`, evenly spread on a logarithmic scale."""
    if count < 2:
        return {steps}
    return {max(1, round(steps ** (i / (count - 1)))) for i in range(count)}
