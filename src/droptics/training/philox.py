"""Counter-based random numbers: number (run, stream, step, place) is a function of the seed of the run alone.

Philox 4x32-10 (Salmon et al. 2011). Nothing has to be drawn before anything else, so that all runs and steps are filled
at once, a run draws the same alone and in a batch, in long stretches or short ones, and the position in a stream is the
number of the step. On a GPU a kernel fills them where there is Triton; the integers are the same, and the floating
point numbers up to rounding.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from droptics.training import triton_steps

Words = tuple[Tensor, Tensor, Tensor, Tensor]
ROUNDS = 10
WORD = 0xFFFFFFFF


def bits(seeds: Tensor, stream: int, first: int, steps: int, groups: int) -> Words:
    """Four 32-bit words, int64 (runs, steps, groups) each, for the steps from `first` on."""
    step = torch.arange(first, first + steps, device=seeds.device)[None, :, None]
    c0 = torch.arange(groups, device=seeds.device)[None, None, :].expand(len(seeds), steps, groups)
    c1, c3 = (step & WORD).expand_as(c0), (step >> 32).expand_as(c0)
    c2 = torch.full_like(c0, stream)
    return rounds((c0, c1, c2, c3), (seeds & WORD)[:, None, None], (seeds >> 32 & WORD)[:, None, None])


def rounds(counter: Words, key0: Tensor, key1: Tensor) -> Words:
    """Philox 4x32-10 of counters under keys, all 32-bit words in int64."""
    c0, c1, c2, c3 = counter
    for _ in range(ROUNDS):
        high, low = _product(0xCD9E8D57, c2)
        other_high, other_low = _product(0xD2511F53, c0)
        c0, c1, c2, c3 = high ^ c1 ^ key0, low, other_high ^ c3 ^ key1, other_low
        key0, key1 = key0 + 0x9E3779B9 & WORD, key1 + 0xBB67AE85 & WORD
    return c0, c1, c2, c3


def uniforms(seeds: Tensor, stream: int, first: int, steps: int, count: int, dtype: torch.dtype) -> Tensor:
    """Numbers between 0 and 1, never either, (runs, steps, count)."""
    if _on_kernel(seeds):
        return triton_steps.fill(seeds, stream, first, steps, count, dtype, normal=False)
    return torch.stack(_cells(seeds, stream, first, steps, count, dtype), -1).flatten(2)[..., :count]


def normals(seeds: Tensor, stream: int, first: int, steps: int, count: int, dtype: torch.dtype) -> Tensor:
    """Standard normal numbers (runs, steps, count), by Box and Muller's transform."""
    if _on_kernel(seeds):
        return triton_steps.fill(seeds, stream, first, steps, count, dtype, normal=True)
    words = _cells(seeds, stream, first, steps, count, dtype)
    turned = []
    for length, turn in zip(words[::2], words[1::2], strict=True):
        radius, angle = (-2 * length.log()).sqrt(), 2 * math.pi * turn
        turned += [radius * angle.cos(), radius * angle.sin()]
    return torch.stack(turned, -1).flatten(2)[..., :count]


def _cells(seeds: Tensor, stream: int, first: int, steps: int, count: int, dtype: torch.dtype) -> tuple[Tensor, ...]:
    """Four (float32) or two (float64) uniform numbers per group: the middles of 2^23 or 2^52 equal cells."""
    if dtype == torch.float64:
        a, b, c, d = bits(seeds, stream, first, steps, -(-count // 2))
        return tuple(((p >> 6).double() * 2**26 + (q >> 6).double() + 0.5) * 2.0**-52 for p, q in ((a, b), (c, d)))
    return tuple(((word >> 9).to(dtype) + 0.5) * 2.0**-23 for word in bits(seeds, stream, first, steps, -(-count // 4)))


def _product(constant: int, word: Tensor) -> tuple[Tensor, Tensor]:
    """High and low half of a 64-bit product; int64 products wrap around, which leaves all their bits in place."""
    product = constant * word
    return product >> 32 & WORD, product & WORD


def _on_kernel(seeds: Tensor) -> bool:
    return seeds.device.type == "cuda" and not triton_steps.missing()
