"""What a claim compares: the optimum from a Krylov basis against that of all singular values."""

from __future__ import annotations

import torch

from droptics.evidence.claims import Comparison, compare
from droptics.masks import Bernoulli
from droptics.optima import optimum_of_map
from droptics.papers.instances import normal


def leading_values(power: float) -> list[Comparison]:
    """The optimum from a Krylov basis against that of all singular values."""
    left, right = (torch.linalg.qr(normal(seed, size, 40)).Q for seed, size in ((1, 500), (2, 450)))
    values = torch.linspace(3.0, 0.1, 40, dtype=torch.float64)
    found = []
    for width, drop in ((3, 0.5), (12, 0.2), (30, 0.7)):
        lam = drop / (1 - drop) / width
        # the rank with the least value, and the values cut there
        best, rank = min(
            (float(values[k:].square().sum() + lam * values[:k].sum() ** 2 / (1 + lam * k)), k)
            for k in range(1, width + 1)
            if values[k - 1] > lam * values[:k].sum() / (1 + lam * k)
        )
        kept = values[:rank] - lam * values[:rank].sum() / (1 + lam * rank)
        for tall in (True, False):
            turned = (left, right) if tall else (right, left)
            ours = optimum_of_map((turned[0] * values**power) @ turned[1].mT, Bernoulli(drop, width))
            name = f"width {width}, tall {tall}"
            found.append(compare(ours.objective, "==", best, name, precision=1e-8))
            found.append(compare(ours.bound, "<=", best, f"bound, {name}"))
            found.append(compare(ours.bound, ">=", best - 1e-8 * best, f"bound from below, {name}"))
            found.append(compare(ours.rank, "==", rank, f"rank, {name}"))
            # the network itself: its singular vectors, what is kept of the values, and units of one size
            U, V = ours.model.tensors
            map_ = (turned[0][:, :rank] * kept) @ turned[1][:, :rank].mT
            found.append(compare(U @ V.mT, "==", map_, f"map, {name}", precision=1e-5))
            sizes = U.square().sum(0).sqrt() * V.square().sum(0).sqrt()
            found.append(compare(sizes, "==", kept.sum() / width, f"units, {name}", precision=1e-6))
    return found
