r"""Class probabilities under masks: E softmax, predictive entropy and mutual information.

Given the early masks the logits have mean c and covariance Q exactly, and are sums of many small terms, so that K
normal numbers stand for a whole mask: E softmax is the mean over points c + L e with L L^T = Q. Where the last mask has
few outcomes they are listed instead, and where one unit carries a logit, or a trial of head masks disagrees, head
masks are drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import scipy
import torch
from torch import Tensor
from torch.quasirandom import SobolEngine

from droptics.checks import check_positive
from droptics.estimates import Estimate
from droptics.masks import MaskLaw
from droptics.penalties import UnitOutputs
from droptics.penalties.evaluation import CHUNK_ELEMENTS
from droptics.predictions.affine import Affine
from droptics.predictions.kernels import softmax_means
from droptics.predictions.mixtures import Outcome
from droptics.transforms import wants_derivative

# A last mask with at most so many outcomes is listed.
LISTED = 1024
# A unit with a larger share of the variance of a logit is not one of many small terms.
LARGEST_SHARE = 1 / 3
# The trial: so many head masks on the examples whose logits the fewest units carry; a deviation that chance exceeds
# once in 400 trials is refused.
TRIAL_MASKS, TRIAL_EXAMPLES, TRIAL_CHANCE = 200, 4, 1 / 400
# The masks of a trial are kept for the next one where they are no more numbers than this.
KEPT_NUMBERS = 2**20
# Gaussian points that err by less than the trial can see.
TRIAL_POINTS = 256


@dataclass(frozen=True, eq=False)
class Classes:
    """What masked predictions say about the class of every example.

    Attributes:
        probabilities: E softmax f(x; z), (examples, classes).
        entropy: Entropy of the probabilities (nats), (examples,): how unsure the prediction is.
        mutual_information: Entropy minus the mean entropy under a mask, (examples,): how much masks disagree.
    """

    probabilities: Estimate
    entropy: Estimate
    mutual_information: Estimate


@dataclass(frozen=True, eq=False)
class _Sums:
    """Mean probabilities and mean entropies given each early mask, (m, examples, classes) and (m, examples)."""

    probabilities: Tensor
    entropies: Tensor


_Rule = Callable[[Affine], _Sums]


def classes_of(outcomes: Callable[[], Iterator[Outcome]], points: int, samples: int | None) -> Classes:
    """Class probabilities of logits given as a mixture; `samples` early masks were drawn, or None where all are there.

    Cost: one body pass per early mask, then `points` draws of K numbers (or of the last mask) per example.
    """
    check_positive("points", points)
    others = outcomes()
    weights, first = next(others)
    if first.center.shape[-1] < 2:
        raise ValueError("classes() needs at least two outputs, one logit per class; got 1")
    if first.center.ndim != 3:
        raise ValueError("classes() takes one model at a time, got a batch of them")
    rule, sums, text, exact = _rule(first, points if samples is None else max(16, points // samples), samples)
    parts = [(weights, sums), *((chances, rule(outputs)) for chances, outputs in others)]
    every = torch.cat([chances for chances, _ in parts]).to(first.center)
    given = torch.cat([sums.probabilities for _, sums in parts])
    probabilities = (every @ given.flatten(1)).reshape(given.shape[1:])
    inside = every @ torch.cat([sums.entropies for _, sums in parts])
    entropy = _entropy(probabilities)
    cost = len(every) if samples is None else samples
    if exact and samples is None:
        return Classes(*(Estimate.exact(value, text, cost) for value in (probabilities, entropy, entropy - inside)))
    error = None if samples is None else given.detach().std(0) / math.sqrt(samples)
    return Classes(
        _probabilities(probabilities, error, text, cost),
        _unproved(entropy, text, cost),
        _unproved(entropy - inside, text, cost),
    )


def _probabilities(value: Tensor, error: Tensor | None, text: str, cost: int) -> Estimate:
    if error is None:
        return _unproved(value, text, cost)
    half = float(scipy.special.stdtrit(cost - 1, 0.995)) * error
    fixed = value.detach()
    return Estimate(value, (fixed - half).clamp_min(0), (fixed + half).clamp_max(1), text, cost, 0.99)


def _unproved(value: Tensor, text: str, cost: int) -> Estimate:
    """An approximation whose interval is a point that claims no coverage."""
    fixed = value.detach()
    return Estimate(value, fixed, fixed, text, cost, confidence=0.0)


def _rule(outputs: Affine, points: int, samples: int | None) -> tuple[_Rule, _Sums, str, bool]:
    """How the last mask is integrated, the sums of these outputs, the rule in words, and whether it is exact."""
    early = "" if samples is None else f", {samples} early masks drawn"
    if outputs.units is None or outputs.law is None:
        return _certain, _certain(outputs), f"softmax of the outputs{early}", True
    count = outputs.law.support_count
    if count is not None and count <= LISTED:
        masks, chances = (torch.cat(part) for part in zip(*outputs.law.atom_batches(LISTED), strict=True))
        rule = _head_rule(masks, chances)
        return rule, rule(outputs), f"exact sum over {count} head masks{early}", True
    normal, covariance = _sobol(points, outputs.center), outputs.covariance()
    sums = _gaussian(outputs.center, normal, covariance)
    reason = _objection(outputs, covariance, sums, points)
    if reason is None:
        text = f"head exact, Gaussian logits at {points} points, agreed with a trial of {TRIAL_MASKS} head masks{early}"
        return lambda part: _gaussian(part.center, normal, part.covariance()), sums, text, False
    masks = outputs.law.multipliers(points, torch.Generator().manual_seed(0))
    rule = _head_rule(masks, torch.full((points,), 1 / points, dtype=torch.float64))
    return rule, rule(outputs), f"{points} head masks ({reason}){early}", False


def _objection(outputs: Affine, covariance: Tensor, sums: _Sums, points: int) -> str | None:
    """Why the logits, of this covariance, must not be taken for Gaussian, or None."""
    assert outputs.law is not None
    assert outputs.units is not None
    with torch.no_grad():
        features, head = outputs.units.features[0], outputs.units.head
        head = head[0] if head.ndim > outputs.center.ndim else head
        energies, weights = features.square(), head.square() * outputs.law.relative_variance.to(head)
        chosen = _least_gaussian(energies, weights.sum(-2))
        own, center = covariance[0, chosen], outputs.center[0, chosen]
        if len(head) > 1:
            head, weights = head[chosen], weights[chosen]
        largest = (energies[chosen].unsqueeze(-2) * weights).amax(-1)
        if bool((largest > LARGEST_SHARE * own.diagonal(dim1=-2, dim2=-1)).any()):
            return "one unit carries more than a third of the variance of a logit"
        wide = TRIAL_MASKS * outputs.law.size > KEPT_NUMBERS
        moved = (_trial_masks.__wrapped__ if wide else _trial_masks)(outputs.law, center.dtype)
        masked = torch.softmax(_logits(center, UnitOutputs(features[chosen], head), moved), -2)
        normal = sums.probabilities[0, chosen]
        if points < TRIAL_POINTS:
            normal = _gaussian(center[None], _sobol(TRIAL_POINTS, center), own[None]).probabilities[0]
        # NumPy: these steps are too small for torch
        drawn, gaussian = (part.double().numpy(force=True) for part in (masked, normal))
    values = drawn[range(len(drawn)), gaussian.argmax(-1)]
    mean, error = values.mean(-1), values.std(-1, ddof=1) / math.sqrt(TRIAL_MASKS)
    # the examples share their masks, so that the largest of them is at worst as likely as their number
    limit = float(scipy.special.stdtrit(TRIAL_MASKS - 1, 1 - TRIAL_CHANCE / 2 / len(mean)))
    rounding = 1e-3 * mean  # of the Gaussian points themselves
    if (abs(mean - gaussian.max(-1)) > limit * error + rounding).any():
        return "a trial of head masks disagreed with Gaussian logits"
    return None


@lru_cache(1)
def _trial_masks(law: MaskLaw, dtype: torch.dtype) -> Tensor:
    """Head masks minus their mean, unit after unit in memory: few rows are multiplied faster with them so."""
    return (law.multipliers(TRIAL_MASKS, torch.Generator().manual_seed(1)) - 1).to(dtype).mT.contiguous().mT


def _least_gaussian(energies: Tensor, weights: Tensor) -> Tensor:
    """Examples whose total variance the fewest units carry, by their shares squared.

    Squared features (examples, units) and what a unit of one adds to the variance, (examples or 1, units).
    """
    if len(weights) == 1:
        total, squares = energies @ weights[0], energies.square() @ weights[0].square()
    else:
        total, squares = (energies * weights).sum(-1), (energies * weights).square().sum(-1)
    few_units = squares / total.square().clamp_min(torch.finfo(total.dtype).tiny)
    return few_units.topk(min(TRIAL_EXAMPLES, len(few_units))).indices


def _sobol(points: int, like: Tensor) -> Tensor:
    """Scrambled Sobol points as standard normal numbers, (points, classes), class after class in memory."""
    return _normal_points(points, like.shape[-1]).to(like)


@lru_cache(8)
def _normal_points(points: int, classes: int) -> Tensor:
    uniform = SobolEngine(classes, scramble=True, seed=0).draw(points, dtype=torch.float64)
    limit = torch.finfo(torch.float64).eps
    return torch.special.ndtri(uniform.clamp(limit, 1 - limit)).mT.contiguous().mT


def _gaussian(center: Tensor, normal: Tensor, covariance: Tensor) -> _Sums:
    """Means over c + L e for the given points e; L from a Cholesky factor of Q, singular where units are few."""
    size, limits = covariance.shape[-1], torch.finfo(covariance.dtype)
    trace = covariance.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
    unit = torch.eye(size, dtype=covariance.dtype, device=covariance.device)
    jitter = (8 * size * limits.eps * trace + limits.tiny) * unit
    lower = torch.linalg.cholesky(covariance + jitter)
    if lower.dtype == torch.float32 and lower.is_cpu and not wants_derivative(lower, center):
        return _compiled_gaussian(center, normal, lower)
    rows, starts = lower.reshape(-1, size), center.reshape(-1, 1)  # one product for all examples
    return _averaged(lambda some: torch.addmm(starts, rows, some.mT).reshape(*center.shape, -1), normal, center)


def _compiled_gaussian(center: Tensor, normal: Tensor, lower: Tensor) -> _Sums:
    """The same without a derivative, in one loop: fresh memory costs more than arithmetic here."""
    found = _Sums(torch.empty_like(center), torch.empty_like(center[..., 0]))
    rows = (lower.flatten(0, 1), center.flatten(0, 1), normal.mT)
    results = (found.probabilities.flatten(0, 1), found.entropies.flatten())
    softmax_means(*(part.contiguous().numpy(force=True) for part in (*rows, *results)))
    return found


def _head_rule(masks: Tensor, chances: Tensor) -> _Rule:
    def rule(outputs: Affine) -> _Sums:
        assert outputs.units is not None
        center, units, moved = outputs.center, outputs.units, (masks - 1).to(outputs.center)
        return _averaged(lambda some: _logits(center, units, some), moved, center, chances)

    return rule


def _logits(center: Tensor, units: UnitOutputs, moved: Tensor) -> Tensor:
    """Logits under masks that are off their mean by `moved` (points, units): (..., examples, classes, points)."""
    features, head = units
    if head.shape[-3] == 1 and head.shape[-2] > len(moved):  # fewer masked features than weighted ones
        changes = (features.unsqueeze(-2) * moved) @ head.mT
        return center.unsqueeze(-1) + changes.mT
    rows = units.contributions  # one product for all examples
    return center.unsqueeze(-1) + (rows.flatten(0, -2) @ moved.mT).unflatten(0, rows.shape[:-1])


def _certain(outputs: Affine) -> _Sums:
    probabilities = torch.softmax(outputs.center, -1)
    return _Sums(probabilities, _entropy(probabilities))


def _averaged(logits: Callable[[Tensor], Tensor], points: Tensor, like: Tensor, chances: Tensor | None = None) -> _Sums:
    """Mean probabilities and entropies over the points, some at a time; logits (m, examples, classes, points)."""
    shares = torch.full((len(points),), 1 / len(points)) if chances is None else chances
    step = max(1, CHUNK_ELEMENTS // max(like.numel(), 1))
    probabilities, entropies = torch.zeros_like(like), torch.zeros_like(like[..., 0])
    for some, weight in zip(points.split(step), shares.to(like).split(step), strict=True):
        values = logits(some)
        values -= values.detach().amax(-2, keepdim=True)  # in place: fresh memory costs more than arithmetic here
        powers = values.exp()
        total = powers.sum(-2, keepdim=True)
        given = powers * (weight / total) if wants_derivative(powers) else powers.mul_(weight / total)
        probabilities = probabilities + given.sum(-1)
        inside = values.mul_(given).sum((-2, -1))  # E log p but for the logarithm of the sum
        entropies = entropies + total.log().squeeze(-2) @ weight - inside
    return _Sums(probabilities, entropies)


def _entropy(probabilities: Tensor) -> Tensor:
    return torch.special.entr(probabilities).sum(-1)
