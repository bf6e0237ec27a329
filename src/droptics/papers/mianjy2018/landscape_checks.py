"""What the claims on the optimization landscape compare: critical points, curvature, joint equalization."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import torch
from torch import Tensor

from droptics.data import Moments
from droptics.equalization import joint_equalizer
from droptics.evidence.claims import Comparison, compare
from droptics.landscapes import inspect
from droptics.linalg import shrink
from droptics.masks import Bernoulli, Product
from droptics.models import Autoencoder, DeepLinear
from droptics.norms import nuclear
from droptics.papers.instances import descend, normal, tensor
from droptics.papers.mianjy2018.checks import tied_objective
from droptics.penalties import criterion


def hessian_least(objective: Callable[[Tensor], Tensor], U: Tensor) -> tuple[float, float]:
    """Norm of the gradient and least eigenvalue of the Hessian, by automatic differentiation."""
    flat = U.reshape(-1)

    def of_vector(vector: Tensor) -> Tensor:
        return objective(vector.reshape(U.shape))

    gradient = torch.func.grad(of_vector)(flat)
    curvature = torch.func.hessian(of_vector)(flat)
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


def strict_saddles(lam: float, inside: bool = False) -> list[Comparison]:
    """Every equalized critical point that is not a global minimum has negative curvature, lam below the threshold.

    Spectra without and with ties, each point equalized by another rotation, M in general position. `inside` looks only
    along the eigenvectors that a point uses, where it is the best of its kind.
    """
    found = []
    cases = [(tensor([2.0, 1.0]), 2), (tensor([1.5, 1.0, 0.4]), 2), (tensor([2.0, 1.0, 1.0]), 2), (tensor([1.0]), 1)]
    for seed, (eigenvalues, width) in enumerate([*cases, (tensor([1.2, 1.0, 0.9]), 3)]):
        r_th, rest = width * float(eigenvalues[width - 1]), float(eigenvalues[:width].sum())
        found.append(compare(lam * (rest - r_th), "<", r_th, "lam below the threshold"))
        kept = shrink(eigenvalues, lam, width)
        least = float((eigenvalues - kept).square().sum() + lam / width * kept.sum() ** 2)
        for number, point in enumerate(group_points(eigenvalues, lam, width)):
            turn = torch.linalg.qr(normal(10 * seed + number, width, width)).Q
            U = _rotation_to_equal(point @ turn)
            used = (U != 0).any(1) if inside and bool((U != 0).any()) else torch.ones(len(U), dtype=torch.bool)
            basis = torch.linalg.qr(normal(number, int(used.sum()), int(used.sum()))).Q
            objective = tied_objective(basis * eigenvalues[used] @ basis.mT, lam)
            gradient, curvature = hessian_least(objective, basis @ U[used])
            found.append(compare(gradient, "==", 0.0, "gradient", precision=1e-6))
            if float(tied_objective(torch.diag(eigenvalues), lam)(U)) > least + 1e-7:
                found.append(compare(curvature, "<", 0.0, "least curvature off the optimum", precision=1e-7))
            else:
                found.append(compare(curvature, ">=", 0.0, "least curvature at the optimum", precision=1e-7))
    return found


def unequal_points(lam: float, width: int = 3) -> list[Comparison]:
    """Critical points whose columns differ in norm have negative curvature."""
    found = []
    objective = tied_objective(tensor([[2.0]]), lam)
    for U in scalar_critical_points(2.0, lam, width):
        gradient, curvature = hessian_least(objective, U)
        found.append(compare(gradient, "==", 0.0, "gradient", precision=1e-8))
        norms = U.square().sum(0)
        if float(norms.max() - norms.min()) > 1e-9:
            found.append(compare(curvature, "<", 0.0, "least curvature at unequal columns", precision=1e-6))
    return found


def strict_saddle_property(layers: int) -> list[Comparison]:
    """Kinds that the library gives critical points against the least eigenvalue of the Hessian by differentiation.

    Tied: all critical points of width 2 for one input and output, and all equalized ones of a larger map; those that
    are no minima are strict saddles. Untied, the origin of `layers` layers is a saddle, as two steps up and down
    show: strict for two layers, with least curvature -2 s_1(M), and not for three, whose Hessian there is zero.
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
    found.append(compare(seen.curvature, "==", -2 * torch.linalg.svdvals(M)[0], f"curvature, {layers} layers"))
    scalar = [(tensor([[2.0]]), U) for U in scalar_critical_points(2.0, lam, 2)]
    spectrum = tensor([1.5, 1.0, 0.4])
    for M, U in [*scalar, *((torch.diag(spectrum), U) for U in group_points(spectrum, lam, 2))]:
        width, eigenvalues = U.shape[1], M.diagonal()
        kept = shrink(eigenvalues, lam, width)
        least = float((eigenvalues - kept).square().sum() + lam / width * kept.sum() ** 2)
        gradient, curvature = hessian_least(tied_objective(M, lam), U)
        found.append(compare(gradient, "==", 0.0, "gradient", precision=1e-7))
        seen = inspect(Autoencoder(U), Moments.of_map(M), Bernoulli(lam / (1 + lam), width))
        found.append(compare(seen.curvature, "==", curvature, "least curvature of the library", precision=1e-8))
        strict = seen.kind in ("strict saddle", "local maximum")
        found.append(compare(strict, "==", curvature < -1e-6, "called strict where curvature is negative"))
        found.append(compare(strict, "==", seen.objective > least + 1e-6, "strict unless it is a minimum"))
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
    """Second derivative of f along the rotation of two orthogonal columns is -4 lam (n_1 - n_2)^2."""
    found = []
    for lam, first, second in ((0.7, 1.5, 0.6), (0.2, 0.9, 0.0)):
        U = torch.diag(tensor([first, second]))
        objective = tied_objective(normal(1, 2, 2), lam)

        def along(t: Tensor, U: Tensor = U, objective: Callable[[Tensor], Tensor] = objective) -> Tensor:
            rotation = torch.stack([torch.stack([t.cos(), -t.sin()]), torch.stack([t.sin(), t.cos()])])
            return objective(U @ rotation)

        second_derivative = torch.func.hessian(along)(tensor(0.0))
        formula = -4 * factor(lam) * (first**2 - second**2) ** 2
        found.append(compare(second_derivative, "==", formula, f"lam={lam}"))
    return found


def below_map(eigenvalues: tuple[float, ...], lam: float = 0.5) -> list[Comparison]:
    """UU^T <= M at critical points: the largest eigenvalue of UU^T - M is not positive."""
    found = []
    M = torch.diag(tensor(eigenvalues))
    for U in group_points(tensor(eigenvalues), lam, 2):
        top = torch.linalg.eigvalsh(U @ U.mT - M)[-1]
        found.append(compare(top, "<=", 0.0, "largest eigenvalue of UU^T - M", precision=1e-7))
    return found


def range_is_positive(sign: float) -> list[Comparison]:
    """UU^T <= P M P on the range of U for every symmetric M."""
    found = []
    for eigenvalues in ((1.0, -1.0), (2.0, 0.5), (-1.0, -2.0)):
        M = torch.diag(tensor(eigenvalues))
        for U in group_points(tensor(eigenvalues), 0.5, 2):
            P = U @ torch.linalg.pinv(U)
            top = torch.linalg.eigvalsh(sign * (U @ U.mT - P @ M @ P))[-1]
            found.append(compare(top, "<=", 0.0, "largest eigenvalue", precision=1e-7))
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
]


def _products(U: Tensor, V: Tensor, Q: Tensor) -> Tensor:
    return (U @ Q).norm(dim=0) * (V @ Q).norm(dim=0)


def weak_equalization(strong: bool) -> list[Comparison]:
    """Every pair is jointly equalized by a rotation in the weak sense, equal products; the strong sense asks more."""
    found = []
    for U, V in PAIRS:
        Q = joint_equalizer(U, V)
        products = _products(U, V, Q)
        wanted = nuclear(U @ V.mT) / U.shape[1] if strong else products.mean()
        found.append(compare(products, "==", wanted, f"products, width {U.shape[1]}", precision=1e-7))
        found.append(compare(Q.mT @ Q, "==", torch.eye(len(Q), dtype=torch.float64), "a rotation"))
    return found


def some_pair_resists(rotation: Callable[[Tensor, Tensor], Tensor]) -> list[Comparison]:
    """The printed sentence on our pairs: after the rotation the products of some pair still differ."""
    spreads = [products.max() - products.min() for products in (_products(U, V, rotation(U, V)) for U, V in PAIRS)]
    return [compare(max(spreads), ">", 0.0, "largest difference of products that is left", precision=1e-7)]
