"""Rotations that give a Gram matrix a wanted diagonal: constant (equalizers), or any that Schur and Horn allow.

The equalizer is a chain of plane rotations. One column, the carrier, meets every other column once; the rotation puts
the met column at the mean of the columns that are left, so that rounding does not gather in the last one. Only the
inner product of the two columns is needed: O(d r) for U (d, r), no Gram matrix, no eigendecomposition.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from droptics.arguments import Count, Device, Factor, Spectrum, check_arguments
from droptics.arrays import Array
from droptics.checks import as_float_tensor, check_finite, check_size
from droptics.compiling import njit
from droptics.linalg.units import enlarged, multiply, unit_of_squares
from droptics.transforms import wants_derivative

# Sums may be reassociated so that they vectorize; nothing else of the arithmetic is relaxed.
_FAST = {"reassoc", "contract"}


@njit(inline="always")
def _tangent(own: float, other: float, inner: float, target: float) -> tuple[float, float]:
    """Cosine and sine with |cos a + sin b|^2 = target for |a|^2 = own, |b|^2 = other, <a, b> = inner.

    Smaller root of (other - target) t^2 + 2 inner t + (own - target) = 0, without cancellation.
    """
    below = own - target  # not zero: a column that has the wanted norm is left alone
    above = other - target
    unit = unit_of_squares(max(abs(below), abs(above), abs(inner)))
    below, above, inner = below * unit, above * unit, inner * unit
    root = np.sqrt(max(inner * inner - above * below, 0.0))
    pivot = -(inner + root) if inner >= 0.0 else -(inner - root)
    if abs(below) >= abs(pivot) * 1e150:
        return 0.0, 1.0  # the other column has the wanted norm already: exchange the two
    tangent = below / pivot
    cosine = 1.0 / np.sqrt(1.0 + tangent * tangent)
    return cosine, tangent * cosine


@njit(fastmath=_FAST)
def _inner(first: Array, second: Array, size: int) -> float:
    total = 0.0
    for i in range(size):
        total += first[i] * second[i]
    return total


@njit(fastmath=_FAST)
def _rotate(
    fresh: Array, carrier: Array, following: Array, cosine: float, sine: float, size: int
) -> tuple[float, float]:
    """Rotate two columns in place; squared norm of the carrier and its product with a third, over `size` entries."""
    total, inner = 0.0, 0.0
    for i in range(size):
        a, b = fresh[i], carrier[i]
        fresh[i] = cosine * a + sine * b
        moved = cosine * b - sine * a
        carrier[i] = moved
        total += moved * moved
        inner += moved * following[i]
    for i in range(size, fresh.shape[0]):
        fresh[i], carrier[i] = cosine * fresh[i] + sine * carrier[i], cosine * carrier[i] - sine * fresh[i]
    return total, inner


@njit()
def _rest(norms: Array, order: Array, low: int, high: int) -> float:
    """Sum of the norms not met yet, taken afresh from time to time so that no error is carried to the end."""
    total, lost = 0.0, 0.0
    for j in range(low, high + 1):
        change = norms[order[j]] - lost
        updated = total + change
        lost = (updated - total) - change
        total = updated
    return total


@njit(inline="always")
def _take(
    norms: Array, order: Array, left: int, carried: float, low: int, high: int, rest: float, lost: float, renew: int
) -> tuple[int, float, int, int, float, float, int]:  # pragma: no cover
    """The next column to meet, the smallest while the carrier has more than the mean, and the sum of all not met yet.

    `low` and `high` bound the columns not met yet in the order of their norms, `rest` - `lost` is the sum of those.
    """
    if left <= renew:
        rest, lost, renew = _rest(norms, order, low, high), 0.0, left // 2
    others = rest - lost
    if carried * (left - 1) >= others:
        fresh = order[low]
        low += 1
    else:
        fresh = order[high]
        high -= 1
    change = -norms[fresh] - lost
    updated = rest + change
    lost = (updated - rest) - change
    return fresh, others, low, high, updated, lost, renew


@njit()
def _chain(columns: Array, size: int) -> bool:
    """Equalize the norms over the first `size` entries of the rows of `columns` (one row per column of U).

    False, and nothing is done, when some norm is not finite; entries whose squares vanish are taken in another unit.
    The product of the carrier with the column that it meets next is taken while it is rotated, so that every column is
    read once for its norm and once for its rotation.
    """
    count, norms = columns.shape[0], np.empty(columns.shape[0])
    for j in range(count):
        norms[j] = _inner(columns[j], columns[j], size)
    unit = enlarged(columns, size, norms)
    if not np.isfinite(norms.sum()):
        return False
    order = np.argsort(norms)
    carrier = order[count - 1]
    carried = norms[carrier]
    fresh, others, low, high, rest, lost, renew = carrier, 0.0, 0, count - 2, 0.0, 0.0, count
    if count > 1:
        fresh, others, low, high, rest, lost, renew = _take(norms, order, count, carried, low, high, rest, lost, renew)
    inner = _inner(columns[fresh], columns[carrier], size)
    for left in range(count, 1, -1):
        met, own, mean = fresh, norms[fresh], (carried + others) / left
        if left > 2:  # the norm that the carrier is about to have decides what it meets next
            fresh, others, low, high, rest, lost, renew = _take(
                norms, order, left - 1, carried + (own - mean), low, high, rest, lost, renew
            )
        if own == mean:
            inner = _inner(columns[fresh], columns[carrier], size)
        else:
            cosine, sine = _tangent(own, carried, inner, mean)
            carried, inner = _rotate(columns[met], columns[carrier], columns[fresh], cosine, sine, size)
    multiply(columns, size, 1.0 / unit)
    return True


@njit()
def _gram_chain(gram: Array, basis: Array) -> None:
    """The same chain on a Gram matrix (overwritten); rows of `basis` become the columns of the rotation."""
    count = gram.shape[0]
    diagonal = np.diag(gram).copy()
    order = np.argsort(diagonal)
    carrier = order[count - 1]
    carried = diagonal[carrier]
    low, high, rest, lost, renew = 0, count - 2, 0.0, 0.0, count
    for left in range(count, 1, -1):
        fresh, others, low, high, rest, lost, renew = _take(
            diagonal, order, left, carried, low, high, rest, lost, renew
        )
        own, mean = diagonal[fresh], (carried + others) / left
        if own == mean:
            continue
        inner = gram[carrier, fresh]
        cosine, sine = _tangent(own, carried, inner, mean)
        # Only the carrier's row is ever read again, so only it is updated.
        carried = cosine * cosine * carried - 2.0 * cosine * sine * inner + sine * sine * own
        for i in range(count):
            gram[carrier, i] = cosine * gram[carrier, i] - sine * gram[fresh, i]
        _rotate(basis[fresh], basis[carrier], basis[carrier], cosine, sine, 0)


@njit()
def _schur_horn_plan(values: Array, targets: Array) -> tuple[Array, Array, Array, Array]:
    """Rotations (fresh, carrier, cos, sin) that bring diag(values) to the targets, both sorted in descending order.

    The largest target left is made from the two neighboring values around it; what remains of them lies between its
    neighbors, so that the list stays sorted and a stack suffices. fresh[i] is the coordinate that ends at target i.
    """
    count = values.shape[0]
    above = np.empty(count, np.int64)  # stack of coordinates with values at least the current target
    current = values.copy()
    fresh, carrier = np.empty(count, np.int64), np.empty(count, np.int64)
    cosine, sine = np.ones(count), np.zeros(count)
    depth, ahead = 0, 0
    pending = -1  # what remained of the last pair, between the stack and the values ahead
    for i in range(count):
        target = targets[i]
        while True:
            following = pending if pending >= 0 else (ahead if ahead < count else -1)
            if following < 0 or (depth > 0 and current[following] < target):
                break
            above[depth] = following
            depth += 1
            ahead, pending = ahead + (pending < 0), -1
        top = above[depth - 1]
        depth -= 1
        fresh[i] = carrier[i] = top
        if following >= 0 and current[top] > target:
            if pending < 0:
                ahead += 1
            share = min(max((current[top] - target) / (current[top] - current[following]), 0.0), 1.0)
            cosine[i], sine[i] = np.sqrt(1.0 - share), np.sqrt(share)
            carrier[i] = pending = following
            current[following] = current[following] + (current[top] - target)
            current[top] = target
    return fresh, carrier, cosine, sine


@njit()
def _apply_plan(columns: Array, fresh: Array, carrier: Array, cosine: Array, sine: Array) -> None:
    for i in range(fresh.shape[0]):
        if fresh[i] != carrier[i]:
            first, second = columns[fresh[i]], columns[carrier[i]]
            _rotate(first, second, second, cosine[i], sine[i], 0)


def equalize_columns(factor: Factor, *companions: Factor) -> tuple[Tensor, ...]:
    """Rotate U (..., d, r) to columns of equal norm, and every companion (..., d', r) by the same rotation.

    U Q has columns of squared norm ||U||_F^2 / r and (U Q)(U Q)^T = U U^T (mianjy2018-thm2.2). One chain of r - 1
    plane rotations, O((d + d') r) work, at most a few units of rounding in the norms, zero and dependent columns
    included. The rotation is chosen without gradient; on devices other than the CPU, and where a gradient is asked
    for, it is formed from the Gram matrix and multiplied.

    Returns:
        The rotated tensors, U first; always a tuple.
    """
    check_arguments(equalize_columns, locals())
    everything = (factor, *companions)
    for position, value in enumerate(everything):
        check_size("companions (columns)", value.shape[-1], factor.shape[-1], "they share the columns of the factor")
        if position:
            check_finite(value, f"companions[{position - 1}]")
        if value.shape[:-2] != factor.shape[:-2]:
            wanted = f"expected the leading dimensions {tuple(factor.shape[:-2])} of factor"
            raise ValueError(f"companions[{position - 1}] has shape {tuple(value.shape)}, {wanted}")
    if factor.device.type != "cpu" or wants_derivative(*everything):
        check_finite(factor, "factor")
        rotation = equalizer(factor.detach().mT @ factor.detach())
        return tuple(value @ rotation for value in everything)
    stacked = torch.cat(everything, dim=-2) if companions else factor
    columns = stacked.mT.contiguous()
    if columns.data_ptr() == factor.data_ptr():
        columns = columns.clone()
    equalize_rows_(columns, factor.shape[-2])
    return tuple(part.mT for part in columns.split([value.shape[-2] for value in everything], dim=-1))


def equalize_columns_(factor: Factor) -> Tensor:
    """`equalize_columns` in place: the columns of U (..., d, r) are overwritten; U is returned.

    Nothing else is allocated when U is stored by columns (U.mT contiguous), one transposed copy of U otherwise; never
    a Gram matrix. Cost: that of `equalize_columns`. Claim: mianjy2018-thm2.2.
    """
    # stored by columns: the chain looks at every number, and what it does not answer is checked, and refused, below
    fits = type(factor) is Tensor and factor.ndim == 2 and factor.dtype in (torch.float32, torch.float64)
    if fits and factor.is_cpu and factor.layout == torch.strided and not wants_derivative(factor):
        rows = factor.numpy().T
        if rows.size and rows.flags.c_contiguous and _chain(rows, rows.shape[1]):
            return factor
    check_arguments(equalize_columns_, locals())
    if wants_derivative(factor):
        raise ValueError("factor must not require a gradient to be changed in place; use equalize_columns")
    if factor.device.type != "cpu":
        return factor.copy_(equalize_columns(factor)[0])
    columns = factor.mT.contiguous()
    equalize_rows_(columns, factor.shape[-2])
    return factor if columns.data_ptr() == factor.data_ptr() else factor.copy_(columns.mT)


def equalize_rows_(columns: Tensor | Array, size: int) -> None:
    """The chain on the CPU, in place: rows of `columns` (..., width, length) get equal norms over `size` entries.

    Numbers that are not finite, or whose squares are not, are refused, and a matrix that holds some stays as it is.
    """
    numbers = columns if isinstance(columns, np.ndarray) else columns.numpy()
    for matrix in numbers.reshape(-1, *numbers.shape[-2:]) if numbers.ndim > 2 and numbers.size else (numbers,):
        if matrix.size and not _chain(matrix, size):
            check_finite(torch.as_tensor(columns)[..., :size].mT, "factor")
            raise ValueError("factor is too large: the squares of its entries overflow; rescale it")


def equalizer(gram: Tensor) -> Tensor:
    """Orthogonal Q with constant diag(Q^T gram Q), for any symmetric gram (..., r, r) (mianjy2018-alg2).

    r - 1 plane rotations, O(r^2), instead of r eigendecompositions. Computed on the CPU in float64 and returned in the
    precision and on the device of the input; without gradient.

    >>> Q = equalizer(torch.diag(torch.tensor([3.0, 1.0, 2.0], dtype=torch.float64)))
    >>> torch.diagonal(Q.mT @ torch.diag(torch.tensor([3.0, 1.0, 2.0], dtype=torch.float64)) @ Q)
    tensor([2.0000, 2.0000, 2.0000], dtype=torch.float64)
    """
    check_arguments(equalizer, locals())
    checked = as_float_tensor(gram, "gram")
    if checked.ndim < 2 or checked.shape[-1] != checked.shape[-2]:
        raise ValueError(f"gram must be square, got shape {tuple(checked.shape)}")
    work = ((checked + checked.mT) / 2).detach().to("cpu", torch.float64)
    flat = work.reshape(-1, *work.shape[-2:])
    basis = torch.eye(work.shape[-1], dtype=torch.float64).repeat(len(flat), 1, 1)
    for matrix, rotation in zip(flat, basis, strict=True):
        _gram_chain(matrix.numpy(), rotation.numpy())
    return basis.mT.reshape(work.shape).to(checked)


def hadamard_equalizer(size: Count, dtype: torch.dtype = torch.float64, device: Device = "cpu") -> Tensor:
    """Orthogonal Z with entries +-size^(-1/2): diag(Z^T D Z) is constant for EVERY diagonal D (mianjy2018-rem5.2).

    Z(2m) = 2^(-1/2) [[Z, Z], [-Z, Z]], normalized once per level (the printed recursion is not orthogonal). With
    U = P S W^T the matrix U W Z is equalized: Z is universal, W Z is not. Sizes are powers of two. Cost: O(size^2).
    """
    check_arguments(hadamard_equalizer, locals())
    if size & (size - 1) or not dtype.is_floating_point:
        raise ValueError(f"size must be a power of two and dtype floating, got {size}, {dtype}; use equalizer(gram)")
    matrix = torch.ones(1, 1, dtype=dtype, device=device)
    while matrix.shape[0] < size:
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([-matrix, matrix], 1)], 0)
    return matrix * float(size) ** -0.5


def schur_horn(values: Spectrum, diagonal: Spectrum) -> Tensor:
    """Orthogonal Q with diag(Q^T diag(values) Q) = diagonal; needs `diagonal` majorized by `values`.

    Majorized: equal sums, and the k largest entries of the diagonal never sum to more than the k largest values. This
    is necessary (Schur) and sufficient (Horn). r - 1 plane rotations, O(r log r) for the angles and O(r^2) for Q.
    Claim: none, the theorems of Schur and Horn.
    """
    check_arguments(schur_horn, locals())
    rotation = torch.eye(values.shape[-1], dtype=torch.float64)
    return _schur_horn_rows(values, diagonal, rotation).mT.to(values)


def rotate_to_diagonal(values: Tensor, diagonal: Tensor, factor: Tensor) -> Tensor:
    """`factor @ schur_horn(values, diagonal)` for factor (d, r) in O(d r), without forming the rotation."""
    columns = factor.detach().mT.to("cpu", torch.float64).contiguous().clone()
    return _schur_horn_rows(values, diagonal, columns).mT.to(factor)


def _schur_horn_rows(values: Tensor, diagonal: Tensor, columns: Tensor) -> Tensor:
    spectrum = as_float_tensor(values, "values", 1).detach().to("cpu", torch.float64)
    wanted = as_float_tensor(diagonal, "diagonal", 1).detach().to("cpu", torch.float64)
    check_size("diagonal", wanted.shape[0], spectrum.shape[0], "one entry per value")
    spectrum, from_value = spectrum.sort(descending=True)
    wanted, to_unit = wanted.sort(descending=True)
    scale = float(spectrum.abs().max()) if len(spectrum) else 0.0
    slack = (spectrum.cumsum(0) - wanted.cumsum(0)) / (scale or 1.0)
    tolerance = (1e-6 if values.dtype == torch.float32 else 1e-10) * len(spectrum)
    if len(spectrum) and (float(slack.min()) < -tolerance or abs(float(slack[-1])) > tolerance):
        missed = f"partial sums miss by {-float(slack.min()) * scale:.3g}, the total by {float(slack[-1]) * scale:.3g}"
        raise ValueError(
            "diagonal must be majorized by values: equal sums, and no k entries that sum to more than the k largest "
            f"values; {missed}"
        )
    work = columns[from_value].contiguous()
    fresh, *plan = _schur_horn_plan(spectrum.numpy(), wanted.numpy())
    _apply_plan(work.numpy(), fresh, *plan)
    result = torch.empty_like(work)
    result[to_unit] = work[torch.from_numpy(fresh)]
    return result
