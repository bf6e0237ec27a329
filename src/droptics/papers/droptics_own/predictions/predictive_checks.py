"""What the claims on masked predictions compare: the exact rules against sums over all masks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from droptics.data import Sample
from droptics.evidence.claims import Comparison, compare
from droptics.heads.ridge import DropoutRidge
from droptics.layers import VarianceHead
from droptics.masks import Bernoulli, Block, Discrete, Gaussian, MaskLaw, Product, SlidingBlock
from droptics.models import Connections, DeepLinear, Factorization, Model, ReLUNet, TwoLayerLinear
from droptics.papers.instances import coin_masks, normal, sample, simplex, tensor
from droptics.penalties import Enumerate, penalty, relu_criterion
from droptics.penalties.relu.output_moments import relu_output_moments
from droptics.predictions import Predictive, predictive

INPUTS, OUTPUTS = 4, 3


def _listed(model: Model, inputs: Tensor, masks: MaskLaw) -> tuple[Tensor, Tensor]:
    """Mean and covariance of the outputs by the definition, one mask after another."""
    values = torch.stack([model.outputs(inputs, multipliers) for multipliers, _ in masks.atoms()])
    chances = tensor([chance for _, chance in masks.atoms()])
    mean = torch.einsum("t,tnk->nk", chances, values)
    return mean, torch.einsum("t,tnk,tnl->nkl", chances, values - mean, values - mean)


def linear_covariance(scale: float) -> list[Comparison]:
    """Covariance of every linear family against the list of masks, and its mean trace against the penalty."""
    plain = sample(1, 5, INPUTS, OUTPUTS)
    data = Sample(plain.inputs, plain.targets, 3 * simplex(10, 5))
    two_layer = TwoLayerLinear(normal(2, OUTPUTS, 6), normal(3, INPUTS, 6))
    connections = Connections(normal(4, OUTPUTS, 2), normal(5, INPUTS, 2))
    laws: list[tuple[Model, MaskLaw]] = [
        (two_layer, Bernoulli(torch.linspace(0.0, 0.8, 6).double(), 6)),
        (two_layer, Block(0.4, 6, 3)),
        (two_layer, SlidingBlock(0.2, 6, 2)),
        (two_layer, Discrete(normal(6, 9, 6) + 2, torch.arange(1, 10).double() / 45)),
        (connections, Bernoulli(torch.linspace(0.7, 0.0, 8).double(), 8)),
    ]
    found = []
    for model, law in laws:
        moments = predictive(model, data.inputs, law)
        name = f"{type(model).__name__}, {type(law).__name__}"
        mean, covariance = _listed(model, data.inputs, law)
        found.append(compare(moments.mean.value, "==", mean, f"mean, {name}", precision=1e-12))
        found.append(
            compare(scale * moments.covariance.value, "==", covariance, f"covariance, {name}", precision=1e-12)
        )
        variance = scale * torch.diagonal(covariance, dim1=1, dim2=2)
        found.append(compare(moments.variance.value, "==", variance, f"variance, {name}", precision=1e-12))
        none, one = torch.zeros(model.units).double(), torch.eye(model.units).double()
        clean = model.outputs(data.inputs, none + 1)
        found.append(compare(mean, "==", clean, f"f(x; 1), {name}", precision=1e-12))
        g = torch.stack([model.outputs(data.inputs, z) - model.outputs(data.inputs, none) for z in one])
        stated = scale * torch.einsum("ij,ink,jnl->nkl", _spread(law), g, g)
        found.append(compare(stated, "==", covariance, f"sum_ij Cbar_ij g_i g_j^T, {name}", precision=1e-12))
        trace = scale * data.shares @ covariance.diagonal(dim1=1, dim2=2).sum(-1)
        found.append(compare(trace, "==", penalty(model, data, law), f"trace, {name}", precision=1e-12))
    factors, pairs = Factorization(normal(7, 5, 3), normal(8, 4, 3)), torch.tensor([[0, 0], [4, 3], [2, 1]])
    _, covariance = _listed(factors, pairs, Bernoulli(0.25, 3))
    for kind in (torch.int64, torch.int32, torch.int16, torch.uint8):
        value = scale * predictive(factors, pairs.to(kind), Bernoulli(0.25, 3)).covariance.value
        found.append(compare(value, "==", covariance, f"covariance, Factorization, {kind}", precision=1e-12))
    normals = Gaussian(tensor([0.1, 0.5, 0.0, 0.9, 0.2, 0.3]), 6)
    noisy = predictive(two_layer, data.inputs, normals)
    units = torch.einsum("nj,kj->jnk", data.inputs @ two_layer.V, two_layer.U)
    wanted = scale * torch.einsum("j,jnk,jnl->nkl", normals.variance, units, units)
    found.append(compare(noisy.covariance.value, "==", wanted, "covariance, normal noise", precision=1e-12))
    found.append(compare(noisy.mean.value, "==", units.sum(0), "mean, normal noise", precision=1e-12))
    return found + _deployed(scale)


def _deployed(scale: float) -> list[Comparison]:
    """Mean and deviation of the layer for deployment and of the estimator, against the list of masks of a head."""
    head = nn.Linear(INPUTS, OUTPUTS).double()
    with torch.no_grad():
        head.weight.copy_(normal(11, OUTPUTS, INPUTS))
    inputs, drop = normal(13, 5, INPUTS), 0.3
    masks = [(kept / (1 - drop), chance) for kept, chance in coin_masks([drop] * INPUTS)]
    chances = tensor([chance for _, chance in masks])
    fitted = DropoutRidge(drop).fit(inputs.numpy(), normal(14, 5).numpy())
    weights = torch.cat([head.weight.detach(), torch.from_numpy(fitted.coef_)[None]])
    moves = torch.stack([(inputs * (mask - 1)) @ weights.mT for mask, _ in masks])
    variance = torch.einsum("t,tnk->nk", chances, moves.square())
    clean = inputs @ weights.mT + torch.cat([head.bias.detach(), tensor([float(fitted.intercept_)])])
    with torch.no_grad():
        mean, shown = VarianceHead(head, drop)(inputs)
    rates = tensor([0.1, 0.0, 0.6, 0.4])
    with torch.no_grad():
        full = VarianceHead(head, rates, full=True)(inputs)[1]
    listed = _listed(TwoLayerLinear(weights[:-1], torch.eye(INPUTS).double()), inputs, Bernoulli(rates, INPUTS))[1]
    center, told = (torch.from_numpy(part) for part in fitted.predict(inputs.numpy(), return_std=True))
    return [
        compare(mean, "==", scale * clean[:, :-1], "mean, VarianceHead", precision=1e-12),
        compare(center, "==", scale * clean[:, -1], "mean, DropoutRidge", precision=1e-12),
        compare(scale * shown, "==", variance[:, :-1], "variance, VarianceHead", precision=1e-12),
        compare(scale * full, "==", listed, "covariance, VarianceHead", precision=1e-12),
        compare(scale * told.square(), "==", variance[:, -1], "squared deviation, DropoutRidge", precision=1e-10),
    ]


def deep_covariance(scale: float) -> list[Comparison]:
    """Deep linear networks, independent units and any law per layer: the stated recursions, the library, all masks."""
    found = []
    coins = [Bernoulli(0.2, INPUTS), Bernoulli(0.4, 3), Bernoulli(tensor([0.1, 0.6]), 2)]
    mixed = [SlidingBlock(0.2, INPUTS, 2), Discrete(normal(5, 3, 3) + 3, torch.ones(3) / 3), Block(0.3, 2, 2)]
    narrow = [Bernoulli(0.5, 1), Bernoulli(tensor([0.0, 0.9, 0.3]), 3)]
    wide = tensor([0.4, 0.1])
    cases: tuple[tuple[str, list[int], bool, list[MaskLaw]], ...] = (
        ("coins", [INPUTS, 3, 2, OUTPUTS], True, [*coins]),
        ("any law", [INPUTS, 3, 2, OUTPUTS], True, [*mixed]),
        ("narrow, plain inputs", [INPUTS, 1, 3, OUTPUTS], False, [*narrow]),
        ("any law, plain inputs", [INPUTS, 3, 4, OUTPUTS], False, [SlidingBlock(0.3, 3, 2), Block(wide, 4, 2)]),
        ("coins and blocks", [INPUTS, 3, 2, OUTPUTS], True, [coins[0], mixed[1], coins[2]]),
    )
    for name, sizes, masked, laws in cases:
        weights = [normal(1 + k, sizes[k + 1], sizes[k]) for k in range(len(sizes) - 1)]
        inputs = sample(4, 5, INPUTS, OUTPUTS).inputs
        told = predictive(DeepLinear(weights, mask_inputs=masked), inputs, Product(laws))
        mean, covariance = _passed(weights, inputs, laws, masked)
        stated = scale * _injected(weights, inputs, laws, masked)
        found.append(compare(told.mean.value, "==", mean, f"mean, {name}", precision=1e-12))
        found.append(compare(told.covariance.value, "==", scale * covariance, f"covariance, {name}", precision=1e-12))
        variance = scale * torch.diagonal(covariance, dim1=1, dim2=2)
        found.append(compare(told.variance.value, "==", variance, f"variance, {name}", precision=1e-12))
        found.append(compare(stated, "==", covariance, f"E + Cbar o (E + h h^T), {name}", precision=1e-12))
        if all(isinstance(law, Bernoulli) for law in laws):
            variances = scale * _injected_variances(weights, inputs, laws, masked)
            found.append(compare(variances, "==", covariance, f"variances alone, {name}", precision=1e-12))
    return found


def _passed(weights: list[Tensor], inputs: Tensor, laws: list[MaskLaw], masked: bool) -> tuple[Tensor, Tensor]:
    """Mean and covariance of a deep linear network, one mask after another."""
    values, chances = [], []
    for drawn in itertools.product(*(list(law.atoms()) for law in laws)):
        hidden, masks = inputs, [mask for mask, _ in drawn]
        masks = masks if masked else [torch.ones(inputs.shape[1]).double(), *masks]
        for mask, weight in zip(masks, weights, strict=True):
            hidden = (hidden * mask) @ weight.mT
        values.append(hidden)
        chances.append(math.prod(chance for _, chance in drawn))
    odds, outputs = tensor(chances), torch.stack(values)
    mean = torch.einsum("t,tnk->nk", odds, outputs)
    return mean, torch.einsum("t,tnk,tnl->nkl", odds, outputs - mean, outputs - mean)


def _spread(law: MaskLaw) -> Tensor:
    """Covariance Cbar of multipliers with mean one, from the list of them."""
    moves = torch.stack([mask for mask, _ in law.atoms()]) - 1
    return torch.einsum("t,ti,tj->ij", tensor([chance for _, chance in law.atoms()]), moves, moves)


def _injected(weights: list[Tensor], inputs: Tensor, laws: list[MaskLaw], masked: bool) -> Tensor:
    """E becomes E + Cbar o (E + h h^T) at a mask and W E W^T at a layer."""
    spreads = [_spread(law) for law in laws]
    spreads = spreads if masked else [torch.zeros(inputs.shape[1], inputs.shape[1]).double(), *spreads]
    h, E = inputs, torch.zeros(len(inputs), inputs.shape[1], inputs.shape[1]).double()
    for Cbar, W in zip(spreads, weights, strict=True):
        E = W @ (E + Cbar * (E + h[:, :, None] * h[:, None])) @ W.mT
        h = h @ W.mT
    return E


def _injected_variances(weights: list[Tensor], inputs: Tensor, laws: list[MaskLaw], masked: bool) -> Tensor:
    """n_l = lambda_l o (h_l^2 + sum_m (A_lm o A_lm) n_m), which the layers above map to the outputs."""
    rates = [_spread(law).diagonal() for law in laws]
    rates = rates if masked else [torch.zeros(inputs.shape[1]).double(), *rates]
    h, noise = inputs, list[Tensor]()
    for layer, rate in enumerate(rates):
        maps = [_between(weights, m, layer) for m in range(layer)]
        noise.append(rate * (h.square() + sum(n @ A.square().mT for A, n in zip(maps, noise, strict=True))))
        h = h @ weights[layer].mT
    out = [_between(weights, m, len(weights)) for m in range(len(weights))]
    return torch.stack([(A * n[:, None]) @ A.mT for A, n in zip(out, noise, strict=True)]).sum(0)


def _between(weights: list[Tensor], start: int, end: int) -> Tensor:
    """The map of the layers from `start` to before `end`."""
    whole = torch.eye(weights[start].shape[1]).double()
    for weight in weights[start:end]:
        whole = weight @ whole
    return whole


def mixture(with_centers: bool) -> list[Comparison]:
    """E Q + Cov c of a ReLU network, written out and by the library, against all masks; the control has no Cov c."""
    model, data, law = _relu()
    moments = predictive(model, data.inputs, law)
    mean, covariance = _listed(model, data.inputs, law)
    assert moments.outcomes is not None
    noise = sum(
        (torch.tensordot(chances, outputs.covariance(), dims=1) for chances, outputs in moments.outcomes()),
        torch.zeros_like(covariance),
    )
    chances, hidden = _last_units(model, data.inputs)
    W, b = model.weights[2], model.biases[2]
    centers = hidden @ W.mT + b
    moved = centers - torch.tensordot(chances, centers, 1)
    Q = torch.einsum("anj,j,kj,lj->ankl", hidden.square(), tensor([0.1 / 0.9, 0.7 / 0.3]), W, W)
    within, between = torch.tensordot(chances, Q, 1), torch.einsum("a,ank,anl->nkl", chances, moved, moved)
    share = 1.0 if with_centers else 0.0
    found = [
        compare(torch.tensordot(chances, centers, 1), "==", mean, "E c", precision=1e-12),
        compare(within + share * between, "==", covariance, "E Q + Cov c", precision=1e-12),
        compare(noise, "==", within, "E Q by the library", precision=1e-12),
    ]
    return [*found, *_moments_told(moments, mean, covariance, "two hidden layers"), *_mixtures()]


def _mixtures() -> list[Comparison]:
    """One hidden layer with few coins and many, one of which never drops; correlated units; linear layers; a module."""
    inputs = sample(6, 5, INPUTS, OUTPUTS).inputs
    weights, biases = [normal(1, 3, INPUTS), normal(2, OUTPUTS, 3)], [normal(4, 3), normal(5, OUTPUTS)]
    shallow, deep = ReLUNet(weights, biases), DeepLinear([*weights, normal(3, 2, OUTPUTS)])
    wide = ReLUNet([normal(7, 2, 7), normal(8, OUTPUTS, 2)], [normal(4, 2), normal(5, OUTPUTS)])
    rates = tensor([0.2, 0.0, 0.5, 0.9])
    blocks = Product([SlidingBlock(0.3, INPUTS, 2), Block(0.4, 3, 3)])
    cases: tuple[tuple[str, Model, MaskLaw], ...] = (
        ("coins", shallow, Product([Bernoulli(rates, INPUTS), Bernoulli(rates[1:], 3)])),
        ("many coins", wide, Product([Bernoulli(tensor([0.1, 0.6, 0.3, 0.0, 0.8, 0.45, 0.2]), 7), Bernoulli(0.4, 2)])),
        ("blocks", shallow, blocks),
        ("linear layers", deep, Product([Bernoulli(rates[1:], 3), Block(0.4, OUTPUTS, OUTPUTS)])),
    )
    found = []
    for name, model, law in cases:
        given = normal(9, 3, 7) if model is wide else inputs
        found += _moments_told(predictive(model, given, law), *_listed(model, given, law), name)
    # all masks of linear layers one by one, where there is a closed form, too
    coins = Product([Bernoulli(rates[1:], 3), Bernoulli(0.4, OUTPUTS)])
    told = predictive(deep, inputs, coins, Enumerate())
    found += _moments_told(told, *_listed(deep, inputs, coins), "linear layers, all masks")
    linear = [nn.Linear(*weight.shape[::-1]).double() for weight in weights]
    with torch.no_grad():
        for layer, weight, bias in zip(linear, weights, biases, strict=True):
            layer.weight.copy_(weight)
            layer.bias.copy_(bias)
    module = nn.Sequential(nn.Dropout(0.3), linear[0], nn.ReLU(), nn.Dropout(0.6), linear[1])
    listed = _listed(shallow, inputs, Product([Bernoulli(0.3, INPUTS), Bernoulli(0.6, 3)]))
    return [*found, *_moments_told(predictive(module, inputs), *listed, "a module")]


def _moments_told(told: Predictive, mean: Tensor, covariance: Tensor, name: str) -> list[Comparison]:
    """Moments of the library and those of its mixture, E c and E Q + Cov c, against all masks."""
    assert told.outcomes is not None
    parts = list(told.outcomes())
    chances, centers = torch.cat([part for part, _ in parts]), torch.cat([outputs.center for _, outputs in parts])
    center = torch.tensordot(chances, centers, 1)
    within = torch.tensordot(chances, torch.cat([outputs.covariance() for _, outputs in parts]), 1)
    between = torch.einsum("a,ank,anl->nkl", chances, centers - center, centers - center)
    variance = torch.diagonal(covariance, dim1=1, dim2=2)
    return [
        compare(told.mean.value, "==", mean, f"mean, {name}", precision=1e-12),
        compare(told.variance.value, "==", variance, f"variance, {name}", precision=1e-12),
        compare(told.covariance.value, "==", covariance, f"covariance, {name}", precision=1e-12),
        compare(center, "==", mean, f"E c of the mixture, {name}", precision=1e-12),
        compare(within + between, "==", covariance, f"E Q + Cov c of the mixture, {name}", precision=1e-12),
    ]


def _coins(rates: Tensor) -> tuple[Tensor, Tensor]:
    """Every mask of independent coins, divided by its mean, and the chances."""
    kept = ((torch.arange(2 ** len(rates))[:, None] >> torch.arange(len(rates))) & 1).double()
    return kept / (1 - rates), torch.where(kept > 0, 1 - rates, rates).prod(1)


def _last_units(model: ReLUNet, inputs: Tensor, *rates: Tensor) -> tuple[Tensor, Tensor]:
    """Last hidden units before their mask, (masks, examples, units), with the chances of the earlier masks."""
    masks, chances = _coins(torch.cat(rates) if rates else tensor([0.2] * INPUTS + [0.5] * 3))
    hidden, layers = inputs[None], masks.split([len(part) for part in rates] or [INPUTS, 3], 1)
    for mask, weight, bias in zip(layers, model.weights[:-1], model.biases[:-1], strict=True):
        hidden = torch.relu((hidden * mask[:, None]) @ weight.mT + bias)
    return chances, hidden


LastLaw = tuple[MaskLaw, Tensor, Tensor]
Leaf = tuple[str, ReLUNet, Sample, list[Tensor], LastLaw]


def _leaves() -> Iterator[Leaf]:
    """Networks and data, the rates of the earlier coins, and the last law with its masks of mean one and chances."""

    def coins(*rates: float) -> LastLaw:
        return Bernoulli(tensor(rates), len(rates)), *_coins(tensor(rates))

    model, data, _ = _relu()
    yield "two hidden layers", model, data, [tensor([0.2] * INPUTS), tensor([0.5] * 3)], coins(0.1, 0.7)
    # units 0 and 1 below, and 0 and 2 above, are copies, but each has a coin of its own; units 2 and 3 below are none
    like, top = [0, 0, 0, 0, 1], [0, 1, 0]
    weights = [normal(1, 2, INPUTS)[like], normal(2, 2, 2)[top][:, like], normal(3, OUTPUTS, 2)[:, top]]
    biases = [normal(4, 2)[like] + tensor([0.0, 0.0, 0.0, 0.5, 0.0]), None, normal(5, OUTPUTS)]
    early = [tensor([0.0, 0.3, 0.3, 0.6]), tensor([0.4, 0.4, 0.7, 0.4, 0.5])]
    yield "copies", ReLUNet(weights, biases), data, early, coins(0.4, 0.2, 0.4)
    single = ReLUNet([normal(6, 4, INPUTS), normal(7, OUTPUTS, 4)], [None, None])
    kept, chances = _coins(tensor([0.4, 0.4]))
    yield "blocks", single, data, early[:1], (Block(0.4, 4, 2), kept.repeat_interleave(2, 1), chances)
    listed, odds = normal(8, 5, 4) + 2, simplex(9, 5)
    yield "listed masks", single, data, early[:1], (Discrete(listed, odds), listed / (odds @ listed), odds)
    # so many coins that the library sorts half tables
    wide = ReLUNet([normal(7, 2, 17) / 4, normal(8, 1, 2)], [normal(9, 2), normal(10, 1)])
    yield "17 inputs", wide, sample(3, 2, 17, 1), [torch.linspace(0.1, 0.8, 17).double()], coins(0.3, 0.6)


def relu_leaf(scale: float) -> list[Comparison]:
    """The stated formula from E h and E h h^T of all early masks, and the library's walk, against all masks.

    The criterion is squared bias plus trace. Cbar is the covariance of the multipliers of the last layer.
    """
    found = []
    for name, model, data, early, (last, masks, odds) in _leaves():
        chances, hidden = _last_units(model, data.inputs, *early)
        law = Product([*(Bernoulli(rates, len(rates)) for rates in early), last])
        W, b = model.weights[-1], model.biases[-1]
        center, second = torch.zeros(len(data), len(b)).double(), torch.zeros(len(data), len(b), len(b)).double()
        wanted = torch.zeros(len(data)).double()
        for mask, share in zip(masks, odds, strict=True):
            values = (hidden * mask) @ W.mT + b
            center += share * torch.tensordot(chances, values, 1)
            second += share * torch.einsum("a,ank,anl->nkl", chances, values, values)
            wanted += share * torch.tensordot(chances, (values - data.targets).square().sum(-1), 1)
        listed = second - center[:, :, None] * center[:, None]
        m, S = torch.tensordot(chances, hidden, 1), torch.einsum("a,ani,anj->nij", chances, hidden, hidden)
        Cbar = (masks - 1).mT @ (odds[:, None] * (masks - 1))
        stated = W @ (S - m[:, :, None] * m[:, None] + scale * Cbar * S) @ W.mT
        told, found_by = predictive(model, data.inputs, law), relu_output_moments(model, data.inputs, law)
        variance = torch.diagonal(listed, dim1=1, dim2=2)
        total = (center - data.targets).square().sum(-1) + scale * variance.sum(-1)
        # as many roundings as masks
        pairs: list[tuple[Tensor, Tensor, str]] = [
            (m @ W.mT + b, center, "W m + b"),
            (stated, listed, "the stated covariance"),
            (found_by[0], center, "mean"),
            (scale * found_by[1], listed, "covariance"),
            (told.mean.value, center, "predicted mean"),
            (scale * told.covariance.value, listed, "predicted covariance"),
            (scale * told.variance.value, variance, "predicted variance"),
            (total, relu_criterion(model, data, law), "criterion"),
            (total, wanted, "criterion over all masks"),
        ]
        precision = 1e-12 + len(chances) * 2**-52
        found += [compare(one, "==", other, f"{what}, {name}", precision) for one, other, what in pairs]
    return found


def density(scale: float) -> list[Comparison]:
    """Density and distribution function with noise against the sum of normal ones over all masks; also in the tails."""
    model, data, law = _relu()
    values = torch.stack([model.outputs(data.inputs, multipliers) for multipliers, _ in law.atoms()])
    chances = tensor([chance for _, chance in law.atoms()])
    prediction, noise = predictive(model, data.inputs, law), 0.4
    bumps = torch.distributions.Normal(values, tensor(noise))
    found = []
    for name, targets in (("center", data.targets), ("tail", values.amax(0) + 8)):
        logs = torch.logsumexp(bumps.log_prob(targets) + chances.log()[:, None, None], 0)
        likelihood = prediction.log_likelihood(targets, scale * noise)
        found.append(compare(likelihood, "==", logs, f"log density, {name}", precision=1e-10))
    for own in (0.2, 0.4, 1.5):
        mixed = torch.distributions.Normal(values, tensor(own)).log_prob(data.targets).exp()
        stated = _trapezoid(model, data, values, scale * own)
        wanted = torch.tensordot(chances, mixed, 1)
        found.append(compare(stated, "==", wanted, f"the stated integral, noise {own}", precision=1e-12))
        told = prediction.log_likelihood(data.targets, scale * own).exp()
        found.append(compare(told, "==", wanted, f"density, noise {own}", precision=1e-10))
    below = torch.tensordot(chances, bumps.cdf(data.targets), dims=1)
    value = prediction.density(scale * noise).cdf(data.targets)
    found.append(compare(value, "==", below, "distribution function", precision=1e-11))
    return found


def _trapezoid(model: ReLUNet, data: Sample, values: Tensor, noise: float) -> Tensor:
    """The density at the targets by the stated rule, output by output, from earlier masks and the last coins."""
    chances, hidden = _last_units(model, data.inputs)
    found = torch.zeros_like(data.targets)
    for n, k in itertools.product(range(len(found)), range(found.shape[1])):
        held = torch.cat([values[:, n, k], data.targets[n, k : k + 1]])
        reach = float(held.max() - held.min())
        step = 2 * math.pi / (reach + 18 * noise)
        theta = step * torch.arange(math.ceil(8.5 / noise / step) + 1).double()
        parts = hidden[:, n] * model.weights[2][k]
        phase = theta[:, None] * (parts.sum(1) + model.biases[2][k] - data.targets[n, k])
        wave = torch.exp(1j * phase)
        for j, drop in enumerate((0.1, 0.7)):
            odds = drop / (1 - drop)
            turns = theta[:, None] * parts[:, j]
            wave = wave * (drop * torch.exp(-1j * turns) + (1 - drop) * torch.exp(1j * odds * turns))
        terms = (wave.real @ chances) * torch.exp(-(theta**2) * noise**2 / 2)
        terms[0] /= 2
        found[n, k] = step / math.pi * terms.sum()
    return found


def _relu() -> tuple[ReLUNet, Sample, MaskLaw]:
    weights = [normal(1, 3, INPUTS), normal(2, 2, 3), normal(3, OUTPUTS, 2)]
    model = ReLUNet(weights, [normal(4, 3), None, normal(5, OUTPUTS)])
    law = Product([Bernoulli(0.2, INPUTS), Bernoulli(0.5, 3), Bernoulli(tensor([0.1, 0.7]), 2)])
    return model, sample(6, 5, INPUTS, OUTPUTS), law
