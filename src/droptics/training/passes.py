"""Passes over four rows of a matrix at a time, and tiles of products, written in vectors for LLVM.

They are what a single-sample step and its targets are made of.

numba vectorizes such loops as well, with a test before each whether its arrays overlap, numbers at the ends of rows one
by one, and vectors of 32 bytes where AVX-512 has 64: a row is only 10 to 15 of those. Here a vector is 64 bytes where
the processor has such registers, otherwise 32, which is one register of AVX2 and two of NEON.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from droptics.arrays import Array
from droptics.compiling import njit
from droptics.linalg.intrinsics import binding, cgutils, intrinsic, ir, types

FOUR, EIGHT = 4, 8
BYTES = 64 if binding.get_host_cpu_features().get("avx512f") else 32
TILES = 2 if BYTES == 64 else 1  # side by side: sixteen registers of sums, as many as hide what a product takes
MOST = 2**18  # bytes of a matrix: a quarter of a second-level cache
_INDEX = ir.IntType(64)


class _Writer:
    """Vectors of one kind of number, and what is done with them where `builder` stands."""

    def __init__(self, builder: Any, number: Any, bits: int) -> None:
        self.builder, self.number, self.bits = builder, number, bits

    def kind(self, lanes: int) -> Any:
        return ir.VectorType(self.number, lanes)

    def load(self, place: Any, lanes: int) -> Any:
        return self.builder.load(self.builder.bitcast(place, self.kind(lanes).as_pointer()), align=self.bits // 8)

    def store(self, value: Any, place: Any) -> None:
        self.builder.store(value, self.builder.bitcast(place, value.type.as_pointer()), align=self.bits // 8)

    def chosen(self, a: Any, b: Any, lanes: list[int]) -> Any:
        return self.builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes))

    def longer(self, value: Any, size: int) -> Any:
        """A vector with zeros behind it."""
        count = value.type.count
        return self.chosen(value, ir.Constant(value.type, [0.0] * count), [min(k, count) for k in range(size)])

    def add_product(self, a: Any, b: Any, c: Any) -> Any:
        """One rounding for a b + c where the processor has it."""
        name = f"llvm.fmuladd.v{a.type.count}f{self.bits}"
        kind = ir.FunctionType(a.type, [a.type] * 3)
        return self.builder.call(cgutils.get_or_insert_function(self.builder.module, kind, name), [a, b, c])

    def totals(self, vectors: list[Any]) -> Any:
        """The sums over the lanes of four vectors, side by side in one: first halves are added, then neighbours."""
        while (size := vectors[0].type.count) > FOUR:
            halves = [list(range(size // 2)), list(range(size // 2, size))]
            vectors = [self.builder.fadd(*(self.chosen(v, v, half) for half in halves)) for v in vectors]
        while len(vectors) > 1:
            vectors = [self.builder.fadd(*(self.chosen(a, b, list(range(of, 2 * FOUR, 2))) for of in (0, 1)))
                       for a, b in zip(vectors[::2], vectors[1::2], strict=True)]  # fmt: skip
        return vectors[0]

    def along(self, width: Any, lanes: int, body: Callable[[Any, int], None]) -> None:
        """Call body(place, lanes) for the vectors of a row, and with ever fewer lanes for its end."""
        whole = self.builder.and_(width, _INDEX(-lanes))
        with cgutils.for_range_slice(self.builder, _INDEX(0), whole, _INDEX(lanes)) as (at, _):
            body(at, lanes)
        while lanes > 1:
            lanes //= 2
            left = self.builder.and_(width, _INDEX(lanes))
            with self.builder.if_then(self.builder.icmp_signed("!=", left, _INDEX(0))):
                body(whole, lanes)
            whole = self.builder.add(whole, left)


def _pass(multiply: bool = False, move: bool = False, combine: bool = False) -> Callable[..., Any]:
    """For the rows units[at : at + 4] of a matrix, all arrays C-contiguous; z and w are four numbers from `at` on.

    multiply: into[at + k] = size z_k <row_k, vector>, of rows before they move
    move: row_k -= size w_k vector
    combine: vector += size sum_k w_k row_k
    """

    # parameters: numba takes no structs
    def passed(_: Any, rows: Any, units: Any, at: Any, vector: Any, size: Any, z: Any, w: Any, into: Any) -> Any:
        kinds, scalar = (rows, units, types.int64, vector, rows.dtype, z, w, into), rows.dtype

        def generate(context: Any, builder: Any, _: Any, given: Any) -> Any:
            write = _Writer(builder, context.get_value_type(scalar), scalar.bitwidth)
            arrays = [context.make_array(kind)(context, builder, value)
                      for kind, value in zip(kinds, given, strict=True) if isinstance(kind, types.Array)]  # fmt: skip
            rows, units, vector, z, w, into = arrays
            at, size, lanes = given[2], given[4], 8 * BYTES // scalar.bitwidth
            width = builder.extract_value(rows.shape, 1)
            named = [builder.load(builder.gep(units.data, [builder.add(at, _INDEX(k))])) for k in range(FOUR)]
            starts = [builder.gep(rows.data, [builder.mul(unit, width)]) for unit in named]
            sized = ir.Constant(write.kind(FOUR), ir.Undefined)
            for k in range(FOUR):
                sized = builder.insert_element(sized, size, ir.IntType(32)(k))
            factors = builder.fmul(sized, write.load(builder.gep(w.data, [at]), FOUR))
            factors = builder.fneg(factors) if move else factors
            zero = ir.Constant(write.kind(lanes), [0.0] * lanes)
            sums = [cgutils.alloca_once_value(builder, zero) for _ in range(FOUR)]

            def part(place: Any, count: int) -> None:
                there = builder.gep(vector.data, [place])
                x = write.load(there, count)
                for k in range(FOUR):
                    own = builder.gep(starts[k], [place])
                    row, factor = write.load(own, count), write.chosen(factors, factors, [k] * count)
                    if multiply:
                        total = write.add_product(
                            write.longer(row, lanes), write.longer(x, lanes), builder.load(sums[k])
                        )
                        builder.store(total, sums[k])
                    if move:
                        write.store(write.add_product(factor, x, row), own)
                    if combine:
                        x = write.add_product(factor, row, x)
                if combine:
                    write.store(x, there)

            write.along(width, lanes, part)
            if multiply:
                found = write.totals([builder.load(total) for total in sums])
                scales = builder.fmul(sized, write.load(builder.gep(z.data, [at]), FOUR))
                write.store(builder.fmul(scales, found), builder.gep(into.data, [at]))
            return context.get_dummy_value()

        return types.void(*kinds), generate

    return passed


multiply: Any = intrinsic(_pass(multiply=True))
combine: Any = intrinsic(_pass(combine=True))
multiply_and_move: Any = intrinsic(_pass(multiply=True, move=True))
move: Any = intrinsic(_pass(move=True))


def _tile(_: Any, x: Any, matrix: Any, into: Any, s: Any, o: Any) -> tuple[Any, Any]:
    """Write eight rows from s on of x matrix, a tile of columns from o on; all arrays C-contiguous."""
    scalar = x.dtype

    def generate(context: Any, builder: Any, _: Any, given: Any) -> Any:
        write, lanes = _Writer(builder, context.get_value_type(scalar), scalar.bitwidth), 8 * BYTES // scalar.bitwidth
        arrays = [context.make_array(kind)(context, builder, value)
                  for kind, value in zip((x, matrix, into), given[:3], strict=True)]  # fmt: skip
        inner, width = (builder.extract_value(array.shape, 1) for array in arrays[:2])
        rows = [builder.add(given[3], _INDEX(k)) for k in range(EIGHT)]
        lefts = [builder.gep(arrays[0].data, [builder.mul(row, inner)]) for row in rows]
        beside = [builder.add(given[4], _INDEX(tile * lanes)) for tile in range(TILES)]
        zero = ir.Constant(write.kind(lanes), [0.0] * lanes)
        sums = [[cgutils.alloca_once_value(builder, zero) for _ in beside] for _ in rows]
        with cgutils.for_range(builder, inner) as loop:
            first = builder.gep(arrays[1].data, [builder.mul(loop.index, width)])
            rights = [write.load(builder.gep(first, [at]), lanes) for at in beside]
            for left, totals in zip(lefts, sums, strict=True):
                single = write.load(builder.gep(left, [loop.index]), 1)
                for right, total in zip(rights, totals, strict=True):
                    factor = write.chosen(single, single, [0] * lanes)
                    builder.store(write.add_product(factor, right, builder.load(total)), total)
        for row, totals in zip(rows, sums, strict=True):
            start = builder.gep(arrays[2].data, [builder.mul(row, width)])
            for at, total in zip(beside, totals, strict=True):
                write.store(builder.load(total), builder.gep(start, [at]))
        return context.get_dummy_value()

    return types.void(x, matrix, into, types.int64, types.int64), generate


tile: Any = intrinsic(_tile)


def tiled(rows: int, matrix: Array) -> bool:
    """Whether `products` can take so many rows and this matrix, and whether its tiles stay in the cache."""
    lanes = TILES * BYTES // matrix.itemsize
    return rows >= EIGHT and matrix.shape[1] >= lanes and matrix.nbytes <= MOST


@njit(nogil=True)
def products(x: Array, matrix: Array, into: Array) -> None:
    """Write x matrix to `into`, all C-contiguous, where `tiled` says so; the last tiles begin before the end."""
    rows, columns, step = len(x), matrix.shape[1], TILES * BYTES // matrix.itemsize
    for o in range(0, columns, step):
        for s in range(0, rows, EIGHT):
            tile(x, matrix, into, min(s, rows - EIGHT), min(o, columns - step))
