"""The criterion of given weights in float64, whatever the precision of model and data.

A certificate compares two numbers that nearly agree. The weights are what they are, so they and the data are taken to
float64 and nothing is lost; features of a torch module are taken as the module computes them.
"""

from __future__ import annotations

import math

import torch

from droptics.data import Data, Entries, Measurements, Moments, Sample
from droptics.linalg.gram import gram, triangular
from droptics.linalg.sums import squares
from droptics.losses import Squared
from droptics.masks import MaskLaw
from droptics.masks.correlations import WIDE
from droptics.models import DeepLinear, LastLayer, LinearModel, Model, TwoLayerLinear
from droptics.models.modules import linear_layer
from droptics.penalties import ClosedForm, penalty
from droptics.penalties.evaluation import risk
from droptics.penalties.rounding import in_double
from droptics.penalties.rules import criterion_rule
from droptics.spectra.coordinates import weighed
from droptics.spectra.roots import numbers

EXACT, SQUARED = ClosedForm(), Squared()
# Examples whose errors are held at once: they stay in a cache.
PART = 4096


def objective(model: Model, data: Data, masks: MaskLaw) -> float:
    """Risk + penalty of a model."""
    with torch.no_grad():
        if isinstance(model, TwoLayerLinear) and isinstance(data, Sample) and masks.size <= WIDE:
            return _of_factors(model, data, masks)
        if model.dtype != torch.float64 or isinstance(model, LastLayer):
            model, data = precise(model, data)
        if isinstance(model, DeepLinear) and isinstance(data, Sample) and len(data) > model.input_size:
            # few rows with the second moment of the inputs, which would lose digits if it were formed
            rows = triangular(data.inputs * data.shares.sqrt()[:, None], data.inputs[:, :0])[0]
            small = Sample(rows * len(rows) ** 0.5, rows.new_zeros(len(rows), model.output_size))
            return float(risk(model, data)) + float(penalty(model, small, masks))
        return float(criterion_rule(model, data, masks, EXACT, SQUARED))  # of a model and data that are known to fit


def _of_factors(model: TwoLayerLinear, data: Sample, masks: MaskLaw) -> float:
    """Risk + penalty by one look at every hidden unit of every example."""
    parts = model.U, model.V, data.inputs, data.targets
    U, V, inputs, targets = (numbers(part.detach().double()) for part in parts)
    hidden, share, roots = inputs @ V, 1 / len(data), None
    if data.weights is not None:
        weights = data.weights.detach().double()
        roots, share = numbers(weights.sqrt())[:, None], 1 / float(weights.sum())
    sums = []
    for part in (slice(i, i + PART) for i in range(0, len(data), PART)):
        rest = targets[part] - hidden[part] @ U.T
        sums.append(squares(torch.as_tensor(rest if roots is None else roots[part] * rest)))
    hidden = torch.as_tensor(hidden if roots is None else roots * hidden)
    return share * (math.fsum(sums) + weighed(masks, (U.T @ U) * numbers(gram(hidden))))


def energy(data: Data) -> float:
    """E |y|^2: the risk of a model that answers zero."""
    if isinstance(data, Moments):
        return float(torch.trace(data.yy.detach().double()))
    assert isinstance(data, (Sample, Entries, Measurements))
    squares = data.targets.detach().double().square()
    squares = squares.sum(-1) if squares.ndim > 1 else squares
    return float(
        squares.mean() if data.weights is None else data.weights.double() @ squares / data.weights.double().sum()
    )


def own_rounding(model: Model, data: Data) -> float:
    """What the rounding of second moments may do to the criterion of a linear model with large weights.

    Numbers off by `rounding` relative to their features change it by rounding (|y| + sum_i |W_i| rms_i)^2 per output.
    Weights on directions without energy make this more than the bound, which takes them to be without, can foresee.
    """
    if not isinstance(data, Moments) or not isinstance(model, LinearModel):
        return 0.0
    reach = model.matrix().detach().double().abs() @ data.xx.detach().double().diagonal().clamp_min(0).sqrt()
    sizes = reach + data.yy.detach().double().diagonal().clamp_min(0).sqrt()
    return data.rounding * float(sizes.square().sum())


def precise(model: Model, data: Data) -> tuple[Model, Data]:
    """The same model and data in float64; a head with the features that its module computes."""
    if not (isinstance(model, LastLayer) and isinstance(data, Sample)):
        return in_double(model, data)
    weights = None if data.weights is None else data.weights.double()
    targets = data.targets.double() if data.targets.is_floating_point() else data.targets
    sample = Sample(model.features(data.inputs).double(), targets, weights)
    bias = None if model.head.bias is None else model.head.bias.double()
    head = linear_layer(model.head.weight.double(), bias)
    return LastLayer(head, head), sample
