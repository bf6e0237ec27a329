"""Deep networks do have bad local minima: the smallest example."""

from __future__ import annotations

import torch

from droptics.arguments import DropRate, check_arguments
from droptics.checks import as_drop
from droptics.data import Moments
from droptics.equalization import rank_one_network
from droptics.masks import Bernoulli, Product
from droptics.models import DeepLinear


def spurious_minimum(drop: DropRate = 1 / 3) -> tuple[DeepLinear, Moments, Product]:
    """A local minimum that is not global: y = x in two dimensions, two hidden layers of width two (droptics-spurious).

    The equalized network of rank one computes x_1 / (1 + lambda / 2)^2 with criterion 2 - 1 / (1 + lambda / 2)^2. Its
    Hessian has no negative eigenvalue and its flat directions are symmetries (rescaled nodes, rotations), so it is a
    local minimum; for lambda < sqrt 2 the network of rank two is better, 2 - 2 / (1 + lambda)^2. At lambda = 1/2 (the
    default): 1.36 against 10/9. No smaller example exists among these: one hidden layer has none, width one allows no
    rank two. Whether the point is a minimum at a given rate is what `inspect` says.

    Cost: O(1).
    """
    check_arguments(spurious_minimum, locals())
    rate = as_drop(drop)
    shrink = (1 + rate / (1 - rate) / 2).square()
    first = torch.tensor([1.0, 0.0], dtype=torch.float64)
    model = rank_one_network(first / shrink, first, (2, 2))
    masks = Product([Bernoulli(rate, 2), Bernoulli(rate, 2)])
    return model, Moments.of_map(torch.eye(2, dtype=torch.float64)), masks
