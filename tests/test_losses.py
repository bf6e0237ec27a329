import pytest
import torch
from cases import normal
from compare import close
from torch.nn import functional

from droptics.losses import CrossEntropy, Logistic, Loss, Squared


def test_losses_agree_with_torch_and_broadcast():
    outputs, labels = normal(2, 5, 3), torch.tensor([0, 1, 2, 0, 1])
    expected = torch.stack([functional.cross_entropy(part, labels, reduction="none") for part in outputs])
    close(CrossEntropy()(outputs, labels), expected)
    targets = normal(5, 3)
    close(Squared()(outputs, targets), ((outputs - targets) ** 2).sum(-1))
    signs = torch.tensor([1.0, -1, 1, 1, -1]).double()
    scores = normal(5, 1)
    close(Logistic()(scores, signs), torch.log1p(torch.exp(-signs * scores[:, 0])))
    close(Logistic()(scores, signs[:, None].long()), Logistic()(scores, signs))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: CrossEntropy()(normal(2, 3), torch.tensor([0, 3])), "lie in 0..2"),
        (lambda: CrossEntropy()(normal(2, 3), torch.tensor([-1, 0])), "lie in 0..2"),
        (lambda: CrossEntropy()(normal(2, 3), normal(2)), "integer class labels"),
        (lambda: Squared()(normal(2, 3), torch.tensor([0, 1])), "floating point for the squared loss"),
        (lambda: Logistic()(normal(2, 1), torch.tensor([0.0, 1.0])), "-1 or"),
        (lambda: Logistic()(normal(2, 2), torch.tensor([1.0, 1.0])), "one column"),
    ],
)
def test_bad_targets_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("loss", "outputs", "targets"),
    [
        (Squared(), normal(5, 3), normal(5, 3, seed=1)),
        (CrossEntropy(), normal(5, 3), torch.tensor([0, 2, 1, 1, 0])),
        (Logistic(), 3 * normal(5, 1), torch.tensor([1, -1, 1, 1, -1])),
    ],
)
def test_second_derivatives_agree_with_automatic_ones(loss, outputs, targets):
    """The formulas of every loss against the default of the base class, which differentiates twice."""
    expected = Loss.hessian(loss, outputs, targets)
    close(loss.hessian(outputs, targets), expected, 1e-12)
    directions = normal(outputs.shape[-1], 4, seed=2)
    curved = torch.einsum("nij,im,jm->nm", expected, directions, directions)
    close(loss.curvatures(outputs, targets, directions), curved, 1e-12)
    close(Loss.curvatures(loss, outputs, targets, directions), curved, 1e-12)


def test_second_derivatives_are_differentiable_where_the_outputs_are():
    class Quartic(Squared):
        def __call__(self, outputs, targets):
            return (outputs - targets).pow(4).sum(-1)

    outputs = normal(2, 2).requires_grad_()
    hessian = Loss.hessian(Quartic(), outputs, torch.zeros(2, 2).double())
    close(hessian, torch.diag_embed(12 * outputs.detach() ** 2), 1e-13)
    (third,) = torch.autograd.grad(hessian.sum(), outputs)
    close(third, 24 * outputs.detach(), 1e-13)


@pytest.mark.parametrize(
    ("loss", "outputs", "targets"),
    [(CrossEntropy(), [[-30.0, 30.0, -40.0]], torch.tensor([0])), (Logistic(), [[-30.0]], torch.tensor([1.0]))],
)
def test_the_slope_is_reached_where_an_example_is_far_on_the_wrong_side(loss, outputs, targets):
    """The most that the loss changes under outputs that move by at most one is the sum of its derivatives' sizes."""
    point = torch.tensor(outputs, dtype=torch.float64, requires_grad=True)
    (slopes,) = torch.autograd.grad(loss(point, targets).sum(), point)
    close(slopes.abs().sum(), loss.slope, 1e-12)
