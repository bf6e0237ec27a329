"""What the claims on the squared r-support norm and its shrinkage compare."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
from torch import Tensor

from droptics.evidence.claims import Comparison, compare
from droptics.norms import k_support
from droptics.papers.instances import normal, tensor, uniform


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


def water_filling(values: Tensor, k: int) -> float:
    """Inf { sum a_i^2 / t_i : 0 < t_i <= 1, sum t_i <= k } by bisection on the multiplier."""
    a = values.abs()[values != 0]
    if len(a) <= k:
        return float(a.square().sum())
    low, high = 0.0, float(a.sum())
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if float((a / middle).clamp_max(1).sum()) > k else (low, middle)
    return float((a.square() / (a / high).clamp_max(1)).sum())


def support_norm(rule: Callable[[Tensor, int], Tensor]) -> list[Comparison]:
    """A rule for the squared support norm against water filling."""
    vectors = [
        tensor([1.0, 1.0, 1.0]),
        tensor([3.0, 1.0, 0.5, 0.2]),
        normal(3, 9),
        tensor([2.0, 0.0, 0.0]),
        normal(4, 5),
    ]
    found = [
        compare(rule(a, k), "==", water_filling(a, k), f"k={k} of {len(a)} values")
        for a in vectors
        for k in (1, 2, 3, 7)
    ]
    matrix = normal(5, 4, 6)
    values = torch.linalg.svdvals(matrix)
    return [
        *found,
        compare(rule(values, 1), "==", values.sum() ** 2, "k=1: squared nuclear norm"),
        compare(rule(values, 4), "==", matrix.square().sum(), "k=rank: squared Frobenius norm"),
    ]


def conjugate(scale: float) -> list[Comparison]:
    """sup_x <a, x> - scale (sum of the k largest x_i^2) = ||a||_(k)^2, reached at the gradient of the right side."""
    found = []
    for seed, count, k in ((1, 6, 2), (2, 5, 3), (3, 4, 1), (4, 3, 3)):
        a = normal(seed, count).abs().requires_grad_(True)
        norm = k_support(a, k) ** 2
        (best,) = torch.autograd.grad(norm, a)

        values = a.detach()

        def value(x: Tensor, a: Tensor = values, k: int = k) -> Tensor:
            return (a * x).sum(-1) - scale * x.square().sort(descending=True, dim=-1).values[..., :k].sum(-1)

        found.append(compare(value(best), "==", norm, f"k={k}: attained"))
        nearby = best + 0.5 * normal(seed + 10, 300, count)
        found.append(compare(value(torch.cat([nearby, 2 * normal(seed, 300, count)])), "<=", norm, f"k={k}: bound"))
    return found


def closed_form_values(m: Tensor, r: int, beta: float) -> Tensor:
    """Singular values of the optimum: x_i = m_i t_i / (t_i + beta) with t = clip(alpha m - beta, 0, 1), sum t = r."""
    if int((m > 0).sum()) <= r:
        return m / (1 + beta)
    low, high = 0.0, float((r + len(m) * beta) / m[m > 0].min() + (1 + beta) / m[m > 0].min())
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if float((middle * m - beta).clamp(0, 1).sum()) < r else (low, middle)
    t = (high * m - beta).clamp(0, 1)
    return m * t / (t + beta)


def printed_values(m: Tensor, r: int, beta: float, top: int) -> Tensor:
    """The best candidate of the printed list with rho = 1..top, judged by the true objective."""
    best, kept = float("inf"), m * 0
    for rho in range(1, top + 1):
        for last in range(rho, len(m) + 1):
            total = float(m[rho - 1 : last].sum())
            c = (r - rho + 1) + beta * (last - rho + 1)
            x = torch.cat([m[: rho - 1] / (1 + beta), m[rho - 1 : last] - beta * total / c, m[last:] * 0]).clamp_min(0)
            value = float((m - x).square().sum() + beta * k_support(x, r) ** 2)
            if value < best:
                best, kept = value, x
    return kept


def shrinkage(values: Callable[[Tensor, int, float], Tensor]) -> list[Comparison]:
    """Objective of the candidates against min over t in [0,1]^n, sum t <= r, of sum beta m_i^2 / (beta + t_i).

    That minimum equals the one over x because ||x||_(r)^2 = min_t sum x_i^2 / t_i; random t never go below it.
    """
    found = []
    cases = [(tensor([3.0, 1.0]), 2, 1.0), (tensor([2.0, 1.5, 1.0, 0.3]), 2, 0.4), (tensor([1.0, 1.0, 1.0]), 2, 0.1)]
    cases += [(normal(7, 6).abs().sort(descending=True).values, 3, 0.7), (tensor([1.3, 0.2, 0.1]), 1, 2.0)]
    cases += [(tensor([1.0, 0.0, 0.0]), 2, 0.5)]
    for m, r, beta in cases:
        x = closed_form_values(m, r, beta)
        best = (m - x).square().sum() + water_filling(x, r) * beta
        ours = values(m, r, beta)
        value = (m - ours).square().sum() + beta * k_support(ours, r) ** 2
        found.append(compare(value, "==", best, f"m={m.tolist()} r={r}"))
        t = uniform(3, 400, len(m))
        t = t * (r / t.sum(-1, keepdim=True)).clamp_max(1)
        found.append(compare(value, "<=", (beta * m.square() / (beta + t)).sum(-1), "never beaten"))
    return found


def norm_facts(factor: float) -> list[Comparison]:
    """From l1 to l2, falling with r; between max(||a||_2, ||a||_1/sqrt r) and `factor` times that; r ||.||^2 grows."""
    found = []
    for seed in range(20):
        a = normal(seed, 8).abs().sort(descending=True).values
        values = torch.stack([k_support(a, r) for r in range(1, 9)])
        ranks = torch.arange(1, 9, dtype=torch.float64)
        found.append(compare(values[1:], "<=", values[:-1], "falls with r"))
        found.append(compare((ranks * values**2)[1:], ">=", (ranks * values**2)[:-1], "r times its square grows"))
        found.append(compare(values[0], "==", a.sum(), "l1 at r = 1"))
        found.append(compare(values[-1], "==", a.norm(), "l2 at r = 8"))
        lower = torch.maximum(a.norm().expand(8), a.sum() / ranks.sqrt())
        found.append(compare(values, ">=", lower, "from below"))
        found.append(compare(values, "<=", factor * lower, "from above"))
        if seed < 3:
            filled = [water_filling(a, r) ** 0.5 for r in range(1, 9)]
            found.append(compare(values, "==", filled, "by water filling", precision=1e-8))
        for r in (1, 3, 5):
            sparse = torch.nn.functional.pad(a[:r] / a[:r].norm(), (0, 8 - r))
            found.append(compare(k_support(sparse, r), "==", 1.0, "r values of norm one"))
            found.append(compare(sparse.sum(), "<=", r**0.5, "their l1 norm"))
    return found


def rule_cost(limit: Callable[[int], float]) -> list[Comparison]:
    """Comparisons and steps of the corrected rule on unsorted values, counted, and its value."""
    found = []
    for size, r in ((64, 5), (512, 20)):
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
        found.append(compare(value, "==", k_support(tensor(a), r) ** 2, f"value, {size} values"))
    return found
