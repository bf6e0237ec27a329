"""What a claim on quick ways compares: many maps at once, forms of many columns, rotations in place, reductions."""

from __future__ import annotations

import itertools
import math
from unittest import mock

import numpy as np
import torch
from torch import Tensor

from droptics.evidence.claims import Comparison, compare
from droptics.linalg import equalize_columns, equalize_columns_, equalizer, forms, tridiagonal
from droptics.linalg.forms import column_forms, column_squares
from droptics.masks import Bernoulli, Gaussian, MaskLaw
from droptics.models import TwoLayerLinear
from droptics.optima import many, optimum_of_maps
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.optima.factor_checks import unequal_program
from droptics.papers.droptics_own.telling import refuses, same
from droptics.papers.instances import normal, tensor


def quick_ways(scale: float) -> list[Comparison]:
    """Optima of many maps, quadratic forms of many columns, rotations in place and reductions to three diagonals."""
    return by_parts((_maps, _uneven, _forms, _in_place, _turned, _reduced), scale)


def _least(values: Tensor, strength: float, width: int) -> tuple[Tensor, float]:
    """Singular values that are kept and the least criterion, by trying every rank."""
    best = (values[:0], float(values.square().sum()))
    for rank in range(1, min(len(values), width) + 1):
        kept = values[:rank] - strength * float(values[:rank].sum()) / (width + strength * rank)
        if float(kept[-1]) > 0:
            cost = float((values[:rank] - kept).square().sum() + values[rank:].square().sum())
            cost += strength / width * float(kept.sum()) ** 2
            best = (kept, cost) if cost < best[1] else best
    return best


def _maps(scale: float) -> list[Comparison]:
    """Every field of the optimum of every map under one rate, in both precisions, tall, wide, flat and silent."""
    found: list[Comparison] = []
    laws: tuple[tuple[MaskLaw, float], ...] = (
        (Bernoulli(0.4, 3), 2 / 3),
        (Gaussian(0.3, 6), 0.3),
        (Bernoulli(0, 2), 0),
    )
    for (law, strength), shape, dtype in itertools.product(
        laws, ((5, 4), (3, 7), (1, 2)), (torch.float64, torch.float32)
    ):
        first = normal(3, *shape)
        every = torch.stack([first, 0 * first, torch.full(shape, 0.5), 1e3 * normal(4, *shape), 1e-3 * first]).to(dtype)
        rough = 1e-9 if dtype == torch.float64 else 1e-5
        for matrix, told in zip(every.double(), optimum_of_maps(every, law), strict=True):
            left, values, right = torch.linalg.svd(matrix, full_matrices=False)
            values = torch.where(values > 1e-6 * values[0], values, 0.0)
            energy = float(matrix.square().sum())
            kept, least = _least(values, strength, law.size)
            unit = energy or 1.0
            name = f"{type(law).__name__} of {law.size}, {shape}, {dtype}, {energy:.3g}"
            assert isinstance(told.model, TwoLayerLinear)
            U, V = told.model.U.double(), told.model.V.double()
            wanted = (left[:, : len(kept)] * kept) @ right[: len(kept)]
            found.append(compare(1 + (U @ V.mT) / unit**0.5, "==", scale * (1 + wanted / unit**0.5), name, rough))
            found.append(compare(1 + told.objective / unit, "==", scale * (1 + least / unit), f"least, {name}", rough))
            numbers = U.square().sum(0) * V.square().sum(0)
            own = (matrix - U @ V.mT).square().sum() + strength * numbers.sum()
            found.append(compare(1 + told.objective / unit, "==", scale * (1 + own / unit), f"its own, {name}", rough))
            found.append(compare(told.objective - told.bound, "<=", told.tolerance * unit, f"gap, {name}", 1e-12))
            found.append(compare(told.bound, "<=", least + 1e-14 * unit, f"a bound, {name}", 1e-15))
            fields = (told.rank, told.claim, told.method, told.certified, told.slack, told.model.dtype)
            rank = len(kept) if energy else 0
            found.append(same(fields, (rank, "mianjy2018-thm3.6", "closed form", True, 0.0, dtype), f"fields, {name}"))
            found.append(compare(told.scale / unit, "==", scale * energy / unit, f"energy, {name}", 1e-12, 1e-300))
            if strength:
                even = (float(kept.sum()) / law.size) ** 2
                found.append(compare(1 + numbers / unit, "==", scale * (1 + even / unit), f"even, {name}", rough))
        shapes = [tuple(part.shape) for part in told.model.tensors]
        found.append(same(shapes, [(shape[0], law.size), (shape[1], law.size)], f"shapes, {shape}"))
    return found


def _uneven(scale: float) -> list[Comparison]:
    """Unequal rates, large maps and maps that are too large, one by one; their places are named."""
    found: list[Comparison] = []
    rates = tensor([0.1, 0.5, 0.3])
    every = torch.stack([normal(seed, 5, 4) for seed in range(3)])
    for matrix, told in zip(every, optimum_of_maps(every, Bernoulli(rates, 3)), strict=True):
        assert isinstance(told.model, TwoLayerLinear)
        U, V = told.model.U, told.model.V
        noise = (rates / (1 - rates) * U.square().sum(0) * V.square().sum(0)).sum()
        own = (matrix - U @ V.mT).square().sum() + noise
        least = unequal_program(torch.linalg.svdvals(matrix), rates / (1 - rates))[0]
        found.append(compare(told.objective, "==", scale * own, "unequal rates"))
        found.append(compare(told.objective, "==", scale * least, "least of unequal rates", 1e-8))
        found.append(compare(told.bound, "==", scale * least, "their bound", 1e-8))
    with mock.patch.object(many, "DENSE", 3):
        for matrix, told in zip(every, optimum_of_maps(every, Bernoulli(0.4, 3)), strict=True):
            least = _least(torch.linalg.svdvals(matrix), 2 / 3, 3)[1]
            found.append(compare(told.objective, "==", scale * least, "one by one"))
    for place, factor in ((2, 1e200), (1, 1e170)):
        large = every.clone()
        large[place] *= factor
        wrong = f"matrices[{place}] must have a finite squared norm"
        found.append(refuses(lambda large=large: optimum_of_maps(large, Bernoulli(0.4, 3)), wrong))
        found.append(refuses(lambda large=large: optimum_of_maps(large, Bernoulli(rates, 3)), wrong))
    return found


def _forms(scale: float) -> list[Comparison]:
    """v^T M v and |v|^2 of columns of many matrices, whatever their sizes are modulo those of a tile."""
    found: list[Comparison] = []
    for lead, size, width in (((3,), 8, 4), ((2, 2), 13, 7), ((5,), 33, 17), ((1,), 16, 5), ((2,), 9, 12)):
        columns, half = normal(size, *lead, size, width), normal(width, size, size)
        moment = half @ half.mT
        wanted = torch.einsum("...iw,ij,...jw->...w", columns, moment, columns)
        squares = torch.einsum("...iw,...iw->...w", columns, columns)
        turned = columns.mT.contiguous().mT
        for least in (1, 2**40):
            with mock.patch.object(forms, "MANY", least):
                for name, given in (("by rows", columns), ("by columns", turned)):
                    label = f"{lead} of {size} by {width}, {name}, from {least} on"
                    told = column_forms(given, moment)
                    found.append(compare(told, "==", scale * wanted, f"forms, {label}"))
                    found.append(compare(column_squares(given), "==", scale * squares, f"squares, {label}"))
                    found.append(same(told.shape, (*lead, width), f"shape, {label}"))
                    for heads in (normal(1, *lead, 1, width), normal(2, *lead, 3, width), normal(3, 2, width)):
                        energies = torch.einsum("...iw,...iw->...w", heads, heads)
                        told = column_forms(given, moment, heads)
                        whole = f"heads {tuple(heads.shape)}, {label}"
                        found.append(compare(told, "==", scale * wanted * energies, whole))
    return found


def _in_place(scale: float) -> list[Comparison]:
    """Columns that are stored as such, rows, and batches: overwritten, of equal norm, with the same product.

    A copy is turned in the same way, its companion by the same rotation, and leaves what it is given.
    """
    found: list[Comparison] = []
    for dtype, rough in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        for lead, rows, width, by_columns in (
            ((), 4, 5, True),
            ((), 6, 3, False),
            ((2,), 3, 4, False),
            ((), 1, 2, True),
        ):
            factor = normal(rows, *lead, rows, width).to(dtype)
            factor = factor.mT.contiguous().mT if by_columns else factor
            before, place, given = factor.double() @ factor.double().mT, factor.data_ptr(), factor.clone()
            even = before.diagonal(dim1=-2, dim2=-1).sum(-1, keepdim=True) / width
            name, beside = f"{lead}, {rows} by {width}, {dtype}", normal(7, *lead, 2, width).to(dtype)
            for companions in ((), (beside,)):
                turned, *others = equalize_columns(factor, *companions)
                found.append(same(torch.equal(factor, given), True, f"given, {name}", scale))
                for old, new in zip((given, *companions), (turned, *others), strict=True):
                    cross, kept = given.double() @ old.double().mT, turned.double() @ new.double().mT
                    found.append(compare(kept, "==", scale * cross, f"product of a copy, {name}", rough))
                norms = turned.double().square().sum(-2)
                found.append(compare(norms, "==", scale * even.expand(norms.shape), f"norms of a copy, {name}", rough))
            told = equalize_columns_(factor)
            found.append(same((told is factor, told.data_ptr()), (True, place), f"in place, {name}"))
            found.append(compare(told.double() @ told.double().mT, "==", scale * before, f"product, {name}", rough))
            norms = told.double().square().sum(-2)
            found.append(compare(norms, "==", scale * even.expand(norms.shape), f"norms, {name}", rough))
    return [*found, *_even(scale)]


def _even(scale: float) -> list[Comparison]:
    """Columns that have the mean norm before anything is turned, or once some are, in every order."""
    found: list[Comparison] = []
    cases: dict[str, list[tuple[float, float]]] = {
        "one even": [(3.0, 4.0), (5.0, 0.0), (1.0, 7.0), (0.0, 0.0)],
        "all even": [(3.0, 4.0), (5.0, 0.0), (-4.0, 3.0)],
        "two even": [(1.0, 2.0), (2.0, 1.0), (0.0, 1.0), (3.0, 0.0)],
        "even in pairs": [(4.0, 2.0), (2.0, 4.0), (0.0, 0.0), (0.0, 0.0)],
        "zero": [(0.0, 0.0), (0.0, 0.0)],
        "one": [(2.0, 1.0)],
        "opposite, nearly even": [(1.0 + 2.0**-26, 0.0), (-1.0, 0.0), (1.0, 0.0), (0.0, 1.0)],
        "even up to rounding": [(1.0 + 2.0**-52, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 0.0), (1.0, 0.0)],
    }
    for name, columns in cases.items():
        for order in dict.fromkeys(itertools.permutations(columns)):
            factor = tensor(order).mT
            before = factor @ factor.mT
            told = equalize_columns_(factor)
            found.append(
                compare(told @ told.mT, "==", scale * before + (scale - 1), f"product, {name}, {order}", 1e-13)
            )
            even = before.trace() / len(columns)
            found.append(compare(1 + told.square().sum(0), "==", scale * (1 + even), f"norms, {name}, {order}", 1e-13))
    return [*found, *_refused(scale)]


def _refused(scale: float) -> list[Comparison]:
    """Numbers that are too large or none, whatever column they are in, and factors that want a gradient; all stay."""
    found: list[Comparison] = []
    for place, bad in itertools.product(range(3), (1e200, math.inf, math.nan)):
        for by_columns in (True, False):
            factor = normal(1, 3, 3).mT if by_columns else normal(1, 3, 3)
            factor[1, place] = bad
            before, words = factor.clone(), "overflow" if bad == 1e200 else "factor must"
            found.append(refuses(lambda factor=factor: equalize_columns_(factor), words, f"{bad} in {place}"))
            found.append(refuses(lambda factor=factor: equalize_columns(factor), words, f"a copy, {bad} in {place}"))
            same_bits = torch.equal(factor.nan_to_num(7.0), before.nan_to_num(7.0))
            found.append(same(same_bits, True, f"stays, {bad} in {place}", scale))
    leaf = normal(1, 3, 2).requires_grad_()
    for wanting in (leaf, 2 * leaf, leaf.mT):
        found.append(refuses(lambda factor=wanting: equalize_columns_(factor), "must not require a gradient"))
    found.append(compare(leaf.detach(), "==", scale * normal(1, 3, 2), "and stay"))
    return found


def _turned(scale: float) -> list[Comparison]:
    """Rotations to a constant diagonal, of many matrices at once; of one that is not symmetric both triangles count."""
    found: list[Comparison] = []
    for lead, size in (((), 5), ((3,), 4), ((2, 2), 1)):
        grams = normal(size, *lead, size, size)
        turn = equalizer(grams)
        found.append(compare(turn.mT @ turn, "==", scale * torch.eye(size), f"rotations, {lead} of {size}", 1e-13))
        even = grams.diagonal(dim1=-2, dim2=-1).mean(-1, keepdim=True)
        told = (turn.mT @ grams @ turn).diagonal(dim1=-2, dim2=-1)
        found.append(compare(told, "==", scale * even, f"their diagonals, {lead} of {size}", 1e-12))
    return found


def _reduced(scale: float) -> list[Comparison]:
    """Q T Q^T is the matrix, by passes of its rows and by LAPACK, with and without arrays that are given."""
    found: list[Comparison] = []
    for size, blocked, unit in itertools.product((2, 3, 7, 10), (2, 256), (1.0, 1e-200, 1e200)):
        half = normal(size, size, size).numpy()
        matrix = unit * (half + half.T) if size != 7 else -unit * np.abs(half + half.T)
        with mock.patch.object(tridiagonal, "BLOCKED", blocked):
            rooms = (None, tridiagonal.room_of(size)) if size < blocked else (None,)
            for room in rooms:
                told = tridiagonal.tridiagonal(matrix.copy(), room)
                middle = np.diag(told.diagonal) + np.diag(told.beside, 1) + np.diag(told.beside, -1)
                turn = np.eye(size)
                for i in range(1, size):
                    v = np.concatenate([told.reflectors[i, :i], np.zeros(size - i)])
                    turn = (np.eye(size) - told.factors[i] * np.outer(v, v)) @ turn
                name = f"{size}, {unit:g}, {room is None}, {blocked}"
                whole = turn @ (middle * (told.unit / unit)) @ turn.T
                found.append(compare(whole, "==", scale * matrix / unit, f"its matrix, {name}", 1e-12))
                found.append(compare(turn @ turn.T, "==", scale * np.eye(size), f"a rotation, {name}", 1e-12))
    for wrong in (np.full((3, 3), math.nan), np.zeros((3, 3))):
        found.append(same(tridiagonal.tridiagonal(wrong).unit, 0.0, "nothing is done", scale))
    return found
