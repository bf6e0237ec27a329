"""A query of the search without gradients on a GPU: what surrounds the pass of the network as two launches.

Torch takes some sixty, each about as long as the pass of a small network. `_propose` changes one square of an example,
`_take` keeps the change where it raises the loss. Their twin in plain torch is `SquareSearch`, which they are tested
against.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from droptics.attacks.launches import runs_on
from droptics.attacks.losses import Margin, Reflected
from droptics.attacks.threat import Region
from droptics.gpu.triton import load_triton
from droptics.losses import Loss

tl: Any = None

_LARGEST = 2**14  # numbers of an example that the registers of a program hold
_TRIES = 32  # squares of an example at a time


def applies(loss: Loss, region: Region, shape: tuple[int, ...], outputs: int) -> bool:
    """Whether the kernels take images of this shape and climb this loss."""
    inner = loss.loss if isinstance(loss, Reflected) else loss
    inputs, (channels, height, width) = region.inputs, shape
    fits = inputs.dtype == torch.float32 and _padded(channels) * _padded(height * width) <= _LARGEST
    known = isinstance(inner, Margin) and outputs > 1 and region.threat.norm != "l1"
    return known and fits and runs_on(inputs.device)


def propose(region: Region, current: Tensor, square: tuple[int, int], bumps: Tensor, draw: Tensor) -> Tensor:
    """Points (n tries, ...) with one square changed, tries of them for each of the current points (n, ...).

    `square` is its height and width, `bumps` (2, pixels of it) one that stands and one that lies there, and `draw`
    (n tries, 5 + channels) are uniform numbers.
    """
    shape = region.inputs.shape[1:]
    channels, height, width = shape if len(shape) == 3 else (1, 1, shape.numel())
    points = current.new_empty(len(draw), *shape)
    low, high = region.threat.box or (-torch.inf, torch.inf)
    rows, columns = _padded(channels), _padded(height * width)
    _compiled()[0][(len(draw),)](
        points, current, region.inputs.contiguous(), draw, bumps, len(draw) // len(current), channels, height, width,
        *square, region.threat.radius, region.threat.radius**2, low, high,
        L2=region.threat.norm == "l2", CH=rows, BLOCK=columns, num_warps=max(rows * columns // 512, 1),
    )  # fmt: skip
    return points


def take(current: Tensor, value: Tensor, fooled: Tensor, targets: Tensor, points: Tensor, outputs: Tensor) -> None:
    """Write the best of the points over the current ones where it is better, with its value and whether it fools."""
    features, classes = current[0].numel(), outputs.shape[-1]
    block = min(1024, _padded(features))
    _compiled()[1][(len(current),)](
        current, value, fooled.view(torch.uint8), targets.long(), points, outputs.contiguous(),
        len(points) // len(current), features, classes, TR=_TRIES, BC=_padded(classes), BLOCK=block, num_warps=4,
    )  # fmt: skip


def _padded(size: int) -> int:
    return 1 << (size - 1).bit_length()


@cache
def _compiled() -> tuple[Any, Any]:
    global _corner, _length  # compiled functions call compiled ones only
    triton = load_triton(globals(), "a query in two launches")
    _corner, _length = triton.jit(_corner), triton.jit(_length)
    # Sides of squares, numbers of examples and places of draws change all the time, and must not be compiled in.
    sizes = ["tries", "channels", "height", "width", "tall", "broad"]
    propose = triton.jit(_propose, do_not_specialize=sizes, do_not_specialize_on_alignment=["draws_at", "bumps_at"])
    return propose, triton.jit(_take, do_not_specialize=["tries", "features", "classes"])


def _propose(  # type: ignore[no-untyped-def]
    points_at, current_at, inputs_at, draws_at, bumps_at, tries, channels, height, width, tall, broad,
    radius, budget, low, high, L2: tl.constexpr, CH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One try: `SquareSearch._changed`."""
    lane = tl.program_id(0).to(tl.int64)
    channel, k = tl.arange(0, CH), tl.arange(0, BLOCK)
    pixels = height * width
    real = (channel < channels)[:, None] & (k < pixels)[None, :]
    place = channel[:, None] * pixels + k[None, :]
    x0 = tl.load(inputs_at + lane // tries * channels * pixels + place, mask=real, other=0.0)
    move = tl.load(current_at + lane // tries * channels * pixels + place, mask=real, other=0.0) - x0
    draw = draws_at + lane * (5 + channels)
    down, across = k // width, k % width
    top = _corner(tl.load(draw), height - tall)  # type: ignore[no-untyped-call]
    left = _corner(tl.load(draw + 1), width - broad)  # type: ignore[no-untyped-call]
    square = (down >= top) & (down < top + tall) & (across >= left) & (across < left + broad)
    square = real & square[None, :]
    sign = tl.where(tl.load(draw + 5 + channel, mask=channel < channels, other=0.0) < 0.5, -1.0, 1.0)[:, None]
    if L2:
        other = _corner(tl.load(draw + 2), height - tall)  # type: ignore[no-untyped-call]
        beside = _corner(tl.load(draw + 3), width - broad)  # type: ignore[no-untyped-call]
        lost = (down >= other) & (down < other + tall) & (across >= beside) & (across < beside + broad)
        lost = square | (real & lost[None, :])
        size = move * move
        spare = tl.maximum(budget - tl.sum(tl.sum(size, 1), 0), 0.0) / channels
        paid = tl.sum(tl.where(lost, size, 0.0), 1) + spare
        inside = tl.where(square, move, 0.0)
        lies = (tl.load(draw + 4) < 0.5).to(tl.int32)
        hill = (down - top) * broad + across - left + lies * tall * broad
        hill = tl.load(bumps_at + hill[None, :] + channel[:, None] * 0, mask=square, other=0.0)
        # Exact: a bump of one pixel may cancel the direction of the move there, and what rounding left is scaled up.
        length = _length(inside)[:, None]  # type: ignore[no-untyped-call]
        fresh = hill * sign + tl.div_rn(inside, tl.broadcast_to(length, CH, BLOCK))
        length = _length(fresh)[:, None]  # type: ignore[no-untyped-call]
        fresh = fresh / length * tl.sqrt(paid)[:, None]
        move = tl.where(square, fresh, tl.where(lost, 0.0, move))
        move = (x0 + move) - x0
        away = tl.sqrt(tl.sum(tl.sum(move * move, 1), 0))
        x = x0 + move * tl.minimum(radius / tl.maximum(away, 1.1754943508222875e-38), 1.0)
    else:
        x = x0 + tl.where(square, move + 2.0 * radius * sign, move)
        x = tl.minimum(tl.maximum(x, x0 - radius), x0 + radius)
    x = tl.minimum(tl.maximum(x, low), high)
    tl.store(points_at + lane * channels * pixels + place, x, mask=real)


def _corner(draw, room):  # type: ignore[no-untyped-def]
    """Where a square begins; as published none ends in the last row."""
    return tl.minimum((draw * room).to(tl.int32), tl.maximum(room - 1, 0))


def _length(move):  # type: ignore[no-untyped-def]
    """Norm of every channel, never zero."""
    return tl.maximum(tl.sqrt_rn(tl.sum(move * move, 1)), 1.1754943508222875e-38)


def _take(  # type: ignore[no-untyped-def]
    current_at, value_at, fooled_at, targets_at, points_at, outputs_at, tries, features, classes,
    TR: tl.constexpr, BC: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One example: the try that fools, or that raises the margin most, in the place of the point so far."""
    row = tl.program_id(0).to(tl.int64)
    t, c, k = tl.arange(0, TR), tl.arange(0, BC), tl.arange(0, BLOCK)
    there = (t < tries)[:, None] & (c < classes)[None, :]
    z = tl.load(outputs_at + (row * tries + t)[:, None] * classes + c[None, :], mask=there, other=float("-inf"))
    is_target = c[None, :] == tl.load(targets_at + row)
    right = tl.sum(tl.where(is_target, z, 0.0), 1)
    rival = tl.max(tl.where(is_target, float("-inf"), z), 1)
    finite = tl.sum((tl.abs(z) < float("inf")).to(tl.int32), 1) == classes
    wrong = ((rival > right) | (finite == 0)) & (t < tries)
    found = rival - right
    score = tl.where(wrong, float("inf"), tl.where(t < tries, found, float("-inf")))
    chosen = tl.argmax(score, 0)
    mine = t == chosen
    fools = tl.sum((wrong & mine).to(tl.int32), 0) > 0
    best = tl.sum(tl.where(mine, found, 0.0), 0)
    before, done = tl.load(value_at + row), tl.load(fooled_at + row) != 0
    better = (done == 0) & (fools | (best > before))
    tl.store(value_at + row, tl.where(better, best, before))
    tl.store(fooled_at + row, (done | fools).to(tl.uint8))
    source = (row * tries + chosen) * features
    for at in tl.range(0, features, BLOCK):
        inside = (at + k < features) & (k * 0 + better.to(tl.int32) > 0)
        x = tl.load(points_at + source + at + k, mask=inside, other=0.0)
        tl.store(current_at + row * features + at + k, x, mask=inside)
