"""What claims on parts of audits compare: heads and what they keep, layers left out, plain draws, groups of sites."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

from droptics.audits import audit
from droptics.audits import heads as parts
from droptics.audits.batches import Batch
from droptics.audits.digest import groups
from droptics.audits.heads import Head
from droptics.audits.measuring import Plan, accuracy, plain
from droptics.audits.runs import Base, Law, Runs, spread
from droptics.audits.tallies import Tally
from droptics.data import Moments, Sample
from droptics.estimates import PlainEstimate
from droptics.evidence.claims import Comparison, compare
from droptics.losses import CrossEntropy, Logistic, Squared
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import normal, tensor


def ends(number: PlainEstimate | None) -> list[float]:
    """A number with its interval."""
    return [math.nan] * 3 if number is None else [number.value, number.lower, number.upper]


def asked_for(loss: Any = None, **more: Any) -> Plan:
    """A plan that measures nothing, but for what is given."""
    given: dict[str, Any] = {
        "sites": [],
        "curve": [],
        "rates": (0.1, 0.5),
        "draws": None,
        "budget": 9.0,
        "rest": False,
        "layers": {},
        "names": [],
        "laws": {},
        "generator": torch.Generator(),
        "confidence": 0.9,
    }
    return Plan(loss or Squared(), **(given | more))


def heads(scale: float) -> list[Comparison]:
    """Bounds of a head need all its examples; what is kept ends at the limit, what is counted does not."""
    found: list[Comparison] = []
    features, labels = normal(1, 6, 4), torch.arange(6) % 3
    head = Head("h", normal(7, 3, 4), normal(8, 3))
    head.add(features, labels)
    told = head.entropic(0.3, CrossEntropy())
    kept = tensor([[float(k >> j & 1) for j in range(4)] for k in range(16)])
    chances = (0.7 * kept + 0.3 * (1 - kept)).prod(1)

    def loss(x: Tensor) -> Tensor:
        return nn.functional.cross_entropy(x @ head.weight.mT + head.bias, labels)

    truth = sum(c * loss(features * z / 0.7) for c, z in zip(chances, kept, strict=True)) - loss(features)
    assert told is not None
    found.append(same(told.lower <= float(truth) <= told.upper, True, "bounds of a head", scale))
    found.append(compare(ends(told), "==", scale * truth, "which are narrow", precision=1e-3))
    found.append(same((told.method, told.upper > told.lower), ("certified", True), "certified", scale))
    single = Head("h", normal(7, 1, 4), normal(8, 1))
    signs = tensor([1.0, -1.0] * 3)
    single.add(features, signs)
    exact = single.entropic(0.3, Logistic())
    scores = torch.stack([(features * z / 0.7) @ single.weight[0] + single.bias for z in kept])
    plain_scores = features @ single.weight[0] + single.bias
    softplus = nn.functional.softplus
    logistic = chances @ softplus(-scores * signs).mean(1) - softplus(-plain_scores * signs).mean()
    found.append(compare(ends(exact), "==", scale * logistic.expand(3), "logistic head", 1e-9))
    found.append(same(exact and exact.method, "exact: characteristic function", "its words", scale))
    found.append(same(head.entropic(0.3, Squared()), None, "another loss", scale))
    for count, known in ((5, True), (6, True), (7, False), (60, False)):
        head.count = count
        found.append(same(head.entropic(0.3, CrossEntropy()) is not None, known, f"{count} of 6 examples", scale))
    head.count = 6
    head.features.append(features[:1])  # more than one part is kept
    head.targets.append(labels[:1])
    head.count = 7
    found.append(same(head.entropic(0.3, CrossEntropy()) is not None, True, "two parts", scale))
    for most, enough in ((7 * 3**2 * 4, True), (7 * 3**2 * 4 - 1, False)):
        with mock.patch.object(parts, "MOST_WORK", most):
            found.append(same(head.entropic(0.3, CrossEntropy()) is not None, enough, f"work of {most}", scale))
    wide = Head("h", torch.zeros(2**20, 1).double(), torch.zeros(1).double())
    found.append(same((wide.most, head.most), (4, 4096), "examples that are kept", scale))
    wide.add(normal(3, 3, 1), torch.zeros(3).long())
    wide.add(normal(4, 3, 1), torch.arange(3))
    told_kept = (sum(map(len, wide.features)), torch.cat(wide.targets).tolist(), wide.count)
    found.append(same(told_kept, (4, [0, 0, 0, 0], 6), "kept and counted", scale))
    both = torch.cat([normal(3, 3, 1), normal(4, 3, 1)])
    assert wide.energies is not None
    found.append(compare(wide.energies, "==", scale * both.square().mean(0), "energies of two batches"))
    return found


class _Shrinking(nn.Module):
    """Features that shrink by what falls, so that outputs do not follow masks as a linear layer does; rows may fall."""

    def __init__(self, drop: nn.Module, share: float) -> None:
        super().__init__()
        self.drop, self.last, self.share = drop, linear_head(3, 4, 2), share

    def after(self, features: Tensor, dropped: Tensor) -> Tensor:
        """Outputs of what is left in training."""
        return self.last(dropped / (1 + self.share * (dropped - features).square().sum(-1, keepdim=True)))

    def forward(self, inputs: Tensor) -> Tensor:
        dropped = self.drop(inputs)
        return self.after(inputs, dropped) if self.training and self.share else self.last(dropped)


def no_heads(scale: float) -> list[Comparison]:
    """Rows that fall as a whole, and features that shrink by what falls: no formula of the last layer is theirs."""
    found: list[Comparison] = []
    inputs, targets = normal(1, 12, 4), normal(2, 12, 2)
    units = tensor([[float(k >> j & 1) for j in range(4)] for k in range(16)])
    for name, module, kept in (
        ("rows", _Shrinking(nn.Dropout1d(0.3), 0.0), tensor([[0.0] * 4, [1.0] * 4])),
        ("shrinking", _Shrinking(nn.Dropout(0.3), 0.2), units),
    ):
        fewer = kept[:, :1] if name == "rows" else kept
        chances = (0.7 * fewer + 0.3 * (1 - fewer)).prod(1)
        with torch.no_grad():
            losses = (module.after(inputs, inputs * kept[:, None] / 0.7) - targets).square().sum(-1).mean(1)
            truth = float(chances @ losses - (module.last(inputs) - targets).square().sum(1).mean())
        (site,) = audit(module, (inputs, targets), "squared", rates=(), draws=60, confidence=0.9999).sites
        told = ends(site.penalty)
        found.append(compare([told[1], -told[2]], "<=", scale * tensor([truth, -truth]), f"no formula for {name}"))
        found.append(compare(told[2] - told[1], "<=", 2.0, f"its width, {name}"))
    return found


class _Part(nn.Module):
    def __init__(self, seed: int) -> None:
        super().__init__()
        self.inner, self.drop = linear_head(seed, 3, 3), nn.Dropout(0.4)

    def forward(self, value: Tensor) -> Tensor:
        return self.drop(torch.tanh(self.inner(value)))


def left_out(scale: float) -> list[Comparison]:
    """Layers that are left out as a whole have no mask of their own: they stay in the run without masks."""
    found: list[Comparison] = []
    module = nn.Sequential(_Part(1), _Part(3), linear_head(5, 3, 2))
    x, goal = normal(7, 5, 3), normal(8, 5, 2)
    laws = {"0.drop": Law("0.drop", 0.4, "entry"), "1": Law("1", 0.2, "layer")}
    runs = Runs(module, Batch((x,), {}, goal, 5), Squared(), laws, {})
    base = runs.base()
    found.append(same((runs.skips, list(base.leaves)), ({"1": 0.2}, ["0.drop"]), "masks of sites alone", scale))
    first: Any = module[0]
    second: Any = module[1]
    hidden = torch.tanh(first.inner(x))
    whole = (module[2](torch.tanh(second.inner(hidden))) - goal).square().sum(1).detach()
    found.append(compare(base.sums, "==", scale * whole, "no layer is left out"))
    without = (module[2](hidden) - goal).square().sum(1).detach()
    found.append(compare(runs.losses({"1": [torch.zeros(())]}), "==", scale * without, "one is left out"))
    again = Runs(module, Batch((x,), {}, goal, 5), Squared(), laws, {}).base({"0.drop": 0, "other": 3})
    found.append(same(again.axes, {"0.drop": 0}, "axes of an earlier batch", scale))
    found.append(compare(runs.spent, "==", scale * 4.0, "passes"))
    alike = spread(base, "0.drop", tensor([1.0, 0.0, 2.0]))
    found.append(compare([] if alike is None else alike[0], "==", scale * tensor([[1.0, 0.0, 2.0]] * 5), "one mask"))
    ones = torch.ones(2, 5, 1, dtype=torch.float64)
    turned = Base(torch.zeros(5), torch.ones(5), torch.zeros(5), {"a": [ones], "b": [ones, ones]}, {}, {"a": 1, "b": 1})
    pattern = spread(turned, "a", tensor([3.0, 4.0]))
    rows = tensor([3.0, 4.0])[:, None, None].expand(2, 5, 1)
    found.append(compare([] if pattern is None else pattern[0], "==", scale * rows, "examples in the second place"))
    found.append(same(spread(turned, "b", tensor([3.0, 4.0])), None, "two calls", scale))
    turned.axes["a"] = 0
    found.append(same(spread(turned, "a", tensor([3.0, 4.0])), None, "fewer rows than examples", scale))
    found += _plain_draws(scale, x, goal)
    logits, labels = tensor([[1.0, 2.0], [3.0, 0.0], [0.0, 1.0]]), torch.tensor([1, 0, 0])
    signs = tensor([1.0, -1.0, 1.0])
    right = [accuracy(logits, labels), accuracy(logits[:, :1] - 0.5, signs), accuracy(logits, logits)]
    found.append(same([right[0], right[1], right[2]], [2 / 3, 1 / 3, None], "accuracies", scale))
    return found


class _Off(nn.Module):
    """A mask of one's own that leaves nothing in training mode."""

    def forward(self, value: Tensor) -> Tensor:
        return 0 * value if self.training else value


def _plain_draws(scale: float, x: Tensor, goal: Tensor) -> list[Comparison]:
    """Sites as they draw for themselves, where all units fall or none: each alone, all, none, and other rates."""
    found: list[Comparison] = []
    never, always = 1e-12, 1 - 1e-12
    module = nn.Sequential(linear_head(1, 3, 3), nn.Dropout(always), linear_head(3, 3, 3), nn.Dropout(never))
    module.append(_Off()).append(linear_head(5, 3, 2)).train()
    few = SimpleNamespace(module=module, batch=Batch((x,), {}, goal, 5), skips={}, spent=0.0)

    def added(first: float, second: float) -> float:
        hidden = second * module[2](first * module[0](x))
        return float((module[5](hidden) - goal).square().sum(1).mean().detach()) - 1.0

    wanted = {"all": (0, 0), "none": (1, 1), "1": (0, 1), "3": (1, 1), "4": (1, 0)}
    wanted |= {"1 at 0": (1, 1), "1 at 1": (0, 1), "3 at 0": (1, 1), "3 at 1": (1, 0)}
    for asked, draws in ((None, 4), (2, 2)):
        tally, few.spent = Tally(), 0.0
        more: dict[str, Any] = {"rates": (never, always), "rest": True, "layers": {"4": always}, "draws": asked}
        plan = asked_for(sites=["1", "3", "4"], curve=["1", "3"], **more)
        plain(few, plan, tally, 1.0, 5.0)  # type: ignore[arg-type]
        told = [tally.total, tally.rest, *(tally.sites[site] for site in plan.sites)]
        told += [tally.curves[site, rate] for site in ("1", "3") for rate in plan.rates]
        for (name, factors), one in zip(wanted.items(), told, strict=True):
            found.append(compare(one.value, "==", scale * added(*factors), f"plain draws, {name}, {asked}"))
        found.append(same(([one.draws for one in told], few.spent), ([draws] * 9, 9.0 * draws), "how many", scale))
    tally = Tally()
    plain(few, asked_for(curve=[*"abcde"], total=False), tally, 1.0, 5.0)  # type: ignore[arg-type]
    found.append(same((tally.curves, tally.total.draws, tally.rest.draws), ({}, 0, 0), "not asked for", scale))
    return found


def groups_of(scale: float) -> list[Comparison]:
    """Groups stand in the order in which their first site runs, whatever their names."""
    found: list[Comparison] = []

    def item(name: str, value: float | None, kind: str = "dropout", rate: float = 0.1) -> dict[str, Any]:
        low, high = (None, None) if value is None else (value - 0.3, value + 0.3)
        site = {"name": name, "kind": kind, "rate": rate, "reason": None}
        penalty = {"value": value, "lower": low, "upper": high, "method": "exact"}
        return {"site": site, "penalty": penalty, "share": value, "curve": []}

    names = ["z.1.drop", "z.0.drop", "m.drop", "a.1.drop", "a.0.drop"]
    sites = [item(name, 1.0 + k, rate=0.1 * (k % 2 + 1)) for k, name in enumerate(names)]
    sites.append(item("z.0.drop", None, "drop path"))
    told = groups({"sites": sites})
    order = [(group.place, group.kind, list(group.names)) for group in told]
    wanted = [
        ("z.*.drop", "dropout", names[:2]),
        ("m.drop", "dropout", names[2:3]),
        ("a.*.drop", "dropout", names[3:]),
        ("z.*.drop", "drop path", ["z.0.drop"]),
    ]
    found.append(same(order, wanted, "groups as they run", scale))
    found.append(same([group.rate for group in told], ["0.1 to 0.2", "0.1", "0.1 to 0.2", "0.1"], "rates", scale))
    for group, value in zip(told, (3.0, 3.0, 9.0), strict=False):
        half = 0.3 * len(group.names) ** 0.5
        content = group.penalty or {}
        numbers = [content.get(key, math.nan) for key in ("value", "lower", "upper")]
        found.append(compare(numbers, "==", scale * tensor([value, value - half, value + half]), "their sums"))
        found.append(compare(group.share or 0.0, "==", scale * value, "their shares"))
    found.append(same((told[3].penalty, told[3].share), (None, None), "one is missing", scale))
    merged = Moments.merged([Moments.of_sample(Sample(normal(k, 3, 2), normal(k, 3, 1))) for k in (1, 2)])
    found.append(compare(merged.weight, "==", scale * 6.0, "both counted"))
    return found
