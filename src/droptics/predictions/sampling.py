"""Moments of predictions from random masks, with controls that a guard weighs and intervals that cover or are withheld.

The last mask is integrated; the earlier ones are drawn, the same ones for all examples. The outputs without masks are
subtracted before anything is summed: otherwise the noise of the mean enters the variance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import scipy
import torch
from torch import Tensor

from droptics.estimates import Estimate
from droptics.penalties import MonteCarlo
from droptics.predictions.affine import Affine
from droptics.predictions.controls import Atoms, Draws, Plan, Slopes, build, draw
from droptics.predictions.mixtures import Conditional, Outcome
from droptics.predictions.strata import Strata
from droptics.progress import tracked

# Intervals are shown when their width is known with so many effective degrees of freedom; fewer are a lottery.
FEWEST_DEGREES = 6.0


@dataclass(frozen=True, eq=False)
class Sampled:
    """Outputs under drawn early masks, next to their controls; all without a batch of models.

    Attributes:
        plain: Outputs without masks.
        moved: Centers minus those without masks, (masks, examples, outputs).
        noise: Variances of the last mask, (masks, examples, outputs), their control taken off.
        control: What the controls say, weighed by the guard, (masks, examples, outputs); mean zero.
        known: Its variance, exactly, (examples, outputs).
        fitted: How many weights the guard fitted.
        words: Which controls were kept, in words.
        strata: What the masks weigh.
    """

    plain: Affine
    moved: Tensor
    noise: Tensor
    control: Tensor
    known: Tensor
    fitted: int
    words: str
    strata: Strata


def sample(problem: Conditional, method: MonteCarlo, controlled: bool = True) -> Sampled:
    """Draw the early masks and weigh the controls; a fixed seed gives the same masks for every set of examples."""
    plain = problem.plain()
    plan = Plan.of(problem, method.samples, plain.center.shape[-1]) if controlled else Plan((), (), False)
    controls = build(problem, plan, plain)
    variances = [control.variance() for control in controls]
    draws = draw(problem, plan, method.samples, torch.Generator().manual_seed(method.seed))
    evaluate = problem.fresh or problem.given
    moved, noise = [], []
    for some in tracked(draws.multipliers.split(problem.room), "sampled passes", "batch"):
        outputs = evaluate(some[:, None, :])
        moved.append(outputs.center - plain.center)
        noise.append(outputs.variance())
    both = torch.cat(moved), torch.cat(noise)
    return _weighed(plain, both, controls, variances, draws)


def _weighed(
    plain: Affine, both: tuple[Tensor, Tensor], controls: list[Atoms | Slopes], own: list[Tensor], draws: Draws
) -> Sampled:
    """One weight per control, by least squares over all masks, examples and outputs; each on the scale of its own.

    A control that does not follow the outputs gets a weight near zero: it can hardly do harm. One number for the whole
    batch, because a weight per example would be fitted to its noise. Variances given the early masks have weights of
    their own. `own` are the variances of the controls.
    """
    moved, noise = both
    if not controls:
        zero = torch.zeros_like(moved)
        return Sampled(plain, moved, noise, zero, zero[0], 0, "no control", draws.strata)
    with torch.no_grad():
        shares = draws.strata.shares.to(moved)[:, None, None]
        parts = torch.stack([control.control(draws) for control in controls])
        variances = torch.stack(own)
        weights = _weights(parts, moved.detach(), variances.sum(0), shares)
        shaped = weights.to(moved).reshape(-1, 1, 1)
        control = (shaped.unsqueeze(-1) * parts).sum(0)
        known = (shaped.square() * variances).sum(0)
        others = torch.stack([control.noise_control(draws) for control in controls])
        spread = draws.strata.mean(others.square().sum(0))
        noise_weights = _weights(others, noise.detach() - draws.strata.mean(noise.detach()), spread, shares)
        quiet = (noise_weights.to(noise).reshape(-1, 1, 1, 1) * others).sum(0)
    names = ["atoms" if isinstance(part, Atoms) else part.kind for part in controls]
    text = ", ".join(f"{name} x {float(weight):.2f}" for name, weight in zip(names, weights, strict=True))
    text = f"control: {text}" + (", masks stratified by drops" if len(draws.strata.sizes) > 1 else "")
    return Sampled(plain, moved, noise - quiet, control, known, len(controls), text, draws.strata)


def _weights(parts: Tensor, wanted: Tensor, variance: Tensor, shares: Tensor) -> Tensor:
    """Weights (controls,) of parts (controls, masks, examples, outputs) that follow what is wanted; else zero."""
    scale = (shares / torch.where(variance > 0, variance, torch.ones_like(variance))).sqrt()
    rows, aim = (parts * scale).flatten(1).double(), (wanted * scale).flatten().double()
    gram = rows @ rows.mT
    # a control that never moves has no weight; the ridge only decides that
    ridge = 8 * torch.finfo(gram.dtype).eps * (1 + gram.diagonal().max())
    gram = gram + ridge * torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    weights = torch.linalg.solve(gram, rows @ aim)
    left = (aim - weights[:, None] * rows).square().sum(-1)
    return torch.where(left < aim.square().sum(), weights, torch.zeros_like(weights))


def sampled_moments(problem: Conditional, method: MonteCarlo, controlled: bool = True) -> tuple[Estimate, Estimate]:
    """Mean and variance (examples, outputs) with Student intervals; that of the variance on a logarithmic scale.

    mean = f(1) + avg R and variance = Var g + 2 cov(g, R) + var R + avg Q with R = c - f(1) - g. Rare masks make the
    width itself uncertain: it counts as known with the degrees of freedom that the fourth moments of what is averaged
    leave it, pooled over the batch. Both intervals are withheld (0 or minus infinity to infinity) where fewer than six
    are left for the variance. Cost: one evaluation per mask, and the controls.
    """
    found = sample(problem, method, controlled)
    count = method.samples
    rest, strata = found.moved - found.control, found.strata
    average = strata.mean(rest)
    mean = found.plain.center + average
    centered = rest - average
    terms = 2 * found.control * centered + centered.square() + found.noise
    # the squared mean that was taken off holds the error of the mean
    variance = found.known + strata.mean(terms) + strata.covariance(rest, rest + 2 * found.control)
    text = f"Monte Carlo, {count} masks, last site integrated, {found.words}"
    if found.plain.units is None:
        text = f"Monte Carlo, {count} masks, {found.words}"
    averaged = rest.detach(), terms.detach()
    squares = [strata.covariance(part, part) for part in averaged]
    degrees = [
        degrees_of_freedom(part, strata, error, found.fitted) for part, error in zip(averaged, squares, strict=True)
    ]
    if degrees[1] < FEWEST_DEGREES:
        text += "; intervals withheld, a few rare masks decide"
        degrees = [0.0, 0.0]
    return (
        _with_interval(mean, averaged[0], (squares[0], degrees[0]), method, text),
        _with_interval(variance, averaged[1], (squares[1], degrees[1]), method, text, positive=True),
    )


def degrees_of_freedom(terms: Tensor, strata: Strata, error: Tensor, fitted: int) -> float:
    """Those of the squared error of a mean over terms (masks, examples, outputs), at most what a normal sample has.

    2 T / (kurtosis - 1) for independent masks: a sample variance has the relative variance (kurtosis - 1) / T, a chi
    square with f degrees of freedom 2 / f. Pooled over the batch.
    """
    alive = error > (8 * torch.finfo(terms.dtype).eps * terms.abs().amax(0)).square() / len(terms)
    most = max(1.0, len(terms) - len(strata.sizes) - float(fitted))
    if not bool(alive.any()):
        return most
    relative = float((strata.fourth(terms)[alive] / error[alive].square()).mean())
    return min(most, 2 / max(relative, 1e-9))


def _with_interval(
    value: Tensor, terms: Tensor, error: tuple[Tensor, float], method: MonteCarlo, text: str, positive: bool = False
) -> Estimate:
    """Student interval from a squared error with so many degrees of freedom; none where there are none.

    Where nothing varies there always is one.
    """
    fixed = value.detach()
    square, degrees = error
    factor = float(scipy.special.stdtrit(max(degrees, 1.0), (1 + method.confidence) / 2))
    width = factor * square.sqrt()
    rounding = 8 * torch.finfo(fixed.dtype).eps * (fixed.abs() + terms.abs().amax(0))
    if positive:
        tiny = torch.finfo(fixed.dtype).tiny
        ratio = (width / fixed.clamp_min(tiny)).clamp_max(80.0)
        lower, upper = fixed * torch.exp(-ratio) - rounding, fixed * torch.exp(ratio) + rounding
        lower = lower.clamp_min(0.0)
    else:
        lower, upper = fixed - width - rounding, fixed + width + rounding
    if degrees == 0:
        lottery = terms.std(0) > rounding
        lower = torch.where(lottery, 0.0 if positive else -math.inf, lower)
        upper = torch.where(lottery, math.inf, upper)
    return Estimate(value, lower, upper, text, method.samples, method.confidence)


def sampled_outcomes(problem: Conditional, method: MonteCarlo) -> Iterator[Outcome]:
    """The drawn early masks as a mixture of equal weights."""
    plan = Plan((), (), False)
    draws = draw(problem, plan, method.samples, torch.Generator().manual_seed(method.seed))
    for some in tracked(draws.multipliers.split(problem.room), "sampled passes", "batch"):
        weights = torch.full((len(some),), 1 / method.samples, dtype=torch.float64)
        yield weights, (problem.fresh or problem.given)(some[:, None, :])
