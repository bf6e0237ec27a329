"""What claims on penalties compare beside all masks: entries, measurements, moments, and norms below any penalty."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from droptics.arrays import Array
from droptics.data import Entries, Measurements, Moments
from droptics.estimates import Estimate
from droptics.evidence.claims import Comparison, compare
from droptics.linalg import psd_root
from droptics.masks import Bernoulli, Block, MaskLaw, SlidingBlock
from droptics.models import Factorization, TwoLayerLinear
from droptics.papers.droptics_own.across.small_room_checks import laws
from droptics.papers.droptics_own.audits.audit_checks import every_coin
from droptics.papers.instances import (
    descend,
    factorizations,
    moments,
    normal,
    sample,
    sliding_masks,
    tensor,
    two_layer,
    uniform,
)
from droptics.penalties import MonteCarlo, penalty, risk
from droptics.spectra.any_law import frobenius_strength, nuclear_strength


def all_laws() -> dict[str, tuple[MaskLaw, Tensor, Tensor]]:
    """Laws of four units, sliding blocks too, with their multipliers and probabilities, from the definitions."""
    found = laws()
    for name, law, (masks, chances) in (
        ("sliding", SlidingBlock(0.3, 4, 2), sliding_masks(0.3, 4, 2)),
        ("sliding inside", SlidingBlock(0.2, 4, 3, "valid"), sliding_masks(0.2, 4, 3, clipped=False)),
    ):
        found[name] = law, masks / (chances @ masks), chances
    return found


def penalties_of_data(scale: float) -> list[Comparison]:
    """Penalties on entries, measurements and moments under every law, listed and drawn; moments of batches."""
    found: list[Comparison] = []
    factor, rows = Factorization(normal(7, 4, 4), normal(8, 5, 4)), torch.tensor([0, 1, 3, 3, 2, 3])
    # one entry is observed twice, with two values
    columns, values = torch.tensor([1, 4, 0, 2, 2, 0]), normal(9, 6)
    A, seen = normal(10, 6, 4, 5), normal(11, 6)
    cases = (
        ("entries", Entries(rows, columns, values, (4, 5)), factor.U[rows] * factor.V[columns], values),
        ("measurements", Measurements(A, seen), torch.einsum("nij,ik,jk->nk", A, factor.U, factor.V), seen),
    )
    for name, data, parts, wanted in cases:
        base = (parts.sum(1) - wanted).square().mean()
        found.append(compare(risk(factor, data), "==", scale * base, f"risk of {name}"))
        for kind, (law, multipliers, chances) in all_laws().items():
            truth = scale * (chances @ (multipliers @ parts.mT - wanted).square().mean(-1) - base)
            found.append(compare(penalty(factor, data, law).value, "==", truth, f"penalty of {name}, {kind}"))
            found.append(_drawn(penalty(factor, data, law, MonteCarlo(800, seed=2)), truth, f"{name}, {kind}"))
    for shape, population in (("full", moments(12, 2, 3)), ("singular", moments(20, 2, 3, rank=2))):
        model = TwoLayerLinear(normal(13, 2, 4), normal(14, 3, 4))
        base = _squares(model.U @ model.V.mT, population)
        found.append(compare(risk(model, population), "==", scale * base, f"risk of {shape} moments"))
        for kind, (law, multipliers, chances) in all_laws().items():
            truth = scale * (chances @ _squares((model.U * multipliers[:, None]) @ model.V.mT, population) - base)
            found.append(compare(penalty(model, population, law).value, "==", truth, f"{shape} moments, {kind}"))
            found.append(_drawn(penalty(model, population, law, MonteCarlo(800, seed=1)), truth, f"{shape}, {kind}"))
    batches = [sample(15, 4, 3, 2), sample(18, 7, 3, 2), sample(21, 1, 3, 2)]
    joined = Moments.of_batches(batches)
    X, Y = (torch.cat([getattr(part, name) for part in batches]) for name in ("inputs", "targets"))
    again = joined.as_sample()
    for name, told, left, right in (("xx", joined.xx, X, X), ("yx", joined.yx, Y, X), ("yy", joined.yy, Y, Y)):
        found.append(compare(told, "==", scale * left.mT @ right / 12, f"{name} of batches"))
        mine = [again.inputs if part is X else again.targets for part in (left, right)]
        moment = mine[0].mT @ mine[1] / len(again.inputs)
        found.append(compare(moment, "==", scale * left.mT @ right / 12, f"{name} of a sample of moments"))
    return found


def _squares(maps: Tensor, population: Moments) -> Tensor:
    """E ||y - W x||^2 of maps (..., outputs, inputs)."""
    spread = ((maps @ population.xx) * maps).sum((-2, -1))
    return population.yy.trace() - 2 * (maps * population.yx).sum((-2, -1)) + spread


def _drawn(told: Estimate, truth: Tensor, label: str) -> Comparison:
    """Within twice the half width of 99 %, five standard errors."""
    return compare((told.value - truth).abs(), "<=", told.upper - told.lower, f"drawn, {label}")


def mask_bounds(scale: float) -> list[Comparison]:
    """Penalties by all masks are at least both norms times their strengths, and attain them where that is stated."""
    found: list[Comparison] = []
    data = moments(1, 2, 3)
    root = psd_root(data.xx)
    silent = every_coin([0.3, 0.0, 0.2, 0.4])
    kinds = all_laws() | {
        "a unit that never falls": (
            Bernoulli(tensor([0.3, 0.0, 0.2, 0.4]), 4),
            silent[0] / tensor([0.7, 1, 0.8, 0.6]),
            silent[1],
        )
    }
    for kind, (law, multipliers, chances) in kinds.items():
        moved = multipliers - 1
        characteristic = (chances[:, None] * moved).mT @ moved
        plain, trace = _strengths(characteristic.numpy())
        found.append(compare(frobenius_strength(law.characteristic), "==", scale * plain, f"Frobenius, {kind}"))
        found.append(compare(nuclear_strength(law.characteristic), "==", scale * trace, f"nuclear, {kind}"))
        model = two_layer(2, 2, 3, 4)
        A = model.U @ model.V.mT @ root
        factors, shapes = factorizations(A, 4)

        def cost(B: Tensor, C: Tensor, characteristic: Tensor = characteristic, factors: Any = factors) -> Tensor:
            U, H = factors(B, C)
            return (characteristic * (U.mT @ U) * (H.mT @ H)).sum()

        masked = chances @ ((model.U * moved[:, None]) @ (model.V.mT @ root)).square().sum((1, 2))
        found.append(compare(penalty(model, data, law), "==", scale * masked, f"penalty, {kind}"))
        if kind in ("coins", "sliding"):
            least, _ = descend(cost, shapes, starts=1)
        else:
            tried = [cost(normal(seed, *shapes[0]), normal(seed + 1, *shapes[1])) for seed in range(20)]
            least = float(min(tried))
        norms = float(torch.linalg.svdvals(A).sum() ** 2), float(A.square().sum())
        for name, norm, strength in (("nuclear", norms[0], trace), ("Frobenius", norms[1], plain)):
            found.append(compare(least, ">=", scale * strength * norm, f"least penalty of a map, {name}, {kind}", 1e-7))
        for seed in (3, 4):
            shape = uniform(seed, 4) + 0.2
            # the largest multiple of the shape below Cbar
            D = shape * torch.linalg.eigvalsh(characteristic / torch.outer(shape.sqrt(), shape.sqrt()))[0].clamp_min(0)
            below = norms[0] / (1 / D).sum()
            found.append(compare(least, ">=", scale * below, f"a diagonal below, {kind}", 1e-7))
        if kind == "coins":
            found.append(compare(least, "==", scale * trace * norms[0], "attained by independent units", 1e-6))
    # two blocks that carry half of a map of rank two each
    P, Q = normal(5, 3, 2), normal(6, 4, 2)
    halves = TwoLayerLinear(torch.cat([P, P], 1) / 2, torch.cat([Q, Q], 1))
    white = Moments.of_map(normal(7, 3, 4))
    law = Block(0.4, 4, 2)
    reached = frobenius_strength(law.characteristic) * (P @ Q.mT).square().sum()
    found.append(compare(penalty(halves, white, law), "==", scale * reached, "attained by equal blocks"))
    return found


def _strengths(characteristic: Array) -> tuple[float, float]:
    """1 / (1^T Cbar^+ 1), and the better of the covers by intervals and of the diagonals below Cbar."""
    size = len(characteristic)
    ones = np.ones(size)
    inverse = np.linalg.pinv(characteristic, rcond=1e-10, hermitian=True)
    inside = np.abs(characteristic @ inverse @ ones - ones).max() < 1e-8
    plain = float(1 / (ones @ inverse @ ones)) if inside else 0.0
    intervals = [(first, last) for first in range(size) for last in range(first, size)]
    holds = np.array([[float(first <= i <= last) for first, last in intervals] for i in range(size)])
    pairs = [(i, j) for i in range(size) for j in range(i, size)]
    alpha = np.linalg.solve(np.array([holds[i] * holds[j] for i, j in pairs]), [characteristic[i, j] for i, j in pairs])
    trace = 0.0
    if alpha.min() > -1e-12:
        # least sum of c_I^2 |I| / alpha_I over weights c that cover each unit once
        used = alpha > 1e-12
        long = np.sqrt(alpha[used] / holds.sum(0)[used])
        weights, *_ = np.linalg.lstsq(holds[:, used] * long, ones, rcond=None)
        if np.abs(holds[:, used] * long @ weights - ones).max() < 1e-8:
            trace = 1 / float(weights @ weights)
    diagonal = characteristic.diagonal()
    if diagonal.min() > 0:
        lowest = np.linalg.eigvalsh(characteristic / np.sqrt(np.outer(diagonal, diagonal)))[0]
        trace = max(trace, float(lowest / (1 / diagonal).sum()))
    return plain, trace
