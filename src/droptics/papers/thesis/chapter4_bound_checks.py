"""What Corollaries 2 and 3 of chapter 4 compare: risk bounds of ReLU networks, put together and read off data.

Letters: alpha = sum_k |u_k| a_k, beta the retentivity, ||X|| the norm of the data weighted with C^+.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from droptics.bounds import relu
from droptics.data import Sample
from droptics.evidence.claims import Comparison, compare
from droptics.models import ReLUNet
from droptics.papers.instances import normal


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


def _of_a_network(symmetrized: bool, constant: float) -> list[Comparison]:
    """The calculator that reads a network and data: risk, alpha and norm from their definitions, rank two in three.

    Symmetrized, risk and a_k are means over both signs of the inputs. An alpha that is read is the next power 2^(j/4),
    with a share of delta in proportion to 1/(1 + |j|)^2; some outputs are cut.
    """
    X, y, V, u = normal(1, 40, 3) + 0.2, normal(3, 40, 1).clamp(-1, 1), normal(4, 5, 3), normal(5, 5)
    X[:, 2] = X[:, 0] - X[:, 1]
    delta, beta, n = 0.1, 0.3, len(X)
    times, share, signs = (2, 0.5, (1, -1)) if symmetrized else (1, beta, (1,))
    hidden = torch.stack([torch.relu(sign * X @ V.mT) for sign in signs])
    risk = float(((hidden @ u).clamp(-1, 1) - y[:, 0]).square().mean())
    flow = float(u.abs() @ hidden.square().mean((0, 1)).sqrt())
    norm = float(torch.einsum("ni,ij,nj->", X, torch.linalg.pinv(X.mT @ X / n, rtol=1e-9), X).sqrt())
    steps = math.ceil(4 * math.log2(flow))
    net, data = ReLUNet([V, u[None]]), Sample(X, y)
    kept: dict[str, Any] = {"symmetrized": True} if symmetrized else {"retentivity": beta}
    found = []
    for label, alpha, given in (("read", 2 ** (steps / 4), None), ("given", 1.7, 1.7)):
        part = delta if given else delta / ((math.pi**2 / 3 - 1) * (1 + abs(steps)) ** 2)
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
