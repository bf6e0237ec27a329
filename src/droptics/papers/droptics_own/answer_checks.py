"""Routes that large, wide, tied and singular problems take, and the words of answers, beside their plain forms."""

from __future__ import annotations

import math
import warnings
from typing import Any

import torch
from torch import Tensor

from droptics.audits.discovery import _realized
from droptics.coadaptation.retention import Retentivity
from droptics.data import Moments, Sample
from droptics.envelopes.rounding import deep_rounding, norm_rounding
from droptics.equalization import balance, equalize, joint_equalizer, rescale
from droptics.errors import CertificateError, NoClosedForm
from droptics.estimates import Estimate
from droptics.evidence.claims import Comparison, compare
from droptics.landscapes.inspection import escape
from droptics.landscapes.portraits import _runs as _portrait
from droptics.masks import Bernoulli, Block, Discrete, Product, SlidingBlock
from droptics.models import Autoencoder, DeepLinear, Factorization, ReLUNet, TwoLayerLinear
from droptics.models.watching import Call
from droptics.optima import Certificate, Optimum, certify, optimum
from droptics.optima.allocations import best_allocation
from droptics.optima.deep_linear import gain_ceiling
from droptics.optima.objectives import energy, own_rounding
from droptics.optima.optimum import check_certified, rounding
from droptics.optima.stationary import _polished, alternate
from droptics.optima.two_layer import value_of_factors
from droptics.papers.instances import moments, normal, simplex, tensor, uniform
from droptics.recommenders.unbounded import say_unbounded
from droptics.spectra import action
from droptics.spectra.any_law import frobenius_strength, interval_weights, mixed, nuclear_strength
from droptics.spectra.decomposition import kept_values, shrunk_svd
from droptics.transforms import opaque

EPS = torch.finfo(torch.float64).eps


def answers_in_full(scale: float) -> list[Comparison]:
    """Wide factors, tall spectra, any laws, tied and singular networks, rounding, reasons and words."""
    return [
        *_wide(scale),
        *_spectra(scale),
        *_any_law(scale),
        *_mixtures(scale),
        *_mixed_bound(scale),
        *_rescaled(scale),
        *_equalized(scale),
        *_rounded(scale),
        *_worded(scale),
        *_opaque(scale),
        *_pieces(scale),
    ]


def _wide(scale: float) -> list[Comparison]:
    """Criteria of factors with more units than pairs are listed for, beside sums over all units."""
    found: list[Comparison] = []
    for width in (5, 2050):
        U, V, cross, second = normal(1, 2, width), normal(2, 3, width), normal(3, 2, 3), moments(4, 2, 3).xx
        W = U @ V.mT
        for name, law, extra in (
            ("rates", Bernoulli(uniform(5, width) / 2, width), None),
            ("blocks", Block(0.3, width, 5), 5),
            ("one rate", Bernoulli(0.3, width), None),
        ):
            for moment in (None, second):
                C = torch.eye(3).double() if moment is None else moment
                plain = 7.0 - 2 * (cross * W).sum() + ((W @ C) * W).sum()
                if extra is None:
                    noise = (law.relative_variance * U.square().sum(0) * (V * (C @ V)).sum(0)).sum()
                else:
                    maps = torch.einsum("obi,dbi->bod", U.reshape(2, -1, 5), V.reshape(3, -1, 5))
                    noise = 0.3 / 0.7 * ((maps @ C) * maps).sum()
                told = value_of_factors(U, V, cross, moment, 7.0, law)
                found.append(compare(told / (plain + noise), "==", scale, f"{name}, {width}, {moment is None}", 1e-10))
    return found


def _least(values: Tensor, odds: float, width: int) -> tuple[Tensor, float]:
    """The best soft threshold by trying every rank."""
    best, kept = float(values.square().sum()), values[:0]
    for rank in range(1, min(width, len(values)) + 1):
        top = values[:rank] - odds * values[:rank].sum() / (width + odds * rank)
        if float(top.min()) <= 0:
            break
        value = float(
            (values[:rank] - top).square().sum() + values[rank:].square().sum() + odds / width * top.sum() ** 2
        )
        if value < best:
            best, kept = value, top
    return kept, best


def _spectra(scale: float) -> list[Comparison]:
    """Shrunk decompositions of small and large targets, tall and wide, also where small values decide."""
    found: list[Comparison] = []
    for rows, columns, ratio in (
        (5, 9, 0.6),
        (9, 5, 0.6),
        (90, 200, 0.8),
        (200, 90, 0.8),
        (80, 70, 1e-3),
        (70, 80, 1e-3),
    ):
        left, right = (torch.linalg.qr(normal(k, size, size)).Q for k, size in ((rows, rows), (columns, columns)))
        short = min(rows, columns)
        values = ratio ** torch.arange(short).double()
        target = (left[:, :short] * values) @ right[:, :short].mT
        for rate, width in ((0.4, 7), (1e-9, 3)):
            acting = action(Bernoulli(rate, width))
            told = shrunk_svd(target, acting)
            kept, least = _least(values, rate / (1 - rate), width)
            name = f"{rows} by {columns}, {rate}"
            found.append(compare(len(told.values), "==", scale * len(kept), f"rank, {name}"))
            found.append(compare(told.values, "==", scale * kept, f"kept, {name}", 1e-9))
            found.append(compare(told.least, "==", scale * least, f"least, {name}", 1e-9))
            found.append(compare(told.left.mT @ told.left, "==", torch.eye(len(kept)), f"left, {name}", 1e-9))
            found.append(compare(told.right.mT @ told.right, "==", torch.eye(len(kept)), f"right, {name}", 1e-9))
            across = (told.left * (target @ told.right)).sum(0)
            found.append(compare(across / values[: len(kept)], "==", 1.0, f"directions, {name}", 1e-6))
    for law in (Bernoulli(tensor([0.2, 0.5, 0.6]), 3), Bernoulli(0.3, 4)):
        acting = action(law)
        values = tensor([2.0, 1.5, 0.3, 0.1])
        kept_array, penalty = kept_values(acting, values.numpy().copy())
        rest = values.clone()
        rest[: len(kept_array)] -= torch.from_numpy(kept_array)
        whole = float(rest.square().sum()) + penalty
        padded = torch.nn.functional.pad(torch.from_numpy(kept_array), (0, 4 - len(kept_array)))
        found.append(compare(penalty, "==", scale * acting.value(padded), f"penalty kept, {law.size}"))
        for j in range(8):
            beside = (padded + 1e-3 * normal(j, 4)).clamp_min(0).sort(descending=True).values
            other = float((values - beside).square().sum() + acting.value(beside))
            found.append(compare(whole, "<=", other / scale, f"best, {law.size}"))
        cut = acting.cutoff(values, torch.from_numpy(kept_array))
        below = torch.cat([values[: len(kept_array)], tensor([0.999 * cut])])
        again, _ = kept_values(acting, below.numpy().copy())
        found.append(compare(len(again), "==", scale * len(kept_array), f"below the cutoff, {law.size}"))
    return found


def _within(matrix: Tensor) -> float:
    """1 / (1^T matrix^+ 1), zero where the vector of ones is not in the range."""
    ones, inverse = torch.ones(len(matrix)).double(), torch.linalg.pinv(matrix, hermitian=True)
    reached = float((matrix @ inverse @ ones - ones).abs().max()) < 1e-9
    return float(1 / (ones @ inverse @ ones)) if reached else 0.0


def _any_law(scale: float) -> list[Comparison]:
    """Bounds of any law by its characteristic matrix, and alternating least squares beside slopes."""
    found: list[Comparison] = []
    for name, law in (
        ("blocks", Block(0.3, 4, 2)),
        ("coins", Bernoulli(tensor([0.1, 0.4, 0.3]), 3)),
        ("listed", Discrete(tensor([[2.0, 0.0, 1.0], [0.0, 2.0, 1.5], [1.0, 1.0, 0.5]]), simplex(1, 3))),
    ):
        C = law.characteristic
        plain = _within(C)
        found.append(compare(frobenius_strength(C), "==", scale * plain, f"by energies, {name}", 1e-8))
        size = len(C)
        padded = torch.zeros(size + 2, size + 2).double()
        padded[1:-1, 1:-1] = C
        weights = torch.zeros(size, size).double()
        for i in range(size):
            for j in range(i, size):
                weights[i, j] = padded[i + 1, j + 1] - padded[i, j + 1] - padded[i + 1, j + 2] + padded[i, j + 2]
        wanted, told = 0.0, interval_weights(C)
        found.append(compare(float(told is None), "==", float((weights.min() < -1e-12).item()), f"intervals, {name}"))
        if told is not None:
            found.append(compare(told, "==", scale * weights.clamp_min(0), f"their weights, {name}"))
            cover = torch.zeros(size, size).double()
            for i in range(size):
                for j in range(i, size):
                    cover[i : j + 1, i : j + 1] += weights[i, j] / (j - i + 1)
            wanted = _within(cover)
        d = C.diagonal()
        if bool((d > 0).all()):
            wanted = max(wanted, float(torch.linalg.eigvalsh(C / (d[:, None] * d).sqrt())[0] / (1 / d).sum()))
        found.append(compare(nuclear_strength(C), "==", scale * wanted, f"by a nuclear norm, {name}", 1e-8))
        T = normal(3, 3, 4)
        U, H, rank, words = alternate(T, C, seed=1)
        U, H = U.clone().requires_grad_(), H.clone().requires_grad_()

        def value(U: Tensor, H: Tensor, C: Tensor = C, T: Tensor = T) -> Tensor:
            return (T - U @ H.mT).square().sum() + (C * (U.mT @ U) * (H.mT @ H)).sum()

        slopes = torch.autograd.grad(value(U, H), (U, H))
        found.append(compare(torch.cat([one.flatten() for one in slopes]), "==", 0.0, f"stationary, {name}", 1e-5))
        found.append(compare(rank, "==", scale * int(torch.linalg.matrix_rank(U @ H.mT, rtol=1e-7)), f"rank, {name}"))
        found.append(compare(float("6 starts" in words), "==", scale, f"words, {name}"))
        left, values, outer = torch.linalg.svd(T, full_matrices=False)
        (first, second), _ = _polished(values.numpy()[:, None], normal(5, 3, size).numpy(), (1 + C).numpy())
        ends = left @ torch.from_numpy(first), outer.mT @ torch.from_numpy(second)
        found.append(compare(value(*ends), "==", scale * value(U, H).detach(), f"polished, {name}", 1e-3))
    return found


def _mixed_bound(scale: float) -> list[Comparison]:
    """The best of 21 mixtures of two bounds."""
    found: list[Comparison] = []
    law = Discrete(tensor([[2.0, 0.0, 1.0], [0.0, 2.0, 1.5], [1.0, 1.0, 0.5]]), simplex(1, 3))
    values, best = tensor([2.0, 1.2, 0.4]), -math.inf
    strengths = frobenius_strength(law.characteristic), nuclear_strength(law.characteristic)
    for w in range(21):
        x, more = mixed(values, (1 - w / 20) * strengths[0], w / 20 * strengths[1], 3)
        best = max(best, float((values - x).square().sum()) + more)
        own = (1 - w / 20) * strengths[0] * x.square().sum() + w / 20 * strengths[1] * x.sum() ** 2
        found.append(compare(more, "==", scale * own, f"mixture {w}"))
    kept, penalty = action(law).shrink(values)
    found.append(compare(float((values - kept).square().sum()) + penalty, "==", scale * best, "the best mixture"))
    return found


def _mixtures(scale: float) -> list[Comparison]:
    """Shrinkage by energies and a nuclear norm at once, the best of all ranks."""
    found: list[Comparison] = []
    for j in range(4):
        s, plain, nuclear, width = normal(j, 4).abs().sort(descending=True).values, 0.3, 0.2, 2
        x, _ = mixed(s, plain, nuclear, width)
        best = math.inf
        for rank in range(width + 1):
            y = torch.zeros(4).double()
            top = s[:rank]
            y[:rank] = (top - nuclear * top.sum() / (1 + plain + nuclear * rank)) / (1 + plain)
            if rank == 0 or float(y[:rank].min()) > 0:
                cost = float((s - y).square().sum() + plain * y.square().sum() + nuclear * y.sum() ** 2)
                if cost < best:
                    best, wanted_x = cost, y
        found.append(compare(torch.nn.functional.pad(x, (0, 4 - len(x))), "==", scale * wanted_x, f"mixed, {j}"))
    return found


def _equalized(scale: float) -> list[Comparison]:
    """Tied, wide, singular and rescaled networks: maps stay, products are those that the law wants."""
    found: list[Comparison] = []
    even = Moments(1.7 * torch.eye(4).double(), 0.3 * torch.eye(4).double(), 2 * torch.eye(4).double())
    for law in (Bernoulli(0.3, 3), Bernoulli(tensor([0.1, 0.5, 0.3]), 3)):
        U = normal(1, 4, 3)
        told = equalize(Autoencoder(U), even, law)
        assert isinstance(told, Autoencoder)
        found.append(compare(told.U @ told.U.mT, "==", scale * U @ U.mT, f"tied map, {law.drop[0]}"))
        values = torch.linalg.svdvals(U).square()
        least = action(law).value(values)
        own = (law.relative_variance * told.U.square().sum(0).square()).sum()
        found.append(compare(own, "==", scale * least, f"tied penalty, {law.drop[0]}"))
    bent = Moments(torch.diag(tensor([1.0, 1.0, 1.0, 2.0])), even.yx, even.yy)
    found.append(
        compare(_fails(lambda: equalize(Autoencoder(normal(1, 4, 3)), bent, Bernoulli(0.3, 3))), "==", scale, "bent")
    )
    X = normal(2, 30, 4)
    X[:, 3] = X[:, 0] - X[:, 1]
    data, law = Sample(X, normal(3, 30, 2)), Bernoulli(0.4, 5)
    model = TwoLayerLinear(normal(4, 2, 5), normal(5, 4, 5))
    other = equalize(model, data, law)
    assert isinstance(other, TwoLayerLinear)
    found.append(compare(other.U @ other.V.mT, "==", scale * model.U @ model.V.mT, "a singular map stays", 1e-8))
    values = torch.linalg.svdvals(model.U @ model.V.mT @ torch.linalg.qr(X).R.mT / 30**0.5)
    noise = 0.4 / 0.6 * (other.U.square().sum(0) * (X @ other.V).square().mean(0)).sum()
    found.append(compare(noise, "==", scale * 0.4 / 0.6 / 5 * values.sum() ** 2, "its penalty", 1e-8))
    return found


def _rescaled(scale: float) -> list[Comparison]:
    """Equal products by a rotation, rescaled nodes, balanced ones."""
    found: list[Comparison] = []
    first, second = normal(6, 3, 4), normal(7, 2, 4)
    Q = joint_equalizer(first, second, seed=2)
    products = (first @ Q).norm(dim=0) * (second @ Q).norm(dim=0)
    found.append(compare(products, "==", scale * products.mean(), "equal products", 1e-9))
    found.append(compare(Q.mT @ Q, "==", torch.eye(4), "a rotation", 1e-12))
    found.append(compare(joint_equalizer(first, 0 * second), "==", torch.eye(4), "nothing to equalize"))
    scales = [tensor([2.0, 0.5, 3.0]), tensor([0.25, 4.0])]
    x = normal(8, 5, 3)
    relu = ReLUNet([normal(9, 3, 3), normal(10, 2, 3), normal(11, 2, 2)], [normal(12, 3), normal(13, 2), normal(14, 2)])
    deep = DeepLinear([normal(9, 3, 3), normal(10, 2, 3), normal(11, 2, 2)])
    signs = [-scales[0], scales[1]]
    for name, network, factors in (("relu", relu, scales), ("deep", deep, signs)):
        turned = rescale(network, factors)
        assert isinstance(turned, (ReLUNet, DeepLinear))
        units = network.units
        z = uniform(15, units) * 2
        found.append(compare(turned.outputs(x, z), "==", scale * network.outputs(x, z), f"rescaled outputs, {name}"))
        for k, (old, new) in enumerate(zip(network.weights, turned.weights, strict=True)):
            into = factors[k] if k < 2 else torch.ones(2).double()
            out = factors[k - 1] if k else torch.ones(3).double()
            found.append(compare(new, "==", scale * into[:, None] * old / out, f"rescaled weights, {name}, {k}"))
    for family in (TwoLayerLinear, Factorization):
        one = rescale(family(normal(1, 2, 3), normal(2, 4, 3)), scales[0])
        assert isinstance(one, (TwoLayerLinear, Factorization))
        found.append(compare(one.U, "==", scale * normal(1, 2, 3) / scales[0], f"left, {family.__name__}"))
        found.append(compare(one.V, "==", scale * normal(2, 4, 3) * scales[0], f"right, {family.__name__}"))
    second_moment = moments(3, 2, 4)
    level = balance(TwoLayerLinear(normal(1, 2, 3), normal(2, 4, 3)), second_moment)
    into = (level.V * (second_moment.xx @ level.V)).sum(0)
    found.append(compare(level.U.square().sum(0), "==", scale * into, "balanced"))
    found.append(compare(level.U @ level.V.mT, "==", scale * normal(1, 2, 3) @ normal(2, 4, 3).mT, "the same map"))
    gone = balance(TwoLayerLinear(normal(1, 2, 3) * tensor([0.0, 1.0, 1.0]), normal(2, 4, 3)), second_moment)
    found.append(compare(torch.cat([gone.U[:, 0], gone.V[:, 0]]), "==", 0.0, "a dead node"))
    return found


def _fails(call: Any, kinds: Any = NoClosedForm) -> float:
    try:
        call()
    except kinds:
        return 1.0
    return 0.0


def _rounded(scale: float) -> list[Comparison]:
    """How far singular values, criteria and optima may be off, by their formulas."""
    found: list[Comparison] = []
    known = moments(1, 2, 3)
    X, Y = normal(2, 9, 3), normal(3, 9, 2)
    model, deep = (
        TwoLayerLinear(normal(4, 2, 4), normal(5, 3, 4)),
        DeepLinear([normal(6, 4, 3), normal(7, 3, 4), normal(8, 2, 3)]),
    )
    values = tensor([2.0, 1e-9])
    for name, data, eta, sizes in (
        ("moments", known, 64 * 3 * known.rounding, known.xx.diagonal().sqrt()),
        (
            "sample",
            Sample(X, Y),
            (2 * max(112 * EPS, 4 * 3**0.5 * EPS)) ** 2 + 64 * 27 * EPS,
            X.square().mean(0).sqrt(),
        ),
    ):
        flat, whole = (
            model.U.abs() @ model.V.abs().mT,
            deep.weights[2].abs() @ deep.weights[1].abs() @ deep.weights[0].abs(),
        )
        for kind, network, reach in (("two layers", model, flat), ("deep", deep, whole)):
            delta = eta * ((reach * sizes) ** 2).sum()
            moved = torch.minimum(delta.sqrt(), delta / values)
            root = 0.3**0.5
            told = norm_rounding(network, data, values, torch.tensor(0.3))
            shift, size = root * moved.sum(), root * values.sum()
            least = 2 * size * shift + shift.square()
            found.append(compare(told, ">=", least, f"{kind}, {name}", 1e-12))
            found.append(compare(told, "<=", (least + 1e-11 * size**2) / scale, f"no more, {kind}, {name}", 0.0))
        told = deep_rounding(deep, data, values, tensor(3.0), 0.25)
        delta = eta * ((whole * sizes) ** 2).sum()
        factor = (torch.minimum(delta.sqrt(), delta / values) * 1.25 / values).max()
        own = 0.25 * 64 * (9 if name == "sample" else 1) * 3 * EPS * ((whole * sizes) ** 2).sum()
        least = (2 * factor + factor**2) * 3 + own
        found.append(compare(told, ">=", least, f"induced, {name}", 1e-12))
        found.append(compare(told, "<=", least * (1 + 1e-6) / scale + 1e-12, f"no more induced, {name}", 0.0))
        found.append(
            compare(deep_rounding(deep, data, tensor([2.0, 0.0]), tensor(3.0), 0.0), "==", math.inf, "vanished")
        )
    reach = (model.U @ model.V.mT).abs() @ known.xx.diagonal().sqrt()
    wanted = known.rounding * (reach + known.yy.diagonal().sqrt()).square().sum()
    found.append(compare(own_rounding(model, known), "==", scale * wanted, "of a criterion", 1e-9, 1e-300))
    found.append(compare(own_rounding(model, Sample(X, Y)), "==", 0.0, "of examples"))
    found.append(compare(energy(known), "==", scale * known.yy.trace(), "energy of moments"))
    single = Moments(known.xx.float(), known.yx.float(), known.yy.float())
    found.append(compare(rounding(torch.float64), "==", 1e-9 * scale, "of weights", 1e-12, 0.0))
    found.append(
        compare(rounding(torch.float32, single), "==", scale * 96 * single.rounding, "of single moments", 1e-12, 0.0)
    )
    values, strengths = tensor([2.0, 1.0, 0.5]), tensor([0.3, 0.2])
    told_best = best_allocation(values.numpy(), strengths.numpy())
    joint = 1.3 * 1.2 - 1
    grid = torch.linspace(0, 1, 201).double()
    a, b = torch.meshgrid(grid, grid, indexing="ij")
    inside = a + b <= 1
    shares = torch.stack([a[inside], b[inside], (1 - a - b)[inside].clamp_min(0)])
    ceiling = float((values[:, None].square() * shares / (shares + joint)).sum(0).max())
    told_ceiling = gain_ceiling(values, strengths, told_best)
    found.append(compare(told_ceiling, "==", scale * min(told_best.bound, ceiling), "ceiling of gains", 1e-4))
    found.append(compare(told_ceiling, ">=", told_best.gain, "not below a gain"))
    masked = DeepLinear([normal(6, 4, 3), normal(7, 2, 4)], mask_inputs=True)
    law = Product([Bernoulli(0.2, 3), Bernoulli(0.3, 4)])
    bound = certify(masked, known, law).bound
    noisy = Moments(known.xx + 0.25 * torch.diag(known.xx.diagonal()), known.yx, known.yy)
    best = optimum(TwoLayerLinear, noisy, Bernoulli(0.3, 4))
    found.append(compare(bound, "==", scale * best.objective, "masked inputs are noise", 1e-8))
    return found


def _worded(scale: float) -> list[Comparison]:
    """Reasons, gaps and the words of answers."""
    found: list[Comparison] = []
    model = TwoLayerLinear(normal(1, 2, 3), normal(2, 4, 3))
    one: dict[str, Any] = {"model": model, "rank": 2, "claim": "droptics-any-law", "scale": 10.0, "tolerance": 1e-6}
    cases: tuple[tuple[str, dict[str, Any], bool, str], ...] = (
        ("certified", {"objective": 1.0, "bound": 1.0 - 9e-6}, True, "certified"),
        ("not", {"objective": 1.0, "bound": 1.0 - 11e-6}, False, "the bound is not attained by factors"),
        ("rounding", {"objective": 1.0, "bound": 0.9, "slack": 0.1}, False, "rounding of the data leaves 0.1 of"),
        (
            "a search",
            {"objective": 1.0, "bound": 0.9, "method": "some search"},
            False,
            "found by a search (some search)",
        ),
    )
    for name, more, certified, words in cases:
        told = Optimum(**one, **more)
        found.append(compare(float(told.certified), "==", float(certified), f"certified, {name}"))
        found.append(compare(float(words in repr(told)), "==", scale, f"words, {name}: {told!r}"))
        found.append(compare(told.gap, "==", scale * (more["objective"] - more["bound"]), f"gap, {name}"))
        found.append(
            compare(float(f"of rank 2, objective {more['objective']:.6g}" in repr(told)), "==", scale, "numbers")
        )
        found.append(compare(float(told.reason is None), "==", float(certified), f"reason, {name}"))
    for objective, bound, share in ((3.0, 2.0, 0.5), (2.0, 2.0, 0.0), (1.0, 0.0, math.inf), (1.0, 2.0, 0.0)):
        found.append(
            compare(Certificate(objective, bound, "droptics-any-law").relative_gap, "==", scale * share, "share")
        )
    above = Optimum(model, 1.0, 1.0 + 2e-8, 1, "droptics-any-law", 10.0)
    within = Optimum(model, 1.0, 1.0 + 0.9e-8, 1, "droptics-any-law", 10.0)
    found.append(compare(_fails(lambda: check_certified(above), CertificateError), "==", scale, "a bound above"))
    found.append(compare(_fails(lambda: check_certified(within), CertificateError), "==", 0.0, "by rounding"))
    for value, low, high, confidence, error, words in (
        (1.5, 1.0, 2.0, 0.95, 0.0, "Estimate(1.5 in [1, 2] at 95%, some masks)"),
        (1.5, 1.0, 2.0, 1.0, 0.1, "Estimate(1.5 in [1, 2], some masks)"),
        (1.5, 1.4, 1.6, 1.0, 0.1, "Estimate(1.5 +- 0.1, some masks)"),
        (1.5, 1.5, 1.5, 1.0, 7e-7, "Estimate(1.5, some masks)"),
        (1.5, 1.5, 1.5, 1.0, 8e-7, "Estimate(1.5 +- 8e-07, some masks)"),
    ):
        known = {"value": tensor(value), "lower": tensor(low), "upper": tensor(high), "method": "some masks", "cost": 1}
        told_estimate = Estimate.later(known | {"confidence": confidence, "error": tensor(error)}, dict)
        found.append(compare(float(repr(told_estimate) == words), "==", scale, f"words, {told_estimate!r}"))
    for examples, rank, words in (
        (19, 10, "19 examples span 10 dimensions: below two examples per dimension"),
        (20, 10, "with 2 examples per dimension a Gaussian sample, whose population value is 1/2, reads about 0.00"),
        (
            1000,
            10,
            "100 examples per dimension a Gaussian sample, whose population value is 1/2, reads about 0.40",
        ),
        (4000, 10, "400 examples per dimension: the downward bias is below about 0.05"),
    ):
        note = Retentivity(0.3, torch.zeros(1), True, rank, examples).note
        found.append(compare(float(words in note), "==", scale, f"bias, {note}"))
    flat = Moments.of_map(2 * torch.eye(30).double())
    origin = TwoLayerLinear(torch.zeros(30, 68).double(), torch.zeros(30, 68).double())
    way = escape(origin, flat, Bernoulli(0.3, 68))
    found.append(compare(way.curvature, "==", -4.0 * scale, "least curvature of many weights", 1e-4))
    return found


def _opaque(scale: float) -> list[Comparison]:
    """A function that torch cannot see into has the derivatives of the one it can, forward, backward and mapped."""
    found: list[Comparison] = []

    def plain(a: Tensor, b: Tensor) -> Tensor:
        return torch.stack([(a * b).sum() ** 2, (a**3).sum() + b.prod()])

    def hidden(a: Tensor, b: Tensor) -> Tensor:
        return opaque(plain, a, b)

    a, b, da, db = (normal(k, 3) for k in (1, 2, 3, 4))
    found.append(compare(hidden(a, b), "==", scale * plain(a, b), "value"))
    for name, one in (("first", 0), ("second", 1)):
        told = torch.func.jacrev(hidden, argnums=one)(a, b)
        found.append(compare(told, "==", scale * torch.func.jacrev(plain, argnums=one)(a, b), f"backward, {name}"))
    along = torch.func.jvp(hidden, (a, b), (da, db))[1]
    found.append(compare(along, "==", scale * torch.func.jvp(plain, (a, b), (da, db))[1], "forward"))
    rows = normal(5, 4, 3)
    told = torch.func.vmap(hidden, in_dims=(0, None))(rows, b)
    found.append(compare(told, "==", scale * torch.stack([plain(row, b) for row in rows]), "mapped"))
    slopes = torch.func.vmap(torch.func.grad(lambda x: hidden(x, b)[0]))(rows)
    wanted = torch.stack([2 * (row @ b) * b for row in rows])
    found.append(compare(slopes, "==", scale * wanted, "mapped slopes"))
    return found


def _pieces(scale: float) -> list[Comparison]:
    """Diagonals of products of laws, portraits step by step, realized shares, low-rank inverses, when to warn."""
    found: list[Comparison] = []
    law = Product([Block(0.3, 4, 2), SlidingBlock.matching(0.2, 5, 3), Bernoulli(0.4, 3)])
    for lag in range(13):
        told = law.diagonal(lag)
        if lag < 12:
            found.append(compare(told, "==", scale * torch.diagonal(law.characteristic, lag), f"diagonal {lag}"))
        else:
            found.append(compare(len(told), "==", 0.0, "no diagonal"))
    known, coins = Moments(tensor([[1.5]]), tensor([[0.7]]), tensor([[2.0]])), Bernoulli(tensor([0.2, 0.4]), 2)
    starts = normal(1, 3, 2)
    path = _portrait(starts, known, coins, 4, 0.1, 5)
    generator, weights = torch.Generator().manual_seed(5), starts.clone()
    for step in range(4):
        z = coins.multipliers(3, generator)
        rows = []
        for w, one in zip(weights, z, strict=True):
            error = 1.5 * float((one * w * w).sum()) - 0.7
            rows.append(torch.stack([w[i] - 0.2 * float(coins.mean[i]) * error * one[i] * w[i] for i in range(2)]))
        weights = torch.stack(rows)
        found.append(compare(path[:, step + 1], "==", scale * weights, f"a portrait after {step + 1} steps"))
    source = tensor([[1.0, 0.0, 2.0, 3.0], [4.0, 5.0, 0.0, 6.0]])
    result = source * tensor([[1.0, 1.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0]])
    for kind, given, left, share in (
        ("dropout", source, result, 3 / 6),
        ("dropout2d", source[:, :, None, None], result[:, :, None, None], 3 / 6),
        ("dropout1d", torch.stack([source, 0 * source], -1), torch.stack([result, 0 * result], -1), 3 / 6),
    ):
        call = Call("a", kind, 0.5, True, tuple(given.shape), None, source=given, result=left)
        found.append(compare(_realized(call) or 0.0, "==", scale * share, f"realized, {kind}"))
    for size, warned in ((1.9, 0.0), (2.1, 1.0)):
        factors = tensor([[size], [0.0], [0.0], [0.0]]).numpy()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            say_unbounded(factors, tensor([[1.0], [1.0]]).numpy(), 1.0)
        found.append(compare(float(bool(caught)), "==", warned, f"predictions of {size} where ratings lie within 1"))
    return found
