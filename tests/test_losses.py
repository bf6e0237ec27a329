import pytest
import torch
from torch.nn import functional

from cases import normal
from compare import close
from droptics.losses import CrossEntropy, Logistic, Squared


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
