"""What claims on answers of predictions compare: densities in and beyond their range, words, costs, refusals."""

from __future__ import annotations

import math
import re
from typing import Any

import scipy.stats
import torch
from torch import Tensor, nn
from torch.nn import functional

from droptics.evidence.claims import Comparison, compare
from droptics.masks import Bernoulli, Block, Gaussian, Product, SlidingBlock
from droptics.models import DeepLinear, Factorization, ReLUNet, TwoLayerLinear
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.telling import fails, refuses, same
from droptics.papers.instances import normal, tensor
from droptics.penalties import Certified, ClosedForm, Enumerate, MonteCarlo, SecondOrder, UnitOutputs
from droptics.predictions import Closure, predictive
from droptics.predictions.affine import Affine
from droptics.predictions.densities import Density, log_density
from droptics.predictions.mixtures import Outcome, conditional
from droptics.predictions.results import Predictive
from droptics.predictions.running import run
from droptics.predictions.sampling import sampled_moments

NOISE = 0.3


@torch.no_grad()
def predicted_answers(scale: float) -> list[Comparison]:
    """Densities, their tables and tails; what answers say of themselves; what is refused; functions that drop."""
    return by_parts((_densities, _tails, _words, _drawn, _seeds, _refused, _functions), scale)


def _net() -> tuple[ReLUNet, Tensor, Product]:
    net = ReLUNet([normal(1, 4, 3), normal(2, 2, 4)], [normal(3, 4), normal(4, 2)])
    return net, normal(5, 5, 3), Product([Bernoulli(tensor([0.2, 0.4, 0.0]), 3), Bernoulli(0.3, 4)])


def _every(net: ReLUNet | TwoLayerLinear | DeepLinear, inputs: Tensor, law: Any) -> tuple[Tensor, Tensor]:
    """Outputs under every mask, and their chances."""
    masks, chances = (torch.cat(part) for part in zip(*law.atom_batches(4096), strict=True))
    return net.outputs(inputs, masks[:, None]), chances


def _densities(scale: float) -> list[Comparison]:
    """Density, distribution, table and quantiles of masks plus noise are mixtures of normal laws; the period ends."""
    found: list[Comparison] = []
    net, inputs, law = _net()
    centers, chances = _every(net, inputs, law)
    told = predictive(net, inputs, law)
    density = told.density(NOISE)
    low, high = centers.amin(0), centers.amax(0)
    found.append(compare(density.low, "==", scale * (low - 9 * NOISE), "where the period begins"))
    found.append(compare(density.width, "==", scale * (high - low + 18 * NOISE), "how long it is"))

    def truth(values: Tensor) -> tuple[Tensor, Tensor]:
        off = (values - centers[:, None]) / NOISE
        heights = torch.exp(-off.square() / 2) / (NOISE * math.sqrt(2 * math.pi))
        return torch.tensordot(chances, heights, 1), torch.tensordot(chances, torch.special.ndtr(off), 1)

    shares = torch.linspace(0, 1, 23).double()[:, None, None]
    values = low + shares * (high - low)
    heights, below = truth(values)
    found.append(compare(density.pdf(values), "==", scale * heights, "density", 1e-9))
    found.append(compare(density.cdf(values), "==", scale * below, "distribution", 1e-9))
    outside = torch.stack([density.low - 1, density.low + density.width + 1])
    found.append(compare(1 + density.pdf(outside), "==", scale, "no density outside"))
    sure = torch.stack([torch.zeros_like(low), torch.ones_like(low)])
    found.append(compare(1 + density.cdf(outside), "==", scale * (1 + sure), "nothing before, all behind", 1e-9))
    count = density.coefficients.shape[-1]
    for least in (1, 8, 64, 512):
        grid, table = density.cdf_table(least)
        found.append(compare(table, "==", scale * truth(grid)[1], f"a table of {least}", 1e-9))
        points = max(least, 1 << count.bit_length())
        found.append(same((len(grid), points > count), (points, True), f"points of a table of {least}", scale))
        places = density.low + density.width * (torch.arange(points) / points)[:, None, None]
        found.append(compare(grid, "==", scale * places, f"places of a table of {least}"))
    for level in (0.05, 0.5, 0.9):
        found.append(compare(truth(density.quantile(level)[None])[1], "==", scale * level, f"quantile {level}", 1e-9))
    each = 0.1 + 0.8 * torch.rand(5, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found.append(compare(truth(density.quantile(each)[None])[1][0], "==", scale * each, "quantiles of their own", 1e-9))
    left, right = told.interval(0.8, NOISE)
    sides = torch.stack([truth(left[None])[1][0], truth(right[None])[1][0]])
    tails = torch.stack([torch.full_like(left, 0.1), torch.full_like(left, 0.9)])
    found.append(compare(sides, "==", scale * tails, "central interval", 1e-9))
    noises = 0.2 + 0.1 * torch.arange(10).double().reshape(5, 2)
    own = told.density(noises)
    found.append(compare(own.noise, "==", scale * noises, "a noise of each"))
    off = (values[11] - centers) / noises
    heights = torch.tensordot(chances, torch.exp(-off.square() / 2) / (noises * math.sqrt(2 * math.pi)), 1)
    found.append(compare(own.pdf(values[11]), "==", scale * heights, "its density", 1e-9))
    for level in (0.0, 1.0, -0.1, math.nan):
        found.append(refuses(lambda level=level: density.quantile(level), "strictly between 0 and 1"))
    for noise in (0.0, -1.0, math.inf):
        found.append(refuses(lambda noise=noise: told.density(noise), "must be positive", f"noise {noise}"))
    found.append(refuses(lambda: told.density(1e-6), "so small against outputs of range", "a tiny noise"))
    found.append(refuses(lambda: told.interval(1.5, NOISE), "level", "no level"))
    return found


def _tails(scale: float) -> list[Comparison]:
    """Logarithms of densities keep their digits however far out, on both sides, for mixtures and for normal masks."""
    found: list[Comparison] = []
    net, inputs, law = _net()
    centers, chances = _every(net, inputs, law)
    told, listed = predictive(net, inputs, law), predictive(net, inputs, law, Enumerate())
    for far in (0.0, 4.0, -4.0, 25.0, -25.0):
        targets = (centers.amax(0) if far > 0 else centers.amin(0) if far < 0 else centers.mean(0)) + far * NOISE
        exact = chances.log()[:, None, None] - ((targets - centers) / NOISE).square() / 2
        wanted = torch.logsumexp(exact, 0) - math.log(NOISE * math.sqrt(2 * math.pi))
        found.append(compare(told.log_likelihood(targets, NOISE), "==", scale * wanted, f"{far} deviations off", 1e-7))
        other = listed.log_likelihood(targets, NOISE)
        found.append(compare(other, "==", scale * wanted, f"{far} deviations off, all masks listed", 1e-7))
        # one output far out and the other amid, the one in even rows and the other in odd ones
        mixed = torch.where((torch.arange(5)[:, None] + torch.arange(2)) % 2 == 0, targets, centers.mean(0))
        exact = chances.log()[:, None, None] - ((mixed - centers) / NOISE).square() / 2
        wanted = torch.logsumexp(exact, 0) - math.log(NOISE * math.sqrt(2 * math.pi))
        found.append(compare(told.log_likelihood(mixed, NOISE), "==", scale * wanted, f"{far} off, one of two", 1e-7))
    flat, rows = TwoLayerLinear(normal(1, 2, 5), normal(2, 3, 5)), inputs[:4]
    pair = Product([Bernoulli(tensor([0.2, 0.6]), 2), SlidingBlock(0.3, 3, 2)])
    for name, joint in (("products", pair), ("blocks that slide", SlidingBlock(0.2, 5, 3))):
        every, odds = _every(flat, rows, joint)
        ends = every.mean(0) + tensor([30.0, -30.0, 1.0, 12.0])[:, None] * NOISE
        exact = odds.log()[:, None, None] - ((ends - every) / NOISE).square() / 2
        wanted = exact.logsumexp(0) - math.log(NOISE * math.sqrt(2 * math.pi))
        told = predictive(flat, rows, joint)
        found.append(compare(told.log_likelihood(ends, NOISE), "==", scale * wanted, f"far out under {name}", 1e-7))
        reach = scale * (every.amax(0) - every.amin(0) + 18 * NOISE)
        found.append(compare(told.density(NOISE).width, "==", reach, f"a period under {name}"))
    # two early masks, and heads of their own for five examples, two of which lie far out
    coins, odds = Bernoulli(tensor([0.3, 0.1, 0.0, 0.6]), 4), tensor([0.3, 0.7])
    parts = UnitOutputs(normal(1, 2, 5, 4), normal(2, 5, 2, 4))
    given = Affine(normal(3, 2, 5, 2), parts, coins)
    masks, shares = (torch.cat(part) for part in zip(*coins.atom_batches(64), strict=True))
    values = given.center + torch.einsum("mnj,nkj,pj->pmnk", *parts, masks - 1)
    ends = values.mean((0, 1)) + tensor([0.0, 30.0, 0.0, -25.0, 1.0])[:, None] * NOISE
    exact = (shares[:, None] * odds).log()[..., None, None] - ((ends - values) / NOISE).square() / 2
    wanted = exact.flatten(0, 1).logsumexp(0) - math.log(NOISE * math.sqrt(2 * math.pi))
    own = log_density(lambda: iter([(odds, given)]), ends, NOISE)
    found.append(compare(own, "==", scale * wanted, "heads of their own, some far out", 1e-7))
    model, law_ = TwoLayerLinear(normal(1, 2, 3), normal(2, 2, 3)), Gaussian(tensor([0.2, 0.5, 0.1]), 3)
    points = normal(3, 4, 2)
    answer = predictive(model, points, law_)
    spread = answer.variance.value + NOISE**2
    for far in (0.5, -12.0):
        targets = answer.mean.value + far * spread.sqrt()
        wanted = -0.5 * far**2 - 0.5 * (2 * math.pi * spread).log()
        found.append(compare(answer.log_likelihood(targets, NOISE), "==", scale * wanted, f"normal, {far}", 1e-7))
    words = "targets have shape (3, 2) but the outputs (5, 2)"
    found.append(refuses(lambda: log_density(listed.mixture(), torch.zeros(3, 2), NOISE), words, "shapes"))
    one = Density.of(listed.mixture(), NOISE)
    found.append(compare(one.coefficients[..., 0].real, "==", scale, "all the mass"))
    return found


def _told(answer: Predictive) -> tuple[Any, ...]:
    return answer.mean.method, answer.variance.method, answer.mean.cost, answer.mean.confidence, answer.samples


def _words(scale: float) -> list[Comparison]:
    """Every answer says how it came about, what it cost and how sure it is; approximations how far off they are."""
    found: list[Comparison] = []
    net, inputs, law = _net()
    linear = TwoLayerLinear(normal(1, 2, 3), normal(2, 2, 3))
    deep = DeepLinear([normal(1, 3, 3), normal(2, 2, 3)], mask_inputs=True)
    coins, pair = Bernoulli(0.3, 3), Product([Bernoulli(0.3, 3), Bernoulli(0.2, 3)])
    summed = "exact sum over 4 early masks, last layer integrated"
    noise = "closed form (noise of every layer)"
    listed = "enumeration of 64 masks"
    for name, model, points, masks, exactly, words, cost in (
        ("linear", linear, inputs[:, :2], coins, ClosedForm(), "closed form", 1),
        ("deep", deep, inputs, pair, ClosedForm(), noise, 1),
        ("listed", net, inputs, law, Enumerate(), listed, 64),
        ("summed", net, inputs, law, ClosedForm(), summed, 4),
    ):
        answer = predictive(model, points, masks, exactly)
        found.append(same(_told(answer), (words, words, cost, 1.0, None), f"words, {name}", scale))
        joint = answer.covariance
        found.append(same((joint.method, joint.cost), (words, cost), f"joint words, {name}", scale))
        outputs, chances = _every(model, points, masks)
        mean = torch.tensordot(chances, outputs, 1)
        moved = outputs - mean
        spread = torch.einsum("m,mni,mnj->nij", chances, moved, moved)
        found.append(compare(answer.mean.value, "==", scale * mean, f"mean over all masks, {name}"))
        found.append(compare(joint.value, "==", scale * spread, f"covariance over all masks, {name}"))
        diagonal = spread.diagonal(dim1=-2, dim2=-1)
        found.append(compare(answer.variance.value, "==", scale * diagonal, f"variance over all masks, {name}"))
        shape = tuple(answer.mean.value.shape)
        found.append(same(repr(answer), f"Predictive(outputs of shape {shape}, {words})", f"in short, {name}", scale))
    problem = conditional(net, inputs, law)
    for name, method, how in (
        ("first order", SecondOrder(check=MonteCarlo(24, seed=2)), "first order in the early masks"),
        ("full", Closure("full", MonteCarlo(24, seed=2)), "full normal closure"),
        ("diagonal", Closure("diagonal", MonteCarlo(24, seed=2)), "diagonal normal closure"),
    ):
        answer = predictive(net, inputs, law, method)
        mean, variance = sampled_moments(problem, MonteCarlo(24, seed=2))
        ratio = (variance.value / answer.variance.value).log().mean().exp()
        text = f"approximation: {how}; 24 masks say that the variance is {float(ratio):.2f} times this"
        sure = MonteCarlo(24).confidence
        found.append(same(_told(answer), (text, text, 25, sure, None), f"words, {name}", scale))
        for part, check in ((answer.mean, mean), (answer.variance, variance)):
            found.append(compare(part.lower, "==", scale * check.lower, f"below, {name}"))
            found.append(compare(part.upper, "==", scale * check.upper, f"above, {name}"))
        refused = fails(answer.joint)
        found.append(same(refused, 1.0, f"no covariance, {name}", scale))
        found.append(same(fails(answer.mixture), 1.0, f"no mixture, {name}", scale))
        bare = SecondOrder(check=None) if name == "first order" else Closure(name, None)  # type: ignore[arg-type]
        alone = predictive(net, inputs, law, bare)
        text = f"approximation: {how}, error not measured"
        found.append(same(_told(alone), (text, text, 1, 0.0, None), f"alone, {name}", scale))
        found.append(compare(alone.variance.value, "==", scale * answer.variance.value, f"the same, {name}"))
        found.append(compare(alone.variance.lower, "==", scale * answer.variance.value, f"a point, {name}"))
    return found


def _drawn(scale: float) -> list[Comparison]:
    """Drawn answers name their controls, and their covariance is that of the same masks."""
    found: list[Comparison] = []
    net, inputs, law = _net()
    wide = ReLUNet([normal(1, 4, 9), normal(2, 2, 4)], [normal(3, 4), normal(4, 2)])
    deep = ReLUNet([normal(1, 4, 3), normal(2, 4, 4), normal(6, 2, 4)], [normal(3, 4), normal(4, 4), normal(5, 2)])
    number = r"-?\d+\.\d\d"
    for name, model, points, masks, samples, words in (
        ("atoms", net, inputs, law, 40, f"control: atoms x {number}"),
        ("gradient", wide, normal(7, 5, 9), Product([Bernoulli(0.3, 9), Bernoulli(0.2, 4)]), 60, None),
        ("few drops", wide, normal(7, 5, 9), Product([Bernoulli(0.02, 9), Bernoulli(0.2, 4)]), 60, "stratified"),
        ("two sites", deep, inputs, Product([Bernoulli(0.3, 3), Bernoulli(0.2, 4), Bernoulli(0.1, 4)]), 60, None),
    ):
        method = MonteCarlo(samples, seed=4)
        told = predictive(model, points, masks, method)
        start = f"Monte Carlo, {samples} masks, last site integrated, "
        pattern = re.escape(start) + rf"control: [a-z ]+ x {number}(, [a-z ]+ x {number})*"
        pattern += r"(, masks stratified by drops)?(; intervals withheld, a few rare masks decide)?"
        for part in (told.mean, told.variance):
            fits = re.fullmatch(pattern, part.method) is not None
            found.append(same((fits, part.cost, part.confidence), (True, samples, 0.99), f"words, {name}", scale))
        found.append(same(told.samples, samples, f"how many, {name}", scale))
        if words is not None:
            found.append(same(re.search(words, told.mean.method) is not None, True, f"names, {name}", scale))
        parts = list(told.mixture()())
        weights = torch.cat([weight for weight, _ in parts])
        found.append(compare(weights, "==", scale / samples, f"equal weights, {name}"))
        centers = torch.cat([affine.center for _, affine in parts])
        inner = torch.cat([affine.covariance() for _, affine in parts]).mean(0)
        moved = centers - centers.mean(0)
        outer = torch.einsum("mni,mnj->nij", moved, moved) / (samples - 1)
        joint = told.covariance
        found.append(compare(joint.value, "==", scale * (inner + outer), f"covariance, {name}"))
        text = f"Monte Carlo, {samples} masks, without control, error not measured"
        found.append(
            same((joint.method, joint.cost, joint.confidence), (text, samples, 0.0), f"its words, {name}", scale)
        )
        found += _classes_drawn(told, parts, samples, name, scale)
    found += _coverage(deep, inputs, Product([Bernoulli(0.3, 3), Bernoulli(0.2, 4), Bernoulli(0.1, 4)]))
    linear = TwoLayerLinear(normal(1, 2, 3), normal(2, 2, 3))
    told = predictive(linear, inputs[:, :2], Bernoulli(0.3, 3), MonteCarlo(50, seed=1))
    found.append(same(told.mean.method, "Monte Carlo, 50 masks, no control", "a linear family", scale))
    module = nn.Sequential(linear_head(1, 3, 4), nn.Dropout(0.3), nn.Tanh(), nn.Dropout(0.2), linear_head(3, 4, 2))
    for samples, words in ((8, "exact sum over 16 early masks, last site integrated"), (7, None)):
        answer = predictive(module, inputs, None, MonteCarlo(samples, seed=1))
        exact = answer.mean.method == "exact sum over 16 early masks, last site integrated"
        found.append(same(exact, words is not None, f"{samples} masks of 16", scale))
    return found


def _classes_drawn(told: Predictive, parts: list[Outcome], samples: int, name: str, scale: float) -> list[Comparison]:
    """Class probabilities of drawn masks: means over them, the last mask listed, with Student intervals of 99 %."""
    shares, inside = [], []
    for _, affine in parts:
        assert affine.units is not None
        assert affine.law is not None
        masks, chances = (torch.cat(part) for part in zip(*affine.law.atom_batches(4096), strict=True))
        logits = affine.center + torch.einsum("mnj,nkj,pj->pmnk", *affine.units, masks - 1)
        soft = logits.softmax(-1)
        shares.append(torch.tensordot(chances, soft, 1))
        inside.append(torch.tensordot(chances, torch.special.entr(soft).sum(-1), 1))
    given = torch.cat(shares)
    mean = given.mean(0)
    entropy = torch.special.entr(mean).sum(-1)
    half = scipy.stats.t.ppf(0.995, samples - 1) * given.std(0) / math.sqrt(samples)
    classes = told.classes()
    words = f"exact sum over {masks.shape[0]} head masks, {samples} early masks drawn"
    found = [
        compare(classes.probabilities.value, "==", scale * mean, f"classes, {name}"),
        compare(classes.probabilities.lower, "==", scale * (mean - half).clamp_min(0), f"classes from below, {name}"),
        compare(classes.probabilities.upper, "==", scale * (mean + half).clamp_max(1), f"classes from above, {name}"),
        compare(classes.entropy.value, "==", scale * entropy, f"entropy, {name}"),
        compare(classes.mutual_information.value, "==", scale * (entropy - torch.cat(inside).mean(0)), f"told, {name}"),
    ]
    for part, confidence in zip(
        (classes.probabilities, classes.entropy, classes.mutual_information), (0.99, 0.0, 0.0), strict=True
    ):
        said = (part.method, part.cost, part.confidence)
        found.append(same(said, (words, samples, confidence), f"words of classes, {name}", scale))
    return found


def _coverage(model: ReLUNet, inputs: Tensor, masks: Product, seeds: int = 60) -> list[Comparison]:
    """Intervals of 99 % hold the mean and variance over all masks about that often, and are no wider than that takes.

    The share over `seeds` seeds has a standard error of sqrt(.01 .99 / seeds) or less; a normal interval of 99 % has a
    half width of 2.58 deviations of its center, which are measured to 1 / sqrt(2 seeds), some 9 %.
    """
    outputs, chances = _every(model, inputs, masks)
    mean = torch.tensordot(chances, outputs, 1)
    truth = torch.stack([mean, torch.tensordot(chances, (outputs - mean).square(), 1)])
    answers = [predictive(model, inputs, masks, MonteCarlo(60, seed=seed)) for seed in range(seeds)]
    value, lower, upper = (
        torch.stack([torch.stack([getattr(part, name) for part in (one.mean, one.variance)]) for one in answers])
        for name in ("value", "lower", "upper")
    )
    held = ((lower <= truth) & (truth <= upper)).double().mean()
    widths = ((upper - lower).mean(0) / 2 / (2.576 * value.std(0))).mean()
    return [
        compare(held, ">=", 0.99 - 4.5 * math.sqrt(0.01 * 0.99 / seeds), f"coverage of {seeds} seeds", precision=0.0),
        compare(widths, "==", 1.0, "half widths over those of a normal law", precision=0.3),
    ]


class _Tossing(nn.Module):
    """A head whose outputs are doubled or lost, by a coin for each example that no module throws."""

    def __init__(self) -> None:
        super().__init__()
        self.head = linear_head(1, 3, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(inputs) * (2 * torch.rand(len(inputs), 1).round() if self.training else 1.0)


def _seeds(scale: float) -> list[Comparison]:
    """What draws for itself draws anew for every seed: means of seeds differ as means of that many draws do."""
    module, inputs, samples = _Tossing(), normal(2, 60, 3), 16
    means = [predictive(module, inputs, method=MonteCarlo(samples, seed=seed)).mean.value for seed in (0, 1, 2, 3, 3)]
    ratio = float((torch.stack(means[:4]).var(0) * samples / module.head(inputs).square()).mean())
    spread = 4 * math.sqrt(2 / (3 * 60))  # four deviations of a mean of sixty, each of three degrees of freedom
    centers = torch.cat([part.center for _, part in predictive(module, inputs, method=MonteCarlo(9)).mixture()()])
    doubled = (centers / module.head(inputs) / 2).round()
    return [
        compare(centers, "==", scale * 2 * doubled * module.head(inputs), "each output is lost or doubled"),
        compare((doubled.std(0) > 0).double().mean(), ">=", 0.9, "now the one, now the other", precision=0.0),
        compare(ratio, ">=", 1 - spread, "as far apart as draws"),
        compare(ratio, "<=", 1 + spread, "and no farther"),
        compare(means[4], "==", scale * means[3], "a seed twice"),
    ]


def _refused(scale: float) -> list[Comparison]:
    """Models, inputs, masks and methods that do not fit, each in words that name it."""
    found: list[Comparison] = []
    net, inputs, law = _net()
    linear = TwoLayerLinear(normal(1, 2, 3), normal(2, 2, 3))
    module = nn.Sequential(linear_head(1, 3, 4), nn.Dropout(0.3), nn.Tanh(), linear_head(3, 4, 2))
    batch = TwoLayerLinear(normal(1, 6, 2, 3), normal(2, 6, 2, 3))
    coins, odd, single = Bernoulli(0.3, 3), normal(1, 4, 2), TwoLayerLinear(normal(1, 1, 3), normal(2, 2, 3))
    deep, whole = DeepLinear([normal(1, 2, 2), normal(2, 2, 2), normal(3, 2, 2)]), Block(0.3, 4, 4)
    pairs = Factorization(normal(1, 4, 3), normal(2, 3, 3))
    many = TwoLayerLinear(normal(1, 1, 30), normal(2, 2, 30))
    for name, call, words in (
        ("no law", lambda: predictive(net, inputs, None), "masks must be a droptics MaskLaw, got NoneType"),
        ("a law", lambda: predictive(module, inputs, coins), "masks must be None for a torch module"),
        ("rows", lambda: predictive(linear, odd[:0], coins), "inputs"),
        ("features", lambda: predictive(linear, inputs, coins), "inputs (columns)"),
        ("kind", lambda: predictive(linear, odd.float(), coins), "convert them with inputs.to"),
        ("large", lambda: predictive(linear, odd * 1e300, coins), "too large for torch.float64"),
        ("method", lambda: predictive(net, inputs, law, Certified()), "method"),
        ("method of a module", lambda: predictive(module, inputs, None, Closure()), "method"),
        ("batch", lambda: predictive(batch, odd, coins, MonteCarlo(9)), "one model at a time, got a batch"),
        ("batch of densities", lambda: predictive(batch, odd, coins).density(0.1), "one model at a time"),
        ("limit", lambda: predictive(net, inputs, law, Enumerate(63)), "64 masks, more than the limit 63"),
        ("one class", lambda: predictive(single, odd, coins).classes(), "at least two outputs"),
        ("batch of classes", lambda: predictive(batch, odd, coins).classes(), "one model at a time"),
        ("no list", lambda: predictive(linear, odd, Gaussian(0.3, 3), Enumerate()), "has no finite list of masks"),
        ("layers", lambda: predictive(deep, odd, whole), "one independent law per masked layer"),
        ("pairs", lambda: predictive(pairs, torch.zeros(5, 3).long(), coins), "pairs (row, column)"),
        ("many masks", lambda: predictive(many, odd, SlidingBlock(0.3, 30, 2)).density(1.0), "short list of masks"),
    ):
        found.append(refuses(call, words, f"refused, {name}"))
    found.append(same(fails(lambda: predictive(linear, odd, coins, Closure())), 1.0, "no ReLU network", scale))
    truth = _every(deep, odd, whole)
    mean, joined = torch.tensordot(truth[1], truth[0], 1), MonteCarlo(400, seed=3, confidence=0.999999)
    found.append(compare(predictive(deep, odd, whole, Enumerate()).mean.value, "==", scale * mean, "layers, listed"))
    drawn = predictive(deep, odd, whole, joined).mean
    found.append(compare(drawn.lower, "<=", mean, "layers, drawn from below"))
    found.append(compare(drawn.upper, ">=", mean, "layers, drawn from above"))
    for units in (16, 17):  # more than 2^16 masks of the early layers are no list
        wide = DeepLinear([normal(1, units, 2), normal(2, 2, units), normal(3, 2, 2)])
        answer = predictive(wide, odd, Product([Bernoulli(0.3, units), Bernoulli(0.2, 2)]))
        found.append(same(answer.outcomes is None, units > 16, f"a list of {units} units", scale))
    found.append(refuses(answer.mixture, "only the mean and the covariance of these outputs are known"))
    exactly = predictive(net, inputs, law, Enumerate(64))
    found.append(same(exactly.mean.cost, 64, "a list of just the limit", scale))
    listed = predictive(module, inputs, None, Enumerate(16))
    found.append(compare(listed.mean.cost, "==", scale * 16, "a short list"))
    found.append(same(fails(lambda: predictive(module, inputs, None, Enumerate(15))), 1.0, "a list too long", scale))
    found.append(same(fails(lambda: predictive(net, inputs, law, ClosedForm())), 0.0, "the closed form", scale))
    return found


def _functions(scale: float) -> list[Comparison]:
    """Functions that drop, by place and by name, with their defaults; attention and recurrent layers that do not."""
    found: list[Comparison] = []
    inputs = normal(4, 5, 4)
    calls: tuple[tuple[str, Any, list[tuple[str, float]]], ...] = (
        ("defaults", functional.dropout, [("dropout", 0.5)]),
        ("by place", lambda x: functional.dropout(x, 0.2, True), [("dropout", 0.2)]),
        ("by name", lambda x: functional.dropout(input=x, p=0.3, training=True), [("dropout", 0.3)]),
        ("off", lambda x: functional.dropout(x, 0.2, False), []),
        ("rate 0", lambda x: functional.dropout(x, 0.0), []),
        ("channels", lambda x: functional.dropout1d(x[:, None], 0.25)[:, 0], [("dropout1d", 0.25)]),
        ("alpha", lambda x: functional.alpha_dropout(x, 0.2), []),
        ("attention", lambda x: functional.scaled_dot_product_attention(x, x, x, dropout_p=0.1), [("attention", 0.1)]),
        ("no attention", lambda x: functional.scaled_dot_product_attention(x, x, x), []),
    )
    for name, call, sites in calls:

        class Calls(nn.Module):
            def forward(self, value: Tensor) -> Tensor:
                return call(value) * 1.0  # noqa: B023 - called before the next is made

        outputs, seen = run(Calls(), inputs)
        told = [(site.replace("_dropout", ""), rate) for site, rate, *_ in seen.calls]
        found.append(same((told, seen.drawing), (sites, []), f"sites, {name}", scale))
        quiet = functional.scaled_dot_product_attention(inputs, inputs, inputs) if "attention" in name else inputs
        found.append(compare(outputs, "==", scale * quiet, f"quiet, {name}"))

    class Alpha(nn.Module):
        def forward(self, value: Tensor) -> Tensor:
            return functional.alpha_dropout(value, 0.2, True) * 1.0

    for live in (False, True):
        torch.manual_seed(2)
        outputs, seen = run(Alpha(), inputs, live=live)
        torch.manual_seed(2)
        own = functional.alpha_dropout(inputs, 0.2, live)
        found.append(same(seen.drawing, ["alpha_dropout"], "draws for itself", scale))
        found.append(compare(outputs, "==", scale * own, f"alpha, live: {live}"))
    linear = nn.Linear(4, 2).double()
    _, seen = run(linear, inputs)
    assert seen.linear is not None
    source, weight, bias, result = seen.linear
    found.append(same((weight is linear.weight, bias is linear.bias), (True, True), "the last layer", scale))
    found.append(compare(result, "==", scale * (source @ linear.weight.mT + linear.bias), "what it returned"))
    return found
