"""Checks of our own results on cross-entropy heads: every mask written out by hand."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn

from droptics.data import Sample
from droptics.evidence.claims import Comparison, compare
from droptics.layers import ExplicitDropout
from droptics.losses import CrossEntropy, Logistic
from droptics.masks import Bernoulli
from droptics.models import LastLayer, TwoLayerLinear
from droptics.penalties import Certified, ClosedForm, penalty
from droptics.penalties.second_order import second_order

DROPS = (0.1, 0.5, 0.8)


def _head(outputs: int, seed: int, scale: float = 1.0) -> tuple[TwoLayerLinear, Sample]:
    generator = torch.Generator().manual_seed(seed)
    U = scale * torch.randn(outputs, 6, generator=generator, dtype=torch.float64)
    V = torch.randn(4, 6, generator=generator, dtype=torch.float64)
    return TwoLayerLinear(U, V), Sample(
        torch.randn(3, 4, generator=generator, dtype=torch.float64), torch.zeros(3).long()
    )


def _expected(model: TwoLayerLinear, inputs: Tensor, drop: float) -> float:
    """E log sum exp of the outputs minus that of their mean; one output counts as the first of (f, 0)."""
    total = torch.zeros(len(inputs), dtype=torch.float64)
    masks = [torch.tensor(bits, dtype=torch.float64) for bits in itertools.product((0.0, 1.0), repeat=model.units)]
    for kept in masks:
        chance = (kept * (1 - drop) + (1 - kept) * drop).prod()
        total = total + chance * _log_sum(model.outputs(inputs, kept / (1 - drop)))
    return float((total - _log_sum(model.outputs(inputs))).mean())


def _log_sum(outputs: Tensor) -> Tensor:
    padded = outputs if outputs.shape[-1] > 1 else nn.functional.pad(outputs, (0, 1))
    return torch.logsumexp(padded, -1)


def certified(narrow: float) -> list[Comparison]:
    """Both bounds hold, and writing out units narrows them; the control narrows them by hand."""
    found = []
    for seed, drop in enumerate(DROPS):
        model, sample = _head(4, seed)
        truth = _expected(model, sample.inputs, drop)
        for condition in (0, 3, 6):
            interval = penalty(model, sample, Bernoulli(drop, 6), Certified(condition), CrossEntropy())
            low, high = float(interval.lower), float(interval.upper)
            middle, half = (low + high) / 2, (high - low) / 2
            allowed = 1e-11 if condition == 6 else 0.0
            half = narrow * half + allowed
            found.append(compare(middle - half, "<=", truth, f"below, rate {drop}, {condition} units"))
            found.append(compare(truth, "<=", middle + half, f"above, rate {drop}, {condition} units"))
    return found


def logistic(scale: float) -> list[Comparison]:
    """The integral equals the sum over all masks; the control measures the margin in other units."""
    found = []
    for seed, drop in enumerate(DROPS):
        model, sample = _head(1, seed + 10, 2.0)
        labeled = Sample(sample.inputs, torch.tensor([1.0, -1.0, 1.0]).double())
        value = penalty(TwoLayerLinear(scale * model.U, model.V), labeled, Bernoulli(drop, 6), ClosedForm(), Logistic())
        found.append(compare(float(value), "==", _expected(model, sample.inputs, drop), f"rate {drop}"))
    model, sample = _head(1, 20, 1e-2)
    head = nn.Linear(6, 1, bias=False).double()
    head.weight = nn.Parameter(scale * model.U)
    labeled = Sample(sample.inputs @ model.V, torch.tensor([1.0, -1.0, 1.0]).double())
    second = second_order(LastLayer(head, head), labeled, Bernoulli(0.5, 6), Logistic()).value
    share = float(second.detach()) / _expected(model, sample.inputs, 0.5)
    return [*found, compare(share, "==", 1.0, "second order over the penalty, small noise", precision=0.01)]


def consistency(factor: float) -> list[Comparison]:
    """For small noise R-Drop's divergence over many masks is `factor` times the penalty, up to the draws."""
    model, sample = _head(3, 20, 1e-2)
    head = nn.Linear(6, 3, bias=False).double()
    head.weight = nn.Parameter(model.U)
    layer = ExplicitDropout(0.5, head, CrossEntropy(), "sampled", masks=512)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        layer(sample.inputs @ model.V)
        ratio = float(layer.consistencies.mean() / layer.penalty)
    # the penalty itself is of second order then: the Hessian's share against all masks
    hidden = Sample(sample.inputs @ model.V, sample.targets)
    second = second_order(LastLayer(head, head), hidden, Bernoulli(0.5, 6), CrossEntropy()).value
    share = float(second.detach()) / _expected(model, sample.inputs, 0.5)
    return [
        compare(0.8 * factor, "<=", ratio, "not less"),
        compare(ratio, "<=", 1.2 * factor, "not more"),
        compare(share, "==", 1.0, "second order over the penalty", precision=0.05),
    ]
