"""What two claims compare on spare layers, nested layers, weighed heads and options of batches that few calls take."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from droptics.attacks import Apgd, CrossEntropy, Threat
from droptics.attacks.apgd import AdaptiveAscent
from droptics.attacks.gradients import differentiable
from droptics.audits import audit
from droptics.bounds import completion, gate_margin, linear_margin, rademacher
from droptics.data import Sample
from droptics.evidence.claims import Comparison, compare
from droptics.layers import ExplicitDropout, explicit_penalty
from droptics.losses import Squared
from droptics.masks import Bernoulli
from droptics.models import LastLayer, ReLUNet, TwoLayerLinear
from droptics.optima import optimal_head
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.audits.finding_checks import Planted
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import normal, simplex, tensor, uniform
from droptics.recommenders.left_out import sample_pairs
from droptics.recommenders.ratings import observations
from droptics.training import Dropout, Free, train


def passed_by(scale: float) -> list[Comparison]:
    """Margins with a rate, examples that a bound needs, weighed heads, nested layers, users with one item."""
    found: list[Comparison] = []
    points = tensor([[2.0, 1.0], [1.0, 3.0], [3.0, -0.5]])
    signs = tensor([1.0, -1.0, 1.0])
    data = Sample(signs[:, None] * points, signs)
    told = linear_margin(data)
    ways = torch.linspace(-math.pi, math.pi, 200_001).double()
    rows = points / points.norm(dim=1, keepdim=True)
    best = (torch.stack([ways.cos(), ways.sin()], 1) @ rows.mT).amin(1).amax()
    found.append(compare(told, "==", scale * best, "margin of three points", precision=1e-4))
    plain, dropped = (gate_margin(data, 16, rate, steps=40, seed=4) for rate in (0.0, 0.4))
    # by duality the least mean length of the gated sums over weights of the points, here on a grid of weights
    gates = (data.inputs @ normal(4, 16, 2).mT >= 0).double()
    shares = torch.cartesian_prod(*[torch.arange(101).double() / 100] * 2)
    shares = torch.cat([shares, 1 - shares.sum(1, keepdim=True)], 1)[shares.sum(1) < 1.001]
    dual = torch.einsum("pi,ir,id->prd", shares, gates, rows).norm(dim=2).mean(1).min()
    for name, end in (("lower", plain.lower), ("upper", plain.upper)):
        found.append(compare(end, "==", scale * dual, f"{name} end of a margin of gates", precision=0.07, scale=dual))
    found.append(compare(plain.lower, "<=", dual, "margins found are below", precision=0.0))
    found.append(compare(plain.upper, ">=", dual, "and dual values above", precision=1e-3))
    found.append(compare(dropped.lower, "==", scale * 0.6 * plain.lower, "gates with a rate, from below"))
    found.append(compare(dropped.upper, "==", scale * 0.6 * plain.upper, "gates with a rate, from above"))
    upper = rademacher(alpha=0.3, norm=9.0, examples=50, retentivity=0.2)
    found.append(compare(upper.needed["examples"], "==", scale * 50 * upper.value**2, "examples for a bound of one"))
    bound = completion(alpha=0.7, shape=(9, 5), examples=200, risk=0.2)
    ratio = math.log(14) / math.log(9)
    constant = math.sqrt(2 * ratio) + ratio * (5 / 9) ** 0.25 / 3
    root = (8 * constant * math.sqrt(0.7 * 9 * math.log(9)) + 4 * math.sqrt(math.log(2 / 0.05) / 2)) / 3.8
    found.append(compare(bound.needed["examples"], "==", scale * root**2, "where a bound crosses the trivial one"))
    weights = simplex(1, 7)
    sample = Sample(normal(2, 7, 3), normal(3, 7, 2), weights=weights * 5)
    law = Bernoulli(tensor([0.1, 0.3, 0.6]), 3)
    bare = nn.Linear(3, 2, bias=False).double()
    best_head = optimal_head(LastLayer.of(bare), sample, law)
    head = best_head.model
    assert isinstance(head, LastLayer)
    system = (sample.inputs * weights[:, None]).mT @ sample.inputs
    system = system + torch.diag(law.drop / (1 - law.drop) * system.diagonal())
    wanted = torch.linalg.solve(system, (sample.inputs * weights[:, None]).mT @ sample.targets).mT
    found.append(compare(head.head.weight, "==", scale * wanted, "the head of weighed examples"))
    value = weights @ sample.targets.square().sum(1) - (wanted @ system * wanted).sum()
    found.append(compare(best_head.objective, "==", scale * value, "its value"))
    inner = linear_head(4, 3, 2)
    nested = nn.Sequential(nn.Sequential(ExplicitDropout(0.3, inner, Squared()), inner)).train()
    nested(sample.inputs)
    energy = 0.3 / 0.7 * (sample.inputs.square() @ inner.weight.square().sum(0)).mean()
    found.append(compare(explicit_penalty(nested), "==", scale * energy, "a layer inside others"))
    users = np.array([0, 0, 1, 2, 2, 2]), np.array([0, 1, 0, 0, 1, 2]), np.ones(6)
    rated = observations(users, np.float64, mean=0.0).by_user
    chosen, _ = sample_pairs(rated, 50, 0)
    found.append(compare(rated.counts[chosen].min(), "==", scale * 2, "users with two items at least"))
    found.append(compare(len(set(chosen.tolist())), "==", 2, "all of them"))
    return found


class _Beside(nn.Module):
    """A layer that is never called, beside functional dropout."""

    def __init__(self, spare: float, called: float) -> None:
        super().__init__()
        self.head, self.spare, self.called = linear_head(1, 3, 2), nn.Dropout(spare), called

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(functional.dropout(inputs, self.called, self.training))


def looked_again(scale: float) -> list[Comparison]:
    """Gradients that a search asks for, boxes of free training, names of records, spare layers, options of batches."""
    found: list[Comparison] = []
    inputs, labels = uniform(1, 6, 3), torch.zeros(6, dtype=torch.long)
    weights = normal(2, 2, 3)
    safe = [weights, tensor([6.0, 0.0])]
    for steps in (1, 4, 9):
        tape = differentiable(lambda points: points @ safe[0].mT + safe[1])
        region = Threat("l2", 0.1).around(inputs)
        trail = AdaptiveAscent(tape, region, labels, Apgd(CrossEntropy(), steps=steps), torch.Generator()).run()
        found.append(compare(int(trail.tally[-1]), "==", scale * 6 * steps, f"gradients of {steps} steps"))
        far = (inputs + 0.1 * (weights[1] - weights[0]) / (weights[1] - weights[0]).norm()) @ (weights[1] - weights[0])
        reached = (trail.inputs @ (weights[1] - weights[0])).detach()
        found.append(compare(reached, "==", far, f"the end of {steps} steps"))
    net = ReLUNet([normal(3, 4, 3), normal(4, 2, 4)], [normal(5, 4), normal(6, 2)])
    targets = torch.arange(6) % 2
    threat = Threat("linf", 0.3, (0.2, 0.8))
    run = train(net, Sample(inputs.clamp(0.2, 0.8), targets), Free(threat, 3, 0.2), steps=1, step_size=0.1)
    leaves, moves = [part.clone() for part in (*net.weights, *net.biases)], torch.zeros_like(inputs)
    for _ in range(3):
        leaves = [part.detach().requires_grad_() for part in leaves]
        step = moves.clone().requires_grad_()
        at = (inputs.clamp(0.2, 0.8) + step).clamp(0.2, 0.8)
        outputs = torch.relu(at @ leaves[0].mT + leaves[2]) @ leaves[1].mT + leaves[3]
        *downs, climb = torch.autograd.grad(functional.cross_entropy(outputs, targets), [*leaves, step])
        leaves = [part.detach() - scale * 0.1 * slope for part, slope in zip(leaves, downs, strict=True)]
        moves = (moves + 0.2 * climb.sign()).clamp(-0.3, 0.3)
    assert isinstance(run.model, ReLUNet)
    for new, old in zip((*run.model.weights, *run.model.biases), leaves, strict=True):
        found.append(compare(new, "==", old.detach(), "free training in a box"))
    two = TwoLayerLinear(normal(7, 2, 3), normal(8, 3, 3))
    data = Sample(normal(9, 5, 3), normal(10, 5, 2))
    told = train(two, data, Dropout(Bernoulli(0.3, 3)), steps=2, step_size=1e-3, record=("risk",)).history
    found.append(same(sorted(told), ["loss", "risk", "step"], "names of records", scale))
    names = ("penalty", "risk", "objective", "importance_variance")
    told = train(two, data, Dropout(Bernoulli(0.3, 3)), steps=2, step_size=1e-3, record=names).history
    hidden = data.inputs @ two.V
    clean = (hidden @ two.U.mT - data.targets).square().sum(1).mean()
    added = 0.3 / 0.7 * (two.U.square().sum(0) * hidden.square().mean(0)).sum()
    for name, value in (("risk", clean), ("penalty", added), ("objective", clean + added)):
        found.append(compare(told[name][0], "==", scale * value, f"record of the {name}"))
    module: Any = Planted("part", nn.Dropout(0.3))
    module.spare = nn.Dropout(0.3)
    codes = [
        (item.code, item.site) for item in audit(module, Sample(normal(1, 32, 3), normal(2, 32, 2)), rates=()).findings
    ]
    found.append(compare(codes.count(("DR101", "spare")), "==", scale, "a spare layer of the same rate"))
    for rate, called in ((0.0, 0.3), (0.3, 0.3)):
        told_of = [item.code for item in audit(_Beside(rate, called), data, rates=()).findings]
        found.append(same("DR101" in told_of, False, f"a spare rate of {rate} where {called} is called"))

    class Scaled(nn.Module):
        """Outputs times a number that comes with the batch."""

        def __init__(self) -> None:
            super().__init__()
            self.head, self.drop = linear_head(1, 3, 2), nn.Dropout(0.2)

        def forward(self, inputs: Tensor, factor: float) -> Tensor:
            return self.head(self.drop(inputs)) * factor

    scaled = Scaled()
    report = audit(scaled, [{"inputs": data.inputs, "factor": 2.0, "targets": data.targets}], rates=())
    with torch.no_grad():
        wanted = (2 * scaled.head(data.inputs) - data.targets).square().sum(1).mean()
    found.append(compare(report.clean_loss, "==", scale * wanted, "numbers in a batch"))
    return found
