"""Shares of examples and moments of any data: one place each, differentiable, with clear refusals."""

import pytest
import torch
from cases import entries, normal, sample, weighted_sample
from compare import close

from droptics.data import Moments, Sample


@pytest.mark.parametrize("data", [sample(), weighted_sample()])
def test_shares_are_what_a_mean_weighs_the_examples_by(data):
    close(data.shares.sum(), 1.0, relative=1e-14)
    close(Moments.of(data).yx, (data.targets * data.shares[:, None]).mT @ data.inputs, relative=1e-13)
    close(Moments.of(data).xx, Moments.of_sample(data).xx, relative=0)


def test_moments_follow_a_change_of_the_weights():
    inputs, targets = normal(5, 2), normal(5, 1)

    def trace(weights):
        return Moments.of_sample(Sample(inputs, targets, weights)).xx.trace()

    weights = torch.tensor([1.0, 2.0, 0.5, 3.0, 1.5], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(trace, (weights,))


def test_moments_pass_through_and_other_shapes_are_refused():
    moments = Moments.of_map(normal(3, 2))
    assert Moments.of(moments) is moments
    with pytest.raises(ValueError, match="data must be Sample or Moments, got Entries"):
        Moments.of(entries())


def test_moments_without_inputs_or_outputs_are_refused():
    with pytest.raises(ValueError, match="at least one input and one output"):
        Moments(torch.zeros(0, 0), torch.zeros(2, 0), torch.eye(2))
