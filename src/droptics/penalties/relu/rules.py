"""What ReLU networks answer about their penalty: one sum over mask outcomes, the last layer integrated."""

from __future__ import annotations

import torch
from torch import Tensor

from droptics.data import Data, Sample, average
from droptics.errors import NoClosedForm
from droptics.estimates import Estimate
from droptics.losses import Loss, Squared
from droptics.masks import MaskLaw
from droptics.models import Model, ReLUNet
from droptics.penalties.expectations import sampled
from droptics.penalties.methods import ClosedForm, MonteCarlo
from droptics.penalties.relu.constants import summed_over
from droptics.penalties.relu.criterion import network_laws, relu_cost, relu_excess, relu_summable
from droptics.penalties.relu.sampling import sampled_relu
from droptics.penalties.rounding import deferred, excess_scale, in_double, risk_rounding, typical_multipliers
from droptics.penalties.rules import covered_rule, criterion_rule, penalty_rule, sampling_rule
from droptics.transforms import is_transformed, opaque_of


@penalty_rule.register
def _(model: ReLUNet, data: Data, masks: MaskLaw, method: ClosedForm, loss: Loss) -> Estimate:
    return _both(model, data, masks, method, loss)[1]


@criterion_rule.register
def _(model: ReLUNet, data: Data, masks: MaskLaw, method: ClosedForm, loss: Loss) -> Estimate:
    return _both(model, data, masks, method, loss)[0]


@covered_rule.register
def _(model: ReLUNet, masks: MaskLaw, loss: Loss, data: Data | None = None) -> bool:
    if not relu_summable(model, masks, loss):
        return False
    return data is None or relu_cost(model, _sample(data), masks, loss).seconds <= ClosedForm().seconds


@sampling_rule.register
def _(model: ReLUNet, data: Data, masks: MaskLaw, method: MonteCarlo, loss: Loss) -> Estimate:
    try:
        laws = network_laws(model, masks) if isinstance(loss, Squared) else None
    except NoClosedForm:  # the last hidden layer has no mask of its own that could be integrated
        laws = None
    if laws is None:
        return sampled(model, data, masks, method, loss)
    return sampled_relu(model, _sample(data), masks, method)


def _both(model: ReLUNet, data: Data, masks: MaskLaw, method: ClosedForm, loss: Loss) -> tuple[Estimate, Estimate]:
    """Criterion and penalty of a ReLU network, from one sum over mask outcomes in float64."""
    sample = _sample(data)
    plain, added, steps = _parts(model, sample, masks, method, loss)
    weights = None if sample.weights is None else sample.weights.double()
    typical, tiny = typical_multipliers(model, masks), torch.finfo(torch.float64).eps

    def exact(per_example: Tensor, whole: bool) -> Estimate:
        value = average(per_example, weights).to(model.dtype)
        fixed = value.detach()

        def rounding(model: Model, data: Data) -> Tensor | float:
            double, known = in_double(model, data)
            error = steps * tiny * excess_scale(double, known, typical, loss)
            error = error + steps * risk_rounding(double, known, loss) if whole else error
            return error + torch.finfo(model.dtype).eps * fixed.abs()

        return Estimate.exact(value, "exact sum over mask outcomes", error=deferred(rounding, model, sample))

    return exact(plain + added, whole=True), exact(added, whole=False)


def _parts(
    model: ReLUNet, sample: Sample, masks: MaskLaw, method: ClosedForm, loss: Loss
) -> tuple[Tensor, Tensor, float]:
    """`relu_excess`, which reads numbers, also where torch.func has hidden them."""
    if not is_transformed():
        plain, added, steps = relu_excess(model, sample, masks, method, loss)
        return plain, summed_over(added, network_laws(model, masks), loss), steps
    steps = 0.0

    def parts(network: ReLUNet, known: Sample, law: MaskLaw) -> Tensor:
        nonlocal steps
        *both, steps = relu_excess(network, known, law, method, loss)
        return torch.stack(both)

    both = opaque_of(parts, model, sample, masks)
    return both[0], summed_over(both[1], network_laws(model, masks), loss), steps


def _sample(data: Data) -> Sample:
    if not isinstance(data, Sample):
        raise ValueError(f"data must be a Sample for ReLUNet, got {type(data).__name__}")
    return data
