"""The search of few examples on a GPU: several programs share a block of them, so that all processors have work.

Each program keeps its own coordinates of the block and their weights for the whole search. A step waits once for the
others, whose shares of the hidden layer it adds to its own, under l2 once more for their shares of lengths; every
program adds them in the same order, so that all judge alike. Products, judgment and step are those of `triton_ascent`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from droptics.attacks import triton_ascent
from droptics.attacks.ascent import Climbers
from droptics.attacks.gradients import PlainMlp
from droptics.attacks.triton_ascent import _halves, _judged, _lengths, _product, _stepped
from droptics.gpu.launches import launch
from droptics.gpu.triton import load_triton

tl: Any = None

BLOCK, PARTS = 32, 4  # examples of a block, and programs that share it: 1056 examples take all of 132 processors
COLUMNS, HIDDEN, CLASSES = 256, 128, 16  # coordinates of a program, whose weights take 128 KiB, and its other sizes
# A warp takes 16 rows of a product. To products that are added up Triton 3.6 gives the rows of all warps, also where a
# factor has fewer: with more warps than these the last ones read beyond it.
WARPS = min(HIDDEN, COLUMNS) // 16


@cache
def processors(device: torch.device) -> int:
    """Of a chip whose products take one factor of 64 rows from beside the processor; elsewhere nothing is shared."""
    if device.type != "cuda" or torch.cuda.get_device_capability(device) != (9, 0):
        return 0
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def parts(count: int, features: int, device: torch.device) -> int:
    """How many programs share a block of examples; 0 where not all programs would run at the same time."""
    if device.type == "cpu":
        return int(features <= COLUMNS)  # the interpreter takes one program after the other
    return PARTS if -(-count // BLOCK) * PARTS <= processors(device) and features <= PARTS * COLUMNS else 0


def climb(now: Climbers, tape: PlainMlp, sizes: Tensor, counts: Tensor, copies: Tensor | None, **kind: Any) -> None:
    """Take all steps in place, as `launches.climb` says, in counts of zero with one more for each block at their end.

    With room for copies the search begins at the inputs, which are copied there; nothing else is read before it is
    written then.
    """
    points, region, aims = now.points, now.region, now.aim
    threat, count, features, device = region.threat, points.shape[0], points.shape[1:].numel(), points.device
    width, classes = (weight.shape[0] for weight in tape.weights)
    shares, blocks = parts(count, features, device), -(-count // BLOCK)
    sums = torch.empty(blocks * 2 * shares * BLOCK * HIDDEN, device=device)
    l2, room = threat.norm == "l2", blocks * 2 * shares * BLOCK * 3
    lengths = torch.empty(room, dtype=torch.float64, device=device) if l2 else None
    half = torch.bfloat16 if device.type == "cuda" else torch.float32  # the interpreter, on the CPU, knows no bfloat16
    halves = torch.empty((2, HIDDEN, shares * COLUMNS), dtype=half, device=device)
    (first, second), (first_bias, second_bias) = tape.weights, tape.biases
    low, high = threat.box or (-torch.inf, torch.inf)
    arguments = (
        points, now.best, region.inputs.contiguous(), copies, now.targets.long(),
        None if aims is None else aims.contiguous(), now.value, now.fooled.view(torch.uint8), sizes, counts,
        sums, lengths, halves, first.contiguous(), first_bias, second.contiguous(), second_bias, count, features, width,
        classes, sizes.shape[0], counts.shape[0] - blocks, threat.radius, low, high,
    )  # fmt: skip
    constants = {"L2": l2, "PARTS": shares, "BM": BLOCK, "BK": COLUMNS, "BH": HIDDEN, "BC": CLASSES}
    together = {"launch_cooperative_grid": True} if shares > 1 else {}
    launch(_compiled(), blocks * shares, arguments, kind | constants, {"num_warps": WARPS} | together)


@cache
def _compiled() -> Any:
    global _meet, _judged, _lengths, _stepped, _halves, _product  # compiled functions call compiled ones only
    triton_ascent.compiled()
    triton = load_triton(globals(), "the search in one launch")
    _meet, _judged, _lengths = triton.jit(_meet), triton_ascent._judged, triton_ascent._lengths
    _stepped, _halves, _product = triton_ascent._stepped, triton_ascent._halves, triton_ascent._product
    numbers = ["count", "width", "classes", "steps", "turns"]
    return triton.jit(_share, do_not_specialize=numbers, do_not_specialize_on_alignment=["sizes_at", "counts_at"])


def _meet(turns_at, wanted):  # type: ignore[no-untyped-def]
    """Wait until so many programs came here; what they stored before can be read from now on."""
    tl.debug_barrier()
    came = tl.atomic_add(turns_at, 1) + 1
    while came < wanted:
        came = tl.atomic_add(turns_at, 0, sem="acquire")
    tl.debug_barrier()


# parameters: Triton takes no structs, see gpu/triton.py
def _share(  # type: ignore[no-untyped-def]  # noqa: PLR0915 - one kernel
    points_at, best_at, inputs_at, copies_at, targets_at, aims_at, value_at, fooled_at, sizes_at, counts_at, sums_at,
    lengths_at, halves_at, first_at, first_bias_at, second_at, second_bias_at, count, features, width, classes, steps,
    turns, radius, low, high,
    LOSS: tl.constexpr, LEAVES: tl.constexpr, SLACK: tl.constexpr, L2: tl.constexpr, PARTS: tl.constexpr,
    BM: tl.constexpr, BK: tl.constexpr, BH: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """Some coordinates of one block of examples: judge where they stand, remember what is better, move, and again."""
    HALF: tl.constexpr = halves_at.dtype.element_ty
    AIMED: tl.constexpr = aims_at is not None
    block, part = tl.program_id(0) // PARTS, tl.program_id(0) % PARTS
    m, h, c = tl.arange(0, BM), tl.arange(0, BH), tl.arange(0, BC)
    row = block * BM + m  # few examples of few coordinates: all places are small numbers
    k = part * BK + tl.arange(0, BK)
    real, leads = row < count, part == 0
    inside = (k < features)[:, None] & real[None, :]  # coordinates stand below each other: factors of 64 rows
    place = k[:, None] + row[None, :] * features
    is_target = c[None, :] == tl.load(targets_at + row, mask=real, other=0)[:, None]
    is_aim = is_target
    if AIMED:
        is_aim = c[None, :] == tl.load(aims_at + row, mask=real, other=0)[:, None]
    # What is no class has the output minus infinity, what is no unit has no weights.
    in_h, in_c = h < width, c < classes
    w = tl.load(first_at + h[:, None] * features + k[None, :], mask=in_h[:, None] & (k < features)[None, :], other=0.0)
    s = tl.load(second_at + c[:, None] * width + h[None, :], mask=in_c[:, None] & in_h[None, :], other=0.0)
    s_high, s_low = _halves(s, HALF)
    # Stored, and loaded again: what is loaded stays beside the processor, what is computed would be in registers. All
    # blocks store the same.
    halves_at += h[:, None] * PARTS * BK + k[None, :]
    w_high, w_low = _halves(w, HALF)
    tl.store(halves_at, w_high)
    tl.store(halves_at + BH * PARTS * BK, w_low)
    tl.debug_barrier()
    w_high, w_low = tl.load(halves_at), tl.load(halves_at + BH * PARTS * BK)
    first_bias, second_bias = tl.zeros([BH], tl.float32), tl.where(in_c, 0.0, float("-inf"))
    if first_bias_at is not None:
        first_bias = tl.load(first_bias_at + h, mask=in_h, other=0.0)
    if second_bias_at is not None:
        second_bias = tl.load(second_bias_at + c, mask=in_c, other=float("-inf"))
    x0 = tl.load(inputs_at + place, mask=inside, other=0.0)
    if copies_at is not None:
        x, value, fooled = x0, tl.full([BM], float("-inf"), tl.float32), tl.where(real, 0, 1)
        tl.store(copies_at + place, x0, mask=inside)
    else:
        x = tl.load(points_at + place, mask=inside, other=0.0)
        value = tl.load(value_at + row, mask=real, other=0.0)
        fooled = tl.load(fooled_at + row, mask=real, other=1).to(tl.int32)
    pulled_at, turns_at = counts_at + steps + 1, counts_at + turns + block
    sums_at += block * 2 * PARTS * BM * BH
    if L2:
        lengths_at += block * 2 * PARTS * 3 * BM + m
    everyone = tl.arange(0, PARTS)[:, None, None]
    number, turn = 0, 0
    going = steps >= 0
    if LEAVES:
        going = tl.sum(fooled, 0) < BM
    while going:
        x_high, x_low = _halves(x, HALF)
        share = _product(w_high, w_low, x_high, x_low)
        # two buffers in turn: who writes one again has met all others after they read it
        here = sums_at + (number % 2) * PARTS * BM * BH
        tl.store(here + part * BM * BH + h[:, None] * BM + m[None, :], share, cache_modifier=".cg")
        turn += PARTS
        _meet(turns_at, turn)  # type: ignore[no-untyped-call]
        shares = tl.load(here + everyone * BM * BH + h[None, None, :] * BM + m[None, :, None], cache_modifier=".cg")
        hidden = tl.sum(shares, 0) + first_bias[None, :]
        active = hidden > 0
        h_high, h_low = _halves(tl.where(active, hidden, 0.0), HALF)
        outputs = _product(h_high, h_low, tl.trans(s_high), tl.trans(s_low))
        better, slope, value, fooled, fresh = _judged(
            outputs + second_bias[None, :], is_target, is_aim, value, fooled, classes,
            LOSS, AIMED, LEAVES, SLACK, BC,
        )  # fmt: skip
        tl.store(best_at + place, x, mask=inside & better[None, :])
        going = number < steps
        if LEAVES:
            going = going & (tl.sum(fooled, 0) < BM)
        tl.atomic_add(counts_at + number, tl.where(leads, tl.sum(fresh, 0), 0).to(tl.int64), sem="relaxed")
        tl.atomic_add(pulled_at, tl.where(leads & going, tl.sum(real.to(tl.int64), 0), 0), sem="relaxed")
        slope_high, slope_low = _halves(slope, HALF)
        back = tl.where(active, _product(slope_high, slope_low, s_high, s_low), 0.0)
        back_high, back_low = _halves(back, HALF)
        g = _product(tl.trans(w_high), tl.trans(w_low), tl.trans(back_high), tl.trans(back_low))
        size = tl.load(sizes_at + number, mask=going, other=0.0)
        scale, pulled = size, 1.0
        if L2:
            there = lengths_at + (number % 2) * PARTS * 3 * BM
            own = there + part * 3 * BM
            exact, away = g.to(tl.float64), x - x0
            tl.store(own, tl.sum(exact * exact, 0), cache_modifier=".cg")
            tl.store(own + BM, tl.sum(away * away, 0).to(tl.float64), cache_modifier=".cg")
            tl.store(own + 2 * BM, tl.sum(away * g, 0).to(tl.float64), cache_modifier=".cg")
            turn += PARTS
            _meet(turns_at, turn)  # type: ignore[no-untyped-call]
            squares = tl.zeros([BM], tl.float64)
            far, along = tl.zeros([BM], tl.float64), tl.zeros([BM], tl.float64)
            for other in tl.static_range(PARTS):
                squares += tl.load(there + other * 3 * BM, cache_modifier=".cg")
                far += tl.load(there + other * 3 * BM + BM, cache_modifier=".cg")
                along += tl.load(there + other * 3 * BM + 2 * BM, cache_modifier=".cg")
            lengths = squares, far.to(tl.float32), along.to(tl.float32)
            scale, pulled = _lengths(*lengths, size, radius)  # type: ignore[no-untyped-call]
            scale, pulled = scale[None, :], pulled[None, :]
        x = tl.where(inside & going, _stepped(x, x0, g, scale, pulled, radius, low, high, L2), x)
        number += 1
    tl.store(points_at + place, x, mask=inside)
    tl.store(value_at + row, value, mask=real & leads)
    tl.store(fooled_at + row, fooled.to(tl.uint8), mask=real & leads)
