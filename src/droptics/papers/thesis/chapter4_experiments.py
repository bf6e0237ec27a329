"""Co-adaptation, generalization gap and capacity of two-layer ReLU networks on two image classes (thesis-fig4-2)."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from droptics.bounds import relu, surveyed
from droptics.coadaptation import retentivity, split
from droptics.data import Sample
from droptics.datasets import fashion_mnist, mnist
from droptics.models import ReLUNet
from droptics.papers.thesis.capture import captured

Row = dict[str, Any]
Folder = str | os.PathLike[str]

_SETS = {"mnist": mnist, "fashion-mnist": fashion_mnist}


def two_classes(
    dataset: str = "mnist",
    classes: tuple[int, int] = (4, 7),
    *,
    examples: int | None = None,
    folder: Folder | None = None,
    unit_norm: bool = False,
) -> tuple[Sample, Sample]:
    """Training and test images of two classes as vectors in [0, 1] with labels -1 and +1, float32.

    `examples` takes the first so many of each part; `unit_norm` scales every image to norm one.
    """
    if dataset not in _SETS:
        raise ValueError(f"dataset must be one of {sorted(_SETS)}, got {dataset!r}")
    parts = []
    for part in ("train", "test"):
        images, labels = _SETS[dataset](folder, part)
        chosen = ((labels == classes[0]) | (labels == classes[1])).nonzero()[:examples, 0]
        inputs = images[chosen].flatten(1).float() / 255
        if unit_norm:
            inputs = inputs / inputs.norm(dim=1, keepdim=True)
        parts.append(Sample(inputs, (labels[chosen] == classes[1]).float() * 2 - 1))
    return parts[0], parts[1]


def coadaptation_cell(
    *,
    dataset: str = "mnist",
    width: int = 64,
    drop: float = 0.5,
    symmetrized: bool = True,
    seed: int = 0,
    runs: int = 1,
    epochs: int = 30,
    rate: float = 1e-3,
    batch: int = 64,
    examples: int | None = None,
    bounds: bool = True,
    device: str = "cpu",
    folder: Folder | None = None,
) -> list[Row]:
    """One point of thesis-fig4-2: train with dropout SGD on squared loss, measure before and after; a row per run.

    A row holds phi and alpha / sqrt(n) at the start and at the end, training and test risk of the clipped network
    (on inputs with random signs when `symmetrized`), their gap and the accuracies; with `bounds` the row of the
    first run also the generalization bound and the complexities surveyed in chapter 1. The `runs` differ in signs,
    start, order and masks and are trained together.
    """
    data, test = (part.to(device) for part in two_classes(dataset, examples=examples, folder=folder))
    chance = torch.Generator().manual_seed(seed)
    signs = [random_signs(runs, len(part), chance).to(device) for part in (data, test)] if symmetrized else [None, None]
    starts = [initial_network(data.inputs.shape[1], width, chance) for _ in range(runs)]
    stacked = ReLUNet([torch.stack(layer).to(device) for layer in zip(*(net.weights for net in starts), strict=True)])
    generator = torch.Generator(device).manual_seed(seed + 1)
    trained = dropout_sgd(
        stacked, data, drop, epochs=epochs, rate=rate, batch=batch, generator=generator, signs=signs[0]
    )
    rows = []
    for run in range(runs):
        start, model = (ReLUNet([weight[run] for weight in net.weights]) for net in (stacked, trained))
        parts = [data, test]
        if symmetrized:
            flips = [sign[run] for sign in signs if sign is not None]
            parts = [Sample(part.inputs * flip[:, None], part.targets) for part, flip in zip(parts, flips, strict=True)]
        row: Row = {"dataset": dataset, "width": width, "drop": drop, "symmetrized": symmetrized, "seed": seed + run}
        rows.append(row | _measured(start, model, parts[0], parts[1], symmetrized))
        if bounds and run == 0:
            rows[0] |= _bounded(model, parts[0], symmetrized)
    return rows


def _measured(start: ReLUNet, model: ReLUNet, data: Sample, test: Sample, symmetrized: bool) -> Row:
    before, after = (split(net, data, symmetrized=symmetrized) for net in (start, model))
    row: Row = {
        "examples": len(data),
        "phi_start": before.coadaptation,
        "phi": after.coadaptation,
        "alpha_start": before.alpha / math.sqrt(len(data)),
        "alpha": after.alpha / math.sqrt(len(data)),
    }
    for name, part in (("train", data), ("test", test)):
        outputs = model.outputs(part.inputs)
        row[f"{name}_risk"] = float((outputs.clamp(-1, 1) - part.targets).square().mean())
        row[f"{name}_accuracy"] = float((outputs * part.targets > 0).double().mean())
    row["gap"] = row["test_risk"] - row["train_risk"]
    return row


def _bounded(model: ReLUNet, data: Sample, symmetrized: bool) -> Row:
    # raw images are non-negative, so their retentivity is 0 and the bound without symmetrization infinite
    beta = None if symmetrized else float(retentivity(data))
    bound = relu(model, data, retentivity=beta, symmetrized=symmetrized)
    row: Row = {
        "bound": bound.value,
        "bound_complexity": bound.terms["complexity"],
        "examples_needed": bound.needed["examples"],
    }
    return row | {f"surveyed_{name}": other.value for name, other in surveyed(model, data).items()}


def initial_network(inputs: int, width: int, generator: torch.Generator) -> ReLUNet:
    """He initialization: hidden weights of variance 2 / inputs, top weights of variance 1 / width, float32."""
    hidden = torch.randn(width, inputs, generator=generator) * (2 / inputs) ** 0.5
    return ReLUNet([hidden, torch.randn(1, width, generator=generator) / width**0.5])


def random_signs(runs: int, count: int, generator: torch.Generator) -> Tensor:
    """Fair signs (runs, count): what `symmetrize` multiplies the examples by, drawn for every run."""
    return (torch.randint(0, 2, (runs, count), generator=generator) * 2 - 1).float()


def dropout_sgd(  # parameters: those of the printed training
    start: ReLUNet,
    data: Sample,
    drop: float,
    *,
    epochs: int,
    rate: float,
    batch: int,
    generator: torch.Generator,
    signs: Tensor | None = None,
) -> ReLUNet:
    """Dropout SGD on the mean squared loss, one mask per example, both layers trained, gradients written out.

    A batch of networks (runs first) is trained together, each in its own order and under its own masks; `signs`
    (runs, examples) multiply the examples of each run. On a GPU a step is recorded once and replayed.
    """
    hidden, top = (weight.clone() for weight in start.weights)
    keep, runs = 1 - drop, start.batch_shape
    steps: dict[int, tuple[Tensor, Tensor, Callable[[], Tensor]]] = {}
    for _ in range(epochs):
        for chosen in _orders(runs, len(data), generator).split(batch, dim=-1):
            count = chosen.shape[-1]
            if count not in steps:
                index, masks = torch.zeros_like(chosen), hidden.new_zeros(*runs, count, hidden.shape[-2])
                advance = partial(_sgd_step, hidden, top, data, signs, index, masks, rate)
                steps[count] = index, masks, captured(advance, (hidden, top))
            index, masks, step = steps[count]
            index.copy_(chosen)
            masks.copy_((torch.rand(masks.shape, generator=generator, device=masks.device) < keep) / keep)
            step()
    return ReLUNet([hidden, top])


def _sgd_step(  # parameters: what one step reads and writes
    hidden: Tensor, top: Tensor, data: Sample, signs: Tensor | None, index: Tensor, masks: Tensor, rate: float
) -> Tensor:
    """Move the weights, in place, along the gradient of the mean squared loss of the chosen examples; their errors."""
    inputs, targets = data.inputs[index], data.targets[index]
    if signs is not None:
        inputs = inputs * signs.gather(-1, index)[..., None]
    active = torch.relu(inputs @ hidden.mT)
    dropped = active * masks
    error = 2 * (dropped @ top.mT - targets) / index.shape[-1]
    slope = (error @ top) * masks * (active > 0)
    top -= rate * error.mT @ dropped
    hidden -= rate * slope.mT @ inputs
    return error


def _orders(runs: Sequence[int], size: int, generator: torch.Generator) -> Tensor:
    """A random order of the examples for every run."""
    orders = [torch.randperm(size, generator=generator, device=generator.device) for _ in range(math.prod(runs))]
    return torch.stack(orders).reshape(*runs, size)
