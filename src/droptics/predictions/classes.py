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

import torch
from scipy.special import stdtrit
from torch import Tensor
from torch.quasirandom import SobolEngine

from droptics.checks import check_positive
from droptics.estimates import Estimate
from droptics.masks import MaskLaw
from droptics.penalties import UnitOutputs
from droptics.penalties.evaluation import CHUNK_ELEMENTS
from droptics.predictions.affine import Affine
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
    cost = len(weights) if samples is None else samples
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
    half = float(stdtrit(cost - 1, 0.995)) * error
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
    sums = _gaussian(outputs, normal, covariance)
    reason = _objection(outputs, covariance, sums, points)
    if reason is None:
        text = f"head exact, Gaussian logits at {points} points, agreed with a trial of {TRIAL_MASKS} head masks{early}"
        return lambda part: _gaussian(part, normal, part.covariance()), sums, text, False
    masks = outputs.law.multipliers(points, torch.Generator().manual_seed(0))
    rule = _head_rule(masks, torch.full((points,), 1 / points, dtype=torch.float64))
    return rule, rule(outputs), f"{points} head masks ({reason}){early}", False


def _objection(outputs: Affine, covariance: Tensor, sums: _Sums, points: int) -> str | None:
    """Why the logits, of this covariance, must not be taken for Gaussian, or None."""
    assert outputs.law is not None
    with torch.no_grad():
        strengths = outputs.law.relative_variance.to(outputs.center)
        chosen = _least_gaussian(outputs, strengths)
        few, own = _examples(outputs, chosen), covariance[:1, chosen]
        assert few.units is not None
        energies = (few.units.contributions.square() * strengths).amax(-1)
        if bool((energies > LARGEST_SHARE * own.diagonal(dim1=-2, dim2=-1)).any()):
            return "one unit carries more than a third of the variance of a logit"
        wide = TRIAL_MASKS * outputs.law.size > KEPT_NUMBERS
        moved = (_trial_masks.__wrapped__ if wide else _trial_masks)(outputs.law, few.center.dtype)
        drawn = torch.softmax(_logits(few, moved), -2)
        gaussian = sums.probabilities[:1, chosen]
        if points < TRIAL_POINTS:
            wider = _sobol(TRIAL_POINTS, few.center)
            gaussian = _gaussian(few, wider, own).probabilities
        most, top = gaussian.max(-1, keepdim=True)
        values = drawn.gather(-2, top.unsqueeze(-1).expand(*top.shape, TRIAL_MASKS))[0, :, 0]
        variance, mean = torch.var_mean(values, -1)
        # the examples share their masks, so that the largest of them is at worst as likely as their number
        limit = float(stdtrit(TRIAL_MASKS - 1, 1 - TRIAL_CHANCE / 2 / len(mean)))
        rounding = 1e-3 * mean  # of the Gaussian points themselves
        if bool(((mean - most[0, :, 0]).abs() > limit * (variance / TRIAL_MASKS).sqrt() + rounding).any()):
            return "a trial of head masks disagreed with Gaussian logits"
    return None


@lru_cache(1)
def _trial_masks(law: MaskLaw, dtype: torch.dtype) -> Tensor:
    """Head masks minus their mean, unit after unit in memory: few rows are multiplied faster with them so."""
    return (law.multipliers(TRIAL_MASKS, torch.Generator().manual_seed(1)) - 1).to(dtype).mT.contiguous().mT


def _least_gaussian(outputs: Affine, strengths: Tensor) -> Tensor:
    """Examples under the first early mask whose total variance the fewest units carry, by their shares squared."""
    features, head = _first_mask(outputs)
    energies = (features.square() * (head.square().sum(-2) * strengths))[0]
    squares, total = torch.linalg.vector_norm(energies, dim=-1), energies.sum(-1)
    few_units = squares / total.clamp_min(torch.finfo(total.dtype).tiny)
    return few_units.topk(min(TRIAL_EXAMPLES, len(few_units))).indices


def _first_mask(outputs: Affine) -> UnitOutputs:
    assert outputs.units is not None
    features, head = outputs.units
    return UnitOutputs(features[:1], head[:1] if head.ndim > outputs.center.ndim else head)


def _examples(outputs: Affine, chosen: Tensor) -> Affine:
    """The first early mask and the chosen examples."""
    features, head = _first_mask(outputs)
    own = head if head.shape[-3] == 1 else head[..., chosen, :, :]
    return Affine(outputs.center[:1, chosen], UnitOutputs(features[:, chosen], own), outputs.law)


def _sobol(points: int, like: Tensor) -> Tensor:
    """Scrambled Sobol points as standard normal numbers, (points, classes), class after class in memory."""
    return _normal_points(points, like.shape[-1]).to(like)


@lru_cache(8)
def _normal_points(points: int, classes: int) -> Tensor:
    uniform = SobolEngine(classes, scramble=True, seed=0).draw(points, dtype=torch.float64)
    limit = torch.finfo(torch.float64).eps
    return torch.special.ndtri(uniform.clamp(limit, 1 - limit)).mT.contiguous().mT


def _gaussian(outputs: Affine, normal: Tensor, covariance: Tensor) -> _Sums:
    """Means over c + L e for the given points e; L from a Cholesky factor of Q, singular where units are few."""
    size, limits = covariance.shape[-1], torch.finfo(covariance.dtype)
    trace = covariance.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
    unit = torch.eye(size, dtype=covariance.dtype, device=covariance.device)
    jitter = (8 * size * limits.eps * trace + limits.tiny) * unit
    lower = torch.linalg.cholesky(covariance + jitter)
    rows, starts = lower.reshape(-1, size), outputs.center.reshape(-1, 1)  # one product for all examples
    return _averaged(
        lambda some: torch.addmm(starts, rows, some.mT).reshape(*outputs.center.shape, -1), normal, outputs.center
    )


def _head_rule(masks: Tensor, chances: Tensor) -> _Rule:
    def rule(outputs: Affine) -> _Sums:
        moved = (masks - 1).to(outputs.center)
        return _averaged(lambda some: _logits(outputs, some), moved, outputs.center, chances)

    return rule


def _logits(outputs: Affine, moved: Tensor) -> Tensor:
    """Logits under masks that are off their mean by `moved` (points, units): (m, examples, classes, points)."""
    assert outputs.units is not None
    features, head = outputs.units
    if head.shape[-3] == 1 and head.shape[-2] > len(moved):  # fewer masked features than weighted ones
        changes = (features.unsqueeze(-2) * moved) @ head.mT
        return outputs.center.unsqueeze(-1) + changes.mT
    rows = outputs.units.contributions  # one product for all examples
    return outputs.center.unsqueeze(-1) + (rows.flatten(0, -2) @ moved.mT).unflatten(0, rows.shape[:-1])


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
