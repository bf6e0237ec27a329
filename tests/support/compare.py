"""Comparisons that print what is wrong; `test_compare.py` shows that they can fail."""

from __future__ import annotations

import torch
from torch import Tensor

from droptics.estimates import Estimate


def close(actual: object, expected: object, relative: float = 1e-10, scale: float | None = None) -> None:
    """Assert max |actual - expected| <= relative * scale, by default the largest expected magnitude."""
    left = torch.as_tensor(actual, dtype=torch.float64).detach()
    right = torch.as_tensor(expected, dtype=torch.float64).detach()
    assert left.shape == right.shape, f"shapes differ: {tuple(left.shape)} and {tuple(right.shape)}"
    assert bool(torch.isfinite(left).all()), f"not finite: {left}"
    size = float(right.abs().max()) if scale is None else scale
    error = (left - right).abs()
    worst = int(error.argmax())
    assert float(error.max()) <= relative * size, (
        f"differs by {float(error.max()):.3e} at flat index {worst}: {left.flatten()[worst]:.17g} and "
        f"{right.flatten()[worst]:.17g}, allowed {relative * size:.3e}"
    )


def covers(estimate: Estimate, truth: Tensor) -> None:
    """Assert that the interval of an estimate contains the truth."""
    low, high = estimate.interval
    assert bool((low <= truth).all() and (truth <= high).all()), f"[{low}, {high}] does not contain {truth}"
