"""What the claims of chapter 4 on matrix sensing and completion compare.

Letters: drop = p, lam = p / (1 - p), width d1, columns u_k and v_k.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cache, reduce

import torch
from torch import Tensor, nn

from droptics.bounds import (
    completion,
    completion_constant,
    squared,
)
from droptics.data import Measurements, Moments, Sample
from droptics.evidence.claims import Comparison, compare
from droptics.linalg import equalizer
from droptics.masks import Bernoulli, Product
from droptics.models import DeepLinear, Factorization, TwoLayerLinear
from droptics.norms import nuclear, weighted_trace
from droptics.papers.instances import Factors, coin_masks, descend, factorizations, normal, sample, simplex, tensor
from droptics.penalties import criterion, effective_strength, penalty, risk


def sensing(scale: Callable[[float], float]) -> list[Comparison]:
    """Masked columns of a factorization under linear measurements, against all masks; one unit, one measurement too."""
    found = []
    cases = ((0.0, 4, 6, (3, 5)), (0.3, 4, 6, (3, 5)), (0.9, 3, 8, (2, 2)), (0.5, 1, 5, (4, 1)), (0.6, 5, 1, (2, 3)))
    for seed, (drop, width, count, (rows, columns)) in enumerate(cases, start=1):
        U, V = normal(seed, rows, width), normal(seed + 1, columns, width)
        A, y = normal(seed + 2, count, rows, columns), normal(seed + 3, count)
        data, plain = Measurements(A, y), (y - torch.einsum("nij,ij->n", A, U @ V.mT)).square().mean()
        total = tensor(0.0)
        for kept, chance in coin_masks([drop] * width):
            W = U @ torch.diag(kept / (1 - drop)) @ V.mT
            total += chance * (y - torch.einsum("nij,ij->n", A, W)).square().mean()
        model, masks = Factorization(U, V), Bernoulli(drop, width)
        found.append(compare(penalty(model, data, masks), "==", total - plain, f"library, p={drop}"))
        found.append(compare(criterion(model, data, masks), "==", total, f"library, with the loss, p={drop}"))
        units = torch.einsum("ik,nij,jk->nk", U, A, V).square().mean(0).sum()
        found.append(compare(scale(drop) * units, "==", total - plain, f"formula, p={drop}"))
    return found


def expected_regularizer(U: Tensor, V: Tensor, law: Tensor) -> Tensor:
    """sum_k sum_ij Pi_ij U_ik^2 V_jk^2 for entries observed with probabilities Pi."""
    return torch.einsum("ij,ik,jk->", law, U.square(), V.square())


def equalized_factors(M: Tensor, p: Tensor, q: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Factors of M that attain the weighted trace norm."""
    P, s, Rh = torch.linalg.svd(p.sqrt()[:, None] * M * q.sqrt(), full_matrices=False)
    s = s[:width]
    grown = torch.cat([s, s.new_zeros(width - len(s))])
    Q = equalizer(torch.diag(grown))
    pad = (0, width - len(s))
    U = nn.functional.pad(P[:, : len(s)] * s.sqrt(), pad) @ Q / p.sqrt()[:, None]
    V = nn.functional.pad(Rh.mT[:, : len(s)] * s.sqrt(), pad) @ Q / q.sqrt()[:, None]
    return U, V


def induced_completion(share: float) -> list[Comparison]:
    """Least expected regularizer = share ||diag(sqrt p) M diag(sqrt q)||_*^2 / width; attained, never beaten.

    By descent over all factors of M, maps of rank one to three. The regularizer is the library's penalty at lam = 1 for
    all entries, each measured as often as it is seen.
    """
    found = []
    for seed, (rank, width) in enumerate(((2, 2), (2, 3), (1, 1), (3, 4), (2, 6))):
        M = normal(seed, 4, rank) @ normal(seed + 1, rank, 5)
        p, q = simplex(seed, 4), simplex(seed + 1, 5)
        U, V = equalized_factors(M, p, q, width)
        law, scaled = torch.outer(p, q), p.sqrt()[:, None] * M * q.sqrt()
        size, label = torch.linalg.svdvals(scaled).sum(), f"rank {rank}, width {width}"
        theta = share * size**2 / width
        found.append(compare(weighted_trace(M, p, q), "==", size, f"library, {label}"))
        found.append(compare(U @ V.mT, "==", M, f"product, {label}"))
        found.append(compare(expected_regularizer(U, V, law), "==", theta, f"value, {label}"))
        factors, shapes = factorizations(scaled, width)

        def value(A: Tensor, C: Tensor, factors: Factors = factors, law: Tensor = law) -> Tensor:
            left, right = factors(A, C)
            left, right = left / law.sum(1).sqrt()[:, None], right / law.sum(0).sqrt()[:, None]
            return expected_regularizer(left, right, law)

        least, _ = descend(value, shapes, starts=2, seed=seed)
        found.append(compare(least, "==", theta, f"descent, {label}", precision=1e-6))
        entries = torch.eye(20, dtype=torch.float64).reshape(20, 4, 5) * (20 * law.reshape(-1, 1, 1)).sqrt()
        seen = penalty(Factorization(U, V), Measurements(entries, entries.new_zeros(20)), Bernoulli(0.5, width))
        found.append(compare(seen, "==", expected_regularizer(U, V, law), f"penalty of the library, {label}"))
    return found


def gaussian_sensing(share: float) -> list[Comparison]:
    """Measurements of second moment I: E Rbar = sum ||u||^2 ||v||^2, its least value share ||M||_*^2 / width; any loss.

    Only the second moment of vec(A) enters, so that matrices sqrt(12) e_a e_b^T, all equally likely, stand for Gaussian
    ones without an error of sampling; 20,000 Gaussian ones agree within their error. The least by descent over all
    factors, and reached.
    """
    matrices = 12**0.5 * torch.eye(12, dtype=torch.float64).reshape(12, 3, 4)
    drawn = normal(3, 20_000, 3, 4)
    found = []
    for seed, (rank, width, drop) in enumerate(((3, 3, 0.5), (3, 5, 0.3), (1, 2, 0.8))):
        M, target = normal(seed + 1, 3, rank) @ normal(seed + 2, rank, 4), normal(seed + 7, 3, 4)
        data = Measurements(matrices, torch.einsum("nij,ij->n", matrices, target))
        rows, columns = (torch.ones(size, dtype=torch.float64) for size in M.shape)
        U, V = equalized_factors(M, rows, columns, width)
        mix = torch.eye(width, dtype=torch.float64) + 0.5 * normal(seed + 5, width, width)
        least, lam = share * float(torch.linalg.svdvals(M).sum()) ** 2 / width, drop / (1 - drop)
        found.append(compare(nuclear(M) ** 2 / width, "==", least / share, f"library's norm, width {width}"))
        for left, right in ((U, V), (U @ mix, torch.linalg.solve(mix, V.mT).mT)):
            found.append(compare(left @ right.mT, "==", M, f"factors, width {width}"))
            value = penalty(Factorization(left, right), data, Bernoulli(drop, width)).value / lam
            direct = (left.square().sum(0) * right.square().sum(0)).sum()
            found.append(compare(value, "==", direct, f"library, width {width}"))
            single = torch.einsum("ik,nij,jk->nk", left, drawn, right).square().sum(1)
            error = 5 * float(single.std()) / len(single) ** 0.5
            found.append(compare(abs(float(single.mean() - direct)), "<=", error, f"Gaussian draws, width {width}"))
            loss = (target - left @ right.mT).square().sum()
            found.append(compare(risk(Factorization(left, right), data), "==", loss, f"loss, width {width}"))
            missed = torch.einsum("nij,ij->n", drawn, target - left @ right.mT).square()
            error = 5 * float(missed.std()) / len(missed) ** 0.5
            found.append(compare(abs(float(missed.mean() - loss)), "<=", error, f"loss of draws, width {width}"))
        reached = (U.square().sum(0) * V.square().sum(0)).sum()
        found.append(compare(reached, "==", least, f"reached, width {width}"))
        factors, shapes = factorizations(M, width)

        def cost(A: Tensor, B: Tensor, factors: Callable[..., tuple[Tensor, Tensor]] = factors) -> Tensor:
            left, right = factors(A, B)
            return (left.square().sum(0) * right.square().sum(0)).sum()

        best, _ = descend(cost, shapes, starts=2, seed=seed)
        found.append(compare(best, "==", least, f"least of all factors, width {width}", precision=1e-6))
    return found


def completion_terms(printed: bool, constant: float) -> list[Comparison]:
    """The calculator against the stated expression."""
    found = []
    for alpha, shape, n, delta in ((1.0, (943, 1682), 90_000, 0.05), (0.1, (6040, 3706), 900_000, 0.3)):
        long, log = max(shape), math.log(2 / delta)
        bound = completion(alpha=alpha, shape=shape, examples=n, confidence=1 - delta, printed=printed)
        if printed:
            stated = constant * math.sqrt((2 * alpha * long * math.log(long) + log / 4) / n)
        else:
            K = completion_constant(shape)
            main = constant * K * math.sqrt(alpha * long * math.log(long) / n)
            stated = main + 4 * math.sqrt(log / (2 * n))
        found.append(compare(bound.value, "==", stated, f"shape {shape}"))
    return found


def completion_from_theorems(constant: float) -> list[Comparison]:
    """Theorem 19 at M = 2 with R_n <= sqrt(alpha d2 log d2/n), as the proof has it, against the stated expression.

    sqrt(a) + sqrt(b) <= sqrt(2a + 2b) is an equality where both terms agree, which the last alpha brings about.
    """
    found = []
    even = math.log(40) / 8 / (50 * math.log(50))
    for alpha, shape, n in ((1.0, (1682, 943), 90_000), (0.1, (6040, 3706), 900_000), (even, (50, 20), 400)):
        size = shape[0] * math.log(shape[0])
        whole = squared(0.0, math.sqrt(alpha * size / n), n, confidence=0.95, deviation=2.0).value
        stated = constant * math.sqrt((2 * alpha * size + math.log(40) / 4) / n)
        found.append(compare(whole, "<=", stated, f"from Theorem 19, shape {shape}"))
    return found


def completion_is_vacuous() -> list[Comparison]:
    """MovieLens sizes: the gap exceeds 0.28, the risk of predicting a constant, although the loss is at most 4."""
    found = []
    for shape, n in (((943, 1682), 90_000), ((6040, 3706), 900_000), ((71_567, 10_681), 9_000_000)):
        bound = completion(alpha=1.0, shape=shape, examples=n)
        found.append(compare(bound.value, ">", 0.28, f"gap, shape {shape}, {n} ratings"))
    return found


@cache
def exact_entry_complexity(shape: tuple[int, int], n: int) -> float:
    """R_n of the unit weighted-trace ball, uniform entries of a matrix: all positions and signs.

    The first entry is at (1, 1) with sign one: the law does not change when rows, columns or signs are exchanged.
    """
    cells = math.prod(shape)
    places = torch.tensor(list(itertools.product((0,), *[range(cells)] * (n - 1))))
    signs = tensor(list(itertools.product((1.0, -1.0), repeat=n - 1))).reshape(-1, n - 1)
    values = torch.cat([torch.ones(len(signs), 1, dtype=torch.float64), signs], 1)
    sums = torch.zeros(len(places), len(values), cells, dtype=torch.float64)
    sums.scatter_add_(2, places[:, None].expand(-1, len(values), n), values.expand(len(places), -1, n))
    norms = torch.linalg.matrix_norm(math.sqrt(cells) * sums.reshape(-1, *shape), 2)
    return float(norms.mean()) / n


def weighted_entry_complexity(p: Tensor, q: Tensor, n: int) -> float:
    """The same where row i has chance p(i) and column j chance q(j): an entry (i, j) counts 1/sqrt(p(i) q(j))."""
    chances = torch.outer(p, q).reshape(-1)
    places = torch.tensor(list(itertools.product(range(len(chances)), repeat=n)))
    signs = tensor(list(itertools.product((1.0, -1.0), repeat=n)))
    each = nn.functional.one_hot(places, len(chances)) * chances.rsqrt()
    norms = torch.linalg.matrix_norm((signs @ each).unflatten(2, (len(p), len(q))), 2)
    return float(chances[places].prod(1) @ norms.mean(1)) / n


def entry_complexity(constant: Callable[[tuple[int, int]], float]) -> list[Comparison]:
    """R_n <= K sqrt(alpha d2 log d2 / n), alpha = 1, exactly for small matrices of uniform and of other entries.

    At the least n that the condition p(i) q(j) >= log d2/(n sqrt(d2 d0)) of Theorem 20 allows, and more.
    """
    found = []
    for p, q, n in (([0.6, 0.4], [0.45, 0.55], 2), ([0.7, 0.3], [0.6, 0.4], 4), ([0.4, 0.33, 0.27], [0.45, 0.55], 4)):
        rows, columns, long = tensor(p), tensor(q), len(p)
        allowed = math.log(long) / (n * math.sqrt(long * len(q)))
        found.append(compare(rows.min() * columns.min(), ">=", allowed, f"the condition, p={p}, n={n}"))
        limit = constant((long, len(q))) * math.sqrt(long * math.log(long) / n)
        found.append(compare(weighted_entry_complexity(rows, columns, n), "<=", limit, f"p={p}, q={q}, n={n}"))
    for shape, counts in (((2, 2), (2, 3, 4)), ((3, 2), (3, 4)), ((3, 3), (4,))):
        long, label = max(shape), f"{shape[0]} x {shape[1]}"
        for n in counts:
            allowed = math.log(long) / (n * math.sqrt(math.prod(shape)))
            found.append(compare(1 / math.prod(shape), ">=", allowed, f"the condition, {label}, n={n}"))
            limit = constant(shape) * math.sqrt(long * math.log(long) / n)
            found.append(compare(exact_entry_complexity(shape, n), "<=", limit, f"{label}, n={n}"))
    return found


def unfactored_inputs(law_weighted: bool) -> list[Comparison]:
    """Dropout on the inputs vec(A) of <M, A> adds lam sum M_ab^2 E A_ab^2, against all masks; ridge if E A_ab^2 = 1.

    For the library it is a network whose hidden units are the inputs.
    """
    found = []
    white = 6**0.5 * torch.eye(6, dtype=torch.float64).reshape(6, 2, 3)
    for seed, drop, matrices in ((1, 0.4, normal(2, 4, 2, 3)), (2, 0.7, normal(5, 8, 2, 3)), (3, 0.2, white)):
        M, data = normal(seed, 2, 3), Measurements(matrices, normal(seed + 3, len(matrices)))
        plain = (data.values - torch.einsum("nij,ij->n", data.matrices, M)).square().mean()
        total = tensor(0.0)
        for kept, chance in coin_masks([drop] * 6):
            masked = data.matrices * kept.reshape(2, 3) / (1 - drop)
            total += chance * (data.values - torch.einsum("nij,ij->n", masked, M)).square().mean()
        weights = data.matrices.square().mean(0) if law_weighted else torch.ones_like(M)
        stated = drop / (1 - drop) * (M.square() * weights).sum()
        found.append(compare(stated, "==", total - plain, f"penalty, p={drop}"))
        model = TwoLayerLinear(M.reshape(1, 6), torch.eye(6, dtype=torch.float64))
        ours = penalty(model, Sample(matrices.reshape(-1, 6), data.values[:, None]), Bernoulli(drop, 6))
        found.append(compare(ours, "==", total - plain, f"library, p={drop}"))
    return found


@cache
def _trained(seed: int, widths: tuple[int, ...], drop: float) -> tuple[Sample, float, list[Tensor]]:
    """Twelve examples, and the least squared error averaged over all masks that descent finds, with its layers."""
    data = sample(seed, 12, 3, 1)
    masks, chances = zip(*coin_masks([drop] * sum(widths)), strict=True)
    multipliers = (torch.stack(masks) / (1 - drop)).split(widths, 1)

    def objective(*weights: Tensor) -> Tensor:
        hidden = weights[0] @ data.inputs.mT
        for weight, kept in zip(weights[1:], multipliers, strict=True):
            hidden = weight @ (kept[:, :, None] * hidden)
        return tensor(chances) @ (hidden[:, 0] - data.targets[:, 0]).square().mean(1)

    shapes = [(b, a) for a, b in itertools.pairwise((3, *widths, 1))]
    return data, *descend(objective, shapes, starts=2, seed=seed)


def normal_equations(divisor: Callable[[float, int], float]) -> list[Comparison]:
    """One output: the stated equations at the map u of the network that descent on the masked error ends at."""
    found = []
    for seed, widths, drop in ((4, (2,), 0.4), (5, (2, 3), 0.3)):
        data, best, weights = _trained(seed, widths, drop)
        X, y, nu = data.inputs.mT, data.targets[:, 0], float(effective_strength(widths, drop))
        u = reduce(lambda below, weight: weight @ below, weights)[0]
        stated = divisor(nu, len(data)) * X @ X.mT @ u
        found.append(compare(stated, "==", X @ y, f"normal equations, widths {widths}", precision=1e-3))
        explicit = (y - u @ X).square().mean() + nu * (u @ X).square().mean()
        found.append(compare(explicit, "==", best, f"with nu ||u||_C^2, widths {widths}", precision=1e-5))
        law = Product([Bernoulli(drop, width) for width in widths])
        ours = criterion(DeepLinear(weights), Moments.of_sample(data), law)
        found.append(compare(ours, "==", best, f"the library's criterion, widths {widths}"))
    return found


def kronecker(transpose: bool) -> list[Comparison]:
    """<U V^T, A> = <vec U^T, vec V^T A^T> = <vec U^T, (I_d2 kron V^T) vec A^T> with column stacking, sum by sum."""
    found = []
    for seed, (d2, d0, d1) in enumerate(((3, 4, 2), (1, 5, 3), (4, 2, 1), (2, 2, 3))):
        U, V, A = normal(seed, d2, d1), normal(seed + 1, d0, d1), normal(seed + 2, d2, d0)

        def vec(matrix: Tensor) -> Tensor:
            return torch.cat([matrix[:, j] for j in range(matrix.shape[1])])

        left = sum(float(U[i, k] * V[j, k] * A[i, j]) for i in range(d2) for j in range(d0) for k in range(d1))
        stacked = torch.block_diag(*[V.mT] * d2)  # I kron V^T: one block for each output
        right = vec(U.mT) @ stacked @ vec(A.mT if transpose else A)
        label = f"{d2} x {d0}, {d1} columns"
        found.append(compare(left, "==", right, f"inner product, {label}"))
        found.append(compare(vec(V.mT @ A.mT), "==", stacked @ vec(A.mT), f"vec of a product, {label}"))
        found.append(
            compare(torch.kron(torch.eye(d2, dtype=torch.float64), V.mT.contiguous()), "==", stacked, "blocks")
        )
        found.append(compare(left, "==", Factorization(U, V).outputs(A[None]).sum(), f"library, {label}"))
    return found


def rotation_only(balanced: bool) -> list[Comparison]:
    """Best rotation of a pair against the weighted trace value: it stays above, unless the pair is balanced before."""
    U, V = tensor([[1.0, 0.3], [0.2, 1.0]]), tensor([[1.0, -0.5], [0.4, 0.6]])
    p, q = tensor([0.6, 0.4]), tensor([0.3, 0.7])
    theta = float(weighted_trace(U @ V.mT, p, q)) ** 2 / 2
    if balanced:
        left, values, right = torch.linalg.svd(p.sqrt()[:, None] * (U @ V.mT) * q.sqrt())
        U, V = left * values.sqrt() / p.sqrt()[:, None], right.mT * values.sqrt() / q.sqrt()[:, None]
    values = []
    for step in range(400):
        angle = math.pi * step / 400
        Q = tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
        values.append(float(expected_regularizer(U @ Q, V @ Q, torch.outer(p, q))))
    return [compare(min(values), "==", theta, "best rotation of the given pair", precision=1e-4)]


def bernstein() -> list[Comparison]:
    """The explicit constant is the matrix Bernstein inequality at the least n that the condition allows.

    Uniform sampling: summands of norm sqrt(d2 d0), variance n d2, so n R_n <= sqrt(2 n d2 l) + sqrt(d2 d0) l / 3 with
    l = log(d2 + d0), and n = sqrt(d2 d0) log d2.
    """
    found = []
    for d2, d0 in ((2, 2), (50, 20), (6040, 3706)):
        n, size = math.sqrt(d2 * d0) * math.log(d2), math.log(d2 + d0)
        stated = (math.sqrt(2 * n * d2 * size) + math.sqrt(d2 * d0) * size / 3) / n
        ours = completion_constant((d2, d0)) * math.sqrt(d2 * math.log(d2) / n)
        found.append(compare(ours, "==", stated, f"{d2} x {d0}"))
    return found
