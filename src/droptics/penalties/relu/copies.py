"""Copies of hidden units, which share one binomial count: equal weights, bias and rate."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from droptics.masks import Bernoulli, MaskLaw
from droptics.penalties.relu.outcomes import Coins

PIECE = 64


def label_copies(before: Tensor, bias: Tensor, after: Tensor, drop: Tensor | None) -> Tensor:
    """Group label of every unit: copies have equal incoming and outgoing weights, bias and rate."""
    if drop is None:
        return torch.arange(len(bias))
    # the wider weights of units that agree in all else are compared with those of the first of them, in small pieces
    axis = int(before.shape[1] < len(after))
    narrow, wide = (before, after.detach().numpy()) if axis else (after.mT, before.detach().numpy())
    labels = label_rows(torch.cat([narrow, bias[:, None], drop[:, None]], 1).detach())
    first = np.unique(labels.numpy(), return_index=True)[1][labels.numpy()]
    parts = [slice(start, start + PIECE) for start in range(0, len(wide), PIECE)]
    those = (wide[part].take(first, 1) if axis else wide.take(first[part], 0) for part in parts)
    if int(labels.max()) + 1 == len(labels) or all(map(np.array_equal, (wide[part] for part in parts), those)):
        return labels
    rest = torch.from_numpy(wide.T if axis else wide)
    return label_rows(torch.cat([labels[:, None].to(rest), rest], 1))


def label_rows(rows: Tensor) -> Tensor:
    """Label of every row, equal rows share one; labels in order of appearance."""
    seen: dict[bytes, int] = {}
    # adding zero turns -0.0 into 0.0, which has the same value but other bytes
    return torch.tensor([seen.setdefault(row.tobytes(), len(seen)) for row in rows.numpy() + 0.0], dtype=torch.long)


def sum_copies(tensor: Tensor, group: Tensor, groups: int) -> Tensor:
    """Sums over copies along the last dimension."""
    if groups == len(group):
        return tensor
    return tensor.new_zeros(*tensor.shape[:-1], groups).index_add(-1, group, tensor)


def mean_copies(tensor: Tensor, group: Tensor, dim: int) -> Tensor:
    """Mean over copies: their common value, with the gradient shared equally."""
    counts = torch.bincount(group)
    if len(counts) == len(group):
        return tensor
    shape = list(tensor.shape)
    shape[dim] = len(counts)
    view = [1] * tensor.ndim
    view[dim] = -1
    return tensor.new_zeros(shape).index_add(dim, group, tensor) / counts.double().reshape(view)


def coins_of(law: MaskLaw, group: Tensor) -> Coins | MaskLaw:
    """One coin per group of copies, where the units have coins of their own; any other law as it is."""
    if not isinstance(law, Bernoulli):
        return law
    drop = law.drop.detach().cpu().numpy()
    counts = torch.bincount(group).numpy()
    rates = np.zeros(len(counts))
    rates[group.numpy()] = drop
    return Coins(counts, rates)
