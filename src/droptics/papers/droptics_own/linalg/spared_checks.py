"""What a claim on batches, precisions and rare inputs compares: members alone, single precision, atoms, rounding."""

from __future__ import annotations

import math
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import torch

from droptics.bounds.lazy_training import LazySetting, _compression
from droptics.coadaptation.measures import evenness
from droptics.data import Moments, Sample
from droptics.envelopes import induced
from droptics.envelopes.deep_linear import induced_spectrum
from droptics.equalization import joint_equalizer
from droptics.evidence.claims import Comparison, compare
from droptics.heads.projection import variable_projection
from droptics.linalg import psd_eigen, schur_horn
from droptics.linalg.ranks import distinct, independent, proved_rank, shared_dependencies, vanishes
from droptics.linalg.sums import BLOCK, squares
from droptics.linalg.tall import orthogonal
from droptics.masks import Bernoulli, Block, Discrete
from droptics.masks.product import Stacked
from droptics.models import Autoencoder, DeepLinear, ReLUNet, TwoLayerLinear
from droptics.norms import k_support
from droptics.optima import optimal_factors, optimum
from droptics.optima.last_layer import HeadProblem
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.landscapes.map_checks import _shared
from droptics.papers.droptics_own.telling import fails, refuses, same
from droptics.papers.instances import normal, simplex, tensor, uniform
from droptics.penalties.deep_linear import _deep_rounding
from droptics.penalties.relu import criterion
from droptics.penalties.relu.criterion import relu_cost
from droptics.penalties.rounding import roundings
from droptics.spectra.actions import harmonic
from droptics.spectra.coordinates import _few, whiten


def spared_inputs(scale: float) -> list[Comparison]:
    """Members of batches alone, single precision, laws and features of which a part plays no part, rounding."""
    return by_parts((_batches, _pairs, _turned, _masses, _ranks, _columns, _tall, _heads, _rounded), scale)


def _batches(scale: float) -> list[Comparison]:
    """Batches whose members have very different sizes, one by one."""
    found: list[Comparison] = []
    sizes = tensor([1.0, 1e-9, 1e9])
    flows = normal(1, 3, 4) * sizes[:, None]
    wanted = flows.abs().sum(1) / (2 * flows.square().sum(1).sqrt())
    found.append(compare(evenness(flows), "==", scale * wanted, "evenness of a batch"))
    half = normal(2, 3, 4, 2)
    values, vectors = psd_eigen((half @ half.mT) * sizes[:, None, None])
    found.append(same((values > 0).sum(1).tolist(), [2, 2, 2], "ranks of a batch", scale))
    whole = (vectors * values[:, None, :]) @ vectors.mT / sizes[:, None, None]
    found.append(compare(whole, "==", scale * (half @ half.mT), "moments of a batch"))
    spectra, rates = uniform(3, 3, 3).sort(-1, descending=True).values * sizes[:, None], tensor([0.3, 0.6])
    each = torch.stack([induced_spectrum(one, rates) for one in spectra])
    told = induced_spectrum(spectra, rates) / sizes.square()
    found.append(compare(told, "==", scale * each / sizes.square(), "induced penalties of a batch"))
    rows = normal(4, 3, 5) * tensor([1.0, 1e-200, 1e200])[:, None]
    each = torch.stack([k_support(one / size, 2) for one, size in zip(rows, (1.0, 1e-200, 1e200), strict=True)])
    norms = k_support(rows, 2) / tensor([1.0, 1e-200, 1e200])
    found.append(compare(norms, "==", scale * each, "norms of a batch"))
    one, other = normal(5, 3, 4), normal(6, 5, 4)
    turns = [joint_equalizer(one, other, seed) for seed in (1, 2, 3)]
    found.append(
        compare(
            torch.stack([(turns[i] - turns[i - 1]).abs().max() for i in range(3)]), ">", 1e-3, "a seed decides", 0.0
        )
    )
    for turn in turns:
        products = (one @ turn).square().sum(0) * (other @ turn).square().sum(0)
        found.append(compare(products / products.mean(), "==", scale, "products of norms are equal"))
    none = harmonic(tensor([[0.5, 0.0, 0.25], [0.5, 1.0, 0.25]]))
    found.append(compare(1 + none, "==", scale * tensor([1.0, 1 + 1 / 7]), "a unit without noise"))
    single = torch.linspace(3.0, 1.0, 5)
    even = torch.full((5,), 2.0)
    turn = schur_horn(single, even)
    found.append(same(turn.dtype, torch.float32, "single precision", scale))
    found.append(compare((turn.mT * single) @ turn, "==", scale * ((turn.mT * single) @ turn).mT, "symmetric", 1e-5))
    found.append(compare(((turn.mT * single) @ turn).diagonal(), "==", scale * even, "its diagonal", 1e-5))
    off = even + 2e-6
    found.append(compare(schur_horn(single, off).square().sum(0), "==", scale, "off by its rounding", 1e-5))
    found.append(refuses(lambda: schur_horn(single.double(), off.double()), "majorized"))
    return found


def _turned(scale: float) -> list[Comparison]:
    """Rotations to the diagonals that Schur and Horn allow, which means of permutations are; others are refused."""
    found: list[Comparison] = []
    for seed in range(8):
        values, shares = normal(seed, 3 + seed), simplex(seed, 4)
        wanted = shares @ torch.stack([values.roll(k) for k in range(4)])
        turn = schur_horn(values, wanted)
        found.append(compare(turn.mT @ turn, "==", scale * torch.eye(3 + seed), f"a rotation, {seed}", 1e-13))
        found.append(compare((turn.mT * values @ turn).diagonal(), "==", scale * wanted, f"diagonal, {seed}", 1e-13))
    for diagonal in ([1.9, 1.0], [2.0, 1.1], [2.1, 0.9]):  # less in all, more in all, more at the top
        told = partial(schur_horn, tensor([2.0, 1.0]), tensor(diagonal))
        found.append(refuses(told, "majorized", f"diagonal {diagonal}"))
    return found


def _pairs(scale: float) -> list[Comparison]:
    """Least penalties of two networks at once: under blocks what the most demanding one needs, rates that are near."""
    found: list[Comparison] = []
    data, blocks = Moments.of_map(normal(8, 3, 5)), Block(0.3, 4, 2)
    thin = TwoLayerLinear(normal(6, 3, 2) @ normal(2, 2, 4), normal(7, 5, 4))  # of the rank of a block
    even = TwoLayerLinear(torch.linalg.qr(normal(1, 4, 3)).Q.mT, torch.linalg.qr(normal(2, 5, 4)).Q)  # needs three
    twice, both = (TwoLayerLinear(torch.stack([thin.U, one.U]), torch.stack([thin.V, one.V])) for one in (thin, even))
    energy = 0.3 / 0.7 / 2 * thin.matrix().square().sum()
    found.append(compare(induced(twice, data, blocks).value, "==", scale * energy, "of the rank of a block"))
    for one in (even, both):
        found.append(compare(fails(partial(induced, one, data, blocks)), "==", 1.0, "too few blocks"))
    for rates in (tensor([0.1, 0.5, 0.3, 0.2]), tensor([0.3, 0.3001, 0.2999, 0.3])):
        wanted = [_shared(torch.linalg.svdvals(one.matrix()), rates / (1 - rates)) for one in (thin, even)]
        told = induced(both, data, Bernoulli(rates, 4)).value
        found.append(compare(told, "==", scale * tensor(wanted), f"rates {rates.tolist()}", 1e-6))
    return found


def _masses(scale: float) -> list[Comparison]:
    """Atoms without mass, laws side by side, confidence that is spent, tied factors with signs."""
    found: list[Comparison] = []
    law = Discrete(tensor([[9.0, 1.0], [1.0, 1.0], [1.0, 3.0]]), tensor([0.0, 0.5, 0.5]))
    found.append(compare(law.bound, "==", scale * tensor([1.0, 1.5]), "no mass, no bound"))
    found.append(compare(law.rarest, "==", scale, "no mass, not rare"))
    coins, blocks = Bernoulli(0.3, 4), Block(0.3, 4, 2)
    for members, alone in (((coins, coins), True), ((coins, blocks), False), ((blocks, blocks), False)):
        found.append(same(Stacked(members).independent, alone, f"independent: {alone}", scale))
    for strength, radius, width, steps in ((2.0, 3.0, 9.0, 5.0), (1.0, 0.5, 100.0, 8.0)):
        setting = LazySetting(strength, radius, width, 1.0, 1.0)
        spent = 1 / (4 * 3.0 * radius * math.sqrt(width))
        factor = 2 / (3 - math.e)
        wanted = [factor * math.log(2) * strength**2 / 3, factor / 3, factor * math.log(1 / (0.2 - spent)) / steps]
        told = _compression(setting, 3.0, steps, 0.2, False)
        found.append(compare(list(told.values()), "==", scale * tensor(wanted), f"spent at {width}"))
    closed = _compression(LazySetting(1.0, 0.1, 1.0, 1.0, 1.0), 3.0, 5.0, 0.2, False)
    found.append(same(list(closed.values()), [math.inf], "all of it is spent", scale))
    best = optimum(Autoencoder, Moments.of_map(torch.diag(tensor([2.0, 1.0, 0.5]))), Bernoulli(0.3, 3))
    turn, signs = torch.linalg.qr(normal(4, 3, 3)).Q, tensor([1.0, -1.0, -1.0])
    plain, signed = optimal_factors(best, turn), optimal_factors(best, turn, signs)
    assert isinstance(plain, Autoencoder)
    assert isinstance(signed, Autoencoder)
    assert isinstance(best.model, Autoencoder)
    found.append(compare(signed.U, "==", scale * plain.U * signs, "signs of a tied network"))
    found.append(compare(plain.U @ plain.U.mT, "==", scale * best.model.U @ best.model.U.mT, "its map"))
    found.append(refuses(lambda: optimal_factors(best, torch.eye(2).double()), "rotation"))
    found.append(refuses(lambda: optimal_factors(best, turn[:, :2]), "rotation (columns)"))
    found.append(refuses(lambda: optimal_factors(best, turn, signs[:2]), "scales"))
    return found


def _ranks(scale: float) -> list[Comparison]:
    """Sums that are zero in floating point alone, columns that underflow, rows without weight, long sums of squares."""
    found: list[Comparison] = []
    rows = tensor([[1e16, 1.0, 1e16], [2.0, 1.0, 3.0]])
    found.append(same(vanishes(rows, tensor([1.0, 1.0, -1.0])), False, "zero by rounding", scale))
    found.append(same(vanishes(rows[1:], tensor([1.0, 1.0, -1.0])), True, "zero", scale))
    pair = tensor([[1.0, 1.0], [0.25, 0.25], [3.0, 3.0]])
    found.append(same(distinct(pair * tensor([1.0, 2.0])), 1, "one column twice", scale))
    near = torch.stack([tensor([1e300, 5e-324]), tensor([1e-10, 0.0])], 1)
    found.append(same(distinct(near), 2, "what underflows may differ", scale))
    few = torch.cat([normal(1, 6, 2)] * 2, 1)
    few[0, 2] += 1.0
    weights = torch.ones(6).double()
    weights[0] = 0.0
    for given, count in ((None, 1), (weights, 2)):
        told = shared_dependencies(None, few, given)
        found.append(same(len(told), count, f"dependent columns, {given is None}", scale))
        again = shared_dependencies(told, few, weights)
        found.append(same(len(again), count, f"of later rows, {given is None}", scale))
    found.append(same(len(shared_dependencies(shared_dependencies(None, few, weights), few, None)), 1, "", scale))
    found.append(same(vanishes(tensor([[5e-324, 5e-324], [1.0, 0.5]]), tensor([0.5, -1.0])), False, "halves", scale))
    # what holds for the first rows need not hold for later ones
    late = normal(3, 30, 3)
    late[:20, 2] = 2 * late[:20, 1]
    same_rows = torch.cat([normal(4, 1, 3).repeat(20, 1), normal(5, 3, 3)])
    for name, many, rank in (("columns", late, 3), ("rows", same_rows, 3), ("repeated", late[:20], 2)):
        found.append(same(proved_rank(many), rank, f"rank by the first {name}", scale))
        found.append(same(proved_rank(torch.cat([many, many[:, :1]], 1), found=1), rank, f"told, {name}", scale))
    # columns whose energy is lost are refused, but for rows without weight
    faint = tensor([[1.0, 0.0], [2.0, 0.0], [0.5, 1e-170]])
    shares = tensor([0.5, 0.5, 0.0])
    kept = Moments.of_sample(Sample(faint, faint, shares))
    found.append(compare(kept.xx, "==", scale * torch.diag(tensor([2.5, 0.0])), "silent but for rows without weight"))
    for given in (None, tensor([0.5, 0.25, 0.25])):
        lost = partial(Moments.of_sample, Sample(faint, normal(1, 3, 1), given))
        found.append(refuses(lost, "inputs must have mean squares of at least 2.23e-308 to have moments in"))
        lost = partial(Moments.of_sample, Sample(normal(1, 3, 1), faint, given))
        found.append(refuses(lost, "torch.float64, column 1 has less and is not zero"))
    for count in (BLOCK - 1, BLOCK, 2 * BLOCK + 3, 5 * BLOCK):
        numbers = normal(count, count)
        wanted = math.fsum(float(one) ** 2 for one in numbers)
        for mine in (numbers, numbers.numpy(), numbers.numpy()[::-1].astype(np.float64)):
            found.append(compare(squares(mine), "==", scale * wanted, f"squares of {count}", 1e-13))
    return found


def _columns(scale: float) -> list[Comparison]:
    """Columns that others give: without any rounding, up to it, or not, and what is lost of them."""
    found: list[Comparison] = []
    base, others = (8 * normal(1, 40, 3)).round(), normal(2, 40, 2)
    for name, extra, proved, gone in (
        ("none", others, 0, 0),
        ("one twice", 4 * base[:, :1], 1, 1),
        ("a sum", base[:, :1] - 2 * base[:, 1:2], 1, 1),
        ("a third", base[:, :1] / 3, 0, 1),
        ("a third and a sum", torch.stack([base[:, 0] / 3, base[:, 1] + base[:, 2]], 1), 1, 2),
        ("nothing", 0 * others, 2, 2),
        ("nearly one", base[:, :1] + 1e-6 * others[:, :1], 0, 0),
    ):
        rows = torch.cat([base, extra], 1)
        for weights in (None, simplex(3, 40)):
            roots = rows / math.sqrt(40) if weights is None else weights.sqrt()[:, None] * rows
            share = 1 / 40 if weights is None else 1.0
            given, label = roots / math.sqrt(share), f"{name}, {weights is None}"
            told = independent(rows, weights, given, share, roots.mT @ roots)
            found.append(same((len(told.kept), told.proved), (rows.shape[1] - gone, proved), label))
            found.append(compare(rows[:, told.kept] @ told.mixing, "==", scale * rows, f"all of them, {label}"))
            if gone > proved:  # rounding of one product, in units next to the sizes of the columns
                rest = (roots - roots[:, told.kept] @ told.mixing) / roots.square().sum(0).sqrt()
                found.append(compare(told.lost, ">=", rest.norm() / 4, f"what is lost, {label}", 0.0))
            found.append(same((told.lost > 0, told.lost < 1e-14), (gone > proved, True), f"of some, {label}"))
            aims = others if weights is None else weights.sqrt()[:, None] * others
            few = _few(Sample(rows, others, weights), given, aims, share, roots.mT @ roots)
            found.append(compare(few.triangle.mT @ few.triangle, "==", scale * roots.mT @ roots, f"rows, {label}"))
            energy = others.square().mean(0).sum() if weights is None else weights @ others.square().sum(1)
            found.append(compare(few.beyond + few.loads.square().sum(), "==", scale * energy, f"energy, {label}"))
            found.append(same((few.lost, few.proved), (told.lost, proved), f"few rows, {label}"))
    silent = whiten(Sample(torch.zeros(40, 3).double(), others, simplex(3, 40)))
    energy = simplex(3, 40) @ others.square().sum(1)
    found.append(compare([silent.constant, silent.energy], "==", scale * torch.stack([energy, energy]), "silent"))
    found.append(same(silent.target.shape[1], 0, "nothing is seen", scale))
    return found


def _tall(scale: float) -> list[Comparison]:
    """Orthonormal columns of many rows, of which three tell two features apart, every feature in its own units."""
    rows = normal(1, 4000, 3)
    rows[:, 1] = rows[:, 0]
    rows[[5, 17, 133], 1] += 1e-9 * tensor([1.0, -2.0, 1.5])
    units = tensor([1e3, 1e-2, 1.0])
    told = orthogonal(rows * units, 1 / 4000, (rows * units).mT @ (rows * units) / 4000)
    assert told is not None
    basis = told.rows @ told.turn
    return [
        compare(basis.mT @ basis / 4000, "==", scale * torch.eye(3), "three rows tell columns apart", 1e-12),
        compare(basis @ told.triangle / units, "==", scale * rows, "what the columns give", 1e-12),
    ]


def _heads(scale: float) -> list[Comparison]:
    """Features that do not vary beside a bias, and searches in single precision."""
    found: list[Comparison] = []
    features, targets, weights = normal(1, 9, 3), normal(2, 9, 2), simplex(3, 9)
    features[:, 1] = 1 / 3
    law = Bernoulli(0.25, 3)
    for shares in (None, weights):
        problem = HeadProblem.of(features, Sample(features, targets, shares), law, True)
        own = torch.ones(9).double() / 9 if shares is None else shares
        h, y = features - own @ features, targets - own @ targets
        h[:, 1] = 0.0
        second = (h * own[:, None]).mT @ h
        raw = (features.square() * own[:, None]).sum(0)
        found.append(compare(problem.quadratic, "==", scale * (second + torch.diag(raw / 3)), "what masks add"))
        found.append(compare(1 + problem.linear, "==", scale * (1 + (y * own[:, None]).mT @ h), "what is known"))
        found.append(same(problem.linear[:, 1].tolist(), [0.0, 0.0], "nothing is known of what is steady", scale))
    data, start = Sample(normal(4, 12, 3).float(), normal(5, 12, 2).float()), normal(7, 3, 3).float()
    told = variable_projection(data, Bernoulli(0.3, 3), start, iterations=2)
    wide = variable_projection(data.to(torch.float64), Bernoulli(0.3, 3), start.double(), iterations=2)
    found.append(same(told.model.dtype, torch.float32, "precision of a search", scale))
    found.append(compare(told.objective, "==", scale * wide.objective, "its end", 1e-4))
    given: Any = start.double().numpy()
    found.append(
        compare(
            variable_projection(
                data.to(torch.float64), Bernoulli(0.3, 3), torch.from_numpy(given), iterations=2
            ).objective,
            "==",
            scale * wide.objective,
            "a start of one's own",
        )
    )
    return found


def _rounded(scale: float) -> list[Comparison]:
    """How far rounding may move a deep penalty, and how long a sum takes, with weights of both signs."""
    found: list[Comparison] = []
    deep = DeepLinear([normal(1, 3, 2), normal(2, 4, 3), normal(3, 2, 4)])
    laws = [Bernoulli(0.3, 3), Bernoulli(0.5, 4)]
    data = Sample(normal(4, 8, 2), normal(5, 8, 2), simplex(6, 8))
    assert data.weights is not None
    plain = (data.weights @ data.inputs.square()).sqrt()
    noisy = torch.zeros(2).double()
    for weight, odds in zip(deep.weights[:-1], (3 / 7, 1.0), strict=True):
        plain, noisy = weight.abs() @ plain, weight.abs() @ noisy
        noisy = (noisy.square() + odds * (noisy.square() + plain.square())).sqrt()
    size = (deep.weights[-1].abs() @ noisy).square().sum()
    wanted = (roundings(deep, data) + 3 * 7) * 2.0**-53 * size
    found.append(
        compare(2.0**40 * _deep_rounding(deep, data, laws), "==", scale * 2.0**40 * wanted, "of a deep penalty")
    )
    net = ReLUNet([normal(1, 3, 4), normal(2, 2, 3)], [normal(3, 3), normal(4, 2)])
    sample, coins = Sample(normal(5, 6, 4), normal(6, 6, 2)), Bernoulli(0.4, 7)
    costs = []
    for seconds in (1.0, 2.5):
        with mock.patch.object(criterion, "kernel_seconds", return_value=seconds):
            costs.append(relu_cost(net, sample, coins))
    found.append(compare(costs[1].seconds, "==", scale * 2.5 * costs[0].seconds, "seconds of a sum"))
    found.append(compare([costs[0].outcomes, costs[1].outcomes], "==", scale * 6 * 16, "its outcomes"))
    with mock.patch.object(criterion, "kernel_seconds", return_value=1.0):
        three = relu_cost(ReLUNet([torch.stack([w] * 3) for w in net.weights]), sample, coins)
    found.append(compare(three.seconds, "==", scale * 3 * costs[0].seconds, "seconds of three networks"))
    found.append(compare(costs[0].seconds, "==", scale * 6 * (16 * (9 / 2 + 6) / 4 + 400), "its steps"))
    return found
