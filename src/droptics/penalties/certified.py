r"""Two-sided bounds for the cross-entropy penalty of outputs that are linear in the mask: proved, without sampling.

With mean outputs o, pi = softmax(o) and moves d of the outputs, put X = sum_k pi_k exp(d_k - pi . d). The penalty is
E log X, whatever the label is; X >= 1 by Jensen over k; and M1 = E X - 1, M2 = E (X - 1)^2 are sums of products over
independent units. Then

    (M1^2 / M2) log(1 + M2 / M1)  <=  E log X  <=  log(1 + M1):

above by Jensen; below because log(1 + x) / x is convex, under the law reweighted by x = X - 1. To leading order both
are the second-order penalty. For few classes two moments more narrow them (`moment_bounds`).

Heavy tails of X spoil moments, and leave sums over few classes: up to twelve of them, the two or three that lead are
taken exactly with every other one (`several`). Beyond, with the classes ordered by their mean outputs,

    sum_k v_k P(o_k - o_1 - log v_k)  <=  E log X  <=  sum_k P(o_k - q_k . o - H(q_k)),     k = 2, 3, ...

where P is the logistic penalty of one margin, known exactly, v_k = pi_k / (1 - pi_1), and q_k the softmax among the
classes before k, with entropy H: below by concavity of the logarithm, above because log sum exp is at least q . o + H
for every q. All are equal without noise. The narrowest bounds of those computed are used for every example; what costs
more is left out where the interval is narrow, and of many examples for all but those whose intervals are the widest.

Bounds of the outcomes of some coins, averaged, are bounds again: they close in on the truth as more coins are written
out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from droptics.data import Sample, average
from droptics.estimates import Estimate
from droptics.masks import MaskLaw
from droptics.penalties.factors import ROOM, Coins, Factor, Moves, factors, large
from droptics.penalties.fourier import margin_penalties
from droptics.penalties.moment_bounds import gauss_above, radau_below
from droptics.penalties.several import several_bounds
from droptics.transforms import is_transformed, wants_derivative

T = TypeVar("T")
# Error of the integrals of single margins that is accepted, and the most nodes that are spent on it.
TOLERANCE, NODES = 1e-12, 256
# Classes up to which third and fourth moments are summed, 1365 products of four, and triples taken; more is asked where
# more than this share of the upper bound is open, and four moments of every outcome, which cost most, from the last on.
FEW, NARROW, OPEN = 12, 0.02, 0.1
# Of more examples than this the widest are looked at again, until the others keep no more than this share open.
MANY, REST = 64, 0.05
# Error of an integral of several margins that is accepted, in shares of the upper bound.
ACCEPTED = 1e-3
# Exponents at which the chance that one class overtakes another is bounded, to rank the classes.
CHERNOFF = (0.01, 0.03, 0.1, 0.2, 0.4, 0.8)


class Bounds(NamedTuple):
    """Bounds of every example, how far rounding can have moved them, and errors of integrals that are part of them.

    Differentiable, except for the errors: they are constants, and the value leaves them out.
    """

    lower: Tensor
    upper: Tensor
    slack_below: Tensor
    slack_above: Tensor
    error_below: Tensor
    error_above: Tensor


def certified(moves: Moves, sample: Sample, masks: MaskLaw, condition: int, dtype: torch.dtype) -> Estimate:
    """The interval of the mean over examples; its value is the middle of the bounds without errors of integrals.

    These widen the interval, each end by its own; the value, never beyond an end, is the middle where there are none.
    """
    weights = None if sample.weights is None else sample.weights.double()
    found = certified_bounds(moves, masks, condition, weights)
    lower, upper = average(found.lower, weights), average(found.upper, weights)
    middle = 0.5 * (lower + upper)
    with torch.no_grad():
        # sums over examples are done in blocks; the last rounding is that to the caller's precision
        steps = (8 + 2 * len(sample) ** 0.5) * torch.finfo(torch.float64).eps + torch.finfo(dtype).eps
        low, high, below, above = (average(part, weights) for part in found[2:])
        least, most = (lower - low - steps * lower).clamp_min(0), upper + high + steps * upper
        error = torch.maximum(low, high) + steps * middle
        width = (upper - lower).clamp_min(0)
        off = 0.5 * (below - above).clamp(-width, width)
    written = "" if condition == 0 else f", {2**condition} outcomes of {condition} units written out"
    method = f"certified bounds by exponential moments and margins{written}"
    return Estimate((middle + off).to(dtype), least.to(dtype), most.to(dtype), method, 2, error=error.to(dtype))


def certified_bounds(moves: Moves, masks: MaskLaw, condition: int = 0, weights: Tensor | None = None) -> Bounds:
    """Bounds of E log sum exp(outputs) - log sum exp(E outputs), (..., n) each, for the softmax of `moves`.

    Of many examples only the widest are asked for more than two moments, until the others add little to the interval of
    the mean by these weights.
    """
    everything = partial(_conditioned, condition=condition)
    if moves.features.shape[-2] <= MANY or condition or is_transformed():
        return _in_parts(moves, masks, condition, everything)
    found = _in_parts(moves, masks, 0, partial(_by_moments_alone, four=False))
    for more in (partial(_by_moments_alone, four=moves.head.shape[-2] <= FEW), everything):
        wide = _widest(found, weights)
        if not wide.numel():
            break
        again = _in_parts(moves.some(wide), masks, 0, more)
        found = Bounds(*(old.index_copy(-1, wide, new) for old, new in zip(found, again, strict=True)))
    return found


def _widest(found: Bounds, weights: Tensor | None) -> Tensor:
    """The examples, by their numbers, without which at most REST of the least mean stays open."""
    with torch.no_grad():
        share = torch.ones_like(found.lower) if weights is None else weights.expand(found.lower.shape)
        widths, places = (share * (found.upper - found.lower)).sort(-1)
        wide = widths.cumsum(-1) > REST * (share * found.lower).sum(-1, keepdim=True)
        chosen = torch.zeros_like(wide).scatter(-1, places, wide)
        return chosen.flatten(0, -2).any(0).nonzero().flatten() if chosen.ndim > 1 else chosen.nonzero().flatten()


def _in_parts(
    moves: Moves, masks: MaskLaw, condition: int, bounds: Callable[[Tensor, Sequence[Factor]], Bounds]
) -> Bounds:
    """Bounds of some examples at a time."""
    count, classes = moves.features.shape[-2], moves.head.shape[-2]
    step = max(1, ROOM // (moves.elements * classes * 2**condition))

    def one(start: int) -> Bounds:
        outputs, contributions = moves.part(start, min(start + step, count))
        return bounds(outputs, factors(masks, contributions))

    found = [_recomputed(partial(one, start), moves) for start in range(0, count, step)]
    return Bounds(*(torch.cat(parts, -1) for parts in zip(*found, strict=True)))


def upper_bounds(moves: Moves, masks: MaskLaw) -> Tensor:
    """log(1 + M1) alone, (..., n), in the precision of `moves`: what training on the upper bound needs."""
    count = moves.features.shape[-2]
    step = max(1, 16 * ROOM // moves.elements)

    def one(start: int) -> Tensor:
        outputs, contributions = moves.part(start, min(start + step, count))
        logs = torch.log_softmax(outputs, -1)
        cumulants = sum(part.centered(logs.exp()).cumulant() for part in factors(masks, contributions))
        assert isinstance(cumulants, Tensor)
        return _log_mean(logs, cumulants)

    if count <= step:
        return one(0)
    return torch.cat([_recomputed(partial(one, start), moves) for start in range(0, count, step)], -1)


def _recomputed(function: Callable[[], T], moves: Moves) -> T:
    """The graph of all chunks would be many times the data: each is computed again when its derivative is asked for."""
    wanted = wants_derivative(moves.offset, moves.features, moves.head) and torch.is_grad_enabled()
    if not wanted or is_transformed():
        return function()
    return checkpoint(function, use_reentrant=False, preserve_rng_state=False)


def _conditioned(outputs: Tensor, parts: Sequence[Factor], condition: int) -> Bounds:
    """Average over the outcomes of the `condition` coins that move the outputs of an example most."""
    coins = _joined([part for part in parts if isinstance(part, Coins)])
    others = [part for part in parts if not isinstance(part, Coins)]
    rounding = _rounding(outputs, parts)
    with torch.no_grad():
        likely = _likely(outputs, parts)
    order = likely.argsort(-1, descending=True)
    whole = Outcomes.one(outputs, [part.unsqueezed() for part in parts], rounding)
    if coins is None or condition == 0:
        return _of_outcomes(whole, order)
    with torch.no_grad():
        weights = likely.softmax(-1).unsqueeze(-1)
        centered = coins.values - (weights * coins.values).sum(-2, keepdim=True)
        importance = coins.strength * (weights * centered.square()).sum(-2)
    chosen = importance.topk(min(condition, importance.shape[-1]), -1).indices
    columns = chosen.unsqueeze(-2).expand(*coins.values.shape[:-1], -1)
    rates = coins.drop.expand(importance.shape).gather(-1, chosen)
    rest = Coins(coins.values.scatter(-1, columns, 0.0), coins.drop).unsqueezed()
    fallen = torch.cartesian_prod(*[torch.tensor([False, True], device=outputs.device)] * chosen.shape[-1])
    fallen = fallen.reshape(-1, chosen.shape[-1])
    chance = torch.where(fallen, rates.unsqueeze(-2), 1 - rates.unsqueeze(-2)).prod(-1)
    away = torch.where(fallen, -torch.ones_like(rates).unsqueeze(-2), (rates / (1 - rates)).unsqueeze(-2))
    shift = away @ coins.values.gather(-1, columns).mT
    means = outputs.unsqueeze(-2) + shift
    clean = torch.logsumexp(means, -1) - torch.logsumexp(outputs, -1).unsqueeze(-1)
    clean = clean - (shift * outputs.softmax(-1).unsqueeze(-2)).sum(-1)
    remaining = [rest, *(part.unsqueezed() for part in others)]
    written = Outcomes(means, remaining, rounding, chance, clean)
    found = _of_outcomes(written, order)
    if _is_narrow(found, rounding):
        return found
    # among the outcomes leading classes differ; three of them say more of the whole
    found = _narrower(found, _of_outcomes(whole, order))
    if not _is_narrow(found, rounding):
        found = _narrower(found, _by_several(whole, order, 3, found))
    if outputs.shape[-1] > FEW or _is_narrow(found, rounding, OPEN):
        return found
    return _narrower(found, written.each(partial(_by_moments, four=True)))


def _by_moments_alone(outputs: Tensor, parts: Sequence[Factor], four: bool) -> Bounds:
    return _by_moments(outputs, parts, _rounding(outputs, parts), four)


def _rounding(outputs: Tensor, parts: Sequence[Factor]) -> Tensor:
    """Of the logarithm of a product over all units."""
    scale = 1 + outputs.abs().amax(-1) + 2 * sum(part.reach for part in parts)
    units = sum(part.count for part in parts)
    return ((units + outputs.shape[-1] + 32) * torch.finfo(outputs.dtype).eps * scale).detach()


class Outcomes(NamedTuple):
    """Mean outputs (..., outcomes, classes) that move by `parts`, their chances and their own parts of the penalty."""

    means: Tensor
    parts: Sequence[Factor]
    rounding: Tensor
    chance: Tensor
    clean: Tensor

    @staticmethod
    def one(outputs: Tensor, parts: Sequence[Factor], rounding: Tensor) -> Outcomes:
        """Nothing written out."""
        nothing = torch.zeros_like(outputs[..., :1])
        return Outcomes(outputs.unsqueeze(-2), parts, rounding, nothing + 1, nothing)

    def average(self, bounds: Bounds) -> Bounds:
        """Averaged bounds are bounds again."""
        lower, upper = ((self.chance * (self.clean + part)).sum(-1) for part in (bounds.lower, bounds.upper))
        below, above, *errors = ((self.chance * part).sum(-1).detach() for part in bounds[2:])
        return Bounds(lower, upper, below + 2 * self.rounding, above + 2 * self.rounding, *errors)

    def each(self, bounds: Callable[[Tensor, Sequence[Factor], Tensor], Bounds | None]) -> Bounds | None:
        """The average of bounds that are asked for some outcomes at a time."""
        size = self.means[..., 0, :].numel() * sum(part.count for part in self.parts) * self.means.shape[-1]
        pieces = self.means.split(max(1, ROOM // max(1, size)), -2)
        found = [bounds(piece, self.parts, self.rounding.unsqueeze(-1)) for piece in pieces]
        known = [part for part in found if part is not None]
        if len(known) < len(found):
            return None
        return self.average(Bounds(*(torch.cat(ends, -1) for ends in zip(*known, strict=True))))


def _of_outcomes(outcomes: Outcomes, order: Tensor) -> Bounds:
    """What costs most is asked last, and only where the interval is not narrow yet."""
    few, one = outcomes.means.shape[-1] <= FEW, outcomes.means.shape[-2] == 1
    # many outcomes have one law: integrals of several margins cost less than four moments of each
    found = outcomes.each(partial(_by_moments, four=few and (one or is_transformed())))
    assert found is not None
    if _is_narrow(found, outcomes.rounding):
        return found
    return _narrower(found, _by_several(outcomes, order, 2, found))


def _is_narrow(found: Bounds, rounding: Tensor, share: float = NARROW) -> bool:
    """Whether nothing more is asked; always where numbers are hidden, on which that would depend."""
    return is_transformed() or bool((found.upper - found.lower <= share * found.upper + 8 * rounding).all())


def _by_several(outcomes: Outcomes, order: Tensor, leading: int, known: Bounds) -> Bounds | None:
    """Bounds by the leading classes with every other one; None where that would take too long."""
    classes = outcomes.means.shape[-1]
    if not 3 <= classes <= FEW:
        return outcomes.each(_margins)
    tolerance = ACCEPTED * float(known.upper.detach().min())
    ends = several_bounds(outcomes.means, outcomes.parts, order, min(leading, classes - 1), tolerance)
    if ends is None:
        return None
    lower, upper, below, above = ends
    nothing = torch.zeros_like(below)
    return outcomes.average(Bounds(lower - below, upper + above, nothing, nothing, below, above))


def _likely(outputs: Tensor, parts: Sequence[Factor]) -> Tensor:
    """min_t log E exp(t (o_k - o_1)) over the class of largest mean output: how likely another class overtakes it."""
    eye = torch.eye(outputs.shape[-1], dtype=outputs.dtype, device=outputs.device)
    over = eye - eye[outputs.argmax(-1)].unsqueeze(-2)
    directions = (outputs.new_tensor(CHERNOFF)[:, None, None] * over.unsqueeze(-3)).flatten(-3, -2)
    moved = sum(part.along(directions).cumulant() for part in parts)
    found = (directions @ outputs.unsqueeze(-1)).squeeze(-1) + moved
    return found.unflatten(-1, (len(CHERNOFF), -1)).amin(-2).clamp_max(0)


def _joined(parts: Sequence[Coins]) -> Coins | None:
    if not parts:
        return None
    return Coins(torch.cat([part.values for part in parts], -1), torch.cat([part.drop for part in parts], -1))


def _by_moments(outputs: Tensor, parts: Sequence[Factor], rounding: Tensor, four: bool) -> Bounds:
    logs = torch.log_softmax(outputs, -1)
    chances = logs.exp()
    moved = [part.centered(chances) for part in parts]
    singles = sum(part.cumulant() for part in moved)
    assert isinstance(singles, Tensor)
    upper = _log_mean(logs, singles)
    first = torch.expm1(upper.clamp_max(large(upper)))
    left, right = torch.triu_indices(*(2 * [outputs.shape[-1]]), device=outputs.device)
    pairs = sum(part.pair_cumulant(left, right) for part in moved)
    assert isinstance(pairs, Tensor)
    wild = (upper > large(upper) / 2) | (pairs.amax(-1) > large(pairs))
    for part in moved:
        wild = wild | part.overflows()
    twice = torch.where(left == right, 1.0, 2.0).to(chances)
    weights = twice * chances[..., left] * chances[..., right]
    calm = torch.where(wild.unsqueeze(-1), torch.zeros_like(pairs), pairs)
    second = (weights * torch.expm1(calm)).sum(-1) - 2 * first
    first, second = (torch.where(wild, torch.ones_like(part), part) for part in (first, second))
    second = torch.maximum(second, first.square())
    nothing = torch.zeros_like(upper)
    lower = torch.where(wild, nothing, _below(first, second, first > rounding))
    with torch.no_grad():
        # E X and E X^2 are relative to themselves; the bound grows with M1 and falls with M2
        least = (first - rounding * (1 + first)).clamp_min(0)
        most = second + 4 * rounding * (1 + 2 * first + second)
        below = rounding + (lower - torch.where(wild, nothing, _below(least, most, least > 0))).clamp_min(0)
    found = Bounds(lower, upper, below, rounding.expand(upper.shape), nothing, nothing)
    return _narrower(found, _by_four_moments(logs, moved, (first, second), rounding)) if four else found


def _by_four_moments(logs: Tensor, moved: Sequence[Factor], two: tuple[Tensor, Tensor], rounding: Tensor) -> Bounds:
    """Bounds from E (X - 1)^3 and E (X - 1)^4, too; none where these are too large to be written down."""
    wild = torch.zeros_like(rounding, dtype=torch.bool)
    classes = torch.arange(logs.shape[-1], device=logs.device)
    powers, (m1, m2) = [], two
    for order in (3, 4):
        tuples = torch.combinations(classes, order, with_replacement=True)
        cumulants = sum(part.tuple_cumulant(tuples) for part in moved)
        assert isinstance(cumulants, Tensor)
        for part in moved:
            wild = wild | part.overflows(order)
        wild = wild | (cumulants.amax(-1) > large(cumulants))
        times = (tuples.unsqueeze(-1) == classes).sum(-2)
        ways = math.factorial(order) / torch.exp(torch.lgamma(times + 1.0).sum(-1)).round()
        calm = torch.where(wild.unsqueeze(-1), torch.zeros_like(cumulants), cumulants)
        powers.append((ways * logs[..., tuples].sum(-1).exp() * torch.expm1(calm)).sum(-1))
    # E X^k - 1 for k = 1, 2 are m1 and m2 + 2 m1
    m3 = powers[0] - 3 * m2 - 3 * m1
    m4 = powers[1] - 4 * m3 - 6 * m2 - 4 * m1
    with torch.no_grad():
        # E X^k is relative to itself, k times as far off as its logarithm
        e1, e2, e3, e4 = (2 * k * rounding * (1 + part) for k, part in enumerate((m1, m2 + 2 * m1, *powers), 1))
        errors = (e1, e2 + 2 * e1, e3 + 3 * e2 + 3 * e1, e4 + 4 * e3 + 6 * e2 + 4 * e1)
    upper, above = gauss_above((m1, m2, m3), errors[:3])
    lower, below = radau_below((m1, m2, m3, m4), errors)
    upper, lower = upper.masked_fill(wild, torch.inf), lower.masked_fill(wild, 0.0)
    return Bounds(lower, upper, below, above, *2 * [torch.zeros_like(below)])


def _margins(outputs: Tensor, parts: Sequence[Factor], rounding: Tensor) -> Bounds | None:
    """Bounds by the logistic penalties of single margins; None where their integrals would take too long."""
    ordered, order = outputs.sort(-1, descending=True)
    classes = outputs.shape[-1]
    before = torch.ones(classes, classes, dtype=torch.bool, device=outputs.device).tril(-1)[1:]
    earlier = ordered.unsqueeze(-2).masked_fill(~before, -torch.inf)
    eye = torch.eye(classes, dtype=outputs.dtype, device=outputs.device)
    rows = torch.cat([eye[1:] - earlier.softmax(-1), (eye[1:] - eye[0]).expand(earlier.shape)], -2)
    # columns back to the order of the classes
    directions = rows.gather(-1, order.argsort(-1).unsqueeze(-2).expand(rows.shape))
    chain = ordered[..., 1:] - torch.logsumexp(earlier, -1)
    hub = (torch.logsumexp(ordered[..., 1:], -1) - ordered[..., 0]).unsqueeze(-1).expand(chain.shape)
    moved: list[Factor] = [part.along(directions).of_each() for part in parts]
    found = margin_penalties(torch.cat([chain, hub], -1).unsqueeze(-1), moved, TOLERANCE, NODES)
    if found is None:
        return None
    values, errors = found
    shares = ordered[..., 1:].softmax(-1)
    upper, lower = values[..., : classes - 1].sum(-1), (shares * values[..., classes - 1 :]).sum(-1)
    above, below = errors[..., : classes - 1].sum(-1), (shares * errors[..., classes - 1 :]).sum(-1).detach()
    return Bounds(lower, upper, below + 2 * rounding, above + 2 * rounding, *2 * [torch.zeros_like(below)])


def _narrower(one: Bounds, other: Bounds | None) -> Bounds:
    """The better end of each pair, rounding counted."""
    if other is None:
        return one
    higher = other.lower - other.slack_below > one.lower - one.slack_below
    nearer = other.upper + other.slack_above < one.upper + one.slack_above
    ends = zip(3 * (higher, nearer), other, one, strict=True)
    return Bounds(*(torch.where(better, new, old) for better, new, old in ends))


def _log_mean(logs: Tensor, cumulants: Tensor) -> Tensor:
    """Log sum_k pi_k exp(K_k), exact to rounding also where it is tiny."""
    small = cumulants.amax(-1) < 1
    near = torch.where(small.unsqueeze(-1), cumulants, torch.zeros_like(cumulants))
    return torch.where(
        small, torch.log1p((logs.exp() * torch.expm1(near)).sum(-1)), torch.logsumexp(logs + cumulants, -1)
    )


def _below(first: Tensor, second: Tensor, noisy: Tensor) -> Tensor:
    """(M1^2 / M2) log(1 + M2 / M1); M1 itself where that is lost in rounding."""
    ratio = torch.where(noisy, second, torch.ones_like(second)) / torch.where(noisy, first, torch.ones_like(first))
    return torch.where(noisy, first * torch.log1p(ratio) / ratio, first)
