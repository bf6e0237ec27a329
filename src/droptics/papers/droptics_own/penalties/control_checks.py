"""Controls of sampled predictions and what is made of them, from the same draws and by the definitions."""

from __future__ import annotations

import math

import numpy as np
import scipy.stats
import torch
from torch import Tensor

from droptics.evidence.claims import Comparison, compare
from droptics.masks import Bernoulli, Block, Gaussian, MaskLaw, Product
from droptics.models import ReLUNet
from droptics.papers.droptics_own.predictions.moment_checks import network
from droptics.papers.instances import normal, tensor
from droptics.penalties import MonteCarlo
from droptics.predictions.affine import Affine
from droptics.predictions.approximations import first_order
from droptics.predictions.controls import Atoms, Draws, Plan, Slopes, build, coin_places, draw
from droptics.predictions.mixtures import Conditional, MixtureMoments, conditional
from droptics.predictions.sampling import degrees_of_freedom, sample, sampled_moments, sampled_outcomes
from droptics.predictions.strata import Strata


def controls_in_full(scale: float) -> list[Comparison]:
    """Plans, listed masks, effects, slopes, weights, moments and intervals, all from the same draws."""
    found = [*_plans(), *_drawn(scale)]
    laws: dict[str, list[MaskLaw]] = {
        "listed and effects": [Bernoulli(tensor([0.3, 0.0, 0.5]), 3), Bernoulli(tensor([0.2, 0.4, 0.1, 0.3]), 4)],
        "counted": [Bernoulli(tensor([0.1, 0.2, 0.3]), 3), Bernoulli(0.4, 4)],
        "slopes": [Gaussian(0.2, 3), Gaussian(0.3, 4)],
    }
    net, inputs = network(1, 3, 4, 5, 2), normal(9, 6, 3)
    for name, early in laws.items():
        problem = conditional(net, inputs, Product([*early, Bernoulli(0.25, 5)]))
        found += _built(scale, net, inputs, problem, name)
        found += _moments(scale, problem, name)
    return found


def _run(net: ReLUNet, inputs: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance over the last mask, of rate 1/4, for one mask of the two sites before."""
    hidden = torch.relu((inputs * z[:3]) @ net.weights[0].mT + net.biases[0]) * z[3:]
    hidden = torch.relu(hidden @ net.weights[1].mT + net.biases[1])
    return hidden @ net.weights[2].mT + net.biases[2], hidden.square() @ net.weights[2].square().mT / 3


def _plans() -> list[Comparison]:
    """What is listed, what gets effects and slopes, what is stratified: by the rules."""
    found: list[Comparison] = []
    coins = Bernoulli(tensor([0.3, 0.0, 0.5]), 3)
    for name, laws, samples, outputs, wanted in (
        ("list", [coins], 2, 1, ((0,), (), False, None)),
        ("too many", [coins], 1, 1, ((), (), True, None)),
        ("the first", [coins, coins], 40, 1, ((0,), (1,), False, 0)),
        ("effects at an eighth", [Gaussian(0.1, 3), Bernoulli(0.5, 9)], 72, 9, ((), (1,), True, None)),
        ("fewer masks", [Gaussian(0.1, 3), Bernoulli(0.5, 9)], 71, 9, ((), (), False, None)),
        ("many outputs", [Gaussian(0.1, 3)], 72, 10, ((), (), False, None)),
        ("one output", [Gaussian(0.1, 3)], 4, 1, ((), (), True, None)),
        ("blocks", [Block(0.3, 8, 4)], 2, 1, ((0,), (), False, None)),
        ("few drops", [Gaussian(0.1, 3), Bernoulli(0.1, 10)], 16, 2, ((), (), True, 1)),
        ("few masks", [Gaussian(0.1, 3), Bernoulli(0.1, 10)], 15, 1, ((), (), True, None)),
        ("more drops", [Bernoulli(0.11, 10)], 16, 2, ((), (), True, None)),
        ("no drops", [Bernoulli(0.0, 2), Bernoulli(0.05, 9)], 16, 2, ((0,), (), True, 1)),
    ):
        plan = Plan.of(Conditional(tuple(laws), lambda z: Affine(z[..., :1], None, None), 1), samples, outputs)
        told = (plan.listed, plan.effects, plan.gradient, plan.counted)
        found.append(compare(float(told == wanted), "==", 1.0, f"plan, {name}, {told}"))
    words = [Plan((0,), (1,), True).passes, Plan((), (1,), False).passes, Plan((), (), False).passes]
    wanted_words = ["atoms and main effects and gradient", "main effects", ""]
    found.append(compare(float(words == wanted_words), "==", 1.0, "in words"))
    return found


def _drawn(scale: float) -> list[Comparison]:
    """Frequencies of drawn masks and their places in the list."""
    found: list[Comparison] = []
    drop, count = tensor([0.3, 0.0, 0.5]), 4000
    laws: tuple[MaskLaw, ...] = (Bernoulli(drop, 3), Block(0.4, 4, 2), Bernoulli(0.05, 4))
    problem = Conditional(laws, lambda z: Affine(z[..., :1], None, None), 1)
    for listed in (0, 1):
        draws = draw(problem, Plan((listed,), (), False), count, torch.Generator().manual_seed(3))
        part = draws.multipliers.split([3, 4, 4], 1)[listed]
        masks, chances = (torch.cat(one) for one in zip(*laws[listed].atom_batches(64), strict=True))
        found.append(compare(masks[draws.listed[listed]], "==", scale * part, f"places, {listed}"))
        shares = torch.bincount(draws.listed[listed], minlength=len(masks)).double() / count
        errors = (chances * (1 - chances) / count).sqrt()
        found.append(compare((shares - scale * chances).abs(), "<=", 5 * errors + 1e-12, f"shares, {listed}"))
        energies = draws.multipliers.square().mean(0)
        second = torch.cat([1 + law.relative_variance for law in laws])
        found.append(compare(energies, "==", scale * second, f"second moments, {listed}", precision=0.06))
    kept = tensor([[1.0, 1, 0], [0, 1, 1], [0, 1, 0], [1, 1, 1]])
    found.append(compare(coin_places(drop, kept), "==", tensor([2.0, 1, 3, 0]) * scale, "bits of what falls"))
    stratified = draw(problem, Plan((2,), (), False, 2), 400, torch.Generator().manual_seed(4))
    atoms = torch.cat([masks for masks, _ in laws[2].atom_batches(64)])
    found.append(compare(atoms[stratified.listed[2]], "==", stratified.multipliers[:, 7:], "stratified places"))
    fallen = (stratified.multipliers[:, 7:] == 0).sum(1)
    none = 0.95**4
    wanted = [400 * (0.8 * none + 0.2 / 3), 400 * (0.8 * 4 * 0.05 * 0.95**3 + 0.2 / 3)]
    sizes = [int((fallen == 0).sum()), int((fallen == 1).sum())]
    found.append(compare(sizes[1], "==", scale * math.floor(wanted[1]), "masks with one drop"))
    found.append(compare(sizes[0], ">=", math.floor(wanted[0]), "and with none"))
    found.append(compare(sizes[0], "<=", math.floor(wanted[0]) + 2, "no more than that"))
    alone = Conditional((laws[2],), problem.given, 1)
    quiet = draw(alone, Plan((), (), False, 0), 300, torch.Generator().manual_seed(4))
    found.append(compare(quiet.strata.sizes, "==", scale * 100.0, "where nothing else varies, evenly"))
    empty = draw(Conditional((), problem.given, 1), Plan((), (), False), 5, torch.Generator())
    found.append(compare(list(empty.multipliers.shape), "==", [5.0 * scale, 0.0], "no early sites"))
    return found


def _built(scale: float, net: ReLUNet, inputs: Tensor, problem: Conditional, name: str) -> list[Comparison]:
    """Controls beside passes of the network, one mask at a time."""
    found: list[Comparison] = []
    plain, ones = problem.plain(), torch.ones(7).double()
    mean, quiet = _run(net, inputs, ones)
    found.append(compare(plain.center, "==", scale * mean, f"without masks, {name}"))
    found.append(compare(plain.variance(), "==", scale * quiet, f"last mask alone, {name}"))
    for plan in (Plan((0,), (1,), False), Plan((1,), (), True), Plan((), (), True)):
        if plan.listed and not isinstance(problem.early[0], Bernoulli):
            continue
        for control in build(problem, plan, plain):
            if isinstance(control, Atoms):
                law, start = problem.early[control.site], 3 * control.site
                masks, chances = (torch.cat(part) for part in zip(*law.atom_batches(64), strict=True))
                order = chances.argsort(descending=True)
                seen, likely = 0.0, []
                for place in order.tolist():
                    if seen < 1 - 2.0**-10:
                        likely.append(place)
                    seen += float(chances[place])
                wanted = torch.zeros(2, len(masks), *mean.shape).double()
                for place in likely:
                    z = ones.clone()
                    z[start : start + law.size] = masks[place]
                    wanted[0, place], wanted[1, place] = (
                        a - b for a, b in zip(_run(net, inputs, z), (mean, quiet), strict=True)
                    )
                found.append(compare(control.probabilities, "==", scale * chances, f"chances, {name}"))
                found.append(compare(control.moved, "==", scale * wanted[0], f"listed, {name}"))
                found.append(compare(control.noise, "==", scale * wanted[1], f"their noise, {name}"))
                average = torch.tensordot(chances, wanted[0], 1)
                spread = torch.tensordot(chances, (wanted[0] - average).square(), 1)
                found.append(compare(control.variance(), "==", scale * spread, f"variance of the list, {name}"))
                draws = Draws(torch.ones(2, 7), {control.site: torch.tensor([1, 0])}, Strata.none(2))
                found.append(
                    compare(control.control(draws), "==", scale * (wanted[0] - average)[[1, 0]], f"read, {name}")
                )
                noisy = wanted[1] - torch.tensordot(chances, wanted[1], 1)
                found.append(compare(control.noise_control(draws), "==", scale * noisy[[1, 0]], f"noise read, {name}"))
            else:
                found += _sloped(scale, (net, inputs), problem, (plan, control), name)
    return found


def _sloped(
    scale: float, model: tuple[ReLUNet, Tensor], problem: Conditional, told: tuple[Plan, Slopes], name: str
) -> list[Comparison]:
    """Main effects by two passes a unit, slopes by central differences."""
    (net, inputs), (plan, control) = model, told
    ones, wanted = torch.ones(7).double(), torch.zeros(2, len(inputs), 2, 7).double()
    effects = control.kind == "main effects"
    chosen = [j for j in range(7) if ((j >= 3) in plan.effects if effects else (int(j >= 3) not in plan.listed))]
    for j in chosen:
        rate = 0.0 if not effects else float(problem.early[int(j >= 3)].drop[j - 3 * (j >= 3)])  # type: ignore[attr-defined]
        high, low = (1 / (1 - rate), 0.0) if effects else (1 + 1e-6, 1 - 1e-6)
        if effects and rate == 0:
            continue
        up, down = ones.clone(), ones.clone()
        up[j], down[j] = high, low
        for k, (a, b) in enumerate(zip(_run(net, inputs, up), _run(net, inputs, down), strict=True)):
            wanted[k, ..., j] = (a - b) / (high - low)
    precision = 1e-9 if effects else 1e-7
    found = [
        compare(control.slopes, "==", scale * wanted[0], f"{control.kind}, {name}", precision),
        compare(control.noise, "==", scale * wanted[1], f"{control.kind} of the noise, {name}", precision),
    ]
    odds = torch.cat([law.relative_variance for law in problem.early])
    spread = (control.slopes.square() * odds).sum(-1)
    found.append(compare(control.variance(), "==", scale * spread, f"variance of {control.kind}, {name}"))
    z = normal(5, 3, 7)
    draws = Draws(z, {}, Strata.none(3))
    found.append(
        compare(
            control.control(draws), "==", scale * torch.einsum("mj,noj->mno", z - 1, control.slopes), f"along, {name}"
        )
    )
    noise = torch.einsum("mj,noj->mno", z - 1, control.noise)
    found.append(compare(control.noise_control(draws), "==", scale * noise, f"noise along, {name}"))
    if not effects and not plan.listed:
        told_first = first_order(problem, None)
        whole = problem.plain().variance() + spread
        found.append(compare(told_first.variance.value, "==", scale * whole, f"first order, {name}"))
    return found


def _moments(scale: float, problem: Conditional, name: str) -> list[Comparison]:
    """Mean, variance and both intervals from the drawn masks, group by group; weights by least squares."""
    found: list[Comparison] = []
    for samples, confidence in ((48, 0.9), (24, 0.99)):
        method = MonteCarlo(samples, seed=5, confidence=confidence)
        plan = Plan.of(problem, samples, 2)
        plain = problem.plain()
        draws = draw(problem, plan, samples, torch.Generator().manual_seed(5))
        given = [problem.given(z[None, None]) for z in draws.multipliers]
        moved = torch.cat([one.center for one in given]) - plain.center
        noise = torch.cat([one.variance() for one in given])
        controls = build(problem, plan, plain)
        groups, shares = draws.strata, draws.strata.shares
        parts = torch.stack([control.control(draws) for control in controls])
        others = torch.stack([control.noise_control(draws) for control in controls])
        own = torch.stack([control.variance() for control in controls])
        weights = _fitted(parts, moved, own.sum(0), shares)
        control = torch.einsum("c,cmno->mno", weights, parts)
        spread = _mean(others.square().sum(0), groups)
        quiet = noise - torch.einsum(
            "c,cmno->mno", _fitted(others, noise - _mean(noise, groups), spread, shares), others
        )
        known = torch.einsum("c,cno->no", weights.square(), own)
        ours = sample(problem, method)
        found.append(compare(ours.control, "==", scale * control, f"control, {name}, {samples}", 1e-8))
        found.append(compare(ours.noise, "==", scale * quiet, f"noise, {name}, {samples}", 1e-8))
        found.append(compare(ours.known, "==", scale * known, f"known, {name}, {samples}", 1e-8))
        found.append(compare(ours.fitted, "==", scale * len(controls), f"weights, {name}, {samples}"))
        rest = moved - control
        off = rest - _mean(rest, groups)
        terms = 2 * control * off + off.square() + quiet
        mean = plain.center + _mean(rest, groups)
        variance = known + _mean(terms, groups) + _covariance(rest, rest + 2 * control, groups)
        told = sampled_moments(problem, method)
        found.append(compare(told[0].value, "==", scale * mean, f"mean, {name}, {samples}", 1e-8))
        found.append(compare(told[1].value, "==", scale * variance, f"variance, {name}, {samples}", 1e-8))
        free = [
            degrees_of_freedom(part, groups, _covariance(part, part, groups), len(controls)) for part in (rest, terms)
        ]
        for part, free_one in zip((rest, terms), free, strict=True):
            wanted = _degrees(part, groups, len(controls))
            found.append(compare(free_one, "==", scale * wanted, f"degrees of freedom, {name}, {samples}", 1e-7))
        if free[1] >= 6:
            factors = [scipy.stats.t.ppf((1 + confidence) / 2, max(one, 1.0)) for one in free]
            half = factors[0] * _covariance(rest, rest, groups).sqrt()
            found.append(compare(told[0].upper - mean, "==", scale * half, f"above the mean, {name}, {samples}", 1e-7))
            found.append(compare(mean - told[0].lower, "==", scale * half, f"below the mean, {name}, {samples}", 1e-7))
            ratio = (factors[1] * _covariance(terms, terms, groups).sqrt() / variance).clamp_max(80)
            found.append(
                compare((told[1].upper / variance).log(), "==", scale * ratio, f"above the variance, {name}", 1e-6)
            )
            found.append(
                compare((variance / told[1].lower).log(), "==", scale * ratio, f"below the variance, {name}", 1e-6)
            )
        else:
            found.append(compare(told[1].upper, "==", math.inf, f"withheld above, {name}, {samples}"))
            found.append(compare(told[1].lower, "==", 0.0, f"withheld below, {name}, {samples}"))
            found.append(compare(told[0].lower, "==", -math.inf, f"withheld mean, {name}, {samples}"))
        found += _outcomes(scale, problem, method, name)
    outcomes = [(chances, problem.given(z[:, None])) for z, chances in _some(problem)]
    found += _mixed(scale, outcomes, problem.plain().center, name)
    return found


def _outcomes(scale: float, problem: Conditional, method: MonteCarlo, name: str) -> list[Comparison]:
    """The drawn masks as a mixture."""
    found: list[Comparison] = []
    bare = draw(problem, Plan((), (), False), method.samples, torch.Generator().manual_seed(5)).multipliers
    shares_of = torch.cat([weights for weights, _ in sampled_outcomes(problem, method)])
    centers = torch.cat([affine.center for _, affine in sampled_outcomes(problem, method)])
    wanted_centers = torch.cat([problem.given(z[None, None]).center for z in bare])
    found.append(compare(shares_of, "==", scale / method.samples, f"equal shares, {name}"))
    found.append(compare(centers, "==", scale * wanted_centers, f"outputs of draws, {name}"))
    return found


def _some(problem: Conditional) -> list[tuple[Tensor, Tensor]]:
    """Two batches of masks with made-up chances that sum to one."""
    units = sum(law.size for law in problem.early)
    return [(normal(1, 2, units), tensor([0.2, 0.3])), (normal(2, 1, units), tensor([0.5]))]


def _mixed(scale: float, outcomes: list[tuple[Tensor, Affine]], plain: Tensor, name: str) -> list[Comparison]:
    found: list[Comparison] = []
    chances = torch.cat([weights for weights, _ in outcomes])
    centers = torch.cat([affine.center for _, affine in outcomes])
    inside = torch.cat([affine.covariance() for _, affine in outcomes])
    mean = torch.tensordot(chances, centers, 1)
    off = centers - mean
    joint = torch.einsum("m,mni,mnj->nij", chances, off, off)
    noise = torch.tensordot(chances, inside, 1)
    for both in (False, True):
        told = MixtureMoments.of(iter(outcomes), plain, joint=both)
        between = joint if both else joint.diagonal(dim1=1, dim2=2)
        within = noise if both else noise.diagonal(dim1=1, dim2=2)
        found.append(compare(told.shift, "==", scale * (mean - plain), f"shift, {name}, {both}"))
        found.append(compare(told.centers, "==", scale * between, f"between, {name}, {both}"))
        found.append(compare(told.noise, "==", scale * within, f"within, {name}, {both}"))
    return found


def _groups(values: Tensor, strata: Strata) -> list[tuple[float, Tensor]]:
    ends = np.cumsum([0, *strata.sizes])
    return [(c, values[a:b]) for c, a, b in zip(strata.chances, ends[:-1], ends[1:], strict=True)]


def _mean(values: Tensor, strata: Strata) -> Tensor:
    return torch.stack([chance * part.mean(0) for chance, part in _groups(values, strata)]).sum(0)


def _covariance(left: Tensor, right: Tensor, strata: Strata) -> Tensor:
    """Of two means of groups."""
    total = torch.zeros_like(left[0])
    for (chance, a), (_, b) in zip(_groups(left, strata), _groups(right, strata), strict=True):
        total = total + chance**2 * ((a - a.mean(0)) * (b - b.mean(0))).sum(0) / (len(a) - 1) / len(a)
    return total


def _degrees(terms: Tensor, strata: Strata, fitted: int) -> float:
    error, fourth = _covariance(terms, terms, strata), torch.zeros_like(terms[0])
    for chance, part in _groups(terms, strata):
        count = len(part)
        squares = (part - part.mean(0)).square()
        above = torch.maximum(squares.var(0, correction=0), 2 * count / (count - 1) * squares.mean(0).square())
        fourth = fourth + (chance**2 / (count - 1)) ** 2 / count * above
    return min(len(terms) - len(strata.sizes) - fitted, 2 / float((fourth / error.square()).mean()))


def _fitted(parts: Tensor, wanted: Tensor, variance: Tensor, shares: Tensor) -> Tensor:
    """Least squares over all masks, examples and outputs; a part alone that leaves more than there is has no weight."""
    unit = torch.where(variance > 0, variance, 1.0)
    scale = (shares[:, None, None] / unit).sqrt()
    rows, aim = (parts * scale).flatten(1), (wanted * scale).flatten()
    weights = torch.linalg.lstsq(rows.mT, aim[:, None], driver="gelsd").solution[:, 0]
    left = (aim - weights[:, None] * rows).square().sum(1)
    return torch.where(left < aim.square().sum(), weights, 0.0)
