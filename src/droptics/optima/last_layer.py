"""The last layer of any network: its best weights for given features, and the bound for any features at all.

For fixed features the criterion is a convex quadratic in the head: with G = E h h^T and C the same after centering
(when there is a bias), W = E[y h^T] (C + Cbar o G)^+, a generalized ridge regression (droptics-head). When the features
are free, a network of that width computes W H with W (outputs, width) and H whatever the body makes of the examples, so
no body can beat the two-layer optimum in which H is arbitrary (pal2020-prop3.3, corrected: lambda / width). The bound
is attained when the body has the capacity to produce that H; features that end in a ReLU are non-negative and may not.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from droptics.arguments import check_arguments
from droptics.checks import check_size
from droptics.data import Data, Sample
from droptics.errors import NoClosedForm
from droptics.linalg.gram import SHORT, gram, triangular
from droptics.linalg.scales import equilibrate
from droptics.linalg.sums import products, squares, summands
from droptics.masks import Bernoulli, MaskLaw, Product
from droptics.models import LastLayer, ReLUNet
from droptics.models.modules import linear_layer
from droptics.optima.optimum import Optimum, certify_bound, optimum_rule, rounding
from droptics.optima.two_layer import two_layer_bound
from droptics.penalties.evaluation import check_triple
from droptics.spectra.coordinates import White
from droptics.spectra.roots import EPS, Root

HEAD = "droptics-head"
CAPACITY = "pal2020-prop3.3"
# Cholesky pivots closer together than this leave half of the digits of a float64 beyond doubt.
SAFE = 1e-4


@dataclass(frozen=True, eq=False)
class HeadProblem:
    """The criterion of a head W, b on fixed features as the quadratic that it is, in float64 (droptics-head).

    It is energy - 2 <W, linear> + <W quadratic, W> + |b + W input_mean - target_mean|^2 for every mask law.

    Attributes:
        quadratic: C + Cbar o G, (units, units).
        linear: E y h^T, both centered when there is a bias, (outputs, units).
        energy: E |y|^2, likewise.
        input_mean: Mean of the features, zero without a bias.
        target_mean: Mean of the targets, zero without a bias.
        rounding: By how much a mean over the examples can be off, relative to their sizes.
    """

    quadratic: Tensor
    linear: Tensor
    energy: Tensor
    input_mean: Tensor
    target_mean: Tensor
    rounding: float

    @staticmethod
    def of(features: Tensor, sample: Sample, masks: MaskLaw, bias: bool) -> HeadProblem:
        """The problem for features (n, units) of the examples of a sample; one pass over them, O(n units^2)."""
        targets, share = _targets(sample)
        # side by side: one mean, one Gram matrix, and the whole is written once
        both, units, count = torch.cat([features.detach(), targets], 1).double(), features.shape[1], len(sample)
        # as a product with a vector: torch adds rows of a matrix ten times slower
        mean = products(share[:, None], both)[0] if bias else torch.zeros_like(both[0])
        both -= mean
        if sample.weights is not None:
            both *= (share * count).sqrt()[:, None]
        moments, h_mean, y_mean = gram(both) / count, mean[:units], mean[units:]
        # what centering leaves of a feature that does not vary is rounding
        steady = moments.diagonal()[:units] <= (1e3 * EPS * h_mean).square()
        if bool(steady.any()):
            both[:, :units].masked_fill_(steady, 0.0)
            moments = gram(both) / count
        quadratic, linear, energy = moments[:units, :units], moments[units:, :units], moments.diagonal()[units:].sum()
        quadratic = quadratic + masks.hadamard(quadratic + torch.outer(h_mean, h_mean)).detach()
        return HeadProblem(quadratic, linear, energy, h_mean, y_mean, summands(*both.shape) * EPS / 2)

    def solve(self) -> tuple[Tensor, Tensor, float]:
        """Best weights linear quadratic^+ (outputs, units), their bias, and what rounding may take off the least value.

        Directions without energy get no weight; O(units^3). By Cholesky where every unit in its own scale leaves no
        doubt about the rank, else by eigenvectors. Moments off by e change the value by at most e (|y| + |W|)^2, and a
        direction whose energy is below rounding may explain all that is left, unless it is a unit that is exactly zero.
        Means off by m raise the computed value by |m_y - W m_h|^2.
        """
        scaled, units = equilibrate(self.quadratic)
        linear, factor = self.linear / units, _safe_factor(scaled)
        level, unknown = 4 * sum(linear.shape) * EPS + 2 * len(scaled) * self.rounding, 0.0
        if factor is not None:
            weight = torch.cholesky_solve(linear.mT, factor).mT
        else:
            values, vectors = torch.linalg.eigh(scaled)
            kept = values > 8 * len(values) * EPS
            weight = (linear @ vectors[:, kept] / values[kept]) @ vectors[:, kept].mT
            if int((~kept).sum()) > int((scaled.diagonal() == 0).sum()):
                unknown = max(float(self.energy - (weight * linear).sum()), 0.0)
        reach = float(weight.norm() + self.energy.sqrt())
        weight = torch.where(scaled.diagonal() > 0, weight / units, 0.0)
        means = self.rounding * float((weight.abs() @ self.input_mean.abs() + self.target_mean.abs()).norm())
        return weight, self.target_mean - weight @ self.input_mean, level * reach**2 + means**2 + unknown

    def value(self, weight: Tensor, bias: Tensor | None) -> float:
        """The criterion of any head, O(outputs units^2)."""
        W = weight.detach().double()
        shift = W @ self.input_mean - self.target_mean
        shift = shift if bias is None else shift + bias.detach().double()
        return float(self.energy + (W * (W @ self.quadratic - 2 * self.linear)).sum() + shift.square().sum())

    def optimum(self, module: nn.Module, head: nn.Linear, dtype: torch.dtype) -> Optimum:
        """Write the best weights into the head of the module and say what they reach, after rounding to its dtype."""
        weight, bias, slack = self.solve()
        with torch.no_grad():
            head.weight.copy_(weight)
            if head.bias is not None:
                head.bias.copy_(bias)
        least, found = float(self.energy - (weight * self.linear).sum()) - slack, self.value(head.weight, head.bias)
        scale = float(self.energy + self.target_mean.square().sum())
        # the rank of what the head adds up, every feature in units of its own
        rank = _rank(weight * self.quadratic.diagonal().sqrt())
        return Optimum(LastLayer(module, head), found, least, rank, HEAD, scale, rounding(dtype), slack=slack)


def _safe_factor(matrix: Tensor) -> Tensor | None:
    """The Cholesky factor of a matrix that is positive definite beyond doubt, else None."""
    factor, failed = torch.linalg.cholesky_ex(matrix)
    pivots = factor.diagonal()
    return factor if bool((failed == 0) & (pivots.min() > SAFE * pivots.max())) else None


def _rank(weight: Tensor) -> int:
    """Rank of a matrix; singular values are looked at only where its rows may depend on each other."""
    rows = weight if weight.shape[0] <= weight.shape[1] else weight.mT
    return len(rows) if _safe_factor(rows @ rows.mT) is not None else int(torch.linalg.matrix_rank(weight))


def _targets(sample: Sample) -> tuple[Tensor, Tensor]:
    """Targets, and the share of every example in float64."""
    if not sample.targets.is_floating_point():
        raise ValueError("data must have floating-point targets for a squared loss; one-hot encode class labels")
    targets = sample.targets.detach()
    if sample.weights is None:
        return targets, targets.new_full((len(sample),), 1.0 / len(sample), dtype=torch.float64)
    weights = sample.weights.detach().double()
    return targets, weights / weights.sum()


@optimum_rule.register(LastLayer)
def head_optimum(family: type[LastLayer], data: Data, masks: MaskLaw) -> Optimum:
    """The best linear head with bias on features that are given as the inputs of a Sample (droptics-head).

    Cost: one Gram matrix of the features and its Cholesky factor.

    >>> from droptics.masks import Bernoulli
    >>> data = Sample(torch.ones(2, 1, dtype=torch.float64), torch.tensor([1.0, 3.0], dtype=torch.float64))
    >>> head_optimum(LastLayer, data, Bernoulli(0.5, 1)).objective
    1.0
    """
    if not isinstance(data, Sample) or data.inputs.ndim != 2:
        raise ValueError(f"data for LastLayer must be a Sample of feature vectors, got {type(data).__name__}")
    check_size("masks", masks.size, data.inputs.shape[1], "one unit per feature")
    problem = HeadProblem.of(data.inputs, data, masks, True)
    head = linear_layer(problem.linear.to(data.dtype), problem.target_mean.to(data.dtype))
    return problem.optimum(head, head, data.dtype)


def optimal_head(model: LastLayer, data: Data, masks: MaskLaw) -> Optimum:
    """A copy of the module whose last layer is the best one for its features under the mask law (droptics-head).

    The body is untouched. `bound` holds for every head on these features; `certify` has the one for every body.
    Cost: one pass through the body, and that of `optimum` for its features.
    """
    check_arguments(optimal_head, locals())
    check_triple(model, data, masks)
    if not isinstance(data, Sample):
        raise ValueError(f"data for LastLayer must be a Sample, got {type(data).__name__}")
    with torch.no_grad():
        features = model.features(data.inputs)
    problem = HeadProblem.of(features, data, masks, model.head.bias is not None)
    name = next(name for name, layer in model.module.named_modules() if layer is model.head)
    best = LastLayer.of(copy.deepcopy(model.module), name)
    return problem.optimum(best.module, best.head, data.dtype)


def capacity_bound(sample: Sample, masks: MaskLaw, bias: bool) -> float:
    """No network whose last layer has masks.size units can have a smaller criterion (pal2020-prop3.3, corrected).

    F* of the singular values of the targets (centered when the last layer has a bias) at strength lambda / width;
    DropBlock: at lambda block / width with the k-support norm, k = block; other laws: the bound of two layers.
    """
    targets, share = _targets(sample)
    y = targets.double()
    mean = products(share[:, None], y)[0] if bias else torch.zeros_like(y[0])
    triangle, _, _ = triangular(share.sqrt()[:, None] * (y - mean), y[:, :0])
    left, right = (Root.identity(size, triangle) for size in triangle.mT.shape)
    slack = (4 * sum(triangle.shape) + min(len(y), SHORT)) * EPS * squares(triangle)
    slack += squares(summands(len(y)) * EPS / 2 * mean)
    return two_layer_bound(White(left, right, triangle.mT, 0.0, slack), masks)[0]


@certify_bound.register
def _(model: LastLayer, data: Data, masks: MaskLaw) -> tuple[float, str]:
    if not isinstance(data, Sample):
        raise ValueError(f"data for LastLayer must be a Sample, got {type(data).__name__}")
    return capacity_bound(data, masks, model.head.bias is not None), CAPACITY


@certify_bound.register
def _(model: ReLUNet, data: Data, masks: MaskLaw) -> tuple[float, str]:
    """Masks on earlier layers only make more examples of the same targets, so the last hidden layer's law decides."""
    if not isinstance(data, Sample):
        raise ValueError(f"data for ReLUNet must be a Sample, got {type(data).__name__}")
    return capacity_bound(data, _last_law(model, masks), True), CAPACITY


def _last_law(model: ReLUNet, masks: MaskLaw) -> MaskLaw:
    width = model.layer_units[-1]
    if isinstance(masks, Product) and masks.laws[-1].size == width:
        return masks.laws[-1]
    if isinstance(masks, Bernoulli):
        return Bernoulli(masks.drop[-width:], width)
    raise NoClosedForm(
        f"the bound of ReLUNet needs a law of its last hidden layer that is independent of the others, "
        f"Product([..., law of size {width}]); {type(masks).__name__} may correlate layers"
    )
