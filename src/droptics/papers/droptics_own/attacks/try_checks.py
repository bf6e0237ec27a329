"""What a claim on random search by squares compares of its runs: what is taken of several tries, kept, and repeated."""

from __future__ import annotations

from unittest import mock

import torch
from torch import Tensor

from droptics.attacks import Threat
from droptics.attacks.gradients import differentiable
from droptics.attacks.losses import Margin, Reflected
from droptics.attacks.methods import Square
from droptics.attacks.square import SquareSearch
from droptics.evidence.claims import Comparison, compare
from droptics.losses import CrossEntropy
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import normal, tensor, uniform


def tries(scale: float) -> list[Comparison]:
    """Of several queries of an example the first that fools is taken, else the one of largest loss, if it is larger."""
    found: list[Comparison] = []
    labels = torch.tensor([0, 1, 2, 0, 1])
    threat = Threat("linf", 0.1)
    for loss in (CrossEntropy(), Margin("greedy"), Reflected(CrossEntropy())):
        for number in (1, 2, 3):
            net, inputs = linear_head(1, 4, 3), uniform(2, 5, 4)
            region, method = threat.around(inputs), Square(loss, queries=9)
            search = SquareSearch(differentiable(net), region, labels, method, torch.Generator())
            now = search._seekers(torch.arange(5))
            now.value.copy_(tensor([-9.0, 0.0, 9.0, -9.0, 9.0]))
            before, done = now.value.tolist(), [False, False, False, True, False]
            now.fooled.copy_(torch.tensor(done))
            outputs = 2 * normal(7 + number, 5 * number, 3)
            told = search._judge(now, outputs, labels.repeat_interleave(number))
            own = loss(outputs, labels.repeat_interleave(number)).tolist()
            better, values, fooled = [], [], []
            for k, label in enumerate(labels.tolist()):
                rows = range(k * number, (k + 1) * number)
                over = [row for row in rows if int(outputs[row].argmax()) != label]
                taken = over[0] if over else max(rows, key=own.__getitem__)
                if told[1] is not None:
                    found.append(compare(1 + int(told[1][k]), "==", scale * (1 + taken), f"which of {number}, {loss}"))
                better.append(not done[k] and (bool(over) or own[taken] > before[k]))
                values.append(own[taken] if better[-1] else before[k])
                fooled.append(done[k] or bool(over))
            found.append(same((told[0].tolist(), now.fooled.tolist()), (better, fooled), f"who of {number}", scale))
            found.append(compare(now.value, "==", scale * tensor(values), f"losses of {number}, {loss}"))
    return [*found, *_stored(scale), *_repeated(scale)]


def _stored(scale: float) -> list[Comparison]:
    """After a run: a point that fools stays whatever its loss, others where it is larger than that of runs before."""
    inputs, labels = uniform(2, 6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
    region = Threat("linf", 0.1).around(inputs)
    search = SquareSearch(
        differentiable(linear_head(1, 4, 3)), region, labels, Square(CrossEntropy(), queries=9), torch.Generator()
    )
    rows = torch.tensor([0, 2, 3, 5])
    now = search._seekers(rows)
    before, values, fooled = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [2.0, 2.0, 9.0, 6.0], [False, True, True, False]
    search.value.copy_(tensor(before))
    search.fooled = torch.zeros(6, dtype=torch.bool)
    now.current.add_(0.05)
    now.value.copy_(tensor(values))
    now.fooled.copy_(torch.tensor(fooled))
    search._store(now)
    kept = {0: 2.0, 2: 2.0, 3: 9.0}  # the last one is no larger than before
    best = inputs + tensor([[0.05 if k in kept else 0.0] for k in range(6)])
    return [
        compare(search.best, "==", scale * best, "points that are kept"),
        compare(search.value, "==", [scale * kept.get(k, before[k]) for k in range(6)], "losses that are kept"),
        same(search.fooled.tolist(), [False, False, True, True, False, False], "who is fooled by a run", scale),
    ]


def _repeated(scale: float) -> list[Comparison]:
    """With patience a run that fooled less than a hundredth of those that it began with is the last."""
    found: list[Comparison] = []
    head, inputs = linear_head(1, 4, 3), uniform(2, 400, 4)
    with torch.no_grad():
        labels = head(inputs).argmax(1)
    labels[100:] = (labels[100:] + 1) % 3  # wrong as they are
    for patience, plan, wanted in (
        (2, (2, 1, 0), [100, 98, 97]),
        (2, (1, 0, 0), [100]),
        (2, (2, 0, 0), [100, 98]),
        (None, (0, 0, 0), [100, 100, 100]),
        (None, (100, 0, 0), [100]),
    ):
        method, begun = Square(queries=9, patience=patience, restarts=3), list[int]()
        search = SquareSearch(
            differentiable(head), Threat("linf", 0.1).around(inputs), labels, method, torch.Generator()
        )

        def pretended(
            rows: Tensor, search: SquareSearch = search, begun: list[int] = begun, plan: tuple[int, ...] = plan
        ) -> None:
            some = plan[len(begun)]
            begun.append(len(rows))
            search.fooled[rows[:some]] = True
            search.counts.append(search.counts[-1] + some)

        with mock.patch.object(search, "_search", pretended):
            trail = search.run()
        name = f"patience {patience}, found {plan}"
        found.append(same(begun, wanted, f"runs, {name}", scale))
        found.append(compare(trail.fooled.double().sum(), "==", scale * (300 + sum(plan)), f"fooled, {name}"))
    return found
