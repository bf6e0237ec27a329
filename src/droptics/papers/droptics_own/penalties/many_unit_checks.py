"""What a claim on many units compares: sums over all pairs of hundreds of them, and all masks of units with copies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from unittest import mock

import torch
from torch import Tensor, nn

from droptics.data import Data, Entries, Moments, Sample
from droptics.evidence.claims import Comparison, compare
from droptics.losses import CrossEntropy, Logistic, Loss, Squared
from droptics.masks import Bernoulli, Product, SlidingBlock, correlations
from droptics.models import (
    Autoencoder,
    Connections,
    DeepLinear,
    Factorization,
    LastLayer,
    Model,
    ReLUNet,
    TwoLayerLinear,
)
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.penalties.interval_checks import EPS, absolute, rms
from droptics.papers.droptics_own.penalties.sum_checks import of_all_masks
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import coin_masks, moments, normal, simplex, tensor, uniform
from droptics.penalties import ClosedForm, SecondOrder, criterion, has_closed_form, penalty
from droptics.penalties.relu import moments as moment_sums
from droptics.penalties.rounding import roundings

UNITS, BLOCK, RATE = 300, 3, 0.3


def many_units(scale: float) -> list[Comparison]:
    """Hundreds of units that are correlated with near ones, and units that come in several numbers of copies."""
    return by_parts((_linear, _curved, _layered, _copied, _alike, _told), scale)


def _near() -> Tensor:
    """Covariances of multipliers under sliding blocks: units at distance l share all but l of their blocks."""
    places = torch.arange(UNITS)
    shared = (BLOCK - (places[:, None] - places).abs()).clamp_min(0)
    return (1 - RATE) ** -shared.double() - 1


def _by_windows(model: Model, data: Data, masks: SlidingBlock | Product, curved: bool = False, **more: Loss) -> Tensor:
    """The penalty where pairs are weighed window by window."""
    with mock.patch.object(correlations, "WIDE", 100):
        return penalty(model, data, masks, SecondOrder(None) if curved else ClosedForm(), **more).value.detach()


def _linear(scale: float) -> list[Comparison]:
    """Two layers, tied ones, factors of entries and weights: all pairs of what units add to the outputs."""
    known, near, law = moments(4, 2, 3), _near(), SlidingBlock(RATE, UNITS, BLOCK)
    data = Sample(normal(1, 5, 3), normal(3, 5, 2), 2 * simplex(2, 5))
    U, V = normal(5, 2, UNITS), normal(6, 3, UNITS)
    hidden, shares = data.inputs @ V, data.shares[:, None]
    cells = Entries(torch.tensor([0, 1, 1, 0]), torch.tensor([2, 0, 1, 1]), normal(11, 4), (2, 3))
    each = U[cells.rows] * V[cells.columns]
    heads, into, X = normal(8, 2, 30), normal(9, 10, 30), normal(10, 5, 10)
    wide = Sample(X, data.targets, data.weights)
    # unit (i, k) adds x_i V_ik u_k
    alone = torch.einsum("ni,ik,ok->noik", X, into, heads).flatten(2)
    cases: tuple[tuple[str, Model, Data, Tensor], ...] = (
        ("examples", TwoLayerLinear(U, V), data, (U.mT @ U) * ((shares * hidden).mT @ hidden)),
        ("moments", TwoLayerLinear(U, V), known, (U.mT @ U) * (V.mT @ known.xx @ V)),
        ("tied", Autoencoder(V), Moments.of_map(torch.eye(3).double()), (V.mT @ V).square()),
        ("entries", Factorization(U, V), cells, each.mT @ each / 4),
        ("weights", Connections(heads, into), wide, torch.einsum("n,noi,noj->ij", data.shares, alone, alone)),
    )
    return [
        compare(_by_windows(model, data, law), "==", scale * (near * gram).sum(), f"hundreds of units, {name}")
        for name, model, data, gram in cases
    ]


def _curved(scale: float) -> list[Comparison]:
    """Last layers: half the curvature of three losses, from the second derivatives in the outputs."""
    found: list[Comparison] = []
    near, law, features, weights = _near(), SlidingBlock(RATE, UNITS, BLOCK), normal(7, 5, UNITS), 2 * simplex(2, 5)
    for loss, targets, outputs in (
        (CrossEntropy(), torch.arange(5) % 3, 3),
        (Logistic(), tensor([1.0, -1, -1, 1, 1]), 1),
        (Squared(), normal(3, 5, 2), 2),
    ):
        head = nn.Linear(UNITS, outputs).double()
        W, b = 0.1 * normal(12, outputs, UNITS), normal(13, outputs)
        head.weight, head.bias = nn.Parameter(W), nn.Parameter(b)
        data = Sample(features, targets, weights)
        chances = (features @ W.mT + b).softmax(-1)
        bent = torch.diag_embed(chances) - chances[:, :, None] * chances[:, None]
        if outputs < 3:
            ones = torch.eye(outputs).double().expand(5, -1, -1)
            chance = (features @ W.mT + b)[:, :1, None].sigmoid()
            bent = 2 * ones if outputs == 2 else chance * (1 - chance)
        each = features[:, None] * W
        curvature = torch.einsum("n,noi,nop,npj->ij", data.shares, each, bent, each)
        told = _by_windows(LastLayer.of(head), data, law, True, loss=loss)
        wanted = scale * 0.5 * (near * curvature).sum()
        found.append(compare(told, "==", wanted, f"curvature of hundreds, {loss}"))
    # outputs are linear in masks, so that half the curvature of squared loss is the penalty
    return [*found, compare(_by_windows(LastLayer.of(head), data, law), "==", wanted, "hundreds of units, last layer")]


def _layered(scale: float) -> list[Comparison]:
    """A deep linear network by second moments, and a ReLU network over the masks of its inputs."""
    found: list[Comparison] = []
    known, near, law = moments(4, 2, 3), _near(), SlidingBlock(RATE, UNITS, BLOCK)
    first, middle, last = normal(14, UNITS, 3), 0.1 * normal(15, 4, UNITS), normal(16, 2, 4)
    rates = tensor([0.2, 0.5, 0.1, 0.4])
    inside = first @ known.xx @ first.mT
    behind = middle @ ((1 + near) * inside) @ middle.mT
    masked = last @ ((1 + torch.diag(rates / (1 - rates))) * behind) @ last.mT
    whole = last @ middle @ first
    told = _by_windows(DeepLinear([first, middle, last]), known, Product([law, Bernoulli(rates, 4)]))
    truth = masked.trace() - (whole @ known.xx @ whole.mT).trace()
    found.append(compare(told, "==", scale * truth, "hundreds of units, deep"))
    data, bias, head, coins = (
        Sample(normal(1, 4, 3), normal(3, 4, 2), simplex(2, 4)),
        normal(17, UNITS),
        normal(18, 2, UNITS),
        (0.3, 0.1, 0.6),
    )
    total = torch.zeros(()).double()
    for kept, chance in (*coin_masks(coins), (1 - tensor(coins), -1.0)):
        hidden = torch.relu((data.inputs * kept / (1 - tensor(coins))) @ first.mT + bias)
        noise = torch.einsum("ni,nj,ij->n", hidden, hidden, near * (head.mT @ head)) if chance > 0 else 0.0
        total += chance * data.shares @ ((hidden @ head.mT - data.targets).square().sum(1) + noise)
    told = _by_windows(ReLUNet([first, head], [bias, None]), data, Product([Bernoulli(tensor(coins), 3), law]))
    return [*found, compare(told, "==", scale * total, "hundreds of units, rectified")]


def _copies(seed: int, groups: Sequence[Sequence[int]], kind: str = "") -> tuple[list[Tensor], Product]:
    """Weights, biases and two inputs whose entries agree where their groups do, and a rate for every group.

    The first group of every layer reaches nothing where they are silent, and never falls where they are steady.
    """
    sizes = [max(group) + 1 for group in groups]
    weights, biases, rates = [], [], []
    for k, (size, group) in enumerate(zip(sizes, groups, strict=True)):
        rows = groups[k + 1] if k + 1 < len(groups) else [0, 1, 2]
        weight = normal(seed + k, max(rows) + 1, size)
        weight[:, 0] *= "silent" not in kind
        weights.append(weight[rows][:, group])
        biases.append((1 + 0.5 * normal(seed + 20 + k, max(rows) + 1))[rows])
        own = 0.1 + 0.7 * uniform(seed + 40 + k, size)
        own[0] *= "steady" not in kind
        rates.append(Bernoulli(own[group], len(group)))
    return [*weights, *biases, normal(seed + 30, 2, sizes[0])[:, groups[0]]], Product(rates)


def _copied(scale: float) -> list[Comparison]:
    """Criteria and slopes where inputs and units come in copies: outcomes visited, sorted, in a tree, in parts."""
    found: list[Comparison] = []
    layers = [0, 0, 1], [0, 0, 0, 1, 1, 2, 3], [0, 1]
    routes = ("visited", 16.0, 1 << 13), ("tree", -1.0, 1 << 13), ("sorted", -1.0, 0)
    for name, groups, room, loss in (
        ("inputs", ([0, 0, 0, 1, 1, 2, 3], [0, 1, 2]), 1 << 30, Squared()),
        ("units", layers, 1 << 30, Squared()),
        ("units in parts", ([0, 0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 4], [0]), 1 << 12, Squared()),
        ("silent units", layers, 1 << 30, Squared()),
        ("steady units", layers, 1 << 30, Squared()),
        ("silent units, classes", layers, 1 << 30, CrossEntropy()),
        ("steady units, classes", layers, 1 << 30, CrossEntropy()),
    ):
        parts, law = _copies(1, groups, name)
        free = [part.requires_grad_() for part in parts]
        model = ReLUNet(free[: len(groups)], free[len(groups) : -1])
        targets = normal(32, 2, 3) if isinstance(loss, Squared) else torch.tensor([2, 0])
        data = Sample(free[-1], targets, simplex(33, 2))
        truth = of_all_masks(model, data, law.laws, loss)
        slopes = torch.autograd.grad(truth, free)
        for route, bits, tree in routes[: 3 if isinstance(loss, Squared) else 1]:
            with mock.patch.multiple(moment_sums, DIRECT_BITS=bits, _TREE=tree):
                told = criterion(model, data, law, ClosedForm(memory=room), loss).value
                mine = torch.autograd.grad(told, free)
            found.append(compare(told.detach(), "==", scale * truth.detach(), f"copies of {name}, {route}"))
            for place, (one, other) in enumerate(zip(mine, slopes, strict=True)):
                found.append(compare(one, "==", scale * other, f"slope {place}, copies of {name}, {route}"))
    return found


def _alike(scale: float) -> list[Comparison]:
    """Units that agree in nearly all, or but for their rates, are no copies; zeros; coins in products of products."""
    found: list[Comparison] = []
    weights, biases = [normal(1, 4, 3), normal(2, 3, 4)], [1 + normal(3, 4), normal(4, 3)]
    data = Sample(normal(5, 2, 3), normal(6, 2, 3), simplex(7, 2))
    rates = tensor([0.2, 0.5, 0.1, 0.3, 0.3, 0.3, 0.3])
    law = Product([Bernoulli(rates[:3], 3), Bernoulli(rates[3:], 4)])
    split = Product([Product([Bernoulli(rates[:1], 1), Bernoulli(rates[1:5], 4)]), Bernoulli(rates[5:], 2)])
    full = ReLUNet(weights, biases)
    truth = of_all_masks(full, data, law.laws, Squared())
    for name, masks in (("coins", Bernoulli(rates, 7)), ("layers", law), ("products of products", split)):
        found.append(same(has_closed_form(full, masks), True, f"known under {name}", scale))
        found.append(compare(criterion(full, data, masks), "==", scale * truth, f"criterion under {name}"))
    holes = weights[0] * tensor([[0.0, 1, 1], [1, 0, 0], [0, 1, 0], [1, 1, 1]])
    sparse = ReLUNet([holes, weights[1] * tensor([[1.0, 0, 1, 0]])], biases)
    truth = of_all_masks(sparse, data, law.laws, Squared())
    found.append(compare(criterion(sparse, data, law), "==", scale * truth, "weights with zeros"))
    # equal units but for a weight of the 67th unit behind them, or for one that comes into the 67th of them
    behind, ahead = normal(8, 70, 1).expand(70, 4).clone(), normal(9, 1, 5).expand(70, 5).clone()
    behind[66, 2] += 1.0
    ahead[66, 3] += 1.0
    many, still, coins = torch.ones(70).double(), Bernoulli(0.0, 70), Bernoulli(tensor([0.2, 0.5, 0.1, 0.4, 0.3]), 5)
    head, known = 0.1 * normal(10, 3, 70), Sample(normal(11, 2, 5), data.targets, data.weights)
    outward = ReLUNet([normal(12, 1, 3).expand(4, 3), behind, head], [biases[0][[0] * 4], many, None])
    inward = ReLUNet([ahead, normal(13, 3, 1).expand(3, 70)], [many, biases[1]])
    # copies by all weights, and by what comes from the inputs; their rates are not those of copies
    over = ReLUNet([weights[0][[0] * 4], behind[:3].abs(), normal(14, 3, 3)], [biases[0][[0] * 4], None, None])
    twins = ReLUNet([weights[0][:, [0] * 3], weights[1]], biases)
    repeated, unlike = Sample(data.inputs[:, [0] * 3], data.targets, data.weights), Bernoulli(rates[[0, 1, 0, 2]], 4)
    for name, model, given, masks in (
        ("one weight that goes out", outward, data, Product([*law.laws[:1], Bernoulli(0.3, 4), still])),
        ("one weight that comes in", inward, known, Product([coins, still])),
        ("rates of units", over, data, Product([*law.laws[:1], unlike, Bernoulli(0.3, 3)])),
        ("rates of inputs", twins, repeated, law),
    ):
        truth = of_all_masks(model, given, masks.laws, Squared())
        found.append(compare(criterion(model, given, masks), "==", scale * truth, f"equal but for {name}"))
    return found


def _told(scale: float) -> list[Comparison]:
    """How far rounding may have moved sums over outcomes: by their number, of copies and of absolute weights."""
    found: list[Comparison] = []
    groups = [0, 1, 2], [0, 0, 1], [0, 1]
    *parts, X = _copies(1, groups)[0]
    law = _copies(1, groups)[1]
    model = ReLUNet(parts[:3], parts[3:])
    typical = torch.cat([part.relative_variance for part in law.laws])
    # inputs and the first layer, where two units are copies, and under other losses the second layer
    coins, shapes = (8.0, 6.0, 4.0), 4.0 * (2 + 3 + 2 + 2 + 3 + 2)
    for loss, targets in ((Squared(), normal(32, 2, 3)), (CrossEntropy(), torch.tensor([2, 0]))):
        data, squared = Sample(X, targets, simplex(33, 2)), isinstance(loss, Squared)
        *early, last = coins[: 2 if squared else 3]
        steps = 16 + math.prod(early) + 4 * last**0.5 + shapes
        sizes = rms(X, data)[None]
        plain, grown = absolute(model, sizes, None)[0], absolute(model, sizes, (1 + typical).sqrt())[0]
        label = rms(targets, data) if squared else torch.zeros(3).double()
        added = (grown * (grown + 4 * label)).sum() if squared else 2 * (1 + grown.norm())
        whole = (plain + label).square().sum() if squared else 2 * (1 + plain.norm())
        excess, risky = penalty(model, data, law, loss=loss), criterion(model, data, law, loss=loss)
        wanted = steps * EPS * added + EPS * excess.value.abs()
        found.append(compare(excess.error, "==", scale * wanted, f"rounding of what masks add, {loss}", 1e-9, 1e-300))
        wanted = steps * (EPS * added + roundings(model, data) * EPS / 2 * whole) + EPS * risky.value.abs()
        found.append(compare(risky.error, "==", scale * wanted, f"rounding of a criterion, {loss}", 1e-9, 1e-300))
    return found
