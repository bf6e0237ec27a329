"""White coordinates: where risk is a distance between matrices and the penalty sees norms of columns only.

For two layers, E[x x^T] = R R^T: with A = W R and T = E[y x^T] R^+T, risk = constant + ||T - A||_F^2 and the penalty is
sum_ij Cbar_ij <u_i, u_j> <h_i, h_j> with h = R^T v. A factorization read at entries that are observed in product
proportions p_i q_j has the same form with roots diag(sqrt p) and diag(sqrt q).

Everything is float64, and the rank of the inputs is decided after every feature is put into its own units
(`linalg.scales`), so that units of measurement play no part. Directions below the rounding of the data count as
without energy. What rounding, or a direction that the precision of the data cannot tell from none, may take off a lower
bound is `White.slack`: every bound here is constant + least(T) - slack with a least value whose gain over ||T||^2
grows by at most one per unit of a squared singular value.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from droptics.checks import wants_derivative
from droptics.data import Data, Entries, Measurements, Moments, Sample
from droptics.errors import NoClosedForm
from droptics.linalg import psd_inverse_root, psd_root
from droptics.linalg.gram import gram
from droptics.linalg.scales import equilibrate, powers_of_two

EPS = torch.finfo(torch.float64).eps
# Samples with this many examples per feature are read through their Gram matrix where that loses no digits that count:
# no eigenvalue below SAFE after the features are in their own units.
TALL = 4
SAFE = 1e-3


@dataclass(frozen=True, eq=False)
class Root:
    """R (features, rank) with R R^T a second moment, and R^+T; vectors stand for diagonal matrices.

    Attributes:
        matrix: R.
        inverse: R^+T.
        energies: Eigenvalues behind the columns once every feature is in its own units: how well each is known.
        null: Directions (features, dead) without energy, None where there are none to look at.
        plain: Marks the identity, which costs nothing to apply.
    """

    matrix: Tensor
    inverse: Tensor
    energies: Tensor
    null: Tensor | None = None
    plain: bool = False

    @staticmethod
    def identity(size: int, like: Tensor) -> Root:
        """The identity on so many features, of the dtype and device of a tensor."""
        ones = like.new_ones(size)
        return Root(ones, ones, ones, None, True)

    @staticmethod
    def diagonal(values: Tensor) -> Root:
        """Root of diag(values); zero values stay zero in the inverse."""
        roots = values.clamp_min(0).sqrt()
        alive = roots > 0
        inverse = torch.where(alive, 1 / torch.where(alive, roots, 1.0), 0.0)
        null = None if bool(alive.all()) else torch.eye(len(values), dtype=roots.dtype, device=roots.device)[:, ~alive]
        return Root(roots, inverse, torch.ones_like(roots), null)

    @staticmethod
    def of_moment(moment: Tensor, rounding: float = EPS) -> Root:
        """Root of a float64 second moment, of full column rank; diagonal moments are recognized and cost nothing.

        Directions whose energy, every feature in its own units, is at most 8 d rounding count as without. Where a
        derivative in the moment is wanted the root is symmetric in these units, differentiable at equal eigenvalues.
        """
        diagonal, varies = torch.diagonal(moment), wants_derivative(moment)
        if not varies and torch.count_nonzero(moment) == torch.count_nonzero(diagonal):
            plain = bool((diagonal == 1).all())
            return Root.identity(len(moment), moment) if plain else Root.diagonal(diagonal)
        scaled, units = equilibrate((moment + moment.mT) / 2 if varies else moment)
        values, vectors = torch.linalg.eigh(scaled.detach())
        kept = values > 8 * len(values) * rounding
        if varies and bool(kept.all()):
            return Root(units[:, None] * psd_root(scaled), psd_inverse_root(scaled) / units[:, None], values)
        if varies:
            values, vectors = torch.linalg.eigh(scaled)
        null = None
        if not bool(kept.all()):
            null = vectors[:, ~kept].detach() / units[:, None]
            values, vectors = values[kept], torch.where(diagonal[:, None] > 0, vectors[:, kept], 0.0)
        sizes = units[:, None] * values.sqrt()
        return Root(vectors * sizes, vectors / sizes, values.detach(), null)

    @property
    def singular(self) -> bool:
        """Whether some directions of the features have no energy."""
        if self.matrix.ndim == 1:
            return bool((self.matrix == 0).any())
        return self.matrix.shape[1] < self.matrix.shape[0]

    def down(self, weights: Tensor) -> Tensor:
        """R^T weights: from features to white coordinates."""
        if self.plain:
            return weights
        return self.matrix[:, None] * weights if self.matrix.ndim == 1 else self.matrix.mT @ weights

    def up(self, weights: Tensor) -> Tensor:
        """R^+T weights: what `down` takes to the given ones, of least norm with every feature in its own units."""
        if self.plain:
            return weights
        return self.inverse[:, None] * weights if self.inverse.ndim == 1 else self.inverse @ weights

    def up_rows(self, rows: Tensor) -> Tensor:
        """Rows times R^+T."""
        if self.plain:
            return rows
        return rows * self.inverse if self.inverse.ndim == 1 else rows @ self.inverse


@dataclass(frozen=True, eq=False)
class White:
    """A problem in white coordinates: risk = constant + ||target - left^T W right||_F^2, known up to `slack`."""

    target: Tensor
    constant: Tensor
    left: Root
    right: Root
    slack: float = 0.0

    @property
    def energy(self) -> float:
        """E |y|^2: what a network that answers zero has as its risk."""
        return float(self.constant) + float(torch.linalg.vector_norm(self.target)) ** 2

    def floor(self, least: float) -> float:
        """Lower bound on a criterion from the least of ||T - A||^2 + penalty over all A."""
        return float(self.constant) + least - self.slack


def whiten(data: Data) -> White:
    """White coordinates of data for two-layer networks (Sample, Moments) or factorizations (Entries, Measurements)."""
    exact, precision = data.to(torch.float64), torch.finfo(data.dtype).eps
    match exact:
        case Moments():
            return _of_moments(exact)
        case Sample():
            return _of_sample(exact, precision)
        case Entries():
            return _of_entries(exact)
        case Measurements():
            return _of_measurements(exact, precision)
    raise ValueError(f"data must be Sample, Moments, Entries or Measurements, got {type(data).__name__}")


def _of_moments(data: Moments) -> White:
    right = Root.of_moment(data.xx, data.rounding)
    target = right.up_rows(data.yx)
    energies = torch.diagonal(data.yy)
    # the same energies added in the same order as in the target, so that noiseless data give a constant near zero
    residual = energies - target.square().sum(1)
    # a moment that is exactly diagonal has no rounding beside the diagonal
    off = data.rounding * len(data.xx) ** (0.5 if right.matrix.ndim == 1 else 1.0)
    slack = _gram_slack(target.detach(), energies.detach(), right.energies, off)
    # a feature that is exactly zero is known to be; every other direction without energy is one only up to rounding
    unsure = right.null is not None and right.null.shape[1] > len(data.xx) - torch.count_nonzero(data.xx.diagonal())
    if unsure:
        slack = 2 * slack + _unseen(data, right, residual.detach().clamp_min(0), target.detach())
    return White(target, residual.sum(), Root.identity(len(target), target), right, slack)


def _unseen(data: Moments, root: Root, residual: Tensor, target: Tensor) -> float:
    """What a network may gain on directions whose energy is below the rounding of the moments.

    Such a direction may be all that the targets have beyond the others: its own correlation with them, its size times
    that of the targets, is below rounding too. Moments of float64 are taken at their word: with E[x x^T] known to
    rounding, a direction without energy has no more correlation with y than `reach` allows.
    """
    if data.rounding > EPS:
        return float(residual.sum())
    assert root.null is not None
    reach = (target / root.energies.sqrt()).square().sum(1).sqrt() + data.yy.detach().diagonal().clamp_min(0).sqrt()
    seen = (data.yx.detach() @ root.null).abs().amax(1) > 2 * len(data.xx) ** 0.5 * data.rounding * reach
    return float(torch.where(seen, residual, 0.0).sum())


def _gram_slack(target: Tensor, energies: Tensor, known: Tensor, off: float = 0.0) -> float:
    """What rounding of second moments may do to the least value: in float64, and of the moments as they came.

    With W the least-squares map, every feature in its own units, G = W E[x x^T] W^T = T T^T holds the squared singular
    values. Moments off by dxx and dyx have W E[x x^T] W^T - W dxx W^T + W dyx^T + dyx W^T + F E[x x^T]^-1 F^T with
    F = dyx - W dxx in its place. Entries off by `rounding` make |dxx| <= d rounding = off and |dyx| <= off |y|; every
    energy is above 8 off, so that the whole, with the change of tr E[y y^T], is below (8 / 7) off (|y| + |W|)^2.
    """
    size = float(torch.linalg.vector_norm(target / known.sqrt())) + max(float(energies.sum()), 0.0) ** 0.5
    return (4 * sum(target.shape) * EPS + 8 / 7 * off) * size**2


def _of_sample(data: Sample, precision: float) -> White:
    """Through a QR factorization of the examples: their second moment, and so its rounding, is never formed.

    Tall samples whose second moment is far from singular are read through it, at the cost of three products.
    """
    if data.inputs.ndim != 2 or not data.targets.is_floating_point():
        raise ValueError("data must hold input vectors and floating-point targets for a linear network")
    scale = data.shares.sqrt()[:, None]
    rows, targets = scale * data.inputs, scale * data.targets
    if len(rows) >= TALL * rows.shape[1] and not wants_derivative(rows, targets):
        found = _of_tall(rows, targets)
        if found is not None:
            return found
    if len(rows) <= rows.shape[1]:
        return _of_triangle(rows, targets, targets[:0], precision)
    basis, triangle = torch.linalg.qr(rows)
    loads = basis.mT @ targets
    return _of_triangle(triangle, loads, targets - basis @ loads, precision)


def _of_triangle(triangle: Tensor, loads: Tensor, beyond: Tensor, precision: float) -> White:
    """From rows with the second moment of the inputs, the targets on them, and what of the targets is orthogonal."""
    units = powers_of_two(torch.linalg.vector_norm(triangle.detach(), dim=0))
    inner, values, outer = torch.linalg.svd(triangle / units, full_matrices=False)
    size = triangle.shape[1]
    alive = values > 16 * (size + 4) * EPS
    # directions that the rounding of the data themselves may have made: no network is built on them
    kept = alive & (values > 4 * size**0.5 * precision)
    basis, roots, directions = inner[:, kept], values[kept], outer[kept].mT
    target = loads.mT @ basis
    constant = (loads - basis @ target.mT).square().sum() + beyond.square().sum()
    slack = float((loads.mT @ inner[:, alive & ~kept]).detach().square().sum())
    # other networks may use these too, and of all directions rounding turns them the most
    slack += _qr_slack((loads.mT @ inner[:, alive]).detach(), float(constant.detach()), values[alive].detach())
    right = Root(units[:, None] * directions * roots, directions / roots / units[:, None], roots.detach().square())
    return White(target, constant, Root.identity(len(target), target), right, slack)


def _qr_slack(target: Tensor, constant: float, roots: Tensor) -> float:
    """What rounding of a QR factorization may do to the least value.

    It turns the direction of singular value s by at most e / s towards what the targets have beyond the inputs.
    """
    level = 4 * sum(target.shape) * EPS
    weights = float((target / roots).square().sum().sqrt())
    turned = (level / float(roots.min())) ** 2 if len(roots) else 0.0
    total = constant + float(target.square().sum())
    return 2 * level * weights * constant**0.5 + turned * constant + level * total


def _of_tall(rows: Tensor, targets: Tensor) -> White | None:
    """Through the second moment, None where that is too close to singular."""
    scaled, units = equilibrate(gram(rows))
    values, vectors = torch.linalg.eigh(scaled)
    if not (len(values) and float(values[0]) > SAFE):
        return None
    roots = values.sqrt()
    right = Root(units[:, None] * vectors * roots, vectors / roots / units[:, None], values)
    target = right.up_rows(targets.mT @ rows)
    residual = targets - rows @ right.up(target.mT)
    slack = _gram_slack(target, torch.linalg.vector_norm(targets)[None].square(), values)
    return White(target, residual.square().sum(), Root.identity(len(target), target), right, slack)


def _of_entries(data: Entries) -> White:
    counts = torch.zeros(data.shape, dtype=data.dtype, device=data.device)
    ones = torch.ones_like(data.values)
    counts.index_put_((data.rows, data.columns), ones, accumulate=True)
    rows, columns = counts.sum(1), counts.sum(0)
    total = counts.sum()
    level = 64 * torch.finfo(data.dtype).eps * total
    if float((counts * total - rows[:, None] * columns).abs().max()) > level:
        raise NoClosedForm(
            "entries must be observed in product proportions (every entry equally often, for instance) for a closed "
            "form; these are not; fit DropoutCompletion instead, its objective can be compared with bounds"
        )
    sums = torch.zeros_like(counts).index_put_((data.rows, data.columns), data.values, accumulate=True)
    means = sums / counts.clamp_min(1)
    left, right = Root.diagonal(rows / total), Root.diagonal(columns / total)
    constant = (data.values - means[data.rows, data.columns]).square().mean()
    target = left.down(means) * right.matrix
    return White(target, constant, left, right, _sum_slack(target, constant))


def _sum_slack(target: Tensor, constant: Tensor) -> float:
    """Rounding of sums of squares and of the decomposition of a target, in float64."""
    return 4 * sum(target.shape) * EPS * float((constant + target.square().sum()).detach())


def _of_measurements(data: Measurements, precision: float) -> White:
    design = data.matrices.flatten(1)
    count, size = design.shape
    scale = design.square().sum() / (count * size)
    level = 64 * size * precision * scale
    second = design.mT @ design / count if count >= size and size <= 2048 else None
    identity = None if second is None else scale * torch.eye(size, dtype=data.dtype, device=data.device)
    if second is None or identity is None or float((second - identity).abs().max()) > level:
        raise NoClosedForm(
            "measurement matrices must have an isotropic second moment (an orthogonal design, or a population given "
            "as Moments.of_map to TwoLayerLinear) for a closed form; fit DropoutCompletion or train instead"
        )
    correlation = (data.values @ design / count).reshape(data.matrices.shape[1:])
    target = correlation / scale.sqrt()
    residual = data.values - design @ correlation.flatten() / scale
    right = Root.diagonal(scale.expand(target.shape[1]))
    constant = residual.square().mean()
    # a second moment between (1 - off) and (1 + off) times the isotropic one
    off = float(torch.linalg.matrix_norm((second - identity).detach()) / scale.detach())
    slack = _sum_slack(target, constant) + 2 * off * float((constant + target.square().sum()).detach())
    return White(target, constant, Root.identity(len(target), target), right, slack)
