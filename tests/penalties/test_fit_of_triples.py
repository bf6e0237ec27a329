"""Models, data and masks that do not fit are refused by name wherever they enter, never broadcast or left to torch."""

import pytest
import torch
from cases import entries, normal
from torch import nn

from droptics.bounds import rademacher
from droptics.coadaptation import flows
from droptics.data import Moments, Sample
from droptics.losses import Squared
from droptics.masks import Bernoulli
from droptics.models import LastLayer, ReLUNet, TwoLayerLinear
from droptics.norms import path_norm
from droptics.optima import optimal_factors, optimum
from droptics.penalties import has_closed_form, penalty, relu_cost, relu_criterion, risk, second_order

NETWORK = ReLUNet([normal(3, 4), normal(1, 3)])
LINEAR = TwoLayerLinear(normal(2, 3), normal(4, 3))
DATA = Sample(normal(5, 4), normal(5, 1))
NARROW = Sample(normal(5, 3), normal(5, 1))
HEAD = LastLayer.of(nn.Linear(4, 3).double())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: relu_criterion(NETWORK, DATA, Bernoulli(0.5, 9)), "masks has size 9, expected 7"),
        (lambda: relu_cost(NETWORK, DATA, Bernoulli(0.5, 9)), "masks has size 9, expected 7"),
        (lambda: relu_criterion(NETWORK, NARROW, Bernoulli(0.5, 7)), "the model takes 4 features"),
        (lambda: has_closed_form(NETWORK, Bernoulli(0.5, 9)), "masks has size 9, expected 7"),
        (lambda: penalty(NETWORK, NARROW, Bernoulli(0.5, 7)), "the model takes 4 features"),
        (lambda: penalty(NETWORK, Sample(normal(5, 4), normal(5, 2)), Bernoulli(0.5, 7)), "data have 2 outputs"),
        (lambda: second_order(LINEAR, DATA, Bernoulli(0.5, 3), Squared()), "data have 1 outputs but the model has 2"),
        (lambda: risk(LINEAR, NARROW), "the model takes 4 features"),
        (lambda: risk(LINEAR, entries()), "must be Sample or Moments"),
        (lambda: risk(LINEAR, "data"), "data must be a droptics Data, got str"),
        (lambda: risk(HEAD, DATA), r"targets \(last dimension\) has size 1, expected 3"),
        (lambda: flows(NETWORK, NARROW), "the model takes 4 features"),
        (lambda: rademacher(NETWORK, NARROW, retentivity=0.3), "the model takes 4 features"),
        (lambda: path_norm([normal(3, 4), normal(2, 2)]), r"weights\[1\] \(columns\) has size 2, expected 3"),
        (lambda: path_norm([normal(3)]), r"weights\[0\] must be a matrix"),
        (
            lambda: optimal_factors(
                optimum(TwoLayerLinear, Moments.of_map(normal(2, 4)), Bernoulli(0.5, 3)), normal(3, 2)
            ),
            r"rotation \(columns\) has size 2, expected 3",
        ),
    ],
)
def test_what_does_not_fit_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_flows_do_not_ask_about_targets():
    other = Sample(DATA.inputs, normal(5, 7))
    assert torch.equal(flows(NETWORK, DATA), flows(NETWORK, other))
