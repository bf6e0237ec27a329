"""Two-layer networks, tied networks and factorizations: the spectrum is shrunk, the factors are equalized.

In white coordinates (`droptics.envelopes.whitening`) the criterion is constant + ||T - A||_F^2 + penalty. Its least
value over all factors of A is a function of the singular values of A, so the optimum has the singular vectors of T
and a shrunk spectrum; the factors are rotated until the penalty of A is the induced one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from droptics.checks import as_float_tensor, check_size
from droptics.data import Data, Entries, Measurements, Moments, Sample
from droptics.envelopes.two_layer import check_isotropic, common_strength
from droptics.envelopes.whitening import White, whiten
from droptics.equalization.two_layer import spread
from droptics.errors import NoClosedForm
from droptics.linalg import allocate, equalize_columns, shrink_unequal
from droptics.linalg.leading import leading_eigen
from droptics.linalg.rotations import equalize_rows_, rotate_to_diagonal
from droptics.linalg.shrinkage import threshold
from droptics.masks import Block, MaskLaw
from droptics.models import Autoencoder, Factorization, TwoLayerLinear
from droptics.optima.block import block_bound, block_factors
from droptics.optima.general import general_bound, general_factors
from droptics.optima.optimum import (
    Optimum,
    certify_bound,
    check_certified,
    optimum_rule,
    rounding,
)
from droptics.penalties import criterion

UNEQUAL = "droptics-unequal-rates"
# Left vectors from the Gram matrix are good when no kept value is below this share of the largest.
GRAM_SHARE = 1e-4

Array = NDArray[Any]


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
        low, high = float(strengths.min()), float(strengths.max())
        return Shrinker(strengths, high if high - low <= 1e-12 * high else None)

    @property
    def width(self) -> int:
        """Number of units; values after the first `width` of a spectrum play no part."""
        return len(self.strengths)

    @property
    def claim(self) -> str:
        """What the shrinkage rests on."""
        return UNEQUAL if self.common is None else "mianjy2018-thm3.6"

    def __call__(self, values: Array) -> tuple[Array, float]:
        """Kept values and their least penalty."""
        if self.common is not None:
            rank, level = threshold(values, self.common, self.width)
            kept = values[:rank] - level
            return kept, self.common / self.width * float(kept.sum()) ** 2
        shrunk, shares = shrink_unequal(torch.from_numpy(values.copy()), torch.from_numpy(self.strengths))
        return shrunk[shrunk > 0].numpy(), float(self.strengths @ np.square(shares.numpy()))


def shrunk_svd(target: Tensor, shrinking: Shrinker) -> tuple[Tensor, Tensor, Tensor, float]:
    """Leading singular vectors of the target, its shrunk values, and the least of ||T - A||^2 + penalty.

    Through the smaller Gram matrix, at half the cost of an SVD, whenever the values that are kept are not tiny; their
    norms are then measured again on the target. Float64 inside, on the device of the target.
    """
    work = target.detach().double()
    if work.device.type == "cpu":
        left, shrunk, right, least = _shrunk_array(work.numpy(), shrinking)
        return _tensor(left), _tensor(shrunk), _tensor(right), least
    flip = work.shape[0] < work.shape[1]
    tall = work.mT if flip else work
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
    return (second if flip else first), _tensor(kept).to(work.device), (first if flip else second), least


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
        inner = float((U * (cross @ V)).sum())
        grams = [(part.mT @ other).cpu() for part, other in ((U, U), (V, V if moment is None else moment @ V))]
        products = (grams[0] * grams[1]).numpy()
    else:
        out, into, mixed = U.numpy(), V.numpy(), cross.numpy()
        inner = float(np.vdot(out, mixed @ into))
        hidden = into if moment is None else moment.numpy() @ into
        products = (out.T @ out) * (into.T @ hidden)
    return energy - 2 * inner + float(products.sum()) + float(shrinking.strengths @ products.diagonal())


def _solve(family: type[TwoLayerLinear] | type[Factorization], data: Data, masks: MaskLaw) -> Optimum:
    white = whiten(data)
    scale = float(white.constant.abs() + white.target.square().sum())
    if masks.independent:
        return _solve_independent(family, data, masks, white, scale)
    if isinstance(masks, Block):
        U, H, rank, method = block_factors(white, masks)
        bound, claim = block_bound(white, masks)
    else:
        U, H, rank, method = general_factors(white, masks)
        bound, claim = general_bound(white, masks)
    model = family(white.left.up(U), white.right.up(H))
    found = Optimum(
        model, float(criterion(model, data, masks)), bound, rank, claim, scale, rounding(data.dtype), method
    )
    return check_certified(found) if method == "closed form" else found


def _solve_independent(
    family: type[TwoLayerLinear] | type[Factorization], data: Data, masks: MaskLaw, white: White, scale: float
) -> Optimum:
    shrinking = Shrinker.of(masks)
    U, H, rank, least = independent_factors(white.target, masks, shrinking)
    model = family(white.left.up(U), white.right.up(H))
    if isinstance(data, Moments):
        energy = float(torch.trace(data.yy))
        objective = value_of_factors(model.U, model.V, data.yx, data.xx, energy, shrinking)
    else:
        objective = float(criterion(model, data, masks))
    bound = float(white.constant) + least
    return check_certified(Optimum(model, objective, bound, rank, shrinking.claim, scale, rounding(data.dtype)))


@optimum_rule(TwoLayerLinear)
def two_layer_optimum(data: Data, masks: MaskLaw) -> Optimum:
    """Best two-layer network of width masks.size.

    Independent units, one rate (Bernoulli, Gaussian): the top rho <= width singular values of E[y x^T] E[x x^T]^(-1/2)
    lose alpha (`linalg.shrink`), the factors are equalized (mianjy2018-thm3.6, mianjy2018-alg3, corrected). Unequal
    rates: `linalg.shrink_unequal` and a Schur-Horn rotation (droptics-unequal-rates). Block: `optima.block`. Others:
    alternating least squares with a lower bound (`optima.general`). Singular second moments give the weights of least
    norm; label noise only adds a constant. Cost: one eigendecomposition and O((outputs + inputs) width).
    """
    if not isinstance(data, (Sample, Moments)):
        raise ValueError(f"data for TwoLayerLinear must be Sample or Moments, got {type(data).__name__}")
    return _solve(TwoLayerLinear, data, masks)


@optimum_rule(Factorization)
def factorization_optimum(data: Data, masks: MaskLaw) -> Optimum:
    """Best factorization when every entry is observed in product proportions, or the measurements are isotropic.

    The weighted matrix diag(sqrt p) M diag(sqrt q) is shrunk as for two layers (thesis-prop4). Any other set of
    entries has no closed form, and NoClosedForm says so.
    """
    if not isinstance(data, (Entries, Measurements)):
        raise ValueError(f"data for Factorization must be Entries or Measurements, got {type(data).__name__}")
    return _solve(Factorization, data, masks)


def _tied(data: Data, masks: MaskLaw) -> tuple[Tensor, Tensor, Tensor, float]:
    """Eigenvectors, kept eigenvalues, least value and size of the tied problem on isotropic inputs."""
    moments = Moments.of(data)
    if moments.yx.shape[0] != moments.yx.shape[1]:
        raise ValueError(f"data must have as many outputs as inputs for Autoencoder, got {tuple(moments.yx.shape)}")
    check_isotropic(moments)
    scale = torch.diagonal(moments.xx).mean().double()
    symmetric = (moments.yx + moments.yx.mT).double() / (2 * scale)
    values, vectors = torch.linalg.eigh(symmetric)
    values, vectors = values.flip(0), vectors.flip(1)
    kept, penalty = Shrinker.of(masks)(values.cpu().numpy())
    shrunk, top = torch.from_numpy(np.ascontiguousarray(kept)).to(values), values[: len(kept)]
    energy = torch.trace(moments.yy).double()
    least = energy - scale * (top.square() - (top - shrunk).square()).sum() + scale * penalty
    return vectors[:, : len(kept)], shrunk, least, float(energy + scale * values.square().sum())


@optimum_rule(Autoencoder)
def tied_optimum(data: Data, masks: MaskLaw) -> Optimum:
    """Best tied network of width masks.size on isotropic inputs, E x x^T = c I.

    The EIGENVALUES of the symmetric part of E[y x^T] / c are shrunk, negative ones to zero, and the columns equalized
    (mianjy2018-thm2.4, corrected: the printed singular values are wrong for maps that are not positive semi-definite);
    the skew part adds a constant.
    """
    if not masks.independent:
        raise NoClosedForm(f"no tied optimum is known under {type(masks).__name__}; use TwoLayerLinear, or Bernoulli")
    vectors, values, least, size = _tied(data, masks)
    columns = torch.zeros(vectors.shape[0], masks.size, dtype=torch.float64, device=vectors.device)
    columns[:, : len(values)] = vectors * values.sqrt()
    if common_strength(masks) is not None:
        (columns,) = equalize_columns(columns)
    else:
        padded = torch.cat([values, values.new_zeros(masks.size - len(values))])
        rates = masks.relative_variance.detach().to(values)
        shares = allocate(values, rates)
        columns = rotate_to_diagonal(padded, shares, columns)
    model = Autoencoder(columns.to(data.dtype))
    claim = "mianjy2018-thm2.4" if common_strength(masks) is not None else UNEQUAL
    objective = float(criterion(model, data, masks))
    return check_certified(Optimum(model, objective, float(least), len(values), claim, size, rounding(data.dtype)))


@certify_bound.register
def _(model: TwoLayerLinear, data: Data, masks: MaskLaw) -> tuple[float, str]:
    return two_layer_bound(whiten(data), masks)


@certify_bound.register
def _(model: Factorization, data: Data, masks: MaskLaw) -> tuple[float, str]:
    return two_layer_bound(whiten(data), masks)


@certify_bound.register
def _(model: Autoencoder, data: Data, masks: MaskLaw) -> tuple[float, str]:
    if masks.independent:
        try:
            return float(_tied(data, masks)[2]), "mianjy2018-thm2.4"
        except NoClosedForm:
            pass  # anisotropic inputs: tied networks are among the untied ones, whose bound follows
    return two_layer_bound(whiten(data), masks)


def two_layer_bound(white: White, masks: MaskLaw) -> tuple[float, str]:
    """Lower bound on the criterion of every two-layer network of this width, and its claim."""
    if masks.independent:
        shrinking = Shrinker.of(masks)
        least = shrunk_svd(white.target, shrinking)[3]
        return float(white.constant) + least, shrinking.claim
    if isinstance(masks, Block):
        return block_bound(white, masks)
    return general_bound(white, masks)


def optimal_factors(
    optimum: Optimum, rotation: Tensor | None = None, scales: Tensor | None = None
) -> TwoLayerLinear | Autoencoder:
    """Another optimal model: every optimal pair of factors arises from one of them in this way (mianjy2018-thm3.4).

    With P S Q^T the optimal white map (unique unless two singular values tie at position width), the optimal factors
    are exactly U = P S^(1/2) A D and V = E[x x^T]^(-1/2) Q S^(1/2) A D^-1 with A the top rows of an orthogonal matrix
    such that diag(A^T S A) is constant, and D diagonal and non-singular. So: multiply an optimal pair by any rotation,
    equalize again (an equalized product stays as it is), rescale the nodes. Tied networks have D = diag(+-1).

    Args:
        optimum: A certified optimum of TwoLayerLinear or Autoencoder under independent units with one rate.
        rotation: Orthogonal (width, width); the identity by default.
        scales: Non-zero factor of every node; ones by default.
    """
    model = optimum.model
    if not isinstance(model, (TwoLayerLinear, Autoencoder)) or optimum.claim not in (
        "mianjy2018-thm3.6",
        "mianjy2018-thm2.4",
    ):
        raise ValueError("optimum must be that of a two-layer or tied network under independent units with one rate")
    width = model.units
    turn = torch.eye(width, dtype=model.dtype, device=model.device) if rotation is None else rotation
    turn = as_float_tensor(turn, "rotation", 2).to(model.U)
    check_size("rotation", turn.shape[0], width, "one row per hidden unit")
    defect = (turn.mT @ turn - torch.eye(width, dtype=model.dtype, device=model.device)).abs().max()
    if float(defect) > 1e3 * torch.finfo(model.dtype).eps:
        raise ValueError(f"rotation must be orthogonal, R^T R differs from the identity by {float(defect):.3g}")
    factors = torch.ones(width, dtype=model.dtype) if scales is None else as_float_tensor(scales, "scales", 1)
    check_size("scales", factors.shape[0], width, "one factor per hidden unit")
    factors = factors.to(model.U)
    if bool((factors == 0).any()):
        raise ValueError("scales must not contain zeros: a node scaled to zero cannot be scaled back")
    if isinstance(model, Autoencoder):
        if bool((factors.abs() != 1).any()):
            raise ValueError("scales must be +1 or -1 for a tied network: both layers are the same matrix")
        return Autoencoder(equalize_columns(model.U @ turn)[0] * factors)
    U, V = equalize_columns(model.U @ turn, model.V @ turn)
    return TwoLayerLinear(U * factors, V / factors)
