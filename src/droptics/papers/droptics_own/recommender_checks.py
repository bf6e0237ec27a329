"""What the claims on recommenders compare: closed forms against all masks."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from droptics.evidence.claims import Comparison, compare
from droptics.papers.instances import normal
from droptics.recommenders import DropoutAutoencoder


def input_dropout(wrong: float) -> list[Comparison]:
    """Gradients of the masked losses, by all masks, at the closed forms; `wrong` scales the weights."""
    found = []
    drop, ridge = 0.35, 0.8
    x = normal(3, 11, 6) * (normal(4, 11, 6) > -0.5)
    for diagonal in ("free", "zero"):
        model = DropoutAutoencoder(drop, ridge, diagonal, feedback="graded", dtype="float64").fit_gram(x.mT @ x)
        weights = wrong * torch.from_numpy(model.weights())
        weights.requires_grad_()
        loss = _masked(x, weights, drop, diagonal == "zero")
        loss = loss + (drop if diagonal == "zero" else 1.0) * ridge * weights.square().sum()
        (gradient,) = torch.autograd.grad(loss, weights)
        if diagonal == "zero":
            gradient = gradient - torch.diag(gradient.diagonal())
        found.append(compare(gradient.abs().max() / loss.detach(), "<=", torch.tensor(1e-10), f"{diagonal} diagonal"))
    return found


def _masked(x: Tensor, weights: Tensor, drop: float, dropped_only: bool) -> Tensor:
    total = torch.zeros((), dtype=x.dtype)
    for bits in itertools.product((0.0, 1.0), repeat=x.shape[1]):
        z = torch.tensor(bits, dtype=x.dtype)
        error = (x - (x * z / (1 - drop)) @ weights).square()
        kept = sum(bits)
        chance = (1 - drop) ** kept * drop ** (len(bits) - kept)
        total = total + chance * ((1 - z) * error if dropped_only else error).sum()
    return total
