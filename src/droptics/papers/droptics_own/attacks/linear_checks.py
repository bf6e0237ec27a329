"""What the claim on affine classifiers compares: robust accuracy, margins and the interval by its tails."""

from __future__ import annotations

import itertools

import torch
from scipy.stats import binom
from torch import Tensor

from droptics.attacks import (
    Fgsm,
    LinearExact,
    Threat,
    proportion,
    robust_accuracy,
    smallest_margins,
)
from droptics.data import Sample
from droptics.evidence.claims import Comparison, compare
from droptics.papers.instances import normal, tensor


def linear_robustness(radius: float) -> list[Comparison]:
    """Robust accuracy and margins of affine classifiers against all corners of the ball; the interval by its tails."""
    weights, offset = normal(1, 3, 4), normal(2, 3)
    data = Sample(normal(3, 50, 4), torch.arange(50) % 3)
    steps = tensor(list(itertools.product((-1.0, 1.0), repeat=4)))
    corners = data.inputs[:, None] + radius * steps
    scores = corners @ weights.mT + offset
    own = scores.gather(-1, data.targets[:, None, None].expand(-1, 16, 1))
    others = scores.masked_fill(torch.arange(3) == data.targets[:, None, None], -torch.inf)
    least = (own.squeeze(-1) - others.amax(-1)).amin(1)

    def model(inputs: Tensor) -> Tensor:
        return inputs @ weights.mT + offset

    threat = Threat("linf", 0.2)
    right = robust_accuracy(model, data, threat, [Fgsm(), LinearExact()], batch=16)
    count = int((least > 0).sum())
    low, high = (float(end) for end in (right.robust.lower, right.robust.upper))
    share, none, every = proportion(3, 11, 0.9), proportion(0, 11), proportion(11, 11)
    return [
        compare(smallest_margins(model, data.inputs, data.targets, threat), "==", least, "smallest margins"),
        compare(right.robust.value, "==", count / 50, "robust accuracy"),
        compare((right.found_by == 2).double().sum(), "==", count, "examples that no stage fooled"),
        compare(binom.sf(count - 1, 50, low), "==", 0.025, "tail at the lower end", precision=1e-7),
        compare(binom.cdf(count, 50, high), "==", 0.025, "tail at the upper end", precision=1e-7),
        compare(binom.cdf(3, 11, float(share.upper)), "==", 0.05, "tail at the upper end, 90 %", precision=1e-7),
        compare(binom.sf(2, 11, float(share.lower)), "==", 0.05, "tail at the lower end, 90 %", precision=1e-7),
        compare(binom.cdf(0, 11, float(none.upper)), "==", 0.025, "tail at the upper end, none", precision=1e-7),
        compare(binom.sf(10, 11, float(every.lower)), "==", 0.025, "tail at the lower end, all", precision=1e-7),
        compare([float(none.lower), float(every.upper)], "==", [0.0, 1.0], "ends of none and all"),
    ]
