"""Sums over rows of factors and small triangular systems, with the sums in vector registers; compiled.

A loop that numba vectorizes loads and stores its sums at every step, three memory operations for one of arithmetic.
What is below is written in vectors for LLVM: 64 bytes where the processor has such registers (AVX-512), otherwise 32,
which is one register of AVX2 and two of NEON. A tile is eight vectors of sums that stay in registers:

- `add_gram`: a rating adds the outer product of eight factors and a vector of factors; two loads for eight products.
- `dots` and `combine`: eight ratings at a time, a load for each product. The sums of `combine`, up to nine vectors,
  stay in registers for all ratings: 4.8 ns for each at width 72 on a Neoverse N1, where products alone take 3.6.
- `solve_upper`: eight rows of a Cholesky factor at a time, sums and division by the corner in one go.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from droptics.compiling import njit

# Sums may be re-ordered and fused, so that loops vectorize; NaN and infinity keep their meaning.
FAST = {"reassoc", "nsz", "contract", "arcp"}
NEAR = 32  # ratings whose rows are read twice in a row: a first table of 48 pages still knows where they are
_EIGHT = 8
_BYTES = 64 if binding.get_host_cpu_features().get("avx512f") else 32
# Arm's products take one lane of a register for a factor; elsewhere a factor is spread as it comes from memory.
_LANES_NAMED = platform.machine() in {"aarch64", "arm64"}
# Rows are asked for while those so many ratings before are worked on: 8 % of a sweep there, nothing on x86_64.
AHEAD = NEAR if _LANES_NAMED else None
BLOCK = 128  # ratings brought side by side at a time: 36 KB at width 72, which stay in the first cache
_INDEX = ir.IntType(64)


class _Writer:
    """Vectors of one kind of number, and what is done with them where `builder` stands."""

    def __init__(self, context: Any, builder: Any, scalar: Any) -> None:
        self.context, self.builder, self.bits = context, builder, scalar.bitwidth
        self.number, self.lanes = context.get_value_type(scalar), 8 * _BYTES // scalar.bitwidth
        self.vector = ir.VectorType(self.number, self.lanes)
        self.zero = ir.Constant(self.vector, [0.0] * self.lanes)

    def array(self, kind: Any, value: Any) -> Any:
        return self.context.make_array(kind)(self.context, self.builder, value)

    def row(self, array: Any, at: Any) -> Any:
        """Address of a row of an array, or of a number where it has one axis."""
        place = self.builder.bitcast(array.data, ir.IntType(8).as_pointer())
        return self.builder.gep(place, [self.builder.mul(self.builder.extract_value(array.strides, 0), at)])

    def beyond(self, place: Any, count: Any) -> Any:
        return self.builder.gep(place, [self.builder.mul(count, _INDEX(self.bits // 8))])

    def load(self, place: Any, kind: Any = None) -> Any:
        pointer = self.builder.bitcast(place, (kind or self.vector).as_pointer())
        return self.builder.load(pointer, align=self.bits // 8)

    def store(self, value: Any, place: Any) -> None:
        self.builder.store(value, self.builder.bitcast(place, value.type.as_pointer()), align=self.bits // 8)

    def add_product(self, a: Any, b: Any, c: Any) -> Any:
        """One rounding for a b + c where the processor has it."""
        kind = ir.FunctionType(a.type, [a.type] * 3)
        name = f"llvm.fmuladd.v{a.type.count}f{self.bits}"
        return self.builder.call(cgutils.get_or_insert_function(self.builder.module, kind, name), [a, b, c])

    def chosen(self, a: Any, b: Any, lanes: list[int]) -> Any:
        """These lanes of the vectors a and b, side by side."""
        return self.builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes))

    def resized(self, value: Any, size: int) -> Any:
        """The first lanes of a vector, or the vector with zeros behind it."""
        return self.chosen(value, ir.Constant(value.type, [0.0] * value.type.count),
                           [min(k, value.type.count) for k in range(size)])  # fmt: skip

    def spread(self, place: Any) -> list[Any]:
        """Eight numbers from an address on, each in all lanes of a vector."""
        undefined = ir.Constant(self.vector, ir.Undefined)
        if _LANES_NAMED:
            read = [self.load(self.beyond(place, _INDEX(at))) for at in range(0, _EIGHT, self.lanes)]
            return [self.chosen(read[k // self.lanes], undefined, [k % self.lanes] * self.lanes) for k in range(_EIGHT)]
        single = [self.load(self.beyond(place, _INDEX(k)), self.number) for k in range(_EIGHT)]
        first = [self.builder.insert_element(undefined, value, ir.IntType(32)(0)) for value in single]
        return [self.chosen(value, undefined, [0] * self.lanes) for value in first]

    def tile(self) -> list[Any]:
        """Eight vectors of zeros to be changed in loops; LLVM keeps them in registers."""
        return [cgutils.alloca_once_value(self.builder, self.zero) for _ in range(_EIGHT)]

    def grow(self, variable: Any, a: Any, b: Any) -> None:
        self.builder.store(self.add_product(a, b, self.builder.load(variable)), variable)

    def outer(self, source: Any, count: Any, i: Any, j: Any) -> list[Any]:
        """Sums over m < count of source[m, i + k] source[m, j:], a vector for each of eight k."""
        sums = self.tile()
        with cgutils.for_range(self.builder, count) as loop:
            row = self.row(source, loop.index)
            right = self.load(self.beyond(row, j))
            for total, left in zip(sums, self.spread(self.beyond(row, i)), strict=True):
                self.grow(total, left, right)
        return [self.builder.load(total) for total in sums]

    def totals(self, vectors: list[Any]) -> list[Any]:
        """The sums over the lanes of some vectors, side by side in as few vectors as hold them: pairs are added."""
        lanes = vectors[0].type.count
        while lanes > 1:
            size = vectors[0].type.count // (1 if len(vectors) > 1 else 2)
            vectors = [self.builder.fadd(*(self.chosen(a, b, list(range(of, 2 * size, 2))) for of in (0, 1)))
                       for a, b in zip(vectors[::2], vectors[1::2] or vectors, strict=True)]  # fmt: skip
            lanes //= 2
        return vectors

    def whole(self, number: Any, size: int) -> Any:
        """The largest multiple of `size` up to a number."""
        return self.builder.sub(number, self.builder.urem(number, _INDEX(size)))

    def along(self, width: Any, body: Callable[[Callable[[Any], list[Any]], int], None], most: int = 9) -> None:
        """Call body(of, lanes) for the vectors of a row, `most` at a time, for those left over, and for the row's end.

        of(place) are their addresses in the row at `place`, which differ by constants.
        """
        builder, lanes, end = self.builder, self.lanes, self.whole(width, most * self.lanes)

        def some(at: Any, count: int, lanes: int) -> None:
            def of(place: Any) -> list[Any]:
                first = self.beyond(place, at)
                return [self.beyond(first, _INDEX(k * lanes)) for k in range(count)]

            body(of, lanes)

        with cgutils.for_range_slice(builder, _INDEX(0), end, _INDEX(most * lanes)) as (at, _):
            some(at, most, lanes)
        left, after = builder.udiv(builder.sub(width, end), _INDEX(lanes)), builder.append_basic_block("after")
        choice = builder.switch(left, after)
        for count in range(1, most):
            case = builder.append_basic_block(f"left.{count}")
            choice.add_case(_INDEX(count), case)
            builder.position_at_end(case)
            some(end, count, lanes)
            builder.branch(after)
        builder.position_at_end(after)
        done = self.whole(width, lanes)
        while lanes > 1:
            lanes //= 2
            left = builder.and_(width, _INDEX(lanes))
            with builder.if_then(builder.icmp_signed("!=", left, _INDEX(0)), likely=False):
                some(done, 1, lanes)
            done = builder.add(done, left)

    def parts(self, kind: Any, value: Any) -> list[Any]:
        """Of a tuple: arrays as such, numbers as they are."""
        found = [self.builder.extract_value(value, k) for k in range(len(kind.types))]
        return [self.array(of, part) if isinstance(of, types.Array) else part
                for of, part in zip(kind.types, found, strict=True)]  # fmt: skip

    def ratings(self, span: list[Any], body: Callable[[Any, list[Any]], None]) -> None:
        """Call body(m, rows) for every eight ratings of a span (places, begin, end), rows their addresses."""
        array, begin, end = span
        with cgutils.for_range_slice(self.builder, _INDEX(0), self.builder.sub(end, begin), _INDEX(_EIGHT)) as (m, _):
            body(m, self.addresses(array, self.builder.add(begin, m)))

    def addresses(self, places: Any, first: Any) -> list[Any]:
        """Of the rows of eight ratings, as `locate` left them."""
        named = [self.builder.gep(places.data, [self.builder.add(first, _INDEX(k))]) for k in range(_EIGHT)]
        return [self.builder.inttoptr(self.builder.load(name), ir.IntType(8).as_pointer()) for name in named]

    def ask(self, place: Any) -> None:
        """Have the line of the cache at an address brought while something else is done."""
        word = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [place.type, word, word, word])
        fetch = cgutils.get_or_insert_function(self.builder.module, kind, "llvm.prefetch.p0")
        self.builder.call(fetch, [place, word(0), word(3), word(1)])


def _add_outer(_: Any, near: Any, into: Any, count: Any, i: Any, j: Any) -> tuple[Any, Any]:
    """Add near[:count, i:]^T near[:count, j:] to the tile of `into` (float64) at (i, j)."""

    def generate(context: Any, builder: Any, _: Any, given: Any) -> Any:
        write, wide = _Writer(context, builder, near.dtype), _Writer(context, builder, into.dtype)
        source, target, (count, i, j) = write.array(near, given[0]), wide.array(into, given[1]), given[2:]
        kind = ir.VectorType(wide.number, write.lanes)
        for k, total in enumerate(write.outer(source, count, i, j)):
            place = wide.beyond(wide.row(target, builder.add(i, _INDEX(k))), j)
            exact = total if total.type == kind else builder.fpext(total, kind)
            wide.store(builder.fadd(wide.load(place, kind), exact), place)
        return context.get_dummy_value()

    return types.void(near, into, types.int64, types.int64, types.int64), generate


def _eliminate(_: Any, a: Any, top: Any, j: Any) -> tuple[Any, Any]:
    """Subtract a[:top, top:]^T a[:top, j:] from the tile at (top, j); right of the corner at (top, top), solve with it.

    The corner is that of the Cholesky factor, with the inverse pivots on its diagonal.
    """

    def generate(context: Any, builder: Any, _: Any, given: Any) -> Any:
        write = _Writer(context, builder, a.dtype)
        array, (top, j) = write.array(a, given[0]), given[1:]
        rows = [write.row(array, builder.add(top, _INDEX(k))) for k in range(_EIGHT)]
        places = [write.beyond(row, j) for row in rows]
        tile = [builder.fsub(write.load(place), total)
                for place, total in zip(places, write.outer(array, top, top, j), strict=True)]  # fmt: skip
        for place, value in zip(places, tile, strict=True):
            write.store(value, place)
        with builder.if_then(builder.icmp_signed(">=", j, builder.add(top, _INDEX(_EIGHT)))):
            for k in range(_EIGHT):
                factors = write.spread(write.beyond(rows[k], top))
                tile[k] = builder.fmul(factors[k], tile[k])
                write.store(tile[k], places[k])
                opposite = builder.fneg(tile[k])
                for m in range(k + 1, _EIGHT):
                    tile[m] = write.add_product(factors[m], opposite, tile[m])
        return context.get_dummy_value()

    return types.void(a, types.int64, types.int64), generate


def _substitution(back: bool) -> Callable[..., Any]:
    """With B the part of `a` right of the corner at (top, top): x[end:] -= B^T x[top:end], or back, the reverse."""

    def substitute(_: Any, a: Any, x: Any, top: Any) -> tuple[Any, Any]:
        def generate(context: Any, builder: Any, _: Any, given: Any) -> Any:
            write = _Writer(context, builder, a.dtype)
            array, vector, top = write.array(a, given[0]), write.array(x, given[1]), given[2]
            end, beside = builder.add(top, _INDEX(_EIGHT)), write.row(vector, top)
            rows = [write.beyond(write.row(array, builder.add(top, _INDEX(k))), end) for k in range(_EIGHT)]
            sums, spread = write.tile(), [] if back else write.spread(beside)

            def part(of: Callable[[Any], list[Any]], lanes: int) -> None:
                kind = ir.VectorType(write.number, lanes)
                for place, *places in zip(*map(of, (write.beyond(beside, _INDEX(_EIGHT)), *rows)), strict=True):
                    behind = write.load(place, kind)
                    values = [write.load(there, kind) for there in places]
                    for k, value in enumerate(values):
                        if back:
                            write.grow(sums[k], *(write.resized(v, write.lanes) for v in (value, behind)))
                        else:
                            behind = write.add_product(builder.fneg(value), write.resized(spread[k], lanes), behind)
                    if not back:
                        write.store(behind, place)

            write.along(builder.sub(builder.extract_value(vector.shape, 0), end), part, 3)
            for k, total in enumerate(write.totals([builder.load(value) for value in sums]) if back else []):
                place = write.beyond(beside, _INDEX(k * write.lanes))
                write.store(builder.fsub(write.load(place), total), place)
            return context.get_dummy_value()

        return types.void(a, x, types.int64), generate

    return substitute


def _gather(_: Any, table: Any, span: Any, into: Any) -> tuple[Any, Any]:
    """Copy the rows at a span (places, begin, end) to the first rows of `into`."""

    def generate(context: Any, builder: Any, _: Any, given: Any) -> Any:
        write = _Writer(context, builder, table.dtype)
        source, target, named = write.array(table, given[0]), write.array(into, given[2]), write.parts(span, given[1])

        def eight(first: Any, rows: list[Any]) -> None:
            targets = [write.row(target, builder.add(first, _INDEX(k))) for k in range(_EIGHT)]

            def part(of: Callable[[Any], list[Any]], lanes: int) -> None:
                for row, place in zip(rows, targets, strict=True):
                    values = [write.load(there, ir.VectorType(write.number, lanes)) for there in of(row)]
                    for value, there in zip(values, of(place), strict=True):
                        write.store(value, there)

            write.along(builder.extract_value(source.shape, 1), part, 3)

        write.ratings(named, eight)
        return context.get_dummy_value()

    return types.void(table, span, into), generate


def _dots(_: Any, table: Any, span: Any, with_: Any, into: Any) -> tuple[Any, Any]:
    """Write <row m of those at a span (places, begin, end), with_> to into[m]."""

    def generate(context: Any, builder: Any, _: Any, given: Any) -> Any:
        write = _Writer(context, builder, table.dtype)
        source, second, target = map(write.array, (table, with_, into), (given[0], *given[2:]))
        named = write.parts(span, given[1])

        def eight(first: Any, rows: list[Any]) -> None:
            sums = write.tile()

            def part(of: Callable[[Any], list[Any]], lanes: int) -> None:
                kind = ir.VectorType(write.number, lanes)
                for right, *lefts in zip(*map(of, (write.row(second, _INDEX(0)), *rows)), strict=True):
                    value = write.resized(write.load(right, kind), write.lanes)
                    for left, total in zip(lefts, sums, strict=True):
                        write.grow(total, write.resized(write.load(left, kind), write.lanes), value)

            write.along(builder.extract_value(source.shape, 1), part, 3)
            for k, found in enumerate(write.totals([builder.load(total) for total in sums])):
                write.store(found, write.row(target, builder.add(first, _INDEX(k * write.lanes))))

        write.ratings(named, eight)
        return context.get_dummy_value()

    return types.void(table, span, with_, into), generate


def _combine(_: Any, table: Any, span: Any, weights: Any, into: Any, ahead: Any) -> tuple[Any, Any]:
    """Add sum_m weights[m] row m of those at a span (places, begin, end) to into[0], their squares to into[1] if given.

    Unless `ahead` is None, rows so many ratings behind are asked for on the way.
    """
    squared, asked = len(into.types) == 2, ahead != types.none

    def generate(context: Any, builder: Any, _: Any, given: Any) -> Any:
        write = _Writer(context, builder, table.dtype)
        source, factors = write.array(table, given[0]), write.array(weights, given[2])
        named, targets = write.parts(span, given[1]), write.parts(into, given[3])

        def part(of: Callable[[Any], list[Any]], lanes: int) -> None:
            kind = ir.VectorType(write.number, lanes)
            totals = [of(write.row(target, _INDEX(0))) for target in targets]
            sums = [[cgutils.alloca_once_value(builder, write.load(place, kind)) for place in total]
                    for total in totals]  # fmt: skip

            def eight(first: Any, rows: list[Any]) -> None:
                spread = [write.resized(factor, lanes) for factor in write.spread(write.row(factors, first))]
                later = write.addresses(named[0], builder.add(builder.add(named[1], first), given[-1])) if asked else []
                for k, lefts in enumerate(zip(*map(of, rows), strict=True)):
                    for row in later if k % (64 // _BYTES) == 0 else []:
                        write.ask(of(row)[k])
                    for left, factor in zip(lefts, spread, strict=True):
                        value = write.load(left, kind)
                        for total, other in zip(sums, (factor, value), strict=False):
                            write.grow(total[k], value, other)

            write.ratings(named, eight)
            for there, found in zip(totals, sums, strict=True):
                for place, total in zip(there, found, strict=True):
                    write.store(builder.load(total), place)

        write.along(builder.extract_value(source.shape, 1), part, 3 if squared else 9)
        return context.get_dummy_value()

    return types.void(table, span, weights, into, ahead), generate


add_outer: Any = intrinsic(_add_outer)
eliminate: Any = intrinsic(_eliminate)
forward: Any = intrinsic(_substitution(back=False))
backward: Any = intrinsic(_substitution(back=True))
gather: Any = intrinsic(_gather)
dots: Any = intrinsic(_dots)
combine: Any = intrinsic(_combine)


@njit(nogil=True, fastmath=FAST)
def padded(width: int) -> int:
    """The columns that tiles in any precision reach, the last of which may begin eight before the end."""
    return -(-width // _EIGHT) * _EIGHT + _BYTES // 4 - _EIGHT


@njit(nogil=True)
def aligned(like: Any, rows: int, columns: int) -> Any:
    """Zeros in rows of whole vectors, none of which lies in two lines of the cache."""
    lanes = _BYTES // like.itemsize
    width = -(-columns // lanes) * lanes
    room = np.zeros(rows * width + lanes, like.dtype)
    start = -np.int64(room.ctypes.data) % _BYTES // like.itemsize
    return room[start : start + rows * width].reshape(rows, width)


@njit(nogil=True)
def room_of(table: Any, starts: Any) -> tuple[Any, Any, Any, Any]:
    """Where rows of ratings that begin at `starts` are worked on.

    Addresses for the longest of them in whole eights, a row of zeros, a block of ratings side by side, zero beyond the
    width, and their addresses.
    """
    longest, width = 0, table.shape[1]
    for row in range(len(starts) - 1):
        longest = max(longest, starts[row + 1] - starts[row])
    places = np.empty(-(-longest // _EIGHT) * _EIGHT + NEAR, np.int64)
    near = aligned(table, BLOCK, padded(width))
    beside = np.int64(near.ctypes.data) + near.strides[0] * np.arange(BLOCK + NEAR)
    return places, np.zeros(width, table.dtype), near, beside


@njit(nogil=True)
def locate(table: Any, columns: Any, room: Any) -> Any:
    """Addresses of the rows of `table` named by `columns`; behind them those of zeros make the last eight whole.

    They keep nothing alive: table and room have to outlast them.
    """
    places, zeros, _, _ = room
    start, step = np.int64(table.ctypes.data), table.strides[0]
    for m in range(len(columns)):
        places[m] = start + columns[m] * step
    for m in range(len(columns), -(-len(columns) // _EIGHT) * _EIGHT + NEAR):
        places[m] = zeros.ctypes.data
    return places[: len(columns)]


@njit(nogil=True, fastmath=FAST)
def start(
    regressors: Any, offsets: Any, columns: Any, values: Any, places: Any, x: Any, t: Any, into: Any, squares: Any
) -> float:
    """Add R^T (y - R x) to `into` and diag(R^T R) to `squares` unless it is None; returns |y - R x|^2."""
    total = 0.0
    for at in range(0, len(columns), NEAR):
        count = min(NEAR, len(columns) - at)
        dots(regressors, (places, at, at + count), x, t)
        for m in range(count):
            t[m] = values[at + m] - offsets[columns[at + m]] - t[m]
            total += t[m] * t[m]
        if squares is None:
            combine(regressors, (places, at, at + count), t, (into,), None)
        else:
            combine(regressors, (places, at, at + count), t, (into, squares), AHEAD)
    return total


@njit(nogil=True, fastmath=FAST)
def apply(regressors: Any, places: Any, p: Any, t: Any, into: Any, long: bool) -> None:
    """Add R^T R p to `into`, without forming the Gram matrix; `long` where R is not in the first cache."""
    for at in range(0, len(places), NEAR):
        end = min(at + NEAR, len(places))
        dots(regressors, (places, at, end), p, t)
        if long:
            combine(regressors, (places, at, end), t, (into,), AHEAD)
        else:
            combine(regressors, (places, at, end), t, (into,), None)


@njit(nogil=True, fastmath=FAST)
def square(regressors: Any, places: Any, p: Any, t: Any) -> float:
    """|R p|^2."""
    total = 0.0
    for at in range(0, len(places), NEAR):
        count = min(NEAR, len(places) - at)
        dots(regressors, (places, at, at + count), p, t)
        for m in range(count):
            total += t[m] * t[m]
    return total


@njit(nogil=True, fastmath=FAST)
def add_gram(table: Any, places: Any, room: Any, into: Any) -> None:
    """Add the upper triangle of R^T R to `into` (float64, `padded`), R the rows of `table` at `places`.

    Products are summed in the precision of the table, and in float64 after every 128 ratings.
    """
    near, width, lanes = room[2], len(into) - padded(0), _BYTES // table.itemsize
    for begin in range(0, len(places), BLOCK):
        count = min(BLOCK, len(places) - begin)
        gather(table, (places, begin, begin + count), near)
        for i in range(0, width, _EIGHT):
            for j in range(i, width, lanes):
                add_outer(near, into, count, i, j)


@njit(nogil=True, fastmath=FAST)
def _factor(corner: Any, least: Any) -> None:
    """Cholesky factor of eight rows and columns, in place; a pivot must exceed its `least`.

    The diagonal keeps the inverse pivots, zero for a free direction, so that no division is left for what follows.
    """
    for i in range(_EIGHT):
        inverse = 1.0 / np.sqrt(corner[i, i]) if corner[i, i] > least[i] else 0.0
        corner[i, i] = inverse
        for k in range(i + 1, _EIGHT):
            corner[i, k] *= inverse
        for m in range(i + 1, _EIGHT):
            for k in range(m, _EIGHT):
                corner[m, k] -= corner[i, m] * corner[i, k]


@njit(nogil=True, fastmath=FAST)
def solve_upper(a: Any, x: Any, unit: float) -> None:
    """Solve a x = b in place (b in x), a positive semi-definite in float64, upper triangle given and overwritten.

    `a` has `padded` rows, x at most as many; `unit` is the rounding of its entries where they were summed in float32,
    otherwise zero. A pivot lost to rounding belongs to a direction that the data leave free: its unknown is set to
    zero, which still solves the (consistent) normal equations. Cost width^3 / 3 operations.
    """
    width, lanes = len(x), _BYTES // 8
    least = max(width * np.finfo(np.float64).eps, unit) * np.diag(a)
    for top in range(0, width, _EIGHT):
        end = top + _EIGHT
        for j in range(top, end, lanes):
            eliminate(a, top, j)
        _factor(a[top:end, top:end], least[top:end])
        for j in range(end, width, lanes):
            eliminate(a, top, j)
        for i in range(top, min(end, width)):
            x[i] *= a[i, i]
            for k in range(i + 1, min(end, width)):
                x[k] -= a[i, k] * x[i]
        if end < width:
            forward(a, x, top)
    for top in range((width - 1) // _EIGHT * _EIGHT, -1, -_EIGHT):
        end = min(top + _EIGHT, width)
        if end < width:
            backward(a, x, top)
        for i in range(end - 1, top - 1, -1):
            for k in range(i + 1, end):
                x[i] -= a[i, k] * x[k]
            x[i] *= a[i, i]
