"""The closed form of affine models: offsets decide between classes, and only rounding is taken for affine."""

import pytest
import torch
from cases import normal

from droptics.attacks import LinearExact, Threat, affine_map, attack, linear_attack, smallest_margins
from droptics.data import Sample

DUAL = {"l2": 2, "linf": 1, "l1": torch.inf}


@pytest.mark.parametrize("norm", DUAL)
def test_offsets_decide_which_class_is_nearest(norm):
    """min over c of z_y - z_c - radius ||w_y - w_c||_*, with offsets larger than what the inputs add to an output."""
    weights, offset, inputs = normal(4, 5), 10 * normal(4, seed=1), normal(30, 5, seed=2)
    targets, radius = torch.arange(30) % 4, 0.3

    def scores(points):
        return points @ weights.mT + offset

    outputs, rows = scores(inputs), torch.arange(30)
    slopes = torch.linalg.vector_norm(weights[targets][:, None] - weights, ord=DUAL[norm], dim=-1)
    gaps = outputs[rows, targets][:, None] - outputs - radius * slopes
    gaps[rows, targets] = torch.inf
    threat = Threat(norm, radius)
    torch.testing.assert_close(smallest_margins(scores, inputs, targets, threat), gaps.amin(1))
    torch.testing.assert_close(affine_map(scores, inputs), (weights, offset))
    reached = scores(linear_attack(scores, inputs, targets, threat))
    nearest = gaps.argmin(1)
    torch.testing.assert_close(reached[rows, targets] - reached[rows, nearest], gaps.amin(1))


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_only_rounding_is_taken_for_affine(dtype, unit):
    """A square far above the rounding of six products and far below the outputs is refused, whatever their size."""
    weights, inputs = unit * normal(3, 6).to(dtype), normal(20, 6, seed=1).to(dtype)
    largest = float((inputs @ weights.mT).abs().max())
    steps = 10_000 * torch.finfo(dtype).eps
    for size in (steps, steps**0.5, 1.0):

        def bent(points, size=size):
            return points @ weights.mT + size * largest * points.square().mean(1, keepdim=True)

        with pytest.raises(ValueError, match="must be affine"):
            affine_map(bent, inputs)
        with pytest.raises(ValueError, match="must be affine"):
            attack(bent, Sample(inputs, torch.arange(20) % 3), Threat("l2", 0.1), LinearExact())
    matrix, offset = affine_map(lambda points: points @ weights.mT, inputs)
    torch.testing.assert_close(matrix, weights)
    assert not offset.any()
