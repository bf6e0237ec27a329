"""Square attack: random search that changes one square of pixels at a time (Andriushchenko et al. 2020).

linf: inside the square every channel goes to one end of its reach. l2 and l1: a bump of positive and negative mass
replaces the move inside the square, paid for by the move inside a second square and by what the budget has left. A
change stays where it raises the loss, so the loss never falls.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

from droptics.attacks.ascent import Trail
from droptics.attacks.gradients import Differentiable
from droptics.attacks.losses import beaten, check_problem, mistaken, values
from droptics.attacks.methods import Square
from droptics.attacks.threat import Region
from droptics.gpu.graphs import captured
from droptics.progress import tracked

# The share of pixels in a square is halved after each of these numbers of queries, out of 10,000.
_HALVED = (10, 50, 200, 1000, 2000, 4000, 6000, 8000)
_LOOK = 10  # queries between two looks at which examples are left
_HALVINGS = 3  # of the batch, before a run with patience ends
_SETTLED = 50  # queries after which the same examples are likely to stay for many more
_ORDER = {"linf": math.inf, "l2": 2.0, "l1": 1.0}


class SquareSearch:
    """One `Square` over a batch; the state is the move of every example."""

    def __init__(
        self,
        tape: Differentiable,
        region: Region,
        targets: Tensor,
        method: Square,
        generator: torch.Generator,
        ends: tuple[float, float] | None = None,
    ) -> None:
        self.tape, self.region, self.targets, self.method = tape, region, targets, method
        self.generator, self.ends = generator, ends
        self.norm, self.radius = region.threat.norm, region.threat.radius
        shape = region.inputs.shape[1:]
        self.shape = tuple(shape) if len(shape) == 3 else (1, 1, max(region.inputs[0].numel(), 1))
        self.best = region.inputs.clone(memory_format=torch.contiguous_format)
        self.value = region.inputs.new_full((len(targets),), -torch.inf)
        self.counts: list[int] = []
        self.queries = 0

    def run(self) -> Trail:
        """All restarts on the examples that are not fooled yet."""
        clean = self.tape.scores(self.region.inputs)
        check_problem(self.method.loss, clean, self.targets, self.ends)
        self.fooled = mistaken(clean, self.targets)
        self.counts.append(int(self.fooled.sum()))
        for _ in range(self.method.restarts):
            rows = (~self.fooled).nonzero().squeeze(1)
            if len(rows):
                self._search(rows)
        nobody = torch.zeros_like(self.fooled)
        return Trail(self.best, self.fooled, nobody, torch.tensor([*self.counts, 0]), clean, self.queries)

    def _search(self, rows: Tensor) -> None:
        region, targets = self.region.select(rows), self.targets[rows]
        value = torch.full_like(self.value[rows], -torch.inf)
        fooled = torch.zeros_like(value, dtype=torch.bool)
        current = region.inputs
        ask: Callable[[Tensor], Tensor] = self.tape.scores
        idle, halvings = 0, 0
        patience = math.inf if self.method.patience is None else self.method.patience
        for number in tracked(range(self.method.queries), "square", "query"):
            move = self._changed(region, current, number) if number else self._first_move(len(rows))
            points = self._reached(region, move)
            outputs = ask(points)
            self.queries += len(rows)
            found, _ = values(self.method.loss, outputs, targets)
            wrong = beaten(outputs, targets)
            better = ~fooled & (wrong | (found > value))
            value = torch.where(better, found, value)
            current = torch.where(better.view((-1,) + (1,) * (current.ndim - 1)), points, current)
            fooled = fooled | wrong
            # Asking who is left stalls a GPU; those who are fooled meanwhile keep the point that fooled them.
            if number % _LOOK == _LOOK - 1 or number == self.method.queries - 1:
                keep = (~fooled).nonzero().squeeze(1)
                self.counts.append(self.counts[-1] + len(rows) - len(keep))
                idle = idle + _LOOK if len(keep) == len(rows) else 0
                if idle >= patience:
                    if halvings == _HALVINGS:
                        break
                    # As many passes for half of the examples, those that are nearest to being fooled.
                    keep = value.argsort(descending=True, stable=True)[: (len(rows) + 1) // 2]
                    idle, halvings, patience = 0, halvings + 1, 2 * patience
                if len(keep) < len(rows):
                    self._store(rows, current, value, fooled)
                    rows, targets, region = rows[keep], targets[keep], region.select(keep)
                    current, value, fooled = current.index_select(0, keep), value[keep], fooled[keep]
                    ask = self.tape.scores
                elif points.is_cuda and idle == _SETTLED:
                    ask = self._recorded(points)
                if len(keep) == 0:
                    return
        self._store(rows, current, value, fooled)

    def _recorded(self, points: Tensor) -> Callable[[Tensor], Tensor]:
        """The outputs for batches of this shape in one launch, where a recording repeats what the pass itself says."""
        place, said = points.clone(), self.tape.scores(points)
        outputs = torch.zeros_like(said)
        replay = captured(lambda: outputs.copy_(self.tape.scores(place)), points.device, rehearsals=0)
        replay()
        if not torch.allclose(outputs, said, rtol=0, atol=100 * torch.finfo(said.dtype).eps * float(said.abs().max())):
            return self.tape.scores

        def ask(points: Tensor) -> Tensor:
            place.copy_(points)
            replay()
            return outputs

        return ask

    def _store(self, rows: Tensor, points: Tensor, value: Tensor, fooled: Tensor) -> None:
        better = (fooled | (value > self.value[rows])).nonzero().squeeze(1)
        self.best.index_copy_(0, rows[better], points.index_select(0, better))
        self.value[rows[better]] = value[better]
        self.fooled[rows] |= fooled

    def _reached(self, region: Region, move: Tensor) -> Tensor:
        points = region.inputs + move.view_as(region.inputs)
        return region.retract_(points)

    def _side(self, number: int) -> tuple[int, int]:
        """Height and width of the square at this query."""
        _, height, width = self.shape
        share = self.method.first / 2 ** sum(number * 10_000 > end * self.method.queries for end in _HALVED)
        if height == 1:
            return 1, min(max(round(share * width), 1), width)
        side = max(round(math.sqrt(share * height * width)), 1 if self.norm == "linf" else 3)
        if self.norm != "linf" and side % 2 == 0:
            side += 1
        return min(side, height), min(side, width)

    def _signs(self, *size: int) -> Tensor:
        draws = torch.rand(size, generator=self.generator, device=self.region.inputs.device)
        return torch.where(draws < 0.5, -1.0, 1.0).to(self.region.inputs.dtype)

    def _first_move(self, count: int) -> Tensor:
        """linf: stripes; l2 and l1: a grid of bumps of random sign."""
        channels, height, width = self.shape
        if self.norm == "linf":
            return self.radius * self._signs(count, channels, 1, width).expand(-1, -1, height, -1)
        move = self.region.inputs.new_zeros(count, channels, height, width)
        tall, broad = max(height // 5, 1), max(width // 5, 1)
        hill = bump(tall, broad, move.dtype).to(move.device)
        for top in range(0, height - tall + 1, tall):
            for left in range(0, width - broad + 1, broad):
                move[..., top : top + tall, left : left + broad] = hill * self._signs(count, channels, 1, 1)
        return self._scaled(move)

    def _scaled(self, move: Tensor) -> Tensor:
        """The move, stretched to the radius."""
        length = torch.linalg.vector_norm(move.flatten(1), ord=_ORDER[self.norm], dim=1)
        return move * (self.radius / length.clamp_min(torch.finfo(move.dtype).tiny)).view(-1, 1, 1, 1)

    def _windows(self, count: int, tall: int, broad: int) -> Tensor:
        """A mask (count, 1, height, width) of one square each, anywhere."""
        _, height, width = self.shape
        device = self.region.inputs.device
        top = torch.randint(height - tall + 1, (count, 1, 1), generator=self.generator, device=device)
        left = torch.randint(width - broad + 1, (count, 1, 1), generator=self.generator, device=device)
        down, across = torch.arange(height, device=device)[:, None], torch.arange(width, device=device)
        return ((down >= top) & (down < top + tall) & (across >= left) & (across < left + broad))[:, None]

    def _changed(self, region: Region, current: Tensor, number: int) -> Tensor:
        """The move of the current points with one square changed."""
        count, channels = len(current), self.shape[0]
        move = (current - region.inputs).reshape(count, *self.shape)
        tall, broad = self._side(number)
        window = self._windows(count, tall, broad)
        if self.norm == "linf":
            return torch.where(window, 2 * self.radius * self._signs(count, channels, 1, 1), 0.0) + move
        other = self._windows(count, tall, broad) & ~window
        order = _ORDER[self.norm]
        size = move.abs() ** order
        budget = self.radius**order
        spare = (budget - size.sum((1, 2, 3), keepdim=True)).clamp_min(0.0) / channels
        paid = (size * (window | other)).sum((2, 3), keepdim=True) + spare
        inside = move.masked_select(window.expand_as(move)).view(count, channels, tall, broad)
        old = inside / _length(inside, order)
        if float(torch.rand((), generator=self.generator, device=current.device)) < 0.5:
            hill = bump(tall, broad, move.dtype)
        else:
            hill = bump(broad, tall, move.dtype).mT
        fresh = hill.to(move.device) * self._signs(count, channels, 1, 1) + old
        fresh = fresh / _length(fresh, order) * paid ** (1 / order)
        move = move.masked_fill(other, 0.0)
        return move.masked_scatter(window.expand_as(move), fresh)


def _length(move: Tensor, order: float) -> Tensor:
    """Norm of every channel, never zero."""
    length = torch.linalg.vector_norm(move.flatten(2), ord=order, dim=2)
    return length.clamp_min(torch.finfo(move.dtype).tiny)[..., None, None]


@lru_cache(64)  # the same few shapes all along, and a query of a small network takes less time than one
def bump(tall: int, broad: int, dtype: torch.dtype) -> Tensor:
    """Half of the square a positive hill, half a negative one, of Euclidean norm one; not to be written to."""
    half = tall // 2
    if half == 0:
        parts = [_hill(tall, broad // 2, dtype), -_hill(tall, broad - broad // 2, dtype)]
        whole = torch.cat([part for part in parts if part.numel()], 1)
    else:
        whole = torch.cat([_hill(half, broad, dtype), -_hill(tall - half, broad, dtype)], 0)
    return whole / whole.norm().clamp_min(torch.finfo(dtype).tiny)


def _hill(tall: int, broad: int, dtype: torch.dtype) -> Tensor:
    """Sums of 1 / (k + 1)^2 over growing rectangles about the middle."""
    hill = torch.zeros(tall, broad, dtype=dtype)
    down, across = tall // 2, broad // 2
    for k in range(max(tall // 2, broad // 2) + 1):
        hill[max(down - k, 0) : down + k + 1, max(across - k, 0) : across + k + 1] += 1 / (k + 1) ** 2
    return hill
