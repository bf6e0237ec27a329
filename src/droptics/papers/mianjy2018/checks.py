"""What the claims of Mianjy, Arora and Vidal 2018 compare (chapter 2 of the thesis prints them again).

Letters: lam = drop / (1 - drop), r the width, U (outputs, r), V (inputs, r), M the map to be learned.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import cache

import torch
from torch import Tensor

from droptics.data import Data, Moments, Sample
from droptics.equalization import joint_equalizer, rescale
from droptics.evidence.claims import Comparison, Relation, compare
from droptics.linalg import equalizer, shrink
from droptics.masks import Bernoulli
from droptics.models import Autoencoder, TwoLayerLinear
from droptics.norms import path_norm
from droptics.optima import optimum
from droptics.papers.instances import (
    coin_masks,
    descend,
    expected_error,
    moments,
    normal,
    sample,
    tensor,
    two_layer,
)
from droptics.penalties import criterion, penalty, risk
from droptics.training import masked_step

Formula = Callable[[TwoLayerLinear, Moments, float], Tensor]
Rule = Callable[[Tensor, float, int], Tensor]


def library(model: TwoLayerLinear, data: Data, drop: float) -> Tensor:
    """The exact penalty of the library."""
    return penalty(model, data, Bernoulli(drop, model.units)).value


def isotropic(model: TwoLayerLinear, data: Moments, drop: float) -> Tensor:
    """Lam sum_i ||u_i||^2 ||v_i||^2, right only for E x x^T = I."""
    return drop / (1 - drop) * (model.U.square().sum(0) * model.V.square().sum(0)).sum()


def penalty_identity(formula: Formula, isotropic_only: bool = False) -> list[Comparison]:
    """A formula for the penalty against all masks; correlated, singular and isotropic inputs, noisy labels."""
    isotropic_data = [Moments.of_map(normal(3, 3, 4))]
    general = [moments(1, 3, 4), moments(2, 3, 4, rank=2)]
    nets = [two_layer(5, 3, 4, 5), two_layer(6, 3, 4, 1)]
    nets.append(TwoLayerLinear(nets[0].U * tensor([0.0, 1, 1, 0, 1]), nets[0].V))
    found = []
    for data, model in itertools.product(isotropic_data if isotropic_only else isotropic_data + general, nets):
        for drop in (0.0, 0.37, 0.95):
            maps = (
                (model.U @ torch.diag(kept / (1 - drop)) @ model.V.mT, chance)
                for kept, chance in coin_masks([drop] * model.units)
            )
            plain = expected_error(iter([(model.matrix(), 1.0)]), data)
            truth = expected_error(maps, data) - plain
            found.append(compare(formula(model, data, drop), "==", truth, f"width {model.units}, drop {drop}"))
    return found


def factorization(strength: Callable[[float], float]) -> list[Comparison]:
    """||M - U V^T||_F^2 + strength(drop) sum ||u_i||^2 ||v_i||^2 and the library's criterion against all masks.

    The library sees M, broad, tall or 0, as a map of isotropic inputs, and as examples y = Mx whose second moment is I.
    """
    found = []
    maps = normal(3, 3, 4), 0 * normal(3, 3, 4), normal(4, 4, 2)
    for M, width, drop in itertools.product(maps, (5, 1), (0.0, 0.37, 0.6)):
        outputs, inputs = M.shape
        model, X = two_layer(width, outputs, inputs, width), 11**0.5 * torch.linalg.qr(normal(9, 11, inputs)).Q
        masked = sum(
            chance * float((M - model.U @ torch.diag(kept / (1 - drop)) @ model.V.mT).square().sum())
            for kept, chance in coin_masks([drop] * model.units)
        )
        label = f"width {model.units}, drop {drop}"
        found.append(compare(untied_objective(M, strength(drop))(model.U, model.V), "==", masked, f"stated, {label}"))
        for name, data in (("map", Moments.of_map(M)), ("examples", Sample(X, X @ M.mT))):
            ours = criterion(model, data, Bernoulli(drop, model.units))
            found.append(compare(ours, "==", masked, f"library, {name}, {label}"))
            found.append(compare(risk(model, data), "==", (M - model.matrix()).square().sum(), f"loss, {label}"))
            moments = Moments.of(data)
            found.append(compare(moments.yy, "==", M @ M.mT, f"E y y^T, {name}, {label}"))
    return found


def paths(power: float) -> list[Comparison]:
    """Penalty = lam (path norm)^2 for isotropic inputs, with the path norm summed over paths one by one.

    Inputs as second moments, and as examples of second moment I.
    """
    found = []
    nets = [two_layer(1, 3, 4, 5), two_layer(2, 2, 5, 1), two_layer(3, 1, 1, 3)]
    nets.append(TwoLayerLinear(normal(4, 2, 2), tensor([[0.0, 1.0]])))
    for model, drop in zip(nets, (0.6, 0.2, 0.9, 0.5), strict=True):
        data = Moments.of_map(normal(3, model.output_size, model.input_size))
        triple = sum(
            float(model.U[j, i] * model.V[k, i]) ** 2
            for i in range(model.units)
            for j in range(model.output_size)
            for k in range(model.input_size)
        )
        told, label = path_norm([model.V.mT, model.U], power) ** 2, f"width {model.units}, drop {drop}"
        found.append(compare(told, "==", triple, f"path norm, {label}"))
        X = 7**0.5 * torch.linalg.qr(normal(5, 7, model.input_size)).Q
        for name, given in (("map", data), ("examples", Sample(X, normal(6, 7, model.output_size)))):
            added = library(model, given, drop)
            found.append(compare(added, "==", drop / (1 - drop) * told, f"penalty, {name}, {label}"))
    return found


def algorithm_1(factor: Callable[[float], float], tied: bool = False) -> list[Comparison]:
    """Printed directions against `factor(theta)` times gradients: of one mask, and on average of the objective."""
    found = []
    for seed, drop, inputs in ((1, 0.4, 4), (2, 0.75, 3)):
        theta, width = 1 - drop, 3
        U, V = normal(seed, 4, width), normal(seed + 1, inputs, width)
        if tied:
            U = V
        x, y = normal(seed + 2, len(V)), normal(seed + 3, len(U))
        steps = [torch.zeros_like(U), torch.zeros_like(V)]
        given = Autoencoder(V) if tied else TwoLayerLinear(U, V)
        for kept, chance in coin_masks([drop] * width):
            B = torch.diag(kept)
            residual = U @ B @ V.mT @ x / theta - y
            one = [torch.outer(residual, x) @ V @ B, torch.outer(x, residual) @ U @ B]
            steps = [total + chance * step for total, step in zip(steps, one, strict=True)]
            stepped = masked_step(given, Sample(x[None], y[None]), kept / theta, 0.1)
            for old, new, printed in zip(
                given.tensors, stepped.tensors, [one[0] + one[1]] if tied else one, strict=True
            ):
                move = factor(theta) * (old - new) / 0.1
                found.append(compare(move, "==", printed, "direction under one mask", precision=1e-8))
        data = Moments(torch.outer(x, x), torch.outer(y, x), torch.outer(y, y))
        leaf = [value.clone().requires_grad_(True) for value in given.tensors]
        model = Autoencoder(*leaf) if tied else TwoLayerLinear(*leaf)
        objective = risk(model, data) + penalty(model, data, Bernoulli(drop, width)).value
        gradient = torch.autograd.grad(objective, leaf)
        for ours, theirs in zip(gradient, [steps[0] + steps[1]] if tied else steps, strict=True):
            found.append(compare(factor(theta) * ours, "==", theirs, f"mean direction, theta={theta}"))
    return found


def lower_bounds(share: float) -> list[Comparison]:
    """R >= (share lam / r) (sum_i ||u_i|| ||v_i||)^2: equality for equal products, strict beyond 1% of difference.

    The sum is above ||UV^T||_*, strictly for factors in general position, and equal to it for turned singular vectors.
    """
    found = []
    for seed, width, drop, (outputs, inputs) in (
        (1, 5, 0.3, (3, 4)),
        (2, 2, 0.8, (3, 4)),
        (3, 1, 0.3, (3, 4)),
        (4, 3, 0.6, (5, 2)),
        (5, 9, 0.4, (2, 3)),
    ):
        plain = two_layer(seed, outputs, inputs, width)
        products = plain.U.norm(dim=0) * plain.V.norm(dim=0)
        equal = TwoLayerLinear(1.7 * plain.U / products, plain.V)
        uneven = torch.linspace(1.0, 1.01, width, dtype=torch.float64)
        turn = joint_equalizer(plain.U, plain.V, seed - 1)
        turned = TwoLayerLinear(plain.U @ turn, plain.V @ turn)
        identity = torch.eye(width, dtype=torch.float64)
        found.append(compare(turn.mT @ turn, "==", identity, f"an equalizer is a rotation, r={width}"))
        found.append(compare(turned.matrix(), "==", plain.matrix(), f"it keeps the map, r={width}"))
        idle = joint_equalizer(0 * plain.U, plain.V)
        found.append(compare(idle.mT @ idle, "==", identity, f"so is that of products of zero, r={width}"))
        nearly = TwoLayerLinear(equal.U * uneven, equal.V)
        for name, model in (("equal", equal), ("turned", turned), ("differ by 1%", nearly), ("random", plain)):
            isotropic_data = Moments.of_map(normal(seed + 5, outputs, inputs))
            least = share * drop / (1 - drop) / width * (model.U.norm(dim=0) * model.V.norm(dim=0)).sum() ** 2
            relation: Relation = "==" if width == 1 or name in ("equal", "turned") else ">"
            found.append(compare(library(model, isotropic_data, drop), relation, least, f"products {name}, r={width}"))
            above: Relation = "==" if width == 1 else ">"
            total = torch.linalg.svdvals(model.matrix()).sum()
            sums = (model.U.norm(dim=0) * model.V.norm(dim=0)).sum()
            found.append(compare(sums, above, share * total, f"nuclear norm below, products {name}, r={width}"))
    left, values, right = torch.linalg.svd(normal(9, 3, 4), full_matrices=False)
    U, V = left * values.sqrt(), right.mT * values.sqrt()
    for width in (3, 5):
        wide = [torch.cat([factor, factor.new_zeros(len(factor), width - 3)], 1) for factor in (U, V)]
        turn = joint_equalizer(wide[0], wide[1])
        products = [(a.norm(dim=0) * b.norm(dim=0)) for a, b in (wide, (wide[0] @ turn, wide[1] @ turn))]
        found.append(compare(products[0].sum(), "==", share * values.sum(), f"singular vectors attain it, r={width}"))
        found.append(compare(products[1], "==", share * values.sum() / width, f"jointly equalized, r={width}"))
        paid = library(TwoLayerLinear(wide[0] @ turn, wide[1] @ turn), Moments.of_map(normal(9, 3, 4)), 0.6)
        found.append(compare(paid, "==", share * 1.5 / width * values.sum() ** 2, f"both are equalities, r={width}"))
    return found


def tied_lower_bound(power: float) -> list[Comparison]:
    """Lam sum ||u_i||^4 >= lam ||U||_F^4 / r^power: equality for equal columns, strict beyond 1% of difference.

    The left side is the library's penalty of an autoencoder with isotropic inputs, and the sum itself.
    """
    found = []
    for U, drop in (
        (normal(1, 4, 5), 0.3),
        (normal(2, 3, 1), 0.8),
        (normal(3, 4, 5) @ torch.diag(tensor([1.0, 0, 2, 3, 0])), 0.1),
        (normal(4, 1, 3), 0.55),
    ):
        width, lam = U.shape[1], drop / (1 - drop)
        Q = equalizer(U.mT @ U)
        found.append(compare(Q.mT @ Q, "==", torch.eye(width, dtype=torch.float64), f"a rotation, r={width}"))
        equal = U @ Q
        # sums of fourth powers hardly tell a small difference
        found.append(compare(equal.square().sum(0), "==", U.square().sum() / width, f"columns, r={width}"))
        nearly = equal * torch.linspace(1.0, 1.01, width, dtype=torch.float64)
        for name, columns in (("equalized", equal), ("differ by 1%", nearly), ("given", U)):
            least = lam * columns.norm().pow(4) / width**power
            value = lam * columns.square().sum(0).square().sum()
            relation: Relation = "==" if width == 1 or name == "equalized" else ">"
            found.append(compare(value, relation, least, f"columns {name}, r={width}"))
            data = Moments.of_map(torch.eye(len(U), dtype=torch.float64))
            ours = penalty(Autoencoder(columns), data, Bernoulli(drop, width))
            found.append(compare(ours, "==", value, f"library, columns {name}, r={width}"))
    return found


def rescaling(shear: float) -> list[Comparison]:
    """f(U A, V A^-T) by the library against f(U, V) by all masks: the same for diagonal A of any signs and sizes.

    On second moments and on examples; two units change places, too. With `shear` off the diagonal the product and the
    risk are still the same, and the penalty is not. The library's rescaled network has these weights.
    """
    found, examples = [], sample(7, 6, 5, 3)
    X, Y = examples.inputs, examples.targets
    seen = Moments(X.mT @ X / 6, Y.mT @ X / 6, Y.mT @ Y / 6)
    populations = Moments.of_map(normal(3, 3, 5)), moments(1, 3, 5), moments(2, 3, 5, rank=2)
    scales = ((2.0, 0.5, 1.3, 4.0), 0.4), ((2.0, -0.5, 1.3, -4.0), 0.75), ((300.0, 0.01), 0.2), ((-3.0,), 0.4)
    for D, drop in ((tensor(entries), drop) for entries, drop in scales):
        A = torch.diag(D) + shear * torch.triu(torch.ones(len(D), len(D)), 1) * D
        A = A.flip(1) if len(D) == 2 else A
        model = two_layer(4, 3, 5, len(D))
        for told, wanted in zip(rescale(model, 1 / D).tensors, (model.U * D, model.V / D), strict=True):
            found.append(compare(told, "==", wanted, f"rescaled by the library, width {len(D)}"))
        scaled = TwoLayerLinear(model.U @ A, model.V @ torch.linalg.inv(A).mT)
        for data, second in (*((one, one) for one in populations), (examples, seen)):
            masked = expected_error(
                ((model.U * kept @ model.V.mT / (1 - drop), chance) for kept, chance in coin_masks([drop] * len(D))),
                second,
            )
            plain = expected_error(iter([(model.matrix(), 1.0)]), second)
            found.append(compare(risk(scaled, data), "==", plain, f"risk, width {len(D)}"))
            found.append(compare(library(scaled, data, drop), "==", masked - plain, f"penalty, width {len(D)}"))
            ours = criterion(scaled, data, Bernoulli(drop, len(D)))
            found.append(compare(ours, "==", masked, f"criterion, width {len(D)}"))
    return found


def printed_eqz(U: Tensor, leading: bool = False) -> Tensor:
    """Algorithm 2 as printed: one eigendecomposition per column; with the `leading` block kept, as a comment has it."""
    width = U.shape[1]
    gram, Q = U.mT @ U, torch.eye(width, dtype=torch.float64)
    for i in range(width):
        size = width - i
        vectors = torch.linalg.eigh(gram).eigenvectors
        w = vectors.sum(1, keepdim=True) / math.sqrt(size)
        step = torch.linalg.qr(torch.cat([w, torch.eye(size, dtype=torch.float64)], 1)).Q[:, :size]
        step = torch.cat([w, step[:, 1:]], 1)
        gram = step.mT @ gram @ step
        gram = gram[:-1, :-1] if leading else gram[1:, 1:]
        Q = Q @ torch.block_diag(torch.eye(i, dtype=torch.float64), step)
    return Q


def equalizer_of_another(U: Tensor) -> Tensor:
    """An equalizer of U with its first column 1 % longer."""
    other = torch.cat([1.01 * U[:, :1], U[:, 1:]], 1)
    return equalizer(other.mT @ other)


def equalization(algorithm: Callable[[Tensor], Tensor]) -> list[Comparison]:
    """Q orthogonal and the columns of U Q of equal norm; zero, rank-one, equal, single, tiny and large columns."""
    found = []
    ones = torch.ones(3, 4, dtype=torch.float64)
    plain = (normal(1, 5, 4), normal(2, 2, 7), normal(5, 9, 8), normal(3, 4, 1))
    for U in (
        *plain,
        1e6 * normal(4, 3, 3),
        1e-6 * normal(4, 3, 3),
        ones,
        ones * tensor([1e-3, 1.0, 1.0, 1e3]),
        0 * ones,
    ):
        Q = algorithm(U)
        width, total = U.shape[1], U.square().sum()
        found.append(compare(Q.mT @ Q, "==", torch.eye(width, dtype=torch.float64), f"orthogonal, r={width}"))
        norms = (U @ Q).square().sum(0) / total.clamp_min(1e-300)
        found.append(compare(norms, "==", float(total > 0) / width, f"shares of the columns, r={width}"))
    return found


def untied_objective(M: Tensor, lam: float) -> Callable[[Tensor, Tensor], Tensor]:
    """||M - U V^T||^2 + lam sum ||u_i||^2 ||v_i||^2."""
    return lambda U, V: (M - U @ V.mT).square().sum() + lam * (U.square().sum(0) * V.square().sum(0)).sum()


def tied_objective(M: Tensor, lam: float) -> Callable[[Tensor], Tensor]:
    """||M - U U^T||^2 + lam sum ||u_i||^4."""
    return lambda U: (M - U @ U.mT).square().sum() + lam * U.square().sum(0).square().sum()


def printed_threshold(values: Tensor, lam: float, width: int) -> Tensor:
    """The printed S_alpha: rho and alpha as in the theorem, but every value above alpha is kept."""
    ordered = values.abs().sort(descending=True).values
    sums, counts = ordered.cumsum(0), torch.arange(1, len(ordered) + 1)
    fits = (ordered > lam * sums / (width + lam * counts)) & (counts <= width)
    rho = int(fits.long().cumprod(0).sum())
    alpha = lam * float(ordered[:rho].sum()) / (width + lam * rho) if rho else 0.0
    return (ordered - alpha).clamp_min(0)


def thesis_threshold(values: Tensor, lam: float, width: int) -> Tensor:
    """Thesis Algorithm 3 as printed: 1 + lam j in place of r + lam j."""
    sums, counts = values.cumsum(0), torch.arange(1, len(values) + 1)
    rho = int(((values > lam * sums / (1 + lam * counts)) & (counts <= width)).long().cumprod(0).sum())
    alpha = lam * float(values[:rho].sum()) / (1 + lam * rho) if rho else 0.0
    return torch.where(counts <= rho, values - alpha, torch.zeros_like(values)).clamp_min(0)


UNTIED_CASES = (
    ((2.0, 1.0), 0.1, 1),
    ((3.0, 2.0, 1.0), 0.5, 2),
    ((1.0, 1.0), 1.0, 2),
    ((2.0, 0.3, 0.0), 2.0, 4),
    ((0.0,), 0.5, 2),
    ((2.0, 1.0), 0.0, 1),
    ((1.0, 0.35, 0.1), 1.4, 2),  # of three units two values would be kept, of two one is
)
FULL_CASES = (((1.0, 1.0), 1.0, 2), ((3.0, 2.0, 0.5), 0.7, 3), ((2.0,), 0.5, 1))  # r is the rank of M


@cache
def _best_untied(spectrum: tuple[float, ...], lam: float, width: int) -> tuple[Tensor, Tensor, float, Tensor]:
    """Rotations P and Q of M = P diag(spectrum) Q^T, the least value that descent finds and the map of its network."""
    size = len(spectrum)
    P, Q = (torch.linalg.qr(normal(size + width + i, size + i, size)).Q for i in (1, 0))
    objective = untied_objective(P * tensor(spectrum) @ Q.mT, lam)
    best, (U, V) = descend(objective, [(size + 1, width), (size, width)], starts=3, seed=width)
    return P, Q, best, U @ V.mT


def untied_optimum(
    rule: Rule, cases: tuple[tuple[tuple[float, ...], float, int], ...] = UNTIED_CASES
) -> list[Comparison]:
    """Singular values of the rule against those of the best network that descent finds, its map and its value.

    The library's network has that map, tall or wide; of rho values that the rule keeps, alpha is lam/(r + lam rho)
    times their sum. A kept value may be tiny beside the largest.
    """
    found = _tiny_value()
    for spectrum, lam, width in cases:
        P, Q, best, W = _best_untied(spectrum, lam, width)
        s = tensor(spectrum)
        ours = rule(s, lam, width)
        label = f"spectrum {spectrum}, lam {lam}, r {width}"
        found.append(compare(ours.sort(descending=True).values, "==", torch.linalg.svdvals(W), label, precision=1e-4))
        found.append(compare(P * ours @ Q.mT, "==", W, f"map, {label}", precision=1e-4))
        value = (s - ours).square().sum() + lam / width * ours.sum() ** 2
        found.append(compare(value, "==", best, f"value, {label}", precision=1e-7))
        # examples sqrt(d) e_i and their images have the risk ||M - U V^T||^2, here of the transposed, wide M
        M, least = P * s @ Q.mT, P * shrink(s, lam, width) @ Q.mT
        inputs = len(P) ** 0.5 * torch.eye(len(P), dtype=torch.float64)
        wide = Sample(inputs, inputs @ M)
        for data, target, wanted, exact in ((Moments.of_map(M), M, W, least), (wide, M.mT, W.mT, least.mT)):
            library = optimum(TwoLayerLinear, data, Bernoulli(lam / (1 + lam), width))
            found.append(compare(library.objective, "==", best, f"library, {label}", precision=1e-7))
            U, V = library.model.tensors
            found.append(compare(U @ V.mT, "==", wanted, f"map of the library, {label}", precision=1e-4))
            found.append(compare(U @ V.mT, "==", exact, f"map by shrink, {label}"))
            paid = untied_objective(target, lam)(U, V)
            found.append(compare(library.objective, "==", paid, f"criterion of its network, {label}"))
        several = shrink(torch.stack([s.flip(0), s + 1]), lam, width)
        singly = torch.stack([ours.flip(0), rule(s + 1, lam, width)])
        found.append(compare(several, "==", singly, f"two spectra, one in rising order, {label}"))
        kept = ours > 0
        alpha = lam * s[kept].sum() / (width + lam * int(kept.sum()))
        found.append(compare(ours, "==", torch.where(kept, s - alpha, 0.0), f"lowered by alpha, {label}"))
        found.append(compare(kept.sum(), "==", _rank(s, lam, width), f"rho, {label}"))
    return found


def _rank(s: Tensor, lam: float, width: int) -> int:
    """Rho as printed: the largest j <= r with s_j > lam/(r + lam j) times the sum of the top j, else 0."""
    tops = range(1, min(width, len(s)) + 1)
    return max((j for j in tops if s[j - 1] > lam * s[:j].sum() / (width + lam * j)), default=0)


def _tiny_value() -> list[Comparison]:
    """A second value of 1e-5 that is kept, lam = 1e-7: what Gram matrices say of it has lost its digits."""
    found, s, lam, width = [], tensor([1.0, 1e-5]), 1e-7, 2
    P, Q = (torch.linalg.qr(normal(seed, size, 2)).Q for seed, size in ((1, 4), (2, 3)))
    wanted = P * (s - lam * s.sum() / (width + lam * 2)) @ Q.mT
    for M, best in ((P * s @ Q.mT, wanted), (Q * s @ P.mT, wanted.mT)):
        U, V = optimum(TwoLayerLinear, Moments.of_map(M), Bernoulli(lam / (1 + lam), width)).model.tensors
        found.append(compare(U @ V.mT, "==", best, f"a tiny value, {len(M)} rows"))
    return found


PSD_CASES = (
    (((2.0, 0.3), (0.3, 1.0)), 0.5, 2),
    (((2.0, 0.0), (0.0, 1.0)), 0.1, 1),
    (((2.0, 0.5, 0.0), (0.5, 1.5, 0.3), (0.0, 0.3, 1.2)), 0.3, 2),
    (((1.0, 0.0), (0.0, 0.1)), 0.5, 2),  # rho < r
    (((0.2, 0.02), (0.02, 0.1)), 3.0, 2),  # rho < r < lam, and values below one
    (((1.0, 0.2), (0.2, 0.4)), 0.8, 3),  # more units than eigenvalues, the second kept as r > 1
)
TIED_CASES = (
    *PSD_CASES,
    (((1.0, 0.0), (0.0, -3.0)), 0.5, 2),
    (((-2.0,),), 0.6, 2),
    (((1.0, 2.0), (0.0, 1.0)), 0.3, 3),
    (((1.0, 0.0), (0.0, 0.8)), 3.0, 2),  # kept for its gap to those above, small as it is
    (((1.5, -0.9, 0.4), (0.2, 0.7, 0.8), (-0.5, 0.3, 1.1)), 0.4, 2),
    (((1.2, 0.5), (0.1, 0.9)), 0.6, 4),  # more units than eigenvalues
    (((0.1, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 0.35)), 1.4, 2),  # rho below r below the number of eigenvalues
    (((1.3, 0.9), (-0.1, -0.2)), 0.0, 2),  # no dropout, one eigenvalue below zero
    (((0.0, 1.0), (-1.0, 0.0)), 0.5, 2),  # whose symmetric part is zero
)


@cache
def best_tied(matrix: tuple[tuple[float, ...], ...], lam: float, width: int) -> tuple[float, Tensor]:
    """The least value of the tied problem that descent finds, and U there."""
    best, (U,) = descend(tied_objective(tensor(matrix), lam), [(len(matrix), width)], starts=4, seed=len(matrix))
    return best, U


def tied_optimum(
    rule: Rule, cases: Sequence[tuple[tuple[tuple[float, ...], ...], float, int]] = TIED_CASES
) -> list[Comparison]:
    """Eigenvalues of the rule against those of the best tied network that descent finds, its map and its value.

    The library's network, of second moments and of examples, has this value in fact, and the map of the rule.
    """
    found = []
    for matrix, lam, width in cases:
        M, (best, U), label = tensor(matrix), best_tied(matrix, lam, width), f"M={matrix}, lam={lam}, r={width}"
        ascending, axes = torch.linalg.eigh((M + M.mT) / 2)
        s, axes = ascending.flip(0), axes.flip(1)
        ours = rule(s, lam, width)
        kept = ours > 0
        alpha = lam * s[kept].sum() / (width + lam * int(kept.sum()))
        found.append(compare(s * kept - ours, "==", alpha * kept, f"what is taken off, {label}"))
        found.append(compare(kept.sum(), "==", _rank(s, lam, width), f"rho, {label}"))
        skew = float(((M - M.mT) / 2).square().sum())
        value = (s - ours).square().sum() + lam / width * ours.sum() ** 2 + skew
        found.append(compare(value, "==", best, f"value, {label}", precision=1e-7))
        found.append(compare(torch.linalg.eigvalsh(U @ U.mT).flip(0), "==", ours, "eigenvalues", precision=1e-3))
        stated = axes * ours @ axes.mT
        found.append(compare(U @ U.mT, "==", stated, f"map, {label}", precision=1e-3))
        # examples sqrt(d) e_i and their images have the risk ||M - U U^T||^2
        inputs = len(M) ** 0.5 * torch.eye(len(M), dtype=torch.float64)
        for data in (Moments.of_map(M), Sample(inputs, inputs @ M.mT)):
            library = optimum(Autoencoder, data, Bernoulli(lam / (1 + lam), width))
            (own,) = library.model.tensors
            found.append(compare(library.objective, "==", value, f"library, {label}"))
            found.append(compare(tied_objective(M, lam)(own), "==", value, f"criterion of its network, {label}"))
            found.append(compare(own @ own.mT, "==", stated, f"map of the library, {label}"))
    return found
