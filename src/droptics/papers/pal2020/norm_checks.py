"""What the claims on the squared r-support norm and its shrinkage compare."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from droptics.evidence.claims import Comparison, Relation, compare
from droptics.norms import k_support
from droptics.papers.instances import descend, normal, tensor
from droptics.papers.pal2020.oracles import closed_form_values, dual_value, least_value, water_filling, water_level


def printed_norm(values: Tensor, k: int) -> Tensor:
    """Squared norm with the index that maximizes the printed expression (11)."""
    ordered = values.abs().sort(descending=True).values
    ordered = torch.cat([ordered, ordered.new_zeros(max(0, k - len(ordered)))])
    options = [
        ordered[: rho - 1].square().sum() + ordered[rho - 1 :].sum() ** 2 / (k - rho + 1) for rho in range(1, k + 1)
    ]
    return torch.stack(options).max()


def largest_index_norm(values: Tensor, k: int) -> Tensor:
    """Squared norm with the largest rho <= k for which a_(rho-1) >= T_rho/(k - rho + 1), T_rho = a_rho + ..."""
    a = values.abs().sort(descending=True).values
    a = torch.cat([a, a.new_zeros(max(0, k - len(a)))])
    rho = max(rho for rho in range(1, k + 1) if rho == 1 or a[rho - 2] >= a[rho - 1 :].sum() / (k - rho + 1))
    return a[: rho - 1].square().sum() + a[rho - 1 :].sum() ** 2 / (k - rho + 1)


@functools.cache
def _least(spectrum: tuple[float, ...], block: int, counts: tuple[int, ...]) -> float:
    return least_value(torch.diag(tensor(spectrum)), block, counts)


def support_norm(rule: Callable[[Tensor, int], Tensor]) -> list[Comparison]:
    """A rule for the squared support norm against water filling, and against the conjugate of the conjugate.

    Water filling is at least the envelope, since sum a_i^2/t_i is the value of blocks, and the dual at one point at
    most: that they agree leaves no other value. The least (d/r) sum_i ||U_i V_i^T||^2 that descent finds agrees, too.
    """
    vectors = [
        tensor([1.0, 1.0, 1.0]),
        tensor([3.0, 1.0, 0.5, 0.2]),
        normal(3, 9),
        tensor([2.0, 0.0, 0.0]),
        normal(4, 5),
        tensor([0.0, 0.0]),
        tensor([5.0]),
    ]
    found = []
    for a in vectors:
        for k in (1, 2, 3, 7):
            value, label = water_filling(a, k), f"k={k} of {len(a)} values"
            below = dual_value(a, k, 2 * a.abs().clamp_min(water_level(a, k)))
            found.append(compare(below, "==", value, f"from below and above, {label}"))
            found.append(compare(rule(a, k), "==", value, label))
    for values, k, counts in (((1.0, 1.0, 1.0), 2, (3,)), ((1.4, 1.0, 0.3), 2, (2,))):
        least, label = _least(values, k, counts), f"factorizations of {values}"
        found.append(compare(rule(tensor(values), k), "==", least, label, precision=1e-6))
    matrix = normal(5, 4, 6)
    spectrum = torch.linalg.svdvals(matrix)
    return [
        *found,
        compare(rule(spectrum, 1), "==", spectrum.sum() ** 2, "k=1: squared nuclear norm"),
        compare(rule(spectrum, 4), "==", matrix.square().sum(), "k=rank: squared Frobenius norm"),
    ]


def conjugate(scale: float) -> list[Comparison]:
    """sup_x <a, x> - scale (sum of the k largest x_i^2) = ||a||_(k)^2 and sup_a <a, x> - ||a||_(k)^2 = that sum.

    The first is attained where the library's norm has its gradient, the second at half of the k largest. Both norms are
    the library's and water filling; of matrices, too, by their singular values. The penalty itself has this conjugate:
    the supremum of <Q, U V^T X> minus (d/r) sum_i ||U_i V_i^T X||^2 over all weights, by ascent, is the sum for the
    singular values of Q.
    """
    found = []

    def largest(x: Tensor, k: int) -> Tensor:
        return scale * x.square().sort(descending=True, dim=-1).values[..., :k].sum(-1)

    for seed, count, k in ((1, 6, 2), (2, 5, 3), (3, 4, 1), (4, 3, 3), (5, 3, 5)):
        a = normal(seed, count).abs().requires_grad_(True)
        norm = k_support(a, k) ** 2
        (best,) = torch.autograd.grad(norm, a)
        values, x = a.detach(), normal(seed + 20, count)
        found.append(compare(norm, "==", water_filling(values, k), f"k={k}: norm"))
        found.append(compare((values * best).sum() - largest(best, k), "==", norm, f"k={k}: attained"))
        others = torch.cat([best + 0.5 * normal(seed + 10, 300, count), 2 * normal(seed, 300, count)])
        found.append(compare((values * others).sum(-1) - largest(others, k), "<=", norm, f"k={k}: bound"))
        half = torch.where(x.abs() >= x.abs().sort(descending=True).values[:k][-1], x / 2, 0.0)
        for name, point in (("attained", half), ("bound", half + 0.3 * normal(seed + 30, count))):
            value = (point * x).sum() - water_filling(point, k)
            found.append(compare(value, "==" if name == "attained" else "<=", largest(x, k), f"k={k}: back, {name}"))
    for seed, k in ((6, 1), (7, 2), (8, 5)):  # the same of matrices and their singular values
        left, values, right = torch.linalg.svd(normal(seed, 3, 4), full_matrices=False)
        Q, top = left * values @ right, largest(values, k)
        best = left[:, :k] * values[:k] / 2 @ right[:k]
        for name, points in (("attained", best[None]), ("bound", best + 0.5 * normal(seed + 10, 50, 3, 4))):
            told = [(A * Q).sum() - k_support(torch.linalg.svdvals(A), k) ** 2 for A in points]
            relation: Relation = "==" if name == "attained" else "<="
            found.append(compare(torch.stack(told), relation, top, f"k={k}: of matrices, {name}"))
    for seed, block, blocks in ((1, 1, 3), (2, 2, 2), (3, 3, 1)):
        Q, X = normal(seed, 2, 3), torch.eye(4, 3).double() + 0.4 * normal(seed + 1, 4, 3)

        def below(U: Tensor, V: Tensor, Q: Tensor = Q, X: Tensor = X, block: int = block) -> Tensor:
            parts = list(zip(U.split(block, -1), (X.mT @ V).split(block, -1), strict=True))
            added = torch.stack([(A @ B.mT).square().sum() for A, B in parts]).sum()
            return len(parts) * added - (Q * (U @ V.mT @ X)).sum()

        least, _ = descend(below, [(2, block * blocks), (4, block * blocks)], starts=2, seed=seed)
        stated = largest(torch.linalg.svdvals(Q), block)
        found.append(compare(-least, "==", stated, f"r={block}: of the penalty", precision=1e-6))
    return found


def printed_values(m: Tensor, r: int, beta: float, top: int) -> Tensor:
    """The best candidate of the printed list with rho = 1..top and lambda = 1..d, judged by the true objective."""
    best, kept = float("inf"), m * 0
    for rho in range(1, top + 1):
        for last in range(1, len(m) + 1):
            if last <= rho - 1:
                x = torch.cat([m[:last] / (1 + beta), m[last:] * 0])
            else:
                level = beta * float(m[rho - 1 : last].sum()) / (r + beta * last + (beta + 1) * (1 - rho))
                x = torch.cat([m[: rho - 1] / (1 + beta), m[rho - 1 : last] - level, m[last:] * 0]).clamp_min(0)
            value = float((m - x).square().sum() + beta * water_filling(x, r))
            if value < best:
                best, kept = value, x
    return kept


def shrinkage(values: Callable[[Tensor, int, float], Tensor]) -> list[Comparison]:
    """A rule for the minimizer of ||m - x||^2 + beta ||x||_(r)^2 against the closed form, and its value from below.

    For every g the value is at least beta <m, g> - beta^2 ||g||^2/4 - (beta/4) (sum of the r largest g_i^2), since
    that is the least of the same with <x, g> minus the last term for the norm; g = 2 (m - x)/beta attains it.
    """
    found = []
    cases = [(tensor([3.0, 1.0]), 2, 1.0), (tensor([2.0, 1.5, 1.0, 0.3]), 2, 0.4), (tensor([1.0, 1.0, 1.0]), 2, 0.1)]
    cases += [(normal(7, 6).abs().sort(descending=True).values, 3, 0.7), (tensor([1.3, 0.2, 0.1]), 1, 2.0)]
    cases += [(tensor([1.0, 0.0, 0.0]), 2, 0.5), (normal(8, 5).abs().sort(descending=True).values, 4, 0.2)]
    cases += [(tensor([2.0, 0.5]), 3, 0.3), (tensor([2.0, 2.0, 1.0, 1.0]), 3, 0.5), (tensor([3.0, 1.0, 0.4]), 2, 30.0)]
    for m, r, beta in cases:
        x, label = closed_form_values(m, r, beta), f"m={m.tolist()} r={r}"
        best = (m - x).square().sum() + water_filling(x, r) * beta
        found.append(compare(k_support(x, r) ** 2, "==", water_filling(x, r), f"squared norm, {label}"))
        g = 2 * (m - x) / beta
        top = g.square().sort(descending=True).values[:r].sum()
        least = beta * (m * g).sum() - beta**2 * g.square().sum() / 4 - beta / 4 * top
        found.append(compare(best, "==", least, f"from below, {label}"))
        ours = values(m, r, beta)
        value = (m - ours).square().sum() + beta * water_filling(ours, r)
        found.append(compare(value, "==", best, f"least value, {label}"))
        found.append(compare(ours, "==", x, f"minimizer, {label}", precision=1e-8))
    return found


def norm_facts(factor: float) -> list[Comparison]:
    """From l1 to l2, falling with r; between max(||a||_2, ||a||_1/sqrt r) and `factor` times that; r ||.||^2 grows."""
    found = [compare(k_support(torch.zeros(3).double(), r), "==", 0.0, f"no values, r={r}") for r in (1, 2, 5)]
    for seed in range(20):
        a = normal(seed, 8)
        values = torch.stack([k_support(a, r) for r in range(1, 9)])
        ranks = torch.arange(1, 9, dtype=torch.float64)
        found.append(compare(values[1:], "<=", values[:-1], "falls with r"))
        found.append(compare((ranks * values**2)[1:], ">=", (ranks * values**2)[:-1], "r times its square grows"))
        found.append(compare(values[0], "==", a.abs().sum(), "l1 at r = 1"))
        found.append(compare(values[-1], "==", a.norm(), "l2 at r = 8"))
        lower = torch.maximum(a.norm().expand(8), a.abs().sum() / ranks.sqrt())
        found.append(compare(values, ">=", lower, "from below"))
        found.append(compare(values, "<=", factor * lower, "from above"))
        if seed < 3:
            filled = [water_filling(a, r) ** 0.5 for r in range(1, 9)]
            found.append(compare(values, "==", filled, "by water filling", precision=1e-8))
        found.append(compare(k_support(a, 9), "==", a.norm(), "l2 at r = 9"))
        for r in (1, 3, 5):
            sparse = torch.nn.functional.pad(a[:r] / a[:r].norm(), (8 - r, 0))
            for more in (r, r + 2):
                found.append(compare(k_support(sparse, more), "==", 1.0, f"{r} values of norm one, r={more}"))
            found.append(compare(sparse.abs().sum(), "<=", r**0.5, "their l1 norm"))
    return found


class _Numbers(TorchFunctionMode):
    """How many numbers sorts look at, and all other operations on tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.sorted, self.others = 0, 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        seen = max((part.numel() for part in tree_leaves((args, kwargs, out)) if isinstance(part, Tensor)), default=0)
        if "sort" in func.__name__:
            self.sorted += seen
        else:
            self.others += seen
        return out


def rule_cost(limit: Callable[[int], float]) -> list[Comparison]:
    """Comparisons and steps of the corrected rule on unsorted values, counted, and its value.

    A sort needs d log2 d comparisons, a sum d and the rule r <= d steps: from 16 values on 3/2 d log2 d in all. The
    library sorts once, too; what its other operations look at grows no faster than d log d, at twice the size.
    """
    found = []
    for size, r in ((16, 3), (64, 5), (512, 20), (1024, 400)):
        count = 0

        def compared(x: float, y: float) -> int:
            nonlocal count
            count += 1
            return (x < y) - (x > y)

        a = sorted(normal(size, size).abs().tolist(), key=functools.cmp_to_key(compared))
        rest, value = sum(a), 0.0
        count += size
        for rho in range(1, r + 1):
            if rho == r or a[rho - 1] < (rest - a[rho - 1]) / (r - rho):
                value += rest**2 / (r - rho + 1)
                break
            value, rest, count = value + a[rho - 1] ** 2, rest - a[rho - 1], count + 1
        found.append(compare(count, "<=", limit(size), f"operations, {size} values"))
        found.append(compare(value, "==", water_filling(tensor(a), r), f"value, {size} values"))
        found.append(compare(k_support(normal(size, size), r) ** 2, "==", value, f"library, {size} values"))
        one, two = _Numbers(), _Numbers()
        with one:
            k_support(normal(size, size), r)
        with two:
            k_support(normal(size, 2 * size), 2 * r)
        found.append(compare([one.sorted, two.sorted], "==", [size, 2 * size], f"sorted by the library, {size} values"))
        growth = limit(2 * size) / limit(size)
        found.append(compare(two.others, "<=", growth * one.others, f"its other operations, {size} values"))
    return found
