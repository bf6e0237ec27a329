"""Row solves on a GPU by normal equations: tensor cores form the Gram matrix of a row, the steps stay in registers.

Every number f of the factors is split into two of 16 bits, s f = h + l / 2 with h = fp16(s f): 22 bits of it. Each
column has a power of two s, so that none overflows and what underflows is 2^-37 of its largest. Then, up to these,

    G = sum_m r_m r_m^T = (C + C^T) / 2,   C = H^T H + H^T L,

up to the products of the small parts (2^-24 of G), which are left out: two products instead of four. The ratings of
the row are one more column of the panel, so that C holds their products with the factors as well. The columns are cut
in two, A (a power of two) and the rest, because the sizes of products are powers of two: 72 columns cost as 80, not as
128. Each factor is read once per rating, whatever the number of steps. Rows of more than PIECE ratings are summed in
pieces by several programs. Tensor cores cut off what they add, 2^-24 of the sum every eight ratings: sums of rows of
more than SHORT ratings are taken over by float32 every 64. Its twins are `triton_rows`, which forms no matrices, and
`device.solve_buckets` in torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from droptics.gpu.triton import load_triton
from droptics.recommenders.ratings import Compressed

tl: Any = None

# Columns of factors. Up to 32 steps without matrices were faster on a million ratings (H200); of ten million, 48 and 64
# take 3.4 and 3.1 ms, and 5.4 and 5.5 without matrices. Sums of more than 128 do not fit into registers.
NARROWEST, WIDEST = 40, 128
# Ratings of a row that one program sums, and of one that a single warp does.
PIECE, SHORT = 2048, 256
# Ratings at a time and warps of a program.
_TILES = {"piece": (64, 4), "middle": (64, 4), "short": (16, 1), "cut": (16, 4)}
_HELD = 5376  # numbers of C that one warp holds in registers: those of 72 columns
_STRIPE = 128  # rows of factors that one program measures
_LARGEST = 13  # exponent of the largest number after scaling; doubled it must stay below that of fp16, 16


@cache
def _compiled() -> Any:
    global _sums, _improved
    triton = load_triton(globals(), "the row kernel")
    _sums, _improved = triton.jit(_sums), triton.jit(_improved)
    return triton.jit(_measure), triton.jit(_halve), triton.jit(_piece), triton.jit(_solve)


@dataclass(frozen=True, eq=False)
class NormalRows:
    """A table on a device: compressed rows, those with ratings (longest first), the empty ones, pieces of long rows.

    `pieces` are three rows of numbers: where a piece begins and ends, and for each of the `long` rows its first piece.
    Rows up to `middle` are longer than SHORT.
    `largest` is the largest rating in size, one number.
    """

    starts: Tensor
    columns: Tensor
    values: Tensor
    order: Tensor
    empty: Tensor
    pieces: tuple[Tensor, Tensor, Tensor]
    long: int
    middle: int
    largest: Tensor


def load(table: Compressed, device: torch.device) -> NormalRows:
    """Bring a table to a device."""
    counts = table.counts
    full, empty = np.split(np.argsort(-counts, kind="stable"), [np.count_nonzero(counts)])
    long = full[counts[full] > PIECE]
    times = -(-counts[long] // PIECE)
    firsts = np.concatenate([np.zeros(1, np.int64), np.cumsum(times)])
    within = np.arange(firsts[-1]) - np.repeat(firsts[:-1], times)
    begins = np.repeat(table.starts[long], times) + PIECE * within
    ends = np.minimum(begins + PIECE, np.repeat(table.starts[long + 1], times))
    arrays = (table.starts, table.columns, table.values, full, empty, begins, ends, firsts)
    starts, columns, values, order, rest, *pieces = (torch.from_numpy(np.array(array)).to(device) for array in arrays)
    largest = values.abs().amax(0, keepdim=True) if len(values) else values.new_zeros(1)
    middle = int(np.count_nonzero(counts > SHORT))
    cuts = (pieces[0], pieces[1], pieces[2])
    return NormalRows(starts, columns, values, order, rest, cuts, len(long), max(middle, len(long)), largest)


@dataclass(frozen=True, eq=False)
class Fixed:
    """Factors of the fixed side, the largest of each column in size, and the column of the biases, if there are any.

    The regressor of a bias is one, and what the column holds goes from the ratings.
    """

    factors: Tensor
    largest: Tensor
    bias: int | None


def measured(factors: Tensor, weights: Tensor, bias: int | None) -> tuple[Fixed, Tensor, Tensor]:
    """A fixed side, and its sums of squares per column in float64, plain and weighted."""
    columns = factors.shape[1]
    programs = -(-len(factors) // _STRIPE)
    found = torch.empty(3, programs, columns, dtype=torch.float64, device=factors.device)
    sizes = {"COLUMNS": columns, "K": 1 << (columns - 1).bit_length(), "STRIPE": _STRIPE, "M": 16}
    _compiled()[0][(programs,)](factors, weights, found, len(factors), programs, **sizes)
    plain, weighted = found[:2].sum(1)
    return Fixed(factors, found[2].amax(0), bias), plain, weighted


def solve(table: NormalRows, fixed: Fixed, diagonals: Tensor, free: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    """Improve every row with ratings in place by `steps` conjugate-gradient steps, as `least_squares.solve_rows` does.

    Returns the (penalized, plain) sums of squares reached, in float64. Nothing is read back: launches can be recorded.
    Cost per rating: one reading of 4 (columns + 1) bytes or a little more and 4 columns^2 operations of tensor cores.
    """
    _, halve, piece, row = _compiled()
    factors, bias, count, device = fixed.factors, fixed.bias, len(table.order), free.device
    columns = free.shape[1]
    a = 1 << (columns.bit_length() - 1)
    b = max(16, 1 << (columns - a).bit_length())
    largest = torch.cat([fixed.largest, table.largest.double()])
    if bias is not None:
        largest[columns:] += largest[bias : bias + 1]
        largest[bias : bias + 1] = 1  # a slice is filled on a device; one entry would be copied there
    units = torch.exp2(_LARGEST - torch.frexp(largest)[1])
    halves = torch.empty(len(factors), 2, a + b, dtype=torch.float16, device=device)
    sizes = {"COLUMNS": columns, "A": a, "B": b, "BIAS": -1 if bias is None else bias}
    halve[(-(-len(factors) // 16),)](factors, halves, units, len(factors), **sizes, M=16)
    reached = torch.empty(count, 2, dtype=torch.float64, device=device)
    ratings = table.columns, table.values, factors, halves, units
    size = a * a + a * b + b * b
    parts = torch.empty(len(table.pieces[0]), size, dtype=torch.float32, device=device)
    squares = torch.empty(len(parts), dtype=torch.float64, device=device)
    least = 1 << (-(-size // _HELD) - 1).bit_length()
    # Twice as many where two sums are held.
    tile = {name: {"M": m, "num_warps": max(warps, least << (m > 16))} for name, (m, warps) in _TILES.items()}
    if len(parts):
        piece[(len(parts),)](*ratings, table.pieces[0], table.pieces[1], parts, squares, **sizes, **tile["piece"])
    systems = table.starts, table.pieces[2], parts, squares, diagonals, free
    how = {**sizes, "STEPS": steps, "OWN": len(diagonals) == 3}
    ranges = (table.long, table.middle, "middle"), (table.middle, count, "short"), (0, table.long, "cut")
    for first, stop, name in ranges:
        if stop > first:
            rows = table.order[first:stop], reached[first:stop]
            row[(stop - first,)](*ratings, *systems, *rows, **how, CUT=name == "cut", **tile[name])
    totals = reached.sum(0)
    return totals[0], totals[1]


def _measure(  # type: ignore[no-untyped-def]
    factors_at, weights_at, found_at, rows, programs,
    COLUMNS: tl.constexpr, K: tl.constexpr, STRIPE: tl.constexpr, M: tl.constexpr,
):  # fmt: skip
    """STRIPE rows of factors: sums of squares, weighted sums of squares and largest numbers of their columns."""
    place = tl.program_id(0)
    k, m = tl.arange(0, K), tl.arange(0, M)
    plain, weighted = tl.zeros([M, K], tl.float64), tl.zeros([M, K], tl.float64)
    largest = tl.zeros([M, K], tl.float32)
    for at in range(0, STRIPE, M):
        row = place.to(tl.int64) * STRIPE + at + m
        inside = (row < rows)[:, None] & (k < COLUMNS)[None, :]
        f = tl.load(factors_at + row[:, None] * COLUMNS + k[None, :], mask=inside, other=0.0)
        square = f.to(tl.float64) * f.to(tl.float64)
        plain += square
        weighted += square * tl.load(weights_at + row, mask=row < rows, other=0.0)[:, None]
        largest = tl.maximum(largest, tl.abs(f))
    into = found_at + place * COLUMNS + k
    tl.store(into, tl.sum(plain, 0), mask=k < COLUMNS)
    tl.store(into + programs * COLUMNS, tl.sum(weighted, 0), mask=k < COLUMNS)
    tl.store(into + 2 * programs * COLUMNS, tl.max(largest, 0).to(tl.float64), mask=k < COLUMNS)


def _halve(  # type: ignore[no-untyped-def]
    fixed_at, halves_at, units_at, rows,
    COLUMNS: tl.constexpr, A: tl.constexpr, B: tl.constexpr, BIAS: tl.constexpr, M: tl.constexpr,
):  # fmt: skip
    """M rows of factors as two numbers of 16 bits each; the regressor of the bias is one."""
    row = (tl.program_id(0) * M + tl.arange(0, M)).to(tl.int64)[:, None]
    for part in tl.static_range(2):
        k = (tl.arange(0, A) if part == 0 else A + tl.arange(0, B))[None, :]
        unit = tl.load(units_at + k, mask=k < COLUMNS, other=0.0)
        f = unit * tl.load(fixed_at + row * COLUMNS + k, mask=(row < rows) & (k < COLUMNS), other=0.0)
        if BIAS >= 0:
            f = tl.where(k == BIAS, unit, f)
        h = f.to(tl.float16)
        low = (2.0 * (f - h.to(tl.float32))).to(tl.float16)
        at = halves_at + row * (2 * (A + B)) + k
        tl.store(at, h, mask=row < rows)
        tl.store(at + (A + B), low, mask=row < rows)


def _sums(  # type: ignore[no-untyped-def]
    columns_at, values_at, fixed_at, halves_at, unit, begin, count,
    COLUMNS: tl.constexpr, A: tl.constexpr, B: tl.constexpr, BIAS: tl.constexpr, M: tl.constexpr,
):  # fmt: skip
    """C of `count` ratings from `begin` in three parts, scaled, and the sum of the squared ratings, scaled by `unit`.

    The last of the parts but one is twice what C is, since it stands for both sides of the diagonal.
    """
    a, b, m = tl.arange(0, A), A + tl.arange(0, B), tl.arange(0, M)
    aa, ab, bb = tl.zeros([A, A], tl.float32), tl.zeros([A, B], tl.float32), tl.zeros([B, B], tl.float32)
    value = tl.zeros([M], tl.float64)
    for at in tl.range(0, count, M, num_stages=3):
        real = at + m < count
        j = tl.load(columns_at + begin + at + m, mask=real, other=0)
        near = halves_at + j.to(tl.int64)[:, None] * (2 * (A + B))
        ha = tl.load(near + a[None, :], mask=real[:, None], other=0.0)
        la = tl.load(near + (A + B + a)[None, :], mask=real[:, None], other=0.0)
        hb = tl.load(near + b[None, :], mask=real[:, None], other=0.0)
        lb = tl.load(near + (A + B + b)[None, :], mask=real[:, None], other=0.0)
        y = tl.load(values_at + begin + at + m, mask=real, other=0.0)
        if BIAS >= 0:
            y -= tl.load(fixed_at + j.to(tl.int64) * COLUMNS + BIAS, mask=real, other=0.0)
        y *= unit
        value += (y * y).to(tl.float64)
        high = y.to(tl.float16)
        low = (2.0 * (y - high.to(tl.float32))).to(tl.float16)
        hb = tl.where(b[None, :] == COLUMNS, high[:, None], hb)
        lb = tl.where(b[None, :] == COLUMNS, low[:, None], lb)
        if M > 16:
            aa += tl.dot(tl.trans(ha), la, tl.dot(tl.trans(ha), ha))
            part = tl.dot(tl.trans(ha), lb, tl.dot(tl.trans(ha), hb + hb))
            ab += tl.dot(tl.trans(la), hb, part)
            bb += tl.dot(tl.trans(hb), lb, tl.dot(tl.trans(hb), hb))
        else:
            aa = tl.dot(tl.trans(ha), la, tl.dot(tl.trans(ha), ha, aa))
            ab = tl.dot(tl.trans(ha), lb, tl.dot(tl.trans(ha), hb + hb, ab))
            ab = tl.dot(tl.trans(la), hb, ab)
            bb = tl.dot(tl.trans(hb), lb, tl.dot(tl.trans(hb), hb, bb))
    return aa, ab, bb, tl.sum(value, 0)


def _piece(  # type: ignore[no-untyped-def]
    columns_at, values_at, fixed_at, halves_at, units_at, begins_at, ends_at, parts_at, squares_at,
    COLUMNS: tl.constexpr, A: tl.constexpr, B: tl.constexpr, BIAS: tl.constexpr, M: tl.constexpr,
):  # fmt: skip
    """The sums of one piece of a long row."""
    place = tl.program_id(0).to(tl.int64)
    begin = tl.load(begins_at + place)
    count = (tl.load(ends_at + place) - begin).to(tl.int32)
    unit = tl.load(units_at + COLUMNS)
    aa, ab, bb, value = _sums(
        columns_at, values_at, fixed_at, halves_at, unit, begin, count, COLUMNS, A, B, BIAS, M
    )  # fmt: skip
    a, b = tl.arange(0, A), tl.arange(0, B)
    into = parts_at + place * (A * A + A * B + B * B)
    tl.store(into + a[:, None] * A + a[None, :], aa)
    tl.store(into + A * A + a[:, None] * B + b[None, :], ab)
    tl.store(into + A * A + A * B + b[:, None] * B + b[None, :], bb)
    tl.store(squares_at + place, value)


def _solve(  # type: ignore[no-untyped-def]  # parameters: Triton takes no structs, see gpu/triton.py
    columns_at, values_at, fixed_at, halves_at, units_at,
    starts_at, firsts_at, parts_at, squares_at, diagonals_at, free_at, order_at, reached_at,
    COLUMNS: tl.constexpr, A: tl.constexpr, B: tl.constexpr, BIAS: tl.constexpr, STEPS: tl.constexpr,
    CUT: tl.constexpr, OWN: tl.constexpr, M: tl.constexpr,
):  # fmt: skip
    """One row: its sums, or those of its pieces together, then the steps."""
    place = tl.program_id(0)
    row = tl.load(order_at + place)
    begin = tl.load(starts_at + row)
    count = (tl.load(starts_at + row + 1) - begin).to(tl.int32)
    unit = tl.load(units_at + COLUMNS)
    if CUT:
        a, b = tl.arange(0, A), tl.arange(0, B)
        aa, ab, bb = tl.zeros([A, A], tl.float32), tl.zeros([A, B], tl.float32), tl.zeros([B, B], tl.float32)
        value = tl.full([], 0.0, tl.float64)
        for part in range(tl.load(firsts_at + place), tl.load(firsts_at + place + 1)):
            near = parts_at + part * (A * A + A * B + B * B)
            aa += tl.load(near + a[:, None] * A + a[None, :])
            ab += tl.load(near + A * A + a[:, None] * B + b[None, :])
            bb += tl.load(near + A * A + A * B + b[:, None] * B + b[None, :])
            value += tl.load(squares_at + part)
    else:
        aa, ab, bb, value = _sums(
            columns_at, values_at, fixed_at, halves_at, unit, begin, count, COLUMNS, A, B, BIAS, M
        )  # fmt: skip
    penalized, plain = _improved(
        aa, ab, bb, value / unit / unit, units_at, count.to(tl.float32), diagonals_at, free_at + row * COLUMNS,
        COLUMNS, A, B, STEPS, OWN,
    )  # fmt: skip
    tl.store(reached_at + 2 * place, penalized)
    tl.store(reached_at + 2 * place + 1, plain)


def _improved(  # type: ignore[no-untyped-def]
    aa, ab, bb, penalized, units_at, count, diagonals_at, row_at,
    COLUMNS: tl.constexpr, A: tl.constexpr, B: tl.constexpr, STEPS: tl.constexpr, OWN: tl.constexpr,
):  # fmt: skip
    """Steps from where the row stands, as in `device.solve_buckets`; returns the two sums of squares reached."""
    a, b = tl.arange(0, A), A + tl.arange(0, B)
    in_a, in_b = a < COLUMNS, b < COLUMNS
    ua, ub = 1.0 / tl.load(units_at + a), 1.0 / tl.load(units_at + b, mask=b <= COLUMNS, other=1.0)
    aa = 0.5 * (aa + tl.trans(aa)) * ua[:, None] * ua[None, :]
    ab = 0.5 * ab * ua[:, None] * ub[None, :]
    bb = 0.5 * (bb + tl.trans(bb)) * ub[:, None] * ub[None, :]
    ra = tl.sum(tl.where(b[None, :] == COLUMNS, ab, 0.0), 1)
    rb = tl.where(in_b, tl.sum(tl.where(b[None, :] == COLUMNS, bb, 0.0), 1), 0.0)
    ab = tl.where(in_b[None, :], ab, 0.0)
    bb = tl.where(in_b[:, None] & in_b[None, :], bb, 0.0)
    if OWN:
        wa = tl.sum(tl.where(a[:, None] == a[None, :], aa, 0.0), 1)
        wb = tl.sum(tl.where(b[:, None] == b[None, :], bb, 0.0), 1)
    else:
        wa = count * tl.load(diagonals_at + 3 * COLUMNS + a, mask=in_a, other=0.0)
        wb = count * tl.load(diagonals_at + 3 * COLUMNS + b, mask=in_b, other=0.0)
    da = tl.load(diagonals_at + a, mask=in_a, other=0.0) * wa
    da += count * tl.load(diagonals_at + COLUMNS + a, mask=in_a, other=0.0)
    da += tl.load(diagonals_at + 2 * COLUMNS + a, mask=in_a, other=0.0)
    db = tl.load(diagonals_at + b, mask=in_b, other=0.0) * wb
    db += count * tl.load(diagonals_at + COLUMNS + b, mask=in_b, other=0.0)
    db += tl.load(diagonals_at + 2 * COLUMNS + b, mask=in_b, other=0.0)
    wa, wb = wa + da, wb + db
    wa = tl.where(wa > 0, 1.0 / tl.where(wa > 0, wa, 1.0), 0.0)
    wb = tl.where(wb > 0, 1.0 / tl.where(wb > 0, wb, 1.0), 0.0)
    xa, xb = tl.load(row_at + a, mask=in_a, other=0.0), tl.load(row_at + b, mask=in_b, other=0.0)
    qa = da * xa + tl.sum(aa * xa[None, :], 1) + tl.sum(ab * xb[None, :], 1)
    qb = db * xb + tl.sum(ab * xa[:, None], 0) + tl.sum(bb * xb[None, :], 1)
    # |y|^2 - <b, x> - <r, x> is the penalized sum of squares at x when r is the residual there.
    penalized -= tl.sum((xa * (2 * ra - qa)).to(tl.float64), 0) + tl.sum((xb * (2 * rb - qb)).to(tl.float64), 0)
    ra, rb = ra - qa, rb - qb
    pa, pb = wa * ra, wb * rb
    rho = tl.sum(pa * ra, 0) + tl.sum(pb * rb, 0)
    # Below this, (2^-17)^2, the residual is rounding; where the data leave directions free, steps have any length.
    settled = (rho + tl.sum(wa * qa * qa, 0) + tl.sum(wb * qb * qb, 0)) * 5.82e-11
    for _ in range(STEPS):
        qa = da * pa + tl.sum(aa * pa[None, :], 1) + tl.sum(ab * pb[None, :], 1)
        qb = db * pb + tl.sum(ab * pa[:, None], 0) + tl.sum(bb * pb[None, :], 1)
        curvature = tl.sum(pa * qa, 0) + tl.sum(pb * qb, 0)
        good = (curvature > 0) & (rho > settled)
        alpha = tl.where(good, rho / tl.where(good, curvature, 1.0), 0.0)
        penalized -= (alpha * rho).to(tl.float64)
        xa, xb = xa + alpha * pa, xb + alpha * pb
        ra, rb = ra - alpha * qa, rb - alpha * qb
        fresh = tl.sum(wa * ra * ra, 0) + tl.sum(wb * rb * rb, 0)
        beta = tl.where(good, fresh / tl.where(good, rho, 1.0), 0.0)
        pa, pb = wa * ra + beta * pa, wb * rb + beta * pb
        rho = fresh
    tl.store(row_at + a, xa, mask=in_a)
    tl.store(row_at + b, xb, mask=in_b)
    own = tl.sum((da * xa * xa).to(tl.float64), 0) + tl.sum((db * xb * xb).to(tl.float64), 0)
    return penalized, penalized - own
