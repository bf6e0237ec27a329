"""A loss is one class in one file, this one: every method that takes a loss takes it."""

import torch
from cases import normal, sample
from compare import close, covers
from torch import Tensor

from droptics.losses import Loss
from droptics.masks import Bernoulli
from droptics.models import ReLUNet, TwoLayerLinear
from droptics.penalties import ClosedForm, Enumerate, MonteCarlo, SecondOrder, best_method, criterion, penalty, risk
from droptics.training import Dropout, train


class Rounded(Loss):
    """sqrt(1 + |f - y|^2) - 1: a square near its target and a distance far from it."""

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (1 + (outputs - targets).square().sum(-1)).sqrt() - 1

    @property
    def slope(self) -> float:
        return 3**0.5  # three outputs that change by one each


DATA, MASKS = sample(), Bernoulli(torch.tensor([0.2, 0.5, 0.4]).double(), 3)
MODEL = TwoLayerLinear(normal(3, 3), normal(4, 3))


def by_hand(model, masks):
    """Sum over all masks, without the package's own averages."""
    total = 0.0
    for multipliers, chance in masks.atoms():
        error = (model.outputs(DATA.inputs, multipliers) - DATA.targets).square().sum(-1)
        total += chance * float(((1 + error).sqrt() - 1).mean())
    return total


def test_risk_and_exact_penalties():
    plain = float(risk(MODEL, DATA, Rounded()))
    close(plain, ((1 + (MODEL.outputs(DATA.inputs) - DATA.targets).square().sum(-1)).sqrt() - 1).mean(), relative=1e-13)
    expected = by_hand(MODEL, MASKS)
    close(float(penalty(MODEL, DATA, MASKS, Enumerate(), Rounded())), expected - plain, relative=1e-12)
    close(float(criterion(MODEL, DATA, MASKS, Enumerate(), Rounded())), expected, relative=1e-12)
    assert isinstance(best_method(MODEL, DATA, MASKS, Rounded()), Enumerate)
    network = ReLUNet([normal(3, 4), normal(3, 3)])
    masks = Bernoulli(torch.tensor([0.1, 0.2, 0.3, 0.4, 0.2, 0.5, 0.4]).double(), 7)
    close(float(criterion(network, DATA, masks, ClosedForm(), Rounded())), by_hand(network, masks), relative=1e-11)


def test_random_masks_and_second_order():
    exact = float(penalty(MODEL, DATA, MASKS, Enumerate(), Rounded()))
    drawn = penalty(MODEL, DATA, MASKS, MonteCarlo(2000), Rounded())
    covers(drawn, exact)
    assert drawn.guaranteed is not None

    def mean_loss(multipliers):
        error = (MODEL.outputs(DATA.inputs, multipliers) - DATA.targets).square().sum(-1)
        return ((1 + error).sqrt() - 1).mean()

    ones, step = torch.ones(3).double(), 1e-3 * torch.eye(3).double()
    curvatures = [(mean_loss(ones + h) + mean_loss(ones - h) - 2 * mean_loss(ones)) / 1e-6 for h in step]
    expected = sum(0.5 * rate * curvature for rate, curvature in zip(MASKS.relative_variance, curvatures, strict=True))
    # differences of second order err by a millionth of the fourth derivatives
    close(float(penalty(MODEL, DATA, MASKS, SecondOrder(check=None), Rounded())), expected, relative=1e-4)


def test_training_lowers_it():
    run = train(MODEL, DATA, Dropout(MASKS, Rounded()), steps=100, step_size=0.05, seed=2)
    assert by_hand(run.model, MASKS) < 0.9 * by_hand(MODEL, MASKS)
