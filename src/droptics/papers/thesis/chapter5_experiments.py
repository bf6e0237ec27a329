"""Sub-networks of trained networks (thesis-fig5-2, thesis-fig5-3), and lazy dropout training (thesis-alg4)."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from droptics.bounds import active_units, gate_margin, lazy, lazy_setting, linear_margin
from droptics.coadaptation import draw, evaluate, smallest
from droptics.data import Sample
from droptics.datasets import fashion_mnist, mnist
from droptics.masks import Bernoulli
from droptics.models import LastLayer, ReLUNet
from droptics.papers.thesis.chapter4_experiments import two_classes
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


@dataclass(frozen=True, eq=False)
class LazyState:
    """Weights of lazy training after some steps, before the final multiplication by the keep probability."""

    weights: Tensor
    signs: Tensor
    start: Tensor

    def model(self, kept: Tensor | None = None) -> ReLUNet:
        """f(x) = a^T B relu(W x) / sqrt(m), B the identity or a 0/1 mask."""
        top = self.signs if kept is None else self.signs * kept
        return ReLUNet([self.weights, top[None] / math.sqrt(len(self.signs))])


def lazy_start(inputs: int, width: int, generator: torch.Generator) -> LazyState:
    """Standard normal rows and a fixed top layer of random signs."""
    weights = torch.randn(width, inputs, generator=generator)
    signs = (torch.randint(0, 2, (width,), generator=generator) * 2 - 1).float()
    return LazyState(weights, signs, weights.clone())


def lazy_step(state: LazyState, inputs: Tensor, label: float, kept: Tensor, rate: float, radius: float) -> int:
    """One step of thesis-alg4 in place, natural logistic loss; returns how many rows the max-norm projected.

    Only rows with mask 1 and non-negative pre-activation move: O(q m d / 2).
    """
    products = state.weights @ inputs
    active = (kept * (products >= 0)).nonzero()[:, 0]
    root = math.sqrt(len(state.signs))
    output = float((state.signs[active] * products[active]).sum()) / root
    push = rate * label / (1 + math.exp(min(label * output, 700.0))) / root
    moved = state.weights[active] + push * state.signs[active, None] * inputs
    norms = moved.norm(dim=1, keepdim=True)
    state.weights[active] = moved * (radius / norms).clamp_max(1.0)
    return int((norms > radius).sum())


def lazy_cell(
    *,
    width: int = 1000,
    drop: float = 0.5,
    seed: int = 0,
    steps: int = 2500,
    rate: float = 1.0,
    subnetworks: int = 50,
    records: int = 8,
    dataset: str = "mnist",
    classes: tuple[int, int] = (0, 1),
    gates: int = 128,
    folder: Folder | None = None,
) -> list[Row]:
    """Lazy dropout training on two classes: errors of the iterates, drift, activation flips, and the bounds.

    `rate` is for the natural logarithm (1 is ln 2 in base two). Every row holds the test error of the full network,
    of the visited sub-network and the mean over unvisited ones, the largest distance of a row from its start times
    sqrt(m), the share of activations on test images that changed sign, and the number of projections so far. The
    margin is the linear one on the training images times (1 - drop) / 2; the estimate from random gates on a subset
    stands beside it, and the bounds of thesis-thm14 and thesis-thm15 with what they would need.
    """
    data, test = two_classes(dataset, classes, folder=folder, unit_norm=True)
    generator = torch.Generator().manual_seed(seed)
    state = lazy_start(data.inputs.shape[1], width, generator)
    radius = math.sqrt(data.inputs.shape[1]) + 2 * math.sqrt(math.log(max(width, 2))) + 1
    order = torch.randperm(len(data), generator=generator)
    fixed = draw(Bernoulli(drop, width), subnetworks, generator)
    before = test.inputs @ state.start.mT >= 0
    guarantees = _guarantees(data, width, drop, steps, rate, gates, seed)
    recorded = _grid(steps, records)
    rows, projected, visited_errors = [], 0, 0.0
    for step in range(1, steps + 1):
        kept = (torch.rand(width, generator=generator) < 1 - drop).float()
        index = int(order[(step - 1) % len(order)])
        if step in recorded:
            errors = evaluate(state.model(), test, torch.cat([kept[None] != 0, fixed]))
            visited_errors = 1 - float(errors.accuracies[0])
            rows.append(
                {
                    "width": width,
                    "drop": drop,
                    "seed": seed,
                    "step": step,
                    "full_error": 1 - errors.full,
                    "visited_error": visited_errors,
                    "unvisited_error": 1 - float(errors.accuracies[1:].mean()),
                    "drift_root_width": float((state.weights - state.start).norm(dim=1).max()) * math.sqrt(width),
                    "flips": float(((test.inputs @ state.weights.mT >= 0) != before).double().mean()),
                    "projections": projected,
                    **guarantees,
                }
            )
        label = float(data.targets[index])
        projected += lazy_step(state, data.inputs[index], label, kept, rate, radius)
    return rows


# parameters: columns of the table
def _guarantees(data: Sample, width: int, drop: float, steps: int, rate: float, gates: int, seed: int) -> Row:
    margin = (1 - drop) * linear_margin(data) / 2
    part = Sample(data.inputs[:500], data.targets[:500])
    estimated = gate_margin(part, gates, drop, steps=300, seed=seed)
    base_two = min(rate * math.log(2), math.log(2))
    found: Row = {"margin": margin, "gate_margin": float(estimated.lower), "gate_margin_upper": float(estimated.upper)}
    if margin == 0:
        return found
    inputs = data.inputs.shape[1]
    learning = lazy(margin=margin, steps=steps, inputs=inputs, drop=drop, rate=base_two)
    compression = lazy(margin=margin, steps=steps, inputs=inputs, drop=drop, rate=base_two, compression=True)
    setting = lazy_setting(margin, steps, inputs, rate=base_two, width=width)
    found |= {
        "learning_bound": learning.value,
        "compression_bound": compression.value,
        "steps_needed": learning.needed["steps"],
        "width_needed": learning.needed["width"],
        "drift_bound_root_width": setting.drift * math.sqrt(width),
        "active_units_bound": active_units(width, drop, steps),
    }
    return found


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
