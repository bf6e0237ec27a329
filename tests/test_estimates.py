"""Estimates: what becomes of an interval when a known number is added."""

from __future__ import annotations

import pytest
import torch

from droptics.estimates import Estimate


@pytest.mark.parametrize("part", ["interval", "guaranteed"])
def test_a_shifted_interval_is_rounded_outwards(part):
    value, lower, upper = torch.tensor([1.0, 0.5, 2.0], dtype=torch.float64)
    drawn = Estimate(value, lower, upper, "drawn", 1, 0.95, (lower, upper))
    low, high = getattr(drawn.shift(torch.tensor(3.0, dtype=torch.float64), error=0.25), part)
    assert float(low) == pytest.approx(3.25)
    assert float(high) == pytest.approx(5.25)


def test_a_shifted_exact_value_errs_by_both_roundings():
    exact = Estimate.exact(torch.tensor(1.0, dtype=torch.float64), "sum", error=0.5)
    moved = exact.shift(torch.tensor(3.0, dtype=torch.float64), error=0.25)
    assert (float(moved), float(moved.lower), float(moved.upper)) == pytest.approx((4.0, 3.25, 4.75))
