"""What the claims on the optimization landscape compare: critical points, curvature, joint equalization."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import root
from torch import Tensor

from droptics.data import Moments
from droptics.equalization import joint_equalizer
from droptics.evidence.claims import Comparison, compare
from droptics.landscapes import inspect
from droptics.linalg import shrink
from droptics.masks import Bernoulli, Product
from droptics.models import Autoencoder, DeepLinear
from droptics.norms import nuclear
from droptics.papers.instances import descend, moments, normal, tensor
from droptics.papers.mianjy2018.checks import tied_objective
from droptics.penalties import criterion


def hessian_least(objective: Callable[[Tensor], Tensor], U: Tensor) -> tuple[float, float]:
    """Norm of the gradient and least eigenvalue of the Hessian, by automatic differentiation."""
    flat = U.reshape(-1)

    def of_vector(vector: Tensor) -> Tensor:
        return objective(vector.reshape(U.shape))

    gradient = torch.func.grad(of_vector)(flat)
    curvature = torch.func.jacrev(torch.func.grad(of_vector))(flat)
    return float(gradient.norm()), float(torch.linalg.eigvalsh((curvature + curvature.mT) / 2)[0])


def scalar_critical_points(M: float, lam: float, width: int) -> list[Tensor]:
    """All critical points for one input and one output: u_i in {0, +-sqrt(M / (m + lam))}, m of them non-zero."""
    found = []
    for signs in itertools.product((-1.0, 0.0, 1.0), repeat=width):
        m = sum(abs(sign) for sign in signs)
        found.append(tensor([signs]) * math.sqrt(M / (m + lam)) if m else tensor([signs]))
    return found


def group_points(eigenvalues: Tensor, lam: float, width: int) -> list[Tensor]:
    """Equalized critical points of diag(eigenvalues): every support with a positive shrunk spectrum."""
    found = []
    size = len(eigenvalues)
    for count in range(min(size, width) + 1):
        for support in itertools.combinations(range(size), count):
            chosen = eigenvalues[list(support)]
            level = lam * chosen.sum() / (width + lam * count) if count else chosen.sum()
            squared = chosen - level
            if count and float(squared.min()) <= 1e-9:
                continue
            U = torch.zeros(size, width, dtype=torch.float64)
            for column, (index, value) in enumerate(zip(support, squared, strict=True)):
                U[index, column] = value.clamp_min(0).sqrt()
            found.append(_rotation_to_equal(U))
    return found


def _rotation_to_equal(U: Tensor) -> Tensor:
    """Plane rotations of largest against smallest column until all norms agree."""
    U = U.clone()
    for _ in range(60):
        norms = U.square().sum(0)
        low, high = int(norms.argmin()), int(norms.argmax())
        if float(norms[high] - norms[low]) < 1e-15:
            break
        mean, inner = norms.mean(), U[:, low] @ U[:, high]
        a, b, c = norms[high] - mean, 2 * inner, norms[low] - mean
        t = (-b + torch.sqrt(b * b - 4 * a * c)) / (2 * a)
        cos = 1 / torch.sqrt(1 + t * t)
        first, second = U[:, low].clone(), U[:, high].clone()
        U[:, low], U[:, high] = cos * (first + t * second), cos * (second - t * first)
    return U


def critical_points(M: Tensor, lam: float, width: int, starts: int = 12) -> list[Tensor]:
    """Critical points of the tied objective that root finding reaches from random starts, one of each value.

    Nothing is supposed of their form: columns may differ in norm, M need neither be diagonal nor positive.
    """
    A, found = M.numpy(), {}

    def slopes(flat: NDArray[np.float64]) -> NDArray[np.float64]:
        U = flat.reshape(-1, width)
        return ((U @ U.T - A) @ U + lam * U * (U * U).sum(0)).ravel()

    for seed in range(starts):
        reached = root(slopes, 1.2 * normal(seed, len(A) * width).numpy(), tol=1e-13).x
        if np.abs(slopes(reached)).max() < 1e-10:
            U = torch.from_numpy(reached.reshape(-1, width))
            found[round(float(tied_objective(M, lam)(U)), 7)] = U
    return [U for _, U in sorted(found.items(), key=lambda item: item[0])]


def psd(seed: int, size: int) -> Tensor:
    """A positive definite map in general position."""
    factor = normal(seed, size, size)
    return factor @ factor.mT / size


def threshold(M: Tensor, width: int) -> float:
    """What lam is to stay below in Theorem 4.3: r s_r / (s_1 + ... + s_r - r s_r)."""
    top = torch.linalg.eigvalsh(M).flip(0)[:width]
    return float(width * top[-1] / (top.sum() - width * top[-1]))


def strict_saddles(equalized: bool, every: bool = False) -> list[Comparison]:
    """Critical points below the threshold that are no global minima have negative curvature, and minima have none.

    Spectra without and with ties, and with signs; without dropout, too. Equalized ones by their closed form, each by
    another rotation, and without `equalized` also whatever root finding reaches, most of it with columns of different
    norms. With `every`, critical points and not only minima were to be global.
    """
    found = []
    given = [torch.diag(tensor(spectrum)) for spectrum in ((2.0, 1.0), (1.5, 1.0, 0.4), (2.0, 1.0, 1.0), (1.0,))]
    cases = [(given[0], 2, 0.25), (given[1], 2, 0.95), (given[2], 2, 0.5), (given[3], 1, 0.5)]
    turned = torch.linalg.qr(normal(7, 4, 4)).Q
    mixed = turned * tensor([2.0, 1.2, -0.5, -1.0]) @ turned.mT  # eigenvalues below zero beyond the width
    cases += [(mixed, 2, 0.6), (mixed, 2, 0.0), (torch.diag(tensor([1.5, 1.5, 0.3])), 2, 0.5)]
    for M, width, share in (*cases, (psd(2, 3), 3, 0.95), (psd(1, 4), 3, 0.3)):
        lam = share * min(threshold(M, width), 3.0)
        eigenvalues, vectors = torch.linalg.eigh(M)
        turn = torch.linalg.qr(normal(len(M) + width, width, width)).Q
        points = [vectors @ _rotation_to_equal(U @ turn) for U in group_points(eigenvalues, lam, width)]
        points += [] if equalized else critical_points(M, lam, width)
        kept = shrink(eigenvalues.clamp_min(0), lam, width)  # in ascending order
        least = float((eigenvalues - kept).square().sum() + lam / width * kept.sum() ** 2)
        objective, label = tied_objective(M, lam), f"{len(M)} inputs, r={width}"
        values = [float(objective(U)) for U in points]
        found.append(compare(min(values), "==", least, f"least value, {label}", precision=1e-8))
        for value, U in sorted(zip(values, points, strict=True), key=lambda pair: pair[0]):
            gradient, curvature = hessian_least(objective, U)
            found.append(compare(gradient, "==", 0.0, f"gradient, {label}", precision=1e-6))
            if value <= least + 1e-7:
                found.append(compare(curvature, ">=", 0.0, f"least curvature at the optimum, {label}", precision=1e-7))
            else:
                found.append(compare(curvature, "<", 0.0, f"least curvature off the optimum, {label}", precision=1e-7))
                found += [compare(value, "==", least, f"value, {label}")] if every else []
    return found


def _negated(objective: Callable[[Tensor], Tensor], U: Tensor) -> Tensor:
    return -objective(U)


def unequal_points(lam: float, width: int = 3) -> list[Comparison]:
    """Critical points whose columns differ in norm have negative curvature; all but the origin have positive, too.

    All critical points of one input and output, and those that root finding reaches for maps in general position.
    """
    found, scalar = [], tensor([[2.0]])
    points = [(scalar, U) for U in scalar_critical_points(2.0, lam, width)]
    for M in (psd(5, 3), -psd(6, 2) + 2 * torch.eye(2).double()):
        points += [(M, U) for U in critical_points(M, lam, width)]
    for M, U in points:
        objective = tied_objective(M, lam)
        gradient, curvature = hessian_least(objective, U)
        _, below = hessian_least(partial(_negated, objective), U)
        found.append(compare(gradient, "==", 0.0, "gradient", precision=1e-8))
        norms = U.square().sum(0)
        if float(norms.max() - norms.min()) > 1e-6:
            found.append(compare(curvature, "<", 0.0, "least curvature at unequal columns", precision=1e-6))
        if float(norms.max()) > 1e-6:
            found.append(compare(-below, ">", 0.0, "largest curvature off the origin", precision=1e-6))
    return found


def strict_saddle_property(layers: int) -> list[Comparison]:
    """Kinds that the library gives critical points against the least eigenvalue of the Hessian by differentiation.

    Tied: all critical points of width 2 for one input and output, all equalized ones of a larger map, and those that
    root finding reaches in general position; those that are no minima are strict saddles. Untied, the origin of
    `layers` layers is a saddle, as two steps up and down show: strict for two layers, with least curvature -2 s_1(M),
    and not for three, whose Hessian there is zero.
    """
    found, lam = [], 0.6
    M, masks = normal(4, 3, 3), Product([Bernoulli(lam / (1 + lam), 3)] * (layers - 1))
    data, weights, ahead = Moments.of_map(M), [torch.linalg.qr(normal(seed, 3, 3)).Q for seed in range(layers - 1)], M
    for W in weights:
        ahead = ahead @ W.mT
    origin = DeepLinear([0 * W for W in (*weights, ahead)])
    seen = inspect(origin, data, masks)
    for name, sign in (("down", 1.0), ("up", -1.0)):
        moved = DeepLinear([0.1 * W for W in (*weights, sign * ahead)])
        change = criterion(moved, data, masks).value - criterion(origin, data, masks).value
        found.append(compare(sign * change, "<", 0.0, f"a step {name}, {layers} layers"))
    found.append(compare(seen.gradient_norm, "==", 0.0, "gradient at the origin"))
    found.append(compare(seen.curvature, "<", 0.0, f"curvature at the origin, {layers} layers"))
    found.append(compare(seen.curvature, "==", -2 * torch.linalg.svdvals(M)[0], f"curvature, {layers} layers"))
    scalar = [(tensor([[2.0]]), U) for U in scalar_critical_points(2.0, lam, 2)]
    spectrum, general = tensor([1.5, 1.0, 0.4]), psd(2, 3)
    equalized = [(torch.diag(spectrum), U) for U in group_points(spectrum, lam, 2)]
    flat = [(torch.diag(tensor([2.0, 1.0, 0.0])), torch.zeros(3, 2).double())]  # it rises where the map is zero
    for M, U in [*scalar, *equalized, *flat, *((general, U) for U in critical_points(general, lam, 3))]:
        width, eigenvalues = U.shape[1], torch.linalg.eigvalsh(M).flip(0)
        kept = shrink(eigenvalues, lam, width)
        least = float((eigenvalues - kept).square().sum() + lam / width * kept.sum() ** 2)
        gradient, curvature = hessian_least(tied_objective(M, lam), U)
        found.append(compare(gradient, "==", 0.0, "gradient", precision=1e-7))
        seen = inspect(Autoencoder(U), Moments.of_map(M), Bernoulli(lam / (1 + lam), width))
        found.append(compare(seen.curvature, "==", curvature, "least curvature of the library", precision=1e-8))
        found.append(compare(curvature < -1e-6, "==", seen.objective > least + 1e-6, "strict unless it is a minimum"))
        # of these points only an origin where the map is regular is a maximum
        top = not U.any() and float(eigenvalues[-1]) > 0
        kind = "global minimum" if curvature >= -1e-6 else "local maximum" if top else "strict saddle"
        if kind == "global minimum":
            found.append(compare(seen.objective, "==", least, "value of a minimum", precision=1e-8))
        found.append(compare(seen.kind == kind, "==", 1.0, f"called a {kind}"))
    # negative curvature alone makes no saddle: the gradient must vanish
    U = 0.1 * normal(6, 3, 3)
    slope = inspect(Autoencoder(U), Moments.of_map(general), Bernoulli(lam / (1 + lam), 3))
    gradient, curvature = hessian_least(tied_objective(general, lam), U)
    found.append(compare(slope.gradient_norm, "==", gradient, "gradient on a slope"))
    found.append(compare(slope.curvature, "==", curvature, "curvature on a slope"))
    found.append(compare(slope.curvature, "<", 0.0, "which is negative"))
    found.append(compare(slope.kind == "not critical", "==", 1.0, "called no saddle there"))
    return [*found, *_origins()]


def _origins() -> list[Comparison]:
    """The origin of untied networks of correlated inputs: strict for two layers, and without a Hessian for three."""
    found, data = [], moments(8, 2, 3)
    for sizes, kind in (((3, 4, 2), "strict saddle"), ((3, 4, 2, 2), "degenerate")):
        weights = [torch.zeros(after, before).double() for before, after in itertools.pairwise(sizes)]
        seen = inspect(DeepLinear(weights), data, Product([Bernoulli(0.3, size) for size in sizes[1:-1]]))
        wanted = -2 * torch.linalg.svdvals(data.yx)[0] if len(weights) == 2 else 0.0
        label = f"the origin of {len(weights)} layers"
        found.append(compare(seen.curvature, "==", wanted, f"curvature at {label}"))
        found.append(compare(seen.kind == kind, "==", 1.0, f"{label} is called {kind}"))
        # twice the rank of yx in each unit, and the rest is flat
        counts = (8, sum(part.numel() for part in weights) - 16, 8) if len(weights) == 2 else (0, 24, 0)
        found.append(compare(torch.tensor(seen.inertia), "==", torch.tensor(counts), f"its inertia, {label}"))
    return found


def local_minima(lam: float) -> list[Comparison]:
    """Columns of the points where descent of the tied objective ends, from three starts in general position."""
    found = []
    for seed in range(3):
        root = normal(seed, 3, 3)
        M = root @ root.mT / 3
        _, (U,) = descend(tied_objective(M, lam), [(3, 4)], starts=1, seed=seed)
        norms = U.square().sum(0)
        found.append(compare(norms, "==", norms.mean(), f"squared column norms, start {seed}", precision=1e-4))
    return found


def rotation_curvature(factor: Callable[[float], float]) -> list[Comparison]:
    """Second derivative of f along the rotation of two orthogonal columns is -4 lam (n_1 - n_2)^2, n_i = ||u_i||^2.

    At any weights with orthogonal columns, and at critical points of maps in general position: there columns of
    different norms are orthogonal, and the Hessian is at most that over n_1 + n_2 in the direction of the turn.
    """
    found = []
    U = torch.linalg.qr(normal(4, 4, 2)).Q
    cases = [(normal(1, 2, 2), 0.7, torch.diag(tensor([1.5, 0.6]))), (normal(2, 4, 4), 0.2, U * tensor([0.9, 0.0]))]
    for seed, lam, width in ((1, 0.5, 2), (2, 0.3, 3), (3, 1.4, 3)):
        M = psd(seed, 4)
        cases += [(M, lam, U) for U in critical_points(M, lam, width)]
    for M, lam, U in cases:
        objective, norms = tied_objective(M, lam), U.square().sum(0)
        i, j = int(norms.argmax()), int(norms.argmin())
        if float(norms[i] - norms[j]) < 1e-6:
            continue

        def along(t: Tensor, U: Tensor = U, i: int = i, j: int = j, f: Callable[..., Tensor] = objective) -> Tensor:
            columns = list(U.unbind(1))
            columns[i], columns[j] = t.cos() * U[:, i] + t.sin() * U[:, j], t.cos() * U[:, j] - t.sin() * U[:, i]
            return f(torch.stack(columns, 1))

        label = f"lam={lam}, norms {float(norms[i]):.3f} and {float(norms[j]):.3f}"
        formula = -4 * factor(lam) * (norms[i] - norms[j]) ** 2
        turned = torch.func.grad(torch.func.grad(along))(tensor(0.0))
        found.append(compare(turned, "==", formula, label, precision=1e-8))
        found.append(compare(U[:, i] @ U[:, j], "==", 0.0, f"columns are orthogonal, {label}", precision=1e-8))
        gradient, curvature = hessian_least(objective, U)
        if gradient < 1e-6:
            limit = formula / (norms[i] + norms[j])
            found.append(compare(curvature, "<=", limit, f"least eigenvalue, {label}", precision=1e-8))
            found.append(compare(curvature, "<", 0.0, f"a strict saddle, {label}"))
    return found


def below_map(sign: float) -> list[Comparison]:
    """UU^T <= M at critical points: the largest eigenvalue of UU^T - M is not positive.

    Equalized points by their closed form, and whatever root finding reaches, most of it with columns of different
    norms, but where lam = 0 or M is singular: critical points are not isolated or degenerate there. The least
    eigenvalue of every M is multiplied by `sign`.
    """
    found = []
    for given, width, lam in (
        (torch.diag(tensor([2.0, 0.5])), 2, 0.5),
        *((psd(seed, size), width, lam) for seed, size, width, lam in ((1, 2, 2, 0.5), (2, 3, 2, 0.1), (3, 4, 3, 1.4))),
        (psd(4, 2), 3, 0.0),
        (torch.block_diag(psd(5, 2), torch.zeros(2, 2).double()), 3, 0.6),
        (torch.zeros(2, 2).double(), 2, 0.6),
    ):
        eigenvalues, vectors = torch.linalg.eigh(given)
        eigenvalues[0] *= sign
        M = vectors @ torch.diag(eigenvalues) @ vectors.mT
        closed = [vectors @ U for U in group_points(eigenvalues, lam, width)]
        others = critical_points(M, lam, width) if lam and abs(float(eigenvalues[0])) > 1e-9 else []
        for U in [*closed, *others]:
            label = f"{len(M)} inputs, r={width}, lam={lam}"
            gradient = torch.func.grad(tied_objective(M, lam))(U)
            found.append(compare(gradient, "==", 0.0, f"gradient, {label}", precision=1e-7))
            top = torch.linalg.eigvalsh(U @ U.mT - M)[-1]
            found.append(compare(top, "<=", 0.0, f"largest eigenvalue of UU^T - M, {label}", precision=1e-7))
    return found


def range_is_positive(projected: bool) -> list[Comparison]:
    """UU^T <= PMP with P on the range of U at critical points for symmetric M of any signs; <= M fails for some."""
    found = []
    for seed, size, width, lam in ((0, 2, 2, 0.5), (1, 3, 2, 0.1), (2, 3, 3, 0.6), (3, 4, 3, 2.0), (5, 4, 2, 0.0)):
        M = (normal(seed, size, size) + normal(seed, size, size).mT) / 2
        for U in [torch.zeros(size, width, dtype=torch.float64), *critical_points(M, lam, width)]:
            P = U @ torch.linalg.pinv(U, atol=1e-6)
            top = torch.linalg.eigvalsh(U @ U.mT - (P @ M @ P if projected else M))[-1]
            found.append(compare(top, "<=", 0.0, f"largest eigenvalue, {size} inputs, lam {lam}", precision=1e-8))
    return found


def rotated_products(U: Tensor, V: Tensor, angle: float) -> Tensor:
    """||u_i|| ||v_i|| after rotating both factors of width two."""
    c, s = math.cos(angle), math.sin(angle)
    Q = tensor([[c, -s], [s, c]])
    return (U @ Q).norm(dim=0) * (V @ Q).norm(dim=0)


PAIRS = [
    (torch.eye(2, dtype=torch.float64), torch.diag(tensor([1.0, 0.0]))),
    *((normal(seed, 3, width), normal(seed + 50, 4, width)) for seed in range(3) for width in (2, 3, 4, 5)),
    (normal(3, 1, 2), torch.eye(2, dtype=torch.float64)),
    (normal(4, 3, 1) * tensor([[1.0, 2.0, -1.0]]), normal(5, 4, 3)),
    (normal(6, 3, 4) * tensor([1e-3, 1.0, 1.0, 1e3]), normal(7, 2, 4)),
    (normal(8, 5, 8), normal(9, 8, 8)),
]
SIZES = ((10, 1e-140, 1e140), (11, 1e150, 1e-6), (12, 1e-150, 1e-150))


def _products(U: Tensor, V: Tensor, Q: Tensor) -> Tensor:
    return (U @ Q).norm(dim=0) * (V @ Q).norm(dim=0)


def weak_equalization(strong: bool) -> list[Comparison]:
    """Every pair is jointly equalized by a rotation in the weak sense, equal products; the strong sense asks more."""
    found = []
    scaled = [(size * normal(seed, 3, 4), other * normal(seed + 50, 2, 4)) for seed, size, other in SIZES]
    for U, V in (*PAIRS, *scaled):
        Q = joint_equalizer(U, V)
        products = _products(U, V, Q)
        wanted = nuclear(U @ V.mT) / U.shape[1] if strong else products.mean()
        label = f"products, width {U.shape[1]}, of mean {float(products.mean()):.2g}"
        found.append(compare(products / products.mean(), "==", wanted / products.mean(), label, precision=1e-7))
        found.append(compare(Q.mT @ Q, "==", torch.eye(len(Q), dtype=torch.float64), "orthogonal"))
        found.append(compare(torch.linalg.det(Q), "==", 1.0, "a rotation, no reflection"))
    # I and diag(1, 0): of the products |cos| and |sin|, to be 1/2 each, the larger is at least sqrt(1/2)
    largest = torch.stack([rotated_products(*PAIRS[0], 0.01 * step).max() for step in range(158)])
    wanted = nuclear(PAIRS[0][0] @ PAIRS[0][1].mT) / 2
    found.append(compare(largest, ">=", 0.5**0.5, "larger product at any angle", precision=1e-9))
    return [*found, compare(largest.min(), ">", wanted, "strongly not at any angle")]


def some_pair_resists(rotation: Callable[[Tensor, Tensor], Tensor]) -> list[Comparison]:
    """The printed sentence on our pairs: after the rotation the products of some pair still differ.

    A matrix that is no rotation, or holds no numbers, counts as a pair that resists. In width two no rotation is
    needed: between the pair as it is and a quarter turn later the larger product is another one, so that somewhere
    they agree.
    """
    left = []
    for U, V in PAIRS:
        Q = rotation(U, V)
        products, defect = _products(U, V, Q), (Q.mT @ Q - torch.eye(len(Q), dtype=torch.float64)).abs().max()
        left.append(
            torch.stack([(products.max() - products.min()) / products.mean(), defect]).nan_to_num(math.inf).max()
        )
    found = [compare(max(map(float, left)), ">", 0.0, "largest share of a difference that is left", precision=1e-7)]
    for U, V in (pair for pair in PAIRS if len(pair[0].mT) == 2):
        first, later = rotated_products(U, V, 0.0), rotated_products(U, V, math.pi / 2)
        found.append(compare(later, "==", first.flip(0), "products after a quarter turn"))
    return found
