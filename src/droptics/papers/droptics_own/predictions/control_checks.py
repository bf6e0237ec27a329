"""What the claim on sampled networks compares of controls: what they are, their weights, the intervals they leave."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from droptics.evidence.claims import Comparison, compare
from droptics.masks import Bernoulli, Product
from droptics.models import ReLUNet
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.predictions.moment_checks import moments_of, network, network_masks, network_moments
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import normal, tensor, uniform
from droptics.penalties import MonteCarlo
from droptics.predictions import predictive
from droptics.predictions.controls import Atoms, Plan, Slopes, build, draw
from droptics.predictions.mixtures import conditional
from droptics.predictions.sampling import sample, sampled_moments

Rates = tuple[Tensor, ...]
Pair = tuple[Tensor, Tensor]
WIDTHS = (3, 9, 4, 2)
LAST = tensor([0.4, 0.1, 0.3, 0.6])
NINE = torch.linspace(0.1, 0.7, 9).double()
# Two coins that may fall, few of which do or hardly any: listed and stratified, the other site with a gradient.
FEW, RARE, MANY = tensor([0.1, 0.0, 0.2]), tensor([0.02, 0.03, 0.04]), tensor([0.5, 0.3, 0.6])
CASES: tuple[tuple[str, Rates, int], ...] = (
    ("atoms, gradient, strata", (FEW, NINE, LAST), 60),
    ("atoms, gradient, strata, rare", (RARE, NINE, LAST), 60),
    ("atoms, main effects", (MANY, NINE, LAST), 200),
    ("atoms, main effects, strata", (MANY, NINE / 9, LAST), 120),
)


def network_controls(scale: float) -> list[Comparison]:
    """Sampled moments against all masks; controls, their weights and the intervals around what they leave."""
    return by_parts((network_moments, _built, _weighed, _estimated, _unseen), scale)


def _given(net: ReLUNet, inputs: Tensor, rates: Rates, masks: Tensor) -> Pair:
    """Mean and variance of the outputs over the last mask, (masks, examples, outputs), given the earlier ones.

    One multiplier for all examples, or one for each.
    """
    first, second = (masks if masks.ndim == 3 else masks[:, None]).split([3, 9], -1)
    hidden = torch.relu((inputs * first) @ net.weights[0].mT + net.biases[0])
    hidden = torch.relu((hidden * second) @ net.weights[1].mT + net.biases[1])
    odds = rates[2] / (1 - rates[2])
    return hidden @ net.weights[2].mT + net.biases[2], (odds * hidden.square()) @ net.weights[2].square().mT


def _slopes(net: ReLUNet, inputs: Tensor, rates: Rates) -> Pair:
    """Derivatives of both by every early multiplier at one, (units, examples, outputs)."""
    ones = torch.ones(1, len(inputs), 12, dtype=torch.float64, requires_grad=True)
    found = []
    for values in _given(net, inputs, rates, ones):
        slopes = [torch.autograd.grad(values[..., k].sum(), ones, retain_graph=True)[0][0] for k in range(2)]
        found.append(torch.stack(slopes, -1).movedim(1, 0))
    return found[0], found[1]


def _one_site(rates: Tensor) -> Pair:
    """Multipliers of the first site under all masks, the other units at one, and their chances."""
    kept = tensor(list(itertools.product((0.0, 1.0), repeat=len(rates))))
    chances = torch.where(kept > 0, 1 - rates, rates).prod(1)
    others = torch.ones(len(kept), 9, dtype=torch.float64)
    return torch.cat([kept / (1 - rates), others], 1), chances


def _expected(net: ReLUNet, inputs: Tensor, rates: Rates, kind: str, masks: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """A control for centers and one for variances under early masks, both of mean zero, and the variance of the first.

    Atoms: what the first mask alone changes, nothing for the last masks that are less likely together than 1/1024.
    Gradient and main effects: a sum over the units of the second site.
    """
    if kind == "atoms":
        alone, chances = _one_site(rates[0])
        order = chances.argsort(descending=True)
        rare = order[chances[order].cumsum(0) - chances[order] >= 1 - 1 / 1024]
        place = (masks[:, None, :3] - alone[:, :3]).abs().amax(-1).argmin(1)
        quiet = _given(net, inputs, rates, torch.ones(1, 12, dtype=torch.float64))
        every = zip(_given(net, inputs, rates, alone), quiet, strict=True)
        off = [(part - plain).index_fill(0, rare, 0.0) for part, plain in every]
        off = [part - torch.tensordot(chances, part, 1) for part in off]
        return off[0][place], off[1][place], torch.tensordot(chances, off[0].square(), 1)
    if kind == "gradient":
        slopes = [part[3:] for part in _slopes(net, inputs, rates)]
    else:
        high = 1 / (1 - rates[1])
        ends = []
        for value in (high, torch.zeros_like(high)):
            moved = torch.ones(9, 12, dtype=torch.float64)
            moved[torch.arange(9), 3 + torch.arange(9)] = value
            ends.append(_given(net, inputs, rates, moved))
        slopes = [(above - below) / high[:, None, None] for above, below in zip(*ends, strict=True)]
    odds = rates[1] / (1 - rates[1])
    first, second = (torch.tensordot(masks[:, 3:] - 1, part, 1) for part in slopes)
    return first, second, torch.tensordot(odds, slopes[0].square(), 1)


def _law(rates: Rates) -> Product:
    return Product([Bernoulli(one, len(one)) for one in rates])


def _built(scale: float) -> list[Comparison]:
    """Every control of a plan by definition: under drawn masks, of centers and variances, and its own variance."""
    found: list[Comparison] = []
    net, inputs = network(6, *WIDTHS), normal(5, 4, 3)
    for name, rates, samples in CASES:
        problem = conditional(net, inputs, _law(rates))
        plain, plan = problem.plain(), Plan.of(problem, samples, 2)
        draws = draw(problem, plan, samples, torch.Generator().manual_seed(1))
        masks = draws.multipliers
        kept = masks * (1 - torch.cat(rates[:2]))
        found.append(compare(kept * (1 - kept), "==", 0.0, f"multipliers of coins, {name}"))
        controls = build(problem, plan, plain)
        kinds = ["atoms" if isinstance(one, Atoms) else one.kind for one in controls]
        found.append(same(", ".join(kinds), name.partition(", strata")[0], f"kinds, {name}"))
        found.append(same(len(draws.strata.sizes), 3 if "strata" in name else 1, f"strata, {name}"))
        for kind, control in zip(kinds, controls, strict=True):
            mean, noise, variance = _expected(net, inputs, rates, kind, masks)
            found.append(compare(control.control(draws), "==", scale * mean, f"{kind} of centers, {name}"))
            found.append(compare(control.noise_control(draws), "==", scale * noise, f"{kind} of variances, {name}"))
            found.append(compare(control.variance(), "==", scale * variance, f"variance of {kind}, {name}"))
            if isinstance(control, Slopes):
                off = control.slopes[..., :3].abs().amax() + control.noise[..., :3].abs().amax()
                found.append(compare(off, "==", 0.0, f"{kind} of one site alone, {name}"))
    return found


def _fitted(parts: Sequence[Tensor], wanted: Tensor, variance: Tensor, shares: Tensor) -> Tensor:
    """Weights of parts by least squares, in deviations and with the shares of the masks."""
    scale = (shares[:, None, None] / variance).sqrt()
    rows = torch.stack([(part * scale).flatten() for part in parts], 1)
    return torch.from_numpy(np.linalg.lstsq(rows.numpy(), (wanted * scale).flatten().numpy(), rcond=None)[0])


def _weighed(scale: float) -> list[Comparison]:
    """Controls and those of variances with their weights, and the variance of their sum as they are independent."""
    found: list[Comparison] = []
    net, inputs = network(6, *WIDTHS), normal(5, 4, 3)
    for name, rates, samples in CASES:
        problem = conditional(net, inputs, _law(rates))
        method = MonteCarlo(samples, seed=1)
        masks = draw(problem, Plan.of(problem, samples, 2), samples, torch.Generator().manual_seed(1)).multipliers
        told = sample(problem, method)
        sizes = told.strata.sizes
        shares = torch.cat([torch.full((n,), c / n).double() for c, n in zip(told.strata.chances, sizes, strict=True)])
        quiet = _given(net, inputs, rates, torch.ones(1, 12, dtype=torch.float64))[0]
        centers, noise = _given(net, inputs, rates, masks)
        kinds = name.partition(", strata")[0].split(", ")
        parts = [_expected(net, inputs, rates, kind, masks) for kind in kinds]
        weights = _fitted(
            [part[0] for part in parts], centers - quiet, torch.stack([part[2] for part in parts]).sum(0), shares
        )
        control = sum(weight * part[0] for weight, part in zip(weights, parts, strict=True))
        known = sum(weight**2 * part[2] for weight, part in zip(weights, parts, strict=True))
        spread = torch.tensordot(shares, sum(part[1].square() for part in parts), 1)
        others = _fitted([part[1] for part in parts], noise - torch.tensordot(shares, noise, 1), spread, shares)
        left = noise - sum(weight * part[1] for weight, part in zip(others, parts, strict=True))
        found.append(compare(told.moved, "==", scale * (centers - quiet), f"moved, {name}"))
        found.append(compare(told.control, "==", scale * control, f"weighed controls, {name}", precision=1e-8))
        found.append(compare(told.known, "==", scale * known, f"known variance, {name}", precision=1e-8))
        found.append(compare(told.noise, "==", scale * left, f"variances without control, {name}", precision=1e-8))
        words = ", ".join(f"{kind} x {float(one):.2f}" for kind, one in zip(kinds, weights, strict=True))
        found.append(same(f"control: {words}" in told.words, True, f"in words, {name}: {told.words}"))
    return found


def _estimated(scale: float) -> list[Comparison]:
    """Means, variances and their Student intervals, group by group, from controls and what they leave.

    The degrees of freedom are two over the relative variance of the squared error, which fourth moments give, or those
    of the masks, less one for every group and control.
    """
    found: list[Comparison] = []
    net, inputs = network(6, *WIDTHS), normal(5, 4, 3)
    for (name, rates, samples), controlled in itertools.product(CASES, (True, False)):
        problem, label = conditional(net, inputs, _law(rates)), f"{name}, {controlled}"
        method = MonteCarlo(samples, seed=1, confidence=0.9)
        told = sample(problem, method, controlled)
        answer = predictive(net, inputs, _law(rates), method) if controlled else None
        mean, variance = sampled_moments(problem, method, False) if answer is None else (answer.mean, answer.variance)
        rest, groups = told.moved - told.control, list(zip(told.strata.chances, told.strata.sizes, strict=True))
        sizes = [size for _, size in groups]

        def average(values: Tensor, groups: list[tuple[float, int]] = groups, sizes: list[int] = sizes) -> Tensor:
            means = [part.mean(0) for part in values.split(sizes)]
            return torch.stack([c * one for (c, _), one in zip(groups, means, strict=True)]).sum(0)

        def joint(a: Tensor, b: Tensor, groups: list[tuple[float, int]] = groups, sizes: list[int] = sizes) -> Tensor:
            pairs = zip(groups, a.split(sizes), b.split(sizes), strict=True)
            each = [c**2 / n / (n - 1) * ((x - x.mean(0)) * (y - y.mean(0))).sum(0) for (c, n), x, y in pairs]
            return torch.stack(each).sum(0)

        center = average(rest)
        off = rest - center
        terms = 2 * told.control * off + off.square() + told.noise
        value = told.known + average(terms) + joint(rest, rest + 2 * told.control)
        found.append(compare(mean.value, "==", scale * (told.plain.center + center), f"mean, {label}"))
        found.append(compare(variance.value, "==", scale * value, f"variance, {label}"))
        errors = [joint(part, part) for part in (rest, terms)]
        free = [_degrees(part, error, groups, told.fitted) for part, error in zip((rest, terms), errors, strict=True)]
        if free[1] < 6:
            found.append(same("withheld" in variance.method, True, f"withheld, {label}"))
            continue
        half = [float(stats.t.ppf(0.95, f)) * error.sqrt() for f, error in zip(free, errors, strict=True)]
        ratio = half[1] / value
        found.append(compare(mean.upper, "==", scale * (told.plain.center + center + half[0]), f"upper mean, {label}"))
        found.append(compare(mean.lower, "==", scale * (told.plain.center + center - half[0]), f"lower mean, {label}"))
        found.append(compare(variance.upper, "==", scale * value * ratio.exp(), f"upper variance, {label}"))
        found.append(compare(variance.lower, "==", scale * value * (-ratio).exp(), f"lower variance, {label}"))
    few = predictive(net, inputs, _law((MANY, NINE / 20, LAST)), MonteCarlo(15, seed=3))
    ends = [(float(part.lower.max()), float(part.upper.min())) for part in (few.mean, few.variance)]
    found.append(same(ends, [(-math.inf, math.inf), (0.0, math.inf)], f"ends that are withheld: {few.mean.method}"))
    shown = sum("lower variance" in one.label for one in found)
    return [*found, same(shown >= 4, True, f"intervals that are shown: {shown}")]


def _unseen(scale: float) -> list[Comparison]:
    """What no mask shows: a unit that falls once in ten thousand and alone moves the output; and no control at all."""
    found: list[Comparison] = []
    weights = [tensor([[-10.0, 1.0, 0.0], [0.0, 1.0, 1.0]]), tensor([[100.0, 1.0]])]
    net, inputs = ReLUNet(weights, [tensor([8.0, 1.0]), tensor([0.0])]), torch.ones(1, 3, dtype=torch.float64)
    rates = [[1e-4, 0.5, 0.5], [0.2, 0.2]]
    law = Product([Bernoulli(tensor(rate), len(rate)) for rate in rates])
    truth = moments_of(*network_masks(net, inputs, rates))[1]
    told = predictive(net, inputs, law, MonteCarlo(600, seed=0)).variance
    found.append(compare(told.upper, "<", 0.9 * truth, "a variance that is missed"))
    net = ReLUNet([0.1 + uniform(1, 4, 40), normal(2, 2, 4)], [torch.zeros(4).double(), torch.zeros(2).double()])
    inputs = 0.1 + uniform(3, 2, 40)
    law = Product([Bernoulli(0.3, 40), Bernoulli(0.5, 4)])
    for samples, exact in ((24, True), (15, False)):
        mean = predictive(net, inputs, law, MonteCarlo(samples, seed=1)).mean
        wanted = scale * net.outputs(inputs)
        found.append(compare(mean.value, "==" if exact else "!=", wanted, f"linear, {samples} masks"))
        found.append(same("no control" in mean.method, not exact, f"{samples} masks: {mean.method}"))
    return found


def _degrees(terms: Tensor, error: Tensor, groups: list[tuple[float, int]], fitted: int) -> float:
    """Degrees of freedom of a squared error, pooled over the outputs."""
    total = torch.zeros_like(error)
    for (c, n), part in zip(groups, terms.split([size for _, size in groups]), strict=True):
        off = part - part.mean(0)
        second, fourth = off.square().mean(0), off.pow(4).mean(0)
        normal_one = 2 * n / (n - 1) * second.square()
        total = total + (c**2 / (n - 1)) ** 2 / n * torch.maximum(fourth - second.square(), normal_one)
    relative = float((total / error.square()).mean())
    return min(max(1.0, len(terms) - len(groups) - float(fitted)), 2 / relative)
