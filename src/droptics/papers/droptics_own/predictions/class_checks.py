"""Class probabilities under masks, from the same points: listed masks, normal logits, drawn ones, and their trial."""

from __future__ import annotations

import math

import numpy as np
import scipy.optimize
import scipy.stats
import torch
from torch import Tensor
from torch.quasirandom import SobolEngine

from droptics.evidence.claims import Comparison, compare
from droptics.masks import Bernoulli, MaskLaw
from droptics.models import TwoLayerLinear
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import normal, simplex, tensor, uniform
from droptics.penalties import Enumerate, MonteCarlo, UnitOutputs
from droptics.predictions import Predictive, calibration, expected_calibration_error, fit_noise, predictive
from droptics.predictions.affine import Affine
from droptics.predictions.classes import Classes, classes_of


def classes_in_full(scale: float) -> list[Comparison]:
    """Probabilities, entropies and mutual information of mixtures; errors of calibration and fitted noise."""
    return by_parts((_mixtures, _scored), scale)


def _told(outcomes: list[tuple[Tensor, Affine]], points: int, samples: int | None) -> Classes:
    return classes_of(lambda: iter(outcomes), points, samples)


def _entropies(chances: Tensor) -> Tensor:
    return -(chances * chances.clamp_min(1e-300).log()).sum(-1)


def _points(affine: Affine, points: int, kind: str) -> tuple[Tensor, Tensor]:
    """Logits (points, m, examples, classes) and their shares."""
    center = affine.center.double()
    if affine.units is None or affine.law is None:
        return center[None], torch.ones(1).double()
    law, features, head = affine.law, affine.units.features.double(), affine.units.head.double()
    rows = features.unsqueeze(-2) * head
    if kind == "normal":
        uniform_points = SobolEngine(center.shape[-1], scramble=True, seed=0).draw(points, dtype=torch.float64)
        e = torch.from_numpy(scipy.stats.norm.ppf(uniform_points.clamp(2.3e-16, 1 - 2.3e-16).numpy()))
        cov = torch.einsum("...ij,j,...kj->...ik", rows, law.relative_variance.double(), rows)
        lower = torch.linalg.cholesky(cov + 1e-13 * torch.eye(cov.shape[-1]).double())
        return center + torch.einsum("...ij,pj->p...i", lower, e), torch.full((points,), 1 / points).double()
    if kind == "listed":
        masks, chances = (torch.cat(part) for part in zip(*law.atom_batches(4096), strict=True))
    else:
        masks = law.multipliers(points, torch.Generator().manual_seed(0))
        chances = torch.full((points,), 1 / points, dtype=torch.float64)
    return center + torch.einsum("...ij,pj->p...i", rows, masks - 1), chances


def _mixture(seed: int, law: MaskLaw | None, units: int, dtype: torch.dtype, own: bool) -> list[tuple[Tensor, Affine]]:
    """Two batches of early masks, 3 in all, of four examples and three classes."""
    found = []
    for k, (count, chances) in enumerate(((2, tensor([0.2, 0.3])), (1, tensor([0.5])))):
        center = normal(seed + k, count, 4, 3).to(dtype)
        features = (normal(seed + 10 + k, count, 4, units) / units**0.5).to(dtype)
        head = normal(seed + 20, 4 if own else 1, 3, units).to(dtype)
        units_of = None if law is None else UnitOutputs(features, head)
        found.append((chances, Affine(center, units_of, law)))
    return found


def _mixtures(scale: float) -> list[Comparison]:
    found: list[Comparison] = []
    coins = Bernoulli(uniform(1, 6) / 2 + 0.1, 6)
    lopsided = Bernoulli(0.5, 12)
    cases: tuple[tuple[str, MaskLaw | None, int, torch.dtype, str, bool], ...] = (
        ("certain", None, 6, torch.float64, "certain", False),
        ("listed", coins, 6, torch.float64, "listed", False),
        ("listed heads", coins, 6, torch.float64, "listed", True),
        ("fewer masks than classes", Bernoulli(0.3, 1), 1, torch.float64, "listed", False),
        ("normal", Bernoulli(0.3, 200), 200, torch.float64, "normal", False),
        ("normal, single", Bernoulli(0.3, 200), 200, torch.float32, "normal", False),
        ("normal heads", Bernoulli(0.3, 200), 200, torch.float64, "normal", True),
        ("drawn", lopsided, 12, torch.float64, "drawn", False),
        ("skewed", Bernoulli(0.95, 12), 12, torch.float64, "drawn", False),
    )
    for name, law, units, dtype, kind, own in cases:
        outcomes = _mixture(3, law, units, dtype, own)
        for _, affine in outcomes if kind == "drawn" else ():
            assert affine.units is not None
            if law is lopsided:  # one unit carries a logit
                affine.units.features[..., 0] *= 30
            else:  # the first class is the largest whatever falls, which normal logits of this variance do not know
                affine.units.features[...] = 1.0
                affine.units.head[...] = tensor([1.0, -0.5, -0.5])[:, None]
                affine.center[..., 0] += 1.8 * (12 * 0.95 / 0.05) ** 0.5
        precision = 1e-8 if dtype == torch.float64 else 1e-5
        # so many points in single precision that the product of their sums of powers has to be taken up in between
        for points, samples in ((256, None), (600, 3), *(((4096, None),) if name == "normal, single" else ())):
            told = _told(outcomes, points, samples)
            count = points if samples is None else max(16, points // samples)
            probabilities, entropies, shares = [], [], []
            for chances, affine in outcomes:
                logits, weights = _points(affine, count, kind)
                soft = logits.softmax(-1)
                probabilities.append(torch.tensordot(weights, soft, 1))
                entropies.append(torch.tensordot(weights, _entropies(soft), 1))
                shares.append(chances)
            given, chances = torch.cat(probabilities), torch.cat(shares)
            mean = torch.tensordot(chances, given, 1)
            inside = torch.tensordot(chances, torch.cat(entropies), 1)
            label = f"{name}, {points}"
            found.append(compare(told.probabilities.value, "==", scale * mean, f"probabilities, {label}", precision))
            found.append(compare(told.entropy.value, "==", scale * _entropies(mean), f"entropy, {label}", precision))
            apart = _entropies(mean) - inside
            found.append(
                compare(told.mutual_information.value, "==", scale * apart, f"information, {label}", precision)
            )
            words = {
                "certain": "softmax of",
                "listed": "exact sum over",
                "normal": "Gaussian",
                "drawn": "a third of the variance" if law is lopsided else "a trial of head masks disagreed",
            }
            method = told.probabilities.method
            found.append(compare(float(words[kind] in method), "==", 1.0, f"method, {label}: {method}"))
            # what was evaluated: every early mask, of both batches, or those that were drawn
            costs = [part.cost for part in (told.probabilities, told.entropy, told.mutual_information)]
            found.append(same(costs, [samples or 3] * 3, f"costs, {label}", scale))
            if samples is not None:
                half = scipy.stats.t.ppf(0.995, samples - 1) * given.std(0) / samples**0.5
                upper, lower = (mean + half).clamp_max(1), (mean - half).clamp_min(0)
                found.append(compare(told.probabilities.upper, "==", scale * upper, f"above, {label}", 10 * precision))
                found.append(compare(told.probabilities.lower, "==", scale * lower, f"below, {label}", 10 * precision))
            elif kind in ("certain", "listed"):
                width = told.probabilities.upper - told.probabilities.lower
                found.append(compare(width, "<=", 1e-12, f"exact, {label}"))
    return found


def _scored(scale: float) -> list[Comparison]:
    """Scores of observations by sums over all masks on a fine grid, and the noise of largest likelihood."""
    found: list[Comparison] = []
    model, inputs = TwoLayerLinear(normal(1, 1, 3), normal(2, 2, 3)), normal(3, 5, 2)
    law = Bernoulli(tensor([0.3, 0.5, 0.2]), 3)
    told, targets = predictive(model, inputs, law, Enumerate()), normal(4, 5, 1)
    masks, chances = (torch.cat(part) for part in zip(*law.atom_batches(64), strict=True))
    centers = model.outputs(inputs, masks[:, None])[..., 0]
    noise = 0.4
    off = (targets[:, 0] - centers) / noise
    density = torch.tensordot(chances, torch.exp(-off.square() / 2) / (noise * math.sqrt(2 * math.pi)), 1)
    below = torch.tensordot(chances, torch.special.ndtr(off), 1)
    scored = calibration(told, targets, noise, (0.5, 0.8))
    found.append(same((scored.noise, scored.levels), (noise, (0.5, 0.8)), "what was asked", scale))
    found.append(same(calibration(told, targets, noise).levels, (0.5, 0.9, 0.95), "levels unasked", scale))
    # the library sums over 512 cells of a hundredth or two: each target may be half a cell off
    apart = torch.einsum("a,b,abn->n", chances, chances, _distance(centers[:, None] - centers, math.sqrt(2) * noise))
    gaps = torch.tensordot(chances, _distance(targets[:, 0] - centers, noise), 1) - apart / 2
    mean = torch.tensordot(chances, centers, 1)
    found.append(compare(scored.nll, "==", -scale * density.log().mean(), "likelihood", 1e-7))
    found.append(compare(scored.pit[:, 0], "==", scale * below, "distribution", 1e-7))
    found.append(compare(scored.crps, "==", scale * gaps.mean(), "ranked score", 1e-2))
    found.append(compare(scored.rmse, "==", scale * (targets[:, 0] - mean).square().mean().sqrt(), "errors"))
    inside = [float((((1 - a) / 2 <= below) & (below <= (1 + a) / 2)).double().mean()) for a in (0.5, 0.8)]
    found.append(compare(scored.coverage, "==", [scale * one for one in inside], "coverage"))
    fitted = fit_noise(told, targets)

    def likelihood(s: float) -> float:
        z = (targets[:, 0] - centers) / s
        return float((torch.tensordot(chances, torch.exp(-z.square() / 2) / s, 1)).log().mean())

    size = float((targets[:, 0] - mean).square().mean().sqrt())
    sizes = size * np.linspace(0.1, 1.5, 71)
    around = sizes[int(np.argmax([likelihood(float(s)) for s in sizes]))] + size * tensor([-0.02, 0.02])
    best = scipy.optimize.minimize_scalar(lambda s: -likelihood(s), bounds=around.tolist(), method="bounded").x
    found.append(compare(fitted, "==", scale * best, "noise of largest likelihood", 2e-4))
    found += _far_out(told, centers, chances, scale)
    probabilities = torch.stack([simplex(k, 4) for k in range(30)])
    probabilities[7] = tensor([0.0, 1.0, 0.0, 0.0])  # as sure as can be, in the last bin
    labels = torch.arange(30) % 4
    confidence, chosen = probabilities.max(1)
    total = 0.0
    for k in range(15):
        here = [i for i in range(30) if k / 15 <= float(confidence[i]) < (k + 1) / 15 + (k == 14)]
        total += abs(sum(float(confidence[i]) - float(chosen[i] == labels[i]) for i in here)) / 30
    found.append(compare(expected_calibration_error(probabilities, labels), "==", scale * total, "error of confidence"))
    drawn = predictive(model, inputs, law, MonteCarlo(40, seed=2))
    found.append(compare(drawn.std.square(), "==", scale * drawn.variance.value, "deviation"))
    return found


def _distance(means: Tensor, s: float) -> Tensor:
    """E |means + s e|, e standard normal."""
    z = means / s
    return s * math.sqrt(2 / math.pi) * torch.exp(-z.square() / 2) + means * (2 * torch.special.ndtr(z) - 1)


def _far_out(told: Predictive, centers: Tensor, chances: Tensor, scale: float) -> list[Comparison]:
    """Beyond the period the score grows as the distance, E |y - X| - E |X - X'| / 2; half a cell at its end is off."""
    found, noise = [], 0.4
    apart = torch.einsum("a,b,abn->n", chances, chances, _distance(centers[:, None] - centers, math.sqrt(2) * noise))
    for side, ends in ((-1.0, centers.amin(0)), (1.0, centers.amax(0))):
        far = ends + side * 40 * noise
        score = torch.tensordot(chances, _distance(far - centers, noise), 1) - apart / 2
        scored = calibration(told, far, noise, (0.5,))
        found.append(compare(scored.crps, "==", scale * score.mean(), f"ranked score far out, {side}", 1e-2))
        found.append(same(scored.coverage, (0.0,), f"coverage far out, {side}", scale))
        found.append(compare(1 + scored.pit, "==", scale * (1.5 + side / 2), f"distribution far out, {side}"))
    return found
