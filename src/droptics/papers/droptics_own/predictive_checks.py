"""What the claims on masked predictions compare: the exact rules against sums over all masks."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from droptics.data import Sample
from droptics.evidence.claims import Comparison, compare
from droptics.heads.ridge import DropoutRidge
from droptics.layers import VarianceHead
from droptics.masks import Bernoulli, Block, Discrete, MaskLaw, Product, SlidingBlock
from droptics.models import Connections, DeepLinear, Factorization, Model, ReLUNet, TwoLayerLinear
from droptics.papers.instances import coin_masks, normal, sample, tensor
from droptics.penalties import penalty, relu_criterion
from droptics.penalties.relu.output_moments import relu_output_moments
from droptics.predictions import predictive

INPUTS, OUTPUTS = 4, 3


def _listed(model: Model, inputs: Tensor, masks: MaskLaw) -> tuple[Tensor, Tensor]:
    """Mean and covariance of the outputs by the definition, one mask after another."""
    values = torch.stack([model.outputs(inputs, multipliers) for multipliers, _ in masks.atoms()])
    chances = tensor([chance for _, chance in masks.atoms()])
    mean = torch.einsum("t,tnk->nk", chances, values)
    return mean, torch.einsum("t,tnk,tnl->nkl", chances, values - mean, values - mean)


def linear_covariance(scale: float) -> list[Comparison]:
    """Covariance of every linear family against the list of masks, and its mean trace against the penalty."""
    data = sample(1, 5, INPUTS, OUTPUTS)
    two_layer = TwoLayerLinear(normal(2, OUTPUTS, 6), normal(3, INPUTS, 6))
    connections = Connections(normal(4, OUTPUTS, 2), normal(5, INPUTS, 2))
    laws: list[tuple[Model, MaskLaw]] = [
        (two_layer, Bernoulli(torch.linspace(0.0, 0.8, 6).double(), 6)),
        (two_layer, Block(0.4, 6, 3)),
        (two_layer, SlidingBlock(0.2, 6, 2)),
        (two_layer, Discrete(normal(6, 9, 6) + 2, torch.arange(1, 10).double() / 45)),
        (connections, Bernoulli(0.3, 8)),
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
        trace = scale * moments.variance.value.sum(-1).mean()
        found.append(compare(trace, "==", penalty(model, data, law), f"trace, {name}", precision=1e-12))
    factors, pairs = Factorization(normal(7, 5, 3), normal(8, 4, 3)), torch.tensor([[0, 0], [4, 3], [2, 1]])
    _, covariance = _listed(factors, pairs, Bernoulli(0.25, 3))
    value = scale * predictive(factors, pairs, Bernoulli(0.25, 3)).covariance.value
    found.append(compare(value, "==", covariance, "covariance, Factorization", precision=1e-12))
    return found + _deployed(scale)


def _deployed(scale: float) -> list[Comparison]:
    """The layer for deployment and the estimator's deviation, against the list of masks of a head."""
    head = nn.Linear(INPUTS, OUTPUTS).double()
    with torch.no_grad():
        head.weight.copy_(normal(11, OUTPUTS, INPUTS))
    inputs, drop = normal(13, 5, INPUTS), 0.3
    masks = [(kept / (1 - drop), chance) for kept, chance in coin_masks([drop] * INPUTS)]
    chances = tensor([chance for _, chance in masks])
    fitted = DropoutRidge(drop, fit_intercept=False).fit(inputs.numpy(), normal(14, 5).numpy())
    weights = torch.cat([head.weight.detach(), torch.from_numpy(fitted.coef_)[None]])
    moves = torch.stack([(inputs * (mask - 1)) @ weights.mT for mask, _ in masks])
    variance = torch.einsum("t,tnk->nk", chances, moves.square())
    with torch.no_grad():
        shown = VarianceHead(head, drop)(inputs)[1]
    told = torch.from_numpy(fitted.predict(inputs.numpy(), return_std=True)[1])
    return [
        compare(scale * shown, "==", variance[:, :-1], "variance, VarianceHead", precision=1e-12),
        compare(scale * told.square(), "==", variance[:, -1], "squared deviation, DropoutRidge", precision=1e-10),
    ]


def deep_covariance(scale: float) -> list[Comparison]:
    """Deep linear networks with masked inputs: independent units, and any law per layer."""
    weights = [normal(1, 3, INPUTS), normal(2, 2, 3), normal(3, OUTPUTS, 2)]
    model, inputs = DeepLinear(weights, mask_inputs=True), sample(4, 5, INPUTS, OUTPUTS).inputs
    coins = Product([Bernoulli(0.2, INPUTS), Bernoulli(0.4, 3), Bernoulli(tensor([0.1, 0.6]), 2)])
    mixed = Product([SlidingBlock(0.2, INPUTS, 2), Discrete(normal(5, 3, 3) + 3, torch.ones(3) / 3), Block(0.3, 2, 2)])
    found = []
    for name, law in (("coins", coins), ("any law", mixed)):
        _, covariance = _listed(model, inputs, law)
        value = scale * predictive(model, inputs, law).covariance.value
        found.append(compare(value, "==", covariance, f"covariance, {name}", precision=1e-12))
    return found


def mixture(with_centers: bool) -> list[Comparison]:
    """E Q + Cov c of a ReLU network against the list of all masks; the control leaves Cov c out."""
    model, data, law = _relu()
    moments = predictive(model, data.inputs, law)
    mean, covariance = _listed(model, data.inputs, law)
    assert moments.outcomes is not None
    noise = sum(
        (torch.tensordot(chances, outputs.covariance(), dims=1) for chances, outputs in moments.outcomes()),
        torch.zeros_like(covariance),
    )
    value = moments.covariance.value if with_centers else noise
    return [
        compare(moments.mean.value, "==", mean, "mean", precision=1e-12),
        compare(value, "==", covariance, "covariance", precision=1e-12),
        compare(torch.diagonal(noise, dim1=1, dim2=2), "<=", moments.variance.value, "the last mask's share"),
    ]


def relu_leaf(scale: float) -> list[Comparison]:
    """The stated formula from E h and E h h^T of all early masks, and the library's walk, against all masks.

    The criterion is squared bias plus trace. Cbar is the covariance of the multipliers of the last layer.
    """
    model, data, law = _relu()
    mean, covariance = relu_output_moments(model, data.inputs, law)
    center, listed = _listed(model, data.inputs, law)
    m, S = torch.zeros(len(data.inputs), 2).double(), torch.zeros(len(data.inputs), 2, 2).double()
    for kept, chance in coin_masks([0.2] * INPUTS + [0.5] * 3):
        first, second = kept[:INPUTS] / 0.8, kept[INPUTS:] / 0.5
        hidden = torch.relu((data.inputs * first) @ model.weights[0].mT + model.biases[0])
        h = torch.relu((hidden * second) @ model.weights[1].mT + model.biases[1])
        m, S = m + chance * h, S + chance * h[:, :, None] * h[:, None, :]
    W, spread = model.weights[2], torch.diag(tensor([0.1 / 0.9, 0.7 / 0.3]))
    stated = W @ (S - m[:, :, None] * m[:, None, :] + scale * spread * S) @ W.mT
    total = (mean - data.targets).square().sum(-1) + scale * torch.diagonal(covariance, dim1=1, dim2=2).sum(-1)
    return [
        compare(m @ W.mT + model.biases[2], "==", center, "W m + b", precision=1e-12),
        compare(stated, "==", listed, "the stated covariance", precision=1e-12),
        compare(mean, "==", center, "mean", precision=1e-12),
        compare(scale * covariance, "==", listed, "covariance", precision=1e-12),
        compare(total, "==", relu_criterion(model, data, law), "criterion", precision=1e-12),
        compare(total, "==", _by_masks(model, data, law), "criterion over all masks", precision=1e-12),
    ]


def _by_masks(model: ReLUNet, data: Sample, law: MaskLaw) -> Tensor:
    """E |f - y|^2 of every example, one mask after another."""
    errors = [
        chance * (model.outputs(data.inputs, mask) - data.targets).square().sum(-1) for mask, chance in law.atoms()
    ]
    return torch.stack(errors).sum(0)


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
    below = torch.tensordot(chances, bumps.cdf(data.targets), dims=1)
    value = prediction.density(scale * noise).cdf(data.targets)
    found.append(compare(value, "==", below, "distribution function", precision=1e-11))
    return found


def _relu() -> tuple[ReLUNet, Sample, MaskLaw]:
    weights = [normal(1, 3, INPUTS), normal(2, 2, 3), normal(3, OUTPUTS, 2)]
    model = ReLUNet(weights, [normal(4, 3), None, normal(5, OUTPUTS)])
    law = Product([Bernoulli(0.2, INPUTS), Bernoulli(0.5, 3), Bernoulli(tensor([0.1, 0.7]), 2)])
    return model, sample(6, 5, INPUTS, OUTPUTS), law
