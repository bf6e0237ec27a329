"""How wide certified bounds are for heads trained with dropout .5: small perceptrons, early and overfit, and a CNN.

The width of the mean over the first training images is set against the middle of the interval, with no unit and with
eight units written out. A long sample of masks stands beside it. So many examples are worked side by side as `WORKERS`
in the environment says.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from droptics.data import Sample
from droptics.datasets import cifar10, fashion_mnist, mnist
from droptics.losses import CrossEntropy
from droptics.masks import Bernoulli
from droptics.models import LastLayer
from droptics.models.modules import linear_layer
from droptics.penalties import Certified, MonteCarlo, penalty
from harness import write

RATE, WIDTH, DRAWS = 0.5, 256, 20_000
EXAMPLES = {0: 40, 8: 24}
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Case(NamedTuple):
    """A body, the data it is trained on, and the epochs after which its head is looked at."""

    name: str
    data: Callable[..., tuple[Tensor, Tensor]]
    images: int
    epochs: tuple[int, ...]
    convolutional: bool = False


CASES = (
    Case("cifar10", cifar10, 1_000, (5, 10, 25, 60)),
    Case("mnist", mnist, 1_000, (5, 25, 100)),
    Case("fashion_mnist", fashion_mnist, 1_000, (5, 25, 100)),
    Case("cifar10", cifar10, 20_000, (15,)),
    Case("cifar10_cnn", cifar10, 50_000, (10,), convolutional=True),
)


class Head(NamedTuple):
    """Features of the first images, their labels, weight and bias of the last layer, on the CPU."""

    features: Tensor
    labels: Tensor
    weight: Tensor
    bias: Tensor


def layers(case: Case, inputs: Tensor) -> nn.Module:
    if not case.convolutional:
        return nn.Sequential(nn.Flatten(), nn.Linear(inputs[0].numel(), WIDTH), nn.ReLU())
    channels = ((3, 32, 1), (32, 64, 2), (64, 64, 1), (64, 128, 2), (128, WIDTH, 2))
    blocks = [
        nn.Sequential(nn.Conv2d(a, b, 3, step, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU()) for a, b, step in channels
    ]
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten())


def trained(case: Case) -> Iterator[tuple[str, Head]]:
    """The head after each of the epochs."""
    inputs, labels = case.data(split="train")
    inputs, labels = inputs[: case.images].float().to(DEVICE), labels[: case.images].long().to(DEVICE)
    inputs = (inputs - inputs.mean()) / inputs.std()
    torch.manual_seed(0)
    body, head = layers(case, inputs).to(DEVICE), nn.Linear(WIDTH, 10).to(DEVICE)
    optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()], 1e-3)
    for epoch in range(1, max(case.epochs) + 1):
        body.train()
        for part in torch.randperm(len(inputs), device=DEVICE).split(64 if case.images == 1_000 else 256):
            optimizer.zero_grad()
            outputs = head(functional.dropout(body(inputs[part]), RATE))
            functional.cross_entropy(outputs, labels[part]).backward()
            optimizer.step()
        if epoch in case.epochs:
            body.eval()
            with torch.no_grad():
                features = body(inputs[:100])
            found = (features, labels[:100], head.weight.detach(), head.bias.detach())
            yield f"{case.name}_{case.images}_{epoch}", Head(*(part.cpu() for part in found))


def bounded(name: str, head: Head, place: int, condition: int) -> tuple[str, int, list[float]]:
    """Lower end, upper end, sampled penalty and seconds of the processor for one example."""
    torch.set_num_threads(1)
    layer = linear_layer(head.weight.double(), head.bias.double()).requires_grad_(False)
    model, masks = LastLayer.of(layer), Bernoulli(RATE, WIDTH)
    example = Sample(head.features[place : place + 1].double(), head.labels[place : place + 1])
    start = time.process_time()
    found = penalty(model, example, masks, Certified(condition), CrossEntropy())
    seconds = time.process_time() - start
    drawn = penalty(model, example, masks, MonteCarlo(DRAWS, seed=place), CrossEntropy())
    return name, condition, [float(found.lower), float(found.upper), float(drawn), seconds]


def main() -> None:
    cases = CASES[: int(sys.argv[1])] if len(sys.argv) > 1 else CASES
    heads = {name: head for case in cases for name, head in trained(case)}
    rows: dict[tuple[str, int], list[list[float]]] = {}
    numbers: dict[str, object] = {}
    workers = int(os.environ.get("WORKERS", "2"))
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        asked = [
            pool.submit(bounded, name, head, place, condition)
            for place in range(max(EXAMPLES.values()))
            for name, head in heads.items()
            for condition, count in EXAMPLES.items()
            if place < count
        ]
        for answer in as_completed(asked):
            name, condition, row = answer.result()
            known = rows.setdefault((name, condition), [])
            known.append(row)
            lower, upper, drawn, seconds = torch.tensor(known).mean(0).tolist()
            numbers |= {
                f"{name}_{condition}_{key}": value
                for key, value in {
                    "examples": len(known),
                    "width": (upper - lower) / (0.5 * (upper + lower)),
                    "lower": lower,
                    "upper": upper,
                    "sampled": drawn,
                    "seconds": seconds,
                }.items()
            }
            write("certified", numbers)


if __name__ == "__main__":
    main()
