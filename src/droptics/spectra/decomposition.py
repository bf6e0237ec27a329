"""The leading singular triples of a matrix that a law keeps, with their shrunk values.

Small problems are worked out in NumPy, whose calls are several times cheaper than torch's.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from droptics.arrays import Array
from droptics.linalg.leading import leading_eigen
from droptics.spectra.actions import Action
from droptics.spectra.roots import EPS

# Left vectors from the Gram matrix are good when no kept value is below this share of the largest.
GRAM_SHARE = 1e-4


class Shrunk(NamedTuple):
    """What a law keeps of a matrix T: left diag(values) right^T, and the least of ||T - A||^2 + penalty over all A."""

    left: Any
    values: Any
    right: Any
    least: float


def kept_values(action: Action, values: Array) -> tuple[Array, float]:
    """`Action.shrink` without what is left of values at rounding level, which is no direction."""
    kept, penalty = action.shrink_array(values)
    # a tied network may have no positive value at all
    return kept[kept > len(values) * EPS * max(float(values[0]), 0.0)] if len(values) else kept, penalty


def shrunk_svd(target: Tensor | Array, action: Action) -> Shrunk:
    """Leading singular vectors of the target, its shrunk values, and the least of ||T - A||^2 + penalty.

    Through the smaller Gram matrix, at half the cost of an SVD, whenever the values that are kept are not tiny; their
    norms are then measured again on the target. Float64 inside, on the device of the target; an array gives arrays.
    """
    flip = target.shape[0] < target.shape[1]
    if isinstance(target, np.ndarray):
        first, kept, second, least = _in_numpy(target.T if flip else target, action)
    else:
        work = target.detach().double()
        route = _on_cpu if work.device.type == "cpu" else _elsewhere
        first, kept, second, least = route(work.mT if flip else work, action)
    return Shrunk(second, kept, first, least) if flip else Shrunk(first, kept, second, least)


def least_of(target: Tensor, action: Action) -> float:
    """`Shrunk.least` alone, without singular vectors where eigenvalues of the smaller Gram matrix are good."""
    if target.device.type == "cpu":
        work = target.detach().double().numpy()
        gram = work @ work.T if len(work) < work.shape[1] else work.T @ work
        values = np.sqrt(np.maximum(np.linalg.eigvalsh(gram)[::-1][: action.size], 0))
        kept, penalty = kept_values(action, values)
        if not len(kept) or values[len(kept) - 1] >= GRAM_SHARE * values[0]:
            return least_value(float(np.trace(gram)), values, kept, penalty)
    return shrunk_svd(target, action).least


def _elsewhere(tall: Tensor, action: Action) -> Shrunk:
    """`shrunk_svd` of a float64 tensor where it is; only its spectrum comes to the CPU."""
    squares, vectors = torch.linalg.eigh(tall.mT @ tall)
    values = squares.flip(0).clamp_min(0).sqrt().cpu().numpy()
    kept, penalty = kept_values(action, values)
    rank = len(kept)
    if rank and values[rank - 1] < GRAM_SHARE * values[0]:
        first, spectrum, outer = torch.linalg.svd(tall, full_matrices=False)
        values = spectrum.cpu().numpy()
        kept, penalty = kept_values(action, values)
        rank = len(kept)
        first, second = first[:, :rank], outer[:rank].mT
    else:
        second = vectors[:, vectors.shape[1] - rank :].flip(1)
        first = tall @ second
        first = first / torch.linalg.vector_norm(first, dim=0)
    least = least_value(float(squares.sum()), values, kept, penalty)
    return Shrunk(first, torch.from_numpy(kept).to(tall.device), second, least)


def _on_cpu(tall: Tensor, action: Action) -> Shrunk:
    """The same through NumPy; vectors may come in reverse order, which torch does not take."""
    first, kept, second, least = _in_numpy(tall.numpy(), action)
    return Shrunk(torch.from_numpy(first), torch.from_numpy(kept), torch.from_numpy(second.copy()), least)


def _in_numpy(tall: Array, action: Action) -> Shrunk:
    gram = tall.T @ tall
    squares, vectors = leading_eigen(gram, min(action.size, len(gram)))
    values = np.sqrt(np.maximum(squares, 0))
    kept, penalty = kept_values(action, values)
    rank = len(kept)
    if rank and values[rank - 1] < GRAM_SHARE * values[0]:
        first, values, outer = np.linalg.svd(tall, full_matrices=False)
        kept, penalty = kept_values(action, values)
        rank = len(kept)
        first, second = first[:, :rank], outer[:rank].T
    else:
        second = vectors[:, :rank]
        first = tall @ second
        first /= np.sqrt(np.einsum("ij,ij->j", first, first))
    return Shrunk(first, kept, second, least_value(float(gram.trace()), values, kept, penalty))


def least_value(energy: float, values: Array, kept: Array, penalty: float) -> float:
    """||T||^2 - what the kept triples gain, s^2 - (s - x)^2 for a value s of which x is kept."""
    return energy - float(kept @ (2 * values[: len(kept)] - kept)) + penalty
