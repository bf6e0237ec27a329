"""What the claims on optimal factors compare: optima against critical points beside them, and path norms."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from droptics.data import Moments
from droptics.evidence.claims import Comparison, compare
from droptics.masks import Bernoulli
from droptics.models import Autoencoder, TwoLayerLinear
from droptics.norms import nuclear, path_norm
from droptics.optima import optimum
from droptics.papers.instances import descend, factorizations, normal, tensor
from droptics.papers.mianjy2018.checks import tied_objective, untied_objective
from droptics.penalties import penalty


def optimal_factors(tied: bool, idle: int = 0) -> list[Comparison]:
    """Optima of descent and of the library are equalized and R = (lam / r) ||.||_*^2, for weak and strong dropout.

    Widths above, at and below the rank of the map; untied, the map is rectangular. With `idle` units of weight zero
    beside an optimum of the others the point is still critical, and no optimum.
    """
    found = []
    for seed, width, lam in ((3, 5, 0.6), (2, 3, 0.1), (1, 2, 2.0)):
        Q, P = torch.linalg.qr(normal(seed, 3, 3)).Q, torch.linalg.qr(normal(seed + 7, 4, 3)).Q
        spectrum, family = tensor([2.0, 1.2, 0.7]), Autoencoder if tied else TwoLayerLinear
        data = Moments.of_map(M := (Q if tied else P) * spectrum @ Q.mT)
        objective = tied_objective(M, lam) if tied else untied_objective(M, lam)
        drop, used = lam / (1 + lam), width - idle
        least, ours = descend(objective, [(3, used)] if tied else [(4, used), (3, used)], starts=1, seed=seed)
        best = optimum(family, data, Bernoulli(drop, used))
        found.append(compare(best.objective, "==", least, f"least value, r={used}", precision=1e-7))
        for name, factors in (("descent", ours), ("library", best.model.tensors)):
            grown = [torch.nn.functional.pad(factor, (0, idle)).requires_grad_() for factor in factors]
            slopes = torch.cat(torch.autograd.grad(objective(*grown), grown))
            found.append(compare(slopes, "==", 0.0, f"slopes at the point of {name}, r={width}", precision=1e-4))
            U, V = grown[0].detach(), grown[-1].detach()
            strength = nuclear(U @ V.mT)
            added = penalty(family(*grown), data, Bernoulli(drop, width))
            stated = lam / width * strength**2
            found.append(compare(added, "==", stated, f"R of {name}, r={width}", precision=1e-5))
            products = U.norm(dim=0) * V.norm(dim=0)
            found.append(compare(products, "==", strength / width, f"products of {name}, r={width}", precision=1e-4))
    return found


def minimal_path_norm(power: float) -> list[Comparison]:
    """Global minima have the least lp path norm among all factorizations of their own map that descent finds, p = 2.

    Widths at, above and below the rank. Tied, all local minima have: psi^2 = ||.||_*^2 / r there.
    """
    found = []
    for M, lam, width in (
        (normal(1, 3, 2), 0.8, 3),
        (tensor([[2.0, 0.3], [0.1, 1.0]]), 0.4, 2),
        (normal(2, 3, 4), 0.3, 2),
    ):
        _, (U, V) = descend(untied_objective(M, lam), [(len(M), width), (M.shape[1], width)], starts=1)
        factors, shapes = factorizations(U @ V.mT, width)

        def paths_of(A: Tensor, C: Tensor, factors: Callable[..., tuple[Tensor, Tensor]] = factors) -> Tensor:
            first, second = (factor.abs().pow(power).sum(0) for factor in factors(A, C))
            return (first * second).sum()

        least, _ = descend(paths_of, shapes, starts=1)
        reached = path_norm([V.mT, U], power)
        found.append(compare(reached, "==", least ** (1 / power), f"path norm, r={width}", precision=1e-6))
        found.append(
            compare(reached**2, "==", nuclear(U @ V.mT) ** 2 / width, f"its square, r={width}", precision=1e-6)
        )
        for seed in range(3):
            other = factors(*(normal(10 * seed + k, *shape) for k, shape in enumerate(shapes)))
            found.append(compare(other[0] @ other[1].mT, "==", U @ V.mT, "another factorization", precision=1e-5))
            found.append(compare(path_norm([other[1].mT, other[0]], power), ">=", reached, "its path norm"))
    for seed in range(3):
        root = normal(seed, 3, 3)
        _, (U,) = descend(tied_objective(root @ root.mT / 3, 0.6), [(3, 4)], starts=1, seed=seed)
        stated = nuclear(U @ U.mT) ** 2 / 4
        found.append(compare(path_norm([U.mT, U], power) ** 2, "==", stated, f"tied, start {seed}", precision=1e-6))
    return found
