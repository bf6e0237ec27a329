"""What the claim on roots compares: their derivatives beside differences of roots by eigenvectors."""

from __future__ import annotations

import numpy as np
import torch

from droptics.evidence.claims import Comparison, compare
from droptics.linalg import psd_inverse_root, psd_root
from droptics.papers.instances import normal, second_moment


def root_slopes(order: float) -> list[Comparison]:
    """Derivatives of the root and the inverse root of a second moment against differences of roots by eigenvectors."""
    step, found = 1e-5, []
    equal = 2 * torch.eye(3, dtype=torch.float64)  # all values alike: no eigenvector is known
    for seed, matrix in (
        (2, second_moment(1, 4) + torch.eye(4)),
        (5, second_moment(4, 3) + 0.3 * torch.eye(3)),
        (8, equal),
    ):
        change, weight = normal(seed, *matrix.shape), normal(seed + 1, *matrix.shape)
        even = (change + change.mT) / 2  # of a change that is not symmetric only this part moves the root
        for name, root, power in (("root", psd_root, 0.5), ("inverse root", psd_inverse_root, -0.5)):
            ends = []
            for sign in (1, -1):
                values, vectors = np.linalg.eigh((matrix + sign * step * even).numpy())
                ends.append(torch.from_numpy(vectors * values**power @ vectors.T))
            apart = (ends[0] - ends[1]) / (order * step)
            size, label = float(apart.abs().max()), f"{name}, {len(matrix)}, {seed}"
            slope = torch.func.jvp(root, (matrix,), (change,))[1]
            found.append(compare(slope, "==", apart, label, precision=1e-7, scale=size))
            leaf = matrix.clone().requires_grad_()
            (back,) = torch.autograd.grad((root(leaf) * weight).sum(), leaf)
            found.append(
                compare((back * change).sum(), "==", (apart * weight).sum(), f"back, {label}", 1e-7, 10 * size)
            )
    return [*found, *_turned(2.0 / order)]


def _turned(scale: float) -> list[Comparison]:
    """Where a moment of any rank turns as a whole, S' = A S - S A for a skew A, its root and inverse root do."""
    found = []
    for size, rank in ((4, 2), (3, 1), (3, 3)):
        half, skew = normal(size, size, rank), normal(rank, size, size)
        moment, skew = half @ half.mT, skew - skew.mT
        left, values, _ = torch.linalg.svd(half, full_matrices=False)
        for name, root, power in (("root", psd_root, 1.0), ("inverse root", psd_inverse_root, -1.0)):
            turned = (left * values**power) @ left.mT
            told = torch.func.jvp(root, (moment,), (skew @ moment - moment @ skew,))[1]
            wanted = scale * (skew @ turned - turned @ skew)
            found.append(compare(told, "==", wanted, f"turned {name}, rank {rank} of {size}", 1e-8))
    return found
