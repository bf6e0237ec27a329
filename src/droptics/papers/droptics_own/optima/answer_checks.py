"""Routes that large, wide, tied and singular problems take, and the words of answers, beside their plain forms."""

from __future__ import annotations

import math
import warnings
from typing import Any

import torch
from torch import Tensor

from droptics.audits.discovery import _realized
from droptics.coadaptation.retention import Retentivity
from droptics.data import Data, Moments, Sample
from droptics.envelopes.rounding import deep_rounding, norm_rounding
from droptics.equalization import balance, equalize, joint_equalizer, rescale
from droptics.errors import CertificateError
from droptics.estimates import Estimate
from droptics.evidence.claims import Comparison, compare
from droptics.landscapes.inspection import escape
from droptics.landscapes.portraits import _runs as _portrait
from droptics.masks import Bernoulli, Block, Product, SlidingBlock
from droptics.models import Autoencoder, DeepLinear, Factorization, ReLUNet, TwoLayerLinear
from droptics.models.watching import Call
from droptics.optima import Certificate, Optimum, certify, optimum
from droptics.optima.allocations import best_allocation
from droptics.optima.deep_linear import gain_ceiling
from droptics.optima.objectives import energy, own_rounding
from droptics.optima.optimum import check_certified, rounding
from droptics.optima.two_layer import value_of_factors
from droptics.papers.droptics_own.landscapes.map_checks import _shared
from droptics.papers.droptics_own.optima.shrunk_checks import _least, shrunk_in_full
from droptics.papers.droptics_own.telling import fails
from droptics.papers.instances import moments, normal, tensor, uniform
from droptics.recommenders.unbounded import say_unbounded
from droptics.transforms import opaque

EPS = torch.finfo(torch.float64).eps


def answers_in_full(scale: float) -> list[Comparison]:
    """Wide factors, tall spectra, any laws, rounding, reasons and words."""
    return [
        *_wide(scale),
        *shrunk_in_full(scale),
        *_rounded(scale),
        *_noisy(scale),
        *_worded(scale),
        *_opaque(scale),
        *_pieces(scale),
    ]


def equalized_in_full(scale: float) -> list[Comparison]:
    """Tied, singular, rescaled and balanced networks."""
    return [*_rescaled(scale), *_equalized(scale)]


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
        least = _shared(values, law.drop / (1 - law.drop))
        own = (law.relative_variance * told.U.square().sum(0).square()).sum()
        found.append(compare(own, "==", scale * least, f"tied penalty, {law.drop[0]}", 1e-6))
    bent = Moments(torch.diag(tensor([1.0, 1.0, 1.0, 2.0])), even.yx, even.yy)
    found.append(
        compare(fails(lambda: equalize(Autoencoder(normal(1, 4, 3)), bent, Bernoulli(0.3, 3))), "==", 1.0, "bent")
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


def _left_out(model: TwoLayerLinear, data: Data, eta: float, sizes: Tensor, scale: float) -> Comparison:
    """A value of zero may have been below what single precision carries of another, in products of four units."""
    weak, single, largest = TwoLayerLinear(model.U.float(), model.V.float()), 2.0**-23, 2.0
    delta = eta * (((weak.U.double().abs() @ weak.V.double().abs().mT) * sizes) ** 2).sum()
    shift = torch.minimum(delta.sqrt(), delta / largest) + delta.sqrt() + 4 * 4 * single * largest
    wanted = 0.3 * ((largest + shift) ** 2 - largest**2) + (single + 128 * EPS) * 0.3 * largest**2
    told = norm_rounding(weak, data, tensor([largest, 0.0]), tensor(0.3))
    return compare(told, "==", scale * wanted, f"a value that is not there, {type(data).__name__}")


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
        found.append(_left_out(model, data, eta, sizes, scale))
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
    # of equal values the ceiling that all layers have together is that of equal shares, here the lower one
    ones, strong = torch.ones(4).double(), tensor([15.0, 6.0, 1.5])
    told_best, joint = best_allocation(ones.numpy(), strong.numpy()), float((1 + strong).prod()) - 1
    found.append(compare(gain_ceiling(ones, strong, told_best), "==", scale * 4 / (1 + 4 * joint), "of equal values"))
    found.append(compare(told_best.bound, ">", 1.3 * 4 / (1 + 4 * joint), "below the other ceiling"))
    return found


def _noisy(scale: float) -> list[Comparison]:
    """Masks on the inputs are noise of the data: the least criterion by all ranks."""
    found: list[Comparison] = []
    known = moments(1, 2, 3)
    masked = DeepLinear([normal(6, 4, 3), normal(7, 2, 4)], mask_inputs=True)
    law = Product([Bernoulli(0.2, 3), Bernoulli(0.3, 4)])
    bound = certify(masked, known, law).bound
    noisy = Moments(known.xx + 0.25 * torch.diag(known.xx.diagonal()), known.yx, known.yy)
    spectrum = torch.linalg.svdvals(known.yx @ torch.linalg.inv(torch.linalg.cholesky(noisy.xx)).mT)
    least = known.yy.trace() - spectrum.square().sum() + _least(spectrum, 0.3 / 0.7, 4)[1]
    found.append(compare(bound, "==", scale * least, "masked inputs are noise", 1e-8))
    best = optimum(TwoLayerLinear, noisy, Bernoulli(0.3, 4))
    found.append(compare(best.objective, "==", scale * least, "an optimum with such noise", 1e-8))
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
        found.append(compare(float(words in repr(told)), "==", 1.0, f"words, {name}: {told!r}"))
        found.append(compare(told.gap, "==", scale * (more["objective"] - more["bound"]), f"gap, {name}"))
        found.append(
            compare(float(f"of rank 2, objective {more['objective']:.6g}" in repr(told)), "==", 1.0, "numbers")
        )
        found.append(compare(float(told.reason is None), "==", float(certified), f"reason, {name}"))
    for objective, bound, share in (
        (3.0, 2.0, 0.5),
        (2.0, 2.0, 0.0),
        (1.0, 0.0, math.inf),
        (1.0, -2.0, math.inf),
        (1.0, 2.0, 0.0),
    ):
        found.append(
            compare(Certificate(objective, bound, "droptics-any-law").relative_gap, "==", scale * share, "share")
        )
    above = Optimum(model, 1.0, 1.0 + 2e-8, 1, "droptics-any-law", 10.0)
    within = Optimum(model, 1.0, 1.0 + 0.9e-8, 1, "droptics-any-law", 10.0)
    found.append(compare(fails(lambda: check_certified(above), CertificateError), "==", 1.0, "a bound above"))
    found.append(compare(fails(lambda: check_certified(within), CertificateError), "==", 0.0, "by rounding"))
    for value, low, high, confidence, error, words in (
        (1.5, 1.0, 2.0, 0.95, 0.0, "Estimate(1.5 in [1, 2] at 95%, some masks)"),
        (1.5, 1.0, 2.0, 1.0, 0.1, "Estimate(1.5 in [1, 2], some masks)"),
        (1.5, 1.4, 1.6, 1.0, 0.1, "Estimate(1.5 +- 0.1, some masks)"),
        (1.5, 1.5, 1.5, 1.0, 7e-7, "Estimate(1.5, some masks)"),
        (1.5, 1.5, 1.5, 1.0, 8e-7, "Estimate(1.5 +- 8e-07, some masks)"),
    ):
        known = {"value": tensor(value), "lower": tensor(low), "upper": tensor(high), "method": "some masks", "cost": 1}
        told_estimate = Estimate.later(known | {"confidence": confidence, "error": tensor(error)}, dict)
        found.append(compare(float(repr(told_estimate) == words), "==", 1.0, f"words, {told_estimate!r}"))
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
        found.append(compare(float(words in note), "==", 1.0, f"bias, {note}"))
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
    place = torch.arange(5)
    slid = 0.8 ** (-(3 - (place[:, None] - place).abs()).clamp_min(0).double() / 3) - 1
    pair = 0.3 / 0.7 * torch.ones(2, 2).double()
    whole = torch.block_diag(pair, pair, slid, 0.4 / 0.6 * torch.eye(3).double())
    for lag in range(13):
        told = law.diagonal(lag)
        if lag < 12:
            found.append(compare(told, "==", scale * torch.diagonal(whole, lag), f"diagonal {lag}"))
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
