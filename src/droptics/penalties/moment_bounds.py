r"""Bounds of E log(1 + x) from moments of x >= 0, with their rounding: the rules of Gauss and Radau at two nodes.

A cubic that touches log(1 + x) at two nodes lies above it, since the fourth derivative is negative; a cubic that
touches log(1 + x) / x = int_0^1 dt / (1 + t x) there lies below it, since that has a positive one. So

    E x below(x)  <=  E log(1 + x)  <=  E above(x),

combinations of four moments of x and of three, whatever the nodes are: what is lost in finding them costs width, never
truth. The best are those of the quadrature rule with these moments, at which both sides are exact for as few values of
x. With one node they are (m1^2 / m2) log(1 + m2 / m1) and log(1 + m1).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

# Nodes nearer to each other, or to zero, than these shares lose more by rounding than they gain.
APART, FROM_ZERO = 1.25, 1 / 64
# The first moments of an exponential law, put where the given ones have no rule, so that no derivative is NaN.
USUAL = (1.0, 1.0, 2.0, 6.0)


def gauss_above(moments: Sequence[Tensor], errors: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """An upper bound from E x, E x^2, E x^3 and how far they may be off; the second tensor is its own rounding.

    Infinite where the moments have no rule. Cost O(1) an entry.
    """
    ones = torch.ones_like(moments[0])
    known, (_, m1, m2, m3) = _usable([ones, *moments])
    a, b = _nodes(ones, m1, m2, m3)
    e1, e2, e3 = errors
    base = 1 + a
    u = (b - a) / base
    log = torch.log1p(u)
    second, third = (log - u) / u.square(), (1 + 1 / (1 + u) - 2 * log / u) / u.square()
    square = (m2 - 2 * a * m1 + a**2) / base**2
    cube = (m3 - 3 * a * m2 + 3 * a**2 * m1 - a**3) / base**3
    value = torch.log1p(a) + (m1 - a) / base + second * square + third * (cube - u * square)
    with torch.no_grad():
        eps = torch.finfo(value.dtype).eps
        squares, cubes = (m2 + 2 * a * m1 + a**2) / base**2, (m3 + 3 * a * m2 + 3 * a**2 * m1 + a**3) / base**3
        off = (e2 + 2 * a * e1) / base**2
        given = e1 / base - second * off + third * ((e3 + 3 * a * e2 + 3 * a**2 * e1) / base**3 + u * off)
        # log - u cancels to u^2 / 2, the sum of three to u^2 / 3; each term is rounded a few times
        own = 8 * (torch.log1p(a) + (m1 + a) / base) + (4 / u - 8 * second) * squares
        own = own + (16 / u**2 + 8 * third) * (cubes + u * squares)
    nothing = torch.full_like(value, torch.inf)
    return torch.where(known, value, nothing), torch.where(known, given + eps * own, torch.zeros_like(value))


def radau_below(moments: Sequence[Tensor], errors: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """A lower bound from E x to E x^4 and how far they may be off; the second tensor is its own rounding.

    Zero where the moments have no rule. Cost O(1) an entry.
    """
    known, (m1, m2, m3, m4) = _usable(moments)
    a, b = _nodes(m1, m2, m3, m4)
    e1, e2, e3, e4 = errors
    gap = b - a
    (here, slope), (there, other) = _slopes(a), _slopes(b)
    first = (there - here) / gap
    second, twin = (first - slope) / gap, (other - first) / gap
    third = (twin - second) / gap
    value = here * m1 + slope * (m2 - a * m1) + second * (m3 - 2 * a * m2 + a**2 * m1)
    value = value + third * (m4 - (2 * a + b) * m3 + (a**2 + 2 * a * b) * m2 - a**2 * b * m1)
    with torch.no_grad():
        eps = torch.finfo(value.dtype).eps
        near = torch.minimum(a, gap)

        def sizes(m1: Tensor, m2: Tensor, m3: Tensor, m4: Tensor) -> tuple[Tensor, ...]:
            cubes = m4 + (2 * a + b) * m3 + (a**2 + 2 * a * b) * m2 + a**2 * b * m1
            return m1, m2 + a * m1, m3 + 2 * a * m2 + a**2 * m1, cubes

        factors = (here, slope.abs(), second.abs(), third.abs())
        given = sum(factor * size for factor, size in zip(factors, sizes(e1, e2, e3, e4), strict=True))
        # a slope is a difference of numbers below one over the node, and so on
        lost = (torch.ones_like(a), 16 / near, 32 / (gap * near), 64 / (gap**2 * near))
        own = sum(
            (8 * factor + part) * size for factor, part, size in zip(factors, lost, sizes(m1, m2, m3, m4), strict=True)
        )
    nothing = torch.zeros_like(value)
    return torch.where(known, value, nothing), torch.where(known, given + eps * own, nothing)


def _usable(moments: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """Where four moments in a row have two different positive nodes; elsewhere the moments of another law."""
    with torch.no_grad():
        m0, m1, m2, m3 = moments
        spread = m0 * m2 - m1**2
        known = (spread > 1e-12 * m0 * m2) & (m1 * m3 - m2**2 > 1e-12 * m1 * m3) & (m0 * m3 - m1 * m2 > 0)
        known = known & torch.isfinite(m1 * m3) & (m1 > 0)
    return known, [torch.where(known, own, number) for own, number in zip(moments, USUAL, strict=True)]


def _nodes(m0: Tensor, m1: Tensor, m2: Tensor, m3: Tensor) -> tuple[Tensor, Tensor]:
    """Two nodes whose weighted powers are these moments, moved apart and away from zero where they are too near."""
    spread = m0 * m2 - m1**2
    total, product = (m0 * m3 - m1 * m2) / spread, (m1 * m3 - m2**2) / spread
    root = (total**2 - 4 * product).clamp_min(1e-12 * total.detach() ** 2).sqrt()
    b = 0.5 * (total + root)
    a = torch.maximum(product / b, FROM_ZERO * b)
    return a, torch.maximum(b, APART * a)


def _slopes(x: Tensor) -> tuple[Tensor, Tensor]:
    """log(1 + x) / x with its derivative."""
    value = torch.log1p(x) / x
    return value, (1 / (1 + x) - value) / x
