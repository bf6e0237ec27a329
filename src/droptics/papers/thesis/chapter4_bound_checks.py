"""What bounds of chapter 4 compare: those of ReLU networks, put together, and all of them read off models and data.

Letters: alpha = sum_k |u_k| a_k, beta the retentivity, ||X|| the norm of the data weighted with C^+.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import torch

from droptics.bounds import completion, rademacher, relu
from droptics.data import Entries, Sample
from droptics.evidence.claims import Comparison, compare
from droptics.models import Factorization, ReLUNet
from droptics.papers.instances import normal, tensor


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
    with a share of delta in proportion to 1/(1 + |j|)^2; some outputs are cut.
    """
    net, data, (risk, flow, norm) = _network(symmetrized)
    delta, beta, n = 0.1, 0.3, len(data)
    times, share = (2, 0.5) if symmetrized else (1, beta)
    kept: dict[str, Any] = {"symmetrized": True} if symmetrized else {"retentivity": beta}
    found = []
    for label, (alpha, part), given in (("read", _on_grid(flow, delta), None), ("given", (1.7, delta), 1.7)):
        tail = times * 12 * math.sqrt(math.log(2 / part) / (2 * n))
        parts = [times * risk, times * 8 * 2 * alpha * norm / (n * math.sqrt(share)), tail]
        bound = relu(net, data, alpha=given, confidence=1 - delta, **kept)
        found.append(compare(list(bound.terms.values()), "==", parts, f"of a network, alpha {label}"))
        parts[1] = constant * alpha * norm / n / (1.0 if symmetrized else math.sqrt(beta))
        printed = relu(net, data, alpha=given, confidence=1 - delta, printed=True, **kept)
        found.append(compare(printed.value, "==", sum(parts), f"of a network as printed, alpha {label}"))
    return found


def generalization_is_vacuous(symmetrized: bool) -> list[Comparison]:
    """60,000 images of rank 561 with alpha = 1, the least a fitted +-1 problem allows: no better than predicting 0."""
    norm = math.sqrt(60_000 * 561)
    beta = None if symmetrized else 0.5
    bound = relu(alpha=1.0, norm=norm, examples=60_000, risk=0.0, retentivity=beta, symmetrized=symmetrized)
    return [compare(bound.value, ">=", 1.0, "bound on a loss that predicting 0 brings to 1")]
