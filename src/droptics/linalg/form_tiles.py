"""Gram matrices and quadratic forms of the columns of small matrices, with sums in vector registers; compiled.

Both are symmetric, so that half of the products are enough. They are done in tiles of eight rows and four columns,
written in vectors for LLVM: eight sums of 32 bytes, one register of AVX2 and two of NEON, stay in registers while
twelve numbers are loaded for 32 products. numba makes less of the same loop: sums that are loaded and stored at every
step.
"""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from droptics.arrays import Array
from droptics.compiling import njit

ROWS, LANES = 8, 4
_INDEX, _NUMBER = ir.IntType(64), ir.DoubleType()
_VECTOR = ir.VectorType(_NUMBER, LANES)
# Arm's products take one lane of a register for a factor; elsewhere a factor is spread as it comes from memory.
_LANES_NAMED = platform.machine() in {"aarch64", "arm64"}


def _spread(builder: Any, place: Any) -> list[Any]:
    """Eight numbers from an address on, each in all lanes of a vector."""
    undefined = ir.Constant(_VECTOR, ir.Undefined)

    def all_of(vector: Any, lane: int) -> Any:
        return builder.shuffle_vector(
            vector, undefined, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [lane] * LANES)
        )

    if _LANES_NAMED:
        read = [_load(builder, builder.gep(place, [_INDEX(at)])) for at in range(0, ROWS, LANES)]
        return [all_of(read[k // LANES], k % LANES) for k in range(ROWS)]
    single = [builder.load(builder.gep(place, [_INDEX(k)])) for k in range(ROWS)]
    return [all_of(builder.insert_element(undefined, value, ir.IntType(32)(0)), 0) for value in single]


def _load(builder: Any, place: Any) -> Any:
    return builder.load(builder.bitcast(place, _VECTOR.as_pointer()), align=8)


def _pointers(context: Any, builder: Any, *arrays: tuple[Any, Any]) -> list[Any]:
    made = [context.make_array(kind)(context, builder, value) for kind, value in arrays]
    return [builder.bitcast(array.data, _NUMBER.as_pointer()) for array in made]


def _sums(builder: Any, count: Any, left: Any, right: Any, steps: tuple[Any, Any]) -> list[Any]:
    """Sums over m < count of the eight numbers left[m] times the four right[m]: a vector for each of the eight."""
    add = _added(builder)
    totals = [cgutils.alloca_once_value(builder, ir.Constant(_VECTOR, [0.0] * LANES)) for _ in range(ROWS)]
    with cgutils.for_range(builder, count) as loop:
        near, far = (
            builder.gep(at, [builder.mul(loop.index, by)]) for at, by in zip((left, right), steps, strict=True)
        )
        row = _load(builder, far)
        for total, factor in zip(totals, _spread(builder, near), strict=True):
            builder.store(builder.call(add, [factor, row, builder.load(total)]), total)
    return [builder.load(total) for total in totals]


def _added(builder: Any) -> Any:
    """A b + c with one rounding where the processor has it."""
    kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
    return cgutils.get_or_insert_function(builder.module, kind, f"llvm.fmuladd.v{LANES}f64")


def _add_tile(_: Any, panels: Any, fours: Any, q: Any, k: Any, sums: Any) -> tuple[Any, Any]:
    """Add v[top : top + 8]^T panels[k]^T v[: top + 8] to the four sums, v the four columns of fours[q].

    All arrays are C-contiguous and float64; top is 8 k, or 8 before the end of the matrix.
    """

    def generate(context: Any, builder: Any, _: Any, given: Any) -> Any:
        left, right, target = _pointers(context, builder, (panels, given[0]), (fours, given[1]), (sums, given[4]))
        size = builder.extract_value(context.make_array(fours)(context, builder, given[1]).shape, 1)
        left = builder.gep(left, [builder.mul(builder.mul(given[3], size), _INDEX(ROWS))])
        right = builder.gep(right, [builder.mul(builder.mul(given[2], size), _INDEX(LANES))])
        end = builder.mul(builder.add(given[3], _INDEX(1)), _INDEX(ROWS))
        end = builder.select(builder.icmp_signed("<", end, size), end, size)
        found, place = (
            _load(builder, target),
            builder.gep(right, [builder.mul(builder.sub(end, _INDEX(ROWS)), _INDEX(LANES))]),
        )
        for at, total in enumerate(_sums(builder, end, left, right, (_INDEX(ROWS), _INDEX(LANES)))):
            own = _load(builder, builder.gep(place, [_INDEX(LANES * at)]))
            found = builder.call(_added(builder), [total, own, found])
        builder.store(found, builder.bitcast(target, _VECTOR.as_pointer()), align=8)
        return context.get_dummy_value()

    return types.void(panels, fours, types.int64, types.int64, sums), generate


def _gram_tile(_: Any, rows: Any, i: Any, j: Any, out: Any) -> tuple[Any, Any]:
    """out[i : i + 8, j : j + 4] = rows[:, i : i + 8]^T rows[:, j : j + 4], C-contiguous and float64."""

    def generate(context: Any, builder: Any, _: Any, given: Any) -> Any:
        source, target = _pointers(context, builder, (rows, given[0]), (out, given[3]))
        count, width = cgutils.unpack_tuple(builder, context.make_array(rows)(context, builder, given[0]).shape)
        left, right = (builder.gep(source, [at]) for at in given[1:3])
        for k, total in enumerate(_sums(builder, count, left, right, (width, width))):
            place = builder.add(builder.mul(builder.add(given[1], _INDEX(k)), width), given[2])
            builder.store(total, builder.bitcast(builder.gep(target, [place]), _VECTOR.as_pointer()), align=8)
        return context.get_dummy_value()

    return types.void(rows, types.int64, types.int64, out), generate


gram_tile: Any = intrinsic(_gram_tile)
add_tile: Any = intrinsic(_add_tile)


@njit()
def forms(moment: Array, many: Array, out: Array) -> None:
    """out[m, c] = many[m, :, c]^T moment many[m, :, c] for matrices of at least eight rows."""
    size, width = many.shape[1], many.shape[2]
    panels = np.zeros(((size + ROWS - 1) // ROWS, size, ROWS))
    for i in range(size):
        k = i // ROWS
        r = i - min(ROWS * k, size - ROWS)  # the last panel begins eight before the end, with zeros for the rows before
        for j in range(i):  # both triangles: they may differ by rounding
            panels[k, j, r] = moment[i, j] + moment[j, i]
        panels[k, i, r] = moment[i, i]
    fours, sums = np.zeros(((width + LANES - 1) // LANES, size, LANES)), np.empty(((width + LANES - 1) // LANES, LANES))
    for m in range(many.shape[0]):
        for i in range(size):  # brought side by side, a matrix is read from memory once and in order
            for q in range(width // LANES):
                for c in range(LANES):
                    fours[q, i, c] = many[m, i, LANES * q + c]
            for c in range(width // LANES * LANES, width):
                fours[width // LANES, i, c % LANES] = many[m, i, c]
        sums[:] = 0.0
        for k in range(panels.shape[0]):
            for q in range(fours.shape[0]):
                add_tile(panels, fours, q, k, sums[q])
        for c in range(width):
            out[m, c] = sums[c // LANES, c % LANES]


@njit()
def lower_gram(rows: Array, out: Array) -> None:
    """The lower triangle of out = rows^T rows for C-contiguous rows of at least eight numbers; above it, anything."""
    size = rows.shape[1]
    for first in range(0, size, ROWS):
        i = min(first, size - ROWS)  # the last tiles begin before the end
        for second in range(0, i + ROWS, LANES):
            gram_tile(rows, i, min(second, size - LANES), out)


@njit(fastmath={"reassoc", "contract"})
def squares(many: Array, out: Array) -> None:
    """out[m, c] = |many[m, :, c]|^2."""
    for m in range(many.shape[0]):
        out[m] = 0.0
        for i in range(many.shape[1]):
            for c in range(many.shape[2]):
                out[m, c] += many[m, i, c] * many[m, i, c]
