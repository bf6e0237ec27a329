"""What the claims on optimal and equalized factors compare: optima and critical points beside them, path norms."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from droptics.data import Moments
from droptics.equalization import equalize, joint_equalizer
from droptics.evidence.claims import Comparison, compare
from droptics.linalg import equalizer, hadamard_equalizer
from droptics.masks import Bernoulli
from droptics.models import Autoencoder, TwoLayerLinear
from droptics.norms import nuclear, path_norm
from droptics.optima import optimum
from droptics.papers.instances import descend, factorizations, normal, tensor, two_layer
from droptics.papers.mianjy2018.checks import printed_eqz, tied_objective, untied_objective
from droptics.penalties import penalty


def optimal_factors(tied: bool, idle: int = 0) -> list[Comparison]:
    """Optima of descent and of the library are equalized and R = (lam / r) ||.||_*^2, for weak and strong dropout.

    Widths above, at and below the rank of the map, of which the strongest keeps one direction; untied, the map is tall
    or wide. With `idle` units of weight zero beside an optimum of the others the point is still critical, and no
    optimum.
    """
    found = []
    for seed, width, lam in ((3, 5, 0.6), (2, 3, 0.1), (1, 2, 2.0), (4, 3, 6.0)):
        Q, P = torch.linalg.qr(normal(seed, 3, 3)).Q, torch.linalg.qr(normal(seed + 7, 4, 3)).Q
        spectrum, family = tensor([2.0, 1.2, 0.7]), Autoencoder if tied else TwoLayerLinear
        M = (Q if tied else P) * spectrum @ Q.mT
        data = Moments.of_map(M := M.mT.contiguous() if seed % 2 else M)
        objective = tied_objective(M, lam) if tied else untied_objective(M, lam)
        drop, used = lam / (1 + lam), width - idle
        least, ours = descend(
            objective, [(size, used) for size in (M.shape[:1] if tied else M.shape)], starts=1, seed=seed
        )
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


def idle_units(share: float) -> list[Comparison]:
    """Pairs with columns of zeros, a product or a factor of zeros: R as defined, and an orthogonal joint equalizer."""
    found, A, B = [], normal(1, 3, 4), normal(2, 2, 4)
    data, some = Moments.of_map(normal(3, 3, 2)), tensor([0.0, 1.0, 1.0, 0.0])
    for name, U, V in (("units", A * some, B), ("product", A * some, B * (1 - some)), ("factor", 0 * A, B)):
        Q = joint_equalizer(U, V)
        label = f"{name} of zeros"
        found.append(compare(Q.mT @ Q, "==", torch.eye(4, dtype=torch.float64), f"orthogonal, {label}"))
        for model in (TwoLayerLinear(U, V), TwoLayerLinear(U @ Q, V @ Q)):
            products = model.U.norm(dim=0) * model.V.norm(dim=0)
            stated = share * 1.5 * products.square().sum()
            found.append(compare(penalty(model, data, Bernoulli(0.6, 4)), "==", stated, f"R, {label}"))
        found.append(compare(products, "==", products.mean(), f"equal products, {label}"))
    # orthogonal rows of rank one: in odd widths only products of zero are equal
    for width in (3, 5):
        basis = torch.linalg.qr(normal(4, width, width)).Q
        U, V = torch.outer(A[:, 0], basis[0]), torch.outer(B[:, 0], basis[1])
        Q = joint_equalizer(U, V)
        found.append(compare(Q.mT @ Q, "==", torch.eye(width, dtype=torch.float64), f"orthogonal, rank one, {width}"))
        products = (U @ Q).norm(dim=0) * (V @ Q).norm(dim=0)
        found.append(compare(1 + products, "==", share, f"products of zero, rank one, {width}"))
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
    for seed, width in enumerate((4, 3, 2)):
        root = normal(seed, 3, 3)
        _, (U,) = descend(tied_objective(root @ root.mT / 3, 0.6), [(3, width)], starts=1, seed=seed)
        stated = nuclear(U @ U.mT) ** 2 / width
        found.append(compare(path_norm([U.mT, U], power) ** 2, "==", stated, f"tied, start {seed}", precision=1e-6))
    return found


def printed_universal(level: int, once: bool = False) -> Tensor:
    """Z_k of Remark 5.2 as printed; with `once` normalized by 2^-1/2 per level."""
    if level == 1:
        return torch.ones(1, 1, dtype=torch.float64)
    Z = printed_universal(level - 1, once)
    block = torch.cat([torch.cat([Z, Z], 1), torch.cat([-Z, Z], 1)], 0)
    return (2**-0.5 if once else 2 ** ((1 - level) / 2)) * block


def universal_equalizer(matrix: Callable[[int], Tensor]) -> list[Comparison]:
    """Z of size 1, 2, 4, 8, 16 is orthogonal, gives every diagonal matrix a constant diagonal and equalizes U V Z.

    It is that of the recursion with one factor 2^-1/2 a level. Another factor keeps columns and diagonals constant, and
    the squares that they add up to show it.
    diag(Z^T D Z)_i = sum_j D_j z_ji^2 is constant for every D exactly where all squares are equal.
    The weights U = W Sigma V^T have fewer, as many and more rows than columns.
    """
    found = []
    for level in (1, 2, 3, 4, 5):
        Z = matrix(level)
        size = len(Z)
        D = normal(level, size)
        found.append(compare(Z, "==", printed_universal(level, once=True), f"the recursion, size {size}"))
        found.append(compare(Z @ Z.mT, "==", torch.eye(size, dtype=torch.float64), f"orthogonal, size {size}"))
        turned = torch.diagonal(Z.mT @ torch.diag(D) @ Z)
        found.append(compare(turned, "==", turned.mean(), f"a constant diagonal, size {size}"))
        found.append(compare(Z.square(), "==", Z[0, 0].square(), f"every diagonal, size {size}"))
        found.append(compare(turned.sum(), "==", D.sum(), f"its trace, size {size}"))
        for rows in (2, size, size + 3):
            U = normal(level + rows, rows, size)
            V = torch.linalg.svd(U).Vh.mT
            label = f"columns of {rows} x {size} weights"
            columns = (U @ V @ Z).square().sum(0)
            found.append(compare(columns, "==", columns.mean(), f"equal {label}"))
            found.append(compare(columns.sum(), "==", U.square().sum(), f"energy of the {label}"))
    return found


def library_equalizer() -> list[Comparison]:
    """The library's Z is the recursion that is normalized once per level, and a universal equalizer."""

    def told(level: int) -> Tensor:
        return hadamard_equalizer(2 ** (level - 1))

    found = [compare(told(k), "==", printed_universal(k, once=True), f"recursion, level {k}") for k in (1, 2, 3, 4)]
    return [*found, *universal_equalizer(told)]


def joint_construction(power: float) -> list[Comparison]:
    """Factors with the same product and ||u q_i||^2 = ||v q_i||^2 = ||U V^T||_* / r, as printed and by the library.

    Products of full rank, of a rank below the width, of rank one, with equal singular values and zero, of width one.
    The other pair takes the singular values to `power` and to 1 - power; the rotation is that of Algorithm 2, and the
    library's.
    """
    found = []
    flat = TwoLayerLinear(normal(3, 3, 1) * tensor([[1.0, 2.0, -1.0]]), normal(4, 4, 3))
    pairs = [two_layer(1, 3, 5, 4), two_layer(2, 4, 4, 2), flat, two_layer(5, 3, 2, 1), two_layer(6, 2, 3, 6)]
    turned = TwoLayerLinear(*(torch.linalg.qr(normal(seed, size, 3)).Q for seed, size in ((7, 5), (8, 4))))
    for model in (*pairs, turned, TwoLayerLinear(0 * flat.U, flat.V)):
        width, W = model.units, model.matrix()
        P, s, Rh = torch.linalg.svd(W, full_matrices=False)
        s = torch.where(s > 1e-12 * s[0], s, torch.zeros_like(s))[:width]
        kept, level = len(s), s.sum() / width
        U, V = (
            torch.nn.functional.pad(axes[:, :kept] * s**share, (0, width - kept))
            for axes, share in ((P, power), (Rh.mT, 1 - power))
        )
        ours = equalize(model, Moments.of_map(W), Bernoulli(0.4, width))
        assert isinstance(ours, TwoLayerLinear)
        for name, Q in (("Algorithm 2", printed_eqz(U)), ("plane rotations", equalizer(U.mT @ U))):
            label = f"{name}, r={width}"
            found.append(compare(Q.mT @ Q, "==", torch.eye(width, dtype=torch.float64), f"a rotation, {label}"))
            found.append(compare(U @ Q @ (V @ Q).mT, "==", W, f"same product, {label}"))
            for side, factor in (("U", U @ Q), ("V", V @ Q)):
                found.append(compare(factor.square().sum(0), "==", level, f"columns of {side}, {label}"))
        found.append(compare(ours.U @ ours.V.mT, "==", W, f"same product, library, r={width}"))
        norms = [factor.square().sum(0) for factor in (ours.U, ours.V)]
        found.append(compare((norms[0] * norms[1]).sqrt(), "==", level, f"products, library, r={width}"))
        if float(level):  # factors of a zero map are left as they are
            found += [compare(squares, "==", level, f"columns, library, r={width}") for squares in norms]
    return found
