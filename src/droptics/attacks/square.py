"""Square attack: random search that changes one square of pixels at a time (Andriushchenko et al. 2020).

linf: inside the square every channel goes to one end of its reach. l2 and l1: a bump of positive and negative mass
replaces the move inside the square, paid for by the move inside a second square and by what the budget has left. A
change stays where it raises the loss, so the loss never falls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from droptics.attacks import triton_square
from droptics.attacks.apgd import SMALL
from droptics.attacks.ascent import Trail
from droptics.attacks.first_layer import FirstLayer
from droptics.attacks.gradients import Differentiable
from droptics.attacks.known import NOTHING, Known
from droptics.attacks.losses import beaten, check_problem, mistaken, values
from droptics.attacks.methods import Square
from droptics.attacks.threat import Region
from droptics.gpu.graphs import captured
from droptics.progress import tracked

# The share of pixels in a square is halved after each of these numbers of queries, out of 10,000.
_HALVED = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)
_LOOK = 10  # queries between two looks at which examples are left
_HALVINGS = 5  # of the batch, before a run with patience ends
# Where gradients are hidden, queries of all examples fool some at once; else what luck finds is near, and worth more.
_BRIEF = 2  # stretches between halvings that are a quarter and a half as long as the later ones
_RARE = 0.01  # share of the examples that a run must have fooled to be repeated by a search with patience
_CROWDED = 0.875  # on a GPU fooled examples leave when the share of the others falls below this
_ORDER = {"linf": math.inf, "l2": 2.0, "l1": 1.0}


@dataclass(eq=False)
class Seekers:
    """The examples that are searched for: which they are, their best points, and how well these do."""

    rows: Tensor
    targets: Tensor
    region: Region
    current: Tensor
    value: Tensor
    fooled: Tensor

    @property
    def state(self) -> tuple[Tensor, ...]:
        """What queries write over."""
        return self.current, self.value, self.fooled

    def select(self, keep: Tensor) -> Seekers:
        """Some of them."""
        parts = (part.index_select(0, keep) for part in self.state)
        return Seekers(self.rows[keep], self.targets[keep], self.region.select(keep), *parts)


class SquareSearch:
    """One `Square` over a batch; the state is the move of every example."""

    def __init__(
        self,
        tape: Differentiable,
        region: Region,
        targets: Tensor,
        method: Square,
        generator: torch.Generator,
        known: Known = NOTHING,
    ) -> None:
        self.tape, self.region, self.targets, self.method = tape, region, targets, method
        self.generator, self.told = generator, known
        self.norm, self.radius = region.threat.norm, region.threat.radius
        shape = region.inputs.shape[1:]
        self.shape = tuple(shape) if len(shape) == 3 else (1, 1, max(region.inputs[0].numel(), 1))
        self.best = region.inputs.clone(memory_format=torch.contiguous_format)
        self.value = region.inputs.new_full((len(targets),), -torch.inf)
        self.counts: list[int] = []
        self.queries = 0
        self._tries = 1  # squares of an example that are asked about at a time
        self._squares: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}
        self._records = region.inputs.is_cuda
        self._fused = False  # whether kernels propose and judge
        self._layer = None if region.bounds is None else FirstLayer.of(tape, region.inputs)

    def run(self) -> Trail:
        """All restarts on the examples that are not fooled yet."""
        told = self.told.clean
        clean = self.tape.scores(self.region.inputs) if told is None else told
        check_problem(self.method.loss, clean, self.targets, self.told.ends)
        self._fused = triton_square.applies(self.method.loss, self.region, self.shape, clean.shape[-1])
        self.fooled = mistaken(clean, self.targets)
        self.counts.append(int(self.fooled.sum()))
        for _ in range(self.method.restarts):
            rows = (~self.fooled).nonzero().squeeze(1)
            if len(rows):
                self._search(rows)
            found = self.counts[-1] - (len(self.targets) - len(rows))
            if self.method.patience is not None and found <= _RARE * len(rows):
                break
        nobody = torch.zeros_like(self.fooled)
        return Trail(self.best, self.fooled, nobody, torch.tensor([*self.counts, 0]), clean, self.queries)

    def _search(self, rows: Tensor) -> None:
        now, self._tries = self._seekers(rows), 1
        left, idle, halvings = len(rows), 0, 0
        patience = math.inf if self.method.patience is None else self.method.patience
        seen: object = None  # the side of the squares in the last look at these examples
        replay: Callable[[Tensor], None] | None = None
        for look in tracked(self._looks(), "square", "query", self.method.queries, _size):
            draws = self._draws(len(look), look.step * len(now.rows))
            sides = [self._side(number) for number in look]
            if sides != seen:
                replay = None
            elif replay is None and self._worth_recording(now, look):
                replay = self._recorded(now, look, draws)
            few = self._layer is not None and self._layer.pays(self.shape[0] * sides[0][0] * sides[0][1])
            if self._layer is not None and few and look.start:
                self._ask_by_updates(self._layer, now, look, draws)
            elif replay is None:
                self._ask(now, look, draws)
            else:
                replay(draws)
            seen = sides
            self.queries += _size(look) * len(now.rows)
            # Asking who is left stalls a GPU; those who are fooled meanwhile keep the point that fooled them.
            keep = (~now.fooled).nonzero().squeeze(1)
            self.counts.append(self.counts[-1] + left - len(keep))
            idle, left = idle + _size(look) if len(keep) == left else 0, len(keep)
            if idle >= patience:
                if halvings == _HALVINGS:
                    break
                # As many passes, of the same size, for half of the examples, those nearest to being fooled. Few
                # queries change anything by now, so that two at a time find about what two in a row do.
                nearest = now.value[keep].argsort(descending=True, stable=True)
                keep = keep[nearest[: (left + 1) // 2]]
                patience *= 4 if halvings < _BRIEF else 2
                idle, halvings, left = 0, halvings + 1, len(keep)
                self._tries, seen = 2 * self._tries, None
            if len(keep) < (_CROWDED if self._records else 1) * len(now.rows):
                self._store(now)
                now, seen = now.select(keep), None
            if left == 0:
                return
        self._store(now)

    def _looks(self) -> Iterator[range]:
        """The numbers of the queries from one look at who is left to the next, in steps of those asked at a time."""
        begin = 0
        while (rounds := min(_LOOK, (self.method.queries - begin) // self._tries)) > 0:
            look = range(begin, begin + rounds * self._tries, self._tries)
            yield look
            begin = look.stop

    def _seekers(self, rows: Tensor) -> Seekers:
        region = self.region.select(rows)
        value = torch.full_like(self.value[rows], -torch.inf)
        start = region.inputs.clone(memory_format=torch.contiguous_format)
        return Seekers(rows, self.targets[rows], region, start, value, torch.zeros_like(value, dtype=torch.bool))

    def _ask(self, now: Seekers, look: range, draws: Tensor) -> tuple[Tensor, Tensor]:
        """Some queries in a row, the state written over; returns the last points and their outputs."""
        tries, wide = look.step, now
        if tries > 1 and not self._fused:
            wide = now.select(torch.arange(len(now.rows), device=now.rows.device).repeat_interleave(tries))
        for number, draw in zip(look, draws, strict=True):
            side, current = self._side(number), now.current
            if self._fused and number:
                points = triton_square.propose(now.region, current, side, self._square(side)[1], draw)
            else:
                if tries > 1:
                    current = current.repeat_interleave(tries, 0)
                points = self._changed(wide.region, current, side, draw) if number else self._first(wide.region)
            outputs = self.tape.scores(points)
            if self._fused:
                triton_square.take(now.current, now.value, now.fooled, now.targets, points, outputs)
                continue
            better, chosen = self._judge(now, outputs, wide.targets)
            if points.is_cuda:  # where who is better is not asked
                best = points if chosen is None else points[chosen]
                torch.where(better.view((-1,) + (1,) * (best.ndim - 1)), best, now.current, out=now.current)
            else:
                which = better.nonzero().squeeze(1)
                now.current[which] = points[which if chosen is None else chosen[which]]
        return points, outputs

    def _judge(self, now: Seekers, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor | None]:
        """Who is better off, and by which of several queries at a time; what is known of them is written over."""
        found, _ = values(self.method.loss, outputs, targets)
        wrong, chosen, tries = beaten(outputs, targets), None, len(outputs) // len(now.rows)
        if tries > 1:
            first = tries * torch.arange(len(now.rows), device=now.rows.device)
            chosen = first + torch.where(wrong, torch.inf, found).view(-1, tries).argmax(1)
            found, wrong = found[chosen], wrong[chosen]
        better = ~now.fooled & (wrong | (found > now.value))
        torch.where(better, found, now.value, out=now.value)
        now.fooled |= wrong
        return better, chosen

    def _ask_by_updates(self, layer: FirstLayer, now: Seekers, look: range, draws: Tensor) -> None:
        """`_ask` of a perceptron whose first layer is summed up once, from where the squares change it."""
        count, bounds = len(now.rows), now.region.bounds
        assert bounds is not None
        lower, upper = (end.contiguous().view(-1) for end in bounds)
        current, sums = now.current.view(-1), layer.sums(now.current)  # anew in every look: rounding does not add up
        those = torch.arange(count).repeat_interleave(look.step)
        begins, targets = (those * (len(current) // count))[:, None], now.targets[those]
        channels = torch.arange(self.shape[0])[:, None] * (self.shape[1] * self.shape[2])
        for number, draw in zip(look, draws, strict=True):
            places = (self._pixels(self._side(number), draw) + channels).flatten(1)
            where = begins + places
            low = (draw[:, 5:, None] < 0.5).expand(-1, -1, places.shape[1] // self.shape[0]).flatten(1)
            ends = torch.where(low, lower[where], upper[where])
            moved = layer.added(places, ends - current[where]).add_(sums[those])
            better, chosen = self._judge(now, layer.outputs(moved), targets)
            which = better.nonzero().squeeze(1)
            taken = which if chosen is None else chosen[which]
            current[where[taken]] = ends[taken]
            sums[which] = moved[taken]

    def _worth_recording(self, now: Seekers, look: range) -> bool:
        """As for adaptive steps: passes of many examples of a large network hide their launches."""
        return self._records and (self.tape.capturable or len(now.rows) * look.step <= SMALL)

    def _recorded(self, now: Seekers, look: range, draws: Tensor) -> Callable[[Tensor], None] | None:
        """A look in one launch, where a recording repeats what the passes themselves say."""
        place, points = draws.clone(), now.current.repeat_interleave(look.step, 0)
        outputs = self.tape.scores(points)

        def ask() -> None:
            last = self._ask(now, look, place)
            points.copy_(last[0])
            outputs.copy_(last[1])

        launch = captured(ask, draws.device, rehearsals=0)
        before = [part.clone() for part in now.state]
        launch()
        said = self.tape.scores(points)
        slack = 100 * torch.finfo(said.dtype).eps * float(said.abs().max())
        self._records = torch.allclose(outputs, said, rtol=0, atol=slack)
        for part, old in zip(now.state, before, strict=True):
            part.copy_(old)

        def replay(draws: Tensor) -> None:
            place.copy_(draws)
            launch()

        return replay if self._records else None

    def _store(self, now: Seekers) -> None:
        better = (now.fooled | (now.value > self.value[now.rows])).nonzero().squeeze(1)
        self.best.index_copy_(0, now.rows[better], now.current.index_select(0, better))
        self.value[now.rows[better]] = now.value[better]
        self.fooled[now.rows] |= now.fooled

    def _side(self, number: int) -> tuple[int, int]:
        """Height and width of the square at this query; the published count begins after the first, which has none."""
        _, height, width = self.shape
        share = self.method.first / 2 ** sum((number - 1) * 10_000 > end * self.method.queries for end in _HALVED)
        if height == 1:
            return 1, min(max(round(share * width), 1), width)
        side = max(round(math.sqrt(share * height * width)), 1 if self.norm == "linf" else 3)
        if self.norm != "linf" and side % 2 == 0:
            side += 1
        return min(side, height), min(side, width)

    def _draws(self, *size: int) -> Tensor:
        """Uniform numbers (queries, examples, 5 + channels): where two squares lie, how a bump does, and its signs."""
        return torch.rand((*size, 5 + self.shape[0]), generator=self.generator, device=self.region.inputs.device)

    def _first(self, region: Region) -> Tensor:
        """linf: stripes; l2 and l1: a grid of bumps of random sign."""
        count, (channels, height, width) = len(region.inputs), self.shape
        move = self.region.inputs.new_zeros(count, channels, height, width)

        def signs(*size: int) -> Tensor:
            return _signs(torch.rand(size, generator=self.generator, device=move.device)).to(move.dtype)

        if self.norm == "linf":
            move = self.radius * signs(count, channels, 1, width).expand_as(move)
            return region.retract_(region.inputs + move.reshape(region.inputs.shape))
        tall, broad = max(height // 5, 1), max(width // 5, 1)
        hill = bump(tall, broad, move.dtype).to(move.device)
        for top in range(height % tall // 2, height - tall + 1, tall):
            for left in range(width % broad // 2, width - broad + 1, broad):
                move[..., top : top + tall, left : left + broad] = hill * signs(count, channels, 1, 1)
        length = torch.linalg.vector_norm(move.flatten(1), ord=_ORDER[self.norm], dim=1)
        move = move * (self.radius / length.clamp_min(torch.finfo(move.dtype).tiny)).view(-1, 1, 1, 1)
        return region.retract_(region.inputs + move.view_as(region.inputs))

    def _square(self, side: tuple[int, int]) -> tuple[Tensor, Tensor]:
        """The pixels of a square in the upper left corner, and a bump that stands and one that lies there."""
        if side not in self._squares:
            inputs, (tall, broad) = self.region.inputs, side
            pixels = torch.arange(tall)[:, None] * self.shape[2] + torch.arange(broad)
            bumps = torch.stack([bump(tall, broad, inputs.dtype), bump(broad, tall, inputs.dtype).mT])
            self._squares[side] = pixels.flatten().to(inputs.device), bumps.flatten(1).to(inputs.device)
        return self._squares[side]

    def _pixels(self, side: tuple[int, int], draw: Tensor) -> Tensor:
        """The pixels (n, channels, in a square) of one square each; as published none ends in the last row."""
        channels, height, width = self.shape
        room = height - side[0], width - side[1]
        top, left = ((draw[:, i] * room[i]).long().clamp_max(max(room[i] - 1, 0)) for i in (0, 1))
        pixels = (top * width + left)[:, None, None] + self._square(side)[0]
        return pixels.expand(-1, channels, -1)

    def _changed(self, region: Region, current: Tensor, side: tuple[int, int], draw: Tensor) -> Tensor:
        """The current points with one square changed."""
        count, channels = len(current), self.shape[0]
        square = self._pixels(side, draw)
        if region.bounds is not None:  # the square alone: what is outside stays as it is
            lower, upper = (end.reshape(count, channels, -1).gather(2, square) for end in region.bounds)
            ends = torch.where(draw[:, 5:, None] < 0.5, lower, upper)
            return current.reshape(count, channels, -1).scatter(2, square, ends).view_as(current)
        move = (current - region.inputs).reshape(count, channels, -1)
        signs = _signs(draw[:, 5:, None]).to(move.dtype)
        order = _ORDER[self.norm]
        lost = torch.zeros_like(move, dtype=torch.bool).scatter_(2, square, True)
        lost.scatter_(2, self._pixels(side, draw[:, 2:]), True)
        size = move.abs() ** order
        spare = (self.radius**order - size.sum((1, 2), keepdim=True)).clamp_min(0.0) / self.shape[0]
        paid = (size * lost).sum(2, keepdim=True) + spare
        inside = move.gather(2, square)
        hill = self._square(side)[1].index_select(0, (draw[:, 4] < 0.5).long())[:, None]
        fresh = hill * signs + inside / _length(inside, order)
        fresh = fresh / _length(fresh, order) * paid ** (1 / order)
        move = move.masked_fill(lost, 0.0).scatter(2, square, fresh)
        return region.retract_(region.inputs + move.view_as(current))


def _size(look: range) -> int:
    """How many queries of an example it holds."""
    return len(look) * look.step


def _signs(draws: Tensor) -> Tensor:
    return torch.where(draws < 0.5, -1.0, 1.0)


def _length(move: Tensor, order: float) -> Tensor:
    """Norm of every channel, never zero."""
    length = torch.linalg.vector_norm(move, ord=order, dim=2, keepdim=True)
    return length.clamp_min(torch.finfo(move.dtype).tiny)


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
    """Sums of 1 / (k + 1)^2 over growing rectangles about the middle, of Euclidean norm one."""
    hill = torch.zeros(tall, broad, dtype=dtype)
    down, across = tall // 2, broad // 2
    for k in range(max(tall // 2, broad // 2) + 1):
        hill[max(down - k, 0) : down + k + 1, max(across - k, 0) : across + k + 1] += 1 / (k + 1) ** 2
    return hill / hill.norm().clamp_min(torch.finfo(dtype).tiny)
