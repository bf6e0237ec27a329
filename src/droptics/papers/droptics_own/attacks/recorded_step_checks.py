"""A step of an adaptive ascent as a GPU records it: it asks nothing, and writes where it reads, every time."""

from __future__ import annotations

from dataclasses import fields

import torch
from torch import nn

from droptics.attacks.apgd import AdaptiveAscent, Climb, Record
from droptics.attacks.gradients import differentiable
from droptics.attacks.losses import Margin, aimed
from droptics.attacks.methods import Apgd
from droptics.attacks.threat import Threat
from droptics.evidence.claims import Comparison, compare
from droptics.losses import CrossEntropy
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import uniform


def recorded_steps(scale: float) -> list[Comparison]:
    """Three recorded steps beside the state that three plain ones leave; every tensor stays where it is.

    Stored are the points at which plain steps fool an example for the first time; there are some in these steps.
    """
    found: list[Comparison] = []
    met = 0
    net = nn.Sequential(linear_head(1, 6, 9), nn.Tanh(), linear_head(3, 9, 3))
    inputs = uniform(5, 8, 6)
    with torch.no_grad():
        labels = net(inputs).argmax(1)
    for norm, radius, loss, runs in (
        ("linf", 0.15, CrossEntropy(), 1),
        ("l2", 0.3, Margin("every", 2), 2),
        ("l2", 0.3, CrossEntropy(), 1),
        ("l1", 0.5, CrossEntropy(), 1),
        ("l1", 0.5, Margin("every", 2), 2),
    ):
        threat, method, name = Threat(norm, radius, (0, 1)), Apgd(loss, steps=20), f"{norm}, {type(loss).__name__}"
        searches = [
            AdaptiveAscent(differentiable(net), threat.around(inputs), labels, method, torch.Generator().manual_seed(1))
            for _ in range(2)
        ]
        aims = torch.stack([(labels + 1) % 3, (labels + 2) % 3], 1) if runs > 1 else None
        states: list[Climb] = []
        for search in searches:
            search.counts.append(2)
            state, region = search._begin(torch.arange(8 * runs), [0] * runs, aims, "input")
            search._step(state, region, 0)
            state.gradient = search.tape.pull(
                aimed(loss, search.tape.forward(state.points), state.targets, state.aim)[1]
            )
            states.append(state)
        plain, recorded = searches
        now = states[1].select(torch.arange(len(states[1].rows)))
        place = torch.zeros(1, dtype=torch.int64)
        record = Record(now, recorded.best.index_select(0, now.rows), place.repeat(method.steps), place)
        region = recorded.region.select(now.rows)
        homes = {one.name: part.data_ptr() for one in fields(now) if (part := getattr(now, one.name)) is not None}
        fresh: list[int] = []
        fooling = plain.best.clone()
        for step in range(3):
            recorded._blind_step(record, region)
            mine = states[0]
            old = mine.fooled.clone()
            first, slope = plain._step(mine, region, 1)
            fools = net(mine.points).argmax(1) != labels[mine.rows]
            found.append(same((fools & ~old).tolist(), first.tolist(), f"who fools first after {step + 1}, {name}"))
            ones, those = plain._first(mine.rows, fools & ~old)
            mine.fooled, mine.won = old | those, mine.won | ones
            mine.gradient = plain.tape.pull(slope)
            _keep(mine)
            fresh.append(int(ones.sum()))
            fooling[mine.rows[ones]] = mine.points[ones]
            for one in fields(now):
                told, wanted = getattr(record.now, one.name), getattr(mine, one.name)
                if told is None:
                    continue
                label = f"{one.name} after {step + 1}, {name}"
                found.append(compare(1 + told.double(), "==", scale * (1 + wanted.double()), label, 1e-12))
                found.append(same(told.data_ptr(), homes[one.name], f"where it was, {label}", scale))
        found.append(compare(record.counts[:4], "==", torch.tensor([*fresh, 0]), f"how many, {name}"))
        found.append(compare(int(record.place), "==", 3 * scale, f"steps, {name}"))
        recorded._store(record)
        sums = [2 + sum(fresh[: step + 1]) for step in range(3)]  # two were fooled before
        found.append(same(recorded.counts[-3:], sums, f"all counts, {name}", scale))
        found.append(compare(recorded.fooled.double(), "==", _any(states[0]), f"who is fooled, {name}"))
        found.append(compare(recorded.best, "==", fooling, f"where they are fooled, {name}"))
        met += sum(fresh)
    return [*found, compare(float(met), ">", 0.0, "fooled in recorded steps")]


def _keep(state: Climb) -> None:
    """The best value so far, its point and its slope."""
    better = state.value > state.best_value
    for kept, part in (("best_value", "value"), ("best_points", "points"), ("best_gradient", "gradient")):
        there = better if kept == "best_value" else better[:, None]
        setattr(state, kept, torch.where(there, getattr(state, part), getattr(state, kept)))


def _any(state: Climb) -> torch.Tensor:
    """By example, whether one of its runs has fooled."""
    found = torch.zeros(8).double()
    for row, flag in zip(state.rows.tolist(), state.fooled.tolist(), strict=True):
        found[row] = max(float(found[row]), float(flag))
    return found
