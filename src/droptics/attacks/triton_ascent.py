"""The programs of the search on a GPU, as Triton compiles them; `launches` launches them.

A program of `_climb` takes a block of examples through every step. Per step it reads the first layer once: a tile of it
gives the gradient of some coordinates, which move at once, and the same tile their share of the next hidden layer.
`_pack` prepares the layers: each number of the first as two of half the digits, whose products are the fastest.
`_judge` and `_move` are what surrounds the passes of any other network. Their twin in plain torch is `Ascent`, which
they are tested against. `_verify` is the twin of `attack`'s own look at what was found.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from droptics.gpu.triton import load_triton

tl: Any = None


@cache
def compiled() -> tuple[Any, Any, Any, Any, Any]:
    """The compiled `_pack`, `_climb`, `_judge`, `_move` and `_verify`."""
    global _judged, _lengths, _stepped, _halves, _product, _logits  # compiled functions call compiled ones only
    triton = load_triton(globals(), "the search in one launch")
    _judged, _lengths, _stepped = triton.jit(_judged), triton.jit(_lengths), triton.jit(_stepped)
    _halves, _product, _logits = triton.jit(_halves), triton.jit(_product), triton.jit(_logits)
    # numbers that change from launch to launch must not be compiled in, nor where a stretch begins
    numbers, places = ["count", "steps", "classes"], ["sizes_at", "counts_at", "pulled_at"]
    return (
        triton.jit(_pack, do_not_specialize=["width", "classes"]),
        triton.jit(_climb, do_not_specialize=numbers, do_not_specialize_on_alignment=places),
        triton.jit(_judge, do_not_specialize=["count"]),
        triton.jit(_move),
        triton.jit(_verify, do_not_specialize=["count", "classes"], do_not_specialize_on_alignment=["seen_at"]),
    )


def _judged(  # type: ignore[no-untyped-def]
    outputs, is_target, is_aim, value, fooled, classes,
    LOSS: tl.constexpr, AIMED: tl.constexpr, LEAVES: tl.constexpr, SLACK: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """Which points are better than any before, the slope of the loss there, and what is known of them from now on.

    Outputs beyond the classes are minus infinity. A point counts as fooled when the right output is beaten by more
    than SLACK times the largest, so that another order of summation agrees. Else as `losses.beaten`,
    `losses.value_and_slope` and `Ascent._judge`.
    """
    top = tl.max(outputs, 1)
    right = tl.sum(tl.where(is_target, outputs, 0.0), 1)
    finite = tl.abs(outputs) < float("inf")
    scale = tl.max(tl.where(finite, tl.abs(outputs), 0.0), 1)
    wrong = (top - right > SLACK * scale) | (tl.sum(finite.to(tl.int32), 1) < classes)
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
    x, x0, g, scale, pulled, radius, low, high, L2: tl.constexpr
):  # fmt: skip
    """The point one step further, inside ball and box."""
    if L2:
        x = x0 + (x - x0 + g * scale) * pulled
    else:
        x += scale * ((g > 0).to(tl.float32) - (g < 0).to(tl.float32))
        x = tl.minimum(tl.maximum(x, x0 - radius), x0 + radius)
    return tl.minimum(tl.maximum(x, low), high)


def _judge(  # type: ignore[no-untyped-def]
    outputs_at, targets_at, aims_at, value_at, fooled_at, better_at, slopes_at, counts_at, number_at, count, classes,
    LOSS: tl.constexpr, AIMED: tl.constexpr, LEAVES: tl.constexpr, SLACK: tl.constexpr, BM: tl.constexpr,
    BC: tl.constexpr,
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
    better, slope, value, fooled, _ = _judged(
        outputs, is_target, is_aim, value, fooled, classes, LOSS, AIMED, LEAVES, SLACK, BC
    )
    tl.store(slopes_at + place, slope, mask=inside)
    tl.store(value_at + row, value, mask=real)
    tl.store(fooled_at + row, fooled.to(tl.uint8), mask=real)
    tl.store(better_at + row, better.to(tl.uint8), mask=real)
    found = tl.sum(tl.where(real, fooled, 0), 0)
    tl.atomic_add(counts_at + tl.load(number_at), found.to(tl.int64), sem="relaxed")


def _move(  # type: ignore[no-untyped-def]
    points_at, best_at, inputs_at, gradients_at, better_at, sizes_at, number_at, features, radius, low, high,
    L2: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Move one example, and remember where it stood if that was better than any point before."""
    row = tl.program_id(0).to(tl.int64)
    start = row * features
    k = tl.arange(0, BLOCK)
    size = tl.load(sizes_at + tl.load(number_at))
    better = tl.load(better_at + row) != 0
    scale, pulled = size, 1.0
    if L2:
        squares = tl.zeros([BLOCK], tl.float64)
        away, along = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
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
        x = _stepped(x, x0, g, scale, pulled, radius, low, high, L2)
        tl.store(points_at + start + at + k, x, mask=inside)


def _halves(x, KIND: tl.constexpr):  # type: ignore[no-untyped-def]
    """Two numbers of half the digits that add up to each: of bfloat16, 2^-17 of it is lost."""
    high = x.to(KIND)
    return high, (x - high.to(tl.float32)).to(KIND)


def _product(a_high, a_low, b_high, b_low) -> Any:  # type: ignore[no-untyped-def]
    """That of two matrices in halves; the product of the lower ones is below rounding."""
    return tl.dot(a_high, b_high) + (tl.dot(a_low, b_high) + tl.dot(a_high, b_low))


def _pack(  # type: ignore[no-untyped-def]
    first_at, first_bias_at, second_at, second_bias_at, layer_at, head_at, features, stride, width, classes,
    BH: tl.constexpr, BC: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One hidden unit: its weights in two halves, its bias and its column of the second layer, padded with zeros."""
    h = tl.program_id(0)
    k, c = tl.arange(0, BLOCK), tl.arange(0, BC)
    there, in_c = h < width, c < classes
    for at in tl.range(0, stride, BLOCK):
        d = at + k
        w = tl.load(first_at + h * features + d, mask=there & (d < features), other=0.0)
        high, low = _halves(w, layer_at.dtype.element_ty)
        tl.store(layer_at + h * stride + d, high, mask=d < stride)
        tl.store(layer_at + (BH + h) * stride + d, low, mask=d < stride)
    tl.store(head_at + h, tl.load(first_bias_at + h, mask=there, other=0.0))
    if h == 0:
        tl.store(head_at + BH + c, tl.load(second_bias_at + c, mask=in_c, other=float("-inf")))  # of no class
    tl.store(head_at + BH + BC + c * BH + h, tl.load(second_at + c * width + h, mask=there & in_c, other=0.0))


# parameters: Triton takes no structs, see gpu/triton.py
def _climb(  # type: ignore[no-untyped-def]  # noqa: PLR0912, PLR0915 - one kernel
    points_at, best_at, inputs_at, order_at, targets_at, aims_at, value_at, fooled_at, sizes_at, counts_at, pulled_at,
    layer_at, head_at, count, features, stride, classes, steps, radius, low, high,
    LOSS: tl.constexpr, L2: tl.constexpr, LEAVES: tl.constexpr, SLACK: tl.constexpr,
    BM: tl.constexpr, BK: tl.constexpr, BH: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """One block of examples: judge where they stand, remember what is better, move, until no step is left."""
    KIND: tl.constexpr = layer_at.dtype.element_ty
    AIMED: tl.constexpr = aims_at is not None
    place = tl.program_id(0) * BM + tl.arange(0, BM)
    real = place < count
    row = place.to(tl.int64)
    if order_at is not None:
        row = tl.load(order_at + place, mask=real, other=0)
    k, h, c = tl.arange(0, BK), tl.arange(0, BH), tl.arange(0, BC)
    start = row[:, None] * features + k[None, :]
    is_target = c[None, :] == tl.load(targets_at + row, mask=real, other=0)[:, None]
    is_aim = is_target
    if AIMED:
        is_aim = c[None, :] == tl.load(aims_at + row, mask=real, other=0)[:, None]
    value = tl.load(value_at + row, mask=real, other=0.0)
    fooled = tl.load(fooled_at + row, mask=real, other=1).to(tl.int32)
    first_bias, second_bias = tl.load(head_at + h), tl.load(head_at + BH + c)
    s_high, s_low = _halves(tl.load(head_at + BH + BC + c[:, None] * BH + h[None, :]), KIND)
    high_at = layer_at + h[:, None] * stride + k[None, :]
    low_at = high_at + BH * stride
    going = steps >= 0
    if LEAVES:
        going = tl.sum(fooled, 0) < BM
    acc = tl.zeros([BM, BH], tl.float32)
    if going:
        for at in tl.range(0, stride, BK):
            inside = real[:, None] & (at + k < features)[None, :]
            x_high, x_low = _halves(tl.load(points_at + start + at, mask=inside, other=0.0), KIND)
            w_high, w_low = tl.load(high_at + at), tl.load(low_at + at)
            acc += _product(x_high, x_low, tl.trans(w_high), tl.trans(w_low))
    number = 0
    while going:
        hidden = acc + first_bias[None, :]
        active = hidden > 0
        h_high, h_low = _halves(tl.where(active, hidden, 0.0), KIND)
        outputs = _product(h_high, h_low, tl.trans(s_high), tl.trans(s_low))
        better, slope, value, fooled, fresh = _judged(
            outputs + second_bias[None, :], is_target, is_aim, value, fooled, classes,
            LOSS, AIMED, LEAVES, SLACK, BC,
        )  # fmt: skip
        better = better & real
        tl.atomic_add(counts_at + number, tl.sum(fresh, 0).to(tl.int64), sem="relaxed")
        going = number < steps
        if LEAVES:
            going = going & (tl.sum(fooled, 0) < BM)
        tl.atomic_add(pulled_at, tl.where(going, tl.sum(real.to(tl.int64), 0), 0), sem="relaxed")
        slope_high, slope_low = _halves(slope, KIND)
        back = tl.where(active, _product(slope_high, slope_low, s_high, s_low), 0.0)
        back_high, back_low = _halves(back, KIND)
        size = tl.load(sizes_at + number, mask=going, other=0.0)
        scale, pulled = size, 1.0
        if L2:
            squares = tl.zeros([BM], tl.float64)
            away, along = tl.zeros([BM], tl.float32), tl.zeros([BM], tl.float32)
            if going:
                for at in tl.range(0, stride, BK):
                    inside = real[:, None] & (at + k < features)[None, :]
                    m = tl.load(points_at + start + at, mask=inside, other=0.0)
                    m -= tl.load(inputs_at + start + at, mask=inside, other=0.0)
                    g = _product(back_high, back_low, tl.load(high_at + at), tl.load(low_at + at))
                    squares += tl.sum(g.to(tl.float64) * g.to(tl.float64), 1)
                    away += tl.sum(m * m, 1)
                    along += tl.sum(m * g, 1)
            scale, pulled = _lengths(squares, away, along, size, radius)  # type: ignore[no-untyped-call]
            scale, pulled = scale[:, None], pulled[:, None]
        acc, rest = tl.zeros([BM, BH], tl.float32), tl.zeros([BM, BH], tl.float32)
        if going:
            for at in tl.range(0, stride, BK):
                inside = real[:, None] & (at + k < features)[None, :]
                x = tl.load(points_at + start + at, mask=inside, other=0.0)
                x0 = tl.load(inputs_at + start + at, mask=inside, other=0.0)
                w_high, w_low = tl.load(high_at + at), tl.load(low_at + at)
                g = _product(back_high, back_low, w_high, w_low)
                tl.store(best_at + start + at, x, mask=inside & better[:, None])
                x = tl.where(inside, _stepped(x, x0, g, scale, pulled, radius, low, high, L2), 0.0)
                tl.store(points_at + start + at, x, mask=inside)
                x_high, x_low = _halves(x, KIND)
                acc = tl.dot(x_high, tl.trans(w_high), acc)
                rest = tl.dot(x_low, tl.trans(w_high), rest)  # two sums do not wait for each other
                rest = tl.dot(x_high, tl.trans(w_low), rest)
            acc += rest
        else:
            for at in tl.range(0, stride, BK):
                inside = better[:, None] & (at + k < features)[None, :]
                tl.store(best_at + start + at, tl.load(points_at + start + at, mask=inside, other=0.0), mask=inside)
        number += 1
        tl.debug_barrier()  # what one thread stored another reads in the next step
    tl.store(value_at + row, value, mask=real)
    tl.store(fooled_at + row, fooled.to(tl.uint8), mask=real)


def _logits(outputs_at, row, target, classes, BC: tl.constexpr):  # type: ignore[no-untyped-def]
    """Outputs of one example: them, whether they are finite, whether they are wrong, and the right one."""
    c = tl.arange(0, BC)
    z = tl.load(outputs_at + row * classes + c, mask=c < classes, other=float("-inf"))
    finite = tl.sum((tl.abs(z) < float("inf")).to(tl.int32), 0) == classes
    return z, finite, (tl.argmax(z, 0) != target) | (finite == 0), tl.sum(tl.where(c == target, z, 0.0), 0)


# parameters: Triton takes no structs, see gpu/triton.py
def _verify(  # type: ignore[no-untyped-def]  # noqa: PLR0915 - one kernel
    points_at, best_at, inputs_at, clean_at, outputs_at, targets_at, fooled_at, flags_at, numbers_at, seen_at,
    count, features, classes, radius, low, high, share, reach,
    LOSS: tl.constexpr, L2: tl.constexpr, BLOCK: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """One example as `attack` judges it, by its own outputs: finite, inside ball and box, wrong, moved at all."""
    row = tl.program_id(0).to(tl.int64)
    k, c = tl.arange(0, BLOCK), tl.arange(0, BC)
    far, moved, largest = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    out, odd = tl.zeros([BLOCK], tl.int32), tl.zeros([BLOCK], tl.int32)
    for at in tl.range(0, features, BLOCK):
        inside = at + k < features
        x0 = tl.load(inputs_at + row * features + at + k, mask=inside, other=0.0)
        x = tl.load(best_at + row * features + at + k, mask=inside, other=0.0)
        last = tl.load(points_at + row * features + at + k, mask=inside, other=0.0)
        a, b = tl.where(inside, tl.abs(x - x0), 0.0), tl.where(inside, tl.abs(last - x0), 0.0)
        if L2:
            far, moved = far + a * a, moved + b * b
        else:
            far, moved = tl.maximum(far, a), tl.maximum(moved, b)
        largest = tl.maximum(largest, tl.where(inside, tl.abs(x0), 0.0))
        # What is no number is neither above nor below an end.
        out += (inside & (((x >= low) & (x <= high) & (tl.abs(x) < float("inf"))) == 0)).to(tl.int32)
        odd += (inside & ((x0 < low) | (x0 > high))).to(tl.int32)
    if L2:
        distance, length = tl.sqrt(tl.sum(far, 0)), tl.sqrt(tl.sum(moved, 0))
    else:
        distance, length = tl.max(far, 0), tl.max(moved, 0)
    outside = (tl.sum(out, 0) > 0) | ((distance <= tl.max(largest, 0) * share + reach) == 0)
    target = tl.load(targets_at + row)
    strange = (tl.sum(odd, 0) > 0) | (target < 0) | (target >= classes)
    _, sound, mistaken, _ = _logits(clean_at, row, target, classes, BC)
    z, finite, wrong, right = _logits(outputs_at, row, target, classes, BC)
    top = tl.max(z, 0)
    margin = right - tl.max(tl.where(c == target, float("-inf"), z), 0)
    if LOSS == 0:
        loss = tl.log(tl.sum(tl.exp(z - top), 0)) + top - right
    elif LOSS == 1:
        loss = -margin
    else:
        loss = -(tl.maximum(margin, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(margin))))
    largest_output = tl.max(tl.where(c < classes, tl.abs(z), 0.0), 0)
    fooled = tl.load(fooled_at + row) != 0
    held = wrong == 0
    lost = fooled & held & (margin > 100 * 1.1920928955078125e-07 * largest_output)
    stuck = (length < 0.01 * radius) & (fooled == 0) & held & (mistaken == 0)
    tl.store(flags_at + row, wrong.to(tl.uint8))
    tl.store(flags_at + count + row, (mistaken == 0).to(tl.uint8))
    tl.store(numbers_at + row, loss)
    tl.store(numbers_at + count + row, margin)
    tl.store(numbers_at + 2 * count + row, distance)
    tl.atomic_add(seen_at, (finite == 0).to(tl.int64), sem="relaxed")
    tl.atomic_add(seen_at + 1, (sound == 0).to(tl.int64), sem="relaxed")
    tl.atomic_add(seen_at + 2, outside.to(tl.int64), sem="relaxed")
    tl.atomic_add(seen_at + 3, lost.to(tl.int64), sem="relaxed")
    tl.atomic_add(seen_at + 4, (mistaken == 0).to(tl.int64), sem="relaxed")
    tl.atomic_add(seen_at + 5, stuck.to(tl.int64), sem="relaxed")
    tl.atomic_add(seen_at + 6, wrong.to(tl.int64), sem="relaxed")
    tl.atomic_add(seen_at + 7, strange.to(tl.int64), sem="relaxed")
