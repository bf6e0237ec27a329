"""Threat: what an attacker may do to an input, and the geometry of the set of points it can reach.

Every threat set is a norm ball around the input, cut by a box of legal values when there is one. Projections, linear
maximization and steepest-ascent directions are exact for all three norms, with and without the box.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from droptics.arguments import NonNegative, check_arguments

_NAMES = {"l2": "l2", "linf": "linf", "l1": "l1", "2": "l2", "inf": "linf", "1": "l1", "2.0": "l2", "1.0": "l1"}
_DUAL = {"l2": 2.0, "linf": 1.0, "l1": math.inf}
_ORDER = {"l2": 2.0, "linf": math.inf, "l1": 1.0}


@dataclass(frozen=True)
class Threat:
    """All points within `radius` of the input in `norm`, and inside `box` if one is given.

    Attributes:
        norm: "l2", "linf" or "l1"; the numbers 2, inf and 1 mean the same.
        radius: Largest distance from the input; 0 leaves the input alone.
        box: Smallest and largest legal value of every coordinate, (0, 1) for images; None for no limit.
    """

    norm: str
    radius: float
    box: tuple[float, float] | None = None

    def __init__(self, norm: str | float, radius: NonNegative, box: tuple[float, float] | None = None) -> None:
        check_arguments(Threat.__init__, locals())
        name = _NAMES.get(str(norm).lower())
        if name is None:
            raise ValueError(f"norm must be 'l2', 'linf' or 'l1' (or 2, inf, 1), got {norm!r}")
        if box is not None:
            if len(box) != 2 or not all(math.isfinite(float(end)) for end in box) or not box[0] < box[1]:
                raise ValueError(f"box must be (smallest, largest) legal value with smallest < largest, got {box!r}")
            box = (float(box[0]), float(box[1]))
        self.__dict__.update(norm=name, radius=float(radius), box=box)  # a frozen value is not assigned to

    @staticmethod
    def parse(text: str, box: tuple[float, float] | None = None) -> Threat:
        """The threat written as "norm:radius", for instance "l2:0.5" or "linf:8/255"."""
        norm, _, amount = text.partition(":")
        number, slash, divisor = amount.partition("/")
        try:
            radius = float(number) / float(divisor) if slash else float(number)
        except (ValueError, ZeroDivisionError):
            raise ValueError(f"threat must read norm:radius, such as l2:0.5 or linf:8/255, got {text!r}") from None
        return Threat(norm, radius, box)

    def around(self, inputs: Tensor) -> Region:
        """The reachable set around each of the inputs (n, ...)."""
        return Region(self, inputs)

    def project(self, points: Tensor, inputs: Tensor) -> Tensor:
        """Nearest reachable point in Euclidean distance; exact, also where ball and box both bind."""
        return self.around(inputs).project(points)

    def steepest(self, gradients: Tensor, points: Tensor | None = None) -> Tensor:
        """The direction of unit norm along which a linear function with this gradient grows fastest.

        The sign of the gradient for linf, the normalized gradient for l2, the largest coordinate for l1; zero where
        the gradient is zero. For l1, coordinates of `points` that already sit on the face of the box they would
        leave are passed over: a single blocked coordinate would otherwise stop the attack.
        """
        if self.norm == "linf":
            return gradients.sign()
        flat = gradients.flatten(1)
        if self.norm == "l2":
            if flat.device.type != "cpu" and flat.dtype != torch.float64:
                # Asking a GPU whether any is tiny would stall it; in double the squares of float32 do not underflow.
                exact = torch.linalg.vector_norm(flat, dim=1, keepdim=True, dtype=torch.float64)
                inverse = exact.reciprocal().clamp_max(torch.finfo(flat.dtype).max).to(flat.dtype)
                return (flat * inverse).view_as(gradients)
            norms = torch.linalg.vector_norm(flat, dim=1, keepdim=True)
            if flat.device.type != "cpu" or bool((norms < 1e-12).any()):
                # Dividing by the largest entry first keeps the squares of tiny gradients from underflowing.
                flat = flat / _positive(flat.abs().amax(1, keepdim=True))
                norms = torch.linalg.vector_norm(flat, dim=1, keepdim=True)
            return (flat * (1 / _positive(norms))).view_as(gradients)
        size = (flat if points is None else self.free(gradients, points).flatten(1)).abs()
        index = size.argmax(1, keepdim=True)
        sign = flat.gather(1, index).sign() * (size.gather(1, index) > 0)
        return torch.zeros_like(flat).scatter_(1, index, sign).view_as(gradients)

    def free(self, gradients: Tensor, points: Tensor) -> Tensor:
        """The gradients with zeros where a point already sits on the face of the box that it would leave."""
        if self.box is None:
            return gradients
        blocked = ((gradients > 0) & (points >= self.box[1])) | ((gradients < 0) & (points <= self.box[0]))
        return gradients.masked_fill(blocked, 0.0)

    def dual_norm(self, gradients: Tensor) -> Tensor:
        """Norm (n,) by which a linear function with this gradient grows per unit of the threat's norm."""
        return torch.linalg.vector_norm(gradients.flatten(1), ord=_DUAL[self.norm], dim=1)

    def distance(self, points: Tensor, inputs: Tensor) -> Tensor:
        """Distance (n,) of the points from the inputs in the threat's norm."""
        moves = (points - inputs).flatten(1)
        if self.norm == "linf" and moves.shape[1]:
            return moves.abs_().amax(1)  # several times faster than the norm of this order
        return torch.linalg.vector_norm(moves, ord=_ORDER[self.norm], dim=1)


@dataclass(frozen=True, eq=False)
class Region:
    """The reachable set around each of a batch of inputs."""

    threat: Threat
    inputs: Tensor

    @cached_property
    def bounds(self) -> tuple[Tensor, Tensor] | None:
        """Smallest and largest reachable values where the set is a box (linf), computed when they are asked for."""
        if self.threat.norm != "linf":
            return None
        lower, upper = self.inputs - self.threat.radius, self.inputs + self.threat.radius
        if self.threat.box is not None:
            lower, upper = lower.clamp_min_(self.threat.box[0]), upper.clamp_max_(self.threat.box[1])
        return lower, upper

    def select(self, rows: Tensor) -> Region:
        """The regions of some of the inputs."""
        found = Region(self.threat, self.inputs.index_select(0, rows))
        known = self.__dict__.get("bounds")
        if known is not None:  # taking rows out is cheaper than computing them again
            found.__dict__["bounds"] = tuple(part.index_select(0, rows) for part in known)
        return found

    def slice(self, begin: int, end: int) -> Region:
        """The regions of neighboring inputs, without a copy."""
        return Region(self.threat, self.inputs[begin:end])

    def retract(self, points: Tensor) -> Tensor:
        """Some reachable point near each point: projection onto the ball, then onto the box.

        The order matters: the inputs lie in the box, so the second projection never leaves the ball. It is the exact
        projection when the two do not bind together, and costs a fraction of it for l2 and l1 when they do.
        """
        return self.retract_(points.clone())

    def retract_(self, points: Tensor) -> Tensor:
        """The same, written over the points."""
        if self.bounds is not None:
            return torch.clamp(points, *self.bounds, out=points)
        moves = points.sub_(self.inputs).flatten(1)
        radius = self.threat.radius
        if self.threat.norm == "l2":
            norms = torch.linalg.vector_norm(moves, dim=1, keepdim=True)
            moves.mul_((radius / _positive(norms)).clamp_max_(1.0))
        else:
            moves = _shrink_l1(moves, None, radius)
        near = moves.view_as(points).add_(self.inputs)
        return near if self.threat.box is None else near.clamp_(*self.threat.box)

    def project(self, points: Tensor) -> Tensor:
        """Nearest reachable point in Euclidean distance.

        With d the displacement, cut to the box it is sign(d) min(t |d|, cap) for l2 and sign(d) min((|d| - s)_+, cap)
        for l1, where cap is the room left in the direction of d and t <= 1 or s >= 0 is the single number that puts
        the result on the sphere. Cost O(d) per pass and a few passes for l2, one sort for l1.
        """
        if self.bounds is not None:
            return torch.clamp(points, *self.bounds)
        if self.threat.box is None:
            return self.retract(points)
        moves = (points - self.inputs).flatten(1)
        size, room = moves.abs(), self._room(moves)
        if self.threat.norm == "l2":
            reach = _scale_l2(size, room, self.threat.radius, torch.ones_like(size[:, :1]))
        else:
            reach = _shrink_l1(moves, room, self.threat.radius).abs()
        return (self.inputs + (moves.sign() * reach).view_as(points)).clamp(*self.threat.box)

    def support(self, gradients: Tensor) -> Tensor:
        """The reachable point where the linear function with this gradient is largest; exact, also with a box.

        linf: every coordinate goes as far as it can; l2: sign(g) min(t |g|, room) on the sphere; l1: the budget is
        spent on the coordinates in the order of |g|. Coordinates with zero gradient stay.
        """
        flat = gradients.flatten(1)
        room = self._room(flat).masked_fill(flat == 0, 0.0)
        radius = self.threat.radius
        if self.threat.norm == "linf":
            reach = room.clamp_max(radius)
        elif self.threat.norm == "l2":
            size = flat.abs() / _positive(flat.abs().amax(1, keepdim=True))
            reach = _scale_l2(size, room, radius, torch.full_like(size[:, :1], math.inf))
        else:
            order = flat.abs().argsort(dim=1, descending=True, stable=True)
            sorted_room = room.gather(1, order).clamp_max(radius)
            spent = sorted_room.cumsum(1) - sorted_room
            reach = torch.zeros_like(room).scatter_(1, order, torch.minimum(sorted_room, (radius - spent).clamp_min(0)))
        points = self.inputs + (flat.sign() * reach).view_as(gradients)
        return points if self.threat.box is None else points.clamp_(*self.threat.box)

    def advance(self, points: Tensor, gradients: Tensor, rise: Tensor) -> Tensor:
        """The shortest move in the threat's norm that raises a linear function by `rise` (n,), inside the box.

        The radius plays no part. linf moves every coordinate by min(t, room), l2 by min(t |g|, room), l1 fills the
        coordinates in the order of |g|; t is found by one sort. Where the box does not leave enough room the move
        goes as far as it can. Negative rises are descents.
        """
        flat = gradients.flatten(1) * rise.sign()[:, None]
        size, wanted = flat.abs(), rise.abs()[:, None]
        room = Region(self.threat, points)._room(flat).masked_fill(flat == 0, 0.0)
        if self.threat.norm == "l1":
            order = size.argsort(dim=1, descending=True, stable=True)
            steep, space = size.gather(1, order), room.gather(1, order)
            gain = (steep * space).nan_to_num(nan=0.0).cumsum(1)
            before = torch.cat([torch.zeros_like(gain[:, :1]), gain[:, :-1]], 1)
            spent = torch.minimum(space, (wanted - before).clamp_min(0.0) / _positive(steep))
            reach = torch.zeros_like(room).scatter_(1, order, spent.masked_fill(steep == 0, 0.0))
        else:
            pace = torch.ones_like(size) if self.threat.norm == "linf" else size
            time = _time_of_rise(size * pace, room / _positive(pace), wanted)
            reach = torch.minimum((pace * time).masked_fill(pace == 0, 0.0), room)
        return (flat.sign() * reach).view_as(points)

    def random(self, generator: torch.Generator) -> Tensor:
        """Points drawn uniformly from the ball, then cut to the box."""
        shape = self.inputs.flatten(1).shape
        dtype, device = self.inputs.dtype, self.inputs.device

        def uniform(*size: int) -> Tensor:
            return torch.rand(size, dtype=dtype, device=device, generator=generator)

        if self.threat.norm == "linf":
            moves = uniform(*shape) * 2 - 1
        else:
            if self.threat.norm == "l2":
                moves = torch.randn(shape, dtype=dtype, device=device, generator=generator)
            else:
                # Laplace draws divided by their l1 norm are uniform on the sphere of the l1 ball.
                moves = uniform(*shape).clamp_min_(torch.finfo(dtype).tiny).log_() * (uniform(*shape) - 0.5).sign()
            length = torch.linalg.vector_norm(moves, ord=_ORDER[self.threat.norm], dim=1, keepdim=True)
            moves = moves / _positive(length) * uniform(shape[0], 1) ** (1.0 / max(shape[1], 1))
        return self.retract(self.inputs + (self.threat.radius * moves).view_as(self.inputs))

    def contains(self, points: Tensor, distances: Tensor | None = None) -> Tensor:
        """Which points (n,) are finite and reachable, up to the rounding of the sums that put them there.

        `distances` are those of the points from the inputs, where they are known.
        """
        flat = self.inputs.flatten(1)
        share, reach = rounding(self.threat, flat.shape[1], points.dtype)
        largest = flat.abs().amax(1) if flat.shape[1] else flat.new_zeros(len(flat))
        # The distance of a point with a NaN or an infinity is not below anything.
        distances = self.threat.distance(points, self.inputs) if distances is None else distances
        inside = distances <= largest * share + reach
        if self.threat.box is not None and flat.shape[1]:
            low, high = points.flatten(1).aminmax(dim=1)
            inside &= (low >= self.threat.box[0]) & (high <= self.threat.box[1])
        return inside

    def _room(self, moves: Tensor) -> Tensor:
        """How far each coordinate can go in the direction of its move before it meets the box."""
        if self.threat.box is None:
            return torch.full_like(moves, math.inf)
        flat = self.inputs.flatten(1)
        low, high = self.threat.box
        return torch.where(moves > 0, high - flat, flat - low).clamp_min(0.0)


def rounding(threat: Threat, features: int, dtype: torch.dtype = torch.float32) -> tuple[float, float]:
    """How far a reachable point may lie from its input: a share of the input's largest entry, and the radius and more.

    One rounding per coordinate, of the size of the coordinate, gathered by the norm.
    """
    eps, count = torch.finfo(dtype).eps, max(features, 1)
    spread = {"linf": 1.0, "l2": math.sqrt(count), "l1": float(count)}[threat.norm]
    return 4 * eps * spread, threat.radius + 4 * eps * (spread + count**0.5) * threat.radius


def _positive(norms: Tensor) -> Tensor:
    """The same numbers with zeros replaced by the smallest normal one, so that they can divide."""
    return norms.clamp_min(torch.finfo(norms.dtype).tiny)


def _time_of_rise(speed: Tensor, end: Tensor, wanted: Tensor) -> Tensor:
    """The time t (n, 1) at which sum_i speed_i min(t, end_i) reaches what is wanted; infinity where it never does."""
    end, order = end.sort(dim=1)
    speed = speed.gather(1, order)
    done = (speed * end).masked_fill(speed == 0, 0.0).cumsum(1)
    left = speed.flip(1).cumsum(1).flip(1)  # of those that end here or later
    before = torch.cat([torch.zeros_like(done[:, :1]), done[:, :-1]], 1)
    time = (wanted - before) / _positive(left)
    fits = (time <= end) & (left > 0)
    index = fits.to(torch.int8).argmax(1, keepdim=True)
    return torch.where(fits.any(1, keepdim=True), time.gather(1, index).clamp_min(0.0), torch.inf)


def _scale_l2(size: Tensor, room: Tensor, radius: float, limit: Tensor) -> Tensor:
    """min(t size, room) with the largest t <= limit whose norm is at most the radius.

    Starting from the t of the ball alone, coordinates that meet the box are fixed and t is solved again. The set of
    fixed coordinates only grows, so the loop ends at the exact solution, in practice after a handful of passes.
    """
    full = torch.minimum(size * limit, room) if bool(torch.isfinite(limit).all()) else room
    fits = torch.linalg.vector_norm(full, dim=1, keepdim=True) <= radius
    norms = torch.linalg.vector_norm(size, dim=1, keepdim=True)
    t = torch.where(norms > 0, radius / _positive(norms), 0.0)
    for _ in range(size.shape[1]):
        fixed = size * t > room
        left = (radius**2 - room.masked_fill(~fixed, 0.0).square().sum(1, keepdim=True)).clamp_min(0.0)
        free = size.masked_fill(fixed, 0.0).square().sum(1, keepdim=True)
        grown = torch.where(free > 0, (left / _positive(free)).sqrt(), t).maximum(t)
        if bool((fits | (grown <= t)).all()):
            break
        t = grown
    return torch.where(fits, full, torch.minimum(size * t, room))


def _shrink_l1(moves: Tensor, room: Tensor | None, radius: float) -> Tensor:
    """sign(d) min((|d| - s)_+, room) with the least s >= 0 whose l1 norm is at most the radius.

    The norm as a function of s is piecewise linear with corners at |d| and |d| - room: one sort finds its segment.
    """
    size = moves.abs()
    corners, slopes = size, torch.ones_like(size)
    if room is not None:
        corners = torch.cat([size, (size - room).clamp_min(0.0)], 1)
        slopes = torch.cat([slopes, -slopes], 1)
    corners, order = corners.sort(dim=1, descending=True)
    slope = slopes.gather(1, order).cumsum(1)
    gaps = corners - torch.cat([corners[:, 1:], torch.zeros_like(corners[:, :1])], 1)
    norms = (slope * gaps).cumsum(1)
    index = (norms < radius).sum(1, keepdim=True).clamp_max(corners.shape[1] - 1)
    below = (norms - slope * gaps).gather(1, index)
    rough = corners.gather(1, index) - (radius - below) / slope.gather(1, index).clamp_min(1.0)
    # The cumulative sums only locate the segment; the offset itself is solved again from the coordinates on it.
    free = size > rough if room is None else (size > rough) & (size - room < rough)
    held = torch.zeros_like(size) if room is None else room.masked_fill(~((size > rough) & ~free), 0.0)
    total = size.masked_fill(~free, 0.0).sum(1, keepdim=True) + held.sum(1, keepdim=True)
    count = free.sum(1, keepdim=True)
    offset = torch.where(count > 0, (total - radius) / count.clamp_min(1), rough).clamp_min(0.0)
    whole = size if room is None else torch.minimum(size, room)
    offset = torch.where(whole.sum(1, keepdim=True) <= radius, 0.0, offset)
    shrunk = (size - offset).clamp_min(0.0)
    if room is not None:
        shrunk = torch.minimum(shrunk, room)
    # Points far outside lose digits in the difference; a last scaling puts them back onto the sphere.
    return moves.sign() * shrunk * (radius / _positive(shrunk.sum(1, keepdim=True))).clamp_max(1.0)
