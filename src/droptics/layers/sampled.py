"""The penalty of a head by masks of the head alone, and how far apart its predictions are under two of them."""

from __future__ import annotations

import torch
from torch import Tensor


def drawn_penalties(
    features: Tensor, outputs: Tensor, masked: Tensor, drop: float, count: int
) -> tuple[Tensor, Tensor]:
    """What `count` masks add to the cross-entropy of every example, and the log-probabilities under each of them.

    Mean over masks that one uniform number per unit gives by rotation: each is Bernoulli, together they cancel. The
    part linear in the mask has mean zero and is taken out, with its gradient.
    """
    uniform = torch.rand_like(features).unsqueeze(-2)
    turns = torch.arange(count, dtype=features.dtype, device=features.device).unsqueeze(-1) / count
    kept = (uniform + turns) % 1 >= drop
    moves = (features.unsqueeze(-2) * (kept / (1 - drop) - 1).to(features)) @ masked.mT
    drawn = outputs.unsqueeze(-2) + moves
    chances = outputs.softmax(-1).unsqueeze(-2)
    added = torch.logsumexp(drawn, -1) - torch.logsumexp(outputs, -1, keepdim=True) - (chances * moves).sum(-1)
    return added.mean(-1), torch.log_softmax(drawn, -1)


def divergences(logs: Tensor) -> Tensor:
    """`ExplicitDropout.consistencies` of log-probabilities (..., masks, classes)."""
    count, chances = logs.shape[-2], logs.exp()
    own = (chances * logs).sum((-2, -1))
    mixed = (chances.sum(-2) * logs.sum(-2)).sum(-1)
    return (count * own - mixed) / (count * (count - 1))
