"""The error of an exact sum grows with the number of its steps."""

import pytest
import torch
from cases import normal

from droptics.data import Sample
from droptics.masks import Bernoulli
from droptics.models import ReLUNet
from droptics.penalties import ClosedForm, penalty
from droptics.penalties.relu import rules


def test_every_step_of_a_sum_may_round(monkeypatch):
    model = ReLUNet([normal(4, 3, seed=1), normal(2, 4, seed=2)])
    data, masks = Sample(normal(5, 3, seed=3), normal(5, 2, seed=4)), Bernoulli(0.4, 7)
    true, errors = rules._parts, {}
    for steps in (1.0, 1000.0):
        monkeypatch.setattr(rules, "_parts", lambda *given, steps=steps: (*true(*given)[:2], steps))
        found = penalty(model, data, masks, ClosedForm())
        # the last rounding, to the precision of the model, is apart
        errors[steps] = float(found.error) - torch.finfo(torch.float64).eps * abs(float(found.value))
    assert errors[1.0] > 0
    assert errors[1000.0] == pytest.approx(1000 * errors[1.0], rel=1e-6)
