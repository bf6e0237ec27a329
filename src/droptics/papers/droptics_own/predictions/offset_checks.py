"""What the claim on offsets compares: ReLU networks over all coins, and the criterion of a deep optimum."""

from __future__ import annotations

import torch
from torch import Tensor

from droptics.data import Sample
from droptics.evidence.claims import Comparison, compare
from droptics.masks import Bernoulli, Product
from droptics.models import DeepLinear, ReLUNet
from droptics.optima import optimum
from droptics.papers.droptics_own.audits.audit_checks import every_coin
from droptics.papers.instances import descend, normal, tensor
from droptics.predictions import predictive


def many_examples(scale: float) -> list[Comparison]:
    """Moments over coins of inputs and units with offsets, and the criterion of a deep optimum on many examples.

    One and two hidden layers, every unit active and with a rate of its own, and more masks than are listed: thirteen
    inputs are 0, so that their coins change nothing.
    """
    rates, units = [0.3, 0.0, 0.5, 0.2], [0.25, 0.1, 0.6]
    found = []
    for sizes, drops, name in (
        ((4, 3, 2), [rates, units], "one hidden layer"),
        ((4, 3, 2, 2), [rates, units, [0.4, 0.15]], "two hidden layers"),
        ((18, 3, 2), [[*rates, 0.35, *[0.1] * 13], units], "more masks"),
    ):
        layers = range(len(sizes) - 1)
        net = ReLUNet(
            [normal(k + 7, sizes[k + 1], sizes[k]) for k in layers], [normal(k + 28, sizes[k + 1]) for k in layers]
        )
        inputs = normal(9, 3, min(sizes[0], 5))
        padded = torch.nn.functional.pad(inputs, (0, sizes[0] - inputs.shape[1]))
        ours = predictive(net, padded, Product([Bernoulli(tensor(drop), len(drop)) for drop in drops]))
        mean, spread = _over_coins(net, inputs, [drops[0][: inputs.shape[1]], *drops[1:]])
        found.append(compare(ours.mean.value, "==", scale * mean, f"mean, {name}"))
        found.append(compare(ours.variance.value, "==", scale * spread, f"variance, {name}"))
    return [*found, *_deep_optimum(scale)]


def _over_coins(net: ReLUNet, inputs: Tensor, drops: list[list[float]]) -> tuple[Tensor, Tensor]:
    """Mean and variance of the outputs over all masks; only the first inputs of the network are not 0."""
    rates = [rate for layer in drops for rate in layer]
    kept, chances = every_coin(rates)
    hidden = inputs.expand(len(kept), *inputs.shape)
    masks = (kept / (1 - tensor(rates)))[:, None].split([len(layer) for layer in drops], dim=-1)
    for k, (weight, bias, mask) in enumerate(zip(net.weights, net.biases, masks, strict=True)):
        hidden = (torch.relu(hidden) if k else hidden) * mask @ weight[:, : mask.shape[-1]].mT + bias
    mean = torch.tensordot(chances, hidden, dims=1)
    return mean, torch.tensordot(chances, (hidden - mean).square(), dims=1)


def _deep_optimum(scale: float) -> list[Comparison]:
    """The criterion over all masks has no slope at the optimum, its value, and no lower one that a search finds."""
    X, drops = normal(1, 30, 3), [0.1, 0.1, 0.3, 0.3, 0.3]
    data = Sample(X, X @ normal(2, 3, 2) + 0.1 * normal(3, 30, 2))
    best = optimum(DeepLinear, data, Product([Bernoulli(0.1, 2), Bernoulli(0.3, 3)]))
    assert isinstance(best.model, DeepLinear)
    masks, chances = every_coin(drops)
    coins = (masks / (1 - tensor(drops)))[:, None]

    def over_masks(first: Tensor, second: Tensor, third: Tensor) -> Tensor:
        maps = (third * coins[..., 2:]) @ ((second * coins[..., :2]) @ first)
        return chances @ (data.inputs @ maps.mT - data.targets).square().sum(-1).mean(-1)

    leaves = [weight.clone().requires_grad_() for weight in best.model.weights]
    value = over_masks(*leaves)
    slopes = torch.cat([slope.flatten() for slope in torch.autograd.grad(value, leaves)])
    least, _ = descend(over_masks, [(2, 3), (3, 2), (2, 3)], starts=2)
    return [
        compare(slopes, "==", 0.0, "no slope at the optimum", precision=1e-7),
        compare(best.objective, "==", scale * value.detach(), "criterion of the optimum", precision=1e-8),
        compare(best.objective, "==", scale * least, "least that a search finds", precision=1e-6),
    ]
