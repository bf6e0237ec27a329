"""Adversarial training on color images: one cell of the CIFAR-10 table of chapter 6."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from copy import copy, deepcopy
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from droptics.attacks import CrossEntropy, Loss, Pgd, Reflected, Threat, attack
from droptics.attacks.gradients import Autograd, Function
from droptics.attacks.losses import value_and_slope
from droptics.attacks.threat import Region
from droptics.data import Sample
from droptics.models.modules import evaluating
from droptics.papers.thesis.chapter6_networks import preact_resnet18, small_cnn


def cifar_run(  # parameters: columns of the table
    train: Sample,
    test: Sample,
    *,
    radius: float,
    seed: int,
    test_steps: int = 50,
    restarts: int = 10,
    test_radius: float | None = None,
    attacked: int | None = None,
    **training: Any,
) -> dict[str, float]:
    """Robust and standard accuracy after adversarial training on 32 x 32 color images, labels 0..9 (thesis-tab6-2).

    `training` is that of `hardened`; at test PGD with restarts in steps of a quarter of the radius, in float32, on the
    first `attacked` images; the standard accuracy is that of all.
    """
    net = hardened(train, radius=radius, seed=seed, **training)
    judge = Threat("linf", radius if test_radius is None else test_radius, (0.0, 1.0))
    final = Pgd(steps=test_steps, step=judge.radius / 4, restarts=restarts, start="random", seed=seed)
    with evaluating(net):
        result = attack(net, Sample(test.inputs[:attacked], test.targets[:attacked]), judge, final)
        with torch.no_grad():
            named = torch.cat([net(images).argmax(1) for images in test.inputs.split(1000)])
    return {
        "robust accuracy": float(result.robust_accuracy()),
        "standard accuracy": float((named == test.targets).double().mean()),
        "weights": float(sum(p.numel() for p in net.parameters())),
    }


def hardened(  # parameters: columns of the table
    train: Sample,
    *,
    reflected: bool,
    radius: float,
    steps: int,
    seed: int,
    network: Literal["resnet", "small"] = "resnet",
    epochs: int = 20,
    batch: int = 128,
    peak: float = 0.2,
    peak_momentum: float = 0.8,
    step: float | None = None,
    augment: bool = True,
    precision: Literal["float32", "bfloat16"] = "float32",
) -> nn.Module:
    """A network after adversarial training.

    SGD with weight decay 5e-4, the rate rising linearly to `peak` at half time and back to zero, the momentum falling
    from 0.9 to `peak_momentum` and back with it, as torch's cyclic schedule does; batches are replaced by the last
    iterate of PGD in the linf ball from a random start, in steps of `step` (2.5 radii over all of them without it),
    "R-PGD" with the greedy reflected loss. Runs on the device of the data; the time is that of epochs * (steps + 1)
    passes over the data. `precision` is that of the products.
    """
    device = train.inputs.device
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = preact_resnet18() if network == "resnet" else small_cnn()
    # Channels last is the order in which GPUs convolve without turning the images first.
    net = net.to(device)
    if device.type == "cuda":
        net = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    trained, frozen = Trained(net, dtype), Frozen(net, dtype)
    descend = recorded(trained, train.inputs[:batch].clone())
    climb = Autograd(recorded(frozen, train.inputs[:batch].clone().requires_grad_()))
    loss: Loss = Reflected(CrossEntropy(), "greedy") if reflected else CrossEntropy()
    sizes = [2.5 * radius / steps if step is None else step] * steps
    threat = Threat("linf", radius, (0.0, 1.0))
    draws = torch.Generator(device).manual_seed(seed)
    optimizer = torch.optim.SGD(net.parameters(), lr=peak, momentum=0.9, weight_decay=5e-4, fused=True)
    total = epochs * math.ceil(len(train) / batch)
    done = 0
    for _ in range(epochs):
        order = torch.randperm(len(train), device=device, generator=draws)
        shown, truth = train.inputs[order], train.targets[order]
        if augment:
            shown = _augmented(shown, draws)
        for images, labels in zip(shown.split(batch), truth.split(batch), strict=True):
            frozen.refresh()
            region = threat.around(images)
            points = climbed(climb, region, region.random(draws), labels, loss, sizes)
            height = 1 - abs(2 * (done + 0.5) / total - 1)
            optimizer.param_groups[0] |= {"lr": peak * height, "momentum": 0.9 + (peak_momentum - 0.9) * height}
            optimizer.zero_grad()
            functional.cross_entropy(descend(points), labels).backward()
            optimizer.step()
            done += 1
    return net


def climbed(
    tape: Autograd, region: Region, points: Tensor, targets: Tensor, loss: Loss, sizes: Sequence[float]
) -> Tensor:
    """The last iterate of sign steps from given points: no more passes than there are steps."""
    for size in sizes:
        _, slope = value_and_slope(loss, tape.forward(points), targets, scaled=False)
        points = region.retract_(points + size * region.threat.steepest(tape.pull(slope)))
    return points


class Trained(nn.Module):
    """The outputs of a network, factors of its products rounded to a precision; the weights stay as they are."""

    def __init__(self, net: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.net, self.dtype = net, dtype

    def forward(self, images: Tensor) -> Tensor:
        """Scores (n, classes) in float32."""
        with torch.autocast(images.device.type, self.dtype, enabled=self.dtype != torch.float32):
            scores: Tensor = self.net(images)
        return scores.float()


class Frozen:
    """The same outputs for attacks, which differentiate by the images alone.

    An attack reads the weights many times between two steps of training; they are rounded once, by `refresh`.
    """

    def __init__(self, net: nn.Module, dtype: torch.dtype) -> None:
        self._dtype = dtype
        shared = {id(part): part for part in net.modules() if isinstance(part, nn.BatchNorm2d)}
        self._twin = deepcopy(net, shared)
        for part in self._twin.modules():
            if isinstance(part, (nn.Conv2d, nn.Linear)):
                part.to(dtype).requires_grad_(False)
        both = zip(self._twin.parameters(), net.parameters(), strict=True)
        pairs = [(mine.detach(), weight.detach()) for mine, weight in both if mine is not weight]
        self._mine, self._weights = [mine for mine, _ in pairs], [weight for _, weight in pairs]

    def refresh(self) -> None:
        """Round the weights as they are now, in place, in few launches: one by one they take half a millisecond."""
        torch._foreach_copy_(self._mine, self._weights)

    def __call__(self, images: Tensor) -> Tensor:
        scores: Tensor = self._twin(images.to(self._dtype))
        return scores.float()


def recorded(function: Function, images: Tensor) -> Function:
    """On a GPU, passes over as many images as these are replays, faster than their kernels launched one by one.

    The rehearsals move running statistics, which forget them within an epoch.
    """
    if not images.is_cuda:
        return function
    chosen = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True  # the rehearsals try which convolutions are the fastest
    try:
        with warnings.catch_warnings():  # torch warns of the stream of its own rehearsals
            warnings.filterwarnings("ignore", "The AccumulateGrad node's stream", UserWarning)
            replay: Function = torch.cuda.make_graphed_callables(copy(function), (images,))  # type: ignore[assignment]
    finally:
        torch.backends.cudnn.benchmark = chosen
    return lambda batch: (replay if len(batch) == len(images) else function)(batch)


def _augmented(images: Tensor, generator: torch.Generator) -> Tensor:
    """Each image shifted by up to four pixels, zeros coming in, and mirrored with probability one half."""
    count, _, height, width = images.shape
    padded = functional.pad(images, (4, 4, 4, 4))
    down, right = torch.randint(0, 9, (2, count), device=images.device, generator=generator)
    rows = (down[:, None] + torch.arange(height, device=images.device))[:, None, :, None]
    columns = right[:, None] + torch.arange(width, device=images.device)
    mirrored = torch.rand(count, device=images.device, generator=generator) < 0.5
    columns = torch.where(mirrored[:, None], columns.flip(1), columns)[:, None, None, :]
    which = torch.arange(count, device=images.device)[:, None, None, None]
    channels = torch.arange(images.shape[1], device=images.device)[None, :, None, None]
    return padded[which, channels, rows, columns]
