"""What the claims on the surveyed bounds (1.1) to (1.4) compare: the library's expressions against their formulas."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from droptics.bounds import surveyed
from droptics.evidence.claims import Comparison, compare
from droptics.papers.instances import normal
from droptics.papers.thesis.chapter3_checks import network, path_power

INSTANCES = (((4, 3, 2, 5), 50), ((3, 6, 2), 1), ((2, 1, 9), 700), ((3, 2, 4, 3, 2, 3), 9), ((1, 3, 2), 5))
Formula = Callable[[Sequence[Tensor]], float]


def norms(weights: Sequence[Tensor]) -> tuple[list[float], list[float]]:
    """Spectral norms from the eigenvalues of W W^T, and Frobenius norms entry by entry."""
    spectral = [math.sqrt(float(torch.linalg.eigvalsh(w @ w.mT)[-1])) for w in weights]
    return spectral, [math.sqrt(sum(x * x for x in w.flatten().tolist())) for w in weights]


def by_spectral(weights: Sequence[Tensor], rows: bool = True) -> float:
    """(1.2): prod ||W_i||_2 (sum_i (||W_i^T||_{2,1}/||W_i||_2)^(2/3))^(3/2); without `rows` of W_i for W_i^T."""
    spectral, _ = norms(weights)
    groups = [sum(math.hypot(*line) for line in (w if rows else w.mT).tolist()) for w in weights]
    return math.prod(spectral) * sum((g / s) ** (2 / 3) for g, s in zip(groups, spectral, strict=True)) ** 1.5


def by_pac_bayes(weights: Sequence[Tensor], every: bool = False) -> float:
    """(1.3): prod ||W_i||_2 (d k^2 sum_i ||W_i||_F^2/||W_i||_2^2)^(1/2); with `every` d is the widest of all layers."""
    spectral, frobenius = norms(weights)
    hidden = len(weights) - 1
    widest = max(w.shape[0] for w in (weights if every else weights[:-1]))
    ratio = sum(f**2 / s**2 for f, s in zip(frobenius, spectral, strict=True))
    return math.prod(spectral) * math.sqrt(widest * hidden**2 * ratio)


def by_frobenius(weights: Sequence[Tensor], more: int = 0) -> float:
    """(1.4): sqrt k prod ||W_i||_F; `more` counts further layers than the hidden ones."""
    return math.sqrt(len(weights) - 1 + more) * math.prod(norms(weights)[1])


def expressions(name: str, formula: Formula) -> list[Comparison]:
    """The library's expression against its formula, one to four hidden layers, the outputs widest in two of them."""
    found = []
    for seed, (sizes, n) in enumerate(INSTANCES):
        weights = network(seed, sizes)
        value = surveyed(weights, examples=n)[name].value
        found.append(compare(value, "==", formula(weights) / math.sqrt(n), f"sizes {sizes}, n={n}"))
    return found


def by_paths(exponent: Callable[[float], float]) -> list[Comparison]:
    """(1.1): sqrt((2 d^exponent(p))^(2k) psi_p^2 log d0/n) with the path norm psi_p summed path by path."""
    found = []
    for seed, (sizes, n) in enumerate(INSTANCES):
        weights, widest, hidden = network(seed, sizes), max(sizes[1:-1]), len(sizes) - 2
        for power in (2.0, 4.0, 1.0):
            paths = path_power(weights, power) ** (2 / power)
            stated = math.sqrt((2 * widest ** exponent(power)) ** (2 * hidden) * paths * math.log(max(sizes[0], 2)) / n)
            value = surveyed(weights, examples=n, power=power)["path norm"].value
            found.append(compare(value, "==", stated, f"p={power}, sizes {sizes}, n={n}"))
    return found


def random_signs(unit: float) -> list[Comparison]:
    """Rademacher complexity of one ReLU with l_p path norm one on inputs of signs, at least so much, against (1.1).

    As relu(u) - relu(-u) = u it is at least E ||sum_i s_i x_i||_{p*}/(2n), here over all signs s of eight examples. The
    inputs have p*-norm one (`unit` one), or entries one and, at p = 4, as many unit vectors as entries (zero).
    """
    found = []
    signs = torch.tensor(list(itertools.product((-1.0, 1.0), repeat=8))).double()
    for size, power in itertools.product((2, 16, 256, 4096), (1.0, 1.5, 2.0)):
        root = 1 - 1 / power
        inputs = torch.sign(normal(size, 8, size)) / size ** (unit * root)
        sums = torch.linalg.vector_norm(signs @ inputs, 1 / root if root else math.inf, dim=1)
        found.append(_stays_below(float(sums.mean()) / 16, size, 8, power))
    if not unit:
        found.append(_stays_below(0.5 * 65_536**-0.25, 65_536, 65_536, 4.0))
    return found


def _stays_below(complexity: float, size: int, n: int, power: float) -> Comparison:
    first = torch.zeros(1, size).double()
    first[0, 0] = 1.0
    stated = surveyed([first, torch.ones(1, 1).double()], examples=n, power=power)["path norm"].value
    return compare(complexity, "<=", stated, f"one unit, p={power}, {size} inputs, n={n}")
