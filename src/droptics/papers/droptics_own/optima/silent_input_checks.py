"""Optima of silent inputs, of rough moments, of tied networks turned, of layers without masks; reasons."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from droptics.data import Data, Entries, Measurements, Moments, Sample
from droptics.evidence.claims import Comparison, compare
from droptics.masks import Bernoulli, Block, MaskLaw, Product, SlidingBlock
from droptics.models import Autoencoder, Connections, DeepLinear, Factorization, Model, ReLUNet, TwoLayerLinear
from droptics.optima import Certificate, Optimum, certify, optimal_factors, optimum
from droptics.optima.allocations import best_allocation
from droptics.optima.deep_linear import gain_ceiling
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.optima.factor_checks import unequal_program
from droptics.papers.droptics_own.optima.shrunk_checks import _least
from droptics.papers.droptics_own.telling import refuses, same
from droptics.papers.instances import moments, normal, tensor
from droptics.spectra import action
from droptics.spectra.coordinates import frame


def side_optima(scale: float) -> list[Comparison]:
    """Optima and certificates off the usual path, beside all ranks, refits and words."""
    return by_parts((_optima, _silent, _read_entries, _roughly), scale)


def _optima(scale: float) -> list[Comparison]:
    """Tied factors turned, tied networks on any inputs, and what has no optimum."""
    found: list[Comparison] = []
    even = Moments(1.7 * torch.eye(3).double(), normal(1, 3, 3) + 3 * torch.eye(3).double(), 40 * torch.eye(3).double())
    law = Bernoulli(0.3, 4)
    best = optimum(Autoencoder, even, law)
    turn = torch.linalg.qr(normal(2, 4, 4)).Q
    other = optimal_factors(best, turn, tensor([1.0, -1.0, -1.0, 1.0]))
    assert isinstance(other, Autoencoder)
    assert isinstance(best.model, Autoencoder)
    found.append(compare(other.U @ other.U.mT, "==", scale * best.model.matrix(), "a turned tied optimum", 1e-9))
    W = other.U @ other.U.mT
    again = even.yy.trace() - 2 * (W * even.yx).sum() + 1.7 * W.square().sum()
    again = again + 0.3 / 0.7 * 1.7 * other.U.square().sum(0).square().sum()
    found.append(compare(again, "==", scale * best.objective, "is as good", 1e-9))
    found.append(refuses(lambda: optimal_factors(best, None, tensor([2.0, 1.0, 1.0, 1.0])), "+1 or -1"))
    # columns that change places stay equal in norm, and are not turned again
    order, signs = torch.tensor([2, 0, 3, 1]), tensor([1.0, -1.0, -1.0, 1.0])
    moved = optimal_factors(best, torch.eye(4).double()[:, order], signs)
    found.append(compare(moved.U, "==", scale * best.model.U[:, order] * signs, "columns in another order"))
    # the eigenvalues of the symmetric part, all ranks and supports, give the least
    values = torch.linalg.eigvalsh((even.yx + even.yx.mT) / 3.4).flip(0)
    odds, least = 0.3 / 0.7 / 4, math.inf
    for rank in range(4):
        top = values[:rank] - odds * values[:rank].sum() / (1 + odds * rank)
        if rank == 0 or bool(top.min() >= 0):
            gain = values[:rank].square().sum() - (values[:rank] - top).square().sum() - odds * top.sum() ** 2
            least = min(least, float(even.yy.trace() - 1.7 * gain))
    found.append(compare(best.objective, "==", scale * least, "least of tied networks", 1e-9))
    told = certify(Autoencoder(normal(3, 3, 4)), moments(1, 3, 3), law)
    untied = optimum(TwoLayerLinear, moments(1, 3, 3), law)
    known = moments(1, 3, 3)
    spectrum = torch.linalg.svdvals(known.yx @ torch.linalg.inv(torch.linalg.cholesky(known.xx)).mT)
    wanted = known.yy.trace() - spectrum.square().sum() + _least(spectrum, 0.3 / 0.7, 4)[1]
    found.append(compare(told.bound, "==", scale * wanted, "tied networks are among the untied ones", 1e-8))
    found.append(same(told.claim, untied.claim, "and say so"))
    windows = action(SlidingBlock.matching(0.3, 8, 3))
    found.append(same((windows.least_rate, float(windows.nuclear)), (0.0, 0.0), "windows have no rate"))
    found.append(refuses(lambda: optimum(ReLUNet, even, law), "no optimum is known for ReLUNet; families with one: A"))
    return [*found, *_relu_bounds(scale), *_reasons(best.model)]


def _relu_bounds(scale: float) -> list[Comparison]:
    """Bounds of ReLU networks: the law of the last hidden layer decides, the targets may be weighed."""
    found: list[Comparison] = []
    targets = normal(5, 12, 2)
    net = ReLUNet([normal(6, 4, 3), normal(7, 3, 4), normal(8, 2, 3)])
    rates = Bernoulli(torch.linspace(0.1, 0.5, 10).double(), 10)
    bounds = [
        certify(net, Sample(normal(9, 12, 3), targets), masks)
        for masks in (rates, Product([Bernoulli(rates.drop[:7], 7), Bernoulli(rates.drop[7:], 3)]))
    ]
    found.append(compare(bounds[0].bound, "==", scale * bounds[1].bound, "one law for all layers"))
    centered = (targets - targets.mean(0)) / 12**0.5
    last = rates.drop[7:] / (1 - rates.drop[7:])
    least = unequal_program(torch.linalg.svdvals(centered), last)[0]
    found.append(compare(bounds[0].bound, "==", scale * least, "of the last hidden layer alone", 1e-8))
    # weighed examples; and a last layer that is kept or hidden as a whole, which leaves its rate of every square
    shares = torch.arange(1.0, 13.0).double() / 78
    spread = shares.sqrt()[:, None] * (targets - shares @ targets)
    weighed = Sample(normal(9, 12, 3), targets, 5 * shares)
    squares = torch.linalg.svdvals(spread)
    found.append(
        compare(certify(net, weighed, rates).bound, "==", scale * unequal_program(squares, last)[0], "weighed", 1e-8)
    )
    whole = Product([Bernoulli(0.2, 3), Bernoulli(0.1, 4), Block(0.4, 3, 3)])
    bound = certify(net, weighed, whole).bound
    found.append(compare(bound, "==", scale * 0.4 * squares.square().sum(), "a last layer of one block", 1e-8))
    mixed = Product([Block(0.3, 7, 7), Bernoulli(0.2, 2), Bernoulli(0.2, 1)])
    found.append(
        refuses(lambda: certify(net, Sample(normal(9, 12, 3), targets), mixed), "a law of its last hidden layer")
    )
    return found


def _reasons(model: Model) -> list[Comparison]:
    """Why a certificate or an optimum is not certified, in words."""
    found: list[Comparison] = []
    for objective, bound, words in (
        (1.0, 1.0 - 1e-10, None),
        (
            1.0,
            1.0 - 1e-8,
            "nothing proves that no other weights gain up to 1e-08; `optimum` says whether a network does",
        ),
        (1.0, 2.0, "the objective is below the bound by rounding of the data"),
        (1.0, 0.5, "nothing proves that no other weights gain up to 0.5; `optimum` says whether a network does"),
    ):
        one = Certificate(objective, bound, "droptics-any-law", 1.0)
        found.append(same(one.reason, words, f"reason, {bound}"))
        found.append(same(one.certified, words is None, f"certified, {bound}"))
    for bound, slack, method, words in (
        (1.0 - 1e-10, 0.0, "closed form", "None"),
        (2.0, 0.0, "closed form", "the objective is below the bound by rounding of the data"),
        (0.5, 0.6, "a sweep", "rounding of the data leaves 0.6 of the bound open; give them as float64 or as a Sample"),
        (0.5, 0.4, "a sweep", "found by a search (a sweep), and nothing may attain the bound"),
        (0.5, 0.4, "closed form", "the bound is not attained by factors of this width in float64"),
    ):
        best = Optimum(model, 1.0, bound, 2, "droptics-any-law", method=method, slack=slack)
        found.append(same(str(best.reason)[: len(words)], words, f"reason of an optimum, {bound}, {slack}, {method}"))
    return found


def _silent(scale: float) -> list[Comparison]:
    """Inputs without energy, layers without masks, white coordinates of entries."""
    found: list[Comparison] = []
    nothing = Moments(torch.zeros(3, 3).double(), torch.zeros(3, 3).double(), 2 * torch.eye(3).double())
    for family, law in (
        (Autoencoder, Bernoulli(0.3, 2)),
        (TwoLayerLinear, Bernoulli(0.3, 2)),
        (Connections, Bernoulli(0.3, 6)),
        (DeepLinear, Product([Bernoulli(0.3, 2), Bernoulli(0.2, 2)])),
    ):
        best = optimum(family, nothing, law)
        told = [best.objective, best.scale]
        found.append(compare(told, "==", [6.0 * scale, 6.0 * scale], f"silent inputs, {family.__name__}"))
        found.append(compare(best.bound, "<=", 6.0, f"their bound, {family.__name__}"))
        found.append(compare(best.bound, "==", 6.0 * scale, f"is close, {family.__name__}", 1e-6))
        found.append(compare(best.rank, "==", 0.0, f"no map, {family.__name__}"))
        found.append(compare(torch.cat([part.flatten() for part in best.model.tensors]), "==", 0.0, "no weights"))
    known, free = moments(1, 2, 3), Product([Bernoulli(0.0, 4), Bernoulli(0.0, 3)])
    best = optimum(DeepLinear, known, free)
    error = known.yy.trace() - (known.yx @ torch.linalg.inv(known.xx) * known.yx).sum()
    found.append(compare(best.objective, "==", scale * error, "no masks: least squares", 1e-8))
    spectrum = torch.linalg.svdvals(known.yx @ torch.linalg.inv(torch.linalg.cholesky(known.xx)).mT)
    narrow = optimum(DeepLinear, known, Product([Bernoulli(0.0, 4), Bernoulli(0.0, 1)]))
    found.append(compare(narrow.objective, "==", scale * (error + spectrum[1] ** 2), "no masks, one unit", 1e-8))
    for sizes in ((3, 1), (1, 3), (2, 1, 4)):  # one direction alone, which has all shares
        laws = Product([Bernoulli(0.02, size) for size in sizes])
        ends = zip((3, *sizes), (*sizes, 2), strict=True)
        network = DeepLinear([normal(k, out, into) for k, (into, out) in enumerate(ends)])
        left = 1 / math.prod(1 + 0.02 / 0.98 / size for size in sizes)
        wanted = known.yy.trace() - left * spectrum[0] ** 2
        found.append(compare(certify(network, known, laws).bound, "==", scale * wanted, f"widths {sizes}", 1e-8))
    half = optimum(DeepLinear, known, Product([Bernoulli(0.0, 3), Bernoulli(0.3, 4)]))
    least = error + _least(spectrum, 0.3 / 0.7, 4)[1]
    found.append(compare(half.objective, "==", scale * least, "masks of the second layer alone", 1e-8))
    shallow = optimum(TwoLayerLinear, known, Bernoulli(0.0, 3))
    found.append(compare(shallow.objective, "==", scale * error, "two layers without masks", 1e-8))
    # one more input, without energy
    wide = Moments(torch.block_diag(known.xx, torch.zeros(1, 1)), torch.nn.functional.pad(known.yx, (0, 1)), known.yy)
    for family in (TwoLayerLinear, DeepLinear):
        found.append(
            compare(optimum(family, wide, Bernoulli(0.3, 4)).objective, "==", scale * least, "a silent input", 1e-8)
        )
    targets = normal(4, 5, 3)
    silent = Sample(torch.zeros(5, 3).double(), targets)
    for model, law in (
        (Autoencoder(normal(1, 3, 2)), Bernoulli(0.3, 2)),
        (TwoLayerLinear(normal(1, 3, 2), normal(2, 3, 2)), Bernoulli(0.3, 2)),
        (DeepLinear([normal(1, 2, 3), normal(2, 3, 2)]), Bernoulli(0.3, 2)),
    ):
        energy = scale * targets.square().sum() / 5
        told = [optimum(type(model), silent, law).objective, certify(model, silent, law).objective]
        found.append(compare(told, "==", energy, f"silent examples, {type(model).__name__}"))
        found.append(
            compare(certify(model, silent, law).bound, "==", energy, f"their bound, {type(model).__name__}", 1e-8)
        )
    values = tensor([2.0, 1.0])
    told_gain = gain_ceiling(values, tensor([0.0, 0.0]), best_allocation(values.numpy(), np.zeros(2)))
    found.append(compare(told_gain, "==", 5.0 * scale, "all of the energy"))
    pairs = [(i, j) for i in range(3) for j in range(4) for _ in range((1 + (i == 1)) * (1 + 2 * (j == 2)))]
    rows, columns = torch.tensor(pairs).T
    cells = Entries(rows, columns, normal(1, len(pairs)), (3, 4))
    U, V = normal(2, 3, 2), normal(3, 4, 2)
    p, q = (torch.bincount(part).double() / len(pairs) for part in (rows, columns))
    wanted = torch.linalg.svdvals(p.sqrt()[:, None] * (U @ V.mT) * q.sqrt())[:2]
    found.append(compare(frame(cells).spectrum(U, V)[:2], "==", scale * wanted, "white coordinates of entries"))
    return found


def _read_entries(scale: float) -> list[Comparison]:
    """Factorizations of entries that are read more than once, and of noisy measurements of any size: all ranks."""
    found: list[Comparison] = []
    pairs = [(i, j) for i in range(3) for j in range(4) for _ in range((1 + (i == 1)) * (1 + 2 * (j == 2)))]
    rows, columns = torch.tensor(pairs).T
    readings = normal(1, len(pairs))
    measures = 1.3 * 24**0.5 * torch.linalg.qr(normal(2, 24, 12)).Q.reshape(24, 3, 4)
    data: tuple[Data, ...] = (Entries(rows, columns, readings, (3, 4)), Measurements(measures, normal(3, 24)))
    at = torch.zeros(len(pairs), 3, 4).double().index_put_((torch.arange(len(pairs)), rows, columns), tensor(1.0))
    p, q = (torch.bincount(part).double() / len(pairs) for part in (rows, columns))
    sizes = (torch.outer(p, q).sqrt(), torch.full((3, 4), 1.3, dtype=torch.float64))
    for one, design, values, size in zip(data, (at, measures), (readings, normal(3, 24)), sizes, strict=True):
        best, name = optimum(Factorization, one, Bernoulli(0.3, 2)), type(one).__name__
        fitted = torch.linalg.lstsq(design.flatten(1), values[:, None]).solution.reshape(3, 4)
        rest = (values - (design * fitted).sum((1, 2))).square().mean()
        least = rest + _least(torch.linalg.svdvals(size * fitted), 0.3 / 0.7, 2)[1]
        found.append(compare([best.objective, best.bound], "==", scale * least, f"least of all ranks, {name}"))
        found.append(compare(best.scale, "==", scale * values.square().mean(), f"energy, {name}"))
        U, V = best.model.tensors
        units = torch.einsum("nij,ik,jk->nk", design, U, V)
        own = (values - units.sum(1)).square().mean() + 0.3 / 0.7 * units.square().mean(0).sum()
        found.append(compare(own, "==", scale * best.objective, f"criterion of its factors, {name}"))
    uneven = Entries(torch.tensor([0, 0, 1, 1, 1]), torch.tensor([0, 1, 0, 1, 1]), normal(4, 5), (2, 2))
    found.append(refuses(lambda: optimum(Factorization, uneven, Bernoulli(0.3, 2)), "in product proportions"))
    return found


def _value(layers: list[Tensor], data: Moments, odds: float, weights: bool) -> Tensor:
    """Criterion of a chain of layers with one rate, of hidden units, or of the weights of its first layer."""
    map_, second = torch.linalg.multi_dot(layers[::-1]), data.xx
    for layer in layers[:-1]:
        noise = layer.square() @ second.diagonal() if weights else ((layer @ second) * layer).sum(1)
        second = layer @ second @ layer.mT + odds * torch.diag(noise)
    return data.yy.trace() - 2 * (map_ * data.yx).sum() + ((layers[-1] @ second) * layers[-1]).sum()


def _roughly(scale: float) -> list[Comparison]:
    """Moments known up to a share: bounds are below a network at moments that they may stand for, and not by much.

    The worst rounding makes the targets larger and less like the map of that network.
    """
    found: list[Comparison] = []
    rough, known, eye = 1e-5, moments(2, 3, 3), torch.eye(3).double()
    even = Moments(2.5 * eye, known.yx + 2 * eye, 30 * known.yy)
    two = Product([Bernoulli(0.3, 4), Bernoulli(0.3, 3)])
    families: tuple[tuple[type[Model], Moments, MaskLaw], ...] = (
        (TwoLayerLinear, known, Bernoulli(0.3, 3)),
        (DeepLinear, known, two),
        (Connections, known, Bernoulli(0.3, 9)),
        (Autoencoder, even, Bernoulli(0.3, 4)),
    )
    for family, exact, law in families:
        best, name = optimum(family, exact, law).model, family.__name__
        layers = list(best.tensors) if family is DeepLinear else [best.tensors[-1].mT, best.tensors[0]]
        value = _value(layers, exact, 0.3 / 0.7, family is Connections)
        map_, energies = torch.linalg.multi_dot(layers[::-1]), exact.yy.diagonal()
        less = rough * torch.outer(energies.sqrt(), exact.xx.diagonal().sqrt()) * map_.sign()
        known_roughly = Moments(exact.xx, exact.yx - less, exact.yy + rough * torch.diag(energies), rounding=rough)
        allowed = 64 * 3 * rough * energies.sum() / scale
        for way, told in (("optimum", optimum(family, known_roughly, law)), ("any", certify(best, known_roughly, law))):
            found.append(compare(told.bound, "<=", value, f"bound of rough moments, {name}, {way}", 1e-12))
            found.append(compare(told.bound, ">=", value - allowed, f"and not far below, {name}, {way}", 1e-12))
        plain = Moments(known_roughly.xx, known_roughly.yx, known_roughly.yy)
        above = optimum(family, plain, law).bound
        found.append(compare(above, ">", value + rough * value, f"the rounding matters, {name}", 1e-12))
    return found
