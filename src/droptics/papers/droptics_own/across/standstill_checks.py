"""What a claim compares in places that the others pass by: standing still, threads, slopes, heads, unknown ids."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import scipy.optimize
import torch
from torch import Tensor, nn
from torch.nn import functional

from droptics.attacks import Pgd, Threat
from droptics.attacks.search import search
from droptics.evidence.claims import Comparison, compare
from droptics.evidence.engines import Local
from droptics.linalg.krylov import Krylov, Operator
from droptics.losses import CrossEntropy
from droptics.masks import Bernoulli
from droptics.models.replaying import replayed
from droptics.optima.stationary import _polished
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.audits.audit_checks import every_coin
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.rates.kept_copy_checks import _problem
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import normal, tensor, uniform
from droptics.penalties.relu import kernels
from droptics.predictions import modules, predictive
from droptics.predictions.controls import _counted
from droptics.rates import running
from droptics.rates.running import Runner
from droptics.recommenders import DropoutCompletion


def passed_by(scale: float) -> list[Comparison]:
    """Counts of ascents, threads, slopes, precision, proofs, seconds, notes, unknown ids, arguments by place."""
    parts = _still, _threads, _slopes, _proofs, _told, _unknown, _placed
    return by_parts(parts, scale)


def _still(scale: float) -> list[Comparison]:
    """Who stands still in a corner leaves the batch and is not counted as fooled: counts end at those who are."""
    module = nn.Sequential(linear_head(1, 6, 16), nn.ReLU(), linear_head(2, 16, 3))
    inputs = uniform(2, 400, 6)
    with torch.no_grad():
        labels = module(inputs).argmax(-1)
    trail = search(module, inputs, labels, Threat("linf", 0.02, box=(0.0, 1.0)), Pgd(CrossEntropy(), steps=40))
    counts = trail.tally[:-1].tolist()
    with torch.no_grad():
        wrong = module(trail.inputs).argmax(-1) != labels
    fooled = int(wrong.sum())
    return [
        same(trail.fooled.tolist(), wrong.tolist(), "who is fooled", scale),
        same(counts, sorted(counts), "counts never fall", scale),
        compare(counts[-1] + 1, "==", scale * (fooled + 1), "counts end at those who are fooled"),
        compare(float(trail.tally[-1]), "<", 20.0 * 400 / scale, "gradients that are saved"),
    ]


def _threads(scale: float) -> list[Comparison]:
    """Calls of this thread return what was recorded; those of others are made."""
    part = linear_head(1, 3, 2)
    value, kept = normal(2, 4, 3), normal(3, 4, 2)
    entry = SimpleNamespace(kept=True, counts={"a": 1}, finished=1, result=kept)
    old: Any = SimpleNamespace(entries={part: [entry]})
    told: list[Any] = []
    results: dict[str, Tensor] = {}
    with replayed(old, 1, lambda which, names: told.append((which is part, names))):
        other = threading.Thread(target=lambda: results.update(other=part(value).detach()))
        other.start()
        other.join()
        results["own"] = part(value)
        results["next"] = part(value).detach()
    plain = part(value).detach()
    return [
        compare(results["other"], "==", scale * plain, "another thread"),
        compare(results["own"], "==", scale * kept, "this thread"),
        compare(results["next"], "==", scale * plain, "a second call"),
        same(told, [(True, {"a": 1})], "who is told", scale),
    ]


def _slopes(scale: float) -> list[Comparison]:
    """The slope that a search is given is that of its value; a random block has the precision of its map."""
    found: list[Comparison] = []
    values, start = np.array([[3.0], [2.0], [0.5]]), normal(4, 3, 4).numpy()
    second = 1.0 + np.diag([0.5, 1.0, 0.2, 0.7]) + 0.1
    given: list[Any] = []
    minimize = scipy.optimize.minimize

    def listened(loss: Any, *more: Any, **options: Any) -> Any:
        given.append(loss)
        return minimize(loss, *more, **options)

    with mock.patch.object(scipy.optimize, "minimize", listened):
        (left, right), _ = _polished(values, start, second)
    point, step = normal(5, 12).numpy(), 1e-6
    mine = given[0](point)[1]
    moved = [(given[0](point + step * unit)[0] - given[0](point - step * unit)[0]) / (2 * step) for unit in np.eye(12)]
    found.append(compare(mine, "==", scale * np.array(moved), "a slope by differences", precision=1e-7))

    def whole(u: Any, v: Any) -> float:
        return float(((u.T @ u) * (v.T @ v) * second).sum() - 2 * (values * u * v).sum())

    better = np.linalg.solve((start.T @ start) * second, (values * start).T).T
    found.append(compare(whole(left, right), "<=", whole(better, start) / scale, "never worse than its start"))
    for kind in (torch.float32, torch.float64):
        run = Krylov(Operator.of(normal(6, 9, 7).to(kind)), 2, 0)
        run.grow()
        found.append(same((run._random(7).dtype, run._basis.dtype), (kind, kind), f"blocks in {kind}", scale))
    return found


def _proofs(scale: float) -> list[Comparison]:
    """A head is believed where nothing was written into what it took and returned, and what counts no writing never."""
    found: list[Comparison] = []
    module = nn.Sequential(linear_head(1, 3, 4), nn.Tanh(), nn.Dropout(0.3), linear_head(2, 4, 2))
    head: Any = module[3]
    source, outputs = normal(1, 5, 4), normal(2, 5, 2)
    with torch.inference_mode():
        hidden = normal(3, 5, 4)
    written = normal(4, 5, 2)
    written += 1
    cases = (
        (source, head.weight, outputs, True),
        (hidden, head.weight, outputs, False),
        (source, head.weight, hidden, False),
        (source, head.weight, written, False),
        (source, head.weight.detach().clone(), outputs, False),
    )
    for took, weight, returned, proved in cases:
        seen = SimpleNamespace(linear=(took, weight, head.bias, returned))
        about: Any = SimpleNamespace(module=module, quiet=(returned, seen))
        found.append(same(modules._proved(about), proved, f"a head is believed: {proved}", scale))
    inputs = normal(5, 6, 3)
    known = modules._own_layers(module.eval(), inputs)
    with mock.patch.object(modules, "_proved", return_value=False):
        doubted = modules._own_layers(module, inputs)
    found.append(same((known is not None, doubted), (True, None), "a head that is not proved", scale))
    return found


def _told(scale: float) -> list[Comparison]:
    """Seconds of a step, notes on rounding, sites of which few units fall."""
    found: list[Comparison] = []
    with mock.patch("time.perf_counter", side_effect=(10.0, 14.0)):
        seconds = kernels.kernel_seconds.__wrapped__()
    found.append(compare(1e6 * seconds, "==", scale * 1e6 * 4 / (4 * 2**12 * 48 / 4), "seconds of a step"))
    note = "a population would round otherwise than its copies alone: they ran one by one"
    for population, alike, notes, together in (
        ("auto", True, {}, True),
        ("auto", False, {note: None}, False),
        ("apart", True, {}, False),
        ("apart", False, {note: None}, False),
        ("together", False, {}, True),
    ):
        runner = Runner(_problem(), population, Local(), None, False)  # type: ignore[arg-type]
        with mock.patch.object(running, "same_bits", return_value=alike):
            told = runner._form([{"2": 0.2}], 3)
        wanted = (("population", together), notes)
        found.append(same((told, runner.notes), wanted, f"how copies run: {population}, {alike}", scale))
    few, many = Bernoulli(tensor([0.3, 0.4, 0.3]), 3), Bernoulli(tensor([0.3, 0.5, 0.3]), 3)
    laws = [((many, few), 1), ((few, many), 0), ((many, Bernoulli(0.0, 2)), None), ((Bernoulli(0.2, 9),), None)]
    for one, place in laws:
        found.append(same(_counted(one), place, f"a site of which few fall: {place}", scale))
    return found


def _unknown(scale: float) -> list[Comparison]:
    """Standard deviations of pairs of which one id is unknown are zero."""
    rng = np.random.default_rng(1)
    cells = rng.permutation(30)[:22]
    users, items = cells // 5, cells % 5
    model: Any = DropoutCompletion(3, 0.4, sweeps=3).fit((users, items, rng.normal(size=22)))
    asked = np.array([0, 0, 99, 99, 3]), np.array([1, 77, 1, 77, 2])
    told = model.predict(*asked, unknown="ignore", return_std=True)
    spread = np.zeros(5)
    for place, (user, item) in enumerate(zip(*asked, strict=True)):
        if user < 90 and item < 70:
            row, column = (
                np.flatnonzero(ids == one)[0] for ids, one in ((model.user_ids_, user), (model.item_ids_, item))
            )
            pair = model.user_factors_[row].astype(float) * model.item_factors_[column]
            spread[place] = np.sqrt(0.4 / 0.6 * float(pair @ pair))
    return [compare(told[1] + 1, "==", scale * (spread + 1), "spread of pairs", precision=1e-6)]


class Written(nn.Module):
    """A head behind dropout that writes into what it is given, told by place or by name."""

    def __init__(self, by_place: bool) -> None:
        super().__init__()
        self.first, self.last, self.by_place = linear_head(1, 3, 3), linear_head(2, 3, 2), by_place

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = torch.tanh(self.first(inputs)) + 0
        if self.by_place:
            functional.dropout(hidden, 0.4, self.training, True)
        else:
            functional.dropout(hidden, p=0.4, training=self.training, inplace=True)
        return self.last(hidden).square()


def _placed(scale: float) -> list[Comparison]:
    """Arguments of dropout by their place say what they say by name: the result of what was written in place."""
    inputs = normal(3, 4, 3)
    kept, chances = every_coin([0.4] * 3)
    found: list[Comparison] = []
    for by_place in (False, True):
        module = Written(by_place).double()
        hidden = torch.tanh(module.first(inputs)).detach()
        outputs = module.last(hidden * (kept / 0.6)[:, None]).detach().square()
        mean = torch.tensordot(chances, outputs, 1)
        told = predictive(module, inputs)
        found.append(compare(told.mean.value, "==", scale * mean, f"means, {by_place}"))
        spread = torch.tensordot(chances, (outputs - mean).square(), 1)
        found.append(compare(told.variance.value, "==", scale * spread, f"variances, {by_place}"))
    return found
