"""Statements about the last layer that need its features: units, spectrum, certificate, best rate, sub-networks."""

from __future__ import annotations

from dataclasses import replace

import scipy
import torch
from torch import Tensor

from droptics.audits.heads import Head
from droptics.audits.leaving_out import leave_one_out
from droptics.audits.measuring import Plan
from droptics.audits.report import RateChoice, SiteReport, Spectrum, SubnetworkSummary
from droptics.coadaptation import draw, evaluate, smallest
from droptics.estimates import PlainEstimate
from droptics.linalg import psd_root, shrink
from droptics.linalg.scales import SMALL, equilibrate
from droptics.losses import CrossEntropy, Squared
from droptics.masks import Bernoulli
from droptics.optima import Certificate
from droptics.penalties import penalty
from droptics.penalties.methods import SecondOrder

SUBNETWORKS = 50
TOLERANCE = 0.01
RATES = tuple(i / 20 for i in range(1, 20))  # whose leave-one-out errors are compared
MOST_CLASSES = 4096  # of a vocabulary nobody asks for the fewest units, and all prefixes of all units are many numbers
LEVEL = 0.99  # confidence with which another rate must be better


def head_statements(report: SiteReport, head: Head, plan: Plan) -> SiteReport:
    """Everything that the features of the last layer tell about its site."""
    rate = report.site.rate
    report = replace(report, subnetworks=_subnetworks(head, rate))
    if isinstance(plan.loss, Squared) and head.moments is not None:
        targets = _roots(head.moments.yy)
        report = replace(report, spectrum=_spectrum(head, rate, targets), certificate=_certificate(head, rate, targets))
        return replace(report, rate_choice=_rate_choice(head, rate))
    if isinstance(plan.loss, CrossEntropy):
        masks = Bernoulli(rate, head.weight.shape[1])
        value = penalty(head.model(), head.sample(), masks, SecondOrder(check=None), plan.loss)
        return replace(report, second_order=float(value))
    return report


def _spectrum(head: Head, rate: float, targets: Tensor) -> Spectrum:
    """Singular values of the predictions (root mean square over examples) and those at the dropout optimum."""
    assert head.moments is not None
    second, weight = head.moments.xx, head.weight.to(head.moments.xx.device)
    if len(weight) <= len(second):
        measured = _roots(weight @ second @ weight.mT)
    else:
        scaled, units = equilibrate(second.cpu())
        measured = torch.linalg.svdvals((head.weight * units) @ psd_root(scaled))
    optimal = shrink(targets, rate / (1 - rate), head.weight.shape[1])
    size = min(len(measured), len(optimal))
    return Spectrum(measured[:size].tolist(), optimal[:size].tolist(), *map(_effective_rank, (measured, optimal)))


def _roots(second: Tensor) -> Tensor:
    """Singular values whose squares are the eigenvalues of a second moment, largest first; zero below its rounding."""
    second = second if len(second) > SMALL else second.cpu()  # a GPU takes a millisecond to begin
    values = torch.linalg.eigvalsh((second + second.mT) / 2).clamp_min(0).flip(0).cpu()
    return torch.where(values > len(values) * torch.finfo(values.dtype).eps * values[0], values, 0.0).sqrt()


def _effective_rank(values: Tensor) -> float:
    """Exponential of the entropy of the normalized spectrum; 0 for a zero map."""
    total = float(values.sum())
    if total == 0:
        return 0.0
    shares = values[values > 0] / total
    return float(torch.exp(-(shares * shares.log()).sum()))


def _certificate(head: Head, rate: float, targets: Tensor) -> Certificate:
    """Training loss of the site alone against the least one that any features of this width allow (pal2020-prop3.3).

    The bound is min_A mean ||y - b - A||^2 + (lambda / width) ||A||_*^2 over all predictions A, with this bias b.
    """
    assert head.moments is not None
    xx, yx, yy = head.moments
    weight, energy = head.weight.to(xx.device), float(torch.trace(yy))
    risk = energy - 2 * float((yx * weight).sum()) + float(((weight @ xx) * weight).sum())
    strength, width = rate / (1 - rate), head.weight.shape[1]
    best = shrink(targets, strength, width)
    bound = float((targets - best).square().sum()) + strength / width * float(best.sum()) ** 2
    return Certificate(risk + head.penalty(rate), bound, "pal2020-prop3.3", energy)


def _rate_choice(head: Head, rate: float) -> RateChoice | None:
    """Errors of all rates from one factorization; their difference is paired, example by example."""
    features, targets = head.examples()
    if len(features) < 3:
        return None
    drops = sorted({*RATES, rate})
    found = leave_one_out(features, targets.reshape(len(targets), -1), [drop / (1 - drop) for drop in drops])
    squares = found.square().mean(2).cpu()
    errors = squares.mean(1).tolist()
    best = min(range(len(drops)), key=lambda i: (errors[i], drops[i]))
    gains = squares[drops.index(rate)] - squares[best]
    half = float(scipy.special.stdtrit(len(gains) - 1, (1 + LEVEL) / 2)) * float(gains.std()) / len(gains) ** 0.5
    mean = float(gains.mean())
    gain = PlainEstimate(mean, mean - half, mean + half, "leave-one-out, paired")
    return RateChoice(drops[best], drops, errors, gain)


def _subnetworks(head: Head, rate: float) -> SubnetworkSummary | None:
    """Accuracy of random sub-networks of the last layer, one mask for all examples; classification only."""
    targets = torch.cat(head.targets)
    if len(head.weight) > MOST_CLASSES or (targets.is_floating_point() and not bool((targets.abs() == 1).all())):
        return None
    sample, model = head.sample(), head.model()
    generator = torch.Generator().manual_seed(0)
    found = evaluate(model, sample, draw(Bernoulli(rate, model.units), SUBNETWORKS, generator), scale=1 / (1 - rate))
    low, high = torch.quantile(found.accuracies, torch.tensor([0.05, 0.95], dtype=torch.float64)).tolist()
    kept = smallest(model, sample, TOLERANCE).width
    chance = float(sample.targets.reshape(-1).unique(return_counts=True)[1].max()) / sample.targets.numel()
    return SubnetworkSummary(found.full, float(found.accuracies.mean()), low, high, kept, TOLERANCE, chance)
