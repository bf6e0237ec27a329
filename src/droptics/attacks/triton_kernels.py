"""All steps of a search on a GPU in one launch, for perceptrons with one hidden layer.

A program takes a block of examples through every step. Per step it reads the first layer once: a tile of it gives the
gradient of some coordinates, which move at once, and the same tile their share of the next hidden layer. Its twin in
plain torch is `Ascent`, which the kernel is tested against.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from droptics.attacks.threat import Region
from droptics.kernels import load_triton, missing

tl: Any = None

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


@cache
def _compiled() -> tuple[Any, Any, Any]:
    global _judged, _lengths, _stepped  # compiled functions call compiled ones only
    triton = load_triton(globals(), "the search in one launch")
    _judged, _lengths, _stepped = triton.jit(_judged), triton.jit(_lengths), triton.jit(_stepped)
    # numbers that change from launch to launch must not be compiled in, nor where a stretch begins
    numbers, places = ["count", "steps", "width", "classes"], ["sizes_at", "counts_at", "pulled_at"]
    return (
        triton.jit(_climb, do_not_specialize=numbers, do_not_specialize_on_alignment=places),
        triton.jit(_judge, do_not_specialize=["count"]),
        triton.jit(_move),
    )


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
    layers: Sequence[Tensor],
    region: Region,
    targets: Tensor,
    aims: Tensor | None,
    state: tuple[Tensor, Tensor, Tensor, Tensor],
    sizes: Sequence[float],
    kind: int,
    *,
    leaves: bool,
    order: Tensor | None = None,
    precision: str = "tf32x3",
) -> tuple[Tensor, Tensor]:
    """Take all steps in place.

    Args:
        layers: Weights and biases of the first layer and of the second, contiguous.
        region: What the points must not leave: a ball of linf or l2, with or without a box.
        targets: Class labels.
        aims: The wrong class of each example to aim at; None for the most likely one, or none (cross-entropy).
        state: Points and best points (n, ...), contiguous, value (n,) and fooled (n,); all written over.
        sizes: Of the steps.
        kind: CROSS_ENTROPY, MARGIN or REFLECTED.
        leaves: Whether a fooled example is done.
        order: Numbers of the examples in the order in which they are put into blocks. With it the blocks are filled
            anew after the STRETCHES, so that those of fooled examples end.
        precision: Of the products with the first layer: "tf32x3" rounds no more than float32 does, "tf32" as torch
            does where it is allowed.

    Returns:
        How many examples were first fooled at each iterate (steps + 1,), and how many gradients were computed.
    """
    points, best, value, fooled = state
    threat, count, device = region.threat, len(points), points.device
    width, classes = len(layers[0]), len(layers[2])
    shape = _shape(count, precision, device)
    low, high = threat.box or (0.0, 0.0)
    targets, flags = targets.long(), fooled.view(torch.uint8)
    inputs, aims_or_any = region.inputs.contiguous(), targets if aims is None else aims.contiguous()
    counts = torch.zeros(len(sizes) + 2, dtype=torch.int64, device=device)
    there = torch.tensor(sizes, dtype=torch.float32).to(device, non_blocking=True)
    stretches = [(0, len(sizes))]
    if order is not None and leaves:
        ends = [end for end in STRETCHES if end < len(sizes)]
        stretches = list(zip([0, *ends], [*ends, len(sizes)], strict=True))
    for begin, end in stretches:
        if begin:
            order = flags.argsort()
        _compiled()[0][(-(-count // shape.rows),)](
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


class Stepper:
    """What surrounds the passes of a network in a step: the judgment of its outputs, and the move along its gradient.

    One launch each where torch takes some forty. Nothing is asked of the device, which also counts the steps.

    Attributes:
        counts: Fooled examples after each step, added to what stands there.
    """

    def __init__(
        self,
        region: Region,
        targets: Tensor,
        aims: Tensor | None,
        state: tuple[Tensor, Tensor, Tensor, Tensor],
        sizes: Tensor,
        number: Tensor,
        counts: Tensor,
        kind: int,
        leaves: bool,
    ) -> None:
        self._points, self._best, self._value, fooled = state
        self._fooled = fooled.view(torch.uint8)
        self._inputs, self._threat = region.inputs.contiguous(), region.threat
        self._targets = targets.long()
        self._aims = self._targets if aims is None else aims.contiguous()
        self._sizes, self._number, self._counts = sizes, number, counts
        self._better = torch.empty_like(self._fooled)
        self._options = {"LOSS": kind, "AIMED": aims is not None, "LEAVES": leaves}

    def judge(self, outputs: Tensor) -> Tensor:
        """Take note of what the outputs (n, classes) say; returns the slopes of the loss."""
        count, classes = outputs.shape
        slopes = torch.empty_like(outputs, memory_format=torch.contiguous_format)
        padded = 1 << (classes - 1).bit_length()
        rows = max(1, 512 // padded)
        _compiled()[1][(-(-count // rows),)](
            outputs.contiguous(), self._targets, self._aims, self._value, self._fooled, self._better, slopes,
            self._counts, self._number, count, classes, **self._options, BM=rows, BC=padded, num_warps=2,
        )  # fmt: skip
        return slopes

    def move(self, gradients: Tensor) -> None:
        """Keep the points that were better and go one step along the gradients, or back into the region."""
        features = self._points[0].numel()
        low, high = self._threat.box or (0.0, 0.0)
        block = min(4096, 1 << (features - 1).bit_length())
        _compiled()[2][(len(self._points),)](
            self._points, self._best, self._inputs, gradients.contiguous(), self._better, self._sizes, self._number,
            features, self._threat.radius, low, high,
            L2=self._threat.norm == "l2", BOXED=self._threat.box is not None, BLOCK=block,
            num_warps=max(1, block // 256),
        )  # fmt: skip


def _padded(size: int) -> int:
    """The least power of two that is not smaller and that a product of tiles takes."""
    return max(16, 1 << (size - 1).bit_length())


def _judged(  # type: ignore[no-untyped-def]
    outputs, is_target, is_aim, value, fooled,
    LOSS: tl.constexpr, AIMED: tl.constexpr, LEAVES: tl.constexpr, SLACK: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """Which points are better than any before, the slope of the loss there, and what is known of them from now on.

    Outputs beyond the classes are minus infinity. A point counts as fooled when the right output is beaten by more
    than SLACK times the largest, so that another order of summation agrees. Else as `losses.beaten`,
    `losses.value_and_slope` and `Ascent._judge`.
    """
    top = tl.max(outputs, 1)
    right = tl.sum(tl.where(is_target, outputs, 0.0), 1)
    # An output that is no number is a mistake; a maximum does not see it.
    odd = tl.sum(((outputs >= 0) | (outputs < 0)).to(tl.int32), 1) < BC
    scale = tl.max(tl.where(outputs > float("-inf"), tl.abs(outputs), 0.0), 1)
    wrong = (top - right > SLACK * scale) | odd | ((top == float("inf")) & (right < top))
    others = tl.where(is_target, float("-inf"), outputs)
    rival = tl.max(others, 1)
    if LOSS == 0:
        powers = tl.exp(outputs - top[:, None])
        total = tl.sum(powers, 1)
        logarithm = right - top - tl.log(total)
        now = -logarithm
        slope = tl.where(is_target, tl.exp(logarithm)[:, None] - 1.0, powers / total[:, None])
        # Beyond this confidence p - 1 has lost its digits.
        powers = tl.exp(others - rival[:, None])
        sure = logarithm > -0.0010005003335835335
        slope = tl.where(sure[:, None], tl.where(is_target, -1.0, powers / tl.sum(powers, 1)[:, None]), slope)
    else:
        margin = right - rival
        now = -margin
        if LOSS == 2:
            now = -(tl.maximum(margin, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(margin))))
        if AIMED:
            slope = tl.where(is_aim, 1.0, 0.0)
        else:
            likely = tl.argmax(others, 1)
            slope = tl.where(tl.arange(0, BC)[None, :] == likely[:, None], 1.0, 0.0)
        slope = tl.where(is_target, -1.0, slope)
    if LEAVES:
        better = (fooled == 0) & (wrong | (now > value))
    else:
        better = (wrong & (fooled == 0)) | ((wrong == (fooled != 0)) & (now > value))
    fresh = (wrong & (fooled == 0)).to(tl.int32)
    return better, slope, tl.where(better, now, value), fooled | fresh, fresh


def _lengths(squares, away, along, size, radius):  # type: ignore[no-untyped-def]
    """What an l2 step multiplies the gradient by, and what pulls the point it leads to back onto the ball.

    squares: of the gradient, in double, where those of small gradients do not underflow; away: square of the distance
    from the input; along: product of gradient and displacement. The gradient zero stays zero.
    """
    length = tl.sqrt(squares)
    scale = tl.where(length > 0, 1.0 / tl.where(length > 0, length, 1.0), 0.0)
    scale = tl.minimum(scale, 3.4028234663852886e38).to(tl.float32) * size
    reach = away + 2.0 * along * scale + tl.where(length > 0, size * size, 0.0)
    return scale, tl.minimum(radius / tl.sqrt(tl.maximum(reach, 1.1754943508222875e-38)), 1.0)


def _stepped(  # type: ignore[no-untyped-def]
    x, x0, g, scale, pulled, radius, low, high, L2: tl.constexpr, BOXED: tl.constexpr
):  # fmt: skip
    """The point one step further, inside ball and box."""
    if L2:
        x = x0 + (x - x0 + g * scale) * pulled
        if BOXED:
            x = tl.minimum(tl.maximum(x, low), high)
    else:
        x += scale * ((g > 0).to(tl.float32) - (g < 0).to(tl.float32))
        lower, upper = x0 - radius, x0 + radius
        if BOXED:
            lower, upper = tl.maximum(lower, low), tl.minimum(upper, high)
        x = tl.minimum(tl.maximum(x, lower), upper)
    return x


def _judge(  # type: ignore[no-untyped-def]
    outputs_at, targets_at, aims_at, value_at, fooled_at, better_at, slopes_at, counts_at, number_at, count, classes,
    LOSS: tl.constexpr, AIMED: tl.constexpr, LEAVES: tl.constexpr, BM: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """Judge a block of examples by their outputs."""
    row = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    c = tl.arange(0, BC)
    real = row < count
    inside = real[:, None] & (c < classes)[None, :]
    place = row[:, None] * classes + c[None, :]
    outputs = tl.load(outputs_at + place, mask=inside, other=float("-inf"))
    outputs = tl.where(real[:, None], outputs, 0.0)
    is_target = c[None, :] == tl.load(targets_at + row, mask=real, other=0)[:, None]
    is_aim = is_target
    if AIMED:
        is_aim = c[None, :] == tl.load(aims_at + row, mask=real, other=0)[:, None]
    value = tl.load(value_at + row, mask=real, other=0.0)
    fooled = tl.load(fooled_at + row, mask=real, other=0).to(tl.int32)
    better, slope, value, fooled, _ = _judged(outputs, is_target, is_aim, value, fooled, LOSS, AIMED, LEAVES, 0.0, BC)
    tl.store(slopes_at + place, slope, mask=inside)
    tl.store(value_at + row, value, mask=real)
    tl.store(fooled_at + row, fooled.to(tl.uint8), mask=real)
    tl.store(better_at + row, better.to(tl.uint8), mask=real)
    found = tl.sum(tl.where(real, fooled, 0), 0)
    tl.atomic_add(counts_at + tl.load(number_at), found.to(tl.int64))


def _move(  # type: ignore[no-untyped-def]
    points_at, best_at, inputs_at, gradients_at, better_at, sizes_at, number_at, features, radius, low, high,
    L2: tl.constexpr, BOXED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Move one example, and remember where it stood if that was better than any point before."""
    row = tl.program_id(0).to(tl.int64)
    start = row * features
    k = tl.arange(0, BLOCK)
    size = tl.load(sizes_at + tl.load(number_at))
    better = tl.load(better_at + row) != 0
    scale, pulled = size, 1.0
    if L2:
        squares, away, along = (
            tl.zeros([BLOCK], tl.float64),
            tl.zeros([BLOCK], tl.float32),
            tl.zeros([BLOCK], tl.float32),
        )
        for at in tl.range(0, features, BLOCK):
            inside = at + k < features
            g = tl.load(gradients_at + start + at + k, mask=inside, other=0.0)
            m = tl.load(points_at + start + at + k, mask=inside, other=0.0)
            m -= tl.load(inputs_at + start + at + k, mask=inside, other=0.0)
            squares += g.to(tl.float64) * g.to(tl.float64)
            away += m * m
            along += m * g
        squares, away, along = tl.sum(squares, 0), tl.sum(away, 0), tl.sum(along, 0)
        scale, pulled = _lengths(squares, away, along, size, radius)  # type: ignore[no-untyped-call]
    for at in tl.range(0, features, BLOCK):
        inside = at + k < features
        g = tl.load(gradients_at + start + at + k, mask=inside, other=0.0)
        x = tl.load(points_at + start + at + k, mask=inside, other=0.0)
        x0 = tl.load(inputs_at + start + at + k, mask=inside, other=0.0)
        tl.store(best_at + start + at + k, x, mask=inside & better)
        x = _stepped(x, x0, g, scale, pulled, radius, low, high, L2, BOXED)
        tl.store(points_at + start + at + k, x, mask=inside)


def _climb(  # type: ignore[no-untyped-def]  # noqa: PLR0912, PLR0915 - one kernel
    points_at, best_at, inputs_at, order_at, targets_at, aims_at, value_at, fooled_at, sizes_at, counts_at, pulled_at,
    first_at, first_bias_at, second_at, second_bias_at,
    count, features, width, classes, steps, radius, low, high,
    LOSS: tl.constexpr, AIMED: tl.constexpr, L2: tl.constexpr, BOXED: tl.constexpr, LEAVES: tl.constexpr,
    SORTED: tl.constexpr, PRECISION: tl.constexpr, SLACK: tl.constexpr,
    BM: tl.constexpr, BK: tl.constexpr, BH: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """One block of examples: judge where they stand, remember what is better, move, until no step is left."""
    place = tl.program_id(0) * BM + tl.arange(0, BM)
    real = place < count
    row = place.to(tl.int64)
    if SORTED:
        row = tl.load(order_at + place, mask=real, other=0)
    k, h, c = tl.arange(0, BK), tl.arange(0, BH), tl.arange(0, BC)
    in_h, in_c = h < width, c < classes
    start = row[:, None] * features
    target = tl.load(targets_at + row, mask=real, other=0)
    is_target = c[None, :] == target[:, None]
    value = tl.load(value_at + row, mask=real, other=0.0)
    fooled = tl.load(fooled_at + row, mask=real, other=1).to(tl.int32)
    first_bias = tl.load(first_bias_at + h, mask=in_h, other=0.0)
    second_bias = tl.load(second_bias_at + c, mask=in_c, other=0.0)
    second = tl.load(second_at + c[:, None] * width + h[None, :], mask=in_c[:, None] & in_h[None, :], other=0.0)
    is_aim = is_target
    if AIMED:
        is_aim = c[None, :] == tl.load(aims_at + row, mask=real, other=0)[:, None]
    going = steps >= 0
    if LEAVES:
        going = tl.sum(fooled, 0) < BM
    acc = tl.zeros([BM, BH], tl.float32)
    if going:
        for at in tl.range(0, features, BK):
            d = at + k
            inside = real[:, None] & (d < features)[None, :]
            x = tl.load(points_at + start + d[None, :], mask=inside, other=0.0)
            w = tl.load(
                first_at + h[:, None] * features + d[None, :], mask=in_h[:, None] & (d < features)[None, :], other=0.0
            )
            acc = tl.dot(x, tl.trans(w), acc, input_precision=PRECISION)
    number = 0
    while going:
        hidden = acc + first_bias[None, :]
        active = hidden > 0
        outputs = tl.dot(tl.where(active, hidden, 0.0), tl.trans(second), input_precision="ieee")
        outputs = tl.where(in_c[None, :], outputs + second_bias[None, :], float("-inf"))
        better, slope, value, fooled, fresh = _judged(
            outputs, is_target, is_aim, value, fooled, LOSS, AIMED, LEAVES, SLACK, BC
        )
        better = better & real
        tl.atomic_add(counts_at + number, tl.sum(fresh, 0).to(tl.int64))
        going = number < steps
        if LEAVES:
            going = going & (tl.sum(fooled, 0) < BM)
        tl.atomic_add(pulled_at, tl.where(going, tl.sum(real.to(tl.int64), 0), 0))
        back = tl.where(active, tl.dot(slope, second, input_precision="ieee"), 0.0)
        size = tl.load(sizes_at + number, mask=going, other=0.0)
        scale, pulled = size, 1.0
        if L2:
            squares = tl.zeros([BM], tl.float64)
            away, along = tl.zeros([BM], tl.float32), tl.zeros([BM], tl.float32)
            if going:
                for at in tl.range(0, features, BK):
                    d = at + k
                    inside = real[:, None] & (d < features)[None, :]
                    w = tl.load(
                        first_at + h[:, None] * features + d[None, :],
                        mask=in_h[:, None] & (d < features)[None, :], other=0.0,
                    )  # fmt: skip
                    g = tl.dot(back, w, input_precision=PRECISION)
                    x = tl.load(points_at + start + d[None, :], mask=inside, other=0.0)
                    m = x - tl.load(inputs_at + start + d[None, :], mask=inside, other=0.0)
                    squares += tl.sum(g.to(tl.float64) * g.to(tl.float64), 1)
                    away += tl.sum(m * m, 1)
                    along += tl.sum(m * g, 1)
            scale, pulled = _lengths(squares, away, along, size, radius)  # type: ignore[no-untyped-call]
            scale, pulled = scale[:, None], pulled[:, None]
        acc = tl.zeros([BM, BH], tl.float32)
        if going:
            for at in tl.range(0, features, BK):
                d = at + k
                inside = real[:, None] & (d < features)[None, :]
                w = tl.load(
                    first_at + h[:, None] * features + d[None, :],
                    mask=in_h[:, None] & (d < features)[None, :], other=0.0,
                )  # fmt: skip
                g = tl.dot(back, w, input_precision=PRECISION)
                x = tl.load(points_at + start + d[None, :], mask=inside, other=0.0)
                x0 = tl.load(inputs_at + start + d[None, :], mask=inside, other=0.0)
                tl.store(best_at + start + d[None, :], x, mask=inside & better[:, None])
                x = _stepped(x, x0, g, scale, pulled, radius, low, high, L2, BOXED)
                x = tl.where(inside, x, 0.0)
                tl.store(points_at + start + d[None, :], x, mask=inside)
                acc = tl.dot(x, tl.trans(w), acc, input_precision=PRECISION)
        else:
            for at in tl.range(0, features, BK):
                d = at + k
                inside = better[:, None] & (d < features)[None, :]
                x = tl.load(points_at + start + d[None, :], mask=inside, other=0.0)
                tl.store(best_at + start + d[None, :], x, mask=inside)
        number += 1
        tl.debug_barrier()  # what one thread stored another reads in the next step
    tl.store(value_at + row, value, mask=real)
    tl.store(fooled_at + row, fooled.to(tl.uint8), mask=real)
