"""Adversarial training on color images: one cell of the CIFAR-10 table of chapter 6."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from droptics.attacks import CrossEntropy, Loss, Pgd, Reflected, Threat, attack, perturb
from droptics.data import Sample
from droptics.models.modules import evaluating
from droptics.papers.thesis.chapter6_networks import preact_resnet18, small_cnn


def cifar_run(  # parameters: columns of the table
    train: Sample,
    test: Sample,
    *,
    reflected: bool,
    radius: float,
    steps: int,
    seed: int,
    network: Literal["resnet", "small"] = "resnet",
    epochs: int = 20,
    batch: int = 128,
    peak: float = 0.2,
    test_steps: int = 50,
    restarts: int = 10,
    test_radius: float | None = None,
    step: float | None = None,
    augment: bool = True,
    precision: Literal["float32", "bfloat16"] = "float32",
) -> dict[str, float]:
    """Robust and standard accuracy after adversarial training on 32 x 32 color images, labels 0..9 (thesis-tab6-2).

    SGD with momentum 0.9 and weight decay 5e-4, the rate rising linearly to `peak` at half time and back to zero;
    PGD in the linf ball with random start in training, in steps of `step` (2.5 radii over all of them without it),
    "R-PGD" with the greedy reflected loss; PGD with restarts at test. Runs on the device of the data; the time is that
    of epochs * (steps + 1) passes over the data. `precision`
    is that of the products in training; the test is in float32 always.
    """
    device = train.inputs.device
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = preact_resnet18() if network == "resnet" else small_cnn()
    # Channels last is the order in which GPUs convolve without turning the images first.
    net = net.to(device)
    if device.type == "cuda":
        net = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def outputs(images: Tensor) -> Tensor:
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16"):
            scores: Tensor = net(images)
        return scores.float()

    loss: Loss = Reflected(CrossEntropy(), "greedy") if reflected else CrossEntropy()
    method = Pgd(loss, steps, 2.5 * radius / steps if step is None else step, start="random", stop="never")
    threat = Threat("linf", radius, (0.0, 1.0))
    shuffle = torch.Generator().manual_seed(seed)
    draws = torch.Generator(device).manual_seed(seed)
    optimizer = torch.optim.SGD(net.parameters(), lr=peak, momentum=0.9, weight_decay=5e-4)
    total = epochs * math.ceil(len(train) / batch)
    done = 0
    for _ in range(epochs):
        for rows in torch.randperm(len(train), generator=shuffle).split(batch):
            images, labels = train.inputs[rows.to(device)], train.targets[rows.to(device)]
            if augment:
                images = _augmented(images, shuffle)
            points = perturb(outputs, images, labels, threat, method, draws)
            place = (done + 0.5) / total
            optimizer.param_groups[0]["lr"] = peak * (1 - abs(2 * place - 1))
            optimizer.zero_grad()
            functional.cross_entropy(outputs(points), labels).backward()
            optimizer.step()
            done += 1
    judge = Threat("linf", radius if test_radius is None else test_radius, (0.0, 1.0))
    final = Pgd(steps=test_steps, step=2.5 * judge.radius / test_steps, restarts=restarts, start="random", seed=seed)
    with evaluating(net):
        result = attack(net, test, judge, final, batch=500)
    return {
        "robust accuracy": float(result.robust_accuracy()),
        "standard accuracy": float(result.clean_accuracy()),
        "weights": float(sum(p.numel() for p in net.parameters())),
    }


def _augmented(images: Tensor, generator: torch.Generator) -> Tensor:
    """Each image shifted by up to four pixels, zeros coming in, and mirrored with probability one half."""
    count, _, height, width = images.shape
    padded = functional.pad(images, (4, 4, 4, 4))
    down, right = torch.randint(0, 9, (2, count), generator=generator).to(images.device)
    rows = (down[:, None] + torch.arange(height, device=images.device))[:, None, :, None]
    columns = right[:, None] + torch.arange(width, device=images.device)
    mirrored = (torch.rand(count, generator=generator) < 0.5).to(images.device)
    columns = torch.where(mirrored[:, None], columns.flip(1), columns)[:, None, None, :]
    which = torch.arange(count, device=images.device)[:, None, None, None]
    channels = torch.arange(images.shape[1], device=images.device)[None, :, None, None]
    return padded[which, channels, rows, columns]
