"""Quadratic forms of the columns of many small matrices, with their sums in vector registers; compiled.

A matrix of forms is symmetric, so that half of its products are enough. They are done in tiles of eight rows and four
columns, written in vectors for LLVM: eight sums of 32 bytes, one register of AVX2 and two of NEON, stay in registers
while a column of eight numbers and four of the columns are loaded for every 32 products. numba makes less of the same
loop: sums that are loaded and stored at every step.
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


def _add_tile(_: Any, panels: Any, fours: Any, q: Any, k: Any, sums: Any) -> tuple[Any, Any]:
    """Add v[top : top + 8]^T panels[k]^T v[: top + 8] to the four sums, v the four columns of fours[q].

    All arrays are C-contiguous and float64; top is 8 k, or 8 before the end of the matrix.
    """

    def generate(context: Any, builder: Any, _: Any, given: Any) -> Any:
        kinds = (panels, given[0]), (fours, given[1]), (sums, given[4])
        arrays = [context.make_array(kind)(context, builder, value) for kind, value in kinds]
        left, right, target = (builder.bitcast(array.data, _NUMBER.as_pointer()) for array in arrays)
        size = builder.extract_value(arrays[1].shape, 1)
        kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
        add = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fmuladd.v{LANES}f64")
        left = builder.gep(left, [builder.mul(builder.mul(given[3], size), _INDEX(ROWS))])
        right = builder.gep(right, [builder.mul(builder.mul(given[2], size), _INDEX(LANES))])
        end = builder.mul(builder.add(given[3], _INDEX(1)), _INDEX(ROWS))
        end = builder.select(builder.icmp_signed("<", end, size), end, size)
        totals = [cgutils.alloca_once_value(builder, ir.Constant(_VECTOR, [0.0] * LANES)) for _ in range(ROWS)]
        with cgutils.for_range(builder, end) as loop:
            row = _load(builder, builder.gep(right, [builder.mul(loop.index, _INDEX(LANES))]))
            factors = _spread(builder, builder.gep(left, [builder.mul(loop.index, _INDEX(ROWS))]))
            for total, factor in zip(totals, factors, strict=True):
                builder.store(builder.call(add, [factor, row, builder.load(total)]), total)
        found = _load(builder, target)
        place = builder.gep(right, [builder.mul(builder.sub(end, _INDEX(ROWS)), _INDEX(LANES))])
        for total in totals:
            found = builder.call(add, [builder.load(total), _load(builder, place), found])
            place = builder.gep(place, [_INDEX(LANES)])
        builder.store(found, builder.bitcast(target, _VECTOR.as_pointer()), align=8)
        return context.get_dummy_value()

    return types.void(panels, fours, types.int64, types.int64, sums), generate


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


@njit(fastmath={"reassoc", "contract"})
def squares(many: Array, out: Array) -> None:
    """out[m, c] = |many[m, :, c]|^2."""
    for m in range(many.shape[0]):
        out[m] = 0.0
        for i in range(many.shape[1]):
            for c in range(many.shape[2]):
                out[m, c] += many[m, i, c] * many[m, i, c]
