"""What claims on the sums of audits compare: rests, totals, reports of single sites and of the whole."""

from __future__ import annotations

import math
from typing import Any

import scipy.stats
import torch
from torch import Tensor, nn

from droptics.audits.audit import _at_rate, _exact, _interaction, _plan, _report, _rest, _site_report, _State, _total
from droptics.audits.batches import Batch
from droptics.audits.discovery import AuditedSite
from droptics.audits.heads import Chain, Head
from droptics.audits.layer_drop import LAYER_DROP
from droptics.audits.report import SiteReport
from droptics.audits.tallies import Mean, Tally
from droptics.audits.units import UnitTally
from droptics.estimates import PlainEstimate
from droptics.evidence.claims import Comparison, compare
from droptics.losses import CrossEntropy, Squared
from droptics.papers.droptics_own.audits.head_checks import asked_for, ends, groups_of, heads, left_out, no_heads
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import normal, tensor


def audited_totals(scale: float) -> list[Comparison]:
    """Sums of an audit in the answers that they become, from sums that are given."""
    return [
        *_rests(scale),
        *_totals(scale),
        *_merged_states(scale),
        *_sites(scale),
        *_reports(scale),
        *heads(scale),
        *no_heads(scale),
        *left_out(scale),
        *groups_of(scale),
    ]


def _mean(value: float, draws: int = 1, weight: float = 2.0) -> Mean:
    """A mean that is known."""
    return Mean(weight=weight, total=weight * value, draws=draws, batches=1)


def _drawn(*values: float) -> Mean:
    """A mean over draws of one batch."""
    found = Mean()
    found.add(values, 2.0)
    return found


def _student(values: tuple[float, ...], confidence: float) -> list[float]:
    """Mean and Student interval."""
    numbers = tensor(values)
    half = scipy.stats.t.ppf((1 + confidence) / 2, len(values) - 1) * float(numbers.std()) / len(values) ** 0.5
    return [float(numbers.mean()), float(numbers.mean()) - half, float(numbers.mean()) + half]


def _site(name: str, rate: float = 0.25, **more: Any) -> AuditedSite:
    return AuditedSite(name, more.pop("kind", "dropout"), rate, None, None, False, **more)


def _rests(scale: float) -> list[Comparison]:
    """What training mode changes beside dropout is told where it is beyond rounding, up or down."""
    found: list[Comparison] = []
    words = "exact: what training mode changes without dropout"
    for clean in (2.0, -3.0):
        for share, told in (
            (1.5e-5, True),
            (-1.5e-5, True),
            (0.7e-5, False),
            (-0.7e-5, False),
            (0.4, True),
            (-0.4, True),
        ):
            shift = share * abs(clean)
            one = _rest(Tally(clean=_mean(clean), shift=_mean(shift)), 0.9)
            found.append(same(one is not None, told, f"a shift of {share} from {clean}", scale))
            if one is not None:
                found.append(compare(ends(one), "==", [scale * shift] * 3, f"its size, {share}, {clean}"))
                found.append(same(one.method, words, "its words", scale))
    found.append(same(_rest(Tally(clean=_mean(1.0)), 0.9), None, "no rest", scale))
    drawn = _rest(Tally(clean=_mean(1.0), rest=_drawn(1.0, 2.0, 4.0), shift=_mean(0.5)), 0.9)
    wanted = scale * tensor(_student((1.0, 2.0, 4.0), 0.9))
    found.append(compare(ends(drawn), "==", wanted, "a rest that was drawn"))
    return found


def _chain() -> Chain:
    layers = [(normal(1, 3, 2), normal(2, 3)), (normal(3, 1, 3), normal(4, 1))]
    chain = Chain(layers, {"in": 0, "mid": 1})
    chain.add(Batch((normal(5, 6, 2),), {}, normal(6, 6, 1), 6))
    return chain


def _head(targets: Tensor, site: str = "head") -> Head:
    head = Head(site, normal(7, 3, 4), normal(8, 3))
    head.add(normal(9, 5, 4), targets)
    return head


def _merged_states(scale: float) -> list[Comparison]:
    """What two shards have summed, part by part; what one of them lacks is lacking."""
    found: list[Comparison] = []

    def shard(seed: int, count: int, squared: bool = True) -> _State:
        head, chain = Head("head", normal(7, 3, 4), normal(8, 3)), _chain()
        head.add(normal(seed, count, 4), normal(seed + 1, count, 3))
        units = {"a": UnitTally(normal(seed, 3).square(), count, None)}
        means = Mean(weight=float(count), total=2.0 * count)
        return _State(Tally(spent=1.0, examples=count), head, chain, units, means, squared)

    first, second = shard(11, 5), shard(21, 3)
    both = first.merge(second)
    assert both.head is not None
    assert both.chain is not None
    assert both.validation is not None
    assert both.head.energies is not None
    squares = torch.cat([normal(11, 5, 4), normal(21, 3, 4)]).square().mean(0)
    found.append(compare(both.head.energies, "==", scale * squares, "heads of shards"))
    found.append(same((both.tally.examples, both.tally.spent, both.squared), (8, 2.0, True), "what they saw", scale))
    twice = both.chain.penalty({"in": 0.2, "mid": 0.4})
    found.append(compare(twice, "==", scale * _chain().penalty({"in": 0.2, "mid": 0.4}), "chains of shards"))
    found.append(
        compare([both.validation.value, both.validation.weight], "==", [2.0 * scale, 8.0 * scale], "validation")
    )
    energies = (5 * normal(11, 3).square() + 3 * normal(21, 3).square()) / 8
    found.append(compare(both.units["a"].energies, "==", scale * energies, "units of shards"))
    for name in ("head", "chain", "validation"):
        lacking = shard(21, 3)
        setattr(lacking, name, None)
        for told in (first.merge(lacking), lacking.merge(first)):
            parts = [getattr(told, part) is None for part in ("head", "chain", "validation")]
            wanted = [part == name for part in ("head", "chain", "validation")]
            found.append(same(parts, wanted, f"a shard without {name}", scale))
    return found


def _totals(scale: float) -> list[Comparison]:
    """The total is that of the chain, else of the list, else of the draws, else of the only site, else zero."""
    found: list[Comparison] = []
    chain, sites = _chain(), [_site("in", 0.2), _site("mid", 0.4)]
    both = chain.penalty({"in": 0.2, "mid": 0.4})
    listed: dict[str, Any] = {"listed_total": _mean(0.3)}
    drawn: dict[str, Any] = {"total": _drawn(1.0, 3.0)}
    energy = Tally(energies={"a": _mean(0.6)})
    for name, state, audited, wanted, method in (
        ("chain", _State(Tally(**listed, **drawn), chain=chain), sites, [both] * 3, "exact"),
        ("list", _State(Tally(**listed, **drawn)), sites, [0.3] * 3, "exact: all outcomes of all sites"),
        ("draws", _State(Tally(**drawn)), sites, _student((1.0, 3.0), 0.9), "Monte Carlo, 2 draws"),
        ("nothing", _State(Tally()), [], [0.0] * 3, "exact"),
        ("one site", _State(energy), [_site("a", 0.2)], [0.25 * 0.6] * 3, "exact: affine tail"),
    ):
        told = _total(state, audited, 0.9)
        found.append(compare(ends(told), "==", scale * tensor(wanted), f"total of {name}", 1e-12))
        found.append(same(told.method, method, f"words of {name}", scale))
    head = _head(normal(10, 5, 3))
    paid = (head.weight.square().sum(0) * normal(9, 5, 4).square().mean(0)).sum()
    tally = Tally(energies={"a": _mean(0.6)}, listed={"a": _mean(0.7), "b": _mean(0.8), "head": _mean(9.0)})
    whole = _State(tally, head=head, chain=chain, squared=True)
    for site, rate, own, value, claim in (
        ("mid", 0.3, True, chain.penalty({"mid": 0.3}), "thesis-prop8"),
        ("head", 0.3, True, 0.3 / 0.7 * float(paid), "thesis-prop5"),
        ("head", 0.6, False, 1.5 * float(paid), "thesis-prop5"),
        ("a", 0.5, True, 0.6, None),
        ("a", 0.2, False, 0.15, None),
        ("b", 0.2, True, 0.8, None),
        ("b", 0.2, False, None, None),
        ("c", 0.2, True, None, None),
    ):
        known = _exact(site, rate, whole, own)
        found.append(same(known is None, value is None, f"known: {site}, {own}", scale))
        if known is not None:
            found.append(compare(known[0].value, "==", scale * (value or 0.0), f"exact: {site}, {rate}"))
            found.append(same(known[1], claim, f"claim of {site}", scale))
    for state, told_by in ((_State(tally, head=head), 9.0), (_State(tally, head=_head(torch.zeros(5).long())), 9.0)):
        other = _exact("head", 0.3, state)
        found.append(compare(0.0 if other is None else other[0].value, "==", scale * told_by, "a head, another loss"))
    return found


def _sites(scale: float) -> list[Comparison]:
    """A site says what is exact, or proved and narrower, before what was drawn; its curve moves its own part alone."""
    found: list[Comparison] = []
    total = PlainEstimate(3.0, 2.5, 3.5, "told")
    hidden = _site("x", reason="packed")
    found.append(
        same(_site_report(hidden, _State(Tally()), asked_for(), 1.0, total), SiteReport(hidden), "none", scale)
    )
    tally = Tally(
        sites={"a": _drawn(5.0, 6.0), "b": _drawn(1.0, 2.0, 4.0)},
        listed={"a": _mean(0.75)},
        energies={"e": _mean(0.6)},
        curves={("b", 0.1): _drawn(0.5, 1.5), ("b", 0.5): _drawn(2.0, 7.0)},
    )
    units = UnitTally(tensor([1.0, 0.0, 4.0]), 3, tensor([2.0, 1.0, 0.5]))
    state = _State(tally, units={"b": units})
    told = _site_report(_site("a", 0.2), state, asked_for(), 1.0, total)
    found.append(compare(ends(told.penalty), "==", scale * tensor([0.75] * 3), "listed before drawn"))
    found.append(same((told.curve, told.units, told.claim), ([], None, None), "no curve of a list", scale))
    found.append(compare(told.share or 0.0, "==", scale * 0.75 / 4, "its share"))
    told = _site_report(_site("b", 0.2), state, asked_for(), 1.0, total)
    own = _student((1.0, 2.0, 4.0), 0.9)
    found.append(compare(ends(told.penalty), "==", scale * tensor(own), "drawn"))
    found.append(same([point.rate for point in told.curve], [0.1, 0.5], "its rates", scale))
    for point, values in zip(told.curve, ((0.5, 1.5), (2.0, 7.0)), strict=True):
        found.append(compare(ends(point.penalty), "==", scale * tensor(_student(values, 0.9)), f"at {point.rate}"))
        moved = 4.0 - own[0] + sum(values) / 2
        found.append(compare(point.training_loss, "==", scale * moved, f"loss at {point.rate}"))
    found.append(
        compare([] if told.units is None else told.units.flows, "==", scale * tensor([2.0, 0.0, 1.0]), "flows")
    )
    told = _site_report(_site("e", 0.2), state, asked_for(), 1.0, total)
    found.append(compare([p.penalty.value for p in told.curve], "==", scale * tensor([0.6 / 9, 0.6]), "affine curve"))
    found.append(same(_at_rate("a", 0.1, state, 0.9), None, "a list has one rate", scale))
    for clean in (-3.0, -3.5):
        told = _site_report(_site("a", 0.2), state, asked_for(), clean, total)
        found.append(same(told.share, None, f"no share of a loss of {clean + 3}", scale))
    labels = torch.arange(5) % 3
    for narrow in (True, False):
        head = _head(labels, "b")
        draws = (1.0, 2.0, 4.0) if narrow else (1.0, 1.0 + 1e-12)
        state = _State(Tally(sites={"b": _drawn(*draws)}), head=head)
        told = _site_report(_site("b", 0.2), state, asked_for(CrossEntropy()), 1.0, total)
        proved = head.entropic(0.2, CrossEntropy())
        wanted = ends(proved) if narrow else _student(draws, 0.9)
        found.append(compare(ends(told.penalty), "==", scale * tensor(wanted), f"proved and narrower: {narrow}", 1e-9))
        found.append(same(told.subnetworks is not None, True, "statements of the head", scale))
    parts = [PlainEstimate(1.0, 0.5, 1.5, ""), PlainEstimate(0.25, 0.25, 0.25, "")]
    both = _interaction(parts, total)
    half = math.hypot(0.5, 0.5)
    found.append(compare(ends(both), "==", scale * tensor([1.75, 1.75 - half, 1.75 + half]), "interaction"))
    sure = _interaction(parts[1:], PlainEstimate.exact(2.0))
    found.append(compare(ends(sure), "==", scale * tensor([1.75] * 3), "interaction of exact numbers"))
    methods = [one.method if one else None for one in (both, sure, _interaction([], total))]
    found.append(same(methods, ["difference of the numbers above", "exact", None], "its words", scale))
    return found


def _reports(scale: float) -> list[Comparison]:
    """What is measured, and the report of the whole: a rest that was drawn is part of the total, a shift is added."""
    found: list[Comparison] = []
    head, chain = _head(normal(10, 5, 3), "h"), _chain()
    audited = [
        _site("h", unit="entry"),
        _site("path", kind="drop path", bypassed=True),
        _site("left", kind=LAYER_DROP, unit="layer"),
        _site("plain", 0.3, unit="channel"),
    ]
    hidden, every = _site("hidden", reason="packed"), [site.name for site in audited]
    for name, sites, state, loss, wanted in (
        ("head", audited, _State(Tally(), head=head), Squared(), (["path", "left", "plain"], ["plain"], False, True)),
        ("labels", audited, _State(Tally(), head=head), CrossEntropy(), (every, ["h", "plain"], False, True)),
        ("head alone", audited[:1], _State(Tally(), head=head), Squared(), ([], [], False, False)),
        ("hidden", [audited[0], hidden], _State(Tally(), head=head), Squared(), ([], [], True, True)),
        ("chain", [_site("in"), _site("mid")], _State(Tally(), chain=chain), Squared(), ([], [], False, False)),
        ("nothing", [], _State(Tally()), Squared(), ([], [], False, False)),
    ):
        generator = torch.Generator()
        asked = {"rates": (0.1,), "draws": None, "budget": 9.0, "generator": generator, "confidence": 0.9}
        plan = _plan(loss, sites, state, ("q",), **asked)
        told = (list(plan.sites), list(plan.curve), plan.rest, plan.total)
        found.append(same(told, wanted, f"plan: {name}", scale))
        isolated = [site for site in sites if site.reason is None]
        rest = (list(plan.names), plan.layers, plan.quiet, plan.confidence, plan.rates)
        layers = {site.name: site.rate for site in isolated if site.bypassed}
        found.append(same(rest, ([s.name for s in isolated], layers, ("q",), 0.9, (0.1,)), f"names: {name}", scale))
        laws = {site.name: (site.name, site.rate, site.unit) for site in isolated if site.unit}
        found.append(
            same({n: (law.name, law.rate, law.unit) for n, law in plan.laws.items()}, laws, f"laws: {name}", scale)
        )
    tally: dict[str, Any] = {"clean": _mean(2.0), "listed_total": _mean(0.5), "examples": 8, "spent": 20.0}
    tally["energies"] = {"b": _mean(0.3)}  # at its rate of .25 a third of it
    listed = {"a": _mean(0.2)}
    more: dict[str, Any]
    for name, more, remains, paid, between in (
        ("plain", {}, [], 2.5, 0.2),
        ("shift", {"shift": _mean(-0.4)}, [-0.4] * 3, 2.1, 0.2),
        ("drawn", {"rest": _drawn(0.05, 0.15)}, _student((0.05, 0.15), 0.9), 2.5, 0.1),
    ):
        state = _State(Tally(**(tally | more), listed=listed))
        state.validation = _mean(3.0)
        state.tally.accuracy = _mean(0.75)
        report = _report(nn.Linear(1, 1), [_site("a"), _site("b"), hidden], (), state, asked_for())
        if name == "plain":
            found.append(same(report.rest, None, "no rest of its own", scale))
        else:
            found.append(compare(ends(report.rest), "==", scale * tensor(remains), f"rest, {name}"))
        found.append(compare(ends(report.training_loss), "==", scale * tensor([paid] * 3), f"training loss, {name}"))
        found.append(compare(ends(report.interaction)[:1], "==", scale * tensor([between]), f"together, {name}"))
        shares = [item.share or 0.0 for item in report.sites[:2]]
        found.append(compare(shares, "==", scale * tensor([0.2, 0.1]) / paid, f"shares of it, {name}"))
        moved = tensor([0.3 / 9, 0.3]) - 0.1 + paid
        losses = [point.training_loss for point in report.sites[1].curve]
        found.append(compare(losses, "==", scale * moved, f"at other rates, {name}"))
        numbers = (report.clean_loss, report.validation_loss, report.accuracy, report.passes, report.examples)
        found.append(compare(numbers, "==", scale * tensor([2.0, 3.0, 0.75, 2.5, 8.0]), f"numbers, {name}"))
        named = (report.network, report.loss, report.confidence, [item.site.name for item in report.sites])
        found.append(same(named, ("Linear", "Squared", 0.9, ["a", "b", "hidden"]), f"names, {name}", scale))
        levels = [finding.level for finding in report.findings]
        ordered = sorted(levels, key=("bug", "warning", "note").index)
        found.append(same(levels, ordered, f"findings, {name}", scale))
    return found
