"""A family is one file, this one: penalty, moments, optimum, certificate and training know it by its rules.

The family is linear regression with dropout on its inputs, whose optimum is a ridge regression.
"""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from cases import normal, sample, weighted_sample
from compare import close, covers
from torch import Tensor

from droptics.data import Moments
from droptics.errors import NoClosedForm
from droptics.masks import Bernoulli, SlidingBlock
from droptics.models.model import LinearModel, Model
from droptics.optima import Optimum, certify, optimum
from droptics.optima.optimum import certify_bound, optimum_rule
from droptics.penalties import Enumerate, MonteCarlo, UnitOutputs, best_method, criterion, penalty, risk, unit_outputs
from droptics.predictions import predictive
from droptics.training import Dropout, Penalized, train


@dataclass(frozen=True, eq=False)
class Regression(LinearModel):
    """x -> W (z o x) with W (outputs, inputs)."""

    W: Tensor

    @property
    def units(self):
        return self.W.shape[-1]

    @property
    def input_size(self):
        return self.W.shape[-1]

    @property
    def output_size(self):
        return self.W.shape[-2]

    @property
    def tensors(self):
        return (self.W,)

    def matrix(self):
        return self.W

    def outputs(self, inputs, multipliers=None):
        return (inputs if multipliers is None else inputs * multipliers) @ self.W.mT


@unit_outputs.register
def _(model: Regression, inputs):
    return UnitOutputs(inputs, model.W.unsqueeze(-3))


@optimum_rule.register(Regression)
def _(family, data, masks):
    moments = Moments.of(data.to(torch.float64))
    W = torch.linalg.solve(moments.xx + masks.hadamard(moments.xx), moments.yx.mT).mT
    energy = float(torch.trace(moments.yy))
    model = family(W.to(data.dtype))
    least = energy - float((W * moments.yx).sum())
    return Optimum(model, float(criterion(model, data, masks)), least, len(W), "mine-ridge", energy)


@certify_bound.register
def _(model: Regression, data, masks):
    best = optimum(Regression, data, masks)
    return best.bound, best.claim


class Child(Regression):
    """A subclass, which inherits every rule."""


LAWS = {"dropout": Bernoulli(torch.tensor([0.1, 0.3, 0.5, 0.2]).double(), 4), "sliding": SlidingBlock(0.2, 4, 2)}


@pytest.mark.parametrize("family", [Regression, Child])
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("data", [sample(), weighted_sample(), Moments.of_sample(sample())])
def test_penalty_by_every_method(data, law, family):
    model, masks = family(normal(3, 4)), LAWS[law]
    exact = penalty(model, data, masks)
    second = Moments.of(data).xx
    expected = (masks.characteristic * second * (model.W.mT @ model.W)).sum()
    close(exact.value, expected, relative=1e-12)
    close(float(penalty(model, data, masks, Enumerate())), expected, relative=1e-10)
    covers(penalty(model, data, masks, MonteCarlo(400, seed=2)), float(expected))
    assert exact.method == "closed form"
    assert type(best_method(model, data, masks)).__name__ == "ClosedForm"


@pytest.mark.parametrize("law", LAWS)
def test_moments_of_predictions(law):
    model, inputs, masks = Child(normal(3, 4)), normal(5, 4, seed=3), LAWS[law]
    found = predictive(model, inputs, masks)
    parts = inputs[:, None, :] * model.W
    close(found.mean.value, inputs @ model.W.mT, relative=1e-12)
    close(found.covariance.value, parts @ masks.characteristic @ parts.mT, relative=1e-11)


@pytest.mark.parametrize("law", LAWS)
def test_optimum_and_certificate(law):
    data, masks = sample(), LAWS[law]
    best = optimum(Child, data, masks)
    assert isinstance(best.model, Child)
    assert best.certified
    x, y = data.inputs.numpy(), data.targets.numpy()
    second = x.T @ x / len(x)
    system = second * (1 + masks.characteristic.numpy())
    close(best.model.W, np.linalg.lstsq(system, x.T @ y / len(x), rcond=None)[0].T, relative=1e-9)
    model = Child(normal(3, 4))
    certificate = certify(model, data, masks)
    assert certificate.claim == "mine-ridge"
    close(certificate.bound, best.objective, relative=1e-10)
    close(certificate.objective, float(risk(model, data)) + float(penalty(model, data, masks)), relative=1e-12)


@pytest.mark.parametrize("objective", [Penalized, Dropout])
def test_training(objective):
    data, masks = sample(), LAWS["dropout"]
    start, best = Child(torch.zeros(3, 4).double()), optimum(Regression, data, masks)
    # the steepest direction of risk + penalty, so that no step overshoots
    step = 0.5 / float(torch.linalg.eigvalsh(Moments.of(data).xx + masks.hadamard(Moments.of(data).xx))[-1])
    run = train(start, data, objective(masks), steps=200, step_size=step, seed=1)
    assert isinstance(run.model, Child)
    reached, begun = float(criterion(run.model, data, masks)), float(criterion(start, data, masks))
    if objective is Penalized:
        assert reached - best.objective < 0.05 * (begun - best.objective)
    else:  # one mask a step: near the optimum only
        assert reached < begun


def test_a_family_without_rules_is_told_what_to_register():
    class Silent(Model):
        units, tensors = 4, (torch.zeros(1).double(),)

        def outputs(self, inputs, multipliers=None):
            return inputs

    with pytest.raises(NoClosedForm, match=r"unit_outputs\.register"):
        penalty(Silent(), sample(), LAWS["dropout"])
    with pytest.raises(NoClosedForm, match="no optimum is known for Silent; families with one: Autoencoder"):
        optimum(Silent, sample(), LAWS["dropout"])
