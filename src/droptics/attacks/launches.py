"""Steps of a search on a GPU in few launches: one for all where one hidden layer is all there is, else two for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise

import torch
from torch import Tensor

from droptics.attacks import triton_shared
from droptics.attacks.ascent import Climbers
from droptics.attacks.gradients import PlainMlp
from droptics.attacks.threat import rounding
from droptics.attacks.triton_ascent import compiled
from droptics.gpu.launches import launch as by_addresses
from droptics.gpu.triton import missing

WIDEST, MOST_CLASSES = 128, 16  # beyond, a block does not fit into the registers of a program
# What the kernel climbs.
CROSS_ENTROPY, MARGIN, REFLECTED = range(3)
SEEN, STUCK = 8, 5  # numbers that `verify` counts, and the place of the examples that did not move
STRETCHES = (6, 12, 20)  # steps after which blocks of many examples are filled anew
SLACK = 2e-5  # by how much of the largest output the products of the kernel and those of torch may differ
# Examples and coordinates of a tile, warps of a program, stages of its pipeline: the fastest found on an H200 for few
# examples and for many, and what fits chips with less memory beside their processors.
FEW, MANY, SMALL = (16, 128, 8, 3), (16, 128, 8, 2), (16, 32, 4, 3)
ONE_WAVE, LARGE = 2048, 160 * 1024


@dataclass(frozen=True)
class Course:
    """The steps of a search: their sizes, what they climb (CROSS_ENTROPY, ...), whether a fooled example is done."""

    sizes: Sequence[float]
    kind: int
    leaves: bool


@cache
def runs_on(device: torch.device) -> bool:
    """Whether the kernels can be launched there: on chips that multiply in TF32, with Triton installed."""
    return device.type == "cuda" and not missing() and torch.cuda.get_device_capability(device) >= (8, 0)


def _shape(count: int, device: torch.device) -> tuple[int, int, int, int]:
    """How the work is cut for this many examples."""
    shape = FEW if count <= ONE_WAVE else MANY
    if device.type == "cuda":
        memory = getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", 0)
        shape = shape if memory >= LARGE else SMALL
    return shape


def fits(weights: Sequence[Tensor]) -> bool:
    """Whether the kernel takes a perceptron with these weights."""
    return len(weights) == 2 and weights[0].shape[0] <= WIDEST and 2 <= weights[1].shape[0] <= MOST_CLASSES


def climb(
    now: Climbers, tape: PlainMlp, course: Course, order: Tensor | None = None, copies: Tensor | None = None
) -> Tensor:
    """Take all steps in place.

    Products are of numbers rounded to 17 bits, whatever torch is allowed: they say which way to step, and who is done.

    Args:
        now: The examples in a ball of linf or l2, with or without a box. Points and best points (n, ...), contiguous,
            values (n,) and who is fooled (n,) are written over; `aim` is the wrong class of each to aim at, None for
            the most likely one, or none (cross-entropy).
        tape: The perceptron.
        course: Of the steps.
        order: Numbers of the examples in the order in which they are put into blocks. With it the blocks are filled
            anew after the STRETCHES, so that those of fooled examples end.
        copies: Where the search begins at the inputs, room for a copy of them; what `now` holds is only written then.

    Returns:
        How many examples were first fooled at each iterate (steps + 1,), how many gradients were computed, and SEEN
        zeros for `verify` to count in.
    """
    assert now.best is not None
    points, best, value, fooled, region, aims = now.points, now.best, now.value, now.fooled, now.region, now.aim
    threat, count, features, device = region.threat, points.shape[0], points.shape[1:].numel(), points.device
    steps, options = len(course.sizes), {"LOSS": course.kind, "LEAVES": course.leaves, "SLACK": SLACK}
    turns = -(-count // triton_shared.BLOCK) if order is None and triton_shared.parts(count, features, device) else 0
    counts = torch.zeros(steps + 2 + SEEN + turns, dtype=torch.int64, device=device)
    there, counted = sizes_there(tuple(course.sizes), device), counts[: steps + 2 + SEEN]
    if turns:
        triton_shared.climb(now, tape, there, counts, copies, **options)
        return counted
    if copies is not None:
        points.copy_(copies.copy_(region.inputs))
        value.fill_(-torch.inf)
        fooled.zero_()
    pairs = [(w, w.new_zeros(len(w)) if b is None else b) for w, b in zip(tape.weights, tape.biases, strict=True)]
    layers, (width, classes) = [part.contiguous() for pair in pairs for part in pair], (len(b) for _, b in pairs)
    rows, columns, warps, stages = _shape(count, device)
    hidden, outputs, stride = _padded(width), _padded(classes), -(-features // columns) * columns
    half = torch.bfloat16 if device.type == "cuda" else torch.float32  # the interpreter, on the CPU, knows no bfloat16
    halves = torch.empty((2, hidden, stride), dtype=half, device=device)
    head = torch.empty((outputs + 1) * hidden + outputs, device=device)
    pack, launch = compiled()[:2]
    pack[(hidden,)](*layers, halves, head, features, stride, width, classes, BH=hidden, BC=outputs, BLOCK=1024)
    low, high = threat.box or (-torch.inf, torch.inf)
    targets, flags = now.targets.long(), fooled.view(torch.uint8)
    inputs, aims = region.inputs.contiguous(), None if aims is None else aims.contiguous()
    ends = [end for end in STRETCHES if end < steps] if order is not None and course.leaves else []
    for begin, end in pairwise([0, *ends, steps]):
        if begin:
            order = flags.argsort()
        launch[(-(-count // rows),)](
            points, best, inputs, order, targets, aims, value, flags, there[begin:], counts[begin:],
            counts[steps + 1 :], halves, head, count, features, stride, classes, end - begin, threat.radius, low, high,
            **options, L2=threat.norm == "l2", BM=rows, BK=columns, BH=hidden, BC=outputs, num_warps=warps,
            num_stages=stages,
        )  # fmt: skip
    return counted


def verify(
    now: Climbers, outputs: tuple[Tensor, ...], counts: Tensor, kind: int
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Judge what `climb` found from the inputs by outputs (n, classes) there and at the best points, in one launch.

    Returns:
        Who is wrong at the best points and who is right at the inputs; loss and margin at the best points and their
        distance from the inputs. At the end of `counts` stands what `attack` asks of its searches, and last how many
        examples have an input outside the box or a label that is no class.
    """
    assert now.best is not None
    threat, (count, classes), features = now.region.threat, outputs[0].shape, now.best.shape[1:].numel()
    flags = torch.empty((2, count), dtype=torch.bool, device=counts.device)
    numbers = torch.empty((3, count), device=counts.device)
    (low, high), block = threat.box or (-torch.inf, torch.inf), min(1024, 1 << (features - 1).bit_length())
    arguments = (
        now.points, now.best, now.region.inputs, *outputs, now.targets, now.fooled.view(torch.uint8),
        flags.view(torch.uint8), numbers, counts[-SEEN:], count, features, classes, threat.radius, low, high,
        *rounding(threat, features),
    )  # fmt: skip
    sizes = {"L2": threat.norm == "l2", "BLOCK": block, "BC": _padded(classes)}
    by_addresses(compiled()[4], count, arguments, {"LOSS": kind, **sizes}, {"num_warps": 4})
    return flags.unbind(), numbers.unbind()


@lru_cache(64)
def sizes_there(sizes: tuple[float, ...], device: torch.device) -> Tensor:
    """The sizes of the steps on the device, which those of the last attacks have not left: a copy stalls the host."""
    return torch.tensor(sizes, dtype=torch.float32).to(device)


class Stepper:
    """What surrounds the passes of a network in a step: the judgment of its outputs, and the move along its gradient.

    One launch each where torch takes some forty. Nothing is asked of the device, which also counts the steps; fooled
    examples after each are added to what stands in `counts`.
    """

    def __init__(self, now: Climbers, sizes: Tensor, number: Tensor, counts: Tensor, kind: int, leaves: bool) -> None:
        assert now.best is not None
        self._points, self._best, self._value = now.points, now.best, now.value
        self._fooled = now.fooled.view(torch.uint8)
        self._inputs, self._threat = now.region.inputs.contiguous(), now.region.threat
        self._targets = now.targets.long()
        self._aims = self._targets if now.aim is None else now.aim.contiguous()
        self._sizes, self._number, self._counts = sizes, number, counts
        self._better = torch.zeros_like(self._fooled)
        self._options = {"LOSS": kind, "AIMED": now.aim is not None, "LEAVES": leaves, "SLACK": now.slack}

    def judge(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """Take note of what the outputs (n, classes) say; returns who is better off and the slopes of the loss."""
        count, classes = outputs.shape
        slopes = torch.empty_like(outputs, memory_format=torch.contiguous_format)
        padded = 1 << (classes - 1).bit_length()
        rows = max(1, 512 // padded)
        compiled()[2][(-(-count // rows),)](
            outputs.contiguous(), self._targets, self._aims, self._value, self._fooled, self._better, slopes,
            self._counts, self._number, count, classes, **self._options, BM=rows, BC=padded, num_warps=2,
        )  # fmt: skip
        return self._better.view(torch.bool), slopes

    def move(self, gradients: Tensor) -> None:
        """Keep the points that were better and go one step along the gradients, or back into the region."""
        features = self._points[0].numel()
        low, high = self._threat.box or (-torch.inf, torch.inf)
        block = min(4096, 1 << (features - 1).bit_length())
        compiled()[3][(len(self._points),)](
            self._points, self._best, self._inputs, gradients.contiguous(), self._better, self._sizes, self._number,
            features, self._threat.radius, low, high,
            L2=self._threat.norm == "l2", BLOCK=block, num_warps=max(1, block // 256),
        )  # fmt: skip


def _padded(size: int) -> int:
    """The least power of two that is not smaller and that a product of tiles takes."""
    return max(16, 1 << (size - 1).bit_length())
