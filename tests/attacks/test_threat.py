"""The geometry of threats: projections and linear maximizers against a convex solver, directions against duality."""

from __future__ import annotations

import math

import cvxpy as cp
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from droptics.attacks import Threat

NORMS = ("l2", "linf", "l1")
ORDER = {"l2": 2, "linf": "inf", "l1": 1}
BOXES = (None, (0.0, 1.0))


def draw(seed: int, count: int, size: int, box: tuple[float, float] | None) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.rand(count, size, generator=generator, dtype=torch.float64)
    if box is None:
        inputs = 3 * inputs - 1
    # Some coordinates on the faces of the box, as in images.
    inputs[:, ::3] = inputs[:, ::3].round()
    return inputs, torch.randn(count, size, generator=generator, dtype=torch.float64)


def constraints(z: cp.Variable, center: np.ndarray, threat: Threat) -> list[cp.Constraint]:
    limits = [cp.norm(z - center, ORDER[threat.norm]) <= threat.radius]
    return limits if threat.box is None else [*limits, z >= threat.box[0], z <= threat.box[1]]


@pytest.mark.parametrize("box", BOXES)
@pytest.mark.parametrize("norm", NORMS)
def test_projection_is_the_convex_programs_solution(norm: str, box: tuple[float, float] | None) -> None:
    for seed, radius in enumerate((0.05, 0.4, 1.5, 6.0)):
        threat = Threat(norm, radius, box)
        inputs, moves = draw(seed, 2, 7, box)
        points = inputs + 1.5 * moves
        ours = threat.project(points, inputs)
        for row in range(2):
            z = cp.Variable(7)
            program = cp.Problem(
                cp.Minimize(cp.sum_squares(z - points[row].numpy())), constraints(z, inputs[row].numpy(), threat)
            )
            program.solve(solver=cp.CLARABEL)
            # A solver gap g allows a distance of sqrt(g): compare objectives tightly, points loosely.
            found = float((ours[row] - points[row]).square().sum())
            assert found <= program.value + 1e-7 * (1 + program.value)
            assert np.abs(ours[row].numpy() - z.value).max() < 2e-4
        assert bool(threat.around(inputs).contains(ours).all())


@pytest.mark.parametrize("box", BOXES)
@pytest.mark.parametrize("norm", NORMS)
def test_support_maximizes_a_linear_function(norm: str, box: tuple[float, float] | None) -> None:
    for seed, radius in enumerate((0.1, 0.9, 5.0)):
        threat = Threat(norm, radius, box)
        inputs, gradients = draw(10 + seed, 2, 6, box)
        gradients[0, 0] = 0.0
        region = threat.around(inputs)
        ours = region.support(gradients)
        assert bool(region.contains(ours).all())
        for row in range(2):
            z = cp.Variable(6)
            program = cp.Problem(cp.Maximize(gradients[row].numpy() @ z), constraints(z, inputs[row].numpy(), threat))
            program.solve(solver=cp.CLARABEL)
            assert float(ours[row] @ gradients[row]) >= program.value - 1e-6


@given(
    norm=st.sampled_from(NORMS),
    box=st.sampled_from(BOXES),
    seed=st.integers(0, 10_000),
    size=st.integers(1, 9),
    radius=st.sampled_from((0.0, 1e-3, 0.3, 2.0, 50.0)),
    scale=st.sampled_from((0.0, 1e-6, 1.0, 100.0)),
)
@settings(deadline=None, max_examples=150)
def test_projection_properties(norm, box, seed, size, radius, scale) -> None:
    """Inside, idempotent, never farther than the cheap retraction, identity on points already inside."""
    threat = Threat(norm, radius, box)
    inputs, moves = draw(seed, 3, size, box)
    region = threat.around(inputs)
    points = inputs + scale * moves
    exact, cheap = region.project(points), region.retract(points)
    assert bool(region.contains(exact).all())
    assert bool(region.contains(cheap).all())
    torch.testing.assert_close(region.project(exact), exact, atol=1e-12, rtol=1e-12)
    near = torch.linalg.vector_norm(exact - points, dim=1)
    far = torch.linalg.vector_norm(cheap - points, dim=1)
    assert bool((near <= far + 1e-12 * (1 + far)).all())
    # The variational inequality <point - exact, q - exact> <= 0 for every q in the set characterizes the projection.
    other = region.random(torch.Generator().manual_seed(seed))
    assert bool(region.contains(other).all())
    inner = ((points - exact) * (other - exact)).sum(1)
    assert bool((inner <= 1e-11 * (1 + scale) ** 2 * (1 + radius)).all())


@given(norm=st.sampled_from(NORMS), seed=st.integers(0, 10_000), size=st.integers(1, 9))
@settings(deadline=None, max_examples=60)
def test_steepest_direction_attains_the_dual_norm(norm: str, seed: int, size: int) -> None:
    threat = Threat(norm, 1.0)
    _, gradients = draw(seed, 4, size, None)
    gradients[0] = 0.0
    direction = threat.steepest(gradients)
    unit = threat.distance(direction, torch.zeros_like(direction))
    assert bool((unit <= 1 + 1e-12).all())
    torch.testing.assert_close((direction * gradients).sum(1), threat.dual_norm(gradients))
    assert not bool(direction[0].any())


@pytest.mark.parametrize("norm", NORMS)
def test_tiny_gradients_keep_their_direction(norm: str) -> None:
    """Squares of 1e-30 are zero in float32; the direction must not be."""
    gradient = torch.tensor([[3e-30, -4e-30]])
    direction = Threat(norm, 1.0).steepest(gradient)
    expected = {"l2": [[0.6, -0.8]], "linf": [[1.0, -1.0]], "l1": [[0.0, -1.0]]}[norm]
    torch.testing.assert_close(direction, torch.tensor(expected))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_directions_of_a_batch_are_those_of_its_rows(norm: str, dtype: torch.dtype) -> None:
    """Large, tiny and no gradients beside each other; a direction is rounded a few times, relative to one."""
    tiny = torch.finfo(dtype).tiny
    rows = [[3.0, -4.0, 1.0], [3e4 * tiny, -4e4 * tiny, 0.0], [0.0, 0.0, 0.0], [2e15, 1e15, -2e15]]
    gradients = torch.tensor(rows, dtype=dtype)
    told = Threat(norm, 1.0).steepest(gradients)
    for row, direction in zip(gradients.double(), told.double(), strict=True):
        unit = row / row.abs().amax().clamp_min(1e-320)
        wanted = {
            "linf": unit.sign(),
            "l2": unit / unit.norm().clamp_min(1e-300),
            "l1": unit.sign() * (torch.arange(3) == unit.abs().argmax()),
        }[norm]
        torch.testing.assert_close(direction, wanted, rtol=0, atol=8 * torch.finfo(dtype).eps)


def test_l1_direction_passes_over_blocked_coordinates() -> None:
    threat = Threat("l1", 1.0, (0.0, 1.0))
    points = torch.tensor([[1.0, 0.5, 0.0]])
    gradient = torch.tensor([[5.0, 1.0, -9.0]])
    assert threat.steepest(gradient, points).tolist() == [[0.0, 1.0, 0.0]]
    assert threat.steepest(gradient).tolist() == [[0.0, 0.0, -1.0]]


@pytest.mark.parametrize("norm", NORMS)
def test_random_points_fill_the_ball_uniformly(norm: str) -> None:
    """The share of points within half the radius is 2^-d: fixed seed and size, five standard errors."""
    inputs = torch.zeros(20_000, 3, dtype=torch.float64)
    threat = Threat(norm, 2.0)
    points = threat.around(inputs).random(torch.Generator().manual_seed(1))
    share = float((threat.distance(points, inputs) <= 1.0).double().mean())
    assert abs(share - 0.125) < 5 * math.sqrt(0.125 * 0.875 / 20_000)
    assert float(points.mean(0).abs().max()) < 5 * 2 / math.sqrt(20_000)


def test_images_keep_their_shape_and_dtype() -> None:
    for norm in NORMS:
        inputs = torch.rand(2, 3, 4, 5, generator=torch.Generator().manual_seed(0))
        region = Threat(norm, 0.3, (0, 1)).around(inputs)
        for points in (region.project(inputs + 1), region.retract(inputs - 1), region.support(inputs - 0.5)):
            assert points.shape == inputs.shape
            assert points.dtype == torch.float32
            assert bool(region.contains(points).all())


def test_contains_refuses_what_is_outside_or_not_finite() -> None:
    region = Threat("l2", 1.0, (0.0, 1.0)).around(torch.full((5, 2), 0.5))
    points = torch.tensor([[0.5, 0.5], [1.01, 0.5], [float("nan"), 0.5], [float("inf"), 0.5], [1.0, 1.0]])
    assert region.contains(points).tolist() == [True, False, False, False, True]
    assert not bool(Threat("l2", 0.5).around(torch.zeros(1, 2)).contains(torch.tensor([[0.5, 0.01]])))


def test_points_beyond_either_face_of_the_box_are_outside() -> None:
    region = Threat("linf", 1.0, (-0.5, 0.5)).around(torch.zeros(4, 3))
    points = torch.zeros(4, 3)
    points[0, 1], points[1, 2], points[2, 0], points[3, 1] = 0.5, 0.5001, -0.5, -0.5001
    assert region.contains(points).tolist() == [True, False, True, False]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("norm", NORMS)
def test_points_are_inside_up_to_the_rounding_of_their_coordinates(norm: str, dtype: torch.dtype) -> None:
    """All coordinates rounded away from the input by 0.4 units in the last place are inside; 19.4 units are too far."""
    count, unit = 2**14, torch.finfo(dtype).eps
    spread = {"linf": 1.0, "l2": math.sqrt(count), "l1": float(count)}[norm]
    region = Threat(norm, spread * 1000.6 * unit).around(torch.ones(2, count, dtype=dtype))
    points = torch.ones(2, count, dtype=dtype) + torch.tensor([[1001.0], [1020.0]], dtype=dtype) * unit
    assert region.contains(points).tolist() == [True, False]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("l3", 1.0), "norm must be"),
        (("l2", -1.0), "radius must be"),
        (("l2", float("nan")), "radius must be"),
        (("l2", float("inf")), "radius must be"),
        (("l2", 1.0, (1.0, 0.0)), "box must be"),
        (("l2", 1.0, (0.0, float("inf"))), "box must be"),
    ],
)
def test_bad_threats_are_refused(arguments, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Threat(*arguments)


def test_spellings_of_the_norm_and_of_the_whole_threat() -> None:
    assert [Threat(n, 1).norm for n in (2, math.inf, 1, "L2", "linf", "inf", np.inf)] == [
        "l2", "linf", "l1", "l2", "linf", "linf", "linf",
    ]  # fmt: skip
    assert Threat.parse("linf:8/255") == Threat("linf", 8 / 255)
    assert Threat.parse("l2:0.5", (0, 1)) == Threat(2, 0.5, (0.0, 1.0))
    for text in ("l2", "l2:", "l2:x", "l2:1/0", "l7:1"):
        with pytest.raises(ValueError, match=r"threat must read|norm must be"):
            Threat.parse(text)
