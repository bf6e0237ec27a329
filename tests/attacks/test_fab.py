"""The nearest boundary: exact for affine models, and the moves onto hyperplanes against linear programs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from attacked import affine_scorer, classifier
from scipy.optimize import linprog, minimize

from droptics.attacks import Fab, Pgd, Threat, attack, margins
from droptics.attacks.fab import BoundarySearch
from droptics.attacks.gradients import differentiable

DUAL = {"linf": 1, "l2": 2, "l1": float("inf")}


def least_norm(norm: str, point: np.ndarray, slope: np.ndarray, rise: float) -> float:
    """The least norm of a move inside [0, 1] that raises the linear function, by a general solver."""
    count = len(point)
    if norm == "l2":
        limits = list(zip(-point, 1 - point, strict=True))
        found = minimize(
            lambda move: move @ move,
            np.zeros(count),
            jac=lambda move: 2 * move,
            bounds=limits,
            constraints={"type": "eq", "fun": lambda move: slope @ move - rise, "jac": lambda move: slope},
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        )
        return float(np.linalg.norm(found.x))
    extra = 1 if norm == "linf" else count  # |move_i| <= t, or <= t_i with sum t
    cost = np.concatenate([np.zeros(count), np.ones(extra)])
    bound = np.ones((count, 1)) if norm == "linf" else np.eye(count)
    above = np.block([[np.eye(count), -bound], [-np.eye(count), -bound]])
    limits = [*zip(-point, 1 - point, strict=True), *[(0, None)] * extra]
    equal = np.concatenate([slope, np.zeros(extra)])[None]
    return float(linprog(cost, above, np.zeros(2 * count), equal, [rise], limits).fun)


@pytest.mark.parametrize("norm", DUAL)
def test_the_shortest_move_inside_the_box_is_that_of_a_solver(norm):
    generator = torch.Generator().manual_seed(0)
    points = torch.rand(12, 6, generator=generator).double()
    slopes = torch.randn(12, 6, generator=generator).double()
    slopes[3, 2] = 0.0
    # the box is measured from where the move begins, wherever the input lies
    region = Threat(norm, 0.1, (0, 1)).around(torch.rand(12, 6, generator=generator).double())
    room = torch.where(slopes > 0, 1 - points, -points)
    most = (slopes * room).sum(1)
    rise = most * torch.rand(12, generator=generator).double()
    rise[5] = -0.3 * (slopes[5] * torch.where(slopes[5] < 0, 1 - points[5], -points[5])).sum().abs()
    move = region.advance(points, slopes, rise)
    assert torch.allclose((slopes * move).sum(1), rise, atol=1e-12)
    moved = points + move
    assert float(moved.min()) >= -1e-12
    assert float(moved.max()) <= 1 + 1e-12
    lengths = region.threat.distance(moved, points)
    for i in range(12):
        expected = least_norm(norm, points[i].numpy(), slopes[i].numpy(), float(rise[i]))
        assert float(lengths[i]) == pytest.approx(expected, rel=1e-5, abs=1e-8)
    far = region.advance(points, slopes, 2 * most)
    assert torch.allclose(far, room.masked_fill(slopes == 0, 0.0)), "as far as the box allows"


@pytest.mark.parametrize("norm", DUAL)
def test_affine_models_are_crossed_at_their_distance(norm):
    layer, data = affine_scorer()
    exact = (layer(data.inputs).squeeze(1).abs() / layer.weight.norm(DUAL[norm])).detach()
    region = Threat(norm, 1e-9).around(data.inputs)
    search = BoundarySearch(differentiable(layer), region, data.targets, Fab(steps=8), torch.Generator())
    search.run()
    assert bool((search.distance >= exact * (1 - 1e-9)).all()), "no point across the boundary is nearer than it"
    assert bool((search.distance <= exact * 1.01).all())


@pytest.mark.parametrize("norm", DUAL)
def test_what_it_calls_fooled_is_wrong_and_inside_and_it_misses_little(norm):
    net, data = classifier()
    threat = Threat(norm, {"linf": 0.06, "l2": 0.25, "l1": 0.9}[norm], (0, 1))
    found = attack(net, data, threat, Fab(steps=40))
    assert bool((margins(net(found.inputs), data.targets)[found.success] < 0).all())
    assert bool((found.radius <= threat.radius * (1 + 1e-9)).all())
    plain = attack(net, data, threat, Pgd(steps=20))
    assert int(found.success.sum()) >= int(plain.success.sum()) - 3
    again = attack(net, data, threat, Fab(steps=40))
    assert torch.equal(found.inputs, again.inputs)


@pytest.mark.parametrize("norm", DUAL)
@pytest.mark.parametrize("start", [1.0, -3.0])
def test_a_point_near_the_boundary_is_drawn_little_to_the_projection_of_its_input(norm, start, monkeypatch):
    """On a line the boundary is at 0: a step is a share s of 1.05 times that from the input, the rest of its own.

    The first ends at -0.05 start, a tenth of the input's own at most, and goes back by a tenth of its way, to 0.055
    start. From there the two moves are 0.055 and 1 long: s = 0.055 / 1.055, and the second ends at
    -0.05 (s + 0.055 (1 - s)) start. The third ends farther behind the boundary, from 0.095 start.
    """
    monkeypatch.setattr(BoundarySearch, "_shorten", lambda self: None)
    layer = torch.nn.Linear(1, 1, bias=False).double()
    torch.nn.init.ones_(layer.weight)
    inputs, targets = torch.tensor([[start]]).double(), torch.tensor([1.0 if start > 0 else -1.0]).double()
    region, share = Threat(norm, 1e-9).around(inputs), 0.055 / 1.055
    nearest = 0.05 * (share + 0.055 * (1 - share))
    for steps, behind in ((1, 0.05), (2, nearest), (3, nearest)):
        search = BoundarySearch(differentiable(layer), region, targets, Fab(steps=steps), torch.Generator())
        search.run()
        assert float(search.distance[0]) == pytest.approx((1 + behind) * abs(start), rel=1e-12)
        assert float(search.nearest[0, 0]) == pytest.approx(-behind * start, rel=1e-10)


def test_a_later_run_begins_at_random_points_of_those_who_are_left(monkeypatch):
    net, data = classifier()
    region, seen, real = Threat("linf", 0.02, (0, 1)).around(data.inputs), [], BoundarySearch._nearest_boundary

    def listened(self, points, targets):
        seen.append((points.clone(), (self.distance > 0.02).nonzero().squeeze(1)))
        return real(self, points, targets)

    monkeypatch.setattr(BoundarySearch, "_nearest_boundary", listened)
    draws = torch.Generator().manual_seed(4)
    BoundarySearch(differentiable(net), region, data.targets, Fab(steps=1, restarts=3), draws).run()
    draws.manual_seed(4)
    assert len(seen) == 3
    assert torch.equal(seen[0][0], data.inputs)
    for points, left in seen[1:]:
        assert 0 < len(left) < 60
        assert torch.equal(points, region.select(left).random(draws))


def test_restarts_only_add():
    net, data = classifier()
    threat = Threat("l2", 0.2, (0, 1))
    once, often = (attack(net, data, threat, Fab(steps=5, restarts=count)) for count in (1, 3))
    assert bool((often.success >= once.success).all())


@pytest.mark.parametrize("bad", ["steps", "restarts", "candidates"])
def test_bad_options_are_named(bad):
    with pytest.raises(ValueError, match=bad):
        Fab(**{bad: 0})
