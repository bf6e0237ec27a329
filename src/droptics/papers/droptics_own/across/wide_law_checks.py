"""What the claims on scans, wide laws, bounds and unfused layers compare, each against its definition."""

from __future__ import annotations

import itertools
import math
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional

from droptics.attacks import Averaged, Margin, Pgd, Threat, robust_accuracy
from droptics.audits import audit
from droptics.data import Entries, Measurements, Sample
from droptics.evidence.claims import Comparison, compare
from droptics.losses import CrossEntropy
from droptics.masks import Bernoulli, Block, Discrete, Gaussian, MaskLaw, Product, SlidingBlock
from droptics.models import Factorization, ReLUNet, TwoLayerLinear
from droptics.models.unfused import attention, recurrent
from droptics.optima import optimum
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.audits.audit_checks import every_coin, every_mask, mean_over, squared, stack
from droptics.papers.droptics_own.predictions.moment_checks import network_masks
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import descend, moments, normal, sample, simplex, sliding_masks, tensor
from droptics.penalties import penalty, risk
from droptics.predictions import predictive
from droptics.rates import Fit, Rates, tune_rates
from droptics.rates.copies import Problem, train_copies
from droptics.rates.examples import Examples
from droptics.rates.randomness import key


@cache
def _tuned() -> tuple[Rates, Problem]:
    """A scan with a design, a path and a guard, and the problem that its copies are trained on."""
    train_data, held = ((rows, (rows @ normal(9, 3) > 0).long()) for rows in (normal(1, 16, 3), normal(2, 60, 3)))
    module, fit = stack((3, 4, 4, 2), (0.3, 0.2), nn.Tanh), Fit(10, 16, "sgd", 1.0, stop="last", looks=1, tail=1)
    answer = tune_rates(
        module, train_data, held, fit=fit, scan=(0.1, 0.9), repeats=2, split="factorial", guard=2, progress=False
    )
    examples, others = (
        Examples.of(data, name, torch.device("cpu")) for data, name in ((train_data, "train"), (held, "validation"))
    )
    return answer, Problem(module, examples, examples, others, CrossEntropy(), fit, {})


def trained_rates(scale: float) -> list[Comparison]:
    """A scan by trained copies: losses of single copies, means over seeds, effects of a design, rates that are set.

    Half of the held examples, drawn, choose a rate per site, and the other half judges it on fresh seeds.
    """
    found: list[Comparison] = []
    answer, problem = _tuned()
    seeds, fresh = ([key(0, stage, number) for number in range(2)] for stage in ("scan", "guard"))
    everyone = torch.arange(60)
    choosing, judging = torch.randperm(60, generator=torch.Generator().manual_seed(0)).tensor_split(2)
    stages = {"scan": (seeds, everyone, 2), "design": (seeds, choosing, 4), "path": (seeds, choosing, 4)}
    for stage, (drawn, seen, count) in (stages | {"guard": (fresh, judging, 2)}).items():
        points = [point for point in answer.points if point.stage == stage]
        found.append(compare(len(points), "==", count, f"copies of the {stage}"))
        for point in points:
            rows = [train_copies(problem, [dict(point.rates)], seed, "population")[0] for seed in drawn]
            losses = tensor([row["losses"] for row in rows])[:, seen]
            found.append(compare(point.loss or 0.0, "==", scale * losses.mean(), f"loss, {stage}", precision=1e-9))
            if stage == "scan":
                error = (losses.mean(0).var() / 60 + losses.mean(1).var() / 2).sqrt()
                found.append(compare(point.error or 0.0, "==", scale * error, "its error"))
    tied = [point for point in answer.points if point.stage == "scan"]
    scanned = [list(point.rates.values()) for point in tied]
    found.append(compare(scanned, "==", scale * tensor([[0.1, 0.1], [0.9, 0.9]]), "rates of the scan"))
    least = min(tied, key=lambda point: point.loss or math.inf)
    found.append(compare(answer.best, "==", scale * least.rate, "the tied rate of least loss"))
    designed = [point for point in answer.points if point.stage == "design"]
    odds = math.log(answer.best / (1 - answer.best))
    for name in ("2", "5"):
        level = [math.log(point.rates[name] / (1 - point.rates[name])) - odds for point in designed]
        found.append(compare([abs(one) for one in level], "==", scale * 0.7, f"levels of {name}"))
        effect = sum(sign * (point.loss or 0.0) for sign, point in zip(level, designed, strict=True))
        site = next(site for site in answer.sites if site.name == name)
        wanted = effect / len(designed) / 0.7**2
        found.append(compare(site.effect or 0.0, "==", scale * wanted, f"effect of {name}", precision=1e-8))
    changed = stack((3, 4, 4, 2), (0.3, 0.2), nn.Tanh)
    answer.apply(changed)
    rates = [layer.p for layer in changed if isinstance(layer, nn.Dropout)]
    found.append(compare(rates, "==", [answer.rates["2"], answer.rates["5"]], "rates that are set"))
    return found


def wide_laws(scale: float) -> list[Comparison]:
    """Means, covariances, bounds and rarest outcomes of laws, by their lists or draws; laws of many units by bands."""
    found: list[Comparison] = []
    listed = tensor([[1.0, 0, 2], [0, 1, 1], [2, 1, 0]])
    never, rare = torch.cat([listed, tensor([[9.0, 9.0, 9.0]])]), tensor([0.5, 0.2, 0.3, 0.0])
    pairs, shares = every_coin([0.3, 0.2])
    mixed, odds = every_coin([0.3, 0.3, 0.4])
    cases: dict[str, tuple[MaskLaw, Tensor, Tensor]] = {
        "coins": (Bernoulli(tensor([0.3, 0.1, 0.5]), 3), *every_coin([0.3, 0.1, 0.5])),
        "blocks": (Block(tensor([0.3, 0.2]), 4, 2), pairs.repeat_interleave(2, 1), shares),
        "sliding": (SlidingBlock(0.3, 4, 2), *sliding_masks(0.3, 4, 2)),
        "sliding within": (SlidingBlock(0.3, 5, 2, "valid"), *sliding_masks(0.3, 5, 2, clipped=False)),
        "listed": (Discrete(listed, simplex(1, 3)), listed, simplex(1, 3)),
        "listed, one never": (Discrete(never, rare), never, rare),
        "samples": (Discrete.from_samples(listed[[0, 1, 1, 2]]), listed, tensor([0.25, 0.5, 0.25])),
        "product": (Product([Bernoulli(0.3, 2), Block(tensor([0.4]), 2, 2)]), mixed[:, [0, 1, 2, 2]], odds),
    }
    for name, (law, raw, weight) in cases.items():
        atoms, own = (torch.cat(part) for part in zip(*law.atom_batches(4096), strict=True))
        found.append(compare(own.sum(), "==", 1.0, f"probabilities, {name}"))
        masks, chances = raw / (weight @ raw), weight
        for power in (1, 2, 3):
            wanted = torch.tensordot(weight, masks**power, 1)
            found.append(compare(torch.tensordot(own, atoms**power, 1), "==", wanted, f"its list, {power}, {name}"))
        mean = weight @ raw
        moved = masks - 1
        found.append(compare(law.mean, "==", scale * mean, f"mean, {name}"))
        characteristic = (chances[:, None] * moved).mT @ moved
        found.append(compare(law.characteristic, "==", scale * characteristic, f"covariance, {name}"))
        centered = raw - mean
        found.append(compare(law.covariance, "==", (weight[:, None] * centered).mT @ centered, f"of masks, {name}"))
        found.append(compare(law.relative_variance, "==", characteristic.diagonal(), f"variances, {name}"))
        assert law.bound is not None
        found.append(compare(law.bound, "==", masks[chances > 0].abs().amax(0), f"bound, {name}"))
        for lag in range(law.size):
            band = torch.diagonal(characteristic, lag)
            found.append(compare(law.diagonal(lag), "==", band, f"band {lag}, {name}"))
        G = normal(2, law.size, law.size)
        found.append(
            compare(law.weigh(G @ G.mT), "==", scale * (characteristic * (G @ G.mT)).sum(), f"weighed, {name}")
        )
        rows = law.directions
        found.append(compare(rows.mT @ rows, "==", characteristic, f"directions, {name}"))
        drawn = law.sample(4000, torch.Generator().manual_seed(1))
        error = 5 * float(raw.abs().max()) / 4000**0.5
        found.append(compare(drawn.mean(0), "==", mean, f"draws, {name}", precision=error))
        cross = drawn.mT @ drawn / 4000
        found.append(compare(cross, "==", (weight[:, None] * raw).mT @ raw, f"pairs, {name}", precision=2 * error))
        found += _drawn(drawn, raw, weight, name)
    noise = Gaussian(tensor([0.3, 0.1, 0.5]), 3)
    found.append(compare(noise.characteristic, "==", scale * torch.diag(tensor([0.3, 0.1, 0.5])), "normal noise"))
    drawn = noise.multipliers(4000, torch.Generator().manual_seed(2))
    found.append(
        compare(drawn.var(0), "==", tensor([0.3, 0.1, 0.5]), "its variance", precision=5 * 0.5 * (2 / 4000) ** 0.5)
    )
    return found + _many_units(scale)


def _drawn(drawn: Tensor, raw: Tensor, weight: Tensor, name: str) -> list[Comparison]:
    """Every draw is of the list, and each mask as often as it should be, within five standard errors."""
    rows, places = raw.unique(dim=0, return_inverse=True)
    shares = torch.zeros(len(rows)).double().index_add_(0, places, weight)
    often = (drawn[:, None] == rows).all(-1).double().mean(0)
    errors = 5 * (shares * (1 - shares) / len(drawn)).sqrt()
    return [
        compare(often.sum(), "==", 1.0, f"draws are in the list, {name}"),
        compare((often - shares).abs(), "<=", errors, f"each as often as it should be, {name}"),
    ]


def _many_units(scale: float) -> list[Comparison]:
    """Sums over pairs of units that are too many for a matrix: over neighbors, and over blocks."""
    found: list[Comparison] = []
    size = 2100
    wide = SlidingBlock(0.2, size, 3)
    vectors = normal(3, 2, size)
    # lag + 1 neighbors lie together in 3 - lag blocks, at the ends too
    total = (0.8**-3 - 1) * vectors.square().sum(1)
    for lag in (1, 2):
        total = total + 2 * (0.8 ** (lag - 3) - 1) * (vectors[:, :-lag] * vectors[:, lag:]).sum(1)
    weighed = wide.weigh(vectors[:, :, None] * vectors[:, None, :])
    found.append(compare(weighed, "==", scale * total, "many units"))
    found.append(compare((wide.correlate(vectors) * vectors).sum(1), "==", scale * total, "many units, by bands"))
    rates, heads = torch.linspace(0.1, 0.6, size // 3).double(), normal(4, 2, size)
    blocks, own = Block(rates, size, 3), (vectors[:, None] * heads).unflatten(-1, (-1, 3)).sum(-1)
    found.append(
        compare(
            (blocks.correlate(vectors, heads) * vectors).sum(1),
            "==",
            scale * (own.square() @ (rates / (1 - rates))).sum(1),
            "many blocks of their own rates, behind two outputs",
        )
    )
    together = blocks.weigh(vectors[0][:, None] * vectors[0])
    sums = vectors[0].unflatten(-1, (-1, 3)).sum(-1)
    found.append(compare(together, "==", scale * sums.square() @ (rates / (1 - rates)), "many blocks, weighed"))
    return found


def large_heads(scale: float) -> list[Comparison]:
    """Classes of a head with many units, densities of listed and joint masks, and gradients of exact penalties."""
    found: list[Comparison] = []
    for seed, rate, steep in ((1, 0.2, 0.5), (5, 0.35, 0.5), (9, 0.1, 0.5), (3, 0.35, 30.0), (4, 0.1, 30.0)):
        module, inputs = stack((3, 12, 3), (rate,), nn.Tanh, seed), normal(seed, 4, 3)
        first, _, _, last = module
        assert isinstance(first, nn.Linear)
        assert isinstance(last, nn.Linear)
        first.weight.data *= steep  # units of 30 times the slope are all near -1 or 1: none carries much of a logit
        last.weight.data /= 2
        with torch.no_grad():
            outputs, chances = every_mask(module, inputs, {2: rate})
            told = predictive(module, inputs).classes(512).probabilities
            shares, squares = (torch.tensordot(chances, outputs.softmax(-1) ** k, dims=1) for k in (1, 2))
        nearly_normal = told.method.startswith("head exact, Gaussian logits")
        found.append(same(nearly_normal, steep > 1, f"normal logits, {rate}, {seed}"))
        found.append(compare(told.value, "==", scale * shares, f"classes at {rate}, {seed}", precision=0.02))
        if not nearly_normal:
            error = ((squares - shares.square()).clamp_min(0) / 512).sqrt()
            found.append(compare((told.value - shares).abs(), "<=", 5 * error, f"drawn masks at {rate}, {seed}"))
    model, x = TwoLayerLinear(normal(2, 1, 3), normal(3, 2, 3)), normal(4, 3, 2)
    listed, weights = tensor([[1.0, 0, 2], [0, 1, 1], [2, 1, 0]]), simplex(5, 3)
    law = Discrete(listed, weights)
    noise, y = 0.5, normal(6, 3, 1)
    centers = (x @ model.V) * (listed / (weights @ listed))[:, None, :] @ model.U.mT
    bell = torch.exp(-((y - centers) / noise).square() / 2) / noise / math.sqrt(2 * math.pi)
    likelihood = torch.tensordot(weights, bell, dims=1).log()
    ours = predictive(model, x, law)
    found.append(compare(ours.log_likelihood(y, noise), "==", likelihood - math.log(scale), "listed masks"))
    found.append(compare(ours.density(noise).pdf(y), "==", scale * likelihood.exp(), "their density"))
    rates = [0.3, 0.1, 0.2, 0.4, 0.25]
    net = ReLUNet([normal(7, 2, 5), normal(8, 1, 2)], [normal(9, 2), normal(10, 1)])
    data = Sample(normal(11, 3, 5), normal(12, 3, 1))
    joint = Product([Bernoulli(tensor(rates), 5), Bernoulli(0.3, 2)])
    leaves = [part.clone().requires_grad_() for part in (*net.weights, *net.biases)]
    moving = ReLUNet(leaves[:2], leaves[2:])
    slopes = torch.autograd.grad(penalty(moving, data, joint).value, leaves)
    outputs, chances = network_masks(moving, data.inputs, [rates, [0.3, 0.3]])
    plain = (moving.outputs(data.inputs) - data.targets).square().sum(-1).mean()
    truth = chances @ (outputs - data.targets).square().sum(-1).mean(-1) - plain
    for ours_slope, slope in zip(slopes, torch.autograd.grad(truth, leaves), strict=True):
        found.append(compare(ours_slope, "==", scale * slope, "gradient of a penalty"))
    return found


def searched_optima(scale: float) -> list[Comparison]:
    """Optima and bounds of correlated laws and of entries against a general search."""
    found: list[Comparison] = []
    population = moments(1, 2, 3)
    atoms, odds = tensor([[1.0, 0, 1], [0, 1, 1], [1, 1, 0]]), simplex(2, 3)
    correlated, relative = Discrete(atoms, odds), atoms / (odds @ atoms) - 1
    spread = torch.einsum("t,ti,tj->ij", odds, relative, relative)

    def value(U: Tensor, V: Tensor) -> Tensor:
        W = U @ V.mT
        gram = (U.mT @ U) * (V.mT @ population.xx @ V)
        error = population.yy.trace() - 2 * (W * population.yx).sum() + ((W @ population.xx) * W).sum()
        return error + scale * (spread * gram).sum()

    least, _ = descend(value, [(2, 3), (3, 3)], starts=2)
    best = optimum(TwoLayerLinear, population, correlated)
    found.append(compare(best.objective, "==", least, "correlated masks", precision=1e-6))
    found.append(compare(value(*best.model.tensors), "==", least, "their network", precision=1e-6))
    found.append(compare(best.bound, "<=", least, "their bound"))
    rows, columns = torch.tensor([0, 1, 2, 2, 0, 1]), torch.tensor([0, 1, 0, 1, 1, 0])
    values, law = normal(3, 6), Bernoulli(0.3, 2)
    entries = Entries(rows, columns, values, (3, 2))

    def of_entries(U: Tensor, V: Tensor) -> Tensor:
        parts = U[rows] * V[columns]
        return (parts.sum(1) - values).square().mean() + scale * 0.3 / 0.7 * parts.square().sum(1).mean()

    least, _ = descend(of_entries, [(3, 2), (2, 2)], starts=2)
    told = optimum(Factorization, entries, law)
    found.append(compare(told.objective, ">=", least - 1e-7, "entries: no lower than a search"))
    found.append(compare(told.objective, "==", least, "entries", precision=1e-5))
    found.append(compare(of_entries(*told.model.tensors), "==", least, "entries: the factors", precision=1e-5))
    found.append(compare(told.bound, "<=", least + 1e-7, "entries: bound"))
    return found


class Pooled(nn.Module):
    """A convolution, dropout of single places, a mean over places, a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.slide, self.drop, self.last = nn.Conv1d(1, 2, 2), nn.Dropout(0.3), nn.Linear(2, 2)
        with torch.no_grad():
            for number, value in enumerate(self.parameters()):
                value.copy_(normal(60 + number, *value.shape))

    def forward(self, inputs: Tensor) -> Tensor:
        """Means over places."""
        return self.last(self.drop(torch.tanh(self.slide(inputs[:, None]))).mean(-1))


@torch.no_grad()
def audited_tails(scale: float) -> list[Comparison]:
    """Sites with an affine tail, sites drawn within a budget, unfused attention and recurrent layers."""
    found: list[Comparison] = []
    module, data = Pooled().double(), sample(1, 10, 4, 2)
    report = audit(module, data, rates=(0.6,), batch_size=4)
    (site,) = report.sites
    maps = torch.tanh(module.slide(data.inputs[:, None]))
    coins, chances = every_coin([0.3] * 6)
    for rate, told in ((0.3, site.penalty), (0.6, site.curve[0].penalty)):
        coins, chances = every_coin([rate] * 6)
        masks = (coins / (1 - rate)).reshape(-1, 1, 2, 3)
        outputs = module.last((maps * masks).mean(-1))
        plain = squared(data.targets)(module.last(maps.mean(-1)))
        assert told is not None
        found.append(
            compare(
                told.value,
                "==",
                scale * (mean_over((outputs, chances), squared(data.targets)) - plain),
                f"an affine tail at {rate}",
            )
        )
        found.append(compare([float(told.lower), float(told.upper)], "==", float(told.value), "and no interval"))
    deep = stack((3, 4, 4, 2), (0.2, 0.3), nn.Tanh, seed=5)
    wanted = sample(6, 20, 3, 2)
    error = squared(wanted.targets)
    base = error(deep.eval()(wanted.inputs))
    truths = [
        scale * float((mean_over(every_mask(deep, wanted.inputs, {place: rate}), error) - base).detach())
        for place, rate in ((2, 0.2), (5, 0.3))
    ]
    drawn = []
    for seed in range(8):
        early, late = (item.penalty for item in audit(deep, wanted, rates=(), budget=60, seed=seed).sites)
        assert early is not None
        assert late is not None
        drawn.append([early.lower, early.value, early.upper])
        found.append(compare(late.value, "==", truths[1], f"the last site is exact, seed {seed}"))
    lower, middle, upper = tensor(drawn).unbind(1)
    found.append(compare(lower, "<=", truths[0], "drawn sites from below, each of 8 at 99 %"))
    found.append(compare(upper, ">=", truths[0], "from above"))
    apart = middle.std() / math.sqrt(8)
    found.append(compare((middle.mean() - truths[0]).abs() / apart, "<=", 5.0, "their mean, in standard errors"))
    # no wider than the scatter of the draws asks for: 2.95 standard errors are 99 % of Student's 15 degrees of freedom
    found.append(compare(((upper - lower) / 2).mean(), "<=", 6 * middle.std(), "no wider than their scatter"))
    query, keys, values = (normal(10 + i, 2, 3, 4, 5) for i in range(3))
    for causal in (False, True):
        ours = attention(query, keys, values, is_causal=causal, masking=lambda weights: weights)
        torchs = functional.scaled_dot_product_attention(query, keys, values, is_causal=causal)
        found.append(compare(ours, "==", scale * torchs, f"attention, causal {causal}"))
    lstm = nn.LSTM(3, 4, 2, batch_first=True).double()
    x, state = normal(20, 2, 5, 3), (normal(21, 2, 2, 4), normal(22, 2, 2, 4))
    flat = [getattr(lstm, name) for layer in lstm._all_weights for name in layer]
    given = [x, state, flat, True, 2, 0.0, False, False, True]
    ours, *ends = recurrent(torch.lstm, given, lambda inputs: inputs)
    torchs, last = lstm(x, state)
    found.append(compare(ours, "==", scale * torchs, "recurrent layers"))
    for end, state_there in zip(ends, last, strict=True):
        found.append(compare(end, "==", scale * state_there, "their last states"))
    doubled = recurrent(torch.lstm, given, lambda inputs: 2 * inputs)[0]
    one_layer = nn.LSTM(3, 4, 1, batch_first=True).double()
    other_layer = nn.LSTM(4, 4, 1, batch_first=True).double()
    for layer, number in ((one_layer, 0), (other_layer, 1)):
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            getattr(layer, f"{name}_l0").copy_(getattr(lstm, f"{name}_l{number}"))
    below = one_layer(x, (state[0][:1], state[1][:1]))[0]
    above = other_layer(2 * below, (state[0][1:], state[1][1:]))[0]
    return [*found, compare(doubled, "==", above, "masks between layers")]


def random_networks(scale: float) -> list[Comparison]:
    """Robust accuracy of a network that stays random is that of its mean prediction; measurements by their optimum."""
    found: list[Comparison] = []
    linear = TwoLayerLinear(normal(1, 1, 4), normal(2, 3, 4))
    w = linear.matrix()[0]
    data = Sample(normal(3, 40, 3), torch.where(torch.arange(40) % 2 > 0, 1.0, -1.0).double()[:, None])
    mean = Averaged.of(linear, Bernoulli(tensor([0.3, 0.1, 0.6, 0.4]), 4))
    for threat, reach in ((Threat("linf", 0.15), w.abs().sum()), (Threat("l2", 0.3), 2 * w.norm())):
        told = robust_accuracy(mean, data, threat, [Pgd(Margin(), steps=10)])
        margins = data.targets[:, 0] * (data.inputs @ w) - scale * 0.15 * reach
        label = f"robust accuracy of a mean, {threat.norm}"
        found.append(compare(told.robust.value, "==", (margins > 0).double().mean(), label))
    noisy, points = Gaussian(tensor([0.3, 0.1, 0.6, 0.4]), 4), data.inputs[:3]
    two = TwoLayerLinear(normal(8, 2, 4), normal(9, 3, 4))
    for seed in (1, 2):  # with outputs of two classes a mean over the masks that the seed draws
        drawn = noisy.multipliers(6, torch.Generator().manual_seed(seed))
        shares = torch.stack([(scale * two.outputs(points, mask)).softmax(-1) for mask in drawn]).mean(0)
        again = Averaged.of(two, noisy, draws=4).again(6, seed)(points)
        found.append(compare(again.exp(), "==", shares, f"looked at again by seed {seed}"))
        module = nn.Sequential(nn.Dropout(0.3), linear_head(11, 3, 2))
        parts = []
        with torch.random.fork_rng(devices=[]):
            for draw, point in itertools.product(range(6), points):
                torch.manual_seed(seed + draw)  # one mask for all examples
                parts.append((scale * module(point[None])).softmax(-1))
        shares = torch.cat(parts).reshape(6, -1, 2).mean(0).detach()
        again = Averaged.of(module.eval(), draws=4).again(6, seed)(points)
        found.append(compare(again.detach().exp(), "==", shares, f"a module looked at again by seed {seed}"))
    # an orthogonal design: every entry, in its own units
    A, seen = 6**0.5 * torch.eye(6, dtype=torch.float64).reshape(6, 2, 3), normal(5, 6)
    given, law = Measurements(A, seen), Bernoulli(0.3, 2)

    def value(U: Tensor, V: Tensor) -> Tensor:
        parts = torch.einsum("nij,ik,jk->nk", A, U, V)
        return (parts.sum(1) - seen).square().mean() + scale * 0.3 / 0.7 * parts.square().sum(1).mean()

    least, _ = descend(value, [(2, 2), (3, 2)], starts=2)
    best = optimum(Factorization, given, law)
    found.append(compare(best.objective, "==", least, "measurements", precision=1e-5))
    found.append(compare(best.bound, "<=", least + 1e-7, "their bound"))
    assert isinstance(best.model, Factorization)
    whole = risk(best.model, given) + penalty(best.model, given, law).value
    return [*found, compare(best.objective, "==", whole, "criterion of the optimum", precision=1e-7)]
