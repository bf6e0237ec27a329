"""Sums over rows of factors and small triangular systems, with the sums in vector registers; compiled.

A loop that numba vectorizes loads and stores its sums at every step, three memory operations for one of arithmetic.
What is below is written in vectors for LLVM: 64 bytes where the processor has such registers (AVX-512), otherwise 32,
which is one register of AVX2 and two of NEON. A tile is eight vectors of sums that stay in registers:

- `add_gram`: a rating adds the outer product of eight factors and a vector of factors; two loads for eight products.
- `dots` and `combine`: eight ratings at a time, a load for each product, and the other operand once for all eight.
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
NEAR = 64  # ratings whose rows are read twice in a row: 18 KB at width 72, which are then in the first cache
_EIGHT = 8
_BYTES = 64 if binding.get_host_cpu_features().get("avx512f") else 32
# Arm's products take one lane of a register for a factor; elsewhere a factor is spread as it comes from memory.
_LANES_NAMED = platform.machine() in {"aarch64", "arm64"}
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
        """The sums over the lanes of eight vectors, side by side in as few vectors as hold them: pairs are added."""
        lanes = self.lanes
        while lanes > 1:
            size = self.lanes if len(vectors) > 1 else self.lanes // 2
            vectors = [self.builder.fadd(*(self.chosen(a, b, list(range(of, 2 * size, 2))) for of in (0, 1)))
                       for a, b in zip(vectors[::2], vectors[1::2] or vectors, strict=True)]  # fmt: skip
            lanes //= 2
        return vectors

    def along(self, width: Any, body: Callable[[list[Any], int], None]) -> None:
        """Call body(starts, lanes) for the vectors of a row, three at a time, and for the shorter ones at its end."""
        builder, lanes = self.builder, self.lanes
        done = _INDEX(0)
        for times in (3, 1):
            end = builder.sub(width, builder.urem(width, _INDEX(times * lanes)))
            with cgutils.for_range_slice(builder, done, end, _INDEX(times * lanes)) as (at, _):
                body([builder.add(at, _INDEX(k * lanes)) for k in range(times)], lanes)
            done = end
        while lanes > 1:
            lanes //= 2
            left = builder.and_(width, _INDEX(lanes))
            with builder.if_then(builder.icmp_signed("!=", left, _INDEX(0)), likely=False):
                body([done], lanes)
            done = builder.add(done, left)

    def ratings(self, places: Any, body: Callable[[Any, list[Any]], None]) -> None:
        """Call body(first, rows) for every eight ratings, with the addresses of their rows as `locate` left them."""
        builder = self.builder
        count = builder.extract_value(places.shape, 0)
        with cgutils.for_range_slice(builder, _INDEX(0), count, _INDEX(_EIGHT)) as (first, _):
            named = [builder.gep(places.data, [builder.add(first, _INDEX(k))]) for k in range(_EIGHT)]
            body(first, [builder.inttoptr(builder.load(name), ir.IntType(8).as_pointer()) for name in named])


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

            def part(starts: list[Any], lanes: int) -> None:
                kind = ir.VectorType(write.number, lanes)
                for at in starts:
                    place = write.row(vector, builder.add(end, at))
                    behind = write.load(place, kind)
                    values = [write.load(write.beyond(row, at), kind) for row in rows]
                    for k, value in enumerate(values):
                        if back:
                            write.grow(sums[k], *(write.resized(v, write.lanes) for v in (value, behind)))
                        else:
                            behind = write.add_product(builder.fneg(value), write.resized(spread[k], lanes), behind)
                    if not back:
                        write.store(behind, place)

            write.along(builder.sub(builder.extract_value(vector.shape, 0), end), part)
            for k, total in enumerate(write.totals([builder.load(value) for value in sums]) if back else []):
                place = write.beyond(beside, _INDEX(k * write.lanes))
                write.store(builder.fsub(write.load(place), total), place)
            return context.get_dummy_value()

        return types.void(a, x, types.int64), generate

    return substitute


def _gather(_: Any, table: Any, places: Any, into: Any) -> tuple[Any, Any]:
    """Copy the rows at `places` to the first rows of `into`."""

    def generate(context: Any, builder: Any, _: Any, given: Any) -> Any:
        write = _Writer(context, builder, table.dtype)
        source, named, target = map(write.array, (table, places, into), given)

        def eight(first: Any, rows: list[Any]) -> None:
            targets = [write.row(target, builder.add(first, _INDEX(k))) for k in range(_EIGHT)]

            def part(starts: list[Any], lanes: int) -> None:
                kind = ir.VectorType(write.number, lanes)
                for row, place in zip(rows, targets, strict=True):
                    for value, at in [(write.load(write.beyond(row, at), kind), at) for at in starts]:
                        write.store(value, write.beyond(place, at))

            write.along(builder.extract_value(source.shape, 1), part)

        write.ratings(named, eight)
        return context.get_dummy_value()

    return types.void(table, places, into), generate


def _dots(_: Any, table: Any, places: Any, with_: Any, into: Any) -> tuple[Any, Any]:
    """Write <row m of those at `places`, with_> to into[m]."""

    def generate(context: Any, builder: Any, _: Any, given: Any) -> Any:
        write = _Writer(context, builder, table.dtype)
        source, named, second, target = map(write.array, (table, places, with_, into), given)

        def eight(first: Any, rows: list[Any]) -> None:
            sums = write.tile()

            def part(starts: list[Any], lanes: int) -> None:
                kind = ir.VectorType(write.number, lanes)
                for at in starts:
                    right = write.resized(write.load(write.row(second, at), kind), write.lanes)
                    for row, total in zip(rows, sums, strict=True):
                        left = write.resized(write.load(write.beyond(row, at), kind), write.lanes)
                        write.grow(total, left, right)

            write.along(builder.extract_value(source.shape, 1), part)
            for k, found in enumerate(write.totals([builder.load(total) for total in sums])):
                write.store(found, write.row(target, builder.add(first, _INDEX(k * write.lanes))))

        write.ratings(named, eight)
        return context.get_dummy_value()

    return types.void(table, places, with_, into), generate


def _combine(_: Any, table: Any, places: Any, weights: Any, into: Any, squares: Any) -> tuple[Any, Any]:
    """Add sum_m weights[m] row m of those at `places` to `into`, and their squares to `squares` unless it is None."""
    squared = squares != types.none

    def generate(context: Any, builder: Any, _: Any, given: Any) -> Any:
        write = _Writer(context, builder, table.dtype)
        kinds = (table, places, weights, into, squares)[: 4 + squared]
        source, named, factors, *targets = map(write.array, kinds, given)

        def eight(first: Any, rows: list[Any]) -> None:
            spread = write.spread(write.row(factors, first))

            def part(starts: list[Any], lanes: int) -> None:
                kind = ir.VectorType(write.number, lanes)
                sums = [[write.load(write.row(target, at), kind) for at in starts] for target in targets]
                for row, factor in zip(rows, spread, strict=True):
                    for k, at in enumerate(starts):
                        value = write.load(write.beyond(row, at), kind)
                        for total, other in zip(sums, (write.resized(factor, lanes), value), strict=False):
                            total[k] = write.add_product(value, other, total[k])
                for target, found in zip(targets, sums, strict=True):
                    for at, total in zip(starts, found, strict=True):
                        write.store(total, write.row(target, at))

            write.along(builder.extract_value(source.shape, 1), part)

        write.ratings(named, eight)
        return context.get_dummy_value()

    return types.void(table, places, weights, into, squares), generate


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
    places = np.empty(-(-longest // _EIGHT) * _EIGHT, np.int64)
    near = aligned(table, BLOCK, padded(width))
    beside = np.int64(near.ctypes.data) + near.strides[0] * np.arange(BLOCK)
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
    for m in range(len(columns), -(-len(columns) // _EIGHT) * _EIGHT):
        places[m] = zeros.ctypes.data
    return places[: len(columns)]


@njit(nogil=True, fastmath=FAST)
def add_gram(table: Any, places: Any, room: Any, into: Any) -> None:
    """Add the upper triangle of R^T R to `into` (float64, `padded`), R the rows of `table` at `places`.

    Products are summed in the precision of the table, and in float64 after every 128 ratings.
    """
    near, width, lanes = room[2], table.shape[1], _BYTES // table.itemsize
    for begin in range(0, len(places), BLOCK):
        count = min(BLOCK, len(places) - begin)
        gather(table, places[begin : begin + count], near)
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
