"""The last-layer experiment of the structured-dropout paper: networks trained on images with DropBlock.

The cell is a pure function of plain parameters and a seed and returns plain rows.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

from droptics.data import Sample
from droptics.datasets import cifar10, mnist
from droptics.linalg import k_support_shrink
from droptics.masks import Block
from droptics.models import LastLayer
from droptics.norms import k_support
from droptics.training import Cosine, Dropout, Recording, ResNet, SmallCnn, log_steps, train

Row = dict[str, Any]
Scale = Literal["smoke", "paper"]
Folder = str | os.PathLike[str]


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


def last_layer_cells(scale: Scale) -> dict[str, dict[str, Any]]:
    """Cells of figure 2; they need the image files."""
    small: dict[str, Any] = {"network": "cnn", "examples": 60, "steps": 60, "batch_size": 20, "records": 6}
    return {dataset: {"dataset": dataset} | (small if scale == "smoke" else {}) for dataset in ("mnist", "cifar10")}
