"""What the claims on steps of proofs and on sentences of the text compare."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from droptics.arrays import Array
from droptics.data import Moments
from droptics.evidence.claims import Comparison, compare
from droptics.linalg import equalizer, shrink
from droptics.masks import Bernoulli
from droptics.models import TwoLayerLinear
from droptics.norms import nuclear
from droptics.optima import optimum
from droptics.papers.instances import coin_masks, descend, normal, tensor
from droptics.papers.mianjy2018.checks import printed_eqz, tied_objective, untied_objective
from droptics.papers.mianjy2018.landscape_checks import critical_points
from droptics.training import Penalized, train


def column_norms(stretch: float) -> list[Comparison]:
    """||u_i||^2 = ||v_i||^2 = ||U V^T||_* / r at global optima, units rescaled in turn by `stretch` and its inverse.

    Rescaled or not they are global optima: their criterion, summed over all masks, is the least that descent finds.
    """
    found = []
    for seed, width, drop in ((1, 3, 0.3), (4, 4, 0.5), (6, 2, 0.2)):
        M = normal(seed, 3, 4)
        best = optimum(TwoLayerLinear, Moments.of_map(M), Bernoulli(drop, width)).model
        scale = stretch ** tensor([(-1.0) ** i for i in range(width)])
        U, V = best.tensors[0] * scale, best.tensors[1] / scale
        masked = sum(
            chance * float((M - U * kept @ V.mT / (1 - drop)).square().sum())
            for kept, chance in coin_masks([drop] * width)
        )
        least, _ = descend(untied_objective(M, drop / (1 - drop)), [(3, width), (4, width)], starts=1, seed=seed)
        found.append(compare(masked, "==", least, f"criterion of an optimum, r={width}", precision=1e-8))
        level = nuclear(U @ V.mT) / width
        found.append(compare(U.norm(dim=0) * V.norm(dim=0), "==", level, f"products, r={width}"))
        for name, factor in (("U", U), ("V", V)):
            found.append(compare(factor.square().sum(0), "==", level, f"squared columns of {name}, r={width}"))
    return found


def strongly_equal() -> list[tuple[Tensor, Tensor]]:
    """Factors of the singular value decomposition, rotated until their columns agree."""
    P, s, Rh = torch.linalg.svd(normal(1, 3, 4), full_matrices=False)
    Q = equalizer(torch.diag(s))
    return [(P * s.sqrt() @ Q, Rh.mT * s.sqrt() @ Q)]


def inverse_of_ones(rank_one: bool) -> list[Comparison]:
    """sigma^2 with sigma^2 + (lam/r) sum(sigma^2) = lambda: subtract lam/(r + lam r') times the SUM, or each value.

    The equalized network with these squares on r' of the eigenvectors, not the first ones, is a critical point; and
    the squares of every equalized critical point that root finding reaches are these.
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
    reached, axes = [], torch.linalg.qr(normal(3, 3, 3)).Q
    for lam, width in ((0.3, 3), (0.9, 2)):
        M = axes * tensor([1.2, 1.0, 0.7]) @ axes.mT  # near each other, so that several are kept
        for U in critical_points(M, lam, width):
            norms, (squares, W) = U.square().sum(0), torch.linalg.eigh(U @ U.mT)
            kept = squares > 1e-6
            if bool(kept.any()) and float(norms.max() - norms.min()) < 1e-6:
                chosen, share = torch.diagonal(W.mT @ M @ W)[kept], lam / (width + lam * int(kept.sum()))
                stated = chosen - share * (chosen.sum() if rank_one else chosen)
                label = f"squares where lam={lam}, r={width}, r'={int(kept.sum())}"
                found.append(compare(squares[kept], "==", stated, label, precision=1e-7))
                reached.append(len(stated))
    return [*found, compare(min(reached, default=0), ">=", 2, "least rank of the points that were reached")]


def swap_curvature(turned: bool) -> list[Comparison]:
    """Second derivative of f when column j of W turns to a better eigenvector: -4 sigma_j^2 (s' - s_j).

    At equalized critical points whose eigenvectors are not the first ones, of maps in general position, by
    differentiation along the printed curve, along which U^T U stays, and its value at t = .4. The printed difference
    has w_j(t) in place of the eigenvector that is `turned` to: t^2 times it, zero at t = 0.
    """
    found = []
    for seed, (lam, width, used, missing) in enumerate(
        ((0.5, 1, [1], 0), (0.3, 2, [0, 2], 1), (0.9, 3, [1, 2], 0), (0.2, 4, [0, 2, 3], 1))
    ):
        axes = torch.linalg.qr(normal(seed, 4, 4)).Q
        eigenvalues = tensor([2.0, 1.6, 1.3, 1.1]) + 0.1 * seed
        chosen = eigenvalues[used]
        squared = chosen - lam * chosen.sum() / (width + lam * len(used))
        frame = torch.nn.functional.pad(torch.diag(squared.sqrt()), (0, width - len(used)))
        frame = frame @ equalizer(frame.mT @ frame)
        objective = tied_objective(axes * eigenvalues @ axes.mT, lam)

        def weights(
            t: Tensor, frame: Tensor = frame, W: Tensor = axes[:, used], w: Tensor = axes[:, missing]
        ) -> Tensor:
            return torch.cat([W[:, :-1], ((1 - t * t).sqrt() * W[:, -1] + t * w)[:, None]], 1) @ frame

        zero, label = tensor(0.0), f"r={width}, eigenvectors {used}, lam={lam}"
        slopes = torch.func.grad(objective)(weights(zero))
        found.append(compare(slopes, "==", 0.0, f"a critical point, {label}", precision=1e-8))
        start, moved = weights(zero), weights(tensor(0.4))
        found.append(compare(moved.mT @ moved, "==", start.mT @ start, f"U^T U stays, {label}"))
        gain = squared[-1] * (eigenvalues[missing] - chosen[-1])
        change, share = objective(moved) - objective(start), 1.0 if turned else 0.4**2
        found.append(compare(change, "==", -2 * 0.4**2 * gain * share, f"change at t = .4, {label}"))
        curvature = torch.func.hessian(lambda t, f=objective, w=weights: f(w(t)))(zero)
        found.append(compare(curvature, "==", -4 * gain if turned else 0.0, f"second derivative at zero, {label}"))
        found.append(compare(curvature, "<", 0.0, f"a strict saddle, {label}"))
    return found


Score = Callable[[Array, Array], Array]


def products(u: Array, v: Array) -> Array:
    """||u_i|| ||v_i|| from squared norms."""
    return np.sqrt(u * v)


def score_variances(
    start: tuple[Tensor, Tensor, Tensor], lam: float, steps: int, rate: float, score: Score = products
) -> tuple[Tensor, Array, Array]:
    """Variance of scores along descent on the explicit objective, the mean of Algorithm 1, and the last weights."""
    M, U, V = (part.numpy() for part in start)
    found = np.empty(steps)
    for step in range(steps):
        u, v = (U * U).sum(0), (V * V).sum(0)
        found[step] = score(u, v).var()
        error = U @ V.T - M
        U, V = U - 2 * rate * (error @ V + lam * U * v), V - 2 * rate * (error.T @ U + lam * V * u)
    return torch.from_numpy(found), U, V


def never_rises(spectrum: tuple[float, ...], start: tuple[float, ...]) -> list[Comparison]:
    """Each variance is at most the one before."""
    M, U = torch.diag(tensor(spectrum)), torch.diag(tensor(start))
    values, _, _ = score_variances((M, U, U), 0.5, 400, 0.02)
    return [compare(values[1:], "<=", values[:-1], "variance of the scores, step by step", precision=1e-12)]


def rises_and_vanishes(score: Score) -> list[Comparison]:
    """From small weights the variance rises while different values are learned, then goes to zero; without dropout not.

    The library's descent on the penalized objective takes the same steps, and ends there.
    """
    found, rate = never_rises((1.0, 1.0), (1.2, 0.6)), 0.05
    for seed, outputs, inputs, width, lam in ((1, 2, 2, 2, 0.5), (5, 2, 4, 2, 2.0), (7, 3, 3, 4, 0.3)):
        M = torch.diag(tensor([2.0, 1.0])) if seed == 1 else normal(seed, outputs, inputs)
        U, V = 0.1 * normal(seed + 1, outputs, width), 0.3 * normal(seed + 2, inputs, width)
        start, label = (M, U, V), f"lam={lam}, r={width}"
        values, _, _ = score_variances(start, lam, 1200, rate, score)
        found.append(compare(values.max(), ">", 2 * values[0], f"largest variance against the first, {label}"))
        found.append(compare(values[-1], "<=", 1e-10, f"last variance, {label}", precision=1e-12))
        plain, _, _ = score_variances(start, 0.0, 400, rate, score)
        found.append(compare(plain[-1], ">", 1e-3, f"last variance without dropout, {label}"))
        _, *ours = score_variances(start, lam, 15, rate)
        objective = Penalized(Bernoulli(lam / (1 + lam), width))
        run = train(TwoLayerLinear(U, V), Moments.of_map(M), objective, steps=15, step_size=rate)
        for own, reached in zip(ours, run.model.tensors, strict=True):
            found.append(compare(reached, "==", own, f"the library's 15 steps, {label}"))
    run = train(TwoLayerLinear(U, V), Moments.of_map(M), objective, steps=1200, step_size=rate)
    ends = score(*(part.square().sum(0).numpy() for part in run.model.tensors))
    found.append(compare(ends.var(), "<=", 1e-10, f"the library's last variance, {label}", precision=1e-12))
    return found


def adaptive_rate(scaled: bool) -> list[Comparison]:
    """With lam proportional to r the optimal map is that of width three, by descent, and of low rank, when wider.

    At a fixed rate it is another one at every width, narrow or wide, singular values equal or not; the one that was
    gone comes back, and the map tends to M: (lam/r) ||M||_* bounds the difference.
    """
    found, s = [], tensor([3.0, 1.2, 0.4])
    P, Q = (torch.linalg.qr(normal(seed, 4, 3)).Q for seed in (1, 2))
    M = P * s @ Q.mT

    def reached(lam: float, width: int) -> Tensor:
        _, (U, V) = descend(untied_objective(M, lam), [(4, width), (4, width)], starts=1)
        return U @ V.mT

    reference = reached(0.9, 3)
    found.append(compare(torch.linalg.svdvals(reference)[2:], "==", 0.0, "rank two of three", precision=1e-5))
    for width in (4, 6, 50):
        lam, label = 0.3 * (width if scaled else 3), f"width {width}"
        ours = P * shrink(s, lam, width) @ Q.mT
        found.append(compare(ours, "==", reference, f"library, {label}", precision=1e-4))
        if width < 10:
            found.append(compare(reached(lam, width), "==", reference, f"descent, {label}", precision=1e-4))
        fixed = shrink(s, 0.9, width)
        limit = 0.9 / width * s.sum()
        found.append(compare((s - fixed).max(), "<=", limit, f"at a fixed rate, {label}"))
        found.append(compare((s - fixed).max(), "<", s[0] - torch.linalg.svdvals(reference)[0], f"less, {label}"))
    found.append(compare(shrink(s, 0.9, 50)[2], ">", 0.3, "the third value at a fixed rate and width 50"))
    for spectrum, lam in ((s, 0.9), (torch.ones(3).double(), 0.4), (s, 6.0)):
        maps = [shrink(spectrum, lam, width) for width in range(1, 9)]
        for (first, one), (second, other) in itertools.combinations(enumerate(maps, 1), 2):
            away = (one - other).abs().max()
            found.append(compare(away, ">", 0.0, f"widths {first} and {second} at lam={lam}", precision=1e-6))
    return found


class _Costs(TorchFunctionMode):
    """How many numbers products of matrices multiply, and the sizes of decompositions."""

    def __init__(self) -> None:
        super().__init__()
        self.products, self.eigen, self.bases = 0, list[int](), list[int]()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.__name__ in ("matmul", "__matmul__", "mm"):
            self.products += args[0].numel() * args[1].shape[1]
        if func.__name__ == "linalg_eigh":
            self.eigen.append(len(args[0]))
        if func.__name__ == "linalg_qr":
            self.bases.append(len(args[0]))
        return func(*args, **(kwargs or {}))


def eigendecomposition_cost(order: int) -> list[Comparison]:
    """Cubes of the sizes of all eigendecompositions of Algorithm 2, between r^order / 4 and r^order; bases likewise.

    Products of matrices are counted, too: 3 d r^2 numbers multiplied for the Gram matrix and for both factors times Q,
    in Algorithm 3, 3 r^order for all others.
    """
    found = []
    for width in (4, 8, 16, 32):
        seen = []
        for rows in (3, 50):
            U, V = normal(width, rows, width), normal(width + 1, rows, width)
            with _Costs() as counted:
                Q = printed_eqz(U)
                _ = U @ Q, V @ Q
            seen.append(counted)
        few, many = seen
        found.append(compare(many.products - few.products, "==", 3 * 47 * width**2, f"with d, r={width}"))
        found.append(compare(few.products, "<=", 9 * width**2 + 3 * width**order, f"products, r={width}"))
        found.append(compare([len(few.eigen), len(many.eigen)], "==", width, f"eigendecompositions, r={width}"))
        cost = sum(size**3 for size in many.eigen)
        found.append(compare(cost, ">=", width**order / 4, f"from below, r={width}"))
        for sizes in (few.eigen, many.eigen, many.bases):
            found.append(compare(sum(size**3 for size in sizes), "<=", width**order, f"from above, r={width}"))
    return found


def woodbury(denominator: Callable[[float, int, int], float]) -> list[Comparison]:
    """(I + (lam/r) 1 1^T)^-1 = I - lam / (r + lam rho) 1 1^T, on both sides and by elimination; any rho and r."""
    found = []
    for lam, r, rho in itertools.product((0.7, 3.0, 40.0, 0.0), (1, 2, 5), (1, 2, 3, 8)):
        ones, identity = torch.ones(rho, rho, dtype=torch.float64), torch.eye(rho, dtype=torch.float64)
        matrix, inverse = identity + lam / r * ones, identity - lam / denominator(lam, r, rho) * ones
        label = f"lam={lam} r={r} rho={rho}"
        found += [compare(product, "==", identity, label) for product in (matrix @ inverse, inverse @ matrix)]
        found.append(compare(inverse, "==", torch.linalg.inv(matrix), f"elimination, {label}"))
    return found


def decreasing_value(power: int, ordered: bool = False) -> list[Comparison]:
    """The defined g: g(rho) - g(rho+1) = (lam h - (r + lam rho) a^power)^2 / ((r + lam rho)(r + lam rho + lam)).

    `ordered` asks for no more than Lemma A.3 has: a falls and is not negative, lam > 0, r <= d and 1 <= rho < r.
    """
    found = []
    printed = ((1, 0.4, 3), (2, 2.0, 5), (6, 0.05, 2), (4, 30.0, 4))
    for seed, lam, r in printed if ordered else (*printed, (3, 0.0, 2), (4, 30.0, 1), (5, 1.0, 8)):
        a = 1.5 * normal(seed, 5)
        a = a.abs().sort(descending=True).values if ordered else a

        def g(rho: int, a: Tensor = a, lam: float = lam, r: int = r) -> float:
            level = lam * float(a[:rho].sum()) / (r + lam * rho)
            return rho * level**2 + float(a[rho:].square().sum()) + lam / r * float((a[:rho] - level).sum()) ** 2

        for rho in range(1, r) if ordered else range(5):
            below, top = r + lam * rho, lam * float(a[:rho].sum())
            formula = (top - below * float(a[rho]) ** power) ** 2 / (below * (below + lam))
            found.append(compare(g(rho) - g(rho + 1), "==", formula, f"lam={lam}, r={r}, rho={rho}"))
            found.append(compare(g(rho), ">=", g(rho + 1), f"never increases, lam={lam}, r={r}, rho={rho}"))
    return found
