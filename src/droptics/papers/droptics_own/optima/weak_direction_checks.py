"""Weak directions of single-precision examples, bounds of spectra below their level, beside dense algebra in full."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from droptics.data import Sample
from droptics.evidence.claims import Comparison, compare
from droptics.linalg.krylov import Ritz, upper_values
from droptics.linalg.scales import least_singular
from droptics.masks import Bernoulli
from droptics.models import TwoLayerLinear
from droptics.optima import certify, optimum
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import normal, simplex, tensor
from droptics.spectra.coordinates import frame, whiten

EPS = torch.finfo(torch.float64).eps


def algebra_rooms(scale: float) -> list[Comparison]:
    """Directions that the precision of the data may have made, and values that are only known to lie below a level."""
    return by_parts((_weak, _upper), scale)


def _upper(scale: float) -> list[Comparison]:
    """Bounds of leading values: an eigenvalue where that lies above the level, the level elsewhere, never less."""
    found: list[Comparison] = []
    rng = np.random.default_rng(5)
    nothing = torch.zeros(0)
    for rest, level in ((0.4, 0.5), (0.4, 2.0), (1.5, 2.5), (0.0, 1.2), (2.9, 3.1)):
        for values in ((3.0, 2.2, 1.0), (3.0, 0.7, 0.1), (0.3, 0.2, 0.1)):
            root = 0.2 * rng.normal(size=(3, 3))
            ritz = Ritz(nothing, nothing, np.array(values), nothing, root @ root.T, False)
            for found_ones, count in ((3, 3), (2, 4), (3, 2), (0, 2)):
                told = upper_values(ritz, found_ones, rest, level, count)
                some = np.diag(np.square(values[:found_ones]))
                some = some + (root @ root.T)[:found_ones, :found_ones] / (1 - (rest / level) ** 2)
                roots = sorted(np.roots(np.poly(some)).real, reverse=True) if found_ones else []
                grown = [math.sqrt(max(one, level**2)) for one in roots] + count * [level]
                wanted = [scale * one for one in grown[:count]]
                found.append(compare(told, "==", wanted, f"upper values, {rest}, {level}, {values}, {count}", 1e-7))
    # a matrix whose leading triples are known up to a turn: all its values lie below
    for seed in range(3):
        left, right = (torch.linalg.qr(normal(seed + k, size, size)).Q for k, size in ((1, 5), (4, 7)))
        spectrum = tensor([3.0, 1.4, 1.2, 0.3, 0.2])
        M = (left * spectrum) @ right[:, :5].mT
        turned, _ = torch.linalg.qr(left[:, :2] + 0.05 * normal(seed + 9, 5, 2))
        inner, sizes, outer = torch.linalg.svd(turned.mT @ M, full_matrices=False)
        U, V = turned @ inner, outer.mT
        N = M - turned @ (turned.mT @ M)
        ritz = Ritz(U, M.mT @ U, sizes.numpy(), torch.eye(2).double(), ((N @ V).mT @ (N @ V)).numpy(), False)
        rest = float(torch.linalg.matrix_norm(M - U @ (U.mT @ M), 2))
        for level in (1.01 * rest, 1.5 * rest):
            told = upper_values(ritz, 2, rest, level, 4)
            found.append(compare(told, ">=", scale * spectrum[:4] / 1.0, f"above, {seed}, {level}", 1e-12))
            found.append(compare(told.max(), "<=", 1.2 * max(3.0, level) / scale, f"not far, {seed}, {level}"))
    return found


def _weak(scale: float) -> list[Comparison]:
    """Examples in single precision with a column that nearly repeats others: no network is built on the difference.

    Few of them or many, which are read through their second moment; columns in units far apart.
    """
    found: list[Comparison] = []
    for count, weighed, twin, unit in (
        (12, False, 1e-8, 1.0),
        (12, True, 1e-8, 1.0),
        (5, False, 1e-8, 1.0),
        (12, True, 0.3, 1.0),
        (3, False, 0.3, 1.0),
        (40, True, 1e-8, 1.0),
        (90, False, 1e-8, 1e4),
        (9, False, 0.3, 1e-9),
    ):
        X, Y = normal(count, count, 4), normal(count + 1, count, 2)
        X[:, 3] = X[:, 0] - 2 * X[:, 1] + twin * X[:, 2].roll(1)
        X[:, 2] *= unit
        shares = simplex(3, count) if weighed else torch.full((count,), 1 / count, dtype=torch.float64)
        data = Sample(X.float(), Y.float(), (2 * shares).float() if weighed else None)
        told = whiten(data)
        x, y = data.inputs.double(), data.targets.double()
        w = data.weights.double() / data.weights.double().sum() if data.weights is not None else shares
        rows, loads = w.sqrt()[:, None] * x, w.sqrt()[:, None] * y
        sizes = rows.norm(dim=0)
        units = 2.0 ** (sizes.log2().floor() + 1)
        inner, values, outer = torch.linalg.svd(rows / units, full_matrices=False)
        alive = values > least_singular(4)
        kept = alive & (values > 8 * torch.finfo(torch.float32).eps)
        name = f"{count}, {weighed}, {twin}"
        found.append(compare(len(told.target.mT), "==", scale * int(kept.sum()), f"directions, {name}"))
        T = loads.mT @ inner[:, kept]
        left = loads - inner[:, kept] @ T.mT
        gram = told.target.mT @ told.target
        found.append(compare(told.target @ told.target.mT, "==", scale * T @ T.mT, f"target, {name}", 1e-10))
        found.append(
            compare(gram.trace() + told.constant, "==", scale * loads.square().sum(), f"energy, {name}", 1e-10)
        )
        found.append(compare(told.constant, "==", scale * left.square().sum(), f"constant, {name}", 1e-9))
        weak = float((loads.mT @ inner[:, alive & ~kept]).square().sum())
        found.append(compare(told.slack, ">=", weak, f"slack, {name}", 0.0))
        if bool((alive & ~kept).any()):
            found.append(
                compare(told.slack, "<=", (weak + float(left.square().sum()) * 1e-3) / scale, f"no more, {name}")
            )
        right, moment = told.right, (outer[kept].mT * values[kept].square()) @ outer[kept] * units[:, None] * units
        again = right.down(torch.eye(4).double())
        found.append(compare(again.mT @ again, "==", scale * moment, f"second moment, {name}", 1e-9))
        own = frame(data).right.down(torch.eye(4).double())
        found.append(compare(own.mT @ own, "==", scale * moment, f"its frame, {name}", 1e-9))
        found += _solved(scale, data, T, float(left.square().sum()), name)
    return found


def _solved(scale: float, data: Sample, T: Tensor, constant: float, name: str) -> list[Comparison]:
    """The optimum and a certificate on such examples: the least of all ranks, and every other field."""
    found: list[Comparison] = []
    width, odds = 3, 0.25
    values = torch.linalg.svdvals(T)
    least, rank = math.inf, 0
    for some in range(min(width, len(values)) + 1):
        top = values[:some] - odds * values[:some].sum() / (width + odds * some)
        if some == 0 or bool(top.min() >= 0):
            kept = (values[:some] - top).square().sum() + values[some:].square().sum()
            value = float(kept + odds / width * top.sum() ** 2)
            least, rank = (value, some) if value < least else (least, rank)
    law, whole = Bernoulli(0.2, width), constant + least
    best = optimum(TwoLayerLinear, data, law)
    U, V = (part.double() for part in best.model.tensors)
    x, y = data.inputs.double(), data.targets.double()
    w = torch.ones(len(x)).double() if data.weights is None else data.weights.double()
    w = w / w.sum()
    own = w @ (y - x @ V @ U.mT).square().sum(1) + odds * (U.square().sum(0) * (w @ (x @ V).square())).sum()
    energy = float(w @ y.square().sum(1))
    slack = whiten(data).slack
    found.append(compare(best.objective, "==", scale * own, f"criterion, {name}", 1e-10))
    found.append(compare(best.bound, "==", scale * (whole - slack), f"bound, {name}", 1e-9))
    found.append(compare(best.objective, "<=", (whole + 1e-5 * energy) / scale, f"reached, {name}", 0.0))
    found.append(compare([best.scale, best.slack], "==", [scale * energy, slack], f"scale, {name}"))
    found.append(compare(best.rank, "==", scale * rank, f"rank, {name}"))
    # what the directions within rounding could still gain leaves a gap
    closed = (best.certified, certify(best.model, data, law).certified)
    found.append(same(closed, (slack <= 1e-9 * energy,) * 2, f"certified, {name}", scale))
    found.append(compare(best.tolerance, "==", scale * 1e-9, f"tolerance, {name}", 1e-12, 1e-300))
    found.append(same((best.claim, best.method), ("mianjy2018-thm3.6", "closed form"), f"words, {name}", scale))
    other = TwoLayerLinear(normal(1, 2, width).float(), normal(2, 4, width).float())
    told = certify(other, data, law)
    U, V = (part.double() for part in other.tensors)
    own = w @ (y - x @ V @ U.mT).square().sum(1) + odds * (U.square().sum(0) * (w @ (x @ V).square())).sum()
    found.append(compare(told.objective, "==", scale * own, f"given criterion, {name}", 1e-10))
    found.append(compare([told.bound, told.scale], "==", [scale * best.bound, energy], f"given bound, {name}"))
    found.append(same((told.claim, told.certified), ("mianjy2018-thm3.6", False), f"given words, {name}", scale))
    return found
