"""What the exact penalty costs inside a training step: plain, nn.Dropout, ExplicitDropout, ExplicitDropout compiled.

- CPU: 784-1024-10 perceptron, batches of 128;
- GPU: ResNet-50 on 224 x 224 images in bfloat16, batches of 128.

All variants of a network are stepped in turns; the number is the median over the repeats of (step with) / (plain step).
"""

from __future__ import annotations

from harness import Row, clock, report  # first: it sets the number of threads before torch loads

# isort: split
import statistics
import sys
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from droptics.layers import ExplicitDropout

Step = Callable[[], None]


class Bottleneck(nn.Module):
    """1 x 1, 3 x 3, 1 x 1 convolutions with a shortcut."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, 4 * width, 1, bias=False),
            nn.BatchNorm2d(4 * width),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != 4 * width:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)
            )

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


def resnet50_body(base: int = 64, blocks: tuple[int, ...] = (3, 4, 6, 3)) -> nn.Sequential:
    """Images to 32 * base features; the body of ResNet-50 at its defaults."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, base, 7, 2, 3, bias=False),
        nn.BatchNorm2d(base),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
    ]
    width = base
    for stage, count in enumerate(blocks):
        for block in range(count):
            layers.append(Bottleneck(width, base << stage, 2 if stage > 0 and block == 0 else 1))
            width = 4 * (base << stage)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())


def variants(
    make_body: Callable[[], nn.Module], width: int, outputs: int, inputs: Tensor, compiled: bool
) -> dict[str, Step]:
    """One training step per variant, each with its own copy of the same network."""
    device = inputs.device
    labels = torch.randint(0, outputs, (len(inputs),), device=device)
    targets = functional.one_hot(labels, outputs).float()

    def build(kind: str) -> Step:
        torch.manual_seed(0)
        body, head = make_body().to(device), nn.Linear(width, outputs, device=device)
        layer: nn.Module = {"plain": nn.Identity(), "nn.Dropout": nn.Dropout(0.5)}.get(kind, ExplicitDropout(0.5, head))
        if kind == "ExplicitDropout, compiled":
            layer.compile()
        if device.type == "cuda":
            body = body.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        parameters = [*body.parameters(), *head.parameters()]
        optimizer = torch.optim.SGD(parameters, lr=0.01, momentum=0.9, foreach=True)

        def step() -> None:
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                outcome = head(layer(body(inputs)))
            loss = (outcome.float() - targets).square().sum(-1).mean()
            if isinstance(layer, ExplicitDropout):
                loss = loss + layer.penalty
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()

        return step

    names = ["plain", "nn.Dropout", "ExplicitDropout"] + ["ExplicitDropout, compiled"] * compiled
    return {name: build(name) for name in names}


def rows(label: str, steps: dict[str, Step], device: torch.device, repeats: int, number: int) -> list[Row]:
    for step in steps.values():
        for _ in range(5):
            step()
    times: dict[str, list[float]] = {name: [] for name in steps}
    for repeat in range(repeats):
        for name, step in list(steps.items())[:: 1 if repeat % 2 else -1]:  # no variant always comes first
            begin = clock(device)
            for _ in range(number):
                step()
            times[name].append((clock(device) - begin) / number)
    plain = times.pop("plain")
    found = []
    for name, taken in times.items():
        ratio = statistics.median(p / t for p, t in zip(plain, taken, strict=True))
        extra = [100 * (t / p - 1) for p, t in zip(plain, taken, strict=True)]
        low, middle, high = statistics.quantiles(extra, n=4)
        kind = (
            "the same network, no dropout"
            if name == "nn.Dropout"
            else "exact penalty of squared loss, in the precision of the step"
        )
        note = f"step {middle:+.2f} % (quartiles {low:+.2f}, {high:+.2f}) over {repeats} interleaved repeats"
        found.append(
            Row(f"{label}: {name} / plain step", statistics.median(taken), statistics.median(plain), ratio, kind, note)
        )
    return found


def cpu_rows() -> list[Row]:
    torch.manual_seed(1)
    inputs = torch.randn(128, 784)
    steps = variants(lambda: nn.Sequential(nn.Linear(784, 1024), nn.ReLU()), 1024, 10, inputs, compiled=False)
    return rows("step of a 784-1024-10 perceptron, CPU", steps, inputs.device, repeats=41, number=2)


def gpu_rows() -> list[Row]:
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(1)
    inputs = torch.randn(128, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    steps = variants(resnet50_body, 2048, 1000, inputs, compiled=True)
    return rows("step of ResNet-50, bfloat16, batch 128, GPU", steps, inputs.device, repeats=24, number=8)


if __name__ == "__main__":
    torch.set_num_threads(1)
    if "--gpu" not in sys.argv:
        report("step", cpu_rows())
    if torch.cuda.is_available():
        report("step_gpu", gpu_rows(), "cuda")
