"""What bounds of chapter 4 compare: those of ReLU networks, put together, and all of them read off models and data.

Letters: alpha = sum_k |u_k| a_k, beta the retentivity, ||X|| the norm of the data weighted with C^+.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, Literal

import torch
from torch import Tensor

from droptics.bounds import completion, data_norm, measured_rademacher, rademacher, relu
from droptics.coadaptation import retentivity, symmetrize
from droptics.data import Entries, Sample
from droptics.evidence.claims import Comparison, compare
from droptics.models import Factorization, ReLUNet
from droptics.papers.instances import normal, tensor, uniform


def generalization(symmetrized: bool, constant: float) -> list[Comparison]:
    """Theorem 19 at M = 2 with Theorem 12 for R_S, twice all of it when symmetrized, is at most what is stated.

    Stated are `constant` alpha ||X|| / n, over sqrt beta when not symmetrized, and the tail; the calculator of the
    library is the one put together.
    """
    found = []
    for alpha, norm, n, beta, risk, delta in ((1.0, 30.0, 900, 0.5, 0.1, 0.05), (2.5, 80.0, 4000, 0.2, 0.0, 0.3)):
        times, share = (2, 0.5) if symmetrized else (1, beta)
        complexity = 2 * alpha * norm / (n * math.sqrt(share))
        tail = math.sqrt(math.log(2 / delta) / (2 * n))
        whole = times * (risk + 4 * 2 * complexity + 3 * 2**2 * tail)
        kept = {"symmetrized": True} if symmetrized else {"retentivity": beta}
        bound = relu(alpha=alpha, norm=norm, examples=n, risk=risk, confidence=1 - delta, **kept)
        found.append(compare(bound.value, "==", whole, f"calculator, n={n}"))
        stated = times * (risk + 12 * tail) + constant * alpha * norm / n / (1.0 if symmetrized else math.sqrt(beta))
        found.append(compare(whole, "<=", stated, f"stated, n={n}"))
    rank, times = 561, 2048 if symmetrized else 512
    half = None if symmetrized else 0.5
    ours = relu(
        alpha=1.0, norm=math.sqrt(times) * rank, examples=times * rank, retentivity=half, symmetrized=symmetrized
    )
    found.append(compare(ours.terms["complexity"], "==", 1.0, f"complexity at n = {times} rank"))
    return [*found, *_of_a_network(symmetrized, constant)]


def _network(symmetrized: bool) -> tuple[ReLUNet, Sample, tuple[float, float, float]]:
    """A network, data of rank two in three columns, and their risk, flow and norm."""
    X, y, V, u = normal(1, 40, 3) + 0.2, normal(3, 40, 1).clamp(-1, 1), normal(4, 5, 3), normal(5, 5)
    X[:, 2] = X[:, 0] - X[:, 1]
    hidden = torch.stack([torch.relu(sign * X @ V.mT) for sign in ((1, -1) if symmetrized else (1,))])
    risk = ((hidden @ u).clamp(-1, 1) - y[:, 0]).square().mean()
    flow = u.abs() @ hidden.square().mean((0, 1)).sqrt()
    norm = torch.einsum("ni,ij,nj->", X, torch.linalg.pinv(X.mT @ X / len(X), rtol=1e-9), X).sqrt()
    return ReLUNet([V, u[None]]), Sample(X, y), (float(risk), float(flow), float(norm))


def _on_grid(alpha: float, delta: float) -> tuple[float, float]:
    """The next power 2^(j/4), and its share of delta: in proportion to 1/(1 + |j|)^2, all of them together one."""
    steps = math.ceil(4 * math.log2(alpha))
    return 2 ** (steps / 4), delta / ((math.pi**2 / 3 - 1) * (1 + abs(steps)) ** 2)


def complexity_of_a_network(side: Literal["upper", "lower"], constant: float) -> list[Comparison]:
    """The calculator of R_S for the class of a network: `constant` flow ||X||/n, from above over sqrt beta."""
    found = []
    for symmetrized, beta in ((False, 0.3), (False, 0.05), (False, 0.0), (True, 0.5)):
        net, data, (_, flow, norm) = _network(symmetrized)
        ours = rademacher(net, data, retentivity=beta, symmetrized=symmetrized, side=side)
        over = math.sqrt(beta) if side == "upper" else 1.0
        stated = constant * flow * norm / len(data) / over if over else math.inf
        found.append(compare(ours.value, "==", stated, f"of a network, {side}, beta={beta}"))
    return found


def plane_complexity(points: Tensor, law: Sample, directions: int = 4001) -> tuple[float, float]:
    """(1/n) E_zeta max over many directions v of |sum_i zeta_i relu(v.x_i)| / sqrt(E relu(v.x)^2), every pattern.

    And the least E relu(v.x)^2 / E (v.x)^2 of these directions.
    """
    angles = torch.linspace(0, 2 * math.pi, directions, dtype=torch.float64)
    turned = torch.stack([angles.cos(), angles.sin()], 1)
    shares = torch.ones(len(law)).double() if law.weights is None else law.weights
    outputs = turned @ law.inputs.mT
    after, before = (part.square() @ (shares / shares.sum()) for part in (torch.relu(outputs), outputs))
    active = after > 0
    hidden = torch.relu(turned[active] @ points.mT) / after[active, None].sqrt()
    signs = torch.cartesian_prod(*[tensor([1.0, -1.0])] * (len(points) - 1))  # the first is 1: |.| is even
    sums = hidden[:, :1] + hidden[:, 1:] @ signs.mT
    return float(sums.abs().amax(0).mean() / len(points)), float((after / before).min())


def line_complexity(points: Tensor, law: Tensor) -> float:
    """(1/n) E_zeta max over both signs of v of |sum_i zeta_i relu(v x_i)| / sqrt(E relu(v x)^2), every pattern."""
    total, n = 0.0, len(points)
    for signs in itertools.product((1.0, -1.0), repeat=n):
        total += max(
            float((tensor(signs) @ torch.relu(side * points)).abs() / torch.relu(side * law).square().mean().sqrt())
            for side in (1, -1)
        )
    return total / 2**n / n


def complexity_of_samples(constant: float) -> list[Comparison]:
    """R_S of samples that are not the law: constant alpha ||X|| / (n sqrt(beta)), ||X|| weighted with C^+ of the law.

    One point at 1, P(x = 1) = beta, P(x = -1) = 1 - beta: there R_S is alpha/sqrt(beta). Five points in the plane, the
    law 12 others of unequal probabilities; a sweep over a tenth of the directions finds a millionth less.
    """
    found, alpha = [], 1.5
    for beta, count in ((0.05, 20), (0.2, 5)):
        line, one = tensor([[1.0]] + [[-1.0]] * (count - 1)), tensor([[1.0]])
        weighted = Sample(line[:2], line[:2], tensor([beta, 1 - beta]))
        wanted = alpha / math.sqrt(beta)
        found.append(compare(alpha * line_complexity(one, line), "==", wanted, f"one point, beta={beta}"))
        ours = measured_rademacher(Sample(one, one), alpha=alpha, population=weighted)
        found.append(compare(ours, "==", wanted, f"one point by the library, beta={beta}"))
        found.append(compare(wanted, "<=", constant * alpha / math.sqrt(beta), f"one point, bound, beta={beta}"))
    X, points, weights = 0.4 + normal(5, 12, 2), normal(8, 5, 2), 0.2 + uniform(6, 12)
    law, S = Sample(X, X, weights), Sample(points, points)
    swept, beta = plane_complexity(points, law, 40_001)
    ours = measured_rademacher(S, alpha=alpha, population=law)
    found.append(compare(ours, ">=", alpha * swept, "five points, some directions"))
    found.append(compare(ours, "<=", 1.001 * alpha * swept, "and all of them"))
    C = X.mT @ (weights[:, None] / weights.sum() * X)
    norm = float((torch.linalg.solve(C, points.mT) * points.mT).sum().sqrt())
    found.append(compare(data_norm(S, C), "==", norm, "norm of the points under the law"))
    limit = alpha * norm / (len(points) * math.sqrt(beta))
    told = rademacher(alpha=alpha, norm=data_norm(S, C), examples=len(points), retentivity=beta)
    found.append(compare(told.value, "==", 2 * limit, "bound of five points"))
    found.append(compare(ours, "<=", constant * limit, "five points"))
    return found


def completion_of_ratings(constant: float) -> list[Comparison]:
    """The calculator that reads factors and ratings: Lhat(U, V) without clipping, alpha = d1 R on its grid.

    R = sum_k (sum_i p_i U_ik^2)(sum_j q_j V_jk^2) with shares p, q of the ratings, mixed with uniform ones; more rows
    than columns and fewer, rows without ratings, predictions beyond 1.
    """
    found = []
    for seed, (rows, columns), smoothing in ((1, (9, 4), None), (2, (4, 7), 0.25), (3, (5, 5), 0.0)):
        U, V, n, delta = 1.2 * normal(seed, rows, 3), normal(seed + 1, columns, 3), 12, 0.1
        i = (torch.arange(n) * 5) % (rows - 1)
        j, y = (torch.arange(n) ** 2) % columns, normal(seed + 2, n).clamp(-1, 1)
        kept = 0.5 if smoothing is None else smoothing
        p, q = (
            tensor([(1 - kept) * int((index == k).sum()) / n + kept / size for k in range(size)])
            for index, size in ((i, rows), (j, columns))
        )
        alpha, part = _on_grid(3 * float(((p @ U.square()) * (q @ V.square())).sum()), delta)
        risk = float(((U @ V.mT)[i, j] - y).square().mean())
        long, short = max(rows, columns), min(rows, columns)
        size, ratio = long * math.log(long), math.log(long + short) / math.log(long)
        K = math.sqrt(2 * ratio) + ratio * (short / long) ** 0.25 / 3
        if kept:
            K = math.sqrt(2 * ratio) / (1 - kept) + ratio * math.sqrt(short * math.log(long) / n) / (3 * kept)
        tail = 4 * math.sqrt(math.log(2 / part) / (2 * n))
        model, data = Factorization(U, V), Entries(i, j, y, (rows, columns))
        bound = completion(model, data, smoothing=smoothing, confidence=1 - delta)
        parts = [risk, constant * K * math.sqrt(alpha * size / n), tail]
        found.append(compare(list(bound.terms.values()), "==", parts, f"of ratings, {rows} x {columns}"))
        printed = completion(model, data, smoothing=smoothing, confidence=1 - delta, printed=True)
        stated = risk + constant * math.sqrt((2 * alpha * size + math.log(2 / part) / 4) / n)
        found.append(compare(printed.value, "==", stated, f"of ratings as printed, {rows} x {columns}"))
    return found


def _of_a_network(symmetrized: bool, constant: float) -> list[Comparison]:
    """The calculator that reads a network and data: risk, alpha and norm from their definitions, rank two in three.

    Symmetrized, risk and a_k are means over both signs of the inputs. An alpha that is read is the next power 2^(j/4),
    with a share of delta in proportion to 1/(1 + |j|)^2; some outputs are cut. Weak weights have j < 0.
    """
    net, data, (risk, flow, norm) = _network(symmetrized)
    delta, beta, n = 0.1, 0.3, len(data)
    times, share = (2, 0.5) if symmetrized else (1, beta)
    kept: dict[str, Any] = {"symmetrized": True} if symmetrized else {"retentivity": beta}
    found = []
    if symmetrized:
        plain = float((net.outputs(data.inputs).clamp(-1, 1) - data.targets).square().mean())
        found.append(compare(plain, "<=", 2 * risk, "risk and twice the symmetrized risk"))
        both = retentivity(symmetrize(Sample(data.inputs[:, :2], data.targets)))
        found.append(compare(float(both), "==", 0.5, "retentivity of both signs"))
    for label, (alpha, part), given in (("read", _on_grid(flow, delta), None), ("given", (1.7, delta), 1.7)):
        tail = times * 12 * math.sqrt(math.log(2 / part) / (2 * n))
        parts = [times * risk, times * 8 * 2 * alpha * norm / (n * math.sqrt(share)), tail]
        bound = relu(net, data, alpha=given, confidence=1 - delta, **kept)
        found.append(compare(list(bound.terms.values()), "==", parts, f"of a network, alpha {label}"))
        least = n * ((parts[1] + parts[2]) / (4 - parts[0])) ** 2
        found.append(compare(bound.needed["examples"], "==", least, f"examples for a bound of 4, alpha {label}"))
        parts[1] = constant * alpha * norm / n / (1.0 if symmetrized else math.sqrt(beta))
        printed = relu(net, data, alpha=given, confidence=1 - delta, printed=True, **kept)
        found.append(compare(printed.value, "==", sum(parts), f"of a network as printed, alpha {label}"))
    alpha, part = _on_grid(0.02 * flow, delta)
    weak = relu(ReLUNet([net.weights[0], 0.02 * net.weights[1]]), data, confidence=1 - delta, **kept).terms
    gaps = [times * 8 * 2 * alpha * norm / (n * math.sqrt(share)), times * 12 * math.sqrt(math.log(2 / part) / (2 * n))]
    found.append(compare([weak["complexity"], weak["confidence"]], "==", gaps, "of weak weights"))
    return found


def generalization_is_vacuous(symmetrized: bool) -> list[Comparison]:
    """60,000 images of rank 561 with alpha = 1, the least a fitted +-1 problem allows: no better than predicting 0."""
    norm = math.sqrt(60_000 * 561)
    beta = None if symmetrized else 0.5
    bound = relu(alpha=1.0, norm=norm, examples=60_000, risk=0.0, retentivity=beta, symmetrized=symmetrized)
    return [compare(bound.value, ">=", 1.0, "bound on a loss that predicting 0 brings to 1")]
