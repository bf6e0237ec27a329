"""What a claim on flows compares: flows, retentivity and sub-networks of every family, unit by unit."""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch
from torch import Tensor, nn

from droptics.coadaptation import (
    accuracy_by_width,
    alpha,
    coadaptation,
    draw,
    evaluate,
    export,
    flows,
    importance,
    retentivity,
    smallest,
    split,
    subnetwork_outputs,
    symmetrize,
)
from droptics.coadaptation.measures import evenness
from droptics.data import Moments, Sample
from droptics.evidence.claims import Comparison, compare
from droptics.masks import Bernoulli, Discrete
from droptics.models import LastLayer, Model, ReLUNet, TwoLayerLinear
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.ground.argument_checks import refused
from droptics.papers.instances import normal, simplex, tensor


def flows_in_full(scale: float) -> list[Comparison]:
    """Flows with and without symmetric inputs, what they split into, the worst half-space, all sub-networks."""
    found: list[Comparison] = []
    inputs, weights = normal(1, 12, 3), simplex(2, 12)
    data = Sample(inputs, normal(3, 12, 2), weights)
    none = [torch.zeros(4).double(), torch.zeros(2).double()]
    plain = ReLUNet([normal(4, 4, 3), normal(5, 2, 4)], none)
    biased = ReLUNet([normal(4, 4, 3), normal(5, 2, 4)], [normal(6, 4), normal(7, 2)])
    deep = ReLUNet([normal(4, 4, 3), normal(8, 5, 4), normal(9, 2, 5)])
    last = linear_head(14, 4, 2)
    module = nn.Sequential(linear_head(12, 3, 4), nn.Tanh(), last)
    factors = TwoLayerLinear(normal(10, 2, 4), normal(11, 3, 4))

    def hidden(name: str, x: Tensor) -> Tensor:
        if name == "factors":
            return x @ factors.V
        if name == "module":
            return module[:2](x)
        net = {"plain": plain, "biased": biased, "deep": deep}[name]
        for weight, bias in zip(net.weights[:-1], net.biases[:-1], strict=True):
            x = torch.relu(x @ weight.mT + bias)
        return x

    models: dict[str, tuple[Model, Tensor]] = {
        "plain": (plain, plain.weights[-1]),
        "biased": (biased, biased.weights[-1]),
        "deep": (deep, deep.weights[-1]),
        "module": (LastLayer.of(module), last.weight),
        "factors": (factors, factors.U),
    }
    for name, (model, top) in models.items():
        for symmetrized in (False, True):
            energy = weights @ hidden(name, inputs).square()
            if symmetrized:
                energy = (energy + weights @ hidden(name, -inputs).square()) / 2
            psi = top.square().sum(0).sqrt() * energy.sqrt()
            told = flows(model, data, symmetrized=symmetrized)
            phi = psi.sum() / (math.sqrt(len(psi)) * psi.square().sum().sqrt())
            label = f"{name}, symmetrized {symmetrized}"
            found.append(compare(told, "==", scale * psi, f"flows, {label}"))
            found.append(
                compare(alpha(model, data, symmetrized=symmetrized), "==", scale * psi.sum(), f"size, {label}")
            )
            found.append(
                compare(coadaptation(model, data, symmetrized=symmetrized), "==", scale * phi, f"phi, {label}")
            )
            shares = importance(model, data, symmetrized=symmetrized)
            found.append(compare(shares, "==", psi / psi.sum(), f"shares, {label}"))
            parts = split(model, data, symmetrized=symmetrized)
            wanted = [float(x) for x in (psi.sum(), phi, len(psi), psi.square().sum(), len(psi) * phi**2)]
            told_parts = [parts.alpha, parts.coadaptation, parts.width, parts.regularizer, parts.effective_width]
            for one, value in zip(told_parts, wanted, strict=True):
                found.append(compare(one, "==", scale * value, f"split, {label}"))
    offsets = ReLUNet(biased.weights, [biased.biases[0], torch.zeros(2).double()])  # of the hidden layer alone
    here, there = (weights @ hidden("biased", points).square() for points in (inputs, -inputs))
    energy = (here + there) / 2
    psi = offsets.weights[-1].square().sum(0).sqrt() * energy.sqrt()
    found.append(compare(flows(offsets, data, symmetrized=True), "==", scale * psi, "flows, symmetrized with offsets"))
    known = Moments.of_sample(data)
    quick = flows(plain, known, symmetrized=True)
    found.append(compare(quick, "==", scale * flows(plain, data, symmetrized=True), "from moments"))
    found.append(compare(flows(factors, known), "==", scale * flows(factors, data), "factors from moments"))
    found.append(compare(evenness(tensor([1e-200, -1e-200, 0.0])), "==", scale * math.sqrt(2 / 3), "tiny flows"))
    dead = ReLUNet([-torch.ones(2, 1).double(), torch.ones(1, 2).double()])
    found.append(compare(flows(dead, Sample(torch.ones(1, 1).double(), torch.ones(1, 1).double())), "==", 0.0, "none"))
    both = TwoLayerLinear(normal(12, 2, 2, 4), normal(13, 2, 3, 4))
    each = [TwoLayerLinear(U, V) for U, V in zip(both.U, both.V, strict=True)]
    for measure in (flows, alpha, coadaptation, importance):
        apart = torch.stack([measure(one, data) for one in each])
        found.append(compare(measure(both, data), "==", scale * apart, f"{measure.__name__} of two networks"))
    return [*found, *_silent(scale, data), *_retained(scale), *_kept(models, data, scale)]


def _silent(scale: float, data: Sample) -> list[Comparison]:
    """Derivatives of the squared size, beside those of the other units alone where one carries nothing."""
    found: list[Comparison] = []
    top, first = normal(10, 2, 4), normal(11, 3, 4)
    top[:, 1], first[:, 2] = 0.0, 0.0  # nothing is passed on by the one, nothing reaches the other
    for name, build in (
        ("linear", TwoLayerLinear),
        ("rectified", lambda u, v: ReLUNet([v.mT, u], [torch.zeros(u.shape[1]).double(), torch.zeros(2).double()])),
    ):
        slopes = []
        for units in (range(4), (0, 3)):
            leaves = [part[:, list(units)].clone().requires_grad_() for part in (top, first)]
            size = alpha(build(*leaves), data, symmetrized=True).square()
            slopes.append(torch.autograd.grad(size, leaves))
        for number, (whole, few) in enumerate(zip(*slopes, strict=True)):
            wanted = torch.zeros_like(whole)
            wanted[:, [0, 3]] = scale * few
            found.append(compare(whole, "==", wanted, f"derivative {number} with silent units, {name}"))
    return found


def _retained(scale: float) -> list[Comparison]:
    """The worst half-space on a grid of directions; signs that are drawn."""
    found: list[Comparison] = []
    for size, count, side in ((1, 5, 1.0), (1, 5, -1.0), (2, 9, 1.0), (2, 9, -1.0), (3, 15, 1.0)):
        points, weights = side * (normal(size, count, size) + 0.2), simplex(size, count)
        if size == 1:
            ways = tensor([[1.0], [-1.0]])
        elif size == 2:
            turn = torch.linspace(0, 2 * math.pi, 20_001).double()
            ways = torch.stack([turn.cos(), turn.sin()], 1)
        else:
            turn, height = torch.linspace(0, 2 * math.pi, 361).double(), torch.linspace(-1, 1, 361).double()
            grid = torch.cartesian_prod(turn, height)
            ring = (1 - grid[:, 1].square()).clamp_min(0).sqrt()
            ways = torch.stack([ring * grid[:, 0].cos(), ring * grid[:, 0].sin(), grid[:, 1]], 1)
        products = points @ ways.mT
        shares = (weights @ torch.relu(products).square()) / (weights @ products.square())
        told = retentivity(Sample(points, torch.zeros(count, 1).double(), weights))
        own = points @ told.direction
        reached = (weights @ torch.relu(own).square()) / (weights @ own.square())
        found.append(compare(told.value, "==", reached, f"the direction attains it, {size}"))
        found.append(compare(told.value, "<=", shares.min(), f"no direction is worse, {size}"))
        found.append(compare(told.value, "==", scale * shares.min(), f"retentivity, {size}", precision=2e-3))
        found.append(compare([told.rank, told.examples], "==", [size, count], f"rank and examples, {size}"))
        found.append(compare(told.direction.norm(), "==", scale, f"of unit length, {size}"))
        found.append(compare(float(told.exact), "==", float(size <= 2), f"exact up to two, {size}"))
    flat = normal(4, 9, 2) @ normal(5, 2, 4)
    plane = retentivity(flat)
    found.append(compare([plane.rank, float(plane.exact)], "==", tensor([2.0, 1.0]) * scale, "in a plane"))
    for side in (1.0, -1.0):
        positive = retentivity(side * normal(6, 7, 3).abs())
        found.append(compare(positive.value, "==", 0.0, "non-negative data"))
        found.append(compare(float((side * positive.direction <= 0).all()), "==", 1.0, "away from all of them"))
        dark = side * torch.relu(normal(6, 20, 3))
        shut = retentivity(dark)
        ends = [1 + shut.value, float((dark @ shut.direction).max()), float((shut.direction**2).sum())]
        found.append(compare(ends, "==", [scale, 0.0, 1.0], "data with zeros"))
    wide = retentivity(normal(7, 4, 6))
    found.append(compare(wide.value, "==", 0.0, "few examples lie in a half-space"))
    images = Sample(normal(8, 6, 2, 2), normal(9, 6, 1), simplex(1, 6))
    both = symmetrize(images)
    assert both.weights is not None
    assert images.weights is not None
    found.append(compare(both.inputs, "==", scale * torch.cat([images.inputs, -images.inputs]), "both signs"))
    found.append(compare(both.weights, "==", torch.cat([images.weights, images.weights]), "their weights"))
    found.append(compare(both.targets, "==", scale * torch.cat([images.targets, images.targets]), "their targets"))
    drawn = symmetrize(images, torch.Generator().manual_seed(3))
    signs = torch.randint(0, 2, (6,), generator=torch.Generator().manual_seed(3)) * 2.0 - 1
    found.append(compare(drawn.inputs, "==", scale * images.inputs * signs[:, None, None], "drawn signs"))
    found.append(compare(drawn.targets, "==", scale * images.targets, "targets stay"))
    even = retentivity(symmetrize(Sample(normal(10, 9, 2), torch.zeros(9, 1).double())))
    found.append(compare(even.value, "==", scale / 2, "symmetric data"))
    return found


def _signed(scale: float) -> Comparison:
    """Units stay where their mask is not zero, whatever its sign."""
    signed = Discrete(tensor([[-1.0, 0.5, 0.0], [2.0, 0.0, -3.0]]), tensor([0.5, 0.5]))
    rows = draw(signed, 20, torch.Generator().manual_seed(2)).unique(dim=0)
    return compare(rows, "==", scale * tensor([[1, 0, 1], [1, 1, 0]]), "units of masks with signs")


def _kept(models: dict[str, tuple[Model, Tensor]], data: Sample, scale: float) -> list[Comparison]:
    """Sub-networks one by one."""
    found: list[Comparison] = []
    labels = torch.arange(12) % 2
    for name, (model, top) in models.items():
        units = top.shape[1]
        kept = torch.tensor(list(itertools.product((True, False), repeat=units)))

        def outputs(mask: Tensor, model: Model = model, units: int = units) -> Tensor:
            before = model.units - units if isinstance(model, ReLUNet) else 0
            return model.outputs(data.inputs, torch.cat([torch.ones(before).double(), mask]))

        known = Sample(data.inputs, labels, data.weights)
        full = float((outputs(torch.ones(units).double()).argmax(1) == labels).double() @ known.shares)
        for factor in (1.0, 1.7):
            wanted = torch.stack([outputs(factor * mask.double()) for mask in kept])
            told = subnetwork_outputs(model, data.inputs, kept, scale=factor)
            found.append(compare(told, "==", scale * wanted, f"outputs of all, {name}, {factor}"))
            right = (wanted.argmax(-1) == labels).double() @ known.shares
            judged = evaluate(model, known, kept, scale=factor)
            found.append(compare(judged.accuracies, "==", scale * right, f"accuracies, {name}, {factor}"))
            found.append(compare(judged.widths, "==", kept.sum(1), f"widths, {name}"))
            found.append(compare(judged.full, "==", full, f"of the whole, {name}"))
            found.append(compare(judged.gap, "==", full - right.mean(), f"gap, {name}"))
            middle = torch.quantile(right, tensor([0.05, 0.5, 0.95]))
            found.append(compare(judged.quantiles(), "==", middle, f"quantiles, {name}"))
        psi = flows(model, known)
        for order in (psi.argsort(descending=True), torch.arange(units)):
            curve = []
            for width in range(units + 1):
                mask = torch.zeros(units).double()
                mask[order[:width]] = float(psi.sum() / psi[order[:width]].sum()) if width else 1.0
                curve.append(float((outputs(mask).argmax(1) == labels).double() @ known.shares))
            told_curve = accuracy_by_width(model, known, order)
            found.append(compare(told_curve, "==", [scale * one for one in curve], f"by width, {name}"))
        least = smallest(model, known, 0.1, draws=2)
        again = evaluate(model, known, least.kept[None], scale=least.scale)
        found.append(compare(least.accuracy, "==", scale * again.accuracies[0], f"accuracy of the smallest, {name}"))
        found.append(compare(least.accuracy, ">=", full - 0.1, f"within the tolerance, {name}"))
        wanted = tensor([least.kept.sum(), full, scale * psi.sum() / psi[least.kept].sum() if least.width else 1.0])
        found.append(compare([least.width, least.full, least.scale], "==", wanted, f"its fields, {name}"))
        short = next(width for width in range(units + 1) if accuracy_by_width(model, known)[width] >= full - 0.1)
        found.append(compare(least.width, "<=", short, f"no larger than by flow, {name}"))
        smaller: Any = export(model, known, kept[5], scale=1.5)
        found.append(compare(smaller(data.inputs), "==", scale * outputs(1.5 * kept[5].double()), f"exported, {name}"))
    model = models["plain"][0]
    one = ReLUNet([normal(4, 4, 3), normal(5, 1, 4)])
    signs = torch.where(torch.arange(12) % 2 > 0, 1.0, -1.0).double()
    right = (one.outputs(data.inputs)[:, 0] * signs > 0).double().mean()
    told_signs = evaluate(one, Sample(data.inputs, signs), torch.ones(1, 4).bool())
    found.append(compare(told_signs.full, "==", scale * right, "one output and signs"))
    hot = Sample(data.inputs, nn.functional.one_hot(labels, 2).double())
    told_hot = evaluate(model, hot, torch.ones(1, 4).bool())
    found.append(compare(told_hot.full, "==", evaluate(model, Sample(data.inputs, labels), torch.ones(1, 4)).full))
    coins = torch.rand(30, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(2)) >= 0.4
    drawn = draw(Bernoulli(0.4, 4), 30, torch.Generator().manual_seed(2))
    found += [compare(drawn, "==", scale * coins, "drawn sub-networks"), _signed(scale)]
    calls = (
        ("kept", lambda: subnetwork_outputs(model, data.inputs, torch.ones(1, 5))),
        ("model", lambda: subnetwork_outputs(ReLUNet([normal(4, 2, 4, 3), normal(5, 2, 2, 4)]), data.inputs, kept)),
        ("kept", lambda: export(model, data, torch.zeros(4))),
        ("previous", lambda: export(models["module"][0], data, torch.ones(4), previous="7")),
        ("data", lambda: flows(model, Moments.of_sample(data))),
        ("data", lambda: flows(models["biased"][0], Moments.of_sample(data), symmetrized=True)),
        ("data", lambda: flows(models["deep"][0], Moments.of_sample(data), symmetrized=True)),
        ("data", lambda: retentivity(torch.zeros(3, 2).double())),
        ("order", lambda: accuracy_by_width(model, Sample(data.inputs, labels), torch.arange(3))),
        ("values", lambda: evenness(torch.zeros(0))),
    )
    return [*found, *(compare(refused(call, name), "==", 1.0, f"refusal of {name}") for name, call in calls)]
