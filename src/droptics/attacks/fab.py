"""Fast adaptive boundary: the nearest misclassified point, by steps onto linearized boundaries (Croce and Hein 2020).

With f_j = z_j - z_y and its gradient w_j, the boundary of class j is nearest by linearization where
|f_j| / ||w_j||_* is smallest. A step goes to 1.05 times the projection of the iterate onto that hyperplane, mixed with
the same projection of the input, so that the path stays near the input; across a boundary the iterate is drawn back.
"""

from __future__ import annotations

import torch
from torch import Tensor

from droptics.attacks.ascent import Trail, stuck
from droptics.attacks.gradients import Differentiable
from droptics.attacks.known import NOTHING, Known
from droptics.attacks.losses import Margin, beaten, check_problem, mistaken
from droptics.attacks.methods import Fab
from droptics.attacks.threat import Region
from droptics.progress import tracked

_BEYOND = 1.05  # how far beyond the linearized boundary a step goes
_MOST = 0.1  # largest weight of the input's own projection
_BACK = 0.9  # what is left of the distance to the input after a boundary was crossed
_HALVINGS = 3  # of the last move towards the input, once the nearest point is found


class BoundarySearch:
    """One `Fab` over a batch; the state is the nearest misclassified point so far of every example."""

    def __init__(
        self,
        tape: Differentiable,
        region: Region,
        targets: Tensor,
        method: Fab,
        generator: torch.Generator,
        known: Known = NOTHING,
    ) -> None:
        self.tape, self.region, self.targets, self.method = tape, region, targets, method
        self.generator, self.told = generator, known
        self.nearest = region.inputs.clone(memory_format=torch.contiguous_format)
        self.distance = torch.full_like(region.inputs.flatten(1)[:, 0], torch.inf)
        self.counts: list[int] = []
        self.gradients = 0
        self.leaves = True

    def run(self) -> Trail:
        """All restarts; examples leave once a misclassified point lies within the radius."""
        radius = self.region.threat.radius
        told = self.told.clean
        clean = self.tape.scores(self.region.inputs) if told is None else told
        check_problem(Margin(), clean, self.targets, self.told.ends)
        wrong = mistaken(clean, self.targets)
        self.distance[wrong] = 0.0
        for restart in range(self.method.restarts):
            far = self.distance > radius if self.leaves else self.distance > 0
            rows = far.nonzero().squeeze(1)
            if len(rows):
                self._walk(rows, random=restart > 0)
        self._shorten()
        inside = self.distance <= radius
        tally = torch.tensor([int(wrong.sum()), *self.counts, self.gradients])
        share = torch.where(inside, 1.0, radius / self.distance).view((-1,) + (1,) * (self.nearest.ndim - 1))
        points = torch.where(share < 1, self.region.retract(self.region.inputs.lerp(self.nearest, share)), self.nearest)
        still = ~inside & (torch.isinf(self.distance) | stuck(self.region.threat, points, self.region.inputs))
        return Trail(points, inside, still, tally, clean)

    def _walk(self, rows: Tensor, *, random: bool) -> None:
        region, targets = self.region.select(rows), self.targets[rows]
        points = region.random(self.generator) if random else region.inputs.clone()
        wide = (-1,) + (1,) * (points.ndim - 1)
        for _ in tracked(range(self.method.steps), "fab", "step"):
            value, normal = self._nearest_boundary(points, targets)
            offset = (normal * (region.inputs - points)).flatten(1).sum(1)
            here = region.advance(points, normal, -value)
            there = region.advance(region.inputs, normal, -(value + offset))
            near, far = (region.threat.distance(region.inputs + move, region.inputs) for move in (here, there))
            share = (near / (near + far).clamp_min(torch.finfo(near.dtype).tiny)).clamp_max(_MOST).view(wide)
            points = torch.lerp(points + _BEYOND * here, region.inputs + _BEYOND * there, share)
            if region.threat.box is not None:
                points = points.clamp_(*region.threat.box)
            crossed = beaten(self.tape.scores(points), targets)
            distance = region.threat.distance(points, region.inputs)
            better = (crossed & (distance < self.distance[rows])).nonzero().squeeze(1)
            self.nearest.index_copy_(0, rows[better], points.index_select(0, better))
            self.distance[rows[better]] = distance[better]
            points = torch.where(crossed.view(wide), region.inputs.lerp(points, _BACK), points)
            inside = self.distance <= self.region.threat.radius
            self.counts.append(int(inside.sum()))
            if self.leaves:
                keep = (~inside[rows]).nonzero().squeeze(1)
                if len(keep) == 0:
                    return
                if len(keep) < len(rows):
                    rows, targets, points, region = rows[keep], targets[keep], points[keep], region.select(keep)

    def _nearest_boundary(self, points: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """The value z_j - z_y of the class whose linearized boundary is nearest, and its gradient."""
        outputs = self.tape.forward(points)
        if outputs.shape[-1] == 1:
            sign = targets.reshape(-1, 1).to(outputs.dtype)
            self.gradients += len(points)
            return -(outputs * sign).squeeze(-1), self.tape.pull(-sign)
        index = targets[:, None]
        others = outputs.scatter(-1, index, -torch.inf)
        aims = others.topk(min(self.method.candidates, outputs.shape[-1] - 1), dim=-1).indices
        right = outputs.gather(-1, index).squeeze(-1)
        best: tuple[Tensor, Tensor, Tensor] | None = None
        for column in range(aims.shape[1]):
            aim = aims[:, column, None]
            away = torch.zeros_like(outputs).scatter_(-1, aim, 1.0).scatter_(-1, index, -1.0)
            normal = self.tape.pull(away, again=True)
            value = outputs.gather(-1, aim).squeeze(-1) - right
            speed = self.region.threat.dual_norm(normal).clamp_min(torch.finfo(value.dtype).tiny)
            length = value.abs() / speed
            if best is None:
                best = length, value, normal
                continue
            closer = length < best[0]
            spread = closer.view((-1,) + (1,) * (points.ndim - 1))
            best = (
                torch.where(closer, length, best[0]),
                torch.where(closer, value, best[1]),
                torch.where(spread, normal, best[2]),
            )
        self.gradients += aims.shape[1] * len(points)
        assert best is not None
        return best[1], best[2]

    def _shorten(self) -> None:
        """Move the nearest points towards their inputs as long as they stay misclassified."""
        rows = ((self.distance > 0) & torch.isfinite(self.distance)).nonzero().squeeze(1)
        if len(rows) == 0:
            return
        inputs, targets = self.region.inputs.index_select(0, rows), self.targets[rows]
        low, high = torch.zeros_like(self.distance[rows]), torch.ones_like(self.distance[rows])
        far = self.nearest.index_select(0, rows)
        wide = (-1,) + (1,) * (far.ndim - 1)
        for halving in range(_HALVINGS):
            middle = (low + high) / 2 if halving else high * 0.98
            crossed = beaten(self.tape.scores(inputs.lerp(far, middle.view(wide))), targets)
            high, low = torch.where(crossed, middle, high), torch.where(crossed, low, middle)
        points = inputs.lerp(far, high.view(wide))
        self.nearest.index_copy_(0, rows, points)
        self.distance[rows] = self.region.threat.distance(points, inputs)
