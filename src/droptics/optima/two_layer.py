"""Two-layer networks, tied networks and factorizations: the spectrum is shrunk, the factors are equalized.

In white coordinates (`droptics.spectra.coordinates`) the criterion is constant + ||T - A||_F^2 + penalty. Its least
value over all factors of A is a function of the singular values of A, so the optimum has the singular vectors of T
and a shrunk spectrum; the factors are rotated until the penalty of A is the induced one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from droptics.arguments import check_arguments
from droptics.checks import as_float_tensor, check_size
from droptics.data import Data, Entries, Measurements, Moments, Sample
from droptics.errors import NoClosedForm
from droptics.linalg import equalize_columns
from droptics.linalg.tall import SAFE
from droptics.masks import MaskLaw
from droptics.masks.correlations import WIDE
from droptics.models import Autoencoder, Factorization, TwoLayerLinear
from droptics.optima.objectives import objective
from droptics.optima.optimum import Optimum, certify_bound, optimum_rule, rounding
from droptics.optima.stationary import alternate
from droptics.spectra import Action, OneRate, action
from droptics.spectra.coordinates import White, check_isotropic, weighed, whiten
from droptics.spectra.decomposition import kept_values, least_of, shrunk_svd
from droptics.spectra.kinds import short_factors
from droptics.spectra.one_rate import TiedOneRate
from droptics.spectra.roots import EPS, numbers


def best_factors(target: Any, acting: Action, masks: MaskLaw) -> tuple[Any, Any, int, float, str]:
    """The best factors U, H of a target in white coordinates, tensor or array as it is, and what is known of them.

    Also the rank of their product, the least of ||T - U H^T||^2 + penalty, and how they were found: where the action of
    the law has no factors for the best spectrum they are searched.
    """
    if (short := short_factors(target, masks, judged=False)) is not None:
        return *short[:4], "closed form"
    left, values, right, least = shrunk_svd(target, acting)
    arrays = isinstance(target, np.ndarray)
    try:
        U, H = (acting.spread_arrays if arrays else acting.spread)(left, values, right)
        rank, method = len(values), "closed form"
    except NoClosedForm:
        work = torch.as_tensor(target).detach().double()
        U, H, rank, method = alternate(work, masks.characteristic.detach().to(work.device))
        U, H = map(numbers, (U, H)) if arrays else (U, H)
    return U, H, rank, least, method


def value_of_factors(U: Any, V: Any, cross: Any, moment: Tensor | None, energy: float, masks: MaskLaw) -> float:
    """Criterion of factors on second moments: tr E[y y^T] - 2 <E[y x^T], U V^T> + sum_ij G_ij (1 + Cbar_ij), float64.

    G_ij = <u_i, u_j> v_i^T E[x x^T] v_j; no moment stands for the identity. The same number as `criterion`, at a tenth
    of its time on small problems: in NumPy on the CPU, whose small calls are cheaper.
    """
    if U.shape[-1] > WIDE:
        return _value_of_many(torch.as_tensor(U), torch.as_tensor(V), torch.as_tensor(cross), moment, energy, masks)
    out, into, mixed = map(numbers, (U, V, cross))
    products = (out.T @ out) * (into.T @ (into if moment is None else numbers(moment) @ into))
    value = energy - 2 * float((out * (mixed @ into)).sum()) + float(products.sum())
    return value + weighed(masks, products)


def _value_of_many(U: Tensor, V: Tensor, cross: Tensor, moment: Tensor | None, energy: float, masks: MaskLaw) -> float:
    """`value_of_factors` without a matrix over all pairs of units: sum_ij G_ij = <U V^T, U V^T E[x x^T]>."""
    U, V, cross = U.detach(), V.detach(), cross.detach()
    product, moved = U @ V.mT, V if moment is None else moment.detach() @ V
    value = energy - 2 * float((cross * product).sum()) + float((product * (U @ moved.mT)).sum())
    return value + float(masks.weigh(_Factors(U, V, moved)).detach())


@dataclass(frozen=True, eq=False)
class _Factors:
    """G_ij = <u_i, u_j> v_i^T E[x x^T] v_j as far as a law asks for it; `moved` is E[x x^T] V."""

    out: Tensor
    into: Tensor
    moved: Tensor

    def energies(self) -> Tensor:
        return self.out.square().sum(0) * (self.into * self.moved).sum(0)

    def part(self, rows: slice, columns: slice) -> Tensor:
        return (self.out[:, rows].mT @ self.out[:, columns]) * (self.into[:, rows].mT @ self.moved[:, columns])


def _solve(family: type[TwoLayerLinear] | type[Factorization], data: Data, masks: MaskLaw) -> Optimum:
    white, acting = whiten(data), action(masks)
    U, H, rank, least, method = best_factors(numbers(white.target), acting, masks)
    U, H = torch.as_tensor(U), torch.as_tensor(H)
    model = family(white.left.up(U).to(data.dtype), white.right.up(H).to(data.dtype))
    factors, energy = (model.U.double(), model.V.double()), white.energy
    if isinstance(data, Moments):
        exact = data.to(torch.float64)
        energy = float(torch.trace(exact.yy))
        value = value_of_factors(*factors, exact.yx, None if white.right.plain else exact.xx, energy, masks)
    else:
        value = white.criterion(*factors, masks) if white.safe and masks.size <= WIDE else 0.0
        # what is left of the targets has lost its digits to them: it is taken on the examples themselves
        if value <= SAFE * energy:
            value = objective(model, data, masks)
    bound, allowed = white.floor(least), rounding(data.dtype, data)
    return Optimum(model, value, bound, rank, acting.claim, energy, allowed, method, white.slack)


@optimum_rule.register(TwoLayerLinear)
def two_layer_optimum(family: type[TwoLayerLinear], data: Data, masks: MaskLaw) -> Optimum:
    """Best two-layer network of width masks.size.

    Independent units, one rate (Bernoulli, Gaussian): the top rho <= width singular values of E[y x^T] E[x x^T]^(-1/2)
    lose alpha (`linalg.shrink`), the factors are equalized (mianjy2018-thm3.6, mianjy2018-alg3, corrected). Unequal
    rates: `linalg.shrink_unequal` and a Schur-Horn rotation (droptics-unequal-rates). Block: the k-support shrinkage
    and balanced blocks (pal2020-thm2.7, corrected). Where a law has no factors for its best spectrum: alternating least
    squares with a lower bound (droptics-mask-bounds). Singular second moments give the weights of least norm, every
    feature in its own units; label noise only adds a constant. Cost: one eigendecomposition and
    O((outputs + inputs) width).
    """
    if not isinstance(data, (Sample, Moments)):
        raise ValueError(f"data for TwoLayerLinear must be Sample or Moments, got {type(data).__name__}")
    return _solve(family, data, masks)


@optimum_rule.register(Factorization)
def factorization_optimum(family: type[Factorization], data: Data, masks: MaskLaw) -> Optimum:
    """Best factorization when every entry is observed in product proportions, or the measurements are isotropic.

    The weighted matrix diag(sqrt p) M diag(sqrt q) is shrunk as for two layers (thesis-prop4). Any other set of
    entries has no closed form, and NoClosedForm says so.
    """
    if not isinstance(data, (Entries, Measurements)):
        raise ValueError(f"data for Factorization must be Entries or Measurements, got {type(data).__name__}")
    return _solve(family, data, masks)


def _tied(data: Data, acting: Action) -> tuple[Tensor, Tensor, float, float]:
    """Eigenvectors, kept eigenvalues, lower bound and size of the tied problem on isotropic inputs.

    With E x x^T >= (c - e) I the criterion is at least that of inputs of energy c - e, the skew part of E[y x^T] apart.
    """
    moments = Moments.of(data.to(torch.float64))
    if moments.yx.shape[0] != moments.yx.shape[1]:
        raise ValueError(f"data must have as many outputs as inputs for Autoencoder, got {tuple(moments.yx.shape)}")
    check_isotropic(data)
    energy = float(torch.trace(moments.yy))
    scale = torch.diagonal(moments.xx).mean()
    if float(scale) == 0:
        nothing = moments.yx.new_zeros(len(moments.yx), 0)
        return nothing, nothing[0], energy, energy
    off = torch.linalg.matrix_norm(moments.xx - scale * torch.eye(len(moments.xx)).to(moments.xx))
    off = off + moments.rounding * scale * (len(moments.xx) if float(off) > 0 else 1)
    symmetric = (moments.yx + moments.yx.mT) / (2 * scale)
    values, vectors = torch.linalg.eigh(symmetric)
    values, vectors = values.flip(0), vectors.flip(1)
    kept, penalty = kept_values(acting, values.cpu().numpy())
    shrunk, top = torch.from_numpy(kept).to(values), values[: len(kept)]
    gain = float(scale * ((top.square() - (top - shrunk).square()).sum() - penalty))
    size = energy + float(scale * values.square().sum())
    # the gain of inputs of energy c - e is that of c times c / (c - e)
    slack = gain * float(off / (scale - off)) + 4 * len(values) * EPS * size
    # entries of E[y x^T] off by rounding |y| |x_i| move the spectrum by sqrt(d) as much in norm
    slack += (len(values) ** 0.5 + 2) * moments.rounding * size
    return vectors[:, : len(kept)], shrunk, energy - gain - slack, size


@optimum_rule.register(Autoencoder)
def tied_optimum(family: type[Autoencoder], data: Data, masks: MaskLaw) -> Optimum:
    """Best tied network of width masks.size on isotropic inputs, E x x^T = c I.

    The EIGENVALUES of the symmetric part of E[y x^T] / c are shrunk, negative ones to zero, and the columns equalized
    (mianjy2018-thm2.4, corrected: the printed singular values are wrong for maps that are not positive semi-definite);
    the skew part adds a constant.
    """
    if not isinstance(data, (Sample, Moments)):
        raise ValueError(f"data for Autoencoder must be Sample or Moments, got {type(data).__name__}")
    acting = action(masks).tied
    vectors, values, least, size = _tied(data, acting)
    columns, _ = acting.spread(vectors, values, vectors)
    model = family(columns.to(data.dtype))
    value = objective(model, data, masks)
    return Optimum(model, value, least, len(values), acting.claim, size, rounding(data.dtype, data))


@certify_bound.register(TwoLayerLinear)
@certify_bound.register(Factorization)
def _(model: TwoLayerLinear | Factorization, data: Data, masks: MaskLaw) -> tuple[float, str]:
    return two_layer_bound(whiten(data), masks)


@certify_bound.register
def _(model: Autoencoder, data: Data, masks: MaskLaw) -> tuple[float, str]:
    try:
        acting = action(masks).tied
        return _tied(data, acting)[2], acting.claim
    except NoClosedForm:  # correlated units, anisotropic inputs: tied networks are among the untied ones
        return two_layer_bound(whiten(data), masks)


def two_layer_bound(white: White, masks: MaskLaw) -> tuple[float, str]:
    """Lower bound on the criterion of every two-layer network of this width, and its claim."""
    acting = action(masks)
    return white.floor(least_of(white.target, acting)), acting.claim


def optimal_factors(
    optimum: Optimum, rotation: Tensor | None = None, scales: Tensor | None = None
) -> TwoLayerLinear | Autoencoder:
    """Another optimal model: every optimal pair of factors arises from one of them in this way (mianjy2018-thm3.4).

    With P S Q^T the optimal white map (unique unless two singular values tie at position width), not zero, the optimal
    factors are exactly U = P S^(1/2) A D and V = E[x x^T]^(-1/2) Q S^(1/2) A D^-1 with A the top rows of an orthogonal
    matrix, diag(A^T S A) constant, and D diagonal and non-singular. So: multiply an optimal pair by any rotation,
    equalize again (an equalized product stays as it is), rescale the nodes. Tied networks have D = diag(+-1).
    Cost: O((inputs + outputs) width^2).

    Args:
        optimum: A certified optimum of TwoLayerLinear or Autoencoder under independent units with one rate.
        rotation: Orthogonal (width, width); the identity by default.
        scales: Non-zero factor of every node; ones by default.
    """
    check_arguments(optimal_factors, locals())
    model = optimum.model
    if not isinstance(model, (TwoLayerLinear, Autoencoder)) or optimum.claim not in (OneRate.claim, TiedOneRate.claim):
        raise ValueError("optimum must be that of a two-layer or tied network under independent units with one rate")
    identity = torch.eye(model.units, dtype=model.dtype, device=model.device)
    turn = identity if rotation is None else as_float_tensor(rotation, "rotation", 2).to(model.U)
    check_size("rotation", turn.shape[0], model.units, "one row per hidden unit")
    check_size("rotation (columns)", turn.shape[1], model.units, "one column per hidden unit")
    defect = float((turn.mT @ turn - identity).abs().max())
    if defect > 1e3 * torch.finfo(model.dtype).eps:
        raise ValueError(f"rotation must be orthogonal, R^T R differs from the identity by {defect:.3g}")
    factors = torch.ones_like(identity[0]) if scales is None else as_float_tensor(scales, "scales", 1).to(model.U)
    check_size("scales", factors.shape[0], model.units, "one factor per hidden unit")
    if bool((factors == 0).any()):
        raise ValueError("scales must not contain zeros: a node scaled to zero cannot be scaled back")
    if isinstance(model, Autoencoder):
        if bool((factors.abs() != 1).any()):
            raise ValueError("scales must be +1 or -1 for a tied network: both layers are the same matrix")
        return Autoencoder(equalize_columns(model.U @ turn)[0] * factors)
    U, V = equalize_columns(model.U @ turn, model.V @ turn)
    return TwoLayerLinear(U * factors, V / factors)
