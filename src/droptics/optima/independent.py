"""Independent units: shrunk spectra, equalized factors and what these cost.

In white coordinates the least of ||T - U H^T||_F^2 + penalty over all factors is a function of the singular values of
T alone; `Shrinker` knows it for one rate and for unequal rates. Small problems are worked out in NumPy, whose calls
are several times cheaper than torch's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from droptics.arrays import Array
from droptics.envelopes.two_layer import shared_value
from droptics.envelopes.whitening import EPS
from droptics.equalization.two_layer import spread
from droptics.linalg import shrink_unequal
from droptics.linalg.leading import leading_eigen
from droptics.linalg.rotations import equalize_rows_
from droptics.linalg.shrinkage import threshold
from droptics.masks import MaskLaw

ONE_RATE = "mianjy2018-thm3.6"
UNEQUAL = "droptics-unequal-rates"
# Left vectors from the Gram matrix are good when no kept value is below this share of the largest.
GRAM_SHARE = 1e-4


@dataclass(frozen=True, eq=False)
class Shrinker:
    """From a descending spectrum to (what is kept of it, the least penalty of that), for independent units.

    Attributes:
        strengths: Relative variance of every unit.
        common: The one that they share, None when they differ.
    """

    strengths: Array
    common: float | None

    @staticmethod
    def of(masks: MaskLaw) -> Shrinker:
        """The shrinkage under a law with independent units."""
        strengths = masks.relative_variance.detach().cpu().numpy()
        return Shrinker(strengths, shared_value(strengths))

    @property
    def width(self) -> int:
        """Number of units; values after the first `width` of a spectrum play no part."""
        return len(self.strengths)

    @property
    def claim(self) -> str:
        """What the shrinkage rests on."""
        return UNEQUAL if self.common is None else ONE_RATE

    def __call__(self, values: Array) -> tuple[Array, float]:
        """Kept values and their least penalty."""
        if self.common is not None:
            rank, level = threshold(values, self.common, self.width)
            kept = values[:rank] - level
            penalty = self.common / self.width * float(kept.sum()) ** 2
        else:
            shrunk, shares = shrink_unequal(torch.from_numpy(values.copy()), torch.from_numpy(self.strengths))
            kept, penalty = shrunk.numpy(), float(self.strengths @ np.square(shares.numpy()))
        # what is left of values at rounding level is no direction; a tied network may have no positive value at all
        return kept[kept > len(values) * EPS * values[:1].clip(min=0)], penalty


def shrunk_svd(target: Tensor, shrinking: Shrinker) -> tuple[Tensor, Tensor, Tensor, float]:
    """Leading singular vectors of the target, its shrunk values, and the least of ||T - A||^2 + penalty.

    Through the smaller Gram matrix, at half the cost of an SVD, whenever the values that are kept are not tiny; their
    norms are then measured again on the target. Float64 inside, on the device of the target.
    """
    work = target.detach().double()
    if work.device.type == "cpu":
        left, shrunk, right, least = _shrunk_array(work.numpy(), shrinking)
        return _tensor(left), _tensor(shrunk), _tensor(right), least
    return _shrunk_tensor(work, shrinking)


def _shrunk_tensor(target: Tensor, shrinking: Shrinker) -> tuple[Tensor, Tensor, Tensor, float]:
    """`shrunk_svd` of a float64 tensor where it is."""
    flip = target.shape[0] < target.shape[1]
    tall = target.mT if flip else target
    squares, vectors = torch.linalg.eigh(tall.mT @ tall)
    values = np.sqrt(squares.cpu().numpy()[::-1].clip(min=0))
    kept, penalty = shrinking(values)
    rank = len(kept)
    if rank and values[rank - 1] < GRAM_SHARE * values[0]:
        first, spectrum, outer = torch.linalg.svd(tall, full_matrices=False)
        values = spectrum.cpu().numpy()
        kept, penalty = shrinking(values)
        rank = len(kept)
        first, second = first[:, :rank], outer[:rank].mT
    else:
        second = vectors[:, vectors.shape[1] - rank :].flip(1)
        first = tall @ second
        first = first / torch.linalg.vector_norm(first, dim=0)
    least = least_value(float(squares.sum()), values, kept, penalty)
    return (second if flip else first), _tensor(kept).to(target.device), (first if flip else second), least


def _shrunk_array(target: Array, shrinking: Shrinker) -> tuple[Array, Array, Array, float]:
    """The same in NumPy, whose small calls are several times cheaper."""
    flip = target.shape[0] < target.shape[1]
    tall = target.T if flip else target
    gram = tall.T @ tall
    squares, vectors = leading_eigen(gram, min(shrinking.width, len(gram)))
    values = np.sqrt(squares.clip(min=0))
    kept, penalty = shrinking(values)
    rank = len(kept)
    if rank and values[rank - 1] < GRAM_SHARE * values[0]:
        first, values, outer = np.linalg.svd(tall, full_matrices=False)
        kept, penalty = shrinking(values)
        rank = len(kept)
        first, second = first[:, :rank], outer[:rank].T
    else:
        second = vectors[:, :rank]
        first = tall @ second
        first /= np.sqrt(np.einsum("ij,ij->j", first, first))
    least = least_value(float(np.trace(gram)), values, kept, penalty)
    return (second if flip else first), kept, (first if flip else second), least


def least_value(energy: float, values: Array, kept: Array, penalty: float) -> float:
    """||T||^2 - what the kept triples gain."""
    top = values[: len(kept)]
    return energy - float((top**2).sum() - ((top - kept) ** 2).sum()) + penalty


def _tensor(values: Array) -> Tensor:
    return torch.from_numpy(values.copy())  # a copy has no negative strides


def independent_factors(target: Tensor, masks: MaskLaw, shrinking: Shrinker) -> tuple[Tensor, Tensor, int, float]:
    """Best factors U, H of the target in white coordinates, their rank and the least of ||T - U H^T||^2 + penalty."""
    if shrinking.common is None or target.device.type != "cpu":
        left, values, right, least = shrunk_svd(target, shrinking)
        U, H = spread(left, values, right, masks)
        return U.to(target), H.to(target), len(values), least
    first, kept, second, least = _shrunk_array(target.detach().double().numpy(), shrinking)
    # as `spread` does it, without a detour through small tensors, which would be a third of the time of small problems
    rank, rows = len(kept), len(first)
    columns = np.zeros((shrinking.width, rows + len(second)))
    roots = np.sqrt(kept)[:, None]
    np.multiply(first.T, roots, out=columns[:rank, :rows])
    np.multiply(second.T, roots, out=columns[:rank, rows:])
    stacked = torch.from_numpy(columns)
    equalize_rows_(stacked, rows)
    stacked = stacked.to(target)
    return stacked[:, :rows].mT, stacked[:, rows:].mT, rank, least


def _tensor_products(U: Tensor, V: Tensor, cross: Tensor, moment: Tensor | None) -> tuple[float, Array]:
    """<E[y x^T], U V^T> and G by torch, on the device of the factors."""
    hidden = V if moment is None else moment @ V
    return float((U * (cross @ V)).sum()), ((U.mT @ U) * (V.mT @ hidden)).cpu().numpy()


def value_of_factors(
    U: Tensor, V: Tensor, cross: Tensor, moment: Tensor | None, energy: float, shrinking: Shrinker
) -> float:
    """Criterion of given factors on second moments: tr E[y y^T] - 2 <E[y x^T], U V^T> + sum_ij G_ij (1 + strength).

    G_ij = <u_i, u_j> v_i^T E[x x^T] v_j, and the strength counts on the diagonal only; no moment stands for the
    identity. The same number as `criterion`, at a tenth of its time on small problems.
    """
    U, V, cross = U.detach(), V.detach(), cross.detach()
    moment = None if moment is None else moment.detach()
    if U.device.type != "cpu":
        inner, products = _tensor_products(U, V, cross, moment)
    else:
        out, into, mixed = U.numpy(), V.numpy(), cross.numpy()
        inner = float(np.vdot(out, mixed @ into))
        hidden = into if moment is None else moment.numpy() @ into
        products = (out.T @ out) * (into.T @ hidden)
    return energy - 2 * inner + float(products.sum()) + float(shrinking.strengths @ products.diagonal())
