"""What claims on saddles compare: balance, imbalance, gaps by order and escapes, from their definitions."""

from __future__ import annotations

import math
from unittest import mock

import torch
from torch import Tensor

from droptics.data import Moments
from droptics.equalization import balance, equalize, imbalance, order_gaps
from droptics.evidence.claims import Comparison, compare
from droptics.landscapes import escape, inspection
from droptics.linalg import psd_root
from droptics.linalg.jacobi import graded_eigen
from droptics.masks import Bernoulli, MaskLaw, Product
from droptics.models import Autoencoder, DeepLinear, Model, TwoLayerLinear
from droptics.papers.droptics_own.audits.audit_checks import every_coin
from droptics.papers.droptics_own.telling import fails, refuses, same
from droptics.papers.instances import moments, normal, tensor


def saddles(scale: float) -> list[Comparison]:
    """Balanced networks, gaps by order, escapes from saddles, and eigenvectors of very different units."""
    found: list[Comparison] = []
    rates = tensor([0.4, 0.2, 0.7, 0.5])
    population, law = moments(5, 2, 3), Bernoulli(rates, 4)
    model = TwoLayerLinear(normal(6, 2, 4), normal(7, 3, 4))
    for given in (model, TwoLayerLinear(model.U * tensor([1.0, 0.0, 1.0, 1.0]), model.V)):  # a dead unit
        level = balance(given, population)
        sizes = level.U.norm(dim=0), ((level.V.mT @ population.xx) * level.V.mT).sum(1).sqrt()
        found.append(compare(sizes[0], "==", sizes[1], "balanced"))
        found.append(compare(level.matrix(), "==", given.matrix(), "the same map"))
        single = balance(TwoLayerLinear(given.U.float(), given.V.float()), population.to(torch.float32))
        found.append(same(single.dtype, torch.float32, "precision of a balanced network", scale))
        for part, exact in ((single.U, level.U), (single.V, level.V)):
            found.append(compare(part.double(), "==", scale * exact, "balanced in single precision", 1e-5))
    # a layer of zeros empties its node on both sides; one that only sees inputs without energy stays
    silent = Moments(torch.diag(tensor([4.0, 1.0, 0.0])), population.yx * tensor([1.0, 1.0, 0.0]), 9 * population.yy)
    V = tensor([[3.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 2.0], [5.0, 0.0, 2.0, 1.0]])
    level = balance(TwoLayerLinear(model.U * tensor([1.0, 1.0, 1.0, 0.0]), V), silent)
    ratio = (model.U[:, 0].norm() / 6.0).sqrt()
    wanted = torch.stack([model.U[:, 0] / ratio, 0 * model.U[:, 0], model.U[:, 2], 0 * model.U[:, 0]], 1)
    found.append(compare(level.U, "==", scale * wanted, "balanced beside empty layers"))
    found.append(compare(level.V, "==", scale * V * tensor([ratio, 0.0, 1.0, 0.0]), "and the layer below"))
    root = torch.linalg.cholesky(population.xx)
    nuclear = torch.linalg.svdvals(model.matrix() @ root).sum()
    energies = model.U.square().sum(0) * ((model.V.mT @ population.xx) * model.V.mT).sum(1)
    strengths = rates / (1 - rates)
    ratio = strengths @ energies / (nuclear**2 / (1 / strengths).sum())
    found.append(compare(imbalance(model, population, law), "==", scale * (ratio - 1), "imbalance"))
    deep = DeepLinear([normal(8, 2, 3), normal(9, 3, 2), normal(10, 2, 3)])
    joint = Product([Bernoulli(0.3, 2), Bernoulli(0.5, 3)])
    gaps = order_gaps(deep, population, joint)
    odds = [0.3 / 0.7, 1.0]
    size = torch.linalg.svdvals(deep.matrix() @ root).sum() ** 2
    shares = [odds[0] / 2 + odds[1] / 3, odds[0] * odds[1] / 6]
    first, second, third = deep.weights
    inner = ((first @ population.xx) * first).sum(1)
    middle = second @ first
    one = odds[0] * ((third @ second).square().sum(0) * inner).sum()
    one = one + odds[1] * (third.square().sum(0) * ((middle @ population.xx) * middle).sum(1)).sum()
    two = odds[0] * odds[1] * (third.square().sum(0) * (second.square() @ inner)).sum()
    wanted = torch.stack([one / (shares[0] * size), two / (shares[1] * size)]) - 1
    found.append(compare(gaps, "==", scale * wanted, "gaps by order"))
    degenerate = [
        TwoLayerLinear(0 * model.U, model.V),  # no penalty
        TwoLayerLinear(model.U[:, [0, 0]], torch.stack([model.V[:, 0], -model.V[:, 0]], 1)),  # units that cancel
    ]
    told = [float(imbalance(one, population, Bernoulli(0.4, one.width))) for one in degenerate]
    found.append(compare(told, "==", [0.0, math.inf], "imbalance of nothing, and of units that cancel"))
    found += [*_escapes(scale), *_unseen(scale)]
    units = torch.tensor([1.0, 1e-6, 1e5], dtype=torch.float64)
    base = moments(11, 3, 3).xx
    values, vectors = graded_eigen(base * units[:, None] * units)
    again = (vectors * values) @ vectors.mT
    found.append(compare(again / units[:, None] / units, "==", scale * base, "eigenvectors of different units"))
    found.append(compare(vectors.mT @ vectors, "==", torch.eye(3), "orthonormal"))
    return found


def _escapes(scale: float) -> list[Comparison]:
    """Escapes from zero and from the second singular direction alone, correlated inputs, against all masks.

    Of small targets, too, to which only small steps lead.
    """
    found: list[Comparison] = []
    drop, given = 0.3, moments(5, 2, 3)
    for size in (1.0, 2.0**-10):
        found += _ways_down(scale, drop, Moments(given.xx, size * given.yx, size**2 * given.yy))
    return [*found, *_families(scale), *_hardly_bent(scale)]


def _hardly_bent(scale: float) -> list[Comparison]:
    """What bends downwards by no more than rounding is no strict saddle.

    One tied unit at rate 1/2, M = diag(first, 2), E x x^T = diag(1, 3): at (0, 1) the criterion bends by
    -4 (first - 4) along the first axis, by 48 along the second. The limit is a billionth of the largest.
    """
    found: list[Comparison] = []
    C, model, law = tensor([1.0, 3.0]), Autoencoder(tensor([[0.0], [1.0]])), Bernoulli(0.5, 1)
    for share in (0.0, 1e-11, 5e-10, 4e-9):
        M = tensor([4 + 12 * share, 2.0])
        data = Moments(torch.diag(C), torch.diag(M * C), torch.diag(M * C * M))
        if share < 1e-9:
            found.append(refuses(lambda data=data: escape(model, data, law), "no strict saddle", f"bent by {share}"))
            continue
        way = escape(model, data, law)
        found.append(compare(way.curvature / 48, "==", -scale * share, f"bent by {share}", 1e-13))
        found.append(compare(way.direction[0].abs(), "==", scale * tensor([[1.0], [0.0]]), "along the first axis"))
    return found


def _families(scale: float) -> list[Comparison]:
    """Escapes of tied and deep networks, inputs masked, too, from zero, by all curvatures and by products alone."""
    found: list[Comparison] = []
    drop, given, square = 0.3, moments(5, 2, 3), normal(3, 3, 3)
    tied, deep = Moments.of_map(square @ square.mT - torch.eye(3).double()), given
    zeros = [torch.zeros(2, 3).double(), torch.zeros(2, 2).double()]
    cases: tuple[tuple[str, Model, Moments, MaskLaw, int], ...] = (
        ("tied", Autoencoder(torch.zeros(3, 2).double()), tied, Bernoulli(drop, 2), 2),
        ("deep", DeepLinear(zeros, mask_inputs=True), deep, Product([Bernoulli(drop, 3), Bernoulli(drop, 2)]), 5),
    )
    for name, model, data, law, coins in cases:
        kept, chances = every_coin([drop] * coins)
        kept = kept / (1 - drop)

        def value(*weights: Tensor, data: Moments = data, z: Tensor = kept, odds: Tensor = chances) -> Tensor:
            if len(weights) == 1:
                maps = (weights[0] * z[:, None]) @ weights[0].mT
            else:
                maps = (weights[1] * z[:, None, 3:]) @ weights[0] * z[:, None, :3]
            return odds @ ((maps @ data.xx - 2 * data.yx) * maps).sum((1, 2)) + data.yy.trace()

        hessian = torch.func.hessian(value, argnums=tuple(range(len(model.tensors))))(*model.tensors)
        lowest = _least_of(hessian, model)
        for dense in (4_000, 0):
            with mock.patch.object(inspection, "DENSE", dense):
                way = escape(model, data, law)
            label = f"{name}, {'all curvatures' if dense else 'by products'}"
            found.append(compare(way.curvature, "==", scale * lowest, f"least curvature, {label}", 1e-8))
            steps = [sign * 0.5**k for k in range(26) for sign in (1, -1)]  # the weights are zero
            least = min(float(value(*(step * part for part in way.direction))) for step in steps)
            found.append(compare(way.objective, "==", least, f"the best of the steps, {label}"))
            found.append(compare(value(*way.model.tensors), "==", least, f"where it leads, {label}"))
    return found


def _least_of(blocks: tuple[tuple[Tensor, ...], ...], model: Model) -> Tensor:
    """The least eigenvalue of a Hessian in blocks."""
    sizes = [part.numel() for part in model.tensors]
    rows = [
        [block.reshape(a, b) for b, block in zip(sizes, row, strict=True)] for a, row in zip(sizes, blocks, strict=True)
    ]
    return torch.linalg.eigvalsh(torch.cat([torch.cat(row, 1) for row in rows]))[0]


def _ways_down(scale: float, drop: float, population: Moments) -> list[Comparison]:
    """Both escapes for some second moments."""
    found: list[Comparison] = []
    root = psd_root(population.xx)
    left, values, right = torch.linalg.svd(population.yx @ torch.linalg.inv(root), full_matrices=False)
    size = (values[1] / (1 + drop / (1 - drop))).sqrt()
    first = (
        torch.outer(left[:, 1], tensor([size, 0.0])),
        torch.outer(torch.linalg.solve(root, right[1]), tensor([size, 0.0])),
    )
    kept, chances = every_coin([drop, drop])

    def value(U: Tensor, V: Tensor) -> Tensor:
        maps = (U * (kept / (1 - drop))[:, None]) @ V.mT
        return chances @ ((maps @ population.xx - 2 * population.yx) * maps).sum((1, 2)) + population.yy.trace()

    def flat(weights: Tensor) -> Tensor:
        return value(weights[:4].reshape(2, 2), weights[4:].reshape(3, 2))

    for name, (U, V) in {"zero": (0 * first[0], 0 * first[1]), "second direction": first}.items():
        start = torch.cat([U.flatten(), V.flatten()])
        (slope,) = torch.autograd.grad(flat(start.requires_grad_()), start)
        found.append(compare(slope, "==", 0.0, f"critical, {name}"))
        hessian = torch.autograd.functional.hessian(flat, start)
        way = escape(TwoLayerLinear(U, V), population, Bernoulli(drop, 2))
        lowest = torch.linalg.eigvalsh(hessian)[0]
        found.append(compare(way.curvature, "==", scale * lowest, f"least curvature, {name}"))
        along = torch.cat([part.flatten() for part in way.direction])
        found.append(compare(hessian @ along, "==", lowest * along, f"its direction, {name}", precision=1e-7))
        found.append(compare(along.norm(), "==", 1.0, f"its length, {name}"))
        reached = [part.detach() for part in way.model.tensors]
        found.append(compare(way.objective, "==", value(*reached), f"where it leads, {name}"))
        # the least of all steps (1 + |weights|) / 2^k to either side
        steps = [sign * (1 + float(start.detach().norm())) / 2**k for k in range(26) for sign in (1, -1)]
        least = min(float(flat(start.detach() + step * along)) for step in steps)
        found.append(compare(way.objective, "==", least, f"the best of the steps, {name}"))
        found.append(compare(way.objective, "<", float(value(U, V)), f"lower, {name}"))
    return found


def _unseen(scale: float) -> list[Comparison]:
    """What equalized networks do on an input without energy: kept where their units reach it, refused elsewhere."""
    cross = normal(1, 3, 3) * tensor([1.0, 1.0, 0.0])
    silent, law = Moments(torch.diag(tensor([4.0, 1.0, 0.0])), cross, 90 * torch.eye(3).double()), Bernoulli(0.4, 4)
    out, shares, V = normal(2, 3), tensor([1.0, -1.0, 2.0, 0.5]), normal(3, 3, 4)
    model = TwoLayerLinear(torch.outer(out, shares), V)
    level = equalize(model, silent, law)
    even = out.norm() * ((V @ shares) * tensor([2.0, 1.0, 0.0])).norm() / 4
    sizes = level.U.norm(dim=0) * (level.V * tensor([2.0, 1.0, 0.0])[:, None]).norm(dim=0)
    beyond = TwoLayerLinear(model.U + torch.outer(normal(4, 3), tensor([0.0, 0.0, 0.0, 1.0])), V.clone())
    beyond.V[:, 3] = tensor([0.0, 0.0, 1.5])
    return [
        compare(level.matrix(), "==", scale * model.matrix(), "the map beside a silent input"),
        compare(sizes, "==", scale * even, "equal units beside a silent input"),
        compare(fails(lambda: equalize(beyond, silent, law)), "==", 1.0, "out of reach"),
    ]
