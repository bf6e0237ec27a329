"""What the claims on steps of proofs and on sentences of the text compare."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from droptics.data import Moments
from droptics.evidence.claims import Comparison, compare
from droptics.linalg import equalizer, shrink
from droptics.masks import Bernoulli
from droptics.models import TwoLayerLinear
from droptics.norms import nuclear
from droptics.optima import optimum
from droptics.papers.instances import descend, normal, tensor
from droptics.papers.mianjy2018.checks import printed_eqz, tied_objective, untied_objective
from droptics.penalties import criterion


def column_norms(pairs: list[tuple[Tensor, Tensor]]) -> list[Comparison]:
    """||u_i||^2 = ||v_i||^2 = ||U V^T||_* / r for pairs whose products ||u_i|| ||v_i|| all agree."""
    found = []
    for U, V in pairs:
        level = nuclear(U @ V.mT) / U.shape[1]
        found += [compare(factor.square().sum(0), "==", level, "squared column norms") for factor in (U, V)]
    return found


def rescaled_optimum() -> list[tuple[Tensor, Tensor]]:
    """A global optimum whose units are rescaled, which keeps it one."""
    data, masks = Moments.of_map(normal(1, 3, 4)), Bernoulli(0.3, 3)
    best = optimum(TwoLayerLinear, data, masks)
    assert isinstance(best.model, TwoLayerLinear)
    scale = tensor([2.0, 0.5, 3.0])
    model = TwoLayerLinear(best.model.U * scale, best.model.V / scale)
    assert Comparison(float(criterion(model, data, masks).value), "==", best.objective).holds
    return [(model.U, model.V)]


def strongly_equal() -> list[tuple[Tensor, Tensor]]:
    """Factors of the singular value decomposition, rotated until their columns agree."""
    P, s, Rh = torch.linalg.svd(normal(1, 3, 4), full_matrices=False)
    Q = equalizer(torch.diag(s))
    return [(P * s.sqrt() @ Q, Rh.mT * s.sqrt() @ Q)]


def inverse_of_ones(rank_one: bool) -> list[Comparison]:
    """sigma^2 with sigma^2 + (lam/r) sum(sigma^2) = lambda: subtract lam/(r + lam r') times the SUM, or each value.

    The equalized network with these squares on r' of the eigenvectors, not the first ones, is a critical point.
    """
    found = []
    for seed, (lam, r, used, size) in enumerate(((0.5, 3, 3, 3), (2.0, 4, 3, 5), (0.8, 2, 1, 3), (0.3, 3, 2, 4))):
        values = normal(seed, size).abs() + 1
        chosen = values[size - used :]
        share = lam / (r + lam * used)
        squared = chosen - share * (chosen.sum() if rank_one else chosen)
        label = f"lam={lam}, r={r}, r'={used}"
        found.append(compare(squared + lam / r * squared.sum(), "==", chosen, label))
        basis = torch.linalg.qr(normal(seed, size, size)).Q
        U = torch.nn.functional.pad(basis[:, size - used :] * squared.clamp_min(0).sqrt(), (0, r - used))
        turned = (U @ equalizer(U.mT @ U)).requires_grad_()
        slope = torch.autograd.grad(tied_objective(basis * values @ basis.mT, lam)(turned), turned)[0]
        found.append(compare(slope, "==", 0.0, f"gradient, {label}", precision=1e-8))
    return found


def swap_curvature(at_zero: bool) -> list[Comparison]:
    """Second derivative of f when column j of W turns to a better eigenvector: -4 sigma_j^2 (s' - s_j)."""
    eigenvalues, lam, width = tensor([2.0, 1.0]), 0.5, 1
    objective = tied_objective(torch.diag(eigenvalues), lam)
    squared = float(eigenvalues[1]) * width / (width + lam)

    def along(t: Tensor) -> Tensor:
        direction = torch.stack([t, torch.sqrt(1 - t * t)])
        return objective(squared**0.5 * direction[:, None])

    printed = -4 * squared * float(eigenvalues[1] - eigenvalues[1])  # w_j(t) - w_j at t = 0
    true = -4 * squared * float(eigenvalues[0] - eigenvalues[1])
    curvature = torch.func.hessian(along)(tensor(0.0))
    return [compare(curvature, "==", true if at_zero else printed, "second derivative at zero")]


def score_variances(M: Tensor, U: Tensor, V: Tensor, lam: float, steps: int, rate: float) -> Tensor:
    """Variance of ||u_i|| ||v_i|| along gradient descent on the explicit objective, the mean of Algorithm 1."""
    found = []
    for _ in range(steps):
        u, v = U.square().sum(0), V.square().sum(0)
        found.append((u * v).sqrt().var(correction=0))
        error = U @ V.mT - M
        U, V = U - 2 * rate * (error @ V + lam * U * v), V - 2 * rate * (error.mT @ U + lam * V * u)
    return torch.stack(found)


def never_rises(spectrum: tuple[float, ...], start: tuple[float, ...]) -> list[Comparison]:
    """Each variance is at most the one before."""
    M, U = torch.diag(tensor(spectrum)), torch.diag(tensor(start))
    values = score_variances(M, U, U, 0.5, 400, 0.02)
    return [compare(values[1:], "<=", values[:-1], "variance of the scores, step by step", precision=1e-12)]


def rises_and_vanishes(lam: float) -> list[Comparison]:
    """From small unequal weights the variance rises while two different values are learned, then goes to zero."""
    M = torch.diag(tensor([2.0, 1.0]))
    U, V = (0.1 * (torch.eye(2, dtype=torch.float64) + 0.3 * normal(seed, 2, 2)) for seed in (1, 2))
    values = score_variances(M, U, V, lam, 1000, 0.1)
    return [
        compare(values.max(), ">", 2 * values[0], "largest variance against the first"),
        compare(values[-1], "<=", 1e-10, "last variance", precision=1e-12),
    ]


def adaptive_rate(scaled: bool) -> list[Comparison]:
    """With lam proportional to r the optimal spectrum is that of width three, by descent, at every larger width."""
    s = tensor([3.0, 2.0, 0.4])

    def reached(lam: float, width: int) -> Tensor:
        _, (U, V) = descend(untied_objective(torch.diag(s), lam), [(3, width), (3, width)], starts=2)
        return torch.linalg.svdvals(U @ V.mT)

    reference, found = reached(0.9, 3), []
    for width in (4, 50):
        lam = 0.3 * (width if scaled else 3)
        found.append(compare(shrink(s, lam, width), "==", reference, f"library, width {width}", precision=1e-4))
        if width < 10:
            found.append(compare(reached(lam, width), "==", reference, f"descent, width {width}", precision=1e-4))
    return found


def eigendecomposition_cost(order: int) -> list[Comparison]:
    """Cubes of the sizes of all eigendecompositions of Algorithm 2, between r^order / 4 and r^order."""
    found = []
    for width in (4, 8, 16, 32):
        sizes: list[int] = []
        printed_eqz(normal(width, 3, width), count=sizes.append)
        cost = sum(size**3 for size in sizes)
        found.append(compare(cost, ">=", width**order / 4, f"from below, r={width}"))
        found.append(compare(cost, "<=", 1.6 * width**order, f"from above, r={width}"))
    return found


def woodbury(denominator: Callable[[float, int, int], float]) -> list[Comparison]:
    """(I + (lam/r) 1 1^T)^-1 = I - lam / (r + lam rho) 1 1^T."""
    found = []
    for lam, r, rho in ((0.7, 5, 3), (3.0, 2, 4), (0.0, 3, 2)):
        ones, identity = torch.ones(rho, rho, dtype=torch.float64), torch.eye(rho, dtype=torch.float64)
        inverse = identity - lam / denominator(lam, r, rho) * ones
        found.append(compare((identity + lam / r * ones) @ inverse, "==", identity, f"lam={lam} r={r} rho={rho}"))
    return found


def decreasing_value(power: int) -> list[Comparison]:
    """The defined g: g(rho) - g(rho+1) = (lam h - (r + lam rho) a^power)^2 / ((r + lam rho)(r + lam rho + lam))."""
    found = []
    for seed, lam, r in ((1, 0.4, 3), (2, 2.0, 5)):
        a = 1.5 * normal(seed, 5)

        def g(rho: int, a: Tensor = a, lam: float = lam, r: int = r) -> float:
            level = lam * float(a[:rho].sum()) / (r + lam * rho)
            return rho * level**2 + float(a[rho:].square().sum()) + lam / r * float((a[:rho] - level).sum()) ** 2

        for rho in range(5):
            below, top = r + lam * rho, lam * float(a[:rho].sum())
            formula = (top - below * float(a[rho]) ** power) ** 2 / (below * (below + lam))
            found.append(compare(g(rho) - g(rho + 1), "==", formula, f"rho={rho}"))
            found.append(compare(g(rho), ">=", g(rho + 1), "never increases"))
    return found
