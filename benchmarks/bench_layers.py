"""Layers: the cost of ExplicitDropout in a training step, and what it takes to reach the same criterion."""

from __future__ import annotations

import statistics

import torch
from torch import nn
from torch.nn import functional

from droptics.layers import DropBlock, ExplicitDropout
from droptics.losses import CrossEntropy, Loss, Squared
from droptics.papers.droptics_own.explicit_training import Race, compared
from harness import Row, compare, report


def small_cnn(explicit: Loss | None) -> tuple[nn.Sequential, nn.Module]:
    torch.manual_seed(0)
    head = nn.Linear(128, 10)
    layer: nn.Module = nn.Dropout(0.5) if explicit is None else ExplicitDropout(0.5, head, explicit)
    net = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 49, 128),
        nn.ReLU(),
        layer,
        head,
    )
    return net, layer


def step(explicit: Loss | None, loss: Loss) -> tuple[object, nn.Sequential]:
    """One training step of the small CNN as a function without arguments."""
    net, layer = small_cnn(explicit)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(128, 1, 28, 28, generator=generator)
    labels = torch.randint(0, 10, (128,), generator=generator)
    targets = functional.one_hot(labels, 10).float()

    def run() -> None:
        outputs = net(images)
        if isinstance(loss, Squared):
            value = (outputs - targets).square().sum(-1).mean()
        else:
            value = functional.cross_entropy(outputs, labels)
        if isinstance(layer, ExplicitDropout):
            value = value + layer.penalty
        optimizer.zero_grad()
        value.backward()
        optimizer.step()

    return run, net


def step_rows() -> list[Row]:
    rows = []
    for loss in (Squared(), CrossEntropy()):
        ours, _ = step(loss, loss)
        theirs, _ = step(None, loss)
        assert callable(ours)
        assert callable(theirs)
        seconds, other, ratio = compare(ours, theirs, repeats=15)
        name = type(loss).__name__
        note = f"step time {1 / ratio:.3f} times that of nn.Dropout"
        kind = "exact penalty" if isinstance(loss, Squared) else "second-order penalty"
        rows.append(
            Row(f"step of a small CNN, {name}: ExplicitDropout / nn.Dropout", seconds, other, ratio, kind, note)
        )
    return rows


def race_rows(seeds: int = 3) -> list[Row]:
    runs = [compared(Race(), seed) for seed in range(seeds)]
    rows = []
    for position in (1, 2):
        ours = [float(run[position]["seconds"]) for run in runs]
        theirs = [float(run[0]["seconds"]) for run in runs]
        epochs = [(float(run[position]["epochs"]), float(run[0]["epochs"])) for run in runs]
        ends = [(float(run[position]["criterion at the end"]), float(run[0]["criterion at the end"])) for run in runs]
        rows.append(
            Row(
                f"to within 2 % of the final criterion of nn.Dropout: {runs[0][position]['method']}",
                statistics.median(ours),
                statistics.median(theirs),
                statistics.median(b / a for a, b in zip(ours, theirs, strict=True)),
                "final criteria " + ", ".join(f"{a:.4f} / {b:.4f}" for a, b in ends),
                "epochs " + ", ".join(f"{a:g} / {b:g}" for a, b in epochs) + "; wall seconds",
            )
        )
    return rows


def block_row() -> Row:
    inputs = torch.randn(32, 64, 16, 16, generator=torch.Generator().manual_seed(0))
    layer = DropBlock(0.1, 5)

    def plain() -> torch.Tensor:
        # as commonly written: one square window, rescaled by the share that survived
        seeds = (torch.rand(32, 64, 12, 12) < 0.1 * 256 / (25 * 144)).float()
        kept = 1 - functional.max_pool2d(functional.pad(seeds, [4] * 4), 5, stride=1)
        return inputs * kept * (kept.numel() / kept.sum())

    seconds, other, ratio = compare(lambda: layer(inputs), plain, repeats=9)
    return Row("DropBlock 5x5 on 32x64x16x16, forward", seconds, other, ratio, "realized rate 0.1 against 0.094")


if __name__ == "__main__":
    torch.set_num_threads(1)
    report("layers", [*step_rows(), block_row(), *race_rows()])
