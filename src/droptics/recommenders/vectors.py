"""Sums over rows of factors and small triangular systems with the sums in vector registers, written for LLVM.

A loop that numba vectorizes loads and stores its sums at every step, three memory operations for one of arithmetic.
What is below is written in vectors: 64 bytes where the processor has such registers (AVX-512), otherwise 32, which is
one register of AVX2 and two of NEON. A tile is eight vectors of sums that stay in registers:

- `add_outer`: a rating adds the outer product of eight factors and a vector of factors; two loads for eight products.
- `dots` and `combine`: eight ratings at a time, a load for each product. The sums of `combine`, up to nine vectors,
  stay in registers for all ratings: 4.8 ns for each at width 72 on a Neoverse N1, where products alone take 3.6.
- `factor` and `eliminate`: eight rows of a Cholesky factor at a time, the corner and what is right of it.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any

from droptics.linalg.intrinsics import binding, cgutils, intrinsic, ir, types

EIGHT = 8
BYTES = 64 if binding.get_host_cpu_features().get("avx512f") else 32
TILES = 2 if BYTES == 64 else 1  # worked on together: sixteen registers of sums, as many as hide what a product takes
# Arm's products take one lane of a register for a factor; elsewhere a factor is spread as it comes from memory.
_LANES_NAMED = platform.machine() in {"aarch64", "arm64"}
INDEX = ir.IntType(64)


class Writer:
    """Vectors of one kind of number, and what is done with them where `builder` stands."""

    def __init__(self, context: Any, builder: Any, scalar: Any) -> None:
        self.context, self.builder, self.bits = context, builder, scalar.bitwidth
        self.number, self.lanes = context.get_value_type(scalar), 8 * BYTES // scalar.bitwidth
        self.vector = ir.VectorType(self.number, self.lanes)
        self.zero = ir.Constant(self.vector, [0.0] * self.lanes)

    def array(self, kind: Any, value: Any) -> Any:
        return self.context.make_array(kind)(self.context, self.builder, value)

    def row(self, array: Any, at: Any) -> Any:
        """Address of a row of an array, or of a number where it has one axis."""
        place = self.builder.bitcast(array.data, ir.IntType(8).as_pointer())
        return self.builder.gep(place, [self.builder.mul(self.builder.extract_value(array.strides, 0), at)])

    def beyond(self, place: Any, count: Any) -> Any:
        return self.builder.gep(place, [self.builder.mul(count, INDEX(self.bits // 8))])

    def load(self, place: Any, kind: Any = None) -> Any:
        pointer = self.builder.bitcast(place, (kind or self.vector).as_pointer())
        return self.builder.load(pointer, align=self.bits // 8)

    def load_up_to(self, place: Any, count: Any) -> Any:
        """Eight numbers from an address on, zero for those beyond a count."""
        builder, word = self.builder, ir.VectorType(INDEX, EIGHT)
        mask = builder.icmp_signed("<", ir.Constant(word, list(range(EIGHT))), self.filled(count, EIGHT))
        kind = ir.VectorType(self.number, EIGHT)
        called = ir.FunctionType(kind, [kind.as_pointer(), ir.IntType(32), mask.type, kind])
        name, start = f"llvm.masked.load.v{EIGHT}f{self.bits}.p0", builder.bitcast(place, kind.as_pointer())
        values = [start, ir.IntType(32)(self.bits // 8), mask, ir.Constant(kind, [0.0] * EIGHT)]
        return builder.call(cgutils.get_or_insert_function(builder.module, called, name), values)

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
            read = [self.load(self.beyond(place, INDEX(at))) for at in range(0, EIGHT, self.lanes)]
            return [self.chosen(read[k // self.lanes], undefined, [k % self.lanes] * self.lanes) for k in range(EIGHT)]
        return [self.everywhere(self.beyond(place, INDEX(k))) for k in range(EIGHT)]

    def everywhere(self, place: Any) -> Any:
        """The number at an address in all lanes of a vector."""
        return self.filled(self.load(place, self.number), self.lanes)

    def filled(self, number: Any, lanes: int) -> Any:
        """A number in all of so many lanes."""
        undefined = ir.Constant(ir.VectorType(number.type, lanes), ir.Undefined)
        return self.chosen(self.builder.insert_element(undefined, number, ir.IntType(32)(0)), undefined, [0] * lanes)

    def joined(self, a: Any, b: Any) -> Any:
        return self.chosen(a, b, list(range(a.type.count + b.type.count)))

    def tile(self) -> list[Any]:
        """Eight vectors of zeros to be changed in loops; LLVM keeps them in registers."""
        return [cgutils.alloca_once_value(self.builder, self.zero) for _ in range(EIGHT)]

    def grow(self, variable: Any, a: Any, b: Any) -> None:
        self.builder.store(self.add_product(a, b, self.builder.load(variable)), variable)

    def outer(self, source: Any, count: Any, i: Any, beside: list[Any]) -> list[list[Any]]:
        """Sums over m < count of source[m, i + k] source[m, j:], a vector for each of eight k, for each j `beside`."""
        sums = [self.tile() for _ in beside]
        with cgutils.for_range(self.builder, count) as loop:
            row = self.row(source, loop.index)
            rights = [self.load(self.beyond(row, j)) for j in beside]
            for k, left in enumerate(self.spread(self.beyond(row, i))):
                for tile, right in zip(sums, rights, strict=True):
                    self.grow(tile[k], left, right)
        return [[self.builder.load(total) for total in tile] for tile in sums]

    def beside(self, j: Any, tiles: int) -> list[Any]:
        """The first columns of so many tiles side by side."""
        return [self.builder.add(j, INDEX(at * self.lanes)) for at in range(tiles)]

    def totals(self, vectors: list[Any]) -> list[Any]:
        """The sums over the lanes of some vectors, side by side in as few vectors as hold them."""
        *_, found = self.folds(vectors)
        return found

    def folds(self, vectors: list[Any]) -> Iterator[list[Any]]:
        """Steps on the way to `totals`, for those who have something else to do while one waits for the one before.

        Neighbours are added where that is one instruction, otherwise halves, which takes a shuffle and a blend.
        """
        count, lanes = len(vectors), vectors[0].type.count
        for span in (lanes >> step for step in range(1, lanes.bit_length())):
            size = vectors[0].type.count // (1 if len(vectors) > 1 else 2)
            picks = [list(range(of, 2 * size, 2)) for of in (0, 1)]
            if not _LANES_NAMED:
                upper = [k // span % 2 for k in range(lanes)]
                picks = [[k + lanes * up for k, up in enumerate(upper)],
                         [k + (lanes - span if up else span) for k, up in enumerate(upper)]]  # fmt: skip
            vectors = [self.builder.fadd(*(self.chosen(a, b, pick) for pick in picks))
                       for a, b in zip(vectors[::2], vectors[1::2] or vectors, strict=True)]  # fmt: skip
            yield vectors
        if not _LANES_NAMED:
            order = [int(f"{k:0{lanes.bit_length() - 1}b}"[::-1], 2) for k in range(min(count, lanes))]
            yield [self.chosen(vector, vector, order) for vector in vectors]

    def whole(self, number: Any, size: int) -> Any:
        """The largest multiple of `size` up to a number."""
        return self.builder.sub(number, self.builder.urem(number, INDEX(size)))

    def along(self, width: Any, body: Callable[[Callable[[Any], list[Any]], int], None], most: int = 9) -> None:
        """Call body(of, lanes) for the vectors of a row, `most` at a time, for those left over, and for the row's end.

        of(place) are their addresses in the row at `place`, which differ by constants.
        """
        builder, lanes, end = self.builder, self.lanes, self.whole(width, most * self.lanes)

        def some(at: Any, count: int, lanes: int) -> None:
            def of(place: Any) -> list[Any]:
                first = self.beyond(place, at)
                return [self.beyond(first, INDEX(k * lanes)) for k in range(count)]

            body(of, lanes)

        with cgutils.for_range_slice(builder, INDEX(0), end, INDEX(most * lanes)) as (at, _):
            some(at, most, lanes)
        left, after = builder.udiv(builder.sub(width, end), INDEX(lanes)), builder.append_basic_block("after")
        choice = builder.switch(left, after)
        for count in range(1, most):
            case = builder.append_basic_block(f"left.{count}")
            choice.add_case(INDEX(count), case)
            builder.position_at_end(case)
            some(end, count, lanes)
            builder.branch(after)
        builder.position_at_end(after)
        done = self.whole(width, lanes)
        while lanes > 1:
            lanes //= 2
            left = builder.and_(width, INDEX(lanes))
            with builder.if_then(builder.icmp_signed("!=", left, INDEX(0)), likely=False):
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
        with cgutils.for_range_slice(self.builder, INDEX(0), self.builder.sub(end, begin), INDEX(EIGHT)) as (m, _):
            body(m, self.addresses(array, self.builder.add(begin, m)))

    def addresses(self, places: Any, first: Any) -> list[Any]:
        """Of the rows of eight ratings, as `locate` left them."""
        named = [self.builder.gep(places.data, [self.builder.add(first, INDEX(k))]) for k in range(EIGHT)]
        return [self.builder.inttoptr(self.builder.load(name), ir.IntType(8).as_pointer()) for name in named]

    def later(self, span: list[Any], first: Any, ahead: Any) -> list[Any]:
        """Addresses of the rows of eight ratings so many behind those that begin at `first` of a span."""
        return self.addresses(span[0], self.builder.add(self.builder.add(span[1], first), ahead))

    def ask(self, place: Any) -> None:
        """Have the line of the cache at an address brought while something else is done."""
        word = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [place.type, word, word, word])
        fetch = cgutils.get_or_insert_function(self.builder.module, kind, "llvm.prefetch.p0")
        self.builder.call(fetch, [place, word(0), word(3), word(1)])


def _addition(tiles: int) -> Callable[..., Any]:
    """Add near[:count, i:]^T near[:count, j:] to so many tiles of `into` (float64) from (i, j) on."""

    def add_outer(_: Any, near: Any, into: Any, count: Any, i: Any, j: Any) -> tuple[Any, Any]:
        def generate(context: Any, builder: Any, _: Any, given: Any) -> Any:
            write, wide = Writer(context, builder, near.dtype), Writer(context, builder, into.dtype)
            source, target, (count, i, j) = write.array(near, given[0]), wide.array(into, given[1]), given[2:]
            kind, beside = ir.VectorType(wide.number, write.lanes), write.beside(j, tiles)
            for at, tile in zip(beside, write.outer(source, count, i, beside), strict=True):
                for k, total in enumerate(tile):
                    place = wide.beyond(wide.row(target, builder.add(i, INDEX(k))), at)
                    exact = total if total.type == kind else builder.fpext(total, kind)
                    wide.store(builder.fadd(wide.load(place, kind), exact), place)
            return context.get_dummy_value()

        return types.void(near, into, types.int64, types.int64, types.int64), generate

    return add_outer


def _factor(_: Any, a: Any, x: Any, share: Any, top: Any) -> tuple[Any, Any]:
    """Make the corner at (top, top) less a[:top, top:]^T a[:top, top:] its Cholesky factor U, and x[top:] U^-T x[top:].

    The diagonal keeps the inverse pivots, so that no division is left for what follows, zero where a pivot does not
    exceed its share of the entry it began as. What lies below the diagonal is spent. A step waits for a division and
    two products: roots are taken of inverse pivots, beside the way to the next.
    """

    def generate(context: Any, builder: Any, _: Any, given: Any) -> Any:
        write, lane = Writer(context, builder, a.dtype), ir.IntType(32)
        array, vector, (share, top) = write.array(a, given[0]), write.array(x, given[1]), given[2:]
        kind, (zero, one) = ir.VectorType(write.number, EIGHT), (ir.Constant(write.number, k) for k in (0.0, 1.0))
        places = [write.beyond(write.row(array, builder.add(top, INDEX(k))), top) for k in range(EIGHT)]
        least = [builder.fmul(share, write.load(write.beyond(place, INDEX(k)), write.number))
                 for k, place in enumerate(places)]  # fmt: skip
        sums = [write.outer(array, top, top, [j])[0] for j in write.beside(top, EIGHT // write.lanes)]
        rows = [builder.fsub(write.load(place, kind), reduce(write.joined, parts))
                for place, *parts in zip(places, *sums, strict=True)]  # fmt: skip
        there = write.row(vector, top)
        right, root = write.load(there, kind), ir.FunctionType(write.number, [write.number])
        sqrt = cgutils.get_or_insert_function(builder.module, root, f"llvm.sqrt.f{write.bits}")
        for i, place in enumerate(places):
            row = rows[i]
            pivot = builder.extract_element(row, lane(i))
            enough = builder.fcmp_ordered(">", pivot, least[i])
            inverse = builder.select(enough, builder.fdiv(one, pivot), zero)
            scale = builder.call(sqrt, [inverse])
            opposite = builder.fneg(builder.fmul(row, write.filled(inverse, EIGHT)))
            for m in range(i + 1, EIGHT):
                rows[m] = write.add_product(write.chosen(row, row, [m] * EIGHT), opposite, rows[m])
            write.store(builder.fmul(row, write.filled(scale, EIGHT)), place)
            write.store(scale, write.beyond(place, INDEX(i)))
            write.store(builder.fmul(scale, builder.extract_element(right, lane(i))), write.beyond(there, INDEX(i)))
            right = write.add_product(write.chosen(right, right, [i] * EIGHT), opposite, right)
        return context.get_dummy_value()

    return types.void(a, x, types.float64, types.int64), generate


def _elimination(tiles: int) -> Callable[..., Any]:
    """Subtract a[:top, top:]^T a[:top, j:] from so many tiles from (top, j) on, right of the corner; solve with it.

    The corner at (top, top) is as `factor` leaves it.
    """

    def eliminate(_: Any, a: Any, top: Any, j: Any) -> tuple[Any, Any]:
        def generate(context: Any, builder: Any, _: Any, given: Any) -> Any:
            write = Writer(context, builder, a.dtype)
            array, (top, j) = write.array(a, given[0]), given[1:]
            rows = [write.row(array, builder.add(top, INDEX(k))) for k in range(EIGHT)]
            beside = write.beside(j, tiles)
            places = [[write.beyond(row, at) for at in beside] for row in rows]
            sums = write.outer(array, top, top, beside)
            tile = [[builder.fsub(write.load(place), total[k]) for place, total in zip(there, sums, strict=True)]
                    for k, there in enumerate(places)]  # fmt: skip
            for k in range(EIGHT):
                factors = write.spread(write.beyond(rows[k], top))
                for n, place in enumerate(places[k]):
                    tile[k][n] = builder.fmul(factors[k], tile[k][n])
                    write.store(tile[k][n], place)
                    opposite = builder.fneg(tile[k][n])
                    for m in range(k + 1, EIGHT):
                        tile[m][n] = write.add_product(factors[m], opposite, tile[m][n])
            return context.get_dummy_value()

        return types.void(a, types.int64, types.int64), generate

    return eliminate


def _substitution(back: bool) -> Callable[..., Any]:
    """With B the part of `a` right of the corner U at (top, top): x[end:] -= B^T x[top:end], or back, the reverse.

    Back, x[top:end] is then solved with U.
    """

    def substitute(_: Any, a: Any, x: Any, top: Any) -> tuple[Any, Any]:
        def generate(context: Any, builder: Any, _: Any, given: Any) -> Any:
            write = Writer(context, builder, a.dtype)
            array, vector, top = write.array(a, given[0]), write.array(x, given[1]), given[2]
            end, beside = builder.add(top, INDEX(EIGHT)), write.row(vector, top)
            rows = [write.beyond(write.row(array, builder.add(top, INDEX(k))), end) for k in range(EIGHT)]
            sums, spread = write.tile(), [] if back else write.spread(beside)

            def part(of: Callable[[Any], list[Any]], lanes: int) -> None:
                kind = ir.VectorType(write.number, lanes)
                for place, *places in zip(*map(of, (write.beyond(beside, INDEX(EIGHT)), *rows)), strict=True):
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
            if not back:
                return context.get_dummy_value()
            whole = reduce(write.joined, write.totals([builder.load(value) for value in sums]))
            left = builder.fsub(write.load(beside, whole.type), whole)
            found = [builder.extract_element(left, ir.IntType(32)(k)) for k in range(EIGHT)]
            for i in reversed(range(EIGHT)):
                corner = [write.load(write.beyond(rows[i], INDEX(k - EIGHT)), write.number) for k in range(EIGHT)]
                for k in reversed(range(i + 1, EIGHT)):
                    found[i] = builder.fsub(found[i], builder.fmul(corner[k], found[k]))
                found[i] = builder.fmul(corner[i], found[i])
                write.store(found[i], write.beyond(beside, INDEX(i)))
            return context.get_dummy_value()

        return types.void(a, x, types.int64), generate

    return substitute


def _gather(_: Any, table: Any, span: Any, into: Any) -> tuple[Any, Any]:
    """Copy the rows at a span (places, begin, end) to the first rows of `into`."""

    def generate(context: Any, builder: Any, _: Any, given: Any) -> Any:
        write = Writer(context, builder, table.dtype)
        source, target, named = write.array(table, given[0]), write.array(into, given[2]), write.parts(span, given[1])

        def eight(first: Any, rows: list[Any]) -> None:
            targets = [write.row(target, builder.add(first, INDEX(k))) for k in range(EIGHT)]

            def part(of: Callable[[Any], list[Any]], lanes: int) -> None:
                for row, place in zip(rows, targets, strict=True):
                    values = [write.load(there, ir.VectorType(write.number, lanes)) for there in of(row)]
                    for value, there in zip(values, of(place), strict=True):
                        write.store(value, there)

            write.along(builder.extract_value(source.shape, 1), part, 3)

        write.ratings(named, eight)
        return context.get_dummy_value()

    return types.void(table, span, into), generate


def _dots(_: Any, table: Any, span: Any, with_: Any, into: Any, ahead: Any) -> tuple[Any, Any]:
    """Write <row m of those at a span (places, begin, end), with_> to into[m]; `ahead` as in `combine`."""
    asked = ahead != types.none

    def generate(context: Any, builder: Any, _: Any, given: Any) -> Any:
        write = Writer(context, builder, table.dtype)
        source, second, target = map(write.array, (table, with_, into), (given[0], *given[2:4]))
        named = write.parts(span, given[1])

        def eight(first: Any, rows: list[Any]) -> None:
            sums = write.tile()
            later = write.later(named, first, given[-1]) if asked else []

            def part(of: Callable[[Any], list[Any]], lanes: int) -> None:
                kind = ir.VectorType(write.number, lanes)
                for place in (there for row in later for there in of(row)[:: 64 // BYTES]):
                    write.ask(place)
                for right, *lefts in zip(*map(of, (write.row(second, INDEX(0)), *rows)), strict=True):
                    value = write.resized(write.load(right, kind), write.lanes)
                    for left, total in zip(lefts, sums, strict=True):
                        write.grow(total, write.resized(write.load(left, kind), write.lanes), value)

            write.along(builder.extract_value(source.shape, 1), part, 3)
            for k, found in enumerate(write.totals([builder.load(total) for total in sums])):
                write.store(found, write.row(target, builder.add(first, INDEX(k * write.lanes))))

        write.ratings(named, eight)
        return context.get_dummy_value()

    return types.void(table, span, with_, into, ahead), generate


def _combine(_: Any, table: Any, span: Any, weights: Any, into: Any, ahead: Any) -> tuple[Any, Any]:
    """Add sum_m weights[m] row m of those at a span (places, begin, end) to into[0], their squares to into[1] if given.

    Unless `ahead` is None, rows so many ratings behind are asked for on the way.
    """
    squared, asked = len(into.types) == 2, ahead != types.none

    def generate(context: Any, builder: Any, _: Any, given: Any) -> Any:
        write = Writer(context, builder, table.dtype)
        source, factors = write.array(table, given[0]), write.array(weights, given[2])
        named, targets = write.parts(span, given[1]), write.parts(into, given[3])

        def part(of: Callable[[Any], list[Any]], lanes: int) -> None:
            kind = ir.VectorType(write.number, lanes)
            totals = [of(write.row(target, INDEX(0))) for target in targets]
            sums = [[cgutils.alloca_once_value(builder, write.load(place, kind)) for place in total]
                    for total in totals]  # fmt: skip

            def eight(first: Any, rows: list[Any]) -> None:
                spread = [write.resized(factor, lanes) for factor in write.spread(write.row(factors, first))]
                later = write.later(named, first, given[-1]) if asked else []
                for k, lefts in enumerate(zip(*map(of, rows), strict=True)):
                    for row in later if k % (64 // BYTES) == 0 else []:
                        write.ask(of(row)[k])
                    for left, factor in zip(lefts, spread, strict=True):
                        value = write.load(left, kind)
                        for total, other in zip(sums, (factor, value), strict=False):
                            write.grow(total[k], value, other)

            write.ratings(named, eight)
            for there, found in zip(totals, sums, strict=True):
                for place, total in zip(there, found, strict=True):
                    write.store(builder.load(total), place)

        write.along(builder.extract_value(source.shape, 1), part, 5 if squared else 9)
        return context.get_dummy_value()

    return types.void(table, span, weights, into, ahead), generate


add_outer: Any = intrinsic(_addition(1))
add_outers: Any = intrinsic(_addition(TILES))
factor: Any = intrinsic(_factor)
eliminate: Any = intrinsic(_elimination(1))
eliminate_some: Any = intrinsic(_elimination(TILES))
forward: Any = intrinsic(_substitution(back=False))
backward: Any = intrinsic(_substitution(back=True))
gather: Any = intrinsic(_gather)
dots: Any = intrinsic(_dots)
combine: Any = intrinsic(_combine)
