"""Leave-one-out errors on a device are those of refits without the example, rate by rate."""

from __future__ import annotations

import pytest
import torch
from cases import normal
from torch import Tensor

from droptics.audits.leaving_out import _conjugate, leave_one_out
from droptics.heads.ridge import DropoutRidgeCV

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))]
STRENGTHS = (0.05, 1.0, 19.0)


def refitted(features: Tensor, targets: Tensor, strength: float) -> Tensor:
    """Normal equations of mean |y - W x - b|^2 + lambda sum_j (mean x_j^2) |w_j|^2, one example left out at a time."""
    found = []
    for i in range(len(features)):
        others = torch.arange(len(features)) != i
        x, y = features[others], targets[others]
        live = (x != 0).any(0)
        ones = torch.cat([x[:, live], torch.ones(len(x), 1, dtype=x.dtype)], 1)
        system = ones.mT @ ones + torch.diag(torch.cat([strength * x[:, live].square().sum(0), torch.zeros(1)]))
        weights = torch.linalg.solve(system, ones.mT @ y)
        found.append(targets[i] - torch.cat([features[i, live], torch.ones(1)]).to(x) @ weights)
    return torch.stack(found)


def features(kind: str) -> Tensor:
    x = normal(24, 6, seed=1)
    if kind == "few":
        return normal(7, 20, seed=1)
    if kind == "units":
        return x * 10.0 ** torch.arange(-3, 3)
    if kind == "repeated":
        return torch.cat([x, x[:, :2]], 1)
    if kind == "rare":  # a unit that fires on two examples, one hardly, one that fires on one and one on none
        rare = torch.zeros(24, 3, dtype=x.dtype)
        rare[3, 0], rare[5, 0], rare[11, 1] = 1.0, 0.3, 2.0
        return torch.cat([x, rare], 1)
    return x


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["plain", "few", "units", "repeated", "rare"])
def test_errors_are_those_of_refits(kind: str, device: str) -> None:
    x = features(kind)
    y = x[:, :2] @ torch.tensor([[1.0, -1.0], [0.5, 2.0]], dtype=x.dtype) + normal(len(x), 2, seed=2)
    found = leave_one_out(x.to(device), y.to(device), STRENGTHS).cpu()
    scale = float(y.abs().max())
    for errors, strength in zip(found, STRENGTHS, strict=True):
        # systems in units of the features have a condition of at most (1 + size) / lambda; dividing by one minus the
        # leverage of an example, size / (n lambda) against one at most, raises errors by its inverse
        level = 100 * torch.finfo(torch.float64).eps * (1 + x.shape[1]) / strength
        level *= 1 + x.shape[1] / (len(x) * strength)
        condition = 1e6 if kind == "units" else 1.0  # of the normal equations, which are in the units given
        level = max(level, 1e-12) * condition
        torch.testing.assert_close(errors, refitted(x, y, strength), rtol=0.0, atol=level * scale)


def test_equals_the_estimator_of_the_library() -> None:
    x, y = features("rare"), normal(24, 3, seed=4)
    drops = [0.05, 0.5, 0.9]
    known = DropoutRidgeCV(drops).fit(x.numpy(), y.numpy()).loo_errors_
    found = leave_one_out(x, y, [drop / (1 - drop) for drop in drops]).square().mean((1, 2))
    torch.testing.assert_close(found, torch.from_numpy(known), rtol=1e-10, atol=0.0)


def test_an_example_that_is_solved_at_once_does_not_spoil_those_that_take_steps():
    """One row has no error from the start: nothing of it may divide by zero while the other goes on."""
    inverse = torch.diag(torch.tensor([0.5, 0.8, 1.1], dtype=torch.float64))
    rows = torch.tensor([[0.0, 0.0, 0.0], [1.0, -2.0, 0.5]], dtype=torch.float64)
    shifts = torch.tensor([[0.1, 0.2, 0.3], [0.4, 0.1, 0.2]], dtype=torch.float64)
    systems = torch.linalg.inv(inverse) - torch.diag_embed(shifts)
    wanted = torch.linalg.solve(systems, rows)
    torch.testing.assert_close(_conjugate(inverse, rows, shifts), wanted, rtol=1e-12, atol=0)
