"""What a claim compares on certified bounds: each of their parts beside sums over all masks, example by example."""

from __future__ import annotations

import itertools
import math
from unittest import mock

import torch
from torch import Tensor

from droptics.data import Sample
from droptics.evidence.claims import Comparison, compare
from droptics.losses import CrossEntropy, Logistic
from droptics.masks import Bernoulli
from droptics.models import LastLayer
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import normal, tensor, uniform
from droptics.penalties import Certified, ClosedForm, certified, entropy, penalty
from droptics.penalties.certified import (
    CHERNOFF,
    Bounds,
    Outcomes,
    _by_moments,
    _conditioned,
    _is_narrow,
    _joined,
    _likely,
    _margins,
    _narrower,
    _rounding,
    _widest,
)
from droptics.penalties.factors import Coins

EPS = 2.0**-52


def certified_in_full(scale: float) -> list[Comparison]:
    """Moments, ranks, outcomes that are written out, margins, who is looked at again, and which ends are kept."""
    parts = _moments, _ranks, _written_out, _by_margins, _again, _kept, _stated, _exact
    return by_parts(parts, scale)


def _instance(classes: int) -> tuple[Tensor, Coins, Tensor, Tensor]:
    """Outputs of three examples, coins that move them, and all moves with their chances."""
    outputs = normal(classes, 3, classes)
    coins = Coins(0.6 * normal(classes + 1, 3, classes, 4), tensor([0.2, 0.5, 0.35, 0.6]))
    moves, chances = [], []
    for fallen in itertools.product((False, True), repeat=4):
        away = [-1.0 if fell else rate / (1 - rate) for fell, rate in zip(fallen, coins.drop.tolist(), strict=True)]
        moves.append((coins.values * tensor(away)).sum(-1))
        rates = zip(fallen, coins.drop.tolist(), strict=True)
        chances.append(math.prod(rate if fell else 1 - rate for fell, rate in rates))
    return outputs, coins, torch.stack(moves), tensor(chances)


def _moments(scale: float) -> list[Comparison]:
    """X = sum_k pi_k exp(d_k - E_pi d): the bounds by E X and E X^2, and how far rounding may have moved them."""
    found: list[Comparison] = []
    for classes in (2, 4):
        outputs, coins, moves, chances = _instance(classes)
        odds = outputs.softmax(-1)
        x = (odds * (moves - (odds * moves).sum(-1, keepdim=True)).exp()).sum(-1)
        first, second = (torch.tensordot(chances, (x - 1) ** power, 1) for power in (1, 2))
        lower = first**2 / second * torch.log1p(second / first)
        rounding = torch.full((3,), 1e-9).double()
        told = _by_moments(outputs, [coins], rounding, False)
        found.append(compare(told.upper, "==", scale * torch.log1p(first), f"log E X, {classes} classes"))
        found.append(compare(told.lower, "==", scale * lower, f"by two moments, {classes} classes"))
        least = first - rounding * (1 + first)
        most = second + 4 * rounding * (1 + 2 * first + second)
        sure = least**2 / most * torch.log1p(most / least)
        slack = 1e9 * (lower - sure + rounding)
        found.append(compare(1e9 * told.slack_below, "==", scale * slack, "slack below", precision=1e-5))
        found.append(compare(1e9 * told.slack_above, "==", scale * 1e9 * rounding, "slack above"))
        narrow = _by_moments(outputs, [coins], rounding, True)
        truth = torch.tensordot(chances, (outputs + moves).logsumexp(-1), 1) - outputs.logsumexp(-1)
        for wide, close, label in ((lower, narrow.lower, "below"), (torch.log1p(first), narrow.upper, "above")):
            share = (close - truth).abs() / (wide - truth).abs()
            found.append(compare(share, "<=", 0.5 / scale, f"four moments leave half at most, {label}, {classes}"))
        size = 1 + outputs.abs().amax(-1) + 2 * coins.reach
        wanted = (4 + classes + 32) * EPS * size
        found.append(compare(1e12 * _rounding(outputs, [coins]), "==", scale * 1e12 * wanted, "rounding of products"))
    return found


def _ranks(scale: float) -> list[Comparison]:
    """How likely another class overtakes the first: the least exponential moment on a grid."""
    found: list[Comparison] = []
    outputs, coins, moves, chances = _instance(4)
    top = outputs.argmax(-1, keepdim=True)
    after = outputs + moves
    over = after - after.gather(-1, top.expand(16, 3, 1))
    grid = torch.stack([torch.tensordot(chances, (t * over).exp(), 1).log() for t in CHERNOFF])
    wanted = grid.amin(0).clamp_max(0)
    found.append(compare(_likely(outputs, [coins]), "==", scale * wanted, "chances to overtake"))
    parts = [Coins(coins.values[..., :3], coins.drop[:3]), Coins(coins.values[..., 3:], coins.drop[3:])]
    joined = _joined(parts)
    assert joined is not None
    found.append(compare(joined.values, "==", scale * coins.values, "joined values"))
    found.append(compare(joined.drop, "==", scale * coins.drop, "joined rates"))
    found.append(same(_joined([]), None, "no coins", scale))
    return found


def _written_out(scale: float) -> list[Comparison]:
    """Outcomes of the coins that matter most are averaged, with what each adds to the penalty by itself."""
    found: list[Comparison] = []
    outputs, coins, moves, chances = _instance(3)
    truth = torch.tensordot(chances, (outputs + moves).logsumexp(-1), 1) - outputs.logsumexp(-1)
    whole = _conditioned(outputs, [coins], 4)
    found.append(compare(whole.lower, "==", scale * truth, "all outcomes, from below"))
    found.append(compare(whole.upper, "==", scale * truth, "all outcomes, from above"))
    parts = [Coins(coins.values[..., :3], coins.drop[:3]), Coins(coins.values[..., 3:], coins.drop[3:])]
    for name, bound in zip(("below", "above"), _conditioned(outputs, parts, 4), strict=False):
        found.append(compare(bound, "==", scale * truth, f"all outcomes of coins in two parts, from {name}"))
    seen: list[Outcomes] = []

    def listened(outcomes: Outcomes, order: Tensor) -> Bounds:
        seen.append(outcomes)
        zeros = torch.zeros_like(outputs[..., 0])
        return Bounds(*6 * [zeros])

    with mock.patch.object(certified, "_of_outcomes", listened):
        _conditioned(outputs, [coins], 2)
    (told,) = seen
    weights = _likely(outputs, [coins]).softmax(-1)[..., None]
    centered = coins.values - (weights * coins.values).sum(-2, keepdim=True)
    strength = coins.drop / (1 - coins.drop)
    matter = strength * (weights * centered.square()).sum(-2)
    for i in range(3):
        first, second = sorted(range(4), key=lambda j, i=i: -float(matter[i, j]))[:2]  # type: ignore[misc]
        means, shares, cleans = [], [], []
        for fallen in itertools.product((False, True), repeat=2):
            shift = torch.zeros(3).double()
            chance = 1.0
            for j, fell in zip((first, second), fallen, strict=True):
                rate = float(coins.drop[j])
                shift += (-1.0 if fell else rate / (1 - rate)) * coins.values[i, :, j]
                chance *= rate if fell else 1 - rate
            means.append(outputs[i] + shift)
            shares.append(chance)
            clean = means[-1].logsumexp(-1) - outputs[i].logsumexp(-1)
            cleans.append(float(clean - (outputs[i].softmax(-1) * shift).sum()))
        found.append(compare(told.means[i], "==", scale * torch.stack(means), f"outputs of outcomes, example {i}"))
        found.append(compare(told.chance[i], "==", scale * tensor(shares), f"their chances, example {i}"))
        found.append(compare(told.clean[i], "==", scale * tensor(cleans), f"their own parts, example {i}"))
        rest = coins.values[i].clone()
        rest[:, [first, second]] = 0
        found.append(compare(told.parts[0].values[i, 0], "==", scale * rest, f"the other coins, example {i}"))  # type: ignore[union-attr]
    odds, own, rounding = uniform(1, 3, 4), normal(2, 3, 4), uniform(3, 3)
    ends = [normal(k, 3, 4) for k in (4, 5, 6, 7, 8, 9)]
    mean = Outcomes(outputs[:, None], [], rounding, odds, own).average(Bounds(*ends))
    wanted = [(odds * (own + end)).sum(-1) for end in ends[:2]]
    wanted += [(odds * end).sum(-1) + 2 * rounding for end in ends[2:4]]
    wanted += [(odds * end).sum(-1) for end in ends[4:]]
    for one, other in zip(mean, wanted, strict=True):
        found.append(compare(one, "==", scale * other, "an average of bounds"))
    return found


def _by_margins(scale: float) -> list[Comparison]:
    """Penalties of single margins: each class against those before it from above, each against the first from below."""
    outputs, coins, moves, chances = _instance(4)
    told = _margins(outputs, [coins], torch.zeros(3).double())
    assert told is not None
    lower, upper = [], []
    for i in range(3):
        order = outputs[i].argsort(descending=True).tolist()
        mean, after = outputs[i], outputs[i] + moves[:, i]
        above, below = 0.0, 0.0
        others = mean[order[1:]].softmax(-1)
        for place in range(1, 4):
            earlier = mean[order[:place]].softmax(-1)

            def added(gap: Tensor, moved: Tensor) -> float:
                """E log(1 + e^(gap + moved)) - log(1 + e^gap)."""
                zero = torch.zeros(())
                start = torch.logaddexp(gap, zero.to(gap))
                return float(chances @ torch.logaddexp(gap + moved, zero.to(gap)) - start)

            moved = moves[:, i][:, order[place]] - moves[:, i][:, order[:place]] @ earlier
            gap = mean[order[place]] - mean[order[:place]].logsumexp(-1)
            above += added(gap, moved)
            hub = mean[order[1:]].logsumexp(-1) - mean[order[0]]
            single = moves[:, i][:, order[place]] - moves[:, i][:, order[0]]
            below += float(others[place - 1]) * added(hub, single)
        del after
        upper.append(above)
        lower.append(below)
    return [
        compare(told.upper, "==", scale * tensor(upper), "margins from above", precision=1e-8),
        compare(told.lower, "==", scale * tensor(lower), "margins from below", precision=1e-8),
    ]


def _again(scale: float) -> list[Comparison]:
    """Who is looked at again: the widest by their weights, until the others keep a twentieth of the least mean open."""
    found: list[Comparison] = []
    low, width = 0.5 + uniform(1, 40), uniform(2, 40) ** 4
    zeros = torch.zeros(40).double()
    bounds = Bounds(low, low + width, *4 * [zeros])
    for weights in (None, uniform(3, 40) ** 3):
        share = torch.ones(40).double() if weights is None else weights
        order = sorted(range(40), key=lambda i: float(share[i] * width[i]))
        most, total, wide = 0.05 * float((share * low).sum()), 0.0, []
        for i in order:
            total += float(share[i] * width[i])
            if total > most:
                wide.append(i)
        found.append(same(_widest(bounds, weights).tolist(), sorted(wide), f"the widest of {len(wide)}", scale))
    table = Bounds(*(torch.stack([part, part.flip(0)]) for part in bounds))
    alone = set(_widest(bounds, None).tolist())
    wanted = sorted(alone | {39 - i for i in alone})
    found.append(same(_widest(table, None).tolist(), wanted, "of any of several batches", scale))
    for gap, narrow in ((0.019, True), (0.021, False)):
        ends = Bounds(tensor([1.0, 1 - gap]), tensor([1.0, 1.0]), *4 * [zeros[:2]])
        found.append(same(_is_narrow(ends, zeros[:2]), narrow, f"narrow: {gap}", scale))
    found.append(same(_is_narrow(ends, tensor([0.0, 0.01])), True, "narrow up to rounding", scale))
    found.append(same(_is_narrow(ends, zeros[:2], 0.1), True, "narrow up to a tenth", scale))
    return [*found, *_put_back(scale)]


def _put_back(scale: float) -> list[Comparison]:
    """Of many examples each has bounds of its own, whether it was looked at again or not."""
    sizes = torch.linspace(0.2, 6, 9).double()[torch.randperm(9, generator=torch.Generator().manual_seed(1)), None]
    head, drop, inputs = linear_head(3, 5, 4), 0.4, sizes * normal(1, 9, 5)
    data = Sample(inputs, torch.arange(9) % 4)
    instead = mock.patch.object(certified, "certified_bounds", return_value=Bounds(*6 * [torch.ones(9).double()]))
    with instead as asked:
        penalty(LastLayer.of(head), data, Bernoulli(drop, 5), Certified(), CrossEntropy())
    moves, masks, *_ = asked.call_args.args
    chosen = mock.patch.object(certified, "_widest", wraps=_widest)
    with mock.patch.object(certified, "MANY", 0), mock.patch.object(certified, "REST", 0.7), chosen as again:
        told = certified.certified_bounds(moves, masks)
        looked = len(_widest(*again.call_args_list[0].args))
    truth = torch.zeros(9).double()
    for kept in itertools.product((0.0, 1.0), repeat=5):
        chance = math.prod(1 - drop if one else drop for one in kept)
        truth += chance * head(inputs * tensor(kept) / (1 - drop)).logsumexp(-1).detach()
    truth -= head(inputs).logsumexp(-1).detach()
    slack = 1e-12 * (1 + truth)
    return [
        compare(told.lower, "<=", truth / scale + slack, "each from below", precision=0.0),
        compare(told.upper, ">=", scale * truth - slack, "each from above", precision=0.0),
        compare(float(0 < looked < 9), "==", 1.0, "some are looked at again, and some are not"),
    ]


def _kept(scale: float) -> list[Comparison]:
    """Of two pairs of bounds the better ends, rounding counted."""
    one, other = (Bounds(*(normal(seed + k, 30) for k in range(6))) for seed in (1, 11))
    told = _narrower(one, other)
    found = [same(_narrower(one, None) is one, True, "nothing else is known", scale)]
    for i in range(30):
        # numbers of a lower end and of an upper one take turns
        below, above = ([[float(part[i]) for part in pair[side::2]] for pair in (one, other)] for side in (0, 1))
        best = max(below, key=lambda end: end[0] - end[1])
        least = min(above, key=lambda end: end[0] + end[1])
        mine = [part[i] for part in told[::2] + told[1::2]]
        found.append(compare([float(part) for part in mine], "==", scale * tensor([*best, *least]), "better ends"))
    return found


def _stated(scale: float) -> list[Comparison]:
    """The estimate of a mean: its value, its ends with what rounding adds, its error and its words."""
    found: list[Comparison] = []
    model = LastLayer.of(linear_head(3, 5, 4))
    weights = uniform(2, 6)
    data = Sample(normal(1, 6, 5), torch.arange(6) % 4, weights)
    sides = 1 + uniform(4, 6), 3 + uniform(5, 6), 0.1 * uniform(6, 6), 0.2 * uniform(7, 6)
    for condition, words, size in (
        (0, "", 0.0),
        (2, ", 4 outcomes of 2 units written out", 0.3),
        (0, "", -0.4),
        (0, "", 40.0),  # the value would lie beyond an end
        (0, "", -40.0),
    ):
        errors = max(size, 0.0) * uniform(8, 6), max(-size, 0.0) * uniform(9, 6)
        ends = Bounds(*sides, *errors)
        with mock.patch.object(certified, "certified_bounds", return_value=ends) as asked:
            told = penalty(model, data, Bernoulli(0.4, 5), Certified(condition), CrossEntropy())
        lower, upper, low, high, below, above = (float((weights * end).sum() / weights.sum()) for end in ends)
        steps = (8 + 2 * math.sqrt(6)) * EPS + EPS
        middle = (lower + upper) / 2
        numbers = [float(told.value), float(told.lower), float(told.upper), float(told.error)]
        value = min(max((lower + below + upper - above) / 2, lower), upper)
        wanted = [value, lower - low - steps * lower, upper + high + steps * upper, max(low, high) + steps * middle]
        found.append(compare(numbers, "==", scale * tensor(wanted), f"value, ends, error, {condition}, {size}"))
        method = f"certified bounds by exponential moments and margins{words}"
        found.append(same(told.method, method, f"words, {condition}", scale))
        found.append(same(asked.call_args.args[2], condition, f"units written out, {condition}", scale))
        found.append(compare(asked.call_args.args[3], "==", scale * weights, "weights of examples"))
    return found


def _exact(scale: float) -> list[Comparison]:
    """Of one margin the estimate is the mean of integrals, with the mean of their errors and what sums are rounded."""
    found: list[Comparison] = []
    weights, values, errors = uniform(2, 6), 1 + uniform(4, 6), 1e-15 * uniform(5, 6)
    classes = LastLayer.of(linear_head(3, 5, 2)), torch.arange(6) % 2, CrossEntropy()
    margins = LastLayer.of(linear_head(3, 5, 1)), tensor([1.0, -1, -1, 1, 1, -1]), Logistic()
    for model, targets, loss in (classes, margins):
        data = Sample(normal(1, 6, 5), targets, weights)
        for method in (ClosedForm(), Certified()):
            with mock.patch.object(entropy, "logistic_penalties", return_value=(values, errors)) as asked:
                told = penalty(model, data, Bernoulli(0.4, 5), method, loss)
            mean, off = ((weights * part).sum() / weights.sum() for part in (values, errors))
            steps = (8 + 2 * math.sqrt(6)) * EPS + EPS
            found.append(compare(told, "==", scale * mean, f"mean of integrals, {loss}"))
            found.append(compare(told.error, "==", scale * (off + steps * mean), f"its error, {loss}", 1e-9, 1e-300))
            nodes = asked.call_args.args[2]
            found.append(same(told.method, f"exact by Fourier, {nodes} nodes", f"words, {loss}: {told.method}", scale))
            head = torch.cat([part.detach() for part in model.head.parameters()][:1])
            rows = (head[:1] - head[1:]) if len(head) > 1 else head
            shown = asked.call_args.args[0].part(0, 6)[1]
            found.append(compare(shown[:, 0], "==", scale * rows * data.inputs, f"moves of the margin, {loss}"))
    return found
