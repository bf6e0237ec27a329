"""The last layer of any network: its best weights for given features, and the bound for any features at all.

For fixed features the criterion is a convex quadratic in the head: with G = E h h^T and C the same after centering
(when there is a bias), W = E[y h^T] (C + Cbar o G)^+, a generalized ridge regression (droptics-head). When the features
are free, a network of that width computes W H with W (outputs, width) and H whatever the body makes of the examples, so
no body can beat the two-layer optimum in which H is arbitrary (pal2020-prop3.3, corrected: lambda / width). The bound
is attained when the body has the capacity to produce that H; features that end in a ReLU are non-negative and may not.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from droptics.data import Data, Sample
from droptics.envelopes.whitening import Root, White
from droptics.errors import NoClosedForm
from droptics.linalg import psd_eigen
from droptics.masks import Bernoulli, MaskLaw, Product
from droptics.models import LastLayer, ReLUNet
from droptics.models.modules import linear_layer
from droptics.optima.optimum import Optimum, certify_bound, optimum_rule, rounding
from droptics.optima.two_layer import two_layer_bound
from droptics.penalties import criterion
from droptics.penalties.evaluation import check_triple

HEAD = "droptics-head"
CAPACITY = "pal2020-prop3.3"
# Cholesky pivots closer together than this leave half of the digits of a float64 beyond doubt.
SAFE = 1e-4


def solve_head(features: Tensor, sample: Sample, masks: MaskLaw, bias: bool) -> tuple[Tensor, Tensor, float]:
    """Weights (outputs, units), bias (outputs,) and criterion of the best head on features (n, units), in float64.

    Directions without energy get no weight. Exact for every mask law; O(n units^2 + units^3).
    """
    h = features.detach().double()
    y, share = _targets(sample)
    h_mean = (share * h).sum(0) if bias else torch.zeros_like(h[0])
    y_mean = (share * y).sum(0) if bias else torch.zeros_like(y[0])
    centered = h - h_mean
    spread = (centered * share).mT @ centered
    gram = spread + torch.outer(h_mean, h_mean)
    linear = ((y - y_mean) * share).mT @ centered
    weight = _solved(spread + masks.characteristic.detach().to(gram) * gram, linear)
    least = (share * (y - y_mean).square()).sum() - (weight * linear).sum()
    return weight, y_mean - weight @ h_mean, float(least)


def _solved(quadratic: Tensor, linear: Tensor) -> Tensor:
    """The product linear quadratic^+, quadratic positive semidefinite: by Cholesky where safe, else by eigenvectors."""
    factor, failed = torch.linalg.cholesky_ex(quadratic)
    pivots = factor.diagonal()
    if not failed and bool(pivots.min() > SAFE * pivots.max()):
        return torch.cholesky_solve(linear.mT, factor).mT
    values, vectors = psd_eigen(quadratic)
    inverse = torch.where(values > 0, 1 / torch.where(values > 0, values, torch.ones_like(values)), 0.0)
    return (linear @ vectors * inverse) @ vectors.mT


def _targets(sample: Sample) -> tuple[Tensor, Tensor]:
    """Targets in float64 and the share of every example, (n, 1)."""
    if not sample.targets.is_floating_point():
        raise ValueError("data must have floating-point targets for a squared loss; one-hot encode class labels")
    moved = sample.to(torch.float64)
    return moved.targets.detach(), moved.shares.detach()[:, None]


@optimum_rule(LastLayer)
def head_optimum(data: Data, masks: MaskLaw) -> Optimum:
    """The best linear head with bias on features that are given as the inputs of a Sample (droptics-head).

    >>> from droptics.masks import Bernoulli
    >>> data = Sample(torch.ones(2, 1, dtype=torch.float64), torch.tensor([1.0, 3.0], dtype=torch.float64))
    >>> head_optimum(data, Bernoulli(0.5, 1)).objective
    1.0
    """
    if not isinstance(data, Sample) or data.inputs.ndim != 2:
        raise ValueError(f"data for LastLayer must be a Sample of feature vectors, got {type(data).__name__}")
    outputs = data.targets.shape[1] if data.targets.ndim == 2 else 1
    head = linear_layer(data.inputs.new_zeros(outputs, data.inputs.shape[1]), data.inputs.new_zeros(outputs))
    return optimal_head(LastLayer.of(head), data, masks)


def optimal_head(model: LastLayer, data: Data, masks: MaskLaw) -> Optimum:
    """A copy of the module whose last layer is the best one for its features under the mask law (droptics-head).

    The body is untouched. `bound` holds for every head on these features; `certify` has the one for every body.
    """
    check_triple(model, data, masks)
    if not isinstance(data, Sample):
        raise ValueError(f"data for LastLayer must be a Sample, got {type(data).__name__}")
    with torch.no_grad():
        features = model.features(data.inputs)
    weight, bias, least = solve_head(features, data, masks, model.head.bias is not None)
    name = next(name for name, layer in model.module.named_modules() if layer is model.head)
    best = LastLayer.of(copy.deepcopy(model.module), name)
    with torch.no_grad():
        best.head.weight.copy_(weight)
        if best.head.bias is not None:
            best.head.bias.copy_(bias)
    y, share = _targets(data)
    scale = float((share * y.square()).sum())
    rank = int(torch.linalg.matrix_rank(weight))
    objective = float(criterion(best, data, masks))
    return Optimum(best, objective, least, rank, HEAD, scale, rounding(data.dtype))


def capacity_bound(sample: Sample, masks: MaskLaw, bias: bool) -> float:
    """No network whose last layer has masks.size units can have a smaller criterion (pal2020-prop3.3, corrected).

    F* of the singular values of the targets (centered when the last layer has a bias) at strength lambda / width;
    DropBlock: at lambda block / width with the k-support norm, k = block; other laws: the bound of two layers.
    """
    y, share = _targets(sample)
    if bias:
        y = y - (share * y).sum(0)
    triangle = torch.linalg.qr(share.sqrt() * y).R
    white = White(triangle.mT, triangle.new_zeros(()), Root.identity(triangle.mT), Root.identity(triangle))
    return two_layer_bound(white, masks)[0]


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
