"""What the claims on predictions compare: means, variances and scores against sums over all masks."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import torch
from scipy.stats import chi2, norm
from torch import Tensor, nn

from droptics.arrays import Array
from droptics.estimates import Estimate
from droptics.evidence.claims import Comparison, compare
from droptics.masks import Bernoulli, Block, Gaussian, MaskLaw, Product
from droptics.models import DeepLinear, ReLUNet, TwoLayerLinear
from droptics.papers.droptics_own.audits.audit_checks import every_coin, every_mask, places, stack
from droptics.papers.instances import normal, tensor, uniform
from droptics.penalties import Enumerate, MonteCarlo, SecondOrder
from droptics.predictions import (
    Closure,
    Predictive,
    calibration,
    conformal_factor,
    expected_calibration_error,
    fit_noise,
    predictive,
)
from droptics.predictions.approximations import rectified
from droptics.predictions.strata import Strata, allocate, count_chances, draw_counted

WITHIN = "squared errors of means and variances, in those of the intervals"


def moments_of(outputs: Tensor, chances: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, variance and covariance of listed outputs (masks, examples, outputs)."""
    mean = torch.tensordot(chances, outputs, dims=1)
    moved = outputs - mean
    joint = torch.einsum("m,mni,mnj->nij", chances, moved, moved)
    return mean, joint.diagonal(dim1=-2, dim2=-1), joint


def network_masks(net: ReLUNet, inputs: Tensor, rates: list[list[float]]) -> tuple[Tensor, Tensor]:
    """Outputs of a ReLU network under all masks of its layers' inputs, and their probabilities."""
    kept, chances = every_coin([rate for layer in rates for rate in layer])
    hidden = inputs
    for number, part in enumerate(kept.split([len(layer) for layer in rates], -1)):
        hidden = torch.relu(hidden) if number else hidden
        hidden = hidden * (part / (1 - tensor(rates[number])))[:, None, :]
        hidden = hidden @ net.weights[number].mT + net.biases[number]
    return hidden, chances


def network(seed: int, *sizes: int) -> ReLUNet:
    """A ReLU network with offsets."""
    pairs = list(itertools.pairwise(sizes))
    weights = [normal(seed + i, after, before) for i, (before, after) in enumerate(pairs)]
    return ReLUNet(weights, [normal(seed + 20 + i, after) for i, (_, after) in enumerate(pairs)])


def module_moments(scale: float) -> list[Comparison]:
    """Moments of torch modules under their own dropout: head alone, listed early masks, sampled, first order."""
    inputs, found = normal(1, 4, 3), []
    head, deep = stack((3, 5, 2), (0.3,), nn.Tanh), stack((3, 4, 3, 2), (0.1, 0.3, 0.2), nn.ReLU, seed=3)
    with torch.no_grad():
        for name, module in (("head", head), ("listed", deep)):
            truth = moments_of(*every_mask(module, inputs, places(module)))
            ours = predictive(module, inputs)
            found.append(compare(ours.mean.value, "==", truth[0], f"mean, {name}"))
            found.append(compare(ours.variance.value, "==", scale * truth[1], f"variance, {name}"))
            found.append(compare(ours.covariance.value, "==", scale * truth[2], f"covariance, {name}"))
            found.append(compare(ours.std, "==", (scale * truth[1]).sqrt(), f"deviation, {name}"))
            outputs, chances = every_mask(module, inputs, places(module))
            told = ours.classes()
            shares = outputs.softmax(-1)
            mixed = torch.tensordot(chances, shares, dims=1)
            entropy = -(mixed * mixed.log()).sum(-1)
            inside = -torch.tensordot(chances, (shares * shares.log()).sum(-1), dims=1)
            found.append(compare(told.probabilities.value, "==", mixed, f"class probabilities, {name}"))
            found.append(compare(told.entropy.value, "==", entropy, f"entropy, {name}"))
            found.append(compare(told.mutual_information.value, "==", entropy - inside, f"information, {name}"))
        wide = stack((3, 7, 3, 2), (0.1, 0.3, 0.2), nn.ReLU, seed=4)
        outputs, chances = every_mask(wide, inputs, places(wide))
        truth, mixed = moments_of(outputs, chances), torch.tensordot(chances, outputs.softmax(-1), dims=1)
        errors, joint = [], torch.zeros_like(truth[2])
        for seed in range(2, 10):
            ours = predictive(wide, inputs, method=MonteCarlo(200, seed=seed))
            found += sampled(ours, truth, scale, "module")
            found += _covered(ours.classes().probabilities, mixed, "class probabilities")
            errors.append(_standardized(ours, (truth[0], scale * truth[1])))
            joint += ours.covariance.value / 8
        moved = outputs - truth[0]
        spread = torch.einsum("m,mni,mnj->nij", chances, moved.square(), moved.square()) - truth[2].square()
        # the exact last mask only lowers this error of 1600 masks
        off = (joint - scale * truth[2]).abs() / (spread / 1600).sqrt()
        found.append(compare(off, "<=", 5.0, "sampled covariances, in standard errors"))
        found.append(compare(torch.stack(errors).square().mean((0, 2, 3)), "<=", 2.0, WITHIN))
    first = predictive(deep, inputs, method=SecondOrder(check=None))
    with torch.no_grad():
        # slopes in the early masks by differences, the last mask exactly
        plain = deep.eval()(inputs)
        last = moments_of(*every_mask(deep, inputs, {6: 0.2}))[1]
        early = torch.zeros_like(last)
        for place, rate, size in ((0, 0.1, 3), (3, 0.3, 4)):
            for unit in range(size):
                moved = torch.ones(size, dtype=torch.float64)
                moved[unit] += 1e-6
                slope = (_with(deep, inputs, place, moved) - plain) / 1e-6
                early = early + rate / (1 - rate) * slope.square()
    found.append(compare(first.variance.value, "==", scale * (last + early), "first order", precision=1e-5))
    return found


def _with(module: nn.Sequential, inputs: Tensor, place: int, multipliers: Tensor) -> Tensor:
    for number, layer in enumerate(module):
        inputs = inputs * multipliers if number == place else inputs if isinstance(layer, nn.Dropout) else layer(inputs)
    return inputs


def sampled(ours: Predictive, truth: tuple[Tensor, Tensor, Tensor], scale: float, name: str) -> list[Comparison]:
    """Drawn moments: the truth within twice the half widths of their 99 % intervals, five standard errors."""
    found = []
    for part, wanted in ((ours.mean, truth[0]), (ours.variance, scale * truth[1])):
        found += _covered(part, wanted, name)
    return found


def _covered(part: Estimate, wanted: Tensor, name: str) -> list[Comparison]:
    middle, half = (part.upper + part.lower) / 2, (part.upper - part.lower) / 2
    # few draws may carry no interval at all, which has no middle
    off = torch.where(half.isinf(), 0.0, (wanted - middle).abs())
    return [compare(off, "<=", 2 * half, f"sampled, {name}")]


def network_moments(scale: float) -> list[Comparison]:
    """Sampled moments of ReLU networks with every kind of control, and the normal closure, against all masks."""
    found, inputs, errors = [], normal(5, 3, 3), []
    # few drops are stratified; small sites are listed; wide ones have main effects
    cases = {
        "stratified": ([0.02, 0.05, 0.03], [0.3] * 4, [0.2, 0.35, 0.1]),
        "listed": ([0.3, 0.2, 0.4], [0.3, 0.1, 0.5, 0.2], [0.1, 0.3, 0.2]),
        "inputs without masks": ([0.0, 0.0, 0.0], [0.5, 0.2, 0.0, 0.4], [0.4, 0.1, 0.3]),
    }
    net = network(6, 3, 4, 3, 2)
    for name, rates in cases.items():
        law = Product([Bernoulli(tensor(layer), len(layer)) for layer in rates])
        truth = moments_of(*network_masks(net, inputs, [list(layer) for layer in rates]))
        for samples, seed in ((600, 3), (600, 4), (600, 5), (600, 6), *(() if name == "stratified" else ((24, 3),))):
            ours = predictive(net, inputs, law, MonteCarlo(samples, seed=seed))
            found += sampled(ours, truth, scale, f"{name}, {samples} masks")
            if samples == 600:
                errors.append(_standardized(ours, (truth[0], scale * truth[1])))
                last = ours
        control = {"stratified": "stratified by drops", "listed": "atoms"}.get(name, "main effects")
        found.append(compare(float(control in last.mean.method), "==", 1.0, f"controls, {name}"))
        # controls make intervals narrower than those of plain draws, 1.96 deviations over the root of their number
        half = (last.mean.upper - last.mean.lower) / 2
        found.append(compare(half, "<=", 1.96 * (truth[1] / 600).sqrt(), f"narrow, {name}", precision=0.0))
        spread = (last.variance.upper - last.variance.lower) / 2
        found.append(compare(spread, "<=", truth[1] / 2, f"variance to a half, {name}", precision=0.0))
        listed = predictive(net, inputs, law, Enumerate())
        found.append(compare(listed.variance.value, "==", scale * truth[1], f"listed, {name}"))
    # one where intervals are as wide as they say, four where they are half of it
    squares = torch.stack(errors).square().mean((0, 2, 3))
    return [*found, compare(squares, "<=", 2.0, WITHIN), *_nothing_left(scale)]


def _nothing_left(scale: float) -> list[Comparison]:
    """Outputs that are linear in the early mask: each control takes all noise off the mean, with rates of their own."""
    found: list[Comparison] = []
    inputs = normal(4, 5, 3)
    for control, units, samples in (("gradient", 9, 30), ("atoms", 6, 60), ("main effects", 9, 200)):
        weights = [normal(1, units, 3), normal(2, 4, units), normal(3, 2, 4)]
        law = Product([Bernoulli(torch.linspace(0.1, 0.7, units).double(), units), Bernoulli(0.3, 4)])
        told = predictive(DeepLinear(weights), inputs, law, MonteCarlo(samples, seed=1))
        whole = torch.einsum("dc,cb,ba,na->nd", *weights[::-1], inputs)
        found.append(compare(told.mean.value, "==", scale * whole, f"nothing left of the mean, {control}"))
        named = f"control: {control} x 1.00" in told.mean.method
        found.append(compare(float(named), "==", 1.0, f"{control}: {told.mean.method}"))
    return found


def _standardized(ours: Predictive, truth: tuple[Tensor, Tensor]) -> Tensor:
    """Errors of mean and log variance over the standard errors of their 99 % intervals, (2, examples, outputs)."""
    parts = [(ours.mean.value, ours.mean.lower, ours.mean.upper, truth[0])]
    parts.append((ours.variance.value.log(), ours.variance.lower.log(), ours.variance.upper.log(), truth[1].log()))
    return torch.stack(
        [(value - wanted) / ((upper - lower) / 2 / norm.ppf(0.995)) for value, lower, upper, wanted in parts]
    )


def closures(scale: float) -> list[Comparison]:
    """Moments of max(u, 0) for normal u by quadrature, and the closure as the recursion that they make."""
    mean, root = tensor([[0.3, -0.7, 1.2]]), normal(1, 3, 3)
    spread = root @ root.mT
    center, joint = rectified(mean, spread[None])
    grid = torch.linspace(-9, 9, 1801, dtype=torch.float64)
    weight = torch.exp(-grid.square() / 2)
    weight = weight / weight.sum()
    found = []
    for i in range(3):
        own = torch.relu(mean[0, i] + spread[i, i].sqrt() * grid)
        found.append(compare(center[0, i], "==", scale * (weight @ own), f"mean {i}", precision=1e-5))
        for j in range(i):
            lower = torch.linalg.cholesky(spread[[i, j]][:, [i, j]])
            left = torch.relu(mean[0, i] + lower[0, 0] * grid)
            right = torch.relu(mean[0, j] + lower[1, 0] * grid[:, None] + lower[1, 1] * grid)
            value = (weight * left) @ (right @ weight) - (weight @ left) * (weight @ (right @ weight))
            found.append(compare(joint[0, i, j], "==", scale * value, f"covariance {i}{j}", precision=1e-5))
        second = weight @ own.square() - (weight @ own) ** 2
        found.append(compare(joint[0, i, i], "==", scale * second, f"variance {i}", precision=1e-5))
    net, inputs, rates = network(3, 3, 4, 2), normal(4, 2, 3), (0.2, 0.4)
    law = Product([Bernoulli(0.2, 3), Bernoulli(0.4, 4)])
    ours = predictive(net, inputs, law, Closure("full", check=None))
    lone = predictive(net, inputs, law, Closure("diagonal", check=None))
    for n, point in enumerate(inputs):
        first = net.weights[0] * point
        below = rates[0] / (1 - rates[0]) * first @ first.mT
        center, inner = rectified((net.weights[0] @ point + net.biases[0])[None], below[None])
        added = inner[0] + rates[1] / (1 - rates[1]) * torch.diag(inner[0].diagonal() + center[0].square())
        wanted = (net.weights[1] @ added @ net.weights[1].mT).diagonal()
        found.append(compare(ours.variance.value[n], "==", scale * wanted, f"closure, point {n}"))
        found.append(compare(ours.mean.value[n], "==", net.weights[1] @ center[0] + net.biases[1], "its mean"))
        own = net.weights[1].square() @ added.diagonal()
        found.append(compare(lone.variance.value[n], "==", scale * own, f"diagonal closure, point {n}"))
    found += _closed_twice(scale)
    flat = rectified(tensor([[0.4, -0.4]]), torch.zeros(1, 2, 2, dtype=torch.float64))
    found.append(compare(flat[0], "==", scale * tensor([[0.4, 0.0]]), "mean of what does not vary"))
    return [*found, compare(flat[1], "==", 0.0, "its variance")]


def _closed_twice(scale: float) -> list[Comparison]:
    """Two hidden layers: what leaves one normal enters the next, with its covariance or its variances alone."""
    found: list[Comparison] = []
    net, inputs = network(5, 3, 4, 3, 2), normal(6, 2, 3)
    rates = tuple(0.1 + 0.5 * uniform(seed, size) for seed, size in ((7, 3), (8, 4), (9, 3)))
    law = Product([Bernoulli(rate, len(rate)) for rate in rates])
    for kind in ("full", "diagonal"):
        told = predictive(net, inputs, law, Closure(kind, check=None))
        for n, point in enumerate(inputs):
            center, spread = point, torch.zeros(3, 3, dtype=torch.float64)
            for weight, bias, rate in zip(net.weights, net.biases, rates, strict=True):
                if weight is not net.weights[0]:
                    center, spread = (part[0] for part in rectified(center[None], spread[None]))
                spread = spread + torch.diag(rate / (1 - rate) * (spread.diagonal() + center.square()))
                center, spread = weight @ center + bias, weight @ spread @ weight.mT
                if kind == "diagonal":
                    spread = torch.diag(spread.diagonal())
            found.append(compare(told.mean.value[n], "==", scale * center, f"mean after two layers, {kind}"))
            found.append(compare(told.variance.value[n], "==", scale * spread.diagonal(), f"and variance, {kind}"))
    return found


def strata(scale: float) -> list[Comparison]:
    """Chances of none, one or more drops, sizes, weighed means, and which masks a stratum draws.

    Sizes: a share evenly, the rest in proportion, rounded down, at least two, what is left to the largest. Of the masks
    in each stratum the counts pass a chi-squared test that the right law fails once in 1e9.
    """
    found = []
    for rates, samples, evenly in (
        ((0.1, 0.05, 0.2), 6000, 0.5),
        ((0.5, 0.0, 0.3, 0.7), 3000, 0.2),
        ((0.01, 0.02), 40, 0.0),
        ((0.4,), 50, 0.2),
        ((0.0, 0.0), 30, 0.2),
    ):
        kept, chances = every_coin(list(rates))
        fallen, label = (1 - kept).sum(-1).clamp_max(2), f"rates {rates}"
        told = count_chances(tensor(rates))
        stated = [float(chances[fallen == count].sum()) for count in range(3)]
        found.append(compare(told, "==", [scale * chance for chance in stated], f"chances, {label}"))
        plan = allocate(told, samples, evenly)
        possible = [count for count in range(3) if stated[count] > 0]
        shares = [(1 - evenly) * stated[count] + evenly / len(possible) for count in possible]
        sizes = [max(2, math.floor(samples * share)) for share in shares]
        sizes[sizes.index(max(sizes))] += samples - sum(sizes)
        found.append(compare(plan.sizes, "==", [scale * size for size in sizes], f"masks of every stratum, {label}"))
        found.append(compare(plan.chances, "==", [stated[count] for count in possible], f"of the plan, {label}"))
        drawn = draw_counted(tensor(rates), plan, torch.Generator().manual_seed(1))
        drops = (1 - drawn).sum(-1).clamp_max(2)
        found.append(compare(drops, "==", tensor(possible).repeat_interleave(torch.tensor(sizes)), f"drops, {label}"))
        for count, part in zip(possible, drawn.split(plan.sizes), strict=True):
            masks, odds = kept[fallen == count], chances[fallen == count]
            expected = len(part) * odds / odds.sum()
            seen = (part[:, None] == masks).all(-1).double().sum(0)
            found.append(compare(seen @ (expected == 0).double(), "==", 0.0, f"masks that cannot be, {label}"))
            off = ((seen - expected).square() / expected)[expected > 0].sum()
            limit = chi2.ppf(1 - 1e-9, max(int((expected > 0).sum()) - 1, 1))
            found.append(compare(off, "<=", limit, f"masks of {count} drops, {label}"))
    return [*found, *_weighed(scale)]


def _weighed(scale: float) -> list[Comparison]:
    """Means, covariances and fourth moments of strata, group by group, and of one group as of a plain sample."""
    found, values, others = [], normal(2, 12, 2), normal(3, 12, 2)
    small = Strata((0.5, 0.3, 0.2), (5, 3, 4))
    parts, other_parts = values.split((5, 3, 4)), others.split((5, 3, 4))
    weighed = sum(c * part.mean(0) for c, part in zip(small.chances, parts, strict=True))
    spread = sum(c * c * part.var(0) / len(part) for c, part in zip(small.chances, parts, strict=True))
    joint = sum(
        c * c * ((a - a.mean(0)) * (b - b.mean(0))).sum(0) / (len(a) - 1) / len(a)
        for c, a, b in zip(small.chances, parts, other_parts, strict=True)
    )
    found.append(compare(small.mean(values), "==", scale * weighed, "mean"))
    found.append(compare(small.covariance(values, values), "==", scale * spread, "its variance"))
    found.append(compare(small.covariance(values, others), "==", scale * joint, "covariance with others"))
    plain = Strata.none(12)
    found.append(compare(plain.mean(values), "==", scale * values.mean(0), "mean of one group"))
    found.append(compare(plain.covariance(values, values), "==", scale * values.var(0) / 12, "variance of one group"))
    found.append(compare(small.shares @ values, "==", scale * weighed, "weights"))
    fourth = torch.zeros(2, dtype=torch.float64)
    for c, part in zip(small.chances, parts, strict=True):
        moved, n = part - part.mean(0), len(part)
        second = moved.square().mean(0)
        own = torch.maximum(moved.pow(4).mean(0) - second.square(), 2 * n / (n - 1) * second.square()) / n
        fourth = fourth + (c * c / (n - 1)) ** 2 * own
    return [*found, compare(small.fourth(values), "==", scale * fourth, "variance of the variance")]


def _ranked(centers: Array, chances: Array, targets: Array, noise: float) -> float:
    """The mean ranked score of a mixture of normal laws: E|X - y| - E|X - X'| / 2, both in closed form."""

    def distance(mean: Array, deviation: float) -> Array:
        z = mean / deviation
        return 2 * deviation * norm.pdf(z) + mean * (2 * norm.cdf(z) - 1)

    near = chances @ distance(targets - centers, noise)
    apart = distance(centers[:, None] - centers, math.sqrt(2) * noise)
    return float((near - np.einsum("a,b,abn->n", chances, chances, apart) / 2).mean())


def _of_two_outputs(scale: float) -> list[Comparison]:
    """Each of two outputs on its own, with a noise of its own, by the mixture over all masks."""
    inputs, rates, noise = normal(1, 4, 3), [0.3, 0.1, 0.5], tensor([0.4, 0.9])
    model = TwoLayerLinear(normal(2, 2, 3), normal(3, 3, 3))
    kept, chances = every_coin(rates)
    centers = ((inputs @ model.V) * (kept / (1 - tensor(rates)))[:, None, :] @ model.U.mT).numpy()
    targets = model.outputs(inputs) + 0.5 * normal(4, 4, 2)

    def mixed(of: Any, value: Tensor) -> Tensor:
        return torch.tensordot(chances, tensor(of((value.numpy() - centers) / noise.numpy())), dims=1)

    ours = predictive(model, inputs, Bernoulli(tensor(rates), 3))
    density, (low, high) = ours.density(noise), ours.interval(0.8, noise)
    likelihood = (mixed(norm.pdf, targets) / noise).log()
    return [
        compare(ours.log_likelihood(targets, noise), "==", likelihood - math.log(scale), "likelihood, two outputs"),
        compare(density.pdf(targets), "==", scale * likelihood.exp(), "density, two outputs"),
        compare(density.cdf(targets), "==", scale * mixed(norm.cdf, targets), "distribution, two outputs"),
        compare(mixed(norm.cdf, low), "==", scale * 0.1, "lower ends, two outputs"),
        compare(mixed(norm.cdf, high), "==", 1 - scale * 0.1, "upper ends, two outputs"),
    ]


def _in_other_units(scale: float) -> list[Comparison]:
    """The fitted noise in two units, with one target that no mask reaches: its least density has a unit, too."""
    found: list[Comparison] = []
    inputs, V = normal(1, 40, 3), normal(3, 3, 3)
    for unit, far in ((2.0**-30, 3.5), (2.0**-30, 4.0)):
        noises = []
        for one in (1.0, unit):
            ours = predictive(TwoLayerLinear(one * normal(2, 1, 3), V), inputs, Bernoulli(0.2, 3))
            targets = ours.mean.value + 0.05 * one * normal(4, 40, 1)
            targets[0] += far * one
            noises.append(fit_noise(ours, targets) / one)
        found.append(compare(noises[1], "==", scale * noises[0], f"a target {far} off, small units", precision=2e-4))
    return found


def observations(scale: float) -> list[Comparison]:
    """Densities, intervals and scores of one output with normal noise, against the mixture over all masks."""
    found = []
    inputs, noise = normal(1, 5, 3), 0.4
    laws: dict[str, tuple[MaskLaw, list[float], int]] = {
        "coins": (Bernoulli(tensor([0.3, 0.1, 0.5, 0.2]), 4), [0.3, 0.1, 0.5, 0.2], 1),
        "blocks": (Block(tensor([0.3, 0.2]), 4, 2), [0.3, 0.2], 2),
    }
    model = TwoLayerLinear(normal(2, 1, 4), normal(3, 3, 4))
    targets = model.outputs(inputs) + 0.5 * normal(4, 5, 1)
    for name, (law, rates, repeat) in laws.items():
        kept, chances = every_coin(rates)
        multipliers = (kept / (1 - tensor(rates))).repeat_interleave(repeat, -1)
        centers = ((inputs @ model.V) * multipliers[:, None, :] @ model.U.mT).numpy()

        def mixed(of: Any, value: Tensor, centers: Any = centers, chances: Tensor = chances) -> Tensor:
            return tensor(of((value.numpy() - centers) / noise)).mul(chances[:, None, None]).sum(0)

        ours = predictive(model, inputs, law)
        likelihood = (mixed(norm.pdf, targets) / noise).log()
        density = ours.density(noise)
        low, high = ours.interval(0.8, noise)
        pit = mixed(norm.cdf, targets)
        found += [
            compare(ours.log_likelihood(targets, noise), "==", likelihood - math.log(scale), f"likelihood, {name}"),
            compare(density.pdf(targets), "==", scale * likelihood.exp(), f"density, {name}"),
            compare(density.cdf(targets), "==", scale * pit, f"distribution, {name}"),
            compare(mixed(norm.cdf, low), "==", scale * 0.1, f"lower end, {name}"),
            compare(mixed(norm.cdf, high), "==", 1 - scale * 0.1, f"upper end, {name}"),
        ]
        told = calibration(ours, targets, noise, levels=(0.5, 0.9))
        middle = torch.tensordot(chances, torch.from_numpy(centers), 1)
        variance = torch.tensordot(chances, (torch.from_numpy(centers) - middle).square(), 1)
        error = targets - middle
        inside = [((1 - level) / 2 <= pit) & (pit <= (1 + level) / 2) for level in (0.5, 0.9)]
        ratio = (error.abs() / (variance + noise**2).sqrt()).flatten().sort().values
        ranked = _ranked(centers[..., 0], chances.numpy(), targets[:, 0].numpy(), noise)
        found += [
            compare(told.nll, "==", -likelihood.mean() + math.log(scale), f"score, {name}"),
            compare(told.rmse, "==", scale * error.square().mean().sqrt(), f"error, {name}"),
            compare(told.pit, "==", scale * pit, f"values of the distribution, {name}"),
            compare(told.coverage, "==", [float(part.double().mean()) for part in inside], f"coverage, {name}"),
            compare(told.crps, "==", scale * ranked, f"ranked score, {name}", precision=0.01),
        ]
        for level, place in ((0.1, 0), (0.4, 2), (0.6, 3), (0.8, 4)):  # ceil(6 level)-th of five
            factor = conformal_factor(ours, targets, noise, level)
            found.append(compare(factor, "==", scale * ratio[place], f"conformal at {level}, {name}"))
        found.append(compare(conformal_factor(ours, targets, noise, 0.84), "==", math.inf, f"too few, {name}"))
        best, sizes = fit_noise(ours, targets), np.exp(np.linspace(-2, 2, 4001))
        off = (targets[:, 0].numpy() - centers[..., 0])[..., None] / sizes
        each = np.log(np.einsum("m,mns->ns", chances.numpy(), norm.pdf(off) / sizes)).mean(0)
        top = int(each.argmax())
        below, here, above = each[top - 1 : top + 2]
        # the top of the parabola through three points; the search ends within 1e-4 of it in the logarithm
        peak = sizes[top] * math.exp(0.001 * (above - below) / (4 * here - 2 * below - 2 * above))
        found.append(compare(best, "==", scale * peak, f"fitted noise, {name}", precision=5e-4, scale=0.0))
    found += [*_in_other_units(scale), *_of_two_outputs(scale)]
    normals = predictive(model, inputs, Gaussian(tensor([0.3, 0.1, 0.5, 0.2]), 4))
    spread = (normals.variance.value + noise**2).sqrt()
    wanted = tensor(norm.logpdf((targets - normals.mean.value) / spread)) - spread.log()
    found.append(compare(normals.log_likelihood(targets, noise), "==", wanted - math.log(scale), "normal noise"))
    shares, labels = normal(6, 40, 3).softmax(-1), torch.arange(40) % 3
    sure, chosen = shares.max(-1)
    total = 0.0
    for number in range(10):
        here = (sure * 10).long() == number
        total += float((sure[here] - (chosen[here] == labels[here]).double()).sum().abs()) / 40
    return [*found, compare(expected_calibration_error(shares, labels, 10), "==", scale * total, "calibration error")]
