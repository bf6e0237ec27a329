"""What claims on the parts of audits compare: merged shards, tests on masks, and advice by its numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from scipy import optimize, stats
from torch import nn

from droptics.audits import Report, audit, huggingface_callback, lightning_callback
from droptics.audits.batches import Batch
from droptics.audits.discovery import AuditedSite, _realized
from droptics.audits.findings import remarks
from droptics.audits.heads import Chain, Head
from droptics.audits.passes import coins, differs, zeroed
from droptics.audits.report import CurvePoint, RateChoice, SiteReport, SubnetworkSummary, Units
from droptics.audits.tallies import Mean, Tally
from droptics.audits.uncertainty import spread_of_predictions
from droptics.audits.units import UnitTally
from droptics.estimates import PlainEstimate
from droptics.evidence.claims import Comparison, compare
from droptics.losses import CrossEntropy
from droptics.models.watching import Call
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.audits.audit_checks import every_coin, stack
from droptics.papers.droptics_own.rates.tuning_checks import ridge
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import normal, sample, tensor, uniform


def merged_shards(scale: float) -> list[Comparison]:
    """Means with Satterthwaite's interval, and heads, chains and units of two shards, are those of all examples."""
    found: list[Comparison] = []
    rows, weights = normal(1, 5, 7), uniform(2, 7) + 0.5
    parts = [(rows[:, :4], weights[:4]), (rows[:3, 4:], weights[4:])]
    one, two = Mean(), Mean()
    one.add_rows(*parts[0])
    two.add_rows(*parts[1])
    both = one.merge(two)
    value = sum(float(part.mean(0).sum()) for part, _ in parts) / float(weights.sum())
    pieces = [(part.var(0) / len(part), len(part) - 1) for part, _ in parts]
    variance = sum(float(piece.sum()) for piece, _ in pieces)
    freedom = variance**2 / sum(float(piece.square().sum()) / free for piece, free in pieces)
    half = float(stats.t.ppf(0.995, freedom)) * math.sqrt(variance) / float(weights.sum())
    told = both.number(0.99, 0.25)
    ends = [told.value, told.lower, told.upper]
    found.append(compare(ends, "==", scale * tensor([value + 0.25, value + 0.25 - half, value + 0.25 + half]), "ends"))
    found.append(same((both.draws, both.batches, told.method), (8, 2, "Monte Carlo, 8 draws"), "draws", scale))
    controlled = replace(both, controlled=True)
    found.append(same(controlled.number(0.9).method, "sampled, gradient control, 4 draws", "a control", scale))
    single = Mean()
    single.add_rows(rows[:1], weights)
    spread = (rows[0] - weights * (rows[0].sum() / weights.sum())).square().sum() * 7 / 6
    found.append(
        compare(single.error, "==", scale * spread.sqrt() / weights.sum(), "one draw: its spread over examples")
    )
    plain = Mean()
    plain.add([2.0, 3.0, 7.0], 4.0)
    found.append(compare([plain.value, plain.error], "==", scale * tensor([4.0, (7.0 / 3) ** 0.5]), "draws of a batch"))
    left = Tally(sites={"a": one, "b": one}, spent=2.0, examples=4, curve_draws=3, affine=["a"])
    right = Tally(sites={"a": two}, spent=5.0, examples=3)
    tally = left.merge(right)
    found.append(
        same((tally.spent, tally.examples, list(tally.sites), tally.affine), (7.0, 7, ["a"], ["a"]), "tallies", scale)
    )
    found.append(compare(tally.sites["a"].value, "==", scale * both.value, "sites of both"))
    found += _merged_tallies(one, two, [both.value, both.error], scale)
    return found + _merged_heads(scale)


def _merged_tallies(one: Mean, two: Mean, wanted: list[float], scale: float) -> list[Comparison]:
    """Each sum of two shards is merged with its own, whether there is one or one for every site; the first decides."""
    found: list[Comparison] = []
    single = ("clean", "accuracy", "total", "rest", "shift", "listed_total")
    by_site = ("sites", "curves", "energies", "listed")
    for name in (*single, *by_site):
        own: list[Any] = [
            part if name in single else {"a": part, alone: part} for part, alone in ((one, "b"), (two, "c"))
        ]
        pair = Tally(**{name: own[0]}, axes={"a": 0}, steady=True).merge(Tally(**{name: own[1]}, axes={"a": 1}))
        part = getattr(pair, name)
        if name in by_site:
            found.append(same(list(part), ["a"], f"what both have: {name}"))
            part = part["a"]
        found.append(compare([part.value, part.error], "==", scale * tensor(wanted), f"merged: {name}"))
        found.append(same((pair.axes, pair.steady), ({"a": 0}, True), f"decided by the first: {name}"))
        others = [getattr(pair, other).draws for other in single if other != name]
        found.append(same(others, [0] * len(others), f"nothing else: {name}"))
    return found


def _merged_classes(scale: float) -> list[Comparison]:
    """The examples and the bounds of a head of classes of two shards."""
    found: list[Comparison] = []
    features, weight = normal(3, 9, 4), normal(5, 2, 4)
    labels, classes = torch.arange(9) % 2, [Head("x", weight, normal(6, 2)) for _ in range(2)]
    for head, span in zip(classes, (slice(0, 4), slice(4, 9)), strict=True):
        head.add(features[span], labels[span])
    masks, chances = every_coin([0.3] * 4)
    logits = torch.cat([features[None], features * masks[:, None] / 0.7]) @ weight.mT + normal(6, 2)
    losses = (logits.logsumexp(-1) - logits[..., torch.arange(9), labels]).mean(1)
    together = classes[0].merge(classes[1])
    found.append(compare(together.sample().inputs, "==", scale * features, "features of classes"))
    found.append(same(together.sample().targets.tolist(), labels.tolist(), "their labels"))
    entropic = together.entropic(0.3, CrossEntropy())
    assert entropic is not None
    added = float(chances @ losses[1:] - losses[0])
    ends = [entropic.lower, -entropic.upper]
    found.append(compare(ends, "<=", scale * tensor([added, -added]), "heads of classes, between their bounds"))
    return found


def _merged_heads(scale: float) -> list[Comparison]:
    """Heads, chains and units of two shards, beside all examples at once."""
    found: list[Comparison] = []
    features, targets, weight = normal(3, 9, 4), normal(4, 9, 2), normal(5, 2, 4)
    heads = [Head("x", weight, normal(6, 2)) for _ in range(3)]
    for head, span in zip(heads, (slice(0, 4), slice(4, 9), slice(0, 9)), strict=True):
        head.add(features[span], targets[span])
    merged = heads[0].merge(heads[1])
    strength = 0.3 / 0.7 * (weight.square().sum(0) * features.square().mean(0)).sum()
    found.append(compare([merged.penalty(0.3), heads[2].penalty(0.3)], "==", scale * strength.expand(2), "heads"))
    assert merged.moments is not None
    found.append(compare(merged.moments.xx, "==", scale * features.mT @ features / 9, "their moments"))
    moved = targets - normal(6, 2)
    found.append(compare(merged.moments.yx, "==", scale * moved.mT @ features / 9, "with targets"))
    found.append(compare(merged.moments.yy, "==", scale * moved.mT @ moved / 9, "of targets"))
    found += _merged_classes(scale)
    kept = merged.sample()
    found.append(compare(kept.inputs, "==", scale * features, "their features"))
    found.append(compare(kept.targets, "==", scale * targets, "their targets"))
    found.append(compare(merged.bias, "==", scale * normal(6, 2), "their offset"))
    found.append(same((merged.count, len(kept.targets)), (9, 9), "how many", scale))
    layers = [(normal(7, 3, 4), normal(8, 3)), (normal(9, 2, 3), normal(10, 2))]
    chains = [Chain(layers, {"in": 0, "mid": 1}) for _ in range(3)]
    for chain, span in zip(chains, (slice(0, 4), slice(4, 9), slice(0, 9)), strict=True):
        chain.add(Batch((features[span],), {}, targets[span], len(features[span])))
    pair = chains[0].merge(chains[1])
    total, first, second = 0.0, layers[0], layers[1]
    clean = (features @ first[0].mT + first[1]) @ second[0].mT + second[1]
    for bits in itertools.product((0.0, 1.0), repeat=7):
        mask = tensor(bits)
        chance = float((0.3 + 0.4 * mask[:4]).prod() * (0.4 + 0.2 * mask[4:]).prod())
        hidden = ((features * mask[:4] / 0.7) @ first[0].mT + first[1]) * mask[4:] / 0.6
        outputs = hidden @ second[0].mT + second[1]
        total += chance * float((outputs - targets).square().sum(1).mean() - (clean - targets).square().sum(1).mean())
    for name, one_chain in (("merged", pair), ("whole", chains[2])):
        found.append(compare(one_chain.penalty({"in": 0.3, "mid": 0.4}), "==", scale * total, f"chains, {name}"))
    stacked = Chain(layers, {"in": 0, "mid": 1, "again": 1}, pair.moments)
    # of two masks in one place both keep with a chance of .75 * .8
    found.append(
        compare(stacked.penalty({"in": 0.3, "mid": 0.25, "again": 0.2}), "==", scale * total, "two masks in one place")
    )
    units = [UnitTally(part.square().mean(0), len(part), weight.norm(dim=0)) for part in (features[:4], features[4:])]
    summary = units[0].merge(units[1]).report()
    flows = weight.norm(dim=0) * features.square().mean(0).sqrt()
    found.append(compare(summary.flows, "==", scale * flows, "flows of both"))
    even = float(flows.sum() / (2 * flows.norm()))
    found.append(
        compare([summary.coadaptation, summary.imbalance], "==", scale * tensor([even, even**-2 - 1]), "evenness")
    )
    silent = UnitTally(tensor([0.0, 1.0, 0.0]), 5, None).report()
    found.append(same((silent.dead, silent.flows, silent.count), ([0, 2], (), 3), "dead units", scale))
    return found


def judged_masks(scale: float) -> list[Comparison]:
    """Shares of zeros, tests whether they are an accident, common factors, leave-one-out gains, spreads of outputs."""
    found: list[Comparison] = []
    source = normal(1, 40, 6) + 3
    source[0, 0] = 0.0
    torch.manual_seed(3)
    result = nn.functional.dropout(source, 0.3)
    rate = float((result[source != 0] == 0).double().mean())
    told = zeroed((source, result))
    found.append(compare([told[0] or 0.0, told[1] or 0.0], "==", scale * tensor([rate, 1 / 0.7]), "zeroed"))
    found.append(
        same((zeroed(None), zeroed((source * 0, result))), ((None, None), (None, None)), "nothing alive", scale)
    )
    found.append(same(zeroed((source, result * 0)), (1.0, None), "nothing left", scale))
    shares = (((source != 0) & (result == 0)).sum(1) / (source != 0).sum(1)).numpy()

    def student(asked: float) -> float:
        return float(stats.ttest_1samp(shares, asked).pvalue)

    def binomial(fallen: int, trials: int, asked: float) -> float:
        """Twice the smaller tail; not scipy's own two-sided test, which adds up unlikely outcomes of both sides."""
        law = stats.binom(trials, asked)
        return 2 * float(min(law.cdf(fallen), law.sf(fallen - 1)))

    falls = torch.where(torch.arange(40)[:, None] < 15, 0.0, 2.0).double() * source
    lone = (
        source[1:2].repeat(1, 30),
        torch.where(torch.arange(180) % 3 == 0, 0.0, 1.0)[None].double() * source[1:2].repeat(1, 30),
    )
    cases = (
        ("shares", (source, result), student, float(shares.mean())),
        ("examples", (source, falls), partial(binomial, 15, 40), 15 / 40),
        ("one example", lone, partial(binomial, 60, 180), 1 / 3),
    )
    for name, seen, chance, middle in cases:
        found.append(same(differs(seen, middle), False, f"{name} at their own rate", scale))
        for far in (0.01, 0.97):
            # the rates at which the chance is a little less than that of a false alarm, and a little more
            for much, alarm in ((0.8, True), (1.25, False)):

                def over(rate: float, chance: Callable[[float], float] = chance, much: float = much) -> float:
                    return math.log(chance(rate) / (much * 1e-4))

                edge = optimize.brentq(over, far, middle)
                found.append(same(differs(seen, edge), alarm, f"{name}, {much} of an alarm, {far}", scale))
    even = source[1:], torch.where(torch.arange(6) < 3, 0.0, 1.0).double() * source[1:]
    found.append(
        same([differs(even, asked) for asked in (0.5, 0.6, 0.7)], [False, False, True], "always the same", scale)
    )
    few = [(part[:count], mask[:count]) for part, mask in [even] for count in (19, 20)]
    found.append(same([differs(pair, 0.7) for pair in few], [False, True], "the same on few examples, below", scale))
    few = [(part[:count], mask[:count]) for part, mask in [even] for count in (10, 11)]
    found.append(same([differs(pair, 0.2) for pair in few], [False, True], "the same on few examples, above", scale))
    found.append(same(differs((source * 0, source), 0.5), False, "nothing to look at", scale))
    found.append(compare(coins((source, falls)) or 0.0, "==", scale * 2.0, "one factor for an example"))
    uneven = falls.clone()
    uneven[30, 2] *= 1.001
    found.append(same((coins((source, uneven)), coins(None), coins((source, source * 0))), (None,) * 3, "none", scale))
    found += _gains(scale) + _fallen(scale)
    head = linear_head(4, 1, 1)
    module = nn.Sequential(nn.Dropout(0.3), head).eval()
    spread = spread_of_predictions(module, (normal(5, 6, 1),), samples=20_000)
    exact = 0.3 / 0.7 * (normal(5, 6, 1).square() * head.weight.detach().square()).mean()
    found.append(compare(spread.variance.value, "==", scale * exact, "variance of outputs", precision=0.02))
    kurtosis = (1 - 3 * 0.3 * 0.7) / (0.3 * 0.7)
    found.append(compare(spread.passes, "==", scale * (kurtosis - 1) / 0.01, "passes for a tenth", precision=0.05))
    found.append(compare(spread.shares["0"], "==", scale, "its share", precision=0.02))
    found.append(same(spread.examples, 6, "on how many", scale))
    wide = nn.Linear(1, 2).double()
    wide.weight = nn.Parameter(torch.cat([head.weight.detach(), torch.zeros(1, 1).double()]))
    half = spread_of_predictions(nn.Sequential(nn.Dropout(0.3), wide).eval(), (normal(5, 6, 1),), samples=20_000)
    # the mask is drawn before the head: the same masks
    found.append(compare(half.variance.value, "==", scale * spread.variance.value / 2, "beside a dead output"))
    found.append(compare(half.passes, "==", scale * spread.passes, "its passes"))
    return found


def _fallen(scale: float) -> list[Comparison]:
    """Shares that fell in one pass: of entries that were alive, or of channels with one that was."""
    found: list[Comparison] = []
    # the mean of a hundred shares of a sixth is rounded, and is no other rate
    sixths = torch.ones(100, 6).double(), torch.where(torch.arange(600).reshape(100, 6) % 6 < 1, 0.0, 1.0).double()
    told_sixths = [differs(sixths, asked) for asked in (1 / 6, 0.2, 0.3, 0.5)]
    found.append(same(told_sixths, [False, False, False, True], "always a sixth", scale))
    source = torch.ones(4, 5, 3, 2)
    source[0, 0] = source[1, 2] = 0.0  # two channels are dead
    source[2, :, 0] = 0.0
    result = 2 * source
    result[3, :3] = 0.0
    result[2, 1] = 0.0
    entries = float((3 * 6 + 4) / (120 - 2 * 6 - 5 * 2))
    for kind, told, share in (
        ("dropout", result, entries),
        ("dropout2d", result, 4 / 18),
        ("alpha dropout", result, None),
        ("dropout2d", None, None),
        ("dropout", 0 * result, 1.0),
    ):
        call = Call("a", kind, 0.3, True, tuple(source.shape), None, source, told)
        own = _realized(call)
        found.append(same(own is None, share is None, f"fallen of {kind} is seen"))
        found.append(compare(own or 0.0, "==", scale * (share or 0.0), f"fallen of {kind}, {share}"))
    still = Call("a", "dropout", 0.3, False, tuple(source.shape), None, source, result)
    found.append(same(_realized(still), None, "switched off", scale))
    flat = Call("a", "dropout1d", 0.3, True, (4, 5), None, source[:, :, 1, 1], result[:, :, 1, 1])
    found.append(compare(_realized(flat) or 0.0, "==", scale * 4 / 18, "channels of one number"))
    return found


def _gains(scale: float) -> list[Comparison]:
    """What another rate gains on examples that the refitted head has not seen, and ranks of spectra."""
    found: list[Comparison] = []
    data, module = sample(5, 24, 3, 2), stack((3, 5, 2), (0.3,), nn.Tanh)
    (site,) = audit(module, data, rates=(0.2, 0.6)).sites
    features = torch.tanh(module[0](data.inputs)).detach()
    choice, spectrum = site.rate_choice, site.spectrum
    assert choice is not None
    assert choice.gain is not None
    assert spectrum is not None
    squares = {}
    for rate in sorted({*(i / 20 for i in range(1, 20)), 0.3}):
        rows = []
        for i in range(24):
            rest = torch.arange(24) != i
            weights, offset = ridge(features[rest], data.targets[rest], rate / (1 - rate))
            rows.append((features[i] @ weights + offset - data.targets[i]).square().mean())
        squares[rate] = torch.stack(rows)
    best = min(squares, key=lambda rate: float(squares[rate].mean()))
    found.append(same(choice.best, best, "the best rate", scale))
    gains = squares[0.3] - squares[best]
    half = stats.t.ppf(0.995, 23) * float(gains.std()) / 24**0.5
    mean = float(gains.mean())
    ends = [choice.gain.value, choice.gain.lower, choice.gain.upper]
    found.append(compare(ends, "==", scale * tensor([mean, mean - half, mean + half]), "its gain", precision=1e-6))
    for name, values, told in (
        ("measured", spectrum.measured, spectrum.effective_rank),
        ("optimal", spectrum.optimal, spectrum.optimal_effective_rank),
    ):
        shares = np.array([value for value in values if value > 0]) / sum(values)
        found.append(compare(told, "==", scale * math.exp(-(shares * np.log(shares)).sum()), f"rank, {name}"))
    return found


def plain_site(name: str = "a", penalty: PlainEstimate | None = None, **more: Any) -> SiteReport:
    """A site with few numbers."""
    return SiteReport(AuditedSite(name, "dropout", 0.3, (4, 8), 0.3, False), penalty, **more)


def plain_report(sites: list[SiteReport], **more: Any) -> Report:
    """A report with few numbers."""
    given: dict[str, Any] = {
        "training_loss": PlainEstimate(1.5, 1.4, 1.6, "exact"),
        "clean_loss": 1.0,
        "validation_loss": None,
    }
    given |= {"rest": None, "interaction": None, "accuracy": None, "confidence": 0.95, "findings": ()}
    return Report(network="Net", examples=9, loss="Squared", sites=sites, **(given | more))


def advised_findings(scale: float) -> list[Comparison]:
    """Each piece of advice is given on one side of its number, and not on the other."""
    found: list[Comparison] = []
    near, far = PlainEstimate(0.005, 0.001, 0.014, "exact"), PlainEstimate(0.005, 0.001, 0.016 / scale, "exact")
    curve = (CurvePoint(0.6, near, 1.1), CurvePoint(0.2, near, 1.1))
    units, few = Units(8, (), (), 1.0, 0.0), SubnetworkSummary(0.9, 0.8, 0.7, 0.9, 3, 0.01, 0.5)
    gain = PlainEstimate(0.2, 0.1, 0.3, "x")
    cases: list[tuple[str, Report, list[str]]] = [
        ("none", plain_report([]), ["DR003"]),
        ("fine", plain_report([plain_site(penalty=far)]), []),
        ("infinite", plain_report([plain_site()], clean_loss=math.inf), ["DR004"]),
        ("not a number", plain_report([plain_site()], training_loss=PlainEstimate(math.nan, 0.0, 1.0, "x")), ["DR004"]),
        ("no effect", plain_report([plain_site(penalty=PlainEstimate.exact(0.0))]), ["DR105"]),
        ("above", plain_report([plain_site()], validation_loss=1.2), ["DR501"]),
        ("not surely above", plain_report([plain_site()], validation_loss=1.45), ["DR502"]),
        ("gap", plain_report([plain_site()], validation_loss=2.0), ["DR502"]),
        (
            "below",
            plain_report([plain_site()], validation_loss=0.5, training_loss=PlainEstimate(1.5, 0.9, 2.0, "x")),
            [],
        ),
        ("helps", plain_report([plain_site(penalty=PlainEstimate(-0.2, -0.3, -0.1, "x"))]), ["DR503"]),
        ("perhaps", plain_report([plain_site(penalty=PlainEstimate(-0.2, -0.3, 0.1, "x"))]), []),
        ("dead", plain_report([plain_site(units=replace(units, dead=(1, 4)))]), ["DR504"]),
        (
            "another rate",
            plain_report([plain_site(rate_choice=RateChoice(0.5, (0.3, 0.5), (2.0, 1.8), gain))]),
            ["DR505"],
        ),
        (
            "no clear gain",
            plain_report([plain_site(rate_choice=RateChoice(0.5, (), (), replace(gain, lower=0.0)))]),
            [],
        ),
        ("fewer", plain_report([plain_site(units=units, subnetworks=few)]), ["DR506"]),
        ("half", plain_report([plain_site(units=units, subnetworks=replace(few, smallest=4))]), []),
        ("guessing", plain_report([plain_site(units=units, subnetworks=replace(few, full=0.51))]), []),
        ("nobody", plain_report([plain_site(units=units, subnetworks=replace(few, smallest=0))]), []),
        ("hardly", plain_report([plain_site(penalty=near, curve=curve)]), ["DR507"]),
        ("matters", plain_report([plain_site(penalty=far, curve=curve)]), []),
        (
            "another rate matters",
            plain_report([plain_site(penalty=near, curve=(curve[0], CurvePoint(0.2, far, 1.1)))]),
            [],
        ),
        ("lowers it", plain_report([plain_site(penalty=replace(near, lower=-0.016), curve=curve)]), []),
        ("perhaps an effect", plain_report([plain_site(penalty=PlainEstimate(0.0, -0.1, 0.1, "x"))]), []),
    ]
    texts = {}
    for name, report, codes in cases:
        told = remarks(report)
        found.append(same([item.code for item in told], codes, f"findings: {name}", scale))
        texts[name] = [(item.site, item.text, item.advice) for item in told]
    words = {
        "above": "training loss 1.5 is above validation loss 1.2 by 0.3: dropout adds 0.5 and explains all of it",
        "gap": "a generalization gap of 1, which the dropout in the training loss hides",
        "helps": "dropout here lowers the loss by 0.2",
        "dead": "2 of 8 units are zero on all data",
        "another rate": "leave-one-out error is 0.2 \u00b1 0.1 lower at rate 0.5 than at rate 0.3",
        "fewer": "3 of 8 units keep the accuracy within 1%",
        "hardly": "no rate up to 0.6 changes the training loss by more than 0.93% (exact)",
        "no effect": "drops at rate 0.3, and no mask changes the loss (exact)",
        "not surely above": "validation loss 1.45 is above the training loss 1 without dropout",
        "infinite": "the loss without dropout is inf",
        "not a number": "the loss with dropout is nan",
    }
    for name, text in words.items():
        found.append(same(text in texts[name][0][1], True, f"in words: {name}", scale))
    part = remarks(plain_report([plain_site()], validation_loss=0.1, training_loss=PlainEstimate(1.5, 1.4, 1.6, "x")))[
        0
    ]
    found.append(same("explains 36% of it" in part.text, True, "a part of it", scale))
    found.append(same(part.advice, "look for another cause", "which is not most of it", scale))
    ways = {
        "the exact training loss of the linear chain, no copies are trained": [plain_site(claim="thesis-prop8")],
        "exact leave-one-out where the last layer alone is trained, else": [
            plain_site(rate_choice=RateChoice(0.5, (), ()))
        ],
        "the exact training loss where the affine tail alone is trained, else": [
            plain_site(penalty=PlainEstimate.exact(0.1, "exact: affine tail"))
        ],
        "copies that share their randomness, on validation data": [plain_site(), plain_site("b", claim="thesis-prop8")],
    }
    for way, sites in ways.items():
        (told_way,) = (item for item in remarks(plain_report(sites, validation_loss=2.0)) if item.code == "DR502")
        start = f"compare rates with tune_rates: {way}"
        found.append(same(told_way.advice.startswith(start), True, f"advice: {way[:40]}", scale))
    net: Any = stack((3, 4, 2), (0.3,), nn.ReLU)
    light, seen = lightning_callback(sample(5, 8, 3, 2), every=3, rates=()), list[int]()
    for epoch in range(7):
        net.log_dict = lambda _, epoch=epoch: seen.append(epoch)
        light.on_train_epoch_end(SimpleNamespace(current_epoch=epoch), net)
    found.append(same(seen, [2, 5], "epochs that are logged", scale))
    face, logged = huggingface_callback(sample(5, 8, 3, 2), every=2, rates=()), list[tuple[Any, Any]]()
    state = SimpleNamespace(epoch=0.0, global_step=7, log_history=[])
    for epoch in range(1, 6):
        state.epoch = epoch - 0.001
        face.on_epoch_end(None, state, None, net)
        face.on_epoch_end(None, state, None, None)
    logged = [(round(item["epoch"]), item["step"]) for item in state.log_history]
    found.append(same(logged, [(2, 7), (4, 7)], "epochs of another trainer", scale))
    return found
