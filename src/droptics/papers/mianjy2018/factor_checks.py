"""What the claims on optimal and equalized factors compare: optima and critical points beside them, path norms."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from droptics.data import Moments
from droptics.equalization import equalize, joint_equalizer
from droptics.evidence.claims import Comparison, compare
from droptics.linalg import equalizer, hadamard_equalizer, shrink
from droptics.masks import Bernoulli
from droptics.models import Autoencoder, TwoLayerLinear
from droptics.norms import nuclear, path_norm
from droptics.optima import optimum
from droptics.papers.instances import descend, factorizations, normal, tensor, two_layer
from droptics.papers.mianjy2018.checks import TIED_CASES, best_tied, printed_eqz, tied_objective, untied_objective
from droptics.penalties import criterion, penalty


def optimal_factors(tied: bool, idle: int = 0) -> list[Comparison]:
    """Optima of descent and of the library are equalized and R = (lam / r) ||.||_*^2, for weak and strong dropout.

    Widths above, at and below the rank of the map, of which the strongest keeps one direction; untied, the map is tall
    or wide; tied, symmetric or not, positive or not. With `idle` units of weight zero beside an optimum of the others
    the point is still critical, and no optimum.
    """
    found = []
    for seed, width, lam in ((3, 5, 0.6), (2, 3, 0.1), (1, 2, 2.0), (4, 3, 6.0)):
        Q, P = torch.linalg.qr(normal(seed, 3, 3)).Q, torch.linalg.qr(normal(seed + 7, 4, 3)).Q
        family = Autoencoder if tied else TwoLayerLinear
        spectrum = tensor([2.0, 1.2, -0.7 if tied and seed == 2 else 0.7])
        M = (Q if tied else P) * spectrum @ Q.mT
        M = M + P[:3] - P[:3].mT if tied and seed < 3 else M
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
            slopes, digits = torch.cat(torch.autograd.grad(objective(*grown), grown)), 1e-4 if factors is ours else 1e-9
            found.append(compare(slopes, "==", 0.0, f"slopes at the point of {name}, r={width}", precision=digits))
            U, V = grown[0].detach(), grown[-1].detach()
            strength = nuclear(U @ V.mT)
            added = penalty(family(*grown), data, Bernoulli(drop, width))
            stated = lam / width * strength**2
            found.append(compare(added, "==", stated, f"R of {name}, r={width}", precision=min(digits, 1e-5)))
            products = U.norm(dim=0) * V.norm(dim=0)
            found.append(compare(products, "==", strength / width, f"products of {name}, r={width}", precision=digits))
            paid = lam / width * products.sum() ** 2
            found.append(compare(added, "==", paid, f"R of {name} by products, r={width}", precision=min(digits, 1e-5)))
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
        # with equal singular values, and none, many V are right
        V, values = torch.linalg.qr(normal(level + 9, size, size)).Q, torch.ones(size).double()
        values[size // 2 + 1 :] = 0.0
        U = torch.linalg.qr(normal(level + 8, size, size)).Q * values @ V.mT
        columns = (U @ V @ Z).square().sum(0)
        found.append(compare(columns, "==", U.square().sum() / size, f"columns of repeated values, size {size}"))
    return found


def library_equalizer() -> list[Comparison]:
    """The library's Z is the recursion that is normalized once per level, and a universal equalizer."""

    def told(level: int) -> Tensor:
        return hadamard_equalizer(2 ** (level - 1))

    found = [compare(told(k), "==", printed_universal(k, once=True), f"recursion, level {k}") for k in (1, 2, 3, 4)]
    return [*found, *universal_equalizer(told)]


def joint_construction(power: float) -> list[Comparison]:
    """Factors with the same product and ||u q_i||^2 = ||v q_i||^2 = ||U V^T||_* / r, as printed and by the library.

    Products of full rank, of a rank below the width, of rank one, with equal singular values and zero, of width one,
    tiny and large, each held to its own size.
    The other pair takes the singular values to `power` and to 1 - power; the rotation is that of Algorithm 2, and the
    library's.
    """
    found = []
    flat = TwoLayerLinear(normal(3, 3, 1) * tensor([[1.0, 2.0, -1.0]]), normal(4, 4, 3))
    pairs = [two_layer(1, 3, 5, 4), two_layer(2, 4, 4, 2), flat, two_layer(5, 3, 2, 1), two_layer(6, 2, 3, 6)]
    turned = TwoLayerLinear(*(torch.linalg.qr(normal(seed, size, 3)).Q for seed, size in ((7, 5), (8, 4))))
    sizes = [TwoLayerLinear(first * pairs[0].U, second * pairs[0].V) for first, second in ((1e-5, 1e-3), (1e4, 10.0))]
    for model in (*pairs, turned, TwoLayerLinear(0 * flat.U, flat.V), *sizes):
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
            found.append(compare(U @ Q @ (V @ Q).mT, "==", W, f"same product, {label}", scale=0.0))
            for side, factor in (("U", U @ Q), ("V", V @ Q)):
                found.append(compare(factor.square().sum(0), "==", level, f"columns of {side}, {label}", scale=0.0))
        found.append(compare(ours.U @ ours.V.mT, "==", W, f"same product, library, r={width}", scale=0.0))
        norms, label = [factor.square().sum(0) for factor in (ours.U, ours.V)], f"library, r={width}"
        found.append(compare((norms[0] * norms[1]).sqrt(), "==", level, f"products, {label}", scale=0.0))
        if float(level):  # factors of a zero map are left as they are
            found += [compare(squares, "==", level, f"columns, {label}", scale=0.0) for squares in norms]
    return found


def low_rank(share: float) -> list[Comparison]:
    """Singular values of the map that descent ends at: those up to alpha are gone, alpha <= share (lam / r) ||M||_*.

    Descent ends with a slope of 1e-6 or less, and values differ from those of the rule by that over the curvature. The
    library is held to the best of all ranks j, with j values less lam (their sum)/(r + lam j), to all digits.
    """
    found = []
    many, tied = tensor([3.0, 2.0, 0.4, 0.1]), tensor([2.0, 2.0, 0.4, 0.0])  # the second in a wide map of its rank
    for seed, (lam, width, s) in enumerate(((0.1, 4, many), (0.5, 3, tied), (4.0, 6, many))):
        M = torch.linalg.qr(normal(seed, 5, 4)).Q * s @ torch.linalg.qr(normal(seed + 9, 4, 4)).Q.mT
        M = M.mT.contiguous() if width == 3 else M
        _, (U, V) = descend(untied_objective(M, lam), [(size, width) for size in M.shape], starts=1, seed=seed)
        reached = torch.linalg.svdvals(U @ V.mT)[:4]
        alpha = float((s - reached)[0])
        label = f"lam={lam}, r={width}"
        found.append(compare(alpha, "<=", share * lam / width * s.sum(), f"alpha, {label}"))
        found.append(compare(reached, "==", (s - alpha).clamp_min(0), f"lowered by alpha, {label}", precision=1e-4))
        found.append(compare(shrink(s, lam, width), "==", reached, f"library, {label}", precision=1e-4))
        ranks = torch.arange(4)[:, None] < torch.arange(1, 5)  # a column for each
        losses = lam * (s @ ranks.double()) / (width + lam * ranks.double().sum(0))
        rules = torch.where(ranks, s[:, None] - losses, 0.0)
        values = (rules - s[:, None]).square().sum(0) + lam / width * rules.sum(0) ** 2
        best = rules[:, torch.where((rules >= 0).all(0), values, torch.inf).argmin()]
        found.append(compare(shrink(s, lam, width), "==", best, f"library to all digits, {label}"))
        told = optimum(TwoLayerLinear, Moments.of_map(M), Bernoulli(lam / (1 + lam), width)).model
        assert isinstance(told, TwoLayerLinear)
        kept = torch.linalg.svdvals(told.matrix())[:4]
        found.append(compare(kept, "==", best, f"optimum of the library, {label}"))
    return found


def ties_at_the_cut(tied: bool) -> list[Comparison]:
    """Of equal values at the width as many are kept as there are units, whichever: spectrum (2, 1, 1), r = 2.

    <M, W> = sum_i s_i w_i says that W has singular vectors of M (von Neumann 1937).
    """
    s, lam, width, found = tensor([2.0, 1.0, 1.0]), 0.3, 2, []
    alpha = lam * 3 / (width + 2 * lam)
    wanted = tensor([2 - alpha, 1 - alpha, 0.0])
    Q, P = torch.linalg.qr(normal(3, 3, 3)).Q, torch.linalg.qr(normal(4, 4, 3)).Q
    M, family = (Q if tied else P) * s @ Q.mT, Autoencoder if tied else TwoLayerLinear
    objective = tied_objective(M, lam) if tied else untied_objective(M, lam)
    least, factors = descend(objective, [(size, width) for size in (M.shape[:1] if tied else M.shape)], starts=2)
    told = optimum(family, Moments.of_map(M), Bernoulli(lam / (1 + lam), width))
    found.append(compare(shrink(s, lam, width), "==", wanted, "ties, shrink"))
    found.append(compare((s - wanted).square().sum() + lam / width * wanted.sum() ** 2, "==", least, "ties", 1e-7))
    found.append(compare(told.objective, "==", least, "ties, objective of the library", 1e-7))
    for (U, *V), name, precision in ((factors, "descent", 1e-4), (told.model.tensors, "library", 1e-9)):
        W = U @ (V[0] if V else U).mT
        found.append(compare(torch.linalg.svdvals(W)[:3], "==", wanted, f"ties, values, {name}", precision))
        found.append(compare((M * W).sum(), "==", s @ wanted, f"ties, vectors, {name}", precision))
    return found


def squared_norm_minimum(factor: float) -> list[Comparison]:
    """Least values of the tied problem and of ||M - U U^T||^2 + factor (lam/r) ||U||_F^4, both by descent.

    The second is never above the first, the library's criterion, and at equal columns the same.
    """
    found = []
    for matrix, lam, width in TIED_CASES:
        M = tensor(matrix)

        def objective(U: Tensor, M: Tensor = M, strength: float = factor * lam / width) -> Tensor:
            return (M - U @ U.mT).square().sum() + strength * U.square().sum().square()

        least, _ = descend(objective, [(len(matrix), width)], starts=2, seed=len(matrix))
        best, _ = best_tied(matrix, lam, width)
        found.append(compare(least, "==", best, f"least values for M={matrix}", precision=1e-7))
        U, masks = normal(width, len(matrix), width), Bernoulli(lam / (1 + lam), width)
        paid = criterion(Autoencoder(U), Moments.of_map(M), masks)
        found.append(compare(objective(U), "<=", paid, f"below the criterion for M={matrix}"))
        equal = U @ equalizer(U.mT @ U)
        paid = criterion(Autoencoder(equal), Moments.of_map(M), masks)
        found.append(compare(objective(equal), "==", paid, f"the criterion at equal columns for M={matrix}"))
    return found
