"""Steps of a search on a GPU in few launches: one for all where one hidden layer is all there is, else two for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from droptics.attacks.ascent import Climbers
from droptics.attacks.triton_ascent import compiled
from droptics.gpu.triton import missing

WIDEST, MOST_CLASSES = 128, 16  # beyond, a block does not fit into the registers of a program
# What the kernel climbs.
CROSS_ENTROPY, MARGIN, REFLECTED = range(3)
STRETCHES = (6, 12, 20)  # steps after which blocks of many examples are filled anew


@dataclass(frozen=True)
class Shape:
    """How the work is cut: examples and coordinates of a tile, warps of a program, stages of its pipeline."""

    rows: int
    columns: int
    warps: int
    stages: int = 3


# By how much of the largest output the products of the kernel and those of torch may differ.
SLACK = {"tf32x3": 4e-6, "tf32": 1e-3}
# The fastest found on an H200, by precision: few examples want short programs, many want few reads of the layer.
FEW = {"tf32x3": Shape(16, 128, 8, 2), "tf32": Shape(16, 64, 4)}
MANY = {"tf32x3": Shape(32, 64, 4, 2), "tf32": Shape(64, 32, 4)}
SMALL = Shape(16, 32, 4)  # for chips with less memory beside their processors
ONE_WAVE, LARGE = 2048, 160 * 1024


def runs_on(device: torch.device) -> bool:
    """Whether the kernels can be launched there: on chips that multiply in TF32, with Triton installed."""
    return device.type == "cuda" and not missing() and torch.cuda.get_device_capability(device) >= (8, 0)


def _shape(count: int, precision: str, device: torch.device) -> Shape:
    """How the work is cut for this many examples."""
    shape = (FEW if count <= ONE_WAVE else MANY)[precision]
    if device.type == "cuda":
        memory = getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", 0)
        shape = shape if memory >= LARGE else SMALL
    return shape


def fits(weights: Sequence[Tensor]) -> bool:
    """Whether the kernel takes a perceptron with these weights."""
    return len(weights) == 2 and len(weights[0]) <= WIDEST and 2 <= len(weights[1]) <= MOST_CLASSES


def climb(
    now: Climbers,
    layers: Sequence[Tensor],
    sizes: Sequence[float],
    kind: int,
    leaves: bool,
    order: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Take all steps in place.

    Products with the first layer round no more than float32 does, or as torch does where it is allowed tf32.

    Args:
        now: The examples in a ball of linf or l2, with or without a box. Points and best points (n, ...), contiguous,
            values (n,) and who is fooled (n,) are written over; `aim` is the wrong class of each to aim at, None for
            the most likely one, or none (cross-entropy).
        layers: Weights and biases of the first layer and of the second, contiguous.
        sizes: Of the steps.
        kind: CROSS_ENTROPY, MARGIN or REFLECTED.
        leaves: Whether a fooled example is done.
        order: Numbers of the examples in the order in which they are put into blocks. With it the blocks are filled
            anew after the STRETCHES, so that those of fooled examples end.

    Returns:
        How many examples were first fooled at each iterate (steps + 1,), and how many gradients were computed.
    """
    assert now.best is not None
    points, best, value, fooled, region, aims = now.points, now.best, now.value, now.fooled, now.region, now.aim
    precision = "tf32" if torch.backends.cuda.matmul.fp32_precision == "tf32" else "tf32x3"
    threat, count, device = region.threat, len(points), points.device
    width, classes = len(layers[0]), len(layers[2])
    shape = _shape(count, precision, device)
    low, high = threat.box or (0.0, 0.0)
    targets, flags = now.targets.long(), fooled.view(torch.uint8)
    inputs, aims_or_any = region.inputs.contiguous(), targets if aims is None else aims.contiguous()
    counts = torch.zeros(len(sizes) + 2, dtype=torch.int64, device=device)
    there = _there(tuple(sizes), device)
    stretches = [(0, len(sizes))]
    if order is not None and leaves:
        ends = [end for end in STRETCHES if end < len(sizes)]
        stretches = list(zip([0, *ends], [*ends, len(sizes)], strict=True))
    for begin, end in stretches:
        if begin:
            order = flags.argsort()
        compiled()[0][(-(-count // shape.rows),)](
            points, best, inputs, targets if order is None else order, targets, aims_or_any, value, flags,
            there[begin:], counts[begin:], counts[-1:],
            *layers,
            count, points[0].numel(), width, classes, end - begin, threat.radius, low, high,
            LOSS=kind, AIMED=aims is not None, L2=threat.norm == "l2", BOXED=threat.box is not None, LEAVES=leaves,
            SORTED=order is not None, PRECISION=precision, SLACK=SLACK[precision],
            BM=shape.rows, BK=shape.columns, BH=_padded(width), BC=_padded(classes),
            num_warps=shape.warps, num_stages=shape.stages,
        )  # fmt: skip
    return counts[:-1], counts[-1]


@lru_cache(64)
def _there(sizes: tuple[float, ...], device: torch.device) -> Tensor:
    """The sizes of the steps on the device, which those of the last attacks have not left: a copy stalls the host."""
    return torch.tensor(sizes, dtype=torch.float32).to(device)


class Stepper:
    """What surrounds the passes of a network in a step: the judgment of its outputs, and the move along its gradient.

    One launch each where torch takes some forty. Nothing is asked of the device, which also counts the steps.

    Attributes:
        counts: Fooled examples after each step, added to what stands there.
    """

    def __init__(self, now: Climbers, sizes: Tensor, number: Tensor, counts: Tensor, kind: int, leaves: bool) -> None:
        assert now.best is not None
        self._points, self._best, self._value = now.points, now.best, now.value
        self._fooled = now.fooled.view(torch.uint8)
        self._inputs, self._threat = now.region.inputs.contiguous(), now.region.threat
        self._targets = now.targets.long()
        self._aims = self._targets if now.aim is None else now.aim.contiguous()
        self._sizes, self._number, self._counts = sizes, number, counts
        self._better = torch.empty_like(self._fooled)
        self._options = {"LOSS": kind, "AIMED": now.aim is not None, "LEAVES": leaves}

    def judge(self, outputs: Tensor) -> Tensor:
        """Take note of what the outputs (n, classes) say; returns the slopes of the loss."""
        count, classes = outputs.shape
        slopes = torch.empty_like(outputs, memory_format=torch.contiguous_format)
        padded = 1 << (classes - 1).bit_length()
        rows = max(1, 512 // padded)
        compiled()[1][(-(-count // rows),)](
            outputs.contiguous(), self._targets, self._aims, self._value, self._fooled, self._better, slopes,
            self._counts, self._number, count, classes, **self._options, BM=rows, BC=padded, num_warps=2,
        )  # fmt: skip
        return slopes

    def move(self, gradients: Tensor) -> None:
        """Keep the points that were better and go one step along the gradients, or back into the region."""
        features = self._points[0].numel()
        low, high = self._threat.box or (0.0, 0.0)
        block = min(4096, 1 << (features - 1).bit_length())
        compiled()[2][(len(self._points),)](
            self._points, self._best, self._inputs, gradients.contiguous(), self._better, self._sizes, self._number,
            features, self._threat.radius, low, high,
            L2=self._threat.norm == "l2", BOXED=self._threat.box is not None, BLOCK=block,
            num_warps=max(1, block // 256),
        )  # fmt: skip


def _padded(size: int) -> int:
    """The least power of two that is not smaller and that a product of tiles takes."""
    return max(16, 1 << (size - 1).bit_length())
