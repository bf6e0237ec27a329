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
    for name, moment, refused in (
        ("one scale up to rounding", 3 * torch.linalg.qr(X).Q.mT @ torch.linalg.qr(X).Q, 0.0),
        ("correlated", torch.eye(3).double() + 1e-3 * (1 - torch.eye(3).double()), 1.0),
    ):
        near = Moments((moment + moment.mT) / 2, whole.yx, 9 * whole.yy)
        found.append(compare(fails(lambda near=near: check_isotropic(near)), "==", refused, f"isotropic, {name}"))
    return [*found, *_observed(scale), *_square_design(scale), *_slack(scale), *_symmetries(scale)]


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
    if told.right.matrix.ndim == 2:  # of inputs in units of the next power of two
        powers = 2.0 ** ((shares @ X.square()).sqrt().log2().floor() + 1)
        energies = torch.linalg.eigvalsh((shares[:, None] * X / powers).mT @ (X / powers))[-len(told.right.energies) :]
        mine = told.right.energies.sort().values
        found.append(compare(mine, "==", scale * energies, f"energies of the root, {name}", 1e-8))
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
            free = [part.clone().requires_grad_() for part in (U, V)]
            slopes = torch.autograd.grad(place.spectrum(*free).square().sum(), free)
            for slope, wanted in zip(slopes, (2 * W @ root @ root.mT @ V, 2 * root @ root.mT @ W.mT @ U), strict=True):
                each = wanted.abs().amax(1, keepdim=True).clamp_min(1e-300)
                found.append(compare(slope / each, "==", scale * wanted / each, f"its slope, {kind}, {name}", 1e-6))
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
    found.append(compare(told.spectrum(U, V)[:2], "==", scale * torch.linalg.svdvals(inside)[:2], "their spectrum"))
    p, q = (torch.bincount(part).double() / len(pairs) for part in (rows, columns))
    inner = ((p[:, None] * U.square()).sum(0) * (q[:, None] * V.square()).sum(0)).sum()
    found.append(
        compare(told.criterion(U, V, Bernoulli(0.3, 2)), "==", scale * (risk + 0.3 / 0.7 * inner), "their criterion")
    )
    found.append(
        compare(
            told.slack,
            "==",
            scale * 28 * EPS * (told.constant + float(told.target.square().sum())),
            "slack",
            1e-9,
            1e-300,
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
    found.append(compare(told.spectrum(U, V), "==", scale * 1.7 * torch.linalg.svdvals(W), "spectrum of measurements"))
    seen = told.criterion(U, V, Bernoulli(0.3, 2))
    parts = torch.einsum("nij,ik,jk->nk", matrices, U, V).square().mean(0).sum()
    wanted = risk + 0.3 / 0.7 * 1.7**2 * (U.square().sum(0) * V.square().sum(0)).sum()
    found.append(compare(seen, "==", scale * wanted, "criterion of measurements"))
    found.append(compare(parts, "==", scale * 1.7**2 * (U.square().sum(0) * V.square().sum(0)).sum(), "noise of each"))
    # columns uneven by far more than rounding: sums of products are off by half of count * EPS at most, on either side
    uneven = design * (1 + 3e-14 * tensor([1.0, -1.0] * 3))
    told = whiten(Measurements(uneven.reshape(count, 2, 3), values))
    second = uneven.mT @ uneven / count
    mean = uneven.square().sum() / (count * size)
    off = float(torch.linalg.matrix_norm(second - mean * torch.eye(size).double()) / mean)
    whole = told.constant + float(told.target.square().sum())
    wanted = (20 * EPS + 2 * off) * whole
    rounding = 2 * size * count * EPS * whole / wanted
    found.append(compare(told.slack, "==", scale * wanted, "slack of measurements", rounding, 1e-300))
    bent = Measurements(matrices * tensor([[1.0], [1 + 1e-9]]), values)
    found.append(compare(fails(lambda: whiten(bent)), "==", 1.0, "no isotropic design"))
    tilted = design.clone()
    tilted[:, 1] = 0.6 * design[:, 0] + 0.8 * design[:, 1]
    found.append(
        compare(fails(lambda: whiten(Measurements(tilted.reshape(count, 2, 3), values))), "==", 1.0, "correlated")
    )
    return found


def _square_design(scale: float) -> list[Comparison]:
    """As many measurements as entries say all of a matrix; fewer say too little."""
    design, values, size = 1.7 * math.sqrt(6) * torch.linalg.qr(normal(8, 6, 6)).Q, normal(5, 6), 6
    told = whiten(Measurements(design.reshape(size, 2, 3), values))
    W = normal(6, 2, 2) @ normal(7, 3, 2).mT
    risk = (values - design @ W.flatten()).square().mean()
    inside = told.left.down(told.right.down(W.mT).mT)
    short = Measurements(design[1:].reshape(size - 1, 2, 3), values[1:])
    return [
        compare(told.constant + (told.target - inside).square().sum(), "==", scale * risk, "square design"),
        compare(1 + told.constant, "==", scale, "which leaves nothing"),
        compare(fails(lambda: whiten(short)), "==", 1.0, "too few measurements"),
    ]


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
    apart = Moments(torch.diag(xx.diagonal()), yx, 9 * yy)
    size = float((yx.square() / xx.diagonal()).sum().sqrt() + 3 * energy.sqrt())
    wanted = (20 * EPS + 8 / 7 * 3**0.5 * apart.rounding) * size**2
    found.append(compare(whiten(apart).slack, "==", scale * wanted, "slack, uncorrelated", 1e-9, 1e-300))
    # few rows through factorizations, one more for every four times as many
    for count in (4, 5, 7, 11):
        few, loads = normal(1, count, 3) / count**0.5, normal(2, count, 2) / count**0.5
        inner, values, _ = torch.linalg.svd(few / 2.0 ** (few.norm(dim=0).log2().floor() + 1), full_matrices=False)
        T = loads.mT @ inner
        whole = float(loads.square().sum())
        rest = whole - float(T.square().sum())
        level = (8 * 5 + 16) * EPS * (1 + math.log2(count / 3) / 2)
        turned = 2 * level * float((T / values).norm()) * rest**0.5 + (level / float(values.min())) ** 2 * rest
        told = whiten(Sample(normal(1, count, 3), normal(2, count, 2))).slack
        found.append(compare(told, "==", scale * (turned + level * whole), f"slack of {count} rows", 1e-9, 1e-300))
    # a direction without energy may be all that the targets have beyond the others, unless the rank is known
    X[:, 2] = X[:, 0] + X[:, 1]
    rest = (Y - X @ torch.linalg.lstsq(X, Y, driver="gelsd").solution).square().sum() / 40
    for rank, wanted in ((None, float(rest)), (2, 0.0)):
        short = Moments(X.mT @ X / 40, Y.mT @ X / 40, yy, rank=rank)
        found.append(compare(whiten(short).slack, "==", scale * wanted, f"slack, rank {rank} of three"))
    # of which the last is known up to rounding, too: twice as much
    powers = 2.0 ** (short.xx.diagonal().sqrt().log2().floor() + 1)
    values, vectors = (part[..., 1:] for part in torch.linalg.eigh(short.xx / powers[:, None] / powers))
    weights = short.yx / powers @ vectors / values
    size = float(weights.square().sum().sqrt() + energy.sqrt())
    wanted = 2 * (16 * EPS + 8 / 7 * 3 * short.rounding) * size**2
    found.append(compare(whiten(short).slack, "==", scale * wanted, "slack of two directions", 1e-9, 1e-300))
    return found


def _symmetries(scale: float) -> list[Comparison]:
    """Dimensions of symmetry as ranks of orbits that are moved by hand."""
    found: list[Comparison] = []
    even = Moments(torch.eye(3).double(), torch.eye(3).double() * 0.7, torch.eye(3).double())
    skew, units = torch.zeros(3, 3).double(), tensor([1.0, 4.0, 1.0])
    skew[0, 1], skew[1, 0] = 0.3, -0.3
    mixed = torch.eye(3).double()
    mixed[0, 1] = mixed[1, 0] = 0.5
    for seed, model, data, wanted in (
        (1, TwoLayerLinear(normal(1, 2, 4), normal(2, 3, 4)), _population(5, 2, 3), 4),
        (2, DeepLinear([normal(3, 4, 3), normal(4, 2, 4), normal(5, 2, 2)]), _population(6, 2, 3), 6),
        (3, Autoencoder(normal(6, 3, 2)), even, 3),
        (4, TwoLayerLinear(normal(7, 3, 2), normal(8, 3, 2)), even, 5),
        (5, TwoLayerLinear(normal(9, 2, 2), normal(10, 3, 2)), _turned(), 3),
        (6, TwoLayerLinear(torch.zeros(2, 2).double(), torch.zeros(3, 2).double()), _population(5, 2, 3), 0),
        (8, Autoencoder(normal(6, 3, 2)), Moments(even.xx, even.yx + skew, 3 * even.yy), 3),
        (9, TwoLayerLinear(normal(7, 3, 2), normal(8, 3, 2)), Moments(mixed, 0.4 * even.xx, even.yy), 2),
        (
            10,
            TwoLayerLinear(normal(7, 3, 2), normal(8, 3, 2)),
            Moments(units[:, None] * even.xx * units, even.yx * units, even.yy),
            5,
        ),
        # rotations of five outputs that keep one of them turn two columns: frames in four dimensions, of dimension five
        (11, TwoLayerLinear(normal(11, 5, 2), normal(12, 1, 2)), _population(7, 5, 1), 7),
        (12, TwoLayerLinear(normal(11, 1, 2), normal(12, 4, 2)), Moments.of_map(normal(13, 1, 4)), 5),
        (7, TwoLayerLinear(tensor([[1.0, 0.0], [2.0, 0.0]]), normal(8, 3, 2)), _population(5, 2, 3), 2),
        # 406 pairs of axes of 29 outputs
        (14, TwoLayerLinear(normal(11, 29, 2), normal(12, 1, 2)), _population(7, 29, 1), 2),
        (15, TwoLayerLinear(1e-5 * _uneven(1e-7), _uneven(1e-7)), _population(5, 2, 2), 2),
        (16, TwoLayerLinear(_uneven(1e-9), _uneven(1e-9)), _population(5, 2, 2), 1),
    ):
        found.append(compare(symmetry_dimension(model, data), "==", scale * wanted, f"symmetries, {seed}"))
    return found


def _uneven(small: float) -> Tensor:
    return torch.diag(tensor([1.0, small]))


def _population(seed: int, outputs: int, inputs: int) -> Moments:
    X, Y = normal(seed, 30, inputs), normal(seed + 1, 30, outputs)
    return Moments(X.mT @ X / 30, Y.mT @ X / 30, Y.mT @ Y / 30)


def _turned() -> Moments:
    """Uncorrelated inputs, the first two alike, and outputs that see the third alone."""
    yx = torch.zeros(2, 3).double()
    yx[:, 2] = tensor([1.0, 0.5])
    return Moments(torch.diag(tensor([1.0, 1.0, 2.0])), yx, torch.eye(2).double() * 3)
