"""White coordinates of moments, samples, entries and measurements, and symmetries, beside sums over the examples."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from droptics.data import Entries, Measurements, Moments, Sample
from droptics.evidence.claims import Comparison, compare
from droptics.landscapes.symmetries import symmetry_dimension
from droptics.linalg.sums import summands
from droptics.masks import Bernoulli
from droptics.models import Autoencoder, DeepLinear, TwoLayerLinear
from droptics.papers.droptics_own.telling import fails
from droptics.papers.instances import normal, simplex, tensor
from droptics.spectra.coordinates import check_isotropic, frame, white_weights, whiten

EPS = torch.finfo(torch.float64).eps


def white_in_full(scale: float) -> list[Comparison]:
    """Coordinates of moments, samples of every shape, entries and measurements: risks by hand, slack by its formula."""
    found: list[Comparison] = []
    for name, (count, features) in {"tall": (60, 3), "square": (9, 4), "flat": (4, 6)}.items():
        for weighed in (False, True):
            for kind in ("plain", "repeated"):
                X, Y = normal(count, count, features), normal(count + 1, count, 2)
                X = X * tensor([1.0, 1e3, 1e-2, 1.0, 5.0, 0.3])[:features]
                if kind == "repeated":
                    X[:, -1] = 2 * X[:, 0]
                shares = simplex(5, count) if weighed else torch.full((count,), 1 / count, dtype=torch.float64)
                data = Sample(X, Y, 3 * shares if weighed else None)
                found += _white(scale, data, X, Y, shares, f"{name}, {kind}, {'weights' if weighed else 'alike'}")
    X, Y, even = normal(30, 50, 3), normal(31, 50, 2), torch.full((50,), 0.02, dtype=torch.float64)
    whole = Moments(X.mT @ X / 50, Y.mT @ X / 50, Y.mT @ Y / 50)
    found += _white(scale, whole, X, Y, even, "moments")
    apart = torch.linalg.qr(X).Q * tensor([2.0, 0.5, 3.0])
    found += _white(
        scale,
        Moments(torch.diag(even @ apart.square()), Y.mT @ apart / 50, Y.mT @ Y / 50),
        apart,
        Y,
        even,
        "diagonal",
    )
    W, U = normal(1, 2, 3), normal(2, 2, 2)
    alone = white_weights(whole).spectrum(U, (torch.linalg.inv(U) @ W).mT)
    found.append(compare(alone, "==", scale * torch.linalg.svdvals(W * whole.xx.diagonal().sqrt()), "uncorrelated"))
    for off, refused in ((0.0, 0.0), (1e-12, 1.0)):
        near = Moments((1 + off * tensor([1.0, 0.0, 0.0])).diag(), whole.yx, whole.yy)
        found.append(compare(fails(lambda near=near: check_isotropic(near)), "==", refused, f"isotropic, {off}"))
    return [*found, *_observed(scale), *_slack(scale), *_symmetries(scale)]


def _white(scale: float, data: Sample | Moments, X: Tensor, Y: Tensor, shares: Tensor, name: str) -> list[Comparison]:
    """Risks and criteria of networks by the examples, spectra by a root of their own."""
    found: list[Comparison] = []
    told, drop = whiten(data), tensor([0.3, 0.5])
    sizes = X.square().mean(0).sqrt()
    second = (shares[:, None] * X / sizes).mT @ (X / sizes)
    values, vectors = torch.linalg.eigh(second)
    alive = values > 1e-10
    root = sizes[:, None] * vectors[:, alive] * values[alive].sqrt()
    energy = shares @ Y.square().sum(1)
    found.append(compare(told.energy, "==", scale * energy, f"energy, {name}", precision=1e-8))
    for seed in (1, 2):
        U, V = normal(seed, 2, 2), normal(seed + 5, X.shape[1], 2) / sizes[:, None]
        V = V * tensor([1.0, 1e4]) if seed == 2 else V
        W = U @ V.mT
        risk = shares @ (Y - X @ W.mT).square().sum(1)
        inside = told.left.down(told.right.down(W.mT).mT)
        there = told.constant + (told.target - inside).square().sum()
        found.append(compare(there / risk, "==", scale, f"risk, {name}", precision=1e-8))
        outer, inner = U.square().sum(0), (shares[:, None] * (X @ V).square()).sum(0)
        whole = risk + (drop / (1 - drop) * outer * inner).sum()
        criterion = told.criterion(U, V, Bernoulli(drop, 2))
        found.append(compare(criterion / whole, "==", scale, f"criterion, {name}", precision=1e-8))
        one = told.criterion(U, V, Bernoulli(0.3, 2))
        wanted = risk + 0.3 / 0.7 * (outer * inner).sum()
        found.append(compare(one / wanted, "==", scale, f"one rate, {name}", precision=1e-8))
        here = torch.linalg.svdvals(W @ root)
        size = float(here[0])
        for kind, place in (("whole", told), ("frame", frame(data))):
            spectrum = place.spectrum(U, V)[: len(here)]
            padded = torch.cat([spectrum, spectrum.new_zeros(len(here) - len(spectrum))])
            found.append(compare(padded / size, "==", scale * here / size, f"spectrum, {kind}, {name}", 1e-7))
            left, middle, right = place.svd(U, V)
            again = place.left.down(place.right.down(W.mT).mT)
            found.append(compare((left * middle) @ right.mT / size, "==", again / size, f"parts, {name}", 1e-8))
            found.append(compare(left.mT @ left, "==", torch.eye(len(middle)), f"orthonormal, {name}"))
            found.append(compare(right.mT @ right, "==", torch.eye(len(middle)), f"on both sides, {name}"))
            found.append(compare(middle, ">", 0.0, f"nothing without energy, {name}", precision=0.0))
    found.append(compare(told.floor(2.0), "==", told.constant + 2.0 - told.slack, f"floor, {name}"))
    found.append(compare(told.slack, "<=", 1e-6 * energy, f"slack, {name}", precision=0.0))
    found.append(compare(told.slack, ">", 0.0, f"some, {name}", precision=0.0))
    return found


def _observed(scale: float) -> list[Comparison]:
    """Entries in product proportions and isotropic measurements beside sums over what is observed."""
    found: list[Comparison] = []
    pairs = [(i, j) for i in range(3) for j in range(4) for _ in range((1 + (i == 1)) * (1 + 2 * (j == 2)))]
    rows, columns = torch.tensor(pairs).T
    values = normal(1, len(pairs))
    told = whiten(Entries(rows, columns, values, (3, 4)))
    U, V = normal(2, 3, 2), normal(3, 4, 2)
    W = U @ V.mT
    risk = (values - W[rows, columns]).square().mean()
    inside = told.left.down(told.right.down(W.mT).mT)
    found.append(compare(told.constant + (told.target - inside).square().sum(), "==", scale * risk, "entries"))
    p, q = (torch.bincount(part).double() / len(pairs) for part in (rows, columns))
    inner = ((p[:, None] * U.square()).sum(0) * (q[:, None] * V.square()).sum(0)).sum()
    found.append(
        compare(told.criterion(U, V, Bernoulli(0.3, 2)), "==", scale * (risk + 0.3 / 0.7 * inner), "their criterion")
    )
    found.append(
        compare(
            told.slack, "==", scale * 28 * EPS * (told.constant + float(told.target.square().sum())), "slack", 1e-20
        )
    )
    lone = Entries(rows[:-1], columns[:-1], values[:-1], (3, 4))
    found.append(compare(fails(lambda: whiten(lone)), "==", 1.0, "other proportions"))
    count, size = 18, 6
    design = 1.7 * math.sqrt(count) * torch.linalg.qr(normal(4, count, size)).Q
    matrices, values = design.reshape(count, 2, 3), normal(5, count)
    told = whiten(Measurements(matrices, values))
    U, V = normal(6, 2, 2), normal(7, 3, 2)
    W = U @ V.mT
    risk = (values - (matrices * W).sum((1, 2))).square().mean()
    inside = told.left.down(told.right.down(W.mT).mT)
    found.append(compare(told.constant + (told.target - inside).square().sum(), "==", scale * risk, "measurements"))
    seen = told.criterion(U, V, Bernoulli(0.3, 2))
    parts = torch.einsum("nij,ik,jk->nk", matrices, U, V).square().mean(0).sum()
    wanted = risk + 0.3 / 0.7 * 1.7**2 * (U.square().sum(0) * V.square().sum(0)).sum()
    found.append(compare(seen, "==", scale * wanted, "criterion of measurements"))
    found.append(compare(parts, "==", scale * 1.7**2 * (U.square().sum(0) * V.square().sum(0)).sum(), "noise of each"))
    second = design.mT @ design / count
    mean = design.square().sum() / (count * size)
    off = float(torch.linalg.matrix_norm(second - mean * torch.eye(size).double()) / mean)
    whole = told.constant + float(told.target.square().sum())
    found.append(
        compare(told.slack, "==", scale * (20 * EPS + 2 * off) * whole, "slack of measurements", 1e-18, 1e-300)
    )
    bent = Measurements(matrices * tensor([[1.0], [1.01]]), values)
    found.append(compare(fails(lambda: whiten(bent)), "==", 1.0, "no isotropic design"))
    return found


def _slack(scale: float) -> list[Comparison]:
    """What rounding may take off a bound, by its formula, where the second moment itself is read."""
    found: list[Comparison] = []
    X, Y = normal(1, 40, 3), normal(2, 40, 2)
    xx, yx, yy = X.mT @ X / 40, Y.mT @ X / 40, Y.mT @ Y / 40
    powers = 2.0 ** (xx.diagonal().sqrt().log2().floor() + 1)
    energy = yy.trace()
    energies = torch.linalg.eigvalsh(xx / powers[:, None] / powers)
    values, vectors = torch.linalg.eigh(xx / powers[:, None] / powers)
    target = yx / powers @ vectors / values.sqrt()
    size = float((target.square() / energies).sum().sqrt() + energy.sqrt())
    for name, data, off in (
        ("moments", Moments(xx, yx, yy), 3 * Moments(xx, yx, yy).rounding),
        ("a sample", Sample(X, Y), summands(40, 3) * EPS / 2 * 3),
    ):
        wanted = (20 * EPS + 8 / 7 * off) * size**2
        found.append(compare(whiten(data).slack, "==", scale * wanted, f"slack, {name}", precision=1e-9, scale=1e-300))
    return found


def _symmetries(scale: float) -> list[Comparison]:
    """Dimensions of symmetry as ranks of orbits that are moved by hand."""
    found: list[Comparison] = []
    even = Moments(torch.eye(3).double(), torch.eye(3).double() * 0.7, torch.eye(3).double())
    for seed, model, data, wanted in (
        (1, TwoLayerLinear(normal(1, 2, 4), normal(2, 3, 4)), _population(5, 2, 3), 4),
        (2, DeepLinear([normal(3, 4, 3), normal(4, 2, 4), normal(5, 2, 2)]), _population(6, 2, 3), 6),
        (3, Autoencoder(normal(6, 3, 2)), even, 3),
        (4, TwoLayerLinear(normal(7, 3, 2), normal(8, 3, 2)), even, 5),
        (5, TwoLayerLinear(normal(9, 2, 2), normal(10, 3, 2)), _turned(), 3),
        (6, TwoLayerLinear(torch.zeros(2, 2).double(), torch.zeros(3, 2).double()), _population(5, 2, 3), 0),
        (7, TwoLayerLinear(tensor([[1.0, 0.0], [2.0, 0.0]]), normal(8, 3, 2)), _population(5, 2, 3), 2),
    ):
        found.append(compare(symmetry_dimension(model, data), "==", scale * wanted, f"symmetries, {seed}"))
    return found


def _population(seed: int, outputs: int, inputs: int) -> Moments:
    X, Y = normal(seed, 30, inputs), normal(seed + 1, 30, outputs)
    return Moments(X.mT @ X / 30, Y.mT @ X / 30, Y.mT @ Y / 30)


def _turned() -> Moments:
    """Uncorrelated inputs, the first two alike, and outputs that see the third alone."""
    yx = torch.zeros(2, 3).double()
    yx[:, 2] = tensor([1.0, 0.5])
    return Moments(torch.diag(tensor([1.0, 1.0, 2.0])), yx, torch.eye(2).double() * 3)
