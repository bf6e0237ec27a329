"""Epochs of dropout training for networks of one hidden layer and one output, one program per network; needs a GPU.

The twin of `Runs.train` in uci_protocol.py: the same loss, masks of the same law and Adam with torch's defaults. A step
of such a network is so small that starting the kernels of its operators takes most of the time, and masks travel to
memory and back; here weights, their moments and a batch stay in one multiprocessor for some epochs.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from droptics.gpu.triton import load_triton

tl: Any = None
# Rows of a batch that are taken at once: the registers of a program hold their random numbers.
ROWS = 32


class Epochs:
    """State of the training of many networks: weights (runs, ...) that change in place, and their moments."""

    def __init__(self, data: tuple[Tensor, Tensor], parameters: list[Tensor], rates: Tensor, decay: Tensor) -> None:
        """Inputs (runs, rows, features) and targets (runs, rows); first layer, its offsets, head, its offset."""
        self.data = [part.contiguous() for part in data]
        self.parameters = parameters
        self.moments = [torch.zeros_like(one) for one in (*parameters, *parameters)]
        self.numbers = rates.float().contiguous(), decay.float().contiguous()
        self.steps = 0

    def run(self, orders: Tensor, batch: int, seed: int) -> None:
        """Some epochs, each in its order of rows (epochs, runs, rows)."""
        inputs, targets = self.data
        runs, rows, features = inputs.shape
        hidden = self.parameters[0].shape[-1]
        sizes = {"BF": max(16, _power_of_two(features)), "BH": _power_of_two(hidden), "BATCH": batch, "ROWS": ROWS}
        pointers = (inputs, targets, orders, *self.parameters, *self.moments, *self.numbers)
        numbers = (len(orders), runs, rows, features, hidden, self.steps, seed)
        _compiled()[(runs,)](*pointers, *numbers, **sizes, num_warps=8)
        self.steps += len(orders) * -(-rows // batch)


def _power_of_two(size: int) -> int:
    return 1 << (size - 1).bit_length()


@cache
def _compiled() -> Any:
    triton = load_triton(globals(), "training on a GPU")
    globals().update(_kept=triton.jit(_kept), _moved=triton.jit(_moved))
    return triton.jit(_epochs, do_not_specialize=["epochs", "runs", "rows", "steps", "seed"])


def _kept(key, row, column, width, keep):
    """Which units of which rows stay: one random number for each, by its place and the key of run and step."""
    return tl.rand(key, row[:, None] * width + column[None, :]) < keep


def _moved(value, gradient, first, second, grown, warm):
    """One step of Adam: the value and both moments."""
    first = 0.9 * first + 0.1 * gradient
    second = 0.999 * second + 0.001 * gradient * gradient
    return value - 1e-3 / grown * first / (tl.sqrt(second) / tl.sqrt(warm) + 1e-8), first, second


def _epochs(
    inputs, targets, orders, w_at, b_at, u_at, c_at, w1_at, b1_at, u1_at, c1_at, w2_at, b2_at, u2_at, c2_at,
    rates, decays, epochs, runs, rows, features, hidden, steps, seed,
    BATCH: tl.constexpr, ROWS: tl.constexpr, BF: tl.constexpr, BH: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(0).to(tl.int64)
    f, h = tl.arange(0, BF), tl.arange(0, BH)
    places = run * features * hidden + f[:, None] * hidden + h[None, :]
    inside = (f < features)[:, None] & (h < hidden)[None, :]
    own, real = run * hidden + h, h < hidden
    w = tl.load(w_at + places, mask=inside, other=0.0)
    w1 = tl.load(w1_at + places, mask=inside, other=0.0)
    w2 = tl.load(w2_at + places, mask=inside, other=0.0)
    b = tl.load(b_at + own, mask=real, other=0.0)
    b1 = tl.load(b1_at + own, mask=real, other=0.0)
    b2 = tl.load(b2_at + own, mask=real, other=0.0)
    u = tl.load(u_at + own, mask=real, other=0.0)
    u1 = tl.load(u1_at + own, mask=real, other=0.0)
    u2 = tl.load(u2_at + own, mask=real, other=0.0)
    c, c1, c2 = tl.load(c_at + run), tl.load(c1_at + run), tl.load(c2_at + run)
    keep, decay = 1 - tl.load(rates + run), tl.load(decays + run)
    for epoch in range(epochs):
        order = orders + (epoch * runs + run) * rows
        for start in range(0, rows, BATCH):
            key = (seed.to(tl.int64) << 40) + steps.to(tl.int64) * runs + run
            count = tl.minimum(BATCH, rows - start)
            to_w, to_u = 2 * decay * w, 2 * decay * u
            to_b, to_c = 0.0 * b, 0.0 * c
            for first in range(0, count, ROWS):
                r = first + tl.arange(0, ROWS)
                live = r < count
                index = run * rows + tl.load(order + start + r, mask=live, other=0)
                some = live[:, None] & (f < features)[None, :]
                x = tl.load(inputs + index[:, None] * features + f[None, :], mask=some, other=0.0)
                y = tl.load(targets + index, mask=live, other=0.0)
                x = tl.where(_kept(key, r, f, BF + BH, keep), x / keep, 0.0)
                sums = tl.dot(x, w, input_precision="ieee") + b[None, :]
                alive = _kept(key, r, BF + h, BF + BH, keep) & (sums > 0)
                units = tl.where(alive, sums / keep, 0.0)
                gap = tl.sum(units * u[None, :], 1) + c - y
                slope = tl.where(live, 2 * gap / count, 0.0)
                back = tl.where(alive, slope[:, None] * u[None, :] / keep, 0.0)
                to_w += tl.dot(tl.trans(x), back, input_precision="ieee")
                to_u += tl.sum(slope[:, None] * units, 0)
                to_b += tl.sum(back, 0)
                to_c += tl.sum(slope, 0)
            steps += 1
            grown = 1 - tl.exp2(steps.to(tl.float32) * -0.15200309344504995)  # 0.9 ** steps
            warm = 1 - tl.exp2(steps.to(tl.float32) * -0.0014434168696687186)  # 0.999 ** steps
            w, w1, w2 = _moved(w, to_w, w1, w2, grown, warm)
            u, u1, u2 = _moved(u, to_u, u1, u2, grown, warm)
            b, b1, b2 = _moved(b, to_b, b1, b2, grown, warm)
            c, c1, c2 = _moved(c, to_c, c1, c2, grown, warm)
    tl.store(w_at + places, w, mask=inside)
    tl.store(w1_at + places, w1, mask=inside)
    tl.store(w2_at + places, w2, mask=inside)
    tl.store(b_at + own, b, mask=real)
    tl.store(b1_at + own, b1, mask=real)
    tl.store(b2_at + own, b2, mask=real)
    tl.store(u_at + own, u, mask=real)
    tl.store(u1_at + own, u1, mask=real)
    tl.store(u2_at + own, u2, mask=real)
    tl.store(c_at + run, c)
    tl.store(c1_at + run, c1)
    tl.store(c2_at + run, c2)
