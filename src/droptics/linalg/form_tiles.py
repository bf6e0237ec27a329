"""Gram matrices and quadratic forms of the columns of small matrices, with sums in vector registers; compiled.

Both are symmetric, so that half of the products are enough. They are done in tiles of eight rows, written in vectors
for LLVM, whose sums stay in registers: of four columns, eight sums of 32 bytes, one register of AVX2 and two of NEON,
while twelve numbers are loaded for 32 products; of 24 columns where registers have 64 bytes (AVX-512), as there are 32
of them. numba makes less of the same loop: sums that are loaded and stored at every step.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from droptics.arrays import Array
from droptics.compiling import njit
from droptics.linalg.intrinsics import binding, cgutils, intrinsic, ir, types

# Rows of a tile, columns of a vector, vectors of a tile.
ROWS, LANES, MOST = (8, 8, 3) if binding.get_host_cpu_features().get("avx512f") else (8, 4, 1)
LINE = 8  # numbers that come from memory together
_INDEX, _NUMBER = ir.IntType(64), ir.DoubleType()
_VECTOR = ir.VectorType(_NUMBER, LANES)
# Arm's products take one lane of a register for a factor; elsewhere a factor is spread as it comes from memory.
_LANES_NAMED = platform.machine() in {"aarch64", "arm64"}


def _spread(builder: Any, place: Any) -> Iterator[Any]:
    """Eight numbers from an address on, each in all lanes of a vector."""
    undefined = ir.Constant(_VECTOR, ir.Undefined)

    def all_of(vector: Any, lane: int) -> Any:
        return builder.shuffle_vector(
            vector, undefined, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [lane] * LANES)
        )

    if _LANES_NAMED:
        read = [_load(builder, builder.gep(place, [_INDEX(at)])) for at in range(0, ROWS, LANES)]
        yield from (all_of(read[k // LANES], k % LANES) for k in range(ROWS))
        return
    for k in range(ROWS):
        single = builder.load(builder.gep(place, [_INDEX(k)]))
        yield all_of(builder.insert_element(undefined, single, ir.IntType(32)(0)), 0)


def _load(builder: Any, place: Any) -> Any:
    return builder.load(builder.bitcast(place, _VECTOR.as_pointer()), align=8)


def _pointers(context: Any, builder: Any, *arrays: tuple[Any, Any]) -> list[Any]:
    made = [context.make_array(kind)(context, builder, value) for kind, value in arrays]
    return [builder.bitcast(array.data, _NUMBER.as_pointer()) for array in made]


def _sums(
    builder: Any, count: Any, left: Any, rights: list[Any], steps: tuple[Any, Any], ahead: Sequence[Any] = ()
) -> list[list[Any]]:
    """Sums over m < count of the eight numbers left[m] times vectors right[m]: for each of these, eight vectors.

    A line of 64 bytes from every address ahead on is asked for at every m.
    """
    add = _added(builder)
    zero = ir.Constant(_VECTOR, [0.0] * LANES)
    totals = [[cgutils.alloca_once_value(builder, zero) for _ in range(ROWS)] for _ in rights]
    with cgutils.for_range(builder, count) as loop:
        near = builder.gep(left, [builder.mul(loop.index, steps[0])])
        far = builder.mul(loop.index, steps[1])
        rows = [_load(builder, builder.gep(right, [far])) for right in rights]
        for place in ahead:
            _ask(builder, builder.gep(place, [builder.mul(loop.index, _INDEX(LINE))]))
        for k, factor in enumerate(_spread(builder, near)):  # one after the other: all together they are too many
            for row, own in zip(rows, totals, strict=True):
                builder.store(builder.call(add, [factor, row, builder.load(own[k])]), own[k])
    return [[builder.load(total) for total in own] for own in totals]


def _ask(builder: Any, place: Any) -> None:
    """Have the line of an address brought into the cache; there may be nothing at it."""
    byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
    ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    builder.call(ask, [builder.bitcast(place, byte), number(0), number(3), number(1)])  # to read, all levels, data


def _starts(builder: Any, width: Any, first: Any, vectors: int) -> list[Any]:
    """Where vectors number first, first + 1, ... of a row begin: the last one, where the row ends with it."""
    last = builder.sub(width, _INDEX(LANES))
    starts = [builder.mul(builder.add(first, _INDEX(v)), _INDEX(LANES)) for v in range(vectors)]
    return [builder.select(builder.icmp_signed("<", start, last), start, last) for start in starts]


def _added(builder: Any) -> Any:
    """A b + c with one rounding where the processor has it."""
    kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
    return cgutils.get_or_insert_function(builder.module, kind, f"llvm.fmuladd.v{LANES}f64")


def _form_tile(vectors: int) -> Any:
    # parameters: those of a kernel
    def form_tile(_: Any, panels: Any, matrix: Any, head: Any, q: Any, k: Any, sums: Any) -> tuple[Any, Any]:
        """Add v[top : top + 8]^T panels[k]^T v[: top + 8] to sums[q], ..., v the matrix's columns of vector q, ....

        All arrays are C-contiguous and float64; top is 8 k, or 8 before the end of the matrix. What follows the matrix
        and the head in memory is asked for meanwhile, a line of each with every row of a panel.
        """

        def generate(context: Any, builder: Any, _: Any, given: Any) -> Any:
            kinds, (q, k) = (panels, matrix, head, sums), given[3:5]
            left, right, other, target = _pointers(context, builder, *zip(kinds, (*given[:3], given[5]), strict=True))
            (size, width), (more, wide) = (
                cgutils.unpack_tuple(builder, context.make_array(kind)(context, builder, value).shape)
                for kind, value in ((matrix, given[1]), (head, given[2]))
            )
            left = builder.gep(left, [builder.mul(builder.mul(k, size), _INDEX(ROWS))])
            rights = [builder.gep(right, [start]) for start in _starts(builder, width, q, vectors)]
            end = builder.mul(builder.add(k, _INDEX(1)), _INDEX(ROWS))
            asked = builder.mul(builder.mul(k, end), _INDEX(LINE // 2))  # with the rows of all panels before
            end = builder.select(builder.icmp_signed("<", end, size), end, size)
            top = builder.mul(builder.sub(end, _INDEX(ROWS)), width)
            ahead = [
                builder.gep(right, [builder.add(builder.mul(size, width), top)]),
                builder.gep(other, [builder.add(builder.mul(more, wide), asked)]),
            ]
            for v, totals in enumerate(_sums(builder, end, left, rights, (_INDEX(ROWS), width), ahead)):
                place = builder.gep(target, [builder.mul(builder.add(q, _INDEX(v)), _INDEX(LANES))])
                found = _load(builder, place)
                for at, total in enumerate(totals):
                    own = _load(builder, builder.gep(rights[v], [builder.add(top, builder.mul(width, _INDEX(at)))]))
                    found = builder.call(_added(builder), [total, own, found])
                builder.store(found, builder.bitcast(place, _VECTOR.as_pointer()), align=8)
            return context.get_dummy_value()

        return types.void(panels, matrix, head, types.int64, types.int64, sums), generate

    return intrinsic(form_tile)


def _gram_tile(vectors: int) -> Any:
    def gram_tile(_: Any, rows: Any, i: Any, q: Any, out: Any) -> tuple[Any, Any]:
        """out[i : i + 8, j] = rows[:, i : i + 8]^T rows[:, j] for j in vectors q, ...; C-contiguous and float64."""

        def generate(context: Any, builder: Any, _: Any, given: Any) -> Any:
            source, target = _pointers(context, builder, (rows, given[0]), (out, given[3]))
            count, width = cgutils.unpack_tuple(builder, context.make_array(rows)(context, builder, given[0]).shape)
            starts = _starts(builder, width, given[2], vectors)
            left, *rights = (builder.gep(source, [at]) for at in (given[1], *starts))
            for start, totals in zip(starts, _sums(builder, count, left, rights, (width, width)), strict=True):
                for k, total in enumerate(totals):
                    place = builder.add(builder.mul(builder.add(given[1], _INDEX(k)), width), start)
                    builder.store(total, builder.bitcast(builder.gep(target, [place]), _VECTOR.as_pointer()), align=8)
            return context.get_dummy_value()

        return types.void(rows, types.int64, types.int64, out), generate

    return intrinsic(gram_tile)


gram_tile, gram_tiles = _gram_tile(1), _gram_tile(MOST)
form_tile, form_tiles = _form_tile(1), _form_tile(MOST)


@njit()
def forms(moment: Array, many: Array, heads: Array, out: Array) -> None:
    """out[m, c] = |heads[m, :, c]|^2 many[m, :, c]^T moment many[m, :, c] for matrices of at least eight rows.

    Without rows of heads: the form alone. They come from memory while the forms of the matrix before are computed.
    """
    size, width = many.shape[1], many.shape[2]
    panels = np.zeros(((size + ROWS - 1) // ROWS, size, ROWS))
    for i in range(size):
        k = i // ROWS
        r = i - min(ROWS * k, size - ROWS)  # the last panel begins eight before the end, with zeros for the rows before
        for j in range(i):  # both triangles: they may differ by rounding
            panels[k, j, r] = moment[i, j] + moment[j, i]
        panels[k, i, r] = moment[i, i]
    if width < LANES:
        padded = np.zeros((many.shape[0], size, LANES))
        padded[:, :, :width] = many
        many = padded
    vectors = (many.shape[2] + LANES - 1) // LANES
    sums, energies = np.empty((vectors, LANES)), np.ones(width)
    for m in range(many.shape[0]):
        sums[:] = 0.0
        for k in range(panels.shape[0]):
            for q in range(0, vectors - MOST + 1, MOST):
                form_tiles(panels, many[m], heads[m], q, k, sums)
            for q in range(vectors // MOST * MOST, vectors):
                form_tile(panels, many[m], heads[m], q, k, sums)
        if heads.shape[1]:
            _squares(heads[m], energies)
        for q in range(vectors):
            start = min(LANES * q, many.shape[2] - LANES)
            for c in range(start, min(start + LANES, width)):
                out[m, c] = energies[c] * sums[q, c - start]


@njit()
def lower_gram(rows: Array, out: Array) -> None:
    """The lower triangle of out = rows^T rows for C-contiguous rows of at least eight numbers; above it, anything."""
    size = rows.shape[1]
    for first in range(0, size, ROWS):
        i = min(first, size - ROWS)  # the last tiles begin before the end
        vectors = (i + ROWS + LANES - 1) // LANES
        for q in range(0, vectors - MOST + 1, MOST):
            gram_tiles(rows, i, q, out)
        for q in range(vectors // MOST * MOST, vectors):
            gram_tile(rows, i, q, out)


@njit(fastmath={"reassoc", "contract"})
def squares(many: Array, out: Array) -> None:
    """out[m, c] = |many[m, :, c]|^2."""
    for m in range(many.shape[0]):
        _squares(many[m], out[m])


@njit(fastmath={"reassoc", "contract"})
def _squares(rows: Array, out: Array) -> None:
    out[:] = 0.0
    for i in range(rows.shape[0]):
        for c in range(rows.shape[1]):
            out[c] += rows[i, c] * rows[i, c]
