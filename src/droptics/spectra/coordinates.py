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

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from droptics.data import Data, Entries, Measurements, Moments, Sample
from droptics.errors import NoClosedForm
from droptics.linalg.gram import SHORT, gram, triangular
from droptics.linalg.ranks import independent, proved_rank
from droptics.linalg.scales import is_small, least_singular, powers_of_two, scaled_eigen
from droptics.linalg.sums import products, squares
from droptics.linalg.tall import SAFE, moment_rounding, orthogonal
from droptics.masks import MaskLaw
from droptics.spectra.roots import EPS, Root, numbers
from droptics.transforms import wants_derivative

# Samples with this many examples per feature are read through their Gram matrix: as it is where that loses no digits
# that count, no eigenvalue below SAFE after the features are in their own units, or by `linalg.tall`. Where one is
# below WEAK, or a criterion is a smaller share of the targets than SAFE, it is measured on the examples themselves.
TALL, WEAK = 4, 1e-10
# Energies below this have lost digits to the least normal number.
FAINT = 2.0**-900


@dataclass(frozen=True, eq=False)
class Frame:
    """White coordinates: a map W is left^T W right in them. All that a question about a given map needs."""

    left: Root
    right: Root

    def spectrum(self, U: Tensor, V: Tensor) -> Tensor:
        """Singular values of the map U V^T here, min(features, width) of them, descending, in float64."""
        left, right = self.left.down(U.double()), self.right.down(V.double())
        if U.shape[-1] < min(left.shape[-2], right.shape[-2]):
            # of the small product of the triangular factors: O((outputs + inputs) width^2)
            left, right = torch.linalg.qr(left).R, torch.linalg.qr(right).R
        product = left @ right.mT
        if is_small(product):
            return torch.from_numpy(np.linalg.svd(product.numpy(), compute_uv=False))
        return torch.linalg.svdvals(product)

    def svd(self, U: Tensor, V: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Compact SVD of the map U V^T here, through the triangular factors: O((outputs + inputs) width^2).

        Every node is first put into units of its own, both of its columns of about the same norm, so that a product of
        a huge column and a tiny one is a term like any other.
        """
        out, into = self.left.down(U.double()), self.right.down(V.double())
        ratios = torch.linalg.vector_norm(out, dim=0) / torch.linalg.vector_norm(into, dim=0)
        units = powers_of_two(ratios.sqrt().nan_to_num(1.0, 1.0))
        out, into = out / units, into * units
        level = U.shape[-1] * EPS * torch.linalg.vector_norm(out) * torch.linalg.vector_norm(into)
        bases = None
        if U.shape[-1] < min(len(out), len(into)):
            (left, out), (right, into) = torch.linalg.qr(out), torch.linalg.qr(into)
            bases = left, right
        inner, values, outer = torch.linalg.svd(out @ into.mT, full_matrices=False)
        rank = int((values > level).sum())
        first, second = inner[:, :rank], outer[:rank].mT
        if bases is not None:
            first, second = bases[0] @ first, bases[1] @ second
        return first, values[:rank], second


@dataclass(frozen=True, eq=False)
class White(Frame):
    """A problem in white coordinates: risk = constant + ||target - left^T W right||_F^2, known up to `slack`.

    Numbers without derivatives. `safe` where the second moment of the inputs is far from singular, so that given
    weights lose no digits here.
    """

    target: Tensor
    constant: float
    slack: float = 0.0
    safe: bool = False

    @property
    def energy(self) -> float:
        """E |y|^2: what a network that answers zero has as its risk."""
        return self.constant + squares(self.target)

    def criterion(self, U: Tensor, V: Tensor, masks: MaskLaw) -> float:
        """Risk + penalty of factors of a map on these features: constant + ||T - U H^T||^2 + sum_ij Cbar_ij G_ij.

        Every term is positive, so that data without noise lose no digits.
        """
        out, into, target = map(numbers, (self.left.down(U.detach()), self.right.down(V.detach()), self.target))
        rest, products = target - out @ into.T, (out.T @ out) * (into.T @ into)
        return self.constant + float((rest * rest).sum()) + weighed(masks, products)

    def floor(self, least: float) -> float:
        """Lower bound on a criterion from the least of ||T - A||^2 + penalty over all A."""
        return self.constant + least - self.slack


def frame(data: Data) -> Frame:
    """The coordinates of `whiten` alone: what the targets are there, and how well that is known, is left out."""
    exact, precision = data.to(torch.float64), torch.finfo(data.dtype).eps
    match exact:
        case Moments():
            return Frame(Root.identity(len(exact.yx), exact.yx), Root.of_moment(exact.xx, exact.rounding))
        case Sample():
            rows, targets, share = _rows(exact)
            right = _safe_root(moment := _tall_moment(rows, share))
            right = right or _split(_few(exact, rows, rows[:, :0], share, moment).triangle, precision).root
            return Frame(Root.identity(targets.shape[-1], rows), right)
    return whiten(data)


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
    right = Root.of_moment(data.xx.detach(), data.rounding)
    target = right.up_rows(data.yx.detach())
    energies, parts = numbers(data.yy.detach()).diagonal(), numbers(target) ** 2
    # the same energies added in the same order as in the target, so that noiseless data give a constant near zero
    residual = energies - parts.sum(1)
    # a moment that is exactly diagonal has no rounding beside the diagonal
    off = data.rounding * data.xx.shape[0] ** (0.5 if right.matrix.ndim == 1 else 1.0)
    slack = _gram_slack(parts, right, float(energies.sum()), off)
    # A direction without energy is one up to rounding only, and so is its correlation with the targets: unless it is
    # known that the features have no more directions, it may be all that the targets have beyond the others.
    if right.singular:
        known = min(int(torch.count_nonzero(data.xx.diagonal())), len(data.xx) if data.rank is None else data.rank)
        slack = 2 * slack + (len(right.energies) < known) * float(residual.clip(0).sum())
    return White(Root.identity(len(target), target), right, target, float(residual.sum()), slack)


def weighed(masks: MaskLaw, products: Any) -> float:
    """`MaskLaw.weigh` of numbers, in NumPy where the law is one number."""
    if (strength := shared_strength(masks)) is not None:
        return strength * float(products.trace())
    return float(masks.weigh(torch.as_tensor(products)).detach())


def shared_strength(masks: MaskLaw) -> float | None:
    """The relative variance of independent units where that is one number; None otherwise."""
    return masks.common_strength if masks.independent else None


def _gram_slack(parts: Any, root: Root, energy: float, off: float = 0.0) -> float:
    """What rounding of second moments may do to the least value: in float64, and of the moments as they came.

    With W the least-squares map, every feature in its own units, G = W E[x x^T] W^T = T T^T holds the squared singular
    values. Moments off by dxx and dyx have W E[x x^T] W^T - W dxx W^T + W dyx^T + dyx W^T + F E[x x^T]^-1 F^T with
    F = dyx - W dxx in its place. Entries off by `rounding` make |dxx| <= d rounding = off and |dyx| <= off |y|; every
    energy is above 8 off, so that the whole, with the change of tr E[y y^T], is below (8 / 7) off (|y| + |W|)^2.

    `parts` are the squares of the entries of T, `energy` is tr E[y y^T].
    """
    weights = parts if root.plain else parts / numbers(root.energies)
    size = float(weights.sum()) ** 0.5 + max(energy, 0.0) ** 0.5
    return (4 * sum(parts.shape) * EPS + 8 / 7 * off) * size**2


def _of_sample(data: Sample, precision: float) -> White:
    """Through few rows with the second moment of the examples, none of whose digits are lost to rounding.

    Tall samples whose second moment is far from singular are read through it, at the cost of three products.
    """
    rows, targets, share = _rows(data)
    right = _safe_root(moment := _tall_moment(rows, share))
    rows, targets = rows.detach(), targets.detach()
    if right is not None:
        return _of_tall(rows, targets, share, right)
    few = _few(data, rows, targets, share, moment)
    inner, values, alive, kept, root = _split(few.triangle, precision)
    loads, basis = few.loads, inner[:, kept]
    target = loads.mT @ basis
    constant = squares(loads - basis @ target.mT) + few.beyond
    seen, rest = int(alive.sum()), max(constant, 0.0)
    # a direction that is not proved to be absent may be all that the targets have beyond the others
    unseen = seen < rows.shape[1] and seen < proved_rank(data.inputs, data.weights, seen, few.proved)
    slack = squares(loads.mT @ inner[:, alive & ~kept]) + unseen * rest + few.slack
    # other networks may use these too, and of all directions rounding turns them the most
    slack += _qr_slack(loads.mT @ inner[:, alive], rest, values[alive], len(rows), few.lost)
    # weights grow with the root of an energy, and with them what the rows are off by
    safe = few.proved is not None and bool((root.energies > max(WEAK, (1e9 * few.lost) ** 2)).all())
    return White(Root.identity(len(target), target), root, target, constant, slack, safe)


class _Few(NamedTuple):
    """Few rows with the second moment of many, the targets on them, and the energy of what is left of these.

    Attributes:
        triangle: The rows.
        loads: The targets on them.
        beyond: The energy of what is left.
        slack: What rounding of second moments may do to the least value.
        lost: Norm of the difference to the rows, every feature in its own units, beside rounding of factorizations.
        proved: How many columns are proved to depend on others; None where nobody looked.
    """

    triangle: Tensor
    loads: Tensor
    beyond: float
    slack: float = 0.0
    lost: float = 0.0
    proved: int | None = None


def _few(data: Sample, rows: Tensor, targets: Tensor, share: float, moment: Tensor | None) -> _Few:
    """By QR factorizations, or for tall samples by products with many rows, at a fraction of their time.

    Columns that depend on others, by a proof or up to rounding, are left out of the second moment and put back.
    """
    if moment is None:
        return _Few(*triangular(share**0.5 * rows, share**0.5 * targets))
    columns = independent(data.inputs, data.weights, rows, share, moment)
    kept, proved, energy = columns.kept, columns.proved, squares(targets) * share
    if not len(kept):
        return _Few(rows[:1], 0 * targets[:1], energy, 0.0, columns.lost, proved)
    part, whole = moment[kept[:, None], kept], len(kept) == len(moment)
    root = None if whole else _safe_root(part)
    if root is not None:
        cross = products(targets, rows)[:, kept]
    else:
        found = orthogonal(rows if whole else rows[:, kept], share, part)
        if found is None:
            return _few(data, rows, targets, share, None)._replace(proved=proved)
        root = Root(found.triangle.mT, found.turn, found.energies)
        cross = products(targets, found.rows)
    target = root.up_rows(cross * share)
    slack = _gram_slack(numbers(target) ** 2, root, energy, moment_rounding(rows))
    return _Few(root.matrix.mT @ columns.mixing, target.mT, energy - squares(target), slack, columns.lost, proved)


def _rows(data: Sample) -> tuple[Tensor, Tensor, float]:
    """Rows of inputs and targets that a linear network can be of, and the number by which their products are means."""
    if data.inputs.ndim != 2 or not data.targets.is_floating_point():
        raise ValueError("data must hold input vectors and floating-point targets for a linear network")
    if data.weights is None:
        return data.inputs, data.targets, 1 / len(data)
    roots = data.shares.sqrt()[:, None]
    return roots * data.inputs, roots * data.targets, 1.0


class _Split(NamedTuple):
    """The directions of rows: their left singular vectors and values, which are there at all, and the root of some."""

    inner: Tensor
    values: Tensor
    alive: Tensor
    kept: Tensor
    root: Root


def _split(triangle: Tensor, precision: float) -> _Split:
    units = powers_of_two(torch.linalg.vector_norm(triangle.detach(), dim=0))
    inner, values, outer = torch.linalg.svd(triangle / units, full_matrices=False)
    size = triangle.shape[1]
    alive = values > least_singular(size)
    # directions that the rounding of the data themselves may have made: no network is built on them
    kept = alive & (values > 4 * size**0.5 * precision)
    roots, directions = values[kept], outer[kept].mT
    root = Root(units[:, None] * directions * roots, directions / roots / units[:, None], roots.detach().square())
    return _Split(inner, values, alive, kept, root)


def _qr_slack(target: Tensor, constant: float, roots: Tensor, count: int, lost: float) -> float:
    """What rounding of QR factorizations of so many rows may do to the least value.

    It turns the direction of singular value s by at most e / s towards what the targets have beyond the inputs. One
    factorization of m x n numbers is that of a matrix off by a small multiple of sqrt(m n) u in norm (Connolly and
    Higham 2023), and m < 8 n in `triangular`: 16 n u is more than 5 times that. Every four times as many rows are one
    factorization more. `lost` is what the rows are off beside that.
    """
    level = (8 * sum(target.shape) + SHORT) * EPS * (1 + math.log2(max(count / max(target.shape[1], 1), 1)) / 2)
    level += lost
    weights = float((target / roots).square().sum().sqrt())
    turned = (level / float(roots.min())) ** 2 if len(roots) else 0.0
    total = constant + float(target.square().sum())
    return 2 * level * weights * constant**0.5 + turned * constant + level * total


def _tall_moment(rows: Tensor, share: float) -> Tensor | None:
    """The second moment of many rows; None where they are few, a derivative is wanted, or energies underflow."""
    if len(rows) < TALL * rows.shape[1] or wants_derivative(rows):
        return None
    moment = gram(rows) * share
    low = numbers(moment).diagonal() < FAINT
    return None if low.any() and bool((rows[:, torch.as_tensor(low)] != 0).any()) else moment


def _safe_root(moment: Tensor | None) -> Root | None:
    """Root of a second moment; None where there is none, or it is too close to singular."""
    if moment is None:
        return None
    values, vectors, units = scaled_eigen(moment)
    return Root.of_eigen(values, vectors, units) if len(values) and values[0] > SAFE else None


def _of_tall(rows: Tensor, targets: Tensor, share: float, right: Root) -> White:
    target, energy = right.up_rows(products(targets, rows) * share), squares(targets) * share
    slack = _gram_slack(numbers(target) ** 2, right, energy, moment_rounding(rows))
    return White(Root.identity(len(target), target), right, target, energy - squares(target), slack, safe=True)


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
    constant = float((data.values - means[data.rows, data.columns]).detach().square().mean())
    target = left.down(means.detach()) * right.matrix
    return White(left, right, target, constant, _sum_slack(target, constant))


def _sum_slack(target: Tensor, constant: float) -> float:
    """Rounding of sums of squares and of the decomposition of a target, in float64."""
    return 4 * sum(target.shape) * EPS * (constant + float(target.square().sum()))


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
    target = (correlation / scale.sqrt()).detach()
    residual = data.values - design @ correlation.flatten() / scale
    right = Root.diagonal(scale.expand(target.shape[1]))
    constant = float(residual.detach().square().mean())
    # a second moment between (1 - off) and (1 + off) times the isotropic one
    off = float(torch.linalg.matrix_norm((second - identity).detach()) / scale.detach())
    slack = _sum_slack(target, constant) + 2 * off * (constant + float(target.square().sum()))
    return White(Root.identity(len(target), target), right, target, constant, slack)


def check_isotropic(data: Data) -> None:
    """Refuse tied networks on inputs that are not isotropic: their least penalty is not a function of a spectrum."""
    moments = Moments.of(data)
    moment = moments.xx.double()
    scale = torch.diagonal(moment).mean()
    off = (moment - scale * torch.eye(moment.shape[0], dtype=moment.dtype, device=moment.device)).abs().max()
    if float(off) > 64 * moment.shape[0] * moments.rounding * float(scale):
        raise NoClosedForm(
            "Autoencoder has a closed form only for isotropic inputs, E x x^T = c I, and these are not: a tied column "
            "cannot be balanced in two geometries at once; whiten the inputs, or use TwoLayerLinear (certify gives "
            "its bound, which holds for tied networks too)"
        )


def white_weights(data: Data) -> Frame:
    """Coordinates of masks on the weights of the first layer: inputs rescaled, their correlations forgotten.

    One rate lambda on all weights penalizes lambda sum_k ||u_k||^2 ||D v_k||^2 with D = diag(E x_i^2)^(1/2)
    (pal2020-thm4.1, corrected): as on the units of a network with uncorrelated inputs.
    """
    moments = Moments.of(data.to(torch.float64))
    return Frame(Root.identity(len(moments.yx), moments.yx), Root.diagonal(torch.diagonal(moments.xx)))
