"""What the exact penalty costs inside a training step: plain, nn.Dropout, ExplicitDropout.

- CPU: 784-1024-10 perceptron, batches of 128;
- GPU: ResNet-50 on 224 x 224 images in bfloat16, batches of 128; every step is recorded once and replayed, timed by
  events between the replays, so that the clock sees the device alone.

All variants step one network in turns, from one pool of memory: copies of a network lie elsewhere in memory, which
alone makes differences like those that are looked for. The number is the median over the repeats of (step with) /
(plain step). On the GPU a repeat is every variant once in one order and once in the other, and the interval of the
median is that of order statistics. The row of the plain step recorded a second time says what the method cannot tell.
"""

from __future__ import annotations

from harness import Row, clock, report  # first: it sets the number of threads before torch loads

# isort: split
import itertools
import math
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


def variants(make_body: Callable[[], nn.Module], width: int, outputs: int, inputs: Tensor) -> dict[str, Step]:
    """One training step per variant, all of the same network."""
    device = inputs.device
    torch.manual_seed(0)
    body, head = make_body().to(device), nn.Linear(width, outputs, device=device)
    if device.type == "cuda":
        body = body.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.01, momentum=0.9, foreach=True)
    labels = torch.randint(0, outputs, (len(inputs),), device=device)
    targets = functional.one_hot(labels, outputs).float()

    def build(kind: str) -> Step:
        layer: nn.Module = nn.Identity()
        if kind in ("nn.Dropout", "ExplicitDropout"):
            layer = nn.Dropout(0.5) if kind == "nn.Dropout" else ExplicitDropout(0.5, head)

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

    return {name: build(name) for name in ("plain", "plain again", "nn.Dropout", "ExplicitDropout")}


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
    return compared(label, times, repeats)


def replayed(label: str, steps: dict[str, Step], repeats: int) -> list[Row]:
    """The same for steps on a GPU, each recorded after a few that choose its kernels."""
    graphs, side, pool = {}, torch.cuda.Stream(), torch.cuda.graph_pool_handle()
    first = next(iter(steps))
    with torch.cuda.stream(side):
        # the first graph finds the pool empty and places its tensors otherwise: one more before those that are timed
        for name, step in [(first + ", to fill the pool", steps[first]), *steps.items()]:
            for _ in range(5):
                step()
            graphs[name] = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graphs[name], pool, side):
                step()
        order = [*steps, *reversed(steps)]
        for name in order * 3:
            graphs[name].replay()
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(repeats * len(order) + 1)]
        marks[0].record()
        for name, mark in zip(order * repeats, marks[1:], strict=True):
            graphs[name].replay()
            mark.record()
    torch.cuda.synchronize()
    taken = [first.elapsed_time(second) / 1e3 for first, second in itertools.pairwise(marks)]
    times: dict[str, list[float]] = {name: [] for name in steps}
    for start in range(0, len(taken), len(order)):
        for place, name in enumerate(steps):
            times[name].append((taken[start + place] + taken[start + len(order) - 1 - place]) / 2)
    return compared(label, times, repeats)


def compared(label: str, times: dict[str, list[float]], repeats: int) -> list[Row]:
    """Every variant against the plain step of the same repeat."""
    plain = times.pop("plain")
    found = []
    for name, taken in times.items():
        extra = sorted(100 * (t / p - 1) for p, t in zip(plain, taken, strict=True))
        low, middle, high = statistics.quantiles(extra, n=4)
        # the median lies between these two of the sorted numbers in 95 of 100 runs
        reach = math.ceil(0.98 * repeats**0.5)
        ends = extra[max(repeats // 2 - reach, 0)], extra[min(repeats // 2 + reach, repeats - 1)]
        kind = (
            "the same network, no dropout"
            if name != "ExplicitDropout"
            else "exact penalty of squared loss, in the precision of the step"
        )
        note = (
            f"step {middle:+.3f} %, 95 % interval {ends[0]:+.3f} to {ends[1]:+.3f} (quartiles {low:+.2f}, {high:+.2f}) "
            f"over {repeats} interleaved repeats"
        )
        medians = statistics.median(taken), statistics.median(plain)
        found.append(Row(f"{label}: {name} / plain step", *medians, 1 / (1 + middle / 100), kind, note))
    return found


def cpu_rows() -> list[Row]:
    torch.manual_seed(1)
    inputs = torch.randn(128, 784)
    steps = variants(lambda: nn.Sequential(nn.Linear(784, 1024), nn.ReLU()), 1024, 10, inputs)
    return rows("step of a 784-1024-10 perceptron, CPU", steps, inputs.device, repeats=41, number=2)


def gpu_rows() -> list[Row]:
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(1)
    inputs = torch.randn(128, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    steps = variants(resnet50_body, 2048, 1000, inputs)
    return replayed("step of ResNet-50, bfloat16, batch 128, GPU", steps, repeats=200)


if __name__ == "__main__":
    torch.set_num_threads(1)
    if "--gpu" not in sys.argv:
        report("step", cpu_rows())
    if torch.cuda.is_available():
        report("step_gpu", gpu_rows(), "cuda")
