"""What claims on the pieces of penalties compare: moments of factors, integrals, rules of two nodes, intervals."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal, getcontext
from typing import Any

import numpy as np
import scipy
import torch
from torch import Tensor

from droptics.data import Sample
from droptics.evidence.claims import Comparison, compare
from droptics.losses import CrossEntropy, Logistic, Loss, Squared
from droptics.masks import Bernoulli, Block, Discrete, Gaussian, MaskLaw, Product, SlidingBlock
from droptics.models import DeepLinear, LastLayer, Model, TwoLayerLinear
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.telling import refuses, same
from droptics.papers.instances import coin_masks, normal, simplex, tensor
from droptics.penalties import Certified, Enumerate, MonteCarlo, penalty, risk
from droptics.penalties.certified import _by_moments_alone
from droptics.penalties.factors import Coins, Factor, Listed, Moves, Normals, excess, factors, has_factors, large
from droptics.penalties.fourier import margin_penalties
from droptics.penalties.intervals import Spread, pairs_are_shown, rare_outcomes
from droptics.penalties.moment_bounds import gauss_above, radau_below
from droptics.penalties.several import several_bounds


def _outcomes(parts: list[Factor]) -> tuple[Tensor, Tensor]:
    """All moves (outcomes, examples, outputs) of coins and lists, and their probabilities."""
    moves, chances = torch.zeros(1, 1, 1).double(), torch.ones(1).double()
    for part in parts:
        steps: list[tuple[list[Tensor], list[float]]] = []
        if isinstance(part, Coins):
            for j in range(part.values.shape[-1]):
                rate, own = float(part.drop[j]), part.values[..., j]
                steps.append(([-own, rate / (1 - rate) * own], [rate, 1 - rate]))
        else:
            assert isinstance(part, Listed)
            steps.append(([part.moves[..., a] for a in range(part.count)], part.probabilities.tolist()))
        for options, odds in steps:
            moves = torch.cat([moves + option for option in options])
            chances = torch.cat([chances * chance for chance in odds])
    return moves, chances


def factors_and_integrals(scale: float) -> list[Comparison]:
    """Exponential moments of coins, lists and normals, from sums over outcomes; the integrals that rest on them."""
    found: list[Comparison] = []
    contributions = 0.7 * normal(1, 2, 3, 4)
    listed = Discrete(tensor([[1.0, 0], [0, 2], [2, 1]]), tensor([0.2, 0.3, 0.5]))
    laws: dict[str, MaskLaw] = {
        "coins": Bernoulli(tensor([0.0, 0.1, 0.5, 0.8]), 4),
        "blocks": Block(0.3, 4, 2),
        "list": Product([Bernoulli(0.4, 2), listed]),
    }
    tuples = torch.combinations(torch.arange(3), 4, with_replacement=True)
    left, right = torch.triu_indices(3, 3)
    times = tensor([0.3, 1.1, 2.0])
    places = torch.tensor([[0, 1, 2, 0], [2, 1, 0, 0], [1, 1, 2, 0]])
    odds = tensor([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1]])
    for name, law in laws.items():
        parts = factors(law, contributions)
        moves, chances = _outcomes(parts)

        def mean(values: Tensor, chances: Tensor = chances) -> Tensor:
            return torch.tensordot(chances.to(values), values, 1)

        pieces = {
            "single": (sum(p.cumulant() for p in parts), mean(moves.exp()).log()),
            "pair": (
                sum(p.pair_cumulant(left, right) for p in parts),
                mean((moves[..., left] + moves[..., right]).exp()).log(),
            ),
            "tuple": (sum(p.tuple_cumulant(tuples) for p in parts), mean(moves[..., tuples].sum(-1).exp()).log()),
            "centered": (
                sum(p.centered(odds).cumulant() for p in parts),
                mean((moves - (odds * moves).sum(-1, keepdim=True)).exp()).log(),
            ),
            "along": (sum(p.along(odds).cumulant() for p in parts), mean((moves @ odds.mT).exp()).log()),
        }
        for label, (told, wanted) in pieces.items():
            assert isinstance(told, Tensor)
            found.append(compare(told, "==", scale * wanted, f"{label}, {name}", precision=1e-13))
        waves: Any = math.prod(p.along(odds[:1]).characteristic(times) for p in parts)
        wanted = mean(torch.exp(1j * (moves @ odds[0])[..., None] * times))
        found.append(compare(torch.view_as_real(waves), "==", scale * torch.view_as_real(wanted), f"waves, {name}"))
        nodes = [p.nodes(times, places, 0.4) for p in parts]
        sizes: Any = sum(one for _, one in nodes)
        value = math.prod(one for one, _ in nodes) * sizes.exp()[:, None]
        exponents = (0.4 - 1j * times[places]).to(torch.complex128)
        wanted = mean(torch.exp(moves.to(torch.complex128) @ exponents))
        found.append(compare(torch.view_as_real(value), "==", scale * torch.view_as_real(wanted), f"nodes, {name}"))
        reach = moves.abs().amax((0, -1))
        told_reach = sum(p.reach for p in parts)
        found.append(compare(told_reach, ">=", reach / scale, f"reach, {name}"))
        found.append(compare(told_reach, "<=", 8 * reach, f"no more, {name}"))
        margins = tensor([[0.4], [-1.3]])
        single = [p.along(tensor([[1.0, -0.5, 0.2]])) for p in parts]
        at, chance = _outcomes(single)
        truth = torch.tensordot(chance, torch.nn.functional.softplus(margins + at), 1)[..., 0]
        truth = truth - torch.nn.functional.softplus(margins)[..., 0]
        for tolerance in (1e-6, 1e-12):
            integral = margin_penalties(margins, single, tolerance, 400)
            assert integral is not None
            off = (integral[0] - scale * truth).abs()
            found.append(compare(off, "<=", integral[1], f"integral {tolerance}, {name}", precision=0.0))
            found.append(compare(integral[1], "<=", 4 * tolerance, f"its error {tolerance}, {name}", precision=1e-13))
        found.append(compare(float(margin_penalties(margins, single, 1e-12, 8) is None), "==", 1.0, "too long"))
        # the large margin makes the step fine: all that the small one misses is what lies beyond the end
        margins = tensor([[0.4], [30.0]])
        for tolerance in (1e-2, 1e-4):
            integral = margin_penalties(margins, single, tolerance, 400)
            assert integral is not None
            missed = (integral[0] - truth)[0].abs()
            found.append(compare(missed, "<=", integral[1][0] / scale, f"beyond the end {tolerance}, {name}", 0.0))
            found.append(compare(missed, ">", 1e-3 * tolerance, f"something is, {tolerance}, {name}", 0.0))
    return [*found, *_moves(scale), *_beyond(scale), *_two_nodes(scale), *_few_classes(scale)]


def _moves(scale: float) -> list[Comparison]:
    """Outputs that masks move, of some examples and along directions, with a head for all and one for each."""
    found: list[Comparison] = []
    offset, features, rows = normal(1, 6, 3), normal(2, 6, 4), torch.tensor([4, 1, 3])
    directions, law = normal(3, 2, 3), Product([Bernoulli(0.3, 2), Gaussian(0.2, 2)])
    for heads in (normal(4, 1, 3, 4), normal(5, 6, 3, 4)):
        known, each = Moves(offset, features, heads), features[:, None] * heads
        mean, name = offset + each.sum(-1), f"{len(heads)} heads"
        for moves, outputs, parts, label in (
            (known, mean, each, "all"),
            (known.some(rows), mean[rows], each[rows], "some"),
            (known.along(directions), mean @ directions.mT, directions @ each, "along"),
        ):
            for start, stop in ((0, len(outputs)), (1, 3)):
                told = moves.part(start, stop)
                found.append(compare(told[0], "==", scale * outputs[start:stop], f"outputs of {label}, {name}"))
                found.append(compare(told[1], "==", scale * parts[start:stop], f"moves of {label}, {name}"))
        coins, noise = factors(law, each)
        found.append(
            compare(coins.cumulant(), "==", scale * Coins(each[..., :2], tensor([0.3] * 2)).cumulant(), "coins")
        )
        found.append(
            compare(noise.cumulant(), "==", scale * 0.1 * each[..., 2:].square().sum(-1), "noise beside coins")
        )
    wide = SlidingBlock(0.3, 40, 3)
    for masks, fall_apart in ((law, True), (wide, False), (Product([Bernoulli(0.3, 2), wide]), False)):
        found.append(same(has_factors(masks), fall_apart, f"falls apart, {masks}", scale))
    return found


def _beyond(scale: float) -> list[Comparison]:
    """Moves that are far, normal ones, and the exponential series."""
    found: list[Comparison] = []
    contributions = 0.7 * normal(1, 2, 3, 4)
    tuples = torch.combinations(torch.arange(3), 4, with_replacement=True)
    left, right = torch.triu_indices(3, 3)
    times = tensor([0.3, 1.1, 2.0])
    places = torch.tensor([[0, 1, 2, 0], [2, 1, 0, 0], [1, 1, 2, 0]])
    odds = tensor([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1]])
    far = Coins(1000 * contributions, tensor([0.3, 0.1, 0.5, 0.8]))
    moves, chances = _outcomes([far])
    wanted = torch.logsumexp(chances.log()[:, None, None] + moves, 0)
    found.append(compare(far.cumulant(), "==", scale * wanted, "far moves"))
    found.append(compare(float(far.overflows().all()), "==", 1.0, "too large to multiply"))
    edge = large(contributions)
    found.append(compare(edge, "==", scale * 0.42 * math.log(1.7976931348623157e308), "what is large"))
    noise = Normals(contributions, tensor([0.1, 0.4, 0.2, 0.3]))
    cov = torch.einsum("noi,i,npi->nop", contributions, noise.variance, contributions)
    pair = cov.diagonal(dim1=1, dim2=2)[:, left] + cov.diagonal(dim1=1, dim2=2)[:, right] + 2 * cov[:, left, right]
    together = cov[:, tuples[:, :, None], tuples[:, None, :]].sum((-2, -1))
    t = times[places].mT
    turned = torch.exp(-0.5 * torch.einsum("ko,nop,kp->nk", t, cov, t) - 0.4j * torch.einsum("ko,nop->nk", t, cov))
    told_nodes = noise.nodes(times, places, 0.4)
    row = odds[0] @ cov @ odds[0]
    found += [
        compare(noise.cumulant(), "==", scale * 0.5 * cov.diagonal(dim1=1, dim2=2), "normal, single"),
        compare(noise.pair_cumulant(left, right), "==", scale * 0.5 * pair, "normal, pair"),
        compare(noise.tuple_cumulant(tuples), "==", scale * 0.5 * together, "normal, tuple"),
        compare(torch.view_as_real(told_nodes[0]), "==", scale * torch.view_as_real(turned), "normal, nodes"),
        compare(told_nodes[1], "==", scale * 0.08 * cov.sum((-2, -1)), "normal, their size"),
        compare(
            noise.along(odds[:1]).characteristic(times).real,
            "==",
            scale * torch.exp(-0.5 * times**2 * row[:, None]),
            "normal, waves",
        ),
    ]
    getcontext().prec = 60
    for x in (1e-12, -3e-5, 0.2, 0.4999, -0.5, 0.6, -7.0, 20.0):
        exact = Decimal(x).exp() - 1 - Decimal(x)
        told_excess = excess(tensor([x]))[0]
        wanted_excess = scale * float(exact)
        found.append(compare(told_excess / wanted_excess, "==", 1.0, f"excess at {x}", precision=1e-14))
    return found


def _two_nodes(scale: float) -> list[Comparison]:
    """Of two values the rules are exact, of three they are bounds; of one there is no rule."""
    found: list[Comparison] = []
    for name, x, p in (
        ("two", [0.4, 2.0], [0.7, 0.3]),
        ("two far", [0.5, 9.0], [0.9, 0.1]),
        ("two near", [1.0, 1.5], [0.5, 0.5]),
        ("three", [0.2, 1.0, 4.0], [0.5, 0.3, 0.2]),
        ("three far", [1.0, 2.0, 30.0], [0.5, 0.4, 0.1]),
    ):
        moments = [tensor(sum(q * v**k for q, v in zip(p, x, strict=True))) for k in (1, 2, 3, 4)]
        errors = [1e-15 * moment for moment in moments]
        truth = sum(q * math.log1p(v) for q, v in zip(p, x, strict=True))
        upper, above = gauss_above(moments[:3], errors[:3])
        lower, below = radau_below(moments, errors)
        found.append(compare(above, "<=", 1e-10, f"slack above, {name}", precision=0.0))
        found.append(compare(below, "<=", 1e-10, f"slack below, {name}", precision=0.0))
        if len(x) == 2:
            found.append(compare(upper, "==", scale * truth, f"above, {name}", precision=1e-12))
            found.append(compare(lower, "==", scale * truth, f"below, {name}", precision=1e-12))
            wide = [1e-6 * moment for moment in moments]
            for k in range(4):
                moved = [m + wide[i] * (i == k) for i, m in enumerate(moments)]
                given = [w * (i == k) for i, w in enumerate(wide)]
                if k < 3:
                    change = abs(float(gauss_above(moved[:3], errors[:3])[0] - upper))
                    told = float(gauss_above(moments[:3], given[:3])[1])
                    found.append(compare(told, ">=", 0.98 * scale * change, f"moment {k} moves above, {name}"))
                    found.append(compare(told, "<=", 8 * change, f"not far, {k}, {name}", precision=1e-10))
                change = abs(float(radau_below(moved, errors)[0] - lower))
                told = float(radau_below(moments, given)[1])
                found.append(compare(told, ">=", 0.98 * change, f"moment {k} moves below, {name}"))
                found.append(compare(told, "<=", 8 * change, f"not far below, {k}, {name}", precision=1e-10))
        else:
            found.append(compare(upper, ">=", truth, f"above, {name}"))
            found.append(compare(lower, "<=", truth, f"below, {name}"))
            found.append(compare(upper - lower, "<=", 0.1 * truth / scale, f"narrow, {name}"))
    one = [tensor(2.0**k) for k in (1, 2, 3, 4)]
    zero = [tensor(0.0)] * 4
    found.append(compare(gauss_above(one[:3], zero[:3])[0], "==", math.inf, "one value has no rule above"))
    found.append(compare(radau_below(one, zero)[0], "==", 0.0, "nor below"))
    outputs, moved_values = normal(1, 40, 5), normal(2, 40, 5, 1)
    for rate in (0.35, 0.65):
        told_bounds = _by_moments_alone(outputs, [Coins(moved_values, tensor([rate]))], four=True)
        shift = moved_values[..., 0] - (outputs.softmax(-1) * moved_values[..., 0]).sum(-1, keepdim=True)
        ends = [(outputs + s * shift).logsumexp(-1) - outputs.logsumexp(-1) for s in (-1.0, rate / (1 - rate))]
        ratio = ends[0].expm1() / ends[1].expm1()
        known = (torch.maximum(ratio, 1 / ratio) > 1.4) & (torch.maximum(ratio, 1 / ratio) < 57)
        truth_each = (rate * ends[0] + (1 - rate) * ends[1])[known]
        found.append(compare(told_bounds.lower[known], "==", scale * truth_each, f"one coin below, {rate}"))
        found.append(compare(told_bounds.upper[known], "==", scale * truth_each, f"one coin above, {rate}"))
    return found


def _few_classes(scale: float) -> list[Comparison]:
    """Bounds by leading classes: exact where one class is left, else between; many classes by margins."""
    found: list[Comparison] = []
    for classes, leading in ((3, 2), (4, 3), (5, 2), (5, 3)):
        outputs = normal(classes, 2, 1, classes)
        part = Coins(0.8 * normal(classes + 1, 2, 1, classes, 3), tensor([0.2, 0.5, 0.7]))
        moves, chances = _outcomes([Coins(part.values[:, 0], part.drop)])
        after = torch.tensordot(chances, (outputs[:, 0] + moves).logsumexp(-1), 1)
        truth = after - outputs[:, 0].logsumexp(-1)
        order = outputs[:, 0].argsort(-1, descending=True)
        told = several_bounds(outputs, [part], order, leading, 1e-7)
        assert told is not None
        lower, upper, below, above = (end[:, 0] for end in told)
        name = f"{classes} classes, {leading} leading"
        found.append(compare(lower - below, "<=", truth, f"from below, {name}", precision=0.0))
        found.append(compare(upper + above, ">=", truth, f"from above, {name}", precision=0.0))
        # a share of 5e-5 of the kernel is left out, more than half of it with three leading classes' larger moments
        found.append(compare(torch.maximum(above, below), "<=", 0.01 * truth, f"errors, {name}", precision=1e-4))
        if classes == leading + 1:
            found.append(compare(lower, "==", scale * truth, f"exact below, {name}", precision=1e-4))
            found.append(compare(upper, "==", scale * truth, f"exact above, {name}", precision=1e-4))
        else:
            found.append(compare(upper - lower, "<=", 0.25 * truth / scale, f"narrow, {name}"))
    for classes, units, limit in ((14, 5, math.inf), (12, 5, 0.12), (4, 6, 0.05)):
        model = LastLayer.of(linear_head(classes, units, classes))
        data = Sample(normal(3, 6, units), torch.arange(6) % classes, weights=simplex(4, 6))
        law = Bernoulli(tensor([0.1, 0.5, 0.3, 0.6, 0.2, 0.4][:units]), units)
        truth_all = penalty(model, data, law, Enumerate(), CrossEntropy()).value
        widths = []
        if classes > 12:
            told_many = penalty(model, data, law, Certified(), CrossEntropy())
            least, most = _by_margins(model, data, law)
            found.append(compare(told_many.lower, ">=", scale * least, "many classes by margins, from below"))
            found.append(compare(told_many.upper, "<=", most / scale, "many classes by margins, from above"))
        for condition in (0, 2, units):
            bounds = penalty(model, data, law, Certified(condition), CrossEntropy())
            label = f"{classes} classes, {condition} written out"
            found.append(compare(bounds.lower, "<=", truth_all, f"certified below, {label}", precision=1e-13))
            found.append(compare(bounds.upper, ">=", truth_all, f"certified above, {label}", precision=1e-13))
            middle = (bounds.lower + bounds.upper) / 2
            if classes > 12 or condition == units:  # elsewhere errors of integrals widen the ends, each by its own
                found.append(compare(bounds.value, "==", scale * middle, f"middle, {label}"))
            found.append(compare(bounds.value, ">=", bounds.lower, f"value from below, {label}", precision=0.0))
            found.append(compare(bounds.value, "<=", bounds.upper, f"value from above, {label}", precision=0.0))
            widths.append(float((bounds.upper - bounds.lower) / truth_all))
        found.append(compare(widths[0], "<=", limit / scale, f"width, {classes} classes"))
        found.append(compare(widths[1], "<=", widths[0], f"narrower, {classes} classes"))
        found.append(compare(widths[2], "<=", 1e-9, f"exact, {classes} classes"))
    return found


def _by_margins(model: LastLayer, data: Sample, law: Bernoulli) -> tuple[Tensor, Tensor]:
    """The two sums over margins of the classes in the order of their outputs, over all masks."""
    masks, chances = (torch.cat(part) for part in zip(*law.atom_batches(4096), strict=True))
    outputs = model.outputs(data.inputs, masks[:, None]).detach()
    clean = model.outputs(data.inputs).detach()
    clean, order = clean.sort(-1, descending=True)
    outputs = outputs.gather(-1, order.expand(outputs.shape))

    def logistic(rows: Tensor, level: Tensor) -> Tensor:
        """The penalty of the margin rows . outputs, with mean `level` in place of its own."""
        moved = (outputs * rows).sum(-1) - (clean * rows).sum(-1) + level
        return torch.tensordot(chances, torch.nn.functional.softplus(moved), 1) - torch.nn.functional.softplus(level)

    lower, upper = torch.zeros(len(data)).double(), torch.zeros(len(data)).double()
    shares = clean[:, 1:].softmax(-1)
    for k in range(1, clean.shape[-1]):
        unit = torch.eye(clean.shape[-1]).double()[k]
        first = torch.eye(clean.shape[-1]).double()[0]
        before = torch.zeros_like(clean)
        before[:, :k] = clean[:, :k].softmax(-1)
        upper += logistic(unit - before, clean[:, k] - clean[:, :k].logsumexp(-1))
        lower += shares[:, k - 1] * logistic(unit - first, clean[:, 1:].logsumexp(-1) - clean[:, 0])
    return lower @ data.shares, upper @ data.shares


def drawn_numbers(scale: float) -> list[Comparison]:
    """Means over draws, their control variate, Student's interval with its skewness, and when draws are too few."""
    found: list[Comparison] = []
    model, weights = TwoLayerLinear(normal(1, 2, 4), normal(2, 3, 4)), simplex(3, 9)
    data = Sample(normal(4, 9, 3), normal(5, 9, 2), weights=weights)
    head = LastLayer.of(linear_head(6, 4, 1))
    signs = torch.where(torch.arange(9) % 2 > 0, 1.0, -1.0).double()
    binary = Sample(normal(7, 9, 4), signs, weights=weights)
    law = Bernoulli(tensor([0.3, 0.4, 0.5, 0.35]), 4)
    cases: tuple[tuple[str, Model, Sample, Loss], ...] = (
        ("squares", model, data, Squared()),
        ("margins", head, binary, Logistic()),
    )
    for name, one, known, loss in cases:
        for count, confidence in ((300, 0.95), (120, 0.8)):
            told = penalty(one, known, law, MonteCarlo(count, seed=11, confidence=confidence), loss)
            masks = law.multipliers(count, torch.Generator().manual_seed(11))
            ones = torch.ones(4, dtype=torch.float64, requires_grad=True)

            def value(z: Tensor, one: Model = one, known: Sample = known, loss: Loss = loss) -> Tensor:
                outputs = one.outputs(known.inputs, z)
                return loss(outputs, known.targets) @ known.shares

            (slope,) = torch.autograd.grad(value(ones), ones)
            drawn = np.array([float((value(z) - value(ones)).detach()) for z in masks])
            control = ((masks - 1) @ slope).numpy()
            weight = np.cov(control, drawn)[0, 1] / np.var(control, ddof=1)
            left = drawn - weight * control
            free = count - 2
            r = left - left.mean()
            quantile = scipy.stats.t.ppf((1 + confidence) / 2, free)
            variance = (r**2).sum() / free
            skew = abs((r**3).mean()) / variance
            half = quantile * math.sqrt(variance / count) + quantile**2 / 2 * skew / count
            found.append(compare(told.value, "==", scale * left.mean(), f"mean of {count}, {name}"))
            found.append(compare(told.upper - told.value, "==", scale * half, f"upper half of {count}, {name}", 1e-7))
            found.append(compare(told.value - told.lower, "==", scale * half, f"lower half of {count}, {name}", 1e-7))
            assert told.guaranteed is not None
            low, high = told.guaranteed
            masked = [(kept / (1 - law.drop), chance) for kept, chance in coin_masks(law.drop.tolist())]
            truth = sum(chance * float((value(z) - value(ones)).detach()) for z, chance in masked)
            found.append(compare(low, "<=", truth / scale, f"guaranteed below, {name}"))
            found.append(compare(high, ">=", truth * scale, f"guaranteed above, {name}"))
    values = torch.stack([normal(8, 50), normal(9, 50) ** 2], 1)
    spread = Spread.of(values)
    r = (values - values.mean(0)).numpy()
    size = np.abs(r).max(0)
    found += [
        compare(spread.size, "==", scale * size, "largest residual"),
        compare(spread.second, "==", scale * (r**2).sum(0) / size**2, "second power"),
        compare(spread.third, "==", (r**3).sum(0) / size**3, "third power"),
        compare(spread.fourth, "==", scale * (r**4).sum(0) / size**4, "fourth power"),
        compare(
            spread.effective(np.array([0.0, 0.0])),
            "==",
            scale * (r**2).sum(0) ** 2 / (r**4).sum(0),
            "draws that carry the variance",
        ),
        compare(spread.effective(size / 4), "==", 0.0, "mere rounding"),
        compare(spread.effective(size / 4.1), ">", 0.0, "hardly rounding"),
    ]
    for rarest, count, confidence in itertools.product((0.05, 0.1, 0.3), (30, 300, 3000), (0.8, 0.95)):
        shown = (1 - rarest**2) ** count <= (1 - confidence) / 2
        told_shown = pairs_are_shown(rarest, MonteCarlo(count, confidence=confidence))
        found.append(compare(float(told_shown), "==", float(shown), f"pairs, {rarest}, {count}, {confidence}"))
    found.append(refuses(lambda: MonteCarlo(3), "samples must be at least 4 to estimate a variance, got 3"))
    found.append(same(MonteCarlo(4).samples, 4, "four draws are enough"))
    for rate, count, rare in ((0.1, 99, True), (0.1, 101, False), (0.95, 190, True), (0.95, 210, False)):
        told_rare = rare_outcomes(model, Bernoulli(rate, 4), count, min(rate, 1 - rate)) is not None
        found.append(compare(float(told_rare), "==", scale * float(rare), f"rare outcomes, {rate}, {count}"))
        found += _too_few(model, data, Bernoulli(rate, 4), count, "are so rare among" if rare else "")
    deep = DeepLinear([normal(1, 1, 3), normal(2, 2, 1), normal(3, 2, 2)])
    gates: MaskLaw = Product([Bernoulli(0.9, 1), Bernoulli(0.8, 2)])
    for count in (249, 251):  # a signal passes the gate and one of two in 4 % of the draws, at most
        found += _too_few(deep, data, gates, count, "signals pass all masks" if count < 250 else "")
    return found


def _too_few(model: Model, data: Sample, law: MaskLaw, count: int, reason: str) -> list[Comparison]:
    """Draws that are too few say why, and have the guaranteed interval; of others neither reason is told."""
    told, found = penalty(model, data, law, MonteCarlo(count, seed=2)), list[Comparison]()
    for words in ("are so rare among", "signals pass all masks"):
        found.append(compare(float(words in told.method), "==", float(words == reason), f"{words}, {count}"))
    assert told.guaranteed is not None
    wide = float(told.guaranteed[1] - told.guaranteed[0])
    own = float(told.upper - told.lower)
    masks = law.multipliers(count, torch.Generator().manual_seed(2))
    losses = [Squared()(model.outputs(data.inputs, z), data.targets) @ data.shares for z in masks]
    # two rare outcomes together are hardly among so few: the effects of single units stay in, too
    r = np.array([float(one) for one in losses]) - float(risk(model, data))
    found.append(compare(told.value, "==", r.mean(), f"plain mean of {count}"))
    if not reason and "so few draws" not in told.method:
        r = r - r.mean()
        quantile, variance = scipy.stats.t.ppf(0.995, count - 1), (r**2).sum() / (count - 1)
        half = quantile * math.sqrt(variance / count) + quantile**2 / 2 * abs((r**3).mean()) / variance / count
        found.append(compare(own, "==", 2 * half, f"Student's interval of {count}", 1e-7))
    found.append(compare(own, "==" if reason else "<=", wide, f"interval of {count}"))
    return found
