"""Products of tall blocks and small triangular systems, with their sums in vector registers; compiled.

A loop that numba vectorizes loads and stores its sums at every step, three memory operations for one of arithmetic.
`add_product` is written in vectors of 32 bytes for LLVM, which makes of them what the processor has; the sums of a
tile stay in registers, and a rating costs two loads for eight products of vectors (four in float64).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.cgutils import get_or_insert_function
from numba.extending import intrinsic

from droptics.compiling import njit

# Sums may be re-ordered and fused, so that loops vectorize; NaN and infinity keep their meaning.
FAST = {"reassoc", "nsz", "contract", "arcp"}
_BYTES = 32
_ROWS = 128  # ratings brought together at a time: 36 KB at width 72, which stay in the first cache


def _product(_: Any, first: Any, second: Any, into: Any, sign: Any) -> tuple[Any, Any]:
    """Add sign * first^T second to the leading tile of `into`; all are two-dimensional with contiguous rows.

    A tile has as many rows and columns as 32 bytes have numbers. The number of rows is that of `first`.
    """
    scalar = first.dtype
    lanes = 8 * _BYTES // scalar.bitwidth

    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        vector = ir.VectorType(context.get_value_type(scalar), lanes)
        arrays = [context.make_array(kind)(context, builder, given)
                  for kind, given in zip((first, second, into), arguments, strict=False)]  # fmt: skip
        index = builder.extract_value(arrays[0].shape, 0).type
        name = f"llvm.fmuladd.v{lanes}f{scalar.bitwidth}"
        multiply_add = get_or_insert_function(builder.module, ir.FunctionType(vector, [vector] * 3), name)

        def row(of: int, at: Any) -> Any:
            stride = builder.extract_value(arrays[of].strides, 0)
            start = builder.ptrtoint(arrays[of].data, index)
            return builder.inttoptr(builder.add(start, builder.mul(stride, at)), vector.as_pointer())

        def spread(value: Any, lane: int) -> Any:
            mask = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [lane] * lanes)
            return builder.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), mask)

        def load(place: Any) -> Any:
            return builder.load(place, align=scalar.bitwidth // 8)

        before, loop, after = builder.block, builder.append_basic_block(), builder.append_basic_block()
        count, zero = builder.extract_value(arrays[0].shape, 0), ir.Constant(vector, [0.0] * lanes)
        builder.cbranch(builder.icmp_signed(">", count, index(0)), loop, after)
        builder.position_at_end(loop)
        at, sums = builder.phi(index), [builder.phi(vector) for _ in range(lanes)]
        left, right = load(row(0, at)), load(row(1, at))
        grown = [builder.call(multiply_add, [spread(left, k), right, sums[k]]) for k in range(lanes)]
        further = builder.add(at, index(1))
        builder.cbranch(builder.icmp_signed("<", further, count), loop, after)
        for value, start, new in zip([at, *sums], [index(0)] + [zero] * lanes, [further, *grown], strict=True):
            value.add_incoming(start, before)
            value.add_incoming(new, loop)
        builder.position_at_end(after)
        found = [builder.phi(vector) for _ in range(lanes)]
        for value, new in zip(found, grown, strict=True):
            value.add_incoming(zero, before)
            value.add_incoming(new, loop)
        single = builder.insert_element(ir.Constant(vector, ir.Undefined), arguments[3], ir.IntType(32)(0))
        for k, value in enumerate(found):
            place = row(2, index(k))
            total = builder.call(multiply_add, [spread(single, 0), value, load(place)])
            builder.store(total, place, align=scalar.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(first, second, into, scalar), generate


_add_product: Any = intrinsic(_product)


@njit(nogil=True, fastmath=FAST)
def padded(width: int) -> int:
    """The width of whole tiles in every precision."""
    return -(-width // 8) * 8


@njit(nogil=True)
def room_of(regressors: Any) -> tuple[Any, Any]:
    """Where `add_gram` works: ratings side by side, zero beyond the width, and sums in the precision of the ratings."""
    width = padded(regressors.shape[1])
    return np.zeros((_ROWS, width), regressors.dtype), np.empty((width, width), regressors.dtype)


@njit(nogil=True, fastmath=FAST)
def add_gram(regressors: Any, columns: Any, room: Any, into: Any) -> None:
    """Add the upper triangle of R^T R to `into` (float64, `padded`), R the rows of `regressors` named by `columns`.

    Products are summed in the precision of the regressors, and in float64 after every 128 ratings.
    """
    near, low = room
    width, lanes = regressors.shape[1], _BYTES // regressors.itemsize
    one = regressors.dtype.type(1)
    for begin in range(0, len(columns), _ROWS):
        count = min(_ROWS, len(columns) - begin)
        for m in range(count):
            source, target = regressors[columns[begin + m]], near[m]
            for k in range(width):
                target[k] = source[k]
        low[:] = 0
        for a in range(0, len(low), lanes):
            for b in range(a, len(low), lanes):
                _add_product(near[:count, a:], near[:, b:], low[a:, b:], one)
        into += low


@njit(nogil=True, fastmath=FAST)
def solve_upper(a: Any, x: Any) -> None:
    """Solve a x = b in place (b in x), a positive semi-definite in float64, upper triangle given and overwritten.

    `a` has `padded` rows, x at most as many. A pivot lost to rounding belongs to a direction that the data leave free:
    its unknown is set to zero, which still solves the (consistent) normal equations. Cost width^3 / 3 operations.
    """
    size, lanes = len(a), _BYTES // 8
    given = np.diag(a).copy()
    tolerance = len(x) * np.finfo(np.float64).eps
    for top in range(0, size, lanes):
        for b in range(top, size, lanes):
            _add_product(a[:top, top:], a[:, b:], a[top:, b:], -1.0)
        for i in range(top, top + lanes):
            for m in range(top, i):
                for k in range(i, size):
                    a[i, k] -= a[m, i] * a[m, k]
            # The diagonal keeps the inverse pivot, zero for a free direction, so that no division is left below.
            inverse = 1.0 / np.sqrt(a[i, i]) if a[i, i] > tolerance * given[i] else 0.0
            for k in range(i + 1, size):
                a[i, k] *= inverse
            a[i, i] = inverse
    for i in range(len(x)):
        x[i] *= a[i, i]
        for k in range(i + 1, len(x)):
            x[k] -= a[i, k] * x[i]
    for i in range(len(x) - 1, -1, -1):
        total = x[i]
        for k in range(i + 1, len(x)):
            total -= a[i, k] * x[k]
        x[i] = total * a[i, i]
