"""What the claims of chapter 4 on contractions of Rademacher complexities compare: clipping and the squared loss.

R_S of finite classes, every pattern of signs listed.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch

from droptics.evidence.claims import Comparison, compare
from droptics.papers.instances import normal


def _best_sums(signs: Sequence[float], outputs: Sequence[Sequence[float]]) -> float:
    return max(sum(s * v for s, v in zip(signs, values, strict=True)) for values in outputs)


def _complexity(outputs: Sequence[Sequence[float]]) -> float:
    n = len(outputs[0])
    patterns = list(itertools.product((1.0, -1.0), repeat=n))
    return sum(_best_sums(signs, outputs) for signs in patterns) / len(patterns) / n


def loss_contraction(factor: float) -> list[Comparison]:
    """R_S of the losses (y - g)^2 against factor R_S of g in [-1, 1]: constants at labels +1 and -1, random classes.

    Two members near -y, where the slope is 4, reach 3.99; one to five examples, labels all equal among them.
    """
    classes = [([1.0, -1.0], [[g, g] for g in (-1.0, -0.5, 0.0, 0.5, 1.0)])]
    classes += [([y], [[-y], [-0.99 * y]]) for y in (1.0, -1.0)]
    for seed in range(8):
        examples = seed % 5 + 1
        labels = torch.sign(normal(seed, examples)).tolist() if seed else [1.0]
        classes.append((labels, (1.5 * normal(seed + 9, 6, examples)).clamp(-1, 1).tolist()))
    found = []
    for labels, members in classes:
        losses = [[(y - g) ** 2 for y, g in zip(labels, member, strict=True)] for member in members]
        label = f"{len(members)} members, {len(labels)} examples"
        found.append(compare(_complexity(losses), "<=", factor * _complexity(members), label))
    return found


def clipping(slope: float) -> list[Comparison]:
    """Clipping to [-1, 1] does not increase R_S, whether few or most outputs are cut; a steeper ramp does.

    Any outputs, with and without their negatives, and those of networks of F_alpha, alpha = 1.
    """
    found = []
    for seed, size in itertools.product(range(4), (0.3, 1.0, 2.0)):
        outputs = (size * normal(seed, 6, seed + 2)).tolist()
        outputs += [[-v for v in row] for row in outputs] if seed % 2 else []
        found.append(_clipped(outputs, slope, f"size {size}, {seed + 2} examples"))
    for seed in range(3):
        X, V, u = 2 * normal(seed, 5, 2), normal(seed + 1, 20, 3, 2), normal(seed + 2, 20, 3)
        hidden = torch.relu(torch.einsum("ni,gki->gnk", X, V))
        flow = (u.abs() * hidden.square().mean(1).sqrt()).sum(1, keepdim=True)
        found.append(_clipped(torch.einsum("gnk,gk->gn", hidden, u / flow).tolist(), slope, "networks of F_1"))
    return found


def _clipped(outputs: Sequence[Sequence[float]], slope: float, label: str) -> Comparison:
    clipped = [[max(-1.0, min(1.0, slope * v)) for v in row] for row in outputs]
    return compare(_complexity(clipped), "<=", _complexity(outputs), f"after clipping, {label}")
