"""What the claims of Pal et al. 2020 on optima and envelopes compare: library optima against descent."""

from __future__ import annotations

import torch
from torch import Tensor

from droptics.data import Moments
from droptics.envelopes import envelope, induced
from droptics.evidence.claims import Comparison, Relation, compare
from droptics.linalg import k_support_shrink
from droptics.masks import Block
from droptics.models import TwoLayerLinear
from droptics.norms import k_support
from droptics.optima import optimum
from droptics.papers.instances import descend, normal, tensor, two_layer


def block_norms(model: TwoLayerLinear, block: int) -> Tensor:
    """||U_I V_I^T||_F of every block."""
    parts = zip(model.U.split(block, -1), model.V.split(block, -1), strict=True)
    return torch.stack([(U @ V.mT).norm() for U, V in parts])


def balanced(optimal: bool) -> list[Comparison]:
    """An optimum is balanced: every block product has norm ||A*||_(r) / k."""
    found = []
    for spectrum, block, blocks, drop in (
        ((3.0, 1.0), 2, 1, 0.5),
        ((2.0, 1.5, 1.0), 2, 4, 0.4),
        ((1.5, 1.0), 1, 3, 0.3),
    ):
        data, masks = Moments.of_map(torch.diag(tensor(spectrum))), Block(drop, block * blocks, block)
        size = len(spectrum)
        model = optimum(TwoLayerLinear, data, masks).model if optimal else two_layer(3, size, size, block * blocks)
        assert isinstance(model, TwoLayerLinear)
        common = k_support(torch.linalg.svdvals(model.matrix()), block) / blocks
        found.append(compare(block_norms(model, block), "==", common, f"block norms, r={block}", precision=1e-7))
    return found


def tight(spectrum: tuple[float, ...], block: int, blocks: int, beta: float) -> list[Comparison]:
    """Least non-convex objective at this width against the convex bound F*."""
    s, lam = tensor(spectrum), beta * blocks
    x = k_support_shrink(s, beta, block)
    convex = (s - x).square().sum() + beta * k_support(x, block) ** 2

    def objective(U: Tensor, V: Tensor) -> Tensor:
        parts = zip(U.split(block, -1), V.split(block, -1), strict=True)
        added = sum(((A @ B.mT).square().sum() for A, B in parts), torch.zeros(()))
        return (torch.diag(s) - U @ V.mT).square().sum() + lam * added

    width = block * blocks
    best, _ = descend(objective, [(len(s), width), (len(s), width)], starts=3)
    return [compare(best, "==", convex, f"least objective, d={width}", precision=1e-6)]


def convexity_fails(sign: float) -> list[Comparison]:
    """The printed remark: somewhere the value at a midpoint exceeds the mean of the values."""
    excess = []
    for seed in range(30):
        A, B = normal(seed, 3, 3), normal(seed + 50, 3, 3)
        ends, middle = [sign * float(k_support(torch.linalg.svdvals(M), 2)) ** 2 for M in (A, B)], (A + B) / 2
        excess.append(sign * float(k_support(torch.linalg.svdvals(middle), 2)) ** 2 - sum(ends) / 2)
    return [compare(max(excess), ">", 0.0, "largest excess of a midpoint over the mean")]


def free_width(relation: Relation) -> list[Comparison]:
    """With enough blocks the least penalty of a map is its convex envelope (gamma/k) ||A||_(r)^2."""
    found = []
    for seed, block, blocks, drop in ((1, 2, 4, 0.4), (2, 1, 4, 0.6), (3, 3, 4, 0.3)):
        model = TwoLayerLinear(normal(seed, 3, block * blocks), normal(seed + 1, 4, block * blocks))
        data, masks = Moments.of_map(normal(5, 3, 4)), Block(drop, block * blocks, block)
        stated = drop / (1 - drop) / blocks * k_support(torch.linalg.svdvals(model.matrix()), block) ** 2
        found.append(
            compare(induced(model, data, masks), relation, stated, f"least penalty, r={block}", precision=1e-7)
        )
        found.append(compare(envelope(model, data, masks), "==", stated, f"envelope, r={block}", precision=1e-7))
    return found
